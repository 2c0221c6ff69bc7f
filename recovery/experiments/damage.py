"""The scenario damage: what a server does and logs if it finds a full disk or a damaged file after a crash.

The server is killed under a load over a copy of its data directory. One file of the copy is damaged, or its disk is
filled, and the server is started again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from typing import BinaryIO

import pymysql

from recovery.builds.packages import SYSBENCH
from recovery.errors import ServerFailedError, TrialVoidError
from recovery.experiments.bench import Bench
from recovery.experiments.consistency import failing_tables, first_damage_message
from recovery.experiments.crash_matrix import TIMED_LOG, background_writer, create_journal_writer, running_on_copy
from recovery.experiments.ddl_history import count_text
from recovery.experiments.experiment import (
    Experiment,
    ExperimentRequest,
    HostCapacity,
    Judgement,
    Scenario,
    WorkMeasurement,
)
from recovery.experiments.load import SeparateDiskPart, selected_parts
from recovery.experiments.writers import LOAD_DATABASE, Writer
from recovery.model import (
    QUESTION_AXIS,
    RECOVERY_METRIC,
    Cache,
    Damage,
    FileFault,
    ResourceUsage,
    Schema,
    Startup,
    Variant,
    VariantSpec,
    Verdict,
)
from recovery.mysqld.client import message_of, scalar
from recovery.mysqld.datadir import Copy, remove_temporary

START, SAYS, TABLE, OTHERS, AFTERWARDS = "start", "says", "the table", "the others", "once mended"
_SILENT, _WHEN_ASKED = "nothing of it", "when asked: "
_AGAIN_LOG = "again.err"
_WRITING_S = (0.5, 1.5)
_PAGE_SIZE, _USUAL_PAGE = "innodb_page_size", 16 << 10
"""Page size of 5.5, which has no such option."""
_TYPE_AT, _INDEX_PAGE = 24, b"\x45\xbf"
"""Offset of FIL_PAGE_TYPE in a page, and its value FIL_PAGE_INDEX."""
_EXIT_WAIT_S = 2.0


def measure(bench: Bench, variant: Variant) -> WorkMeasurement:
    """Kills the server under a load, damages its files, starts it, and returns what it does and logs."""
    task = variant.task
    assert isinstance(task, Damage), "this variant damages nothing"
    server = bench.server
    chance = Random(f"{task.seed} {server.build.version} {variant.name} {bench.repeat}")  # noqa: S311 - no secret
    with running_on_copy(bench, on_a_disk=task.fault is FileFault.FULL_DISK) as copy:
        bench.tell("starting the server")
        server.start(log_name="before.err", settings=bench.settings)
        bench.describe()
        page_bytes = int(server.variables([_PAGE_SIZE]).get(_PAGE_SIZE, _USUAL_PAGE))
        witness = create_journal_writer(bench, chance)
        with background_writer(witness, server):
            bench.tell("writing, until it is killed")
            time.sleep(chance.uniform(*_WRITING_S))
            killed_at_s = time.monotonic()
            server.kill()
        database, table = (LOAD_DATABASE, "ledger_1") if task.written else (bench.schema.database_names[0], "table_1")
        mend = _apply_fault(task.fault, copy, copy.mysql / database / f"{table}.ibd", chance, page_bytes=page_bytes)
        bench.tell(f"starting it over that: {variant.name}")
        startup, how = _start(bench, TIMED_LOG)
        log = server.logdir / TIMED_LOG
        told = {START: how, SAYS: _damage_in_log(log) or _SILENT}
        if startup is not None:
            told |= dict(_check_tables(bench, f"{database}.{table}", (*bench.schema.database_names, LOAD_DATABASE)))
        server.close()
        if told[SAYS] == _SILENT and (later := _damage_in_log(log)) is not None:
            told[SAYS] = f"{_WHEN_ASKED}{later}"
        if mend is not None:
            mend()
            told[AFTERWARDS] = _check_after_repair(bench, witness, killed_at_s)
    return WorkMeasurement(
        measures={} if startup is None else {RECOVERY_METRIC: startup.startup_s},
        seconds=0.0 if startup is None else startup.first_query_s,
        usage=ResourceUsage() if startup is None else startup.usage,
        around=None if startup is None else startup.around,
        clients={},
        startup=startup,
        told=told,
    )


def accept_any_result(_: WorkMeasurement) -> Judgement:
    """Accepts every measurement: whatever the server does is the result."""
    return Verdict.MEASURED, None


def _apply_fault(
    fault: FileFault, copy: Copy, file: Path, chance: Random, *, page_bytes: int
) -> Callable[[], None] | None:
    """Damages a file, or fills the disk, and returns a function that undoes it; None if it cannot be undone.

    A file that is put back is intact, but older than it would be if it had been there all the time."""
    if fault is FileFault.FULL_DISK:
        assert copy.disk is not None, "only a disk of its own is filled"
        # Otherwise the server could use the space of its temporary tablespace, which it creates again at each start.
        remove_temporary(copy.mysql)
        return copy.disk.fill().unlink
    if not file.is_file():
        raise TrialVoidError(f"there is no {file.name} to be damaged", "the tables must lie in files of their own")
    if fault is FileFault.MISSING:
        aside = copy.mysql.parent / f"aside-{file.name}"
        file.rename(aside)
        return lambda: _put_back(aside, file)
    pages = file.stat().st_size // page_bytes
    with file.open("r+b") as opened:
        if fault is FileFault.TRUNCATED:
            opened.truncate(pages // 2 * page_bytes)
        else:
            page = _pick_index_page(opened, pages, chance, page_bytes=page_bytes)
            place = page * page_bytes + chance.randrange(page_bytes)
            opened.seek(place)
            (byte,) = opened.read(1)
            opened.seek(place)
            opened.write(bytes((byte ^ 1 << chance.randrange(8),)))
    return None


def _pick_index_page(file: BinaryIO, pages: int, chance: Random, *, page_bytes: int) -> int:
    """Returns a random index page, or any page if there is none: damage to a page that is never read shows nothing."""
    found = []
    for page in range(pages):
        file.seek(page * page_bytes + _TYPE_AT)
        if file.read(2) == _INDEX_PAGE:
            found.append(page)
    return chance.choice(found or list(range(pages)))


def _put_back(aside: Path, file: Path) -> None:
    """Moves the file back, replacing one that the server may have created in its place."""
    aside.replace(file)


def _start(bench: Bench, log_name: str) -> tuple[Startup | None, str]:
    """Starts the server and returns its measurement, None if it failed, with a description of how the start ended."""
    try:
        startup = bench.server.start(log_name=log_name, settings=bench.settings)
    except ServerFailedError as error:
        return None, error.message
    return startup, f"ready after {startup.startup_s:.2f} s"


def _damage_in_log(log: Path) -> str | None:
    """Returns what the log says so far about the damage, None if nothing."""
    return first_damage_message(log.read_text(encoding="utf-8", errors="replace").splitlines())


def _check_tables(bench: Bench, damaged: str, databases: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yields the state of the damaged table and of the other tables.

    Each is read over a separate connection, because reading may crash the server."""
    counted = f"select count(*) from {damaged}"  # noqa: S608 - a name of our own
    yield TABLE, _query_or_error(bench, lambda connection: f"{scalar(connection, counted):,} rows")

    def others(connection: pymysql.Connection) -> str:
        wrong = [told for told in failing_tables(connection, databases) if not told.startswith(f"{damaged}:")]
        return "; ".join(wrong[:2]) or "all of them pass CHECK TABLE"

    yield OTHERS, _query_or_error(bench, others)


def _query_or_error(bench: Bench, question: Callable[[pymysql.Connection], str]) -> str:
    """Returns the answer to a question over a new connection, or a description of why there is none.

    Each statement may take up to the server's stall timeout."""
    server = bench.server
    if not server.alive:
        return "the server is gone"
    try:
        with closing(server.connect(timeout_s=server.stall_s)) as connection:
            return question(connection)
    except ServerFailedError as error:
        return error.message
    except (pymysql.Error, OSError) as error:
        exited = server.life.wait(_EXIT_WAIT_S)
        if exited is not None:
            return f"the server dies of it: {exited}"
        is_late = isinstance(error.__context__, TimeoutError)
        return f"no answer within {server.stall_s:g} s" if is_late else message_of(error)


def _check_after_repair(bench: Bench, witness: Writer, killed_at_s: float) -> str:
    """Starts the server after the damage was undone, and describes how the start ended and which writes are lost."""
    startup, how = _start(bench, _AGAIN_LOG)
    if startup is None:
        return how
    try:
        found = witness.compare(bench.server, killed_at_s=killed_at_s)
    except ServerFailedError as error:
        return f"{how}; {error.message}"
    wrong = [f"{many:,} {name}" for name, many in (("lost", found.lost), ("torn", found.torn)) if many]
    of_all = count_text(found.acknowledged, "transaction")
    return f"{how}; {' and '.join(wrong)} of {of_all}" if wrong else f"{how}; all {of_all} there"


# --- The scenario

_FILE = "file"
WRITTEN, UNTOUCHED = "written to", "untouched"
PART_NAMES = tuple(map(str, FileFault))
_FULL = SeparateDiskPart(FileFault.FULL_DISK, lambda host: host.no_disk())
"""Only a separate disk may be filled."""


def works(asked: ExperimentRequest, _: Schema, host: HostCapacity) -> tuple[VariantSpec, ...]:
    faults = _FULL.among(selected_parts(asked, PART_NAMES, "damage has no fault"), asked=asked, host=host)
    return tuple(work for fault in FileFault if fault in faults for work in _works_for_fault(fault, asked))


def _works_for_fault(fault: FileFault, asked: ExperimentRequest) -> Iterator[VariantSpec]:
    if fault is FileFault.FULL_DISK:
        yield VariantSpec(fault, Cache.WARM, Damage(fault, written=True, seed=asked.seed), ((QUESTION_AXIS, fault),))
        return
    for written, name in ((True, WRITTEN), (False, UNTOUCHED)):
        axes = ((QUESTION_AXIS, fault.value), (_FILE, name))
        yield VariantSpec(f"{fault}-{name.replace(' ', '-')}", Cache.WARM, Damage(fault, written, asked.seed), axes)


def settings(_: ExperimentRequest, __: Schema, ___: HostCapacity) -> Mapping[str, str]:
    """Returns a redo log large enough to contain all changes of the load when the server is killed."""
    return {"innodb_buffer_pool_size": str(64 << 20), "loose_innodb_redo_log_capacity": str(256 << 20)}


DAMAGE = Scenario(
    "damage",
    "What does this server do and say when it comes back from a crash to a full disk, or to a damaged file?",
    "Damaged files after a SIGKILL",
    (Cache.WARM,),
    measure,
    accept_any_result,
    Experiment(
        figure=RECOVERY_METRIC,
        works=works,
        settings=settings,
        schema=Schema(tables=20, columns=1),
        programs=(SYSBENCH,),
        runs=1,
        inserts=100,
        unasked=_FULL.left_out,
        usual={"parts": "all of them"},
    ),
)
