"""Decides which warm starts are proved to be warm. All others are called second starts and excluded from warm figures.

A start that reads as much as the cold ones did is not warm, even if a third start would not read less. The proof is the
content of the page cache before the start, together with the bytes it read: less than half of what the cold ones read.
If that content is not known, the bytes alone decide, by the same limit.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace

from recovery.analysis.warnings import server_of
from recovery.model import CACHE_AXIS, SECOND_START, Cache, Run, Session, VariantInfo, Verdict, stored_number

# The proof uses neither a share of bytes nor one of first pages: a start reads the beginning of each file, 8.0 removes
# the first page from the cache again, and MariaDB since 10.3 reads only the files that its redo log names. Before warm
# starts over 3,000 tables with everything they need in the cache, 5.7.22, 8.0.31 and MariaDB 10.11.5 had 100, 86 and
# 3 % of the bytes in the cache, and the first page of 100, 3 and 3 % of the files. 100, 100 and 3 % of the files had
# some page in the cache, and just as many after the starts: so files before are compared with files after. If memory
# is too small for the data, both are few, and the bytes read decide. Eviction during a start also shows only in the
# bytes read.
_MIN_RESIDENT_RATIO = 0.9
"""Least ratio of the files in the cache before a start to those in the cache after it."""
_MAX_READ_SHARE = 0.5
"""A warm start reads less than this share of what the cold starts read, whatever else is known: a start must not change
its name with the tool that measured it. 8.0 and later read a fifth to a third of it even if all files are in the
cache."""
_ALMOST_NOTHING_BYTES = 16 * 1024 * 1024
_ALMOST_NOTHING_SHARE = 0.01
_NON_TABLE_READ_BYTES = 128 * 1024 * 1024
"""Bytes that a start may read of files other than tables: dictionary, undo and redo, which 9.x reads past the cache."""


@dataclass(frozen=True)
class WarmEvidence:
    """What is known about a start that was planned as warm."""

    run: Run
    cold_bytes: float | None
    """Mean bytes read by the cold starts of the same version; None if there are none."""
    data_bytes: float | None
    """Size of the data directory."""

    @property
    def shares(self) -> tuple[float, float] | None:
        """Shares of the tables' files in the cache, before and after the start; None if the host does not provide
        them."""
        before, after = self.run.warm.resident_share, self.run.warm.resident_share_after
        return None if before is None or after is None else (before, after)

    @property
    def full_bytes(self) -> float | None:
        return self.cold_bytes or self.data_bytes

    @property
    def is_warm(self) -> bool:
        read, cold, full = self.run.metrics.get("read_bytes"), self.cold_bytes, self.full_bytes
        if self.shares is None:
            return read is not None and cold is not None and read < _MAX_READ_SHARE * cold
        before, after = self.shares
        if before < _MIN_RESIDENT_RATIO * after:
            return False
        if read is None or self._reads_next_to_nothing:
            return True
        if before < _MIN_RESIDENT_RATIO:
            return cold is not None and read < _MAX_READ_SHARE * cold
        return read <= _NON_TABLE_READ_BYTES or full is None or read < _MAX_READ_SHARE * full

    @property
    def _reads_next_to_nothing(self) -> bool:
        return reads_almost_nothing(self.run.metrics.get("read_bytes") or 0, self.data_bytes)


def reads_almost_nothing(read_bytes: float, data_bytes: float | None) -> bool:
    """Returns whether a start read so little that it may be for other reasons than its tables' files."""
    return read_bytes <= max(_ALMOST_NOTHING_BYTES, _ALMOST_NOTHING_SHARE * (data_bytes or 0))


def rename_second_starts(session: Session) -> Session:
    """Returns the session with all starts that were planned as warm, but are not proved to be warm, named as second
    starts. It judges all of them again, because a session may be passed repeatedly, with more runs each time."""
    is_warm = {found.run.number: found.is_warm for found in warm_evidence(session)}
    if not is_warm and not any(map(session.is_second_start, session.variant_names)):
        return session
    second: dict[str, str] = {}
    runs: list[Run] = []
    for run in session.runs:
        if run.number in is_warm:
            planned = _planned_name(session, run.variant)
            name = planned if is_warm[run.number] else second.setdefault(planned, second_start_name(session, planned))
            runs.append(replace(run, variant=name))
        else:
            runs.append(run)
    planned_names = dict.fromkeys(_planned_name(session, variant) for variant in session.variant_names)
    known = {variant.name: variant for variant in session.variants}
    variants: list[VariantInfo] = []
    for name in planned_names:
        planned_variant = known.get(name, VariantInfo(name))
        variants.append(planned_variant)
        if name in second:
            values = {**planned_variant.values, CACHE_AXIS: SECOND_START}
            variants.append(replace(planned_variant, name=second[name], values=values))
    return replace(session, runs=tuple(runs), variants=tuple(variants))


def warm_evidence(session: Session) -> Iterator[WarmEvidence]:
    """Yields the evidence for each run that was planned as warm and went as asked."""
    cold: dict[tuple[str, str], list[float]] = {}
    for run in session.runs:
        if run.verdict is Verdict.MEASURED and "read_bytes" in run.metrics:
            cold.setdefault((run.version, run.variant), []).append(run.metrics["read_bytes"])
    means = {key: statistics.fmean(read) for key, read in cold.items()}
    for run in session.runs:
        if run.verdict.as_asked and session.cache_of(run.variant) in (Cache.WARM, SECOND_START):
            like = session.variant_with(run.variant, CACHE_AXIS, Cache.COLD) or ""
            data_bytes = stored_number(server_of(session, run.version, run.variant).get("data_bytes"))
            yield WarmEvidence(run, means.get((run.version, like)), data_bytes)


def second_start_name(session: Session, planned: str) -> str:
    """Returns the name of a variant's starts that are not proved to be warm; of other variants the same name."""
    return planned.replace(Cache.WARM, SECOND_START, 1) if session.cache_of(planned) == Cache.WARM else planned


def _planned_name(session: Session, variant: str) -> str:
    return variant.replace(SECOND_START, Cache.WARM, 1) if session.is_second_start(variant) else variant
