"""Why does a start not count as warm, and what does a server read even from a warm cache? Notes under the figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from recovery.model import Cache, is_second_start
from recovery.report import figures
from recovery.report.about import grouped
from recovery.stored import Run, Session, Verdict
from recovery.summary import mean
from recovery.warm import Evidence, evidence


def warm_notes(session: Session) -> Iterator[str]:
    """For the table of startups."""
    starts: dict[tuple[str, str], list[Evidence]] = {}
    for found in evidence(session):
        if found.run.verdict is Verdict.MEASURED:
            starts.setdefault((found.run.version, found.run.variant), []).append(found)
    if not_warm := [_why(key, group) for key, group in starts.items() if is_second_start(key[1])]:
        yield from not_warm
        yield _what_to_do(session)
    if read := "; ".join(filter(None, (_read(key, group) for key, group in starts.items()))):
        yield f"Read by warm starts, with their files in the page cache: {read}."


def resident_notes(runs: Iterable[Run]) -> Iterator[str]:
    """For the table of runs."""
    shares = ((_shares(run.resident_share, run.resident_share_after), run.number) for run in runs)
    for told, numbers in grouped(shares).items():
        yield f"Tables' files in the page cache before and after the start: {told}: {numbers}."


def _shares(before: float | None, after: float | None) -> str | None:
    return None if before is None or after is None else f"{_percent([before])} and {_percent([after])}"


def _why(key: tuple[str, str], starts: Sequence[Evidence]) -> str:
    told = []
    cold = any(found.cold_bytes for found in starts)
    read = [(found.run.read_bytes, found.full_bytes) for found in starts if found.run.read_bytes is not None]
    if shares := [found.shares for found in starts if found.shares is not None]:
        before, after = map(_percent, zip(*shares, strict=True))
        told.append(f"{before} of the tables' files were in the page cache before it, {after} after it")
    elif not cold or not read:
        told.append("nothing tells what was in the page cache before it")
    if compared := [its / full for its, full in read if full]:
        told.append(f"it read {_percent(compared)} of {'what the cold starts read' if cold else 'the data directory'}")
    return f"{' '.join(key)}: {' and '.join(told)}; not counted as warm."


def _what_to_do(session: Session) -> str:
    if session.settings.get("memory_bytes"):
        return "The limit on memory holds for the page cache too: for warm starts raise MEMORY=."
    if session.environment.get("idle_pageout"):
        return "This host takes idle page cache away: for warm starts ask for fewer TABLES=, or use another host."
    return (
        "Something else used the page cache, or the data does not fit: for warm starts ask for fewer TABLES=, or use a "
        "host with more memory."
    )


def _read(key: tuple[str, str], starts: Sequence[Evidence]) -> str | None:
    """By warm starts, where it is known that the files were in the cache."""
    runs = [found.run for found in starts if found.shares is not None and Cache.WARM.begins(key[1])]
    total = mean(run.read_bytes for run in runs)
    each = mean(run.read_bytes / run.tables for run in runs if run.read_bytes is not None and run.tables)
    if total is None:
        return None
    name = key[0] if key[1] == Cache.WARM else " ".join(key)
    return f"{name} {figures.size(round(total))}" + (f" ({figures.size(round(each))} a table)" if each else "")


def _percent(shares: Sequence[float]) -> str:
    least, most = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"{least} %" if least == most else f"{least} to {most} %"
