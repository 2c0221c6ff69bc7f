"""When does a warm start count? When another one like it would not read less: starts are repeated until the reads
settle. Whether it was warm then is judged from what is stored of it: see `recovery/warm.py`."""

from __future__ import annotations

from collections.abc import Callable

from recovery.errors import TrialVoidError
from recovery.measured import Startup, WarmProof
from recovery.scenarios.bench import Bench
from recovery.warm import next_to_nothing

MOST_WARMUPS = 6
FALLEN_BY = 0.1
GROWN_TO = 2
"""Times as much as before: then the cache was lost meanwhile, and it begins anew."""


def settled(read_bytes: int | None, *, before: int | None, data_bytes: int | None, warmups: int = 0) -> bool:
    """Next to nothing was read, or the reads have stopped falling from start to start. To wait for none would be to
    wait for ever: some servers bypass the cache every time, data larger than memory never stays in it, and there are
    hosts that page out what was not used for a while."""
    if read_bytes is None:
        return warmups > 0  # the host cannot tell: one start must have warmed what it can
    if next_to_nothing(read_bytes, data_bytes):
        return True
    return before is not None and (1 - FALLEN_BY) * before <= read_bytes <= GROWN_TO * before


def start_warm(bench: Bench, end_previous: Callable[[], str]) -> tuple[str, Startup, WarmProof]:
    """Ends the server and times its start, again and again, until a start's reads have settled: that one counts,
    and the ones before it were warm-ups. The choice looks at bytes alone, never at seconds."""
    for warmups in range(MOST_WARMUPS + 1):
        before = bench.last_read_bytes
        ended = end_previous()
        resident = bench.resident_share()
        startup = bench.timed_start(f"timed-{warmups}.err")
        if settled(startup.usage.read_bytes, before=before, data_bytes=bench.data_bytes, warmups=warmups):
            return ended, startup, WarmProof(warmups, resident, bench.resident_share())
        bench.stop()
    raise TrialVoidError(
        f"the reads at a warm start did not settle in {MOST_WARMUPS + 1} starts",
        "something else on this host uses the page cache; stop it, or give the host more memory than the data",
    )
