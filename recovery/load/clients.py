"""How does a program run that puts a server to work, and how does it end for sure?"""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from recovery.errors import HostUnfitError, RecoveryError
from recovery.host import usage
from recovery.host.signals import held_back
from recovery.load import leash
from recovery.load.insert import shortened

GRACE_S = 30.0
"""Beyond its time; sysbench waits for the answers that are under way."""
_GOODBYE_S = 5.0
"""Between SIGTERM and SIGKILL."""
_READ_BYTES = 1 << 20
_SERVERS_ERROR = re.compile(r"\berr(?:or|no)\b\W{0,3}\d+")
"""`error 1049: …`, `Got error: 1146: …`, `errno = 1062, …`"""


@dataclass(frozen=True)
class Ended:
    text: str
    """What it wrote; empty where it was only counted."""
    code: int
    cpu_s: float
    """User and system. With the 20 ms or so of the program that became it."""
    written_bytes: int
    """To its standard output."""


class Client:
    """A process in a session of its own: Ctrl-C at the terminal reaches the tool, and the tool ends it. Where the tool
    is killed the kernel ends it; and where the thread ends that started it: that one has to outlive it."""

    def __init__(
        self, name: str, command: Sequence[str], *, cpus: frozenset[int] | None = None, only_count: bool = False
    ) -> None:
        """`only_count`: what it writes is counted and thrown away, as of a dump."""
        self.name = name
        self.command = tuple(command)
        self._cpus = cpus
        self._only_count = only_count
        self._running: _Running | None = None
        self._ended: Ended | None = None

    def __enter__(self) -> Self:
        try:
            # What comes meanwhile is raised right here, where nobody would call __exit__.
            with held_back():
                self._running = _Running(_leashed(self.command, self._cpus), only_count=self._only_count)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def pid(self) -> int:
        assert self._running is not None, "it has not begun"
        return self._running.pid

    def cpu_s(self) -> float | None:
        """So far; None where it cannot be told."""
        return usage.cpu_s(self.pid) if self._ended is None else self._ended.cpu_s

    def has_ended(self, timeout_s: float = 0) -> bool:
        return self._ended is not None or (self._running is not None and self._running.has_ended(timeout_s))

    def has_said(self, words: str, timeout_s: float) -> bool:
        """Whether it writes this within that time; one that has ended writes no more."""
        assert self._running is not None, "it has not begun"
        return self._running.has_written(words.encode(), timeout_s)

    def wait(self, timeout_s: float) -> Ended:
        """Until it ends by itself. RecoveryError where it fails, or does not end within GRACE_S after its time."""
        if not self.has_ended(timeout_s + GRACE_S):
            self._end()
            raise RecoveryError(
                f"{self.name} still ran {GRACE_S:.0f} s after its time, and was ended",
                "its server hangs, or answers too slowly for what was asked of it",
            )
        self._end()
        assert self._ended is not None
        assert self._running is not None
        if self._ended.code != 0:
            how = f"signal {-self._ended.code}" if self._ended.code < 0 else f"code {self._ended.code}"
            line = shortened(self._running.reason, length=300) or "it gave no reason"
            raise RecoveryError(f"{self.name} failed ({how}): {line}", f"its command: {shlex.join(self.command)}")
        return self._ended

    def stop(self) -> Ended:
        """Whatever it is doing: its code says nothing then, and what it wrote may lack its end."""
        self._end()
        assert self._ended is not None, "it has not begun"
        return self._ended

    def _end(self) -> None:
        """Whatever it is doing; nothing where it never began."""
        with held_back():
            if self._running is not None and self._ended is None:
                self._ended = self._running.end()


def _leashed(command: Sequence[str], cpus: frozenset[int] | None) -> list[str]:
    chosen = ",".join(map(str, sorted(cpus or ())))
    return [sys.executable, "-I", "-S", leash.__file__, str(os.getpid()), chosen, *command]


class _Running:
    """From its start until it is reaped: so long its number is nobody else's."""

    def __init__(self, command: list[str], *, only_count: bool) -> None:
        self._chunks: list[bytes] = []
        self._news = threading.Condition()
        """Of what it writes, and of its having written all."""
        self._has_written_all = False
        self._written_bytes = 0
        self._only_count = only_count
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - read, and closed, after its end
        self.reason = ""
        """Why it failed, in its own words, once it has ended."""
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._complaints, bufsize=0,
                start_new_session=True, env={**os.environ, "LC_ALL": "C"},
            )  # fmt: skip
        except OSError as error:
            raise HostUnfitError(f"{command[0]} can't be run: {error.strerror}", "install Python again") from error
        try:
            self._pidfd = os.pidfd_open(self.pid)
            self._reader = threading.Thread(target=self._read, name="output of a client", daemon=True)
            self._reader.start()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def has_ended(self, timeout_s: float) -> bool:
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return bool(poller.poll(max(0, int(timeout_s * 1000))))

    def has_written(self, words: bytes, timeout_s: float) -> bool:
        def told() -> bool:
            return words in b"".join(self._chunks)

        with self._news:
            self._news.wait_for(lambda: told() or self._has_written_all, timeout_s)
            return told()

    def end(self) -> Ended:
        if not self.has_ended(0):
            self._signal(signal.SIGTERM)
            self.has_ended(_GOODBYE_S)
        # Its children, too: one that kept the pipe open would keep us reading.
        self._signal(signal.SIGKILL)
        _, status, used = os.wait4(self.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        os.close(self._pidfd)
        text = b"".join(self._chunks).decode(errors="replace")
        with self._complaints:
            self._complaints.seek(0)
            self.reason = reason(text + "\n" + self._complaints.read().decode(errors="replace"))
        return Ended(
            text=text,
            code=self._process.returncode,
            cpu_s=used.ru_utime + used.ru_stime,
            written_bytes=self._written_bytes,
        )

    def _read(self) -> None:
        """A pipe that nobody empties stops who writes into it."""
        assert self._process.stdout is not None
        while chunk := os.read(self._process.stdout.fileno(), _READ_BYTES):
            with self._news:
                self._written_bytes += len(chunk)
                if not self._only_count:
                    self._chunks.append(chunk)
                self._news.notify_all()
        with self._news:
            self._has_written_all = True
            self._news.notify_all()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def reason(said: str) -> str:
    """The last line in which the server's own error is told: after it sysbench says more, which tells less. Otherwise
    the last one."""
    lines = said.strip().splitlines()
    return next(filter(_SERVERS_ERROR.search, reversed(lines)), lines[-1] if lines else "").strip()
