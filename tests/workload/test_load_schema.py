"""The build script: rendered from a template, split into statements, sent in packets; and the insert script."""

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Self, cast

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.errors import UsageError
from recovery.linux.files import template_dir
from recovery.model import Layout, Schema, parse_version
from recovery.mysqld.table_files import ALL_TABLES
from recovery.mysqld.table_size import estimate_space
from recovery.workload import script_runner
from recovery.workload.inserts import insert_statements, shorten, table_of, tables_of
from recovery.workload.schema import (
    ScriptSize,
    StatementKind,
    can_extend,
    checked_script_size,
    compressed_kib,
    count_indexes,
    creates_table,
    disk_need,
    kind_of,
    measure_by_rendering,
    render_script,
    render_text,
    script_size,
    script_statements,
    split_script,
    template_variables,
)
from recovery.workload.script_runner import (
    MAX_PACKET_BYTES,
    StatementInterruptedError,
    execute_script,
    packets,
)


@pytest.fixture
def template(tmp_path: Path) -> Callable[[str | bytes], Path]:
    def write(text: str | bytes) -> Path:
        path = tmp_path / "own.sql.j2"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


# -- rendering


def test_the_published_build_script() -> None:
    assert "".join(render_script(Schema(2))) == (
        "create schema discovery;\n"
        "create table discovery.table_1 (id int primary key auto_increment);\n"
        "create table discovery.table_2 (id int primary key auto_increment);\n"
    )


def test_databases_columns_and_rows() -> None:
    script = list(script_statements(Schema(2, databases=2, columns=2, rows=2, database="my-db")))
    assert script[0] == "create schema `my-db_1`"
    table = "create table `my-db_1`.table_1 (id int primary key auto_increment, c1 varchar(32), c2 varchar(32))"
    assert script[1] == table
    assert [statement[:6] for statement in script] == ["create"] * 6 + ["insert"] * 4
    assert script[6].startswith("insert into `my-db_1`.table_1 values (null, 'xxx")
    assert script[6].count("(null") == 2
    inserts = list(script_statements(Schema(1, rows=2500)))[2:]
    assert [insert.count("(null)") for insert in inserts] == [1000, 1000, 500]


@pytest.mark.parametrize(
    ("layout", "clause"),
    [
        (Layout.GENERAL, " tablespace all_tables"),
        (Layout.PARTITIONED, " partition by hash (id) partitions 4"),
        (Layout.ENCRYPTED, " /*!50711 encryption='Y' */ /*M! encrypted=yes */"),
    ],
)
def test_another_layout_adds_one_clause_to_each_table(layout: Layout, clause: str) -> None:
    published = Schema(2, databases=2, columns=1, rows=1001)
    script = "".join(render_script(replace(published, layout=layout)))
    space = f"create tablespace all_tables add datafile '{ALL_TABLES}' engine=innodb;\n"
    assert script.startswith(space) == (layout is Layout.GENERAL)
    tables = script.removeprefix(space)
    assert tables.count(clause) == 4
    assert tables.replace(clause, "") == "".join(render_script(published))


SYSBENCH = template_dir() / "sysbench.sql.j2"


def test_tables_of_sysbench_are_filled_in_turns() -> None:
    schema = Schema(2, databases=2, rows=1500, database="sbtest", template=SYSBENCH)
    script = list(script_statements(schema))
    kinds = [*[StatementKind.IN_ORDER, StatementKind.TABLE, StatementKind.TABLE] * 2, *[StatementKind.FILL] * 8]
    assert [kind_of(statement) for statement in script] == kinds
    inserts = [re.findall(r"into (\S+) .* select (\d+) \+", statement)[0] for statement in script[6:]]
    tables = [f"sbtest_{database}.sbtest{table}" for database in (1, 2) for table in (1, 2)]
    assert inserts == [(table, first) for first in ("1", "1001") for table in tables]
    assert [" < 500 " in statement for statement in script[6:]] == [False] * 4 + [True] * 4


def test_tables_of_sysbench_with_foreign_keys() -> None:
    values = template_variables(Schema(10, database="sbtest")) | {"foreign_keys": 2}
    script = list(split_script(render_text(SYSBENCH.read_text(), "sysbench", values)))
    assert len(script) == 13
    referring = [re.findall(r"table (\S+) .* references (\S+) ", statement)[0] for statement in script[-2:]]
    assert referring == [("sbtest.sbtest10", "sbtest.sbtest9"), ("sbtest.sbtest8", "sbtest.sbtest7")]


@pytest.mark.parametrize(
    ("charset", "clause"),
    [
        ("latin1", "character set latin1 collate latin1_swedish_ci"),
        ("utf8mb4", "character set utf8mb4 collate utf8mb4_general_ci"),
        ("utf8mb4_0900_ai_ci", "character set utf8mb4 collate utf8mb4_0900_ai_ci"),
    ],
)
def test_tables_of_sysbench_have_the_requested_character_set(charset: str, clause: str) -> None:
    template = template_dir() / "sysbench.sql.j2"
    first = next(script_statements(Schema(1, database="sbtest", template=template, charset=charset)))
    assert first == f"create schema sbtest {clause}"


def test_a_script_of_many_tables_is_a_stream() -> None:
    assert len(list(islice(script_statements(Schema(50_000_000)), 10))) == 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("create schema d;\n{% for n in %}{% endfor %}", "line 2"),
        ("create schema d;\n\n{{ tabels }};", "line 3: 'tabels' is undefined"),
        ("{{ 1 // 0 }}", "line 1: "),
        ("{% for n in range(10 ** 12) %}x{% endfor %}", "line 1: a range of more than"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{% include 'other' %}", "line 1"),
        ("-- nothing\n", "no statement at all"),
        ("create schema d; create table d.t (id int);", "fewer tables than requested: 1 instead of 3"),
        (
            "{% for n in range(4) %}create table d.t{{ n }} (id int);{% endfor %}",
            "more tables than requested: 4 instead of 3",
        ),
        ("{% for n in range(3) %}create temporary table t{{ n }} (id int);{% endfor %}", "0 instead of 3"),
        (b"\xff\xfe\x00", "not UTF-8"),
    ],
)
def test_an_invalid_template_is_refused(
    template: Callable[[str | bytes], Path], text: str | bytes, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        checked_script_size(Schema(3, template=template(text)))
    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("place", ["none", "."])
def test_a_template_that_cannot_be_read_is_refused(tmp_path: Path, place: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        checked_script_size(Schema(1, template=tmp_path / place))


def test_a_template_may_create_its_tables_in_other_words(template: Callable[[str | bytes], Path]) -> None:
    text = "{% for n in range(tables) %}CREATE TABLE IF NOT EXISTS d.t{{ n }} (id int comment ';');{% endfor %}"
    assert checked_script_size(Schema(3, template=template(text))) == ScriptSize(3, 3)


def test_a_template_is_rendered_again_only_if_its_file_changed(
    template: Callable[[str | bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[Schema] = []

    def measured(schema: Schema) -> ScriptSize:
        rendered.append(schema)
        return measure_by_rendering(schema)

    monkeypatch.setattr("recovery.workload.schema.measure_by_rendering", measured)
    schema = Schema(1, template=template("create table d.t (id int);"))
    assert [script_size(schema).tables for _ in range(3)] == [1, 1, 1]
    assert len(rendered) == 1
    template("create table d.t (id int);create table d.u (id int);")
    assert script_size(schema).tables == 2


@pytest.mark.parametrize("layout", [layout for layout in Layout if layout is not Layout.COMPRESSED])
@pytest.mark.parametrize("rows", [0, 1, 1000, 1001])
def test_the_size_of_an_own_template_is_known_without_rendering(rows: int, layout: Layout) -> None:
    for databases in (1, 3):
        schema = Schema(5, databases=databases, columns=2, rows=rows, layout=layout)
        assert script_size(schema) == measure_by_rendering(schema)


@pytest.mark.parametrize(
    ("smaller", "larger", "expected"),
    [
        (Schema(3), Schema(5), True),
        (Schema(3, columns=2), Schema(5, columns=2), True),
        (Schema(3, rows=1), Schema(5, rows=1), False),
        (Schema(3, databases=2), Schema(5, databases=2), False),
        (Schema(5), Schema(3), False),
        (Schema(3, layout=Layout.GENERAL), Schema(5, layout=Layout.GENERAL), True),
        (Schema(3, layout=Layout.PARTITIONED), Schema(5, layout=Layout.PARTITIONED), True),
        (Schema(3, layout=Layout.PARTITIONED), Schema(5), False),
    ],
)
def test_which_scripts_continue_where_a_smaller_one_ends(smaller: Schema, larger: Schema, expected: bool) -> None:
    assert can_extend(smaller, larger) is expected


def test_the_space_that_the_tables_of_a_template_take(template: Callable[[str | bytes], Path]) -> None:
    """Two of three have an index."""
    text = """create schema discovery;
    {%- for number in range(3) %}
    create table discovery.t{{ number }} (id int primary key, a int{{ ", key (a)" if number }})
    {%- if rows == 0 or number %} row_format=compressed key_block_size={{ number + 1 }}{% endif %};
    {%- endfor %}"""
    schema = Schema(3, template=template(text))
    assert script_size(schema) == ScriptSize(4, 3, indexes=2, block_bytes=3072)
    assert script_size(replace(schema, rows=1)) == ScriptSize(4, 3, indexes=2), "one of them is not compressed"
    version, settings = parse_version("8.0.31"), {"innodb_page_size": "8k"}
    needed = estimate_space(version, schema, settings, indexes=2, block_bytes=3072)
    assert disk_need(script_size(schema), version, schema, settings, Path()) == needed


# -- statements


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
def test_a_script_is_split_into_statements(script: str, expected: list[str]) -> None:
    assert list(split_script([script])) == expected


_PIECES = st.sampled_from(
    [";", "'", '"', "`", "\\", "--", "-- ", "-", "#", "/*", "*/", "/*!", "/", "*", "\n", " ", "a", "''", "é", "create"]
)


@given(st.lists(_PIECES, max_size=40), st.lists(st.integers(0, 200), max_size=12), st.integers(1, 20))
def test_chunks_do_not_change_the_statements(pieces: list[str], cuts: list[int], read_chars: int) -> None:
    script = "".join(pieces)
    places = sorted({0, len(script), *(cut for cut in cuts if cut < len(script))})
    chunks = [script[start:end] for start, end in pairwise(places)]
    statements = list(split_script([script]))
    assert list(split_script(chunks, read_chars=read_chars)) == statements
    assert list(split_script(script, read_chars=read_chars)) == statements, "one character at a time"


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
def test_the_kind_of_a_statement(statement: str, kind: StatementKind) -> None:
    assert kind_of(statement) is kind


@pytest.mark.parametrize(
    ("statement", "creates"),
    [
        ("Create Table if not exists t (id int)", True),
        ("create or replace table t (id int)", True),
        ("create table t like u", True),
        ("create temporary table t (id int)", False),
        ("create tablespace t", False),
    ],
)
def test_which_statements_create_a_table(statement: str, creates: bool) -> None:
    assert creates_table(statement) is creates


@pytest.mark.parametrize(
    ("definition", "indexes"),
    [
        ("create table t (id int primary key auto_increment)", 0),
        ("create table t (a int, PRIMARY  KEY (a), KEY k_1 (a), unique key (a), INDEX i (a))", 3),
        ("create table t (a int unique, fulltext key f (b), spatial index (c), foreign key (a) references u (a))", 4),
        ("create table t (`key` int comment 'an index', index_of int, unique_id int) key_block_size=4", 0),
    ],
)
def test_secondary_indexes_are_counted(definition: str, indexes: int) -> None:
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


# -- packets

TABLE = "create table d.t (id int)"
INSERT = "insert into d.t values (1)"
FILL = "insert /* fills */ into d.t select 1"


@pytest.mark.parametrize(
    ("script", "batch", "done", "expected"),
    [
        (
            ["create schema d", TABLE, TABLE, TABLE, INSERT, "analyze table d.t", INSERT], 2, 0,
            [
                (0, StatementKind.IN_ORDER, 1), (1, StatementKind.TABLE, 2), (3, StatementKind.TABLE, 1),
                (4, StatementKind.INSERT, 1), (5, StatementKind.IN_ORDER, 1), (6, StatementKind.INSERT, 1),
            ],
        ),
        (
            [TABLE, FILL, FILL], 9, 0,
            [(0, StatementKind.TABLE, 1), (1, StatementKind.FILL, 1), (2, StatementKind.FILL, 1)],
        ),
        (
            ["create schema d", "use d", TABLE, TABLE, INSERT], 500, 3,
            [(1, StatementKind.SESSION, 1), (3, StatementKind.TABLE, 1), (4, StatementKind.INSERT, 1)],
        ),
        (
            [TABLE, "create table d.u (id int references d.t (id))", INSERT, INSERT], 500, 0,
            [(0, StatementKind.TABLE, 1), (1, StatementKind.IN_ORDER, 3)],
        ),
    ],
    ids=["kinds are not mixed", "large inserts go alone", "a continued script repeats `use`", "foreign keys"],
)  # fmt: skip
def test_the_packets_of_a_script(
    script: list[str], batch: int, done: int, expected: list[tuple[int, StatementKind, int]]
) -> None:
    found = packets(script, batch=batch, done=done)
    assert [(packet.first, packet.kind, len(packet.statements)) for packet in found] == expected


def test_a_packet_is_never_larger_than_servers_accept() -> None:
    row = "insert into d.t values ('" + "é" * 200_000 + "')"
    found = list(packets([row] * 5, batch=500))
    assert [len(packet.statements) for packet in found] == [2, 2, 1]
    assert all(len(packet.text.encode()) <= MAX_PACKET_BYTES for packet in found)
    longer = "insert into d.t values ('" + "x" * MAX_PACKET_BYTES + "')"
    assert [packet.first for packet in packets([INSERT, longer, INSERT], batch=500)] == [0, 1, 2]


@given(
    st.lists(st.sampled_from([TABLE, INSERT, FILL, "create schema d"]), max_size=60),
    st.integers(1, 9),
    st.integers(0, 70),
)
def test_every_statement_is_sent_once_and_in_order(script: list[str], batch: int, done: int) -> None:
    found = list(packets(script, batch=batch, done=done))
    assert [statement for packet in found for statement in packet.statements] == script[done:]
    assert [packet.first for packet in found][1:] == [packet.end for packet in found][:-1]


# -- the insert script


def test_the_published_insert_script() -> None:
    script = insert_statements(Schema(200_000))
    assert script == tuple(f"insert into discovery.table_{number} values (null)" for number in range(1, 101))
    assert insert_statements(Schema(3), count=0) == ()
    assert insert_statements(Schema(1, columns=3), count=1) == ("insert into discovery.table_1 (id) values (null)",)


def test_inserts_go_round_the_tables_of_all_databases() -> None:
    assert tables_of(insert_statements(Schema(3), count=7)) == tuple(f"discovery.table_{n}" for n in (1, 2, 3))
    tables = tables_of(insert_statements(Schema(50, databases=4)))
    assert len(tables) == 100
    assert {table.split(".")[0] for table in tables} == {f"discovery_{n}" for n in (1, 2, 3, 4)}


@pytest.mark.parametrize(
    "statement",
    [
        "insert into `d`.`t` values (1)",
        "INSERT d.t values (1)",
        "insert low_priority into `d` . t (id) values (1)",
    ],
)
def test_the_table_of_an_insert_has_one_spelling(statement: str) -> None:
    assert table_of(statement) == "d.t"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("insert into t values (1);", "the insert script holds"),
        ("update d.t set id = 2;", "the insert script holds"),
        ("delete from d.t;", "the insert script holds"),
        ("insert ignore into d.t values (1);", "the insert script holds"),
        ("insert into d.t values (1) on duplicate key update id = 2;", "the insert script holds"),
        ("-- nothing", "no statement"),
    ],
)
def test_an_insert_script_that_cannot_be_counted_is_refused(
    template: Callable[[str | bytes], Path], text: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        insert_statements(Schema(1), template=template(text))


def test_long_statements_are_shortened() -> None:
    assert shorten("select\n  1") == "select 1"
    assert len(shorten("x" * 500)) == 80


class Endless:
    """A connection to a server that answers no statement before it is killed."""

    open = False

    def __init__(self, asked: threading.Event, killed: threading.Event) -> None:
        self._asked, self._killed = asked, killed

    def cursor(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, _: str) -> None:
        self._asked.set()
        self._killed.wait()
        raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")


@pytest.mark.parametrize("statement", ["do sleep(3600)", "set @a = sleep(3600)", "create table s.t (a int)"])
def test_an_interruption_does_not_wait_for_a_long_statement(statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_runner, "_PATIENCE_S", 0.0)
    asked, killed, stop = threading.Event(), threading.Event(), threading.Event()

    def interrupt() -> None:
        asked.wait()
        stop.set()

    signal = threading.Thread(target=interrupt)
    signal.start()
    with pytest.raises(StatementInterruptedError, match="nothing of it is kept"):
        execute_script(
            [statement], open_connection=lambda: cast(Any, Endless(asked, killed)), connections=2, batch=10, done=0,
            progress=lambda _: None, stop=stop, give_up=killed.set,
        )  # fmt: skip
    signal.join()
