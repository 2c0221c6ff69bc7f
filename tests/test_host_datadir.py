"""Kept data directories: locked, described, emptied, and never taken for whole when they are not."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux.files import allocated_bytes
from recovery.model import Build, Flavor, Layout, Schema, Version
from recovery.mysqld.datadir import DataDir, DataDirs, State, check_intact, disposable_copy

KEY = "5.7.22-discovery-3-0123abcd"
BUILD = Build(Version(Flavor.MYSQL, (5, 7, 22)), Path("/m"), Path("/b"), "f" * 64, "catalog")
SCHEMA = Schema(3)
OPTIONS = {"a": "1", "b": "2"}
WHOLE = State("whole", version="5.7.22", fingerprint="f" * 64, tables=3, ibd_files=3, rows={"discovery.table_1": 4})


@pytest.fixture
def dirs(tmp_path: Path) -> DataDirs:
    return DataDirs(tmp_path / "data")


def fill(dd: DataDir, *, files: int = 3) -> None:
    (dd.mysql / "discovery").mkdir(parents=True)
    (dd.mysql / "ibdata1").write_bytes(b"x" * 5000)
    for number in range(files):
        (dd.mysql / f"discovery/table_{number}.ibd").write_bytes(b"x" * 5000)
        (dd.mysql / f"discovery/table_{number}.frm").touch()


def test_state_comes_back_as_it_was_saved(dirs: DataDirs) -> None:
    with dirs.acquire(KEY) as dd:
        assert dd.state == State("new")
        dd.save(WHOLE)
    with dirs.acquire(KEY) as dd:
        assert dd.state == WHOLE


def test_what_a_server_did_not_come_back_over_is_set_aside(dirs: DataDirs) -> None:
    """Of a version in a session the first; no run finds it by the key that it had."""
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


@pytest.mark.parametrize("on_another_disk", [False, True])
def test_of_a_copy_only_the_copy_is_set_aside(
    on_another_disk: bool, dirs: DataDirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the keys of its encrypted tables."""
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
        check_intact(dd, SCHEMA)


def test_half_of_a_copy_is_not_set_aside(dirs: DataDirs, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Path, __: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("recovery.mysqld.datadir.move_copy_out", full)
    with dirs.acquire(KEY) as dd:
        dd.save(WHOLE)
        with pytest.raises(HostUnfitError, match="cannot keep a copy: No space left"):
            dirs.set_aside(dd, "20261123T010203Z", copy=dd.path)
        assert [info.key for info in dirs.list()] == [KEY]


def test_only_its_owner_may_look_in(dirs: DataDirs) -> None:
    with dirs.acquire(KEY) as dd:
        assert {folder.stat().st_mode & 0o777 for folder in (dirs.root, dd.path)} == {0o700}


def key(
    build: Build = BUILD, schema: Schema = SCHEMA, *, text: str = "create", options: Mapping[str, str] = OPTIONS
) -> str:
    return DataDirs(Path("/data")).key_for(build, schema, template_text=text, options=options)


def test_a_key_is_readable_and_stands_for_all_that_went_in() -> None:
    assert key() == "5.7.22-discovery-3-95c0fc90", "what an earlier release of this tool has built is found"
    assert key() == key(options={"b": "2", "a": "1"}) == key(schema=Schema(3, template=Path("elsewhere")))
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


def test_a_strange_database_still_makes_a_valid_key(dirs: DataDirs) -> None:
    with dirs.acquire(key(schema=Schema(3, database="../a b/é"))) as dd:
        assert dd.path.parent == dirs.root


HOLD = """
import sys
from collections.abc import Mapping
from pathlib import Path
from recovery.mysqld.datadir import DataDirs
with DataDirs(Path(sys.argv[1])).acquire(sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_busy_tells_by_whom_and_is_not_removed(dirs: DataDirs) -> None:
    command = [sys.executable, "-c", HOLD, str(dirs.root), KEY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "held\n"
            with pytest.raises(RecoveryError, match=f"in use by pid {child.pid}"):
                dirs.acquire(KEY)
            with pytest.raises(RecoveryError, match=f"in use by pid {child.pid}"):
                dirs.remove(KEY)
            (info,) = dirs.list()
            assert f"pid {child.pid}" in str(info.busy_by)
        finally:
            child.kill()
    assert dirs.list()[0].busy_by is None
    dirs.acquire(KEY).release()


def test_wiping_keeps_the_lock(dirs: DataDirs) -> None:
    with dirs.acquire(KEY) as dd:
        fill(dd)
        dd.save(WHOLE)
        dd.wipe()
        assert dd.state == State("new")
        assert list(dd.path.iterdir()) == []
        with pytest.raises(RecoveryError, match="in use"):
            dirs.acquire(KEY)


def test_removal_leaves_nothing(dirs: DataDirs) -> None:
    with dirs.acquire(KEY) as dd:
        fill(dd)
    dirs.remove(KEY)
    assert list(dirs.root.iterdir()) == []
    with pytest.raises(UsageError, match="no data directory"):
        dirs.remove(KEY)


@pytest.mark.parametrize("bad", ["", ".", "..", "../other", "/etc", "a/b", ".hidden", "a\0b", "a\n"])
def test_a_key_stays_inside(dirs: DataDirs, bad: str) -> None:
    for action in (dirs.acquire, dirs.remove):
        with pytest.raises(UsageError):
            action(bad)


def test_folders_of_others_are_not_ours(dirs: DataDirs, tmp_path: Path) -> None:
    (dirs.root / "photos").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (dirs.root / "link").symlink_to(tmp_path / "outside")
    assert dirs.list() == ()
    for name in ("photos", "link"):
        with pytest.raises(UsageError):
            dirs.remove(name)


def test_the_list_measures_what_no_state_tells(dirs: DataDirs) -> None:
    assert dirs.list() == ()
    with dirs.acquire(KEY) as dd:
        fill(dd)
        dd.save(State("building"))
        (info,) = dirs.list()
        assert (info.key, info.status, info.tables) == (KEY, "building", None)
        assert info.bytes == allocated_bytes(dd.path) >= 4 * 8192
        dd.save(dataclasses.replace(WHOLE, bytes=77))
    assert (dirs.list()[0].bytes, dirs.list()[0].tables) == (77, 3)


GARBAGE = [b"", b"{", b"\xff\xfe", b"[]", b'{"status": "fine"}', b'{"status": "whole", "tables": "x"}', b"[" * 100_000]


@pytest.mark.parametrize("content", GARBAGE, ids=range(len(GARBAGE)))
def test_a_damaged_state_is_told_and_can_be_removed(dirs: DataDirs, content: bytes) -> None:
    with dirs.acquire(KEY) as dd:
        (dd.path / "state.json").write_bytes(content)
    with pytest.raises(RecoveryError, match="is damaged") as caught:
        dirs.acquire(KEY)
    assert caught.value.hint
    assert [(info.status, info.busy_by) for info in dirs.list()] == [("damaged", None)]
    dirs.remove(KEY)
    assert dirs.list() == ()


def test_a_state_that_is_no_file_is_damaged(dirs: DataDirs) -> None:
    """No pipe is waited for."""
    with dirs.acquire(KEY) as dd:
        os.mkfifo(dd.path / "state.json")
    assert [info.status for info in dirs.list()] == ["damaged"]
    with pytest.raises(RecoveryError, match="is damaged"):
        dirs.acquire(KEY)


def test_a_newer_format_is_refused(dirs: DataDirs) -> None:
    with dirs.acquire(KEY) as dd:
        (dd.path / "state.json").write_text(json.dumps({"format": 2, "state": "?"}))
    with pytest.raises(RecoveryError, match="newer version"):
        dirs.acquire(KEY)


def test_a_root_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    for action in (lambda: DataDirs(tmp_path / "data").acquire(KEY), DataDirs(tmp_path / "data").list):
        with pytest.raises(HostUnfitError) as caught:
            action()
        assert caught.value.hint


def test_a_root_that_cannot_be_written() -> None:
    with pytest.raises(HostUnfitError):
        DataDirs(Path("/proc/nowhere")).acquire(KEY)


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
            assert sorted(entry.name for entry in dd.path.iterdir()) == ["filler", "state.json"]
        with DataDirs(tmp_path).acquire(KEY) as dd:
            assert dd.state == WHOLE
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_intact_is_proved(dirs: DataDirs) -> None:
    with dirs.acquire(KEY) as dd:
        fill(dd)
        dd.save(WHOLE)
        check_intact(dd, SCHEMA, fingerprint="f" * 64)
        with pytest.raises(RecoveryError, match="another build"):
            check_intact(dd, SCHEMA, fingerprint="e" * 64)
        (dd.mysql / "discovery/table_9.ibd").touch()
        with pytest.raises(RecoveryError, match="found 4 table files, expected 3"):
            check_intact(dd, SCHEMA)
        (dd.mysql / "ibdata1").unlink()
        with pytest.raises(RecoveryError, match="no ibdata1"):
            check_intact(dd, SCHEMA)
        dd.save(State("building"))
        with pytest.raises(RecoveryError, match="never finished"):
            check_intact(dd, SCHEMA)


def test_a_directory_under_another_key(dirs: DataDirs) -> None:
    with dirs.acquire("small") as small:
        fill(small)
        small.save(State("building", statements_done=4))
        with dirs.acquire("large") as large:
            fill(large)
        dirs.rename(small, "large")
    assert [info.key for info in dirs.list()] == ["large"]
    with dirs.acquire("large") as large:
        assert large.state.statements_done == 4
        assert large.mysql.is_dir()


def test_a_key_in_use_is_not_taken_over(dirs: DataDirs) -> None:
    with dirs.acquire("small") as small, dirs.acquire("large"):
        fill(small)
        with pytest.raises(HostUnfitError, match="large is in use"):
            dirs.rename(small, "large")
        assert small.mysql.is_dir()


def test_nothing_is_left_where_nothing_was_made(dirs: DataDirs) -> None:
    dirs.acquire("empty").release()
    assert dirs.list() == ()
    assert list(dirs.root.iterdir()) == []


def test_what_the_dead_left_half_made_beside_directories_goes(dirs: DataDirs) -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    with dirs.acquire(KEY) as dd:
        dd.save(WHOLE)
        (dd.path / f".state.json.{process.pid}").write_text('{"status": "wh')
    owner = {"pid": process.pid, "command": "recovery scale", "since": "2026-11-22 06:00:00 UTC"}
    (dirs.root / "removed-0123abcd.lock").write_text(json.dumps(owner))
    (dirs.root / "of-the-user.lock").write_text("mine")
    (dirs.root / "empty.lock").touch()
    dirs.check()
    assert sorted(entry.name for entry in dirs.root.iterdir()) == [KEY, f"{KEY}.lock", "empty.lock", "of-the-user.lock"]
    with dirs.acquire(KEY) as dd:
        assert dd.state == WHOLE
        assert [entry.name for entry in dd.path.iterdir()] == ["state.json"]


def test_the_lock_of_who_is_about_to_make_a_directory_stays(dirs: DataDirs) -> None:
    script = (
        "import sys; from pathlib import Path; from recovery.linux.locks import take_lock\n"
        "lock = take_lock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    dirs.check()
    path = dirs.root / f"{KEY}.lock"
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "held\n"
            dirs.check()
            assert path.exists()
        finally:
            child.kill()
    dirs.check()
    assert not path.exists()
