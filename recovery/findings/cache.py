"""Was cold cold, and can the cache hold the data?"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from recovery.findings.doubt import MIB, Check, cells, doubt, is_cold, number, numbered, server_of
from recovery.stored import Finding, Run, Session

_LESS = 0.8
"""A cold start that reads less than so much of what the others read found files in the cache."""
_TIMES_FASTER, LEAST_BLOCKS = 2.0, 100
"""Of blocks that a hypervisor had in its cache both times the second read was 1.1 to 1.6 times as fast (26 tries on a
busy host), of files that nobody had read for long 2.6 to 3.1 times (6 tries); of a few blocks it may be anything."""


def cold_was_not(session: Session) -> Iterator[Finding]:
    """A start that found files in the cache all the same; one whose cache was not empty is void already."""
    for about, runs in cells(session):
        if not is_cold(runs[0]) or len(runs) < 2:
            continue
        usual = statistics.median(_reads(runs) or [0])
        less = [run for run in runs if (run.read_bytes or usual) < min(_LESS * usual, usual - 4 * MIB)]
        if less:
            least = min(run.read_bytes or 0 for run in less)
            yield doubt(
                "cold-was-not", about,
                f"Only {least / 1e6:.0f} MB were read in {numbered(less)}, where {usual / 1e6:.0f} MB are usual.",
                "Something else read these files meanwhile (a backup, a virus scanner, another start): stop it, and "
                "measure again.",
            )  # fmt: skip


def cached_below(session: Session) -> Iterator[Finding]:
    told = told_cached_below(session.environment)
    if told is not None and any(run.cold_means for run in session.runs):
        yield doubt(
            "cached-below", "host", f"{told} Cold means cold to this machine only.",
            "Compare starts over files that had been read as often before; look at the first cold start apart.",
        )  # fmt: skip


def told_cached_below(environment: Mapping[str, object]) -> str | None:
    """By the facts of the read probe; None where it has seen no cache, or could read too few blocks to see one."""
    times, blocks = (number(environment.get(f"probe_again_{name}")) for name in ("times_faster", "blocks"))
    if times is None or blocks is None or times < _TIMES_FASTER or blocks < LEAST_BLOCKS:
        return None
    first, again = environment.get("probe_first_read_ms"), environment.get("probe_read_again_ms")
    faster = f"{times:.0f}" if times >= 10 else f"{times:.1f}"
    return (
        f"Blocks that were just read answer {faster} times as fast ({first} ms, then {again} ms): something below this "
        "machine (hypervisor, disk controller, the disk itself) keeps what was read."
    )


def cold_not_proved(session: Session) -> Iterator[Finding]:
    as_published = bool(session.settings.get("as_published"))
    for about, runs in cells(session):
        starts = [run for run in runs if run.cold_means]
        if not starts:
            continue
        if {run.cold_means for run in starts} == {"fadvise"}:
            yield doubt(
                "inodes-were-warm", about,
                "Files were evicted one by one: inodes and names stayed in memory, which a reboot empties too.",
                _how_to_drop(session),
            )  # fmt: skip
        unknown = [run for run in starts if run.resident_before_bytes is None]
        if unknown and not as_published:
            yield doubt(
                "cold-not-proved", about,
                f"Nobody could tell what was left in the cache before {numbered(unknown)}.",
                "Compare the bytes read; a kernel from 6.5 on, and no overlay under the data, can tell (doctor).",
            )  # fmt: skip


def _how_to_drop(session: Session) -> str:
    if session.settings.get("no_drop_caches"):
        by = "--no-drop-caches" if session.settings.get("no_root_steps") in (None, "drop-caches") else "--no-root-steps"
        return f"This is what {by} does: leave it out for a start as cold as after a reboot."
    if session.environment.get("root") == "yes":
        return "Let the tool write /proc/sys/vm/drop_caches (root in a container without privileges may not)."
    return "Run as root, who may drop the host's caches."


def larger_than_memory(session: Session) -> Iterator[Finding]:
    limit, memory = number(session.settings.get("memory_bytes")), number(session.environment.get("memory_bytes"))
    holds = min((one for one in (limit, memory) if one), default=None)
    for version in session.versions:
        data = _data_bytes(session, version)
        if holds is not None and data > holds:
            yield doubt(
                "larger-than-memory", version,
                f"{data / 1e9:.1f} GB of data, {holds / 1e9:.1f} GB of memory{' allowed' if holds == limit else ''}: "
                "the cache never holds all of it.",
                "See what its warm starts read before you call them warm; fewer TABLES= fit.",
            )  # fmt: skip


def _data_bytes(session: Session, version: str) -> float:
    return number(server_of(session, version).get("data_bytes")) or 0.0


def _reads(runs: Sequence[Run]) -> list[int]:
    return [run.read_bytes for run in runs if run.read_bytes is not None]


CHECKS: tuple[Check, ...] = (cold_was_not, cached_below, cold_not_proved, larger_than_memory)
