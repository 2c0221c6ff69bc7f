"""Errors of statements of a schema script."""

from __future__ import annotations

import pymysql
import pytest

from recovery.workload.schema import StatementKind
from recovery.workload.script_runner import Packet, StatementFailedError, run_packet


class RefusingConnection:
    def __init__(self, number: int) -> None:
        self._number = number

    def cursor(self) -> object:
        raise pymysql.err.OperationalError(self._number, "Access denied")


@pytest.mark.parametrize("number", [1227, 1064])
def test_a_statement_that_the_server_refuses_is_to_be_corrected(number: int) -> None:
    packet = Packet(0, StatementKind.IN_ORDER, ("create tablespace t add datafile 't.ibd'",))
    with pytest.raises(StatementFailedError) as caught:
        run_packet(RefusingConnection(number), packet)  # type: ignore[arg-type]
    assert caught.value.hint.startswith("correct the template")
