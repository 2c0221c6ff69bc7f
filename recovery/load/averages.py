"""What did a server at work do on average, a second, a query and a commit? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from recovery.load.sample import Sample, began_with
from recovery.load.waits import MUTEX_SPINS, MUTEX_WAITS
from recovery.load.watching import GROWING, LEVELS, Sums, growth, rounded, total

_SPINS = (
    ("metric.innodb_rwlock_s_spin_rounds", "metric.innodb_rwlock_x_spin_rounds", "metric.innodb_rwlock_sx_spin_rounds"),
    ("metric.innodb_rwlock_s_spin_rounds", "metric.innodb_rwlock_x_spin_rounds"),
)
_SHARES = {
    # name: of what, over what
    "row_lock_wait_ms": ((("status.Innodb_row_lock_time",),), (("status.Innodb_row_lock_waits",),)),
    "table_open_cache_hit_share": (
        (("status.Table_open_cache_hits",),),
        (("status.Table_open_cache_hits", "status.Table_open_cache_misses"),),
    ),
    "load_table_open_cache_hit_share": (
        (("load.Table_open_cache_hits",),),
        (("load.Table_open_cache_hits", "load.Table_open_cache_misses"),),
    ),
}
_PER_QUERY = {
    "server_cpu_us_per_query": (GROWING["server_cpus"], 1e6),
    "rwlock_spin_rounds_per_query": (_SPINS, 1.0),
    "mutex_spin_rounds_per_query": (((MUTEX_SPINS,), ("status.Innodb_mutex_spin_rounds",)), 1.0),
}
_PER_COMMIT = {
    "redo_bytes_per_commit": GROWING["redo_bytes_per_s"],
    "fsyncs_per_commit": GROWING["fsyncs_per_s"],
}
_RATES = GROWING | {
    "mutex_os_waits_per_s": ((MUTEX_WAITS,), ("status.Innodb_mutex_os_waits",)),
}
NAMES = frozenset({*_RATES, *LEVELS, *_PER_QUERY, *_PER_COMMIT, *_SHARES})
"""Of all figures that there can be."""
_LEAST_SEEN = 0.5
"""Of the measured time. What went on in less than that is no measure of the whole."""
_NEVER_NONE = frozenset({"rwlock_spin_rounds_per_query", "rwlock_os_waits_per_s"})
"""MySQL 8.0 keeps the counters of its read-write locks, and counts nothing in them: none since the server's start, with
hundreds of waits in SHOW ENGINE INNODB MUTEX."""


def averages(samples: Sequence[Sample], *, queries: int, commits: int) -> dict[str, float]:
    """Over what was measured, from the look at which it began to the last, which is that of its end. `queries` and
    `commits` are those of the load's clients; 0 where an end was not seen. What this server does not tell is left out.
    """
    began = began_with(tuple(samples))
    measured = [one for one in samples if began is not None and one.at_s >= began.at_s]
    if began is None or measured[-1].at_s <= began.at_s:
        return {}
    ended = measured[-1]
    seconds = ended.at_s - began.at_s
    # A busy server answers the first look some moments after it was asked: what clients did until then is not in it.
    seen = min(1.0, seconds / ended.at_s)
    if seen < _LEAST_SEEN:
        return {}

    found: dict[str, float | None] = {}
    for name, sums in _RATES.items():
        found[name] = _over(_grown(name, sums, (began, ended)), seconds)
    for name, sums in LEVELS.items():
        # At the end nobody is at work any more.
        values = [value for one in measured[:-1] if (value := total(sums, one)) is not None]
        found[name] = fmean(values) if values else None
    for name, (sums, factor) in _PER_QUERY.items():
        found[name] = _over(_grown(name, sums, (began, ended)), queries * seen / factor)
    for name, sums in _PER_COMMIT.items():
        found[name] = _over(growth(sums, began, ended), commits * seen)
    for name, (what, of) in _SHARES.items():
        found[name] = _over(growth(what, began, ended), growth(of, began, ended))
    return {name: rounded(value) for name, value in found.items() if value is not None}


def _grown(name: str, sums: Sums, ends: tuple[Sample, Sample]) -> float | None:
    return None if name in _NEVER_NONE and not total(sums, ends[1]) else growth(sums, *ends)


def _over(value: float | None, by: float | None) -> float | None:
    return None if value is None or not by else value / by
