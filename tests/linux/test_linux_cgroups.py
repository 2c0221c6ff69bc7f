"""Limits: how they are written and checked, and set in control groups. The groups are trees of plain files that look
like cgroup v1, v2 and both at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from fuzzing.options import parse_limits
from otherusers import child_process
from runs import variants_with

from recovery.cli import doctor, plan_text
from recovery.cli.main import run
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux import cgroups, cleanup
from recovery.linux.cgroups import (
    LimitGroup,
    controller_settings,
    cpu_quota,
    format_bytes,
    groups_of,
    iops_limit,
    limit_exceeded,
    limits_text,
    read_group_memory,
    read_oom_kills,
    read_requests,
    server_limits,
    throttled_s,
    usable_cpus,
)
from recovery.linux.procfs import CoreSplit, format_cpu_list, name_with_process_id, own_cpus, reserved_cpus
from recovery.linux.storage import Device
from recovery.model import NO_LIMITS, Limits, Session, limits_from_settings
from recovery.session.store import SessionStore

ALL = Limits(read_iops=5000, read_bps=100 << 20, memory_bytes=2 << 30, cpus=1.5)
"""All that a control group sets."""
MIB = 1 << 20


# --- Limits as text


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        (("5_000", "100m", "2g", "1.5"), ALL),
        (("5000", "104857600", "2GiB", "1.50"), ALL),
        ((None, None, None, None), NO_LIMITS),
        ((None, None, "1.5G", None), Limits(memory_bytes=3 << 29)),
        ((None, None, None, None, "8,0-1,2,3"), Limits(cpu_set="0-3,8")),
        ((None, None, "200000001", None), Limits(memory_bytes=199_999_488)),  # whole pages
        ((ALL.read_iops, format_bytes(100 * MIB), format_bytes(2 << 30), ALL.cpus), ALL),
        ((None, format_bytes(65537), None, None), Limits(read_bps=65537)),
    ],
)
def test_limits_are_parsed(given: tuple[object, object, object, object], limits: Limits) -> None:
    assert parse_limits(*given) == limits


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (("0", None, None, None), "0 is not valid"),
        (("5k", None, None, None), "5k is not valid"),
        (("__", None, None, None), "__ is not valid"),
        (("99999999999", None, None, None), "9 is not valid"),
        ((None, "0", None, None), "0 is not valid"),
        ((None, "fast", None, None), "fast is not valid"),
        ((None, "100", None, None), "100 is not valid"),
        ((None, None, "0", None), "0 is not valid"),
        ((None, None, "2 gigs", None), "2 gigs is not valid"),
        ((None, None, "64m", None), "too little for any server"),
        ((None, None, "9" * 40, None), "9 is not valid"),
        (("1" * 5000, None, None, None), "1 is not valid"),
        ((None, None, "9" * 400 + "g", None), "g is not valid"),
        ((None, None, None, "0"), "0 is not valid"),
        ((None, None, None, "-1"), "-1 is not valid"),
        ((None, None, None, "nan"), "nan is not valid"),
        ((None, None, None, "inf"), "inf is not valid"),
        *(((None, None, None, None, text), f"{text} is not valid") for text in ("3-1", "a", "1,", "0-99999999", "-1")),
    ],
)
def test_invalid_limits_are_refused(given: tuple[object, object, object, object], error: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_limits(*given)
    assert error in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        (asdict(ALL), ALL),
        ({"tables": 3}, NO_LIMITS),
        ({"cpus": 2}, Limits(cpus=2.0)),
        *((dict.fromkeys(asdict(ALL), wrong), NO_LIMITS) for wrong in ("many", True)),
    ],
)
def test_a_stored_session_keeps_its_limits(settings: dict[str, str | int | float | None], limits: Limits) -> None:
    assert limits_from_settings(settings) == limits


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (ALL, "5,000 reads a second, 100 MiB read a second, 2 GiB of memory with its page cache, 1.5 CPUs"),
        (Limits(cpus=1.0), "1 CPU"),
        (Limits(cpu_set="0-3,8"), "CPU 0-3,8"),
        (NO_LIMITS, ""),
    ],
)
def test_limits_are_described(limits: Limits, text: str) -> None:
    assert limits_text(limits) == text


BOTH_READS = Limits(read_iops=1000, read_bps=MIB)


@pytest.mark.parametrize(
    ("limits", "requests", "read_bytes", "seconds", "doubt"),
    [
        (BOTH_READS, 10_900, 10 * MIB, 10.0, None),
        (BOTH_READS, 12_000, 10 * MIB, 10.0, "1,200 reads a second, although the limit was 1,000"),
        (BOTH_READS, 1, 20 * MIB, 10.0, "bytes read"),
        (BOTH_READS, None, None, 10.0, None),
        (BOTH_READS, 200, None, 0.05, None),  # the first slice comes at once
        (NO_LIMITS, 10**9, 10**12, 1.0, None),
    ],
)
def test_a_start_that_exceeded_its_limit_is_found(
    limits: Limits, requests: int | None, read_bytes: int | None, seconds: float, doubt: str | None
) -> None:
    found = limit_exceeded(limits, read_requests=requests, read_bytes=read_bytes, seconds=seconds)
    assert (found is None) if doubt is None else (doubt in str(found))


# --- Control groups

SOME = Limits(read_iops=5000, read_bps=MIB, memory_bytes=256 * MIB, cpus=0.5)
DISK = Device(device="/dev/vdb1", filesystem="ext4", disk="254:16")


@pytest.fixture(autouse=True)
def on_a_plain_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    use_device(DISK, monkeypatch)
    # Folders of a real control group can be removed with the files in them, these cannot.
    monkeypatch.setattr(cgroups, "_TIMEOUT_S", 0.0)


def use_device(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "device_of", lambda _: device)


def hybrid(folder: Path) -> Path:
    """Return the mounts of a host with each controller of version 1, and a version 2 without them."""
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


def make_group(where: Path, tree: Path, limits: Limits = SOME) -> LimitGroup:
    group = LimitGroup(limits, "g", controller_settings(limits, where, mounts=tree))
    group.make()
    return group


def test_version_1_has_a_folder_for_each_controller(tmp_path: Path) -> None:
    group = make_group(tmp_path, hybrid(tmp_path))
    assert group.folders == tuple(tmp_path / name / "g" for name in ("blkio", "memory", "cpu"))
    blkio, memory, cpu = group.folders
    assert (blkio / "blkio.throttle.read_iops_device").read_text() == "254:16 5000"
    assert (blkio / "blkio.throttle.read_bps_device").read_text() == "254:16 1048576"
    assert (memory / "memory.limit_in_bytes").read_text() == str(256 * MIB)
    assert not (memory / "memory.memsw.limit_in_bytes").exists(), "not every kernel counts swap"
    assert (cpu / "cpu.cfs_quota_us").read_text() == "50000"
    assert (cpu / "cpu.cfs_period_us").read_text() == "100000"
    assert group.lost() is None
    group.add(4711)
    assert {(folder / "cgroup.procs").read_text() for folder in group.folders} == {"4711"}


def test_version_2_has_one_folder_and_enables_its_controllers(tmp_path: Path) -> None:
    group = make_group(tmp_path, unified(tmp_path), Limits(read_iops=5000, memory_bytes=256 * MIB, cpus=0.5))
    assert group.folders == (tmp_path / "v2" / "g",)
    (folder,) = group.folders
    assert (folder / "io.max").read_text() == "254:16 riops=5000"
    assert (folder / "memory.max").read_text() == str(256 * MIB)
    assert (folder / "cpu.max").read_text() == "50000 100000"
    # The last one that was not enabled before.
    assert (tmp_path / "v2" / "cgroup.subtree_control").read_text() == "+cpu"


def test_only_the_controllers_of_given_limits_are_used(tmp_path: Path) -> None:
    tree = hybrid(tmp_path)
    group = make_group(tmp_path, tree, Limits(cpus=1))
    assert group.folders == (tmp_path / "cpu" / "g",)
    assert not (tmp_path / "memory" / "g").exists()
    with server_limits(NO_LIMITS, tmp_path, mounts=tree) as none:
        assert none is None


def test_a_limit_that_was_removed_is_noticed(tmp_path: Path) -> None:
    group = make_group(tmp_path, unified(tmp_path))
    (folder,) = group.folders
    (folder / "io.max").write_text("254:16 rbps=1048576 wbps=max riops=5000 wiops=max\n")
    assert group.lost() is None
    (folder / "io.max").write_text("254:16 rbps=max wbps=max riops=max wiops=max\n")
    assert "--read-iops was removed during the run" in (group.lost() or "")
    (folder / "io.max").unlink()
    assert "--read-iops" in (group.lost() or "")


def refused(limits: Limits, where: Path, tree: Path) -> str:
    with pytest.raises(HostUnfitError) as caught, server_limits(limits, where, mounts=tree):
        raise AssertionError("it was taken")
    assert caught.value.exit_code == 3
    assert "leave it out" in caught.value.hint
    return caught.value.message


def test_limits_without_a_controller_are_refused(tmp_path: Path) -> None:
    tree = unified(tmp_path, controllers="hugetlb")
    assert "--read-iops / READ_IOPS: it cannot be set: this host has no control group hierarchy with 'io'" in refused(
        Limits(read_iops=5), tmp_path, tree
    )
    assert "'memory'" in refused(Limits(memory_bytes=1 << 28), tmp_path, tree)
    assert "'cpu'" in refused(Limits(cpus=1), tmp_path, tree)
    assert refused(Limits(cpus=1), tmp_path, tmp_path / "no such file")
    assert refused(Limits(cpus=1), tmp_path, mounts(tmp_path, ["22 1 254:0 / / rw - ext4 /dev/vda rw"]))


def test_limits_above_what_the_host_has_are_refused(tmp_path: Path) -> None:
    tree = hybrid(tmp_path)
    assert "more than this host has" in refused(Limits(cpus=100_000), tmp_path, tree)
    assert "MEMORY: 1024t is more than this host has" in refused(Limits(memory_bytes=1 << 50), tmp_path, tree)


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
)
def test_limits_on_reads_need_a_block_device(
    device: Device, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_device(device, monkeypatch)
    tree = hybrid(tmp_path)
    assert why in refused(Limits(read_iops=5), tmp_path, tree)
    assert refused(Limits(read_bps=MIB), tmp_path, tree).startswith("--read-bps / READ_BPS: it cannot be set")
    with server_limits(Limits(cpus=0.5), tmp_path, mounts=tree) as group:
        assert group is not None, "other limits need no disk"
    checks = {check.name: check for check in doctor.limit_checks(tmp_path)}
    assert {"control groups", "limit on memory", "limit on CPUs"} <= checks.keys()
    assert checks["limit on reads"].ok is None
    assert "cannot be set" in checks["limit on reads"].detail


def test_a_limit_that_the_kernel_refuses_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = hybrid(tmp_path)

    def refuse(self: Path, text: str) -> int:
        raise OSError(19, "No such device", str(self))

    monkeypatch.setattr(Path, "write_text", refuse)
    assert "blkio.throttle.read_iops_device: No such device" in refused(Limits(read_iops=5), tmp_path, tree)
    assert not list((tmp_path / "blkio").iterdir())


def test_a_process_that_cannot_join_its_group_is_an_error(tmp_path: Path) -> None:
    group = make_group(tmp_path, hybrid(tmp_path), Limits(cpus=1))
    (group.folders[0] / "cgroup.procs").mkdir()
    with pytest.raises(RecoveryError, match="cannot be put into its control group"):
        group.add(1)


def test_a_server_gets_its_cpus_without_a_control_group(tmp_path: Path) -> None:
    last = str(max(own_cpus()))
    with child_process(lambda: "") as child, server_limits(Limits(cpu_set=last), tmp_path, mounts=tmp_path) as group:
        assert group is not None
        assert group.folders == ()
        group.add(child.pid)
        assert os.sched_getaffinity(child.pid) == {int(last)}
    error = refused(Limits(cpu_set=f"{last},9999"), tmp_path, tmp_path)
    assert f"CPU_SET: {last},9999 has CPUs that cannot be used here" in error


def test_clients_of_a_load_get_the_cpus_outside_the_servers_set() -> None:
    first, *others = sorted(own_cpus())
    apart = reserved_cpus(str(first))
    assert apart == (CoreSplit(frozenset({first}), frozenset(others)) if others else None)
    assert reserved_cpus(format_cpu_list(own_cpus())) is None
    assert usable_cpus(Limits(cpu_set="0-3"), 8) == 4
    assert usable_cpus(Limits(cpu_set="0-3", cpus=1.5), 8) == 1.5
    assert usable_cpus(NO_LIMITS, 8) == 8


def test_only_groups_of_dead_runs_are_removed(tmp_path: Path) -> None:
    tree = hybrid(tmp_path)
    earlier = name_with_process_id(1).rpartition("-")[0] + "0"  # our process id, but begun at another time
    dead, busy = f"{earlier}-1", f"{earlier}-2"
    others = {name_with_process_id(9), "docker", "mysql-recovery"}
    for folder in ("memory", "cpu", "pids"):
        for name in (dead, *others):
            (tmp_path / folder / name).mkdir()
    (tmp_path / "pids" / dead / "a-container").mkdir()
    (tmp_path / "cpu" / busy).mkdir()
    with child_process(lambda: "") as no_server:
        (tmp_path / "cpu" / busy / "cgroup.procs").write_text(f"{no_server.pid}\n")
        assert cleanup.remove_orphaned_groups(tree) == (dead,)
        assert os.waitid(os.P_PID, no_server.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None, "it lives"
    left = {path.name for folder in ("memory", "cpu", "pids") for path in (tmp_path / folder).iterdir()}
    assert left == {*others, busy}


@pytest.mark.parametrize("version", [1, 2])
def test_the_groups_of_a_process_up_to_the_root(version: int, tmp_path: Path) -> None:
    root, of_process = tmp_path / "root", tmp_path / "proc/7/cgroup"
    (root / "a/b").mkdir(parents=True)
    of_process.parent.mkdir(parents=True)
    kind = "cgroup2 cgroup2 rw" if version == 2 else "cgroup cgroup rw,cpu,cpuacct"
    mounted = mounts(tmp_path, [f"30 22 0:30 / {root} rw - {kind}"])
    (root / "cgroup.controllers").write_text("cpu io\n")
    of_process.write_text("0::/a/b\n" if version == 2 else "4:memory:/x\n3:cpu,cpuacct:/a/b\n0::/y\n")
    assert groups_of(7, "cpu", mounts=mounted, proc=tmp_path / "proc") == (root / "a/b", root / "a", root)
    in_io = (root / "a/b", root / "a", root) if version == 2 else ()
    assert groups_of(7, "blkio", "io", mounts=mounted, proc=tmp_path / "proc") == in_io
    of_process.write_text("0::/of/the/host\n3:cpu,cpuacct:/of/the/host\n")
    assert groups_of(7, "cpu", mounts=mounted, proc=tmp_path / "proc") == (root,)
    assert groups_of(8, "cpu", mounts=mounted, proc=tmp_path / "proc") == ()


# --- What a group counts

FIGURES: dict[str, Callable[[Path], float | None]] = {
    "reads": lambda folder: read_requests(folder, "254:0"),
    "memory": read_group_memory,
    "OOM kills": read_oom_kills,
    "throttled": throttled_s,
    "quota": cpu_quota,
    "limit of reads": lambda folder: iops_limit(folder, "254:0"),
}


@pytest.mark.parametrize(
    ("figure", "files", "expected"),
    [
        *((figure, {}, None) for figure in FIGURES),
        ("reads", {"blkio.throttle.io_serviced": "254:0 Read 12\n254:0 Write 5\n7:0 Read 3\nTotal 20\n"}, 12),
        ("reads", {"blkio.throttle.io_serviced": "254:0 Read 12\n",
                   "blkio.throttle.io_serviced_recursive": "Total 0\n"}, 0),
        ("reads", {"io.stat": "254:0 rbytes=90112 wbytes=0 rios=22 wios=0 dbytes=0 dios=0\n7:0 rios=1\n"}, 22),
        ("limit of reads", {"blkio.throttle.read_iops_device": "7:0 5\n254:0 3000\n"}, 3000),
        ("limit of reads", {"blkio.throttle.read_iops_device": ""}, None),
        ("limit of reads", {"io.max": "254:0 rbps=max wbps=max riops=3000 wiops=max\n"}, 3000),
        ("limit of reads", {"io.max": "254:0 rbps=1000 wbps=max riops=max wiops=max\n"}, None),
        ("memory", {"memory.usage_in_bytes": "4096\n"}, 4096),
        ("memory", {"memory.current": "8192\n"}, 8192),
        ("OOM kills", {"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"}, 2),
        ("OOM kills", {"memory.events": "low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\n"}, 1),
        ("throttled", {"cpu.stat": "nr_periods 9\nnr_throttled 2\nthrottled_time 1500000000\n"}, 1.5),
        ("throttled", {"cpu.stat": "usage_usec 9\nnr_throttled 2\nthrottled_usec 250000\n"}, 0.25),
        ("quota", {"cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n"}, 0.5),
        ("quota", {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, None),
        ("quota", {"cpu.max": "150000 100000\n"}, 1.5),
        ("quota", {"cpu.max": "max 100000\n"}, None),
    ],
)  # fmt: skip
def test_figures_of_both_versions_are_read(
    figure: str, files: dict[str, str], expected: float | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert FIGURES[figure](tmp_path) == expected


# --- Limits of a command


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Limits]:
    """The limits of each plan, on a host that could set all of them. The current folder is empty."""
    found: list[Limits] = []

    def note(limits: Limits, data: Path) -> tuple[()]:
        found.append(limits)
        return ()

    monkeypatch.setattr(plan_text, "controller_settings", note)
    monkeypatch.chdir(tmp_path)
    return found


# --- A warm run without options uses servers and tables of the newest session


def store_session(folder: Path, measured: str = "5.7.22", **settings: str | int | float | None) -> None:
    words = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in settings.items())
    session = Session(
        "cold-recovery", "", f"recovery cold-recovery {words} --runs 5", "", {}, settings, (measured,),
        variants_with({"cold": {"cache": "cold"}}), 1,
    )  # fmt: skip
    SessionStore.create(folder / "results", session)


def test_a_warm_run_has_no_limits_of_the_newest_session(
    planned: list[Limits], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store_session(tmp_path, tables=7, read_iops=300, cpus=1.5, data="/mnt/ebs", note="io2")
    assert run(["warm-recovery", "--dry-run", "--read-iops", "400"]) == 0
    assert planned == [Limits(read_iops=400)]
    first, command, *_ = capsys.readouterr().err.splitlines()
    assert first.startswith("--version 5.7.22 and --tables 7 from the newest session, ")
    assert first.endswith("-cold-recovery; not its --data, --read-iops, --cpus"), "another cold start would have them"
    assert command.startswith("$ recovery warm-recovery --version 5.7.22 --tables 7 ")
    assert run(["warm-recovery", "--dry-run", "--tables", "8", "--quiet"]) == 0
    assert run(["warm-recovery", "--dry-run", "--version", "5.7.22"]) == 0
    assert "newest" not in capsys.readouterr().err, "a named server is a new question"


@pytest.mark.usefixtures("planned")
def test_a_warm_run_has_the_versions_of_the_newest_session_as_they_were_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # An image's tag says more than the release that is in it.
    store_session(tmp_path, "percona-8.0.39", tables=7, version="percona-8.0.39-30")
    assert run(["warm-recovery", "--dry-run", "--tables", "8"]) == 0
    first, command, *_ = capsys.readouterr().err.splitlines()
    assert first.startswith("--version percona-8.0.39-30 from the newest session, "), "what is given wins"
    assert "--version percona-8.0.39-30 --tables 8 " in command


@pytest.mark.usefixtures("planned")
@pytest.mark.parametrize("name", ["mysqld", "image", "datadir"])
def test_a_warm_run_after_a_session_of_ones_own_server_or_data_names_it_again(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store_session(tmp_path, tables=7, **{name: "/mine"})
    assert run(["warm-recovery", "--dry-run"]) == 2
    error = capsys.readouterr().err
    assert f"--{name} / {name.upper()}: the newest session, " in error
    assert f"hint:  give --{name} again, or --version" in error
