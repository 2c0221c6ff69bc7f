"""Is any script parted into its statements, the same however it comes in pieces?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from fuzzing.target import Target, text_of
from recovery.errors import RecoveryError
from recovery.model import Layout, Schema
from recovery.workload.inserts import shorten, table_of
from recovery.workload.schema import StatementKind, creates_table, kind_of, script_statements, split_script

_SCRIPTS = (
    "use a; set x = 1; insert /* fills */ into a.b select 1 union select 2; -- c\nselect ';' # d;\n;",
    "create temporary table a.b (id int) /* c; */; /*!50711 alter table a.b x=1 */; insert into `a`.`b` values (';');",
    "insert low_priority into a.b values (1) on duplicate key update c = 2; create table if not exists a.`b;` like c;",
)  # fmt: skip


def check(data: bytes) -> None:
    text = text_of(data)
    found = list(split_script([text]))
    # Piece by piece, a long one is looked at again when it has doubled.
    assert list(split_script(iter(text), read_chars=1)) == found
    at = 0
    for statement in found:
        assert statement
        at = text.index(statement, at) + len(statement)
        assert kind_of(statement) in StatementKind
        assert len(shorten(statement)) <= 80
        if creates_table(statement):
            assert kind_of(statement) in (StatementKind.TABLE, StatementKind.IN_ORDER)
        with suppress(RecoveryError):
            assert table_of(statement).count(".") == 1


def _seeds() -> Iterator[bytes]:
    yield from (script.encode() for script in _SCRIPTS)
    for layout in (Layout.FILES, Layout.GENERAL):
        yield "".join(f"{one};\n" for one in script_statements(Schema(2, columns=1, rows=2, layout=layout))).encode()


TARGET = Target(
    "statements",
    check,
    _seeds,
    words=("create table ", "insert into ", "/*", "*/", "/*!", "--\n", "# ", "`", "'", '"', "\\", "values (", "use "),
    most_bytes=512,
    share=200,
)
