"""Curves of the startup against the number of tables, their fits, and the test whether a fit predicts."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from recovery.analysis.contrasts import Sample
from recovery.analysis.statistics import (
    MIN_POINTS,
    MIN_RUNS_FOR_A_FIT,
    MIN_SESSIONS,
    LineFit,
    Prediction,
    SessionSpread,
    fit_line,
)
from recovery.analysis.summary import mean, measured_runs_by_cell, metric_values, sample_of
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
    means: tuple[float, ...]
    """The mean seconds at each of them; over several sessions, the geometric mean of their means."""
    fit: LineFit | None
    memory_fit: MemoryFit | None
    """The fit of the peak memory; None if there are too few values."""
    held_out: PredictionTest | None
    """The largest point compared with its prediction by the smaller ones; None if those are too few."""
    between: SessionSpread | None = None
    """How much the sessions of this curve differ; None with fewer than three."""

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
    per_table_error_bytes: float | None
    """Half of its 95 % interval, if the straight line fits; None with two sessions."""
    form: str
    """The form that fits, as it is called in reports."""


@dataclass(frozen=True)
class PredictionTest:
    """The largest point, and its prediction by the other points."""

    tables: int
    measured_s: float
    """The mean at this point."""
    values: tuple[float, ...]
    """The seconds of each run at this point; over several sessions, the mean of each of them."""
    form: str
    """The form by which the smaller points predict it: `straight line` or `piecewise`."""
    predicted: Prediction

    @property
    def off(self) -> float | None:
        """By what share the measured time exceeds the predicted one. None unless the prediction is positive."""
        return self.measured_s / self.predicted.seconds - 1 if self.predicted.seconds > 0 else None

    @property
    def inside(self) -> int | None:
        """Number of values within the prediction's interval; None without an interval."""
        if self.predicted.interval is None:
            return None
        low_s, high_s = self.predicted.interval
        return sum(low_s <= value <= high_s for value in self.values)


Points = tuple[tuple[int, tuple[Run, ...]], ...]


_NUMBER = re.compile(r"[1-9][0-9]{0,14}")


def _curve(session: Session, version: str, variant: str, points: Points) -> Curve:
    samples = [sample_of(session, runs, STARTUP_METRIC) for _, runs in points]
    return Curve(
        version,
        variant,
        points,
        tuple(sample.mean or 0.0 for sample in samples),
        fit_of(session, points),
        _memory_fit(session, points),
        _held_out(session, points, samples[-1]),
        _spread_between(session, points),
    )


def _memory_fit(session: Session, points: Points) -> MemoryFit | None:
    line = fit_of(session, points, "peak_memory_bytes")  # in bytes
    return None if line is None else MemoryFit(line.fixed_s, line.per_table_s, line.per_table_error_s, line.called)


def _held_out(session: Session, points: Points, largest: Sample) -> PredictionTest | None:
    found, tables = fit_of(session, points[:-1]), points[-1][0]
    if found is None:
        return None
    values = largest.values if len(largest.sessions) == 1 else largest.means
    return PredictionTest(tables, largest.mean or 0.0, values, found.form, found.predict(tables))


def fit_of(session: Session, points: Points, name: str = STARTUP_METRIC) -> LineFit | None:
    """Fits a line to every run, or to the means of several sessions: a session that is slower by a factor has all of
    its values divided by it, and the spread of these factors is added to the intervals."""
    logs = {key: of_session for key, of_session in _session_logs(session, points, name).items()
            if len(of_session) >= MIN_POINTS}  # fmt: skip
    if len(logs) < 2:
        return fit_line((tables, value) for tables, runs in points for value in metric_values(runs, name))
    apart = _apart(logs)
    return fit_line(
        ((points[place][0], math.exp(log - apart[key])) for key, of_session in logs.items()
         for place, log in of_session.items()),
        sessions=len(logs),
        between=_spread_of(apart.values(), of=len(logs)),
    )  # fmt: skip


_SessionKey = tuple[str | None, str]
"""Host and start of a session."""


def _session_logs(session: Session, points: Points, name: str) -> dict[_SessionKey, dict[int, float]]:
    """Returns the logarithm of each session's mean at each point, by the place of the point."""
    found: dict[_SessionKey, dict[int, float]] = {}
    for place, (_, runs) in enumerate(points):
        for part, of_part in session.by_session(runs):
            value = mean(metric_values(of_part, name))
            if value is not None and value > 0:
                found.setdefault((part.host_id, part.started_at), {})[place] = math.log(value)
    return found


def _apart(logs: Mapping[_SessionKey, Mapping[int, float]]) -> dict[_SessionKey, float]:
    """Returns how far each session is from the others: the mean of its deviations at the points."""
    places = {place for of_session in logs.values() for place in of_session}
    levels = {
        place: statistics.fmean(of_session[place] for of_session in logs.values() if place in of_session)
        for place in places
    }
    return {
        key: statistics.fmean(log - levels[place] for place, log in of_session.items())
        for key, of_session in logs.items()
    }


def _spread_of(apart: Collection[float], *, of: int) -> SessionSpread | None:
    """Returns how far the mean of so many of these sessions may be from that of all; None with fewer than three."""
    return None if len(apart) < MIN_SESSIONS else SessionSpread(statistics.stdev(apart) / math.sqrt(of), len(apart))


def growth_curves(session: Session) -> tuple[Curve, ...]:
    """Returns the curves of a session; none unless starts were timed with several numbers of tables."""
    found: dict[tuple[str, str], list[tuple[int, tuple[Run, ...]]]] = {}
    for (version, variant), runs in measured_runs_by_cell(session).items():
        number = session.value_of(variant, TABLES_AXIS)
        if session.cache_of(variant) and number is not None and _NUMBER.fullmatch(number):
            name = variant.removesuffix(f"-{number}")
            found.setdefault((version, name), []).append((runs[0].contents.tables_found or int(number), runs))
    return tuple(_curve(session, version, name, tuple(points)) for (version, name), points in found.items())


def _spread_between(session: Session, points: Points) -> SessionSpread | None:
    """Returns how much sessions differ at these points: those of a combined session, or this one and the earlier ones
    of its host. A session has one value, the mean of its deviations at the points. Where the curve is that of all of
    them, the spread is that of their mean."""
    found = _session_logs(session, points, STARTUP_METRIC)
    parts = len(found)
    for place, (_, runs) in enumerate(points):
        for other in session.earlier:
            if (other.version, other.variant) == (runs[0].version, runs[0].variant) and other.mean > 0:
                found.setdefault((other.host_id, other.started_at), {})[place] = math.log(other.mean)
    return _spread_of(_apart(found).values(), of=parts)


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
    counted = {"runs": len(found.values), "inside": found.inside, "form": found.form, "off": found.off}
    return {"held_out": {"tables": found.tables, **asdict(found.predicted), **counted}}
