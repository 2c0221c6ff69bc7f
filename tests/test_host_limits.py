"""Control groups, on trees of plain files that look like cgroup v1, v2 and both at once."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from recovery.cli import doctor
from recovery.errors import HostUnfitError, RecoveryError
from recovery.linux import cgroups, cleanup
from recovery.linux.cgroups import LimitGroup, controller_settings, hierarchies, server_limits
from recovery.linux.procfs import name_with_process_id
from recovery.linux.storage import Device
from recovery.model import NO_LIMITS, Limits

ALL = Limits(read_iops=5000, read_bps=1 << 20, memory_bytes=256 << 20, cpus=0.5)
DISK = Device(device="/dev/vdb1", filesystem="ext4", disk="254:16")


def hybrid(folder: Path) -> Path:
    """Each controller of version 1 in a hierarchy of its own, and a version 2 without them."""
    lines = ["22 1 254:0 / / rw - ext4 /dev/vda rw"]
    for number, name in enumerate(("blkio", "memory", "cpu", "pids", "name=systemd", "unified")):
        (folder / name).mkdir()
        kind = "cgroup2 cgroup2 rw" if name == "unified" else f"cgroup cgroup rw,{name}"
        lines.append(f"3{number} 22 0:3{number} / {folder / name} rw,relatime shared:9 - {kind}")
    (folder / "unified" / "cgroup.controllers").write_text("hugetlb\n")
    return mounts(folder, lines)


def unified(folder: Path, controllers: str = "cpuset cpu io memory pids") -> Path:
    (folder / "v2").mkdir()
    (folder / "v2" / "cgroup.controllers").write_text(f"{controllers}\n")
    (folder / "v2" / "cgroup.subtree_control").write_text("memory pids\n")
    return mounts(folder, [f"30 22 0:30 / {folder / 'v2'} rw - cgroup2 cgroup2 rw,nsdelegate"])


def mounts(folder: Path, lines: list[str]) -> Path:
    path = folder / "mountinfo"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(autouse=True)
def on_a_plain_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    lie_on(DISK, monkeypatch)
    # Folders of a real control group go with the files in them, these do not.
    monkeypatch.setattr(cgroups, "_TIMEOUT_S", 0.0)


def lie_on(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "device_of", lambda _: device)


def made(where: Path, tree: Path, asked: Limits = ALL) -> LimitGroup:
    group = LimitGroup(asked, "g", controller_settings(asked, where, mounts=tree))
    group.make()
    return group


def test_version_1_has_a_folder_for_each_controller(tmp_path: Path) -> None:
    group = made(tmp_path, hybrid(tmp_path))
    assert group.folders == tuple(tmp_path / name / "g" for name in ("blkio", "memory", "cpu"))
    blkio, memory, cpu = group.folders
    assert (blkio / "blkio.throttle.read_iops_device").read_text() == "254:16 5000"
    assert (blkio / "blkio.throttle.read_bps_device").read_text() == "254:16 1048576"
    assert (memory / "memory.limit_in_bytes").read_text() == str(256 << 20)
    assert not (memory / "memory.memsw.limit_in_bytes").exists(), "not every kernel counts swap"
    assert (cpu / "cpu.cfs_quota_us").read_text() == "50000"
    assert (cpu / "cpu.cfs_period_us").read_text() == "100000"
    assert group.lost() is None
    group.add(4711)
    assert {(folder / "cgroup.procs").read_text() for folder in group.folders} == {"4711"}


def test_version_2_has_one_folder_and_its_controllers_are_handed_down(tmp_path: Path) -> None:
    group = made(tmp_path, unified(tmp_path), Limits(read_iops=5000, memory_bytes=256 << 20, cpus=0.5))
    assert group.folders == (tmp_path / "v2" / "g",)
    (folder,) = group.folders
    assert (folder / "io.max").read_text() == "254:16 riops=5000"
    assert (folder / "memory.max").read_text() == str(256 << 20)
    assert (folder / "cpu.max").read_text() == "50000 100000"
    # The last one that was not handed down before.
    assert (tmp_path / "v2" / "cgroup.subtree_control").read_text() == "+cpu"


def test_only_what_is_asked_for_is_touched(tmp_path: Path) -> None:
    group = made(tmp_path, hybrid(tmp_path), Limits(cpus=1))
    assert group.folders == (tmp_path / "cpu" / "g",)
    assert not (tmp_path / "memory" / "g").exists()


def test_what_a_group_counts(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    assert cgroups.read_requests(old, "254:0") is cgroups.read_group_memory(old) is cgroups.read_oom_kills(old) is None
    (old / "blkio.throttle.io_serviced").write_text("254:0 Read 12\n254:0 Write 5\n7:0 Read 3\nTotal 20\n")
    (old / "memory.usage_in_bytes").write_text("4096\n")
    (old / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (new / "io.stat").write_text("254:0 rbytes=90112 wbytes=0 rios=22 wios=0 dbytes=0 dios=0\n7:0 rios=1\n")
    (new / "memory.current").write_text("8192\n")
    (new / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\n")
    assert [cgroups.read_requests(old, "254:0"), cgroups.read_group_memory(old), cgroups.read_oom_kills(old)] == [
        12,
        4096,
        2,
    ]
    assert [cgroups.read_requests(new, "254:0"), cgroups.read_group_memory(new), cgroups.read_oom_kills(new)] == [
        22,
        8192,
        1,
    ]
    (old / "blkio.throttle.io_serviced_recursive").write_text("Total 0\n")
    assert cgroups.read_requests(old, "254:0") == 0


def test_a_limit_that_somebody_took_away_is_noticed(tmp_path: Path) -> None:
    group = made(tmp_path, unified(tmp_path))
    (folder,) = group.folders
    (folder / "io.max").write_text("254:16 rbps=1048576 wbps=max riops=5000 wiops=max\n")
    assert group.lost() is None
    (folder / "io.max").write_text("254:16 rbps=max wbps=max riops=max wiops=max\n")
    assert "READ_IOPS and READ_BPS was removed during the run" in (group.lost() or "")
    (folder / "io.max").unlink()
    assert "READ_IOPS" in (group.lost() or "")


def test_no_limits_make_no_group(tmp_path: Path) -> None:
    tree = hybrid(tmp_path)
    with server_limits(NO_LIMITS, tmp_path, mounts=tree) as group:
        assert group is None


def refused(asked: Limits, where: Path, tree: Path) -> str:
    with pytest.raises(HostUnfitError) as caught, server_limits(asked, where, mounts=tree):
        raise AssertionError("it was taken")
    assert caught.value.exit_code == 3
    assert "leave it out" in caught.value.hint
    return caught.value.message


def test_a_host_without_the_controller(tmp_path: Path) -> None:
    tree = unified(tmp_path, controllers="hugetlb")
    assert "READ_IOPS cannot be set: this host has no control group hierarchy with 'io'" in refused(
        Limits(read_iops=5), tmp_path, tree
    )
    assert "'memory'" in refused(Limits(memory_bytes=1 << 28), tmp_path, tree)
    assert "'cpu'" in refused(Limits(cpus=1), tmp_path, tree)
    assert refused(Limits(cpus=1), tmp_path, tmp_path / "no such file")


def test_more_than_the_host_has(tmp_path: Path) -> None:
    tree = hybrid(tmp_path)
    assert "more than this host has" in refused(Limits(cpus=100_000), tmp_path, tree)
    assert "MEMORY=1024t is more than this host has" in refused(Limits(memory_bytes=1 << 50), tmp_path, tree)


@pytest.mark.parametrize(
    ("device", "why"),
    [
        (Device(filesystem="overlay"), "its filesystem (overlay) is not on a single block device"),
        (Device(filesystem="tmpfs"), "(tmpfs)"),
        (Device(filesystem="nfs4"), "(nfs4)"),
        (Device(filesystem="btrfs"), "(btrfs)"),
        (Device(device="/dev/sdb1", disk="8:16", filesystem="fuseblk"), "fuseblk reads in other processes"),
        (Device(device="/dev/dm-0", disk="253:0", filesystem="ext4", stacked=True), "/dev/dm-0 is built from other"),
    ],
)  # fmt: skip
def test_where_reads_cannot_be_limited(
    device: Device, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie_on(device, monkeypatch)
    tree = hybrid(tmp_path)
    assert why in refused(Limits(read_iops=5), tmp_path, tree)
    told = refused(Limits(read_bps=1 << 20), tmp_path, tree)
    assert told.startswith("READ_BPS cannot be set")
    with server_limits(Limits(cpus=0.5), tmp_path, mounts=tree) as group:
        assert group is not None, "the others do not ask for a disk"


def test_a_kernel_that_refuses_is_told_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = hybrid(tmp_path)

    def refuse(self: Path, text: str) -> int:
        raise OSError(19, "No such device", str(self))

    monkeypatch.setattr(Path, "write_text", refuse)
    assert "blkio.throttle.read_iops_device: No such device" in refused(Limits(read_iops=5), tmp_path, tree)
    assert not list((tmp_path / "blkio").iterdir())


def test_a_process_that_cannot_be_put_in_is_an_error_of_its_own(tmp_path: Path) -> None:
    group = made(tmp_path, hybrid(tmp_path), Limits(cpus=1))
    (group.folders[0] / "cgroup.procs").mkdir()
    with pytest.raises(RecoveryError, match="cannot be put into its control group"):
        group.add(1)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_groups_of_the_dead_are_removed_and_no_one_else_s(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    tree = hybrid(tmp_path)
    earlier = name_with_process_id(1).rpartition("-")[0] + "0"  # our process id, but begun at another time
    dead, busy = f"{earlier}-1", f"{earlier}-2"
    for folder in ("memory", "cpu", "pids"):
        for name in (dead, name_with_process_id(9), "docker", "mysql-recovery"):
            (tmp_path / folder / name).mkdir()
    (tmp_path / "pids" / dead / "a-container").mkdir()
    (tmp_path / "cpu" / busy).mkdir()
    (tmp_path / "cpu" / busy / "cgroup.procs").write_text(f"{sleeper.pid}\n")
    assert cleanup.remove_orphaned_groups(tree) == (dead,)
    left = {path.name for folder in ("memory", "cpu", "pids") for path in (tmp_path / folder).iterdir()}
    assert left == {name_with_process_id(9), "docker", "mysql-recovery", busy}
    assert sleeper.poll() is None, "it is no server of ours"


def test_hierarchies_of_a_host_without_any(tmp_path: Path) -> None:
    assert hierarchies(tmp_path / "none") == ()
    assert hierarchies(mounts(tmp_path, ["22 1 254:0 / / rw - ext4 /dev/vda rw"])) == ()


def test_the_doctor_tells_which_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {check.name: check for check in doctor.limit_checks(tmp_path)}
    assert {"control groups", "limit on reads", "limit on memory", "limit on CPUs"} <= set(told)
    lie_on(Device(filesystem="overlay"), monkeypatch)
    check = next(check for check in doctor.limit_checks(tmp_path) if check.name == "limit on reads")
    assert check.ok is None
    assert "cannot be set" in check.detail
