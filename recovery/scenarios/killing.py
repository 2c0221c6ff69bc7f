"""Does a server keep its word that is killed at a moment of chance? It is killed over a copy, started, and judged."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from recovery.builds.tools import SYSBENCH
from recovery.crash.complaints import complaints
from recovery.crash.dictionary import agreement, failing
from recovery.crash.verdict import Back, broken, measures
from recovery.crash.witnesses import Definitions, Inserts, Journalled, Witness
from recovery.errors import ServerFailedError, TrialVoidError
from recovery.host.copies import Copy, copied
from recovery.host.loopdisk import LoopDisk
from recovery.host.storage import device_of
from recovery.measured import Startup, Usage
from recovery.model import Variant
from recovery.scenarios.bench import Bench
from recovery.scenarios.outcome import Worked
from recovery.scenarios.scenario import Judgement
from recovery.server.server import Server
from recovery.stored import Verdict
from recovery.versions import can
from recovery.work import Crash, Moment

TIMED_LOG = "timed.err"
_KILLED_LOG = "killed-{}.err"
_FLUSH = "innodb_flush_log_at_trx_commit"
_WRITING_S = {
    Moment.INSERTS: (0.01, 1.0),
    Moment.LOAD: (0.3, 3.0),
    Moment.DEFINITIONS: (0.1, 2.0),
    Moment.RECOVERY: (0.5, 2.0),
    Moment.SHUTDOWN: (0.5, 1.5),
    Moment.POWER: (0.3, 3.0),
}
"""How long it writes, at least and at most, before the kill; or before what is then killed."""
_START, _STOP = "start", "stop"
_GONE_S = 120.0
_MORE_TRIES = 3
_SCRIPTS = 200
_KEPT = {False: ("1", "2"), True: ("1",)}
"""Values with which what is acknowledged is promised to be kept: by a kernel that lives on, or by none."""


class _TooLateError(TrialVoidError):
    """There was nothing left to kill."""


def measure(bench: Bench, variant: Variant) -> Worked:
    """A moment that came too late is followed by another."""
    task = variant.task
    assert isinstance(task, Crash), "this variant kills nothing"
    chance = Random(f"{task.seed} {bench.server.build.version} {variant.name} {bench.repeat}")  # noqa: S311 - no secret
    for _ in range(_MORE_TRIES):
        with suppress(_TooLateError):
            return _killed_and_back(bench, task, chance)
        bench.clear_logs()
    return _killed_and_back(bench, task, chance)


def _killed_and_back(bench: Bench, task: Crash, chance: Random) -> Worked:
    version = bench.server.build.version
    with over_a_copy(bench, on_a_disk=task.moment is Moment.POWER) as copy:
        server = bench.server
        bench.tell("starting the server")
        bench.lasts.setdefault(_START, server.start(log_name="before.err", settings=bench.settings).startup_s)
        bench.describe()
        flushed = server.variables([_FLUSH])[_FLUSH]
        witness = _witness(bench, task, chance)
        with writing(witness, server):
            killed_at_s = _kill(bench, task, chance, copy.disk)
        if copy.disk is not None:
            copy.disk.replug()
        kills = 1 + (_kill_recoveries(bench, task, chance) if task.moment is Moment.RECOVERY else 0)
        bench.tell("timed start")
        try:
            startup = server.start(log_name=TIMED_LOG, settings=bench.settings)
        except ServerFailedError as error:
            return _gone(error, kills=kills)
        bench.lasts[_START] = startup.startup_s
        bench.tell("looking at what came back")
        with server.session() as connection:
            databases = (*bench.schema.database_names, *witness.databases)
            back = Back(
                moment=task.moment,
                found=witness.compare(server, killed_at_s=killed_at_s),
                agreement=agreement(connection, version, server.datadir, databases),
                failing=failing(connection, databases),
                complaints=complaints(_lines(*server.logdir.glob(_KILLED_LOG.format("*")), startup.log)),
                promised=flushed in _KEPT[task.moment is Moment.POWER],
                atomic=can(version, "atomic_definitions"),
            )
        _stop(bench)
    return _worked(startup, back, kills=kills)


def _gone(error: ServerFailedError, *, kills: int) -> Worked:
    """The worst that can come of it."""
    return Worked(
        measures={"kills": float(kills)},
        seconds=0.0,
        usage=Usage(),
        around=None,
        clients={},
        broken=(f"it does not come back: {error.message}",),
    )


def came_back(worked: Worked) -> Judgement:
    """One that was told to shut down may have been done with its files when it was killed; and of a log that need not
    be flushed, or that nothing was to be written to yet, nothing may have been there."""
    if worked.broken:
        return Verdict.FAILED, "; ".join(worked.broken)
    assert worked.startup is not None
    if worked.startup.crash_proof is None and not worked.may_be_clean:
        return Verdict.VOID, "the log does not show a crash recovery: the server started as after a clean shutdown"
    return Verdict.MEASURED, None


def _worked(startup: Startup, back: Back, *, kills: int) -> Worked:
    return Worked(
        measures={"recovery_s": startup.startup_s, "kills": float(kills), **measures(back)},
        seconds=startup.first_query_s,
        usage=startup.usage,
        around=startup.around,
        clients={},
        startup=startup,
        broken=broken(back),
        may_be_clean=back.moment is Moment.SHUTDOWN or not back.promised or not back.found.acknowledged,
    )


@contextmanager
def over_a_copy(bench: Bench, *, on_a_disk: bool = False) -> Iterator[Copy]:
    """What was built is never started, so that no crash can harm it, and each finds what the one before it found."""
    server, original, device = bench.server, bench.server.datadir, bench.server.device
    bench.tell("copying the data directory")
    with copied(original, bench.datadir.path, on_a_disk=on_a_disk) as copy:
        server.datadir, server.device = copy.mysql, device_of(copy.mysql)
        try:
            yield copy
        finally:
            server.close()
            server.datadir, server.device = original, device


def _witness(bench: Bench, task: Crash, chance: Random) -> Witness:
    match task.moment:
        case Moment.INSERTS:
            # Over and over: by itself it is done within a tenth of a second.
            return Inserts(bench.conditions.statements * _SCRIPTS)
        case Moment.DEFINITIONS:
            return Definitions(chance)
        case _:
            return journalled(bench, chance)


def journalled(bench: Bench, chance: Random) -> Journalled:
    return Journalled(bench.conditions.programs[SYSBENCH], bench.server.logdir / "journals", chance)


@contextmanager
def writing(witness: Witness, server: Server) -> Iterator[None]:
    """Whatever ends it early, a writer ends with its server."""
    try:
        witness.begin(server)
        yield
    finally:
        server.close()
        witness.end()


def _kill(bench: Bench, task: Crash, chance: Random, disk: LoopDisk | None) -> float:
    """When it was, on the monotonic clock."""
    server = bench.server
    bench.tell(f"writing, until it is killed ({task.moment})")
    time.sleep(chance.uniform(*_WRITING_S[task.moment]))
    if task.moment is Moment.SHUTDOWN:
        bench.tell("shutting down, until it is killed")
        server.life.signal(signal.SIGTERM)
        after_s = chance.random() * bench.lasts.get(_STOP, bench.lasts[_START])
        if server.life.wait(after_s) is not None:
            bench.lasts[_STOP] = after_s  # at most
            raise _TooLateError(
                f"the server had shut down before it was to be killed, {after_s:.2f} s after it was told to",
                "moments are chosen within what its last shutdown took; more RUNS= bring others",
            )
    killed_at_s = time.monotonic()
    if disk is None:
        server.kill()
    else:
        # A server that sees its disk gone ends itself: however it ends, it is gone before the disk comes back.
        disk.lose_power()
    return killed_at_s


def _kill_recoveries(bench: Bench, task: Crash, chance: Random) -> int:
    """How many there were."""
    many = chance.randint(1, task.depth)
    for number in range(1, many + 1):
        bench.tell(f"recovering, until it is killed: {number} of {many}")
        _kill_start(bench, _KILLED_LOG.format(number), after_s=chance.random() * bench.lasts[_START])
    return many


def _kill_start(bench: Bench, log_name: str, *, after_s: float) -> None:
    """Also one that is over by then."""
    server, fired = bench.server, threading.Event()

    def kill() -> None:
        fired.set()
        server.life.signal(signal.SIGKILL)

    timer = threading.Timer(after_s, kill)

    @contextmanager
    def beside(_: int) -> Iterator[None]:
        timer.start()
        yield

    try:
        server.start(log_name=log_name, settings=bench.settings, beside=beside)
    except ServerFailedError:
        if not fired.is_set():
            raise
    finally:
        timer.cancel()
    if fired.is_set():
        server.life.wait(_GONE_S)
    else:
        server.kill()


def _stop(bench: Bench) -> None:
    """How long that takes is what later ones are killed within."""
    began_s = time.monotonic()
    bench.server.stop()
    bench.lasts[_STOP] = time.monotonic() - began_s


def _lines(*logs: Path) -> list[str]:
    return [line for log in logs for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
