"""Does the splitter find exactly the statements that a server would run, however the script is cut into chunks?"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.workload.schema import StatementKind, compressed_kib, count_indexes, creates_table, kind_of, split_script


def statements(script: str) -> list[str]:
    return list(split_script([script]))


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        (" \n;;  ; \n", []),
        ("select 1", ["select 1"]),
        ("\u00a0; select 1\u2003;", ["\u00a0", "select 1\u2003"]),
        ("select 1;select 2;\n", ["select 1", "select 2"]),
        ("insert into t values ('a;b');x", ["insert into t values ('a;b')", "x"]),
        ("select 'it''s; fine';x", ["select 'it''s; fine'", "x"]),
        (r"select 'it\'s; fine';x", [r"select 'it\'s; fine'", "x"]),
        (r"select '\\';x", [r"select '\\'", "x"]),
        ('select "a;""b;";x', ['select "a;""b;"', "x"]),
        (r"select `a\`;x", [r"select `a\`", "x"]),
        ("select `a;``b;`;x", ["select `a;``b;`", "x"]),
        ("-- one; two\nselect 1;", ["select 1"]),
        ("--\nselect 1;", ["select 1"]),
        ("select 1 --1;x", ["select 1 --1", "x"]),
        ("select 3-1;x", ["select 3-1", "x"]),
        ("select 1 -- it's; so\n;x", ["select 1 -- it's; so", "x"]),
        ("# it's; so\nselect 1;", ["select 1"]),
        ("/* it's; so */ select 1/2;", ["select 1/2"]),
        ("select /* ; **/ 1;x", ["select /* ; **/ 1", "x"]),
        ("/*!50100 set a = 1; */;x", ["/*!50100 set a = 1; */", "x"]),
        ("/*M!100100 set a = 1 */;", ["/*M!100100 set a = 1 */"]),
        ("select 1;\n-- the end", ["select 1"]),
        ("select 1;\n-- the end\n", ["select 1"]),
        ("select 1;\n/* the end; */\n", ["select 1"]),
        ("select 'never closed; x", ["select 'never closed; x"]),
    ],
)
def test_split(script: str, expected: list[str]) -> None:
    assert statements(script) == expected


_PIECES = st.sampled_from(
    [";", "'", '"', "`", "\\", "--", "-- ", "-", "#", "/*", "*/", "/*!", "/", "*", "\n", " ", "a", "''", "é", "create"]
)


@given(st.lists(_PIECES, max_size=40), st.lists(st.integers(0, 200), max_size=12), st.integers(1, 20))
def test_any_cut_gives_the_same_statements(pieces: list[str], cuts: list[int], read_chars: int) -> None:
    script = "".join(pieces)
    places = sorted({0, len(script), *(cut for cut in cuts if cut < len(script))})
    chunks = [script[start:end] for start, end in pairwise(places)]
    assert list(split_script(chunks, read_chars=read_chars)) == statements(script)


@given(st.lists(_PIECES, max_size=40), st.integers(1, 5))
def test_one_character_at_a_time(pieces: list[str], read_chars: int) -> None:
    script = "".join(pieces)
    assert list(split_script(script, read_chars=read_chars)) == statements(script)


def test_a_long_statement_takes_no_quadratic_time() -> None:
    values = ["(null, 'some text that is not short')," for _ in range(200_000)]
    assert len(list(split_script(["insert into t values ", *values, "(1);", "select 1"]))) == 2


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("create table d.t (id int)", StatementKind.TABLE),
        ("CREATE  TABLE IF NOT EXISTS d.t (id int)", StatementKind.TABLE),
        ("create table d.likes (id int)", StatementKind.TABLE),
        ("create table d.t like d.u", StatementKind.IN_ORDER),
        ("create table d.t (id int, foreign key (id) references d.u (id))", StatementKind.IN_ORDER),
        ("create table d.t as select 1", StatementKind.IN_ORDER),
        ("create temporary table t (id int)", StatementKind.IN_ORDER),
        ("create schema d", StatementKind.IN_ORDER),
        ("insert into d.t values (null)", StatementKind.INSERT),
        ("insert into d.t select * from d.u", StatementKind.IN_ORDER),
        ("insert /* fills */ into d.t select 1", StatementKind.FILL),
        ("use d", StatementKind.SESSION),
        ("SET sql_mode = ''", StatementKind.SESSION),
    ],
)
def test_kinds(statement: str, kind: StatementKind) -> None:
    assert kind_of(statement) is kind


def test_what_creates_a_table() -> None:
    assert creates_table("Create Table if not exists t (id int)")
    assert creates_table("create or replace table t (id int)")
    assert creates_table("create table t like u")
    assert not creates_table("create temporary table t (id int)")
    assert not creates_table("create tablespace t")


@pytest.mark.parametrize(
    ("definition", "indexes"),
    [
        ("create table t (id int primary key auto_increment)", 0),
        ("create table t (a int, PRIMARY  KEY (a), KEY k_1 (a), unique key (a), INDEX i (a))", 3),
        ("create table t (a int unique, fulltext key f (b), spatial index (c), foreign key (a) references u (a))", 4),
        ("create table t (`key` int comment 'an index', index_of int, unique_id int) key_block_size=4", 0),
    ],
)
def test_indexes_beside_the_primary_key_are_counted(definition: str, indexes: int) -> None:
    assert count_indexes(definition) == indexes


@pytest.mark.parametrize(
    ("options", "kib"),
    [
        ("", None),
        ("row_format=dynamic comment='row_format=compressed'", None),
        ("ROW_FORMAT = Compressed", 0),
        ("row_format=compressed key_block_size=4", 4),
        ("key_block_size 16", 16),
    ],
)
def test_the_size_of_compressed_pages(options: str, kib: int | None) -> None:
    assert compressed_kib(f"create table t (id int primary key) {options}") == kib
