"""Locks between processes, and the status file beside the host's lock."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from otherusers import child_process

from recovery.errors import HostUnfitError
from recovery.linux import locks
from recovery.linux.locks import host_lock, lock_holder, lock_path, take_lock
from recovery.mysqld.datadir import DataDirs
from recovery.session.progress import read_status_files, status_path, write_status_file


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_TIMEOUT_S", 0.0)


@pytest.fixture
def path() -> Path:
    return Path(os.environ["RECOVERY_HOST_LOCK"])


def hold_host_lock() -> str:
    assert take_lock(lock_path()) is not None
    return ""


# --- Who holds a lock


def test_a_second_run_is_refused_with_the_holder_of_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/recovery", "cold", "--tables", "20"])
    with child_process(hold_host_lock) as child, pytest.raises(HostUnfitError) as caught, host_lock():
        pass
    assert f"pid {child.pid}, `recovery cold --tables 20`, since 2" in caught.value.message
    assert caught.value.hint


def test_the_lock_ends_with_its_holder() -> None:
    with child_process(hold_host_lock):
        pass
    with host_lock():
        pass


def test_the_lock_is_not_inherited_by_children() -> None:
    with host_lock():
        child = subprocess.Popen(["sleep", "600"], close_fds=False)
    try:
        with host_lock():
            pass
    finally:
        child.kill()
        child.wait()


def test_an_error_releases_the_lock() -> None:
    with pytest.raises(ZeroDivisionError), host_lock():
        _ = 1 / 0
    with host_lock():
        pass


@pytest.mark.parametrize(
    "signature",
    [
        {"command": "x", "uid": int("9" * 4000)},
        {"command": "a\u001b]0;b\n" + "x" * 9000, "uid": "x", "more": 1},
        {"command": "a\u001b]0;b\n" + "x" * 9000},
    ],
)
def test_the_name_of_a_holder_is_short_and_printable(signature: dict[str, object], path: Path) -> None:
    path.write_text(json.dumps({"pid": 1, "since": "s", **signature}))
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        holder = lock_holder(path)
    assert holder is not None
    assert holder.isprintable()
    assert len(holder) < 400


def test_finding_the_holder_keeps_nobody_from_the_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_TIMEOUT_S", 60.0)
    path.touch()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            lock_holder(path)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(300):
            lock = take_lock(path)
            assert lock is not None
            lock.release()
    finally:
        over.set()
        looking.join()


# --- What is no lock

PRECIOUS = [
    b"my thesis",
    b"\0" * 20,
    b"[1, 2]",
    b'{"pid": 1, "command": "x", "since": "y"} and more',
    b'{"pid": 1, "command": "x", "since": "y"}' + b" " * 70_000 + b"more",
    b'{"pid": 1e999, "command": "x", "since": "y"}',
    b'{"pid": %s, "command": "x", "since": "y"}' % (b"9" * 5000),
    b"[" * 65_000,
    b'{"pid": 5, "command": "x", "since": "y", "precious": "a setting"}',
    b'{"pid": true, "command": "x", "since": "y"}',
    b'{"pid": 5, "command": {"a": ["a setting"]}, "since": "y"}',
]


@pytest.mark.parametrize("content", PRECIOUS, ids=range(len(PRECIOUS)))
def test_a_file_that_is_no_lock_is_refused_and_unchanged(content: bytes, path: Path, tmp_path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(HostUnfitError, match=f"{path} is not a lock file of this tool") as caught, host_lock():
        pass
    assert caught.value.hint
    assert path.read_bytes() == content
    assert lock_holder(path) is None
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert lock_holder(path) == "another process"
    of_a_directory = tmp_path / "data/a-key.lock"
    of_a_directory.parent.mkdir()
    path.rename(of_a_directory)
    with pytest.raises(HostUnfitError, match="is not a lock file of this tool"):
        DataDirs(of_a_directory.parent).acquire("a-key")
    DataDirs(of_a_directory.parent).check()
    assert of_a_directory.read_bytes() == content


@pytest.mark.parametrize("make", [os.mkfifo, Path.symlink_to, Path.hardlink_to])
def test_pipes_and_links_are_refused(make: Callable[..., None], path: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep")
    make(path, *([] if make is os.mkfifo else [precious]))
    with pytest.raises(HostUnfitError, match="cannot be taken"), host_lock():
        pass
    assert lock_holder(path) is None
    assert precious.read_text() == "keep"


def test_a_lock_in_a_folder_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RECOVERY_HOST_LOCK", str(tmp_path / "nowhere/lock"))
    with pytest.raises(HostUnfitError, match="cannot be taken"), host_lock():
        pass


def test_the_lock_of_a_dead_run_is_taken_over(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setattr("sys.argv", ["recovery", "x" * 100_000])
    of_an_older_tool = '{"pid": 1, "command": "recovery cold", "since": "2026-11-22 06:00:00 UTC"}'
    for left in ("", None, of_an_older_tool):
        if left is not None:
            path.write_text(left)
        lock = take_lock(path)
        assert lock is not None
        lock.leave()
    lock = take_lock(path)
    assert lock is not None
    lock.release()
    assert path.read_bytes() == b""


def test_a_release_removes_no_other_file_of_that_name(path: Path, tmp_path: Path) -> None:
    lock = take_lock(path)
    assert lock is not None
    path.rename(tmp_path / "moved")
    path.write_text("mine")
    lock.release(unlink=True)
    assert path.read_text() == "mine"


def test_all_users_have_the_same_default_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECOVERY_HOST_LOCK")
    chosen = lock_path()
    assert chosen.name == "mysql-recovery-tester.lock"
    assert chosen.parent.stat().st_mode & stat.S_IWOTH


# --- The status file


def test_a_status_file_is_private_and_replaced_as_a_whole(tmp_path: Path) -> None:
    lock = tmp_path / "host[1].lock"
    status = status_path(lock)
    assert status.name == f"host[1].lock.{os.geteuid()}.status"
    status.with_name(f".{status.name}").write_text("half, by a killed run")
    write_status_file(status, "one")
    assert stat.S_IMODE(status.stat().st_mode) == 0o600
    with status.open() as reader:
        write_status_file(status, "two")
        assert reader.read() == "one", "a reader keeps the old file"
    write_status_file(status_path(tmp_path / "other.lock"), "of another lock")
    assert list(read_status_files(lock)) == ["two"]
    assert len(list(tmp_path.iterdir())) == 2, "no draft is left"


def test_links_and_pipes_in_place_of_a_status_file_are_not_followed(tmp_path: Path) -> None:
    lock, secret = tmp_path / "host.lock", tmp_path / "secret"
    secret.write_text("secret")
    status = status_path(lock)
    status.symlink_to(secret)
    status.with_name(f".{status.name}").symlink_to(secret)
    status.with_name(f"{lock.name}.{os.geteuid() + 1}.status").write_text("not by the user in its name")
    os.mkfifo(status.with_name(f"{lock.name}.pipe.{os.geteuid()}.status"))
    assert list(read_status_files(lock)) == []
    write_status_file(status, "mine")
    assert list(read_status_files(lock)) == ["mine"]
    assert secret.read_text() == "secret"


def test_a_status_file_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    write_status_file(tmp_path / "missing" / "status", "lost")
    assert list(read_status_files(tmp_path / "missing" / "host.lock")) == []


def test_a_run_that_waits_begins_when_the_other_has_ended() -> None:
    said = []

    @contextmanager
    def waiting(holder: str) -> Iterator[None]:
        said.append(holder)
        other.close()
        yield
        said.append("ended")

    with ExitStack() as other:
        other.enter_context(host_lock())
        with host_lock(waiting=waiting):
            assert lock_holder(lock_path())
            assert said[1:] == ["ended"]
    assert said[0].startswith(f"pid {os.getpid()}")
    with host_lock(waiting=waiting):
        assert len(said) == 2, "there is nothing to wait for"
