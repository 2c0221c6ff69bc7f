"""Writes the answers at the top of a report: a sentence for each version, made from what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from recovery.analysis import phase_names
from recovery.analysis.growth import TEST_NEEDS, Curve, growth_curves, requested_prediction
from recovery.analysis.statistics import (
    LINE,
    LINE_NEEDS,
    MIN_RUNS,
    EffectFields,
    Prediction,
    compare_means,
    effect_fields,
)
from recovery.analysis.summary import (
    FigureSummary,
    Summary,
    VariantRatio,
    baseline_of,
    cell_words,
    figure_summaries,
    figure_values,
    groups,
    is_load_session,
    is_switch,
    mean,
    measured_runs_by_cell,
    runs_by_cell,
    session_summaries,
    summarise,
    value_words,
    variant_ratios,
)
from recovery.model import Axis, Cache, Metric, Run, Session, Verdict, is_second_start, metric
from recovery.report import fmt
from recovery.report.crash_tables import crash_answers, damage_answers, is_crash_session, is_damage_session
from recovery.report.load_tables import OFF_VALUES, lost_share
from recovery.report.startup_tables import OPENS_ONLY, claim_verdict, floor_comparisons, phase_means

# --- Servers under load: sentences made from any figures and axes

_MAX_CLAUSES, _MAX_GROUPS, _MAX_AXES = 6, 3, 3
"""Most clauses of each kind in one sentence; the tables have the rest."""


@dataclass(frozen=True)
class _LoadContext:
    session: Session
    found: dict[tuple[str, str], FigureSummary]

    def about(self, variant: str) -> Metric:
        return metric(self.session.figure_of(variant))

    @property
    def seconds(self) -> bool:
        """Whether the main figure is a duration, or another figure of which less is better."""
        return metric(self.session.figure).more_is_better is False

    def mean(self, version: str, variant: str) -> float | None:
        return self.found[version, variant].mean


def work_answers(session: Session) -> tuple[str, ...]:
    """Returns the sentences of a session under load, with the versions in the order of the report."""
    if is_damage_session(session):
        return tuple(damage_answers(session))
    if is_crash_session(session):
        return tuple(crash_answers(session))
    told = _LoadContext(session, {(one.version, one.variant): one for one in figure_summaries(session)})
    return tuple(_load_answer(told, version) for version in session.versions)


def _load_answer(told: _LoadContext, version: str) -> str:
    mine = [one for one in told.found.values() if one.version == version]
    if not any(one.count for one in mine):
        return _nothing_under_load(told.session, version)
    switch = _cost_switch(told.session)
    if switch is not None:
        clauses = list(_cost_clauses(told, version, switch))
    elif told.seconds or _can_be_listed(told, version):
        clauses = list(_cell_clauses(told, version))
    else:
        clauses = [*_largest_figure_clauses(told, version), *_axis_effect_clauses(told, version)]
    failed, void = (sum(getattr(one, name) for one in mine) for name in ("failed", "void"))
    counted = ", ".join(f"{number} {what}" for number, what in ((failed, "failed"), (void, "void")) if number)
    left_out = f" Not counted: {counted}." if counted else ""
    return f"{version} {'; '.join(clauses) if clauses else 'was measured: the tables have it'}.{left_out}"


def _can_be_listed(told: _LoadContext, version: str) -> bool:
    """Returns whether the cells can be listed one by one: they are few, and no axis has a base to compare with."""
    axes = [axis for group in groups(told.session) for axis in group.axes]
    return len(_measured(told, version)) <= _MAX_CLAUSES and not any(axis.base is not None for axis in axes)


def _nothing_under_load(session: Session, version: str) -> str:
    runs = [run for run in session.runs if run.version == version]
    reason = next((run.reason for run in runs if run.reason), None)
    left_out = [verdict.value for verdict in (Verdict.FAILED, Verdict.VOID) if any(r.verdict is verdict for r in runs)]
    told = f"{version}: nothing was measured" + (f" ({' and '.join(left_out)} runs)" if left_out else "")
    return f"{told}: {reason.rstrip('.')}." if reason else f"{told}."


def _cost_switch(session: Session) -> Axis | None:
    """Returns the switch that is off at its base, if there is one: then the sentence says what switching it on
    costs."""
    axes = session.differing_axes
    if len(groups(session)) > 1:
        return None
    return next((axis for axis in axes if is_switch(axis) and (axis.base or "").lower() in OFF_VALUES), None)


def _cost_clauses(told: _LoadContext, version: str, axis: Axis) -> Iterator[str]:
    """Yields clauses such as `loses 16.9 % (15.7 to 18.1) by poll=on (46,320 to 38,472 queries/s)`, the largest effect
    first. Effects that are not significant share one clause."""
    held = [one for one in variant_ratios(told.session, axis) if one.version == version]
    ranked = sorted(held, key=_effect_size, reverse=True)
    noise = [one for one in ranked if one.stands_out is False]
    more = [one for one in ranked if one.stands_out]
    for number, one in enumerate(more[:_MAX_CLAUSES]):
        yield f"{_cost(told, one)}{_cause(told.session, axis, one, first=number == 0)}{_from_to(told, one)}"
    if len(more) > _MAX_CLAUSES:
        yield f"and {len(more) - _MAX_CLAUSES} more in the tables"
    if noise:
        where = (
            "" if not more else f" with {_joined_words([_other_axes_words(told.session, axis, one) for one in noise])}"
        )
        values = _from_to(told, noise[0]) if len(noise) == 1 else ""
        what = "does not take significantly longer" if told.seconds else "does not lose significantly"
        on = "" if more else f" by {value_words(axis, _axis_value(told.session, axis, noise[0]))}"
        yield f"{what}{on}{where}{values}{_joint_phrase(told, axis, noise)}"
    yield from _not_compared(axis, held)


def _not_compared(axis: Axis, held: Sequence[VariantRatio]) -> Iterator[str]:
    """Yields a clause if nothing along the axis could be compared: without an interval no effect is claimed."""
    if held and all(one.stands_out is None for one in held):
        yield f"{axis.name} was not compared: {MIN_RUNS} runs of each are needed"


def _joint_phrase(told: _LoadContext, axis: Axis, noise: Sequence[VariantRatio]) -> str:
    """Returns a phrase for comparisons that are significant individually but not when all along the axis are taken
    together."""
    if not any(one.differs for one in noise):
        return ""
    several = sum(one.differs is not None for one in variant_ratios(told.session, axis))
    return f", the {several} comparisons along {axis.name} taken together"


def _cost(told: _LoadContext, held: VariantRatio) -> str:
    about = told.about(held.variant)
    if held.ratio is None:
        return f"changes by {fmt.effect(held)}"
    shares = [lost_share(about, ratio) or 0.0 for ratio in (held.ratio, held.ratio_low, held.ratio_high)]
    share, low, high = shares[0], *sorted(map(abs, shares[1:]))
    told_share = f"{100 * abs(share):.1f} % ({100 * low:.1f} to {100 * high:.1f})"
    if told.seconds:
        return f"needs {told_share} {'more' if share > 0 else 'less'}"
    return f"{'loses' if share > 0 else 'gains'} {told_share}"


def _cause(session: Session, axis: Axis, held: VariantRatio, *, first: bool) -> str:
    """Returns which value of the axis causes the effect, in the first clause only, and in which cell."""
    elsewhere = _other_axes_words(session, axis, held)
    on = f" by {value_words(axis, _axis_value(session, axis, held))}" if first else ""
    return f"{on} with {elsewhere}" if elsewhere else on


def _axis_value(session: Session, axis: Axis, held: VariantRatio) -> str:
    return session.cells[held.variant][axis.name]


def _other_axes_words(session: Session, axis: Axis, held: VariantRatio) -> str:
    return cell_words(session, held.variant, without=(axis.name,))


def _from_to(told: _LoadContext, held: VariantRatio) -> str:
    before, after = told.mean(held.version, held.base_variant), told.mean(held.version, held.variant)
    if before is None or after is None:
        return ""
    about = told.about(held.variant)
    return f" ({fmt.column(about, before)} to {fmt.with_unit(about, after)})"


def _cell_clauses(told: _LoadContext, version: str) -> Iterator[str]:
    """Yields a clause for each cell, such as `needs 58.3 s for Q1, 30.4 (29.9-30.9) times as long as 8.0.31`."""
    cells = _measured(told, version)
    for number, one in enumerate(cells[:_MAX_CLAUSES]):
        verb = ("needs " if told.seconds else "comes to ") if number == 0 else ""
        where = cell_words(told.session, one.variant)
        yield f"{verb}{fmt.with_unit(told.about(one.variant), one.mean or 0.0)} for {where}{_comparison(told, one)}"
    if len(cells) > _MAX_CLAUSES:
        yield f"and {len(cells) - _MAX_CLAUSES} more in the tables"


def _comparison(told: _LoadContext, one: FigureSummary) -> str:
    """Returns the comparison with the baseline or, if there are two versions, with the other one. Of two versions only
    the one with the larger figure has it."""
    session, base = told.session, baseline_of(told.session)
    two = len(session.versions) == 2
    other = next((version for version in session.versions if version != one.version), base) if two else base
    if other == one.version:
        return ""
    cells = runs_by_cell(session)
    effect = compare_means(*(figure_values(cells[version, one.variant], one.name) for version in (one.version, other)))
    if effect is None or (two and effect.value < effect.none):
        return ""
    words = _compared_words(told.about(one.variant), EffectFields(**effect_fields(effect)), other)
    return f", {words}" if words else ""


def _compared_words(about: Metric, one: EffectFields, other: str) -> str:
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


def _effect_words(one: EffectFields) -> str:
    """Formats an effect, such as `2.31 (2.05-2.60) times`."""
    return f"{fmt.effect(one)} times"


def _largest_figure_clauses(told: _LoadContext, version: str) -> Iterator[str]:
    """Yields a clause for the largest figure of each group."""
    verb = "does up to "
    for group in groups(told.session)[:_MAX_GROUPS]:
        able = [one for one in _measured(told, version) if one.variant in group.variants and one.mean]
        if able:
            best = max(able, key=lambda one: one.mean or 0.0)
            where = _where(told.session, best.variant)
            with_it = f" with {where}" if where else ""
            yield f"{verb}{fmt.with_unit(told.about(best.variant), best.mean or 0.0)}{with_it}{_over_base(told, best)}"
            verb = ""


def _measured(told: _LoadContext, version: str) -> list[FigureSummary]:
    return [one for one in told.found.values() if one.version == version and one.count]


def _where(session: Session, variant: str, *, without: str = "") -> str:
    """Returns the cell in words, without the axes that are at their base."""
    cell = session.cells.get(variant, {})
    at_base = {axis.name for axis in session.axes if axis.base is not None and cell.get(axis.name) == axis.base}
    return cell_words(session, variant, without={*at_base, without})


def _over_base(told: _LoadContext, one: FigureSummary) -> str:
    base = baseline_of(told.session)
    words = "" if one.version == base else _compared_words(told.about(one.variant), one, base)
    return f", {words}" if words else ""


def _axis_effect_clauses(told: _LoadContext, version: str) -> Iterator[str]:
    """Yields the largest effect along each axis that has a base.

    It must be significant when all comparisons along the axis are taken together. Of many that are significant only
    individually, the largest is the one most exaggerated by chance.
    """
    best: list[tuple[float, str]] = []
    for axis in told.session.axes:
        held = [one for one in variant_ratios(told.session, axis) if one.version == version]
        sure = [one for one in held if one.stands_out]
        untold = list(_not_compared(axis, held))
        if sure:
            most = max(sure, key=_effect_size)
            best.append((_effect_size(most), _axis_effect(told.session, axis, most, alone=len(held) == 1)))
        elif untold:
            best.append((0.0, untold[0]))
        elif held:
            best.append((0.0, f"{axis.name} changes nothing significantly{_joint_phrase(told, axis, held)}"))
    yield from (clause for _, clause in sorted(best, key=lambda one: -one[0])[:_MAX_AXES])


def _effect_size(held: VariantRatio) -> float:
    """Returns the size of an effect for ranking. A factor of one half counts as much as a factor of two, and an effect
    from or to zero is larger than any other."""
    return math.inf if held.ratio is None else abs(math.log(held.ratio))


def _axis_effect(session: Session, axis: Axis, held: VariantRatio, *, alone: bool) -> str:
    where = _where(session, held.variant, without=axis.name)
    named = value_words(axis, _axis_value(session, axis, held))
    if held.ratio is None:
        return f"{named} changes it by {fmt.effect(held)}" + (f" ({where})" if where else "")
    reach = "" if alone else "up to " if held.ratio > 1 else "down to "
    return f"{named} makes it {reach}{_effect_words(held)} that of {axis.base}" + (f" ({where})" if where else "")


def _joined_words(words: Sequence[str]) -> str:
    told = [word for word in words if word]
    return f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else "".join(told)


# --- Startups

_LARGE_SHARE = 0.25
"""A phase is mentioned from this share of the startup on."""
_MAX_PHASES = 2
_MAX_VARIANTS = 4
_PHASE_DESCRIPTIONS = {
    phase_names.PROCESS_START: "until the process stands",
    phase_names.BUFFER_POOL: "allocating the buffer pool",
    phase_names.DISCOVERY: "looking through tablespaces",
    phase_names.SYSTEM_FILES: "opening the system's files",
    phase_names.REDO_SCAN: "scanning the redo log",
    phase_names.REDO_APPLY: "applying the redo log",
    phase_names.VALIDATION: "validating tablespaces",
    phase_names.UNDO_AND_TEMP: "opening undo and temporary tablespaces",
    phase_names.DICTIONARY: "loading the dictionary",
    phase_names.UPGRADE: "upgrading",
    phase_names.BINLOG_RECOVERY: "recovering by the binary log",
    phase_names.REST_TO_READY: "after InnoDB was up",
    phase_names.UNNAMED: "in what no line of its log names",
    phase_names.FIRST_QUERY: "until the first answer",
}
_OVER_TABLESPACES = (phase_names.DISCOVERY, phase_names.VALIDATION)


@dataclass(frozen=True)
class _StartupContext:
    """The data that all sentences about startups are made from."""

    summaries: tuple[Summary, ...]
    measured: dict[tuple[str, str], tuple[Run, ...]]
    """The runs that count, by version and variant."""
    means: dict[tuple[str, str], dict[str, float]]
    """Mean seconds of each phase, by version and variant."""


def answers(session: Session) -> tuple[str, ...]:
    """Returns a sentence for each version, in the order of the report. A version measured with several numbers of
    tables has one for each of its curves."""
    if is_load_session(session):
        return work_answers(session)
    drawn = growth_curves(session)
    grown = {curve.version for curve in drawn}
    told = []
    known = _StartupContext(
        session_summaries(session),
        {(version, variant): runs for version, variant, runs in measured_runs_by_cell(session)},
        phase_means(session),
    )
    for version in session.versions:
        if version in grown:
            told += [_growth(session, curve) for curve in drawn if curve.version == version]
        else:
            told.append(_answer(session, version, known))
    return tuple(told)


def _answer(session: Session, version: str, known: _StartupContext) -> str:
    summaries = [one for one in known.summaries if one.version == version]
    runs = [run for run in session.runs if run.version == version]
    measured = [one for one in summaries if one.mean_s is not None]
    if not measured:
        return _nothing(version, runs)
    clauses = "; ".join(_clauses(session, measured, known))
    told = f"{version} needs {_times(measured)}"
    tables = next((f"{run.tables:,}" for run in runs if run.tables), None)
    if tables is not None and tables not in clauses and len({run.tables for run in runs if run.tables}) == 1:
        told += f" with {tables} tables"
    told += f": {clauses}." if clauses else "."
    left_out = _counted((sum(one.failed for one in summaries), sum(one.void for one in summaries)))
    return f"{told} Not counted: {left_out}." if left_out else told


def _nothing(version: str, runs: Sequence[Run]) -> str:
    failed, void = (sum(run.verdict is verdict for run in runs) for verdict in (Verdict.FAILED, Verdict.VOID))
    if left_out := _counted((failed, void)):
        reason = next((run.reason for run in runs if run.reason), None)
        return f"{version}: nothing was measured ({left_out})" + (f": {reason.rstrip('.')}." if reason else ".")
    if any(run.verdict is Verdict.SAMPLED for run in runs):
        return f"{version}: its stacks were taken, and nothing was measured without."
    return f"{version}: nothing was measured."


def _counted(counts: tuple[int, int]) -> str:
    kinds = zip(counts, ("failed", "void"), strict=True)
    return ", ".join(f"{number} {what} run{'s' if number > 1 else ''}" for number, what in kinds if number)


def _times(measured: Sequence[Summary]) -> str:
    """Formats the mean times, such as `41.0 +- 1.2 s cold and 6.1 +- 0.3 s warm`. Of many variants it shows only the
    fastest and the slowest."""
    if len(measured) > _MAX_VARIANTS:
        middle = sorted(measured, key=lambda one: one.mean_s or 0.0)
        return f"from {_time(middle[0])} to {_time(middle[-1])}, by variant"
    *some, last = map(_time, measured)
    return f"{', '.join(some)} and {last}" if some else last


def _time(one: Summary) -> str:
    return (
        f"{seconds_with_error(one.mean_s or 0.0, one.interval_s)} "
        f"{'on a ' if is_second_start(one.variant) else ''}{one.variant}"
    )


def seconds_with_error(seconds: float, interval_s: float | None = None) -> str:
    """Formats seconds with three digits, such as `64.0 s` or `64.0 +- 1.4 s`. The interval has as many decimals."""
    places = 0 if seconds >= 99.95 else 1 if seconds >= 9.995 else 2
    error = "" if interval_s is None else f" +- {interval_s:.{places}f}"
    return f"{seconds:.{places}f}{error} s"


def _clauses(session: Session, measured: Sequence[Summary], known: _StartupContext) -> list[str]:
    """Returns the clauses about phases and floor. They are about the cold start if there is one."""
    first = next((one for one in measured if Cache.COLD.begins(one.variant)), measured[0])
    key = (first.version, first.variant)
    runs = known.measured[key]
    whose = "it" if len(measured) == 1 else f"the {first.variant} start"
    means = known.means.get(key, {})
    return [*_phases(means, runs, whose=whose), *_floor(session, first)]


def _phases(means: dict[str, float], runs: Sequence[Run], *, whose: str) -> Iterator[str]:
    whole = sum(means.values())
    large = sorted(
        (name for name in means if whole and means[name] >= _LARGE_SHARE * whole), key=lambda name: -means[name]
    )
    told: list[str] = []
    traced = any(run.tablespaces_opened is not None for run in runs)
    counted = False
    for name in large[:_MAX_PHASES]:
        doing = _phase_description(name)
        if name in _OVER_TABLESPACES and not counted:
            doing, counted = doing.replace("tablespaces", _tablespaces(runs), 1), True
        told.append(f"{seconds_with_error(means[name])} {'' if told else f'of {whose} '}{doing}")
    if told:
        yield " and ".join(told)
    if traced and not counted:
        yield f"it opens {_tablespaces(runs)}"


def _phase_description(name: str) -> str:
    return " and ".join(_PHASE_DESCRIPTIONS.get(one, f"in {one}") for one in name.split(phase_names.JOIN))


def _tablespaces(runs: Sequence[Run]) -> str:
    """Returns how many tablespaces were opened, modified and read, as far as that was traced."""
    opened, modified = (mean(values) for values in zip(*map(_opened_and_modified, runs), strict=True))
    if opened is None:
        tables = next((run.tables for run in runs if run.tables), None)
        return "tablespaces" if tables is None else f"the tablespaces of {tables:,} tables"
    read = mean(run.tablespaces_read for run in runs)
    which = [] if modified is None else [f"{modified:,.0f} had changed"]
    if claim_verdict(runs) == OPENS_ONLY and read is not None:
        which.append(f"only {read:,.0f} were read")
    told = f"{opened:,.0f} tablespaces"
    return f"{told}, of which {' and '.join(which)}" if which else told


def _opened_and_modified(run: Run) -> tuple[int | None, int | None]:
    return run.tablespaces_opened, run.tablespaces_modified


def _floor(session: Session, first: Summary) -> Iterator[str]:
    """Yields the comparison with plain reads of the same files, if the difference is larger than the error of the mean.
    A start that took longer without reading every file is not compared: the reads are no floor for it."""
    for one in floor_comparisons(session):
        times, floor = one.over_many, one.floor
        if (floor.version, one.variant) != (first.version, first.variant) or times is None:
            continue
        if first.interval_s is None or abs((first.mean_s or 0.0) - floor.many_threads_s) <= first.interval_s:
            continue
        reads = (
            f"the {seconds_with_error(floor.many_threads_s)} that {floor.threads} threads need to read a "
            "page of each file"
        )
        if one.is_floor:
            yield f"{times:.1f} times {reads}"
        elif times < 1:
            yield f"less than {reads}" + (", since it does not read every file" if one.reads_all is False else "")


def _growth(session: Session, curve: Curve) -> str:
    tables, runs = curve.points[-1]
    largest = summarise([replace(run, variant=curve.variant) for run in runs], [curve.version], [curve.variant])[0]
    told = f"{curve.version} needs {_time(largest)} with {tables:,} tables"
    found, asked = curve.fit, requested_prediction(session)
    if found is None:
        return f"{told}; {LINE_NEEDS}."
    if found.form == LINE:
        line = "a straight line" + (" fits" if found.lack_of_fit_p is not None else ", its fit not tested")
        told += (
            f"; {line}: {seconds_with_error(max(0.0, found.fixed_s))} and {1000 * found.per_table_s:.3g} "
            "ms for each table"
        )
    else:
        start = round(found.means[-2][0])
        told += f"; no straight line fits: from {start:,} tables on, each adds {1000 * found.last_slope_s:.3g} ms"
    return f"{told}{'' if asked is None else _prediction(curve, found.predict(asked), asked)}."


def _prediction(curve: Curve, found: Prediction, asked: int) -> str:
    """Returns the prediction with its error at the largest point. It has no figure if that error is too large."""
    tested = curve.held_out
    if tested is None:
        test = f"not tested: {TEST_NEEDS}"
    else:
        test = f"tested at {tested.tables:,}: {seconds_with_error(tested.measured_s)} measured"
        if tested.off is not None:
            test += f", {abs(tested.off):.0%} {'above' if tested.off >= 0 else 'below'} its prediction"
    if curve.predicts is False:
        return f"; no prediction for {asked:,} ({test})"
    interval = f" ({' to '.join(map(seconds_with_error, found.interval))})" if found.interval else ""
    return f", and so {seconds_with_error(found.seconds)}{interval} with {asked:,} ({test})"
