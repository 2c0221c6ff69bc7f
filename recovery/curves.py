"""Which measured runs make a curve over the number of tables, and what line goes through it? Pure."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from recovery.fit import Fit, fit
from recovery.stored import Run, Session
from recovery.summary import measured_by


@dataclass(frozen=True)
class Curve:
    """Of one version under one variant, over all numbers of tables."""

    version: str
    variant: str
    points: Points
    """Numbers of tables as the server counted them, and the runs at each."""
    fit: Fit | None

    @property
    def held_out(self) -> HeldOut | None:
        """What the smaller points say of the largest one; None where two of them are not left."""
        (tables, runs), smaller = self.points[-1], self.points[:-1]
        found = _fit_of(smaller)
        return None if found is None else HeldOut(tables, runs, *found.predict(tables))


@dataclass(frozen=True)
class HeldOut:
    """A point, and how long a run there was to take by a line that knows nothing of it."""

    tables: int
    runs: tuple[Run, ...]
    seconds: float
    low_s: float
    high_s: float

    @property
    def inside(self) -> int:
        """Runs within the interval: 95 of 100, if the line goes on as it is."""
        return sum(self.low_s <= (run.startup_s or 0.0) <= self.high_s for run in self.runs)


Points = tuple[tuple[int, tuple[Run, ...]], ...]


_NUMBER = re.compile(r"[1-9][0-9]{0,14}")


def _fit_of(points: Points) -> Fit | None:
    return fit((tables, run.startup_s) for tables, runs in points for run in runs if run.startup_s is not None)


def curves(session: Session) -> tuple[Curve, ...]:
    """Empty unless several numbers of tables were asked for."""
    asked = frozenset(str(session.settings.get("points") or "").split())
    found: dict[tuple[str, str], list[tuple[int, tuple[Run, ...]]]] = {}
    for version, variant, runs in measured_by(session):
        name, _, number = variant.rpartition("-")
        if number in asked and _NUMBER.fullmatch(number):
            found.setdefault((version, name), []).append((runs[0].tables or int(number), runs))
    return tuple(
        Curve(version, name, tuple(points), _fit_of(tuple(points))) for (version, name), points in found.items()
    )


def predicted_at(session: Session) -> int | None:
    """The number of tables that a prediction was asked for."""
    asked = session.settings.get("predict")
    return asked if isinstance(asked, int) else None


def stored_fits(session: Session) -> list[dict[str, Any]]:
    """As in report.json."""
    return [
        {
            "version": curve.version,
            "variant": curve.variant,
            **asdict(curve.fit),
            **_prediction(curve.fit, session),
            **_held_out(curve),
        }
        for curve in curves(session)
        if curve.fit is not None
    ]


def _prediction(found: Fit, session: Session) -> dict[str, Any]:
    tables = predicted_at(session)
    if tables is None:
        return {}
    return {"predicted": _told(tables, *found.predict(tables))}


def _held_out(curve: Curve) -> dict[str, Any]:
    found = curve.held_out
    if found is None:
        return {}
    told = _told(found.tables, found.seconds, found.low_s, found.high_s)
    return {"held_out": told | {"runs": len(found.runs), "inside": found.inside}}


def _told(tables: int, seconds: float, low_s: float, high_s: float) -> dict[str, Any]:
    return {"tables": tables, "seconds": seconds, "low_s": low_s, "high_s": high_s}
