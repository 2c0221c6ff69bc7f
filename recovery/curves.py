"""Which measured runs make a curve over the number of tables, and what line goes through it? Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from recovery.fit import Fit, fit
from recovery.model import Run, Session
from recovery.summary import measured_by


@dataclass(frozen=True)
class Curve:
    """Of one version under one variant, over all numbers of tables."""

    version: str
    variant: str
    points: tuple[tuple[int, tuple[Run, ...]], ...]
    """Numbers of tables as the server counted them, and the runs at each."""
    fit: Fit | None


def curves(session: Session) -> tuple[Curve, ...]:
    """Empty unless several numbers of tables were asked for."""
    asked = frozenset(map(int, str(session.settings.get("points") or "").split()))
    found: dict[tuple[str, str], list[tuple[int, tuple[Run, ...]]]] = {}
    for version, variant, runs in measured_by(session):
        name, _, number = variant.rpartition("-")
        if number.isdigit() and int(number) in asked:
            found.setdefault((version, name), []).append((runs[0].tables or int(number), runs))
    return tuple(
        Curve(version, name, tuple(points), fit((n, run.startup_s or 0.0) for n, runs in points for run in runs))
        for (version, name), points in found.items()
    )


def predicted_at(session: Session) -> int | None:
    """The number of tables that a prediction was asked for."""
    asked = session.settings.get("predict")
    return asked if isinstance(asked, int) else None


def stored_fits(session: Session) -> list[dict[str, Any]]:
    """As in report.json."""
    return [
        {"version": curve.version, "variant": curve.variant, **asdict(curve.fit), **_prediction(curve.fit, session)}
        for curve in curves(session)
        if curve.fit is not None
    ]


def _prediction(found: Fit, session: Session) -> dict[str, Any]:
    tables = predicted_at(session)
    if tables is None:
        return {}
    seconds, low_s, high_s = found.predict(tables)
    return {"predicted": {"tables": tables, "seconds": seconds, "low_s": low_s, "high_s": high_s}}
