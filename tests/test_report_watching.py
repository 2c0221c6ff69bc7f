"""Is it told in lines that fit, whatever the width, the height, and the names in it?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_progress import PLANNED, after, at, trials

from recovery.cli.progress_view import current_activity, duration_words, live_view, status_page
from recovery.errors import escape_control
from recovery.mysqld.phases import CurrentPhase
from recovery.session.progress import ProgressSnapshot, Status


def measuring(phase: CurrentPhase | None = None) -> ProgressSnapshot:
    progress = after(PLANNED, 10.0, 6.0, 8.0, 4.0).trial_began(trials()[4], 3000.0)
    return at(progress.doing("timed start", 3010.0), 3055.0, phase or CurrentPhase("validation", 3017.0))


def texts(found: ProgressSnapshot, width: int = 80, height: int = 24) -> list[str]:
    return [line.text for line in live_view(found, width, height)]


def test_a_trial() -> None:
    assert texts(measuring()) == [
        "crash-recovery: 4 of 8 trials done, 34 min so far, about 7 min left",
        "[5/8] 5.7.22 cold run 2: timed start 45 s, validation 38 s",
        "5.7.22 cold  1/2  mean 5.00 s  last 5.00 s",
        "5.7.22 warm  1/2  mean 3.00 s  last 3.00 s",
        "8.0.31 cold  1/2  mean 4.00 s  last 4.00 s",
        "8.0.31 warm  1/2  mean 2.00 s  last 2.00 s",
    ]


def test_phases_that_have_no_name_yet_and_those_that_tell_how_far_they_are() -> None:
    assert current_activity(measuring(CurrentPhase(None, 3010.0))).endswith("timed start 45 s, nothing in the log yet")
    told = CurrentPhase("discovery", 3011.0, "Checked 15615/20298")
    assert current_activity(measuring(told)).endswith("timed start 45 s, discovery 44 s (Checked 15615/20298)")


def test_a_build() -> None:
    building = PLANNED.build_began("5.7.22: 9 tables", 1000.0)
    assert current_activity(at(building, 1004.0)) == "5.7.22: 9 tables: making the data directory, 4 s"
    building = building.built(0, 200_000, 1010.0).built(64_000, 200_000, 1074.0)
    assert texts(at(building, 1074.0))[1:] == [
        "5.7.22: 9 tables: 64,000 of 200,000, 1,000/s, 2 min left",
        "[#######-----------------]",
    ]
    assert current_activity(at(building.built(200_000, 200_000, 1200.0), 1201.0)).endswith("built, being checked")


@pytest.mark.parametrize("width", [1, 12, 20, 39, 40, 79, 200])
@pytest.mark.parametrize("height", [1, 2, 3, 5, 23])
def test_it_fits(width: int, height: int) -> None:
    lines = texts(measuring(), width, height)
    assert 1 <= len(lines) <= height
    assert max(map(len, lines)) <= max(12, width)


def test_at_40_columns_nothing_is_lost_and_no_number_parted_from_its_unit() -> None:
    lines = texts(measuring(), 39)
    assert " ".join(" ".join(lines).split()).startswith(
        "crash-recovery: 4 of 8 trials done, 34 min so far, about 7 min left "
        "[5/8] 5.7.22 cold run 2: timed start 45 s, validation 38 s 5.7.22 cold 1/2 mean 5.00"
    )
    assert not [line for line in lines if line.split()[0] in ("s", "min")]


def test_of_many_results_those_of_the_trial_under_way_are_shown() -> None:
    found = measuring()
    many = replace(found, cells=tuple(replace(found.cells[0], version=f"5.7.{number}") for number in range(40)))
    shown = texts(many, 80, 10)
    assert shown[-1] == "... and 33 lines more"
    assert any(line.startswith("5.7.22 ") for line in shown[2:])


def test_it_is_nearly_done_rather_than_over_with_no_time_left() -> None:
    assert "nearly done" in texts(replace(measuring(), left_s=0.0))[0]


def test_failures_are_counted() -> None:
    found = measuring()
    cell = replace(found.cells[0], mean=None, last=None, failed=2)
    assert texts(replace(found, cells=(cell,)))[-1] == "5.7.22 cold  1/2  mean - s  last - s  2 failed"


def test_nothing_from_outside_steers_a_terminal() -> None:
    evil = replace(measuring(), told="\x1b]0;mine\x07", step="\x1b[2Jx\u202e")
    assert all(text.isprintable() for text in texts(evil))
    assert escape_control("a  'b\tc'") == "a  'b?c'"


def test_the_page_for_who_asks() -> None:
    told = list(status_page(measuring(), running=True))
    assert told[0] == "crash-recovery of 5.7.22 8.0.31: pid 7, since 2026-01-01 00:00:00 UTC"
    assert told[2] == "  measuring: [5/8] 5.7.22 cold run 2: timed start 45 s, validation 38 s"
    assert told[-1] == "  results go to /results"
    last = list(status_page(replace(measuring(), status=Status.KILLED), running=False))
    assert last[0] == "no session is running"
    assert "killed after 34 min" in last[1]
    assert last[-1] == "  results are in /results"


@pytest.mark.parametrize(("seconds", "told"), [(0, "0 s"), (99, "99 s"), (100, "2 min"), (7199, "120 min"), (7200, "2.0 hours")])  # fmt: skip # noqa: E501
def test_durations(seconds: float, told: str) -> None:
    assert duration_words(seconds) == told
