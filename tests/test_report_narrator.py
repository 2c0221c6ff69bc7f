"""Does the state follow the session, and is it told to nobody who does not want to hear it?"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from test_progress import NEW, PLANNED, run_of, trials

from recovery.errors import RecoveryError
from recovery.load.build import BuildInterruptedError
from recovery.progress import Progress, Standing, Status
from recovery.report import narrator as told_by
from recovery.report.narrator import SessionNarrator
from recovery.report.screen import Screen
from recovery.stored import Verdict
from recovery.whereabouts import Whereabouts, from_json


@pytest.fixture
def records() -> list[Whereabouts]:
    return []


Make = Callable[..., tuple[SessionNarrator, io.StringIO]]


@pytest.fixture
def make(records: list[Whereabouts], monkeypatch: pytest.MonkeyPatch) -> Make:
    """One that looks a hundred times a second and tells its plain lines ten times."""
    monkeypatch.setattr(told_by, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(told_by, "RECORD_EVERY_S", 0.05)
    monkeypatch.setattr(told_by, "PLAIN_EVERY_S", 0.1)

    def keep(text: str) -> None:
        found = from_json(text)
        assert found is not None
        records.append(found)

    def made(progress: Progress = PLANNED, *, quiet: bool = False) -> tuple[SessionNarrator, io.StringIO]:
        stream = io.StringIO()
        return SessionNarrator(progress, screen=Screen(stream), owner="mark", record=keep, quiet=quiet), stream

    return made


def go_through_a_trial(narrator: SessionNarrator) -> None:
    trial = trials()[0]
    narrator.trial_began(trial)
    narrator.doing("timed start")
    began_s = time.monotonic()
    narrator.follow(lambda _: Standing("validation", began_s))
    time.sleep(0.35)
    narrator.trial_ended(run_of(trial), 8)


def test_a_long_start_is_told_now_and_then(make: Make, records: list[Whereabouts]) -> None:
    narrator, stream = make()
    with narrator.on_stage():
        go_through_a_trial(narrator)
    *during, end = stream.getvalue().splitlines()
    assert 2 <= len(during) <= 3
    assert set(during) == {"[1/8] 5.7.22 cold run 1: timed start 0 s, validation 0 s"}
    assert end == "[1/8] 5.7.22 cold run 1: 40.00 s"
    assert any(one.phase == "validation" for one in records)
    assert (records[-1].status, records[-1].owner) == (Status.FINISHED, "mark")


def test_the_state_is_kept_at_each_stage_and_else_rarely(make: Make, records: list[Whereabouts]) -> None:
    narrator, _ = make()
    began_s = time.monotonic()
    with narrator.on_stage():
        time.sleep(0.5)
        narrator.trial_began(trials()[0])
        time.sleep(0.03)
    assert records[-2].trial is not None, "at once, as it is another stage"
    assert len(records) <= (time.monotonic() - began_s) / 0.05 + 3


def test_the_quiet_hear_of_failures_alone(make: Make, records: list[Whereabouts]) -> None:
    narrator, stream = make(quiet=True)
    with narrator.on_stage():
        narrator.say("a message")
        go_through_a_trial(narrator)
        narrator.warn("this is not well")
        failed = replace(run_of(trials()[1], None, Verdict.FAILED), reason="it did not start")
        narrator.trial_ended(failed, 8)
    assert stream.getvalue().splitlines() == [
        "this is not well",
        "[2/8] 5.7.22 warm run 1:  FAILED: it did not start",
    ]
    assert records, "who asks is told all the same"


def test_a_build_is_told_and_nothing_before_there_is_something_to_tell(make: Make) -> None:
    narrator, stream = make(NEW)
    with narrator.on_stage():
        time.sleep(0.2)
        assert stream.getvalue() == ""
        with narrator.building("5.7.22: 9 tables") as progress:
            progress(0, 10)
            time.sleep(0.05)
            progress(5, 10)
            time.sleep(0.2)
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
def test_how_it_ended_is_kept(error: BaseException, status: Status, make: Make, records: list[Whereabouts]) -> None:
    narrator, _ = make()
    with pytest.raises(type(error)), narrator.on_stage():
        raise error
    assert records[-1].status is status
