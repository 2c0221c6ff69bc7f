"""What is the answer, in a sentence for each version? Of what was measured, as far as it is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from recovery import phases
from recovery.curves import TEST_NEEDS, Curve, curves, predicted_at
from recovery.fit import LINE, LINE_NEEDS, Prediction
from recovery.measures import is_work
from recovery.model import Cache, is_second_start
from recovery.report.floor import held
from recovery.report.phases import phase_means
from recovery.report.touched import OPENS_ONLY, claim
from recovery.report.work.answer import work_answers
from recovery.stored import Run, Session, Verdict
from recovery.summary import Summary, mean, measured_by, summarise, summarised

_LARGE = 0.25
"""Of a startup: a phase that is told of."""
_MOST_PHASES = 2
_MOST_VARIANTS = 4
_DOING = {
    phases.PROCESS_START: "until the process stands",
    phases.BUFFER_POOL: "allocating the buffer pool",
    phases.DISCOVERY: "looking through tablespaces",
    phases.SYSTEM_FILES: "opening the system's files",
    phases.REDO_SCAN: "scanning the redo log",
    phases.REDO_APPLY: "applying the redo log",
    phases.VALIDATION: "validating tablespaces",
    phases.UNDO_AND_TEMP: "opening undo and temporary tablespaces",
    phases.DICTIONARY: "loading the dictionary",
    phases.UPGRADE: "upgrading",
    phases.BINLOG_RECOVERY: "recovering by the binary log",
    phases.REST: "after InnoDB was up",
    phases.UNNAMED: "in what no line of its log names",
    phases.FIRST_QUERY: "until the first answer",
}
_OVER_TABLESPACES = (phases.DISCOVERY, phases.VALIDATION)


@dataclass(frozen=True)
class _Known:
    """What all sentences are made of."""

    summaries: tuple[Summary, ...]
    measured: dict[tuple[str, str], tuple[Run, ...]]
    """The runs that count, by version and variant."""
    means: dict[tuple[str, str], dict[str, float]]
    """Of their phases."""


def answers(session: Session) -> tuple[str, ...]:
    """One sentence a version, in the order of the report."""
    if is_work(session):
        return work_answers(session)
    drawn = curves(session)
    grown = {curve.version for curve in drawn}
    told = []
    known = _Known(
        summarised(session),
        {(version, variant): runs for version, variant, runs in measured_by(session)},
        phase_means(session),
    )
    for version in session.versions:
        if version in grown:
            told += [_growth(session, curve) for curve in drawn if curve.version == version]
        else:
            told.append(_answer(session, version, known))
    return tuple(told)


def _answer(session: Session, version: str, known: _Known) -> str:
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
    """`41.0 +- 1.2 s cold and 6.1 +- 0.3 s warm`; of many variants the fastest and the slowest."""
    if len(measured) > _MOST_VARIANTS:
        middle = sorted(measured, key=lambda one: one.mean_s or 0.0)
        return f"from {_time(middle[0])} to {_time(middle[-1])}, by variant"
    *some, last = map(_time, measured)
    return f"{', '.join(some)} and {last}" if some else last


def _time(one: Summary) -> str:
    return f"{about(one.mean_s or 0.0, one.interval_s)} {'on a ' if is_second_start(one.variant) else ''}{one.variant}"


def about(seconds: float, interval_s: float | None = None) -> str:
    """`64.0 s`, or `64.0 +- 1.4 s`: three figures, and the interval to the same place."""
    places = 0 if seconds >= 99.95 else 1 if seconds >= 9.995 else 2
    error = "" if interval_s is None else f" +- {interval_s:.{places}f}"
    return f"{seconds:.{places}f}{error} s"


def _clauses(session: Session, measured: Sequence[Summary], known: _Known) -> list[str]:
    """Of the cold start, where there is one."""
    first = next((one for one in measured if Cache.COLD.begins(one.variant)), measured[0])
    key = (first.version, first.variant)
    runs = known.measured[key]
    whose = "it" if len(measured) == 1 else f"the {first.variant} start"
    means = known.means.get(key, {})
    return [*_phases(means, runs, whose=whose), *_floor(session, first)]


def _phases(means: dict[str, float], runs: Sequence[Run], *, whose: str) -> Iterator[str]:
    whole = sum(means.values())
    large = sorted((name for name in means if whole and means[name] >= _LARGE * whole), key=lambda name: -means[name])
    told: list[str] = []
    traced = any(run.tablespaces_opened is not None for run in runs)
    counted = False
    for name in large[:_MOST_PHASES]:
        doing = _doing(name)
        if name in _OVER_TABLESPACES and not counted:
            doing, counted = doing.replace("tablespaces", _tablespaces(runs), 1), True
        told.append(f"{about(means[name])} {'' if told else f'of {whose} '}{doing}")
    if told:
        yield " and ".join(told)
    if traced and not counted:
        yield f"it opens {_tablespaces(runs)}"


def _doing(name: str) -> str:
    return " and ".join(_DOING.get(one, f"in {one}") for one in name.split(phases.JOIN))


def _tablespaces(runs: Sequence[Run]) -> str:
    """How many, as far as was looked."""
    opened, modified = (mean(values) for values in zip(*map(_opened_and_modified, runs), strict=True))
    if opened is None:
        tables = next((run.tables for run in runs if run.tables), None)
        return "tablespaces" if tables is None else f"the tablespaces of {tables:,} tables"
    read = mean(run.tablespaces_read for run in runs)
    which = [] if modified is None else [f"{modified:,.0f} had changed"]
    if claim(runs) == OPENS_ONLY and read is not None:
        which.append(f"only {read:,.0f} were read")
    told = f"{opened:,.0f} tablespaces"
    return f"{told}, of which {' and '.join(which)}" if which else told


def _opened_and_modified(run: Run) -> tuple[int | None, int | None]:
    return run.tablespaces_opened, run.tablespaces_modified


def _floor(session: Session, first: Summary) -> Iterator[str]:
    """Plain reads of the same files, as far as they are a floor for this start."""
    for one in held(session):
        times, floor = one.over_many, one.floor
        if (floor.version, one.variant) != (first.version, first.variant) or times is None:
            continue
        if first.interval_s is None or abs((first.mean_s or 0.0) - floor.many_threads_s) <= first.interval_s:
            continue
        reads = f"the {about(floor.many_threads_s)} that {floor.threads} threads need to read a page of each file"
        if one.is_floor:
            yield f"{times:.1f} times {reads}"
        elif times < 1:
            yield f"less than {reads}" + (", since it does not read every file" if one.reads_all is False else "")


def _growth(session: Session, curve: Curve) -> str:
    tables, runs = curve.points[-1]
    largest = summarise([replace(run, variant=curve.variant) for run in runs], [curve.version], [curve.variant])[0]
    told = f"{curve.version} needs {_time(largest)} with {tables:,} tables"
    found, asked = curve.fit, predicted_at(session)
    if found is None:
        return f"{told}; {LINE_NEEDS}."
    if found.form == LINE:
        line = "a straight line" + (" fits" if found.lack_of_fit_p is not None else ", its fit not tested")
        told += f"; {line}: {about(max(0.0, found.fixed_s))} and {1000 * found.per_table_s:.3g} ms for each table"
    else:
        start = round(found.means[-2][0])
        told += f"; no straight line fits: from {start:,} tables on, each adds {1000 * found.last_slope_s:.3g} ms"
    return f"{told}{'' if asked is None else _prediction(curve, found.predict(asked), asked)}."


def _prediction(curve: Curve, found: Prediction, asked: int) -> str:
    """With its error at the largest point; no figure where that is too large."""
    tested = curve.held_out
    if tested is None:
        test = f"not tested: {TEST_NEEDS}"
    else:
        test = f"tested at {tested.tables:,}: {about(tested.measured_s)} measured"
        if tested.off is not None:
            test += f", {abs(tested.off):.0%} {'above' if tested.off >= 0 else 'below'} its prediction"
    if curve.predicts is False:
        return f"; no prediction for {asked:,} ({test})"
    interval = f" ({' to '.join(map(about, found.interval))})" if found.interval else ""
    return f", and so {about(found.seconds)}{interval} with {asked:,} ({test})"
