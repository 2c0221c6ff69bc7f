"""Do the phases of every generation have the right names, and do they always add up?"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.analysis.phase_names import UNNAMED, named_share, seconds_by_name, sorted_phases
from recovery.model import Phase, parse_version
from recovery.mysqld import error_log
from recovery.mysqld.error_log import Milestone, milestone_of
from recovery.mysqld.phases import (
    FileAccess,
    Sighting,
    StartContext,
    current_phase,
    file_access_of,
    phases_of,
    with_first_query,
)

CRASH = {generation: StartContext(generation, crashed=True) for generation in FileAccess}


def names(*marks: Milestone, generation: FileAccess, crashed: bool = True) -> list[str]:
    """Of a start that comes by these marks a second apart."""
    sightings = [Sighting(mark, float(number)) for number, mark in enumerate(marks, 1)]
    server = StartContext(generation, crashed)
    return [phase.name for phase in phases_of(sightings, (0.0, len(marks) + 1.0), server=server)]


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ("150807  2:04:00  InnoDB: Database was not shut down normally!", Milestone.REDO),
        ("InnoDB: Starting crash recovery.", Milestone.REDO),
        ("InnoDB: Reading tablespace information from the .ibd files...", Milestone.DISCOVER),
        ("InnoDB: Restoring possible half-written data pages from the doublewrite", Milestone.RESTORE),
        ("150807  2:04:01  InnoDB: Waiting for the background threads to start", Milestone.UNDO),
        ("150807  2:04:02 InnoDB: 1.1.8 started; log sequence number 1595685", Milestone.STARTED),
        ("150807  2:04:02  InnoDB: highest supported file format is Barracuda.", Milestone.SYSTEM),
        ("2026-11-20T20:29:15.1Z 1 [Note] [MY-012206] [InnoDB] Found 324780 '.ibd' and 0 undo files", None),
        (
            "2026-11-20T20:29:15.1Z 1 [Note] [MY-012356] [InnoDB] Scanned 26 tablespaces. Validated 26.",
            Milestone.VALIDATED,
        ),
        ("2026-11-20T20:29:15.1Z 1 [Note] [MY-012356] [InnoDB] Validated 26/26  tablespaces", Milestone.VALIDATED),
        ("2026-11-20T20:29:15.1Z 1 [Note] [MY-013627] [InnoDB] Scanning temp tablespace dir:'./#innodb_temp/'", None),
        (
            "2026-11-20T20:29:15.1Z 1 [Note] [MY-012976] [InnoDB] Percona XtraDB (http://www.percona.com) 8.4.6-6 "
            "started; log sequence number 30303797",
            Milestone.STARTED,
        ),
        (
            "2026-11-20  4:14:43 0 [Note] InnoDB: Starting final batch to recover  3 pages from redo log.",
            Milestone.APPLY,
        ),
        (
            "2026-11-20  4:14:43 0 [Note] InnoDB: Starting crash recovery from checkpoint LSN=4529,4529",
            Milestone.CHECKPOINT,
        ),
        (
            "2026-11-20  4:14:43 0 [Note] InnoDB: 128 rollback segments in 3 undo tablespaces are active.",
            Milestone.SEGMENTS,
        ),
        ('2026-11-20  4:14:43 0 [Note] InnoDB: Removed temporary tablespace data file: "./ibtmp1"', Milestone.UNDO),
        ("2026-11-20  4:14:43 0 [Note] InnoDB: Opened 3 undo tablespaces", None),
        ("2026-11-20  4:14:43 0 [Note] Starting crash recovery...", None),
        ("2026-11-20  4:14:43 0 [Note] Crash recovery finished.", Milestone.BINLOG_READ),
        ("2026-11-20T20:29:15.1Z 0 [Note] [MY-013911] [Server] Crash recovery finished in InnoDB engine.", None),
        ("2026-11-20T20:29:15.1Z 0 [System] [MY-011323] [Server] X Plugin ready for connections. Bind-address", None),
        ("InnoDB: Progress in percent: 1 2 3", None),
        ("", None),
    ],
)
def test_marks(line: str, mark: Milestone | None) -> None:
    assert milestone_of(line) is mark


@pytest.mark.parametrize(
    ("version", "generation"),
    [
        ("5.5.62", FileAccess.BEFORE_REDO),
        ("5.6.24", FileAccess.BEFORE_REDO),
        ("5.7.4", FileAccess.BEFORE_REDO),
        ("5.7.5", FileAccess.UNLOGGED_AFTER_REDO),
        ("5.7.22", FileAccess.UNLOGGED_AFTER_REDO),
        ("8.0.39-30", FileAccess.SCAN_AND_VALIDATE),
        ("26.7.0", FileAccess.SCAN_AND_VALIDATE),
        ("mariadb-10.1.48", FileAccess.BEFORE_REDO),
        ("mariadb-10.2.1", FileAccess.BEFORE_REDO),
        ("mariadb-10.2.2", FileAccess.UNLOGGED_AFTER_REDO),
        ("mariadb-10.2.11", FileAccess.UNLOGGED_AFTER_REDO),
        ("mariadb-10.2.23", FileAccess.NAMED_IN_REDO),
        ("mariadb-10.3.13", FileAccess.UNLOGGED_AFTER_REDO),
        ("mariadb-11.4.2", FileAccess.NAMED_IN_REDO),
    ],
)
def test_what_a_release_does(version: str, generation: FileAccess) -> None:
    assert file_access_of(parse_version(version)) is generation


def test_an_unknown_release_is_told_by_its_lines() -> None:
    assert file_access_of(None, [Milestone.POOL, Milestone.DISCOVER]) is FileAccess.BEFORE_REDO
    assert file_access_of(None, [Milestone.SCAN]) is FileAccess.SCAN_AND_VALIDATE
    assert file_access_of(None, [Milestone.POOL, Milestone.APPLIED]) is FileAccess.NAMED_IN_REDO


def test_a_silent_validation_is_named_by_its_gap() -> None:
    marks = (
        Milestone.POOL,
        Milestone.POOLED,
        Milestone.SYSTEM,
        Milestone.REDO,
        Milestone.APPLY,
        Milestone.APPLIED,
        Milestone.UNDO,
        Milestone.STARTED,
    )
    before = ["process start", "buffer pool", "system files", "redo scan", "redo apply"]
    after = ["undo and temp", "rest to ready"]
    assert names(*marks, generation=FileAccess.UNLOGGED_AFTER_REDO) == [*before, "validation", *after]
    assert names(*marks, generation=FileAccess.UNLOGGED_AFTER_REDO, crashed=False) == [*before, "dictionary", *after]
    assert names(*marks, generation=FileAccess.NAMED_IN_REDO) == [*before, "unnamed", *after]


def test_redo_that_comes_in_batches_is_no_validation() -> None:
    marks = (
        Milestone.REDO,
        Milestone.APPLY,
        Milestone.APPLIED,
        Milestone.REDO,
        Milestone.APPLY,
        Milestone.APPLIED,
        Milestone.UNDO,
        Milestone.STARTED,
    )
    found = names(*marks, generation=FileAccess.UNLOGGED_AFTER_REDO)
    assert found == [
        "process start", "redo scan", "redo apply", "redo scan", "redo apply", "validation", "undo and temp",
        "rest to ready",
    ]  # fmt: skip


def test_what_no_line_parts_has_both_names() -> None:
    assert (
        names(Milestone.CHECKPOINT, Milestone.APPLY, Milestone.UNDO, generation=FileAccess.UNLOGGED_AFTER_REDO)[2]
        == "redo apply + validation"
    )
    assert (
        names(Milestone.REDO, Milestone.UNDO, Milestone.STARTED, generation=FileAccess.UNLOGGED_AFTER_REDO)[1]
        == "redo scan + validation"
    )


def test_mariadb_opens_every_file_after_the_rollback_segments() -> None:
    marks = (Milestone.REDO, Milestone.SEGMENTS, Milestone.UNDO, Milestone.STARTED)
    assert names(*marks, generation=FileAccess.NAMED_IN_REDO)[2:4] == ["dictionary", "undo and temp"]
    assert names(*marks, generation=FileAccess.UNLOGGED_AFTER_REDO)[2:] == ["undo and temp", "rest to ready"], "as one"
    assert names(Milestone.CHECKPOINT, Milestone.RESTORE, generation=FileAccess.BEFORE_REDO)[1] == "discovery"
    assert names(Milestone.CHECKPOINT, Milestone.RESTORE, generation=FileAccess.NAMED_IN_REDO)[1] == "redo scan"


def test_a_server_that_says_little_is_not_guessed_at() -> None:
    found = names(Milestone.STARTING, Milestone.INNODB, Milestone.STARTED, generation=FileAccess.SCAN_AND_VALIDATE)
    assert found == ["process start", "unnamed"]


def test_undo_made_anew_within_validation_does_not_end_it() -> None:
    marks = (
        Milestone.STARTED,
        Milestone.DICTIONARY,
        Milestone.VALIDATE,
        Milestone.UNDO,
        Milestone.VALIDATED,
        Milestone.DICTIONARY_READ,
    )
    found = names(*marks, generation=FileAccess.SCAN_AND_VALIDATE)
    assert found == ["unnamed", "dictionary", "validation", "dictionary", "rest to ready"]


def test_marks_without_a_time_join_what_lies_around_them() -> None:
    sightings = [Sighting(Milestone.APPLY, 1.0), Sighting(Milestone.APPLIED, None), Sighting(Milestone.UNDO, 3.0)]
    found = phases_of(sightings, (0.0, 4.0), server=CRASH[FileAccess.BEFORE_REDO])
    assert found[1] == Phase("redo apply + dictionary", 1.0, 3.0)


def test_a_start_that_is_not_ready_stands_in_its_last_phase() -> None:
    for generation, seen, where in (
        (FileAccess.UNLOGGED_AFTER_REDO, [Milestone.APPLY, Milestone.APPLIED], "validation"),
        (FileAccess.UNLOGGED_AFTER_REDO, [Milestone.CHECKPOINT, Milestone.APPLY], "redo apply + validation"),
        (FileAccess.SCAN_AND_VALIDATE, [Milestone.INNODB, Milestone.SCAN], "discovery"),
        (FileAccess.SCAN_AND_VALIDATE, [Milestone.STARTED], "dictionary"),
        (FileAccess.BEFORE_REDO, [Milestone.CHECKPOINT], "discovery"),
        (FileAccess.NAMED_IN_REDO, [], "process start"),
    ):
        sightings = [Sighting(mark, 1.0) for mark in seen]
        assert current_phase(sightings, CRASH[generation]) == where
        assert phases_of(sightings, (0.0, 9.0), server=CRASH[generation], ready=False)[-1].name == where


def test_first_query_and_share() -> None:
    phases = with_first_query((Phase("redo scan", 0.0, 3.0), Phase(UNNAMED, 3.0, 4.0)), 5.0)
    assert phases[-1] == Phase("first query", 4.0, 5.0)
    assert named_share(phases) == 0.75
    assert named_share(()) is None
    assert seconds_by_name([Phase("a", 0, 1), Phase("b", 1, 2), Phase("a", 2, 4)]) == {"a": 3, "b": 1}
    assert sorted_phases(["unnamed", "discovery", "redo scan + x", "redo scan", "?"]) == (
        "discovery", "redo scan", "redo scan + x", "unnamed", "?",
    )  # fmt: skip


times = st.one_of(st.none(), st.floats(-1e6, 1e6), st.sampled_from([float("inf"), float("-inf")]))
any_sightings = st.lists(st.builds(Sighting, st.sampled_from(Milestone), times), max_size=40)


@given(any_sightings, st.floats(0, 1e6), st.sampled_from(FileAccess), st.booleans(), st.booleans())
def test_phases_never_overlap_nor_go_backwards_and_add_up(
    sightings: list[Sighting], end_s: float, generation: FileAccess, crashed: bool, ready: bool
) -> None:
    phases = phases_of(sightings, (0.0, end_s), server=StartContext(generation, crashed), ready=ready)
    at_s = 0.0
    for phase in phases:
        assert phase.start_s == at_s
        assert phase.end_s > phase.start_s
        at_s = phase.end_s
    assert at_s == (end_s if phases else 0.0)
    assert phases or end_s == 0.0


@given(st.text())
def test_any_text_has_a_mark_or_none(text: str) -> None:
    assert milestone_of(text) is None or isinstance(milestone_of(text), Milestone)


def test_no_recorded_mark_is_missed_by_the_quick_test() -> None:
    logs = (Path(__file__).resolve().parent.parent / "fixtures" / "errorlogs").glob("*.err")
    lines = [line for log in logs for line in log.read_text().splitlines()]
    assert all((error_log._ANY_MILESTONE.search(line) is None) is (milestone_of(line) is None) for line in lines)
    for mark, spelling in error_log._MILESTONE_PATTERNS:
        # Every way to spell a mark, as far as its letters go, is found by a hint of its own or of another.
        for one in spelling.split("|") if "(" not in spelling else ():
            plain = one.replace("\\", "")
            assert any(hint in plain for hint in error_log._MILESTONE_HINTS), (mark, one)
