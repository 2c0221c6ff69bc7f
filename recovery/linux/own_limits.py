"""Limits memory and CPU time of work on untrusted input."""

from __future__ import annotations

import math
import os
import pickle
import resource
import signal
from collections.abc import Callable
from typing import NoReturn, TypeVar

_PAGE_BYTES = resource.getpagesize()
_Result = TypeVar("_Result")


class TooMuchCpuTimeError(Exception):
    """The work used more CPU time than it may."""


def done_in_limited_child(work: Callable[[], _Result], memory_bytes: int, cpu_s: float) -> _Result:
    """Returns what the work returns in a child process, or raises what it raises. Raises MemoryError if it takes so
    much more memory than this process has, and TooMuchCpuTimeError after so much CPU time, in whole seconds.

    Only the kernel can end an operation of Python that takes hours, such as 2**(2**40): no signal handler runs before
    it is done."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _work_in_child(work, writing, memory_bytes, math.ceil(cpu_s))
    os.close(writing)
    try:
        with open(reading, "rb") as pipe:  # noqa: PTH123 - a descriptor
            sent = pipe.read()
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        raise TooMuchCpuTimeError
    if os.waitstatus_to_exitcode(status) or not sent:
        raise MemoryError
    is_result, content = pickle.loads(sent)  # noqa: S301 - of a child of this process
    if is_result:
        result: _Result = content
        return result
    raise content


def _work_in_child(work: Callable[[], object], writing: int, memory_bytes: int, cpu_s: int) -> NoReturn:
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU):
            signal.signal(number, signal.SIG_DFL)
        _lower_limit(resource.RLIMIT_CPU, cpu_s)
        _lower_limit(resource.RLIMIT_AS, _address_space_bytes() + memory_bytes)
        try:
            sent = pickle.dumps((True, work()))
        except Exception as error:
            sent = pickle.dumps((False, error))
        with open(writing, "wb") as pipe:
            pipe.write(sent)
        code = 0
    finally:
        os._exit(code)


def _lower_limit(kind: int, wanted: int) -> None:
    soft, hard = resource.getrlimit(kind)
    if soft == resource.RLIM_INFINITY or wanted < soft:
        resource.setrlimit(kind, (wanted, hard))


def _address_space_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * _PAGE_BYTES
