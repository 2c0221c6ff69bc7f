"""The comparison of a recovered server with what it acknowledged: made-up and random journals and catalogues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.builds.packages import Tool
from recovery.errors import TrialVoidError
from recovery.experiments import ddl_history, writers
from recovery.experiments.consistency import damage_lines
from recovery.experiments.crash_findings import (
    DDL_DATABASE,
    CrashFindings,
    Violations,
    broken_promises,
    crash_metrics,
)
from recovery.experiments.ddl_history import UNREADABLE_ROWS, Step, Table, generate_steps
from recovery.experiments.writers import CLIENTS, Journal, JournalWriter, ServerContents, compare_inserts, read_journal
from recovery.model import CrashMoment

LOGS = Path(__file__).parent.parent / "fixtures" / "errorlogs"
KILLED_S = 100.0


def a_journal(last: int) -> Journal:
    lines = [
        f"{'r' if number % 10 == 0 else 'c'} {number} {KILLED_S - last + number:.3f}\n" for number in range(1, last + 1)
    ]
    return read_journal(0, "".join(lines))


def held(*numbers: int) -> ServerContents:
    return ServerContents((frozenset(numbers),) * 3, max(numbers, default=0))


def committed(last: int) -> list[int]:
    return [number for number in range(1, last + 1) if number % 10]


def judged(written: Journal, there: ServerContents) -> Violations:
    return writers.compare_journals([written], [there], killed_at_s=KILLED_S)


def test_nothing_is_wrong_if_all_acknowledged_transactions_are_there() -> None:
    assert judged(a_journal(25), held(*committed(25))) == Violations(23)


def test_an_unanswered_transaction_may_be_there() -> None:
    assert judged(a_journal(25), held(*committed(26))) == Violations(23)


@pytest.mark.parametrize(
    ("last", "ghost"),
    [
        (25, 10),  # rolled back
        (25, 27),  # never sent
        (29, 30),  # unanswered, and to be rolled back
    ],
)
def test_a_transaction_that_must_not_be_there_is_a_ghost(last: int, ghost: int) -> None:
    found = judged(a_journal(last), held(*committed(last), ghost))
    assert (found.ghosts, found.lost) == (1, 0)
    assert f"transaction {ghost} of client 0 is unexpected" in found.examples


def test_missing_transactions_at_the_end_are_lost() -> None:
    found = judged(a_journal(25), held(*committed(22)))
    assert (found.lost, found.holes, found.torn) == (3, 0, 0)
    assert found.lost_window_s == pytest.approx(2.0)  # 23, 24 and 25, a second each


def test_a_missing_transaction_in_the_middle_is_a_hole() -> None:
    found = judged(a_journal(25), held(*(number for number in committed(25) if number != 7)))
    assert (found.lost, found.holes) == (1, 1)


def test_a_part_of_a_transaction_is_torn() -> None:
    whole = frozenset(committed(25))
    found = judged(a_journal(25), ServerContents((whole, whole - {25}, whole), 25))
    assert found.torn == 2  # the transaction, and the balance with its number
    assert found.lost == 1


def test_an_incomplete_line_of_a_journal_is_ignored() -> None:
    assert read_journal(0, "c 1 5.0\nc 2 6").committed == read_journal(0, "c 1 5.0\n").committed


def test_an_invalid_line_of_a_journal_is_refused() -> None:
    with pytest.raises(TrialVoidError, match="an invalid line"):
        read_journal(3, "c 1 5.0\nnonsense\n")


@pytest.mark.parametrize("client", range(CLIENTS))
def test_a_missing_journal_makes_the_trial_void(client: int, tmp_path: Path) -> None:
    """The server is not even queried."""
    for one in range(CLIENTS):
        (tmp_path / str(one)).write_text("c 1 5.0\n")
    (tmp_path / str(client)).unlink()
    witness = JournalWriter(Tool("sysbench", Path("sysbench"), "1"), tmp_path, Random(1))  # noqa: S311 - no secret
    with pytest.raises(TrialVoidError, match=rf"journal of client {client} cannot be read: No such file") as caught:
        witness.compare(mock.sentinel.server, killed_at_s=KILLED_S)
    assert "its acknowledged writes are unknown" in caught.value.message


def test_a_binary_journal_makes_the_trial_void(tmp_path: Path) -> None:
    for one in range(CLIENTS):
        (tmp_path / str(one)).write_bytes(b"\xff\xfe\n")
    witness = JournalWriter(Tool("sysbench", Path("sysbench"), "1"), tmp_path, Random(1))  # noqa: S311 - no secret
    with pytest.raises(TrialVoidError, match="an invalid line"):
        witness.compare(mock.sentinel.server, killed_at_s=KILLED_S)


@given(last=st.integers(0, 60), kept=st.integers(0, 61))
def test_a_lost_end_of_any_length_is_counted_as_lost_only(last: int, kept: int) -> None:
    written = a_journal(last)
    found = judged(written, held(*committed(min(kept, last))))
    assert found.lost == len(committed(last)) - len(committed(min(kept, last)))
    assert (found.ghosts, found.torn, found.holes) == (0, 0, 0)


# -- definitions


def statements(seed: int) -> Iterator[Step]:
    return generate_steps(Random(seed))  # noqa: S311 - no secret


def answered(seed: int, many: int) -> tuple[list[tuple[Step, float]], Step]:
    found = statements(seed)
    return [(next(found), float(number)) for number in range(many)], next(found)


@given(seed=st.integers(0, 10_000), many=st.integers(0, 60), happened=st.booleans())
def test_the_running_statement_may_be_executed_or_not(seed: int, many: int, happened: bool) -> None:
    done, under_way = answered(seed, many)
    there = under_way.after if happened else under_way.before
    found = ddl_history.compare_catalogues(done, under_way, there, killed_at_s=KILLED_S)
    assert found == Violations(many, under_way=under_way.touched)


@given(seed=st.integers(0, 10_000), many=st.integers(1, 60), back=st.integers(1, 60))
def test_missing_acknowledged_statements_are_lost(seed: int, many: int, back: int) -> None:
    done, under_way = answered(seed, many)
    there = done[-min(back, many)][0].before
    found = ddl_history.compare_catalogues(done, under_way, there, killed_at_s=KILLED_S)
    explained = there in (under_way.before, under_way.after)
    assert found.half_done == 0
    assert bool(found.lost) != explained


@given(seed=st.integers(0, 10_000), many=st.integers(10, 60))
def test_an_unreadable_table_is_always_a_violation(seed: int, many: int) -> None:
    done, under_way = answered(seed, many)
    name = min(under_way.before)
    there = {**under_way.before, name: replace(under_way.before[name], rows=UNREADABLE_ROWS)}
    found = ddl_history.compare_catalogues(done, under_way, there, killed_at_s=KILLED_S)
    assert found.lost + found.half_done == 1
    assert found.half_done == (name in under_way.touched)


def test_a_drop_of_two_tables_that_drops_one_is_half_done() -> None:
    one, two = Table(("id",)), Table(("id", "filler"), 5)
    drop = Step(f"drop table {DDL_DATABASE}.a, {DDL_DATABASE}.b", {"a": one, "b": two}, {})
    found = ddl_history.compare_catalogues([], drop, {"b": two}, killed_at_s=KILLED_S)
    assert (found.half_done, found.lost) == (1, 0)
    assert found.examples == (f"half of: drop table {DDL_DATABASE}.a, {DDL_DATABASE}.b",)


def test_half_of_a_statement_may_match_an_older_catalogue() -> None:
    """A server without atomic DDL may leave half of it; with atomic DDL that is a loss."""
    one, two = Table(("id",)), Table(("id",))
    made = [
        (Step(f"create table {DDL_DATABASE}.a", {}, {"a": one}), 1.0),
        (Step(f"create table {DDL_DATABASE}.b", {"a": one}, {"a": one, "b": two}), 2.0),
    ]
    alter = Step(f"alter table {DDL_DATABASE}.b add c int", {"a": one, "b": two}, {"a": one, "b": Table(("id", "c"))})
    old = ddl_history.compare_catalogues(made, alter, {"a": one}, killed_at_s=KILLED_S, atomic=False)
    assert (old.half_done, old.lost) == (1, 0)
    new = ddl_history.compare_catalogues(made, alter, {"a": one}, killed_at_s=KILLED_S)
    assert (new.half_done, new.lost) == (0, 1)
    assert ddl_history.compare_catalogues(made, alter, {}, killed_at_s=KILLED_S, atomic=False).lost == 2


@pytest.mark.parametrize("change", ["truncate table {}.a", "alter table {}.a add index i (filler)"])
def test_a_running_statement_that_changes_no_column_and_no_row_is_considered(change: str) -> None:
    empty = {"a": Table(("id", "filler"))}
    step = Step(change.format(DDL_DATABASE), empty, empty)
    found = ddl_history.compare_catalogues(
        [], step, {"a": replace(empty["a"], rows=UNREADABLE_ROWS)}, killed_at_s=KILLED_S, atomic=False
    )
    assert (found.half_done, found.lost, found.under_way) == (1, 0, frozenset({"a"}))


def test_a_server_that_drops_table_by_table_may_have_dropped_some() -> None:
    """As MariaDB does: each is gone as a whole."""
    one, two = Table(("id",)), Table(("id", "filler"), 5)
    drop = Step(f"drop table {DDL_DATABASE}.a, {DDL_DATABASE}.b", {"a": one, "b": two}, {})
    found = ddl_history.compare_catalogues([], drop, {"b": two}, killed_at_s=KILLED_S)
    back = replace(FINE, moment=CrashMoment.DEFINITIONS, found=found)
    assert broken_promises(back)
    assert broken_promises(replace(back, all_or_none=False)) == ()
    torn = ddl_history.compare_catalogues([], drop, {"a": one, "b": Table(("id",))}, killed_at_s=KILLED_S)
    assert broken_promises(replace(back, found=torn, all_or_none=False))
    rename = Step(f"rename table {DDL_DATABASE}.a to {DDL_DATABASE}.c", {"a": one}, {"c": one})
    both = ddl_history.compare_catalogues([], rename, {"a": one, "c": one}, killed_at_s=KILLED_S)
    assert broken_promises(replace(back, found=both, all_or_none=False))


@pytest.mark.parametrize("seed", range(5))
def test_the_same_seed_gives_the_same_statements(seed: int) -> None:
    first, again = (statements(seed) for _ in range(2))
    assert [next(first).statement for _ in range(50)] == [next(again).statement for _ in range(50)]


def test_every_kind_of_statement_is_generated() -> None:
    found = statements(1)
    said = " ".join(next(found).statement for _ in range(300))
    wanted = (
        "create table",
        "insert into",
        "add column",
        "drop column",
        "add index",
        "rename table",
        "truncate",
        f", {DDL_DATABASE}.",
    )
    assert [words for words in wanted if words not in said] == []


# -- the insert script

SCRIPT = tuple(f"insert into d.table_{1 + number % 3} (s1) values ('x')" for number in range(9))


def inserts(acknowledged: int, there: dict[str, int]) -> Violations:
    tables = [f"d.table_{1 + number % 3}" for number in range(acknowledged)]
    counts = {table: tables.count(table) for table in tables}
    return compare_inserts(SCRIPT, acknowledged=counts, there=there)


def test_inserts_are_found_in_their_order() -> None:
    assert inserts(4, {"d.table_1": 2, "d.table_2": 1, "d.table_3": 1}) == Violations(4)
    assert inserts(4, {"d.table_1": 2, "d.table_2": 2, "d.table_3": 1}) == Violations(4)  # one was under way


def test_a_lost_insert_before_another_is_a_hole() -> None:
    found = inserts(4, {"d.table_1": 2, "d.table_2": 0, "d.table_3": 1})
    assert (found.lost, found.holes) == (1, 1)


def test_inserts_that_were_never_sent_are_ghosts() -> None:
    assert inserts(2, {"d.table_1": 2, "d.table_2": 1, "d.table_3": 1}).ghosts == 1


# -- broken promises

FINE = CrashFindings(CrashMoment.LOAD, Violations(10), promised=True, atomic=True)


def test_kept_promises_are_not_reported() -> None:
    assert broken_promises(FINE) == ()
    assert crash_metrics(FINE)["acknowledged"] == 10.0


def test_losses_are_allowed_without_a_promise() -> None:
    lost = replace(FINE, found=Violations(10, lost=3, lost_window_s=0.5))
    assert broken_promises(lost)
    assert broken_promises(replace(lost, promised=False)) == ()
    assert crash_metrics(lost)["lost_window_s"] == 0.5


@pytest.mark.parametrize("found", [Violations(10, ghosts=1), Violations(10, torn=1), Violations(10, holes=1)])
def test_ghosts_torn_transactions_and_holes_are_never_allowed(found: Violations) -> None:
    assert broken_promises(replace(FINE, found=found, promised=False, atomic=False))


def test_half_changed_tables_break_a_promise_only_with_atomic_ddl() -> None:
    found = Violations(10, half_done=1, under_way=frozenset({"a", "b"}))
    ill = replace(
        FINE,
        moment=CrashMoment.DEFINITIONS,
        found=found,
        orphans=(f"{DDL_DATABASE}/a.ibd", f"{DDL_DATABASE}.#sql-9"),
        missing=(f"{DDL_DATABASE}/b.frm",),
        failing=(f"{DDL_DATABASE}.b: Table is not there",),
    )
    assert len(broken_promises(ill)) == 4
    assert broken_promises(replace(ill, atomic=False)) == ()
    assert crash_metrics(ill)["orphans"] == 2.0


@pytest.mark.parametrize("schema", ["discovery", DDL_DATABASE])
def test_tables_that_were_not_being_changed_must_be_intact_without_atomic_ddl(schema: str) -> None:
    """Nor does a table of the same name in another schema."""
    settled = "a" if schema == "discovery" else "c"
    fine = replace(FINE, moment=CrashMoment.DEFINITIONS, found=Violations(10, under_way=frozenset({"a"})), atomic=False)
    assert broken_promises(replace(fine, orphans=(f"{schema}/{settled}.ibd",)))
    assert broken_promises(replace(fine, missing=(f"{schema}/{settled}.frm",)))
    assert broken_promises(replace(fine, failing=(f"{schema}.{settled}: Corrupt",)))
    unflushed = replace(fine, failing=(f"{schema}.{settled}: Corrupt",), promised=False)
    assert bool(broken_promises(unflushed)) == (schema == "discovery"), (
        "if the log is not flushed, every table of the schema may be old"
    )


OF_HALF_A_TABLE = (
    f"[ERROR] InnoDB: Datafile './{DDL_DATABASE}/table_11.ibd' is corrupted. Cannot determine the space ID"
)


def test_a_server_without_atomic_ddl_may_log_damage_of_a_half_changed_table() -> None:
    ill = replace(FINE, moment=CrashMoment.DEFINITIONS, atomic=False, complaints=(OF_HALF_A_TABLE,))
    made = replace(ill, found=Violations(10, half_done=1, under_way=frozenset({"table_11"})))
    assert broken_promises(made) == ()
    assert broken_promises(replace(made, atomic=True))
    assert broken_promises(replace(made, found=Violations(10, under_way=frozenset({"table_1"}))))
    quoted = f'InnoDB: table "{DDL_DATABASE}"."table_11"is corrupted. Please drop the table and recreate'
    assert broken_promises(replace(made, complaints=(quoted,))) == ()
    assert (
        broken_promises(replace(made, complaints=(f"[ERROR] InnoDB: './{DDL_DATABASE}/#sql-ib12.ibd' is corrupted",)))
        == ()
    )


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
