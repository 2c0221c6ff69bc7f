"""Renders intervals.json as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from recovery.analysis.statistics import MIN_SESSIONS_OF_A_MEAN

Found = dict[str, Any]


def tables(found: Found) -> tuple[str, ...]:
    """Returns all tables."""
    return (
        components_table(found),
        sizes_table(found),
        first_runs_table(found),
        ratios_table(found),
        explanations_table(found),
        coverage_table(found),
        left_out_table(found),
        over_sessions_table(found),
    )


_COMPONENTS = {
    "runs": "runs of a session",
    "sessions": "sessions",
    "on_one_host": "sessions on one host",
    "over_one_directory": "sessions over one directory",
    "change": "first and last run of a session",
}


def short_table(found: Found) -> str:
    """Returns the components alone, for the page that links to all others."""
    headers = ("between", *(f"{int(tables):,} tables" for tables in found["components"]))
    rows = (
        (
            label,
            *(
                _interval(*(parts[key][name] for name in ("sd", "low", "high")))
                for parts in found["components"].values()
            ),
        )
        for key, label in _COMPONENTS.items()
        if key in ("runs", "sessions", "on_one_host")
    )
    return _table(headers, rows)


def components_table(found: Found) -> str:
    headers = ["between"]
    for tables in found["components"]:
        headers += [f"{int(tables):,} tables", "of the variance", "degrees of freedom"]
    rows = []
    for key, label in _COMPONENTS.items():
        row = [label]
        for parts in found["components"].values():
            one, whole = parts[key], parts["runs"]["sd"] ** 2 + parts["sessions"]["sd"] ** 2
            share = _percent(one["sd"] ** 2 / whole) if key in ("runs", "sessions") else ""
            row += [_interval(one["sd"], one["low"], one["high"]), share, one["degrees"]]
        rows.append(row)
    return _table(headers, rows)


def sizes_table(found: Found) -> str:
    rows = (
        (one["name"], _interval(one["sd"], one["low"], one["high"]), one["servers"], one["sessions"], one["degrees"])
        for one in found["sizes"]
    )
    return _table(("sessions, by size", "deviation", "servers", "sessions", "degrees of freedom"), rows)


def ratios_table(found: Found) -> str:
    rows = (
        (name, one["name"], _interval(one["sd"], one["low"], one["high"]), one["sessions"], one["degrees"])
        for name, one in found["ratios"].items()
    )
    return _table(("", "ratio", "between sessions", "sessions", "degrees of freedom"), rows)


def first_runs_table(found: Found) -> str:
    rows = (
        (one["what"], _interval(one["value"], one["low"], one["high"]), _range(one["least"], one["most"]))
        for one in found["first_runs"]
    )
    return _table(("first run over the others", "mean of cells", "in a cell"), rows)


def explanations_table(found: Found) -> str:
    names = tuple(found["explained"])
    by_name: dict[str, dict[str, Any]] = {}
    for group, ones in found["explained"].items():
        for one in ones:
            by_name.setdefault(one["name"], {})[group] = one
    rows = [
        [name, *(cell for group in names for cell in _explained(ones.get(group)))] for name, ones in by_name.items()
    ]
    headers = [f"{what}, {name}" for name in names for what in ("explained", "slope", "degrees of freedom")]
    return _table(("recorded", *headers), rows)


def _explained(one: Found | None) -> tuple[object, object, object]:
    if one is None:
        return "", "", ""
    left_out = "-" if one["left_out_share"] is None else _percent(max(0.0, one["left_out_share"]))
    slope = "" if one["slope"] is None else _interval(one["slope"], one["slope_low"], one["slope_high"])
    return f"{_percent(max(0.0, one['share']))}; {left_out}", slope, one["degrees"]


def left_out_table(found: Found) -> str:
    headers = ("a session that is left out", *(f"{int(tables):,} tables" for tables in found["left_out"]))
    rows = [
        (ones[0]["what"], *(f"{one['contained']} of {one['of']}" if one["of"] else "" for one in ones))
        for ones in zip(*found["left_out"].values(), strict=True)
    ]
    return _table(headers, rows)


def coverage_table(found: Found) -> str:
    """Returns a row for each claim, and a column for each pair of servers."""
    names = tuple(found["coverage"])
    rows = []
    for ones in zip(*found["coverage"].values(), strict=True):
        first = ones[0]
        sessions = "one session" if first["sessions"] == 1 else f"{first['sessions']} sessions"
        order = "alternating" if first["alternates"] else "one server after the other"
        shares = [_percent(one["covered"] / one["of"], 1) for one in ones]
        what = f"**{first['what']}**" if first["is_claimed"] else first["what"]
        rows.append((f"{sessions}, {order}", what, *shares))
    return _table(("interval", "contains", *names), rows)


def over_sessions_table(found: Found) -> str:
    rows = (
        (
            one["what"],
            len(one["sessions"]),
            _mean_or_values(one),
            _range(one["least"], one["most"]),
        )
        for one in found["over_sessions"]
    )
    return _table(("over sessions", "sessions", "mean or ratio", "in a session"), rows)


def _mean_or_values(one: Found) -> str:
    """Returns a ratio or a mean with its interval, or the means of sessions that are too few for one."""
    if " over " in one["what"] or len(one["values"]) >= MIN_SESSIONS_OF_A_MEAN:
        return _interval(one["value"], one["low"], one["high"])
    return "; ".join(map(_number, one["values"]))


def _interval(value: float, low: float | None, high: float | None) -> str:
    return _number(value) if low is None or high is None else f"{_number(value)} ({_range(low, high)})"


def _range(low: float, high: float) -> str:
    return f"{_number(low)}{' to ' if low < 0 else '-'}{_number(high)}"


def _number(value: float) -> str:
    """Returns three digits, also if the last are zeros."""
    return f"{value:#.3g}".removesuffix(".") if value else "0"


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def _table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
