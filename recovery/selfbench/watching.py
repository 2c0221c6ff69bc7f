"""Is the ready line seen at once, and does watching cost the server anything?"""

from __future__ import annotations

import contextlib
import signal
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recovery.builds.libraries import eatmydata
from recovery.errors import ServerFailedError
from recovery.host.datadir import DataDir
from recovery.host.opens import OpenTrace
from recovery.host.tablefiles import table_files
from recovery.load.insert import fire, insert_statements
from recovery.model import Build, Schema
from recovery.selfbench.site import Site
from recovery.server import client
from recovery.server.errorlog import Kind, classify, stamp_of
from recovery.server.launcher import Launch, Life
from recovery.server.local import LocalLauncher
from recovery.server.options import base_settings, merge, test_settings
from recovery.server.rundirs import RunDirs
from recovery.server.watcher import watch
from recovery.students import upper_bound_95

# The published way, as a shell does it: look for the line every so often.
BARE_LOOP = 'until grep -q "ready for connections" "$1"; do sleep 0.1; done'
_ANSWER_S = 60.0
_RETRY_S = 0.001


@dataclass(frozen=True)
class Pair:
    """The same start, with what is held against it and without."""

    with_s: float
    bare_s: float


def lags_ms(site: Site, build: Build, staged: DataDir, *, starts: int) -> list[float]:
    """Arrival of the ready line minus the server's own stamp on it."""
    found = []
    with site.server(build, staged.mysql) as server:
        for _ in range(starts):
            lag_s = server.start().ready_lag_s
            server.stop()
            if lag_s is not None:
                found.append(1000 * lag_s)
    return found


def pairs(site: Site, build: Build, staged: DataDir, *, count: int) -> list[Pair]:
    """Warm crash recoveries, alternately under the tool and under a bare shell loop, both timed by the server's own
    stamps from its first line to its ready line: so the two ways of watching do not time themselves. Their order within
    a pair alternates too. Where libeatmydata is to be had it is preloaded in both, so that the disk's moods stay out.
    """
    return _alternately(count, lambda watched: _start(site, build, staged, watched=watched))


def traced_pairs(site: Site, build: Build, staged: DataDir, *, count: int) -> list[Pair]:
    """The same starts, all under the tool: alternately with every open and read told by the kernel, and without."""
    files = table_files(staged.mysql, Schema(1))

    def start(traced: bool) -> float:
        with OpenTrace(files) if traced else contextlib.nullcontext():
            return _start(site, build, staged, watched=True)

    return _alternately(count, start)


def _alternately(count: int, start: Callable[[bool], float]) -> list[Pair]:
    found = []
    for number in range(count + 1):
        seconds = {held: start(held) for held in ((True, False) if number % 2 else (False, True))}
        if number:  # the first pair warms the files, and begins without a crash
            found.append(Pair(seconds[True], seconds[False]))
    return found


def overhead(found: list[Pair]) -> tuple[float, float]:
    """Mean difference and its 95 % upper bound (one-sided, paired), as shares of the bare startup."""
    bare = statistics.mean(pair.bare_s for pair in found)
    differences = [pair.with_s - pair.bare_s for pair in found]
    return statistics.mean(differences) / bare, upper_bound_95(differences) / bare


def waiting_cpu_share(site: Site, build: Build, staged: DataDir, *, seconds: float) -> float:
    """Our own CPU time, as a share of a core, while a server held by SIGSTOP lets us wait until it counts as hung."""
    rundirs = RunDirs()
    life = _launch(site, build, staged, rundirs)
    life.signal(signal.SIGSTOP)
    began, used = time.monotonic(), time.process_time()
    try:
        watch(life, ready_version=build.version, stall_s=seconds)
    except ServerFailedError:
        return (time.process_time() - used) / (time.monotonic() - began)
    finally:
        life.signal(signal.SIGKILL)
        life.wait(30)
        rundirs.remove()
    raise AssertionError("a stopped server cannot become ready")


def _start(site: Site, build: Build, staged: DataDir, *, watched: bool) -> float:
    """Leaves a server that was killed over writes, as the tool's trials do: the next start has to recover."""
    rundirs = RunDirs()
    life = _launch(site, build, staged, rundirs)
    try:
        if watched:
            watch(life, ready_version=build.version)
        else:
            subprocess.run(["/bin/sh", "-c", BARE_LOOP, "sh", str(life.launch.log)], check=True, timeout=600)
        _write(life, Schema(staged.state.tables or 1))
    finally:
        life.signal(signal.SIGKILL)
        life.wait(30)
        rundirs.remove()
    return _stamped_startup_s(life.launch.log)


def _write(life: Life, schema: Schema) -> None:
    """The insert script, as soon as the server accepts."""
    while life.exited() is None and not client.try_query(life.launch.socket, timeout_s=_ANSWER_S):
        life.wait(_RETRY_S)
    with contextlib.closing(client.connect(life.launch.socket)) as connection:
        fire(connection, insert_statements(schema))


def _launch(site: Site, build: Build, staged: DataDir, rundirs: RunDirs) -> Life:
    rundir = rundirs.next()
    library = eatmydata()
    settings = merge(base_settings(build.version, rundir=rundir), test_settings(build.version))
    log = site.folder / f"start-{time.monotonic_ns()}.err"
    preload = (library,) if library else ()
    return LocalLauncher().launch(Launch(build, staged.mysql, settings, log, rundir, preload))


def _stamped_startup_s(log: Path) -> float:
    first: float | None = None
    for line in log.read_text(errors="replace").splitlines():
        stamp = stamp_of(line)
        if stamp is None:
            continue
        first = stamp if first is None else first
        event = classify(line)
        if event is not None and event.kind is Kind.READY:
            return stamp - first
    raise AssertionError(f"no stamped ready line in {log}")
