"""The scenario crash-matrix: kills a server at random moments and checks what it has kept.

A server is killed during inserts, a load, DDL statements, its own recovery or a shutdown, or loses its power. It runs
over a copy of the data directory. After its recovery, rows, tables, files and log are checked against its promises."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random

from recovery.builds.packages import SYSBENCH
from recovery.errors import ServerFailedError, ServerKilledError, TrialVoidError
from recovery.experiments import ddl_history
from recovery.experiments.bench import Bench
from recovery.experiments.consistency import compare_dictionary, damage_lines, failing_tables
from recovery.experiments.ddl_history import DictionaryDifferences, Violations, count_text, first_examples
from recovery.experiments.experiment import (
    Experiment,
    ExperimentRequest,
    HostCapacity,
    Judgement,
    Scenario,
    WorkMeasurement,
)
from recovery.experiments.load import SeparateDiskPart, option_combinations, selected_parts
from recovery.experiments.writers import DdlWriter, InsertWriter, JournalWriter, Writer
from recovery.linux.loop_device import LoopDisk
from recovery.linux.storage import device_of
from recovery.model import (
    QUESTION_AXIS,
    RECOVERY_METRIC,
    Cache,
    Crash,
    CrashMoment,
    ResourceUsage,
    Schema,
    Startup,
    Variant,
    VariantSpec,
    Verdict,
    can,
)
from recovery.mysqld.datadir import Copy, disposable_copy
from recovery.mysqld.server import Server

# --- Broken promises and metrics of one crash (pure functions)
#
# Whether a server promises to keep all acknowledged writes depends on how it is configured to flush its log. It always
# promises that no transaction is there in part, and none that was rolled back.

_TABLE_NAME = re.compile(rf"{ddl_history.DATABASE}[`'\"]?[/.][`'\"]?(#?[\w-]+)")
"""Finds names of tables of the DDL writer, in a path or in a statement."""


@dataclass(frozen=True)
class CrashFindings:
    """Everything that was checked after the crash."""

    moment: CrashMoment
    found: Violations
    agreement: DictionaryDifferences
    failing: tuple[str, ...]
    """Tables that fail CHECK TABLE, each with its message."""
    complaints: tuple[str, ...]
    """Lines of the error log that report damage."""
    promised: bool
    """Whether the server promises to keep every acknowledged write."""
    atomic: bool
    """Whether the server has atomic DDL: tables and their files change completely or not at all."""
    all_or_none: bool = True
    """Whether a statement that drops several tables drops all or none of them."""


def crash_metrics(back: CrashFindings) -> dict[str, float]:
    """Returns the metrics of what was found after the crash, by name."""
    found = back.found
    told = {
        "acknowledged": found.acknowledged,
        "lost": found.lost,
        "ghosts": found.ghosts,
        "torn": found.torn,
        "holes": found.holes,
        "half_done": found.half_done,
        "orphans": len(back.agreement.orphans),
        "missing": len(back.agreement.missing),
        "failing": len(back.failing),
        "complaints": len(back.complaints),
    }
    window = {} if found.lost_window_s is None else {"lost_window_s": found.lost_window_s}
    return {name: float(value) for name, value in told.items()} | window


def broken_promises(back: CrashFindings) -> tuple[str, ...]:
    """Describes the broken promises, followed by examples; empty if all were kept."""
    told = tuple(_iter_broken_promises(back))
    return (*told, *back.found.examples) if told else ()


def _iter_broken_promises(back: CrashFindings) -> Iterator[str]:
    yield from _broken_writes(back.found, back)
    is_ill = _known_weakness(back)
    complaints = [line for line in back.complaints if not is_ill(line)]
    if complaints:
        yield f"its log speaks of damage: {complaints[0][:160]}"
    yield from _broken_definitions(back, is_ill)


def _known_weakness(back: CrashFindings) -> Callable[[str], bool]:
    """Returns a function that recognises a finding as the known weakness of servers without atomic DDL.

    These servers change a definition in one place after the other. Such findings are counted, but break no promise.
    They may only concern tables that were being changed; where acknowledged writes may be lost, also tables changed
    before."""
    if back.moment is not CrashMoment.DEFINITIONS or back.atomic:
        return lambda _: False

    def is_ill(told: str) -> bool:
        tables = _TABLE_NAME.findall(told)
        return any(one in back.found.under_way or one.startswith("#") or not back.promised for one in tables)

    return is_ill


def _broken_writes(found: Violations, back: CrashFindings) -> Iterator[str]:
    what = "statement" if back.moment is CrashMoment.DEFINITIONS else "transaction"
    if found.lost and back.promised:
        yield f"{found.lost:,} of {count_text(found.acknowledged, f'acknowledged {what}')} lost"
    if found.ghosts:
        yield f"{count_text(found.ghosts, what)} there that had not been committed"
    if found.torn:
        yield f"{count_text(found.torn, what)} there in part"
    if found.holes:
        yield f"{count_text(found.holes, what)} lost before others that are there"


def _broken_definitions(back: CrashFindings, is_ill: Callable[[str], bool]) -> Iterator[str]:
    failing, missing, orphans = (
        tuple(one for one in told if not is_ill(one))
        for told in (back.failing, back.agreement.missing, back.agreement.orphans)
    )
    if back.found.half_done and back.atomic and (back.all_or_none or not back.found.some_dropped):
        yield f"{count_text(back.found.half_done, 'definition')} half done"
    if failing:
        yield f"CHECK TABLE: {'; '.join(first_examples(failing))}"
    if missing:
        yield f"files missing: {', '.join(first_examples(missing))}"
    if orphans:
        yield f"left behind: {', '.join(first_examples(orphans))}"


# --- One run: write, kill, start, compare

TIMED_LOG = "timed.err"
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
            f"the server had shut down before it was to be killed, {after_s:.2f} s after it was told to",
            "more RUNS= bring other moments",
        )
        self.took_s = took_s


def measure(bench: Bench, variant: Variant) -> WorkMeasurement:
    """Runs one crash and returns the measurement; repeats it with another moment if the kill came too late."""
    task = variant.task
    assert isinstance(task, Crash), "this variant kills nothing"
    chance = Random(f"{task.seed} {bench.server.build.version} {variant.name} {bench.repeat}")  # noqa: S311 - no secret
    shutdown_s = _SHUTDOWN_S
    for more in reversed(range(_MAX_ATTEMPTS)):
        try:
            return _run_crash(bench, task, chance, shutdown_s=shutdown_s)
        except _ShutdownFinishedError as error:
            if not more:
                raise
            shutdown_s = error.took_s
        bench.clear_logs()
    raise AssertionError("the last try returns or raises")


def _run_crash(bench: Bench, task: Crash, chance: Random, *, shutdown_s: float) -> WorkMeasurement:
    version = bench.server.build.version
    with running_on_copy(bench, on_a_disk=task.moment is CrashMoment.POWER) as copy:
        server = bench.server
        bench.tell("starting the server")
        before = server.start(log_name="before.err", settings=bench.settings)
        bench.describe()
        flushed = server.variables([_FLUSH])[_FLUSH]
        witness = _create_writer(bench, task, chance)
        with background_writer(witness, server):
            kills = [_kill(bench, task, chance, witness, disk=copy.disk, within_s=shutdown_s)]
        if copy.disk is not None:
            copy.disk.replug()
        try:
            if task.moment is CrashMoment.RECOVERY:
                kills += _kill_recoveries(bench, task, chance, within_s=_STARTS_PER_RECOVERY * before.startup_s)
            bench.tell("timed start")
            startup = server.start(log_name=TIMED_LOG, settings=bench.settings)
        except ServerFailedError as error:
            kept = None if isinstance(error, ServerKilledError) else bench.set_aside(copy.mysql)
            return _failed_restart(error, kills, kept)
        bench.tell("looking at what came back")
        with server.session() as connection:
            databases = (*bench.schema.database_names, *witness.databases)
            back = CrashFindings(
                moment=task.moment,
                found=witness.compare(server, killed_at_s=kills[0].at_s),
                agreement=compare_dictionary(connection, version, server.datadir, databases),
                failing=failing_tables(connection, databases),
                complaints=damage_lines(_lines(*server.logdir.glob(_KILLED_LOG.format("*")), startup.log)),
                promised=flushed in _DURABLE_FLUSH_VALUES[task.moment is CrashMoment.POWER],
                atomic=can(version, "atomic_definitions"),
                all_or_none=can(version, "drops_all_or_none"),
            )
        server.stop()
    return _to_measurement(startup, back, kills)


def _failed_restart(error: ServerFailedError, kills: Sequence[_Kill], kept: str | None) -> WorkMeasurement:
    """Returns the measurement of a server that does not start after the crash; `kept` says where its files are kept."""
    return WorkMeasurement(
        measures=_kill_metrics(kills),
        seconds=0.0,
        usage=ResourceUsage(),
        around=None,
        clients={},
        broken=tuple(filter(None, (f"it does not come back: {error.message}", kept))),
    )


def judge_crash(worked: WorkMeasurement) -> Judgement:
    """Returns FAILED for broken promises, VOID if there was no crash recovery although there should have been.

    A recovery is not required (`may_be_clean`) if the server was killed during a shutdown, when it may have been done
    with its files already, or if its log may have been empty: unflushed, or before the first acknowledged write."""
    if worked.broken:
        return Verdict.FAILED, "; ".join(worked.broken)
    assert worked.startup is not None
    if worked.startup.crash_proof is None and not worked.may_be_clean:
        return Verdict.VOID, "the log does not show a crash recovery: the server started as after a clean shutdown"
    return Verdict.MEASURED, None


def _kill_metrics(kills: Sequence[_Kill]) -> dict[str, float]:
    """Returns the metrics of the kills: how many, and when they came."""
    recoveries = kills[1:]
    cut = {"cut_short": float(sum(not one.is_late for one in recoveries))} if recoveries else {}
    return {"kills": float(len(kills)), "killed_after_s": kills[-1].into_s, **cut}


def _to_measurement(startup: Startup, back: CrashFindings, kills: Sequence[_Kill]) -> WorkMeasurement:
    return WorkMeasurement(
        measures={RECOVERY_METRIC: startup.startup_s, **_kill_metrics(kills), **crash_metrics(back)},
        seconds=startup.first_query_s,
        usage=startup.usage,
        around=startup.around,
        clients={},
        startup=startup,
        broken=broken_promises(back),
        may_be_clean=back.moment is CrashMoment.SHUTDOWN or not back.promised or not back.found.acknowledged,
    )


@contextmanager
def running_on_copy(bench: Bench, *, on_a_disk: bool = False) -> Iterator[Copy]:
    """Lets the server of the bench run over a copy of its data directory.

    The original is never started, so that no crash can damage it, and every run begins with the same files."""
    server, original, device = bench.server, bench.server.datadir, bench.server.device
    bench.tell("copying the data directory")
    in_containers = server.build.image is not None
    with disposable_copy(original, bench.datadir.path, on_a_disk=on_a_disk, for_containers=in_containers) as copy:
        server.datadir, server.device = copy.mysql, device_of(copy.mysql)
        try:
            yield copy
        finally:
            server.close()
            server.datadir, server.device = original, device


def _create_writer(bench: Bench, task: Crash, chance: Random) -> Writer:
    match task.moment:
        case CrashMoment.INSERTS:
            # Repeated, because one pass of the script takes less than a tenth of a second.
            return InsertWriter(bench.conditions.statements * _SCRIPT_REPEATS)
        case CrashMoment.DEFINITIONS:
            # A separate generator: threads that share one draw in an order that the seed does not determine.
            return DdlWriter(Random(chance.getrandbits(64)))  # noqa: S311 - no secret
        case _:
            return create_journal_writer(bench, chance)


def create_journal_writer(bench: Bench, chance: Random) -> JournalWriter:
    return JournalWriter(bench.conditions.programs[SYSBENCH], bench.server.logdir / "journals", chance)


@contextmanager
def background_writer(witness: Writer, server: Server) -> Iterator[None]:
    """Runs the writer during the block; at its end, whatever happened, ends the server and then the writer."""
    try:
        witness.begin(server)
        yield
    finally:
        server.close()
        witness.end()


def _kill(
    bench: Bench, task: Crash, chance: Random, witness: Writer, *, disk: LoopDisk | None, within_s: float
) -> _Kill:
    """Lets the server write for a random time, kills it at the moment of the task, and returns the kill.

    `within_s` is the longest time until the kill of a shutdown."""
    server, began_s = bench.server, time.monotonic()
    bench.tell(f"writing, until it is killed ({task.moment})")
    if isinstance(witness, DdlWriter):
        witness.has_answered(chance.randint(0, _MAX_DDL_STATEMENTS))
        time.sleep(chance.random() * _MAX_DDL_DELAY_S)
    else:
        time.sleep(chance.uniform(*WRITING_S[task.moment]))
    if task.moment is CrashMoment.SHUTDOWN:
        bench.tell("shutting down, until it is killed")
        return _kill_shutdown(server, after_s=chance.random() * within_s)
    killed_at_s = time.monotonic()
    if disk is None:
        server.kill()
    else:
        # A server without its disk ends itself. In any case it has ended before the disk is mounted again.
        disk.lose_power()
    return _Kill(killed_at_s, killed_at_s - began_s)


def _kill_shutdown(server: Server, *, after_s: float) -> _Kill:
    """Shuts the server down and kills it after `after_s`; raises _TooLateError if it ends by itself before the kill."""
    began_s = time.monotonic()
    server.life.signal(signal.SIGTERM)
    exited = server.life.wait(after_s)
    killed_at_s = time.monotonic()
    if exited is None:
        server.life.signal(signal.SIGKILL)
        exited = server.life.wait(_EXIT_TIMEOUT_S)
    if exited is not None and exited.signal != signal.SIGKILL:
        raise _ShutdownFinishedError(after_s, took_s=killed_at_s - began_s)
    return _Kill(killed_at_s, killed_at_s - began_s)


def _kill_recoveries(bench: Bench, task: Crash, chance: Random, *, within_s: float) -> Iterator[_Kill]:
    """Kills one or more recoveries in a row and yields the kills.

    Each comes within `within_s` seconds, or less if an earlier recovery was over sooner."""
    many = chance.randint(1, task.depth)
    for number in range(1, many + 1):
        bench.tell(f"recovering, until it is killed: {number} of {many}")
        kill = _kill_start(bench, _KILLED_LOG.format(number), after_s=chance.random() * within_s)
        within_s = min(within_s, kill.into_s) if kill.is_late else within_s
        yield kill


def _kill_start(bench: Bench, log_name: str, *, after_s: float) -> _Kill:
    """Starts the server and kills it after `after_s`, or right after the start if that is over sooner."""
    server, fired, is_late = bench.server, threading.Event(), False

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
        is_late = True
    except ServerFailedError:
        if not fired.is_set():
            raise
    finally:
        timer.cancel()
    killed_at_s = time.monotonic()
    into_s = killed_at_s - server.life.started_at
    if fired.is_set():
        server.life.wait(_EXIT_TIMEOUT_S)
    else:
        server.kill()
    return _Kill(killed_at_s, into_s, is_late)


def _lines(*logs: Path) -> list[str]:
    return [line for log in logs for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]


# --- The scenario

_DOUBLEWRITE = "innodb_doublewrite"
_VALUES = ((_FLUSH, ("1", "2", "0")), (_DOUBLEWRITE, ("1", "0")))
PART_NAMES = tuple(map(str, CrashMoment))
_KILLS = 20
_INSERTS = 100
_POWER = SeparateDiskPart(CrashMoment.POWER, lambda host: host.no_power_cut())
"""Power loss needs a separate disk, because only the power of that one can be cut."""


def works(asked: ExperimentRequest, _: Schema, host: HostCapacity) -> tuple[VariantSpec, ...]:
    moments = _POWER.among(selected_parts(asked, PART_NAMES, "crash-matrix kills at no moment"), asked=asked, host=host)
    return tuple(
        VariantSpec(
            name="-".join((moment, *(f"{option.rpartition('_')[2]}-{value}" for option, value in options))),
            cache=Cache.WARM,
            task=Crash(moment, asked.seed, asked.depth),
            axes=((QUESTION_AXIS, moment), *options),
            settings=options,
        )
        for moment, options in product(
            (one for one in CrashMoment if one in moments), option_combinations(asked, _VALUES)
        )
    )


def settings(_: ExperimentRequest, __: Schema, ___: HostCapacity) -> Mapping[str, str]:
    """Returns a small buffer pool and redo log: within seconds pages are written back, and the log wraps around."""
    return {"innodb_buffer_pool_size": str(32 << 20), "loose_innodb_redo_log_capacity": str(16 << 20)}


CRASH_MATRIX = Scenario(
    "crash-matrix",
    "Does this server keep its word when it is killed, whatever it is doing just then?",
    "What comes back after a crash",
    (Cache.WARM,),
    measure,
    judge_crash,
    Experiment(
        figure=RECOVERY_METRIC,
        works=works,
        settings=settings,
        schema=Schema(tables=20, columns=1),
        programs=(SYSBENCH,),
        bases={_FLUSH: "1", _DOUBLEWRITE: "1"},
        runs=_KILLS,
        inserts=_INSERTS,
        unasked=_POWER.left_out,
        usual={"options": f"{_FLUSH} 1, 2, 0 and {_DOUBLEWRITE} 1, 0", "parts": "all of them"},
    ),
)
