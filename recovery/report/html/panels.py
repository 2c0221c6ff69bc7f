"""Which figures are drawn over time, in which order, and which of them only on demand? By what the experiment asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recovery.measured import Series, Watched
from recovery.quantities import quantity

TOGETHER = ("server_cpus", "client_cpus", "others_cpus")
"""In one panel, where one run is drawn alone."""
_CACHE = (
    "qps", "table_open_cache_hits_per_s", "table_open_cache_misses_per_s", "load_table_open_cache_misses_per_s",
    "opened_tables_per_s", "opened_table_definitions_per_s", "table_open_cache_overflows_per_s",
    "table_open_cache_active_instances",
)  # fmt: skip
_ASKED: dict[str, tuple[str, ...]] = {
    "interference": (*_CACHE, *TOGETHER),
    "table-cache": (*_CACHE, "mutex_os_waits_per_s", "rwlock_os_waits_per_s", *TOGETHER),
    "write-scaling": (
        "qps", "redo_bytes_per_s", "fsyncs_per_s", "written_bytes_per_s", "row_lock_waits_per_s",
        "mutex_os_waits_per_s", "rwlock_os_waits_per_s", "checkpoint_age_bytes", "device_reads_per_s", *TOGETHER,
    ),
    "metadata": (
        "device_reads_per_s", "read_bytes_per_s", "opened_tables_per_s", "opened_table_definitions_per_s",
        "table_open_cache_misses_per_s", "fsyncs_per_s", *TOGETHER,
    ),
}  # fmt: skip
"""By scenario."""
_USUAL = (
    "qps", "table_open_cache_misses_per_s", "opened_tables_per_s", "device_reads_per_s", "redo_bytes_per_s",
    "fsyncs_per_s", "row_lock_waits_per_s", *TOGETHER,
)  # fmt: skip
_NOT_COUNTED = frozenset({"rwlock_os_waits_per_s"})
"""Zero is no answer: MySQL 8.0 keeps these counters, and counts nothing in them."""
Panel = tuple[str, ...]


@dataclass(frozen=True)
class Chosen:
    first: tuple[Panel, ...]
    """What the experiment asks for."""
    rest: tuple[Panel, ...]
    """What else was taken."""
    nothing: tuple[str, ...]
    """Asked for, and zero whenever it was looked, as they are headed."""


def chosen(scenario: str, looks: Sequence[Watched]) -> Chosen:
    """Of runs that are drawn over each other; what is nothing but zero, once it is measured, needs no picture."""
    asked = _ASKED.get(scenario, _USUAL)
    there = list(dict.fromkeys(series.name for one in looks for series in one.series))
    drawn = {series.name for one in looks for series in one.series if _tells(one, series)}
    first = [name for name in asked if name in drawn]
    rest = [name for name in there if name in drawn and name not in asked]
    if not first:
        first, rest = rest, first
    nothing = (name for name in asked if name in there and name not in drawn and name not in _NOT_COUNTED)
    return Chosen(
        _panels(first, alone=len(looks) == 1),
        _panels(rest, alone=len(looks) == 1),
        tuple(quantity(name).title for name in nothing),
    )


def _tells(looks: Watched, series: Series) -> bool:
    return any(value for at_s, value in zip(looks.at_s, series.values, strict=False) if at_s > 0)


def _panels(names: Sequence[str], *, alone: bool) -> tuple[Panel, ...]:
    cpus = tuple(name for name in names if name in TOGETHER) if alone else ()
    return tuple(dict.fromkeys(cpus if name in cpus else (name,) for name in names))
