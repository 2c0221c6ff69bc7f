"""Writes the answer at the top of a report: lines about timed starts, or a sentence for each version."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from recovery.analysis import phase_names
from recovery.analysis.contrasts import Contrast, contrasts
from recovery.analysis.growth import TEST_NEEDS, Curve, growth_curves
from recovery.analysis.statistics import (
    LINE,
    LINE_NEEDS,
    MIN_RUNS,
    Prediction,
)
from recovery.analysis.summary import (
    Cell,
    Summary,
    VariantRatio,
    baseline_of,
    cell_words,
    groups,
    is_compared,
    is_switch,
    key_of,
    main_samples,
    mean,
    measured_runs_by_cell,
    own_read_requests,
    phase_means,
    sample_of,
    summarise,
    summary_of,
    value_words,
    variant_ratios,
)
from recovery.analysis.warnings import cells_missing_precision
from recovery.model import SETTINGS_AXIS, STARTUP_METRIC, Axis, Cache, Metric, Run, Session, Verdict, metric
from recovery.report import fmt
from recovery.report.metric_tables import OFF_VALUES, lost_share
from recovery.report.tables import Source

_MAX_CLAUSES, _MAX_GROUPS, _MAX_AXES = 3, 1, 1
"""Most clauses of each kind in one sentence; the tables have the rest."""


@dataclass(frozen=True)
class _Context:
    """The data that all sentences of a session are made from."""

    session: Session
    summaries: tuple[Summary, ...]
    measured: dict[Cell, tuple[Run, ...]]
    phases: dict[Cell, dict[str, float]]
    """Mean seconds of each phase of a start."""

    @property
    def less_is_better(self) -> bool:
        return metric(self.session.figure).more_is_better is False

    def of(self, version: str) -> list[Summary]:
        return [one for one in self.summaries if one.version == version]

    def about(self, variant: str) -> Metric:
        return metric(self.session.figure_of(variant))

    def mean(self, version: str, variant: str) -> float | None:
        return next((one.mean for one in self.of(version) if one.variant == variant), None)


def answers(session: Session, *, each_version: bool = True, reason: bool = True) -> tuple[str, ...]:
    """Returns the answer of a session in lines, with the versions in the order of the report.

    Timed starts have a line for each version, unless a table follows that has the same figures, a comparison, and with
    `reason` what takes the time. Other sessions have a sentence for each version; a version measured with several
    numbers of tables has one for each of its curves."""
    return (*_answers(session, each_version=each_version, reason=reason), *_missed_precision(session))


def _missed_precision(session: Session) -> Iterator[str]:
    if missed := [about for about, _ in cells_missing_precision(session)]:
        more = f" and {len(missed) - _MAX_CLAUSES} more" if len(missed) > _MAX_CLAUSES else ""
        precision = 100 * (session.design.precision or 0)
        yield f"The precision of +- {precision:g} % was missed: {', '.join(missed[:_MAX_CLAUSES])}{more}."


def _answers(session: Session, *, each_version: bool, reason: bool) -> tuple[str, ...]:
    if not is_compared(session):
        return Source("crash_tables:crash_answers").of(session)
    context = _Context(session, summarise(session), measured_runs_by_cell(session), phase_means(session))
    curves = growth_curves(session)
    if session.has_caches and not curves:
        return tuple(_start_answers(context, each_version=each_version, reason=reason))
    found: list[str] = []
    for version in session.versions:
        own = [_growth(session, curve) for curve in curves if curve.version == version]
        found += own or [_answer(context, version)]
    return tuple(found)


def _answer(context: _Context, version: str) -> str:
    mine = context.of(version)
    if not any(one.count for one in mine):
        return _nothing(context.session, version)
    switch = _cost_switch(context.session)
    if switch is not None:
        clauses = list(_cost_clauses(context, version, switch))
    elif context.less_is_better or _can_be_listed(context, version):
        clauses = list(_cell_clauses(context, version))
    else:
        clauses = [*_largest_value_clauses(context, version), *_axis_effect_clauses(context, version)]
    counts = tuple(sum(getattr(one, name) for one in mine) for name in ("failed", "void"))
    left_out = f" Not counted: {_counted(counts)}." if any(counts) else ""
    text = "; ".join(clauses) if clauses else "was measured: see the tables"
    return f"{version} {text}.{left_out}"


def _nothing(session: Session, version: str) -> str:
    runs = [run for run in session.runs if run.version == version]
    counts = tuple(sum(run.verdict is verdict for run in runs) for verdict in (Verdict.FAILED, Verdict.VOID))
    if not any(counts) and any(run.verdict is Verdict.SAMPLED for run in runs):
        return f"{version}: only sampled runs, none was measured."
    reason = next((run.reason for run in runs if run.reason), None)
    left_out = f" ({_counted(counts)})" if any(counts) else ""
    return f"{version}: nothing was measured{left_out}" + (f": {reason.rstrip('.')}." if reason else ".")


def _counted(counts: Sequence[int]) -> str:
    kinds = zip(counts, ("failed", "void"), strict=True)
    return ", ".join(f"{number} {what} run{'s' if number > 1 else ''}" for number, what in kinds if number)


def _can_be_listed(context: _Context, version: str) -> bool:
    """Returns whether the cells can be listed one by one: they are few, and no axis has a base to compare with."""
    axes = [axis for group in groups(context.session) for axis in group.axes]
    return len(_measured(context, version)) <= _MAX_CLAUSES and not any(axis.base is not None for axis in axes)


def _cost_switch(session: Session) -> Axis | None:
    """Returns the switch that is off at its base, if there is one: then the sentence says what switching it on
    costs."""
    axes = session.differing_axes
    if len(groups(session)) > 1:
        return None
    return next((axis for axis in axes if is_switch(axis) and (axis.base or "").lower() in OFF_VALUES), None)


def _cost_clauses(context: _Context, version: str, axis: Axis) -> Iterator[str]:
    """Yields clauses such as `loses 16.9 % (15.7 to 18.1) by poll=on (46,320 to 38,472 queries/s)`, the largest effect
    first. Effects that are not significant share one clause."""
    ratios = [one for one in variant_ratios(context.session, axis) if one.version == version]
    ranked = sorted(ratios, key=effect_size, reverse=True)
    noise = [one for one in ranked if one.significant is False]
    more = [one for one in ranked if one.significant]
    yield from _first_clauses(
        [
            f"{_cost(context, one)}{_cause(context.session, axis, one, first=number == 0)}{_from_to(context, one)}"
            for number, one in enumerate(more)
        ]
    )
    if noise:
        where = (
            ""
            if not more
            else f" with {_joined_words([_other_axes_words(context.session, axis, one) for one in noise])}"
        )
        values = _from_to(context, noise[0]) if len(noise) == 1 else ""
        what = "does not take significantly longer" if context.less_is_better else "does not lose significantly"
        on = "" if more else f" by {value_words(axis, _axis_value(context.session, axis, noise[0]))}"
        yield f"{what}{on}{where}{values}{_joint_phrase(context, axis, noise)}"
    yield from _not_compared(axis, ratios)


def _first_clauses(clauses: Sequence[str]) -> list[str]:
    """Returns the first clauses, and a last one that counts the others."""
    more = len(clauses) - _MAX_CLAUSES
    return [*clauses[:_MAX_CLAUSES], *((f"and {more} more in the tables",) if more > 0 else ())]


def _not_compared(axis: Axis, ratios: Sequence[VariantRatio]) -> Iterator[str]:
    """Yields a clause if nothing along the axis could be compared: without an interval no effect is claimed."""
    if ratios and all(one.significant is None for one in ratios):
        yield f"{axis.name} was not compared: {MIN_RUNS} runs of each are needed"


def _joint_phrase(context: _Context, axis: Axis, noise: Sequence[VariantRatio]) -> str:
    """Returns a phrase for comparisons that are significant individually but not when all along the axis are taken
    together."""
    if not any(one.differs for one in noise):
        return ""
    several = sum(one.differs is not None for one in variant_ratios(context.session, axis))
    return f", the {several} comparisons along {axis.name} taken together"


def _cost(context: _Context, one: VariantRatio) -> str:
    about = context.about(one.variant)
    if one.ratio is None:
        return f"changes by {fmt.effect(one)}"
    shares = [lost_share(about, ratio) or 0.0 for ratio in (one.ratio, one.ratio_low, one.ratio_high)]
    share, low, high = shares[0], *sorted(map(abs, shares[1:]))
    changed = f"{100 * abs(share):.1f} % ({100 * low:.1f} to {100 * high:.1f})"
    if context.less_is_better:
        return f"needs {changed} {'more' if share > 0 else 'less'}"
    return f"{'loses' if share > 0 else 'gains'} {changed}"


def _cause(session: Session, axis: Axis, one: VariantRatio, *, first: bool) -> str:
    """Returns which value of the axis causes the effect, in the first clause only, and in which cell."""
    elsewhere = _other_axes_words(session, axis, one)
    on = f" by {value_words(axis, _axis_value(session, axis, one))}" if first else ""
    return f"{on} with {elsewhere}" if elsewhere else on


def _axis_value(session: Session, axis: Axis, one: VariantRatio) -> str:
    return session.cells[one.variant][axis.name]


def _other_axes_words(session: Session, axis: Axis, one: VariantRatio) -> str:
    return cell_words(session, one.variant, without=(axis.name,))


def _from_to(context: _Context, one: VariantRatio) -> str:
    before, after = context.mean(one.version, one.base_variant), context.mean(one.version, one.variant)
    if before is None or after is None:
        return ""
    about = context.about(one.variant)
    return f" ({fmt.column(about, before)} to {fmt.with_unit(about, after)})"


def _cell_clauses(context: _Context, version: str) -> Iterator[str]:
    """Yields a clause for each cell, such as `needs 58.3 s for Q1, 30.4 (29.9-30.9) times as long as 8.0.31`."""
    verb = "needs " if context.less_is_better else "reaches "
    yield from _first_clauses(
        [
            f"{'' if number else verb}{_value_text(context, one)}{_comparison(context, one)}"
            for number, one in enumerate(_measured(context, version))
        ]
    )


def _value_text(context: _Context, one: Summary) -> str:
    """Formats the mean of a cell, such as `41.0 +- 1.2 s cold` or `12,345 queries/s for threads 8`."""
    if context.session.cache_of(one.variant):
        return _time(context.session, one)
    where = cell_words(context.session, one.variant)
    return f"{fmt.with_unit(context.about(one.variant), one.mean or 0.0)} for {where}"


def _time(session: Session, one: Summary) -> str:
    on = "on a " if session.is_second_start(one.variant) else ""
    return f"{mean_text(one)} {on}{one.variant}"


def mean_text(one: Summary) -> str:
    """Formats a mean in seconds with its interval, such as `64.0 +- 1.4 s`, which has as many decimals."""
    seconds, places = one.mean or 0.0, _decimals(one.mean or 0.0)
    if fmt.passes_zero(one):
        return f"{seconds:.{places}f} s (runs of {one.min:.{places}f} to {one.max:.{places}f} s)"
    error = "" if one.interval is None else f" +- {one.interval:.{places}f}"
    return f"{seconds:.{places}f}{error} s"


def seconds_with_digits(seconds: float) -> str:
    """Formats seconds with three digits, such as `64.0 s`."""
    return f"{seconds:.{_decimals(seconds)}f} s"


def _decimals(seconds: float) -> int:
    return 0 if seconds >= 99.95 else 1 if seconds >= 9.995 else 2


def _comparison(context: _Context, one: Summary) -> str:
    """Returns the comparison with the baseline or, if there are two versions, with the other one. Of two versions only
    the one with the larger value has it."""
    session, base = context.session, baseline_of(context.session)
    two = len(session.versions) == 2
    other = next((version for version in session.versions if version != one.version), base) if two else base
    if other == one.version or session.is_second_start(one.variant):
        return ""
    cells = (other, one.variant), (one.version, one.variant)
    (contrast,) = contrasts(main_samples(session, *cells), [(key_of(cells[0]), key_of(cells[1]))])
    if two and contrast.is_below:
        return ""
    words = _compared_words(context.about(one.variant), contrast, other)
    return f", {words}" if words else ""


def _compared_words(about: Metric, one: Contrast, other: str) -> str:
    """Returns the comparison in words. It is empty without an interval, because then no effect is claimed."""
    if one.differs is None:
        return ""
    if not one.differs:
        return f"not significantly different from {other}"
    if one.ratio is None:
        return f"{fmt.effect(one)} compared with {other}"
    if about.more_is_better is False and about.unit == "s":
        return f"{_effect_words(one)} as long as {other}"
    return f"{_effect_words(one)} that of {other}"


def _effect_words(one: Contrast) -> str:
    """Formats an effect, such as `2.31 (2.05-2.60) times`."""
    return f"{fmt.effect(one)} times"


def _largest_value_clauses(context: _Context, version: str) -> Iterator[str]:
    """Yields a clause for the largest figure of each group."""
    verb = "does up to "
    for group in groups(context.session)[:_MAX_GROUPS]:
        able = [one for one in _measured(context, version) if one.variant in group.variants and one.mean]
        if able:
            best = max(able, key=lambda one: one.mean or 0.0)
            where = cell_without_base(context.session, best.variant)
            value = fmt.with_unit(context.about(best.variant), best.mean or 0.0)
            yield f"{verb}{value}{f' with {where}' if where else ''}{_over_base(context, best)}"
            verb = ""


def _measured(context: _Context, version: str) -> list[Summary]:
    return [one for one in context.of(version) if one.count]


def cell_without_base(session: Session, variant: str, *, without: str = "") -> str:
    """Returns the cell in words, without the axes that are at their base."""
    cell = session.cells.get(variant, {})
    at_base = {axis.name for axis in session.axes if axis.base is not None and cell.get(axis.name) == axis.base}
    return cell_words(session, variant, without={*at_base, without})


def _over_base(context: _Context, one: Summary) -> str:
    base = baseline_of(context.session)
    words = "" if one.version == base else _compared_words(context.about(one.variant), one, base)
    return f", {words}" if words else ""


def _axis_effect_clauses(context: _Context, version: str) -> Iterator[str]:
    """Yields the largest effect along each axis that has a base.

    It must be significant when all comparisons along the axis are taken together. Of many that are significant only
    individually, the largest is the one most exaggerated by chance.
    """
    best: list[tuple[float, str]] = []
    for axis in context.session.axes:
        ratios = [one for one in variant_ratios(context.session, axis) if one.version == version]
        sure = [one for one in ratios if one.significant]
        not_compared = list(_not_compared(axis, ratios))
        if sure:
            largest = max(sure, key=effect_size)
            best.append((effect_size(largest), _axis_effect(context.session, axis, largest, alone=len(ratios) == 1)))
        elif not_compared:
            best.append((0.0, not_compared[0]))
        elif ratios:
            best.append((0.0, f"{axis.name} changes nothing significantly{_joint_phrase(context, axis, ratios)}"))
    yield from (clause for _, clause in sorted(best, key=lambda one: -one[0])[:_MAX_AXES])


def effect_size(one: VariantRatio) -> float:
    """Returns the size of an effect for ranking. A factor of one half counts as much as a factor of two, and an effect
    from or to zero is larger than any other."""
    return math.inf if one.ratio is None else abs(math.log(one.ratio))


def _axis_effect(session: Session, axis: Axis, one: VariantRatio, *, alone: bool) -> str:
    where = cell_without_base(session, one.variant, without=axis.name)
    named = value_words(axis, _axis_value(session, axis, one))
    if one.ratio is None:
        return f"{named} changes it by {fmt.effect(one)}" + (f" ({where})" if where else "")
    reach = "" if alone else "up to " if one.ratio > 1 else "down to "
    return f"{named} makes it {reach}{_effect_words(one)} that of {axis.base}" + (f" ({where})" if where else "")


def _joined_words(words: Sequence[str]) -> str:
    known = [word for word in words if word]
    return f"{', '.join(known[:-1])} and {known[-1]}" if len(known) > 1 else "".join(known)


# --- Timed starts: how long they take, the comparison, and what takes the time

_MAX_VERSIONS = 4
"""Most versions that all have a line of their own; of more, the first three have one."""
MORE_VERSIONS = "more versions in the tables."
"""How the line ends that counts the versions without one."""
_LARGE_SHARE = 0.25
"""A phase is mentioned from this share of the startup on; if none has it, the longest ones are."""
_MAX_PHASES = 2
_MANY_TABLES = 5000
"""Number of tables from which on reads are given for each table. With fewer, most reads are of other files."""
_NOT_WARM = " (not proved warm)"


def _start_answers(context: _Context, *, each_version: bool, reason: bool) -> Iterator[str]:
    """Yields what the figures are, a line for each version, one comparison, and what takes the time."""
    session = context.session
    measured = [one for one in context.summaries if one.count]
    conditions = f"{session.title}{_conditions(context, measured)}"
    if measured and each_version:
        yield conditions
    versions = [version for version in session.versions if each_version or not _measured(context, version)]
    shown = versions if len(versions) <= _MAX_VERSIONS else _first_versions(context, versions)
    yield from (_version_line(context, version) for version in shown)
    if len(shown) < len(versions):
        yield f"and {len(versions) - len(shown)} {MORE_VERSIONS}"
    if each_version or len(session.versions) > 1 or settings_axis(session) is not None:
        yield from _start_comparison(context, measured)
    if reason:
        yield from _reason(context, measured)
    yield from _redo_read(context, measured)
    if measured and not each_version:  # a table follows
        yield conditions


def _first_versions(context: _Context, versions: Sequence[str]) -> list[str]:
    """Returns the versions that have a line, if there are too many: the fastest, the slowest, and the first others."""
    first = context.session.variants[0]
    compared = sorted((one for one in context.summaries if one.count and one.variant == first
                       and not context.session.is_second_start(first)), key=lambda one: one.mean or 0.0)  # fmt: skip
    ends = [one.version for one in (compared[:1] + compared[-1:]) if one.version in versions]
    chosen = tuple(dict.fromkeys((*ends, *versions)))[: _MAX_VERSIONS - 1]
    return [version for version in versions if version in chosen]


def _conditions(context: _Context, measured: Sequence[Summary]) -> str:
    """Returns the number of tables and of runs behind the figures, where they are the same for all of them."""
    tables = {run.contents.tables_found for one in measured for run in context.measured[one.version, one.variant]}
    counts = {one.count for one in measured if not context.session.is_second_start(one.variant)} or {
        one.count for one in measured
    }
    number = tables.pop() if len(tables) == 1 else None
    if not counts:
        return ""
    runs = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    error = " +- 95 % interval" if any(one.interval is not None for one in measured) else ""
    traced = "traced " if context.session.design.is_traced else ""
    counted = f"mean of {runs} {traced}run{'' if runs == '1' else 's'}{error}"
    return f"{'' if number is None else f', {number:,} tables'}; {counted}:"


def _version_line(context: _Context, version: str) -> str:
    mine = _measured(context, version)
    if not mine:
        return _nothing(context.session, version)
    clauses = _first_clauses(
        [
            f"{one.variant}{_NOT_WARM if context.session.is_second_start(one.variant) else ''} {mean_text(one)}"
            for one in mine
        ]
    )
    counts = tuple(sum(getattr(one, name) for one in context.of(version)) for name in ("failed", "void"))
    return f"{version}: {'; '.join(clauses)}{f' (not counted: {_counted(counts)})' if any(counts) else ''}"


def _start_comparison(context: _Context, measured: Sequence[Summary]) -> Iterator[str]:
    """Yields the comparison of the slowest and the fastest version, or of a single version's variants.

    It is of the first variant that several versions have, so usually of cold starts."""
    proper = [one for one in measured if not context.session.is_second_start(one.variant)]
    for variant in dict.fromkeys(one.variant for one in proper):
        same = [one for one in proper if one.variant == variant]
        if len(same) > 1:
            yield from _faster(context, same, lambda one: one.version, f", {variant}")
            return
    settings = settings_axis(context.session)
    if settings is not None and proper:
        yield from _compared_settings(context, settings, proper[0].variant)
    else:
        yield from _faster(context, proper, lambda one: f"The {one.variant} start", "")


def settings_axis(session: Session) -> Axis | None:
    """Returns the axis of the settings that the user named, if they are compared."""
    return next((axis for axis in session.differing_axes if axis.name == SETTINGS_AXIS and axis.base), None)


def _compared_settings(context: _Context, axis: Axis, base_variant: str) -> Iterator[str]:
    """Yields how long the starts with each of the named settings take compared with this variant, the largest effect
    first. Differences must be significant when all are taken together."""
    ratios = [one for one in variant_ratios(context.session, axis) if one.base_variant == base_variant]
    sure = sorted((one for one in ratios if one.significant), key=effect_size, reverse=True)
    clauses = _first_clauses(
        [f"{_axis_value(context.session, axis, one)} takes {_effect_words(one)} as long" for one in sure]
    )
    if alike := [_axis_value(context.session, axis, one) for one in ratios if one.significant is False]:
        clauses.append(f"no significant difference: {', '.join(alike)}")
    if clauses:
        yield f"Compared with {axis.base}: {'; '.join(clauses)}."
    elif ratios:
        yield f"Not compared: {MIN_RUNS} runs of each are needed."


@dataclass(frozen=True)
class Ends:
    """The fastest and the slowest of several cells, compared with each other."""

    fast: Summary
    slow: Summary
    contrast: Contrast
    """The slowest compared with the fastest."""
    differ: bool | None
    """Whether they differ significantly; None with fewer than three runs of either. The two are chosen out of all
    pairs, so their difference must be significant for that many comparisons."""


def compare_ends(session: Session, found: Sequence[Summary]) -> Ends:
    """Compares the fastest of these measured cells with the slowest."""
    ranked = sorted(found, key=lambda one: one.mean or 0.0)
    fast, slow = ranked[0], ranked[-1]
    base, cell = (fast.version, fast.variant), (slow.version, slow.variant)
    pair = (key_of(base), key_of(cell))
    (contrast,) = contrasts(main_samples(session, base, cell), [pair], chosen_from=math.comb(len(found), 2))
    return Ends(fast, slow, contrast, contrast.significant)


def _faster(context: _Context, found: Sequence[Summary], name: Callable[[Summary], str], where: str) -> Iterator[str]:
    """Yields how many times faster the fastest is than the slowest."""
    if len(found) < 2:
        return
    ends = compare_ends(context.session, found)
    fast, slow, contrast = ends.fast, ends.slow, ends.contrast
    if ends.differ is None:
        yield f"Not compared: {MIN_RUNS} runs of each are needed."
    elif not ends.differ:
        yield f"{name(fast)} and {_inside(name(slow))} do not differ significantly{where}."
    else:
        low, high = fmt.times(contrast.ratio_low), fmt.times(contrast.ratio_high)
        times = f"{fmt.times(contrast.ratio)} times faster ({low}-{high})"
        its_runs = context.measured[fast.version, fast.variant]
        verb = "recovers" if any(run.startup.crash_proof for run in its_runs) else "starts"
        yield f"{name(fast)} {verb} {times} than {_inside(name(slow))}{where}."


def _inside(name: str) -> str:
    """Returns a name as it is written inside a sentence."""
    return name.replace("The ", "the ", 1)


def _reason(context: _Context, measured: Sequence[Summary]) -> Iterator[str]:
    """Yields what takes the time of the slowest start."""
    slow = slowest_start(context.session, measured)
    if slow is None:
        return
    runs = context.measured[slow.version, slow.variant]
    means = context.phases.get((slow.version, slow.variant), {})
    estimated = phase_names.estimated_phases((run.startup.phases for run in runs), means)
    clauses = [
        *_phases(phase_names.of_the_start(means), estimated),
        *_reads_per_table(context.session, runs),
        *_tablespaces(runs),
    ]
    if clauses:
        yield f"Why {slow.version} takes {seconds_with_digits(slow.mean or 0.0)} {slow.variant}: {'; '.join(clauses)}."
    if phase_names.has_hidden_phases(means):
        yield "The log shows more phases with log_error_verbosity=3, the tool's default."
    if after := {name: seconds for name, seconds in means.items() if phase_names.is_after_the_start(name)}:
        yield f"First queries after that: {', '.join(_phases(after))}."


def _redo_read(context: _Context, measured: Sequence[Summary]) -> Iterator[str]:
    """Yields how much redo the starts over a data directory of the user's own had to read, by version."""
    session, found = context.session, dict[str, str]()
    for version in session.versions if session.design.has_own_data else ():
        cells = [(version, one.variant) for one in measured if one.version == version]
        read = mean(run.metrics.get("redo_bytes") for cell in cells for run in context.measured[cell])
        if read is not None:
            found[version] = fmt.size(round(read))
    if not found:
        return
    sizes = (
        [next(iter(found.values()))] if len(found) == 1 else [f"{size} by {version}" for version, size in found.items()]
    )
    read_text = f"Redo to read: {_joined_words(sizes)}"
    if session.design.as_is or not _is_recovery(context, measured):
        yield f"{read_text}."
    else:
        yield f"{read_text}, the least: a crash under load leaves more (AS_IS=1)."


def _is_recovery(context: _Context, measured: Sequence[Summary]) -> bool:
    return any(run.startup.crash_proof for one in measured for run in context.measured[one.version, one.variant])


def advice_of(session: Session) -> str | None:
    """Returns where the documentation says what shortens the longest phase of the slowest start; None if no start was
    timed or no phase is known."""
    slow = slowest_start(session, summarise(session)) if session.has_caches else None
    found = phase_means(session).get((slow.version, slow.variant), {}) if slow is not None else {}
    means = phase_names.of_the_start(found)
    return phase_names.advice_on(max(means, key=lambda name: means[name])) if means else None


def slowest_start(session: Session, found: Iterable[Summary]) -> Summary | None:
    """Returns the slowest cold start with the options that others are compared with, or else the slowest start, or None
    if none was measured."""
    measured = [one for one in found if one.count]
    bases = {(axis.name, axis.base) for axis in session.axes if axis.base is not None}
    plain = [one for one in measured if bases <= session.cells.get(one.variant, {}).items()] or measured
    cold = [one for one in plain if session.cache_of(one.variant) == Cache.COLD] or plain
    return max(cold, key=lambda one: one.mean or 0.0, default=None)


def _reads_per_table(session: Session, runs: Sequence[Run]) -> Iterator[str]:
    tables = mean(run.contents.tables_found for run in runs)
    size, requests = mean(run.metrics.get("read_bytes") for run in runs), own_read_requests(session, runs)
    if not tables or size is None:
        return
    if tables < _MANY_TABLES:
        yield f"{fmt.size(round(size))} read" + ("" if requests is None else f" in {requests:,.0f} requests")
        return
    reads = "" if requests is None else f" in {requests / tables:.2g} reads"
    yield f"{fmt.size(round(size / tables))}{reads} for each table"


def _phases(means: Mapping[str, float], estimated: Container[str] = ()) -> Iterator[str]:
    whole = sum(means.values())
    longest = sorted(means, key=lambda name: -means[name])[:_MAX_PHASES] if whole else []
    large = [name for name in longest if means[name] >= _LARGE_SHARE * whole] or longest
    if large:
        figures = {name: fmt.estimate(seconds_with_digits(means[name]), name in estimated) for name in large}
        yield ", ".join(f"{figure} {_phase_words(name)}" for name, figure in figures.items())


def _phase_words(name: str) -> str:
    return f"between two lines of the log ({name})" if name == phase_names.UNNAMED else name


def _tablespaces(runs: Sequence[Run]) -> Iterator[str]:
    """Yields how many tablespaces were opened, modified and read, if that was traced."""
    opened = mean(run.opened_files.tablespaces_opened for run in runs)
    if opened is None:
        return
    counts = [f"{opened:,.0f} tablespaces opened"]
    modified, read = (
        mean(run.opened_files.tablespaces_modified for run in runs),
        mean(run.opened_files.tablespaces_read for run in runs),
    )
    if modified is not None:
        counts.append(f"{modified:,.0f} of them modified")
    if claim_verdict(runs) == OPENS_ONLY and read is not None:
        counts.append(f"{read:,.0f} read")
    yield ", ".join(counts)


# --- The documentation's claim about the files that a recovery touches

CLAIM = '"only tablespace *.ibd files modified since the last checkpoint are accessed"'
MANUAL = "https://dev.mysql.com/doc/refman/5.7/en/innodb-recovery.html"
"""The page of the manual with this claim, under Tablespace Discovery During Crash Recovery. From 8.0 on the manual says
there that the directories of `innodb_directories` are scanned."""
HOLDS, OPENS_ONLY, FAILS = "holds", "opened, not read", "does not hold"


def claim_verdict(runs: Sequence[Run]) -> str:
    """Returns whether the claim holds. A single start that read an unmodified file refutes it; a clean start proves
    nothing about recovery."""
    if not any(run.startup.crash_proof for run in runs):
        return fmt.ABSENT
    if any(run.opened_files.read_unmodified for run in runs):
        return FAILS
    return OPENS_ONLY if any(run.opened_files.opened_unmodified for run in runs) else HOLDS


# --- Growth


def _growth(session: Session, curve: Curve) -> str:
    tables, runs = curve.points[-1]
    largest = summary_of(curve.version, curve.variant, STARTUP_METRIC, runs, sample_of(session, runs, STARTUP_METRIC))
    traced = ", traced" if session.design.is_traced else ""
    text = f"{curve.version} needs {_time(session, largest)} with {tables:,} tables{traced}"
    found, requested = curve.fit, session.design.predict
    if found is None:
        return f"{text}; {LINE_NEEDS}."
    if found.form == LINE:
        line = "a straight line" + (" fits" if found.lack_of_fit_p is not None else ", its fit not tested")
        text += (
            f"; {line}: {seconds_with_digits(max(0.0, found.fixed_s))} and {1000 * found.per_table_s:.3g} "
            "ms for each table"
        )
    else:
        start = round(found.means[-2][0])
        text += f"; no straight line fits: from {start:,} tables on, each adds {1000 * found.last_slope_s:.3g} ms"
    return f"{text}{'' if requested is None else _prediction(curve, found.predict(requested), requested)}."


def _prediction(curve: Curve, found: Prediction, tables: int) -> str:
    """Returns the prediction with its error at the largest point. It has no figure if that error is too large."""
    tested = curve.held_out
    if tested is None:
        test = f"not tested: {TEST_NEEDS}"
    else:
        test = f"tested at {tested.tables:,}: {seconds_with_digits(tested.measured_s)} measured"
        if tested.off is not None:
            test += f", {fmt.whole_percent(abs(tested.off))} {'above' if tested.off >= 0 else 'below'} its prediction"
    if curve.predicts is False:
        return f"; no prediction for {tables:,} ({test})"
    interval = f" ({' to '.join(map(seconds_with_digits, found.interval))})" if found.interval else ""
    return f", and so {seconds_with_digits(found.seconds)}{interval} with {tables:,} ({test})"
