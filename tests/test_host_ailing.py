"""Is storage blamed for what it did, and for nothing else? The disks that fail are in tests/real."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from recovery.errors import HostUnfitError, ServerFailedError, StorageFailedError, UsageError
from recovery.linux.storage import (
    DATA,
    RESULTS,
    WritableFolder,
    as_storage_error,
    find_full_folder,
    find_storage_problem,
    storage_errors,
)
from recovery.workload.build import BuildInterruptedError


@pytest.mark.parametrize("below", ["", "not/there/yet"])
def test_storage_that_is_well_is_not_blamed(below: str, tmp_path: Path) -> None:
    chosen = WritableFolder(DATA, tmp_path / below, tmp_path)
    assert find_storage_problem(chosen) is None
    assert as_storage_error(ServerFailedError("it did not start"), chosen) is None
    assert find_full_folder([tmp_path]) is None
    with pytest.raises(UsageError, match=r"^wrong$"), storage_errors(chosen):
        raise UsageError("wrong")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "was"),
    [
        ("[ERROR] InnoDB: Error number 28 means 'No space left on device'", "a disk was full"),
        ("[ERROR] Could not write unix socket lock file /tmp/x.sock.lock errno 28.", "a disk was full"),
        ("Operating system error number 28 in a file operation.", "a disk was full"),
        ("Got error 1 (errno: 28 - No space left on device)", "a disk was full"),
        ("Can't create/write to file '/tmp/x' (Errcode: 30 - Read-only file system)", "a filesystem was read-only"),
        ("[ERROR] InnoDB: Disk is full. Try to clean the disk to free space.", "a disk was full"),
        ("[ERROR] [MY-012592] [InnoDB] Operating system error number 5 in a file operation.", "a disk gave errors"),
    ],
)
def test_what_a_server_said_of_a_disk_that_is_well_again(line: str, was: str, tmp_path: Path) -> None:
    error = ServerFailedError("the server did not start", log_tail=("a line", line))
    found = as_storage_error(error, WritableFolder(DATA, tmp_path))
    assert found is not None
    assert found.message == f"{was} during the run: the server did not start"
    assert found.log_tail == error.log_tail


@pytest.mark.parametrize("line", ["errno 280", "Errcode: 2 - No such file", "[ERROR] error 1812", "line 28", "code 5"])
def test_other_numbers_blame_no_disk(line: str, tmp_path: Path) -> None:
    assert as_storage_error(ServerFailedError("it died", log_tail=(line,)), WritableFolder(DATA, tmp_path)) is None


def test_an_error_of_our_own_says_its_number(tmp_path: Path) -> None:
    found = as_storage_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), WritableFolder(RESULTS, tmp_path))
    assert found is not None
    assert found.message == "a disk was full during the run: No space left on device"
    assert as_storage_error(FileNotFoundError(errno.ENOENT, "no such file"), WritableFolder(RESULTS, tmp_path)) is None
    assert as_storage_error(HostUnfitError("the disk is full"), WritableFolder(RESULTS, tmp_path)) is None


def test_who_ended_it_is_not_told_of_disks() -> None:
    read_only = WritableFolder(DATA, Path("/sys/kernel"))
    assert as_storage_error(BuildInterruptedError(3), read_only) is None
    found = as_storage_error(ServerFailedError("it died of " + "a long story " * 30), read_only)
    assert found is not None
    assert found.exit_code == 3
    assert found.message.endswith("…")
    assert len(found.message) < 300


def test_what_was_found_first_is_told(tmp_path: Path) -> None:
    first = StorageFailedError("the disk is full")
    assert as_storage_error(first, WritableFolder(DATA, tmp_path)) is first
    with pytest.raises(StorageFailedError) as caught, storage_errors(WritableFolder(DATA, tmp_path)):
        raise first
    assert caught.value is first
