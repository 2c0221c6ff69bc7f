"""What does the storage allow over the files of a bench, when no server runs there?"""

from __future__ import annotations

from recovery.host.floor import Reads
from recovery.host.floor import measure as measure_floor
from recovery.host.modified import page_bytes_of
from recovery.measured import ColdProof
from recovery.scenarios.bench import Bench


def floor(bench: Bench) -> Reads:
    """Between trials."""
    assert bench.at_rest, "a server may still write there"
    bench.disturbed()

    def emptied() -> ColdProof:
        proof = bench.make_cold()
        bench.tell("reading first pages")
        return proof

    return measure_floor(bench.files, page_bytes_of(bench.datadir.mysql / "ibdata1"), emptied, bench.server.group)
