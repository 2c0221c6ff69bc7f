"""Two sessions side by side: how much slower is the second, is that more than noise, and what else was different?"""

from __future__ import annotations

from recovery.compare import Compared, Comparison
from recovery.report import figures
from recovery.stored import Table
from recovery.summary import Summary


def comparison_tables(found: Comparison, names: tuple[str, str]) -> tuple[Table, ...]:
    pairs = Table(
        title=f"{names[1]} (second) held against {names[0]} (first), mean seconds",
        headers=(
            *("variant", "first", "runs", "mean", "+-"),
            *("second", "runs", "mean", "+-", "ratio", "+-", "more than noise"),
        ),
        rows=tuple(_row(pair) for pair in found.pairs),
        numeric=(False, False, True, True, True, False, True, True, True, True, True, False),
        notes=(
            "runs: those that count, of all; +-: half of the 95 % interval, from three runs of each on; more than "
            "noise: 1 is outside the ratio's.",
        ),
    )
    if not found.differences:
        return (pairs,)
    return (pairs, _differences(found))


def _row(pair: Compared) -> tuple[str, ...]:
    return (
        pair.variant,
        *_side(pair.one),
        *_side(pair.other),
        figures.ratio(pair.ratio),
        figures.ratio(pair.error),
        figures.yes_or_no(pair.differs),
    )


def _side(summary: Summary) -> tuple[str, str, str, str]:
    times = (figures.seconds(summary.mean_s), figures.seconds(summary.interval_s))
    return summary.version, figures.of(summary.count, summary.count + summary.failed + summary.void), *times


def _differences(found: Comparison) -> Table:
    return Table(
        title="Not alike in both",
        headers=("what", "first", "second"),
        rows=tuple((each.what, each.one, each.other) for each in found.differences),
        numeric=(False, False, False),
        notes=("A ratio between sessions of unlike hosts or settings measures those as well.",),
    )
