"""Builds the report's tables and notes about startups.

They cover the storage floor, the phases, the growth with the number of tables, the evidence for warm starts, and the
files that a start touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from recovery.analysis.combined import CombinedSession
from recovery.analysis.growth import (
    MAX_PREDICTION_ERROR,
    TEST_NEEDS,
    Curve,
    MemoryFit,
    PredictionTest,
    growth_curves,
)
from recovery.analysis.opened_files import CLAIM, claim_verdict, traced_runs
from recovery.analysis.statistics import (
    LACK_OF_FIT_NEEDS,
    LINE,
    LINE_NEEDS,
    NOT_TOLD_APART,
    PIECEWISE,
    LineFit,
    Prediction,
)
from recovery.analysis.summary import (
    mean,
    measured_runs_by_cell,
    metric_means,
    metric_values,
    own_read_requests,
    per_table,
)
from recovery.analysis.warm import WarmEvidence, warm_evidence
from recovery.model import Cache, Phase, ReadFloor, Run, Session, Table, Verdict
from recovery.phase_table import (
    JOIN,
    UNNAMED,
    estimated_phases,
    is_after_the_start,
    named_share,
    seconds_by_name,
    seconds_of_starts,
    sorted_phases,
)
from recovery.report import fmt
from recovery.report.settings_tables import percent_range

# --- Floor: cold starts compared with plain reads of the same files

_READS_ALL_SHARE = 0.99
"""A start that reads this share of the files counts as reading all of them, because a file may be dropped or created in
the meantime."""


@dataclass(frozen=True)
class FloorComparison:
    """A cold start compared with plain reads of the same files."""

    floor: ReadFloor
    variant: str
    startup_s: float | None
    """Mean startup time; None if no run was measured."""
    reads_all: bool | None
    """Whether the start reads every file; None if it was not traced."""

    @property
    def over_one(self) -> float | None:
        """Ratio of the startup time to the reads by one thread."""
        return self._over(self.floor.one_thread_s)

    @property
    def over_many(self) -> float | None:
        """Ratio of the startup time to the reads by many threads."""
        return self._over(self.floor.many_threads_s)

    @property
    def no_floor_reason(self) -> str | None:
        """Why the reads are no floor for this start; None if they are one or there is nothing to compare."""
        if self.over_many is None:
            return None
        if self.reads_all is False:
            return "the start does not read every file"
        return f"the start was shorter than the reads by {self.floor.threads} threads" if self.over_many < 1 else None

    @property
    def is_floor(self) -> bool:
        return self.over_many is not None and self.no_floor_reason is None

    def _over(self, floor_s: float) -> float | None:
        """Returns the ratio of the startup time to `floor_s`. It is None for a single file: one page of a general
        tablespace is no floor."""
        return self.startup_s / floor_s if self.startup_s is not None and floor_s and self.floor.files > 1 else None


def floor_comparisons(session: Session) -> Iterator[FloorComparison]:
    """Yields a comparison for each cold variant over files that a floor was measured for."""
    means = metric_means(session) if session.floors else {}
    traced = traced_runs(session)
    for floor in session.floors:
        for variant in floor.variants:
            if session.cache_of(variant) == Cache.COLD:
                key = (floor.version, variant)
                yield FloorComparison(floor, variant, means.get(key), _reads_all(traced.get(key, ()), floor))


def _reads_all(runs: tuple[Run, ...], floor: ReadFloor) -> bool | None:
    read = mean(run.opened_files.tablespaces_read for run in runs)
    return None if read is None else read >= _READS_ALL_SHARE * floor.files


def floor_table(session: Session) -> Table | None:
    """Returns the table of the floor, or None if no floor was measured or there is no cold variant to compare with
    it."""
    found = tuple(floor_comparisons(session))
    if not found:
        return None
    many = max(floor.threads for floor in session.floors)
    return Table(
        title="Storage floor: plain reads of the same files, cold, seconds",
        headers=(
            "version",
            "variant",
            "files",
            "1 thread",
            f"{many} threads",
            "opened",
            "startup",
            "/ 1 thread",
            f"/ {many}",
        ),
        rows=tuple(map(_floor_row, found)),
        numeric=(False, False, *(True,) * 7),
        notes=(
            "1 thread, many: reading the first page of each table's file, in the order of inodes; opened: opening each "
            f"file without reading it, one thread. Measured {_times(session)}, with the limits of the session. "
            "startup: the mean, then its ratio to the two.",
            *no_floor_notes(found),
        ),
        keys=2,
    )


def no_floor_notes(found: Iterable[FloorComparison]) -> tuple[str, ...]:
    """Returns a note for each reason why the reads are no floor, with the starts that it applies to."""
    names: dict[str, list[str]] = {}
    for comparison in found:
        if (reason := comparison.no_floor_reason) is not None:
            names.setdefault(reason, []).append(f"{comparison.floor.version} {comparison.variant}")
    return tuple(f"No floor for {', '.join(starts)}: {reason}." for reason, starts in names.items())


def _times(session: Session) -> str:
    times = min(floor.times for floor in session.floors)
    return "once" if times == 1 else f"{times} times, the shortest is shown"


def _floor_row(one: FloorComparison) -> tuple[str, ...]:
    floor = one.floor
    return (
        floor.version,
        one.variant,
        fmt.count(floor.files),
        fmt.seconds(floor.one_thread_s),
        fmt.seconds(floor.many_threads_s),
        fmt.seconds(floor.open_s),
        fmt.seconds(one.startup_s),
        *((fmt.ratio(one.over_one), fmt.ratio(one.over_many)) if one.is_floor else (fmt.ABSENT, fmt.ABSENT)),
    )


# --- Phases


def phase_table(session: Session) -> Table | None:
    """Returns the table of mean seconds in each phase, or None if no run has phases."""
    found = [
        (cell, starts)
        for cell, runs in measured_runs_by_cell(session).items()
        if (starts := [run.startup.phases for run in runs if run.startup.phases])
    ]
    if not found:
        return None
    title = "Phases of the start, mean seconds"
    measured = tuple(run for runs in measured_runs_by_cell(session).values() for run in runs)
    return grouped_phase_table(
        title, ("version", "variant"), found, notes=(*_concurrent_phase_notes(measured), *_buffered_log_note(measured))
    )


def grouped_phase_table(
    title: str,
    headers: tuple[str, ...],
    rows: Sequence[tuple[tuple[str, ...], Sequence[tuple[Phase, ...]]]],
    *,
    notes: tuple[str, ...] = (),
) -> Table:
    """Returns a table with a row for each group of starts and a column for each phase that any of them has.

    A start without a phase counts as 0 in the mean of its group. If no start of the group has the phase, the cell is
    `-`.
    """
    seconds = [seconds_of_starts(starts) for _, starts in rows]
    names = sorted_phases(name for starts in seconds for start in starts for name in start)
    estimated = [estimated_phases(starts, names) for _, starts in rows]
    return Table(
        title=title,
        headers=(*headers, *names, "named"),
        rows=tuple(
            (*key, *_means(found, names, guessed), _share(starts))
            for (key, starts), found, guessed in zip(rows, seconds, estimated, strict=True)
        ),
        numeric=(*(False,) * len(headers), *(True,) * (len(names) + 1)),
        notes=(*_explained(names, any_estimated=any(estimated)), *notes),
        keys=len(headers),
    )


def _means(starts: Sequence[dict[str, float]], names: Iterable[str], estimated: Container[str]) -> tuple[str, ...]:
    return tuple(fmt.estimate(fmt.seconds(_mean_of(starts, name)), name in estimated) for name in names)


def _mean_of(starts: Sequence[dict[str, float]], name: str) -> float | None:
    return mean(start.get(name, 0.0) for start in starts) if any(name in start for start in starts) else None


def _share(starts: Sequence[tuple[Phase, ...]]) -> str:
    share = mean(named_share(phases) for phases in starts)
    # Rounded down, so that 100 % is shown only if every part of the startup has a name.
    return fmt.ABSENT if share is None else f"{math.floor(1000 * share + 1e-9) / 10:g} %"


def _explained(names: Sequence[str], *, any_estimated: bool) -> tuple[str, ...]:
    notes = ["named: share of the startup that is in a phase with a name."]
    if any(JOIN in name for name in names):
        notes.append("a + b: no line of the log separates the two.")
    if any_estimated:
        notes.append("~: begins or ends 10 s before the first line about progress, which follows every 10 s.")
    if after := [name for name in names if is_after_the_start(name)]:
        notes.append(f"{', '.join(after)}: queries after the start (FIRST_QUERIES), which are not part of its time.")
    if UNNAMED in names:
        notes.append("unnamed: between two lines of the log that do not show what the server did.")
    return tuple(notes)


def _concurrent_phase_notes(runs: Sequence[Run]) -> Iterator[str]:
    """Yields a note for each phase that ran concurrently with the start, in a background thread of the server."""
    each = [seconds_by_name(run.startup.background_phases) for run in runs]
    for name in sorted_phases(name for found in each for name in found):
        seen = [found[name] for found in each if name in found]
        yield (
            f"{name} in a background thread of the server in {fmt.count_text(len(seen), 'run')}: "
            f"{fmt.seconds(min(seen))} to {fmt.seconds(max(seen))} s until the ready line."
        )


def _buffered_log_note(runs: Iterable[Run]) -> tuple[str, ...]:
    """Returns a note on starts during which the server buffered lines of its log."""
    delays = sorted((run.number, run.startup.log_held_s) for run in runs if run.startup.log_held_s is not None)
    if not delays:
        return ()
    numbers = ", ".join(str(number) for number, _ in delays)
    return (
        f"The server wrote lines of its log up to {fmt.seconds(max(seconds for _, seconds in delays))} s late in run "
        f"{numbers}: these phases are from its own timestamps.",
    )


# --- Growth with the number of tables: the points, the fitted form, and the prediction


def scale_tables(session: Session) -> tuple[Table, ...]:
    drawn = growth_curves(session)
    if not drawn:
        return ()
    fitted = [(curve, curve.fit) for curve in drawn if curve.fit is not None]
    tested = [(curve, found) for curve in drawn if (found := curve.held_out) is not None]
    requested = session.design.predict
    return (
        _growth(drawn),
        *((_fit_table(session, fitted),) if fitted else ()),
        *((_tested(tested, one_more(session)),) if tested else ()),
        *((_predicted(fitted, requested, one_more(session)),) if fitted and requested is not None else ()),
        *_memory(drawn),
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
            "ms a table: mean / tables; ms added: by each further table since the point before; off line: the mean "
            "compared with the straight line through all points; threads: that scanned the files (from the log).",
            *_missing_data_notes(drawn),
        ),
        keys=3,
    )  # fmt: skip


def _growth_rows(curve: Curve) -> Iterator[tuple[str, ...]]:
    before: tuple[int, float] | None = None
    for (tables, runs), middle in zip(curve.points, curve.means, strict=True):
        times = [run.metrics["startup_s"] for run in runs if "startup_s" in run.metrics]
        line = curve.fit.line_at(tables) if curve.fit else None
        threads = {run.startup.scan_threads for run in runs if run.startup.scan_threads is not None}
        yield (
            curve.version,
            curve.variant,
            fmt.count(tables),
            fmt.count(len(times)),
            fmt.seconds(middle),
            fmt.seconds(min(times, default=None)),
            fmt.seconds(max(times, default=None)),
            _milliseconds(None if middle is None else middle / tables),
            _milliseconds(_added(before, tables, middle)),
            fmt.whole_percent(None if middle is None or not line else middle / line - 1, sign="+"),
            ", ".join(map(str, sorted(threads))) or fmt.ABSENT,
        )
        before = None if middle is None else (tables, middle)


def _added(before: tuple[int, float] | None, tables: int, middle: float | None) -> float | None:
    """Returns what each further table adds since the point before."""
    if before is None or middle is None or tables == before[0]:
        return None
    return (middle - before[1]) / (tables - before[0])


def _milliseconds(seconds: float | None) -> str:
    return fmt.ABSENT if seconds is None else f"{1000 * seconds:.3f}"


def _missing_data_notes(drawn: tuple[Curve, ...]) -> Iterator[str]:
    """Yields a note for each fit, fit test or prediction test that has too little data, with what it needs."""
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


def _fit_table(session: Session, fitted: Sequence[tuple[Curve, LineFit]]) -> Table:
    several = isinstance(session, CombinedSession)
    where = "over the sessions, with their spread" if several else "in this session"
    fitted_to = "the mean of each session" if several else "every run"
    return Table(
        title="Growth: a straight line if it fits, otherwise piecewise",
        headers=("version", "variant", "form", "lack of fit", "fixed, s", "+-", "ms a table", "+-"),
        rows=tuple((curve.version, curve.variant, *_form_row(curve, found)) for curve, found in fitted),
        numeric=(False, False, False, *(True,) * 5),
        notes=(
            "lack of fit: p-value of the F test of a straight line against the spread of repeated runs; below 0.05 the "
            "line is rejected.",
            f"straight line: fixed part + ms a table, fitted to relative errors over {fitted_to}; +-: half of the "
            f"95 % interval {where}. piecewise: straight between the means; ms a table is that of the steepest step, "
            "its interval taken for all steps together.",
            *((_BETWEEN_NOTE,) if any(found.form != LINE and curve.between for curve, found in fitted) else ()),
            *((_NOT_TOLD_APART_NOTE,) if any(found.called == NOT_TOLD_APART for _, found in fitted) else ()),
        ),
        keys=2,
    )


_BETWEEN_NOTE = "The interval of the steepest step has the spread between sessions, too."
_NOT_TOLD_APART_NOTE = (
    f"{NOT_TOLD_APART}: the line is not rejected, but the test would see a largest point 25 % above it with a "
    "probability of less than 80 %."
)


def _form_row(curve: Curve, found: LineFit) -> tuple[str, ...]:
    p = "not tested" if found.lack_of_fit_p is None else f"{found.lack_of_fit_p:.2g}"
    if found.form != LINE:
        step = found.steepest_step(curve.between)
        error = fmt.ABSENT if step.per_table_error_s is None else f"{1000 * step.per_table_error_s:.4f}"
        return found.called, p, fmt.ABSENT, fmt.ABSENT, f"{1000 * step.per_table_s:.4f}", error
    return (
        found.called,
        p,
        fmt.seconds(found.fixed_s),
        fmt.seconds(found.fixed_error_s),
        f"{1000 * found.per_table_s:.4f}",
        fmt.ABSENT if found.per_table_error_s is None else f"{1000 * found.per_table_error_s:.4f}",
    )


def _tested(tested: Sequence[tuple[Curve, PredictionTest]], more: str) -> Table:
    return Table(
        title="Test of the prediction: the largest point, predicted from the smaller ones",
        headers=("version", "variant", "tables", "form", "predicted", "interval", "within", "measured", "off"),
        rows=tuple(_tested_row(curve, found) for curve, found in tested),
        numeric=(False, False, True, False, *(True,) * 5),
        notes=(
            f"form: that fits the smaller points; interval: 95 % of one more {more}, of a straight line only; within: "
            f"{more}s in the interval; off: the measured mean compared with the prediction.",
        ),
        keys=2,
    )


def _tested_row(curve: Curve, found: PredictionTest) -> tuple[str, ...]:
    return (
        curve.version,
        curve.variant,
        fmt.count(found.tables),
        found.form,
        fmt.seconds(found.predicted.seconds),
        _interval(found.predicted),
        fmt.ABSENT if found.inside is None else fmt.found_of_expected(found.inside, len(found.values)),
        fmt.seconds(found.measured_s),
        fmt.whole_percent(found.off, sign="+"),
    )


def _predicted(fitted: Sequence[tuple[Curve, LineFit]], tables: int, more: str) -> Table:
    return Table(
        title=f"Predicted for {tables:,} tables",
        headers=("version", "variant", "form", "seconds", "interval", "off at the largest point", "used"),
        rows=tuple(_predicted_row(curve, found.predict(tables), found.form) for curve, found in fitted),
        numeric=(False, False, False, *(True,) * 3, False),
        notes=(
            f"interval: 95 % of one more {more}, if the straight line continues; off at the largest point: as above; "
            f"used: only if that is at most {fmt.whole_percent(MAX_PREDICTION_ERROR)}.",
        ),
        keys=2,
    )


def _predicted_row(curve: Curve, found: Prediction, form: str) -> tuple[str, ...]:
    tested = curve.held_out
    return (
        curve.version,
        curve.variant,
        form,
        fmt.seconds(found.seconds),
        _interval(found),
        fmt.whole_percent(None if tested is None else tested.off, sign="+"),
        "not tested" if curve.predicts is None else fmt.yes_or_no(curve.predicts),
    )


def _memory(drawn: tuple[Curve, ...]) -> Iterator[Table]:
    """Yields the table of the peak memory at each number of tables, if it was measured."""
    rows = [row for curve in drawn for row in _memory_rows(curve)]
    if not rows:
        return
    fits = [(curve, fit) for curve in drawn if (fit := curve.memory_fit) is not None]
    yield Table(
        title="Peak memory of the start against the number of tables",
        headers=("version", "variant", "tables", "mean", "B added"),
        rows=tuple(rows),
        numeric=(False, False, *(True,) * 3),
        notes=(
            "mean: largest resident memory until the first answered query; B added: bytes by each further table since "
            "the point before.",
            *(
                f"{curve.version} {curve.variant}, {fit.form}: {fmt.size(round(fit.fixed_bytes))} and "
                f"{fit.per_table_bytes:,.0f} B{_memory_error(fit)} for each table."
                for curve, fit in fits
                if fit.form != PIECEWISE
            ),
        ),
        keys=3,
    )


def _memory_error(fit: MemoryFit) -> str:
    return "" if fit.per_table_error_bytes is None else f" +- {fit.per_table_error_bytes:,.0f}"


def _memory_rows(curve: Curve) -> Iterator[tuple[str, ...]]:
    before: tuple[int, float] | None = None
    for tables, runs in curve.points:
        used = mean(metric_values(runs, "peak_memory_bytes"))
        if used is not None:
            added = _added(before, tables, used)
            yield (
                curve.version,
                curve.variant,
                fmt.count(tables),
                fmt.size(round(used)),
                fmt.ABSENT if added is None else f"{added:,.0f}",
            )
            before = tables, used


def one_more(session: Session) -> str:
    """Returns what a prediction is of: of one more run, or of one more session if each of several is one value."""
    return "session" if isinstance(session, CombinedSession) and len(session.parts) > 1 else "run"


def _interval(found: Prediction) -> str:
    return "-".join(map(fmt.seconds, found.interval)) if found.interval else fmt.ABSENT


# --- Notes on warm starts: why one does not count as warm, and what a server reads even with a warm page cache


def warm_notes(session: Session) -> Iterator[str]:
    """Yields the notes on warm starts for the table of startup times."""
    starts: dict[tuple[str, str], list[WarmEvidence]] = {}
    for found in warm_evidence(session):
        if found.run.verdict is Verdict.MEASURED:
            starts.setdefault((found.run.version, found.run.variant), []).append(found)
    if not_warm := [
        _second_start_reason(key, group) for key, group in starts.items() if session.is_second_start(key[1])
    ]:
        yield from not_warm
        yield _what_to_do(session)
    warm = {key: group for key, group in starts.items() if session.cache_of(key[1]) == Cache.WARM}
    if read := "; ".join(filter(None, (_warm_reads(key, group) for key, group in warm.items()))):
        yield f"Read by warm starts, with their files in the page cache: {read}."


def _second_start_reason(key: tuple[str, str], starts: Sequence[WarmEvidence]) -> str:
    """Returns the reason why these starts do not count as warm."""
    reasons = []
    cold = any(found.cold_bytes for found in starts)
    read = [(size, found.full_bytes) for found in starts if (size := found.run.metrics.get("read_bytes")) is not None]
    if shares := [found.shares for found in starts if found.shares is not None]:
        before, after = map(percent_range, zip(*shares, strict=True))
        reasons.append(f"{before} of the tables' files were in the page cache before it, {after} after it")
    elif not cold or not read:
        reasons.append("what was in the page cache before it is unknown")
    if compared := [its / full for its, full in read if full]:
        reasons.append(
            f"it read {percent_range(compared)} of {'what the cold starts read' if cold else 'the data directory'}"
        )
    return f"{' '.join(key)}: {' and '.join(reasons)}; not counted as warm."


def _what_to_do(session: Session) -> str:
    if session.design.limits.memory_bytes:
        return "The memory limit includes the page cache: for warm starts raise MEMORY=."
    if session.environment.get("idle_pageout"):
        return "This host evicts idle pages from its cache: for warm starts use fewer TABLES=, or another host."
    return (
        "Something else used the page cache, or the data does not fit: for warm starts use fewer TABLES=, or a host "
        "with more memory."
    )


def _warm_reads(key: tuple[str, str], starts: Sequence[WarmEvidence]) -> str | None:
    """Returns what warm starts read, or None. It uses only starts for which the host reports which files were in the
    page cache."""
    runs = [found.run for found in starts if found.shares is not None]
    total = mean(run.metrics.get("read_bytes") for run in runs)
    each = mean(per_table(run, "read_bytes") for run in runs)
    if total is None:
        return None
    name = key[0] if key[1] == Cache.WARM else " ".join(key)
    return f"{name} {fmt.size(round(total))}" + (f" ({fmt.size(round(each))} a table)" if each else "")


# --- Files touched by recovery, and whether the documentation's claim about them holds

_HEADERS = (
    "version", "variant", "modified", "opened", "opens", "opened only", "read", "read only", "requests", "bytes",
    "cache", "in data", "claim",
)  # fmt: skip


def touched_table(session: Session) -> Table | None:
    """Returns the table of the files that the start touched, or None if no run was traced."""
    rows = traced_runs(session)
    if not rows:
        return None
    means = sorted({run.opened_files.traced_by for runs in rows.values() for run in runs if run.opened_files.traced_by})
    return Table(
        title="Tables' files that the start opened and read",
        headers=_HEADERS,
        rows=tuple((*cell, *_touched_row(session, runs)) for cell, runs in rows.items()),
        numeric=(False, False, *(True,) * 10, False),
        notes=(
            f"claim: of the manual of 5.7, {CLAIM}. modified: files modified since the checkpoint; opened: distinct "
            "files until the first answered query; read: files of which contents were read; only: without having been "
            "modified.",
            "requests and bytes: reads for the server, per table of the schema; cache: growth of the page cache; in "
            "data: growth of the cached part of the data directory, if it was proved to be empty before.",
            f"Traced by {' and '.join(means)}.",
        ),
        keys=2,
    )


def _touched_row(session: Session, runs: Sequence[Run]) -> tuple[str, ...]:
    return (
        _count(runs, lambda run: run.opened_files.tablespaces_modified),
        _count(runs, lambda run: run.opened_files.tablespaces_opened),
        _count(runs, lambda run: run.opened_files.tablespace_opens),
        _count(runs, lambda run: run.opened_files.opened_unmodified),
        _count(runs, lambda run: run.opened_files.tablespaces_read),
        _count(runs, lambda run: run.opened_files.read_unmodified),
        fmt.ratio(own_read_requests(session, runs, for_each_table=True)),
        _size(mean(per_table(run, "read_bytes") for run in runs)),
        _size(mean(run.metrics.get("cache_grown_bytes") for run in runs)),
        _size(mean(_grown_in_data(run) for run in runs)),
        claim_verdict(runs),
    )


def _grown_in_data(run: Run) -> int | None:
    """Returns by how much the cached bytes of the data directory grew, or None if they are not known before and after
    the start."""
    if run.opened_files.resident_after_bytes is None or run.cold.resident_bytes is None:
        return None
    return run.opened_files.resident_after_bytes - run.cold.resident_bytes


def _count(runs: Sequence[Run], of: Callable[[Run], int | None]) -> str:
    """Returns one number if all runs agree, as they should, else the range from the smallest to the largest."""
    found = [value for run in runs if (value := of(run)) is not None]
    if not found:
        return fmt.ABSENT
    low, high = min(found), max(found)
    return fmt.count(low) if low == high else f"{fmt.count(low)}-{fmt.count(high)}"


def _size(value: float | None) -> str:
    return fmt.size(None if value is None else round(value))
