"""A wrapper program that makes the kernel kill a client when this tool ends, even if the tool is killed.

It is run as a file by a Python interpreter that has imported nothing of this package. It sets the parent-death signal
and the CPU affinity, and then replaces itself with the client by exec. Both settings must be in effect before the
client starts its first thread. They cannot be set between fork and exec in the tool itself, because calling code there
is not safe in a process with threads."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress

_PR_SET_PDEATHSIG = 1


def exec_client(owner: int, cpus: str, command: list[str]) -> None:
    """Replaces this process with the command, which the kernel kills when the parent process `owner` ends.

    `cpus` is a comma-separated list of CPU numbers; empty for no restriction. Exits with code 1 if the parent has ended
    already, and with 127 if the command cannot be run."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != owner:  # the parent ended before prctl() took effect
        os._exit(1)
    if cpus:
        with suppress(OSError):  # if the CPUs were removed from the control group, the client runs on any it may use
            os.sched_setaffinity(0, [int(cpu) for cpu in cpus.split(",")])
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(2, f"{command[0]} cannot be run: {error.strerror}\n".encode())
        os._exit(127)


if __name__ == "__main__":
    exec_client(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
