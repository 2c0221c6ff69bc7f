"""What sessions of one measurement are judged by: a limit by all of them, runs and precision by each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from runs import plain_variants, with_axis_values

from recovery.analysis.combined import combine_sessions
from recovery.cli import repeat
from recovery.cli.main import run
from recovery.cli.measure import Shown, exit_code, request_from_arguments
from recovery.cli.repeat import check_fail_over
from recovery.errors import LimitExceededError, UsageError
from recovery.model import Run, Session, Verdict
from recovery.report.json_report import to_json
from recovery.report.summary_text import answers
from recovery.session.resume import Unfinished
from recovery.storage.sessions import REPORT_FILE

STEADY = (10.0, 10.1, 9.9, 10.05, 9.95)
OLD, NEW = "5.7.22", "8.0.31"


def session(number: int, slower: float, *, many: int = 5, spread: float = 1.0, **settings: str | float) -> Session:
    """A session in which the second version takes so many times as long as the first."""
    times = [
        (version, repeat, factor * (10.0 + spread * (seconds - 10.0)))
        for repeat, seconds in enumerate(STEADY[:many], 1)
        for version, factor in ((OLD, 1.0), (NEW, slower))
    ]
    runs = tuple(
        Run(place, version, "mysql", "cold", repeat, Verdict.MEASURED, metrics={"startup_s": seconds})
        for place, (version, repeat, seconds) in enumerate(times, 1)
    )
    return with_axis_values(Session(
        "cold-recovery", "q", "c", f"2026-11-2{number}T10:00:00+00:00", {}, {"tables": 10, **settings}, (OLD, NEW),
        plain_variants("cold"), 10, runs=runs, tool_version="1", status="finished",
    ))  # fmt: skip


def sessions(*slower: float) -> list[Session]:
    return [session(number, factor) for number, factor in enumerate(slower)]


def stored(folder: Path, found: Sequence[Session]) -> tuple[Unfinished, ...]:
    folders = [folder / f"2026112{number}T100000Z-cold-recovery" for number in range(len(found))]
    for path, one in zip(folders, found, strict=True):
        path.mkdir()
        (path / REPORT_FILE).write_bytes(to_json(one))
    return tuple(map(Unfinished, folders, found))


def show(folder: Path, found: Sequence[Session]) -> int:
    request = request_from_arguments("cold-recovery", ["--version", f"{OLD} {NEW}", "--fail-over", "10%"])
    return repeat._show(stored(folder, found), request, Shown())


@pytest.mark.parametrize("slower", [(1.3, 1.05, 1.0), (1.0, 1.0, 1.2, 1.02)])
def test_a_limit_that_single_sessions_exceed_is_judged_over_all(
    slower: tuple[float, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = request_from_arguments("cold-recovery", ["--version", f"{OLD} {NEW}", "--fail-over", "10%"])
    with pytest.raises(LimitExceededError):
        exit_code(request, session(0, max(slower)))
    assert show(tmp_path, sessions(*slower)) == 0
    assert f"{len(slower)} sessions over " in " ".join(capsys.readouterr().out.split())


def test_a_version_that_is_slower_over_all_sessions_exceeds_the_limit(tmp_path: Path) -> None:
    with pytest.raises(
        LimitExceededError, match=f"over 3 sessions, {NEW} cold takes 1.30 .1.25-1.35. times as long as {OLD}"
    ):
        show(tmp_path, sessions(1.28, 1.3, 1.32))
    check_fail_over(combine_sessions({one.started_at: one for one in sessions(1.28, 1.3, 1.32)}), 0.4)


def test_two_sessions_judge_no_limit(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="FAIL_OVER: it is judged over 3 sessions, and 2 are stored"):
        show(tmp_path, sessions(1.0, 1.0))


def test_a_limit_that_too_few_sessions_could_judge_is_refused_before_the_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["cold-recovery", "--version", f"{OLD} {NEW}", "--repeat", "2", "--fail-over", "10%"]) == 2
    assert (
        "REPEAT: 2 sessions and --fail-over cannot be combined: it is judged over at least 3" in capsys.readouterr().err
    )


def test_a_session_that_lacks_runs_has_the_exit_code_of_missing_runs(tmp_path: Path) -> None:
    *two, last = sessions(1.5, 1.5, 1.5)
    assert show(tmp_path, [*two, replace(last, runs=last.runs[:-1])]) == 1


def test_the_report_over_sessions_names_those_that_lack_runs() -> None:
    found = [*sessions(1.0, 1.0), session(2, 1.0, many=1)]
    told = answers(combine_sessions({one.started_at: one for one in found}))
    assert told[-1] == (
        "Each session is one value, however few runs it has: session 3, 8 of its 10 runs failed, were void or are "
        "missing."
    )


def test_the_report_over_sessions_counts_those_that_missed_their_precision() -> None:
    """Sessions differ by more than the precision that each of them has."""
    found = [session(0, 1.0, precision=0.02), session(1, 1.5, precision=0.02), session(2, 2.0, precision=0.02)]
    assert "The precision of +- 2 % was reached." in answers(combine_sessions({one.started_at: one for one in found}))
    found[1] = session(1, 1.5, spread=9.0, precision=0.02)
    told = answers(combine_sessions({one.started_at: one for one in found}))
    assert "The precision of +- 2 % was missed in 1 of 3 sessions." in told
