"""Real files on a real disk: measured in the page cache, removed from it, and proved to be cold."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from keptwarm import kept_warm
from otherusers import as_user, needs_root

from recovery.errors import HostUnfitError, TrialVoidError
from recovery.linux import files, page_cache
from recovery.linux.page_cache import (
    CacheDropper,
    CacheKind,
    DirectCacheDropper,
    ResidencyProbe,
    cachestat_works,
    cold_method,
    direct_cache_dropper,
)
from recovery.linux.storage import device_of
from recovery.model import Layout, Schema
from recovery.mysqld.table_files import make_tables_cold, resident_share, table_files

pytestmark = pytest.mark.alone  # others empty the cache as well
PAGE = 16384
MIB = 1 << 20
DROPPERS = [pytest.param(None, id="fadvise"), pytest.param(DirectCacheDropper(), id="drop", marks=needs_root)]


def write(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.write(b"x" * size)
        file.flush()
        os.fsync(file.fileno())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if device_of(tmp_path).filesystem in ("tmpfs", "zfs"):
        pytest.skip("temporary files lie in memory here")
    (tmp_path / "discovery").mkdir()
    write(tmp_path / "ibdata1", 4 * PAGE)
    for number in range(40):
        write(tmp_path / f"discovery/table_{number}.ibd", 6 * PAGE)
    (tmp_path / "discovery/empty.frm").touch()
    (tmp_path / "discovery/link.ibd").symlink_to("/nowhere")
    with (tmp_path / "discovery/hole.ibd").open("wb") as file:
        file.truncate(64 * PAGE)
    return tmp_path


WRITTEN = 4 * PAGE + 40 * 6 * PAGE
ALL_FILES = 43


def test_written_files_are_resident_and_no_descriptor_is_lost(folder: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    next(files.walk_files(folder))
    found = page_cache.measure_residency(folder)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert found.resident_bytes == WRITTEN
    assert (found.total_bytes, found.files) == (WRITTEN + 64 * PAGE, ALL_FILES)


@pytest.mark.parametrize("dropper", DROPPERS)
def test_a_cold_folder_is_proved_to_be_cold(folder: Path, dropper: CacheDropper | None) -> None:
    proof = page_cache.make_cold(folder, dropper)
    assert proof.means == cold_method(dropper)
    assert proof.resident_bytes == 0
    assert proof.seconds is not None
    assert proof.seconds > 0
    assert page_cache.measure_residency(folder).resident_bytes == 0


class _DropsPagesOnly(CacheDropper):
    means = "drop_caches"

    def drop(self, caches: CacheKind) -> bool:
        return caches is CacheKind.PAGES and DirectCacheDropper().drop(caches)


@needs_root
def test_the_stored_method_is_the_one_that_worked(folder: Path) -> None:
    """Without the second drop inodes and names stay in memory, as they do when files are evicted one by one."""
    assert page_cache.make_cold(folder, _DropsPagesOnly()).means == "fadvise"


def test_dirty_pages_are_written_before_they_are_evicted(folder: Path) -> None:
    (folder / "ib_logfile0").write_bytes(b"y" * 50 * PAGE)
    assert page_cache.make_cold(folder, None).resident_bytes == 0


def test_caches_are_flushed_without_a_proof(folder: Path) -> None:
    page_cache.flush_caches(folder, None)
    assert page_cache.measure_residency(folder).resident_bytes == 0


def test_a_file_counts_as_cached_with_its_first_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = table_files(folder, Schema(40))
    page_cache.make_cold(folder, None)
    assert resident_share(folder, tables) == 0
    for number in range(10):
        os.pread(fd := os.open(folder / f"discovery/table_{number}.ibd", os.O_RDONLY), PAGE, 0)
        os.close(fd)
    assert resident_share(folder, tables) == 10 / 41, "of the tables' files, one of which is a hole"
    monkeypatch.setattr(page_cache, "device_of", lambda path: replace(device_of(path), filesystem="zfs"))
    assert resident_share(folder, tables) is None, "it has a cache of its own"


def test_mincore_and_cachestat_agree(folder: Path) -> None:
    if not cachestat_works(folder):
        pytest.skip("no cachestat here")
    page_cache.make_cold(folder, None)
    with (folder / "discovery/table_1.ibd").open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead
        os.pread(file.fileno(), PAGE, 2 * PAGE)
        status = os.fstat(file.fileno())
        by_cachestat = ResidencyProbe().resident_bytes(file.fileno(), status)
        assert ResidencyProbe(cachestat=False).resident_bytes(file.fileno(), status) == by_cachestat
    assert by_cachestat == PAGE


@contextmanager
def locked(path: Path, size: int) -> Iterator[None]:
    path.parent.mkdir(exist_ok=True)
    write(path, size)
    with kept_warm([path]):
        yield


@pytest.mark.parametrize("dropper", DROPPERS)
def test_pages_that_stay_in_the_cache_void_the_trial(folder: Path, dropper: CacheDropper | None) -> None:
    with (
        locked(folder / "locked.ibd", 32 * MIB),
        pytest.raises(TrialVoidError, match=r"33,554,432 of .* stay in the page cache"),
    ):
        page_cache.make_cold(folder, dropper)


TABLES = Schema(40)


@pytest.mark.parametrize("dropper", DROPPERS)
def test_tables_and_dictionary_are_cold_together(folder: Path, dropper: CacheDropper | None) -> None:
    write(folder / "mysql.ibd", 2 * MIB)
    proof = make_tables_cold(folder, table_files(folder, TABLES), dropper)
    assert (proof.resident_bytes, proof.means) == (0, cold_method(dropper))


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        *((name, Layout.FILES) for name in ("mysql.ibd", "ibdata1", "undo_001", "undo001")),
        *((name, Layout.FILES) for name in ("discovery/table_1.frm", "mysql/innodb_table_stats.ibd")),
        ("discovery/table_1.frm", Layout.GENERAL),
    ],
)
def test_a_warm_dictionary_voids_the_trial_however_large_the_tables(folder: Path, name: str, layout: Layout) -> None:
    with (folder / "discovery/table_0.ibd").open("r+b") as file:
        file.truncate(1 << 32)
    tables = table_files(folder, replace(TABLES, layout=layout))
    with locked(folder / name, 2 * MIB), pytest.raises(TrialVoidError, match=r"2,097,152 of .* of the dictionary in"):
        make_tables_cold(folder, tables, None)


def test_warm_tables_void_the_trial(folder: Path) -> None:
    with locked(folder / "discovery/warm.ibd", 32 * MIB), pytest.raises(TrialVoidError, match="33,554,432 of"):
        make_tables_cold(folder, table_files(folder, TABLES), None)


@pytest.mark.parametrize("name", ["ib_logfile0", "#innodb_redo/#ib_redo7", "ibtmp1"])
def test_redo_log_and_temporary_tables_may_be_warm(folder: Path, name: str) -> None:
    with locked(folder / name, 32 * MIB):
        assert make_tables_cold(folder, table_files(folder, TABLES), None).resident_bytes == 0


def test_memory_cannot_be_made_cold() -> None:
    shared = Path("/dev/shm")
    if device_of(shared).filesystem != "tmpfs":
        pytest.skip("no tmpfs here")
    with pytest.raises(HostUnfitError, match="memory"):
        page_cache.make_cold(shared, direct_cache_dropper())


@needs_root
def test_an_overlay_is_measured_by_mincore(tmp_path: Path) -> None:
    for name in ("lower", "upper", "work", "all"):
        (tmp_path / name).mkdir()
    write(tmp_path / "lower/table.ibd", 8 * PAGE)
    layers = ",".join(f"{name}dir={tmp_path / name}" for name in ("lower", "upper", "work"))
    overlay = tmp_path / "all"
    if subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", layers, str(overlay)], capture_output=True
    ).returncode:
        pytest.skip("no overlay mounts here")
    try:
        found = page_cache.measure_residency(overlay)
        assert (found.resident_bytes, found.means) == (8 * PAGE, "mincore")
        assert device_of(overlay).device is None
    finally:
        subprocess.run(["umount", str(overlay)], check=True)


@needs_root
def test_unreadable_files_are_unknown_and_not_cold(folder: Path) -> None:
    allow_everybody(folder, 0o600)
    with as_user():
        assert page_cache.measure_residency(folder).resident_bytes is None
        assert direct_cache_dropper() is None
        with pytest.raises(HostUnfitError, match="cannot be opened stay in the page cache"):
            page_cache.make_cold(folder, None)


@needs_root
def test_files_of_another_user_are_unknown_and_not_cold(folder: Path) -> None:
    allow_everybody(folder, 0o644)
    with as_user():
        assert page_cache.measure_residency(folder).resident_bytes is None
        assert page_cache.make_cold(folder, None).resident_bytes is None


def allow_everybody(folder: Path, mode: int) -> None:
    """Let everybody reach the files, whose mode this is."""
    for path in (folder, folder.parent, folder.parent.parent):  # pytest's own are 0700
        path.chmod(0o755)
    for folder_fd, name in files.walk_files(folder):
        os.chmod(name, mode, dir_fd=folder_fd)
