"""Builds sysbench command lines, parses sysbench reports, and runs load generators as child processes.

Options and report format are those of sysbench 1.0.20, the version in Linux distributions."""

from __future__ import annotations

import os
import re
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
from recovery.linux import die_with_parent, procfs
from recovery.linux.files import expand_path
from recovery.linux.signals import defer_signals
from recovery.loads.tasks import Load
from recovery.mysqld.client import ADMIN
from recovery.mysqld.launcher import has_process_ended
from recovery.workload.inserts import shorten

WORKLOADS = {
    "point-select": "oltp_point_select",
    "read-only": "oltp_read_only",
    "read-write": "oltp_read_write",
    "update-index": "oltp_update_index",
    "update-nokey": "oltp_update_non_index",
    "write-only": "oltp_write_only",
}
"""Short names of the scripts that come with sysbench."""

# Prepared statements that each thread opens per table, from oltp_common.lua and the script's prepare_statements().
_PREPARED_PER_TABLE = {
    "oltp_point_select": 1,
    "oltp_read_only": 5,
    "oltp_read_write": 9,
    "oltp_update_index": 1,
    "oltp_update_non_index": 1,
    "oltp_write_only": 4,
    "oltp_delete": 1,
    "oltp_insert": 0,
}
_PREPARED_PER_THREAD = 2
"""Prepared statements of each thread that do not depend on the number of tables."""
NO_PREPARED_STATEMENTS = "--db-ps-mode=disable"
THREADS_STARTED = "Threads started!"
"""Line that sysbench prints once all threads have prepared their statements. Its run time starts here."""
CHECKPOINT = "] Checkpoint report:"
"""Text that sysbench prints at the end of the warm-up, when it resets its counters."""
_TIME_RESOLUTION_S = 0.0001
"""Resolution of the times in a sysbench report."""
_MAX_PREPARED = 16_382
"""The default of max_prepared_stmt_count in all server versions."""


def prepared_statements(load: Load) -> int:
    """Returns how many prepared statements are open at the same time.

    A user's script counts like the sysbench script that prepares most, because it may be based on that one."""
    for_a_table = _PREPARED_PER_TABLE.get(load.script, max(_PREPARED_PER_TABLE.values()))
    return load.threads * (load.tables * for_a_table + _PREPARED_PER_THREAD)


def must_send_text(load: Load) -> bool:
    """Returns whether the load must run without prepared statements, with each statement sent as text.

    Each thread prepares all of its statements before it begins. The server would reject those beyond its limit, and
    sysbench allows its threads 30 s in total for this."""
    return prepared_statements(load) > _MAX_PREPARED


def sysbench_command(load: Load, *, program: Path, socket: Path, database: str) -> list[str]:
    """Returns the command line for a load.

    A user's script must accept the options `tables` and `table_size`, like all scripts that require oltp_common."""
    options = [f"--tables={load.tables}", f"--table-size={load.rows}"]
    if must_send_text(load) and NO_PREPARED_STATEMENTS not in load.options:
        options.append(NO_PREPARED_STATEMENTS)
    called = base_command(load.script, program=program, socket=socket, database=database, threads=load.threads)
    return [*called, *duration_options(load), *options, *load.options, "run"]


def duration_options(load: Load) -> list[str]:
    """Returns the options for the duration: the load continues after the warm-up without a break.

    The final report covers only the seconds after the warm-up."""
    warming = [f"--report-checkpoints={load.warmup_s}"] if load.warmup_s else []
    return [f"--time={load.warmup_s + load.seconds}", *warming]


def base_command(script: str, *, program: Path, socket: Path, database: str, threads: int) -> list[str]:
    return [
        str(program), script, f"--threads={threads}", "--events=0", "--report-interval=1", "--histogram=on",
        "--percentile=99", "--db-driver=mysql", "--mysql-ssl=off", f"--mysql-user={ADMIN}", "--mysql-password=",
        f"--mysql-socket={socket}", f"--mysql-db={database}",
    ]  # fmt: skip


@dataclass(frozen=True)
class Interval:
    """One line of the interval report, which sysbench prints every second about the previous second."""

    at_s: float
    """Seconds since the start of the measurement; negative during the warm-up."""
    qps: float
    tps: float
    errors: float
    """Ignored errors per second."""


@dataclass(frozen=True)
class Report:
    """The final report of sysbench, and all lines of its interval report."""

    queries: int
    transactions: int
    """Number of transactions, or of events if the script has no transactions."""
    seconds: float
    errors: int
    """Number of ignored errors, which are mostly deadlocks."""
    latency_mean_ms: float | None
    """Mean latency of a transaction. None if there was no transaction."""
    latency_p50_ms: float | None
    """The percentiles come from the histogram. Its buckets are 1.8 % apart and each event is counted in the nearest
    one, so that a percentile is exact to 1 %. None if an option has turned the histogram off."""
    latency_p95_ms: float | None
    latency_p99_ms: float | None
    latency_p999_ms: float | None
    latency_max_ms: float | None
    intervals: tuple[Interval, ...]

    @property
    def qps(self) -> float:
        return self.queries / self.seconds

    @property
    def tps(self) -> float:
        return self.transactions / self.seconds


_FIGURE = r"\d{1,20}(?:\.\d{1,20})?"
_COUNT = r"\d{1,20}"
_PLAIN = re.MULTILINE | re.ASCII
_INTERVAL_LINE = re.compile(
    rf"^\[ (?P<at>{_FIGURE})s \] thds: \d+ tps: (?P<tps>{_FIGURE}) qps: (?P<qps>{_FIGURE}) [^\n]{{0,200}}?"
    rf"lat \(ms,[\d.]+%\): {_FIGURE} err/s:? (?P<errors>{_FIGURE})",
    _PLAIN,
)
_HISTOGRAM_LINE = re.compile(rf"^ *(\d{{1,20}}\.\d{{1,20}}) \|\** +({_COUNT})$", _PLAIN)
_QUERIES = re.compile(rf"^ +total: +({_COUNT})$", _PLAIN)
_TRANSACTIONS = re.compile(rf"^ +transactions: +({_COUNT}) ", _PLAIN)
_ERRORS = re.compile(rf"^ +ignored errors: +({_COUNT}) ", _PLAIN)
_SECONDS = re.compile(rf"^ +total time: +({_FIGURE})s$", _PLAIN)
_MEAN = re.compile(rf"^ +avg: +({_FIGURE})$", _PLAIN)
_MAX = re.compile(rf"^ +max: +({_FIGURE})$", _PLAIN)


def parse_report(text: str) -> Report:
    """Parses the output of sysbench; raises RecoveryError if it contains no complete report."""
    ends_s = [float(seconds) for seconds in _SECONDS.findall(text)]
    if len(ends_s) <= text.count(CHECKPOINT):
        raise _missing_report(text)
    # At a checkpoint sysbench resets its counters, but its time still counts from the start.
    began_s = ends_s[-2] if len(ends_s) > 1 else 0.0
    transactions = int(_last_match(_TRANSACTIONS, text))
    bars = [(float(value), int(count)) for value, count in _HISTOGRAM_LINE.findall(text)]
    p50, p95, p99, p999 = (percentile(bars, share) for share in (50, 95, 99, 99.9))
    return Report(
        queries=int(_last_match(_QUERIES, text)),
        transactions=transactions,
        seconds=max(ends_s[-1] - began_s, _TIME_RESOLUTION_S),
        errors=int(_last_match(_ERRORS, text)),
        latency_mean_ms=float(_last_match(_MEAN, text)) if transactions else None,
        latency_p50_ms=p50,
        latency_p95_ms=p95,
        latency_p99_ms=p99,
        latency_p999_ms=p999,
        latency_max_ms=float(_last_match(_MAX, text)) if transactions else None,
        intervals=parse_intervals(text, began_s),
    )


def parse_intervals(text: str, began_s: float) -> tuple[Interval, ...]:
    """Returns the lines of the interval report, also of a run that was stopped before its final report."""
    return tuple(
        Interval(
            at_s=float(match["at"]) - round(began_s),
            qps=float(match["qps"]),
            tps=float(match["tps"]),
            errors=float(match["errors"]),
        )
        for match in _INTERVAL_LINE.finditer(text)
    )


def percentile(bars: Sequence[tuple[float, int]], share: float) -> float | None:
    """Returns a percentile of the histogram, computed as sysbench does it; None if the histogram is empty.

    It is the first bucket at which the cumulative count reaches `share` percent of all events."""
    rank = int(sum(count for _, count in bars) * share / 100 + 0.5)
    counted = 0
    for value, count in bars:
        counted += count
        if counted >= rank:
            return value
    return None


def _last_match(pattern: re.Pattern[str], text: str) -> str:
    """Returns the last match, which is from the final report; earlier ones are from the checkpoint."""
    matches = pattern.findall(text)
    if not matches:
        raise _missing_report(text)
    return str(matches[-1])


def _missing_report(text: str) -> RecoveryError:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return RecoveryError(
        f"sysbench has printed no report; its last line is: {lines[-1][:200] if lines else '(nothing)'}",
        "the scripts of sysbench 1.0 print one; a script of your own must leave it as it is",
    )


def resolve_script(name: str) -> str:
    """Returns the script of a Load for a name given by the user; raises UsageError if there is no such script.

    `read-only` and `oltp_read_only` are scripts of sysbench. A name with a slash or ending in .lua is a file."""
    if "/" in name or name.endswith(".lua"):
        path = expand_path(Path(name)).absolute()
        if not path.is_file():
            raise UsageError(
                f"there is no script {name}", "give the path of a Lua script for sysbench", option="workload"
            )
        return str(path)
    if name in WORKLOADS.values():
        return name
    if name not in WORKLOADS:
        raise UsageError(
            f"{name}: there is no such workload",
            f"there are {', '.join(WORKLOADS)}; or give the path of a Lua script",
            option="workload",
        )
    return WORKLOADS[name]


# --- Client programs as child processes

GRACE_S = 30.0
"""Seconds that a client may run beyond its time, because sysbench waits for pending answers."""
_TERM_TIMEOUT_S = 5.0
"""Seconds between SIGTERM and SIGKILL."""
_READ_BYTES = 1 << 20
_SERVER_ERROR = re.compile(r"\berr(?:or|no)\b\W{0,3}\d+")
"""Matches an error sent by the server: `error 1049: …`, `Got error: 1146: …`, `errno = 1062, …`."""


@dataclass(frozen=True)
class ClientResult:
    text: str
    """The standard output; empty if it was only counted."""
    code: int
    """The exit code; negative for a signal."""
    cpu_s: float
    """User and system time. It includes about 20 ms of the wrapper die_with_parent.py."""
    written_bytes: int
    """Number of bytes written to the standard output."""


class Client:
    """A context manager that runs a client program and ends it on exit.

    The program runs in a separate session, so that Ctrl-C at the terminal reaches only the tool, which then ends the
    program. If the tool is killed, the kernel ends the program. The kernel also does so when the thread that started it
    ends, so that thread must live longer than the program."""

    def __init__(
        self, name: str, command: Sequence[str], *, cpus: frozenset[int] | None = None, only_count: bool = False
    ) -> None:
        """With `only_count`, the output is counted and discarded, for example that of a dump."""
        self.name = name
        self.command = tuple(command)
        self._cpus = cpus
        self._only_count = only_count
        self._running: _ChildProcess | None = None
        self._ended: ClientResult | None = None

    def __enter__(self) -> Self:
        cpus = ",".join(map(str, sorted(self._cpus or ())))
        wrapper = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()), cpus]
        try:
            # A signal that arrives meanwhile raises here, inside the try block: __exit__ would not be called for it.
            with defer_signals():
                self._running = _ChildProcess([*wrapper, *self.command], only_count=self._only_count)
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
        """Returns the CPU time used so far; None if unknown."""
        return procfs.process_cpu_s(self.pid) if self._ended is None else self._ended.cpu_s

    def has_ended(self, timeout_s: float = 0) -> bool:
        return self._ended is not None or (self._running is not None and self._running.has_ended(timeout_s))

    def has_said(self, words: str, timeout_s: float) -> bool:
        """Returns whether the words appear in the output within that time, or before the program ends."""
        assert self._running is not None, "it has not begun"
        return self._running.has_written(words.encode(), timeout_s)

    def wait(self, timeout_s: float) -> ClientResult:
        """Waits until the program ends by itself, and returns its result.

        Raises RecoveryError if it fails or has not ended GRACE_S after `timeout_s`."""
        if not self.has_ended(timeout_s + GRACE_S):
            self._end()
            raise RecoveryError(
                f"{self.name} still ran {GRACE_S:.0f} s after its end time, and was stopped",
                "its server hangs, or answers too slowly for what was asked of it",
            )
        self._end()
        assert self._ended is not None
        assert self._running is not None
        if self._ended.code != 0:
            how = f"signal {-self._ended.code}" if self._ended.code < 0 else f"code {self._ended.code}"
            line = shorten(self._running.reason, length=300) or "it gave no reason"
            raise RecoveryError(f"{self.name} failed ({how}): {line}", f"its command: {shlex.join(self.command)}")
        return self._ended

    def stop(self) -> ClientResult:
        """Ends the program and returns its result. The exit code is meaningless, and the output may be incomplete."""
        self._end()
        assert self._ended is not None, "it has not begun"
        return self._ended

    def _end(self) -> None:
        with defer_signals():
            if self._running is not None and self._ended is None:
                self._ended = self._running.end()


class _ChildProcess:
    """A child process from its start until it is reaped. Until then its process ID is not reused."""

    def __init__(self, command: list[str], *, only_count: bool) -> None:
        self._chunks: list[bytes] = []
        self._news = threading.Condition()
        """Notified when output arrives and when the output ends."""
        self._has_written_all = False
        self._written_bytes = 0
        self._only_count = only_count
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - read, and closed, after its end
        """The standard error output."""
        self.reason = ""
        """The line of its output that says why it failed; set once it has ended."""
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._complaints, bufsize=0,
                start_new_session=True, env={**os.environ, "LC_ALL": "C"},
            )  # fmt: skip
        except OSError as error:
            raise HostUnfitError(f"{command[0]} cannot be run: {error.strerror}", "install Python again") from error
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
        return has_process_ended(self._pidfd, timeout_s)

    def has_written(self, words: bytes, timeout_s: float) -> bool:
        """Returns whether the words appear in the output within that time, or before the output ends."""

        def has_words() -> bool:
            return words in b"".join(self._chunks)

        with self._news:
            self._news.wait_for(lambda: has_words() or self._has_written_all, timeout_s)
            return has_words()

    def end(self) -> ClientResult:
        """Ends the process and its children, reaps it, and returns its result."""
        if not self.has_ended(0):
            self._signal(signal.SIGTERM)
            self.has_ended(_TERM_TIMEOUT_S)
        # This also kills its children: as long as one keeps the pipe open, the reader thread does not end.
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
            self.reason = failure_line(text + "\n" + self._complaints.read().decode(errors="replace"))
        return ClientResult(
            text=text,
            code=self._process.returncode,
            cpu_s=used.ru_utime + used.ru_stime,
            written_bytes=self._written_bytes,
        )

    def _read(self) -> None:
        """Runs in a thread and reads the output until its end. A process that writes to a full pipe would block."""
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


def failure_line(output: str) -> str:
    """Returns the last line that contains an error of the server; if there is none, the last line.

    The lines that sysbench prints after the server's error are less informative."""
    lines = output.strip().splitlines()
    return next(filter(_SERVER_ERROR.search, reversed(lines)), lines[-1] if lines else "").strip()
