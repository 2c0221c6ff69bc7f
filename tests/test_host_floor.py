"""Is every table's file read once, and no more of it than asked, in a process that can be limited?"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from recovery.errors import RecoveryError
from recovery.experiments.bench import Bench, measure_storage_floor
from recovery.linux.files import TableFiles
from recovery.mysqld import read_floor


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, ...]:
    found = tuple(tmp_path / name for name in ("one", "two"))
    for folder in found:
        folder.mkdir()
        for number in range(100):
            (folder / f"table_{number}.ibd").write_bytes(bytes(65536))
        (folder / "db.opt").touch()
    return found


@pytest.mark.parametrize(("threads", "page_bytes"), [(1, 16384), (16, 16384), (1, 0)])
def test_each_file_once(threads: int, page_bytes: int, folders: tuple[Path, ...]) -> None:
    assert read_floor.read_all(TableFiles(folders), threads, page_bytes) == 200


def test_cold_before_each_of_the_three(folders: tuple[Path, ...]) -> None:
    times_cold = []
    found = read_floor.measure_read_floor(TableFiles(folders), 16384, lambda: times_cold.append(1), None)
    assert len(times_cold) == 6, "each twice"
    assert (found.files, found.threads) == (200, read_floor.MANY_THREADS)
    assert min(found.one_thread_s, found.many_threads_s, found.open_s) > 0


@pytest.mark.parametrize(("flags", "page_bytes"), [(0, 16384), (3 << 6, 4096), (0x17, 65536)])
def test_as_much_of_each_as_a_page_of_the_server(
    flags: int, page_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which its system tablespace tells, be it MySQL's or MariaDB's."""
    (tmp_path / "ibdata1").write_bytes(bytes(54) + flags.to_bytes(4) + bytes(6))
    asked: list[int] = []
    monkeypatch.setattr("recovery.experiments.bench.measure_read_floor", lambda _, size, *__: asked.append(size))
    bench = SimpleNamespace(
        stopped_cleanly=True, invalidate_cache_baseline=lambda: None, files="its",
        datadir=SimpleNamespace(mysql=tmp_path),
        server=SimpleNamespace(group=None),
    )  # fmt: skip
    measure_storage_floor(cast(Bench, bench))
    assert asked == [page_bytes]


def test_the_only_file_of_all_tables(folders: tuple[Path, ...]) -> None:
    """In the process that reads as well."""
    found = read_floor.measure_read_floor(TableFiles(folders[:1], "table_7.ibd"), 16384, lambda: None, None)
    assert found.files == 1


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(RecoveryError, match=r"could not be read for the floor: .*/nobody: No such file"):
        read_floor.measure_read_floor(TableFiles((tmp_path / "nobody",)), 16384, lambda: None, None)
