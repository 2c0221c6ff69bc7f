"""Computes figures of the pages that no report has: from other figures, or from the runs of the kept sessions."""

from __future__ import annotations

import json
import re
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from math import exp, log
from pathlib import Path
from statistics import fmean, geometric_mean, median
from typing import Any

import numpy as np
from bench.page import section
from estimate.findings import Result, results_of
from estimate.records import SERVERS, Purpose, Record, read
from intervals.__main__ import FOUND, ROOT
from sessions import FIXTURES, KEPT_ARCHIVE

from recovery.analysis.contrasts import CellKey, Sample, contrasts
from recovery.analysis.crash_estimate import CONSTANTS, estimate_start
from recovery.analysis.statistics import over_sessions, t975

Computed = Mapping[str, Sequence[float]]
"""Words of a page, with the value of each number in them."""

WATCHED = ROOT / "docs" / "results" / "watch.json"
"""What the proof of `recovery watch` found."""


@cache
def computed() -> Computed:
    return {
        **_from_other_figures(), **_crash_matrix(), **_million(), **_queries_and_dumps(),
        **_loads(), **_starts_of_sessions(), **_hosts(), **_other_runs(), **_predictions(), **_watched_starts(),
        **_cost_of_the_tool(), **_pages_on_fast_storage(),
    }  # fmt: skip


def _from_other_figures() -> Computed:
    """Figures that follow from others of their page, which are in reports, or from constants."""
    return {
        "sessions | 0.19 to 0.31 |": [37.5 / 200, 61.7 / 200],
        "sessions | 0.29 |": [58.5 / 200],
        "sessions | 0.35 |": [69.2 / 200],
        "session | 0.16 to 0.37 |": [32.9 / 200, 73.4 / 200],
        "sessions | 0.027 |": [5.42 / 200],
        "session | 0.0021 and 0.0023 |": [0.421 / 200, 0.468 / 200],
        "3.7 times as long": [162 / 43.5],
        "takes 4.6 times as long as Q3": [403 / 87],
        "it is 2.2 times": [112.4 / 51.7],
        "640 s": [32 * 20],
        "120,000 with 2,000 reads": [60 * 2000, 2000],
        "15 % of those of 8.0.31": [100 - 85],
        "5.3 times the time": [35.2 / 6.61],
        "150 times faster": [71.984 / 0.4796],
        "shows: 0.86 times": [37.5 / 43.5],
        "for a million): 0.84 |": [188 / 223],
        "takes 0.12, 0.11 and 0.19 ms": [(2.09 - 1.01) / 9, (6.61 - 2.09) / 40, (35.2 - 6.61) / 150],
        "| 400,000 | 199,900 |": [2 * 200_000, 200_000 - 100],
        "needed [2.9 requests]": [CONSTANTS["mysql-8.0"].requests_per_page],
        "245 s": [35.2 * 5 ** (log(35.2 / 6.61) / log(4))],
    }


def _crash_matrix() -> Computed:
    """Counts of runs, of each cell those of the newest session that measured it."""
    kept = list(_kept("2026-11-22-crash-matrix-*"))
    newest = dict[tuple[str, str], str]()
    for session in sorted(kept, key=lambda one: one["started_at"]):
        newest |= {(run["version"], run["variant"]): session["started_at"] for run in session["runs"]}
    runs = [
        run
        for session in kept
        for run in session["runs"]
        if newest[run["version"], run["variant"]] == session["started_at"]
    ]

    def runs_of(version: str, *variants: str) -> list[Mapping[str, Any]]:
        return [run for run in runs if run["version"] == version and run["variant"].startswith(variants)]

    def total(metric: str, found: Iterable[Mapping[str, Any]]) -> float:
        return float(sum(run["metrics"].get(metric, 0) for run in found if run["verdict"] == "measured"))

    def back_and_lost(version: str, variant: str) -> list[float]:
        found = runs_of(version, variant)
        back = sum(run["verdict"] == "measured" for run in found)
        return [back, len(found), total("lost", found), total("acknowledged", found)]

    def back_and_traces(version: str) -> list[float]:
        metrics = ("half_done", "orphans", "missing", "failing")
        back = [run["metrics"] for run in runs_of(version, "definitions") if run["verdict"] == "measured"]
        with_any = sum(any(measures[metric] for metric in metrics) for measures in back)
        return [len(back), *(sum(measures[metric] for measures in back) for metric in metrics), with_any]

    killed = ("inserts", "load", "definitions", "recovery", "shutdown")
    with_1 = [f"{when}-commit-1" for when in (*killed, "power-loss")]
    with_2 = [f"{when}-commit-2" for when in killed]
    repeated = _values("2026-11-22-crash-matrix-recovery-shutdown", "kills", variant="recovery-*")
    reasons = (run["reason"] for run in _session("2026-11-26-killed-during-shutdown")["runs"] if run["reason"])
    checkpoint, end = (float(number) for number in re.findall(r"the (?:checkpoint|end) (\d+)", "".join(reasons)))
    return {
        "3,480 kills": [sum(_values("2026-11-22-crash-matrix-*", "kills", verdict="*"))],
        "389,677 in 5.7.22 and of 382,324": [
            total("acknowledged", runs_of(one, *with_1)) for one in ("5.7.22", "8.0.31")
        ],
        "896,187 and of 545,404": [total("acknowledged", runs_of(one, *with_2)) for one in ("5.7.22", "8.0.31")],
        "40 of 40 | 258,636 of 360,347": back_and_lost("5.7.22", "inserts-commit-0"),
        "40 of 40 | 342 of 279,492": back_and_lost("8.0.31", "inserts-commit-0"),
        "40 of 40 | 32,697 of 170,315": back_and_lost("5.7.22", "load-commit-0"),
        "40 of 40 | 273 of 208,453": back_and_lost("8.0.31", "load-commit-0"),
        "37 of 40** | 7 of 3,618": back_and_lost("5.7.22", "definitions-commit-0"),
        "40 of 40 | 1 of 4,144": back_and_lost("8.0.31", "definitions-commit-0"),
        "40 of 40 | 39,773 of 199,747": back_and_lost("5.7.22", "recovery-commit-0"),
        "40 of 40 | 185 of 211,654": back_and_lost("8.0.31", "recovery-commit-0"),
        "39 of 40** | 0 of 81,726": back_and_lost("5.7.22", "shutdown-commit-1"),
        "40 of 40 | 0 of 71,459": back_and_lost("8.0.31", "shutdown-commit-1"),
        "39 of 40** | 2,169 of 177,847": back_and_lost("5.7.22", "shutdown-commit-0"),
        "40 of 40 | 2 of 172,682": back_and_lost("8.0.31", "shutdown-commit-0"),
        "40 of 40 | 34,958 of 140,336": back_and_lost("5.7.22", "power-loss-commit-2"),
        "40 of 40 | 3,268 of 143,099": back_and_lost("8.0.31", "power-loss-commit-2"),
        "40 of 40 | 37,207 of 196,941": back_and_lost("5.7.22", "power-loss-commit-0"),
        "40 of 40 | 9,951 of 192,010": back_and_lost("8.0.31", "power-loss-commit-0"),
        "| **111** | 42 | 114 | 15 | 47 | 91 |": back_and_traces("5.6.24"),
        "| **117** | 51 | 138 | 12 | 53 | 88 |": back_and_traces("5.7.22"),
        "| 120 | 0 | 0 | 0 | 0 | 0 |": back_and_traces("8.0.31"),
        "| 120 | 2 | 0 | 0 | 0 | 2 |": back_and_traces("mariadb-10.11.5"),
        "Of 463 kills of a recovery** 454": [
            sum(repeated) - len(repeated),  # the first kill of each run is not of a recovery
            sum(_values("2026-11-22-crash-matrix-recovery-shutdown", "cut_short")),
        ],
        "ends with 5,484 bytes after its last checkpoint (11,179,094)": [end - checkpoint, checkpoint],
        "Both kills came 2.7 s after SIGTERM": _values(
            "2026-11-26-killed-during-shutdown", "killed_after_s", verdict="failed"
        ),
    }


def _million() -> Computed:
    """What sessions with up to 200,000 tables predict for a million, and how far off that is."""

    def by_last_slope(session: str, metric: str) -> float:
        low, high = (fmean(_values(session, metric, variant=f"cold-{tables}")) for tables in (500, 2000))
        return high + 800_000 * (high - low) / 150_000

    def fitted_s(session: str) -> float:
        return float(_session(session)["fits"][0]["predicted"]["seconds"])

    def excess_percent(session: str, metric: str, predicted: float) -> float:
        return 100 * fmean(_values(session, metric)) / predicted - 100

    s_5_7 = by_last_slope("2026-11-25-million-scale", "startup_s")
    s_8_0 = fitted_s("2026-11-26-million-scale")
    s_mariadb = fitted_s("2026-11-25-million-scale-mariadb")
    bytes_5_7 = by_last_slope("2026-11-25-million-scale", "peak_memory_bytes")
    bytes_8_0 = by_last_slope("2026-11-26-million-scale", "peak_memory_bytes")
    bytes_mariadb = by_last_slope("2026-11-25-million-scale-mariadb", "peak_memory_bytes")
    excess_8_0 = excess_percent("2026-11-26-million", "startup_s", s_8_0)
    return {
        "| 187: 4 % less |": [s_5_7, -excess_percent("2026-11-25-million", "startup_s", s_5_7)],
        "| 198: 27 % more |": [s_8_0, excess_8_0],
        "took 27 % more than predicted": [excess_8_0],
        "| 19.0: 25 % more |": [s_mariadb, excess_percent("2026-11-25-million-mariadb", "startup_s", s_mariadb)],
        "| 1.75 GB |": [bytes_5_7 / 1e9],
        "| 4.80 GB |": [bytes_8_0 / 1e9],
        "| 830 MB |": [bytes_mariadb / 1e6],
        "Memory was 13 % (5.7.22)": [-excess_percent("2026-11-25-million", "peak_memory_bytes", bytes_5_7)],
        "10 % (MariaDB)": [-excess_percent("2026-11-25-million-mariadb", "peak_memory_bytes", bytes_mariadb)],
        "memory was 3 % less": [-excess_percent("2026-11-26-million", "peak_memory_bytes", bytes_8_0)],
        "| 1.53 GB |": [fmean(_values("2026-11-25-million", "peak_memory_bytes")) / 1e9],
        "| 1.11 GB |": [fmean(_values("2026-11-26-million-scale", "peak_memory_bytes", variant="cold-2000")) / 1e9],
    }


def _queries_and_dumps() -> Computed:
    """Ratios between sessions, or between runs of one that did not alternate."""

    def query_ratio(query: str) -> Sequence[float]:
        one, other = (f"2026-11-27-million-queries-{version}" for version in ("5.7.22", "8.0.31"))
        return _ratio(_values(one, "elapsed_s", variant=query), _values(other, "elapsed_s", variant=query))

    def dump_ratio(version: str) -> Sequence[float]:
        sessions = ("2026-11-26-dump-4000", "2026-11-26-dump-2000")
        return _ratio(*(_values(one, "elapsed_s", version=version, variant="dump") for one in sessions))

    def reads_per_s(version: str) -> float:
        return float(round(_session(f"2026-11-27-million-queries-{version}")["environment"]["probe_4k_1_iops"], -2))

    created = [_values("2026-11-26-10000-created", "elapsed_s", version=one) for one in ("5.7.22", "8.0.31")]
    cold = [_values("2026-11-25-six-servers", "startup_s", version=one, variant="cold") for one in ("9.7.4", "8.0.31")]
    return {
        "| 10.1 (7.9-13) |": query_ratio("Q1"),
        "| 7.8 (6.0-10) |": query_ratio("Q2"),
        "| 20 (13-32) |": query_ratio("Q3"),
        "| 0.45 (0.39-0.53) |": _ratio(*created),
        "4.7 (4.2-5.2)": dump_ratio("5.7.22"),
        "8.0.31 5.6 (4.9-6.5)": dump_ratio("8.0.31"),
        "9.7.4 0.72 (0.46-1.14)": _ratio(*cold),
        "21,700 (8.0.31) and 21,300 (5.7.22)": [reads_per_s("8.0.31"), reads_per_s("5.7.22")],
    }


def _loads() -> Computed:
    """What a load keeps of its queries beside queries of information_schema."""

    def kept(version: str) -> Sequence[float]:
        cells = [
            ("2026-11-22-interference", "*-2000"),
            ("2026-11-22-interference", "*-9000"),
            ("2026-11-26-experiments-interference", "*-2000"),
            ("2026-11-26-experiments-interference", "*-9485"),
            ("2026-11-26-interference-loop", "*"),
        ]
        shares = []
        for session, cell in cells:
            beside, alone = (
                geometric_mean(_values(session, "qps", version=version, variant=f"{cell}-poll-{poll}"))
                for poll in ("on", "off")
            )
            shares.append(beside / alone)
        found = over_sessions(shares)
        assert found is not None
        assert found.interval is not None
        return found.mean, *found.interval

    def misses_per_s(version: str) -> float:
        metric, variant = "table_open_cache_misses_per_s", "*-2000-poll-off"
        return round(fmean(_values("2026-11-22-interference", metric, version=version, variant=variant)), -2)

    return {
        "5.7.22 keeps 0.83 (0.78-0.89)": kept("5.7.22"),
        "8.0.31 0.84 (0.76-0.94)": kept("8.0.31"),
        "the load alone misses 4,400 to 5,900 times a second": [misses_per_s("8.0.31"), misses_per_s("5.7.22")],
    }


def _starts_of_sessions() -> Computed:
    """Starts of 5.7.22, and of MariaDB 10.11.18. Of those of 28 November only the seconds are kept."""
    on_21st = fmean(_values("2026-11-21-scale", "startup_s", version="5.7.22", variant="cold-50000"))
    on_27th = fmean(_values("2026-11-27-seven-versions", "startup_s", version="5.7.22", variant="cold"))

    def cells(sessions: str) -> list[Mapping[str, Any]]:
        found = [cell for cell in _intervals()["cells"] if fnmatchcase(cell["session"], sessions)]
        return [cell for cell in found if cell["setting"][0] == "5.7.22"]

    def starts(sessions: str) -> list[float]:
        return [value for cell in cells(sessions) for value in cell["values"]]

    early, late = starts("20261128T03*"), starts("20261128T0[78]*")
    # Most of the early ones are over the first data directory.
    means = [(cell["directory"], fmean(cell["values"])) for cell in cells("20261128T03*")]
    over_first = [mean for directory, mean in means if directory == means[0][0]]
    over_others = [mean for directory, mean in means if directory != means[0][0]]
    left_out = _intervals()["left_out"]
    # The third: two sessions do not differ significantly. The fourth: the interval over the others has the next one.
    pairs, of_others = left_out["200000"][2], [left_out[tables][3] for tables in ("200000", "100000")]
    of_10_11_18 = ["mariadb-10.11.18", "cold", 200_000, ""]
    both = sorted(fmean(cell["values"]) for cell in _intervals()["cells"] if cell["setting"] == of_10_11_18)
    return {
        "| 0.42, 0.47 |": both,
        "0.42 and 0.47": both,
        "took 2.5 times as long on 21 November": [on_21st / on_27th],
        "up to 2.5 times": [on_21st / on_27th],
        "5.7.22: 20.3 and 8.0 s": [on_21st, on_27th],
        "22.0-35.7 s at": [min(early), max(early)],
        "19.6-24.4 s at": [min(late), max(late)],
        "took 25.2 and 27.4 s": [fmean(starts("20261128T050658*")), fmean(starts("20261128T051237*"))],
        "29.9 and 24.9 s": [fmean(starts("20261128T050935*")), fmean(starts("20261128T051526*"))],
        "took 0.98 (0.80-1.21) times": _ratio(over_others, to=over_first),
        "Of 60 pairs of equal sessions with 200,000 tables 50 differ": [
            pairs["of"],
            200_000,
            pairs["of"] - pairs["contained"],
        ],
        "had it 45 of 48 times": [sum(one["contained"] for one in of_others), sum(one["of"] for one in of_others)],
    }


def _hosts() -> Computed:
    """Starts and reads a second of the hosts of a kernel build."""
    cells = [cell for cell in _intervals()["cells"] if cell["setting"][1:] == ["cold", 200_000, ""]]
    # A host of 28 November is known by an id.
    cells = [cell for cell in cells if "-fc-v" in cell["host"]]
    builds = ("v669", "v782")
    # Least squares of logarithms, with a level of each server. The other hosts are those of fc-v509.
    servers = sorted({cell["setting"][0] for cell in cells})
    rows = [
        [*(cell["setting"][0] == server for server in servers), *(cell["host"].endswith(build) for build in builds)]
        for cell in cells
    ]
    design = np.array(rows, float)
    logs = [fmean(map(log, cell["values"])) for cell in cells]
    solution, rest, rank, _ = np.linalg.lstsq(design, logs, rcond=None)
    degrees = len(cells) - rank
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * rest[0] / degrees)
    ratios = {
        build: [exp(value), exp(value - t975(degrees) * error), exp(value + t975(degrees) * error)]
        for build, value, error in zip(builds, solution[-2:], errors[-2:], strict=True)
    }

    def reads_per_s(build: str) -> list[float]:
        """Returns the medians of the sessions, by 16 threads and by one."""
        hosts = [session["environment"] for session in _kept("2026-11-2[1-7]*")]
        hosts = [host for host in hosts if host["kernel"].endswith(build) and "probe_4k_1_iops" in host]
        return [round(median(host[f"probe_4k_{threads}_iops"] for host in hosts), -2) for threads in (16, 1)]

    return {
        "1.48 (1.26-1.74) times on those": ratios["v669"],
        "1.79 (1.51-2.12) times as long on the host": ratios["v782"],
        "| 1.48 (1.26-1.74) | 68,300 | 18,000 |": [*ratios["v669"], *reads_per_s("v669")],
        "| 1.79 (1.51-2.12) | 29,600 | 21,300 |": [*ratios["v782"], *reads_per_s("v782")],
        "| 91,600 | 22,000 |": reads_per_s("v509"),
        "| 58,700 | 17,800 |": reads_per_s("v657"),
    }


def _other_runs() -> Computed:
    """Means of runs with more digits than the report has."""

    def read_gb(session: str, variant: str) -> list[float]:
        return [fmean(_values(session, "read_bytes", variant=variant)) / 1e9]

    def read_for_each_table(version: str) -> list[float]:
        session = "2026-11-25-six-servers"
        read_bytes, reads = (
            fmean(_values(session, metric, version=version, variant="cold")) / 200_000
            for metric in ("read_bytes", "read_requests")
        )
        return [read_bytes / 1e3, reads]

    requests = _values("2026-11-22-metadata", "read_requests", version="5.7.22", variant="Q1")
    return {
        "validation: 134 and 132 kB": [read_for_each_table(version)[0] for version in ("8.0.31", "9.7.4")],
        "s | 67 kB in 1.0 reads |": read_for_each_table("5.6.24"),
        "s | 100 kB in 2.0 |": read_for_each_table("5.7.22"),
        "s | 134 kB in 3.0 |": read_for_each_table("8.0.31"),
        "s | 132 kB in 2.0 |": read_for_each_table("9.7.4"),
        "s | 1.1 kB in 0.04 |": read_for_each_table("mariadb-10.11.5"),
        "nothing | 0.5 kB in 0.02 |": read_for_each_table("mariadb-10.11.18"),
        "| 1.0 |": read_gb("2026-11-21-layouts", "cold-files"),
        "| 4.0 |": read_gb("2026-11-21-layouts", "cold-parts"),
        "| 0.06 |": read_gb("2026-11-21-layouts", "cold-one-file"),
        "| 0.27 |": read_gb("2026-11-27-what-helps-5.7.22", "cold-force-recovery"),
        "| 0.12 |": read_gb("2026-11-27-what-helps-5.7.22", "cold-one-tablespace"),
        "(154,000 reads": [round(fmean(requests), -3)],
    }


_FIRST_KILLS = 52
"""Of each server, for the first tables of docs/results/estimate.md."""


def _predictions() -> Computed:
    """What `recovery estimate` said before kills, beside what the starts took."""
    kills = [[one for one in found.values() if one.planned.number < _FIRST_KILLS] for found in _kills().values()]
    results = [one for one in predicted_kills() if one.record.planned.number < _FIRST_KILLS]
    steady = [one for one in predicted_kills() if one.record.planned.purpose is Purpose.STEADY]
    (steady_count,) = {sum(one.planned.number >= _FIRST_KILLS for one in found.values()) for found in _kills().values()}
    most_redo = max((one for one in steady if one.version == "mariadb-10.11.5"), key=_redo_bytes)
    of_mariadb = [one for one in results if one.version == "mariadb-10.11.5"]

    def by_tool(ones: Iterable[Result]) -> int:
        """Returns how many starts are inside the ranges that the tool has without a calibration."""
        found = ((one.startup_s, estimate_start(one.record.state)) for one in ones)
        return sum(estimate.low_s <= startup_s <= estimate.high_s for startup_s, estimate in found)

    def width_by_tool(ones: Iterable[Result]) -> float:
        return median(found.high_s / found.low_s for found in (estimate_start(one.record.state) for one in ones))

    def of_each_server(*purposes: Purpose) -> int:
        (count,) = {sum(one.planned.purpose in purposes for one in of_server) for of_server in kills}
        return count

    def width(version: str) -> float:
        return median(one.record.high_s / one.record.low_s for one in results if one.version == version)

    return {
        "before 102 kills": [len(results)],
        "101 of 102 starts": [sum(one.is_inside for one in results), len(results)],
        "were killed 52 times each": [of_each_server(*Purpose)],
        "limited to 1,500 or 4,000 reads": sorted({one.record.planned.reads_per_s for one in results}),
        "The first 18 kills of each server": [of_each_server(Purpose.CALIBRATION)],
        "Then came 24 with the same loads, and 10 with": [
            of_each_server(Purpose.KNOWN),
            of_each_server(Purpose.UNSEEN),
        ],
        "the upper end was 1.8 times the lower for 8.0.31, 5.0 times for 5.7.22 and 6.6 times for MariaDB": [
            width(version) for version in ("8.0.31", "5.7.22", "mariadb-10.11.5")
        ],
        "MariaDB in the first 102 kills": [len(results)],
        "Of the first 102 kills 95 are inside, 32 of 34 of MariaDB": [
            len(results), by_tool(results), by_tool(of_mariadb), len(of_mariadb),
        ],
        "of the later 48, 46": [len(steady), by_tool(steady)],
        "ends that are 3.1 times apart in the median": [width_by_tool([*results, *steady])],
        "each server was killed 16 more times": [steady_count],
        "The constants came from the same 18 kills": [of_each_server(Purpose.CALIBRATION)],
        "The one outside had 10,342 dirty pages": [
            one.record.state.dirty_pages for one in steady if not one.is_inside
        ],
        "in the proof 182 MB took 1.0 s": [_redo_bytes(most_redo) / 1e6, most_redo.startup_s],
    }  # fmt: skip


def _redo_bytes(one: Result) -> int:
    return one.record.state.redo_bytes or 0


def _pages_on_fast_storage() -> Computed:
    """CPU time of a dirty page, and how far off the rule of docs/results/redo-size.md is where it is the limit."""
    session, reads_per_s = "2026-11-28-pending-50000", 50_000

    def cpu_s(version: str) -> float:
        cpu, pages = (
            [fmean(_values(session, metric, version=version, variant=one)) for one in ("dirty-*", "nothing-pending")]
            for metric in ("cpu_s", "dirty_pages")
        )
        return (cpu[0] - cpu[1]) / (pages[0] - pages[1])

    servers = ("8.0.31", "5.7.22", "mariadb-11.4.5", "mariadb-10.11.5")
    most, second, third, least = map(cpu_s, servers)
    assert round(second * 1e3, 2) == round(third * 1e3, 2)
    return {
        "used 0.10 ms of CPU time (8.0.31), 0.04 ms (5.7.22 and MariaDB 11.4.5) or 0.03 ms": [
            most * 1e3, second * 1e3, least * 1e3,
        ],
        "at 50,000 reads a second a read takes 0.02 ms": [reads_per_s, 1e3 / reads_per_s],
        "up to 4.8 times too many": [most * reads_per_s],
    }  # fmt: skip


def _watched_starts() -> Computed:
    """What `recovery watch` said in recorded starts, and what watching cost."""
    found = json.loads(WATCHED.read_text())
    cost, first_pairs = found["overhead"], 120
    rollbacks = [one["took_s"] for one in found["phases"] if one["phase"] == "rollback"]
    with tarfile.open(FIXTURES / "recorded-starts.tar.xz") as archive:
        # debian-sid is 9.7.4.
        members = [
            one
            for one in archive.getmembers()
            if one.name.startswith(("8.0.31-", "debian-sid-")) and "-load-" not in one.name
        ]
        texts = [file.read().decode() for file in map(archive.extractfile, members) if file is not None]
    messages = [{code: float(at_s) for at_s, code in _MESSAGE.findall(text)} for text in texts]
    flush_s = max(at_s["MY-012910"] - at_s["MY-012535"] for at_s in messages)
    return {
        "93 crash starts were recorded": [found["starts"]],
        "took up to 1.3 s here": [flush_s],
        "of 120 and 200 pairs of warm starts of 5.7.22 with 20,000 tables (1.4 s each)": [
            first_pairs, cost["pairs"] - first_pairs, cost["tables"], fmean(cost["watched_s"] + cost["unwatched_s"]),
        ],
        "on: it took 3 to 4 s": [min(rollbacks), max(rollbacks)],
    }  # fmt: skip


def _cost_of_the_tool() -> Computed:
    """What `make bench` found, as it prints it."""
    found = json.loads((ROOT / "docs" / "performance.json").read_text())

    def printed(part: str, cache: str) -> str:
        return section(part, [start for start in found[part] if start["cache"] == cache])

    def figures(pattern: str, text: str) -> list[float]:
        return [float(number) for number in re.findall(pattern, text)]

    def added(part: str, cache: str) -> list[float]:
        return figures(r"([+-][\d.]+)%", printed(part, cache))

    watching, tracing = printed("watching", "warm"), added("tracing", "warm")
    return {
        "add +0.65 % (-1.27 to +2.57) to a warm start": added("watching", "warm"),
        "adds -0.42 % (-2.36 to +1.52) to a cold start": added("engines", "cold"),
        "and +2.10 % (+0.63 to +3.58) to a warm one": added("engines", "warm"),
        "uses 0.8 % of a core": figures(r"([\d.]+)% of a core", watching)[1:],
        "line 0.05 ms after its timestamp (median; at most 0.15 ms)": figures(r"([\d.]+) ms", watching),
        "Tracing adds 9.5 % to a warm start of 5.7.22 with 100,000 tables (7.7-11.3, 25 pairs)": [
            tracing[0], found["tracing"][0]["tables"], *tracing[1:], len(found["tracing"]) / 2,
        ],
    }  # fmt: skip


_MESSAGE = re.compile(r'\[([\d.]+),"[^"\[]*(?:\[\w+\] )?\[(MY-\d+)\]')
"""When a line of a recorded log came, and its number."""


@cache
def predicted_kills() -> Sequence[Result]:
    """Returns the kills of docs/results/estimate.md whose starts were predicted."""
    return [one for version, records in _kills().items() for one in results_of(version, records)]


@cache
def _kills() -> Mapping[str, Mapping[int, Record]]:
    """Returns all kills of each server."""
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(FIXTURES / "predicted-kills.tar.xz") as archive:
        archive.extractall(scratch, filter="data")
        return {version: read(Path(scratch), version) for version in SERVERS}


@cache
def _reports() -> Mapping[str, bytes]:
    with tarfile.open(KEPT_ARCHIVE) as archive:
        files = ((member.name, archive.extractfile(member)) for member in archive.getmembers())
        return {Path(name).parent.name: file.read() for name, file in files if file is not None}


@cache
def _intervals() -> Any:
    return json.loads(FOUND.read_text())


@cache
def _session(name: str) -> Mapping[str, Any]:
    """Returns the report.json of a kept session."""
    found: Mapping[str, Any] = json.loads(_reports()[name])
    return found


def _kept(pattern: str) -> Iterator[Mapping[str, Any]]:
    names = [name for name in _reports() if fnmatchcase(name, pattern)]
    assert names, pattern
    return map(_session, names)


def _values(
    sessions: str, metric: str, *, version: str = "*", variant: str = "*", verdict: str = "measured"
) -> tuple[float, ...]:
    """Returns a metric of all runs that have it. Sessions, versions and variants are patterns as in a shell."""
    found = [
        run["metrics"].get(metric, run.get("opened_files", {}).get(metric))
        for session in _kept(sessions)
        for run in session["runs"]
        if fnmatchcase(run["version"], version) and fnmatchcase(run["variant"], variant)
        if fnmatchcase(run["verdict"], verdict)
    ]
    values = tuple(value for value in found if value is not None)
    assert values, (sessions, metric, version, variant)
    return values


def _ratio(values: Sequence[float], to: Sequence[float]) -> Sequence[float]:
    """Returns the ratio of two means with its interval, as reports compare runs that do not alternate."""
    base, other = CellKey("", "", "base"), CellKey("", "", "other")
    found = contrasts({base: Sample((tuple(to),)), other: Sample((tuple(values),))}, [(base, other)])[0]
    assert found.ratio is not None
    assert found.ratio_low is not None
    assert found.ratio_high is not None
    return found.ratio, found.ratio_low, found.ratio_high
