"""Are the checkpoint and the pages that came after it found, in each form in which servers write them?"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import pytest

from recovery.errors import RecoveryError
from recovery.linux.files import TableFiles
from recovery.mysqld.redo_log import checkpoint_lsn, modified_since, parse_page_bytes


def log(path: Path, *, kind: int, places: dict[int, int]) -> None:
    header = bytearray(12288)
    struct.pack_into(">I", header, 0, kind)
    for place, lsn in places.items():
        struct.pack_into(">Q", header, place, lsn)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(header)


def test_two_checkpoints_in_the_first_log_file(tmp_path: Path) -> None:
    log(tmp_path / "ib_logfile0", kind=1, places={512: 7, 520: 5000, 1536: 8, 1544: 6000})
    log(tmp_path / "ib_logfile1", kind=1, places={520: 9999})
    assert checkpoint_lsn(tmp_path) == 6000


def test_a_folder_of_log_files(tmp_path: Path) -> None:
    redo = tmp_path / "#innodb_redo"
    log(redo / "#ib_redo7", kind=6, places={520: 100, 1544: 200})
    log(redo / "#ib_redo8", kind=6, places={520: 400, 1544: 300})
    log(redo / "#ib_redo9_tmp", kind=6, places={520: 9999})
    assert checkpoint_lsn(tmp_path) == 400


def test_the_log_of_newer_mariadb(tmp_path: Path) -> None:
    log(tmp_path / "ib_logfile0", kind=0x50687973, places={520: 9999, 4096: 41, 8192: 42})
    assert checkpoint_lsn(tmp_path) == 42


@pytest.mark.parametrize("size", [None, 0, 100])
def test_no_log(size: int | None, tmp_path: Path) -> None:
    if size is not None:
        (tmp_path / "ib_logfile0").write_bytes(bytes(size))
    with pytest.raises(RecoveryError, match="no redo log"):
        checkpoint_lsn(tmp_path)


@pytest.mark.parametrize(
    ("flags", "size"),
    [
        (0, 16384),
        (0x21, 16384),
        (0x21 | 3 << 6, 4096),
        (0x21 | 7 << 6, 65536),
        (0x21 | 4 << 1, 8192),
        (0x15, 16384),
        (0x15 | 0x20, 16384),
        (0x13, 4096),
    ],
)
def test_the_size_of_a_page(flags: int, size: int) -> None:
    """Plain, of other sizes, compressed, and in MariaDB's newer form."""
    assert parse_page_bytes(bytes(54) + struct.pack(">I", flags)) == size


def tablespace(path: Path, *lsns: int) -> None:
    pages = [bytearray(16384) for _ in lsns]
    for page, lsn in zip(pages, lsns, strict=True):
        struct.pack_into(">Q", page, 16, lsn)
    path.write_bytes(b"".join(pages))


def test_files_with_newer_pages(tmp_path: Path) -> None:
    now = time.time()
    tablespace(tmp_path / "old.ibd", 50, 100)
    tablespace(tmp_path / "new.ibd", 50, 60, 101)
    tablespace(tmp_path / "untouched.ibd", 200)
    tablespace(tmp_path / "other.frm", 200)
    os.utime(tmp_path / "untouched.ibd", (now - 100, now - 100))
    found = modified_since(TableFiles((tmp_path,)), 100, written_after_s=now - 50)
    assert found == {f"{tmp_path.name}/new.ibd"}
