"""The progress of a session, the estimate of its remaining time, and `recovery status`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from planned_progress import BUILDS, GUESS, NEW, PLANNED, VERSIONS, after, at, plan, run_of, trials
from request_parts import make_plan
from waiting import DEADLINE_S

from recovery.cli.main import run
from recovery.cli.progress_view import live_view
from recovery.cli.status import find_running_session
from recovery.linux.locks import host_lock, lock_path
from recovery.linux.procfs import process_id
from recovery.logs.phases import CurrentPhase
from recovery.model import (
    Cache,
    Status,
    Trial,
    Variant,
    VariantSpec,
    Verdict,
)
from recovery.session.plan import build_variants
from recovery.session.progress import (
    ProgressSnapshot,
    Stage,
    from_json,
    status_path,
    to_json,
    write_status_file,
)


def test_there_is_no_estimate_before_the_plan() -> None:
    assert NEW.stage is Stage.PREPARING
    assert NEW.left_s(1001.0) is None
    fetching = NEW.doing(1000.0, "getting the servers")
    assert at(fetching, 1020.0).step == "getting the servers"
    assert fetching.planned(0.0, replace(plan(), trial_s=GUESS)).step is None
    assert PLANNED.versions == ("5.7.22", "8.0.31")
    assert PLANNED.left_s(1001.0) == 400 + 2 * 160


def test_the_rate_of_a_build_counts_its_own_statements_alone() -> None:
    building = PLANNED.build_began(1000.0, BUILDS[0][0])
    assert building.stage is Stage.BUILDING
    assert building.left_s(1040.0) == 60 + 300 + 320, "by the estimate until there is a rate"
    building = building.built(1040.0, 500, 1000)
    assert building.build is not None
    assert building.build.rate_per_s is None, "statements of an earlier session give no rate"
    building = building.built(1050.0, 700, 1000)
    shown = at(building, 1052.0).build
    assert shown is not None
    assert (shown.elapsed_s, shown.rate_per_s, shown.left_s) == (52.0, 20.0, 13.0)
    assert building.left_s(1052.0) == 13 + 300 + 320
    assert building.build_ended(0.0).left_s(1060.0) == 300 + 320
    assert building.build_ended(0.0).stage is Stage.PREPARING


def test_unplanned_builds_and_builds_of_one_name() -> None:
    assert PLANNED.build_began(1000.0, "5.6.24: 9 tables").builds == BUILDS
    twice = replace(PLANNED, builds=(BUILDS[0], BUILDS[0]))
    assert twice.build_began(1000.0, BUILDS[0][0]).builds == (BUILDS[0],)


def test_the_estimate_uses_trials_of_the_same_version_and_variant() -> None:
    built = replace(PLANNED, builds=())
    assert after(built, 10.0).left_s(3000.0) == 20 + 60 + 30 + (10 + 20 + 60 + 30)
    assert after(built, 10.0, 5.0).left_s(3000.0) == 60 + 30 + (10 + 5 + 60 + 30)
    fifth = after(built, 10.0, 5.0, 8.0, 4.0).trial_began(3000.0, trials()[4])
    assert fifth.left_s(3004.0) == 6 + 5 + 8 + 4
    assert fifth.left_s(3099.0) == 5 + 8 + 4, "a trial that takes longer than the last one has no negative time left"


def test_a_failed_trial_does_not_change_the_estimate() -> None:
    first = trials()[0]
    failed = PLANNED.trial_began(0.0, first).trial_ended(1.0, run_of(first, None, Verdict.FAILED))
    assert failed.left_s(2.0) == 400 + 320 - 50


def test_results_by_version_and_variant() -> None:
    progress = after(PLANNED, 10.0, 6.0, 8.0, 4.0, 20.0)
    last = trials()[5]
    progress = progress.trial_began(0.0, last).trial_ended(9.0, run_of(last, 1.0, Verdict.VOID))
    cold, warm, *others = progress.cells
    assert (cold.version, cold.variant, cold.ended, cold.planned) == ("5.7.22", "cold", 2, 2)
    assert (cold.mean, cold.last) == (7.5, 10.0)
    assert (warm.ended, warm.void, warm.mean) == (2, 1, 3.0), "a void run is counted, and not averaged"
    assert [one.version for one in others] == ["8.0.31", "8.0.31"]


def test_a_variant_with_a_metric_of_its_own_shows_that() -> None:
    works = (VariantSpec("usual", Cache.WARM), VariantSpec("hot", Cache.WARM, metric="tps"))
    plan = make_plan(VERSIONS[:1], build_variants(works), repeats=1, alternating=True)
    progress = replace(NEW, metric="qps").planned(0.0, plan)
    for trial in plan.trials:
        run = replace(run_of(trial, None), metrics={"qps": 2000.0, "tps": 90.0})
        progress = progress.trial_began(0.0, trial).trial_ended(9.0, run)
    assert [(cell.variant, cell.mean, cell.metric) for cell in progress.cells] == [
        ("usual", 2000.0, None), ("hot", 90.0, "tps"),
    ]  # fmt: skip
    shown = "\n".join(line.text for line in live_view(at(progress, 10.0), 100, 30))
    assert "mean 2,000/s" in shown
    assert "90 transactions/s" in shown


def test_a_snapshot_is_read_back_as_it_was_written() -> None:
    first = Trial(1, VERSIONS[0], Variant("cold", Cache.COLD), 1)
    running = after(PLANNED, 10.0).trial_began(3000.0, first).doing(3005.0, "timed start")
    found = at(running, 3050.0, CurrentPhase("validation", 3012.0, "Checked 7/9"))
    assert (found.phase, found.phase_s, found.step_s, found.told) == ("validation", 38.0, 45.0, "Checked 7/9")
    assert found.trial is not None
    assert found.trial.elapsed_s == 50.0
    assert from_json(to_json(found)) == found
    ended = at(running.finished(0.0, Status.INTERRUPTED), 3060.0)
    assert (ended.stage, ended.trial, ended.left_s) == (Stage.ENDED, None, None)
    assert from_json(to_json(ended)) == ended


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 1}', '{"format": 1, "pid": "x"}'])
def test_a_damaged_status_file_is_ignored(text: str) -> None:
    assert from_json(text) is None


def test_the_activity_changes_with_the_stage_and_not_with_time() -> None:
    first = trials()[0]
    trial = PLANNED.trial_began(0.0, first)
    assert at(trial, 1.0).activity == at(trial, 9.0).activity
    assert len({at(one, 1.0).activity for one in (PLANNED, trial, trial.doing(1.0, "inserting"))}) == 3


# --- `recovery status`


def write_status(progress: ProgressSnapshot) -> None:
    write_status_file(status_path(lock_path()), to_json(progress))


def running(pid: int | None = None) -> ProgressSnapshot:
    """A session of this process in the middle of a build."""
    session = replace(NEW, pid=pid or os.getpid(), owner=process_id())
    return at(session.build_began(1000.0, "5.7.22: 9 tables").built(1001.0, 3, 10), 1002.0)


def status_text(capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["status"]) == 0
    return capsys.readouterr().out


def status_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(["status", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_status_without_any_session(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_text(capsys) == "no session is running, and none is recorded\n"
    empty = {"format": 1, "running": False, "suspended": False, "holder": None, "session": None}
    assert status_json(capsys) == empty


def test_status_of_a_running_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_status(running())
    with host_lock():
        text = status_text(capsys)
        assert text.startswith(f"crash-recovery of 5.7: pid {os.getpid()}, since ")
        assert "  building: 5.7.22: 9 tables: 3 of 10\n" in text
        assert "suspended" not in text
        found = status_json(capsys)
        assert (found["running"], found["suspended"]) == (True, False)
        assert (found["session"]["status"], found["session"]["stage"]) == ("running", "building")
        assert str(os.getpid()) in found["holder"]
        monkeypatch.setenv("RECOVERY_HOST_LOCK", str(tmp_path / "other.lock"))
        assert status_text(capsys).startswith("no session is running, and none"), "another lock is another host"


def test_a_session_that_waits_finds_the_one_that_runs() -> None:
    write_status(running())
    assert find_running_session() is None
    with host_lock():
        found = find_running_session()
    assert found is not None
    assert (found.experiment, found.pid) == ("crash-recovery", os.getpid())


def test_status_of_a_suspended_session(capsys: pytest.CaptureFixture[str]) -> None:
    with host_lock(), subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        write_status(running(process.pid))
        assert status_json(capsys)["suspended"]
        assert "  suspended: continue it with `fg` in its terminal" in status_text(capsys)
        process.kill()


def test_status_of_a_killed_session(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody holds the lock, and the session has not stored its end."""
    write_status(running())
    found = status_json(capsys)
    assert (found["running"], found["session"]["status"]) == (False, "killed")
    assert "the last session is crash-recovery of 5.7: killed after" in status_text(capsys)


@pytest.mark.parametrize("stored", [None, "boot.1.2.3"])
def test_status_names_the_holder_of_the_lock_that_has_no_readable_status_file(
    stored: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """It belongs to another user, or the file is that of a dead session."""
    if stored is not None:
        write_status(replace(running(), owner=stored))
    with host_lock():
        assert status_text(capsys).startswith(f"the host is locked by pid {os.getpid()}, `")


def test_status_escapes_control_characters_of_a_stored_session(capsys: pytest.CaptureFixture[str]) -> None:
    write_status(replace(at(after(PLANNED, 10.0).finished(0.0, Status.ABORTED), 3.0), command="\x1b[2Jrecovery"))
    text = status_text(capsys)
    assert "\x1b" not in text
    assert "aborted after" in text


def test_status_json_has_the_means_of_starts(capsys: pytest.CaptureFixture[str]) -> None:
    write_status(at(after(PLANNED, 10.0).finished(0.0, Status.FINISHED), 3.0))
    (cell,) = status_json(capsys)["session"]["cells"]
    assert (cell["mean"], cell["last"]) == (5.0, 5.0)


def watch() -> subprocess.Popen[str]:
    """Returns once `recovery status --watch` has printed its first line."""
    command = [sys.executable, "-m", "recovery", "status", "--watch"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "crash-recovery of 5.7: pid" in process.stdout.readline()
    return process


def test_watching_ends_with_the_session_or_with_ctrl_c() -> None:
    write_status(running())
    with host_lock():
        watching, interrupted = watch(), watch()
        interrupted.send_signal(signal.SIGINT)
        _, err = interrupted.communicate(timeout=DEADLINE_S)
        assert (interrupted.returncode, err) == (130, "")
        write_status(replace(running(), status=Status.FINISHED))
    rest, _ = watching.communicate(timeout=DEADLINE_S)
    assert watching.returncode == 0
    assert "finished after" in rest
    assert "\x1b" not in rest
