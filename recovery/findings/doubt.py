"""What is a doubt made of, and over which runs is it looked for?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from recovery.cells import cell_words
from recovery.model import Cache
from recovery.stored import Finding, Run, Session
from recovery.summary import measured_by

Check = Callable[[Session], Iterator[Finding]]
"""Looks at what is stored, and at nothing else."""

MIB = 1 << 20
_MOST_APIECE, _MOST_NAMED = 3, 4
_MOST = 1e30
"""What is beyond, or no number, measures nothing."""


def doubt(kind: str, about: str, text: str, hint: str) -> Finding:
    return Finding(about, text, hint, kind)


def cells(session: Session) -> Iterator[tuple[str, tuple[Run, ...]]]:
    """The runs that count, by what they are called in the report: `5.7.22 cold`."""
    for version, variant, runs in measured_by(session):
        yield f"{version} {cell_words(session, variant)}", runs


def gathered(found: Iterable[Finding]) -> Iterator[Finding]:
    """What holds for many cells is said once: of the first, and where else."""
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for one in found:
        kinds.setdefault((one.kind, one.hint), []).append(one)
    for group in kinds.values():
        if len(group) <= _MOST_APIECE:
            yield from group
            continue
        first, *others = group
        told = "; ".join(one.about for one in others[:_MOST_NAMED])
        more = f"; {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        text = f"{first.about}: {first.text} The like of it in {told}{more}."
        yield Finding(f"{len(group)} cells", text, first.hint, first.kind)


def is_cold(run: Run) -> bool:
    return Cache.COLD.begins(run.variant)


def numbered(runs: tuple[Run, ...] | list[Run]) -> str:
    """`run 1, 4`"""
    return f"run{'s' if len(runs) > 1 else ''} " + ", ".join(str(run.number) for run in runs)


def beyond(runs: Iterable[Run], figure: Callable[[Run], float | None], limit: float) -> dict[Run, float]:
    """The runs whose figure, where they have it, is more than this."""
    return {run: value for run in runs if (value := figure(run)) is not None and value > limit}


def server_of(session: Session, version: str) -> Mapping[str, str]:
    """What is known of the server, under whichever settings it was asked first."""
    named = (known for name, known in session.servers.items() if name == version or name.startswith(f"{version} "))
    return next(named, {})


def number(value: object) -> float | None:
    """A stored fact as a figure; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    return found if found == 0 or 1 / _MOST < abs(found) < _MOST else None
