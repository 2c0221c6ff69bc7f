"""Storage: its device, the room that tables need, how fast it reads, and whether an error is its fault. Disks that fail
are in tests/real."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from recovery.cli import doctor
from recovery.errors import HostUnfitError, ServerFailedError, StorageFailedError, UsageError
from recovery.linux import read_benchmark, storage
from recovery.linux.read_benchmark import (
    BRIEF_EFFORT,
    FULL_EFFORT,
    NOT_PROBED,
    SHORT_EFFORT,
    ReadProbe,
    ReadSpeed,
    RereadTimes,
    effort_for,
    probe_reads,
)
from recovery.linux.storage import (
    DATA,
    RESULTS,
    DiskSpace,
    WritableFolder,
    as_storage_error,
    check_space,
    completed_reads,
    device_of,
    find_full_folder,
    find_storage_problem,
    free_space,
    storage_errors,
)
from recovery.model import Layout, Schema, parse_version
from recovery.mysqld.table_files import kept_table_files
from recovery.mysqld.table_size import estimate_space
from recovery.workload.build import BuildInterruptedError

# --- The device


def test_the_mount_is_the_one_that_findmnt_names(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/proc/sys"), Path("/dev/shm"), Path("/sys")):
        command = ["findmnt", "-no", "FSTYPE,OPTIONS", "-T", str(path)]
        mounts = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        filesystem, options = mounts[-1].split()  # the last of several mounts there hides the others
        device = device_of(path / "not/there/yet")
        assert device.filesystem == filesystem
        assert set(str(device.mount_options).split(",")) == set(options.split(","))


def test_a_filesystem_in_memory_has_no_device() -> None:
    device = device_of(Path("/proc"))
    assert (device.filesystem, device.device, device.stat_path, completed_reads(device)) == ("proc", None, None, None)


def test_mount_lines_have_escapes_and_optional_fields() -> None:
    mount = storage.parse_mount(
        r"36 35 98:0 /mnt1 /my\040disk rw,noatime master:1 shared:2 - ext4 /dev/root rw,discard"
    )
    assert vars(mount) == {
        "number": "98:0", "point": "/my disk", "filesystem": "ext4", "options": "rw,noatime,discard",
    }  # fmt: skip


def test_a_partition_has_the_queue_of_its_disk(tmp_path: Path) -> None:
    disk = tmp_path / "nvme0n1"
    (disk / "nvme0n1p1").mkdir(parents=True)
    for name, text in {
        "queue/scheduler": "none [mq-deadline] kyber", "queue/read_ahead_kb": "128", "queue/rotational": "0",
        "device/model": "Amazon Elastic Block Store   ", "device/serial": "vol0123456789abcdef0",
        "nvme0n1p1/partition": "1", "nvme0n1p1/stat": "   42 0 8 1 2 0 16 3 0 4 4\n",
    }.items():  # fmt: skip
        (disk / name).parent.mkdir(exist_ok=True)
        (disk / name).write_text(text)
    device = storage._block_device(disk / "nvme0n1p1")
    assert (device.device, device.scheduler, device.read_ahead_kb) == ("/dev/nvme0n1p1", "mq-deadline", 128)
    assert (device.model, device.serial) == ("Amazon Elastic Block Store", "vol0123456789abcdef0")
    assert device.rotational is False
    assert completed_reads(device) == 42


# --- The room that tables need


@pytest.mark.parametrize(
    ("version", "gigabytes", "inodes"),
    [
        ("5.6.24", 23.6, 401_000),
        ("5.7.22", 23.6, 401_000),
        ("8.0.15", 18.5, 201_000),
        ("8.0.31", 25.1, 201_000),
        ("9.7.4", 25.1, 201_000),
        ("mariadb-10.11.5", 15.4, 401_000),
    ],
)
def test_a_directory_needs_what_was_measured(version: str, gigabytes: float, inodes: int) -> None:
    need = estimate_space(parse_version(version), Schema(200_000))
    assert need.bytes / 1e9 == pytest.approx(gigabytes, abs=0.1)
    assert need.inodes == inodes


def need_of_1000_tables(
    version: str, page: str = "16k", *, layout: Layout = Layout.FILES, indexes: int = 0, block: int | None = None
) -> DiskSpace:
    few, many = (
        estimate_space(
            parse_version(version),
            Schema(tables, layout=layout),
            {"innodb_page_size": page},
            indexes=indexes * tables,
            block_bytes=None if block is None else block * 1024,
        )
        for tables in (1000, 2000)
    )
    return many - few


@pytest.mark.parametrize(
    ("version", "layout", "kib", "inodes"),
    [
        ("5.6.24", Layout.PARTITIONED, 400, 6),
        ("5.7.22", Layout.PARTITIONED, 396, 5),
        ("8.0.31", Layout.PARTITIONED, 451, 4),
        ("mariadb-10.11.5", Layout.PARTITIONED, 264, 6),
        ("5.7.22", Layout.GENERAL, 30, 1),
        ("8.0.31", Layout.GENERAL, 21, 0),
    ],
)
def test_a_table_needs_what_was_measured_in_each_layout(version: str, layout: Layout, kib: int, inodes: int) -> None:
    need = need_of_1000_tables(version, layout=layout)
    assert need.bytes / 1000 / 1024 == pytest.approx(kib, abs=0.1)
    assert need.inodes == 1000 * inodes


MEASURED = {
    # version, page size, indexes beside the primary key: KiB on ext4, of 100 to 600 tables
    ("5.6.24", "8k", 0): 60, ("5.6.24", "16k", 3): 156, ("5.6.24", "4k", 12): 100,
    ("5.7.22", "4k", 0): 36, ("5.7.22", "32k", 0): 204, ("5.7.22", "64k", 0): 396, ("5.7.22", "16k", 12): 304,
    ("8.0.15", "4k", 0): 22, ("8.0.15", "16k", 1): 114, ("8.0.15", "16k", 6): 211,
    ("8.0.31", "4k", 0): 30, ("8.0.31", "64k", 0): 450, ("8.0.31", "16k", 3): 163, ("8.0.31", "4k", 12): 91,
    ("mariadb-10.2.11", "4k", 0): 28, ("mariadb-10.2.11", "16k", 0): 100, ("mariadb-10.2.11", "4k", 12): 95,
    ("mariadb-10.11.5", "64k", 0): 260, ("mariadb-10.11.5", "16k", 12): 264,
    ("mariadb-11.4.5", "16k", 0): 68, ("mariadb-11.4.5", "16k", 6): 164,
}  # fmt: skip
COMPRESSED = {
    # version, page size, compressed pages in KiB or 0 where the server chooses them
    ("5.6.24", "16k", 4): 76, ("5.7.22", "16k", 1): 16, ("5.7.22", "16k", 0): 44, ("5.7.22", "8k", 4): 28,
    ("5.7.22", "4k", 4): 36, ("8.0.31", "16k", 1): 10, ("8.0.31", "16k", 8): 58, ("8.0.31", "8k", 0): 30,
    ("mariadb-10.11.5", "16k", 1): 68, ("mariadb-10.2.11", "16k", 16): 100,
}  # fmt: skip
IN_ONE_FILE = {("5.7.22", "4k"): 18, ("5.7.22", "16k"): 29, ("8.0.31", "4k"): 9, ("8.0.31", "16k"): 21}


@pytest.mark.parametrize(
    ("needed", "kib", "least", "most"),
    [
        *((need_of_1000_tables(*one[:2], indexes=one[2]), kib, 0.92, 1.19) for one, kib in MEASURED.items()),
        *((need_of_1000_tables(*one[:2], block=one[2]), kib, 0.92, 1.15) for one, kib in COMPRESSED.items()),
        *((need_of_1000_tables(*one, layout=Layout.GENERAL), kib, 0.95, 1.05) for one, kib in IN_ONE_FILE.items()),
    ],
)
def test_a_table_needs_what_was_measured_with_each_size_of_pages(
    needed: DiskSpace, kib: int, least: float, most: float
) -> None:
    assert least <= needed.bytes / 1000 / 1024 / kib <= most


@pytest.mark.parametrize("settings", [{"innodb_page_size": "4096"}, {"loose_innodb_page_size": "4K"}])
def test_a_million_tables_with_small_pages_need_a_third(settings: dict[str, str]) -> None:
    version, schema = parse_version("5.7.22"), Schema(1_000_000)
    assert estimate_space(version, schema, settings).bytes / 1e9 == pytest.approx(38.4, abs=0.1)
    assert estimate_space(version, schema, {"innodb_page_size": "nonsense"}) == estimate_space(version, schema)


def test_too_little_room_is_refused_with_figures(tmp_path: Path) -> None:
    there = free_space(tmp_path / "not/there")
    assert there.bytes > 0
    check_space(tmp_path / "not/there", DiskSpace(there.bytes // 2, there.inodes // 2))
    with pytest.raises(HostUnfitError, match=r"1000000000\.0 GB") as caught:
        check_space(tmp_path, DiskSpace(10**18, 1))
    assert "--tables" in caught.value.hint
    if there.inodes < sys.maxsize:
        with pytest.raises(HostUnfitError, match="inodes"):
            check_space(tmp_path, DiskSpace(1, there.inodes + 10**9))


# --- How fast it reads


@pytest.fixture
def on_a_disk(tmp_path: Path) -> None:
    if device_of(tmp_path).device is None:
        pytest.skip("no block device under the temporary files")


def bytes_read() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes:"))


@pytest.mark.usefixtures("on_a_disk")
def test_a_disk_has_four_speeds_that_are_not_those_of_the_page_cache(tmp_path: Path) -> None:
    before = bytes_read()
    probe = probe_reads(tmp_path / "not/there/yet", BRIEF_EFFORT)
    assert list(tmp_path.iterdir()) == []
    assert probe.speeds.keys() == {"4k_1", "4k_16", "16k_1", "16k_16"}
    assert all(min(speed.iops, speed.mean_ms, speed.p99_ms) > 0 for speed in probe.speeds.values())
    sizes = {name: read_benchmark.SIZES[name.partition("_")[0]] for name in probe.speeds}
    least = sum(0.8 * BRIEF_EFFORT.seconds * speed.iops * sizes[name] for name, speed in probe.speeds.items())
    assert bytes_read() - before > least, "it was read from the device"
    one = probe.speeds["4k_1"]
    assert (one.iops - 0.5) * one.mean_ms / 1000 <= 1.1, "single reads do not overlap"
    facts = probe.facts()
    assert facts["probe_4k_1_iops"] == one.iops
    assert facts["probe_16k_16_p99_ms"] == probe.speeds["16k_16"].p99_ms
    assert (facts["probe_seconds_each"], facts["probe_file_bytes"]) == (0.1, 16 << 20)
    again = probe.again
    assert again is not None
    assert again.over == "the file just written"
    assert 0 < again.blocks <= 128
    assert min(again.first_ms, again.again_ms) > 0
    assert (facts["probe_again_blocks"], facts["probe_first_read_ms"]) == (again.blocks, again.first_ms)


def test_storage_that_cannot_be_probed_has_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert probe_reads(Path("/proc"), BRIEF_EFFORT).speeds == {}
    if device_of(Path("/dev/shm")).filesystem == "tmpfs":
        in_memory = probe_reads(Path("/dev/shm"), BRIEF_EFFORT)
        assert in_memory == ReadProbe(BRIEF_EFFORT, {}, "tmpfs is in memory")
        assert in_memory.facts() == {"probe": "none: tmpfs is in memory"}
    assert NOT_PROBED.facts() == {"probe": "none: left out, as asked"}
    with monkeypatch.context() as patch:
        patch.setattr(read_benchmark, "free_space", lambda _: DiskSpace(20 << 20, 9))
        assert probe_reads(tmp_path, BRIEF_EFFORT).why_not == "no room for a file of 16 MiB"

    def refuse(*_: object) -> int:
        raise OSError(22, "Invalid argument", str(tmp_path))

    monkeypatch.setattr(os, "preadv", refuse)
    assert probe_reads(tmp_path, BRIEF_EFFORT).why_not == "Invalid argument", "the folder is not named"


def test_the_two_reads_of_a_block_follow_each_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So that other load on the host slows both."""
    read: list[int] = []

    def timed(places: Iterable[tuple[int, int]], size: int, until: float) -> Iterator[float]:
        read.extend(offset for _, offset in places)
        yield from (0.008, 0.002) if len(read) % 4 else (0.004, 0.001)

    monkeypatch.setattr(read_benchmark, "_timed_reads", timed)
    with (tmp_path / "file").open("wb") as file:
        file.write(bytes(1 << 20))
        found = read_benchmark._measure_reread("a file", [(file.fileno(), 16384 * number) for number in range(5)])
    assert found == RereadTimes("a file", 5, first_ms=8.0, again_ms=2.0, times_faster=4.0)
    assert read == [16384 * number for number in (0, 0, 1, 1, 2, 2, 3, 3, 4, 4)]


@pytest.mark.usefixtures("on_a_disk")
def test_some_kept_tables_are_read_rather_than_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = tmp_path / "5.7.22-discovery-200-abc" / "mysql" / "discovery"
    schema.mkdir(parents=True)
    for number in range(200):
        (schema / f"table_{number}.ibd").write_bytes(b"x" * 16384)
    os.sync()
    assert read_benchmark._reread_kept_files(kept_table_files(tmp_path)) is None, "one in a hundred is too few"
    monkeypatch.setattr(read_benchmark, "_ONE_FILE_IN", 2)
    monkeypatch.setattr(read_benchmark, "_MAX_S", 600.0)
    found = read_benchmark._reread_kept_files(kept_table_files(tmp_path))
    assert found is not None
    assert (found.over, found.blocks) == ("tables' files kept here", 100)
    assert read_benchmark._reread_kept_files(kept_table_files(tmp_path / "not" / "there")) is None


def test_the_doctor_explains_blocks_that_are_read_faster_again() -> None:
    probe = ReadProbe(SHORT_EFFORT, {"4k_1": ReadSpeed(1, 2.0, 3.0)}, again=RereadTimes("x", 256, 0.47, 0.065, 7.2))
    (check,) = [check for check in doctor.read_speed_checks(probe) if check.name == "just-read blocks"]
    assert check.detail == (
        "Reading the same blocks again is 7.2 times as fast (0.47 ms, then 0.065 ms): the hypervisor, the disk "
        "controller or the disk caches what was read."
    )
    assert "cold to this machine only" in check.why
    for times, blocks in ((1.3, 256), (50.0, 99)):
        other = replace(probe, again=RereadTimes("the file just written", blocks, 0.47, 0.065, times))
        (check,) = [check for check in doctor.read_speed_checks(other) if check.name == "just-read blocks"]
        assert check.detail.startswith("not known: 0.47 ms, then 0.065")
    assert [check.name for check in doctor.read_speed_checks(NOT_PROBED)] == ["reads"]


def test_the_effort_grows_with_the_session() -> None:
    efforts = {20: BRIEF_EFFORT, 1000: SHORT_EFFORT, 9_999: SHORT_EFFORT, 10_000: FULL_EFFORT, 200_000: FULL_EFFORT}
    assert {tables: effort_for(tables) for tables in efforts} == efforts


# --- Errors that are the storage's


@pytest.mark.parametrize("below", ["", "not/there/yet"])
def test_storage_without_a_problem_is_not_blamed(below: str, tmp_path: Path) -> None:
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
        *((line, None) for line in ("errno 280", "Errcode: 2 - No such file")),
        *((line, None) for line in ("[ERROR] error 1812", "line 28", "code 5")),
    ],
)
def test_the_log_of_a_server_blames_a_disk_by_error_numbers(line: str, was: str | None, tmp_path: Path) -> None:
    error = ServerFailedError("the server did not start", log_tail=("a line", line))
    found = as_storage_error(error, WritableFolder(DATA, tmp_path))
    if was is None:
        assert found is None
    else:
        assert found is not None
        assert found.message == f"{was} during the run: the server did not start"
        assert found.log_tail == error.log_tail


def test_an_error_of_this_tool_blames_a_disk_by_its_number(tmp_path: Path) -> None:
    results = WritableFolder(RESULTS, tmp_path)
    found = as_storage_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), results)
    assert found is not None
    assert found.message == "a disk was full during the run: No space left on device"
    for other in (FileNotFoundError(errno.ENOENT, "no such file"), HostUnfitError("the disk is full")):
        assert as_storage_error(other, results) is None


def test_an_interrupted_build_blames_no_disk_and_a_message_is_shortened() -> None:
    read_only = WritableFolder(DATA, Path("/sys/kernel"))
    assert as_storage_error(BuildInterruptedError(3), read_only) is None
    found = as_storage_error(ServerFailedError("it died of " + "a long story " * 30), read_only)
    assert found is not None
    assert found.exit_code == 3
    assert found.message.endswith("…")
    assert len(found.message) < 300


def test_the_first_storage_error_is_kept(tmp_path: Path) -> None:
    first = StorageFailedError("the disk is full")
    assert as_storage_error(first, WritableFolder(DATA, tmp_path)) is first
    with pytest.raises(StorageFailedError) as caught, storage_errors(WritableFolder(DATA, tmp_path)):
        raise first
    assert caught.value is first
