"""How fast the storage is: really read, on what disk there is, and a word where it cannot be."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from recovery.cli import doctor
from recovery.linux import read_benchmark
from recovery.linux.read_benchmark import (
    BRIEF_EFFORT,
    FULL_EFFORT,
    NOT_PROBED,
    SHORT_EFFORT,
    ProbeEffort,
    ReadProbe,
    ReadSpeed,
    RereadTimes,
    effort_for,
    probe_reads,
)
from recovery.linux.storage import DiskSpace, device_of

NAMES = {"4k_1", "4k_16", "16k_1", "16k_16"}


def test_four_speeds_of_a_real_disk(tmp_path: Path) -> None:
    if device_of(tmp_path).device is None:
        pytest.skip("no block device under the temporary files")
    found = probe_reads(tmp_path / "not/there/yet", BRIEF_EFFORT)
    assert list(tmp_path.iterdir()) == []
    assert found.speeds.keys() == NAMES
    for speed in found.speeds.values():
        assert speed.iops > 0
        assert speed.mean_ms > 0
        assert speed.p99_ms > 0
    one = found.speeds["4k_1"]
    assert (one.iops - 0.5) * one.mean_ms / 1000 <= 1.1, "one at a time: the reads do not overlap"
    facts = found.facts()
    assert facts["probe_4k_1_iops"] == one.iops
    assert facts["probe_16k_16_p99_ms"] == found.speeds["16k_16"].p99_ms
    assert (facts["probe_seconds_each"], facts["probe_file_bytes"]) == (0.1, 16 << 20)


def test_the_reads_come_from_the_device(tmp_path: Path) -> None:
    """Not from the page cache, which would make any disk look fast."""
    if device_of(tmp_path).device is None:
        pytest.skip("no block device under the temporary files")
    before = read_bytes()
    found = probe_reads(tmp_path, ProbeEffort(1 << 20, 0.05))
    least = sum(
        0.8 * 0.05 * speed.iops * read_benchmark.SIZES[name.split("_")[0]] for name, speed in found.speeds.items()
    )
    assert read_bytes() - before > least


def read_bytes() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes:"))


def test_memory_is_no_storage() -> None:
    if device_of(Path("/dev/shm")).filesystem != "tmpfs":
        pytest.skip("no tmpfs")
    found = probe_reads(Path("/dev/shm"), BRIEF_EFFORT)
    assert found == ReadProbe(BRIEF_EFFORT, {}, "tmpfs is in memory")
    assert found.facts() == {"probe": "none: tmpfs is in memory"}


def test_no_room_and_no_right_are_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert probe_reads(Path("/proc"), BRIEF_EFFORT).speeds == {}
    with monkeypatch.context() as patch:
        patch.setattr(read_benchmark, "free_space", lambda _: DiskSpace(20 << 20, 9))
        assert probe_reads(tmp_path, BRIEF_EFFORT).why_not == "no room for a file of 16 MiB"

    def refuse(*_: object) -> int:
        raise OSError(22, "Invalid argument", str(tmp_path))

    monkeypatch.setattr(os, "preadv", refuse)
    assert probe_reads(tmp_path, BRIEF_EFFORT).why_not == "Invalid argument", "the folder is not named"


def test_blocks_are_read_twice(tmp_path: Path) -> None:
    if device_of(tmp_path).device is None:
        pytest.skip("no block device under the temporary files")
    found = probe_reads(tmp_path, BRIEF_EFFORT)
    again = found.again
    assert again is not None
    assert again.over == "the file just written"
    assert 0 < again.blocks <= 128
    facts = found.facts()
    assert (facts["probe_again_blocks"], facts["probe_first_read_ms"]) == (again.blocks, again.first_ms)
    assert again.first_ms > 0
    assert again.again_ms > 0


def test_a_block_is_read_again_right_after_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So that what else the host does slows both: the pairs are compared, and not one pass with another."""
    if device_of(tmp_path).device is None:
        pytest.skip("no block device under the temporary files")
    read: list[int] = []

    def timed(places: Iterable[tuple[int, int]], size: int, until: float) -> Iterator[float]:
        read.extend(offset for _, offset in places)
        yield from (0.008, 0.002) if len(read) % 4 else (0.004, 0.001)

    with (tmp_path / "file").open("wb") as file:
        file.write(bytes(1 << 20))
        monkeypatch.setattr(read_benchmark, "_timed_reads", timed)
        found = read_benchmark._measure_reread("a file", [(file.fileno(), 16384 * number) for number in range(5)])
    assert found == read_benchmark.RereadTimes("a file", 5, first_ms=8.0, again_ms=2.0, times_faster=4.0)
    assert read == [16384 * number for number in (0, 0, 1, 1, 2, 2, 3, 3, 4, 4)]


def test_tables_files_that_are_kept_are_read_rather_than_what_was_just_written(tmp_path: Path) -> None:
    """A few of them, so that the next cold start over them is as it would have been."""
    if device_of(tmp_path).device is None:
        pytest.skip("no block device under the temporary files")
    schema = tmp_path / "5.7.22-discovery-200-abc" / "mysql" / "discovery"
    schema.mkdir(parents=True)
    for number in range(200):
        (schema / f"table_{number}.ibd").write_bytes(b"x" * 16384)
    os.sync()
    assert read_benchmark._reread_kept_files(tmp_path) is None, "one in a hundred is too few"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_benchmark, "_ONE_FILE_IN", 2)
        found = read_benchmark._reread_kept_files(tmp_path)
    assert found is not None
    assert (found.over, found.blocks) == ("tables' files kept here", 100)
    assert read_benchmark._reread_kept_files(tmp_path / "not" / "there") is None


def test_the_doctor_says_what_cold_means() -> None:
    found = ReadProbe(SHORT_EFFORT, {"4k_1": ReadSpeed(1, 2.0, 3.0)}, again=RereadTimes("x", 256, 0.47, 0.065, 7.2))
    (check,) = [check for check in doctor.read_speed_checks(found) if check.name == "just-read blocks"]
    assert check.detail == (
        "Reading the same blocks again is 7.2 times as fast (0.47 ms, then 0.065 ms): the hypervisor, the disk "
        "controller or the disk caches what was read."
    )
    assert "cold to this machine only" in check.why
    for times, blocks in ((1.3, 256), (50.0, 99)):
        other = replace(found, again=RereadTimes("the file just written", blocks, 0.47, 0.065, times))
        (check,) = [check for check in doctor.read_speed_checks(other) if check.name == "just-read blocks"]
        assert check.detail.startswith("not known: 0.47 ms, then 0.065")
    assert [check.name for check in doctor.read_speed_checks(NOT_PROBED)] == ["reads"]


def test_the_effort_is_that_of_the_session() -> None:
    assert [effort_for(tables) for tables in (20, 1000, 9_999, 10_000, 200_000)] == [
        BRIEF_EFFORT,
        SHORT_EFFORT,
        SHORT_EFFORT,
        FULL_EFFORT,
        FULL_EFFORT,
    ]


def test_left_out_is_told() -> None:
    assert NOT_PROBED.facts() == {"probe": "none: left out, as asked"}
    assert "probe_4k_1_iops" in ReadProbe(SHORT_EFFORT, {"4k_1": ReadSpeed(1, 2.0, 3.0)}).facts()
