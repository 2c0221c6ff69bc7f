"""The speed of the host before each block, and the id of a host."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from recovery.linux import host_facts, host_speed
from recovery.linux.host_facts import host_id, storage_identity
from recovery.linux.host_speed import BLOCK_EFFORT, SHORT_BLOCK_EFFORT, block_effort, measure_host_speed
from recovery.linux.procfs import Fact, free_page_reporting
from recovery.linux.storage import Device, device_of

FACTS: dict[str, Fact] = {
    "cpu_model": "EPYC",
    "memory_bytes": 24,
    "kernel": "6.18",
    "device": "/dev/vda",
    "filesystem": "ext4",
}
DISK = ("Samsung", 2**38, "S123")


def test_a_disk_has_its_reads_and_the_cpu_its_loop(tmp_path: Path) -> None:
    if device_of(tmp_path).device is None:
        pytest.skip("no block device under the temporary files")
    found = measure_host_speed(tmp_path, SHORT_BLOCK_EFFORT)
    assert found["host_reads_per_s"] > 0
    assert found["host_reads_16_per_s"] > 0
    assert found["host_cpu_loop_s"] > 0
    assert 0 <= found["host_steal_share"] <= 1
    assert list(tmp_path.iterdir()) == []


def test_storage_that_cannot_be_measured_leaves_the_reads_out() -> None:
    found = measure_host_speed(Path("/proc"), SHORT_BLOCK_EFFORT)
    assert "host_cpu_loop_s" in found
    assert not [name for name in found if "reads" in name]


def test_a_host_without_counters_has_no_steal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_speed, "host_cpu_time", lambda: None)
    assert "host_steal_share" not in measure_host_speed(tmp_path, SHORT_BLOCK_EFFORT)


def test_small_sessions_spend_less() -> None:
    assert block_effort(1000) == SHORT_BLOCK_EFFORT
    assert block_effort(100_000) == BLOCK_EFFORT


def test_the_id_of_a_host_depends_on_the_machine_and_on_what_figures_depend_on(tmp_path: Path) -> None:
    machine = tmp_path / "machine-id"
    machine.write_text("0123456789abcdef0123456789abcdef\n")
    found = host_id(FACTS, DISK, machine)
    assert found is not None
    assert re.fullmatch("2-[0-9a-f]{12}", found)
    assert host_id(FACTS | {"load_1m": 3}, DISK, machine) == found
    assert host_id(FACTS | {"device": "/dev/vdb"}, DISK, machine) == found, "a boot may change the disk's name"
    assert host_id(FACTS, ("Samsung", 2**38, "S124"), machine) != found
    assert host_id(FACTS | {"read_ahead_kb": 128}, DISK, machine) != found
    assert host_id(FACTS | {"kernel": "6.19"}, DISK, machine) != found
    assert host_id(FACTS | {"memory_bytes": 2**35}, DISK, machine) != found
    machine.write_text("another")
    assert host_id(FACTS, DISK, machine) != found


def test_storage_is_known_by_its_disk_and_not_by_the_disks_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a serial number by the filesystem's id, if that is made of its UUID."""

    def identity(**known: Any) -> tuple[str | int | None, ...]:
        monkeypatch.setattr(host_facts, "device_of", lambda _: Device(model="A disk", size_bytes=2**38, **known))
        return storage_identity(tmp_path)

    found = identity(device="/dev/vda", serial="S123", filesystem="ext4")
    assert found == identity(device="/dev/vdb", serial="S123", filesystem="ext4") == ("A disk", 2**38, "S123")
    assert identity(filesystem="ext4") == ("A disk", 2**38, os.statvfs(tmp_path).f_fsid)
    assert identity(filesystem="xfs") == ("A disk", 2**38, None)


def test_the_id_of_a_host_is_the_same_after_a_boot_that_reserved_more_memory(tmp_path: Path) -> None:
    machine = tmp_path / "machine-id"
    machine.write_text("0123456789abcdef0123456789abcdef\n")
    before, after = ({**FACTS, "memory_bytes": size} for size in (33_570_123_776, 33_570_119_680))
    assert host_id(before, DISK, machine) == host_id(after, DISK, machine)


def test_a_machine_without_an_id_has_none(tmp_path: Path) -> None:
    assert host_id(FACTS, DISK, tmp_path / "missing") is None


@pytest.mark.parametrize(("features", "expected"), [("01100100", "yes"), ("01100000", "no"), ("01", "no")])
def test_a_machine_says_whether_it_gives_free_memory_back(tmp_path: Path, features: str, expected: str) -> None:
    device = tmp_path / "virtio0"
    device.mkdir()
    (device / "features").write_text(f"{features}\n")
    assert free_page_reporting(tmp_path) == expected


def test_a_machine_without_a_balloon_says_nothing_of_it(tmp_path: Path) -> None:
    assert free_page_reporting(tmp_path) is None
