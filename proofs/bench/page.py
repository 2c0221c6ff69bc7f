"""Renders bench.json as Markdown; all figures are computed here."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from bench.building import Built
from bench.starts import Start
from recovery.analysis.contrasts import compare_means
from recovery.analysis.statistics import MIN_RUNS, half_interval_95

Found = dict[str, Any]
"""Content of bench.json: facts about the host, and for each measured part its builds or starts."""


def head(found: Found) -> str:
    host = found["environment"]
    return (
        f"Measured {found['measured_at']} with {found['tool_version']} on {host.get('cpu_model')}, "
        f"{host.get('cpus')} CPUs, {host.get('filesystem')}, kernel {host.get('kernel')}.\n"
    )


def section(part: str, rows: Sequence[Found]) -> str:
    if part == "building":
        return _building([Built(**row) for row in rows])
    starts = [Start(**row) for row in rows]
    groups = dict.fromkeys((start.cache, start.tables) for start in starts)
    lines = [_starts([start for start in starts if (start.cache, start.tables) == group]) for group in groups]
    return f"## {_TITLES[part]}\n\n" + "".join(lines)


_TITLES = {"watching": "Watching", "tracing": "Tracing", "engines": "In a container"}
PARTS = ("building", *_TITLES)
_HEADERS = (
    *("version", "plain, tables/s", "fast, tables/s", "statement ratio"),
    *("plain, whole, s", "proved stage, s", "stage ratio"),
)


def _building(found: list[Built]) -> str:
    tables = ", ".join(f"{tables:,}" for tables in dict.fromkeys(each.tables for each in found))
    rows = [_HEADERS, ("---",) * len(_HEADERS)]
    for version in dict.fromkeys(each.version for each in found):
        ways = [[one for one in found if (one.version, one.way) == (version, way)] for way in ("plain", "stage")]
        if not all(ways):  # interrupted
            continue
        statements_s = [[one.statements_s for one in way] for way in ways]
        whole_s = [[one.whole_s for one in way] for way in ways]
        rates = (ways[0][0].tables / statistics.fmean(seconds) for seconds in statements_s)
        means = (statistics.fmean(seconds) for seconds in whole_s)
        cells = (*(f"{rate:,.0f}" for rate in rates), _ratio(*statements_s), *(f"{mean:.1f}" for mean in means))
        rows.append((version, *cells, _ratio(*whole_s)))
    runs = max(sum(one.version == each.version and one.way == each.way for one in found) for each in found)
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return f"## Building {tables} tables\n\n{table}\nMeans of {runs}.\n"


def _ratio(plain: list[float], stage: list[float]) -> str:
    ratio = compare_means(plain, stage)
    if ratio is None:
        return "-"
    return f"{ratio.value:.1f}" if ratio.low is None else f"{ratio.value:.1f} ({ratio.low:.1f} to {ratio.high:.1f})"


def _starts(found: list[Start]) -> str:
    """Compares within pairs: a drift of the host affects both starts alike. Incomplete pairs are left out."""
    ways = {start.way: {other.pair: other for other in found if other.way == start.way} for start in found}
    whole = [pair for pair in dict.fromkeys(start.pair for start in found) if all(pair in one for one in ways.values())]
    if len(ways) < 2 or not whole:
        return ""
    (than, base), (way, other) = ((way, [starts[pair] for pair in whole]) for way, starts in ways.items())
    first, ready_s = found[0], statistics.fmean(start.ready_s for start in base)
    differences = [one.ready_s - start.ready_s for start, one in zip(base, other, strict=True)]
    mean, interval = statistics.fmean(differences), "too few pairs for an interval"
    if len(differences) >= MIN_RUNS:
        half = half_interval_95(differences)
        low, high = mean - half, mean + half
        interval = f"95 % interval {low:+.4f} to {high:+.4f} s, {low / ready_s:+.2%} to {high / ready_s:+.2%}"
    lines = [
        f"{first.cache} crash recovery of {first.version}, {first.tables:,} tables, {len(differences)} pairs: "
        f"{than} {ready_s:.3f} s, {way} {ready_s + mean:.3f} s; "
        f"difference {mean:+.4f} s, {mean / ready_s:+.2%} ({interval})",
        f"CPU time of the tool's process: {than} {_cpu(base)}, {way} {_cpu(other)}",
    ]
    for one, starts in ((than, base), (way, other)):
        if lags := [1000 * start.lag_s for start in starts if start.lag_s is not None]:
            lines.append(
                f"ready line seen after its stamp, {one}: median {statistics.median(lags):.2f} ms, "
                f"at most {max(lags):.2f} ms"
            )
        if engine := [start.engine_s for start in starts if start.engine_s is not None]:
            lines.append(f"the engine takes before the exec: median {statistics.median(engine):.2f} s")
    return "".join(f"* {line}\n" for line in lines)


def _cpu(starts: list[Start]) -> str:
    mean_s = statistics.fmean(start.cpu_s for start in starts)
    return f"{mean_s:.3f} s ({mean_s / statistics.fmean(start.ready_s for start in starts):.1%} of a core)"
