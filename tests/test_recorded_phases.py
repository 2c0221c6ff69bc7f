"""Do recorded crash starts of real servers parse to the phases that were seen in them?

Each `.arrivals` has, for every line of a start of 2,500 tables, the seconds since the exec and the wall clock at which
it arrived; lines that say nothing of the start were taken out. `.phases.json` is what they must parse to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recovery.analysis.phase_names import named_share, seconds_by_name
from recovery.model import Phase, parse_version
from recovery.mysqld.phases import PhaseTracker, with_first_query

RECORDED = sorted((Path(__file__).resolve().parent.parent / "fixtures" / "errorlogs").glob("*.arrivals"))


def replayed(recorded: Path) -> tuple[PhaseTracker, tuple[Phase, ...], float]:
    tracker, arrived_s = PhaseTracker(parse_version(recorded.stem.removesuffix("-crash")), 0.0), 0.0
    for line in recorded.read_text().splitlines():
        times, _, text = line.partition("\t")
        arrived_s, wall_s = map(float, times.split())
        tracker.add_arrival(text, arrived_s, wall_s)
    tracker.crashed = True
    phases = with_first_query(tracker.phases(arrived_s), arrived_s + 0.5)
    return tracker, phases, arrived_s


every = pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: str(path.stem))


def test_there_are_nine() -> None:
    assert len(RECORDED) == 9


@every
def test_as_kept(recorded: Path) -> None:
    tracker, phases, _ = replayed(recorded)
    kept = json.loads(recorded.with_suffix(".phases.json").read_text())
    assert [[phase.name, *(round(at_s, 6) for at_s in (phase.start_s, phase.end_s))] for phase in phases[:-1]] == kept[
        "phases"
    ]
    assert (None if tracker.held_s is None else round(tracker.held_s, 4)) == kept["held_s"]


@every
def test_they_add_up_and_most_has_a_name(recorded: Path) -> None:
    _, phases, startup_s = replayed(recorded)
    assert phases[-1].name == "first query"
    assert sum(seconds_by_name(phases[:-1]).values()) == pytest.approx(startup_s)
    share = named_share(phases)
    assert share is not None
    assert share > 0.85


@pytest.mark.parametrize(
    ("server", "phase"),
    [
        ("mysql-5.6.24", "discovery"),
        ("mysql-5.7.22", "validation"),
        ("mysql-8.0.15", "discovery"),
        ("mysql-8.0.15", "validation"),
        ("mysql-8.0.31", "discovery"),
        ("mysql-8.0.31", "validation"),
        ("mysql-9.7.4", "discovery"),
        ("mysql-9.7.4", "validation"),
        ("mariadb-10.2.11", "redo apply + validation"),
    ],
)
def test_what_a_server_does_with_every_file_is_found(server: str, phase: str) -> None:
    (recorded,) = (path for path in RECORDED if path.stem == f"{server}-crash")
    assert seconds_by_name(replayed(recorded)[1])[phase] > 0.04


@pytest.mark.parametrize("server", ["mariadb-10.11.5", "mariadb-11.4.5"])
def test_who_reads_only_modified_files_has_neither(server: str) -> None:
    (recorded,) = (path for path in RECORDED if path.stem == f"{server}-crash")
    found = seconds_by_name(replayed(recorded)[1])
    assert not {"discovery", "validation", "redo apply + validation"} & set(found)
    assert named_share(replayed(recorded)[1]) == 1.0


def test_8_0_15_holds_its_log_back_and_9_7_the_first_line() -> None:
    held = {path.stem: replayed(path)[0].held_s for path in RECORDED}
    assert [name for name, held_s in held.items() if held_s is not None] == ["mysql-8.0.15-crash", "mysql-9.7.4-crash"]
    assert (held["mysql-9.7.4-crash"] or 0) < 0.2
