"""Do packets keep the script's order where it matters, and lose nothing?"""

from hypothesis import given
from hypothesis import strategies as st

from recovery.workload.schema import StatementKind
from recovery.workload.script_runner import MAX_PACKET_BYTES, packets

TABLE = "create table d.t (id int)"
INSERT = "insert into d.t values (1)"
FILL = "insert /* fills */ into d.t select 1"


def test_kinds_never_share_a_packet() -> None:
    script = ["create schema d", TABLE, TABLE, TABLE, INSERT, "analyze table d.t", INSERT]
    found = [(packet.first, packet.kind, len(packet.statements)) for packet in packets(script, batch=2)]
    assert found == [
        (0, StatementKind.IN_ORDER, 1),
        (1, StatementKind.TABLE, 2),
        (3, StatementKind.TABLE, 1),
        (4, StatementKind.INSERT, 1),
        (5, StatementKind.IN_ORDER, 1),
        (6, StatementKind.INSERT, 1),
    ]


def test_a_packet_is_never_larger_than_servers_take() -> None:
    row = "insert into d.t values ('" + "é" * 200_000 + "')"
    found = list(packets([row] * 5, batch=500))
    assert [len(packet.statements) for packet in found] == [2, 2, 1]
    assert all(len(packet.text.encode()) <= MAX_PACKET_BYTES for packet in found)


def test_a_longer_statement_goes_alone() -> None:
    found = list(packets([INSERT, "insert into d.t values ('" + "x" * MAX_PACKET_BYTES + "')", INSERT], batch=500))
    assert [packet.first for packet in found] == [0, 1, 2]


def test_inserts_that_fill_go_one_by_one_but_beside_each_other() -> None:
    found = [(packet.first, packet.kind, len(packet.statements)) for packet in packets([TABLE, FILL, FILL], batch=9)]
    assert found == [(0, StatementKind.TABLE, 1), (1, StatementKind.FILL, 1), (2, StatementKind.FILL, 1)]


def test_going_on_repeats_only_what_changes_a_connection() -> None:
    script = ["create schema d", "use d", TABLE, TABLE, INSERT]
    found = [(packet.first, packet.kind) for packet in packets(script, batch=500, done=3)]
    assert found == [(1, StatementKind.SESSION), (3, StatementKind.TABLE), (4, StatementKind.INSERT)]


def test_rows_of_tables_that_refer_to_each_other_keep_their_order() -> None:
    script = [TABLE, "create table d.u (id int references d.t (id))", INSERT, INSERT]
    assert [packet.kind for packet in packets(script, batch=500)] == [StatementKind.TABLE, StatementKind.IN_ORDER]


@given(
    st.lists(st.sampled_from([TABLE, INSERT, FILL, "create schema d"]), max_size=60),
    st.integers(1, 9),
    st.integers(0, 70),
)
def test_every_statement_once_and_in_order(script: list[str], batch: int, done: int) -> None:
    found = list(packets(script, batch=batch, done=done))
    assert [statement for packet in found for statement in packet.statements] == script[done:]
    assert [packet.first for packet in found][1:] == [packet.end for packet in found][:-1]
