"""Is a session's word private, whole, and never somebody else's?"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from recovery.session.progress import left_beside, status_path, write


def test_it_is_private_and_replaced_as_a_whole(tmp_path: Path) -> None:
    lock = tmp_path / "host[1].lock"
    path = status_path(lock)
    assert path.name == f"host[1].lock.{os.geteuid()}.status"
    write(path, "one")
    first = path.stat()
    assert stat.S_IMODE(first.st_mode) == 0o600
    with path.open() as reader:
        write(path, "two")
        assert reader.read() == "one", "who reads keeps what was there"
    assert list(left_beside(lock)) == ["two"]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name], "no draft is left"


def test_two_locks_do_not_mix(tmp_path: Path) -> None:
    write(status_path(tmp_path / "a.lock"), "a")
    write(status_path(tmp_path / "b.lock"), "b")
    assert list(left_beside(tmp_path / "a.lock")) == ["a"]


def test_a_draft_that_a_killed_run_left_is_no_obstacle(tmp_path: Path) -> None:
    path = status_path(tmp_path / "host.lock")
    path.with_name(f".{path.name}").write_text("half")
    write(path, "whole")
    assert list(left_beside(tmp_path / "host.lock")) == ["whole"]


def test_what_others_put_in_its_place_is_not_followed(tmp_path: Path) -> None:
    lock, secret = tmp_path / "host.lock", tmp_path / "secret"
    secret.write_text("secret")
    path = status_path(lock)
    path.symlink_to(secret)
    path.with_name(f".{path.name}").symlink_to(secret)
    other = path.with_name(f"{lock.name}.{os.geteuid() + 1}.status")
    other.write_text("not by the user that its name says")
    os.mkfifo(path.with_name(f"{lock.name}.pipe.{os.geteuid()}.status"))
    assert list(left_beside(lock)) == []
    write(path, "mine")
    assert list(left_beside(lock)) == ["mine"]
    assert secret.read_text() == "secret"


def test_where_it_cannot_be_written_nothing_happens(tmp_path: Path) -> None:
    write(tmp_path / "missing" / "status", "lost")
    assert list(left_beside(tmp_path / "missing" / "host.lock")) == []
