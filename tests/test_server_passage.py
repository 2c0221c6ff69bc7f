"""Do phases come from arrivals, and from the server's stamps only where it held its lines back?"""

from __future__ import annotations

from datetime import UTC, datetime

from recovery.model import parse_version
from recovery.mysqld.phases import PhaseTracker, with_first_query

STARTED_S, WALL_S = 1000.0, 1_700_000_000.0
LINES_80 = (
    (0.5, "1 [Note] [MY-012203] [InnoDB] Directories to scan './'"),
    (2.5, "1 [Note] [MY-012208] [InnoDB] Completed space ID check of 24 files."),
    (2.6, "1 [Note] [MY-012955] [InnoDB] Initializing buffer pool, total size = 128.000000M"),
)


def line(at_s: float, text: str) -> str:
    return f"{datetime.fromtimestamp(WALL_S + at_s, UTC):%Y-%m-%dT%H:%M:%S.%fZ} {text}"


def passed(*arrivals: tuple[float, float, str], version: str = "8.0.15") -> PhaseTracker:
    tracker = PhaseTracker(parse_version(version), STARTED_S)
    tracker.crashed = True
    for arrived_s, made_s, text in arrivals:
        tracker.add_arrival(line(made_s, text), STARTED_S + arrived_s, WALL_S + arrived_s)
    return tracker


def spans(tracker: PhaseTracker) -> dict[str, tuple[float, float]]:
    found = with_first_query(tracker.phases(4.0), 4.5)
    return {phase.name: (round(phase.start_s, 3), round(phase.end_s, 3)) for phase in found}


def test_by_arrival() -> None:
    tracker = passed(*((at_s, at_s - 0.001, text) for at_s, text in LINES_80))
    assert tracker.held_s is None
    assert spans(tracker)["discovery"] == (0.5, 2.5)
    assert spans(tracker)["first query"] == (4.0, 4.5)


def test_lines_that_arrive_together_are_put_back_to_where_they_were_made() -> None:
    tracker = passed(*((3.0, at_s, text) for at_s, text in LINES_80))
    assert tracker.held_s is not None
    assert round(tracker.held_s, 3) == 2.5
    assert spans(tracker)["discovery"] == (0.5, 2.5)


def test_where_some_lines_were_held_the_others_are_not_taken_for_late() -> None:
    last = (3.05, "1 [Note] [MY-012357] [InnoDB] Reading DD tablespace files")
    done = (3.09, "1 [Note] [MY-012356] [InnoDB] Validated 26/26  tablespaces")
    tracker = passed(*((3.1, at_s, text) for at_s, text in (*LINES_80, last, done)))
    assert spans(tracker)["validation"] == (3.05, 3.09)


def test_stamps_before_the_exec_do_not_make_phases_begin_before_it() -> None:
    tracker = passed(*((3.0, at_s - 10, text) for at_s, text in LINES_80))
    found = tracker.phases(4.0)
    assert found[0].start_s == 0.0
    assert all(phase.start_s <= phase.end_s for phase in found)


def test_a_long_redo_log_does_not_crowd_out_what_comes_after_it() -> None:
    scanned = (
        (0.5 + number / 1e5, "InnoDB: Doing recovery: scanned up to log sequence number 1") for number in range(9999)
    )
    later = (2.0, "1 [Note] [MY-012535] [InnoDB] Apply batch completed!")
    undo = (3.0, "1 [Note] [MY-013252] [InnoDB] Using undo tablespace './undo_001'.")
    tracker = passed(*((at_s, at_s, text) for at_s, text in (*scanned, later, undo)), version="5.7.22")
    assert spans(tracker)["validation"] == (2.0, 3.0)


def test_a_start_without_any_mark_is_unnamed() -> None:
    assert spans(passed()) == {"unnamed": (0.0, 4.0), "first query": (4.0, 4.5)}


def test_what_goes_on_beside_the_start() -> None:
    load = (1.0, 0.999, "0 [Note] InnoDB: Loading buffer pool(s) from /data/ib_buffer_pool")
    loaded = (1.5, 1.499, "0 [Note] InnoDB: Buffer pool(s) load completed at 261121  1:00:00")
    rollback = (3.0, 2.999, "0 [Note] InnoDB: Starting in background the rollback of uncommitted transactions")
    found = passed(load, loaded, rollback, version="5.7.22").background_phases(4.0)
    assert [(phase.name, round(phase.start_s, 3), round(phase.end_s, 3)) for phase in found] == [
        ("buffer pool load", 1.0, 1.5),
        ("rollback", 3.0, 4.0),
    ], "what has no end yet was seen until the ready line"
    assert passed(loaded, version="5.7.22").background_phases(4.0) == ()
    # Held back, by stamps that go back, and to before the exec: no time is less than none.
    early = (1.0, -2.0, load[2])
    (phase,) = passed(early, (1.5, -3.0, loaded[2]), version="5.7.22").background_phases(4.0)
    assert (phase.start_s, phase.end_s) == (0.0, 0.0)


LINES_57 = (
    (0.1, "0 [Note] /opt/mysqld (mysqld 5.7.22) starting as process 7 ..."),
    (0.2, "0 [Note] InnoDB: Initializing buffer pool, total size = 128M"),
    (0.3, "0 [Note] InnoDB: Completed initialization of buffer pool"),
    (0.4, "0 [Note] InnoDB: Highest supported file format is Barracuda."),
    (0.5, "0 [Note] InnoDB: Doing recovery: scanned up to log sequence number 123"),
    (0.6, "0 [Note] InnoDB: Starting an apply batch of log records to the database..."),
    (0.7, "0 [Note] InnoDB: Apply batch completed"),
)


def standing_after(count: int, now_s: float, *, crashed: bool = True) -> tuple[str | None, float]:
    tracker = passed(*((at_s, at_s, text) for at_s, text in LINES_57[:count]), version="5.7.22")
    tracker.crashed = crashed
    found = tracker.current(STARTED_S + now_s)
    return found.phase, round(found.since_s - STARTED_S, 3)


def test_where_a_start_stands_that_goes_on() -> None:
    assert standing_after(0, 0.05) == (None, 0.0), "no line has come yet"
    assert standing_after(2, 0.25) == ("buffer pool", 0.2)
    assert standing_after(4, 0.45) == ("redo scan", 0.4)
    assert standing_after(5, 0.55) == ("redo scan", 0.4), "the same phase, from its beginning"
    assert standing_after(7, 40.0) == ("validation", 0.7), "in silence"
    assert standing_after(7, 40.0, crashed=False) == ("dictionary", 0.7)
    assert standing_after(7, 0.1) == ("validation", 0.7), "a line may come between the look at the clock and at it"


def test_how_far_it_has_come_in_the_server_s_own_words() -> None:
    tracker = passed((0.5, 0.5, LINES_80[0][1]))
    tracker.latest = "2026-01-01T00:00:00.000000Z 1 [Note] [MY-012200] [InnoDB] Checked 15615/20298 files"
    found = tracker.current(STARTED_S + 3)
    assert (found.phase, found.progress) == ("discovery", "Checked 15615/20298")
