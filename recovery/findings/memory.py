"""Did the buffer pool hold what was to be in memory?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from recovery.effect import Known, server_of_cell
from recovery.findings.doubt import MIB, Check, beyond, cells, doubt, number, numbered
from recovery.quantities import quantity
from recovery.stored import Finding, Run, Session

_POOL = "innodb_buffer_pool_size"
_LARGER = frozenset({"larger-than-memory", "compression"})
"""Questions that are about data which the buffer pool does not hold."""
_READS = 0.01
"""Pages that were not in the pool, for each query."""
_FEW = 20.0
"""Pages a second that hold up nobody: a server that has just been started reads some of its own, however few queries
there are."""
_PAGE_BYTES = 16 << 10
_NO_TABLES_BYTES = 512 * MIB
"""Of a data directory: the logs and the server's own tables."""


def not_in_memory(session: Session) -> Iterator[Finding]:
    """A load that reads from the device measures the device, unless that was asked for."""
    if quantity(session.figure).unit != "/s" or (number(session.settings.get("memory_ratio")) or 0) > 1:
        return
    for about, runs in cells(session):
        variant = runs[0].variant
        cell = session.cells.get(variant, {})
        if cell.get("question") in _LARGER or _POOL in cell:
            continue
        read = beyond(runs, _read_share, _READS)
        if read:
            yield doubt(
                "not-in-memory", about,
                f"Up to {max(read.values()):.2g} pages a query were read from the device, as the buffer pool did not "
                f"hold them: {numbered(list(read))}.",
                "Warm up for longer (WARMUP=), take fewer ROWS=, or a larger pool (--set innodb_buffer_pool_size=…); "
                "where reading is what you ask about, say MEMORY_RATIO=.",
            )  # fmt: skip
            continue
        known = server_of_cell(session, runs[0].version, variant)
        pool, data = number(known.get(f"@{_POOL}")), _data_bytes(known, cell)
        if pool is not None and data is not None and pool < data:
            yield doubt(
                "not-in-memory", about,
                f"The buffer pool has {pool / 1e9:.1f} GB, the tables' files {data / 1e9:.1f} GB: it cannot hold all "
                "of them.",
                "Take fewer ROWS= or TABLES=, or a host with more memory; where that is what you ask about, say "
                "MEMORY_RATIO=.",
            )  # fmt: skip


def _read_share(run: Run) -> float | None:
    if "polls_per_s" in run.measures:
        return None  # pages were read for who asks beside it, too: the load alone tells of itself
    qps, pages = run.measures.get("qps"), run.measures.get("buffer_pool_reads_per_s")
    if pages is None and (read := run.measures.get("read_bytes_per_s")) is not None:
        pages = read / _PAGE_BYTES
    if not qps or pages is None:
        return None
    return pages / qps if pages > _FEW else 0.0


def _data_bytes(known: Known, cell: Mapping[str, str]) -> float | None:
    """Of the tables that the load uses, by their share of all."""
    data, tables, used = number(known.get("data_bytes")), number(known.get("tables")), number(cell.get("tables"))
    if data is None:
        return None
    share = min(1.0, used / tables) if used and tables else 1.0
    return max(0.0, data - _NO_TABLES_BYTES) * share


CHECKS: tuple[Check, ...] = (not_in_memory,)
