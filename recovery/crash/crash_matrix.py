"""The experiment crash-matrix: kills a server at random moments and checks what it has kept.

A server is killed during inserts, a load, DDL statements, its own recovery or a shutdown, or loses its power. It runs
over a copy of the data directory. After its recovery, rows, tables, files and log are checked against its promises."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from random import Random

from recovery.builds.packages import SYSBENCH
from recovery.crash.consistency import compare_dictionary, damage_lines, failing_tables
from recovery.crash.crash import (
    SCHEMA,
    CrashOptions,
    CrashParts,
    background_writer,
    create_journal_writer,
    log_lines,
    random_source,
    running_on_copy,
)
from recovery.crash.crash_findings import CrashFindings, broken_promises, crash_metrics
from recovery.crash.tasks import Crash, CrashMoment
from recovery.crash.writers import DdlWriter, InsertWriter, Writer
from recovery.errors import ServerFailedError, ServerKilledError, TrialVoidError
from recovery.experiments.bench import Bench
from recovery.experiments.experiment import (
    QUICK,
    STANDARD,
    TIMED_LOG,
    Experiment,
    HostCapacity,
    judge_recovery,
    option_combinations,
)
from recovery.linux.loop_device import LoopDisk
from recovery.metrics import RECOVERY_METRIC
from recovery.model import QUESTION_AXIS, Cache, Measurement, Schema, Variant, VariantSpec, can
from recovery.mysqld.server import Server

# --- One run: write, kill, start, compare

_KILLED_LOG = "killed-{}.err"

_FLUSH = "innodb_flush_log_at_trx_commit"


WRITING_S = {
    CrashMoment.INSERTS: (0.01, 1.0),
    CrashMoment.LOAD: (0.3, 3.0),
    CrashMoment.RECOVERY: (0.5, 2.0),
    CrashMoment.SHUTDOWN: (0.5, 1.5),
    CrashMoment.POWER: (0.3, 3.0),
}
"""Shortest and longest time of writing before the kill, or before the shutdown or recovery that is then killed."""
_MAX_DDL_STATEMENTS, _MAX_DDL_DELAY_S = 200, 0.03
"""DDL statements run one after the other, the same ones for the same seed. The kill comes after at most this many, up
to so many seconds later, so that it hits a running statement."""
_SHUTDOWN_S = 5.0
"""Most shutdowns take less time, with so few pages to write back."""
_STARTS_PER_RECOVERY = 2.0
"""Factor by which a recovery takes longer than a start after a clean shutdown, with so little to recover."""
_EXIT_TIMEOUT_S = 120.0
_MAX_ATTEMPTS = 4
_SCRIPT_REPEATS = 200
_DURABLE_FLUSH_VALUES = {False: ("1", "2", "3"), True: ("1", "3")}
"""Values of innodb_flush_log_at_trx_commit that promise to keep acknowledged writes: True is for a loss of power, False
for a kill of the process alone, which the kernel survives."""


@dataclass(frozen=True)
class _Kill:
    at_s: float
    """Time of the kill on the monotonic clock."""
    into_s: float
    """How long the killed activity had lasted: the writing, the shutdown or the recovery."""
    is_late: bool = False
    """Whether the recovery was already over when the kill came."""


class _ShutdownFinishedError(TrialVoidError):
    """The server had already shut down when it was to be killed."""

    def __init__(self, after_s: float, *, took_s: float) -> None:
        super().__init__(
            f"the server had shut down before the kill, {after_s:.2f} s after SIGTERM",
            "more RUNS= bring other moments",
        )
        self.took_s = took_s


def measure(bench: Bench, variant: Variant) -> Measurement:
    """Runs one crash and returns the measurement; repeats it with another moment if the kill came too late."""
    task = variant.task
    assert isinstance(task, Crash), "this variant kills nothing"
    rng = random_source(bench, variant, task)
    shutdown_s = _SHUTDOWN_S
    for more in reversed(range(_MAX_ATTEMPTS)):
        try:
            return _run_crash(bench, task, rng, shutdown_s=shutdown_s)
        except _ShutdownFinishedError as error:
            if not more:
                raise
            shutdown_s = error.took_s
        bench.clear_logs()
    raise AssertionError("the last attempt returns or raises")


def _run_crash(bench: Bench, task: Crash, rng: Random, *, shutdown_s: float) -> Measurement:
    server = bench.server
    with running_on_copy(bench, on_a_disk=task.moment is CrashMoment.POWER) as (copy, before):
        flush = server.variables([_FLUSH])[_FLUSH]
        writer = _create_writer(bench, task, rng)
        with background_writer(writer, server):
            kills = [_kill(bench, task, rng, writer, disk=copy.disk, within_s=shutdown_s)]
        if copy.disk is not None:
            copy.disk.replug()
        try:
            if task.moment is CrashMoment.RECOVERY:
                kills += _kill_recoveries(bench, task, rng, within_s=_STARTS_PER_RECOVERY * before.metrics["startup_s"])
            server.measure_redo()
            bench.on_step("timed start")
            started = server.start(log_name=TIMED_LOG, settings=bench.settings)
        except ServerFailedError as error:
            kept = None if isinstance(error, ServerKilledError) else bench.contents.set_aside(copy.mysql)
            failure = f"the server does not start after the crash: {error.message}"
            return Measurement(metrics=_kill_metrics(kills), broken_promises=tuple(filter(None, (failure, kept))))
        findings = _check_recovered(
            bench, task, writer, server.process.launch.log, flush=flush, killed_at_s=kills[0].at_s
        )
        server.stop()
    own = {RECOVERY_METRIC: started.metrics["startup_s"], **_kill_metrics(kills), **crash_metrics(findings)}
    return replace(
        started,
        metrics=own | started.metrics,
        timeline=None,  # hundreds of crashes have no use for the samples of their starts
        broken_promises=broken_promises(findings),
        # Killed during a shutdown, the server may have been done with its files. Its log may have been empty if it was
        # not flushed, or before the first acknowledged write.
        may_be_clean=task.moment is CrashMoment.SHUTDOWN
        or not findings.promised
        or not findings.violations.acknowledged,
    )


def _check_recovered(
    bench: Bench, task: Crash, writer: Writer, log: Path, *, flush: str, killed_at_s: float
) -> CrashFindings:
    """Checks rows, tables, files and logs of the recovered server; `log` is that of its
    last start, `flush` how it flushes its redo log."""
    bench.on_step("checking rows, tables and files")
    server, version = bench.server, bench.server.build.version
    with server.session() as connection:
        databases = (*bench.schema.database_names, *writer.databases)
        violations = writer.compare(server, killed_at_s=killed_at_s)
        orphans, missing = compare_dictionary(connection, version, server.datadir, databases)
        return CrashFindings(
            moment=task.moment,
            violations=violations,
            promised=flush in _DURABLE_FLUSH_VALUES[task.moment is CrashMoment.POWER],
            atomic=can(version, "atomic_definitions"),
            all_or_none=can(version, "drops_all_or_none"),
            orphans=orphans,
            missing=missing,
            failing=failing_tables(connection, databases),
            complaints=damage_lines(log_lines(*server.logdir.glob(_KILLED_LOG.format("*")), log)),
        )


def _kill_metrics(kills: Sequence[_Kill]) -> dict[str, float]:
    recoveries = kills[1:]
    cut = {"cut_short": float(sum(not kill.is_late for kill in recoveries))} if recoveries else {}
    return {"kills": float(len(kills)), "killed_after_s": kills[-1].into_s, **cut}


def _create_writer(bench: Bench, task: Crash, rng: Random) -> Writer:
    match task.moment:
        case CrashMoment.INSERTS:
            # Repeated, because one pass of the script takes less than a tenth of a second.
            return InsertWriter(bench.conditions.statements * _SCRIPT_REPEATS)
        case CrashMoment.DEFINITIONS:
            # A separate generator: threads that share one draw in an order that the seed does not determine.
            return DdlWriter(Random(rng.getrandbits(64)))  # noqa: S311 - no secret
        case _:
            return create_journal_writer(bench, rng)


def _kill(bench: Bench, task: Crash, rng: Random, writer: Writer, *, disk: LoopDisk | None, within_s: float) -> _Kill:
    """Lets the server write for a random time, kills it at the moment of the task, and returns the kill.

    `within_s` is the longest time until the kill of a shutdown."""
    server, began_s = bench.server, time.monotonic()
    bench.on_step(f"writing until the kill ({task.moment})")
    if isinstance(writer, DdlWriter):
        writer.has_answered(rng.randint(0, _MAX_DDL_STATEMENTS))
        time.sleep(rng.random() * _MAX_DDL_DELAY_S)
    else:
        time.sleep(rng.uniform(*WRITING_S[task.moment]))
    if task.moment is CrashMoment.SHUTDOWN:
        bench.on_step("shutting down until the kill")
        return _kill_shutdown(server, after_s=rng.random() * within_s)
    killed_at_s = time.monotonic()
    if disk is None:
        server.kill()
    else:
        # A server without its disk ends itself. In any case it has ended before the disk is mounted again.
        disk.lose_power()
    return _Kill(killed_at_s, killed_at_s - began_s)


def _kill_shutdown(server: Server, *, after_s: float) -> _Kill:
    """Shuts the server down and kills it after `after_s`; raises _ShutdownFinishedError if it ends before the
    kill."""
    began_s = time.monotonic()
    server.process.signal(signal.SIGTERM)
    exited = server.process.wait(after_s)
    killed_at_s = time.monotonic()
    if exited is None:
        server.process.signal(signal.SIGKILL)
        exited = server.process.wait(_EXIT_TIMEOUT_S)
    if exited is not None and exited.signal != signal.SIGKILL:
        raise _ShutdownFinishedError(after_s, took_s=killed_at_s - began_s)
    return _Kill(killed_at_s, killed_at_s - began_s)


def _kill_recoveries(bench: Bench, task: Crash, rng: Random, *, within_s: float) -> Iterator[_Kill]:
    """Kills one or more recoveries in a row and yields the kills.

    Each comes within `within_s` seconds, or less if an earlier recovery was over sooner."""
    many = rng.randint(1, task.depth)
    for number in range(1, many + 1):
        bench.on_step(f"recovering until the kill: {number} of {many}")
        kill = _kill_start(bench, _KILLED_LOG.format(number), after_s=rng.random() * within_s)
        within_s = min(within_s, kill.into_s) if kill.is_late else within_s
        yield kill


def _kill_start(bench: Bench, log_name: str, *, after_s: float) -> _Kill:
    """Starts the server and kills it after `after_s`, or right after the start if that is over sooner."""
    server, fired, is_late = bench.server, threading.Event(), False

    def kill() -> None:
        fired.set()
        server.process.signal(signal.SIGKILL)

    timer = threading.Timer(after_s, kill)

    @contextmanager
    def companion(_: int) -> Iterator[None]:
        timer.start()
        yield

    try:
        server.start(log_name=log_name, settings=bench.settings, companion=companion)
        is_late = True
    except ServerFailedError:
        if not fired.is_set():
            raise
    finally:
        timer.cancel()
    killed_at_s = time.monotonic()
    into_s = killed_at_s - server.process.started_at
    if fired.is_set():
        server.process.wait(_EXIT_TIMEOUT_S)
    else:
        server.kill()
    return _Kill(killed_at_s, into_s, is_late)


# --- The experiment

_DOUBLEWRITE = "innodb_doublewrite"
_VALUES = ((_FLUSH, ("1", "2", "0")), (_DOUBLEWRITE, ("1", "0")))
PARTS = CrashParts(
    experiment="crash-matrix",
    names=tuple(map(str, CrashMoment)),
    # Only the power of a separate disk can be cut.
    with_disk=CrashMoment.POWER,
    why_no_disk=lambda host: host.no_power_cut(),
)


@dataclass(frozen=True)
class CrashMatrixOptions(CrashOptions):
    """The options of random kills."""

    depth: int = 3
    """Kills of a recovery before it may finish."""


def variant_specs(requested: CrashMatrixOptions, _: Schema, host: HostCapacity) -> tuple[VariantSpec, ...]:
    return tuple(
        VariantSpec(
            name="-".join((moment, *(f"{option.rpartition('_')[2]}-{value}" for option, value in options))),
            cache=Cache.WARM,
            task=Crash(moment, requested.seed, requested.depth),
            axes=((QUESTION_AXIS, moment), *options),
            settings=options,
        )
        for moment, options in product(
            map(CrashMoment, PARTS.selected(requested, host)), option_combinations(requested, _VALUES)
        )
    )


CRASH_MATRIX = Experiment(
    "crash-matrix",
    "Does this server keep its promises when it is killed at a random moment?",
    "What survives a crash",
    measure,
    judge_recovery,
    variant_specs,
    metric=RECOVERY_METRIC,
    options=CrashMatrixOptions,
    # Small, so that within seconds pages are written back and the log wraps around.
    settings=lambda *_: {"innodb_buffer_pool_size": str(32 << 20), "loose_innodb_redo_log_capacity": str(16 << 20)},
    schema=SCHEMA,
    runs=20,
    programs=(SYSBENCH,),
    bases={_FLUSH: "1", _DOUBLEWRITE: "1"},
    sizes={QUICK: {"runs": 1}, STANDARD: {"runs": 6}},
    scale=STANDARD,
    unavailable=PARTS.skipped_notes,
    defaults={"parts": "all of them", "options": f"{_FLUSH} 1, 2, 0 and {_DOUBLEWRITE} 1, 0"},
)
