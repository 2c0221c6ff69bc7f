"""Which statements travel together, and what must be finished before them? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from recovery.load.statements import REFERENCES, Kind, kind_of

MAX_PACKET_BYTES = 1 << 20
"""The smallest default of max_allowed_packet (5.5); a single longer statement goes alone, and the server decides."""


@dataclass(frozen=True)
class Packet:
    """Statements of one kind that go to the server in one piece."""

    first: int
    """Number of its first statement in the script, from 0."""
    kind: Kind
    statements: tuple[str, ...]

    @property
    def text(self) -> str:
        return ";\n".join(self.statements)

    @property
    def end(self) -> int:
        return self.first + len(self.statements)


def packets(script: Iterable[str], *, batch: int, done: int = 0) -> Iterator[Packet]:
    """The script from statement `done` on, in its order. What changes a connection is never skipped: the connections
    that go on are new ones, and have not run it."""
    first, kind, taken, size = done, Kind.IN_ORDER, list[str](), 0
    for number, (statement, its_kind) in enumerate(_kinds(script)):
        if number < done:
            if its_kind is Kind.SESSION:
                yield Packet(number, its_kind, (statement,))
            continue
        length = len(statement) if statement.isascii() else len(statement.encode())
        most = 1 if its_kind is Kind.FILL else batch
        if taken and (its_kind is not kind or len(taken) >= most or size + length > MAX_PACKET_BYTES):
            yield Packet(first, kind, tuple(taken))
            taken, size = [], 0
        if not taken:
            first, kind = number, its_kind
        taken.append(statement)
        size += length + 2
    if taken:
        yield Packet(first, kind, tuple(taken))


def _kinds(script: Iterable[str]) -> Iterator[tuple[str, Kind]]:
    """Rows of tables that refer to each other must keep their order: the row referred to comes first."""
    referring = False
    for statement in script:
        kind = kind_of(statement)
        referring = referring or (kind is Kind.IN_ORDER and REFERENCES.search(statement) is not None)
        yield statement, Kind.IN_ORDER if referring and kind in (Kind.INSERT, Kind.FILL) else kind
