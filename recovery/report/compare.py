"""Two sessions side by side: how much slower is the second, is that more than noise, and what else was different?"""

from __future__ import annotations

from recovery.compare import Compared, Comparison, figure_of
from recovery.measures import Middle
from recovery.quantities import Quantity, quantity
from recovery.report import figures
from recovery.report.work import said
from recovery.stored import STARTUP, Table
from recovery.summary import Summary


def comparison_tables(found: Comparison, names: tuple[str, str]) -> tuple[Table, ...]:
    about = _about(found)
    several = len({figure_of(pair) for pair in found.pairs}) > 1
    what = "means" if several else f"mean {about.title if about else 'seconds'}"
    pairs = Table(
        title=f"{names[1]} (second) held against {names[0]} (first), {what}",
        headers=(
            *("variant", "first", "runs", "mean", "+-"),
            *("second", "runs", "mean", "+-", "ratio", "+-", "more than noise"),
        ),
        rows=tuple(_row(pair, told=several) for pair in found.pairs),
        numeric=(False, False, True, True, True, False, True, True, True, True, True, False),
        notes=(
            "runs: those that count, of all; +-: half of the 95 % interval, from three runs of each on; more than "
            "noise: 1 is outside the ratio's.",
            *((f"{said.which_is_better(about)}.",) if about and said.which_is_better(about) else ()),
        ),
        keys=2,
    )
    if not found.differences:
        return (pairs,)
    return (pairs, _differences(found))


def _row(pair: Compared, *, told: bool) -> tuple[str, ...]:
    return (
        f"{pair.variant}, {quantity(figure_of(pair)).title}" if told else pair.variant,
        *_side(pair.one),
        *_side(pair.other),
        figures.ratio(pair.ratio),
        figures.ratio(pair.error),
        figures.yes_or_no(pair.differs),
    )


def _about(found: Comparison) -> Quantity | None:
    """Of servers at work; None of starts."""
    name = next((figure_of(pair) for pair in found.pairs), STARTUP)
    return None if name == STARTUP else quantity(name)


def _side(summary: Summary | Middle) -> tuple[str, str, str, str]:
    if isinstance(summary, Middle):
        about = quantity(summary.name)
        values = (said.column(about, summary.mean), said.column(about, summary.interval))
        return summary.version, _counted(summary), *values
    times = (figures.seconds(summary.mean_s), figures.seconds(summary.interval_s))
    return summary.version, _counted(summary), *times


def _counted(summary: Summary | Middle) -> str:
    return figures.of(summary.count, summary.count + summary.failed + summary.void)


def _differences(found: Comparison) -> Table:
    return Table(
        title="Not alike in both",
        headers=("what", "first", "second"),
        rows=tuple((each.what, each.one, each.other) for each in found.differences),
        numeric=(False, False, False),
        notes=("A ratio between sessions of unlike hosts or settings measures those as well.",),
    )
