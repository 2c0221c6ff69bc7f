"""How is sysbench called, and what does its report say? Pure. As 1.0.20 has it, which distributions bring."""

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
from pathlib import Path
from typing import Self

from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux import cgroups
from recovery.linux.files import expanded
from recovery.linux.signals import held_back
from recovery.model import Load
from recovery.workload import die_with_parent
from recovery.workload.inserts import shortened

WORKLOADS = {
    "point-select": "oltp_point_select",
    "read-only": "oltp_read_only",
    "read-write": "oltp_read_write",
    "update-index": "oltp_update_index",
    "update-nokey": "oltp_update_non_index",
    "write-only": "oltp_write_only",
}
"""Short names of sysbench's own scripts."""

# What each thread prepares for each table, by oltp_common.lua and the script's prepare_statements(); and for itself.
_PREPARED_FOR_A_TABLE = {
    "oltp_point_select": 1,
    "oltp_read_only": 5,
    "oltp_read_write": 9,
    "oltp_update_index": 1,
    "oltp_update_non_index": 1,
    "oltp_write_only": 4,
    "oltp_delete": 1,
    "oltp_insert": 0,
}
_PREPARED_FOR_A_THREAD = 2
AS_TEXT = "--db-ps-mode=disable"
AT_WORK = "Threads started!"
"""It says so once all threads have prepared their statements, and counts its time from here."""
CHECKPOINT = "] Checkpoint report:"
"""And this once the warm-up is over, from where on it counts anew."""
_SHORTEST_S = 0.0001
"""As it tells time."""
_MOST_PREPARED = 16_382
"""The default of max_prepared_stmt_count, in all versions."""


def prepared_statements(load: Load) -> int:
    """That are open at once. A script of the user's counts as the one that prepares most, on which it may be built."""
    for_a_table = _PREPARED_FOR_A_TABLE.get(load.script, max(_PREPARED_FOR_A_TABLE.values()))
    return load.threads * (load.tables * for_a_table + _PREPARED_FOR_A_THREAD)


def must_send_text(load: Load) -> bool:
    """Each thread prepares all of its statements before it begins: the server would refuse those beyond its limit, and
    the threads have 30 s in all for it. Without, a statement is sent as text each time."""
    return prepared_statements(load) > _MOST_PREPARED


def command(load: Load, *, program: Path, socket: Path, database: str) -> list[str]:
    """A script of the user's must know the options `tables` and `table_size`, as those that require oltp_common do."""
    options = [f"--tables={load.tables}", f"--table-size={load.rows}"]
    if must_send_text(load) and AS_TEXT not in load.options:
        options.append(AS_TEXT)
    called = calling(load.script, program=program, socket=socket, database=database, threads=load.threads)
    return [*called, *lasting(load), *options, *load.options, "run"]


def lasting(load: Load) -> list[str]:
    """It goes on from the warm-up without a break, and what it reports in the end is of the seconds after it."""
    warming = [f"--report-checkpoints={load.warmup_s}"] if load.warmup_s else []
    return [f"--time={load.warmup_s + load.seconds}", *warming]


def calling(script: str, *, program: Path, socket: Path, database: str, threads: int) -> list[str]:
    """What every call of it begins with."""
    return [
        str(program), script, f"--threads={threads}", "--events=0", "--report-interval=1", "--histogram=on",
        "--percentile=99", "--db-driver=mysql", "--mysql-ssl=off", "--mysql-user=root", "--mysql-password=",
        f"--mysql-socket={socket}", f"--mysql-db={database}",
    ]  # fmt: skip


@dataclass(frozen=True)
class Look:
    """What it says every second of the second before."""

    at_s: float
    """Since the measuring began; the warm-up lies before 0."""
    qps: float
    tps: float
    latency_ms: float
    """At the percentile that it was asked for: 99, unless by an option of the user's."""
    errors: float
    """That were ignored, a second."""


@dataclass(frozen=True)
class Report:
    queries: int
    transactions: int
    """Or events, where they are no transactions."""
    seconds: float
    errors: int
    """That were ignored: deadlocks, mostly."""
    reconnects: int
    latency_mean_ms: float | None
    """Of a transaction. None where there was none."""
    latency_p50_ms: float | None
    """The percentiles are those of the histogram, whose bars are 1.8 % apart: each event was counted at the nearest, so
    that a figure is right to 1 %. None where an option has turned the histogram off."""
    latency_p95_ms: float | None
    latency_p99_ms: float | None
    latency_p999_ms: float | None
    latency_max_ms: float | None
    looks: tuple[Look, ...]

    @property
    def qps(self) -> float:
        return self.queries / self.seconds

    @property
    def tps(self) -> float:
        return self.transactions / self.seconds


_FIGURE = r"\d{1,20}(?:\.\d{1,20})?"
_COUNT = r"\d{1,20}"
_PLAIN = re.MULTILINE | re.ASCII
_LOOK = re.compile(
    rf"^\[ (?P<at>{_FIGURE})s \] thds: \d+ tps: (?P<tps>{_FIGURE}) qps: (?P<qps>{_FIGURE}) [^\n]{{0,200}}?"
    rf"lat \(ms,[\d.]+%\): (?P<latency>{_FIGURE}) err/s:? (?P<errors>{_FIGURE})",
    _PLAIN,
)
_BAR = re.compile(rf"^ *(\d{{1,20}}\.\d{{1,20}}) \|\** +({_COUNT})$", _PLAIN)
_QUERIES = re.compile(rf"^ +total: +({_COUNT})$", _PLAIN)
_TRANSACTIONS = re.compile(rf"^ +transactions: +({_COUNT}) ", _PLAIN)
_ERRORS = re.compile(rf"^ +ignored errors: +({_COUNT}) ", _PLAIN)
_RECONNECTS = re.compile(rf"^ +reconnects: +({_COUNT}) ", _PLAIN)
_SECONDS = re.compile(rf"^ +total time: +({_FIGURE})s$", _PLAIN)
_MEAN = re.compile(rf"^ +avg: +({_FIGURE})$", _PLAIN)
_MAX = re.compile(rf"^ +max: +({_FIGURE})$", _PLAIN)


def read_report(text: str) -> Report:
    ends_s = [float(seconds) for seconds in _SECONDS.findall(text)]
    if len(ends_s) <= text.count(CHECKPOINT):
        raise _no_report(text)
    # It counts anew from a checkpoint on, but tells the time since it began.
    began_s = ends_s[-2] if len(ends_s) > 1 else 0.0
    transactions = int(_last(_TRANSACTIONS, text))
    bars = [(float(value), int(count)) for value, count in _BAR.findall(text)]
    p50, p95, p99, p999 = (percentile(bars, share) for share in (50, 95, 99, 99.9))
    return Report(
        queries=int(_last(_QUERIES, text)),
        transactions=transactions,
        seconds=max(ends_s[-1] - began_s, _SHORTEST_S),
        errors=int(_last(_ERRORS, text)),
        reconnects=int(_last(_RECONNECTS, text)),
        latency_mean_ms=float(_last(_MEAN, text)) if transactions else None,
        latency_p50_ms=p50,
        latency_p95_ms=p95,
        latency_p99_ms=p99,
        latency_p999_ms=p999,
        latency_max_ms=float(_last(_MAX, text)) if transactions else None,
        looks=looks_in(text, began_s),
    )


def looks_in(text: str, began_s: float) -> tuple[Look, ...]:
    """Also of a run that was ended before its report."""
    return tuple(_look(match, began_s) for match in _LOOK.finditer(text))


def percentile(bars: Sequence[tuple[float, int]], share: float) -> float | None:
    """As sysbench finds it itself: the first bar by which that share of all events is counted."""
    wanted = int(sum(count for _, count in bars) * share / 100 + 0.5)
    counted = 0
    for value, count in bars:
        counted += count
        if counted >= wanted:
            return value
    return None


def _look(match: re.Match[str], began_s: float) -> Look:
    return Look(
        at_s=float(match["at"]) - round(began_s),
        qps=float(match["qps"]),
        tps=float(match["tps"]),
        latency_ms=float(match["latency"]),
        errors=float(match["errors"]),
    )


def _last(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.findall(text)
    if not found:
        raise _no_report(text)
    return str(found[-1])


def _no_report(text: str) -> RecoveryError:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return RecoveryError(
        f"sysbench has printed no report; its last line is: {lines[-1][:200] if lines else '(nothing)'}",
        "the scripts of sysbench 1.0 print one; a script of your own must leave it as it is",
    )


# Which script of sysbench is meant by a name? One of its own, or a file of the user's.


def script_of(name: str) -> str:
    """For a Load: `read-only` and `oltp_read_only` are sysbench's own; anything with a slash or .lua is a file."""
    if "/" in name or name.endswith(".lua"):
        path = expanded(Path(name)).absolute()
        if not path.is_file():
            raise UsageError(f"there is no script {name}", "give the path of a Lua script for sysbench")
        return str(path)
    if name in WORKLOADS.values():
        return name
    if name not in WORKLOADS:
        raise UsageError(
            f"no workload is called {name}", f"there are {', '.join(WORKLOADS)}; or give the path of a Lua script"
        )
    return WORKLOADS[name]


# How does a program run that puts a server to work, and how does it end for sure?

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
        return cgroups.cpu_s(self.pid) if self._ended is None else self._ended.cpu_s

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
    return [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()), chosen, *command]


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
