"""What a starting server uses, and what the rest of the host does meanwhile."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from otherusers import child_process
from waiting import until

from recovery.linux import procfs
from recovery.linux.cgroups import UsageMeter
from recovery.linux.procfs import TICKS_PER_S, HostCpuTime, host_cpu_time
from recovery.linux.storage import Device, device_io_bytes, device_of
from recovery.mysqld import startup_sampler
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

NO_DEVICE = Device()
NO_SUCH_PROCESS = 2**22 + 1


@pytest.fixture
def idle() -> Iterator[int]:
    with child_process(lambda: "") as child:
        yield child.pid


# --- Background load


def test_busy_time_excludes_idle_waiting_and_stolen_time(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 20 300 9999 777 4 5 600 50 10\ncpu0 1 2 3\n")
    assert host_cpu_time(stat) == HostCpuTime(busy_s=429 / TICKS_PER_S, steal_s=600 / TICKS_PER_S)
    stat.write_text("cpu  1 2 3\n")
    assert host_cpu_time(stat) is None
    assert host_cpu_time(tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("start", "end_busy_s", "server_s", "tool_s", "others_s"),
    [
        (HostCpuTime(10, 0), 15, 2.0, 0.5, 2.5),
        (HostCpuTime(10, 0), 10.01, 0.02, 0.0, 0.0),  # ticks are coarse
        (None, 15, 2.0, 0.5, None),
        (HostCpuTime(10, 0), 15, None, 0.5, None),
    ],
)
def test_others_used_the_rest_of_the_cpu_time(
    start: HostCpuTime | None, end_busy_s: float, server_s: float | None, tool_s: float, others_s: float | None
) -> None:
    assert others_cpu_s(start, HostCpuTime(end_busy_s, 1), server_s, tool_s) == others_s


def test_a_device_counts_sectors_of_512_bytes(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(" 7 0 16 1 5 0 24 2 0 1 1 0 0 0 0 0 0\n")
    assert device_io_bytes(Device(stat_path=tmp_path / "stat")) == (8192, 12288)
    assert device_io_bytes(NO_DEVICE) is None


def test_the_load_of_others_and_of_this_tool_are_counted_apart(idle: int) -> None:
    meter = BackgroundLoadMeter(idle, NO_DEVICE)
    use_cpu(0.05)
    found = meter.read()
    assert (found.tool_cpu_s or 0) >= 0.05
    assert found.others_cpu_s is not None
    assert (found.others_read_bytes, found.others_written_bytes) == (None, None)


# --- Downsampling


def test_samples_stay_few_and_evenly_spread() -> None:
    series = DownsampledSeries[StartupSample](SAMPLE_INTERVAL_S, MAX_SAMPLES)
    at_s = 0.0
    while at_s + series.every_s <= 3600:
        at_s += series.every_s
        series.add(StartupSample(at_s, read_bytes=int(at_s), cpu_s=at_s / 2))
        assert len(series.kept) < MAX_SAMPLES
    timeline = timeline_of(series.kept)
    assert series.every_s == 16.0, "an hour in fewer than 240"
    assert len(timeline.at_s) + 20 >= MAX_SAMPLES / 2
    assert {round(b - a, 6) for a, b in zip(timeline.at_s, timeline.at_s[1:], strict=False)} == {16.0}
    assert timeline.columns["read_bytes"] == tuple(map(int, timeline.at_s))
    assert timeline.columns["cpu_s"] == tuple(at / 2 for at in timeline.at_s)
    assert "read_requests" not in timeline.columns


def test_a_column_with_a_missing_value_is_left_out() -> None:
    timeline = timeline_of([StartupSample(0.25, read_bytes=1, cpu_s=0.1), StartupSample(0.5, cpu_s=0.2)])
    assert (timeline.at_s, timeline.columns["cpu_s"]) == ((0.25, 0.5), (0.1, 0.2))
    assert "read_bytes" not in timeline.columns


def test_a_pinned_sample_is_never_dropped() -> None:
    series = DownsampledSeries[int](1.0, max_samples=5)
    for number in range(11):
        series.add(number)
        series.pinned = 2
    assert (series.kept, series.every_s) == ([2, 5, 8, 10], 8.0)


def test_cpu_time_of_others_never_decreases() -> None:
    samples = [StartupSample(at_s, others_cpu_s=s) for at_s, s in ((0.25, 0.02), (0.5, 0.01), (0.75, 0.05))]
    assert timeline_of(samples).columns["others_cpu_s"] == (0.02, 0.02, 0.05)


# --- Real processes: these tests are the server


def use_cpu(seconds: float) -> None:
    until_s = time.process_time() + seconds
    while time.process_time() < until_s:
        pass


def test_the_meter_counts_reads_and_cpu_time(tmp_path: Path) -> None:
    device = device_of(tmp_path)
    if device.device is None:
        pytest.skip("no block device under the temporary files")
    (tmp_path / "big").write_bytes(os.urandom(1 << 20))
    os.sync()
    meter, before = UsageMeter(os.getpid(), device), procfs.process_activity(os.getpid())
    with (tmp_path / "big").open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert len(file.read()) == 1 << 20
    use_cpu(0.1)
    found = meter.read()
    assert found["read_bytes"] >= 1 << 20
    assert found["cpu_s"] > 0.02
    assert "cache_grown_bytes" in found
    assert procfs.process_activity(os.getpid()) not in (None, before)


@pytest.mark.parametrize(("others", "requests"), [(0, 30), (50_000, 30), (60_000, None), (600_000_000, None)], ids=str)
def test_reads_of_the_device_are_counted_only_if_nobody_else_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int, requests: int | None
) -> None:
    stat = tmp_path / "stat"
    own = iter([(1000, 0), (1_001_000, 0)])
    monkeypatch.setattr(procfs, "process_io_bytes", lambda _: next(own))
    stat.write_text("100 0 8000 0 0 0 0 0 0 0 0")
    meter = UsageMeter(os.getpid(), Device(stat_path=stat))
    stat.write_text(f"130 0 {8000 + (1_000_000 + others) // 512} 0 0 0 0 0 0 0 0")
    found = meter.read()
    assert (found.get("read_bytes"), found.get("read_requests")) == (1_000_000, requests)


def test_samples_have_no_reads_of_the_device_if_others_read_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = tmp_path / "stat"
    monkeypatch.setattr(procfs, "process_io_bytes", lambda _: (1000, 0))
    for sectors, has_reads in ((8000, True), (9000, False)):
        stat.write_text("100 0 8000 0 0 0 0 0 0 0 0")
        with StartupSampler(os.getpid(), Device(stat_path=stat), since_s=time.monotonic()) as sampler:
            stat.write_text(f"130 0 {sectors} 0 0 0 0 0 0 0 0")
        assert ("read_requests" in sampler.usage) == has_reads
        assert ("read_requests" in sampler.timeline.columns) == has_reads


def test_a_sleeping_process_shows_no_activity(idle: int) -> None:
    seen = psutil.Process(idle)
    until(lambda: seen.status() == psutil.STATUS_SLEEPING, "its sleep")
    activity = procfs.process_activity(idle)
    assert activity is not None
    assert activity == procfs.process_activity(idle)


def test_a_process_that_has_ended_has_no_usage() -> None:
    assert procfs.process_activity(NO_SUCH_PROCESS) is None
    gone = UsageMeter(NO_SUCH_PROCESS, NO_DEVICE).read()
    assert gone.keys() <= {"cache_grown_bytes"}
    load = BackgroundLoadMeter(NO_SUCH_PROCESS, NO_DEVICE).read()
    assert (load.others_cpu_s, load.throttled_s) == (None, None)
    with StartupSampler(NO_SUCH_PROCESS, NO_DEVICE, since_s=time.monotonic()) as sampler:
        pass
    assert "cpu_s" not in sampler.timeline.columns


def test_the_sampler_sees_a_process_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interval_s = 0.125
    monkeypatch.setattr(startup_sampler, "SAMPLE_INTERVAL_S", interval_s)
    with StartupSampler(os.getpid(), device_of(tmp_path), since_s=time.monotonic()) as sampler:
        while len(sampler._series.kept) < 4:
            use_cpu(0.02)
        use_cpu(0.1)
    timeline = sampler.timeline
    assert timeline.at_s == tuple(sorted(timeline.at_s))
    assert all(at_s >= interval_s * (1 + number) for number, at_s in enumerate(timeline.at_s[:-1])), "never too early"
    cpu_s = [value for value in timeline.columns["cpu_s"] if value is not None]
    assert len(cpu_s) == len(timeline.at_s) >= 5
    assert cpu_s == sorted(cpu_s)
    assert cpu_s[-1] > cpu_s[0]
    assert not [thread for thread in threading.enumerate() if thread.name == "startup-sampler"]


@pytest.mark.on_demand("bench")
def test_a_sample_takes_less_than_1_percent_of_an_interval(idle: int, tmp_path: Path) -> None:
    sampler = StartupSampler(idle, device_of(tmp_path), since_s=time.monotonic())
    began = time.thread_time()
    for _ in range(200):
        sampler.sample()
    assert (time.thread_time() - began) / 200 < SAMPLE_INTERVAL_S / 100
