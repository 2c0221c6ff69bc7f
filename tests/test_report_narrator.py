"""Does the state follow the session, and is it told to nobody who does not want to hear it?"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
from test_progress import NEW, PLANNED, run_of, trials
from waiting import until

from recovery.cli import progress_view
from recovery.cli.progress_view import ProgressDisplay, Screen
from recovery.errors import RecoveryError
from recovery.model import Verdict
from recovery.mysqld.phases import CurrentPhase
from recovery.session.progress import Progress, ProgressSnapshot, Status, from_json
from recovery.workload.build import BuildInterruptedError


@pytest.fixture
def records() -> list[ProgressSnapshot]:
    return []


Make = Callable[..., tuple[ProgressDisplay, io.StringIO]]


@dataclass
class Clock:
    """It stands still until a test moves it."""

    now_s: float = 3000.0
    asked: int = 0

    def monotonic(self) -> float:
        self.asked += 1
        return self.now_s

    def go_on(self, seconds: float) -> None:
        """Returns when the narrator has looked at the new time: each look asks two or three times."""
        self.now_s += seconds
        before = self.asked
        until(lambda: self.asked >= before + 6, "a look of the narrator")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress_view, "time", SimpleNamespace(monotonic=made.monotonic))
    return made


@pytest.fixture
def make(records: list[ProgressSnapshot], clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Make:
    """One that looks at its clock a hundred times a second."""
    monkeypatch.setattr(progress_view, "REFRESH_EVERY_S", 0.01)

    def keep(text: str) -> None:
        snapshot = from_json(text)
        assert snapshot is not None
        records.append(snapshot)

    def made(progress: Progress = PLANNED, *, quiet: bool = False) -> tuple[ProgressDisplay, io.StringIO]:
        stream = io.StringIO()
        return ProgressDisplay(progress, screen=Screen(stream), record=keep, quiet=quiet), stream

    return made


def go_through_a_trial(reporter: ProgressDisplay, clock: Clock, *pauses_s: float) -> None:
    trial, began_s = trials()[0], clock.now_s
    reporter.trial_began(trial)
    reporter.doing("timed start")
    reporter.follow(lambda _: CurrentPhase("validation", began_s))
    for seconds in pauses_s:
        clock.go_on(seconds)
    reporter.trial_ended(run_of(trial), 8)


def test_a_long_start_is_told_now_and_then(make: Make, clock: Clock, records: list[ProgressSnapshot]) -> None:
    reporter, stream = make()
    with reporter.active():
        go_through_a_trial(reporter, clock, 14, 2, 14, 2)
    assert stream.getvalue().splitlines() == [
        "[1/8] 5.7.22 cold run 1: timed start 16 s, validation 16 s",
        "[1/8] 5.7.22 cold run 1: timed start 32 s, validation 32 s",
        "[1/8] 5.7.22 cold run 1: 40.00 s",
    ]
    assert any(one.phase == "validation" for one in records)
    assert (records[-1].status, records[-1].owner) == (Status.FINISHED, "mark")


def test_the_state_is_kept_at_each_stage_and_else_rarely(
    make: Make, clock: Clock, records: list[ProgressSnapshot]
) -> None:
    reporter, _ = make()
    kept = []
    with reporter.active():
        for seconds in (0, 0.9, 0.2, 0.5):
            clock.go_on(seconds)
            kept.append(len(records))
        reporter.trial_began(trials()[0])
        clock.go_on(0)
        kept.append(len(records))
    assert kept == [1, 1, 2, 2, 3], "once a second, and at once where it is another stage"
    assert records[-2].trial is not None


def test_the_quiet_hear_of_failures_alone(make: Make, clock: Clock, records: list[ProgressSnapshot]) -> None:
    reporter, stream = make(quiet=True)
    with reporter.active():
        reporter.say("a message")
        go_through_a_trial(reporter, clock, 60)
        reporter.warn("this is not well")
        failed = replace(run_of(trials()[1], None, Verdict.FAILED), reason="it did not start")
        reporter.trial_ended(failed, 8)
    assert stream.getvalue().splitlines() == [
        "this is not well",
        "[2/8] 5.7.22 warm run 1:  FAILED: it did not start",
    ]
    assert records, "who asks is told all the same"


def test_a_build_is_told_and_nothing_before_there_is_something_to_tell(make: Make, clock: Clock) -> None:
    reporter, stream = make(NEW)
    with reporter.active():
        clock.go_on(60)
        assert stream.getvalue() == ""
        with reporter.building("5.7.22: 9 tables") as progress:
            progress(0, 10)
            clock.go_on(5)
            progress(5, 10)
            clock.go_on(16)
    assert "5.7.22: 9 tables: 5 of 10, " in stream.getvalue()


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (KeyboardInterrupt(), Status.INTERRUPTED),
        (BuildInterruptedError(3), Status.INTERRUPTED),
        (RecoveryError("no"), Status.ABORTED),
        (OSError("no"), Status.ABORTED),
    ],
)
def test_how_it_ended_is_kept(
    error: BaseException, status: Status, make: Make, records: list[ProgressSnapshot]
) -> None:
    reporter, _ = make()
    with pytest.raises(type(error)), reporter.active():
        raise error
    assert records[-1].status is status
