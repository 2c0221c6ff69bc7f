"""`recovery compare A B`: is the second session slower than the first? With a limit it guards a team's image."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from recovery.commands.look import RESULTS
from recovery.commands.options import PREFIX
from recovery.compare import Comparison, compare, not_measured, slower_pairs
from recovery.errors import RecoveryError, TooSlowError, UsageError
from recovery.paths import expanded
from recovery.quantities import quantity
from recovery.report.compare import comparison_tables
from recovery.report.console import Page, print_tables
from recovery.request import parse_share
from recovery.store import find, load
from recovery.stored import STARTUP, Session, Verdict

FORMAT = 1


@click.command("compare")
@click.argument("first")
@click.argument("second")
@RESULTS
@click.option(
    "--fail-over", metavar="PERCENT", envvar=PREFIX + "FAIL_OVER",
    help="Exit with 4 where the second is slower by more than that, and by more than noise.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print it for programs.")
def compare_command(first: str, second: str, results: Path, fail_over: str | None, as_json: bool) -> int:
    """Is session SECOND slower than FIRST? Each is a name in --results, or a folder."""
    allowed = None if fail_over is None else parse_share("--fail-over", fail_over)
    folders = [find(expanded(results), name) for name in (first, second)]
    one, other = map(load, folders)
    if one.figure != other.figure:
        raise UsageError(
            f"{first} measured {_figure(one)}, {second} {_figure(other)}: neither can be held against the other",
            "compare sessions of the same question",
        )
    found = compare(one, other)
    if not any(pair.ratio for pair in found.pairs):
        raise UsageError(
            f"nothing in {first} can be held against anything in {second}: {_has(one)}; {_has(other)}",
            f"compare sessions of the same versions and {'caches' if one.figure == STARTUP else 'variants'}, or of one "
            "version each",
        )
    if as_json:
        sys.stdout.write(to_json(found))
    else:
        print_tables(comparison_tables(found, (folders[0].name, folders[1].name)), Page())
    if allowed is not None and (why := not_measured(other)) is not None:
        raise RecoveryError(f"{second} is no measure of anything: {why}", "see its report, and measure again")
    if allowed is not None and (told := slower_pairs(found, allowed)):
        raise TooSlowError("; ".join(told), "the whole of it is in the two sessions; `recovery report` shows each")
    return 0


def to_json(found: Comparison) -> str:
    return json.dumps({"format": FORMAT, **asdict(found)}, indent=2) + "\n"


def _figure(session: Session) -> str:
    return "how long starts take" if session.figure == STARTUP else quantity(session.figure).title


def _has(session: Session) -> str:
    counted = sum(run.verdict is Verdict.MEASURED for run in session.runs)
    what = f"{session.scenario} of {', '.join(session.versions)} ({', '.join(session.variants)})"
    return f"{what}, {counted} of {len(session.runs)} runs measured"
