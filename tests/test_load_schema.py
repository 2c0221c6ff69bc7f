"""Is the published script rendered as published, as a stream, and is a wrong template told before anything is built?"""

import re
import resource
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from recovery.errors import UsageError
from recovery.linux.files import ALL_TABLES, template_dir
from recovery.linux.storage import estimate_space
from recovery.model import Layout, Schema, parse_version
from recovery.workload.schema import (
    ScriptSize,
    StatementKind,
    can_extend,
    check_template,
    disk_need,
    kind_of,
    measure_by_rendering,
    render_script,
    render_text,
    script_size,
    script_statements,
    split_script,
    template_text,
    template_variables,
)


def own(folder: Path, text: str, tables: int = 3) -> Schema:
    path = folder / "own.sql.j2"
    path.write_text(text)
    return Schema(tables, template=path)


def test_the_published_script() -> None:
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


LYING = {
    Layout.GENERAL: " tablespace all_tables",
    Layout.PARTITIONED: " partition by hash (id) partitions 4",
    Layout.ENCRYPTED: " /*!50711 encryption='Y' */ /*M! encrypted=yes */",
}


@pytest.mark.parametrize("layout", LYING)
def test_other_layouts_differ_by_nothing_else(layout: Layout) -> None:
    published = Schema(2, databases=2, columns=1, rows=1001)
    script = "".join(render_script(replace(published, layout=layout)))
    space = f"create tablespace all_tables add datafile '{ALL_TABLES}' engine=innodb;\n"
    assert script.startswith(space) == (layout is Layout.GENERAL)
    tables = script.removeprefix(space)
    assert tables.count(LYING[layout]) == 4
    assert tables.replace(LYING[layout], "") == "".join(render_script(published))


def test_many_rows_are_spread_over_statements() -> None:
    inserts = list(script_statements(Schema(1, rows=2500)))[2:]
    assert [insert.count("(null)") for insert in inserts] == [1000, 1000, 500]


SYSBENCH = template_dir() / "sysbench.sql.j2"


def test_tables_of_sysbench() -> None:
    schema = Schema(2, databases=2, rows=1500, database="sbtest", template=SYSBENCH)
    script = list(script_statements(schema))
    assert [kind_of(statement) for statement in script] == [
        *[StatementKind.IN_ORDER, StatementKind.TABLE, StatementKind.TABLE] * 2,
        *[StatementKind.FILL] * 8,
    ]
    inserts = [re.findall(r"into (\S+) .* select (\d+) \+", statement)[0] for statement in script[6:]]
    tables = [f"sbtest_{database}.sbtest{table}" for database in (1, 2) for table in (1, 2)]
    assert inserts == [(table, first) for first in ("1", "1001") for table in tables]
    assert [" < 500 " in statement for statement in script[6:]] == [False] * 4 + [True] * 4


def test_tables_of_sysbench_that_refer_to_others() -> None:
    values = template_variables(Schema(10, database="sbtest")) | {"foreign_keys": 2}
    script = list(split_script(render_text(SYSBENCH.read_text(), "sysbench", values)))
    assert len(script) == 13
    referring = [re.findall(r"table (\S+) .* references (\S+) ", statement)[0] for statement in script[-2:]]
    assert referring == [("sbtest.sbtest10", "sbtest.sbtest9"), ("sbtest.sbtest8", "sbtest.sbtest7")]


def test_many_tables_take_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert measure_by_rendering(Schema(200_000)) == ScriptSize(200_001, 200_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_the_first_statements_come_at_once() -> None:
    assert len(list(islice(script_statements(Schema(50_000_000)), 10))) == 10


@pytest.mark.parametrize(
    ("text", "said"),
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
    ],
)
def test_a_wrong_template(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_template(own(tmp_path, text))
    assert said in caught.value.message
    assert caught.value.hint


def test_tables_in_other_words(tmp_path: Path) -> None:
    text = "{% for n in range(tables) %}CREATE TABLE IF NOT EXISTS d.t{{ n }} (id int comment ';');{% endfor %}"
    assert check_template(own(tmp_path, text)) == ScriptSize(3, 3)


def test_a_template_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be read: No such file"):
        template_text(Schema(1, template=tmp_path / "none"))
    with pytest.raises(UsageError, match="cannot be read"):
        template_text(Schema(1, template=tmp_path))


def test_a_template_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        check_template(Schema(1, template=tmp_path / "binary"))


@pytest.mark.parametrize("layout", [layout for layout in Layout if layout is not Layout.COMPRESSED])
@pytest.mark.parametrize("rows", [0, 1, 1000, 1001])
@pytest.mark.parametrize("databases", [1, 3])
def test_the_size_of_our_own_templates_is_known_without_rendering(rows: int, databases: int, layout: Layout) -> None:
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
def test_a_script_that_goes_on_where_a_smaller_one_ended(smaller: Schema, larger: Schema, expected: bool) -> None:
    assert can_extend(smaller, larger) is expected


def test_what_a_template_says_of_the_space_its_tables_take(tmp_path: Path) -> None:
    """Two of three have an index."""
    text = """create schema discovery;
    {%- for number in range(3) %}
    create table discovery.t{{ number }} (id int primary key, a int{{ ", key (a)" if number }})
    {%- if rows == 0 or number %} row_format=compressed key_block_size={{ number + 1 }}{% endif %};
    {%- endfor %}"""
    schema = own(tmp_path, text)
    assert script_size(schema) == ScriptSize(4, 3, indexes=2, block_bytes=3072)
    assert script_size(replace(schema, rows=1)) == ScriptSize(4, 3, indexes=2), "one of them is not compressed"
    version, settings = parse_version("8.0.31"), {"innodb_page_size": "8k"}
    needed = estimate_space(version, schema, settings, indexes=2, block_bytes=3072)
    assert disk_need(script_size(schema), version, schema, settings) == needed
