"""Commands of the user's: before each timed start, and before each kill."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import psutil
import pytest
from fakes import shell_script
from otherusers import needs_root
from waiting import until

from recovery.errors import TrialVoidError
from recovery.experiments.user_command import run_user_command

NOBODY = 65534


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_command_that_fails_is_named_with_its_last_line(tmp_path: Path) -> None:
    script = shell_script(tmp_path / "prepare", 'echo first; echo "no such volume: $1" >&2; exit 3')
    failed = rf"BEFORE_START={script} 'a b' ended with exit code 3: no such volume: a b$"
    with pytest.raises(TrialVoidError, match=failed):
        run_user_command("BEFORE_START", [str(script), "a b"])
    with pytest.raises(TrialVoidError, match="ended with exit code 1: it printed nothing"):
        run_user_command("BEFORE_START", ["false"])
    with pytest.raises(TrialVoidError, match="was killed by signal 9"):
        run_user_command("BEFORE_START", ["sh", "-c", "kill -9 $$"])
    script.unlink()
    with pytest.raises(TrialVoidError, match="cannot be run: No such file"):
        run_user_command("BEFORE_START", [str(script)])


def test_it_is_run_without_a_shell_and_its_seconds_are_returned(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_user_command("BEFORE_START", ["test", "$HOME", "=", "$HOME"]) > 0
    assert run_user_command("BEFORE_START", ["echo", "not on the screen"]) > 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("interrupted", [False, True])
def test_its_process_group_is_killed_after_the_limit_and_on_ctrl_c(
    interrupted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    script = shell_script(tmp_path / "prepare", f"sleep 600 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait")

    def wait(process: subprocess.Popen[bytes], timeout: float) -> int:
        until(lambda: pids.exists() or None, "the command runs")
        monkeypatch.undo()
        raise KeyboardInterrupt if interrupted else subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", wait)
    with pytest.raises(KeyboardInterrupt if interrupted else TrialVoidError):
        run_user_command("BEFORE_START", [str(script)])
    for pid in map(int, pids.read_text().split()):
        until(partial(is_gone, pid), "its end")


def test_what_it_leaves_running_stays(tmp_path: Path) -> None:
    script = shell_script(tmp_path / "prepare", f"sleep 600 & echo $! > {tmp_path}/pid")
    run_user_command("BEFORE_START", [str(script)])
    left = int((tmp_path / "pid").read_text())
    assert not is_gone(left)
    psutil.Process(left).kill()


@needs_root
def test_under_sudo_it_is_run_as_the_user_who_called(monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["sh", "-c", "echo $(id -u) $(id -g) $USER; exit 1"]
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    with pytest.raises(TrialVoidError, match=f"exit code 1: {NOBODY} {NOBODY} nobody"):
        run_user_command("BEFORE_START", command)
    command_of_group = ["sh", "-c", "echo $A $(id -G); exit 1"]
    with pytest.raises(TrialVoidError, match=r"exit code 1: b c .*1234567"):
        run_user_command("BEFORE_KILL", command_of_group, environment={"A": "b c"}, group=1234567)
    monkeypatch.setenv("SUDO_UID", "4000000")  # as in a container, which does not know the user
    with pytest.raises(TrialVoidError, match="exit code 1: 4000000 4000000"):
        run_user_command("BEFORE_START", command)
