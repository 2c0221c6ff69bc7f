"""What else went on: sums on lines of /proc as kernels write them, and real work beside a real process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import until

from recovery.linux import cgroups
from recovery.linux.procfs import HostCpuTime, host_cpu_time
from recovery.linux.storage import Device, device_io_bytes, device_of
from recovery.mysqld.startup_sampler import (
    MAX_SAMPLES,
    SAMPLE_INTERVAL_S,
    BackgroundLoadMeter,
    DownsampledSeries,
    StartupSample,
    StartupSampler,
    others_cpu_s,
    timeline_of,
)

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
NO_DEVICE = Device()


@pytest.fixture
def idle() -> Iterator[int]:
    process = subprocess.Popen(["sleep", "600"])
    yield process.pid
    process.kill()
    process.wait()


def test_busy_is_all_that_is_not_idle_waiting_or_stolen(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 20 300 9999 777 4 5 600 50 10\ncpu0 1 2 3\n")
    assert host_cpu_time(stat) == HostCpuTime(busy_s=429 / TICKS_PER_S, steal_s=600 / TICKS_PER_S)
    stat.write_text("cpu  1 2 3\n")
    assert host_cpu_time(stat) is None
    assert host_cpu_time(tmp_path / "missing") is None


def test_the_rest_is_of_others() -> None:
    assert others_cpu_s(HostCpuTime(10, 0), HostCpuTime(15, 1), 2.0, 0.5) == 2.5
    assert others_cpu_s(HostCpuTime(10, 0), HostCpuTime(10.01, 0), 0.02, 0.0) == 0.0, "ticks are coarse"
    assert others_cpu_s(None, HostCpuTime(15, 1), 2.0, 0.5) is None
    assert others_cpu_s(HostCpuTime(10, 0), HostCpuTime(15, 1), None, 0.5) is None


def test_the_device_counts_sectors_of_512_bytes(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(" 7 0 16 1 5 0 24 2 0 1 1 0 0 0 0 0 0\n")
    assert device_io_bytes(Device(stat_path=tmp_path / "stat")) == (8192, 12288)
    assert device_io_bytes(NO_DEVICE) is None


def test_what_cannot_be_told_is_none_and_no_error(idle: int) -> None:
    surroundings = BackgroundLoadMeter(idle, NO_DEVICE)
    found = surroundings.read()
    assert (found.others_read_bytes, found.others_written_bytes) == (None, None)
    assert found.others_cpu_s is not None
    assert found.tool_cpu_s is not None
    gone = BackgroundLoadMeter(2**22 + 1, NO_DEVICE).read()
    assert gone.others_cpu_s is None
    assert gone.throttled_s is None


def test_work_of_this_tool_is_its_own(idle: int) -> None:
    surroundings = BackgroundLoadMeter(idle, NO_DEVICE)
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    found = surroundings.read()
    assert found.tool_cpu_s is not None
    assert found.tool_cpu_s >= 0.3


def test_halving_keeps_what_is_evenly_spread() -> None:
    series = DownsampledSeries[StartupSample](SAMPLE_INTERVAL_S, MAX_SAMPLES)
    at_s = 0.0
    for _ in range(3600 * 4):
        if at_s + series.every_s > 3600:
            break
        at_s += series.every_s
        series.add(StartupSample(at_s, read_bytes=int(at_s), cpu_s=at_s / 2))
        assert len(series.kept) < MAX_SAMPLES
    timeline = timeline_of(series.kept)
    assert series.every_s == 16.0, "an hour in fewer than 240"
    assert len(timeline.at_s) + 20 >= MAX_SAMPLES / 2
    assert {round(b - a, 6) for a, b in zip(timeline.at_s, timeline.at_s[1:], strict=False)} == {16.0}
    assert timeline.read_bytes == tuple(map(int, timeline.at_s))
    assert timeline.cpu_s == tuple(at / 2 for at in timeline.at_s)
    assert timeline.read_requests == ()


def test_a_column_with_a_hole_is_empty() -> None:
    series = DownsampledSeries[StartupSample](SAMPLE_INTERVAL_S, MAX_SAMPLES)
    series.add(StartupSample(0.25, read_bytes=1, cpu_s=0.1))
    series.add(StartupSample(0.5, cpu_s=0.2))
    timeline = timeline_of(series.kept)
    assert (timeline.at_s, timeline.read_bytes, timeline.cpu_s) == ((0.25, 0.5), (), (0.1, 0.2))


def test_a_pinned_sample_is_never_dropped() -> None:
    series = DownsampledSeries[int](1.0, max_samples=5)
    for number in range(11):
        series.add(number)
        series.pinned = 2
    assert (series.kept, series.every_s) == ([2, 5, 8, 10], 8.0)


def test_what_others_used_never_shrinks() -> None:
    series = DownsampledSeries[StartupSample](SAMPLE_INTERVAL_S, MAX_SAMPLES)
    for at_s, used_s in ((0.25, 0.02), (0.5, 0.01), (0.75, 0.05)):
        series.add(StartupSample(at_s, others_cpu_s=used_s))
    timeline = timeline_of(series.kept)
    assert timeline.others_cpu_s == (0.02, 0.02, 0.05)


WORK = "import sys, time\nprint(flush=True)\nwhile True: pass"


def test_the_sampler_sees_a_process_work(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", WORK], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with StartupSampler(child.pid, device_of(tmp_path), since_s=time.monotonic()) as sampler:
            kept = sampler._series.kept
            until(lambda: len(kept) >= 4 and (kept[-1].cpu_s or 0) > 0.2, "four series, and its CPU time")
        child.kill()
    timeline = sampler.timeline
    assert timeline.at_s == tuple(sorted(timeline.at_s))
    assert all(at_s >= SAMPLE_INTERVAL_S * (1 + number) for number, at_s in enumerate(timeline.at_s[:-1])), (
        "never too early"
    )
    assert len(timeline.cpu_s) == len(timeline.at_s) >= 5
    assert list(timeline.cpu_s) == sorted(timeline.cpu_s)
    assert timeline.cpu_s[-1] > 0.2
    assert not [thread for thread in threading.enumerate() if thread.name == "startup-sampler"]


@pytest.mark.on_demand("bench")
def test_a_look_costs_next_to_nothing(idle: int, tmp_path: Path) -> None:
    sampler = StartupSampler(idle, device_of(tmp_path), since_s=time.monotonic())
    began = time.thread_time()
    for _ in range(200):
        sampler.sample()
    assert (time.thread_time() - began) / 200 < 0.0025, "1 % of a quarter of a second"


def test_a_process_that_is_gone_leaves_holes_and_no_error() -> None:
    with StartupSampler(2**22 + 1, NO_DEVICE, since_s=time.monotonic()) as sampler:
        pass
    assert sampler.timeline.cpu_s == ()


def tree(folder: Path, version: int) -> Path:
    """A hierarchy of plain files, in which process 7 is in /a/b."""
    (folder / "root/a/b").mkdir(parents=True)
    (folder / "proc/7").mkdir(parents=True)
    kind = "cgroup2 cgroup2 rw" if version == 2 else "cgroup cgroup rw,cpu,cpuacct"
    (folder / "mounts").write_text(f"30 22 0:30 / {folder / 'root'} rw - {kind}\n")
    (folder / "root/cgroup.controllers").write_text("cpu io\n")
    (folder / "proc/7/cgroup").write_text("0::/a/b\n" if version == 2 else "4:memory:/x\n3:cpu,cpuacct:/a/b\n0::/y\n")
    return folder / "root"


@pytest.mark.parametrize("version", [1, 2])
def test_the_groups_of_a_process_up_to_the_root(version: int, tmp_path: Path) -> None:
    root = tree(tmp_path, version)
    found = cgroups.groups_of(7, "cpu", mounts=tmp_path / "mounts", proc=tmp_path / "proc")
    assert found == (root / "a/b", root / "a", root)
    (tmp_path / "proc/7/cgroup").write_text("0::/of/the/host\n3:cpu,cpuacct:/of/the/host\n")
    assert cgroups.groups_of(7, "cpu", mounts=tmp_path / "mounts", proc=tmp_path / "proc") == (root,)
    assert cgroups.groups_of(8, "cpu", mounts=tmp_path / "mounts", proc=tmp_path / "proc") == ()


def test_throttling_and_quotas_of_both_versions(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    assert cgroups.throttled_s(old) is cgroups.cpu_quota(old) is None
    (old / "cpu.stat").write_text("nr_periods 9\nnr_throttled 2\nthrottled_time 1500000000\n")
    (new / "cpu.stat").write_text("usage_usec 9\nnr_throttled 2\nthrottled_usec 250000\n")
    assert (cgroups.throttled_s(old), cgroups.throttled_s(new)) == (1.5, 0.25)
    (old / "cpu.cfs_quota_us").write_text("50000\n")
    (old / "cpu.cfs_period_us").write_text("100000\n")
    (new / "cpu.max").write_text("150000 100000\n")
    assert (cgroups.cpu_quota(old), cgroups.cpu_quota(new)) == (0.5, 1.5)
    (old / "cpu.cfs_quota_us").write_text("-1\n")
    (new / "cpu.max").write_text("max 100000\n")
    assert cgroups.cpu_quota(old) is cgroups.cpu_quota(new) is None
