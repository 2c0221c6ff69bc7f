"""Which promises has a server broken that came back after a crash, and what does the run come to in figures? Pure.

Whether it had promised to lose nothing depends on how it was told to write its log; that nothing is there in part, and
nothing that was rolled back, is promised always."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from recovery.crash import definitions
from recovery.crash.found import Agreement, Found, counted, first_of
from recovery.work import Moment

_TABLE = re.compile(rf"{definitions.DATABASE}[`'\"]?[/.][`'\"]?(#?[\w-]+)")
"""Whose definition was changed: as in a path, or in a statement."""


@dataclass(frozen=True)
class Back:
    """All that was looked at after the crash."""

    moment: Moment
    found: Found
    agreement: Agreement
    failing: tuple[str, ...]
    """Tables that CHECK TABLE finds fault with, and its words."""
    complaints: tuple[str, ...]
    """Lines of the log that speak of damage."""
    promised: bool
    """Nothing that was acknowledged is lost."""
    atomic: bool
    """Definitions are made and files removed as a whole, or not at all."""
    all_or_none: bool = True
    """Of several tables that one statement drops all are gone, or none."""


def measures(back: Back) -> dict[str, float]:
    found = back.found
    told = {
        "acknowledged": found.acknowledged,
        "lost": found.lost,
        "ghosts": found.ghosts,
        "torn": found.torn,
        "holes": found.holes,
        "half_done": found.half_done,
        "orphans": len(back.agreement.orphans),
        "missing": len(back.agreement.missing),
        "failing": len(back.failing),
        "complaints": len(back.complaints),
    }
    window = {} if found.lost_window_s is None else {"lost_window_s": found.lost_window_s}
    return {name: float(value) for name, value in told.items()} | window


def broken(back: Back) -> tuple[str, ...]:
    """In words; nothing where all were kept."""
    told = tuple(_broken(back))
    return (*told, *back.found.examples) if told else ()


def _broken(back: Back) -> Iterator[str]:
    yield from _of_writes(back.found, back)
    is_ill = _is_ill(back)
    complaints = [line for line in back.complaints if not is_ill(line)]
    if complaints:
        yield f"its log speaks of damage: {complaints[0][:160]}"
    yield from _of_definitions(back, is_ill)


def _is_ill(back: Back) -> Callable[[str], bool]:
    """Whether something that is told is of the old servers' known disease, which is counted: a definition is changed in
    one place after the other. So only of what was being changed; where nothing is promised, of what had been, too."""
    if back.moment is not Moment.DEFINITIONS or back.atomic:
        return lambda _: False

    def is_ill(told: str) -> bool:
        tables = _TABLE.findall(told)
        return any(one in back.found.under_way or one.startswith("#") or not back.promised for one in tables)

    return is_ill


def _of_writes(found: Found, back: Back) -> Iterator[str]:
    what = "statement" if back.moment is Moment.DEFINITIONS else "transaction"
    if found.lost and back.promised:
        yield f"{found.lost:,} of {counted(found.acknowledged, f'acknowledged {what}')} lost"
    if found.ghosts:
        yield f"{counted(found.ghosts, what)} there that had not been committed"
    if found.torn:
        yield f"{counted(found.torn, what)} there in part"
    if found.holes:
        yield f"{counted(found.holes, what)} lost before others that are there"


def _of_definitions(back: Back, is_ill: Callable[[str], bool]) -> Iterator[str]:
    failing, missing, orphans = (
        tuple(one for one in told if not is_ill(one))
        for told in (back.failing, back.agreement.missing, back.agreement.orphans)
    )
    if back.found.half_done and back.atomic and (back.all_or_none or not back.found.some_dropped):
        yield f"{counted(back.found.half_done, 'definition')} half done"
    if failing:
        yield f"CHECK TABLE: {'; '.join(first_of(failing))}"
    if missing:
        yield f"files missing: {', '.join(first_of(missing))}"
    if orphans:
        yield f"left behind: {', '.join(first_of(orphans))}"
