"""What does `recovery status` say while a session runs, once it has ended, and when it was killed?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_progress import PLANNED, after, at, trials
from waiting import DEADLINE_S

from recovery.cli.main import run
from recovery.linux.locks import lock_path
from recovery.session import progress as session_progress
from recovery.session.progress import Status, to_json

# Holds the host and writes its status as a session does, until a line on its input ends it.
_SESSION = """
import os, sys, threading
from dataclasses import replace
from recovery.cli.progress_view import ProgressDisplay, Screen
from recovery.linux.locks import host_lock, lock_path
from recovery.linux.procfs import process_id
from recovery.session.progress import from_json, status_path, write_status_file
from test_progress import NEW
written = threading.Event()
def record(text):
    write_status_file(status_path(lock_path()), text)
    build = from_json(text).build
    if build is not None and build.done == 3:
        written.set()
progress = replace(NEW, pid=os.getpid(), owner=process_id())
reporter = ProgressDisplay(progress, screen=Screen(None), record=record)
with host_lock(), reporter.active():
    with reporter.building("5.7.22: 9 tables") as progress:
        progress(3, 10)
        written.wait()
        print("building", flush=True)
        sys.stdin.readline()
"""


@pytest.fixture
def session() -> Iterator[subprocess.Popen[str]]:
    folders = (Path(__file__).parent, Path(__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    process = subprocess.Popen(
        [sys.executable, "-c", _SESSION], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "building\n"
    yield process
    process.kill()
    process.communicate()


def suspend(session: subprocess.Popen[str]) -> None:
    """Returns once the kernel has stopped it."""
    session.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, session.pid, os.WSTOPPED)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["status", *arguments]) == 0
    return capsys.readouterr().out


def as_data(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told(capsys, "--json"))
    return found


def test_nobody_has_run_yet(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys) == "no session is running, and none is recorded\n"
    assert as_data(capsys) == {"format": 1, "running": False, "suspended": False, "holder": None, "session": None}


def test_a_session_runs_is_suspended_and_ends(
    session: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    said = told(capsys)
    assert said.startswith(f"crash-recovery of 5.7: pid {session.pid}, since ")
    assert "  building: 5.7.22: 9 tables: 3 of 10\n" in said
    assert "suspended" not in said
    suspend(session)
    assert as_data(capsys)["suspended"]
    assert "  suspended: continue it with `fg` in its terminal" in told(capsys)
    session.send_signal(signal.SIGCONT)
    session.communicate("end\n", timeout=DEADLINE_S)
    said = told(capsys)
    assert said.startswith("no session is running\nthe last session is crash-recovery of 5.7: finished after ")


def test_a_killed_session_is_told_from_one_that_runs(
    session: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = as_data(capsys)
    assert found["running"]
    assert (found["session"]["status"], found["session"]["stage"]) == ("running", "building")
    assert str(session.pid) in found["holder"]
    session.kill()
    session.wait()
    found = as_data(capsys)
    assert not found["running"]
    assert found["session"]["status"] == "killed"
    assert "the last session is crash-recovery of 5.7: killed after" in told(capsys)


def test_watching_ends_with_the_session(session: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]) -> None:
    watching = subprocess.Popen(
        [sys.executable, "-m", "recovery", "status", "--watch"], stdout=subprocess.PIPE, text=True
    )
    assert watching.stdout is not None
    assert "crash-recovery of 5.7: pid" in watching.stdout.readline()
    session.communicate("end\n", timeout=DEADLINE_S)
    rest, _ = watching.communicate(timeout=DEADLINE_S)
    assert "finished after" in rest
    assert "\x1b" not in rest
    assert watching.returncode == 0


def test_ctrl_c_ends_the_watching_alone(session: subprocess.Popen[str]) -> None:
    watching = subprocess.Popen(
        [sys.executable, "-m", "recovery", "status", "--watch"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert watching.stdout is not None
    watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=DEADLINE_S)
    assert (watching.returncode, err) == (130, "")
    assert session.poll() is None


def test_another_lock_is_another_host(
    session: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert session.poll() is None
    monkeypatch.setenv("RECOVERY_HOST_LOCK", str(tmp_path / "other.lock"))
    assert told(capsys).startswith("no session is running, and none")


def test_who_holds_the_host_without_a_word_is_named(
    session: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Another user's session, whose file is not ours to read."""
    suspend(session)
    session_progress.status_path(lock_path()).unlink(missing_ok=True)
    assert told(capsys).startswith(f"the host is locked by pid {session.pid}, `")


def test_a_file_of_a_dead_session_is_not_taken_for_the_one_that_runs(
    session: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    suspend(session)
    progress = after(PLANNED, 10.0).trial_began(trials()[1], 3000.0)
    dead = at(progress, 3001.0)  # whose mark is no process
    session_progress.write_status_file(
        session_progress.status_path(lock_path()), to_json(dead).replace('"mark"', '"boot.1.2.3"')
    )
    assert told(capsys).startswith("the host is locked by")


def test_what_is_stored_there_by_whomever_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = to_json(at(after(PLANNED, 10.0).finish(Status.ABORTED), 3.0)).replace("recovery crash", "\\u001b[2Jrecovery")
    session_progress.write_status_file(session_progress.status_path(lock_path()), evil)
    said = told(capsys)
    assert "\x1b" not in said
    assert "aborted after" in said


def test_json_has_the_means_of_starts_under_both_names(capsys: pytest.CaptureFixture[str]) -> None:
    stored = to_json(at(after(PLANNED, 10.0).finish(Status.FINISHED), 3.0))
    session_progress.write_status_file(session_progress.status_path(lock_path()), stored)
    (cell,) = as_data(capsys)["session"]["cells"]
    assert (cell["mean"], cell["last"], cell["mean_s"], cell["last_s"]) == (5.0, 5.0, 5.0, 5.0)
