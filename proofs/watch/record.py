"""Records crash starts of real servers from outside: log, /proc, and the rows that a rollback has still to undo."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from bench.site import quiet, scratch

from recovery.builds.image_resolve import resolve_image
from recovery.builds.resolve import Sources, resolve_server
from recovery.errors import RecoveryError
from recovery.experiments.bench_cache import BenchCache
from recovery.linux import docker_engine
from recovery.linux.cgroups import LimitGroup, controller_settings, server_limits
from recovery.linux.page_cache import direct_cache_dropper
from recovery.linux.procfs import TICKS_PER_S, process_io, process_stat
from recovery.logs.log_tail import LogTail
from recovery.model import Build, Limits
from recovery.mysqld.container import ContainerLauncher
from recovery.mysqld.launcher import Launcher, ServerProcess
from recovery.mysqld.local import LocalLauncher
from recovery.mysqld.redo_log import read_page_bytes, redo_span
from recovery.mysqld.server import Server
from recovery.mysqld.table_files import table_files
from watch.loads import LOAD, Load
from watch.recording import Conditions, Recording, file_of
from watch.states import FEW, REDO, ROLLBACK, CrashedData, Sizes, rows_to_undo

DEBIAN_SID = "debian-sid"
SERVERS = ("5.6.24", "5.7.22", "8.0.31", DEBIAN_SID, "mariadb-10.2.11", "mariadb-10.11.5", "mariadb-11.4.5")
_SAMPLE_S = 0.25
_STOP_AFTER_S, _STOPPED_S = 2.5, 12.0
_ROLLBACK_LIMIT_S = 120.0
_SLOW, _VERY_SLOW = 3000, 500
_ANY_BPS, _BLOCKED_BPS = 1 << 40, 1
"""Limits of bytes read a second: none in effect, and one under which no read returns."""
_OF_ALL = (
    Conditions(FEW, "cold"),
    Conditions(FEW, "warm"),
    Conditions(FEW, "cold", _SLOW),
    Conditions(REDO, "cold"),
    Conditions(REDO, "warm"),
    Conditions(REDO, "cold", _SLOW),
    Conditions(ROLLBACK, "cold"),
    Conditions(ROLLBACK, "warm"),
    Conditions(ROLLBACK, "cold", _SLOW),
)
_STOPPED_FILES, _STOPPED_REDO = (Conditions(state, "cold", _SLOW, is_stopped=True) for state in (FEW, REDO))
_BLOCKED_FILES, _BLOCKED_REDO = (Conditions(state, "cold", _SLOW, is_blocked=True) for state in (FEW, REDO))
_OF_SOME = {
    "5.6.24": (_STOPPED_FILES,),
    "5.7.22": (_STOPPED_FILES, _BLOCKED_FILES, Conditions(FEW, "cold", _VERY_SLOW)),
    "8.0.31": (
        _STOPPED_FILES,
        _BLOCKED_FILES,
        Conditions(FEW, "cold", _VERY_SLOW),
        Conditions(REDO, "cold", _VERY_SLOW),
    ),
    DEBIAN_SID: (_STOPPED_FILES,),
    "mariadb-10.2.11": (_STOPPED_FILES, Conditions(FEW, "cold", _VERY_SLOW)),
    "mariadb-10.11.5": (
        _STOPPED_REDO,
        _BLOCKED_REDO,
        Conditions(FEW, "cold", _VERY_SLOW),
        Conditions(REDO, "cold", _VERY_SLOW),
    ),
    "mariadb-11.4.5": (_STOPPED_REDO,),
}
"""Starts that take minutes, or show what a stopped server looks like: not of each server."""


def planned(version: str, loads: Sequence[int] = ()) -> Sequence[Conditions]:
    """Returns the starts to record of a server; those of one state follow each other. With loads, only theirs."""
    if loads:
        states = [f"{LOAD}-{seed}" for seed in loads]
        return [Conditions(state, "cold", iops) for state in states for iops in Load.of(state).read_iops]
    return sorted((*_OF_ALL, *_OF_SOME.get(version, ())), key=lambda one: (FEW, REDO, ROLLBACK).index(one.state))


def missing(folder: Path, version: str, loads: Sequence[int] = ()) -> Sequence[Conditions]:
    return [one for one in planned(version, loads) if not file_of(folder, version, one).exists()]


def fetch(version: str) -> tuple[Build, Launcher]:
    """Returns a server from the catalog, or the newest one of Debian in a container."""
    if version != DEBIAN_SID:
        return resolve_server(version, Sources(), print), LocalLauncher()
    with closing(docker_engine.connect()) as docker:
        return resolve_image(version, Sources(), print, docker), ContainerLauncher(docker_engine.endpoint().url)


def record_server(
    folder: Path, data: Path, version: str, sizes: Sizes, loads: Sequence[int] = ()
) -> Iterator[Recording]:
    """Records the missing starts of a server, and stores each when it has ended."""
    left = missing(folder, version, loads)
    if not left:
        return
    build, launcher = fetch(version)
    with scratch(data) as site, closing(CrashedData(site.folder, build, launcher, sizes)) as crashed:
        crashed.make()
        for state in dict.fromkeys(one.state for one in left):
            crashed.crash(state)
            for conditions in [one for one in left if one.state == state]:
                recording = _record(crashed, version, conditions, is_last=conditions is _last_of(left, state))
                recording.write(folder)
                yield recording


def _last_of(left: Sequence[Conditions], state: str) -> Conditions:
    return [one for one in left if one.state == state][-1]


def _record(crashed: CrashedData, version: str, conditions: Conditions, *, is_last: bool) -> Recording:
    """Records one start. After the last one of a state the server is shut down, otherwise killed."""
    crashed.restore()
    span, files = redo_span(crashed.datadir), _count_files(crashed.datadir)
    recording = Recording(
        version,
        conditions,
        crashed.sizes.tables,
        crashed.settings(conditions.state),
        datetime.now(UTC).isoformat(timespec="seconds"),
        files,
        None if span is None else span.checkpoint_lsn,
        None if span is None else span.end_lsn,
        read_page_bytes(crashed.datadir / "ibdata1"),
        release=crashed.build.version.text,
    )
    cache = BenchCache(
        crashed.datadir, table_files(crashed.datadir, crashed.schema), direct_cache_dropper(), on_step=quiet
    )
    if conditions.cache == "warm":
        cache.read_all()
    else:
        cache.make_cold()
    limits = Limits(read_iops=conditions.read_iops, read_bps=_ANY_BPS if conditions.is_blocked else None)
    with server_limits(limits, crashed.datadir) as group, crashed.server(conditions.state, group) as server:
        observer = _Observer(recording, server, group)
        try:
            recording.startup_s = server.start(companion=observer.begin).metrics["startup_s"]
            method = server.variables(["innodb_flush_method"]).get("innodb_flush_method", "")
            recording.direct_io = method.startswith("O_DIRECT")
            if conditions.state == ROLLBACK:
                observer.follow_rollback()
        finally:
            observer.end()
        if is_last:
            server.stop()
        else:
            server.kill()
    return recording


def _count_files(datadir: Path) -> int:
    return sum(name.endswith(".ibd") for _, _, names in os.walk(datadir) for name in names)


class _Observer:
    """A thread that reads the log as it grows, and the counters of the process four times a second."""

    def __init__(self, recording: Recording, server: Server, group: LimitGroup | None) -> None:
        self._recording, self._server, self._group = recording, server, group
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, _pid: int) -> AbstractContextManager[object]:
        """Begins with the process. It goes on after the first answer, until `end`."""
        self._thread = threading.Thread(
            target=self._observe, args=(self._server.process,), name="observer", daemon=True
        )
        self._thread.start()
        return _nothing()

    def end(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def follow_rollback(self) -> None:
        """Waits until no transaction of before the crash is left to undo, and stores how many rows there were."""
        zero, began_s = self._server.process.started_at, time.monotonic()
        while time.monotonic() - began_s < _ROLLBACK_LIMIT_S:
            rows = rows_to_undo(self._server)
            self._recording.rows.append((round(time.monotonic() - zero, 3), rows))
            if rows == 0:
                break
            time.sleep(2 * _SAMPLE_S)
        time.sleep(1.0)  # the last line of the log follows

    def _observe(self, process: ServerProcess) -> None:
        zero, began_s, next_s = process.started_at, time.thread_time(), 0.0
        halts = self._recording.conditions.is_stopped or self._recording.conditions.is_blocked
        stop_at_s = _STOP_AFTER_S if halts else None
        with LogTail(process.launch.log) as tail:
            poller = select.poll()
            poller.register(tail.fd, select.POLLIN)
            while not self._over.is_set():
                now_s = time.monotonic() - zero
                if now_s >= next_s:
                    self._sample(process.pid, zero)
                    next_s = max(now_s, next_s) + _SAMPLE_S
                if stop_at_s is not None and now_s >= stop_at_s:
                    self._stop_or_continue(process, now_s)
                    stop_at_s = stop_at_s + _STOPPED_S if stop_at_s == _STOP_AFTER_S else None
                wait_s = max(0.0, next_s - (time.monotonic() - zero))
                poller.poll(wait_s * 1000)
                before = len(self._recording.lines)
                for line in tail.read():
                    self._recording.lines.append((round(line.arrived_s - zero, 3), line.text, line.complete))
                if len(self._recording.lines) > before:
                    self._sample(process.pid, zero)
        self._recording.watch_cpu_s = round(time.thread_time() - began_s, 3)

    def _sample(self, pid: int, zero: float) -> None:
        stat, io = process_stat(pid), process_io(pid)
        if stat is not None and io is not None:
            counters = (io[name] for name in ("syscr", "rchar", "wchar", "read_bytes", "write_bytes"))
            at_s = round(time.monotonic() - zero, 3)
            self._recording.samples.append((at_s, *counters, stat.cpu_ticks / TICKS_PER_S, stat.state))

    def _stop_or_continue(self, process: ServerProcess, now_s: float) -> None:
        if self._recording.stopped is None:
            if any("ready for connections" in text for _, text, _ in self._recording.lines):
                return
            with suppress(RecoveryError, OSError):
                self._halt(process, halts=True)
                self._recording.stopped = (round(now_s, 3), round(now_s + _STOPPED_S, 3))
        else:
            self._recording.stopped = (self._recording.stopped[0], round(now_s, 3))
            self._halt(process, halts=False)

    def _halt(self, process: ServerProcess, *, halts: bool) -> None:
        """Stops the server or blocks its storage, or lets it go on."""
        if self._recording.conditions.is_stopped:
            process.signal(signal.SIGSTOP if halts else signal.SIGCONT)
            return
        assert self._group is not None
        limits = replace(self._group.limits, read_bps=_BLOCKED_BPS if halts else _ANY_BPS)
        LimitGroup(limits, self._group.name, controller_settings(limits, self._server.datadir)).make()


@contextmanager
def _nothing() -> Iterator[None]:
    yield
