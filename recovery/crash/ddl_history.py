"""Generates random DDL statements and compares the tables after a crash with their history (pure functions).

Every statement is stored with the catalogue before and after it. After a crash, the server should have the catalogue of
the last acknowledged statement; the one statement that was running may have been executed or not, but not in part."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol, TypeVar

from recovery.crash.crash_findings import DDL_DATABASE, Violations, first_examples

_NAMED = re.compile(rf"\b{DDL_DATABASE}\.(\w+)")
TABLE_COUNT = 12
"""Number of table names that the statements use."""
_ROWS = 5
_FILLER = "x" * 100
_KINDS = ("insert", "insert", "add", "add", "remove", "index", "rename", "drop", "drop two", "truncate")
UNREADABLE_ROWS = -1
"""Number of rows that stands for a table that is listed but cannot be read."""


@dataclass(frozen=True)
class Table:
    columns: tuple[str, ...]
    rows: int = 0


Thing = TypeVar("Thing")


class RandomSource(Protocol):
    """The methods of `random.Random` that are used here."""

    def random(self) -> float: ...
    def choice(self, seq: Sequence[Thing]) -> Thing: ...


Catalogue = Mapping[str, Table]


@dataclass(frozen=True)
class Step:
    """One DDL or INSERT statement, with the catalogue before and after it."""

    statement: str
    before: Catalogue
    after: Catalogue

    @property
    def touched(self) -> frozenset[str]:
        """Tables that the statement names. The catalogues do not show all of them: they do not change if an index is
        added or an empty table is truncated."""
        return frozenset(_NAMED.findall(self.statement))

    @property
    def drops_several(self) -> bool:
        return len(self.before) - len(self.after) > 1


def generate_steps(rng: RandomSource) -> Iterator[Step]:
    """Yields random statements without end; the same random numbers give the same statements."""
    before: dict[str, Table] = {}
    for number in count(1):
        free = [name for name in map("table_{}".format, range(1, TABLE_COUNT + 1)) if name not in before]
        if len(before) < 3 or (free and rng.random() < 0.3):
            name = rng.choice(free)
            statement = (
                f"create table {DDL_DATABASE}.{name} (id int primary key auto_increment, "
                "filler varchar(100) not null) engine=innodb row_format=dynamic"
            )
            after = {**before, name: Table(("id", "filler"))}
        else:
            statement, after = _change_statement(rng, before, free=free, number=number)
        yield Step(statement, dict(before), after)
        before = after


def _change_statement(
    rng: RandomSource, before: Mapping[str, Table], *, free: Sequence[str], number: int
) -> tuple[str, dict[str, Table]]:
    """Returns a random statement about existing tables, with the catalogue after it."""
    names = sorted(before)
    name = rng.choice(names)
    table, rest = before[name], {other: before[other] for other in names if other != name}
    full = f"{DDL_DATABASE}.{name}"
    added = table.columns[2:]
    after: dict[str, Table] = dict(rest)
    match rng.choice(_KINDS):
        case "insert":
            values = ", ".join([f"('{_FILLER}')"] * _ROWS)
            statement = f"insert into {full} (filler) values {values}"  # noqa: S608 - all of it is ours
            after[name] = replace(table, rows=table.rows + _ROWS)
        case "add":
            column, way = f"column_{number}", rng.choice(("inplace", "copy"))
            statement = f"alter table {full} add column {column} int not null default 7, algorithm={way}"
            after[name] = Table((*table.columns, column), table.rows)
        case "remove" if added:
            gone = rng.choice(added)
            statement = f"alter table {full} drop column {gone}"
            after[name] = Table(tuple(column for column in table.columns if column != gone), table.rows)
        case "index":
            statement = f"alter table {full} add index index_{number} (filler)"
            after[name] = table
        case "rename" if free:
            other = rng.choice(free)
            statement = f"rename table {full} to {DDL_DATABASE}.{other}"
            after[other] = table
        case "drop two" if rest:
            second = rng.choice(sorted(rest))
            statement = f"drop table {full}, {DDL_DATABASE}.{second}"
            del after[second]
        case "truncate":
            statement = f"truncate table {full}"
            after[name] = replace(table, rows=0)
        case _:  # also for what is impossible: no column to remove, no free name, no second table
            statement = f"drop table {full}"
    return statement, after


def compare_catalogues(
    answered: Sequence[tuple[Step, float]],
    under_way: Step | None,
    there: Catalogue,
    *,
    killed_at_s: float,
    atomic: bool,
) -> Violations:
    """Compares the tables that are `there` with the history of statements.

    `answered` has each step with the time of its answer on the monotonic clock. Without atomic DDL (`atomic` is False),
    differences in tables of the running statement alone are explained by its partial execution, not by lost
    statements."""
    touched = under_way.touched if under_way else frozenset()
    now = answered[-1][0].after if answered else (under_way.before if under_way else {})
    allowed = (now, under_way.after) if under_way else (now,)
    violations = Violations(len(answered), under_way=touched)
    if there in allowed:
        return violations
    names = sorted({*now, *there, *(under_way.after if under_way else ())})
    odd = [name for name in names if there.get(name) not in tuple(catalogue.get(name) for catalogue in allowed)]
    half = [name for name in odd if name in touched]
    others = [name for name in odd if name not in touched]
    back = _lost_step_count(answered, there)
    if back and (others or atomic):
        return replace(
            violations,
            lost=back,
            lost_window_s=max(0.0, killed_at_s - answered[-back][1]),
            examples=first_examples(f"lost: {step.statement[:80]}" for step, _ in answered[-back:]),
        )
    # Each table is in the old or the new state, but not all in the same one: one half of the statement was executed.
    mixed = 0 if odd else 1
    examples = [f"half of: {under_way.statement[:80]}"] if under_way and (half or mixed) else []
    examples += [
        f"{name} is {_describe_table(there.get(name))}, and was {_describe_table(now.get(name))}" for name in others
    ]
    return replace(
        violations,
        lost=len(others),
        half_done=len(half) or mixed,
        some_dropped=bool(mixed and under_way and under_way.drops_several),
        examples=first_examples(examples),
    )


def _lost_step_count(answered: Sequence[tuple[Step, float]], there: Catalogue) -> int:
    """Returns how many of the last acknowledged statements must have been lost to explain the tables that are there; 0
    if no number explains them."""
    for back in range(1, len(answered) + 1):
        if answered[-back][0].before == there:
            return back
    return 0


def _describe_table(table: Table | None) -> str:
    if table is None:
        return "not there"
    return f"({', '.join(table.columns)}), {'unreadable' if table.rows == UNREADABLE_ROWS else f'{table.rows} rows'}"
