"""How fast the storage is: really read, on what disk there is, and a word where it cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recovery.host import randomreads
from recovery.host.randomreads import BRIEF, FULL, LEFT_OUT, SHORT, Effort, ReadProbe, Speed, effort_for, probe
from recovery.host.space import Need
from recovery.host.storage import device_of

NAMES = {"4k_1", "4k_16", "16k_1", "16k_16"}


def test_four_speeds_of_a_real_disk(tmp_path: Path) -> None:
    if device_of(tmp_path).device is None:
        pytest.skip("no block device under the temporary files")
    found = probe(tmp_path / "not/there/yet", BRIEF)
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
    found = probe(tmp_path, Effort(1 << 20, 0.05))
    least = sum(0.8 * 0.05 * speed.iops * randomreads.SIZES[name.split("_")[0]] for name, speed in found.speeds.items())
    assert read_bytes() - before > least


def read_bytes() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes:"))


def test_memory_is_no_storage() -> None:
    if device_of(Path("/dev/shm")).filesystem != "tmpfs":
        pytest.skip("no tmpfs")
    found = probe(Path("/dev/shm"), BRIEF)
    assert found == ReadProbe(BRIEF, {}, "tmpfs lies in memory")
    assert found.facts() == {"probe": "none: tmpfs lies in memory"}


def test_no_room_and_no_right_are_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert probe(Path("/proc"), BRIEF).speeds == {}
    with monkeypatch.context() as patch:
        patch.setattr(randomreads, "free", lambda _: Need(20 << 20, 9))
        assert probe(tmp_path, BRIEF).why_not == "no room for a file of 16 MiB"

    def refuse(*_: object) -> int:
        raise OSError(22, "Invalid argument", str(tmp_path))

    monkeypatch.setattr(os, "preadv", refuse)
    assert probe(tmp_path, BRIEF).why_not == "Invalid argument", "the folder is not named"


def test_the_effort_is_that_of_the_session() -> None:
    assert [effort_for(tables) for tables in (20, 1000, 9_999, 10_000, 200_000)] == [BRIEF, SHORT, SHORT, FULL, FULL]


def test_left_out_is_told() -> None:
    assert LEFT_OUT.facts() == {"probe": "none: left out, as asked"}
    assert "probe_4k_1_iops" in ReadProbe(SHORT, {"4k_1": Speed(1, 2.0, 3.0)}).facts()
