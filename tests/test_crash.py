"""Are broken promises found, and kept ones not blamed? By journals and catalogues that are made up, and by chance."""

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


def test_all_that_was_acknowledged_is_there() -> None:
    assert judged(a_journal(25), held(*committed(25))) == Violations(23)


def test_the_one_under_way_may_be_there() -> None:
    assert judged(a_journal(25), held(*committed(26))) == Violations(23)


def test_one_under_way_that_was_to_be_rolled_back_may_not() -> None:
    found = judged(a_journal(29), held(*committed(29), 30))
    assert (found.ghosts, found.lost) == (1, 0)
    assert "transaction 30 of client 0 is unexpected" in found.examples


def test_what_was_rolled_back_is_a_ghost() -> None:
    assert judged(a_journal(25), held(*committed(25), 10)).ghosts == 1


def test_what_was_never_sent_is_a_ghost() -> None:
    assert judged(a_journal(25), held(*committed(25), 27)).ghosts == 1


def test_the_end_is_lost() -> None:
    found = judged(a_journal(25), held(*committed(22)))
    assert (found.lost, found.holes, found.torn) == (3, 0, 0)
    assert found.lost_window_s == pytest.approx(2.0)  # 23, 24 and 25, a second each


def test_one_from_the_middle_is_a_hole() -> None:
    found = judged(a_journal(25), held(*(number for number in committed(25) if number != 7)))
    assert (found.lost, found.holes) == (1, 1)


def test_a_part_of_a_transaction_is_torn() -> None:
    whole = frozenset(committed(25))
    found = judged(a_journal(25), ServerContents((whole, whole - {25}, whole), 25))
    assert found.torn == 2  # the transaction, and the balance that speaks of it
    assert found.lost == 1


def test_a_line_without_its_end_was_being_written() -> None:
    assert read_journal(0, "c 1 5.0\nc 2 6").committed == read_journal(0, "c 1 5.0\n").committed


def test_a_journal_of_something_else_is_refused() -> None:
    with pytest.raises(TrialVoidError, match="an invalid line"):
        read_journal(3, "c 1 5.0\nnonsense\n")


@pytest.mark.parametrize("client", range(CLIENTS))
def test_without_a_journal_nobody_says_that_nothing_was_lost(client: int, tmp_path: Path) -> None:
    """The server is not even asked what it holds."""
    for one in range(CLIENTS):
        (tmp_path / str(one)).write_text("c 1 5.0\n")
    (tmp_path / str(client)).unlink()
    witness = JournalWriter(Tool("sysbench", Path("sysbench"), "1"), tmp_path, Random(1))  # noqa: S311 - no secret
    with pytest.raises(TrialVoidError, match=rf"journal of client {client} cannot be read: No such file") as caught:
        witness.compare(mock.sentinel.server, killed_at_s=KILLED_S)
    assert "its acknowledged writes are unknown" in caught.value.message


def test_nor_where_it_is_no_text(tmp_path: Path) -> None:
    for one in range(CLIENTS):
        (tmp_path / str(one)).write_bytes(b"\xff\xfe\n")
    witness = JournalWriter(Tool("sysbench", Path("sysbench"), "1"), tmp_path, Random(1))  # noqa: S311 - no secret
    with pytest.raises(TrialVoidError, match="an invalid line"):
        witness.compare(mock.sentinel.server, killed_at_s=KILLED_S)


@given(last=st.integers(0, 60), kept=st.integers(0, 61))
def test_any_end_may_be_lost_and_nothing_else_is_wrong(last: int, kept: int) -> None:
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
def test_the_statement_under_way_may_have_happened_or_not(seed: int, many: int, happened: bool) -> None:
    done, under_way = answered(seed, many)
    there = under_way.after if happened else under_way.before
    found = ddl_history.compare_catalogues(done, under_way, there, killed_at_s=KILLED_S)
    assert found == Violations(many, under_way=under_way.touched)


@given(seed=st.integers(0, 10_000), many=st.integers(1, 60), back=st.integers(1, 60))
def test_acknowledged_statements_are_missed(seed: int, many: int, back: int) -> None:
    done, under_way = answered(seed, many)
    there = done[-min(back, many)][0].before
    found = ddl_history.compare_catalogues(done, under_way, there, killed_at_s=KILLED_S)
    explained = there in (under_way.before, under_way.after)
    assert found.half_done == 0
    assert bool(found.lost) != explained


@given(seed=st.integers(0, 10_000), many=st.integers(10, 60))
def test_a_table_that_cannot_be_read_is_never_right(seed: int, many: int) -> None:
    done, under_way = answered(seed, many)
    name = min(under_way.before)
    there = {**under_way.before, name: replace(under_way.before[name], rows=UNREADABLE_ROWS)}
    found = ddl_history.compare_catalogues(done, under_way, there, killed_at_s=KILLED_S)
    assert found.lost + found.half_done == 1
    assert found.half_done == (name in under_way.touched)


def test_one_of_two_tables_dropped_is_half_done() -> None:
    one, two = Table(("id",)), Table(("id", "filler"), 5)
    drop = Step(f"drop table {DDL_DATABASE}.a, {DDL_DATABASE}.b", {"a": one, "b": two}, {})
    found = ddl_history.compare_catalogues([], drop, {"b": two}, killed_at_s=KILLED_S)
    assert (found.half_done, found.lost) == (1, 0)
    assert found.examples == (f"half of: drop table {DDL_DATABASE}.a, {DDL_DATABASE}.b",)


def test_half_of_a_statement_may_look_like_what_was_long_ago() -> None:
    """Of which an old server leaves half, and a new one none."""
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
def test_what_changes_no_column_and_no_row_is_under_way_too(change: str) -> None:
    empty = {"a": Table(("id", "filler"))}
    step = Step(change.format(DDL_DATABASE), empty, empty)
    found = ddl_history.compare_catalogues(
        [], step, {"a": replace(empty["a"], rows=UNREADABLE_ROWS)}, killed_at_s=KILLED_S, atomic=False
    )
    assert (found.half_done, found.lost, found.under_way) == (1, 0, frozenset({"a"}))


def test_who_drops_table_by_table_may_have_dropped_some() -> None:
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
def test_the_same_chance_brings_the_same_statements(seed: int) -> None:
    first, again = (statements(seed) for _ in range(2))
    assert [next(first).statement for _ in range(50)] == [next(again).statement for _ in range(50)]


def test_every_kind_of_statement_comes() -> None:
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


def test_inserts_come_back_in_their_order() -> None:
    assert inserts(4, {"d.table_1": 2, "d.table_2": 1, "d.table_3": 1}) == Violations(4)
    assert inserts(4, {"d.table_1": 2, "d.table_2": 2, "d.table_3": 1}) == Violations(4)  # one was under way


def test_a_lost_insert_before_another_is_a_hole() -> None:
    found = inserts(4, {"d.table_1": 2, "d.table_2": 0, "d.table_3": 1})
    assert (found.lost, found.holes) == (1, 1)


def test_inserts_that_nobody_made_are_ghosts() -> None:
    assert inserts(2, {"d.table_1": 2, "d.table_2": 1, "d.table_3": 1}).ghosts == 1


# -- what it comes to

FINE = CrashFindings(CrashMoment.LOAD, Violations(10), promised=True, atomic=True)


def test_nothing_broken() -> None:
    assert broken_promises(FINE) == ()
    assert crash_metrics(FINE)["acknowledged"] == 10.0


def test_what_was_not_promised_may_be_lost() -> None:
    lost = replace(FINE, found=Violations(10, lost=3, lost_window_s=0.5))
    assert broken_promises(lost)
    assert broken_promises(replace(lost, promised=False)) == ()
    assert crash_metrics(lost)["lost_window_s"] == 0.5


@pytest.mark.parametrize("found", [Violations(10, ghosts=1), Violations(10, torn=1), Violations(10, holes=1)])
def test_what_is_always_promised(found: Violations) -> None:
    assert broken_promises(replace(FINE, found=found, promised=False, atomic=False))


def test_the_old_disease_is_counted_and_new_servers_are_cured() -> None:
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
def test_what_nobody_was_changing_has_no_disease(schema: str) -> None:
    """Nor does a table of the same name in another schema."""
    settled = "a" if schema == "discovery" else "c"
    fine = replace(FINE, moment=CrashMoment.DEFINITIONS, found=Violations(10, under_way=frozenset({"a"})), atomic=False)
    assert broken_promises(replace(fine, orphans=(f"{schema}/{settled}.ibd",)))
    assert broken_promises(replace(fine, missing=(f"{schema}/{settled}.frm",)))
    assert broken_promises(replace(fine, failing=(f"{schema}.{settled}: Corrupt",)))
    unflushed = replace(fine, failing=(f"{schema}.{settled}: Corrupt",), promised=False)
    assert bool(broken_promises(unflushed)) == (schema == "discovery"), (
        "where nothing is flushed all of a schema may be old"
    )


OF_HALF_A_TABLE = (
    f"[ERROR] InnoDB: Datafile './{DDL_DATABASE}/table_11.ibd' is corrupted. Cannot determine the space ID"
)


def test_an_old_server_may_complain_of_what_it_had_half_made() -> None:
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


def test_other_moments_leave_no_orphans_in_old_servers_either() -> None:
    assert broken_promises(replace(FINE, orphans=("d/a.ibd",), atomic=False))


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.err")), ids=lambda log: log.name)
def test_a_recovery_that_goes_well_has_no_complaints(log: Path) -> None:
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
def test_damage_is_heard(line: str) -> None:
    assert damage_lines([line]) == (line,)
