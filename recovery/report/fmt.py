"""Formats figures, effects and names for reports, and lays out tables and chart axes.

A figure that was not measured is shown as `-`.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from recovery.analysis.contrasts import Contrast
from recovery.analysis.statistics import binomial_interval
from recovery.analysis.summary import Group, Summary, metric_values
from recovery.errors import escape_control
from recovery.metrics import Metric, metric
from recovery.model import Session, Table

ABSENT = "-"


def seconds(value: float | None) -> str:
    """Formats seconds with two decimals below 100 and one above, because a reader needs no more precision."""
    if value is None:
        return ABSENT
    return f"{value:.2f}" if round(value, 2) < 100 else f"{value:.1f}"


def time_span(low_s: float, high_s: float | None = None, *, whole: bool = False) -> str:
    """Formats a duration, or the range of several, for a sentence: in seconds below ten minutes, then in minutes, then
    in hours. `whole` says that it was measured in whole seconds."""
    found = dict.fromkeys(_number_and_unit(value, whole) for value in (low_s, low_s if high_s is None else high_s))
    if len({unit for _, unit in found}) > 1:
        return " to ".join(f"{text} {unit}" for text, unit in found)
    return f"{' to '.join(text for text, _ in found)} {next(iter(found))[1]}"


def _number_and_unit(value_s: float, whole: bool) -> tuple[str, str]:
    if value_s >= 7200:
        return f"{value_s / 3600:.1f}", "hours"
    if value_s >= 600:
        return f"{value_s / 60:.0f}", "minutes"
    return f"{value_s:.{0 if whole or value_s >= 100 else 1 if value_s >= 10 else 2}f}", "s"


def estimate(figure: str, is_estimate: bool) -> str:
    """Marks a figure that is an estimate."""
    return f"~{figure}" if is_estimate and figure != ABSENT else figure


def size(value: int | None) -> str:
    """Formats bytes in decimal units (1 MB is 1,000,000 bytes), in which storage is sold and limited."""
    if value is None:
        return ABSENT
    if abs(value) < 1000:
        return f"{value} B"
    scaled = float(value)
    for unit in ("kB", "MB", "GB"):
        scaled /= 1000
        if abs(round(scaled, 1)) < 1000:
            return f"{scaled:.1f} {unit}"
    return f"{scaled / 1000:,.1f} TB"


def size_unit(largest: float) -> tuple[float, str]:
    """Returns the decimal unit for an axis of bytes up to this value: the number of bytes, and its name."""
    units = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
    return next((unit for unit in units if largest >= unit[0]), (1, "B"))


def count(value: int | None) -> str:
    return ABSENT if value is None else f"{value:,}"


def count_text(many: int, what: str) -> str:
    """Returns the number with its noun: `1 transaction`, `2 transactions`."""
    return f"{many:,} {what}" if many == 1 else f"{many:,} {what}s"


def ratio(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.2f}"


def yes_or_no(value: bool | None) -> str:
    return ABSENT if value is None else "yes" if value else "no"


def found_of_expected(found: int | None, expected: int | None) -> str:
    """Formats how many items were found out of those that must exist, such as `100/100`."""
    return ABSENT if found is None and expected is None else f"{count(found)}/{count(expected)}"


def fact_row(key: str, value: str | float | bool | None) -> tuple[str, str]:
    """Returns a named fact as a table row: its name in words and its value in a readable unit."""
    if key.endswith("_bytes") and isinstance(value, int):
        return words(key.removesuffix("_bytes")), size(value)
    if value is None or value == "":
        return words(key), ABSENT
    if isinstance(value, bool):
        return words(key), yes_or_no(value)
    if isinstance(value, int):
        return words(key), count(value)
    return words(key), f"{value:g}" if isinstance(value, float) else value


def number_ranges(numbers: Iterable[int]) -> str:
    """Formats sorted numbers, with three or more that follow each other as a range: `1-4, 7, 8`."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ", ".join(f"{group[0]}-{group[-1]}" if len(group) > 2 else ", ".join(map(str, group)) for group in found)


def words(key: str) -> str:
    return key.replace("_", " ")


# --- Metrics in table columns and in sentences

_SHARE = "_share"
_BYTES = ("B", "B/s")


def cell(about: Metric, value: float | None) -> str:
    """Formats a value without its unit, which the column header has. Bytes keep their unit."""
    if value is None:
        return ABSENT
    if about.unit in _BYTES:
        return size(round(value))
    if about.name.endswith(_SHARE):
        # Rounded down, so that 100 % is shown only if it really is everything.
        return f"{math.floor(10_000 * value + 1e-9) / 100:.2f} %"
    return number(value)


def number(value: float) -> str:
    """Formats a number with three or four digits, and a large one with all digits before the decimal point."""
    if value == 0:
        return "0"
    if float(value).is_integer() and abs(value) < 100:
        return f"{value:.0f}"
    if abs(round(value, 1)) >= 100:
        return f"{value:,.0f}"
    if abs(round(value, 2)) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def with_unit(about: Metric, value: float) -> str:
    """Formats a value with its unit, such as `46,320 queries/s`, `58.0 s` or `1.2 MB/s`."""
    if about.unit == "s":
        return f"{duration(value)} s"
    text = cell(about, value)
    if about.unit == "B/s":
        return f"{text}/s"
    if about.unit == "B" or about.name.endswith(_SHARE):
        return text
    return f"{text} {about.label if about.unit in ('/s', '') else about.unit}"


def duration(value: float) -> str:
    """Formats seconds with enough digits even for values below one second."""
    return seconds(value) if value >= 1 or value <= 0 else _significant_digits(value, 3)


def column(about: Metric, value: float | None) -> str:
    """Formats a value for a table column, without its unit unless it is in bytes."""
    return duration(value) if about.unit == "s" and value is not None else cell(about, value)


def passes_zero(summary: Summary) -> bool:
    """Returns whether the mean's interval passes zero: then the few runs vary so much that their range says more."""
    if summary.interval is None or summary.mean is None:
        return False
    low = summary.mean - summary.interval if summary.low is None else summary.low
    return low <= 0 < summary.mean


def drawn_interval(summary: Summary) -> tuple[float, float] | None:
    """Returns the ends of the mean's interval for a chart; None where a text has none, either."""
    if summary.interval is None or summary.mean is None or passes_zero(summary):
        return None
    if summary.low is not None and summary.high is not None:
        return summary.low, summary.high
    return summary.mean - summary.interval, summary.mean + summary.interval


def interval_column(about: Metric, summary: Summary) -> str:
    """Formats half of a mean's interval, of seconds with as many decimals as the mean; over several sessions its ends.
    If it would pass zero it is the range of the runs."""
    if passes_zero(summary):
        return f"{column(about, summary.min)}-{column(about, summary.max)}"
    if summary.low is not None and summary.high is not None:
        return "-".join(dict.fromkeys((column(about, summary.low), column(about, summary.high))))
    if about.unit == "s" and (summary.mean or 0) >= 1 and summary.interval is not None:
        return seconds(summary.interval) if (summary.mean or 0) < 100 else f"{summary.interval:.1f}"
    return column(about, summary.interval)


def effect(contrast: Contrast | None) -> str:
    """Formats a ratio with its 95 % interval, such as `1.70 (1.65-1.75)`. If one of the means is zero it formats the
    difference instead, such as `+3.2 +- 0.4`."""
    if contrast is None or not contrast.is_known:
        return ABSENT
    if contrast.difference is not None:
        sign = "+" if contrast.difference > 0 else "-" if contrast.difference < 0 else ""
        error = "" if contrast.difference_error is None else f" +- {number(contrast.difference_error)}"
        return f"{sign}{number(abs(contrast.difference))}{error}"
    if contrast.ratio_low is None or contrast.ratio_high is None:
        return times(contrast.ratio)
    return f"{times(contrast.ratio)} ({times(contrast.ratio_low)}-{times(contrast.ratio_high)})"


def times(ratio: float | None) -> str:
    """Formats a ratio with two decimals below 10 and three digits above. A ratio far below one gets two significant
    digits and no exponent."""
    if ratio is None:
        return ABSENT
    if ratio >= 10:
        return number(ratio)
    if ratio >= 0.1 or ratio <= 0:
        return f"{ratio:.2f}"
    return _significant_digits(ratio, 2)


def two_digits(value: float) -> str:
    """Formats a value that is known roughly: with two significant digits, such as `21,000` or `0.031`."""
    if value < 1:
        return _significant_digits(value, 2) if value > 0 else "0"
    return f"{float(f'{value:.1e}'):,.{1 if value < 9.95 else 0}f}"


def _significant_digits(value: float, many: int) -> str:
    """Formats a value with `many` significant digits and without an exponent."""
    return f"{value:.{many - 1 - math.floor(math.log10(value))}f}"


def percent(share: float | None) -> str:
    return ABSENT if share is None else f"{100 * share + 0.0:.1f} %"


def whole_percent(share: float | None, *, sign: str = "") -> str:
    """Formats a share without decimals, with `sign="+"` as a change."""
    return ABSENT if share is None else f"{round(100 * share) + 0:{sign}d} %"


def spread(means: Sequence[float]) -> str:
    """Returns by what share the largest of several means exceeds the smallest."""
    return whole_percent(max(means) / min(means) - 1) if len(means) > 1 and min(means) > 0 else ABSENT


def share_interval(count: int, of: int) -> str:
    """Formats the 95 % interval of a share, from how many of all had something: `96-100 %`. Its ends are rounded away
    from each other."""
    low, high = binomial_interval(count, of)
    return f"{math.floor(100 * low)}-{math.ceil(100 * high)} %"


def which_is_better(about: Metric) -> str:
    if about.more_is_better is None:
        return ""
    return "More is better" if about.more_is_better else "Less is better"


def verdict(about: Metric, contrast: Contrast) -> str:
    """Returns whether the effect is significant, and in which direction."""
    if contrast.significant is None:
        return ABSENT
    if not contrast.significant:
        return "no"
    more = contrast.ratio > 1 if contrast.ratio is not None else (contrast.difference or 0.0) > 0
    if about.more_is_better is None:
        return "yes, more" if more else "yes, less"
    return "yes, better" if more == about.more_is_better else "yes, worse"


def together_notes(count: int, *, along: str = "") -> tuple[str, ...]:
    """Returns a note on what is significant among so many comparisons. A single one needs no correction."""
    if count < 2:
        return ()
    return (f"Significant: when all {count:,} comparisons{along} are taken together (Holm's correction).",)


# --- Key columns of a table: the version, and the value on each axis that differs


def key_headers(session: Session, group: Group, *, without: Collection[str] = ()) -> tuple[str, ...]:
    """Returns the headers of the key columns. Axis names are in words so that a long one can be wrapped; the notes have
    the spelling of the server."""
    own = () if session.are_told_apart(group.variants, group.axes) else ("variant",)
    return ("version", *(words(axis.name) for axis in group.axes if axis.name not in without), *own)


def key_cells(
    session: Session, group: Group, about: tuple[str, str], *, without: Collection[str] = ()
) -> tuple[str, ...]:
    """Returns the key cells of a row. `about` is a version and a variant."""
    version, variant = about
    cell = session.values_of(variant)
    own = () if session.are_told_apart(group.variants, group.axes) else (variant,)
    values = (cell.get(axis.name, ABSENT) for axis in group.axes if axis.name not in without)
    return (version, *values, *own)


def numeric_columns(session: Session, group: Group, *, without: Collection[str] = ()) -> tuple[bool, ...]:
    """Returns which key columns are right-aligned: those that contain only numbers."""
    axes = [axis for axis in group.axes if axis.name not in without]
    own = () if session.are_told_apart(group.variants, group.axes) else (False,)
    return (False, *(all(value[:1].isdigit() and " " not in value for value in axis.values) for axis in axes), *own)


def server_spelling_notes(session: Session) -> tuple[str, ...]:
    """Returns a note with the server's spelling of the axes that the headers show in words."""
    names = [axis.name for axis in session.differing_axes if "_" in axis.name]
    return (f"Names of these options: {', '.join(names)}.",) if names else ()


def group_title(title: str, group: Group) -> str:
    return f"{title}, {group.name}" if group.name else title


# --- Metrics shown next to a session's main metric


def related_metrics(session: Session, name: str, *, every_run: bool = False) -> tuple[Metric, ...]:
    """Returns the further metrics to show next to this one, if they were measured."""
    about = metric(name)
    wanted = about.of_run or about.related if every_run else about.related
    return tuple(metric(related) for related in wanted if metric_values(session.runs, related))


def explanations(shown: Sequence[Metric]) -> str:
    """Returns a note such as `p95 ms: ...; read: ...` for the metrics that need an explanation."""
    words = "; ".join(f"{about.label}: {about.note}" for about in shown if about.note)
    return f"{words}." if words else ""


# --- Table layout for a given page width
#
# Long cells are wrapped, and a table with too many columns is split into several. Each part repeats the key columns,
# which identify the row; they are wrapped too if they are too wide.

MAX_UNBROKEN_WORD = 24
"""A longer word may be broken anywhere, so that two columns always fit a page 78 characters wide."""
_KEYS_SHARE = 0.65
"""Share of the page width for the key columns. On a page of 78 characters the widest other column then fits as well."""


def printable(text: str) -> str:
    """Returns the text as one line without control characters, which a terminal would obey. Line ends become spaces and
    other control characters become `?`."""
    return escape_control(" ".join(text.split()))


_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)


def without_hidden(text: str) -> str:
    """Returns a text of several lines with `?` for each character that a terminal obeys, or that has no shape and
    changes the order or the look of others."""
    return _HIDDEN.sub("?", text)


def printable_table(table: Table, made: Callable[[str], str] = printable) -> Table:
    """Returns the table with all its texts made printable."""
    return replace(
        table,
        title=made(table.title),
        headers=tuple(map(made, table.headers)),
        rows=tuple(tuple(map(made, row)) for row in table.rows),
        notes=tuple(map(made, table.notes)),
    )


def split(table: Table, width: int, *, gap: int) -> tuple[Table, ...]:
    """Returns the table unchanged if its narrowest form fits, else several tables that each repeat the key columns. If
    the keys take too much of the page, key columns with the same value in all rows are not repeated."""
    narrowest = [_min_width(table, column) for column in range(len(table.headers))]
    keys = list(range(table.keys))
    differing = [column for column in keys if len({row[column] for row in table.rows}) > 1]
    again = keys if _total_width(narrowest[: table.keys], gap) <= _KEYS_SHARE * width else differing or keys[:1]
    groups = [keys]
    for column in range(table.keys, len(narrowest)):
        group = [*groups[-1], column]
        has_others = groups[-1][-1] >= table.keys
        if has_others and _total_width([narrowest[taken] for taken in group], gap) > width:
            groups.append([*again, column])
        else:
            groups[-1] = group
    first, last = groups[0], groups[-1]
    return tuple(
        replace(
            _columns(table, group),
            title=table.title if group is first else "",
            notes=table.notes if group is last else (),
        )
        for group in groups
    )


def narrowest_width(table: Table, gap: int) -> int:
    """Returns the width of the table if no column is wider than its longest word."""
    return _total_width([_min_width(table, column) for column in range(len(table.headers))], gap)


def column_gap(table: Table, width: int) -> int:
    """Returns the number of blanks between columns: two, or one if the table then splits into fewer parts."""
    return min((2, 1), key=lambda gap: len(split(table, width, gap=gap)))


def widths(table: Table, width: int, *, gap: int) -> tuple[int, ...]:
    """Returns the width of each column: its narrowest one, with the remaining space given to columns that would
    wrap."""
    found = _fit_widths([_min_width(table, column) for column in range(len(table.headers))], table.keys, width, gap=gap)
    spare = width - _total_width(found, gap)
    for column, narrowest in enumerate(found):
        more = max(0, min(spare, _max_width(table, column) - narrowest))
        found[column] += more
        spare -= more
    return tuple(found)


def _fit_widths(narrowest: list[int], keys: int, width: int, *, gap: int) -> list[int]:
    """Returns the column widths, reduced where even the narrowest ones are too wide. The other columns leave the keys
    their share of the page, then the widest keys are narrowed."""
    rest = width - gap - min(_total_width(narrowest[:keys], gap), int(_KEYS_SHARE * width))
    found = narrowest[:keys] + [max(1, min(rest, wanted)) for wanted in narrowest[keys:]]
    while _total_width(found, gap) > width and max(found[:keys]) > 1:
        found[found.index(max(found[:keys]))] -= 1
    return found


def _total_width(columns: list[int], gap: int) -> int:
    return sum(columns) + gap * (len(columns) - 1)


def wrap_text(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def row_lines(row: Sequence[str], numeric: Sequence[bool], columns: Sequence[int], *, gap: int) -> Iterator[str]:
    """Yields a row of a table as lines, with its cells wrapped to the widths of the columns."""
    cells = [wrap_text(cell, width) for cell, width in zip(row, columns, strict=True)]
    for number in range(max(map(len, cells))):
        parts = []
        for lines, is_number, width in zip(cells, numeric, columns, strict=True):
            text = lines[number] if number < len(lines) else ""
            parts.append(text.rjust(width) if is_number else text.ljust(width))
        yield (" " * gap).join(parts).rstrip()


def plus_minus(text: str) -> str:
    """Returns a text with the sign for +- that a page can show."""
    return _PLUS_MINUS.sub("\u00b1", text)


_PLUS_MINUS = re.compile(r"(?<![^\s|(])\+-(?=[\s:|]|$)")


def _columns(table: Table, group: list[int]) -> Table:
    return replace(
        table,
        headers=tuple(table.headers[column] for column in group),
        rows=tuple(tuple(row[column] for column in group) for row in table.rows),
        numeric=tuple(table.numeric[column] for column in group),
        keys=sum(column < table.keys for column in group),
    )


def _min_width(table: Table, column: int) -> int:
    """Returns the width of the longest word in the column. In numeric columns a number and its unit stay on one
    line."""
    words = table.headers[column].split()
    for row in table.rows:
        words += [row[column]] if table.numeric[column] else row[column].split()
    return max(1, min(MAX_UNBROKEN_WORD, max(map(len, words), default=1)))


def _max_width(table: Table, column: int) -> int:
    return max(map(len, (table.headers[column], *(row[column] for row in table.rows))))


# --- Chart axes

_STEPS = (4, 5, 6)
_ROUND = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True)
class ChartAxis:
    """A chart axis. It starts at zero, so that a line that looks steep is steep; only time starts before, with a
    warm-up."""

    maximum: float
    start: float = 0.0
    end: float = 100.0
    """Positions of `minimum` (`start`) and of `maximum` (`end`), in percent of the picture's width or in its units of
    height."""
    step: float = 1.0
    """Distance between two tick labels."""
    minimum: float = 0.0

    def at(self, value: float) -> float:
        return self.start + (self.end - self.start) * (value - self.minimum) / (self.maximum - self.minimum)

    def ticks(self) -> tuple[float, ...]:
        return tuple(self.step * number for number in range(int(self.maximum / self.step * (1 + 1e-9)) + 1))


def rounded_axis(maximum: float, *, start: float = 0.0, end: float = 100.0) -> ChartAxis:
    """Returns an axis that ends at a round number, with the number of steps that comes nearest to `maximum`."""
    ends = [(steps * round_step(maximum / steps), steps) for steps in _STEPS]
    round_maximum, steps = min(ends)
    return ChartAxis(round_maximum, start, end, round_maximum / steps)


def round_step(minimum: float) -> float:
    """Returns the smallest round number that is at least `minimum`."""
    power = 10.0 ** math.floor(math.log10(minimum if minimum > 0 else 1))
    return next(round_one * power for round_one in _ROUND if round_one * power >= minimum * (1 - 1e-9))
