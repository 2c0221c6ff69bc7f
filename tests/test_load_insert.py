"""Is the insert script the published one, and can every row it writes be found again by counting?"""

from pathlib import Path

import pytest

from recovery.errors import UsageError
from recovery.model import Schema
from recovery.workload.inserts import insert_statements, shorten, table_of, tables_of


def test_the_published_script() -> None:
    script = insert_statements(Schema(200_000))
    assert len(script) == 100
    assert script[0] == "insert into discovery.table_1 values (null)"
    assert script[99] == "insert into discovery.table_100 values (null)"


def test_fewer_tables_go_round() -> None:
    assert tables_of(insert_statements(Schema(3), count=7)) == tuple(f"discovery.table_{n}" for n in (1, 2, 3))


def test_several_databases_share_them() -> None:
    tables = tables_of(insert_statements(Schema(50, databases=4)))
    assert len(tables) == 100
    assert {table.split(".")[0] for table in tables} == {f"discovery_{n}" for n in (1, 2, 3, 4)}


def test_more_columns() -> None:
    assert insert_statements(Schema(1, columns=3), count=1) == ("insert into discovery.table_1 (id) values (null)",)


@pytest.mark.parametrize(
    "statement",
    [
        "insert into `d`.`t` values (1)",
        "INSERT d.t values (1)",
        "insert low_priority into `d` . t (id) values (1)",
    ],
)
def test_names_are_told_in_one_spelling(statement: str) -> None:
    assert table_of(statement) == "d.t"


@pytest.mark.parametrize(
    "statement",
    [
        "insert into t values (1)",
        "update d.t set id = 2",
        "delete from d.t",
        "insert ignore into d.t values (1)",
        "insert into d.t values (1) on duplicate key update id = 2",
    ],
)
def test_what_can_not_be_counted_is_refused(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "own.sql.j2"
    path.write_text(statement + ";")
    with pytest.raises(UsageError, match="the insert script holds"):
        insert_statements(Schema(1), template=path)


def test_an_empty_script(tmp_path: Path) -> None:
    path = tmp_path / "own.sql.j2"
    path.write_text("-- nothing")
    with pytest.raises(UsageError, match="no statement"):
        insert_statements(Schema(1), template=path)


def test_long_statements_are_shown_short() -> None:
    assert shorten("select\n  1") == "select 1"
    assert len(shorten("x" * 500)) == 80


def test_no_insert_at_all_can_be_asked_for() -> None:
    assert insert_statements(Schema(3), count=0) == ()
