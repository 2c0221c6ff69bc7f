"""What an experiment does with a server, its data and the page cache.

The bench starts, stops and kills the server (`bench_starts.py`). `bench.cache` has the operations on the page cache,
`bench.contents` those on tables and rows."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from recovery.experiments.bench_contents import BenchContents
from recovery.experiments.bench_starts import ServerStarts
from recovery.model import ColdProof

if TYPE_CHECKING:
    from recovery.mysqld.read_floor import FloorTimes


class Bench(ServerStarts):
    """One server and its data directory during a session, as experiments use them."""

    @cached_property
    def contents(self) -> BenchContents:
        """The tables and rows in the data directory."""
        return BenchContents(self)

    def _on_ended(self) -> None:
        self.contents.write_ledger()
        super()._on_ended()


# --- Storage floor


def measure_storage_floor(bench: Bench) -> FloorTimes:
    """Measures how fast the storage can read the first pages of the table files while no server runs."""
    from recovery.mysqld.read_floor import measure_read_floor
    from recovery.mysqld.redo_log import read_page_bytes

    assert bench.stopped_cleanly, "a server may still write there"
    bench.cache.forget_reads()

    def emptied() -> ColdProof:
        proof = bench.cache.make_cold()
        bench.on_step("reading first pages")
        return proof

    page_bytes = read_page_bytes(bench.datadir.mysql / "ibdata1")
    return measure_read_floor(bench.files, page_bytes, emptied, bench.server.group)
