"""The proof of `recovery watch` finds what a recorded start holds. The start here is made up: its truth is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from watch.page import tables
from watch.recording import Conditions, Recording, file_of, read_recording
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
        "phase": "discovery", "took_s": 40.0, "at_most_only": False, "errors": [0.1, -0.2, None],
        "held": [True, False, None], "steps": 10, "steps_held": 9,
    }  # fmt: skip
    found = {
        "starts": 1, "cuts": 200, "wrong_phases": [], "phases": [phase],
        "stopped": {"starts": 0, "shown": 0, "falls": []},
    }  # fmt: skip
    errors, ranges, _ = tables(found)
    assert "| discovery | 1 | 40-40 | 10 % (+10) | 20 % (-20) | - |" in errors
    assert "| discovery | 1 of 1 | 0 of 1 | - | 1 of 2 | 90 % |" in ranges
