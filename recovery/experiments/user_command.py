"""Runs the user's commands: before a timed start (BEFORE_START), and before a kill (BEFORE_KILL)."""

from __future__ import annotations

import os
import pwd
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from recovery.errors import TrialVoidError, escape_control
from recovery.linux.files import sudo_user
from recovery.linux.signals import defer_signals

_LIMIT_S = 4 * 3600.0
"""The command may wait for a snapshot of a volume."""
_NOTHING_MORE: Mapping[str, str] = {}
_KILL_LIMIT_S = 10.0
_OUTPUT_END_BYTES = 4096


def run_user_command(
    setting: str,
    command: Sequence[str],
    *,
    environment: Mapping[str, str] = _NOTHING_MORE,
    group: int | None = None,
    limit_s: float = _LIMIT_S,
) -> float:
    """Runs the command of a setting as the user who called the tool, and returns its seconds.

    It has these variables in its environment, and the rights of this group, in addition to what the user has. Raises
    TrialVoidError unless it exits with code 0: the start would not be the requested one. Its process group is killed if
    it takes longer than `limit_s`, or if the tool is interrupted; what it leaves running otherwise, such as the process
    of a mount, stays."""
    shown = f"{setting}={shlex.join(command)}"
    began_s = time.monotonic()
    with tempfile.TemporaryFile() as output, ExitStack() as stack:
        try:
            with defer_signals():
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                    **_as_caller(environment, group),
                )  # fmt: skip
                stack.callback(_kill_unless_ended, process)
            code = process.wait(limit_s)
        except OSError as error:
            raise TrialVoidError(f"{shown} cannot be run: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise TrialVoidError(f"{shown} did not end within {limit_s / 3600:g} hours") from error
        if code:
            how = f"ended with exit code {code}" if code > 0 else f"was killed by signal {-code}"
            output.seek(max(0, output.seek(0, os.SEEK_END) - _OUTPUT_END_BYTES))
            lines = output.read().decode(errors="replace").strip().splitlines()
            raise TrialVoidError(
                f"{shown} {how}: {escape_control(lines[-1].strip()) if lines else 'it printed nothing'}"
            )
    return time.monotonic() - began_s


def _as_caller(more: Mapping[str, str], group: int | None) -> dict[str, Any]:
    """Returns the arguments of Popen that run a process as the user who called the tool with sudo."""
    uid, environment = sudo_user(), {**os.environ, **more}
    if uid is None:
        return {"env": environment}
    more_groups = () if group is None else (group,)
    try:
        user = pwd.getpwuid(uid)
    except KeyError:  # in a container
        return {"user": uid, "group": uid, "extra_groups": more_groups, "env": environment}
    own = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name}
    groups = (*os.getgrouplist(user.pw_name, user.pw_gid), *more_groups)
    return {"user": uid, "group": user.pw_gid, "extra_groups": groups, "env": {**environment, **own}}


def _kill_unless_ended(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with defer_signals():
            # A process of another user, such as one started by sudo, cannot be killed.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_KILL_LIMIT_S)
