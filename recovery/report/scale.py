"""How does the startup grow with the number of tables? Every point, what goes through them, and what that predicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recovery.curves import MOST_OFF, TEST_NEEDS, Curve, HeldOut, curves, predicted_at
from recovery.fit import LACK_OF_FIT_NEEDS, LINE, LINE_NEEDS, Fit, Prediction
from recovery.report import figures
from recovery.stored import Session, Table
from recovery.summary import mean


def scale_tables(session: Session) -> tuple[Table, ...]:
    drawn = curves(session)
    if not drawn:
        return ()
    fitted = [(curve, curve.fit) for curve in drawn if curve.fit is not None]
    tested = [(curve, found) for curve in drawn if (found := curve.held_out) is not None]
    asked = predicted_at(session)
    return (
        _growth(drawn),
        *((_forms(fitted),) if fitted else ()),
        *((_tested(tested),) if tested else ()),
        *((_predicted(fitted, asked),) if fitted and asked is not None else ()),
    )


def _growth(drawn: tuple[Curve, ...]) -> Table:
    return Table(
        title="Startup against the number of tables, seconds",
        headers=(
            "version", "variant", "tables", "runs", "mean", "min", "max", "ms a table", "ms added", "off line",
            "threads",
        ),
        rows=tuple(row for curve in drawn for row in _growth_rows(curve)),
        numeric=(False, False, *(True,) * 9),
        notes=(
            "ms a table: the mean over the number of tables; ms added: by each further table since the point before; "
            "off line: by how much the mean lies above the straight line through all points; threads: with which the "
            "server scanned its files, where its log tells.",
            *_lacking(drawn),
        ),
        keys=3,
    )  # fmt: skip


def _growth_rows(curve: Curve) -> Iterator[tuple[str, ...]]:
    before: tuple[int, float] | None = None
    for tables, runs in curve.points:
        times = [run.startup_s for run in runs if run.startup_s is not None]
        middle = mean(times)
        line = curve.fit.line_at(tables) if curve.fit else None
        threads = {run.scan_threads for run in runs if run.scan_threads is not None}
        yield (
            curve.version,
            curve.variant,
            figures.count(tables),
            figures.count(len(times)),
            figures.seconds(middle),
            figures.seconds(min(times, default=None)),
            figures.seconds(max(times, default=None)),
            figures.ABSENT if middle is None else f"{1000 * middle / tables:.3f}",
            _added(before, tables, middle),
            figures.ABSENT if middle is None or not line else _percent(middle / line - 1),
            ", ".join(map(str, sorted(threads))) or figures.ABSENT,
        )
        before = None if middle is None else (tables, middle)


def _added(before: tuple[int, float] | None, tables: int, middle: float | None) -> str:
    if before is None or middle is None or tables == before[0]:
        return figures.ABSENT
    return f"{1000 * (middle - before[1]) / (tables - before[0]):.3f}"


def _lacking(drawn: tuple[Curve, ...]) -> Iterator[str]:
    """What is needed for that which the tables do not have."""
    needs: dict[str, list[str]] = {}
    for curve in drawn:
        if curve.fit is None:
            missing = (LINE_NEEDS,)
        else:
            missing = (
                *((LACK_OF_FIT_NEEDS,) if curve.fit.lack_of_fit_p is None else ()),
                *((TEST_NEEDS,) if curve.held_out is None else ()),
            )
        for need in missing:
            needs.setdefault(need, []).append(f"{curve.version} {curve.variant}")
    for need, names in needs.items():
        yield f"{', '.join(names)}: {need}."


def _percent(share: float) -> str:
    return f"{round(share, 2) + 0.0:+.0%}"


def _forms(fitted: Sequence[tuple[Curve, Fit]]) -> Table:
    return Table(
        title="How it grows: a straight line where that fits, otherwise piecewise",
        headers=("version", "variant", "form", "lack of fit", "fixed, s", "+-", "ms a table", "+-"),
        rows=tuple((curve.version, curve.variant, *_form_row(found)) for curve, found in fitted),
        numeric=(False, False, False, *(True,) * 5),
        notes=(
            "lack of fit: how likely means as far from a straight line are if there is one (F test against the spread "
            "of repeated runs); under 0.05 the line is rejected.",
            "straight line: fixed part + ms a table, fitted to relative errors over every run; +-: half of the 95 % "
            "interval. piecewise: straight between the means; ms a table is that of the last two points.",
        ),
        keys=2,
    )


def _form_row(found: Fit) -> tuple[str, ...]:
    p = "not tested" if found.lack_of_fit_p is None else f"{found.lack_of_fit_p:.2g}"
    if found.form != LINE:
        return found.form, p, figures.ABSENT, figures.ABSENT, f"{1000 * found.last_slope_s:.4f}", figures.ABSENT
    return (
        found.form,
        p,
        figures.seconds(found.fixed_s),
        figures.seconds(found.fixed_error_s),
        f"{1000 * found.per_table_s:.4f}",
        f"{1000 * found.per_table_error_s:.4f}",
    )


def _tested(tested: Sequence[tuple[Curve, HeldOut]]) -> Table:
    return Table(
        title="The prediction tested: the largest point, from the smaller ones alone",
        headers=("version", "variant", "tables", "form", "predicted", "interval", "within", "measured", "off"),
        rows=tuple(_tested_row(curve, found) for curve, found in tested),
        numeric=(False, False, True, False, *(True,) * 5),
        notes=(
            "form: what fits the smaller points; interval: of one more run, 95 %, for a straight line only; within: "
            "runs inside it; off: by how much the measured mean is above the prediction.",
        ),
        keys=2,
    )


def _tested_row(curve: Curve, found: HeldOut) -> tuple[str, ...]:
    return (
        curve.version,
        curve.variant,
        figures.count(found.tables),
        found.form,
        figures.seconds(found.predicted.seconds),
        _interval(found.predicted),
        figures.ABSENT if found.inside is None else figures.of(found.inside, len(found.runs)),
        figures.seconds(found.measured_s),
        figures.ABSENT if found.off is None else _percent(found.off),
    )


def _predicted(fitted: Sequence[tuple[Curve, Fit]], tables: int) -> Table:
    return Table(
        title=f"Predicted for {tables:,} tables",
        headers=("version", "variant", "form", "seconds", "interval", "off at the largest point", "used"),
        rows=tuple(_predicted_row(curve, found.predict(tables), found.form) for curve, found in fitted),
        numeric=(False, False, False, *(True,) * 3, False),
        notes=(
            "interval: of one more run, 95 %, if the straight line goes on; off at the largest point: as above; used: "
            f"only if that is at most {MOST_OFF:.0%}.",
        ),
        keys=2,
    )


def _predicted_row(curve: Curve, found: Prediction, form: str) -> tuple[str, ...]:
    tested = curve.held_out
    return (
        curve.version,
        curve.variant,
        form,
        figures.seconds(found.seconds),
        _interval(found),
        figures.ABSENT if tested is None or tested.off is None else _percent(tested.off),
        "not tested" if curve.predicts is None else figures.yes_or_no(curve.predicts),
    )


def _interval(found: Prediction) -> str:
    return "-".join(map(figures.seconds, found.interval)) if found.interval else figures.ABSENT
