"""Starts, queries, kills and stops the server of one data directory, with at most one process at a time."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql

from recovery.errors import RecoveryError, ServerFailedError
from recovery.linux.cgroups import LimitGroup
from recovery.linux.signals import defer_signals
from recovery.linux.storage import Device, device_of
from recovery.logs.error_log import EventKind, classify
from recovery.logs.log_tail import LogLine, last_lines
from recovery.logs.phases import with_first_query
from recovery.logs.start_progress import Totals
from recovery.model import Build, Measurement, RedoSpan, Startup, with_read_rate
from recovery.mysqld import client
from recovery.mysqld.launcher import Exit, Launch, Launcher, RunDirs, ServerProcess
from recovery.mysqld.options import base_settings, merge
from recovery.mysqld.redo_log import redo_span
from recovery.mysqld.startup import (
    DEFAULT_STALL_S,
    PhaseFollower,
    StallDetector,
    describe_exit,
    server_failure,
    wait_for_exit,
    wait_until_ready,
)
from recovery.mysqld.startup_sampler import StartupSampler

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor


_POLL_S = 2.0
_RETRY_S = 0.001
_EXIT_GRACE_S = 1.0
_KILL_LIMIT_S = 120.0
"""How long to wait for a killed process. It frees its memory and waits for pending requests; if that takes longer, the
storage hangs."""

StartCompanion = Callable[[int], AbstractContextManager[object]]
"""Returns, for a pid, a context that is active from the exec of the process to its first answer."""


@dataclass(frozen=True)
class ServerConfig:
    """How each process of a server is started, and where its logs go."""

    launcher: Launcher
    build: Build
    logdir: Path
    """The folder for the error logs of this server, one for each start."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """All options in addition to the base ones: those of the experiment and of the user."""
    group: LimitGroup | None = None
    """The control group that gives every process of this server the same limits; None if there are no limits."""
    keys: Path | None = None
    """The folder of the keys of encrypted tables; None if there are no such tables."""
    preload: tuple[Path, ...] = ()
    """Libraries for LD_PRELOAD."""
    stall_s: float = DEFAULT_STALL_S
    """Seconds without progress after which the server counts as hung."""
    follower: PhaseFollower | None = None
    """Called with each phase of a start."""
    table_files: int | None = None
    """Number of the tables' files, for the time left of a start: counting them would warm their folders."""


class Server:
    """The server of one data directory, which can be started, queried, killed or stopped, and started again."""

    def __init__(self, config: ServerConfig, datadir: Path) -> None:
        self.config = config
        self.datadir = datadir
        self.on_line: Callable[[LogLine], None] | None = None
        """Called with every log line of a start as it arrives."""
        self.shutdown_s: float | None = None
        """Seconds of the last clean shutdown, from SIGTERM to the exit of the process."""
        self.device = Device()
        """The device that held the data directory at the last start."""
        self._rundirs = RunDirs()
        self._process: ServerProcess | None = None
        self._starts = 0
        self._redo: RedoSpan | None = None
        """The part of the redo log that the next start has to read, as far as known."""

    @property
    def build(self) -> Build:
        return self.config.build

    @property
    def logdir(self) -> Path:
        return self.config.logdir

    @property
    def group(self) -> LimitGroup | None:
        return self.config.group

    @property
    def settings(self) -> dict[str, str]:
        return merge(self.config.settings)

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.exited() is None

    @property
    def process(self) -> ServerProcess:
        assert self._process is not None, "this server has not been started"
        return self._process

    @property
    def socket(self) -> Path:
        return self.process.launch.socket

    def start(
        self,
        *,
        log_name: str | None = None,
        settings: Mapping[str, str] | None = None,
        companion: StartCompanion = nullcontext,
    ) -> Measurement:
        """Starts the server and times it from just before the exec. Ends a server that cannot start, and raises
        ServerFailedError with the reason."""
        if self.alive:
            raise self._failed("an earlier process of this server is still running")
        self._starts += 1
        config = self.config
        self.device = device_of(self.datadir)
        rundir = self._rundirs.next()
        chosen = merge(base_settings(config.build.version, rundir=rundir), config.settings, settings or {})
        log = config.logdir / (log_name or f"start-{self._starts:03d}.log")
        with defer_signals():
            launch = Launch(
                config.build, self.datadir, chosen, log, rundir, config.preload, group=config.group, keys=config.keys,
                oom_kills=(config.group.counted().oom_kills or 0) if config.group else 0,
            )  # fmt: skip
            process = self._process = config.launcher.launch(launch)
            redo, self._redo = self._redo, None
        sampler = StartupSampler(process.pid, self.device, since_s=process.started_at, group=config.group)
        try:
            with companion(process.pid), sampler:
                ready = wait_until_ready(
                    process,
                    version=config.build.version,
                    stall_s=config.stall_s,
                    on_line=self.on_line,
                    follower=config.follower,
                    totals=Totals(
                        config.table_files, redo, direct_io=chosen.get("innodb_flush_method") in ("O_DIRECT", "4")
                    ),
                )
                answered_at = self._first_answer(process)
        except BaseException:
            self._end()
            raise
        # Zero was read right before the spawn: `LocalLauncher.launch`, or the gate of a container.
        startup_s, first_query_s = ready.at_s - process.started_at, answered_at - process.started_at
        metrics = {"startup_s": startup_s, "first_query_s": first_query_s}
        if redo is not None:
            metrics["redo_bytes"] = redo.bytes
        startup = Startup(
            crash_proof=ready.crash_proof,
            phases=with_first_query(ready.tracker.phases(startup_s), first_query_s),
            background_phases=ready.tracker.background_phases(startup_s),
            ready_lag_s=ready.lag_s,
            start_error_s=None if process.overhead_s is None else process.started_error_s,
            engine_overhead_s=process.overhead_s,
            log_held_s=ready.tracker.held_s,
            log_errors=ready.log_errors,
            scan_threads=ready.tracker.counts.get("scan_threads"),
        )
        return Measurement(
            metrics=metrics | with_read_rate(sampler.usage, first_query_s),
            startup=startup,
            host_activity=sampler.background,
            timeline=sampler.timeline,
        )

    def _first_answer(self, process: ServerProcess) -> float:
        """Waits for the first answered query and returns its moment. The ready line does not mean that connections are
        accepted: some releases run an internal query between the line and the first accept."""
        stall = StallDetector(process)
        checked_at = time.monotonic()
        while not client.try_query(process.launch.socket, timeout_s=self.config.stall_s):
            exited = process.exited()
            if exited is not None:
                raise self._failed(f"after its ready line {describe_exit(process, exited)}")
            if time.monotonic() - checked_at >= _POLL_S:
                checked_at = time.monotonic()
                if (why := stall.reason_to_give_up(self.config.stall_s)) is not None:
                    raise self._failed(f"the server is ready but answers nothing: {why}")
            process.wait(_RETRY_S)
        return time.monotonic()

    def connect(self, *, multi: bool = False, timeout_s: float | None = None) -> Connection[Cursor]:
        """Opens a connection as root."""
        try:
            return client.connect(self.socket, multi=multi, timeout_s=timeout_s)
        except (pymysql.Error, OSError) as error:
            raise self.failure(f"the server takes no connection: {client.message_of(error)}") from error

    @contextmanager
    def session(self) -> Iterator[Connection[Cursor]]:
        """Yields a connection for queries. Query errors and lost connections are raised as ServerFailedError."""
        with self.watched():
            connection = self.connect()
            try:
                yield connection
            except (pymysql.Error, OSError) as error:
                raise self.failure(f"the server does not answer as it should: {client.message_of(error)}") from error
            finally:
                with suppress(pymysql.Error, OSError):
                    connection.close()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Kills the server if it hangs while the caller waits for answers, however long they take.

        It hangs if its CPU and I/O have been idle for `stall_s`. Killing it ends the caller's wait, and the hang is
        reported instead of the error that follows from the kill."""
        process, stall, over = self.process, StallDetector(self.process), threading.Event()
        hung: ServerFailedError | None = None

        def watch_over() -> None:
            nonlocal hung
            while not over.wait(min(_POLL_S, self.config.stall_s / 4)):
                if (why := stall.reason_to_give_up(self.config.stall_s)) is not None and process.exited() is None:
                    hung = self._failed(f"the server hangs: {why}")
                    process.signal(signal.SIGKILL)
                    return

        watcher = threading.Thread(target=watch_over, name="watch-over", daemon=True)
        watcher.start()
        try:
            yield
        except Exception as error:
            if hung is None:
                raise
            raise hung from error
        finally:
            over.set()
            watcher.join()

    def variables(self, names: Iterable[str]) -> dict[str, str]:
        with self.session() as connection:
            return client.variables(connection, names)

    def kill(self) -> Exit:
        """Sends SIGKILL, waits until the process is gone, and checks that it died of that signal: otherwise the crash
        was not ours."""
        process = self._running_process("killed")
        process.signal(signal.SIGKILL)
        exited = process.wait(_KILL_LIMIT_S)
        if exited is None:
            raise self._failed(f"the killed server is still running after {_KILL_LIMIT_S:.0f} s")
        if exited.signal != signal.SIGKILL:
            raise self._failed(f"expected exit by signal 9, but {describe_exit(process, exited)}")
        self.measure_redo()
        return exited

    def stop(self) -> Exit:
        """Shuts the server down cleanly, however long that takes while it does anything. Raises ServerFailedError
        unless it exits with code 0 and logs its shutdown."""
        process = self._running_process("stopped")
        asked_at = time.monotonic()
        process.signal(signal.SIGTERM)
        exited = wait_for_exit(process, self.config.stall_s)
        if isinstance(exited, str):
            hung = self._failed(f"the shutdown hung: {exited}")
            self._end()
            raise hung
        if exited != Exit(code=0, signal=None):
            raise self._failed(f"the shutdown was not clean: {describe_exit(process, exited)}")
        events = filter(None, map(classify, last_lines(process.launch.log, 50)))
        if not any(event.kind is EventKind.SHUTDOWN for event in events):
            raise self._failed("the server ended without a shutdown message in its log")
        assert process.ended_at is not None, "its exit was read"
        self.shutdown_s = process.ended_at - asked_at
        self.measure_redo()
        return exited

    def measure_redo(self) -> None:
        """Measures how much redo the next start has to read. This comes right after the end of a server, before the
        caches are emptied, because some blocks of the log are read."""
        self._redo = None
        with suppress(RecoveryError, OSError):
            self._redo = redo_span(self.datadir)

    def _running_process(self, about_to_be: str) -> ServerProcess:
        """Returns the process that will be ended now. Raises ServerFailedError if it has already ended, because that
        was not our doing."""
        process = self.process
        if (earlier := process.exited()) is not None:
            how = describe_exit(process, earlier)
            raise self._failed(f"the server had already ended before it was {about_to_be}: {how}")
        return process

    def close(self) -> None:
        """Ends the process in any state, and removes the run folders."""
        self._end()
        self._rundirs.remove()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self) -> None:
        """Kills the process if it still runs, and what it has left running. A second Ctrl-C is deferred until that is
        done, because it would leave the server running."""
        with defer_signals():
            if self._process is None:
                return
            if self._process.exited() is None:
                self._process.signal(signal.SIGKILL)
                self._process.wait(_KILL_LIMIT_S)
            self._process.end_detached()

    def failure(self, what: str) -> ServerFailedError:
        """Returns the error for a caller that fails while it talks to the server. Waits until it is known whether the
        process still lives, because a connection breaks before its process is gone."""
        self.process.wait(_EXIT_GRACE_S)
        return self._failed(what)

    def _failed(self, what: str) -> ServerFailedError:
        return server_failure(self.process, what)
