"""Kept data directories: locked, described, emptied, and never trusted when they are not whole; and what is read from
their files: checkpoints, modified pages, and the read floor."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest
from otherusers import done_in_child

from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.experiments.bench import Bench, measure_storage_floor
from recovery.experiments.bench_cache import BenchCache
from recovery.linux import locks
from recovery.linux.files import allocated_bytes
from recovery.model import Build, Flavor, Layout, Schema, Version
from recovery.mysqld import read_floor
from recovery.mysqld.bootstrap import create_key_folder
from recovery.mysqld.datadir import DataDir, DataDirs, State, check_intact, disposable_copy
from recovery.mysqld.options import KEY_FILE
from recovery.mysqld.redo_log import checkpoint_lsn, modified_since, parse_page_bytes
from recovery.mysqld.table_files import TableFiles

KEY = "5.7.22-discovery-3-0123abcd"
BUILD = Build(Version(Flavor.MYSQL, (5, 7, 22)), Path("/m"), Path("/b"), "f" * 64, "catalog")
SCHEMA = Schema(3)
OPTIONS = {"a": "1", "b": "2"}
WHOLE = State("whole", version="5.7.22", fingerprint="f" * 64, tables=3, ibd_files=3, rows={"discovery.table_1": 4})


@pytest.fixture
def dirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataDirs:
    monkeypatch.setattr(locks, "_TIMEOUT_S", 0.0)
    return DataDirs(tmp_path / "data")


def fill(dd: DataDir) -> None:
    (dd.mysql / "discovery").mkdir(parents=True)
    (dd.mysql / "ibdata1").write_bytes(b"x" * 5000)
    for number in range(3):
        (dd.mysql / f"discovery/table_{number}.ibd").write_bytes(b"x" * 5000)
        (dd.mysql / f"discovery/table_{number}.frm").touch()


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# --- Keys


def key(
    build: Build = BUILD, schema: Schema = SCHEMA, *, text: str = "create", options: Mapping[str, str] = OPTIONS
) -> str:
    return DataDirs(Path("/data")).key_for(build, schema, template_text=text, options=options)


def test_a_key_is_readable_and_depends_on_everything_that_is_built() -> None:
    assert key() == "5.7.22-discovery-3-95c0fc90", "directories of earlier releases are found"
    assert key() == key(options={"b": "2", "a": "1"}) == key(schema=Schema(3, template=Path("elsewhere")))
    named = dataclasses.replace(BUILD, version=dataclasses.replace(BUILD.version, build="patched"))
    assert key(named) == key(), "the name of a build shapes no file"
    other = dataclasses.replace(BUILD, fingerprint="e" * 64)
    changed = {
        key(other),
        key(schema=Schema(3, columns=1)),
        key(schema=Schema(3, rows=1)),
        key(schema=Schema(1, databases=3)),
        key(schema=Schema(3, statistics=True)),
        key(text="x"),
        key(options={"a": "1"}),
        *(key(schema=dataclasses.replace(SCHEMA, layout=layout)) for layout in Layout),
    }
    assert len(changed | {key()}) == 8 + len(Layout) - 1
    assert key(schema=Schema(3, layout=Layout.GENERAL)).startswith("5.7.22-discovery-3-general-")


def test_any_database_name_makes_a_valid_key(dirs: DataDirs) -> None:
    with dirs.acquire(key(schema=Schema(3, database="../a b/é"))) as dd:
        assert dd.path.parent == dirs.root


@pytest.mark.parametrize("bad", ["", ".", "..", "../other", "/etc", "a/b", ".hidden", "a\0b", "a\n"])
def test_a_key_that_leads_out_of_the_folder_is_refused(dirs: DataDirs, bad: str) -> None:
    for action in (dirs.acquire, dirs.remove):
        with pytest.raises(UsageError):
            action(bad)


# --- State and locks


def test_a_state_is_read_as_it_was_saved_by_its_owner_alone(dirs: DataDirs) -> None:
    with dirs.acquire(KEY) as dd:
        assert dd.state == State("new")
        dd.save(WHOLE)
        assert {folder.stat().st_mode & 0o777 for folder in (dirs.root, dd.path)} == {0o700}
    with dirs.acquire(KEY) as dd:
        assert dd.state == WHOLE


def test_a_directory_in_use_is_neither_used_nor_removed(dirs: DataDirs) -> None:
    in_use = f"in use by pid {os.getpid()}"
    with dirs.acquire(KEY) as dd:
        fill(dd)
        dd.save(WHOLE)
        for action in (dirs.acquire, dirs.remove):
            with pytest.raises(HostUnfitError, match=in_use):
                action(KEY)
        assert f"pid {os.getpid()}" in str(dirs.list()[0].busy_by)
        dd.wipe()
        assert dd.state == State("new")
        assert list(dd.path.iterdir()) == []
        with pytest.raises(HostUnfitError, match=in_use):
            dirs.acquire(KEY)
        dd.save(WHOLE)
    assert dirs.list()[0].busy_by is None


def test_removal_leaves_nothing(dirs: DataDirs) -> None:
    with dirs.acquire(KEY) as dd:
        fill(dd)
    dirs.remove(KEY)
    assert names_in(dirs.root) == []
    with pytest.raises(UsageError, match="no data directory"):
        dirs.remove(KEY)
    dirs.acquire("empty").release()
    assert names_in(dirs.root) == []


def test_folders_that_this_tool_did_not_make_are_not_listed_or_removed(dirs: DataDirs, tmp_path: Path) -> None:
    (dirs.root / "photos").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (dirs.root / "link").symlink_to(tmp_path / "outside")
    assert dirs.list() == ()
    for name in ("photos", "link"):
        with pytest.raises(UsageError):
            dirs.remove(name)


def test_the_list_measures_a_size_that_no_state_has(dirs: DataDirs) -> None:
    assert dirs.list() == ()
    with dirs.acquire(KEY) as dd:
        fill(dd)
        dd.save(State("building"))
        (info,) = dirs.list()
        assert (info.key, info.status, info.tables) == (KEY, "building", None)
        assert info.bytes == allocated_bytes(dd.path) >= 4 * 8192
        dd.save(dataclasses.replace(WHOLE, bytes=77))
    assert (dirs.list()[0].bytes, dirs.list()[0].tables) == (77, 3)


GARBAGE = [
    b"", b"{", b"\xff\xfe", b"[]", b'{"status": "fine"}', b'{"status": "whole", "tables": "x"}', b"[" * 100_000, None,
]  # fmt: skip


@pytest.mark.parametrize("content", GARBAGE, ids=range(len(GARBAGE)))
def test_a_damaged_state_is_refused_and_can_be_removed(dirs: DataDirs, content: bytes | None) -> None:
    with dirs.acquire(KEY) as dd:
        state = dd.path / "state.json"
        os.mkfifo(state) if content is None else state.write_bytes(content)
    with pytest.raises(RecoveryError, match="is damaged") as caught:
        dirs.acquire(KEY)
    assert caught.value.hint
    assert [(info.status, info.busy_by) for info in dirs.list()] == [("damaged", None)]
    dirs.remove(KEY)
    assert dirs.list() == ()


def test_a_newer_format_is_refused(dirs: DataDirs) -> None:
    with dirs.acquire(KEY) as dd:
        (dd.path / "state.json").write_text(json.dumps({"format": 2, "state": "?"}))
    with pytest.raises(RecoveryError, match="newer version"):
        dirs.acquire(KEY)


@pytest.mark.parametrize("root", ["file", "/proc/nowhere"])
def test_a_root_that_cannot_hold_directories_is_refused(root: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HostUnfitError) as caught:
        DataDirs(tmp_path / root).acquire(KEY)
    assert caught.value.hint


def test_a_root_that_is_a_file_has_no_list(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(HostUnfitError):
        DataDirs(tmp_path / "data").list()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_full_disk_leaves_the_old_state(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        with DataDirs(tmp_path).acquire(KEY) as dd:
            dd.save(WHOLE)
            with pytest.raises(OSError, match="No space"):
                (dd.path / "filler").write_bytes(bytes(1 << 17))
            with pytest.raises(HostUnfitError, match="No space"):
                dd.save(dataclasses.replace(WHOLE, version="x" * 10_000))
            assert dd.state == WHOLE
            assert names_in(dd.path) == ["filler", "state.json"]
        with DataDirs(tmp_path).acquire(KEY) as dd:
            assert dd.state == WHOLE
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_directory_that_is_not_whole_is_refused(dirs: DataDirs) -> None:
    with dirs.acquire(KEY) as dd:
        fill(dd)
        dd.save(WHOLE)
        check_intact(dd, SCHEMA, fingerprint="f" * 64)
        with pytest.raises(RecoveryError, match="another build"):
            check_intact(dd, SCHEMA, fingerprint="e" * 64)
        (dd.mysql / "discovery/table_9.ibd").touch()
        with pytest.raises(RecoveryError, match="found 4 table files, expected 3"):
            check_intact(dd, SCHEMA, fingerprint="f" * 64)
        (dd.mysql / "ibdata1").unlink()
        with pytest.raises(RecoveryError, match="no ibdata1"):
            check_intact(dd, SCHEMA, fingerprint="f" * 64)
        dd.save(State("building"))
        with pytest.raises(RecoveryError, match="never finished"):
            check_intact(dd, SCHEMA, fingerprint="f" * 64)


def test_a_directory_is_renamed_over_one_that_is_not_in_use(dirs: DataDirs) -> None:
    with dirs.acquire("small") as small:
        fill(small)
        small.save(State("building", statements_done=4))
        with dirs.acquire("large") as large:
            fill(large)
            with pytest.raises(HostUnfitError, match="large is in use"):
                dirs.rename(small, "large")
            assert small.mysql.is_dir()
        dirs.rename(small, "large")
    assert [info.key for info in dirs.list()] == ["large"]
    with dirs.acquire("large") as large:
        assert large.state.statements_done == 4
        assert large.mysql.is_dir()


def test_drafts_and_locks_of_dead_runs_are_removed(dirs: DataDirs) -> None:
    dead = int(done_in_child(lambda: str(os.getpid())))
    with dirs.acquire(KEY) as dd:
        dd.save(WHOLE)
        (dd.path / f".state.json.{dead}").write_text('{"status": "wh')
    owner = {"pid": dead, "command": "recovery scale", "since": "2026-11-22 06:00:00 UTC"}
    (dirs.root / "removed-0123abcd.lock").write_text(json.dumps(owner))
    (dirs.root / "of-the-user.lock").write_text("mine")
    (dirs.root / "empty.lock").touch()
    about_to_be_made = locks.take_lock(dirs.root / "other.lock")
    assert about_to_be_made is not None
    dirs.check()
    stay = [KEY, f"{KEY}.lock", "empty.lock", "of-the-user.lock"]
    assert names_in(dirs.root) == [*stay, "other.lock"]
    about_to_be_made.leave()
    dirs.check()
    assert names_in(dirs.root) == stay
    with dirs.acquire(KEY) as dd:
        assert dd.state == WHOLE
        assert names_in(dd.path) == ["state.json"]


# --- Directories that no server came back over


def test_the_first_failed_directory_of_a_session_is_set_aside(dirs: DataDirs) -> None:
    first, second = "20261123T010203Z", "20261123T040506Z"
    for session, is_kept in ((first, True), (first, False), (second, True)):
        with dirs.acquire(KEY) as dd:
            assert dd.state.status == "new"
            fill(dd)
            dd.save(dataclasses.replace(WHOLE, status="in_use"))
            kept = dirs.set_aside(dd, session)
            assert kept == (dirs.root / f"{KEY}-failed-{session}" if is_kept else None)
            if not is_kept:
                dd.wipe()
    assert [(info.key, info.status, info.busy_by) for info in dirs.list()] == [
        (f"{KEY}-failed-{session}", "failed", None) for session in (first, second)
    ]
    assert (dirs.root / f"{KEY}-failed-{first}/mysql/discovery/table_2.ibd").is_file()
    dirs.remove(f"{KEY}-failed-{first}")
    assert [info.key for info in dirs.list()] == [f"{KEY}-failed-{second}"]


def test_a_directory_that_cannot_be_set_aside_keeps_its_state(dirs: DataDirs, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a failed one it would be built over."""
    with dirs.acquire(KEY) as dd:
        fill(dd)
        dd.save(dataclasses.replace(WHOLE, status="in_use"))
        monkeypatch.setattr(DataDirs, "rename", Mock(side_effect=HostUnfitError("it cannot be renamed", "")))
        with pytest.raises(HostUnfitError):
            dirs.set_aside(dd, "20261123T010203Z")
        assert dd.state.status == "in_use"


@pytest.mark.parametrize("on_another_disk", [False, True])
def test_a_failed_copy_is_set_aside_with_its_keys_and_its_original_stays(
    on_another_disk: bool, dirs: DataDirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def refused(path: Path, to: Path) -> Path:
        if path.name == "mysql":
            raise OSError(errno.EXDEV, "another disk")
        return rename(path, to)

    if on_another_disk:
        monkeypatch.setattr(Path, "rename", refused)
    with dirs.acquire(KEY) as dd:
        fill(dd)
        dd.save(WHOLE)
        (dd.path / "keys").mkdir()
        (dd.path / "keys" / "keyring").touch()
        with disposable_copy(dd.mysql, dd.path) as copy:
            (copy.mysql / "ibdata1").write_bytes(b"broken")
            kept = dirs.set_aside(dd, "20261123T010203Z", copy=copy.mysql)
        assert kept is not None
        assert (kept / "mysql" / "ibdata1").read_bytes() == b"broken"
        assert (kept / "keys" / "keyring").is_file()
        assert (kept / "mysql" / "discovery" / "table_2.ibd").is_file()
        assert (dd.mysql / "ibdata1").stat().st_size == 5000
        check_intact(dd, SCHEMA, fingerprint="f" * 64)


def test_a_copy_that_does_not_fit_is_not_set_aside_in_part(dirs: DataDirs, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Path, __: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("recovery.mysqld.datadir.move_copy_out", full)
    with dirs.acquire(KEY) as dd:
        dd.save(WHOLE)
        with pytest.raises(HostUnfitError, match="cannot keep a copy: No space left"):
            dirs.set_aside(dd, "20261123T010203Z", copy=dd.path)
        assert [info.key for info in dirs.list()] == [KEY]


# --- Keys of encrypted tables


def test_encryption_keys_are_random_and_readable_by_their_owner_alone(tmp_path: Path) -> None:
    keys = [tmp_path / name for name in ("one", "two")]
    for folder in keys:
        create_key_folder(folder)
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / KEY_FILE).stat().st_mode & 0o777 == 0o600
    texts = [(folder / KEY_FILE).read_text() for folder in keys]
    assert all(re.fullmatch(r"1;[0-9a-f]{64}\n", text) for text in texts)
    assert texts[0] != texts[1]


# --- Redo log and tablespaces


@pytest.mark.parametrize(
    ("logs", "lsn"),
    [
        ({"ib_logfile0": (1, {512: 7, 520: 5000, 1536: 8, 1544: 6000}), "ib_logfile1": (1, {520: 9999})}, 6000),
        ({"#innodb_redo/#ib_redo7": (6, {520: 100, 1544: 200}),
          "#innodb_redo/#ib_redo8": (6, {520: 400, 1544: 300}),
          "#innodb_redo/#ib_redo9_tmp": (6, {520: 9999})}, 400),
        ({"ib_logfile0": (0x50687973, {520: 9999, 4096: 41, 8192: 42})}, 42),  # of newer MariaDB
    ],
)  # fmt: skip
def test_the_last_checkpoint_is_found(logs: dict[str, tuple[int, dict[int, int]]], lsn: int, tmp_path: Path) -> None:
    for name, (kind, places) in logs.items():
        header = bytearray(12288)
        struct.pack_into(">I", header, 0, kind)
        for place, number in places.items():
            struct.pack_into(">Q", header, place, number)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(header)
    assert checkpoint_lsn(tmp_path) == lsn


@pytest.mark.parametrize("size", [None, 0, 100])
def test_a_missing_redo_log_is_an_error(size: int | None, tmp_path: Path) -> None:
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
        (0x21 | 4 << 1, 8192),  # compressed
        (0x15, 16384),  # of newer MariaDB
        (0x15 | 0x20, 16384),
        (0x13, 4096),
        (0x17, 65536),
    ],
)
def test_the_page_size_is_read_from_the_flags(flags: int, size: int) -> None:
    assert parse_page_bytes(bytes(54) + struct.pack(">I", flags)) == size


def test_files_with_pages_after_the_checkpoint_are_found(tmp_path: Path) -> None:
    now = time.time()
    lsns = {"old.ibd": (50, 100), "new.ibd": (50, 60, 101), "untouched.ibd": (200,), "other.frm": (200,)}
    for name, lsns_of_pages in lsns.items():
        pages = [bytearray(16384) for _ in lsns_of_pages]
        for page, lsn in zip(pages, lsns_of_pages, strict=True):
            struct.pack_into(">Q", page, 16, lsn)
        (tmp_path / name).write_bytes(b"".join(pages))
    os.utime(tmp_path / "untouched.ibd", (now - 100, now - 100))
    found = modified_since(TableFiles((tmp_path,)), 100, written_after_s=now - 50)
    assert found == {f"{tmp_path.name}/new.ibd"}


def test_a_pipe_in_a_data_directory_is_not_copied_and_not_waited_for(dirs: DataDirs) -> None:
    with dirs.acquire(KEY) as dd:
        fill(dd)
        os.mkfifo(dd.mysql / "discovery/pipe.ibd")
        with pytest.raises(UsageError, match="is not a regular file"), disposable_copy(dd.mysql, dd.path):
            pass
        assert not list(dd.path.glob("copy/mysql"))


def test_only_what_is_not_a_hole_is_read_for_a_warm_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.ibd").write_bytes(b"x" * 5000)
    with (tmp_path / "sparse.ibd").open("wb") as file:
        file.write(b"x" * 4096)
        file.truncate(10 << 40)
    read, pread = list[int](), os.pread

    def counted(descriptor: int, size: int, at: int) -> bytes:
        found = pread(descriptor, size, at)
        read.append(len(found))
        return found

    monkeypatch.setattr(os, "pread", counted)
    BenchCache(tmp_path, TableFiles((tmp_path,)), None, on_step=lambda _: None).read_all()
    assert sum(read) == 5000 + 4096


# --- The read floor


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
def test_each_file_is_read_once(threads: int, page_bytes: int, folders: tuple[Path, ...]) -> None:
    assert read_floor.read_all(TableFiles(folders), threads, page_bytes) == 200


def test_each_file_is_read_in_a_process_of_its_own(folders: tuple[Path, ...]) -> None:
    count, seconds = read_floor._measure_in_subprocess(TableFiles(folders[:1], "table_7.ibd"), 1, 16384, None)
    assert count == 1
    assert seconds > 0


def test_the_shorter_of_two_times_over_cold_files_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[object] = []

    def measure(_: TableFiles, threads: int, page_bytes: int, __: None) -> tuple[int, float]:
        events.append((threads, page_bytes))
        return 200, 60.0 / len(events)

    monkeypatch.setattr(read_floor, "_measure_in_subprocess", measure)
    found = read_floor.measure_read_floor(TableFiles(()), 16384, lambda: events.append("cold"), None)
    one, many, opening = (1, 16384), (read_floor.MANY_THREADS, 16384), (1, 0)
    assert events == [word for shape in (one, one, many, many, opening, opening) for word in ("cold", shape)]
    assert (found.files, found.threads) == (200, read_floor.MANY_THREADS)
    assert (found.one_thread_s, found.many_threads_s, found.open_s) == (15.0, 7.5, 5.0)


def test_the_floor_reads_pages_of_the_size_that_the_server_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ibdata1").write_bytes(bytes(54) + (3 << 6).to_bytes(4) + bytes(6))
    sizes: list[int] = []
    monkeypatch.setattr("recovery.mysqld.read_floor.measure_read_floor", lambda _, size, *__: sizes.append(size))
    bench = SimpleNamespace(
        stopped_cleanly=True, cache=SimpleNamespace(forget_reads=lambda: None), files="its",
        datadir=SimpleNamespace(mysql=tmp_path),
        server=SimpleNamespace(group=None),
    )  # fmt: skip
    measure_storage_floor(cast(Bench, bench))
    assert sizes == [4096]


def test_files_that_cannot_be_read_for_the_floor_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecoveryError, match=r"could not be read for the floor: No such file"):
        read_floor.measure_read_floor(TableFiles((tmp_path / "nobody",)), 16384, lambda: None, None)
