"""What a starting server uses, and what the rest of the host does meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
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


def test_background_load_that_cannot_be_read_is_none(idle: int) -> None:
    found = BackgroundLoadMeter(idle, NO_DEVICE).read()
    assert (found.others_read_bytes, found.others_written_bytes) == (None, None)
    assert found.others_cpu_s is not None
    gone = BackgroundLoadMeter(NO_SUCH_PROCESS, NO_DEVICE).read()
    assert gone.others_cpu_s is None
    assert gone.throttled_s is None


def test_cpu_time_of_this_tool_is_counted_apart(idle: int) -> None:
    meter = BackgroundLoadMeter(idle, NO_DEVICE)
    until_s = time.process_time() + 0.05
    while time.process_time() < until_s:
        pass
    found = meter.read()
    assert found.tool_cpu_s is not None
    assert found.tool_cpu_s >= 0.05


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
    assert timeline.read_bytes == tuple(map(int, timeline.at_s))
    assert timeline.cpu_s == tuple(at / 2 for at in timeline.at_s)
    assert timeline.read_requests == ()


def test_a_column_with_a_missing_value_is_empty() -> None:
    timeline = timeline_of([StartupSample(0.25, read_bytes=1, cpu_s=0.1), StartupSample(0.5, cpu_s=0.2)])
    assert (timeline.at_s, timeline.read_bytes, timeline.cpu_s) == ((0.25, 0.5), (), (0.1, 0.2))


def test_a_pinned_sample_is_never_dropped() -> None:
    series = DownsampledSeries[int](1.0, most=5)
    for number in range(11):
        series.add(number)
        series.pinned = 2
    assert (series.kept, series.every_s) == ([2, 5, 8, 10], 8.0)


def test_cpu_time_of_others_never_decreases() -> None:
    samples = [StartupSample(at_s, others_cpu_s=s) for at_s, s in ((0.25, 0.02), (0.5, 0.01), (0.75, 0.05))]
    assert timeline_of(samples).others_cpu_s == (0.02, 0.02, 0.05)


# --- Real processes

SPIN = "print(flush=True)\nwhile True: pass"
READ_AND_SPIN = """
import os, sys
print(flush=True); sys.stdin.readline()
os.posix_fadvise(fd := os.open(sys.argv[1], os.O_RDONLY), 0, 0, os.POSIX_FADV_DONTNEED)
os.read(fd, 1 << 20); sum(range(5_000_000))
print(flush=True); sys.stdin.readline()
"""


class Talker:
    """A program that does one step for each line that it gets."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.pid = process.pid
        self._process = process
        self.has_done_a_step()

    def has_done_a_step(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "\n"

    def do_next_step(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()


@contextmanager
def program(code: str, *arguments: str) -> Iterator[Talker]:
    command = [sys.executable, "-S", "-c", code, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Talker(process)
        finally:
            process.kill()


def test_the_meter_counts_the_reads_and_cpu_time_of_one_process(tmp_path: Path) -> None:
    device = device_of(tmp_path)
    if device.device is None:
        pytest.skip("no block device under the temporary files")
    (tmp_path / "big").write_bytes(os.urandom(1 << 20))
    os.sync()
    with program(READ_AND_SPIN, str(tmp_path / "big")) as child:
        meter, before = UsageMeter(child.pid, device), procfs.process_activity(child.pid)
        child.do_next_step()
        child.has_done_a_step()
        found = meter.read()
        assert (found.read_bytes or 0) >= 1 << 20
        assert (found.read_requests or 0) >= 1
        assert (found.cpu_s or 0) > 0.02
        assert found.cache_grown_bytes is not None
        seen = psutil.Process(child.pid)
        until(lambda: seen.status() == psutil.STATUS_SLEEPING, "its next read")
        after = procfs.process_activity(child.pid)
        assert after not in (None, before)
        assert after == procfs.process_activity(child.pid)
    assert procfs.process_activity(child.pid) is None
    gone = meter.read()
    assert (gone.read_bytes, gone.cpu_s) == (None, None)


def test_the_sampler_sees_a_process_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interval_s = 0.125
    monkeypatch.setattr(startup_sampler, "SAMPLE_INTERVAL_S", interval_s)
    with program(SPIN) as child, StartupSampler(child.pid, device_of(tmp_path), since_s=time.monotonic()) as sampler:
        kept = sampler._series.kept
        until(lambda: len(kept) >= 4 and (kept[-1].cpu_s or 0) > 0.1, "four samples, and its CPU time")
    timeline = sampler.timeline
    assert timeline.at_s == tuple(sorted(timeline.at_s))
    assert all(at_s >= interval_s * (1 + number) for number, at_s in enumerate(timeline.at_s[:-1])), "never too early"
    assert len(timeline.cpu_s) == len(timeline.at_s) >= 5
    assert list(timeline.cpu_s) == sorted(timeline.cpu_s)
    assert timeline.cpu_s[-1] > 0.1
    assert not [thread for thread in threading.enumerate() if thread.name == "startup-sampler"]


def test_a_process_that_has_ended_leaves_no_samples() -> None:
    with StartupSampler(NO_SUCH_PROCESS, NO_DEVICE, since_s=time.monotonic()) as sampler:
        pass
    assert sampler.timeline.cpu_s == ()


@pytest.mark.on_demand("bench")
def test_a_sample_takes_less_than_1_percent_of_an_interval(idle: int, tmp_path: Path) -> None:
    sampler = StartupSampler(idle, device_of(tmp_path), since_s=time.monotonic())
    began = time.thread_time()
    for _ in range(200):
        sampler.sample()
    assert (time.thread_time() - began) / 200 < SAMPLE_INTERVAL_S / 100
