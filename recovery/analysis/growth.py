"""Curves of the startup against the number of tables, their fits, and the test whether a fit predicts."""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import asdict, dataclass
from typing import Any

from recovery.analysis.statistics import (
    MIN_POINTS,
    MIN_RUNS_FOR_A_FIT,
    MIN_SESSIONS,
    LineFit,
    Prediction,
    SessionSpread,
    fit_line,
)
from recovery.analysis.summary import mean, measured_runs_by_cell, metric_values
from recovery.model import STARTUP_METRIC, TABLES_AXIS, Run, Session

MAX_PREDICTION_ERROR = 0.25
"""Largest relative deviation of the largest point from its prediction for which predictions are used."""
TEST_NEEDS = (
    f"the test of a prediction needs at least {MIN_POINTS} smaller numbers of tables and {MIN_RUNS_FOR_A_FIT} runs"
)


@dataclass(frozen=True)
class Curve:
    """The measured starts of one version in one variant, for all numbers of tables."""

    version: str
    variant: str
    points: Points
    """Numbers of tables as counted by the server, and the runs at each."""
    fit: LineFit | None
    between: SessionSpread | None = None
    """How much the sessions of this curve differ; None with fewer than three."""

    @property
    def memory_fit(self) -> MemoryFit | None:
        """The fit of the peak memory; None if there are too few values."""
        line = _fit_of(self.points, "peak_memory_bytes")  # in bytes
        return None if line is None else MemoryFit(line.fixed_s, line.per_table_s, line.per_table_error_s, line.called)

    @property
    def held_out(self) -> PredictionTest | None:
        """The largest point compared with its prediction by the smaller ones; None if those are too few."""
        (tables, runs), smaller = self.points[-1], self.points[:-1]
        found = _fit_of(smaller)
        return None if found is None else PredictionTest(tables, runs, found.form, found.predict(tables))

    @property
    def predicts(self) -> bool | None:
        """Whether a prediction for more tables is used, which requires that the largest point is predicted well by the
        smaller ones. None if that cannot be tested."""
        found = self.held_out
        return None if found is None else found.off is not None and abs(found.off) <= MAX_PREDICTION_ERROR


@dataclass(frozen=True)
class MemoryFit:
    """A straight line of the peak memory: a fixed part and one for each table."""

    fixed_bytes: float
    per_table_bytes: float
    per_table_error_bytes: float
    """Half of its 95 % interval, if the straight line fits."""
    form: str
    """The form that fits, as it is called in reports."""


@dataclass(frozen=True)
class PredictionTest:
    """The largest point, and its prediction by the other points."""

    tables: int
    runs: tuple[Run, ...]
    form: str
    """The form by which the smaller points predict it: `straight line` or `piecewise`."""
    predicted: Prediction

    @property
    def measured_s(self) -> float:
        return mean(run.metrics.get("startup_s") for run in self.runs) or 0.0

    @property
    def off(self) -> float | None:
        """By what share the measured time exceeds the predicted one. None unless the prediction is positive."""
        return self.measured_s / self.predicted.seconds - 1 if self.predicted.seconds > 0 else None

    @property
    def inside(self) -> int | None:
        """Number of runs within the prediction's interval; None without an interval."""
        if self.predicted.interval is None:
            return None
        low_s, high_s = self.predicted.interval
        return sum(low_s <= (run.metrics.get("startup_s") or 0.0) <= high_s for run in self.runs)


Points = tuple[tuple[int, tuple[Run, ...]], ...]


_NUMBER = re.compile(r"[1-9][0-9]{0,14}")


def _fit_of(points: Points, name: str = STARTUP_METRIC) -> LineFit | None:
    return fit_line((tables, value) for tables, runs in points for value in metric_values(runs, name))


def growth_curves(session: Session) -> tuple[Curve, ...]:
    """Returns the curves of a session; none unless starts were timed with several numbers of tables."""
    found: dict[tuple[str, str], list[tuple[int, tuple[Run, ...]]]] = {}
    for (version, variant), runs in measured_runs_by_cell(session).items():
        number = session.value_of(variant, TABLES_AXIS)
        if session.cache_of(variant) and number is not None and _NUMBER.fullmatch(number):
            name = variant.removesuffix(f"-{number}")
            found.setdefault((version, name), []).append((runs[0].contents.tables_found or int(number), runs))
    return tuple(
        Curve(version, name, tuple(points), _fit_of(tuple(points)), _spread_between(session, tuple(points)))
        for (version, name), points in found.items()
    )


def _spread_between(session: Session, points: Points) -> SessionSpread | None:
    """Returns how much sessions differ at these points: those of a combined session, or this one and the earlier ones
    of its host. A session has one value, the mean of its deviations at the points. Where the curve is that of all of
    them, the spread is that of their mean."""
    found: dict[tuple[str | None, str], dict[int, float]] = {}
    for place, (_, runs) in enumerate(points):
        means = {
            (part.host_id, part.started_at): mean(run.metrics.get(STARTUP_METRIC) for run in of_part)
            for part, of_part in session.by_session(runs)
        } | {
            (other.host_id, other.started_at): other.mean
            for other in session.earlier
            if (other.version, other.variant) == (runs[0].version, runs[0].variant)
        }
        for key, value in means.items():
            if value is not None and value > 0:
                found.setdefault(key, {})[place] = math.log(value)
    levels = {
        place: statistics.fmean(logs[place] for logs in found.values() if place in logs)
        for place in {place for logs in found.values() for place in logs}
    }
    apart = [statistics.fmean(log - levels[place] for place, log in logs.items()) for logs in found.values()]
    if len(apart) < MIN_SESSIONS:
        return None
    parts = len(session.by_session(run for _, runs in points for run in runs))
    return SessionSpread(statistics.stdev(apart) / math.sqrt(parts), len(apart))


def stored_fits(session: Session) -> list[dict[str, Any]]:
    """Returns the fits as they are stored in report.json."""
    return [
        {
            "version": curve.version,
            "variant": curve.variant,
            **asdict(curve.fit),
            "form": curve.fit.form,
            "steepest": asdict(curve.fit.steepest_step(curve.between)),
            **_stored_memory(curve.memory_fit),
            **_stored_prediction(curve, curve.fit, session),
            **_stored_prediction_test(curve),
        }
        for curve in growth_curves(session)
        if curve.fit is not None
    ]


def _stored_memory(fit: MemoryFit | None) -> dict[str, Any]:
    if fit is None:
        return {}
    return {
        "memory_fixed_bytes": fit.fixed_bytes,
        "memory_per_table_bytes": fit.per_table_bytes,
        "memory_per_table_error_bytes": fit.per_table_error_bytes,
    }


def _stored_prediction(curve: Curve, found: LineFit, session: Session) -> dict[str, Any]:
    tables = session.design.predict
    if tables is None:
        return {}
    return {"predicted": {"tables": tables, **asdict(found.predict(tables)), "used": curve.predicts}}


def _stored_prediction_test(curve: Curve) -> dict[str, Any]:
    found = curve.held_out
    if found is None:
        return {}
    counted = {"runs": len(found.runs), "inside": found.inside, "form": found.form, "off": found.off}
    return {"held_out": {"tables": found.tables, **asdict(found.predicted), **counted}}
