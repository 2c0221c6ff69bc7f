"""How is a figure of a server at work written, in a table's column and in a sentence?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from recovery.chance import by_luck
from recovery.quantities import Quantity
from recovery.report import figures
from recovery.students import Compared, Effect, stored_effect

_SHARE = "_share"
_BYTES = ("B", "B/s")


def cell(about: Quantity, value: float | None) -> str:
    """Without its unit, which the column's head has; bytes bring their own."""
    if value is None:
        return figures.ABSENT
    if about.unit in _BYTES:
        return figures.size(round(value))
    if about.name.endswith(_SHARE):
        # Rounded down: 100 % is said only of all.
        return f"{math.floor(10_000 * value + 1e-9) / 100:.2f} %"
    return number(value)


def number(value: float) -> str:
    """As exact as a reader needs it: three or four figures, and all of a large one before the point."""
    if value == 0:
        return "0"
    if float(value).is_integer() and abs(value) < 100:
        return f"{value:.0f}"
    if abs(round(value, 1)) >= 100:
        return f"{value:,.0f}"
    if abs(round(value, 2)) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def worded(about: Quantity, value: float) -> str:
    """With its unit: `46,320 queries/s`, `58.0 s`, `1.2 MB/s`."""
    if about.unit == "s":
        return f"{timed(value)} s"
    told = cell(about, value)
    if about.unit == "B/s":
        return f"{told}/s"
    if about.unit == "B" or about.name.endswith(_SHARE):
        return told
    return f"{told} {about.title if about.unit in ('/s', '') else about.unit}"


def timed(value: float) -> str:
    """Seconds, also where they are few."""
    return figures.seconds(value) if value >= 1 or value <= 0 else _digits(value, 3)


def column(about: Quantity, value: float | None) -> str:
    return timed(value) if about.unit == "s" and value is not None else cell(about, value)


def effect(one: Compared | Effect | None) -> str:
    """`1.70 (1.65-1.75)`: the ratio with its 95 % interval; the difference, `+3.2 +- 0.4`, where a mean is zero."""
    if isinstance(one, Effect):
        one = Compared(**stored_effect(one))
    if one is None or (one.ratio is None and one.difference is None):
        return figures.ABSENT
    if one.difference is not None:
        sign = "+" if one.difference > 0 else "-" if one.difference < 0 else ""
        error = "" if one.difference_error is None else f" +- {number(one.difference_error)}"
        return f"{sign}{number(abs(one.difference))}{error}"
    if one.ratio_low is None or one.ratio_high is None:
        return times(one.ratio)
    return f"{times(one.ratio)} ({times(one.ratio_low)}-{times(one.ratio_high)})"


def times(ratio: float | None) -> str:
    """Two decimals below 10, three figures above; what is far below one has two figures, and no exponent."""
    if ratio is None:
        return figures.ABSENT
    if ratio >= 10:
        return number(ratio)
    if ratio >= 0.1 or ratio <= 0:
        return f"{ratio:.2f}"
    return _digits(ratio, 2)


def _digits(value: float, many: int) -> str:
    """So many that tell, without an exponent."""
    return f"{value:.{many - 1 - math.floor(math.log10(value))}f}"


def percent(share: float | None) -> str:
    return figures.ABSENT if share is None else f"{100 * share + 0.0:.1f} %"


def which_is_better(about: Quantity) -> str:
    if about.more_is_better is None:
        return ""
    return "More is better" if about.more_is_better else "Less is better"


def verdict(about: Quantity, one: Compared) -> str:
    """Significant, and in which direction."""
    if one.differs is None:
        return figures.ABSENT
    if not one.differs:
        return "no"
    more = one.ratio > 1 if one.ratio is not None else (one.difference or 0.0) > 0
    if about.more_is_better is None:
        return "yes, more" if more else "yes, less"
    return "yes, better" if more == about.more_is_better else "yes, worse"


def of_so_many(differ: Sequence[bool | None], *, along: str = "") -> tuple[str, ...]:
    """How many of several comparisons are significant, and how many by chance; none for one or without intervals."""
    known = [one for one in differ if one is not None]
    if len(known) < 2:
        return ()
    would, found = by_luck(len(known)), sum(known)
    return (f"Of {len(known):,} comparisons{along} {would} would be significant by chance; {found:,} {are(found)}.",)


def are(count: int) -> str:
    return "is" if count == 1 else "are"
