"""The estimate of a start adds its parts, and gets wider where it is known to be wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recovery.analysis.crash_estimate import ServerState, estimate_start
from recovery.errors import UsageError
from recovery.model import parse_version

NEW = ServerState(parse_version("8.0.31"), files=1000, dirty_pages=10_000, reads_per_s=2000)


def test_the_parts_add_up_and_lie_in_the_range() -> None:
    found = estimate_start(NEW)
    assert {part.name: part.seconds for part in found.parts} == pytest.approx(
        {"process": 2.4, "files": 1.0, "pages": 13.0, "prepared transactions": 0.0}
    )
    assert found.seconds == pytest.approx(16.4)
    assert 0 < found.low_s < found.seconds < found.high_s < 20
    assert found.text == "16 s (15 to 19): process 2.4, files 1, pages 13"
    assert found.largest.name == "pages"
    assert found.notes == ()


def test_open_transactions_lock_rows_after_the_start_and_prepared_ones_delay_it() -> None:
    before, opened = estimate_start(NEW), estimate_start(replace(NEW, uncommitted_rows=550_000))
    assert opened.seconds == before.seconds
    assert opened.locked_s == pytest.approx(15)
    assert opened.text.endswith("; then rows locked for up to 15 s")
    prepared = estimate_start(replace(NEW, prepared_rows=240_000))
    assert prepared.seconds == pytest.approx(before.seconds + 10)
    assert prepared.locked_s == 0


def test_faster_storage_shortens_files_and_pages_only() -> None:
    slow, fast = estimate_start(NEW), estimate_start(replace(NEW, reads_per_s=4000))
    assert slow.seconds - fast.seconds == pytest.approx(7.0)


def test_a_pool_smaller_than_the_data_widens_the_range_upwards() -> None:
    usual = estimate_start(replace(NEW, pool_bytes=2, data_bytes=1))
    small = estimate_start(replace(NEW, pool_bytes=1, data_bytes=2))
    assert usual.high_s < 2 * NEW.dirty_pages * 2.6 / 2000 < small.high_s
    assert small.low_s == pytest.approx(usual.low_s)
    assert any("buffer pool is smaller" in note for note in small.notes)


@pytest.mark.parametrize("reads_per_s", [300, 60_000])
def test_other_storage_than_calibrated_widens_the_range(reads_per_s: float) -> None:
    found = estimate_start(replace(NEW, reads_per_s=reads_per_s, dirty_pages=10**6))
    assert found.high_s > 2 * found.seconds * 0.9
    assert any("other storage" in note for note in found.notes)


def test_a_series_whose_pages_were_not_measured_has_a_wide_range() -> None:
    old = estimate_start(replace(NEW, version=parse_version("5.7.22")))
    assert old.high_s - old.seconds > 4 * (estimate_start(NEW).high_s - estimate_start(NEW).seconds)


def test_what_the_user_may_not_see_is_named() -> None:
    found = estimate_start(replace(NEW, uncommitted_rows=None))
    assert found.locked_s == 0
    assert any("PROCESS" in note for note in found.notes)


@pytest.mark.parametrize("version", ["9.7.0", "mariadb-11.4.5", "5.6.24"])
def test_a_version_that_was_not_measured_is_refused(version: str) -> None:
    with pytest.raises(UsageError, match="were not measured"):
        estimate_start(replace(NEW, version=parse_version(version)))


def test_without_the_speed_of_the_storage_there_is_no_estimate() -> None:
    with pytest.raises(UsageError, match="reads per second"):
        estimate_start(replace(NEW, reads_per_s=0))
