"""How true the predictions were, and those of three rivals: dirty pages over reads a second, bytes of redo over a rate,
and as long as last time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from estimate.records import Purpose, Record, by_pages_alone, by_redo_alone
from recovery.analysis.crash_estimate import estimate_start, fit_constants, known_constants, series_of


@dataclass(frozen=True)
class Result:
    """One predicted start."""

    version: str
    record: Record
    by_pages_s: float
    """By two constants, calibrated by the same starts: the process, and dirty pages over reads a second."""
    by_redo_s: float
    """By bytes of redo over a rate, calibrated by the same starts."""
    last_s: float | None
    """What the start before took, of the same server and limit."""

    @property
    def startup_s(self) -> float:
        return self.record.kill.startup_s

    @property
    def is_inside(self) -> bool:
        return self.record.low_s <= self.startup_s <= self.record.high_s


def results_of(version: str, records: Mapping[int, Record]) -> Sequence[Result]:
    """Returns the predicted starts of a server. Those of its calibration are left out."""
    done = [records[number] for number in sorted(records)]
    calibration = [one.kill for one in done if one.planned.purpose is Purpose.CALIBRATION]
    predicted = [one for one in done if one.planned.purpose is not Purpose.CALIBRATION]
    if not predicted:
        return ()
    series = series_of(predicted[0].state.version)
    by_pages, by_redo = (
        {series: fit_constants([reduced(kill) for kill in calibration], known_constants(series), any_error=True)}
        for reduced in (by_pages_alone, by_redo_alone)
    )
    found = []
    for one in predicted:
        before = [
            other
            for other in done
            if other.planned.number < one.planned.number and other.planned.reads_per_s == one.planned.reads_per_s
        ]
        found.append(
            Result(
                version,
                one,
                estimate_start(by_pages_alone(one.kill).state, by_pages).seconds,
                estimate_start(by_redo_alone(one.kill).state, by_redo).seconds,
                before[-1].startup_s if before else None,
            )
        )
    return found


def error_of(estimated_s: float | None, startup_s: float) -> float | None:
    """Returns the error of an estimate as a share of the truth, without its sign."""
    return None if estimated_s is None else abs(estimated_s - startup_s) / startup_s


def tables(results: Sequence[Result]) -> tuple[str, ...]:
    """Returns what was predicted and what it took, in Markdown: shares and errors, and the range of states. Those of
    servers that write pages all the time have tables of their own."""
    steady = [one for one in results if one.record.planned.purpose is Purpose.STEADY]
    others = [one for one in results if one.record.planned.purpose is not Purpose.STEADY]
    return tuple(table for ones in (others, steady) if ones for table in _tables(ones))


def _tables(results: Sequence[Result]) -> tuple[str, str]:
    groups: list[tuple[str, Sequence[Result]]] = [("all", results)]
    keys: Sequence[Callable[[Result], str]] = (
        lambda one: one.version,
        lambda one: f"{one.record.planned.load} load",
        lambda one: f"{one.record.planned.reads_per_s:,} reads/s",
        lambda one: f"states: {one.record.planned.purpose}",
        lambda one: "open transaction" if one.record.planned.rows else "no open transaction",
    )
    keys = [key for key in keys if len(set(map(key, results))) > 1]
    for key in keys:
        names = list(dict.fromkeys(map(key, results)))
        groups += [(name, [one for one in results if key(one) == name]) for name in sorted(names)]
    errors = [
        (name, len(ones), _share(one.is_inside for one in ones), _width(ones),
         _errors(ones, lambda one: one.record.seconds),
         _errors(ones, lambda one: one.by_pages_s),
         _errors(ones, lambda one: one.by_redo_s), _errors(ones, lambda one: one.last_s))
        for name, ones in groups
    ]  # fmt: skip
    head = (
        "kills",
        "number",
        "inside the range",
        "ends apart",
        "error",
        "error of pages over reads",
        "error of redo over rate",
        "error of last time",
    )
    by_version = {
        version: [one for one in results if one.version == version]
        for version in sorted({one.version for one in results})
    }
    states = [
        (version, _span(one.startup_s for one in ones), _span(one.record.state.dirty_pages for one in ones),
         _span((one.record.state.redo_bytes or 0) / 1e6 for one in ones),
         _span(one.record.state.uncommitted_rows or 0 for one in ones))
        for version, ones in by_version.items()
    ]  # fmt: skip
    return _table(head, errors), _table(
        ("server", "start, s", "dirty pages", "redo, MB", "rows of an open transaction"), states
    )


def _errors(ones: Iterable[Result], estimated: Callable[[Result], float | None]) -> str:
    """Returns the median error and the worst."""
    errors = [error for one in ones if (error := error_of(estimated(one), one.startup_s)) is not None]
    return f"{100 * median(errors):.0f} % (worst {100 * max(errors):.0f})" if errors else ""


def _share(held: Iterable[bool]) -> str:
    values = list(held)
    return f"{100 * sum(values) / len(values):.0f} %"


def _width(ones: Iterable[Result]) -> str:
    """Returns the median ratio of the ends of the ranges: a share inside says little without it."""
    return f"{median(one.record.high_s / one.record.low_s for one in ones):.1f} times"


def _span(values: Iterable[float]) -> str:
    found = sorted(values)
    return "-".join(f"{value:,.{0 if value >= 100 or not value else 1}f}" for value in (found[0], found[-1]))


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
