"""Which definitions are made, altered, renamed and dropped until the kill, and which are there after it? Pure.

Every statement is known with the catalogue before it and after it: what the server had acknowledged is one catalogue,
and the one statement under way may have happened, or not, but not half."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol, TypeVar

# What came back after a crash, held against what had been promised before it? Counts, and the first examples.

MOST_EXAMPLES = 3


@dataclass(frozen=True)
class Found:
    acknowledged: int
    """Writes whose end the client had been told of, before the kill."""
    lost: int = 0
    """Of those, not there any more."""
    lost_window_s: float | None = None
    """How long before the kill the oldest lost one had been acknowledged; None where none was lost."""
    ghosts: int = 0
    """That are there, though they were rolled back, or never committed."""
    torn: int = 0
    """Transactions that are there in part."""
    holes: int = 0
    """Lost ones after which the same client has others that are there: no loss of the log's end explains them."""
    half_done: int = 0
    """Definitions that are neither as before the statement under way, nor as after it."""
    some_dropped: bool = False
    """And that is a statement that drops several tables, of which some are gone as a whole, the others not at all."""
    examples: tuple[str, ...] = ()
    under_way: frozenset[str] = frozenset()
    """Tables that a definition was being changed of."""


@dataclass(frozen=True)
class Agreement:
    """Of the server's dictionary with the files in its data directory."""

    orphans: tuple[str, ...] = ()
    """What no table is made of: files that the dictionary does not know, and tables that an alteration has left."""
    missing: tuple[str, ...] = ()
    """Files without which a table of the dictionary cannot be."""


def first_of(told: Iterable[str]) -> tuple[str, ...]:
    return tuple(one for one, _ in zip(told, range(MOST_EXAMPLES), strict=False))


def counted(many: int, what: str) -> str:
    """`1 transaction`, `2 transactions`"""
    return f"{many:,} {what}" if many == 1 else f"{many:,} {what}s"


DATABASE = "crash_definitions"
"""A schema of its own."""
_NAMED = re.compile(rf"\b{DATABASE}\.(\w+)")
TABLES = 12
"""Names, among which everything goes on."""
_ROWS = 5
_FILLER = "x" * 100
_KINDS = ("insert", "insert", "add", "add", "remove", "index", "rename", "drop", "drop two", "truncate")
BROKEN = -1
"""Rows of a table that is listed, and cannot be read."""


@dataclass(frozen=True)
class Table:
    columns: tuple[str, ...]
    rows: int = 0


Thing = TypeVar("Thing")


class Chance(Protocol):
    """As `random.Random`."""

    def random(self) -> float: ...
    def choice(self, seq: Sequence[Thing]) -> Thing: ...


Catalogue = Mapping[str, Table]


@dataclass(frozen=True)
class Step:
    statement: str
    before: Catalogue
    after: Catalogue

    @property
    def touched(self) -> frozenset[str]:
        """Tables that it names: an index is no other column, and an empty table may be emptied."""
        return frozenset(_NAMED.findall(self.statement))

    @property
    def drops_several(self) -> bool:
        return len(self.before) - len(self.after) > 1


def steps(chance: Chance) -> Iterator[Step]:
    """Without an end. The same chance brings the same statements."""
    before: dict[str, Table] = {}
    for number in count(1):
        free = [name for name in map("table_{}".format, range(1, TABLES + 1)) if name not in before]
        there = sorted(before)
        if len(there) < 3 or (free and chance.random() < 0.3):
            name = chance.choice(free)
            statement, after = _created(name), {**before, name: Table(("id", "filler"))}
        else:
            statement, after = _changed(chance, before, free=free, number=number)
        yield Step(statement, dict(before), after)
        before = after


def _created(name: str) -> str:
    return (
        f"create table {DATABASE}.{name} (id int primary key auto_increment, filler varchar(100) not null) "
        "engine=innodb row_format=dynamic"
    )


def _changed(
    chance: Chance, before: Mapping[str, Table], *, free: Sequence[str], number: int
) -> tuple[str, dict[str, Table]]:
    names = sorted(before)
    name = chance.choice(names)
    table, rest = before[name], {other: before[other] for other in names if other != name}
    full = f"{DATABASE}.{name}"
    added = table.columns[2:]
    after: dict[str, Table] = dict(rest)
    match chance.choice(_KINDS):
        case "insert":
            values = ", ".join([f"('{_FILLER}')"] * _ROWS)
            statement = f"insert into {full} (filler) values {values}"  # noqa: S608 - all of it is ours
            after[name] = _with(table, table.rows + _ROWS)
        case "add":
            column, way = f"column_{number}", chance.choice(("inplace", "copy"))
            statement = f"alter table {full} add column {column} int not null default 7, algorithm={way}"
            after[name] = Table((*table.columns, column), table.rows)
        case "remove" if added:
            gone = chance.choice(added)
            statement = f"alter table {full} drop column {gone}"
            after[name] = Table(tuple(column for column in table.columns if column != gone), table.rows)
        case "index":
            statement = f"alter table {full} add index index_{number} (filler)"
            after[name] = table
        case "rename" if free:
            other = chance.choice(free)
            statement = f"rename table {full} to {DATABASE}.{other}"
            after[other] = table
        case "drop two" if rest:
            second = chance.choice(sorted(rest))
            statement = f"drop table {full}, {DATABASE}.{second}"
            del after[second]
        case "truncate":
            statement = f"truncate table {full}"
            after[name] = _with(table, 0)
        case _:  # also for what cannot be: there is no column to remove, no name to take, no second table
            statement = f"drop table {full}"
    return statement, after


def _with(table: Table, rows: int) -> Table:
    return Table(table.columns, rows)


def compare(
    answered: Sequence[tuple[Step, float]],
    under_way: Step | None,
    there: Catalogue,
    *,
    killed_at_s: float,
    atomic: bool = True,
) -> Found:
    """`answered`: each step with the monotonic clock when its answer had come. Where half of a statement may be done
    (not `atomic`), that explains what is there sooner than a loss of the last statements."""
    touched = under_way.touched if under_way else frozenset()
    now = answered[-1][0].after if answered else (under_way.before if under_way else {})
    allowed = (now, under_way.after) if under_way else (now,)
    found = Found(len(answered), under_way=touched)
    if any(there == one for one in allowed):
        return found
    names = sorted({*now, *there, *(under_way.after if under_way else ())})
    odd = [name for name in names if there.get(name) not in tuple(one.get(name) for one in allowed)]
    half = [name for name in odd if name in touched]
    others = [name for name in odd if name not in touched]
    back = _steps_back(answered, there)
    if back and (others or atomic):
        return replace(
            found,
            lost=back,
            lost_window_s=max(0.0, killed_at_s - answered[-back][1]),
            examples=first_of(f"lost: {step.statement[:80]}" for step, _ in answered[-back:]),
        )
    # Each table is as before or as after, but not all of them alike: the statement did one of its two.
    mixed = 0 if odd else 1
    told = f"half of: {under_way.statement[:80]}" if under_way and (half or mixed) else ""
    return replace(
        found,
        lost=len(others),
        half_done=len(half) or mixed,
        some_dropped=bool(mixed and under_way and under_way.drops_several),
        examples=first_of((*((told,) if told else ()), *(_odd(name, now, there) for name in others))),
    )


def _steps_back(answered: Sequence[tuple[Step, float]], there: Catalogue) -> int:
    """How many of the last acknowledged statements would have to be lost for this to be there; 0 where none explains
    it."""
    for back in range(1, len(answered) + 1):
        if answered[-back][0].before == there:
            return back
    return 0


def _odd(name: str, now: Catalogue, there: Catalogue) -> str:
    return f"{name} is {_shape(there.get(name))}, and was {_shape(now.get(name))}"


def _shape(table: Table | None) -> str:
    if table is None:
        return "not there"
    return f"({', '.join(table.columns)}), {'unreadable' if table.rows == BROKEN else f'{table.rows} rows'}"
