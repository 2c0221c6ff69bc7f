"""Each column of the table of phases is true, and what reads it is complete: a phase without a row has no name."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from sessions import FIXTURES

from recovery import phase_table
from recovery.logs import start_progress
from recovery.logs.error_log import milestone_of
from recovery.logs.log_analysis import LoggedStart, starts_in
from recovery.logs.phases import Sighting, StartContext, current_phase, file_access_of, phases_of
from recovery.logs.watched_log import find_loop
from recovery.model import parse_version
from recovery.phase_table import (
    ORDER,
    ROWS,
    TABLE,
    Counter,
    FileAccess,
    Files,
    Milestone,
    PhaseRow,
    Unit,
    advice_on,
    is_after_the_start,
    is_upgrade,
    what_happens_in,
)
from recovery.report.html.charts import COLOURS
from recovery.report.html.session_charts import phase_segment

LOGS = FIXTURES / "errorlogs"
ROOT = Path(__file__).parent.parent
UNBOUNDED = {phase_table.PAGE_FLUSH, phase_table.UNNAMED, phase_table.FIRST_QUERY}
"""Phases that no line of the log opens."""
EVERY_START = [StartContext(access, *known) for access in FileAccess for known in product((True, False), repeat=4)]


def each(rows: list[PhaseRow]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=lambda row: row.name)


every_row = each(list(TABLE))


@cache
def recorded() -> tuple[LoggedStart, ...]:
    """The starts in all logs of real servers."""
    paths = [path for path in sorted(LOGS.rglob("*")) if path.suffix in (".err", ".log")]
    return tuple(start for path in paths for start in starts_in(path.open("rb"), path.name))


# --- Name


def test_each_name_is_one_of_its_own() -> None:
    names = [row.name for row in TABLE]
    assert len(set(names)) == len(names)
    assert not [name for name in names if phase_table.JOIN.strip() in name]
    assert set(ORDER) == set(names) - {phase_table.PAGE_FLUSH}


def test_a_name_without_a_row_is_not_taken_for_a_phase() -> None:
    assert is_after_the_start("size query")
    assert is_after_the_start("validation + size query")
    assert not any(map(is_after_the_start, ORDER))
    for ask in (advice_on, lambda name: what_happens_in(name, None, crashed=None)):
        with pytest.raises(KeyError):
            ask("a new phase")


def test_a_phase_with_lines_of_progress_may_be_joined_with_the_one_above() -> None:
    """Their times are added up if the log of one of the starts does not separate them."""
    assert phase_table._SPLIT_BY_PROGRESS == (("directory listing", "file scan"), ("dictionary read", "file check"))


# --- Series


def test_no_recorded_line_opens_a_phase_of_another_series() -> None:
    found = 0
    for path in sorted(LOGS.glob("*-crash.err")):
        access = file_access_of(parse_version(path.name.removesuffix("-crash.err")))
        for milestone in filter(None, map(milestone_of, path.read_text(errors="replace").splitlines())):
            series = [row.series for row in TABLE if any(milestone in bounds.opens for bounds in row.bounds)]
            assert not series or any(access in one for one in series), (path.name, milestone.name)
            found += bool(series)
    assert found > 100


@pytest.mark.parametrize("milestone", [one for one in Milestone if one.value.only], ids=lambda one: one.name)
def test_a_line_that_one_series_logs_opens_a_phase_of_that_series(milestone: Milestone) -> None:
    of_progress = {row.progress[0] for row in TABLE if row.progress is not None}
    series = [row.series for row in TABLE if any(milestone in bounds.opens for bounds in row.bounds)]
    assert milestone in of_progress or any(milestone.value.only in one for one in series)


# --- Opens by, closes by


@each([row for row in TABLE if row.name not in UNBOUNDED and not row.background])
def test_each_line_that_opens_a_phase_names_it(row: PhaseRow) -> None:
    for bounds in row.bounds:
        for opener in bounds.opens if bounds.closes else ():  # the others are only for a phase that lasts
            pairs = product(bounds.closes, EVERY_START)
            assert any(holds(row, opener, closer, start) for closer, start in pairs), opener.name


def holds(row: PhaseRow, opener: Milestone, closer: Milestone, start: StartContext) -> bool:
    sightings = [Sighting(opener, 1.0), Sighting(closer, 2.0)]
    names = {part for phase in phases_of(sightings, (0.0, 3.0), server=start) for part in phase.name.split(" + ")}
    return row.name in names


def test_every_milestone_bounds_a_phase() -> None:
    """One that bounds none would leave its time to `unnamed`, and nobody would notice."""
    opens = {opener for row in TABLE for bounds in row.bounds for opener in bounds.opens}
    closes = {closer for row in TABLE if row.background for bounds in row.bounds for closer in bounds.closes}
    of_progress = {row.progress[0] for row in TABLE if row.progress is not None}
    assert opens | closes | of_progress | {Milestone.READY} == set(Milestone)


@each([row for row in TABLE if row.name not in UNBOUNDED and not row.background])
def test_a_phase_is_shown_while_it_lasts(row: PhaseRow) -> None:
    shown = {
        part
        for milestone, start in product(Milestone, EVERY_START)
        for part in current_phase([Sighting(milestone, 1.0)], start).split(" + ")
    }
    assert row.name in shown


@each([row for row in TABLE if row.progress is not None])
def test_a_line_of_progress_belongs_to_a_line_that_opens_the_phase(row: PhaseRow) -> None:
    assert row.progress is not None
    line, opener = row.progress
    assert any(opener in bounds.opens for bounds in row.bounds)
    begun = [Sighting(Milestone.STARTING, 0.0), Sighting(line, 15.0)]
    server = StartContext(min(row.series, key=lambda one: one.name), crashed=True)
    last = phases_of(begun, (0.0, 20.0), server=server, ready=False)[-1]
    assert (last.name, last.start_s, last.estimated) == (row.name, 5.0, True)


def test_every_phase_that_a_line_bounds_was_recorded() -> None:
    """A phase whose lines occur in no log is a guess."""
    seen = {part for one in recorded() for phase in (*one.phases, *one.beside) for part in phase.name.split(" + ")}
    logs = (path for path in LOGS.rglob("*") if path.suffix in (".err", ".log"))
    lines = {line for path in logs for line in path.read_text(encoding="utf-8", errors="replace").splitlines()}
    shown = set(map(milestone_of, lines))
    seen |= {row.name for row in TABLE if row.background and any(bounds.opens & shown for bounds in row.bounds)}
    assert {row.name for row in TABLE} - seen - UNBOUNDED == set()


# --- What it does


@every_row
def test_what_a_server_does_is_said_for_every_server_or_for_none(row: PhaseRow) -> None:
    """The last text is true of all servers, so that none is left out; it is the only one for a phase that has none."""
    *others, last = row.does or [phase_table.Said("")]
    assert all(said.can is not None or said.crashed is not None for said in others)
    assert (last.can, last.crashed) == (None, None) or row.name == phase_table.REST_TO_READY
    assert what_happens_in(row.name, None, crashed=None) == (None if last.can else last.text or None)


@pytest.mark.parametrize(
    ("phase", "version", "crashed", "expected"),
    [
        ("dictionary", "8.0.31", True, "opens its dictionary"),
        ("dictionary", "mariadb-10.11.5", True, "loads its dictionary and opens the files that it lists"),
        ("redo scan", "8.0.31", True, "reads the redo log"),
        ("redo scan", "5.6.24", True, "reads the redo log"),
        ("redo scan", "5.7.22", True, "reads the redo log, and opens and reads the files that it names"),
        ("file check", "8.0.31", True, "opens and reads every file again, to compare it with the dictionary"),
        ("file check", "8.0.31", False, "opens and closes every file, without reading it"),
        ("file check", "8.0.31", None, "opens every file again, and reads it after a crash"),
        ("rest to ready", "8.0.31", True, None),
        ("redo apply + validation", "5.7.22", True, "applies the redo log, then reads every file after redo"),
    ],
)
def test_what_a_server_does_depends_on_its_version_and_its_end(
    phase: str, version: str, crashed: bool | None, expected: str | None
) -> None:
    assert what_happens_in(phase, parse_version(version), crashed=crashed) == expected


# --- How files are accessed


@every_row
def test_only_a_phase_that_fills_the_page_cache_makes_the_next_try_faster(row: PhaseRow) -> None:
    failed = LoggedStart(
        line=1, at="2026-11-20T20:29:15", version="8.0.31", kind="crash", outcome="cut", reason=None, startup_s=9.0,
        whole_seconds=False, phases=(), beside=(), counts={}, standing=row.name, phase=row.name, pid=1,
        ended_early=True, end_logged=False, checkpoint_lsn=5, clock_set=False, begins_before=False,
        next_after_s=None,
    )  # fmt: skip
    loop = find_loop([failed], 5)
    assert loop is not None
    assert loop.gains == ("page cache" if row.files in (Files.READ, Files.LISTED, Files.LOOKED_UP) else "nothing")


@each([row for row in TABLE if row.counted is not None and row.counted.unit is Unit.FILES])
def test_a_phase_in_which_files_are_counted_accesses_them(row: PhaseRow) -> None:
    assert row.files is not Files.NONE


# --- What is counted


@each([row for row in TABLE if row.counted is not None])
def test_what_is_counted_can_be_counted(row: PhaseRow) -> None:
    for counted in filter(None, (row.counted, *row.counted_after.values())):
        assert min(counted.errors) >= 0.2 or counted.unit is not Unit.FILES, "storage changes its speed"
        assert counted.errors == tuple(sorted(counted.errors, reverse=True)), "the estimate becomes better"
        assert counted.opened_by is None or any(counted.opened_by in bounds.opens for bounds in row.bounds)
    assert set(row.counted_after) <= ROWS.keys()


def test_every_counter_is_read() -> None:
    assert start_progress._COUNTERS.keys() == set(Counter)


# --- Advice


@every_row
def test_the_advice_is_a_section_for_every_server(row: PhaseRow) -> None:
    text = (ROOT / "docs" / "shorten.md").read_text(encoding="utf-8")
    sections = {name.lower().replace(" ", "-") for name in re.findall(r"^## (.+)$", text, re.MULTILINE)}
    assert {said.text for said in row.advice} <= sections
    assert row.advice[-1].can is None
    assert advice_on(row.name) == f"recovery docs shorten#{row.advice[-1].text}"


def test_the_advice_depends_on_the_version() -> None:
    advice = {version: advice_on("rest to ready", parse_version(version)) for version in ("8.0.31", "mariadb-11.4.5")}
    assert advice == {
        "8.0.31": "recovery docs shorten#other-phases",
        "mariadb-11.4.5": "recovery docs shorten#tls-key",
    }


def test_an_upgrade_is_known_by_its_advice() -> None:
    """`analyze` says that it happens once."""
    assert [row.name for row in TABLE if is_upgrade(row.name)] == ["dictionary upgrade", "server upgrade"]
    assert not is_upgrade("dictionary upgrade + rest to ready")


# --- Colour


def test_each_phase_has_a_colour_of_its_own() -> None:
    assert sorted(row.colour for row in TABLE) == list(range(len(TABLE)))
    styles = {(row.colour % COLOURS, row.colour >= COLOURS) for row in TABLE}
    assert len(styles) == 2 * COLOURS


@pytest.mark.parametrize("name", ORDER)
def test_charts_draw_a_phase_in_its_colour(name: str) -> None:
    colour = ROWS[name].colour
    segment, joined = phase_segment(name), phase_segment(f"{name} + validation")
    assert (segment.css, segment.hatched) == (f"phase p{colour % COLOURS}", colour >= COLOURS)
    assert (joined.css, joined.hatched) == (segment.css, not segment.hatched)
    assert phase_segment("size query").css == phase_segment("first query").css


# --- The page


@cache
def lines_of_codes() -> dict[str, set[Milestone | None]]:
    found = defaultdict(set)
    for path in LOGS.rglob("*"):
        if path.suffix in (".err", ".log", ".arrivals"):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                for code in re.findall(r"\[(MY-\d{6})\]", line):
                    found[code].add(milestone_of(line))
    return found


def phases_of_the_page() -> tuple[str, dict[str, str]]:
    """Returns the section about phases, and the rows of its table."""
    text = (ROOT / "docs" / "causes.md").read_text(encoding="utf-8")
    section = text.split("\n## Phases\n")[1].split("\n## ")[0]
    return section, dict(re.findall(r"^\| ([a-z ]+) \| (.+) \|$", section, re.MULTILINE)[1:])


def test_the_page_names_every_phase_in_the_order_of_the_table() -> None:
    section, rows = phases_of_the_page()
    assert tuple(rows) == tuple(name for name in ORDER if name in rows)
    assert [name for name in ORDER if name not in section.lower()] == []


@pytest.mark.parametrize("name", phases_of_the_page()[1])
def test_the_page_names_lines_that_bound_the_phase(name: str) -> None:
    text, row = phases_of_the_page()[1][name], ROWS[name]
    begins, _, ends = text.partition("until")
    opens = {opener for bounds in row.bounds for opener in bounds.opens}
    opens |= {row.progress[0]} if row.progress is not None else set()
    closes = {closer for bounds in row.bounds for closer in bounds.closes}
    for part, allowed in ((begins, opens), (ends, closes)):
        named = [
            {milestone_of(f"{prefix}: {quoted}") for prefix in ("InnoDB", "WSREP")}
            for quoted in re.findall(r'"([^"]+)"', part)
        ]
        named += [lines_of_codes()[code] for code in re.findall(r"MY-\d{6}", part)]
        assert all(milestones & allowed for milestones in named), (part, named)
