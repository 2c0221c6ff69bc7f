"""Which tables make the report of a server at work? The figure, what it is held against, what went on, every run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from recovery.analysis.statistics import LEAST_RUNS
from recovery.analysis.summary import (
    LEAST_TO_PAIR,
    Between,
    Group,
    Held,
    Middle,
    against_baseline,
    along,
    baseline_of,
    between,
    by_cell,
    cell_words,
    figures_about,
    groups,
    is_switch,
    middles,
    taken,
    value_of,
    value_words,
    version_pairs,
)
from recovery.analysis.warnings import number, server_of
from recovery.model import Axis, Quantity, Run, Session, Table, quantity
from recovery.report import format as fmt
from recovery.report.crash_tables import about_crashes, about_damage, crash_tables, damaged_table
from recovery.report.format import beside, explained
from recovery.report.server_tables import inside_tables, waits_table
from recovery.report.settings_tables import findings_tables, grouped, left_in_cache, not_counted
from recovery.report.startup_tables import hottest_tables, stacks_tables

# How does each version compare with each other one? Ratios cell by cell, a column for each pair.


def over(pair: tuple[str, str]) -> str:
    """As a column is headed: `8.0.31 / 5.7.22`."""
    return " / ".join(pair)


def pair_tables(session: Session) -> Iterator[Table]:
    """Several versions in a few columns; what holds for all tables is said below the last."""
    found = {(one.variant, one.version, one.base_version): one for one in between(session)}
    made = [table for group in groups(session) if (table := _pairs_table(session, group, found)).rows]
    yield from (replace(table, notes=()) for table in made[:-1])
    yield from made[-1:]


def _pairs_table(session: Session, group: Group, found: dict[tuple[str, str, str], Between]) -> Table:
    about, pairs = quantity(group.figure), version_pairs(session.versions)
    # Of each cell its own columns but that of the version.
    named = fmt.headers(session, group)[1:] or ("cell",)
    rows = [variant for variant in group.variants if any((variant, *pair) in found for pair in pairs)]
    return Table(
        title=fmt.titled(f"Version against version: {about.title}", group),
        headers=(*named, *map(over, pairs)),
        rows=tuple(
            (*_names(session, group, variant), *(_pair_factor(found.get((variant, *pair))) for pair in pairs))
            for variant in rows
        ),
        numeric=(*(fmt.numeric(session, group)[1:] or (False,)), *(True,) * len(pairs)),
        notes=(
            _note(about, errors=any(one.differs is not None for one in found.values())),
            *fmt.of_so_many([one.differs for one in found.values()]),
        ),
        keys=len(named),
    )


def _note(about: Quantity, *, errors: bool) -> str:
    better = "" if about.more_is_better is None else f": {'above' if about.more_is_better else 'below'} 1 is better"
    told = ", with its 95 % interval; (=): not significant, 1 lies inside of it" if errors else ""
    return f"Mean over mean{better}{told}."


def _names(session: Session, group: Group, variant: str) -> tuple[str, ...]:
    return fmt.row(session, group, ("", variant))[1:] or (group.name or variant,)


def _pair_factor(one: Between | None) -> str:
    return fmt.effect(one) + (" (=)" if one is not None and one.differs is False else "")


# Is one version better than another, and what does each axis do? Ratios with intervals, and which are significant.

OFF = frozenset({"off", "false", "no"})
MISSES = "load_table_open_cache_misses_per_s"
"""Of the load's own: what somebody else took from it by the table cache, if by that."""
_MISSED = (
    "more misses/s: of the table cache, the load's own, without those of who asked beside it; what was lost without "
    "more of them was lost to something else."
)
_SIGNIFICANT = "significant: 1 is outside of it"


def version_tables(session: Session) -> Iterator[Table]:
    """Each pair of three versions; of others every one over the baseline, and of more than three both. None of a
    session with one version."""
    if len(session.versions) >= LEAST_TO_PAIR:
        yield from pair_tables(session)
    if len(session.versions) == LEAST_TO_PAIR:
        return
    held = against_baseline(session)
    found = {(one.version, one.variant): one for one in held}
    base = baseline_of(session)
    means = {one.variant: one.mean for one in middles(session) if one.version == base}
    parts = [(group, [found[key] for key in _order(session, group) if key in found]) for group in groups(session)]
    made = [_versions(session, group, rows, means) for group, rows in parts if rows]
    yield from (replace(table, notes=()) for table in made[:-1])
    counted = fmt.of_so_many([one.differs for one in held])
    yield from (replace(table, notes=(*table.notes, *counted)) for table in made[-1:])


def _order(session: Session, group: Group) -> list[tuple[str, str]]:
    return [(version, variant) for version in session.versions for variant in group.variants]


def _versions(session: Session, group: Group, rows: Sequence[Middle], means: dict[str, float | None]) -> Table:
    about, base = quantity(group.figure), baseline_of(session)
    named = fmt.headers(session, group)
    return Table(
        title=fmt.titled(f"Compared with {base}: {about.title}", group),
        headers=(*named, "mean", f"of {base}", "ratio", "significant"),
        rows=tuple(
            (
                *fmt.row(session, group, (one.version, one.variant)),
                fmt.column(about, one.mean),
                fmt.column(about, means[one.variant]),
                fmt.effect(one),
                fmt.verdict(about, one),
            )
            for one in rows
        ),
        numeric=(*fmt.numeric(session, group), *(True,) * 3, False),
        notes=(f"ratio: mean over the mean of {base} in the same row{_better(about)}, with its 95 % interval; "
               f"{_SIGNIFICANT}.",),
        keys=len(named),
    )  # fmt: skip


def _better(about: Quantity) -> str:
    if about.more_is_better is None:
        return ""
    return f": {'above' if about.more_is_better else 'below'} 1 is better"


def axis_tables(session: Session) -> Iterator[Table]:
    """One for each axis that has a base, in each group that differs along it."""
    for group in groups(session):
        for axis in group.axes:
            every = _marked(along(session, axis))
            held = [one for one in every if one.variant in group.variants]
            if held:
                switched = is_switch(axis) and axis.base is not None and axis.base.lower() in OFF
                made = (_lost if switched else _factors)(session, group, axis, held)
                yield replace(made, notes=(*made.notes, *_of_so_many(axis, every)))


def _marked(held: Sequence[Held]) -> Sequence[Held]:
    """One alone has no others to stand out of."""
    several = sum(one.differs is not None for one in held) > 1
    return held if several else [replace(one, stands_out=None) for one in held]


def _of_so_many(axis: Axis, every: Sequence[Held]) -> Iterator[str]:
    """All along the axis, also those in tables of other groups."""
    marked = sum(bool(one.stands_out) for one in every)
    for told in fmt.of_so_many([one.differs for one in every], along=f" along {axis.name}"):
        yield f"{told} With Holm's correction for all together, {marked:,} (*) {fmt.are(marked)}."


def _star(one: Held) -> str:
    return " *" if one.stands_out else ""


def lost_word(about: Quantity) -> str:
    """What a share that is taken away is called: seconds are added, queries lost."""
    return "added" if about.more_is_better is False else "lost"


def lost_share(about: Quantity, ratio: float | None) -> float | None:
    if ratio is None:
        return None
    return ratio - 1 if about.more_is_better is False else 1 - ratio


def lost_interval(about: Quantity, held: Held) -> str:
    """`12.1 to 20.3 %`"""
    ends = [share for end in (held.ratio_low, held.ratio_high) if (share := lost_share(about, end)) is not None]
    return f"{100 * min(ends):.1f} to {100 * max(ends):.1f} %" if ends else fmt.ABSENT


def _lost(session: Session, group: Group, axis: Axis, held: Sequence[Held]) -> Table:
    """Where the base is that something is off: what it costs, in percent."""
    about, word = quantity(group.figure), lost_word(quantity(group.figure))
    means = _means(session)
    on = " or ".join(value_words(axis, value) for value in axis.values if value != axis.base)
    off = value_words(axis, str(axis.base))
    named = fmt.headers(session, group, without=(axis.name,))
    missed = {(one.version, one.variant): one.mean for one in middles(session, MISSES) if one.mean is not None}
    why = ("more misses/s",) if missed else ()
    return Table(
        title=fmt.titled(f"{word.capitalize()} by {on}: {about.title}", group),
        headers=(*named, off, on, word, "95 % interval", "significant", *why),
        rows=tuple(
            (
                *fmt.row(session, group, (one.version, one.variant), without=(axis.name,)),
                fmt.column(about, means[one.version, one.base_variant]),
                fmt.column(about, means[one.version, one.variant]),
                fmt.percent(lost_share(about, one.ratio)),
                lost_interval(about, one),
                fmt.verdict(about, one) + _star(one),
                *(fmt.column(quantity(MISSES), _more(missed, one)) for _ in why),
            )
            for one in held
        ),
        numeric=(*fmt.numeric(session, group, without=(axis.name,)), *(True,) * 4, False, *(True,) * len(why)),
        notes=(
            f"{word}: by how much the mean with {on} is {'above' if word == 'added' else 'below'} that with {off}; "
            "significant: 0 is outside of its interval.",
            *((_MISSED,) if missed else ()),
        ),
        keys=len(named),
    )


def _more(means: Mapping[tuple[str, str], float], held: Held) -> float | None:
    on, off = means.get((held.version, held.variant)), means.get((held.version, held.base_variant))
    return None if on is None or off is None else on - off


def _factors(session: Session, group: Group, axis: Axis, held: Sequence[Held]) -> Table:
    """A row for each base, a column for each other value."""
    about = quantity(group.figure)
    means = _means(session)
    found = {(one.version, one.base_variant, session.cells[one.variant][axis.name]): one for one in held}
    values = [value for value in axis.values if value != axis.base]
    rows = list(dict.fromkeys((one.version, one.base_variant) for one in held))
    named = fmt.headers(session, group, without=(axis.name,))
    return Table(
        title=fmt.titled(f"{axis.name}: {about.title}, factor against {axis.base}", group),
        headers=(*named, f"mean at {axis.base}", *values),
        rows=tuple(
            (
                *fmt.row(session, group, row, without=(axis.name,)),
                fmt.column(about, means[row]),
                *(_starred_factor(found.get((*row, value))) for value in values),
            )
            for row in rows
        ),
        numeric=(*fmt.numeric(session, group, without=(axis.name,)), *(True,) * (1 + len(values))),
        notes=(
            f"Mean over the mean at {axis.base}{_better(about)}, with its 95 % interval; where 1 lies inside, the "
            "difference is not significant.",
        ),
        keys=len(named),
    )


def _starred_factor(held: Held | None) -> str:
    return fmt.effect(held) + (_star(held) if held else "")


def _means(session: Session) -> dict[tuple[str, str], float | None]:
    return {(one.version, one.variant): one.mean for one in middles(session)}


# How long did it take to make the tables, fast, and in the published way as far as that was tried?

_TABLES_MADE, _TOOK = "tables_made", "elapsed_s"


def building_table(session: Session) -> Table | None:
    """None where nothing is known of it."""
    tried = one_by_one(session)
    rows = [_row(session, version, tried.get(version)) for version in session.versions]
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


def one_by_one(session: Session) -> dict[str, tuple[float, float]]:
    """Tables and seconds by version, means of its runs."""
    made = {(one.version, one.variant): one.mean for one in middles(session, _TABLES_MADE)}
    took = {(one.version, one.variant): one.mean for one in middles(session, _TOOK)}
    return {
        version: (tables, seconds)
        for (version, variant), tables in made.items()
        if tables and (seconds := took[version, variant])
    }


def _row(session: Session, version: str, tried: tuple[float, float] | None) -> tuple[str, ...]:
    known = server_of(session, version)
    tables, build_s = number(known.get("tables")), number(known.get("build_s"))
    fast = (fmt.timed(build_s), fmt.number(tables / build_s)) if tables and build_s else (fmt.ABSENT,) * 2
    slow = (fmt.ABSENT,) * 4
    if tried is not None and tables:
        some, seconds = tried
        slow = (f"{some:,.0f}", fmt.timed(seconds), fmt.number(some / seconds), fmt.timed(tables * seconds / some))
    return (version, fmt.count(None if tables is None else int(tables)), *fast, *slow)


# How long did each question and each dump take, version beside version? The table as it was published.

_MADE, _DUMPED = "tables_made", "dump_bytes"
_EXTRAPOLATED = "* "
_PUBLISHED = ("Q1", "Q2", "Q3")
"""Then the making of tables, dumps, and what else was asked."""


@dataclass(frozen=True)
class _Row:
    place: int
    name: str
    seconds: tuple[float | None, ...]
    """One for each version."""
    extrapolated: bool = False


def asked_table(session: Session) -> Table | None:
    """None where the figure is no time, or something that is switched on and off is the question."""
    (first, *others) = groups(session)
    if quantity(session.figure).unit != "s" or others or any(is_switch(axis) for axis in first.axes):
        return None
    rows = sorted((*_cells(session), *_making(session)), key=lambda row: row.place)
    if not any(value for row in rows for value in row.seconds):
        return None
    pairs = version_pairs(session.versions)
    return Table(
        title=f"{session.title}: seconds, {'version beside version' if pairs else 'in short'}",
        headers=("what", *session.versions, *map(over, pairs)),
        rows=tuple(
            (row.name, *(_seconds(value, row) for value in row.seconds), *_ratios(session, row, pairs)) for row in rows
        ),
        numeric=(False, *(True,) * (len(session.versions) + len(pairs))),
        notes=tuple(_query_notes(session, rows)),
    )


def _cells(session: Session) -> Iterator[_Row]:
    found = {(one.version, one.variant): one.mean for one in middles(session)}
    cells = by_cell(session)
    for variant in session.variants:
        runs = [run for version in session.versions for run in cells[version, variant]]
        name = cell_words(session, variant)
        if taken(runs, _MADE):
            name = f"making {taken(runs, _MADE)[0]:,.0f} tables one by one"
        yield _Row(_place(variant, runs), name, tuple(found[version, variant] for version in session.versions))


def _place(variant: str, runs: list[Run]) -> int:
    if variant in _PUBLISHED:
        return 0
    if taken(runs, _MADE):
        return 1
    return 2 if taken(runs, _DUMPED) else 3


def _making(session: Session) -> Iterator[_Row]:
    """The data directories, and what they would have taken the published way."""
    known = {version: server_of(session, version) for version in session.versions}
    tables = {version: number(known[version].get("tables")) for version in session.versions}
    build_s = tuple(number(known[version].get("build_s")) for version in session.versions)
    many = max((count for count in tables.values() if count), default=0)
    if any(build_s):
        yield _Row(1, f"making all {many:,.0f}, fast", build_s)
    tried = one_by_one(session)
    if tried and many:
        all_of_them = tuple(
            count * tried[version][1] / tried[version][0] if (count := tables[version]) and version in tried else None
            for version in session.versions
        )
        yield _Row(1, f"making all {many:,.0f} one by one", all_of_them, extrapolated=True)


def _seconds(value: float | None, row: _Row) -> str:
    if value is None:
        return fmt.ABSENT
    # Nobody has measured its tenths.
    return f"{_EXTRAPOLATED}{fmt.number(value)}" if row.extrapolated else fmt.timed(value)


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


# What did each version come to in each cell? The session's figure, with what matters beside it.


def middle_tables(session: Session) -> Iterator[Table]:
    found = {(one.version, one.variant): one for one in middles(session)}
    parts = groups(session)
    # What holds for all of them is said below the last.
    last = {group.figure: group for group in parts}
    for group in parts:
        rows = [found[version, variant] for version in session.versions for variant in group.variants]
        made = _summary_table(session, group, [one for one in rows if _ran(one)])
        explained = (_figures(session, group),) if group is last[group.figure] else ()
        yield replace(
            made, notes=(*_left_out(rows), *explained, *(_summary_notes(session) if group is parts[-1] else ()))
        )


def _ran(one: Middle) -> bool:
    """A version need not have every variant."""
    return bool(one.count or one.failed or one.void)


def _summary_table(session: Session, group: Group, rows: Sequence[Middle]) -> Table:
    about, more = quantity(group.figure), beside(session, group.figure)
    others = {each.name: {(one.version, one.variant): one.mean for one in middles(session, each.name)} for each in more}
    named = fmt.headers(session, group)
    return Table(
        title=fmt.titled(f"{session.title}: {about.title}", group),
        headers=(*named, "runs", "mean", "+-", "median", "min", "max", *(one.title for one in more)),
        rows=tuple(
            (
                *fmt.row(session, group, (one.version, one.variant)),
                str(one.count),
                *(fmt.column(about, value) for value in (one.mean, one.interval, one.median, one.min, one.max)),
                *(fmt.column(each, others[each.name][one.version, one.variant]) for each in more),
            )
            for one in rows
        ),
        numeric=(*fmt.numeric(session, group), *(True,) * (6 + len(more))),
        keys=len(named),
    )


def _figures(session: Session, group: Group) -> str:
    return _explained((quantity(group.figure), *beside(session, group.figure)))


def _summary_notes(session: Session) -> tuple[str, ...]:
    return (
        f"+-: half of the mean's 95 % interval, by Student's t, from {LEAST_RUNS} runs on.",
        *fmt.spelled(session),
    )


def _explained(told: Sequence[Quantity]) -> str:
    figure, *more = told
    first = f"{figure.title}: {figure.told}. " if figure.told else ""
    better = fmt.which_is_better(figure)
    beside_it = explained(more)
    return f"{first}{better}.{' Means: ' + beside_it if beside_it else ''}" if better else f"{first}{beside_it}".strip()


def _left_out(rows: Sequence[Middle]) -> tuple[str, ...]:
    parts = [
        f"{one.version} {one.variant} {number} {what}"
        for one in rows
        for number, what in ((one.failed, "failed"), (one.void, "void"))
        if number
    ]
    return (f"Not counted: {', '.join(parts)}.",) if parts else ()


# What does a query cost the device, by the size of pages? Queries a second against reads, where data is larger.

PAGES = ("innodb_page_size", "pages")
"""Axes of how the data lies in pages."""
READS, EACH = "device_reads_per_s", "device_reads_per_query"
_FIGURES = ("qps", READS, EACH, "read_bytes_per_s", "buffer_pool_reads_per_s")


def by_pages(session: Session) -> tuple[Group, ...]:
    """Groups that differ by pages, and read from the device."""
    reading = {one.variant for one in middles(session, READS) if one.mean}
    return tuple(
        group
        for group in groups(session)
        if group.figure == "qps" and any(axis.name in PAGES for axis in group.axes) and reading & set(group.variants)
    )


def reads_tables(session: Session) -> Iterator[Table]:
    for group in by_pages(session):
        yield _reads_table(session, group)


def _reads_table(session: Session, group: Group) -> Table:
    means = {
        name: {(one.version, one.variant): one.mean for one in middles(session, name)}
        for name in _FIGURES
        if any(name in run.measures for run in session.runs) or name == EACH
    }
    told = [quantity(name) for name in means]
    rows = [(version, variant) for version in session.versions for variant in group.variants]
    named = fmt.headers(session, group)
    return Table(
        title=fmt.titled("Queries against the device's reads", group),
        headers=(*named, *(about.title for about in told)),
        rows=tuple(
            (*fmt.row(session, group, row), *(fmt.column(about, means[about.name][row]) for about in told))
            for row in rows
            if means["qps"][row] is not None
        ),
        numeric=(*fmt.numeric(session, group), *(True,) * len(told)),
        notes=("Means. reads/s, reads/query: that the device under the data completed, by whomever they were asked.",),
        keys=len(named),
    )


# How did each run go, and by which clients? Every one, counted or not.

_MOST_COMMANDS = 24


def runs_table(session: Session) -> Table:
    names = figures_about(session)
    about = [quantity(name) for name in names]
    more = [one for one in dict.fromkeys(one for name in names for one in beside(session, name)) if one not in about]
    return Table(
        title="Every run",
        headers=("#", "version", "cell", *(one.title for one in (*about, *more)), "verdict"),
        rows=tuple(
            (
                str(run.number),
                run.version,
                cell_words(session, run.variant),
                *(fmt.column(one, value_of(run, one.name)) for one in (*about, *more)),
                run.verdict.value,
            )
            for run in session.runs
        ),
        numeric=(True, False, False, *(True,) * len((*about, *more)), False),
        notes=(*_run_notes(session.runs, as_published=bool(session.settings.get("as_published"))),),
        keys=3,
    )


def _run_notes(runs: tuple[Run, ...], *, as_published: bool) -> Iterator[str]:
    for means, numbers in grouped((run.cold_means, run.number) for run in runs).items():
        yield f"Cache emptied by {means}: {numbers}."
    yield from left_in_cache(runs, as_published=as_published)
    for program, numbers in grouped((run.sampled_by, run.number) for run in runs).items():
        yield f"Stacks taken by {program} meanwhile, in no mean: {numbers}."
    for numbers in grouped((run.counted_waits, run.number) for run in runs).values():
        yield f"Waits counted meanwhile, in no mean: {numbers}."


def clients_table(session: Session) -> Table | None:
    """The exact commands, each once; None where nothing but the server was at work."""
    found: dict[tuple[str, str], list[str]] = {}
    for run in session.runs:
        for name, command in run.clients.items():
            found.setdefault((name, command), []).append(str(run.number))
    if not found:
        return None
    shown = list(found.items())[:_MOST_COMMANDS]
    left = len(found) - len(shown)
    return Table(
        title="Clients",
        headers=("client", "command", "runs"),
        rows=tuple((name, command, ", ".join(numbers)) for (name, command), numbers in shown),
        numeric=(False, False, False),
        notes=(f"{left} more commands are in report.json, run by run.",) if left else (),
        keys=2,
    )


_MOST_RUNS = 24


def work_figures(session: Session) -> tuple[Table, ...]:
    """What was measured."""
    waits = waits_table(session)
    return (
        *_first(session),
        *inside_tables(session),
        *(() if waits is None else (waits,)),
        *hottest_tables(session),
        *stacks_tables(session),
        runs_table(session),
        *_last(session),
    )


def work_in_short(session: Session) -> tuple[Table, ...]:
    """For a terminal: what went on inside would fill many screens, and is in the files."""
    runs = (runs_table(session),) if len(session.runs) <= _MOST_RUNS else ()
    return (*_first(session), *runs, *_last(session))


def _first(session: Session) -> tuple[Table, ...]:
    """The figure, and what it is held against."""
    if about_damage(session) or about_crashes(session):
        return main_tables(session)
    built = building_table(session) if quantity(session.figure).unit == "s" else None
    asked = asked_table(session)
    return (
        *(() if asked is None else (asked,)),
        *main_tables(session),
        *reads_tables(session),
        *version_tables(session),
        *axis_tables(session),
        *(() if built is None else (built,)),
    )


def main_tables(session: Session) -> tuple[Table, ...]:
    """What each version came to in each cell."""
    if about_damage(session):
        return (damaged_table(session),)
    return tuple(crash_tables(session) if about_crashes(session) else middle_tables(session))


def _last(session: Session) -> tuple[Table, ...]:
    return (*not_counted(session), *findings_tables(session))


def work_about(session: Session) -> tuple[Table, ...]:
    """By what it was measured, beside host and servers."""
    clients = clients_table(session)
    return () if clients is None else (clients,)
