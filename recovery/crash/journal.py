"""What had been promised to each client of a write load, and which transactions does the server hold? Pure.

Each client numbers its transactions, and writes down, outside the server, which ones it was told are committed, and
which ones it has rolled back. A transaction puts its number into several tables, and into the client's balance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from recovery.crash.found import Found, first_of
from recovery.errors import TrialVoidError

COMMITTED, ROLLED_BACK = "c", "r"
"""At the beginning of a journal's line; then comes the number, and the monotonic clock when the answer had come."""
ROLLED_BACK_EVERY = 10
"""Transactions: so the client decides by the number, and the one under way at the kill is known, too."""


@dataclass(frozen=True)
class Answer:
    number: int
    at_s: float


@dataclass(frozen=True)
class Journal:
    client: int
    committed: tuple[Answer, ...] = ()
    rolled_back: tuple[Answer, ...] = ()

    @property
    def under_way(self) -> int:
        """The transaction that may or may not have been sent when the server was killed."""
        return max((one.number for one in (*self.committed, *self.rolled_back)), default=0) + 1

    @property
    def may_be_there(self) -> frozenset[int]:
        """The server need not have, but may have, committed what it was still to answer."""
        found = {one.number for one in self.committed}
        return frozenset(found | ({self.under_way} if self.under_way % ROLLED_BACK_EVERY else set()))


@dataclass(frozen=True)
class Held:
    """By the server, of one client."""

    tables: tuple[frozenset[int], ...] = ()
    """The numbers that each table has."""
    balance: int = 0

    @property
    def whole(self) -> frozenset[int]:
        return frozenset.intersection(*self.tables) if self.tables else frozenset()

    @property
    def partly(self) -> frozenset[int]:
        return frozenset().union(*self.tables)


def read_journal(client: int, text: str) -> Journal:
    """A last line without its end was being written when its client was ended: its transaction counts as under way."""
    found: dict[str, list[Answer]] = {COMMITTED: [], ROLLED_BACK: []}
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        try:
            what, number, at_s = line.split()
            found[what].append(Answer(int(number), float(at_s)))
        except (ValueError, KeyError) as error:
            raise TrialVoidError(
                f"the journal of client {client} has a line that is none: {line.strip()[:60]}",
                "its disk may be full; without the journal nothing is known of what was acknowledged",
            ) from error
    return Journal(client, tuple(found[COMMITTED]), tuple(found[ROLLED_BACK]))


def compare(journals: Sequence[Journal], held: Sequence[Held], *, killed_at_s: float) -> Found:
    """`held` in the order of the journals."""
    pairs = tuple(zip(journals, held, strict=True))
    lost = [(journal.client, one) for journal, there in pairs for one in _lost(journal, there)]
    ghosts = [(journal.client, one) for journal, there in pairs for one in there.partly - journal.may_be_there]
    torn = [(journal.client, one) for journal, there in pairs for one in _torn(there)]
    holes = sum(one.number < max(there.whole, default=0) for journal, there in pairs for one in _lost(journal, there))
    oldest_s = min((one.at_s for _, one in lost), default=None)
    return Found(
        acknowledged=sum(len(journal.committed) for journal in journals),
        lost=len(lost),
        lost_window_s=None if oldest_s is None else max(0.0, killed_at_s - oldest_s),
        ghosts=len(ghosts),
        torn=len(torn),
        holes=holes,
        examples=(
            *first_of(_told(((client, one.number) for client, one in lost), "lost")),
            *first_of(_told(ghosts, "not to be there")),
            *first_of(_told(torn, "torn")),
        ),
    )


def _lost(journal: Journal, there: Held) -> Iterator[Answer]:
    return (one for one in journal.committed if one.number not in there.whole)


def _torn(there: Held) -> Iterator[int]:
    yield from sorted(there.partly - there.whole)
    if there.balance != max(there.whole, default=0):
        yield there.balance


def _told(found: Iterable[tuple[int, int]], what: str) -> Iterator[str]:
    return (f"transaction {number:,} of client {client} is {what}" for client, number in found)
