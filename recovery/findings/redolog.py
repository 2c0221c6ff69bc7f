"""Did a load that writes go on until its redo log was full, and had to be flushed for?"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from recovery.effect import server_of_cell
from recovery.findings.doubt import MIB, Check, cells, doubt, number, numbered
from recovery.stored import Finding, Run, Session

_AGE = "checkpoint_age_bytes"
_LEAST_LOOKS = 9
_RISE = 0.05
"""Of the most there had been before."""
_FEW_BYTES = MIB
"""Somebody else's writing: of statistics, or of old rows that go."""


def still_filling(session: Session) -> Iterator[Finding]:
    """Nothing is said of servers that do not tell how much there is in the log."""
    for about, runs in cells(session):
        grown = {run: age for run in runs if (age := _grown_to(run)) is not None}
        if grown:
            yield doubt(
                "log-still-filling", about,
                "The redo since the last checkpoint still grew in the last third of the measured time, to "
                f"{max(grown.values()) / 1e6:,.0f} MB{_of_all(session, runs[0])}, in {numbered(list(grown))}: what "
                "writing costs once the log is full was not measured.",
                "Measure longer, or after a longer warm-up (SECONDS=, WARMUP=), or with a smaller log: "
                "SET=innodb_redo_log_capacity=128M, of which older servers are told in their own words.",
            )  # fmt: skip


def _grown_to(run: Run) -> float | None:
    """In its last third. None where it was not beyond all there had been before: waves go up, too, and down again."""
    if run.watched is None:
        return None
    series = next((one.values for one in run.watched.series if one.name == _AGE), ())
    looks = zip(run.watched.at_s, series, strict=False)
    # The first look is of the warm-up's end.
    values = [value for at_s, value in looks if at_s > 0.5 and value is not None]
    if len(values) < _LEAST_LOOKS:
        return None
    third = len(values) // 3
    before, last = max(values[:-third]), values[-third:]
    return max(last) if median(last) > before + max(_FEW_BYTES, _RISE * before) else None


def _of_all(session: Session, run: Run) -> str:
    """Of how large a log, where the server had told."""
    known = server_of_cell(session, run.version, run.variant)
    capacity = number(known.get("@innodb_redo_log_capacity"))
    if capacity is None:
        size, files = (number(known.get(f"@innodb_log_{name}")) for name in ("file_size", "files_in_group"))
        # MariaDB has one since 10.5, and later no option for their number.
        capacity = None if size is None else size * (files or 1)
    return f" of {capacity / 1e6:,.0f} MB" if capacity else ""


CHECKS: tuple[Check, ...] = (still_filling,)
