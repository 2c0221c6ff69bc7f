"""Phases of every generation of servers have the right names, add up, and are found in recorded starts."""

from __future__ import annotations

import io
import itertools
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions import FIXTURES

from recovery.logs import error_log, log_analysis
from recovery.logs.error_log import milestone_of
from recovery.logs.log_analysis import starts_in
from recovery.logs.phases import (
    PhaseTracker,
    Sighting,
    StartContext,
    current_phase,
    file_access_of,
    phases_of,
    with_first_query,
    with_traced_check,
)
from recovery.model import Phase, parse_version
from recovery.phase_table import (
    UNNAMED,
    FileAccess,
    Milestone,
    estimated_phases,
    named_share,
    seconds_by_name,
    seconds_of_starts,
    sorted_phases,
    what_happens_in,
)

CRASH = {generation: StartContext(generation, crashed=True) for generation in FileAccess}


def names(*marks: Milestone, generation: FileAccess, crashed: bool = True) -> list[str]:
    """Of a start that comes by these marks a second apart."""
    sightings = [Sighting(mark, float(number)) for number, mark in enumerate(marks, 1)]
    server = StartContext(generation, crashed)
    return [phase.name for phase in phases_of(sightings, (0.0, len(marks) + 1.0), server=server)]


NEW, MARIADB = "2026-11-20T20:29:15.1Z", "2026-11-20  4:14:43 0 [Note]"


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
        (f"{NEW} 1 [Note] [MY-012205] [InnoDB] Files found so far: 193679 data files and 2 undo", Milestone.LISTING),
        (f"{NEW} 1 [Note] [MY-012206] [InnoDB] Found 324780 '.ibd' and 0 undo files", Milestone.FOUND),
        (f"{NEW} 1 [Note] [MY-012207] [InnoDB] Using 9 threads to scan 1000002 tablespace files", Milestone.FOUND),
        (f"{NEW} 1 [Note] [MY-012200] [InnoDB] Checked 645/40002 files", Milestone.SCANNING),
        (f"{NEW} 0 [Note] [MY-012200] [InnoDB] Thread# 1 - Checked 2073/125000 files", Milestone.SCANNING),
        (f"{NEW} 0 [Note] [MY-012201] [InnoDB] Checked 125000 files", None),
        (f"{NEW} 0 [Note] [MY-012350] [InnoDB] 8threads have validated 2 out of 10 tablespaces", Milestone.CHECKING),
        (f"{NEW} 1 [Note] [MY-012350] [InnoDB] Validated 2 out of 10 tablespaces so far.", Milestone.CHECKING),
        (f"{NEW} 0 [Note] [MY-012350] [InnoDB] Thread# 3 - Validated 2/10  tablespaces", Milestone.CHECKING),
        (f"{NEW} 1 [Note] [MY-013604] [InnoDB] Skipping InnoDB tablespace path validation. M", Milestone.CHECK),
        (f"{NEW} 0 [Warning] InnoDB: Resizing redo log from 2*3072 to 2*8192 pages, LSN=2589", Milestone.RESIZE),
        (f"{NEW} 0 [Warning] InnoDB: New log files created, LSN=2589", Milestone.RESIZED),
        (f"{NEW} 1 [Note] [MY-012356] [InnoDB] Scanned 26 tablespaces. Validated 26.", Milestone.VALIDATED),
        (f"{NEW} 1 [Note] [MY-012356] [InnoDB] Validated 26/26  tablespaces", Milestone.VALIDATED),
        (f"{NEW} 1 [Note] [MY-013627] [InnoDB] Scanning temp tablespace dir:'./#innodb_temp/'", None),
        (
            f"{NEW} 1 [Note] [MY-012976] [InnoDB] Percona XtraDB (http://www.percona.com) 8.4.6-6 "
            "started; log sequence number 30303797",
            Milestone.STARTED,
        ),
        (f"{MARIADB} InnoDB: Starting final batch to recover  3 pages from redo log.", Milestone.APPLY),
        (f"{MARIADB} InnoDB: Starting crash recovery from checkpoint LSN=4529,4529", Milestone.CHECKPOINT),
        (f"{MARIADB} InnoDB: 128 rollback segments in 3 undo tablespaces are active.", Milestone.SEGMENTS),
        (f'{MARIADB} InnoDB: Removed temporary tablespace data file: "./ibtmp1"', Milestone.UNDO),
        (f"{MARIADB} InnoDB: Opened 3 undo tablespaces", None),
        (f"{MARIADB} Starting crash recovery...", None),
        (f"{MARIADB} Crash recovery finished.", Milestone.BINLOG_READ),
        (f"{NEW} 0 [Note] [MY-013911] [Server] Crash recovery finished in InnoDB engine.", None),
        (f"{NEW} 0 [System] [MY-011323] [Server] X Plugin ready for connections. Bind-address", None),
        ("InnoDB: Progress in percent: 1 2 3", None),
        ("", None),
    ],
)
def test_milestones_of_lines(line: str, mark: Milestone | None) -> None:
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
def test_generations_of_releases(version: str, generation: FileAccess) -> None:
    assert file_access_of(parse_version(version)) is generation


def test_the_generation_of_an_unknown_release_follows_from_its_lines() -> None:
    assert file_access_of(None, [Milestone.POOL, Milestone.DISCOVER]) is FileAccess.BEFORE_REDO
    assert file_access_of(None, [Milestone.SCAN]) is FileAccess.SCAN_AND_VALIDATE
    assert file_access_of(None, [Milestone.POOL, Milestone.APPLIED]) is FileAccess.NAMED_IN_REDO


REDO_TWICE = (Milestone.REDO, Milestone.APPLY, Milestone.APPLIED) * 2
IN_VALIDATION = (
    *(Milestone.STARTED, Milestone.DICTIONARY, Milestone.VALIDATE, Milestone.UNDO, Milestone.VALIDATED),
    Milestone.DICTIONARY_READ,
)


@pytest.mark.parametrize(
    ("marks", "generation", "expected"),
    [
        (
            (*REDO_TWICE, Milestone.UNDO, Milestone.STARTED),
            FileAccess.UNLOGGED_AFTER_REDO,
            ["process start", "redo scan", "redo apply", "redo scan", "redo apply", "validation", "undo and temp",
             "rest to ready"],
        ),
        (
            (Milestone.CHECKPOINT, Milestone.APPLY, Milestone.UNDO),
            FileAccess.UNLOGGED_AFTER_REDO,
            ["process start", "redo scan", "redo apply + validation", "unnamed"],
        ),
        (
            (Milestone.REDO, Milestone.UNDO, Milestone.STARTED),
            FileAccess.UNLOGGED_AFTER_REDO,
            ["process start", "redo scan + validation", "undo and temp", "rest to ready"],
        ),
        (
            (Milestone.STARTING, Milestone.INNODB, Milestone.STARTED),
            FileAccess.SCAN_AND_VALIDATE,
            ["process start", "innodb initialization", "dictionary read + file check + rest to ready"],
        ),
        (
            IN_VALIDATION,
            FileAccess.SCAN_AND_VALIDATE,
            ["unnamed", "dictionary", "dictionary read + file check", "dictionary", "rest to ready"],
        ),
        (
            (Milestone.APPLIED, Milestone.RESIZE, Milestone.RESIZED, Milestone.UNDO),
            FileAccess.UNLOGGED_AFTER_REDO,
            ["process start", "validation + redo log resize", "redo log resize", "undo and temp", "unnamed"],
        ),
    ],
    ids=["redo in batches", "no end of redo apply", "no redo apply", "few lines", "undo within check", "resize"],
)  # fmt: skip
def test_names_of_phases(marks: tuple[Milestone, ...], generation: FileAccess, expected: list[str]) -> None:
    assert names(*marks, generation=generation) == expected


def test_a_silent_validation_is_the_gap_after_redo() -> None:
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


def test_the_server_is_in_the_dictionary_after_the_last_line_of_a_clean_start() -> None:
    def current(*milestones: Milestone, crashed: bool) -> str:
        sightings = [Sighting(milestone, float(at)) for at, milestone in enumerate(milestones)]
        return current_phase(sightings, StartContext(FileAccess.UNLOGGED_AFTER_REDO, crashed=crashed))

    read = (Milestone.POOL, Milestone.POOLED, Milestone.SYSTEM)
    assert current(*read, crashed=False) == "redo scan + dictionary"
    assert current(*read, Milestone.CHECKPOINT, crashed=True) == "redo scan"
    assert current(*read, Milestone.CHECKPOINT, Milestone.APPLY, crashed=True) == "redo apply + validation"


def test_mariadb_opens_every_file_after_the_rollback_segments() -> None:
    marks = (Milestone.REDO, Milestone.SEGMENTS, Milestone.UNDO, Milestone.STARTED)
    assert names(*marks, generation=FileAccess.NAMED_IN_REDO)[2:4] == ["dictionary", "undo and temp"]
    assert names(*marks, generation=FileAccess.UNLOGGED_AFTER_REDO)[2:] == ["undo and temp", "rest to ready"], "as one"
    assert names(Milestone.CHECKPOINT, Milestone.RESTORE, generation=FileAccess.BEFORE_REDO)[1] == "discovery"
    assert names(Milestone.CHECKPOINT, Milestone.RESTORE, generation=FileAccess.NAMED_IN_REDO)[1] == "redo scan"


def test_phases_around_a_line_without_a_time_are_joined() -> None:
    sightings = [Sighting(Milestone.APPLY, 1.0), Sighting(Milestone.APPLIED, None), Sighting(Milestone.UNDO, 3.0)]
    found = phases_of(sightings, (0.0, 4.0), server=CRASH[FileAccess.BEFORE_REDO])
    assert found[1] == Phase("redo apply + dictionary", 1.0, 3.0)


@pytest.mark.parametrize(
    ("generation", "marks", "phase"),
    [
        (FileAccess.UNLOGGED_AFTER_REDO, [Milestone.APPLY, Milestone.APPLIED], "validation"),
        (FileAccess.UNLOGGED_AFTER_REDO, [Milestone.CHECKPOINT, Milestone.APPLY], "redo apply + validation"),
        (FileAccess.SCAN_AND_VALIDATE, [Milestone.INNODB], "process start"),
        (FileAccess.SCAN_AND_VALIDATE, [Milestone.INNODB, Milestone.SCAN], "directory listing + file scan"),
        (FileAccess.SCAN_AND_VALIDATE, [Milestone.SCAN, Milestone.LISTING], "directory listing"),
        (FileAccess.SCAN_AND_VALIDATE, [Milestone.SCAN, Milestone.FOUND], "file scan"),
        (FileAccess.SCAN_AND_VALIDATE, [Milestone.SCAN, Milestone.SCANNING], "file scan"),
        (FileAccess.SCAN_AND_VALIDATE, [Milestone.VALIDATE], "dictionary read + file check"),
        (FileAccess.SCAN_AND_VALIDATE, [Milestone.VALIDATE, Milestone.CHECKING], "file check"),
        (FileAccess.SCAN_AND_VALIDATE, [Milestone.SCAN, Milestone.SCANNED], "buffer pool"),
        (FileAccess.SCAN_AND_VALIDATE, [Milestone.VALIDATE, Milestone.VALIDATED], "rest to ready"),
        (FileAccess.UNLOGGED_AFTER_REDO, [Milestone.APPLIED, Milestone.RESIZE], "redo log resize"),
        (FileAccess.SCAN_AND_VALIDATE, [Milestone.STARTED], "dictionary"),
        (FileAccess.BEFORE_REDO, [Milestone.CHECKPOINT], "discovery"),
        (FileAccess.NAMED_IN_REDO, [], "process start"),
    ],
)
def test_a_start_that_is_not_ready_is_in_its_last_phase(
    generation: FileAccess, marks: list[Milestone], phase: str
) -> None:
    sightings = [Sighting(mark, 1.0) for mark in marks]
    assert current_phase(sightings, CRASH[generation]) == phase
    assert phases_of(sightings, (0.0, 9.0), server=CRASH[generation], ready=False)[-1].name == phase


def at(*sightings: tuple[float | None, Milestone], end_s: float) -> list[tuple[str, float, bool]]:
    """Returns name, duration and whether it is estimated of each phase of a start of 8.0 or later."""
    server = CRASH[FileAccess.SCAN_AND_VALIDATE]
    found = phases_of([Sighting(mark, at_s) for at_s, mark in sightings], (0.0, end_s), server=server)
    return [(phase.name, phase.end_s - phase.start_s, phase.estimated) for phase in found]


def test_files_are_checked_from_ten_seconds_before_the_first_line_about_progress() -> None:
    lines = ((0.0, Milestone.VALIDATE), (58.0, Milestone.CHECKING), (68.0, Milestone.CHECKING))
    end = ((70.0, Milestone.VALIDATED), (70.0, Milestone.DICTIONARY_READ))
    assert at(*lines, *end, end_s=70.0) == [("dictionary read", 48.0, True), ("file check", 22.0, True)]
    assert at(lines[0], *end, end_s=70.0) == [("dictionary read + file check", 70.0, False)]
    unstamped = ((None, Milestone.CHECKING), *end)
    assert at(lines[0], *unstamped, end_s=70.0) == [("dictionary read + file check", 70.0, False)]
    skipped = ((48.7, Milestone.CHECK), *end)
    assert [one[2] for one in at(lines[0], *skipped, end_s=70.0)] == [False, False], "a line says when it begins"


@pytest.mark.parametrize(
    ("reads_s", "progress_s", "checked_s", "first_open_s"),
    [
        (35.607, 50.448, 112.397, 40.452),
        (32.040, 45.024, 95.374, 35.030),
        (51.720, 66.899, 67.595, 56.915),
        (47.128, 64.536, 65.116, 54.542),
        (37.070, 49.761, 103.859, 39.762),
        (31.851, 45.019, 127.719, 35.028),
        (52.569, 68.366, 69.328, 58.376),
        (49.203, 63.778, 72.684, 53.784),
        (10.573, 21.229, 21.302, 11.228),
    ],
    ids=[
        *(
            f"{version} {how}"
            for version in ("8.0.31", "9.7.4")
            for how in ("crash cold", "crash", "clean cold", "clean")
        ),
        "9.7.4 crash 20,000",
    ],
)
def test_the_estimate_is_the_first_open_of_the_second_pass(
    reads_s: float, progress_s: float, checked_s: float, first_open_s: float
) -> None:
    """Starts of 200,000 tables on a busy machine, traced by strace: seconds from the line about the directories to
    "Reading DD tablespace files", the first line about progress, the last line, and the first open after the first."""
    found = at(
        (reads_s, Milestone.VALIDATE), (progress_s, Milestone.CHECKING), (checked_s, Milestone.VALIDATED),
        end_s=checked_s,
    )  # fmt: skip
    assert [name for name, _, _ in found[-2:]] == ["dictionary read", "file check"]
    assert found[-2][1] == pytest.approx(first_open_s - reads_s, abs=0.02)
    assert found[-1][1] == pytest.approx(checked_s - first_open_s, abs=0.02)


def test_no_estimate_is_before_the_line_that_opens_the_phase() -> None:
    early = ((50.0, Milestone.VALIDATE), (58.0, Milestone.CHECKING), (70.0, Milestone.VALIDATED))
    assert at(*early, end_s=70.0)[-1] == ("file check", 20.0, True)


def test_files_are_read_from_the_line_about_threads_or_the_first_progress() -> None:
    lines = ((0.0, Milestone.SCAN), (12.0, Milestone.SCANNING), (22.0, Milestone.SCANNING), (30.0, Milestone.SCANNED))
    assert at(*lines, end_s=30.0) == [("directory listing", 2.0, True), ("file scan", 28.0, True)]
    threads = (lines[0], (1.5, Milestone.FOUND), *lines[1:])
    assert at(*threads, end_s=30.0) == [("directory listing", 1.5, False), ("file scan", 28.5, False)]
    assert at(lines[0], lines[-1], end_s=30.0) == [("directory listing + file scan", 30.0, False)]


def test_a_log_without_notes_names_everything_that_it_may_hide() -> None:
    quiet = StartContext(FileAccess.SCAN_AND_VALIDATE, crashed=False, has_notes=False)
    old = phases_of([Sighting(Milestone.STARTING, 0.0)], (0.0, 90.0), server=quiet)
    assert [phase.name for phase in old] == ["innodb initialization + dictionary read + file check + rest to ready"], (
        "8.0.15 logs neither the beginning nor the end of InnoDB's start"
    )
    assert current_phase([Sighting(Milestone.INNODB, 0.0)], quiet) == "innodb initialization"


def test_a_trace_shows_when_the_check_of_the_files_begins() -> None:
    joined = (
        Phase("redo scan", 0.0, 1.0),
        Phase("dictionary read + file check", 1.0, 15.0),
        Phase("unnamed", 15.0, 16.0),
    )
    split = (joined[0], Phase("dictionary read", 1.0, 5.0), Phase("file check", 5.0, 15.0), joined[2])
    assert with_traced_check(joined, [0.5, 5.0, 6.0, 15.5]) == split
    guessed = (joined[0], Phase("dictionary read", 1.0, 5.5, True), Phase("file check", 5.5, 15.0, True), joined[2])
    assert with_traced_check(guessed, [0.5, 5.0, 6.0, 15.5]) == split
    assert with_traced_check(joined, [0.5, 15.5]) == joined, "nothing was opened in it"
    assert with_traced_check(joined[:1], [0.5]) == joined[:1]


def test_starts_with_and_without_lines_about_progress_have_the_same_phases() -> None:
    split = (Phase("dictionary read", 0.0, 5.0, True), Phase("file check", 5.0, 16.0, True))
    joined = (Phase("redo scan", 0.0, 1.0), Phase("dictionary read + file check", 1.0, 15.0))
    assert seconds_of_starts([split, joined]) == [
        {"dictionary read + file check": 16.0},
        {"redo scan": 1.0, "dictionary read + file check": 14.0},
    ]
    assert seconds_of_starts([split]) == [{"dictionary read": 5.0, "file check": 11.0}]
    assert estimated_phases([split], ["file check", "redo scan"]) == {"file check"}
    assert not estimated_phases([split, joined], ["dictionary read + file check"])


def test_what_a_server_does_depends_on_its_version_and_on_a_crash() -> None:
    new, old = parse_version("8.0.31"), parse_version("5.7.22")
    assert "reads every file" not in (what_happens_in("file check", new, crashed=False) or "")
    assert what_happens_in("file check", new, crashed=False) == "opens and closes every file, without reading it"
    assert "opens and reads every file again" in (what_happens_in("file check", new, crashed=True) or "")
    assert "redo" not in (what_happens_in("innodb initialization", new, crashed=False) or "")
    assert "after a crash" in (what_happens_in("innodb initialization", new, crashed=None) or "")
    assert what_happens_in("redo scan", old, crashed=True) == (
        "reads the redo log, and opens and reads the files that it names"
    )
    assert what_happens_in("redo scan", new, crashed=True) == "reads the redo log"
    assert what_happens_in("dictionary", new, crashed=True) == "opens its dictionary"
    assert what_happens_in("redo apply + unnamed", None, crashed=True) == "applies the redo log"
    assert what_happens_in("unnamed", new, crashed=True) is None


def test_first_query_and_share() -> None:
    phases = with_first_query((Phase("redo scan", 0.0, 3.0), Phase(UNNAMED, 3.0, 4.0)), 5.0)
    assert phases[-1] == Phase("first query", 4.0, 5.0)
    assert named_share(phases) == 0.75
    assert named_share(()) is None
    assert named_share((*phases, Phase("size query", 60.0, 90.0))) == 0.75, "it is after the start"
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


HINTED = [
    *((one.name, one.value.hints, re.compile(one.value.pattern)) for one in Milestone),
    *((kind.value, (hint,), pattern) for kind, hint, pattern in error_log._EVENTS),
    *((names[0], (hint,), pattern) for hint, pattern, names in error_log._COUNT_PATTERNS),
    *(("progress", (hint,), pattern) for hint, pattern in error_log._PROGRESS),
    *(("end", (hint,), pattern) for hint, pattern, _ in error_log._END_REPORTS),
    ("end", (error_log._EXITED,), error_log._MAIN_PROCESS),
    *(("version", (hint,), pattern) for hint, pattern in log_analysis._VERSIONS),
]


@pytest.mark.parametrize(("hints", "pattern"), [row[1:] for row in HINTED], ids=[row[0] for row in HINTED])
@settings(max_examples=30)
@given(data=st.data())
def test_every_text_that_a_pattern_matches_has_one_of_its_hints(
    hints: tuple[str, ...], pattern: re.Pattern[str], data: st.DataObject
) -> None:
    text = data.draw(st.from_regex(pattern))
    assert any(hint in text for hint in hints)


# --- Recorded crash starts of real servers
#
# Each `.arrivals` has, for every line of a start of 2,500 tables, the seconds since the exec and the wall clock at
# which it arrived; lines that say nothing of the start were removed. `.phases.json` is what they must parse to.

RECORDED = {path.stem.removesuffix("-crash"): path for path in sorted((FIXTURES / "errorlogs").glob("*.arrivals"))}


def replayed(recorded: Path) -> tuple[PhaseTracker, tuple[Phase, ...], float]:
    tracker, arrived_s = PhaseTracker(parse_version(recorded.stem.removesuffix("-crash")), 0.0), 0.0
    for line in recorded.read_text().splitlines():
        times, _, text = line.partition("\t")
        arrived_s, wall_s = map(float, times.split())
        tracker.add(text, milestone_of(text), arrived_s, wall_s=wall_s)
    tracker.crashed = True
    phases = with_first_query(tracker.phases(arrived_s), arrived_s + 0.5)
    return tracker, phases, arrived_s


@pytest.mark.parametrize("server", RECORDED)
def test_recorded_starts_have_their_phases_and_add_up(server: str) -> None:
    assert len(RECORDED) == 9
    tracker, phases, startup_s = replayed(RECORDED[server])
    kept = json.loads(RECORDED[server].with_suffix(".phases.json").read_text())
    found = [[phase.name, *(round(at_s, 6) for at_s in (phase.start_s, phase.end_s))] for phase in phases[:-1]]
    assert found == kept["phases"]
    assert (None if tracker.held_s is None else round(tracker.held_s, 4)) == kept["held_s"]
    assert phases[-1].name == "first query"
    assert sum(seconds_by_name(phases[:-1]).values()) == pytest.approx(startup_s)
    assert (named_share(phases) or 0) > 0.85


SCAN_AND_CHECK = {"directory listing + file scan", "dictionary read + file check"}


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("mysql-5.6.24", {"discovery"}),
        ("mysql-5.7.22", {"validation"}),
        ("mysql-8.0.15", SCAN_AND_CHECK),
        ("mysql-8.0.31", SCAN_AND_CHECK),
        ("mysql-9.7.4", SCAN_AND_CHECK),
        ("mariadb-10.2.11", {"redo apply + validation"}),
        ("mariadb-10.11.5", set()),
        ("mariadb-11.4.5", set()),
    ],
)
def test_what_a_server_does_with_every_file_is_found(server: str, expected: set[str]) -> None:
    """MariaDB from 10.11 on reads only the modified files."""
    phases = replayed(RECORDED[server])[1]
    seconds = seconds_by_name(phases)
    assert {"discovery", "validation", "redo apply + validation", *SCAN_AND_CHECK} & set(seconds) == expected
    assert all(seconds[name] > 0.04 for name in expected)
    assert expected or named_share(phases) == 1.0


# --- Published logs of others, with their authors' own splits (fixtures/errorlogs/published/splits.txt)


def test_the_split_of_published_starts_is_their_authors() -> None:
    blocks = (FIXTURES / "errorlogs" / "published" / "splits.txt").read_text().split("\n### ")
    for before, after in itertools.pairwise(blocks):
        (start,) = starts_in(io.BytesIO(before.partition("\n")[2].encode()), "published")
        seconds = seconds_by_name(start.phases)
        phases = ("directory listing", "file scan", "dictionary read", "file check")
        split = [60 * int(minutes) + int(rest) for minutes, rest in re.findall(r"(\d+):(\d\d)", after.splitlines()[0])]
        assert [seconds[name] for name in phases] == pytest.approx(split, abs=1.0)
        assert [phase.name for phase in start.phases if phase.estimated] == ["dictionary read", "file check"]
    assert len(blocks) == 8


def test_the_rest_of_a_start_of_mariadb_11_4_is_its_tls_key() -> None:
    assert "TLS key" in (what_happens_in("rest to ready", parse_version("mariadb-11.4.5"), crashed=True) or "")
    assert what_happens_in("rest to ready", parse_version("mariadb-10.11.5"), crashed=True) is None
