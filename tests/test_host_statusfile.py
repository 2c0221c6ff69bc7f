"""Is a session's word private, whole, and never somebody else's?"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from recovery.session.progress import read_status_files, status_path, write_status_file


def test_it_is_private_and_replaced_as_a_whole(tmp_path: Path) -> None:
    lock = tmp_path / "host[1].lock"
    path = status_path(lock)
    assert path.name == f"host[1].lock.{os.geteuid()}.status"
    write_status_file(path, "one")
    first = path.stat()
    assert stat.S_IMODE(first.st_mode) == 0o600
    with path.open() as reader:
        write_status_file(path, "two")
        assert reader.read() == "one", "who reads keeps what was there"
    assert list(read_status_files(lock)) == ["two"]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name], "no draft is left"


def test_two_locks_do_not_mix(tmp_path: Path) -> None:
    write_status_file(status_path(tmp_path / "a.lock"), "a")
    write_status_file(status_path(tmp_path / "b.lock"), "b")
    assert list(read_status_files(tmp_path / "a.lock")) == ["a"]


def test_a_draft_that_a_killed_run_left_is_no_obstacle(tmp_path: Path) -> None:
    path = status_path(tmp_path / "host.lock")
    path.with_name(f".{path.name}").write_text("half")
    write_status_file(path, "whole")
    assert list(read_status_files(tmp_path / "host.lock")) == ["whole"]


def test_what_others_put_in_its_place_is_not_followed(tmp_path: Path) -> None:
    lock, secret = tmp_path / "host.lock", tmp_path / "secret"
    secret.write_text("secret")
    path = status_path(lock)
    path.symlink_to(secret)
    path.with_name(f".{path.name}").symlink_to(secret)
    other = path.with_name(f"{lock.name}.{os.geteuid() + 1}.status")
    other.write_text("not by the user that its name says")
    os.mkfifo(path.with_name(f"{lock.name}.pipe.{os.geteuid()}.status"))
    assert list(read_status_files(lock)) == []
    write_status_file(path, "mine")
    assert list(read_status_files(lock)) == ["mine"]
    assert secret.read_text() == "secret"


def test_where_it_cannot_be_written_nothing_happens(tmp_path: Path) -> None:
    write_status_file(tmp_path / "missing" / "status", "lost")
    assert list(read_status_files(tmp_path / "missing" / "host.lock")) == []
