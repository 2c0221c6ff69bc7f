"""Compares the same crash recovery with the server started in two ways, which alternate."""

from __future__ import annotations

import os
import pty
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TextIO

from bench.site import Site, quiet
from recovery.builds.image_resolve import resolve_image
from recovery.builds.resolve import Sources
from recovery.cli.progress_view import ProgressDisplay, Screen
from recovery.errors import ServerFailedError
from recovery.experiments.bench import Bench
from recovery.experiments.bench_starts import Conditions
from recovery.experiments.crash_recovery import end_after_inserts
from recovery.linux import docker_engine
from recovery.linux.page_cache import direct_cache_dropper
from recovery.linux.procfs import process_id
from recovery.logs.error_log import microsecond_stamp
from recovery.logs.log_tail import last_lines
from recovery.model import Build, Cache, ExtraRun, Schema, Trial, Variant
from recovery.mysqld import client
from recovery.mysqld.container import ContainerLauncher
from recovery.mysqld.datadir import DataDir
from recovery.mysqld.launcher import child_open_files, environment, open_files_limit
from recovery.session import progress
from recovery.session.progress import Progress
from recovery.workload.inserts import execute_inserts, insert_statements

BARE, TOOL, TRACED, CONTAINER = "bare loop", "tool", "tool with --trace", "tool, container"
_READY = b"ready for connections"
_LOOP_S = 0.1
_RETRY_S = 0.001
_ANSWER_S = 60.0


@dataclass(frozen=True)
class Start:
    """One timed crash recovery."""

    way: str
    pair: int
    version: str
    tables: int
    cache: str
    ready_s: float
    """From right before the exec to the server's own time stamp of its ready line, so no observer times itself."""
    cpu_s: float
    """CPU time of this process meanwhile."""
    lag_s: float | None = None
    """From that time stamp to the arrival of the line, if the tool was watching."""
    engine_s: float | None = None
    """Time of the container engine before the exec."""


def compare(
    site: Site, build: Build, tables: int, ways: tuple[str, str], *, cache: Cache = Cache.WARM, count: int
) -> Iterator[Start]:
    """Yields pairs of starts over one data directory; the order within a pair alternates.

    A first pair is not counted: it warms the files."""
    with site.staged(build, tables) as stage, _terminal() as terminal, ExitStack() as stack:
        benches = {way: stack.enter_context(_bench(site, build, stage, way)) for way in ways}
        for bench in benches.values():
            end_after_inserts(bench, bench.kill)
        for pair in range(count + 1):
            for way in ways if pair % 2 else reversed(ways):
                if cache is Cache.COLD:
                    benches[way].cache.make_cold()
                start = partial(Start, way, pair, str(build.version), tables, cache.value)
                found = _bare(benches[way], start) if way == BARE else _watched(benches[way], start, terminal)
                if pair:
                    yield found


@contextmanager
def _bench(site: Site, build: Build, stage: DataDir, way: str) -> Iterator[Bench]:
    """As a session makes one."""
    schema, launcher = Schema(stage.state.tables or 1), None
    if way == CONTAINER:
        with closing(docker_engine.connect()) as docker:
            image = resolve_image(str(build.version), Sources(mysqld=str(build.mysqld)), quiet, docker)
        assert image.fingerprint == build.fingerprint, "the same executable"
        build, launcher = image, ContainerLauncher(docker_engine.endpoint().url)
    conditions = Conditions(insert_statements(schema), dropper=direct_cache_dropper())
    with site.server(build, stage.mysql, launcher=launcher) as server:
        bench = Bench(server, stage, schema, conditions=conditions)
        bench.configure(Variant("", Cache.WARM), extra=ExtraRun.TRACE if way == TRACED else None, repeat=1)
        yield bench


def _watched(bench: Bench, start: partial[Start], terminal: TextIO) -> Start:
    """Times a start with everything that a session does meanwhile."""
    with _progress_shown(bench, terminal):
        used_s = time.process_time()
        startup = bench.timed_start(f"{time.monotonic_ns()}.err")
        used_s = time.process_time() - used_s
    bench.contents.run_inserts()
    bench.kill()
    assert startup.startup.crash_proof is not None
    assert startup.startup.ready_lag_s is not None, "this server does not stamp microseconds"
    return start(
        startup.metrics["startup_s"] - startup.startup.ready_lag_s,
        used_s,
        startup.startup.ready_lag_s,
        startup.startup.engine_overhead_s,
    )


def _bare(bench: Bench, start: partial[Start]) -> Start:
    """Times a start as a script does: runs the command of the last start again, and polls its log."""
    launch = bench.server.process.launch
    options = launch.rundir / "my.cnf"
    for left in set(launch.rundir.iterdir()) - {options}:
        left.unlink()  # the socket and the pid file of the killed server
    log = launch.log.with_name(f"{time.monotonic_ns()}.err")
    with log.open("ab") as output, child_open_files(open_files_limit()):
        used_s, began_s = time.process_time(), time.time()
        process = subprocess.Popen(
            [launch.build.mysqld, f"--defaults-file={options}"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment(launch),
            cwd=launch.rundir,
            start_new_session=True,
        )
    try:
        while _READY not in log.read_bytes():
            _check_runs(process, log)
            time.sleep(_LOOP_S)
        used_s = time.process_time() - used_s
        while not client.try_query(launch.socket, timeout_s=_ANSWER_S):
            _check_runs(process, log)
            time.sleep(_RETRY_S)
        with closing(client.connect(launch.socket)) as connection:
            execute_inserts(connection, bench.conditions.statements)
    finally:
        process.kill()
        process.wait()
    return start(_ready_stamp(log) - began_s, used_s)


def _check_runs(process: subprocess.Popen[bytes], log: Path) -> None:
    if process.poll() is not None:
        raise ServerFailedError("the server ended by itself", log_tail=last_lines(log))


def _ready_stamp(log: Path) -> float:
    line = next(line for line in log.read_bytes().splitlines() if _READY in line)
    stamp = microsecond_stamp(line.decode(errors="replace"))
    assert stamp is not None, "this server does not stamp microseconds"
    return stamp


@contextmanager
def _progress_shown(bench: Bench, terminal: TextIO) -> Iterator[None]:
    """Shows the progress as a session does: on a terminal, and in the file for `recovery status`."""
    version = bench.server.build.version
    screen = Screen(terminal)
    screen.live = True
    reporter = ProgressDisplay(
        Progress(
            experiment="warm-recovery",
            versions=(str(version),),
            command="recovery bench",
            results="",
            began_s=time.monotonic(),
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            pid=os.getpid(),
            owner=process_id(),
        ),
        screen=screen,
        record=partial(progress.write_status_file, bench.server.logdir / "status"),
    )
    bench.server.config = replace(bench.server.config, follower=reporter.follow)
    bench.on_step = lambda step: reporter.event(Progress.doing, step)
    with reporter.active():
        reporter.event(Progress.trial_began, Trial(1, version, Variant(Cache.WARM.value, Cache.WARM), 1))
        yield


@contextmanager
def _terminal() -> Iterator[TextIO]:
    """Makes a hidden terminal, which another process reads."""
    ours, theirs = pty.openpty()
    reader = subprocess.Popen(["cat"], stdin=ours, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(ours)
    try:
        with os.fdopen(theirs, "w") as stream:
            yield stream
    finally:
        reader.wait()
