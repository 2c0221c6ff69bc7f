"""Two targets: stored sessions, which are written as they were read or refused, and all reports of them."""

from __future__ import annotations

import io
import json
import random
import shlex
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from html_page import check_policy
from rich.console import Console

from fuzzing.target import FIXTURES, Target, temporary_folder
from recovery.analysis.compare import compare, judge_pairs
from recovery.errors import RecoveryError
from recovery.model import Session
from recovery.report import console
from recovery.report.compare import comparison_tables
from recovery.report.exports import FORMATS, render_as
from recovery.report.json_report import to_json
from recovery.report.summary_text import answers
from recovery.report.tables import all_tables
from recovery.report.text import WIDTH, render_table
from recovery.report.write import write_reports
from recovery.storage.sessions import REPORT_FILE, STACKS_FOLDER, load_session

_PARTS = (REPORT_FILE, "runs/007.json", f"{STACKS_FOLDER}/one.folded")
_KEPT = ("2026-11-21-scale", "2026-11-22-interference")
"""Sessions over several numbers of tables, and of servers under load."""
_FEW = 6
_ODD: tuple[object, ...] = (
    None, True, False, 0, -1, 1, 2, 7, 1e18, 2**63, -(2**63), 10**29, 10**400, 0.5, -0.0, 1e-29, 1e-300, 1e29, 1e300,
    float("nan"), float("inf"), "", " ", "0", "nan", "inf", "1e999", "9" * 400, "off", "on", "1", "16k", "/", "..", ".",
    "\x00", "\x1b[31m", "\u00b2", "cold-\u00b2", "cold-0", "a;b", "x" * 300, "measured", "sampled", "failed", "void",
    "startup_s", "qps", "elapsed_s", "stacks/one.folded", [], {}, [[]], [0, 1, 2, 3], {"a": 1},
)  # fmt: skip


def check_session(data: bytes) -> None:
    with temporary_folder() as folder:
        write(folder, data)
        with suppress(RecoveryError):
            _check_stored(folder, load_session(folder))


def _check_stored(folder: Path, session: Session) -> None:
    answers(session)
    all_tables(session)
    stored = to_json(session)
    (folder / REPORT_FILE).write_bytes(stored)
    assert to_json(load_session(folder)) == stored


def write(folder: Path, data: bytes) -> None:
    """The report, a run that was stored beside it, and stacks, parted by zeros."""
    for name, part in zip(_PARTS, data.split(b"\0"), strict=False):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(part)


def mutate(data: bytes, rng: random.Random) -> bytes | None:
    """The same with a few values changed, taken away, or put where others are."""
    first, *others = data.split(b"\0")
    try:
        tree = json.loads(first)
    except (ValueError, RecursionError):
        return None
    for _ in range(rng.randint(1, 4)):
        _change(tree, rng)
    return b"\0".join((json.dumps(tree, separators=(",", ":")).encode(), *others))


def _change(tree: Any, rng: random.Random) -> None:
    """Somewhere, as often far down as at the top."""
    node = tree
    while isinstance(node, dict | list) and node:
        key = rng.choice(sorted(node) if isinstance(node, dict) else range(len(node)))
        below = node[key]
        if not (isinstance(below, dict | list) and below) or rng.random() < 0.2:
            _put(node, key, rng, tree)
            return
        node = below


def _put(node: Any, key: Any, rng: random.Random, tree: Any) -> None:
    match rng.randrange(6):
        case 0:
            del node[key]
        case 1 if isinstance(node, list):
            node.insert(rng.randrange(len(node) + 1), node[key])
        case 2 if isinstance(node[key], int | float) and abs(node[key]) < 1e290:
            node[key] = -node[key] if rng.random() < 0.3 else node[key] * rng.choice((0, 0.001, 1000, 1e9))
        case 3:
            node[key] = _any_of(tree, rng)
        case _:
            node[key] = deepcopy(rng.choice(_ODD))  # else one of them may come to hold itself


def _any_of(tree: Any, rng: random.Random) -> Any:
    node = tree
    while isinstance(node, dict | list) and node and rng.random() < 0.9:
        node = rng.choice(list(node.values()) if isinstance(node, dict) else node)
    return json.loads(json.dumps(node))


def small(stored: Mapping[str, Any]) -> dict[str, Any]:
    """With a few of everything, and without what is made of the runs."""
    runs = stored["runs"][:: 1 + len(stored["runs"]) // _FEW]
    names = {run["variant"] for run in runs}
    computed = {"answer", "summaries", "contrasts", "ratios", "fits", "findings"}
    kept = {name: value for name, value in stored.items() if name not in computed}
    kept |= {
        "variants": [variant for variant in stored["variants"] if variant["name"] in names],
        "environment": dict(list(stored["environment"].items())[:_FEW]),
        "servers": {name: dict(list(told.items())[:_FEW]) for name, told in list(stored["servers"].items())[:_FEW]},
        "runs": [_small_run(run) for run in runs],
    }
    return {"format": stored["format"], **kept}


def _small_run(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run with short lists. What was not taken is left out."""
    kept: dict[str, Any] = _shortened({name: value for name, value in run.items() if value})
    return kept


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shortened(inner) for name, inner in value.items()}
    return [_shortened(inner) for inner in value[:_FEW]] if isinstance(value, list) else value


def _seeds() -> Iterator[bytes]:
    for report in _stored_reports():
        stored = small(json.loads(report))
        yield _as_bytes(stored)
        cell = {name: stored["runs"][0][name] for name in ("version", "variant")}
        earlier = {"session": "s", "started_at": "2026-11-20", **cell, "count": 3, "mean": 40.5, "host_id": None}
        yield _as_bytes({**stored, "earlier": [earlier] * 3})
        first = {"format": stored["format"], **stored["runs"][0], "number": 7, "stacks": {"file": _PARTS[2]}}
        yield _as_bytes(stored, first) + b"\0discovery;main thread;main;os_file_read 12\n"


def _stored_reports() -> Iterator[bytes]:
    for path in sorted((FIXTURES / "sessions").glob(f"*/{REPORT_FILE}")):
        yield path.read_bytes()
    with tarfile.open(FIXTURES / "kept-sessions.tar.xz") as archive:
        for name in _KEPT:
            file = archive.extractfile(f"{name}/{REPORT_FILE}")
            assert file is not None
            yield file.read()


def _as_bytes(*parts: Mapping[str, Any]) -> bytes:
    return b"\0".join(json.dumps(part, separators=(",", ":")).encode() for part in parts)


REPORT = Target("report", check_session, _seeds, max_bytes=12_000, share=30, mutate=mutate)

# --- All reports of a session


def check_pages(data: bytes) -> None:
    with temporary_folder() as folder, suppress(RecoveryError):
        write(folder, data)
        session = load_session(folder)
        write_reports(folder, session)
        for name in FORMATS:
            _check_page(name, render_as(folder, name))
        console.render(session, Console(file=io.StringIO(), width=80))
        for one, other in ((session, _recorded()), (_recorded(), session), (session, session)):
            found = compare([one], [other])
            judge_pairs(found, 0.1)
            for table in comparison_tables(found, (["one"], ["other"])):
                assert max(map(len, render_table(table).split("\n"))) <= WIDTH


def _check_page(name: str, page: str) -> None:
    if name == "text":
        assert page.isascii()
        assert all(len(line) <= WIDTH or _is_word(line) for line in page.split("\n"))
    if name == "html":
        check_policy(page)


def _is_word(line: str) -> bool:
    """A word of the command that repeats the session is not broken, however long it is."""
    return len(shlex.split(line.removesuffix("\\"))) == 1


@cache
def _recorded() -> Session:
    return load_session(FIXTURES / "sessions" / "three-versions")


PAGES = Target("pages", check_pages, _seeds, max_bytes=12_000, share=2, mutate=mutate)
