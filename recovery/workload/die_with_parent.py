"""How does a client end with this tool, even if that is killed? A program that becomes it, once the kernel is told.

Run as a file, by an interpreter that has read nothing of ours. It is told who started it and on which CPUs to stay:
both must hold from the client's first thread on, and calling the kernel between fork and exec is not safe where there
are threads."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress

_PR_SET_PDEATHSIG = 1


def become(owner: int, cpus: str, command: list[str]) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != owner:  # it died before it could be told
        os._exit(1)
    if cpus:
        with suppress(OSError):  # they were taken from the control group meanwhile: it runs where it may
            os.sched_setaffinity(0, [int(cpu) for cpu in cpus.split(",")])
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(2, f"{command[0]} can't be run: {error.strerror}\n".encode())
        os._exit(127)


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
