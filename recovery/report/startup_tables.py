"""Builds the report's tables and notes about startups and about sampled stacks.

They cover the storage floor, the phases, the growth with the number of tables, the evidence for warm starts, and the
files that a start touched. The stack tables are also used for servers under load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from recovery.analysis.growth import (
    MAX_PREDICTION_ERROR,
    TEST_NEEDS,
    Curve,
    PredictionTest,
    growth_curves,
    requested_prediction,
)
from recovery.analysis.phase_names import JOIN, UNNAMED, named_share, seconds_by_name, sorted_phases
from recovery.analysis.stacks import MAX_HOT_FUNCTIONS, MIN_SAMPLES, share_text
from recovery.analysis.statistics import LACK_OF_FIT_NEEDS, LINE, LINE_NEEDS, LineFit, Prediction
from recovery.analysis.summary import cell_words, mean, measured_runs_by_cell, metric_means, per_table
from recovery.analysis.warm import WarmEvidence, warm_evidence
from recovery.model import Cache, CallChain, Phase, ReadFloor, Run, Session, Table, Verdict
from recovery.report import fmt
from recovery.report.settings_tables import runs_by_value

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
    cells = measured_runs_by_cell(session)
    for floor in session.floors:
        for variant in floor.variants:
            if session.cache_of(variant) == Cache.COLD:
                key = (floor.version, variant)
                yield FloorComparison(floor, variant, means.get(key), _reads_all(cells.get(key, ()), floor))


def _reads_all(runs: tuple[Run, ...], floor: ReadFloor) -> bool | None:
    read = mean(run.tablespaces_read for run in runs)
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
    for one in found:
        if (reason := one.no_floor_reason) is not None:
            names.setdefault(reason, []).append(f"{one.floor.version} {one.variant}")
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


# --- Hottest functions of each run with sampled stacks


def hottest_tables(session: Session) -> tuple[Table, ...]:
    """Returns a table of the hottest functions for each sampled run. Only the last one has the notes on the columns."""
    runs = [run for run in session.runs if run.hottest]
    return tuple(_hottest_table(session, run, tuple(_notes(runs)) if run is runs[-1] else ()) for run in runs)


def _hottest_table(session: Session, run: Run, notes: tuple[str, ...]) -> Table:
    of = run.hottest[0].of
    return Table(
        title=f"Hottest functions of {run.version} {cell_words(session, run.variant)}, run {run.number}: "
        f"{fmt.count(of)} stacks by {run.sampled_by}",
        headers=("function", "self", "in all"),
        rows=tuple(
            (one.function, share_text(one.on_top, one.of), share_text(one.within, one.of)) for one in run.hottest
        ),
        numeric=(False, True, True),
        notes=notes,
    )


def _notes(runs: Sequence[Run]) -> Iterator[str]:
    perf = " (as in `perf top`)" if any(run.sampled_by == "perf" for run in runs) else ""
    yield (
        f"self: share of the stacks of running threads with this function on top{perf}; in all: anywhere in the stack. "
        f"At most {MAX_HOT_FUNCTIONS} functions are shown."
    )
    if any(run.hottest[0].of < MIN_SAMPLES for run in runs):
        yield f"With fewer than {MIN_SAMPLES} samples the counts are shown instead of shares."
    if any(one.function.startswith("[") for run in runs for one in run.hottest):
        yield "[file]: all functions of that file that have no symbol."


# --- Phases


def phase_table(session: Session) -> Table | None:
    """Returns the table of mean seconds in each phase, or None if no run has phases, as in sessions of older tool
    versions."""
    found = [
        (cell, starts)
        for cell, runs in measured_runs_by_cell(session).items()
        if (starts := [run.phases for run in runs if run.phases])
    ]
    if not found:
        return None
    title = "Phases of the start, mean seconds"
    measured = tuple(run for runs in measured_runs_by_cell(session).values() for run in runs)
    return grouped_phase_table(
        title, ("version", "variant"), found, notes=(*_concurrent_phase_notes(measured), *_buffered_log_note(measured))
    )


def phase_means(session: Session) -> dict[tuple[str, str], dict[str, float]]:
    """Returns the mean seconds of each phase by version and variant, without those that have no run with phases."""
    found = {}
    for cell, runs in measured_runs_by_cell(session).items():
        starts = [seconds_by_name(run.phases) for run in runs if run.phases]
        means = {
            name: _mean_of(starts, name) or 0.0 for name in sorted_phases(name for start in starts for name in start)
        }
        if means:
            found[cell] = means
    return found


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
    names = sorted_phases(phase.name for _, starts in rows for phases in starts for phase in phases)
    return Table(
        title=title,
        headers=(*headers, *names, "named"),
        rows=tuple(
            (*key, *_means([seconds_by_name(phases) for phases in starts], names), _share(starts))
            for key, starts in rows
        ),
        numeric=(*(False,) * len(headers), *(True,) * (len(names) + 1)),
        notes=(*_explained(names), *notes),
        keys=len(headers),
    )


def _means(starts: Sequence[dict[str, float]], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(fmt.seconds(_mean_of(starts, name)) for name in names)


def _mean_of(starts: Sequence[dict[str, float]], name: str) -> float | None:
    return mean(start.get(name, 0.0) for start in starts) if any(name in start for start in starts) else None


def _share(starts: Sequence[tuple[Phase, ...]]) -> str:
    share = mean(named_share(phases) for phases in starts)
    # Rounded down, so that 100 % is shown only if every part of the startup has a name.
    return fmt.ABSENT if share is None else f"{int(share * 1000) / 10:g} %"


def _explained(names: Sequence[str]) -> tuple[str, ...]:
    notes = ["named: share of the startup that is in a phase with a name."]
    if any(JOIN in name for name in names):
        notes.append("a + b: no line of the log separates the two.")
    if UNNAMED in names:
        notes.append("unnamed: between two lines of the log that do not show what the server did.")
    return tuple(notes)


def _concurrent_phase_notes(runs: Sequence[Run]) -> Iterator[str]:
    """Yields a note for each phase that ran concurrently with the start, in a background thread of the server."""
    each = [seconds_by_name(run.beside) for run in runs]
    for name in sorted_phases(name for found in each for name in found):
        seen = [found[name] for found in each if name in found]
        yield (
            f"{name} in a background thread of the server in {len(seen)} runs: {fmt.seconds(min(seen))} to "
            f"{fmt.seconds(max(seen))} s until the ready line."
        )


def _buffered_log_note(runs: Iterable[Run]) -> tuple[str, ...]:
    """Returns a note on starts during which the server buffered lines of its log."""
    delays = sorted((run.number, run.log_held_s) for run in runs if run.log_held_s is not None)
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
    requested = requested_prediction(session)
    return (
        _growth(drawn),
        *((_fit_table(fitted),) if fitted else ()),
        *((_tested(tested),) if tested else ()),
        *((_predicted(fitted, requested),) if fitted and requested is not None else ()),
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
    for tables, runs in curve.points:
        times = [run.metrics["startup_s"] for run in runs if "startup_s" in run.metrics]
        middle = mean(times)
        line = curve.fit.line_at(tables) if curve.fit else None
        threads = {run.scan_threads for run in runs if run.scan_threads is not None}
        yield (
            curve.version,
            curve.variant,
            fmt.count(tables),
            fmt.count(len(times)),
            fmt.seconds(middle),
            fmt.seconds(min(times, default=None)),
            fmt.seconds(max(times, default=None)),
            fmt.ABSENT if middle is None else f"{1000 * middle / tables:.3f}",
            _added(before, tables, middle),
            fmt.ABSENT if middle is None or not line else _percent_change(middle / line - 1),
            ", ".join(map(str, sorted(threads))) or fmt.ABSENT,
        )
        before = None if middle is None else (tables, middle)


def _added(before: tuple[int, float] | None, tables: int, middle: float | None) -> str:
    if before is None or middle is None or tables == before[0]:
        return fmt.ABSENT
    return f"{1000 * (middle - before[1]) / (tables - before[0]):.3f}"


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


def _percent_change(share: float) -> str:
    return f"{round(share, 2) + 0.0:+.0%}"


def _fit_table(fitted: Sequence[tuple[Curve, LineFit]]) -> Table:
    return Table(
        title="Growth: a straight line if it fits, otherwise piecewise",
        headers=("version", "variant", "form", "lack of fit", "fixed, s", "+-", "ms a table", "+-"),
        rows=tuple((curve.version, curve.variant, *_form_row(found)) for curve, found in fitted),
        numeric=(False, False, False, *(True,) * 5),
        notes=(
            "lack of fit: p-value of the F test of a straight line against the spread of repeated runs; below 0.05 the "
            "line is rejected.",
            "straight line: fixed part + ms a table, fitted to relative errors over every run; +-: half of the 95 % "
            "interval. piecewise: straight between the means; ms a table is that of the last two points.",
        ),
        keys=2,
    )


def _form_row(found: LineFit) -> tuple[str, ...]:
    p = "not tested" if found.lack_of_fit_p is None else f"{found.lack_of_fit_p:.2g}"
    if found.form != LINE:
        return found.form, p, fmt.ABSENT, fmt.ABSENT, f"{1000 * found.last_slope_s:.4f}", fmt.ABSENT
    return (
        found.form,
        p,
        fmt.seconds(found.fixed_s),
        fmt.seconds(found.fixed_error_s),
        f"{1000 * found.per_table_s:.4f}",
        f"{1000 * found.per_table_error_s:.4f}",
    )


def _tested(tested: Sequence[tuple[Curve, PredictionTest]]) -> Table:
    return Table(
        title="Test of the prediction: the largest point, predicted from the smaller ones",
        headers=("version", "variant", "tables", "form", "predicted", "interval", "within", "measured", "off"),
        rows=tuple(_tested_row(curve, found) for curve, found in tested),
        numeric=(False, False, True, False, *(True,) * 5),
        notes=(
            "form: that fits the smaller points; interval: 95 % of one more run, of a straight line only; within: runs "
            "in the interval; off: the measured mean compared with the prediction.",
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
        fmt.ABSENT if found.inside is None else fmt.found_of_expected(found.inside, len(found.runs)),
        fmt.seconds(found.measured_s),
        fmt.ABSENT if found.off is None else _percent_change(found.off),
    )


def _predicted(fitted: Sequence[tuple[Curve, LineFit]], tables: int) -> Table:
    return Table(
        title=f"Predicted for {tables:,} tables",
        headers=("version", "variant", "form", "seconds", "interval", "off at the largest point", "used"),
        rows=tuple(_predicted_row(curve, found.predict(tables), found.form) for curve, found in fitted),
        numeric=(False, False, False, *(True,) * 3, False),
        notes=(
            "interval: 95 % of one more run, if the straight line continues; off at the largest point: as above; used: "
            f"only if that is at most {MAX_PREDICTION_ERROR:.0%}.",
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
        fmt.ABSENT if tested is None or tested.off is None else _percent_change(tested.off),
        "not tested" if curve.predicts is None else fmt.yes_or_no(curve.predicts),
    )


def _interval(found: Prediction) -> str:
    return "-".join(map(fmt.seconds, found.interval)) if found.interval else fmt.ABSENT


# --- Most frequent call chains in each phase, for each run with sampled stacks

MAX_SHOWN_FRAMES = 8
"""Frames shown of each chain: the innermost ones, because they tell most. The folded file has all of them."""
_MIN_SHARE = 0.05
"""A chain is shown from this share of the samples in its phase on, and a phase from this share of all samples on."""


def stacks_tables(session: Session) -> tuple[Table, ...]:
    return tuple(_stacks_table(run) for run in session.runs if run.chains)


def flame_graph_path(stacks: str) -> str:
    """Returns the path of the flame graph, which is next to the file of folded stacks it is drawn from."""
    path = PurePath(stacks)
    return str(path.with_suffix(".svg")) if path.name else stacks


def _stacks_table(run: Run) -> Table:
    shown = [chain for chain in run.chains if _is_worth_showing(chain, run)]
    notes = [
        f"samples: in this phase; share: with this call chain, outermost first, at most {MAX_SHOWN_FRAMES} frames. "
        "Threads that wait are left out, unless for a mutex. Shown are the three most frequent chains of each "
        f"kind of thread and phase, from {_MIN_SHARE:.0%} of the samples.",
    ]
    if any(chain.of < MIN_SAMPLES for chain in shown):
        notes.append(f"With fewer than {MIN_SAMPLES} samples in the phase the counts are shown instead of shares.")
    if any(frame.startswith("[") for chain in shown for frame in chain.frames):
        notes.append("[file]: a function of that file that has no symbol.")
    if run.sampled_by == "perf":
        notes.append("perf samples running threads: the time in which the server waits for its storage is missing.")
    if run.stacks:
        notes.append(f"All stacks: {run.stacks}; flame graph: {flame_graph_path(run.stacks)}.")
    return Table(
        title=f"Stacks of run {run.number}, {run.version} {run.variant}, {run.samples} samples by {run.sampled_by}",
        headers=("phase", "samples", "share", "thread", "chain"),
        rows=tuple(
            (
                chain.phase,
                str(chain.of),
                share_text(chain.samples, chain.of, decimals=0),
                chain.thread,
                _chain_text(chain),
            )
            for chain in shown
        ),
        numeric=(False, True, True, False, False),
        notes=tuple(notes),
    )


def _is_worth_showing(chain: CallChain, run: Run) -> bool:
    """Returns whether a chain is worth showing: it is frequent enough and its phase is long enough. A main thread that
    waits while others work is not shown."""
    if chain.samples < _MIN_SHARE * chain.of or chain.of < _MIN_SHARE * (run.samples or 0):
        return False
    return not chain.waits or not any(one.phase == chain.phase and one.thread != chain.thread for one in run.chains)


def _chain_text(chain: CallChain) -> str:
    shown = chain.frames[-MAX_SHOWN_FRAMES:]
    return " > ".join(("...", *shown) if len(shown) < len(chain.frames) else shown)


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


def page_cache_notes(runs: Iterable[Run]) -> Iterator[str]:
    """Yields notes for the table of runs: the share of the tables' files in the page cache before and after the
    start."""
    shares = ((_shares(run.resident_share, run.resident_share_after), run.number) for run in runs)
    for share, numbers in runs_by_value(shares).items():
        yield f"Tables' files in the page cache before and after the start: {share}: {numbers}."


def _shares(before: float | None, after: float | None) -> str | None:
    return None if before is None or after is None else f"{_percent_range([before])} and {_percent_range([after])}"


def _second_start_reason(key: tuple[str, str], starts: Sequence[WarmEvidence]) -> str:
    """Returns the reason why these starts do not count as warm."""
    reasons = []
    cold = any(found.cold_bytes for found in starts)
    read = [(size, found.full_bytes) for found in starts if (size := found.run.metrics.get("read_bytes")) is not None]
    if shares := [found.shares for found in starts if found.shares is not None]:
        before, after = map(_percent_range, zip(*shares, strict=True))
        reasons.append(f"{before} of the tables' files were in the page cache before it, {after} after it")
    elif not cold or not read:
        reasons.append("what was in the page cache before it is unknown")
    if compared := [its / full for its, full in read if full]:
        reasons.append(
            f"it read {_percent_range(compared)} of {'what the cold starts read' if cold else 'the data directory'}"
        )
    return f"{' '.join(key)}: {' and '.join(reasons)}; not counted as warm."


def _what_to_do(session: Session) -> str:
    if session.settings.get("memory_bytes"):
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


def _percent_range(shares: Sequence[float]) -> str:
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


# --- Files touched by recovery, and whether the documentation's claim about them holds

CLAIM = '"only *.ibd files modified since the last checkpoint are accessed"'
MANUAL = "https://dev.mysql.com/doc/refman/5.7/en/innodb-recovery.html"
"""The page of the manual with this claim, under Tablespace Discovery During Crash Recovery."""
HOLDS, OPENS_ONLY, FAILS = "holds", "opened, not read", "does not hold"
_HEADERS = (
    "version", "variant", "modified", "opened", "opens", "opened only", "read", "read only", "requests", "bytes",
    "cache", "in data", "claim",
)  # fmt: skip


def touched_table(session: Session) -> Table | None:
    """Returns the table of the files that the start touched, or None if no run was traced."""
    rows = [
        (version, variant, traced)
        for (version, variant), runs in measured_runs_by_cell(session).items()
        if (traced := [run for run in runs if run.tablespaces_opened is not None])
    ]
    if not rows:
        return None
    means = sorted({run.traced_by for _, _, runs in rows for run in runs if run.traced_by})
    return Table(
        title="Tables' files that the start opened and read",
        headers=_HEADERS,
        rows=tuple((version, variant, *_touched_row(runs)) for version, variant, runs in rows),
        numeric=(False, False, *(True,) * 10, False),
        notes=(
            f"claim: of the documentation, {CLAIM}. modified: files modified since the checkpoint; opened: distinct "
            "files until the first answered query; read: files of which contents were read; only: without having been "
            "modified.",
            "requests, bytes: all reads of the server, per table of the schema; cache: growth of the page cache; in "
            "data: growth of the cached part of the data directory, if it was proved to be empty before.",
            f"Traced by {' and '.join(means)}, which made every start of this session slower.",
        ),
        keys=2,
    )


def claim_verdict(runs: Sequence[Run]) -> str:
    """Returns whether the claim holds. A single start that read an unmodified file refutes it; a clean start proves
    nothing about recovery."""
    if not any(run.crash_proof for run in runs):
        return fmt.ABSENT
    if any(run.read_unmodified for run in runs):
        return FAILS
    return OPENS_ONLY if any(run.opened_unmodified for run in runs) else HOLDS


def _touched_row(runs: Sequence[Run]) -> tuple[str, ...]:
    return (
        _count(runs, lambda run: run.tablespaces_modified),
        _count(runs, lambda run: run.tablespaces_opened),
        _count(runs, lambda run: run.tablespace_opens),
        _count(runs, lambda run: run.opened_unmodified),
        _count(runs, lambda run: run.tablespaces_read),
        _count(runs, lambda run: run.read_unmodified),
        fmt.ratio(mean(per_table(run, "read_requests") for run in runs)),
        _size(mean(per_table(run, "read_bytes") for run in runs)),
        _size(mean(run.cache_grown_bytes for run in runs)),
        _size(mean(_grown_in_data(run) for run in runs)),
        claim_verdict(runs),
    )


def _grown_in_data(run: Run) -> int | None:
    """Returns by how much the cached bytes of the data directory grew, or None if they are not known before and after
    the start."""
    if run.resident_after_bytes is None or run.resident_before_bytes is None:
        return None
    return run.resident_after_bytes - run.resident_before_bytes


def _count(runs: Sequence[Run], of: Callable[[Run], int | None]) -> str:
    """Returns one number if all runs agree, as they should, else the range from the smallest to the largest."""
    found = [value for run in runs if (value := of(run)) is not None]
    if not found:
        return fmt.ABSENT
    low, high = min(found), max(found)
    return fmt.count(low) if low == high else f"{fmt.count(low)}-{fmt.count(high)}"


def _size(value: float | None) -> str:
    return fmt.size(None if value is None else round(value))
