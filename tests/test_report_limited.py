"""What a report tells of limits: only where there are some."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from recovery.linux.cgroups import limits_to_settings
from recovery.model import NO_LIMITS, Limits, Session
from recovery.report import text
from recovery.report.stored_session import load_session
from recovery.report.tables import figure_tables

SESSION = load_session(Path(__file__).parent.parent / "fixtures" / "sessions" / "three-versions")


def under(limits: Limits) -> Session:
    run = replace(
        SESSION.runs[0], reads_per_s=4987.6, read_bytes=50_000_000, first_query_s=2.0, group_memory_bytes=10**9
    )
    return replace(SESSION, settings={**SESSION.settings, **limits_to_settings(limits)}, runs=(run,))


@pytest.mark.parametrize(
    ("limits", "headers", "cells"),
    [
        (NO_LIMITS, [], []),
        (Limits(cpus=1), [], []),
        (Limits(read_iops=5000), ["reads/s"], ["4,988"]),
        (Limits(read_bps=1 << 20), ["read/s"], ["25.0 MB"]),
        (Limits(read_iops=5000, memory_bytes=2 << 30), ["reads/s", "memory"], ["4,988", "1.0 GB"]),
    ],
)
def test_columns_come_with_their_limits(limits: Limits, headers: list[str], cells: list[str]) -> None:
    runs = next(table for table in figure_tables(under(limits)) if table.title == "Every run")
    shown = dict(zip(runs.headers, runs.rows[0], strict=True))
    new = [name for name in ("reads/s", "read/s", "memory") if name in shown]
    assert new == headers
    assert [shown[name] for name in new] == cells
    assert ("control group" in " ".join(runs.notes)) == bool(limits.read_iops or limits.read_bps or limits.memory_bytes)


def test_a_report_still_fits_its_page() -> None:
    everything = Limits(read_iops=5000, read_bps=1 << 20, memory_bytes=2 << 30, cpus=1)
    assert max(map(len, text.render(under(everything)).splitlines())) <= 78
