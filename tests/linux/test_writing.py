"""What is written lands where it was asked for, or nowhere: links, folders of others, pipes, full disks, Ctrl-C."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from otherusers import NOBODY, as_user, everybodys_folder, needs_root

from recovery.cli.main import run
from recovery.cli.output import check_output, remove_json, write_json
from recovery.errors import RecoveryError, UsageError
from recovery.linux.files import copy_atomically, write_atomically


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder in which everybody may create files, as /tmp is."""
    with everybodys_folder() as folder:
        yield folder


def folder_of_nobody(path: Path) -> Path:
    path.mkdir(mode=0o755)
    os.chown(path, NOBODY, NOBODY)
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- Links


def test_a_link_in_place_of_the_file_is_neither_followed_nor_replaced_nor_removed(tmp_path: Path) -> None:
    precious, link = tmp_path / "precious", tmp_path / "out.json"
    precious.write_text("keep")
    link.symlink_to(precious)
    with pytest.raises(PermissionError, match="is a link, and is not followed"):
        write_atomically(link, b"new")
    with pytest.raises(RecoveryError, match="is a link, and is not followed"):
        write_json(str(link), {})
    with pytest.raises(UsageError, match=f"--openmetrics={link} cannot be written: {link} is a link"):
        check_output("--openmetrics", str(link))
    remove_json(str(link))
    assert link.is_symlink()
    assert precious.read_text() == "keep"
    assert names(tmp_path) == ["out.json", "precious"]


def test_links_of_ones_own_on_the_way_are_followed_but_not_below_the_named_folder(tmp_path: Path) -> None:
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "up").symlink_to("link/deep/..")
    (tmp_path / "absolute").symlink_to(tmp_path / "up")
    write_atomically(tmp_path / "absolute/deep/file", b"1")
    assert (tmp_path / "real/deep/file").read_bytes() == b"1"
    with pytest.raises(PermissionError, match="link is a link, and is not followed: it leads to real"):
        write_atomically(tmp_path / "link/new/file", b"1", create=True, links_until=tmp_path)
    (tmp_path / "source").write_bytes(b"2")
    with pytest.raises(PermissionError, match="is not followed"):
        copy_atomically(tmp_path / "source", tmp_path / "link/file", links_until=tmp_path)
    assert names(tmp_path / "real") == ["deep"]
    write_atomically(tmp_path / "new/er/file", b"1", create=True, links_until=tmp_path)
    assert (tmp_path / "new/er/file").read_bytes() == b"1"


def test_links_without_an_end_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="Too many levels"):
        write_atomically(tmp_path / "round/file", b"")


@needs_root
@pytest.mark.parametrize("where", ["file", "folder", "above"])
def test_links_of_another_user_are_not_followed(where: str, shared: Path) -> None:
    (shared / "own/deep").mkdir(parents=True)
    (shared / "own/deep/file").write_text("keep")
    with as_user():
        (shared / "link").symlink_to({"file": "own/deep/file", "folder": "own/deep", "above": "own"}[where])
    path = shared / {"file": "link", "folder": "link/file", "above": "link/deep/file"}[where]
    with pytest.raises(PermissionError, match=r"link is a link of another user \(nobody\), and is not"):
        write_atomically(path, b"new")
    remove_json(str(path))
    assert (shared / "own/deep/file").read_text() == "keep"
    assert names(shared / "own/deep") == ["file"]


@needs_root
def test_a_folder_that_another_user_swaps_for_a_link_never_leads_elsewhere(shared: Path) -> None:
    """Each step of the swap happens right before the system call that could be misled by it."""
    precious, theirs = shared / "precious", shared / "theirs"
    precious.mkdir()
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        swaps += 1
        os.seteuid(NOBODY)
        try:
            if theirs.is_symlink():
                theirs.unlink()
                theirs.mkdir()
            else:
                shutil.rmtree(theirs, ignore_errors=True)
                theirs.symlink_to(precious)
        finally:
            os.seteuid(0)

    opened = os.open

    def swapped_before(path: str | Path, *args: object, **kwargs: object) -> int:
        if str(path) == "theirs":
            swap()
        return opened(path, *args, **kwargs)  # type: ignore[arg-type]

    for is_link_first in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "open", swapped_before)
            for _ in range(2 + is_link_first):
                with suppress(OSError):
                    write_atomically(theirs / "file", b"x", create=True)
    assert swaps > 4
    assert names(precious) == []


# --- Folders of another user


@needs_root
def test_root_writes_to_no_folder_that_another_user_can_change(
    shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs, open_to_all = folder_of_nobody(shared / "theirs"), shared / "open"
    (theirs / "own").mkdir()
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    for folder, why in (
        (theirs, "theirs belongs to nobody, who could replace what root writes there"),
        (theirs / "own", "theirs belongs to nobody"),
        (open_to_all, "everybody may write to"),
    ):
        with pytest.raises(PermissionError, match=why):
            write_atomically(folder / "new/file", b"", create=True)
        assert run(["versions", f"--json={folder}/out.json"]) == 2
        error, hint = capsys.readouterr().err.splitlines()
        assert why in error
        assert hint.startswith("hint:")
    assert names(theirs) == ["own"]
    assert names(open_to_all) == names(theirs / "own") == []
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    write_atomically(theirs / "file", b"1")
    monkeypatch.delenv("SUDO_UID")
    with as_user():
        write_atomically(theirs / "file", b"2")
    assert (theirs / "file").read_bytes() == b"2"


@needs_root
def test_in_a_sticky_folder_root_replaces_its_own_files_only(shared: Path) -> None:
    write_atomically(shared / "own", b"1")
    write_atomically(shared / "own", b"2")
    with as_user():
        (shared / "theirs").write_text("keep")
        os.mkfifo(shared / "pipe")
    for name in ("theirs", "pipe"):
        with pytest.raises(RecoveryError, match=f"{name} belongs to nobody"):
            write_json(str(shared / name), {})
    remove_json(str(shared / "theirs"))
    assert (shared / "theirs").read_text() == "keep"
    assert (shared / "own").read_bytes() == b"2"
    assert names(shared) == ["own", "pipe", "theirs"]


# --- What is no file


def test_a_pipe_that_nobody_reads_is_refused_and_another_gets_the_text(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(RecoveryError, match=f"nobody reads {pipe}: start its reader first"):
        write_json(str(pipe), {})
    large = {"text": "x" * 300_000}
    expected = f"{json.dumps(large, indent=2)}\n".encode()
    read = b""

    def read_all() -> None:
        nonlocal read
        while len(read) < len(expected):
            read += os.read(reader, 65536)

    reader = os.open(pipe, os.O_RDWR)  # a reader from now on
    check_output("--json", str(pipe))
    thread = threading.Thread(target=read_all)
    thread.start()
    write_json(str(pipe), large)
    thread.join()
    os.close(reader)
    assert read == expected
    remove_json(str(pipe))
    assert pipe.is_fifo()


def test_devices_and_open_files_are_written_to(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sys.stdout.write("before\n")
    for target in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/null"):
        check_output("--json", target)
        assert write_json(target, "{}\n") is False
        remove_json(target)
    assert capfd.readouterr().out == "before\n{}\n{}\n{}\n"
    with (tmp_path / "file").open("w") as file:
        file.write("first\n")
        file.flush()
        write_json(f"/dev/fd/{file.fileno()}", "{}\n")
        assert (tmp_path / "file").read_text() == "first\n{}\n", "it is not emptied"
    with pytest.raises(RecoveryError, match="No space left"):
        write_json("/dev/full", "{}\n")
    with pytest.raises(UsageError, match="is not a file, a pipe or a terminal"):
        check_output("--json", next(str(path) for path in Path("/dev").iterdir() if path.is_block_device()))
    for folder in (tmp_path, tmp_path / "file/below"):
        with pytest.raises(UsageError, match=r"Is a directory|Not a directory"):
            check_output("--json", str(folder))
    with pytest.raises(UsageError, match="Bad file descriptor"):
        check_output("--json", "/dev/fd/987654")


# --- Writes that end early


@contextmanager
def no_file_over(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_write_that_fails_leaves_the_old_content_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with no_file_over(1 << 16), pytest.raises(OSError, match="File too large"):
        write_atomically(path, b"x" * (1 << 20))
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_ctrl_c_leaves_the_old_content_and_no_draft(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "file"
    write_atomically(path, b"old")
    monkeypatch.setattr(os, call, interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]
