"""Damage to a file, and what is reported about a server that finds it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pymysql
import pytest

from recovery.cli.measure import request_from_arguments
from recovery.crash import damage
from recovery.crash.consistency import first_damage_message
from recovery.crash.tasks import FileFault
from recovery.errors import ServerFailedError
from recovery.mysqld.datadir import Copy

LOGS = Path(__file__).parents[2] / "fixtures" / "errorlogs"
INDEX = b"\x45\xbf"


def damaged(fault: FileFault, folder: Path, page_bytes: int, seed: int = 1) -> tuple[bytes, bytes]:
    """Return a file of ten pages, of which the eighth is an index page, before and after the fault."""
    file = folder / "table_1.ibd"
    pages = [bytearray(b"\x01" * page_bytes) for _ in range(10)]
    pages[7][24:26] = INDEX
    before = b"".join(pages)
    file.write_bytes(before)
    chance = Random(seed)  # noqa: S311 - no secret
    assert damage._apply_fault(fault, Copy(folder), file, chance, page_bytes=page_bytes) is None
    return before, file.read_bytes()


@pytest.mark.parametrize("page_bytes", [4 << 10, 64 << 10])
@pytest.mark.parametrize("seed", range(5))
def test_a_bit_is_flipped_in_an_index_page(page_bytes: int, seed: int, tmp_path: Path) -> None:
    pages = zip(*damaged(FileFault.FLIPPED, tmp_path, page_bytes, seed), strict=True)
    assert [at // page_bytes for at, (one, other) in enumerate(pages) if one != other] == [7]


def test_half_of_the_pages_are_cut_off(tmp_path: Path) -> None:
    before, after = damaged(FileFault.TRUNCATED, tmp_path, 4 << 10)
    assert after == before[: len(before) // 2]


def description_of(error: Exception, *, exited: str | None = None) -> str:
    """Return the description of a query that ends with this error."""
    timeouts: list[float] = []

    def connect(timeout_s: float) -> SimpleNamespace:
        timeouts.append(timeout_s)
        return SimpleNamespace(close=lambda: None)

    life = SimpleNamespace(wait=lambda _: exited)
    server = SimpleNamespace(alive=True, config=SimpleNamespace(stall_s=7.0), connect=connect, process=life)

    def question(_: pymysql.Connection) -> str:
        raise error

    description = damage._query_or_error(cast("Any", SimpleNamespace(server=server)), question)
    assert timeouts == [7.0], "the stall timeout that the user gave"
    return description


def test_a_query_without_an_answer_is_described() -> None:
    late = pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query (timed out)")
    late.__context__ = TimeoutError("timed out")
    assert description_of(late) == "no answer within 7 s"
    lost = pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")
    assert description_of(lost) == "Lost connection to MySQL server during query (2013)"
    assert description_of(lost, exited="exit 2") == "the server crashes: exit 2"
    assert description_of(ServerFailedError("it takes no connection")) == "it takes no connection"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "2026-11-22T12:20:23.302158Z 0 [ERROR] InnoDB: Operating system error number 2 in a file operation.\n"
            "2026-11-22T12:20:23.302190Z 0 [ERROR] InnoDB: The error means the system cannot find the path specified.\n"
            "2026-11-22T12:20:23.302Z 0 [ERROR] InnoDB: Cannot open datafile for read-only: './d/t.ibd' OS error: 71",
            "[ERROR] InnoDB: Cannot open datafile for read-only: './d/t.ibd' OS error: 71",
        ),
        (
            "2026-11-22T12:21:01.160412Z 0 [Warning] [MY-013829] [Server] Missing data directory for ICU: /tree/.\n"
            "2026-11-22T12:21:01.082570Z 1 [Warning] [MY-012351] [InnoDB] Tablespace 2, file './d/t.ibd' is missing!\n"
            "2026-11-22T12:21:01.201Z 9 [ERROR] [MY-012216] [InnoDB] Cannot open datafile for read-only: './d/t.ibd'",
            "[Warning] [MY-012351] [InnoDB] Tablespace 2, file './d/t.ibd' is missing!",
        ),
        (
            "InnoDB: Apply batch completed\nInnoDB: Database page corruption on disk or a failed\n"
            "InnoDB: file read of page 3.\nInnoDB: You may have to recover from a backup.",
            "InnoDB: Database page corruption on disk or a failed file read of page 3.",
        ),
        ("2015-10-01 12:00:00 7f01  InnoDB: Error: page 3 log sequence number 5 is in the future!",
         "InnoDB: Error: page 3 log sequence number 5 is in the future!"),
        ("2026-11-22 12:20:32 7f01 InnoDB: table './d/t.ibd' looks corrupted; trying again",
         "InnoDB: table './d/t.ibd' looks corrupted; trying again"),
        ("InnoDB: Progress in percent: 0 1 2026-11-22T12:20:35Z 0 [ERROR] InnoDB: Database page corruption on disk",
         "[ERROR] InnoDB: Database page corruption on disk"),
        (
            "2026-11-22 12:00:00 0 [ERROR] Can't open the mysql.plugin table.\n"
            "2026-11-22 12:00:01 0 [Warning] InnoDB: Table d/t is corrupt.",
            "[Warning] InnoDB: Table d/t is corrupt.",
        ),
        (
            "2026-11-22 12:21:33 0 [Warning] InnoDB: Retry attempts for writing partial data failed.\n"
            "2026-11-22 12:21:33 0 [ERROR] InnoDB: preallocating 1258 bytes for file ./ibtmp1 failed with error 28",
            "[ERROR] InnoDB: preallocating 1258 bytes for file ./ibtmp1 failed with error 28",
        ),
        ("2026-11-22 12:00:00 0 [ERROR] InnoDB: Error number 5 means 'I/O error'\n[ERROR] Out of ideas.",
         "[ERROR] Out of ideas."),
        ("2026-11-22 12:00:00 0 [ERROR] InnoDB: Error number 5 means 'I/O error'",
         "[ERROR] InnoDB: Error number 5 means 'I/O error'"),
        (
            "2026-11-22T12:20:15.270385Z 0 [ERROR] InnoDB: Write to file ./ibtmp1failed at offset 0, 1048576 bytes "
            "should have been written, only 0 were written. Operating system error number 28.\n"
            "2026-11-22T12:20:15.270396Z 0 [ERROR] InnoDB: Error number 28 means 'No space left on device'",
            "[ERROR] InnoDB: Write to file ./ibtmp1failed at offset 0, 1048576 bytes should have been written, only 0 "
            "were written. Operating system error number 28.",
        ),
        ("11:14:05 UTC - mysqld got signal 6 ;", "11:14:05 UTC - mysqld got signal 6 ;"),
        ("2026-11-22T12:20:35Z 0 [Note] InnoDB: Page 3 in the doublewrite buffer is corrupt", None),
        ("", None),
    ],
)  # fmt: skip
def test_the_first_message_about_damage_is_found(lines: str, message: str | None) -> None:
    assert first_damage_message(lines.split("\n")) == message


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.err")), ids=lambda log: log.name)
def test_a_good_start_has_no_message_about_damage(log: Path) -> None:
    assert first_damage_message(log.read_text(encoding="utf-8", errors="replace").splitlines()) is None


def test_a_damaged_server_is_given_up_earlier_unless_the_user_says_when() -> None:
    assert request_from_arguments("damage", []).method.stall_s == 60
    assert request_from_arguments("damage", ["--stall", "300"]).method.stall_s == 300
    assert request_from_arguments("crash-recovery", []).method.stall_s == 300
