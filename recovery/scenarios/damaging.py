"""How does a server start whose files were damaged after a kill? Over a copy; what it does and says is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import BinaryIO

import pymysql

from recovery.crash.dictionary import failing
from recovery.crash.found import counted
from recovery.crash.witnesses import LOAD, Witness
from recovery.errors import ServerFailedError, TrialVoidError
from recovery.host.copies import Copy, remove_temporary
from recovery.measured import Startup, Usage
from recovery.model import Variant
from recovery.scenarios.bench import Bench
from recovery.scenarios.killing import TIMED_LOG, journalled, over_a_copy, writing
from recovery.scenarios.outcome import Worked
from recovery.scenarios.scenario import Judgement
from recovery.server.client import message_of, scalar
from recovery.server.errorlog import is_error
from recovery.stored import Verdict
from recovery.work import Damage, Fault

START, SAYS, TABLE, OTHERS, AFTERWARDS = "start", "says", "the table", "the others", "once mended"
_ERROR = "[ERROR]"
_AGAIN_LOG = "again.err"
_WRITING_S = (0.5, 1.5)
_PAGE_BYTES = 16 << 10
_TYPE_AT, _INDEX_PAGE = 24, b"\x45\xbf"
"""FIL_PAGE_TYPE, and FIL_PAGE_INDEX in it."""
_LAST_BREATH_S = 2.0
_NO_LIMIT_S = 60.0
"""For an answer about a damaged table."""


def measure(bench: Bench, variant: Variant) -> Worked:
    task = variant.task
    assert isinstance(task, Damage), "this variant damages nothing"
    server = bench.server
    chance = Random(f"{task.seed} {server.build.version} {variant.name} {bench.repeat}")  # noqa: S311 - no secret
    with over_a_copy(bench, on_a_disk=task.fault is Fault.FULL_DISK) as copy:
        bench.tell("starting the server")
        server.start(log_name="before.err", settings=bench.settings)
        bench.describe()
        witness = journalled(bench, chance)
        with writing(witness, server):
            bench.tell("writing, until it is killed")
            time.sleep(chance.uniform(*_WRITING_S))
            killed_at_s = time.monotonic()
            server.kill()
        database, table = (LOAD, "ledger_1") if task.written else (bench.schema.database_names[0], "table_1")
        mend = _damage(task.fault, copy, copy.mysql / database / f"{table}.ibd", chance)
        bench.tell(f"starting it over that: {variant.name}")
        startup, how = _start(bench, TIMED_LOG)
        told = {START: how, SAYS: _says(server.logdir / TIMED_LOG)}
        if startup is not None:
            told |= dict(_tables(bench, f"{database}.{table}", (*bench.schema.database_names, LOAD)))
        server.close()
        if mend is not None:
            mend()
            told[AFTERWARDS] = _mended(bench, witness, killed_at_s)
    return Worked(
        measures={} if startup is None else {"recovery_s": startup.startup_s},
        seconds=0.0 if startup is None else startup.first_query_s,
        usage=Usage() if startup is None else startup.usage,
        around=None if startup is None else startup.around,
        clients={},
        startup=startup,
        told=told,
    )


def was_tried(_: Worked) -> Judgement:
    """Whatever the server does is the answer."""
    return Verdict.MEASURED, None


def _damage(fault: Fault, copy: Copy, file: Path, chance: Random) -> Callable[[], None] | None:
    """What mends it again, where that is possible: a file that was put back is not as it would be now, but whole."""
    if fault is Fault.FULL_DISK:
        assert copy.disk is not None, "only a disk of its own is filled"
        # Else the server would start in the room of its own temporary tablespace, which it makes anew.
        remove_temporary(copy.mysql)
        return copy.disk.fill().unlink
    if not file.is_file():
        raise TrialVoidError(f"there is no {file.name} to be damaged", "the tables must lie in files of their own")
    if fault is Fault.MISSING:
        aside = copy.mysql.parent / f"aside-{file.name}"
        file.rename(aside)
        return lambda: _put_back(aside, file)
    pages = file.stat().st_size // _PAGE_BYTES
    with file.open("r+b") as opened:
        if fault is Fault.TRUNCATED:
            opened.truncate(pages // 2 * _PAGE_BYTES)
        else:
            place = _in_use(opened, pages, chance) * _PAGE_BYTES + chance.randrange(_PAGE_BYTES)
            opened.seek(place)
            (byte,) = opened.read(1)
            opened.seek(place)
            opened.write(bytes((byte ^ 1 << chance.randrange(8),)))
    return None


def _in_use(file: BinaryIO, pages: int, chance: Random) -> int:
    """A page of an index: what nobody reads would tell nothing."""
    found = []
    for page in range(pages):
        file.seek(page * _PAGE_BYTES + _TYPE_AT)
        if file.read(2) == _INDEX_PAGE:
            found.append(page)
    return chance.choice(found or list(range(pages)))


def _put_back(aside: Path, file: Path) -> None:
    """Over what the server may have made in its place."""
    aside.replace(file)


def _start(bench: Bench, log_name: str) -> tuple[Startup | None, str]:
    try:
        startup = bench.server.start(log_name=log_name, settings=bench.settings)
    except ServerFailedError as error:
        return None, error.message
    return startup, f"ready after {startup.startup_s:.2f} s"


def _says(log: Path) -> str:
    """The first error: what follows mostly follows from it."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line[line.index(_ERROR) :].strip() for line in lines if is_error(line)]
    return errors[0] if errors else "no error"


def _tables(bench: Bench, damaged: str, databases: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """A server may die of being asked; a connection of its own for each question."""
    yield TABLE, _asked(bench, lambda connection: f"{scalar(connection, f'select count(*) from {damaged}'):,} rows")  # noqa: S608

    def others(connection: pymysql.Connection) -> str:
        wrong = [told for told in failing(connection, databases) if not told.startswith(f"{damaged}:")]
        return "; ".join(wrong[:2]) or "all of them pass CHECK TABLE"

    yield OTHERS, _asked(bench, others)


def _asked(bench: Bench, question: Callable[[pymysql.Connection], str]) -> str:
    if not bench.server.alive:
        return "the server is gone"
    try:
        connection = bench.server.connect(timeout_s=_NO_LIMIT_S)
    except ServerFailedError as error:
        return error.message
    try:
        return question(connection)
    except (pymysql.Error, OSError) as error:
        exited = bench.server.life.wait(_LAST_BREATH_S)
        return message_of(error) if exited is None else f"the server dies of it: {exited}"
    finally:
        with suppress(pymysql.Error, OSError):
            connection.close()


def _mended(bench: Bench, witness: Witness, killed_at_s: float) -> str:
    startup, how = _start(bench, _AGAIN_LOG)
    if startup is None:
        return how
    try:
        found = witness.compare(bench.server, killed_at_s=killed_at_s)
    except ServerFailedError as error:
        return f"{how}; {error.message}"
    wrong = [f"{many:,} {name}" for name, many in (("lost", found.lost), ("torn", found.torn)) if many]
    of_all = counted(found.acknowledged, "transaction")
    return f"{how}; {' and '.join(wrong)} of {of_all}" if wrong else f"{how}; all {of_all} there"
