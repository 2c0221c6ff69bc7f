"""The proof of `recovery estimate` goes on where it ended, and finds what its kills hold. The starts are made up."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from estimate.findings import error_of, results_of, tables
from estimate.records import LIMITS, SERVERS, Load, Planned, Purpose, Record, append, file_of, missing, planned, read
from sessions import FIXTURES

from recovery.analysis.crash_estimate import ServerState, estimate_start
from recovery.model import parse_version

VERSION = "8.0.31"


def made_up(one: Planned, *, factor: float = 1.0) -> Record:
    """A start that takes `factor` times what the tool's own constants say, whatever its redo."""
    redo = 40_000_000 if one.load is Load.HOT else 1_000_000
    state = ServerState(
        parse_version(VERSION), 500 + 700 * (one.number % 9), float(one.reads_per_s), files=5, redo_bytes=redo,
        uncommitted_rows=one.rows, writes_share_limit=True, notes=("a note",),
    )  # fmt: skip
    found = estimate_start(state)
    return Record(one, state, found.seconds, found.low_s, found.high_s, factor * found.seconds)


def test_every_server_has_a_calibration_then_known_states_and_at_last_unseen_ones() -> None:
    plans = {version: planned(version) for version in SERVERS}
    predicted = [one for plan in plans.values() for one in plan if one.purpose is not Purpose.CALIBRATION]
    unseen = [one for one in predicted if one.purpose is Purpose.UNSEEN]
    assert len(predicted) >= 100
    assert len(unseen) >= 30
    assert any(one.rows for one in unseen)
    for version, plan in plans.items():
        assert plan == planned(version), "the same plan after an interruption"
        order = [list(Purpose).index(one.purpose) for one in plan]
        assert order == sorted(order)
        for purpose in (Purpose.CALIBRATION, Purpose.KNOWN):
            assert len({(one.load, one.reads_per_s) for one in plan if one.purpose is purpose}) == 3 * len(LIMITS)


def test_a_kill_is_stored_before_its_start_and_repeated_if_that_was_not_timed(tmp_path: Path) -> None:
    first, second, *rest = planned(VERSION)
    append(tmp_path, VERSION, made_up(first))
    append(tmp_path, VERSION, replace(made_up(second), startup_s=None))
    with file_of(tmp_path, VERSION).open("a") as file:
        file.write('{"planned": ')
    assert read(tmp_path, VERSION) == {0: made_up(first)}
    assert missing(tmp_path, VERSION) == [second, *rest]
    append(tmp_path, VERSION, made_up(second))  # after half a line
    append(tmp_path, VERSION, made_up(second))
    assert read(tmp_path, VERSION)[1] == made_up(second)


def test_true_predictions_are_inside_and_beat_both_rivals() -> None:
    records = {one.number: made_up(one) for one in planned(VERSION)}
    results = results_of(VERSION, records)
    assert len(results) == sum(one.purpose is not Purpose.CALIBRATION for one in planned(VERSION))
    assert all(one.is_inside for one in results)
    by_redo = [error_of(one.by_redo_s, one.startup_s) or 0.0 for one in results]
    last = [error_of(one.last_s, one.startup_s) or 0.0 for one in results]
    assert sorted(by_redo)[len(by_redo) // 2] > 0.05
    assert sorted(last)[len(last) // 2] > 0.05
    errors, states, steady_errors, _ = tables(results)
    steady = sum(one.record.planned.purpose is Purpose.STEADY for one in results)
    assert f"| all | {len(results) - steady} | 100 % | 3.2 times | 0 % (worst 0) |" in errors
    assert f"| all | {steady} | 100 % |" in steady_errors
    assert "| 8.0.31 |" in states


def test_starts_that_take_twice_as_long_are_outside() -> None:
    records = {one.number: made_up(one, factor=2.0) for one in planned(VERSION)}
    results = results_of(VERSION, records)
    assert not any(one.is_inside for one in results)
    assert all(error_of(one.record.seconds, one.startup_s) == pytest.approx(0.5) for one in results)


def test_the_page_has_the_tables_of_the_kept_kills(tmp_path: Path) -> None:
    """`make estimate-proof ARGS="report FOLDER"` prints them."""
    with tarfile.open(FIXTURES / "predicted-kills.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    results = [one for version in SERVERS for one in results_of(version, read(tmp_path, version))]
    page = (FIXTURES.parent / "docs" / "results" / "how-true.md").read_text("utf-8")
    assert [table for table in tables(results) if table not in page] == []
