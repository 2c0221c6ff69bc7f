"""The host as it is: storage, usage, space, facts and the doctor, against other sources of the same figures."""

from __future__ import annotations

import getpass
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from waiting import until

from recovery.cli.doctor import Check, examine, summary_lines
from recovery.cli.main import run
from recovery.errors import HostUnfitError
from recovery.linux import cgroups, procfs, storage
from recovery.linux.host_facts import collect_host_facts, ebs_volume, ec2_instance_type, public_mount_options
from recovery.linux.read_benchmark import NOT_PROBED, SHORT_EFFORT, ReadProbe, ReadSpeed
from recovery.linux.storage import (
    Device,
    DiskSpace,
    check_space,
    completed_reads,
    device_of,
    estimate_space,
    free_space,
)
from recovery.model import Layout, Schema, parse_version


def test_the_device_is_the_one_that_findmnt_names(tmp_path: Path) -> None:
    ask = ["findmnt", "-no", "FSTYPE,TARGET", "-T", str(tmp_path)]
    told = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split()
    device = device_of(tmp_path / "not/there/yet")
    assert [device.filesystem, device.mount_point] == told
    assert "rw" in str(device.mount_options).split(",")


def test_memory_has_no_device() -> None:
    device = device_of(Path("/proc"))
    assert (device.filesystem, device.device, device.stat_path, completed_reads(device)) == ("proc", None, None, None)


def test_mount_lines_with_blanks_and_optional_fields() -> None:
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
    assert device.rotational is False
    assert completed_reads(device) == 42
    assert ebs_volume(device) == "vol-0123456789abcdef0"


def test_amazon_only_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "product_name").write_text("m5.large\n")
    (tmp_path / "sys_vendor").write_text("QEMU\n")
    assert ec2_instance_type(tmp_path) is None
    (tmp_path / "sys_vendor").write_text("Amazon EC2\n")
    assert ec2_instance_type(tmp_path) == "m5.large"
    assert ebs_volume(Device(model="Samsung", serial="vol1")) is None


WORK = """
import os, sys
print("go", flush=True); sys.stdin.readline()
os.posix_fadvise(fd := os.open(sys.argv[1], os.O_RDONLY), 0, 0, os.POSIX_FADV_DONTNEED)
os.read(fd, 1 << 20); sum(range(5_000_000))
print("done", flush=True); sys.stdin.readline()
"""


def test_the_meter_counts_one_process(tmp_path: Path) -> None:
    device = device_of(tmp_path)
    if device.device is None:
        pytest.skip("no block device under the temporary files")
    (tmp_path / "big").write_bytes(os.urandom(1 << 20))
    os.sync()
    command = [sys.executable, "-c", WORK, str(tmp_path / "big")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        meter, before = cgroups.UsageMeter(child.pid, device), procfs.process_activity(child.pid)
        child.stdin.write("\n")
        child.stdin.flush()
        child.stdout.readline()
        found = meter.read()
        assert found.read_bytes is not None
        assert found.read_bytes >= 1 << 20
        assert found.read_requests is not None
        assert found.read_requests >= 1
        assert found.cpu_s is not None
        assert found.cpu_s > 0.02
        assert found.cache_grown_bytes is not None
        waits = psutil.Process(child.pid)
        until(lambda: waits.status() == psutil.STATUS_SLEEPING, "its next read")
        after = procfs.process_activity(child.pid)
        assert after is not None
        assert after != before
        assert after == procfs.process_activity(child.pid)
        child.stdin.write("\n")
    assert procfs.process_activity(child.pid) is None
    gone = meter.read()
    assert (gone.read_bytes, gone.cpu_s) == (None, None)


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
def test_needs_are_those_measured(version: str, gigabytes: float, inodes: int) -> None:
    need = estimate_space(parse_version(version), Schema(200_000))
    assert need.bytes / 1e9 == pytest.approx(gigabytes, abs=0.1)
    assert need.inodes == inodes


@pytest.mark.parametrize(
    ("version", "layout", "kilobytes", "inodes"),
    [
        ("5.6.24", Layout.PARTITIONED, 409.6, 6),
        ("5.7.22", Layout.PARTITIONED, 405.5, 5),
        ("8.0.31", Layout.PARTITIONED, 461.8, 4),
        ("mariadb-10.11.5", Layout.PARTITIONED, 270.3, 6),
        ("5.7.22", Layout.GENERAL, 30.7, 1),
        ("8.0.31", Layout.GENERAL, 21.5, 0),
    ],
)
def test_what_each_table_takes_where_it_lies_otherwise(
    version: str, layout: Layout, kilobytes: float, inodes: int
) -> None:
    few, many = (estimate_space(parse_version(version), Schema(tables, layout=layout)) for tables in (1000, 2000))
    assert (many - few).bytes / 1e6 == pytest.approx(kilobytes, abs=0.1)
    assert (many - few).inodes == 1000 * inodes


def each_kib(
    version: str, page: str, *, layout: Layout = Layout.FILES, indexes: int = 0, block_bytes: int | None = None
) -> float:
    few, many = (
        estimate_space(
            parse_version(version),
            Schema(tables, layout=layout),
            {"innodb_page_size": page},
            indexes=indexes * tables,
            block_bytes=block_bytes,
        )
        for tables in (1000, 2000)
    )
    return (many - few).bytes / 1000 / 1024


MEASURED = {
    # version, page size, indexes beside the primary key: KiB on ext4, of 100 to 600 tables
    ("5.6.24", "4k", 0): 36, ("5.6.24", "8k", 0): 60, ("5.6.24", "16k", 3): 156, ("5.6.24", "4k", 12): 100,
    ("5.7.22", "4k", 0): 36, ("5.7.22", "8k", 0): 60, ("5.7.22", "16k", 0): 108, ("5.7.22", "32k", 0): 204,
    ("5.7.22", "64k", 0): 396, ("5.7.22", "16k", 1): 124, ("5.7.22", "16k", 12): 304, ("5.7.22", "4k", 12): 101,
    ("8.0.15", "4k", 0): 22, ("8.0.15", "16k", 0): 82, ("8.0.15", "16k", 1): 114, ("8.0.15", "16k", 6): 211,
    ("8.0.31", "4k", 0): 30, ("8.0.31", "16k", 0): 114, ("8.0.31", "64k", 0): 450, ("8.0.31", "16k", 3): 163,
    ("8.0.31", "4k", 6): 63, ("8.0.31", "4k", 12): 91,
    ("mariadb-10.2.11", "4k", 0): 28, ("mariadb-10.2.11", "16k", 0): 100, ("mariadb-10.2.11", "4k", 12): 95,
    ("mariadb-10.11.5", "4k", 0): 20, ("mariadb-10.11.5", "64k", 0): 260, ("mariadb-10.11.5", "16k", 12): 264,
    ("mariadb-11.4.5", "4k", 0): 20, ("mariadb-11.4.5", "16k", 0): 68, ("mariadb-11.4.5", "16k", 6): 164,
}  # fmt: skip
COMPRESSED = {
    # version, page size, compressed pages in KiB or 0 where the server chooses them
    ("5.6.24", "16k", 4): 76, ("5.7.22", "16k", 1): 16, ("5.7.22", "16k", 0): 44, ("5.7.22", "8k", 4): 28,
    ("5.7.22", "4k", 4): 36, ("8.0.31", "16k", 1): 10, ("8.0.31", "16k", 8): 58, ("8.0.31", "8k", 0): 30,
    ("mariadb-10.11.5", "16k", 1): 68, ("mariadb-10.2.11", "16k", 16): 100,
}  # fmt: skip


@pytest.mark.parametrize(("asked", "kib"), MEASURED.items())
def test_a_table_takes_what_was_measured_with_pages_of_every_size(asked: tuple[str, str, int], kib: int) -> None:
    version, page, indexes = asked
    assert kib * 0.92 <= each_kib(version, page, indexes=indexes) <= kib * 1.19


@pytest.mark.parametrize(("asked", "kib"), COMPRESSED.items())
def test_and_with_compressed_ones(asked: tuple[str, str, int], kib: int) -> None:
    version, page, block = asked
    assert kib * 0.92 <= each_kib(version, page, block_bytes=block * 1024) <= kib * 1.15


@pytest.mark.parametrize(
    ("version", "page", "kib"),
    [("5.7.22", "4k", 18), ("5.7.22", "16k", 29), ("8.0.31", "4k", 9), ("8.0.31", "16k", 21)],
)
def test_and_in_one_file(version: str, page: str, kib: int) -> None:
    assert each_kib(version, page, layout=Layout.GENERAL) == pytest.approx(kib, rel=0.05)


def test_a_million_tables_with_small_pages() -> None:
    """112 GB were asked for, and 37 are needed."""
    version, schema = parse_version("5.7.22"), Schema(1_000_000)
    for settings in ({"innodb_page_size": "4096"}, {"loose_innodb_page_size": "4K"}):
        assert estimate_space(version, schema, settings).bytes / 1e9 == pytest.approx(38.4, abs=0.1)
    assert (
        estimate_space(version, schema).bytes == estimate_space(version, schema, {"innodb_page_size": "nonsense"}).bytes
    )


def test_space_is_refused_with_figures(tmp_path: Path) -> None:
    there = free_space(tmp_path / "not/there")
    assert there.bytes > 0
    check_space(tmp_path / "not/there", DiskSpace(there.bytes // 2, there.inodes // 2))
    with pytest.raises(HostUnfitError, match=r"1000000000\.0 GB") as caught:
        check_space(tmp_path, DiskSpace(10**18, 1))
    assert "TABLES=" in caught.value.hint
    if there.inodes < sys.maxsize:
        with pytest.raises(HostUnfitError, match="inodes"):
            check_space(tmp_path, DiskSpace(1, there.inodes + 10**9))


def test_the_environment_is_scalars_and_keeps_secrets(tmp_path: Path) -> None:
    facts = collect_host_facts(tmp_path)
    assert all(name == name.lower() and isinstance(value, str | int | float | None) for name, value in facts.items())
    assert facts["kernel"] == platform.release()
    assert facts["memory_bytes"] == pytest.approx(1024 * meminfo("MemTotal"), rel=0.01)
    told = " ".join(str(value) for value in facts.values()).split()
    assert not {socket.gethostname(), str(Path.home())} & set(told)
    assert getpass.getuser() not in told
    assert str(tmp_path) not in " ".join(told)
    assert facts["temporary_filesystem"] == device_of(Path(tempfile.gettempdir())).filesystem
    assert {"tool_device", "fanotify", "cpu_quota", "ec2_instance_type", "other_servers"} <= facts.keys()


def meminfo(name: str) -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def test_mount_options_lose_folders_users_and_addresses() -> None:
    options = "rw,lowerdir=/home/ann/a:/b,username=ann,addr=10.0.0.1,size=5k,vers=4.2"
    assert public_mount_options(Device(mount_options=options)) == "rw,size=5k,vers=4.2"


def checks(data: Path) -> dict[str, Check]:
    return {check.name: check for found in examine(data).values() for check in found}


def test_the_doctor_touches_nothing_and_has_a_hint_for_every_ill(tmp_path: Path) -> None:
    found = checks(tmp_path / "data")
    assert list(tmp_path.iterdir()) == []
    assert {"root", "drop_caches", "cachestat", "open files", "disk", "inodes", "read-ahead", "mvn"} <= found.keys()
    assert {"fanotify", "control groups", "swappiness", "virtualisation", "load", "container engine"} <= found.keys()
    assert all(check.hint for check in found.values() if check.ok is False)
    assert found["data folder"].ok


def test_the_doctor_finds_what_ails() -> None:
    assert checks(Path("/proc/nowhere"))["data folder"].ok is False
    if device_of(Path("/dev/shm")).filesystem == "tmpfs":
        assert checks(Path("/dev/shm"))["filesystem"].ok is False


def test_the_doctor_tells_what_it_is_given(tmp_path: Path) -> None:
    tried = ReadProbe(SHORT_EFFORT, {"4k_16": ReadSpeed(52_666, 0.3, 1.03)})
    found = examine(tmp_path, stackers={"eu-stack": "not there", "perf": None}, tried=tried)
    told = {check.name: check for checks in found.values() for check in checks}
    assert told["4 KiB reads, 16 at once"].detail == "52,666 a second; mean 0.30 ms, p99 1.03 ms"
    assert (told["eu-stack"].ok, told["eu-stack"].hint, told["perf"].ok) == (None, "", True)
    none = examine(tmp_path, stackers={"eu-stack": "not there"}, tried=NOT_PROBED)
    assert none["Programs that take stacks"][0].hint
    assert "left out" in next(check.detail for check in none["Storage"] if check.name == "reads")


def test_the_page_of_the_doctor_is_narrow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["doctor", "--no-probe", "--data", str(tmp_path)])
    summary = capsys.readouterr().out.splitlines()
    assert len(summary) <= 12
    assert (code, summary[0][:16]) in ((0, "This host is fit"), (3, "This host is not"))
    assert run(["doctor", "--no-probe", "-v", "--data", str(tmp_path)]) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == summary[0]
    assert "Storage" in lines[len(summary) :]
    assert all(len(line) <= 80 or str(tmp_path) in line for line in lines)
    assert run(["doctor", "--no-probe", "--json", "--data", str(tmp_path)]) == code
    told = json.loads(capsys.readouterr().out)
    assert {"subject", "name", "ok", "detail", "why", "hint"} == told["checks"][0].keys()
    assert all(check["why"] and check["detail"] for check in told["checks"])
    assert told["environment"]["kernel"] == platform.release()
    assert told["environment"]["probe"] == "none: left out, as asked"


def test_the_summary_has_what_is_bad_first_and_at_most_12_lines() -> None:
    fine = Check("disk", True, "9 GB free", "x")
    few = summary_lines({"Room": (fine, Check("memory", False, "1 GB", "y", "use fewer tables"))})
    assert few == [
        "This host is not fit for measurements: 1 BAD.",
        "BAD   memory: 1 GB",
        "     -> use fewer tables",
        "ok    disk: 9 GB free",
        "2 checks: 1 BAD, 0 notes. `recovery doctor -v` shows all of them.",
    ]
    many = summary_lines({"Room": tuple(Check(f"c{number}", False, "x", "y", "z") for number in range(20))})
    assert (len(many), many[-1][:9]) == (12, "20 checks")


def test_the_doctor_sees_other_servers(tmp_path: Path) -> None:
    """By the kernel's name of the process, whatever it is."""
    (tmp_path / "mysqld").write_bytes(Path("/bin/sleep").read_bytes())
    (tmp_path / "mysqld").chmod(0o700)
    child = subprocess.Popen([str(tmp_path / "mysqld"), "600"])
    try:
        assert f"{child.pid}" in checks(tmp_path)["other servers"].detail
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    ("state", "action", "told"),
    [("on", "pageout", "DAMON pages out what is idle for 20 s"), ("off", "pageout", None), ("on", "stat", None)],
)
def test_a_host_that_pages_out_what_is_idle(state: str, action: str, told: str | None, tmp_path: Path) -> None:
    """As the kernel lays it out under /sys; not every host has one to look at."""
    content = {
        "state": state,
        "contexts/0/schemes/nr_schemes": "1",
        "contexts/0/schemes/0/action": action,
        "contexts/0/schemes/0/access_pattern/age/min": "4",
        "contexts/0/monitoring_attrs/intervals/aggr_us": "5000000",
    }
    for name, text in content.items():
        path = tmp_path / "0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert procfs.idle_pageout(tmp_path) == told
    assert procfs.idle_pageout(tmp_path / "missing") is None
