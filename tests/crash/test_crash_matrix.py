"""A recovered server is compared with what it had acknowledged: by made-up and random journals and catalogues."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.analysis.warnings import findings
from recovery.builds.packages import Tool
from recovery.cli.measure import request_from_arguments
from recovery.crash import writers
from recovery.crash.consistency import damage_lines
from recovery.crash.crash_findings import (
    DDL_DATABASE,
    CrashFindings,
    Violations,
    broken_promises,
    crash_metrics,
)
from recovery.crash.ddl_history import UNREADABLE_ROWS, Catalogue, Step, Table, compare_catalogues, generate_steps
from recovery.crash.tasks import CrashMoment
from recovery.crash.writers import CLIENTS, Journal, JournalWriter, ServerContents, compare_inserts, read_journal
from recovery.errors import TrialVoidError
from recovery.model import Session, Verdict, parse_version
from recovery.report.crash_tables import crash_tables
from recovery.session.prepare import plan_session
from recovery.storage.sessions import load_session

LOGS = Path(__file__).parents[2] / "fixtures" / "errorlogs"
KILLED_S = 100.0

# -- journals


def a_journal(last: int) -> Journal:
    """Transactions, one a second; every tenth is rolled back."""
    lines = [
        f"{'r' if number % 10 == 0 else 'c'} {number} {KILLED_S - last + number:.3f}\n" for number in range(1, last + 1)
    ]
    return read_journal(0, "".join(lines))


def committed(last: int, *, without: int = 0) -> list[int]:
    return [number for number in range(1, last + 1) if number % 10 and number != without]


def found_after(journal: Journal, contents: ServerContents) -> Violations:
    return writers.compare_journals([journal], [contents], killed_at_s=KILLED_S)


def holding(*numbers: int) -> ServerContents:
    return ServerContents((frozenset(numbers),) * 3, max(numbers, default=0))


@pytest.mark.parametrize("last_found", [25, 26])
def test_nothing_is_wrong_if_all_acknowledged_transactions_are_found(last_found: int) -> None:
    """A transaction that was not answered may be there."""
    assert found_after(a_journal(25), holding(*committed(last_found))) == Violations(23)


@pytest.mark.parametrize(
    ("last", "ghost"),
    [
        (25, 10),  # rolled back
        (25, 27),  # never sent
        (29, 30),  # unanswered, and to be rolled back
    ],
)
def test_a_transaction_that_must_not_be_there_is_a_ghost(last: int, ghost: int) -> None:
    found = found_after(a_journal(last), holding(*committed(last), ghost))
    assert (found.ghosts, found.lost) == (1, 0)
    assert f"transaction {ghost} of client 0 is unexpected" in found.examples


def test_missing_transactions_at_the_end_are_lost() -> None:
    found = found_after(a_journal(25), holding(*committed(22)))
    assert (found.lost, found.holes, found.torn) == (3, 0, 0)
    assert found.lost_window_s == pytest.approx(2.0)  # 23, 24 and 25, a second each


def test_a_missing_transaction_in_the_middle_is_a_hole() -> None:
    found = found_after(a_journal(25), holding(*committed(25, without=7)))
    assert (found.lost, found.holes) == (1, 1)


def test_a_part_of_a_transaction_is_torn() -> None:
    whole = frozenset(committed(25))
    found = found_after(a_journal(25), ServerContents((whole, whole - {25}, whole), 25))
    assert found.torn == 2  # the transaction, and the balance with its number
    assert found.lost == 1


@given(last=st.integers(0, 60), kept=st.integers(0, 61))
def test_a_lost_end_of_any_length_is_counted_as_lost_only(last: int, kept: int) -> None:
    found = found_after(a_journal(last), holding(*committed(min(kept, last))))
    assert found.lost == len(committed(last)) - len(committed(min(kept, last)))
    assert (found.ghosts, found.torn, found.holes) == (0, 0, 0)


def test_an_incomplete_line_of_a_journal_is_ignored() -> None:
    assert read_journal(0, "c 1 5.0\nc 2 6").committed == read_journal(0, "c 1 5.0\n").committed


@pytest.mark.parametrize("client", range(CLIENTS))
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "journal of client {client} cannot be read: No such file.*its acknowledged writes are unknown"),
        (b"c 1 5.0\nnonsense\n", "an invalid line"),
        (b"\xff\xfe\n", "an invalid line"),
    ],
)
def test_an_unreadable_journal_makes_the_trial_void(
    client: int, content: bytes | None, message: str, tmp_path: Path
) -> None:
    """The server is not even queried."""
    for one in range(CLIENTS):
        (tmp_path / str(one)).write_text("c 1 5.0\n")
    (tmp_path / str(client)).unlink()
    if content is not None:
        (tmp_path / str(client)).write_bytes(content)
    witness = JournalWriter(Tool("sysbench", Path("sysbench"), "1"), tmp_path, Random(1))  # noqa: S311 - no secret
    with pytest.raises(TrialVoidError, match=message.format(client=client)):
        witness.compare(mock.sentinel.server, killed_at_s=KILLED_S)


# -- definitions

NO_COLUMNS, FILLER = Table(("id",)), Table(("id", "filler"), 5)


def statements(seed: int) -> Iterator[Step]:
    return generate_steps(Random(seed))  # noqa: S311 - no secret


def answered(seed: int, many: int) -> tuple[list[tuple[Step, float]], Step]:
    steps = statements(seed)
    return [(next(steps), float(number)) for number in range(many)], next(steps)


def compare(done: list[tuple[Step, float]], running: Step, tables: Catalogue, *, atomic: bool = True) -> Violations:
    return compare_catalogues(done, running, tables, killed_at_s=KILLED_S, atomic=atomic)


@given(seed=st.integers(0, 10_000), many=st.integers(0, 60), happened=st.booleans())
def test_the_running_statement_may_be_executed_or_not(seed: int, many: int, happened: bool) -> None:
    done, running = answered(seed, many)
    found = compare(done, running, running.after if happened else running.before)
    assert found == Violations(many, under_way=running.touched)


@given(seed=st.integers(0, 10_000), many=st.integers(1, 60), back=st.integers(1, 60))
def test_missing_acknowledged_statements_are_lost(seed: int, many: int, back: int) -> None:
    done, running = answered(seed, many)
    tables = done[-min(back, many)][0].before
    found = compare(done, running, tables)
    assert found.half_done == 0
    assert bool(found.lost) != (tables in (running.before, running.after))


@given(seed=st.integers(0, 10_000), many=st.integers(10, 60))
def test_an_unreadable_table_is_always_a_violation(seed: int, many: int) -> None:
    done, running = answered(seed, many)
    name = min(running.before)
    found = compare(done, running, {**running.before, name: replace(running.before[name], rows=UNREADABLE_ROWS)})
    assert found.lost + found.half_done == 1
    assert found.half_done == (name in running.touched)


def test_half_of_a_statement_may_match_an_older_catalogue() -> None:
    """A server without atomic DDL may leave half of it; with atomic DDL that is a loss."""
    one, two = NO_COLUMNS, NO_COLUMNS
    done = [
        (Step(f"create table {DDL_DATABASE}.a", {}, {"a": one}), 1.0),
        (Step(f"create table {DDL_DATABASE}.b", {"a": one}, {"a": one, "b": two}), 2.0),
    ]
    alter = Step(f"alter table {DDL_DATABASE}.b add c int", {"a": one, "b": two}, {"a": one, "b": Table(("id", "c"))})
    old = compare(done, alter, {"a": one}, atomic=False)
    assert (old.half_done, old.lost) == (1, 0)
    new = compare(done, alter, {"a": one})
    assert (new.half_done, new.lost) == (0, 1)
    assert compare(done, alter, {}, atomic=False).lost == 2


@pytest.mark.parametrize("change", ["truncate table {}.a", "alter table {}.a add index i (filler)"])
def test_a_running_statement_that_changes_no_column_and_no_row_is_considered(change: str) -> None:
    empty = {"a": Table(("id", "filler"))}
    step = Step(change.format(DDL_DATABASE), empty, empty)
    found = compare([], step, {"a": replace(empty["a"], rows=UNREADABLE_ROWS)}, atomic=False)
    assert (found.half_done, found.lost, found.under_way) == (1, 0, frozenset({"a"}))


DROP = Step(f"drop table {DDL_DATABASE}.a, {DDL_DATABASE}.b", {"a": NO_COLUMNS, "b": FILLER}, {})
RENAME = Step(f"rename table {DDL_DATABASE}.a to {DDL_DATABASE}.c", {"a": NO_COLUMNS}, {"c": NO_COLUMNS})


def test_a_drop_of_two_tables_that_drops_one_is_half_done() -> None:
    found = compare([], DROP, {"b": FILLER})
    assert (found.half_done, found.lost) == (1, 0)
    assert found.examples == (f"half of: drop table {DDL_DATABASE}.a, {DDL_DATABASE}.b",)


@pytest.mark.parametrize(
    ("step", "tables", "all_or_none", "is_broken"),
    [
        (DROP, {"b": FILLER}, True, True),
        (DROP, {"b": FILLER}, False, False),
        (DROP, {"a": NO_COLUMNS, "b": NO_COLUMNS}, False, True),
        (RENAME, {"a": NO_COLUMNS, "c": NO_COLUMNS}, False, True),
    ],
    ids=["all or none", "table by table", "half a table", "rename"],
)
def test_a_server_that_drops_table_by_table_may_have_dropped_some(
    step: Step, tables: Catalogue, all_or_none: bool, is_broken: bool
) -> None:
    """As MariaDB does: each is gone as a whole."""
    found = compare([], step, tables)
    back = replace(FINE, moment=CrashMoment.DEFINITIONS, violations=found, all_or_none=all_or_none)
    assert bool(broken_promises(back)) == is_broken


@pytest.mark.parametrize("seed", range(5))
def test_the_same_seed_gives_the_same_statements(seed: int) -> None:
    first, again = (statements(seed) for _ in range(2))
    assert [next(first).statement for _ in range(50)] == [next(again).statement for _ in range(50)]


def test_every_kind_of_statement_is_generated() -> None:
    steps = statements(1)
    text = " ".join(next(steps).statement for _ in range(300))
    kinds = ("create table", "insert into", "add column", "drop column", "add index", "rename table", "truncate")
    assert [words for words in (*kinds, f", {DDL_DATABASE}.") if words not in text] == []


# -- the insert script


@pytest.mark.parametrize(
    ("acknowledged", "rows", "lost", "holes", "ghosts"),
    [
        (4, (2, 1, 1), 0, 0, 0),
        (4, (2, 2, 1), 0, 0, 0),  # one was running
        (4, (2, 0, 1), 1, 1, 0),  # lost before another
        (2, (2, 1, 1), 0, 0, 1),  # never sent
    ],
)
def test_inserts_are_found_in_their_order(
    acknowledged: int, rows: tuple[int, int, int], lost: int, holes: int, ghosts: int
) -> None:
    script = tuple(f"insert into d.table_{1 + number % 3} (s1) values ('x')" for number in range(9))
    tables = [f"d.table_{1 + number % 3}" for number in range(acknowledged)]
    counts = {table: tables.count(table) for table in tables}
    there = {f"d.table_{number}": count for number, count in enumerate(rows, 1)}
    found = compare_inserts(script, acknowledged=counts, there=there)
    expected = Violations(acknowledged, lost=lost, holes=holes, ghosts=ghosts)
    assert replace(found, examples=()) == expected


# -- broken promises

FINE = CrashFindings(CrashMoment.LOAD, Violations(10), promised=True, atomic=True)


def test_kept_promises_are_not_reported() -> None:
    assert broken_promises(FINE) == ()
    assert crash_metrics(FINE)["acknowledged"] == 10.0


def test_losses_are_allowed_without_a_promise() -> None:
    lost = replace(FINE, violations=Violations(10, lost=3, lost_window_s=0.5))
    assert broken_promises(lost)
    assert broken_promises(replace(lost, promised=False)) == ()
    assert crash_metrics(lost)["lost_window_s"] == 0.5


@pytest.mark.parametrize("found", [Violations(10, ghosts=1), Violations(10, torn=1), Violations(10, holes=1)])
def test_ghosts_torn_transactions_and_holes_are_never_allowed(found: Violations) -> None:
    assert broken_promises(replace(FINE, violations=found, promised=False, atomic=False))


def test_half_changed_tables_break_a_promise_only_with_atomic_ddl() -> None:
    found = Violations(10, half_done=1, under_way=frozenset({"a", "b"}))
    ill = replace(
        FINE,
        moment=CrashMoment.DEFINITIONS,
        violations=found,
        orphans=(f"{DDL_DATABASE}/a.ibd", f"{DDL_DATABASE}.#sql-9"),
        missing=(f"{DDL_DATABASE}/b.frm",),
        failing=(f"{DDL_DATABASE}.b: Table is not there",),
    )
    assert len(broken_promises(ill)) == 4
    assert broken_promises(replace(ill, atomic=False)) == ()
    assert crash_metrics(ill)["orphans"] == 2.0


@pytest.mark.parametrize("schema", ["discovery", DDL_DATABASE])
def test_tables_that_were_not_being_changed_must_be_intact_without_atomic_ddl(schema: str) -> None:
    """Nor may a table of the same name in another schema be damaged."""
    settled = "a" if schema == "discovery" else "c"
    fine = replace(
        FINE, moment=CrashMoment.DEFINITIONS, violations=Violations(10, under_way=frozenset({"a"})), atomic=False
    )
    assert broken_promises(replace(fine, orphans=(f"{schema}/{settled}.ibd",)))
    assert broken_promises(replace(fine, missing=(f"{schema}/{settled}.frm",)))
    assert broken_promises(replace(fine, failing=(f"{schema}.{settled}: Corrupt",)))
    # If the log is not flushed, every table of the schema may be old.
    unflushed = replace(fine, failing=(f"{schema}.{settled}: Corrupt",), promised=False)
    assert bool(broken_promises(unflushed)) == (schema == "discovery")


IS_CORRUPTED = f"[ERROR] InnoDB: Datafile './{DDL_DATABASE}/table_11.ibd' is corrupted. Cannot determine the space ID"


@pytest.mark.parametrize(
    ("complaint", "atomic", "changed", "is_broken"),
    [
        (IS_CORRUPTED, False, "table_11", False),
        (IS_CORRUPTED, True, "table_11", True),
        (IS_CORRUPTED, False, "table_1", True),
        (
            f'InnoDB: table "{DDL_DATABASE}"."table_11"is corrupted. Please drop the table and recreate',
            False, "table_11", False,
        ),
        (f"[ERROR] InnoDB: './{DDL_DATABASE}/#sql-ib12.ibd' is corrupted", False, "table_11", False),
    ],
)  # fmt: skip
def test_a_server_without_atomic_ddl_may_log_damage_of_a_half_changed_table(
    complaint: str, atomic: bool, changed: str, is_broken: bool
) -> None:
    found = Violations(10, half_done=0 if changed == "table_1" else 1, under_way=frozenset({changed}))
    ill = replace(FINE, moment=CrashMoment.DEFINITIONS, violations=found, atomic=atomic, complaints=(complaint,))
    assert bool(broken_promises(ill)) == is_broken


def test_orphans_break_a_promise_if_no_ddl_was_running() -> None:
    assert broken_promises(replace(FINE, orphans=("d/a.ibd",), atomic=False))


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.err")), ids=lambda log: log.name)
def test_a_good_recovery_logs_no_damage(log: Path) -> None:
    assert damage_lines(log.read_text(encoding="utf-8", errors="replace").splitlines()) == ()


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-20T20:29:15Z 0 [ERROR] [MY-012224] [InnoDB] Header page contains inconsistent data; is corrupt",
        "2015-10-01 12:00:00 7f InnoDB: Error: page 3 log sequence number 5 is in the future! Current 4",
        "InnoDB: Assertion failure in thread 140 in file buf0buf.cc line 1",
        "2026-11-20T20:29:15Z 0 [ERROR] InnoDB: The page [page id: space=0] in the doublewrite buffer is corrupt",
        "2026-11-20T20:29:15Z 0 [ERROR] InnoDB: Tablespace 60 was not found at ./d/table_4.ibd.",
        "2026-11-20T20:29:15Z 0 [ERROR] InnoDB: Space id and page no stored in the page, read in are [1:2], not [1:3]",
        "2026-11-20T20:29:15Z 0 [ERROR] InnoDB: Unable to read page [page id: space=9] into the buffer pool",
        "2015-10-01 12:00:00 7f InnoDB: Error: could not open single-table tablespace file ./d/table_1.ibd",
        "2026-11-20T20:29:15Z 2 [ERROR] mysqld: Table './mysql/user' is marked as crashed and should be repaired",
    ],
)
def test_damage_in_the_log_is_found(line: str) -> None:
    assert damage_lines([line]) == (line,)


# -- the report


@pytest.fixture
def session(kept_sessions: Path) -> Session:
    return load_session(kept_sessions / "2026-11-22-crash-matrix-definitions")


def test_the_report_has_the_command_that_repeats_a_failed_run(session: Session) -> None:
    failed = [run for run in session.runs if run.verdict is Verdict.FAILED]
    notes = [note for table in crash_tables(session) for note in table.notes]
    (note,) = (note for note in notes if note.startswith("To repeat a failed run"))
    first, *others = note.removesuffix(".").partition(": ")[2].split("; ")
    groups = {(run.variant.partition("-")[0], run.repeat) for run in failed}
    assert others[-1] == f"and {len(groups) - 3} more"
    name, *words = shlex.split(first)[1:]
    request = request_from_arguments(name, words)
    plan = plan_session(request, [parse_version(failed[0].version)])
    assert {trial.repeat for trial in plan.trials} == {failed[0].repeat}
    assert failed[0].variant in {variant.name for variant in request.all_variants}
    assert {variant.name.partition("-")[0] for variant in request.all_variants} == {failed[0].variant.partition("-")[0]}


def test_the_command_that_repeats_a_failed_run_asks_one_question(kept_sessions: Path) -> None:
    session = load_session(kept_sessions / "2026-11-26-killed-during-shutdown")
    (note,) = (note for table in crash_tables(session) for note in table.notes if note.startswith("To repeat a failed"))
    assert note.count("--question shutdown") == 1


def test_a_run_of_an_older_tool_cannot_be_repeated(kept_sessions: Path) -> None:
    """Its moments depended on earlier runs."""
    session = load_session(kept_sessions / "2026-11-22-crash-matrix-writing")
    assert any(run.verdict is Verdict.FAILED for run in session.runs)
    notes = [note for table in crash_tables(session) for note in table.notes]
    assert not any(note.startswith("To repeat a failed run") for note in notes)


def test_kills_at_different_moments_give_no_warning_about_spread(session: Session) -> None:
    assert "wide-interval" not in {one.kind for one in findings(session)}
