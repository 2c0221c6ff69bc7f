"""How does the startup grow with the number of tables? Every point, the line through them, and what it predicts."""

from __future__ import annotations

from collections.abc import Sequence

from recovery.curves import Curve, HeldOut, curves, predicted_at
from recovery.report import figures
from recovery.stored import Run, Session, Table
from recovery.summary import mean


def scale_tables(session: Session) -> tuple[Table, ...]:
    drawn = curves(session)
    if not drawn:
        return ()
    tested = [(curve, found) for curve in drawn if (found := curve.held_out) is not None]
    return _growth(drawn), _lines(drawn, predicted_at(session)), *((_tested(tested),) if tested else ())


def _growth(drawn: tuple[Curve, ...]) -> Table:
    return Table(
        title="Startup against the number of tables, seconds",
        headers=("version", "variant", "tables", "runs", "mean", "min", "max", "ms a table", "line", "off", "threads"),
        rows=tuple(_growth_row(curve, tables, runs) for curve in drawn for tables, runs in curve.points),
        numeric=(False, False, *(True,) * 9),
        notes=(
            "ms a table: the mean over the number of tables; line: what the line below says; off: by how much the mean "
            "lies above it; threads: with which the server scanned its files, where its log tells.",
        ),
    )


def _growth_row(curve: Curve, tables: int, runs: tuple[Run, ...]) -> tuple[str, ...]:
    times = [run.startup_s for run in runs if run.startup_s is not None]
    middle = mean(times)
    line = curve.fit.at(tables) if curve.fit else None
    threads = {run.scan_threads for run in runs if run.scan_threads is not None}
    return (
        curve.version,
        curve.variant,
        figures.count(tables),
        figures.count(len(times)),
        figures.seconds(middle),
        figures.seconds(min(times, default=None)),
        figures.seconds(max(times, default=None)),
        figures.ABSENT if middle is None else f"{1000 * middle / tables:.3f}",
        figures.seconds(line),
        figures.ABSENT if middle is None or not line else _percent(middle / line - 1),
        ", ".join(map(str, sorted(threads))) or figures.ABSENT,
    )


def _percent(share: float) -> str:
    return f"{round(share, 2) + 0.0:+.0%}"


def _lines(drawn: tuple[Curve, ...], predict: int | None) -> Table:
    asked = () if predict is None else (f"{predict:,} tables", "interval")
    return Table(
        title="The line: fixed part + cost of a table x tables",
        headers=("version", "variant", "fixed, s", "+-", "ms a table", "+-", "a run varies", *asked),
        rows=tuple(_line_row(curve, predict) for curve in drawn),
        numeric=(False, False, *(True,) * (5 + len(asked))),
        notes=(
            "Fitted to relative errors, over every run; +-: half of the 95 % interval; a run varies: its standard "
            "deviation about the line."
            + (" interval: where one more run would lie, with 95 %, if the line goes on as it is." if asked else ""),
        ),
    )


def _line_row(curve: Curve, predict: int | None) -> tuple[str, ...]:
    found = curve.fit
    if found is None:
        return (curve.version, curve.variant, *(figures.ABSENT,) * (5 if predict is None else 7))
    row = (
        curve.version,
        curve.variant,
        figures.seconds(found.fixed_s),
        figures.seconds(found.fixed_error_s),
        f"{1000 * found.per_table_s:.4f}",
        f"{1000 * found.per_table_error_s:.4f}",
        f"{found.relative_error:.1%}",
    )
    if predict is None:
        return row
    seconds, low, high = found.predict(predict)
    return (*row, figures.seconds(seconds), f"{figures.seconds(low)}-{figures.seconds(high)}")


def _tested(tested: Sequence[tuple[Curve, HeldOut]]) -> Table:
    return Table(
        title="The line put to the test: the largest point, from the smaller ones alone",
        headers=("version", "variant", "tables", "predicted", "interval", "measured", "off", "within"),
        rows=tuple(_tested_row(curve, found) for curve, found in tested),
        numeric=(False, False, *(True,) * 6),
        notes=("off: by how much the measured mean lies above; within: runs inside the interval for one more run.",),
    )


def _tested_row(curve: Curve, found: HeldOut) -> tuple[str, ...]:
    middle = mean(run.startup_s for run in found.runs)
    return (
        curve.version,
        curve.variant,
        figures.count(found.tables),
        figures.seconds(found.seconds),
        f"{figures.seconds(found.low_s)}-{figures.seconds(found.high_s)}",
        figures.seconds(middle),
        figures.ABSENT if middle is None or found.seconds <= 0 else _percent(middle / found.seconds - 1),
        figures.of(found.inside, len(found.runs)),
    )
