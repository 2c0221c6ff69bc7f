"""Contains `recovery compare A B`, which shows whether B is slower than A. Each is one session or several.

With a limit (--fail-over) a team can use it to check a new image."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click

from recovery.analysis.compare import Comparison, Pair, compare, incomplete_reason, judge_pairs
from recovery.analysis.statistics import MIN_SESSIONS
from recovery.cli.completion import complete_session
from recovery.cli.options import BY_NAME, table_option
from recovery.cli.output import print_line, refuse_over, write_json
from recovery.errors import RecoveryError, UsageError
from recovery.metrics import metric
from recovery.model import Session, Status, Verdict
from recovery.report import fmt
from recovery.report.compare import DAYS_NEED, ZERO_NEEDS, comparison_answer, comparison_tables
from recovery.report.console import ReportConsole, draw, print_tables
from recovery.report.fmt import count_text
from recovery.storage.earlier import other_sessions
from recovery.storage.sessions import find_sessions, load_session, newest_first

FORMAT = 2


@click.command("compare")
@click.argument("first", required=False, shell_complete=complete_session)
@click.argument("second", required=False, shell_complete=complete_session)
@table_option("results")
@table_option("fail_over", "Exit with 4 if the second is slower by more than this, with its whole interval.")
@table_option("json")
def compare_command(
    first: str | None, second: str | None, results: Path, fail_over: str | None, json_to: str | None
) -> int:
    """Is SECOND slower than FIRST? Each is a session (its name in --results, or a folder), or several separated by
    commas. Without both, the two newest finished sessions are compared. A difference is claimed against the spread
    between at least three sessions of FIRST; others of its host and design in --results count for it."""
    allowed = None if fail_over is None else BY_NAME["fail_over"].value_of(fail_over)
    if first is None or second is None:
        if first is not None:
            raise UsageError(f"{first} is one session, and two are compared", "name both, or none: the newest two")
        first, second = _newest_two(results)
    folders = [find_sessions(results, names) for names in (first, second)]
    one, other = ([load_session(folder) for folder in side] for side in folders)
    _check_sides((first, second), (one, other), set(folders[0]) & set(folders[1]))
    others = other_sessions(results, (*one, *other), without=(*folders[0], *folders[1]))
    found = compare(one, other, others.cells)
    compared = [pair for pair in found.pairs if pair.is_known]
    if not compared:
        raise UsageError(
            f"{first} and {second} have nothing in common: {_contents_text(one[0])}; {_contents_text(other[0])}",
            "compare sessions of the same versions and variants, or of one version each",
        )
    if not write_json(json_to, {"format": FORMAT, **asdict(found)}):
        names = ([folder.name for folder in folders[0]], [folder.name for folder in folders[1]])
        console = ReportConsole()
        draw(comparison_answer(found, (one, other), names), console)
        if others.note:
            print_line(others.note)
        print_tables(comparison_tables(found, names), console)
    if allowed is not None:
        _check_limit(found, compared, dict(zip(folders[1], other, strict=True)), allowed)
    return 0


def _newest_two(results: Path) -> tuple[str, str]:
    """Returns the names of the two newest finished sessions, the older one first. Damaged ones are skipped."""
    found: list[str] = []
    for name in newest_first(results):
        with suppress(RecoveryError):
            if load_session(results / name).status == Status.FINISHED:
                found.append(name)
        if len(found) == 2:
            return found[1], found[0]
    raise UsageError(f"{results} has fewer than two finished sessions", "measure again, or name two folders")


def _check_sides(names: tuple[str, str], sides: tuple[list[Session], list[Session]], on_both: Collection[Path]) -> None:
    """Refuses sides that cannot be compared. `on_both` are the folders of sessions that are on both."""
    if on_both:
        raise UsageError(f"{min(on_both).name} is on both sides", "name each session on one side")
    (first, second), (one, other) = names, sides
    for session in (*one, *other):
        if session.metric != one[0].metric:
            raise UsageError(
                f"{first} measured {_figure_title(one[0])}, {second} {_figure_title(session)}: they cannot be compared",
                "compare sessions of the same question",
            )


def _check_limit(found: Comparison, compared: Sequence[Pair], second: Mapping[Path, Session], allowed: float) -> None:
    for folder, session in second.items():
        if (reason := incomplete_reason(session)) is not None:
            raise RecoveryError(f"{folder.name} cannot be judged: {reason}", "see its report, and measure again")
        if any(map(session.is_second_start, session.variant_names)):
            raise RecoveryError(
                f"{folder.name} cannot be judged: it has second starts, which are not warm", "see its report"
            )
    for pair in compared:
        if pair.confounded_by:
            in_turns = 'measure both in one session, whose runs alternate: `make recovery VERSION="A B" FAIL_OVER=10%`'
            raise UsageError(
                f"{pair.one.version} {pair.variant} cannot be judged: the sides are of different {pair.confounded_by}s",
                in_turns if pair.confounded_by == "host" else f"{DAYS_NEED[0].lower()}{DAYS_NEED[1:]}",
                option="fail_over",
            )
        if pair.significant is None and pair.ratio is None:
            first, other = pair.claim_sessions
            raise UsageError(
                f"{pair.one.version} {pair.variant} cannot be judged: {ZERO_NEEDS}: {first} and {other} are named",
                f"name {MIN_SESSIONS} of each: `recovery compare A,B,C D,E,F`",
                option="fail_over",
            )
        if pair.significant is None:
            known = fmt.count_text(pair.claim_sessions[0], "session")
            raise UsageError(
                f"it needs {MIN_SESSIONS} sessions of the first, by which a difference is judged: "
                f"{pair.one.version} {pair.variant} has {known}",
                f"name {MIN_SESSIONS} of them, A,B,C, or have them in --results, measured on one host; or measure both "
                'servers in one session, whose runs alternate: `make recovery VERSION="A B" FAIL_OVER=10%`',
                option="fail_over",
            )
    refuse_over(judge_pairs(found, allowed), "`recovery report SESSION` shows each session")


def _figure_title(session: Session) -> str:
    about = metric(session.metric)
    return f"{about.label} ({about.note})" if about.note else about.label


def _contents_text(session: Session) -> str:
    counted = sum(run.verdict is Verdict.MEASURED for run in session.runs)
    what = f"{session.experiment} of {', '.join(session.versions)} ({', '.join(session.variant_names)})"
    return f"{what}, {counted} of {count_text(len(session.runs), 'run')} measured"
