"""Estimates how long a running server would take to start if it were killed now (pure).

The start is a sum of parts: the process itself, the files it reads, the dirty pages it recovers, and prepared
transactions, which it rolls back before it is ready. What decides the part of a load is its dirty pages, not its bytes
of redo. Rows of an open transaction stay locked after that."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from recovery.errors import UsageError
from recovery.model import Flavor, Version


@dataclass(frozen=True)
class Constants:
    """What a start costs in the servers of a series. A part takes its requests divided by the storage's reads a
    second."""

    process_s: float
    """A start with nothing pending and hardly any files."""
    requests_per_file: float
    requests_per_page: float
    """Reads and writes for each dirty page."""
    page_error: float
    """A part of pages is within +- this share of its estimate in 90 % of all kills."""
    rows_per_s: float
    """Rows of an open transaction that are rolled back in a second."""
    prepared_rows_per_s: float


_MEDIAN_TO_90 = 2.44
"""Ratio of a 90 % range to the median error, for errors with a normal distribution."""
_UNKNOWN_PAGE_ERROR = 1.0
CONSTANTS: dict[tuple[Flavor, tuple[int, ...]], Constants] = {
    (Flavor.MYSQL, (5, 7)): Constants(1.0, 2.9, 2.6, _UNKNOWN_PAGE_ERROR, 130_000, 37_000),
    (Flavor.MYSQL, (8, 0)): Constants(2.4, 2.0, 2.6, 0.06 * _MEDIAN_TO_90, 55_000, 24_000),
    (Flavor.MARIADB, (10, 11)): Constants(0.4, 0.0, 1.05, 0.18 * _MEDIAN_TO_90, 200_000, 76_000),
}
"""By flavor and series: measured with 5.7.22, 8.0.31 and mariadb-10.11.5 at 2,000 reads and writes a second. Those of
pages of 5.7 were not measured: they are those of 8.0, with a wide range."""
_FILE_ERROR, _ROW_ERROR = 0.15, 0.5
_CALIBRATED_READS_PER_S = (1000.0, 5000.0)
_SMALL_POOL_FACTOR = 3.0
"""With a pool smaller than the data a start took up to 2.9 times what its dirty pages say."""
_OTHER_STORAGE_FACTOR = 2.0


@dataclass(frozen=True)
class ServerState:
    """What a running server would leave behind. None is what its user may not see."""

    version: Version
    files: int
    dirty_pages: int
    """Without those of temporary tablespaces."""
    reads_per_s: float
    """Of the storage, with small reads at random."""
    uncommitted_rows: int | None = 0
    """Changed by open transactions."""
    prepared_rows: int | None = 0
    pool_bytes: int | None = None
    data_bytes: int | None = None


@dataclass(frozen=True)
class Part:
    name: str
    seconds: float
    low_s: float
    high_s: float
    lever: str
    """What would make it shorter."""


@dataclass(frozen=True)
class Estimate:
    parts: tuple[Part, ...]
    locked_s: float
    """Seconds for which rows of open transactions stay locked after the start, at most."""
    notes: tuple[str, ...] = ()
    """Why its range is wider than usual, or what it leaves out."""

    @property
    def seconds(self) -> float:
        return sum(part.seconds for part in self.parts)

    @property
    def low_s(self) -> float:
        return max(0.0, self.seconds - math.hypot(*(part.seconds - part.low_s for part in self.parts)))

    @property
    def high_s(self) -> float:
        """The end of the 90 % range. Errors of the parts are independent of each other."""
        return self.seconds + math.hypot(*(part.high_s - part.seconds for part in self.parts))

    @property
    def text(self) -> str:
        """The estimate in a sentence: `19 s (10 to 38): files 6, pages 12, process 1`."""
        parts = ", ".join(f"{part.name} {part.seconds:.2g}" for part in self.parts if part.seconds >= _SHOWN_S)
        locked = f"; then rows locked for up to {self.locked_s:.2g} s" if self.locked_s >= _SHOWN_S else ""
        return f"{self.seconds:.2g} s ({self.low_s:.2g} to {self.high_s:.2g}): {parts}{locked}"

    @property
    def largest(self) -> Part:
        return max(self.parts, key=lambda part: part.seconds)


_SHOWN_S = 0.1


def estimate_start(state: ServerState) -> Estimate:
    """Returns the estimate; raises UsageError for a version that was not measured, and without the storage's speed."""
    constants = CONSTANTS.get((state.version.flavor, state.version.numbers[:2]))
    if constants is None:
        known = ", ".join(f"{flavor} {major}.{minor}" for flavor, (major, minor, *_) in CONSTANTS)
        raise UsageError(
            f"the constants of {state.version} were not measured", f"there are those of {known}; calibrate this host"
        )
    if state.reads_per_s <= 0:
        raise UsageError("the storage's reads per second are unknown", "give READS=")
    return Estimate(
        tuple(_parts(state, constants)),
        (state.uncommitted_rows or 0) / constants.rows_per_s * (1 + _ROW_ERROR),
        tuple(_notes(state)),
    )


def _parts(state: ServerState, constants: Constants) -> Iterator[Part]:
    storage = _OTHER_STORAGE_FACTOR if _is_other_storage(state) else 1.0
    pool = _SMALL_POOL_FACTOR if _has_small_pool(state) else 1.0
    files_s = state.files * constants.requests_per_file / state.reads_per_s
    pages_s = state.dirty_pages * constants.requests_per_page / state.reads_per_s
    prepared_s = (state.prepared_rows or 0) / constants.prepared_rows_per_s
    yield _part("process", constants.process_s, _ROW_ERROR, 1.0, 1.0, "none")
    yield _part("files", files_s, _FILE_ERROR, storage, 1.0, "fewer tables, or storage with more reads a second")
    yield _part("pages", pages_s, constants.page_error, storage, pool, "fewer dirty pages (innodb_max_dirty_pages_pct)")
    yield _part("prepared transactions", prepared_s, _ROW_ERROR, 1.0, 1.0, "smaller transactions")


def _part(name: str, seconds: float, error: float, storage: float, pool: float, lever: str) -> Part:
    # An error of +- 100 % means half or twice as long.
    return Part(name, seconds, seconds / (1 + error) / storage, seconds * (1 + error) * storage * pool, lever)


def _has_small_pool(state: ServerState) -> bool:
    return state.pool_bytes is not None and state.data_bytes is not None and state.pool_bytes < state.data_bytes


def _is_other_storage(state: ServerState) -> bool:
    least, most = _CALIBRATED_READS_PER_S
    return not least <= state.reads_per_s <= most


def _notes(state: ServerState) -> Iterator[str]:
    if _has_small_pool(state):
        yield "the buffer pool is smaller than the data, so a start may take up to three times as long"
    if _is_other_storage(state):
        yield f"the constants were measured on other storage than one of {state.reads_per_s:,.0f} reads a second"
    if state.uncommitted_rows is None or state.prepared_rows is None:
        yield "this user may not see transactions (PROCESS): they are left out"
