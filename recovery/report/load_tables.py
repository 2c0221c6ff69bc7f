"""Builds the tables of the report for servers under load.

They show the main figure, its comparisons across versions and axes, the time needed to create the tables, the device
reads, every run, and the client commands. The last section puts them in reading order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from recovery.analysis.statistics import MIN_RUNS
from recovery.analysis.summary import (
    MIN_VERSIONS_FOR_PAIRS,
    FigureSummary,
    Group,
    VariantRatio,
    VersionRatio,
    baseline_of,
    cell_words,
    compared_with_baseline,
    figure_summaries,
    figure_values,
    groups,
    is_switch,
    measured_figures,
    run_value,
    runs_by_cell,
    value_words,
    variant_ratios,
    version_pairs,
    version_ratios,
)
from recovery.analysis.warnings import server_of, stored_number
from recovery.model import Axis, Metric, Run, Session, Table, metric
from recovery.report import fmt
from recovery.report.crash_tables import crash_tables, damage_table, is_crash_session, is_damage_session
from recovery.report.fmt import explanations, related_figures
from recovery.report.server_tables import internal_figure_tables, waits_table
from recovery.report.settings_tables import cold_cache_notes, findings_tables, not_counted, runs_by_value
from recovery.report.startup_tables import hottest_tables, stacks_tables

# --- Ratios between pairs of versions, one column for each pair


def pair_header(pair: tuple[str, str]) -> str:
    """Returns the column header of a pair of versions, such as `8.0.31 / 5.7.22`."""
    return " / ".join(pair)


def pair_tables(session: Session) -> Iterator[Table]:
    """Yields tables with a column for each pair of versions. Only the last table has the notes, which apply to all."""
    found = {(one.variant, one.version, one.base_version): one for one in version_ratios(session)}
    made = [table for group in groups(session) if (table := _pairs_table(session, group, found)).rows]
    yield from (replace(table, notes=()) for table in made[:-1])
    yield from made[-1:]


def _pairs_table(session: Session, group: Group, found: dict[tuple[str, str, str], VersionRatio]) -> Table:
    about, pairs = metric(group.figure), version_pairs(session.versions)
    # The key columns of a cell, without the version.
    named = fmt.key_headers(session, group)[1:] or ("cell",)
    rows = [variant for variant in group.variants if any((variant, *pair) in found for pair in pairs)]
    return Table(
        title=fmt.group_title(f"Version against version: {about.title}", group),
        headers=(*named, *map(pair_header, pairs)),
        rows=tuple(
            (*_cell_keys(session, group, variant), *(_pair_factor(found.get((variant, *pair))) for pair in pairs))
            for variant in rows
        ),
        numeric=(*(fmt.numeric_columns(session, group)[1:] or (False,)), *(True,) * len(pairs)),
        notes=(
            _note(about, errors=any(one.differs is not None for one in found.values())),
            *fmt.chance_notes([one.differs for one in found.values()]),
        ),
        keys=len(named),
    )


def _note(about: Metric, *, errors: bool) -> str:
    better = "" if about.more_is_better is None else f": {'above' if about.more_is_better else 'below'} 1 is better"
    told = ", with its 95 % interval; (=): not significant, 1 lies inside of it" if errors else ""
    return f"Mean over mean{better}{told}."


def _cell_keys(session: Session, group: Group, variant: str) -> tuple[str, ...]:
    return fmt.key_cells(session, group, ("", variant))[1:] or (group.name or variant,)


def _pair_factor(one: VersionRatio | None) -> str:
    return fmt.effect(one) + (" (=)" if one is not None and one.differs is False else "")


# --- Versions compared with the baseline, and the effect of each axis, with confidence intervals

OFF_VALUES = frozenset({"off", "false", "no"})
LOAD_CACHE_MISSES = "load_table_open_cache_misses_per_s"
"""Table cache misses of the load's connections. They show whether a loss was caused through the table cache."""
_CACHE_MISSES_NOTE = (
    "more misses/s: of the table cache, the load's own, without those of who asked beside it; what was lost without "
    "more of them was lost to something else."
)
_SIGNIFICANT_NOTE = "significant: 1 is outside of it"


def version_tables(session: Session) -> Iterator[Table]:
    """Yields the comparisons between versions: each pair if there are three versions, every version with the baseline
    if there are two, and both if there are more than three. A session with one version has none."""
    if len(session.versions) >= MIN_VERSIONS_FOR_PAIRS:
        yield from pair_tables(session)
    if len(session.versions) == MIN_VERSIONS_FOR_PAIRS:
        return
    held = compared_with_baseline(session)
    found = {(one.version, one.variant): one for one in held}
    base = baseline_of(session)
    means = {one.variant: one.mean for one in figure_summaries(session) if one.version == base}
    parts = [(group, [found[key] for key in _order(session, group) if key in found]) for group in groups(session)]
    made = [_baseline_table(session, group, rows, means) for group, rows in parts if rows]
    yield from (replace(table, notes=()) for table in made[:-1])
    counted = fmt.chance_notes([one.differs for one in held])
    yield from (replace(table, notes=(*table.notes, *counted)) for table in made[-1:])


def _order(session: Session, group: Group) -> list[tuple[str, str]]:
    return [(version, variant) for version in session.versions for variant in group.variants]


def _baseline_table(
    session: Session, group: Group, rows: Sequence[FigureSummary], means: dict[str, float | None]
) -> Table:
    about, base = metric(group.figure), baseline_of(session)
    named = fmt.key_headers(session, group)
    return Table(
        title=fmt.group_title(f"Compared with {base}: {about.title}", group),
        headers=(*named, "mean", f"of {base}", "ratio", "significant"),
        rows=tuple(
            (
                *fmt.key_cells(session, group, (one.version, one.variant)),
                fmt.column(about, one.mean),
                fmt.column(about, means[one.variant]),
                fmt.effect(one),
                fmt.verdict(about, one),
            )
            for one in rows
        ),
        numeric=(*fmt.numeric_columns(session, group), *(True,) * 3, False),
        notes=(f"ratio: mean over the mean of {base} in the same row{_better(about)}, with its 95 % interval; "
               f"{_SIGNIFICANT_NOTE}.",),
        keys=len(named),
    )  # fmt: skip


def _better(about: Metric) -> str:
    if about.more_is_better is None:
        return ""
    return f": {'above' if about.more_is_better else 'below'} 1 is better"


def axis_tables(session: Session) -> Iterator[Table]:
    """Yields a table for each axis that has a base, in each group that differs along it."""
    for group in groups(session):
        for axis in group.axes:
            every = _with_correction(variant_ratios(session, axis))
            held = [one for one in every if one.variant in group.variants]
            if held:
                switched = is_switch(axis) and axis.base is not None and axis.base.lower() in OFF_VALUES
                made = (_switch_cost_table if switched else _axis_factor_table)(session, group, axis, held)
                yield replace(made, notes=(*made.notes, *_chance_notes(axis, every)))


def _with_correction(held: Sequence[VariantRatio]) -> Sequence[VariantRatio]:
    """Returns the comparisons, without the result of Holm's correction if there is only one: it corrects for
    several."""
    several = sum(one.differs is not None for one in held) > 1
    return held if several else [replace(one, stands_out=None) for one in held]


def _chance_notes(axis: Axis, every: Sequence[VariantRatio]) -> Iterator[str]:
    """Yields the note on significance by chance. It counts all comparisons along the axis, including those in tables of
    other groups."""
    marked = sum(bool(one.stands_out) for one in every)
    for told in fmt.chance_notes([one.differs for one in every], along=f" along {axis.name}"):
        yield f"{told} With Holm's correction for all together, {marked:,} (*) {fmt.is_or_are(marked)}."


def _star(one: VariantRatio) -> str:
    return " *" if one.stands_out else ""


def lost_word(about: Metric) -> str:
    """Returns the word for a change for the worse: seconds are `added`, queries are `lost`."""
    return "added" if about.more_is_better is False else "lost"


def lost_share(about: Metric, ratio: float | None) -> float | None:
    """Returns which share was lost (or added, if less is better) at this ratio."""
    if ratio is None:
        return None
    return ratio - 1 if about.more_is_better is False else 1 - ratio


def lost_interval(about: Metric, held: VariantRatio) -> str:
    """Formats the 95 % interval of the lost share, such as `12.1 to 20.3 %`."""
    ends = [share for end in (held.ratio_low, held.ratio_high) if (share := lost_share(about, end)) is not None]
    return f"{100 * min(ends):.1f} to {100 * max(ends):.1f} %" if ends else fmt.ABSENT


def _switch_cost_table(session: Session, group: Group, axis: Axis, held: Sequence[VariantRatio]) -> Table:
    """Returns the table for a switch that is off at its base: what switching it on costs, in percent."""
    about, word = metric(group.figure), lost_word(metric(group.figure))
    means = _means(session)
    on = " or ".join(value_words(axis, value) for value in axis.values if value != axis.base)
    off = value_words(axis, str(axis.base))
    named = fmt.key_headers(session, group, without=(axis.name,))
    missed = {
        (one.version, one.variant): one.mean
        for one in figure_summaries(session, LOAD_CACHE_MISSES)
        if one.mean is not None
    }
    why = ("more misses/s",) if missed else ()
    return Table(
        title=fmt.group_title(f"{word.capitalize()} by {on}: {about.title}", group),
        headers=(*named, off, on, word, "95 % interval", "significant", *why),
        rows=tuple(
            (
                *fmt.key_cells(session, group, (one.version, one.variant), without=(axis.name,)),
                fmt.column(about, means[one.version, one.base_variant]),
                fmt.column(about, means[one.version, one.variant]),
                fmt.percent(lost_share(about, one.ratio)),
                lost_interval(about, one),
                fmt.verdict(about, one) + _star(one),
                *(fmt.column(metric(LOAD_CACHE_MISSES), _additional_misses(missed, one)) for _ in why),
            )
            for one in held
        ),
        numeric=(*fmt.numeric_columns(session, group, without=(axis.name,)), *(True,) * 4, False, *(True,) * len(why)),
        notes=(
            f"{word}: by how much the mean with {on} is {'above' if word == 'added' else 'below'} that with {off}; "
            "significant: 0 is outside of its interval.",
            *((_CACHE_MISSES_NOTE,) if missed else ()),
        ),
        keys=len(named),
    )


def _additional_misses(means: Mapping[tuple[str, str], float], held: VariantRatio) -> float | None:
    on, off = means.get((held.version, held.variant)), means.get((held.version, held.base_variant))
    return None if on is None or off is None else on - off


def _axis_factor_table(session: Session, group: Group, axis: Axis, held: Sequence[VariantRatio]) -> Table:
    """Returns the table for any other axis, with a row for each base cell and a column for each other value."""
    about = metric(group.figure)
    means = _means(session)
    found = {(one.version, one.base_variant, session.cells[one.variant][axis.name]): one for one in held}
    values = [value for value in axis.values if value != axis.base]
    rows = list(dict.fromkeys((one.version, one.base_variant) for one in held))
    named = fmt.key_headers(session, group, without=(axis.name,))
    return Table(
        title=fmt.group_title(f"{axis.name}: {about.title}, factor against {axis.base}", group),
        headers=(*named, f"mean at {axis.base}", *values),
        rows=tuple(
            (
                *fmt.key_cells(session, group, row, without=(axis.name,)),
                fmt.column(about, means[row]),
                *(_starred_factor(found.get((*row, value))) for value in values),
            )
            for row in rows
        ),
        numeric=(*fmt.numeric_columns(session, group, without=(axis.name,)), *(True,) * (1 + len(values))),
        notes=(
            f"Mean over the mean at {axis.base}{_better(about)}, with its 95 % interval; where 1 lies inside, the "
            "difference is not significant.",
        ),
        keys=len(named),
    )


def _starred_factor(held: VariantRatio | None) -> str:
    return fmt.effect(held) + (_star(held) if held else "")


def _means(session: Session) -> dict[tuple[str, str], float | None]:
    return {(one.version, one.variant): one.mean for one in figure_summaries(session)}


# --- Time to create the tables: fast, and one by one as in the published test if that was tried

_TABLES_MADE, _TOOK = "tables_made", "elapsed_s"


def table_creation_table(session: Session) -> Table | None:
    """Returns the table of the time needed to create the tables, or None if nothing is known about it."""
    tried = created_one_by_one(session)
    rows = [_creation_row(session, version, tried.get(version)) for version in session.versions]
    if all(set(row[2:]) == {fmt.ABSENT} for row in rows):
        return None
    notes = [
        "fast: several connections, packets of statements, nothing made durable until the end; measured once, when "
        "the data directory was built."
    ]
    if tried:
        notes.append(
            "one by one: a single client, each table durable, made beside the others; extrapolated: what all tables "
            "would take at that rate, which was not measured."
        )
    return Table(
        title="Making the tables",
        headers=("version", "tables", "fast, s", "tables/s", "one by one", "s", "tables/s", "extrapolated, s"),
        rows=tuple(rows),
        numeric=(False, *(True,) * 7),
        notes=tuple(notes),
    )


def created_one_by_one(session: Session) -> dict[str, tuple[float, float]]:
    """Returns for each version how many tables were created one by one and how many seconds that took, as means over
    its runs."""
    made = {(one.version, one.variant): one.mean for one in figure_summaries(session, _TABLES_MADE)}
    took = {(one.version, one.variant): one.mean for one in figure_summaries(session, _TOOK)}
    return {
        version: (tables, seconds)
        for (version, variant), tables in made.items()
        if tables and (seconds := took[version, variant])
    }


def _creation_row(session: Session, version: str, tried: tuple[float, float] | None) -> tuple[str, ...]:
    known = server_of(session, version)
    tables, build_s = stored_number(known.get("tables")), stored_number(known.get("build_s"))
    fast = (fmt.duration(build_s), fmt.number(tables / build_s)) if tables and build_s else (fmt.ABSENT,) * 2
    slow = (fmt.ABSENT,) * 4
    if tried is not None and tables:
        some, seconds = tried
        slow = (
            f"{some:,.0f}",
            fmt.duration(seconds),
            fmt.number(some / seconds),
            fmt.duration(tables * seconds / some),
        )
    return (version, fmt.count(None if tables is None else int(tables)), *fast, *slow)


# --- Duration of each query and dump, laid out like the published table

_MADE, _DUMPED = "tables_made", "dump_bytes"
_EXTRAPOLATED = "* "
_PUBLISHED = ("Q1", "Q2", "Q3")
"""The queries of the first rows. Rows for creating tables, for dumps and for other queries follow in this order."""


@dataclass(frozen=True)
class _Row:
    place: int
    name: str
    seconds: tuple[float | None, ...]
    """One value for each version; None if it was not measured."""
    extrapolated: bool = False


def durations_table(session: Session) -> Table | None:
    """Returns the table of durations. It is None if the figure is no duration, if there are several groups, if the
    session compares a switch on and off, or if nothing was measured."""
    (first, *others) = groups(session)
    if metric(session.figure).unit != "s" or others or any(is_switch(axis) for axis in first.axes):
        return None
    rows = sorted((*_duration_rows(session), *_creation_rows(session)), key=lambda row: row.place)
    if not any(value for row in rows for value in row.seconds):
        return None
    pairs = version_pairs(session.versions)
    return Table(
        title=f"{session.title}: seconds, {'version beside version' if pairs else 'in short'}",
        headers=("what", *session.versions, *map(pair_header, pairs)),
        rows=tuple(
            (row.name, *(_seconds(value, row) for value in row.seconds), *_ratios(session, row, pairs)) for row in rows
        ),
        numeric=(False, *(True,) * (len(session.versions) + len(pairs))),
        notes=tuple(_query_notes(session, rows)),
    )


def _duration_rows(session: Session) -> Iterator[_Row]:
    found = {(one.version, one.variant): one.mean for one in figure_summaries(session)}
    cells = runs_by_cell(session)
    for variant in session.variants:
        runs = [run for version in session.versions for run in cells[version, variant]]
        name = cell_words(session, variant)
        if figure_values(runs, _MADE):
            name = f"making {figure_values(runs, _MADE)[0]:,.0f} tables one by one"
        yield _Row(_row_order(variant, runs), name, tuple(found[version, variant] for version in session.versions))


def _row_order(variant: str, runs: list[Run]) -> int:
    if variant in _PUBLISHED:
        return 0
    if figure_values(runs, _MADE):
        return 1
    return 2 if figure_values(runs, _DUMPED) else 3


def _creation_rows(session: Session) -> Iterator[_Row]:
    """Yields rows with the time to build the data directories, and the time they would have taken one by one."""
    known = {version: server_of(session, version) for version in session.versions}
    tables = {version: stored_number(known[version].get("tables")) for version in session.versions}
    build_s = tuple(stored_number(known[version].get("build_s")) for version in session.versions)
    many = max((count for count in tables.values() if count), default=0)
    if any(build_s):
        yield _Row(1, f"making all {many:,.0f}, fast", build_s)
    tried = created_one_by_one(session)
    if tried and many:
        all_of_them = tuple(
            count * tried[version][1] / tried[version][0] if (count := tables[version]) and version in tried else None
            for version in session.versions
        )
        yield _Row(1, f"making all {many:,.0f} one by one", all_of_them, extrapolated=True)


def _seconds(value: float | None, row: _Row) -> str:
    if value is None:
        return fmt.ABSENT
    # An extrapolated value is shown with fewer decimals, because such precision was not measured.
    return f"{_EXTRAPOLATED}{fmt.number(value)}" if row.extrapolated else fmt.duration(value)


def _ratios(session: Session, row: _Row, pairs: tuple[tuple[str, str], ...]) -> Iterator[str]:
    found = dict(zip(session.versions, row.seconds, strict=True))
    for version, base in pairs:
        value, of = found[version], found[base]
        yield fmt.times(value / of if value is not None and of else None)


def _query_notes(session: Session, rows: list[_Row]) -> Iterator[str]:
    ratios = "; ratios of these, below 1 is faster" if len(session.versions) > 1 else ""
    yield f"Means, in seconds until the last answer{ratios}. The tables below have their errors."
    if any(row.extrapolated for row in rows):
        yield "*: extrapolated from the tables that were made one by one, at their rate; it was not measured."
    clients = {
        f"{name} ({version})"
        for run in session.runs
        if _DUMPED in run.measures
        for name, version in run.clients.items()
        if name != "dump"
    }
    if clients:
        of_all = " of all versions" if len(clients) == 1 and len(session.versions) > 1 else ""
        yield f"Dumps{of_all} by {', '.join(sorted(clients))}."


# --- Summary of the session's main figure for each version and cell, with related figures


def summary_tables(session: Session) -> Iterator[Table]:
    found = {(one.version, one.variant): one for one in figure_summaries(session)}
    parts = groups(session)
    # Notes that apply to all tables of a figure are only below the last of them.
    last = {group.figure: group for group in parts}
    for group in parts:
        rows = [found[version, variant] for version in session.versions for variant in group.variants]
        made = _summary_table(session, group, [one for one in rows if _has_runs(one)])
        explained = (_figures(session, group),) if group is last[group.figure] else ()
        yield replace(
            made, notes=(*_left_out(rows), *explained, *(_summary_notes(session) if group is parts[-1] else ()))
        )


def _has_runs(one: FigureSummary) -> bool:
    """Returns whether the cell has any run, because a version need not have every variant."""
    return bool(one.count or one.failed or one.void)


def _summary_table(session: Session, group: Group, rows: Sequence[FigureSummary]) -> Table:
    about, more = metric(group.figure), related_figures(session, group.figure)
    others = {
        each.name: {(one.version, one.variant): one.mean for one in figure_summaries(session, each.name)}
        for each in more
    }
    named = fmt.key_headers(session, group)
    return Table(
        title=fmt.group_title(f"{session.title}: {about.title}", group),
        headers=(*named, "runs", "mean", "+-", "median", "min", "max", *(one.title for one in more)),
        rows=tuple(
            (
                *fmt.key_cells(session, group, (one.version, one.variant)),
                str(one.count),
                *(fmt.column(about, value) for value in (one.mean, one.interval, one.median, one.min, one.max)),
                *(fmt.column(each, others[each.name][one.version, one.variant]) for each in more),
            )
            for one in rows
        ),
        numeric=(*fmt.numeric_columns(session, group), *(True,) * (6 + len(more))),
        keys=len(named),
    )


def _figures(session: Session, group: Group) -> str:
    return _explained((metric(group.figure), *related_figures(session, group.figure)))


def _summary_notes(session: Session) -> tuple[str, ...]:
    return (
        f"+-: half of the mean's 95 % interval, by Student's t, from {MIN_RUNS} runs on.",
        *fmt.server_spelling_notes(session),
    )


def _explained(told: Sequence[Metric]) -> str:
    figure, *more = told
    first = f"{figure.title}: {figure.told}. " if figure.told else ""
    better = fmt.which_is_better(figure)
    beside_it = explanations(more)
    return f"{first}{better}.{' Means: ' + beside_it if beside_it else ''}" if better else f"{first}{beside_it}".strip()


def _left_out(rows: Sequence[FigureSummary]) -> tuple[str, ...]:
    parts = [
        f"{one.version} {one.variant} {number} {what}"
        for one in rows
        for number, what in ((one.failed, "failed"), (one.void, "void"))
        if number
    ]
    return (f"Not counted: {', '.join(parts)}.",) if parts else ()


# --- Queries per second compared with device reads, by page size, for groups that read from the device

PAGES = ("innodb_page_size", "pages")
"""Axes that describe how the data is stored in pages."""
DEVICE_READS, READS_PER_QUERY = "device_reads_per_s", "device_reads_per_query"
_FIGURES = ("qps", DEVICE_READS, READS_PER_QUERY, "read_bytes_per_s", "buffer_pool_reads_per_s")


def page_size_groups(session: Session) -> tuple[Group, ...]:
    """Returns the groups that differ in their pages and read from the device."""
    reading = {one.variant for one in figure_summaries(session, DEVICE_READS) if one.mean}
    return tuple(
        group
        for group in groups(session)
        if group.figure == "qps" and any(axis.name in PAGES for axis in group.axes) and reading & set(group.variants)
    )


def device_read_tables(session: Session) -> Iterator[Table]:
    for group in page_size_groups(session):
        yield _reads_table(session, group)


def _reads_table(session: Session, group: Group) -> Table:
    means = {
        name: {(one.version, one.variant): one.mean for one in figure_summaries(session, name)}
        for name in _FIGURES
        if any(name in run.measures for run in session.runs) or name == READS_PER_QUERY
    }
    told = [metric(name) for name in means]
    rows = [(version, variant) for version in session.versions for variant in group.variants]
    named = fmt.key_headers(session, group)
    return Table(
        title=fmt.group_title("Queries against the device's reads", group),
        headers=(*named, *(about.title for about in told)),
        rows=tuple(
            (*fmt.key_cells(session, group, row), *(fmt.column(about, means[about.name][row]) for about in told))
            for row in rows
            if means["qps"][row] is not None
        ),
        numeric=(*fmt.numeric_columns(session, group), *(True,) * len(told)),
        notes=("Means. reads/s, reads/query: that the device under the data completed, by whomever they were asked.",),
        keys=len(named),
    )


# --- Every run, counted or not, and the client commands

_MAX_COMMANDS = 24


def runs_table(session: Session) -> Table:
    names = measured_figures(session)
    about = [metric(name) for name in names]
    more = [
        one
        for one in dict.fromkeys(one for name in names for one in related_figures(session, name))
        if one not in about
    ]
    return Table(
        title="Every run",
        headers=("#", "version", "cell", *(one.title for one in (*about, *more)), "verdict"),
        rows=tuple(
            (
                str(run.number),
                run.version,
                cell_words(session, run.variant),
                *(fmt.column(one, run_value(run, one.name)) for one in (*about, *more)),
                run.verdict.value,
            )
            for run in session.runs
        ),
        numeric=(True, False, False, *(True,) * len((*about, *more)), False),
        notes=(*_run_notes(session.runs, as_published=bool(session.settings.get("as_published"))),),
        keys=3,
    )


def _run_notes(runs: tuple[Run, ...], *, as_published: bool) -> Iterator[str]:
    for means, numbers in runs_by_value((run.cold_means, run.number) for run in runs).items():
        yield f"Cache emptied by {means}: {numbers}."
    yield from cold_cache_notes(runs, as_published=as_published)
    for program, numbers in runs_by_value((run.sampled_by, run.number) for run in runs).items():
        yield f"Stacks taken by {program} meanwhile, in no mean: {numbers}."
    for numbers in runs_by_value((run.counted_waits, run.number) for run in runs).values():
        yield f"Waits counted meanwhile, in no mean: {numbers}."


def clients_table(session: Session) -> Table | None:
    """Returns the table of the exact client commands, each once, or None if no client ran."""
    found: dict[tuple[str, str], list[str]] = {}
    for run in session.runs:
        for name, command in run.clients.items():
            found.setdefault((name, command), []).append(str(run.number))
    if not found:
        return None
    shown = list(found.items())[:_MAX_COMMANDS]
    left = len(found) - len(shown)
    return Table(
        title="Clients",
        headers=("client", "command", "runs"),
        rows=tuple((name, command, ", ".join(numbers)) for (name, command), numbers in shown),
        numeric=(False, False, False),
        notes=(f"{left} more commands are in report.json, run by run.",) if left else (),
        keys=2,
    )


# --- The report's tables in reading order

_MAX_TERMINAL_RUNS = 24
"""A terminal shows the table of runs up to this number."""


def load_figure_tables(session: Session) -> tuple[Table, ...]:
    """Returns the tables of what was measured."""
    waits = waits_table(session)
    return (
        *_main_and_comparisons(session),
        *internal_figure_tables(session),
        *(() if waits is None else (waits,)),
        *hottest_tables(session),
        *stacks_tables(session),
        runs_table(session),
        *_closing_tables(session),
    )


def load_terminal_tables(session: Session) -> tuple[Table, ...]:
    """Returns the tables for a terminal. The server's internal figures would fill many screens and are only in the
    report files."""
    runs = (runs_table(session),) if len(session.runs) <= _MAX_TERMINAL_RUNS else ()
    return (*_main_and_comparisons(session), *runs, *_closing_tables(session))


def _main_and_comparisons(session: Session) -> tuple[Table, ...]:
    """Returns the tables of the main figure and its comparisons."""
    if is_damage_session(session) or is_crash_session(session):
        return main_tables(session)
    built = table_creation_table(session) if metric(session.figure).unit == "s" else None
    asked = durations_table(session)
    return (
        *(() if asked is None else (asked,)),
        *main_tables(session),
        *device_read_tables(session),
        *version_tables(session),
        *axis_tables(session),
        *(() if built is None else (built,)),
    )


def main_tables(session: Session) -> tuple[Table, ...]:
    """Returns the tables of the main results for each version and cell."""
    if is_damage_session(session):
        return (damage_table(session),)
    return tuple(crash_tables(session) if is_crash_session(session) else summary_tables(session))


def _closing_tables(session: Session) -> tuple[Table, ...]:
    return (*not_counted(session), *findings_tables(session))


def load_client_tables(session: Session) -> tuple[Table, ...]:
    """Returns the table of the clients that the measurement used, in addition to the host and server tables."""
    clients = clients_table(session)
    return () if clients is None else (clients,)
