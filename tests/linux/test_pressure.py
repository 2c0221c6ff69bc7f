"""What else keeps a host busy is told from the server's own use. Clients of the server on its host count as others."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from recovery.linux import pressure

CPUS, SECONDS = 4, 1.0


class Host:
    """Counters of a host before and after the second in which it is watched."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.all_cpu_s = self.own_cpu_s = self.load = 0.0
        self.all_bytes = self.own_bytes = 0
        self.folder, self._looks = folder, self._counters()
        monkeypatch.setattr(pressure, "PRESSURE", folder)
        monkeypatch.setattr(os, "cpu_count", lambda: CPUS)
        monkeypatch.setattr(os, "getloadavg", lambda: (self.load, 0.0, 0.0))
        monkeypatch.setattr(time, "sleep", lambda _: None)
        monkeypatch.setattr(pressure, "_used", lambda pid: self.used(pid))

    def _counters(self) -> Iterator[float]:
        yield from (0.0, 1.0)

    def used(self, pid: int | None) -> tuple[float, float, float, float, float]:
        share = next(self._looks)
        own = 0.0 if pid is None else share
        return (
            share * SECONDS,
            share * self.all_cpu_s,
            own * self.own_cpu_s,
            share * self.all_bytes,
            own * self.own_bytes,
        )

    def stalls(self, **pressures: float) -> None:
        for kind, percent in pressures.items():
            (self.folder / kind).write_text(f"some avg10={percent} avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00\n")


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Host:
    return Host(monkeypatch, tmp_path)


def test_an_idle_host_is_not_busy(host: Host) -> None:
    host.stalls(cpu=90, io=90)
    assert pressure.busy_host(7) == ""


def test_the_servers_own_use_does_not_count(host: Host) -> None:
    host.stalls(cpu=50, io=50)
    host.all_cpu_s = host.own_cpu_s = 3.5
    host.all_bytes = host.own_bytes = 100 << 20
    assert pressure.busy_host(7) == ""
    host._looks = host._counters()
    assert "use 88 % of its CPUs, 100 % of what its disks read and write is of other" in pressure.busy_host(None)


def test_clients_of_the_server_on_the_same_host_count_as_other_processes(host: Host) -> None:
    host.stalls(cpu=20, io=0)
    host.load, host.all_cpu_s, host.own_cpu_s = 6.0, 3.2, 2.0
    assert pressure.busy_host(7) == (
        "other processes use 30 % of its CPUs, cpu pressure 20 %, io pressure 0 %, load 6.0 on 4 CPUs"
    )


@pytest.mark.parametrize(("load", "is_said"), [(3.0, False), (5.0, True)])
def test_without_pressure_figures_the_load_says_whether_processes_wait(load: float, is_said: bool, host: Host) -> None:
    host.load, host.all_cpu_s, host.all_bytes = load, 2.0, 50 << 20
    assert bool(pressure.busy_host(7)) is is_said
    host._looks = host._counters()
    assert "pressure" not in pressure.busy_host(7)


def test_others_that_nobody_waits_for_are_not_named(host: Host) -> None:
    host.stalls(cpu=2, io=2)
    host.all_cpu_s, host.all_bytes = 3.0, 50 << 20
    assert pressure.busy_host(7) == ""


def test_a_few_bytes_are_no_load_of_the_disks(host: Host) -> None:
    host.stalls(cpu=0, io=90)
    host.all_bytes = 1 << 20
    assert pressure.busy_host(7) == ""


def test_damaged_figures_are_none(host: Host) -> None:
    (host.folder / "cpu").write_text("full avg10=1\n")
    (host.folder / "io").mkdir()
    host.load, host.all_cpu_s = 9.0, 4.0
    assert pressure.busy_host(7) == "other processes use 100 % of its CPUs, load 9.0 on 4 CPUs"


def test_a_process_that_is_gone_uses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: int) -> Any:
        raise psutil.NoSuchProcess(7)

    monkeypatch.setattr(psutil, "Process", gone)
    monkeypatch.setattr(psutil, "disk_io_counters", lambda: None)
    times = SimpleNamespace(user=1.0, nice=2.0, system=3.0, irq=0.5, softirq=0.5, idle=100.0, iowait=50.0)
    monkeypatch.setattr(psutil, "cpu_times", lambda: times)
    _, all_s, own_s, total, own_bytes = pressure._used(7)
    assert (all_s, own_s, total, own_bytes) == (7.0, 0.0, 0.0, 0.0), "a wait for the storage uses no CPU"
