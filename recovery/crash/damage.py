"""The experiment damage: what a server does and logs if it finds a full disk or a damaged file after a crash.

The server is killed under a load over a copy of its data directory. One file of the copy is damaged, or its disk is
filled, and the server is started again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import BinaryIO

import pymysql

from recovery.builds.packages import SYSBENCH
from recovery.crash.consistency import failing_tables, first_damage_message
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
from recovery.crash.tasks import Damage, FileFault
from recovery.crash.writers import LOAD_DATABASE, Writer
from recovery.errors import ServerFailedError, TrialVoidError
from recovery.experiments.bench import Bench
from recovery.experiments.experiment import STANDARD, TIMED_LOG, Experiment, HostCapacity, accept
from recovery.metrics import RECOVERY_METRIC
from recovery.model import QUESTION_AXIS, Cache, Measurement, Schema, Variant, VariantSpec
from recovery.mysqld.client import message_of, scalar
from recovery.mysqld.datadir import Copy, remove_temporary
from recovery.report.fmt import count_text

START, SAYS, TABLE, OTHERS, AFTERWARDS = "start", "says", "the table", "the others", "once mended"
_SILENT, _WHEN_ASKED = "nothing", "during a query: "
_AGAIN_LOG = "again.err"
_WRITING_S = (0.5, 1.5)
_PAGE_SIZE, _USUAL_PAGE = "innodb_page_size", 16 << 10
"""Page size of 5.5, which has no such option."""
_TYPE_AT, _INDEX_PAGE = 24, b"\x45\xbf"
"""Offset of FIL_PAGE_TYPE in a page, and its value FIL_PAGE_INDEX."""
_EXIT_WAIT_S = 2.0


def measure(bench: Bench, variant: Variant) -> Measurement:
    """Kills the server under a load, damages its files, starts it, and returns what it does and logs."""
    task = variant.task
    assert isinstance(task, Damage), "this variant damages nothing"
    server, rng = bench.server, random_source(bench, variant, task)
    with running_on_copy(bench, on_a_disk=task.fault is FileFault.FULL_DISK) as (copy, _):
        page_bytes = int(server.variables([_PAGE_SIZE]).get(_PAGE_SIZE, _USUAL_PAGE))
        writer = create_journal_writer(bench, rng)
        with background_writer(writer, server):
            bench.on_step("writing until the kill")
            time.sleep(rng.uniform(*_WRITING_S))
            killed_at_s = time.monotonic()
            server.kill()
        database, table = (LOAD_DATABASE, "ledger_1") if task.written else (bench.schema.database_names[0], "table_1")
        repair = _apply_fault(task.fault, copy, copy.mysql / database / f"{table}.ibd", rng, page_bytes=page_bytes)
        bench.on_step(f"starting the server after the damage: {variant.name}")
        started, how = _start(bench, TIMED_LOG)
        log = server.logdir / TIMED_LOG
        observations = {START: how, SAYS: _damage_in_log(log) or _SILENT}
        if started is not None:
            databases = (*bench.schema.database_names, LOAD_DATABASE)
            observations |= dict(_check_tables(bench, f"{database}.{table}", databases))
        server.close()
        if observations[SAYS] == _SILENT and (later := _damage_in_log(log)) is not None:
            observations[SAYS] = f"{_WHEN_ASKED}{later}"
        if repair is not None:
            repair()
            observations[AFTERWARDS] = _check_after_repair(bench, writer, killed_at_s)
    if started is None:
        return Measurement(observations=observations)
    metrics = {RECOVERY_METRIC: started.metrics["startup_s"], **started.metrics}
    return replace(started, metrics=metrics, timeline=None, observations=observations)


def _apply_fault(
    fault: FileFault, copy: Copy, file: Path, rng: Random, *, page_bytes: int
) -> Callable[[], object] | None:
    """Damages a file, or fills the disk, and returns a function that undoes it; None if it cannot be undone.

    A file that is put back is intact, but older than it would be if it had been there all the time."""
    if fault is FileFault.FULL_DISK:
        assert copy.disk is not None, "only a separate disk is filled"
        # Otherwise the server could use the space of its temporary tablespace, which it creates again at each start.
        remove_temporary(copy.mysql)
        return copy.disk.fill().unlink
    if not file.is_file():
        raise TrialVoidError(f"there is no file {file.name} to damage", "use a schema with one file for each table")
    if fault is FileFault.MISSING:
        aside = copy.mysql.parent / f"aside-{file.name}"
        file.rename(aside)
        # It replaces a file that the server may have created in its place.
        return lambda: aside.replace(file)
    pages = file.stat().st_size // page_bytes
    with file.open("r+b") as opened:
        if fault is FileFault.TRUNCATED:
            opened.truncate(pages // 2 * page_bytes)
        else:
            page = _pick_index_page(opened, pages, rng, page_bytes=page_bytes)
            place = page * page_bytes + rng.randrange(page_bytes)
            opened.seek(place)
            (byte,) = opened.read(1)
            opened.seek(place)
            opened.write(bytes((byte ^ 1 << rng.randrange(8),)))
    return None


def _pick_index_page(file: BinaryIO, pages: int, rng: Random, *, page_bytes: int) -> int:
    """Returns a random index page, or any page if there is none: damage to a page that is never read shows nothing."""
    index_pages = []
    for page in range(pages):
        file.seek(page * page_bytes + _TYPE_AT)
        if file.read(2) == _INDEX_PAGE:
            index_pages.append(page)
    return rng.choice(index_pages or list(range(pages)))


def _start(bench: Bench, log_name: str) -> tuple[Measurement | None, str]:
    """Starts the server and returns its measurement, None if it failed, with a description of how the start ended."""
    try:
        started = bench.server.start(log_name=log_name, settings=bench.settings)
    except ServerFailedError as error:
        return None, error.message
    return started, f"ready after {started.metrics['startup_s']:.2f} s"


def _damage_in_log(log: Path) -> str | None:
    """Returns what the log says so far about the damage, None if nothing."""
    return first_damage_message(log_lines(log))


def _check_tables(bench: Bench, damaged: str, databases: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yields the state of the damaged table and of the other tables.

    Each is read over a separate connection, because reading may crash the server."""
    counted = f"select count(*) from {damaged}"  # noqa: S608 - a name of our own
    yield TABLE, _query_or_error(bench, lambda connection: count_text(int(str(scalar(connection, counted))), "row"))

    def others(connection: pymysql.Connection) -> str:
        wrong = [table for table in failing_tables(connection, databases) if not table.startswith(f"{damaged}:")]
        return "; ".join(wrong[:2]) or "all of them pass CHECK TABLE"

    yield OTHERS, _query_or_error(bench, others)


def _query_or_error(bench: Bench, question: Callable[[pymysql.Connection], str]) -> str:
    """Returns the answer to a question over a new connection, or a description of why there is none.

    Each statement may take up to the server's stall timeout."""
    server = bench.server
    if not server.alive:
        return "the server has ended"
    try:
        with closing(server.connect(timeout_s=server.config.stall_s)) as connection:
            return question(connection)
    except ServerFailedError as error:
        return error.message
    except (pymysql.Error, OSError) as error:
        exited = server.process.wait(_EXIT_WAIT_S)
        if exited is not None:
            return f"the server crashes: {exited}"
        is_late = isinstance(error.__context__, TimeoutError)
        return f"no answer within {server.config.stall_s:g} s" if is_late else message_of(error)


def _check_after_repair(bench: Bench, writer: Writer, killed_at_s: float) -> str:
    """Starts the server after the damage was undone, and describes how the start ended and which writes are lost."""
    startup, how = _start(bench, _AGAIN_LOG)
    if startup is None:
        return how
    try:
        violations = writer.compare(bench.server, killed_at_s=killed_at_s)
    except ServerFailedError as error:
        return f"{how}; {error.message}"
    wrong = [f"{many:,} {name}" for name, many in (("lost", violations.lost), ("torn", violations.torn)) if many]
    of_all = count_text(violations.acknowledged, "transaction")
    return f"{how}; {' and '.join(wrong)} of {of_all}" if wrong else f"{how}; all {of_all} there"


# --- The experiment

_FILE = "file"
WRITTEN, UNTOUCHED = "written to", "untouched"
PARTS = CrashParts(
    experiment="damage",
    names=tuple(map(str, FileFault)),
    # Only a separate disk may be filled.
    with_disk=FileFault.FULL_DISK,
    why_no_disk=lambda host: host.no_disk(),
)


def variant_specs(requested: CrashOptions, _: Schema, host: HostCapacity) -> tuple[VariantSpec, ...]:
    faults = map(FileFault, PARTS.selected(requested, host))
    return tuple(spec for fault in faults for spec in _specs_for_fault(fault, requested))


def _specs_for_fault(fault: FileFault, requested: CrashOptions) -> Iterator[VariantSpec]:
    if fault is FileFault.FULL_DISK:
        yield VariantSpec(
            fault, Cache.WARM, Damage(fault, written=True, seed=requested.seed), ((QUESTION_AXIS, fault),)
        )
        return
    for written, name in ((True, WRITTEN), (False, UNTOUCHED)):
        axes = ((QUESTION_AXIS, fault.value), (_FILE, name))
        yield VariantSpec(f"{fault}-{name.replace(' ', '-')}", Cache.WARM, Damage(fault, written, requested.seed), axes)


DAMAGE = Experiment(
    "damage",
    "What does this server do and log when it starts after a crash with a full disk or a damaged file?",
    "Damaged files after a SIGKILL",
    measure,
    accept,
    variant_specs,
    metric=RECOVERY_METRIC,
    options=CrashOptions,
    # The redo log holds all changes of the load when the server is killed.
    settings=lambda *_: {"innodb_buffer_pool_size": str(64 << 20), "loose_innodb_redo_log_capacity": str(256 << 20)},
    schema=SCHEMA,
    runs=1,
    programs=(SYSBENCH,),
    scale=STANDARD,
    unavailable=PARTS.skipped_notes,
    stall_s=60.0,
    defaults={"parts": "all of them"},
)
