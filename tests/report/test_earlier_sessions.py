"""What a report says about the earlier sessions of its design and host."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import pytest
from at_work import interference
from everything import a_run, a_session, everything
from hypothesis import given
from hypothesis import strategies as st

from recovery.model import EarlierSession, Session
from recovery.report import markdown, text
from recovery.report.html import page
from recovery.report.metric_tables import earlier_table
from recovery.report.summary_text import answers

Cell = tuple[str, str]
COLD, WARM = ("5.7.22", "cold"), ("5.7.22", "warm")
NEW = ("8.0.31", "cold")


def a_session_after(earlier: Mapping[Cell, Sequence[float]], now: Mapping[Cell, float]) -> Session:
    """A session of one run a cell, and earlier ones with these means: two on each day."""
    found = tuple(
        EarlierSession(f"s{number}", f"2026-11-{10 + number // 2}T0{number % 2}:00:00+00:00", *cell, 5, mean, "ab" * 6)
        for cell, means in earlier.items()
        for number, mean in enumerate(means)
    )
    runs = tuple(a_run(number, cell, seconds) for number, (cell, seconds) in enumerate(now.items(), start=1))
    return a_session(runs, earlier=found)


def lines(session: Session) -> list[str]:
    return [line for line in answers(session) if line.startswith(("Earlier", "Over"))]


def test_one_earlier_session_is_a_figure_without_an_interval() -> None:
    assert lines(a_session_after({COLD: [39.8]}, {COLD: 41.0})) == ["Earlier on this host: 39.8 s in 1 session."]


def test_from_three_sessions_on_there_is_an_interval_over_all_of_them() -> None:
    found = lines(a_session_after({COLD: [39.8, 52.2, 44.0, 50.0]}, {COLD: 46.0}))
    mean = math.exp(fmean(map(math.log, (39.8, 52.2, 44.0, 50.0, 46.0))))
    assert found == [
        "Earlier on this host: 39.8 to 52.2 s in 4 sessions of 2 days.",
        f"Over 5 sessions of 3 days: {mean:.1f} s (40.4-52.8).",
    ]
    two = lines(a_session_after({COLD: [39.8, 52.2]}, {COLD: 46.0}))
    assert two[0] == "Earlier on this host: 39.8 to 52.2 s in 2 sessions of 1 day."
    assert two[1].startswith("Over 3 sessions of 2 days: 45.7 s (")


def test_cells_are_named_where_there_are_several_and_a_version_once() -> None:
    means = {COLD: [39.8, 52.2], WARM: [5.1, 6.0]}
    now = {COLD: 41.0, WARM: 5.5}
    assert lines(a_session_after(means, now))[0] == (
        "Earlier on this host: cold 39.8 to 52.2 s, warm 5.10 to 6.00 s in 2 sessions of 1 day."
    )
    assert lines(a_session_after({**means, NEW: [70.0]}, {**now, NEW: 76.0}))[0] == (
        "Earlier on this host: 5.7.22 cold 39.8 to 52.2 s, warm 5.10 to 6.00 s in 2 sessions of 1 day; "
        "8.0.31 cold 70.0 s in 1 session."
    )


def test_a_load_says_the_range_of_its_metric() -> None:
    session = interference()
    cell = (session.versions[0], session.variant_names[0])
    earlier = tuple(EarlierSession(f"s{day}", f"2026-11-1{day}", *cell, 3, 12_000.0 + day) for day in (1, 2))
    (found, over) = lines(replace(session, earlier=earlier))
    assert found.endswith(" 12,001 to 12,002 queries/s in 2 sessions of 2 days.")
    assert over.startswith("Over 3 sessions of 3 days: ")


def test_the_table_has_all_cells() -> None:
    session = a_session_after({COLD: [39.8, 52.2], WARM: [5.1]}, {COLD: 41.0, WARM: 5.5})
    table = earlier_table(session)
    assert table is not None
    assert [row[:6] for row in table.rows] == [
        ("5.7.22", "cold, seconds", "2", "1", "39.80", "52.20"),
        ("5.7.22", "warm, seconds", "1", "1", "5.10", "5.10"),
    ]
    assert (table.rows[0][6], table.rows[1][6:]) == ("44.00", ("-", "-"))
    assert earlier_table(a_session_after({}, {COLD: 41.0})) is None


@pytest.mark.parametrize("render", [text.render, markdown.render, page.render])
def test_every_format_has_the_lines_and_the_table(render: object) -> None:
    session = replace(everything(), earlier=a_session_after({COLD: [39.8, 52.2]}, {}).earlier)
    assert callable(render)
    found = render(session)
    for words in ("Earlier on this host", "Over 3 sessions of 2 days", "Earlier sessions", "over all:"):
        assert words in " ".join(found.split())


STORED_NUMBERS = st.floats(-1e29, 1e29).filter(lambda value: value == 0 or abs(value) > 1e-29)


@given(st.lists(STORED_NUMBERS, max_size=6), st.sampled_from([0.0, 1e-29, 100.0]))
def test_any_stored_means_can_be_reported(means: list[float], now: float) -> None:
    """A stored session may be damaged."""
    session = a_session_after({COLD: means, ("1.2.3", "cold"): means}, {COLD: now})
    assert len(lines(session)) == min(2, len(means))
    assert (earlier_table(session) is None) is not bool(means)
