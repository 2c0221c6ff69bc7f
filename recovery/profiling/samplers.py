"""Finds the programs that can take stack traces on this host: each installed one is tried on an idle process."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from recovery.errors import HostUnfitError
from recovery.linux.packages import install_advice
from recovery.profiling import eu_stack, perf
from recovery.profiling.symbols import ADDR2LINE, last_line, run_tool

EU_STACK, PERF = PROGRAMS = (eu_stack.PROGRAM, perf.PROGRAM)
"""The best program first: only eu-stack shows threads that wait."""
AUTO = "auto"
"""Value of the option --stacks that selects the best program."""
_NEEDS = {EU_STACK: (EU_STACK, ADDR2LINE), PERF: (PERF,)}
_PACKAGES = {EU_STACK: "elfutils", PERF: "linux-perf"}
_IDLE_COMMAND = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
_TRIAL_TIMEOUT_S = 30.0
_TRIAL_RECORDING_S = "0.1"
"""Duration of a trial recording with perf."""


def usable_programs(choice: str) -> tuple[str, ...]:
    """Returns the chosen programs that can take stack traces, best first; raises HostUnfitError if there are none."""
    requested = PROGRAMS if choice == AUTO else (choice,)
    errors = _trial_errors(requested)
    if not errors:
        raise HostUnfitError(
            f"stacks cannot be taken: there is no {', no '.join(requested)}",
            f"{install_advice(_PACKAGES[requested[0]])}; or leave --stacks out",
        )
    able = tuple(name for name, error in errors.items() if error is None)
    if not able:
        best, error = next(iter(errors.items()))
        raise HostUnfitError(
            f"{best} may not trace a process here: {error}",
            "run as root, or see kernel.yama.ptrace_scope and kernel.perf_event_paranoid in `sysctl -a`",
        )
    return able


def why_unusable() -> dict[str, str | None]:
    """Returns for each program, best first, why it cannot take stack traces; None if it can."""
    errors = _trial_errors(PROGRAMS)
    return {name: errors.get(name, f"not there (package {_PACKAGES[name]})") for name in PROGRAMS}


def _trial_errors(programs: Sequence[str]) -> dict[str, str | None]:
    """Tries each of the programs that are installed, and returns its error message; None if it works."""
    with _idle_process() as pid:
        return {name: _trial_error(name, pid) for name in programs if all(map(shutil.which, _NEEDS[name]))}


@contextmanager
def _idle_process() -> Iterator[int]:
    """Yields the process ID of an idle child process, on which a program can be tried."""
    with subprocess.Popen(
        _IDLE_COMMAND, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


def _trial_error(name: str, pid: int) -> str | None:
    """Returns the error message of a program that cannot take the stack traces of a process; None if it can."""
    try:
        if name == PERF:
            with tempfile.TemporaryDirectory() as folder:
                command = [*perf.record_command(pid, Path(folder)), "--", "sleep", _TRIAL_RECORDING_S]
                done = run_tool(command, limit_s=_TRIAL_TIMEOUT_S)
            works = done.returncode == 0
        else:
            done = run_tool(eu_stack.command(pid), limit_s=_TRIAL_TIMEOUT_S)
            works = any(eu_stack.resolve_stacks(pid, [done.stdout.decode(errors="replace")]))
        return None if works else last_line(done.stderr)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
