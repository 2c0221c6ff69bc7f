"""Do the runs agree among themselves?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from recovery.stored import Finding, Session
from recovery.summary import measured_by

_SLOW = 1.3
"""The first run over the slowest of the others, from which on it is doubted."""
_LEAST_RUNS = 3


def slow_first_run(session: Session) -> Iterator[Finding]:
    """Something was not yet as it was for the others: a volume read for the first time, a disk that remembers."""
    for version, variant, runs in measured_by(session):
        first, *others = [run.startup_s or 0.0 for run in runs]
        if len(runs) >= _LEAST_RUNS and first > _SLOW * max(others):
            yield Finding(
                f"{version} {variant}",
                f"The first run took {first:.1f} s, the others {min(others):.1f} to {max(others):.1f} s.",
                "Look at the median, and measure again over the same data directory: what stays slow once is a storage "
                "that remembers, or a volume that is read for the first time.",
                "slow-first-run",
            )


SPREAD: tuple[Callable[[Session], Iterator[Finding]], ...] = (slow_first_run,)
