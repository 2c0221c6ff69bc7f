"""`make results`: fills the blocks of README.md and of the pages of docs/ anew."""

from __future__ import annotations

import json
import os
import re
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path, PurePosixPath

from bench import page as bench_page
from estimate.findings import Result, results_of
from estimate.findings import tables as estimate_tables
from estimate.records import SERVERS, read
from intervals import page as intervals_page
from intervals.__main__ import FOUND as INTERVALS
from intervals.__main__ import cells_from
from kept_reports import sessions_table
from strangers import report as strangers_report
from watch import page as watch_page
from watch.__main__ import FOUND as WATCHED

from pages.blocks import BlockError, Sources, filled
from pages.servers import servers_table
from recovery.model import Session
from recovery.storage.sessions import load_session

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
FIXTURES = ROOT / "fixtures"
PERFORMANCE = ROOT / "docs" / "performance.json"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(RESULTS.glob("*.md")))


def made(page: Path, sources: Sources) -> str:
    """Returns a page with all of its blocks made anew."""
    try:
        return filled(page.read_text("utf-8"), sources, PurePosixPath(os.path.relpath(RESULTS, page.parent)))
    except BlockError as error:
        raise BlockError(f"{page.relative_to(ROOT)}: {error}") from error


@contextmanager
def sources() -> Iterator[Sources]:
    """The kept sessions, unpacked, and what the proofs found."""
    with tempfile.TemporaryDirectory() as scratch:
        sessions, kills = Path(scratch) / "sessions", Path(scratch) / "kills"
        for name, folder in (("kept-sessions", sessions), ("predicted-kills", kills)):
            with tarfile.open(FIXTURES / f"{name}.tar.xz") as archive:
                archive.extractall(folder, filter="data")

        @cache
        def session(name: str) -> Session:
            if not (sessions / name).is_dir():
                raise BlockError(f"there is no session {name}")
            return load_session(sessions / name)

        def all_sessions() -> Mapping[str, Session]:
            return {path.name: session(path.name) for path in sorted(sessions.iterdir())}

        cells = cells_from(json.loads(INTERVALS.read_text()))
        of_sessions: Mapping[str, Callable[[], str]] = {
            "sessions": lambda: sessions_table(all_sessions()),
            "servers": lambda: servers_table(session, cells),
        }
        yield Sources(session, {**_of_proofs(kills), **of_sessions})


def _of_proofs(kills: Path) -> Mapping[str, Callable[[], str]]:
    """The tables that are made of something else than sessions, by the names that blocks have for them."""
    intervals, watched = json.loads(INTERVALS.read_text()), json.loads(WATCHED.read_text())

    @cache
    def predictions() -> tuple[str, ...]:
        results: list[Result] = [one for server in SERVERS for one in results_of(server, read(kills, server))]
        return estimate_tables(results)

    def prediction(place: int) -> str:
        return predictions()[place]

    of_intervals = {
        "components": intervals_page.components_table, "components, short": intervals_page.short_table,
        "sizes": intervals_page.sizes_table, "first runs": intervals_page.first_runs_table,
        "ratios": intervals_page.ratios_table, "explanations": intervals_page.explanations_table,
        "coverage": intervals_page.coverage_table, "left out": intervals_page.left_out_table,
        "over sessions": intervals_page.over_sessions_table,
    }  # fmt: skip
    of_watched = {
        "errors of watch": watch_page.errors_table, "ranges of watch": watch_page.ranges_table,
        "looks of watch": watch_page.looks_table, "other of watch": watch_page.other_table,
    }  # fmt: skip
    of_kills = ("estimates", "states of estimates", "estimates under steady writes", "states under steady writes")
    return {
        "cost of the tool": _cost_of_the_tool,
        "kills of loads of others": _kills_of_others,
        **{name: partial(make, intervals) for name, make in of_intervals.items()},
        **{name: partial(make, watched) for name, make in of_watched.items()},
        **{name: partial(prediction, place) for place, name in enumerate(of_kills)},
    }


def _kills_of_others() -> str:
    lines = (FIXTURES / "stranger-kills.jsonl").read_text("utf-8").splitlines()
    return strangers_report.kills_table(map(json.loads, lines))


def _cost_of_the_tool() -> str:
    """What `make bench` found of its pairs of starts, without its figures of single processes."""
    found = json.loads(PERFORMANCE.read_text())
    sections = [bench_page.section(part, found[part]) for part in ("watching", "engines", "tracing")]
    lines = [line for text in sections for line in text.splitlines() if line.startswith(("## ", "* cold", "* warm"))]
    return bench_page.head(found) + "\n" + "\n".join(re.sub("## (.*)", r"\n**\1**\n", line) for line in lines)


def main() -> None:
    with sources() as found:
        for page in PAGES:
            before = page.read_text("utf-8")
            after = made(page, found)
            if after != before:
                page.write_text(after, "utf-8")
                sys.stdout.write(f"{page.relative_to(ROOT)} changed\n")


if __name__ == "__main__":
    try:
        main()
    except BlockError as error:
        sys.exit(f"error: {error}\nhint:  tests/pages/blocks.py says what a block can have")
