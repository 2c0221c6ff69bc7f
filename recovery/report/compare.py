"""Two sessions side by side: how much slower is the second, is that more than noise, and what else was different?"""

from __future__ import annotations

from recovery.compare import Compared, Comparison
from recovery.report import figures
from recovery.stored import Table
from recovery.summary import Summary


def comparison_tables(found: Comparison) -> tuple[Table, ...]:
    pairs = Table(
        title="The second session held against the first, mean seconds",
        headers=("variant", "first", "mean", "+-", "second", "mean", "+-", "ratio", "+-", "more than noise"),
        rows=tuple(_row(pair) for pair in found.pairs),
        numeric=(False, False, True, True, False, True, True, True, True, False),
        notes=(
            "+-: half of the 95 % interval, from three runs of each on; more than noise: 1 is outside the ratio's.",
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


def _side(summary: Summary) -> tuple[str, str, str]:
    return summary.version, figures.seconds(summary.mean_s), figures.seconds(summary.interval_s)


def _differences(found: Comparison) -> Table:
    return Table(
        title="Not alike in both",
        headers=("what", "first", "second"),
        rows=tuple((each.what, each.one, each.other) for each in found.differences),
        numeric=(False, False, False),
        notes=("A ratio between sessions of unlike hosts or settings measures those as well.",),
    )
