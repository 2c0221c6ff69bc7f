"""The proof of `recovery watch` finds what a recorded start holds. The start here is made up: its truth is known."""

from __future__ import annotations

import json
import tarfile
from dataclasses import asdict
from pathlib import Path

import pytest
from intervals.__main__ import rounded
from sessions import FIXTURES
from watch.__main__ import FOUND
from watch.page import tables
from watch.recording import SUFFIX, Conditions, Recording, file_of, read_recording
from watch.replay import falls_while_stopped, phase_results, wrong_phases_of_cuts

_FILES, _RATE, _BEGIN_S = 4000, 100, 1.0
_END_S = _BEGIN_S + _FILES / _RATE


def _recording(*, stopped_s: float = 0.0) -> Recording:
    """A start of 5.6 whose discovery reads all files at one rate. It may stand still after half of them."""
    half_s = (_BEGIN_S + _END_S) / 2

    def read(at_s: float) -> int:
        moving_s = min(at_s, half_s) + max(0.0, at_s - half_s - stopped_s)
        return int(min(_FILES, max(0.0, moving_s - _BEGIN_S) * _RATE))

    end_s = _END_S + stopped_s
    stamp = "2015-05-01 10:00:00 7 [Note]"
    lines = [
        (0.1, f"{stamp} InnoDB: Database was not shutdown normally!", True),
        (0.2, f"{stamp} InnoDB: Starting crash recovery.", True),
        (_BEGIN_S, f"{stamp} InnoDB: Reading tablespace information from the .ibd files...", True),
        (end_s, f"{stamp} InnoDB: Restoring possible half-written data pages", True),
        (end_s + 1, f"{stamp} InnoDB: 128 rollback segment(s) are active.", True),
        (end_s + 1.5, f"{stamp} InnoDB: 5.6.24 started; log sequence number 2000", True),
        (end_s + 2, f"{stamp} /usr/sbin/mysqld: ready for connections.", True),
    ]
    times = [step / 4 for step in range(int(4 * (end_s + 2)))]
    samples = [(at_s, read(at_s), 16384 * read(at_s), 0, 0, 0, at_s, "R") for at_s in times]
    return Recording(
        "5.6.24", Conditions("few", "cold", is_stopped=stopped_s > 0), _FILES, {}, "", _FILES, 1000, 2000, 16384,
        lines=lines, samples=list(samples), stopped=(half_s, half_s + stopped_s) if stopped_s else None,
    )  # fmt: skip


def test_a_phase_of_constant_rate_has_a_small_error_and_its_truth_inside_the_range() -> None:
    (result,) = phase_results(_recording())
    assert result.phase == "discovery"
    assert result.took_s == pytest.approx(_END_S - _BEGIN_S)
    assert all(error is not None and abs(error) < 0.1 for error in result.errors)
    assert result.held == (True, True, True)


def test_a_stopped_server_never_shows_a_falling_time() -> None:
    recording = _recording(stopped_s=20.0)
    assert falls_while_stopped(recording) == []
    assert phase_results(recording) == [], "the time of a phase that was stopped is nobody's estimate"


def test_cut_logs_show_the_phase_of_the_whole_log() -> None:
    assert wrong_phases_of_cuts([_recording()], 50) == []


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    recording = _recording()
    recording.write(tmp_path)
    again = read_recording(file_of(tmp_path, recording.version, recording.conditions))
    assert phase_results(again) == phase_results(recording)


def test_tables_name_each_phase_once() -> None:
    phase = {
        "version": "5.6.24", "phase": "discovery", "took_s": 40.0, "at_most_only": False, "errors": [0.1, -0.2, None],
        "held": [True, False, None], "looks": 20, "steps": 10, "steps_held": 9, "width": 2.0,
    }  # fmt: skip
    found = {
        "starts": 1, "cuts": 200, "wrong_phases": [], "phases": [phase],
        "stopped": {"starts": 0, "shown": 0, "falls": []}, "blocked": {"starts": 0, "shown": 0, "falls": []},
        "left_out": {"discovery": (8, 10)},
    }  # fmt: skip
    errors, ranges, looks, _ = tables(found)
    assert "| discovery | 1 | 40-40 | 10 % (+10) | 20 % (-20) | - |" in errors
    assert "| discovery | 1 of 1 | 0 of 1 | - | 1 of 2 | 90 % | 80 % |" in ranges
    assert "| 5.6.24 | discovery | 1 | 20 | 10 | 9 (90 %) | 2.0 |" in looks


# --- The recordings of real servers that are kept


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("starts")
    with tarfile.open(FIXTURES / "recorded-starts.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return sorted(folder.glob(f"*{SUFFIX}"))


def test_the_file_has_what_the_kept_recordings_show(kept: list[Path]) -> None:
    found = json.loads(FOUND.read_text())
    assert found["starts"] == len(kept)
    for path in kept[::6]:
        again = rounded([asdict(result) for result in phase_results(read_recording(path))])
        assert json.loads(json.dumps(again)) == [one for one in found["phases"] if one["recording"] == path.stem]


def test_nine_of_ten_kept_truths_are_inside_the_range() -> None:
    """That the code still shows what is kept is the test above."""
    found = json.loads(FOUND.read_text())
    held = [one for phase in found["phases"] for one in phase["held"] if one is not None]
    assert len(held) >= 60
    assert sum(held) / len(held) >= 0.87
    assert (found["stopped"]["falls"], found["blocked"]["falls"], found["wrong_phases"]) == ([], [], [])
