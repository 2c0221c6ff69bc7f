"""Says in words what a figure belongs to: the session, its host and its storage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from recovery.analysis.combined import CombinedSession
from recovery.analysis.history import count_days
from recovery.analysis.host_figures import (
    CPU_LOOP,
    READS,
    READS_16,
    STEAL,
    HostFigure,
    dependent_pairs,
    host_figures,
    number_of_hosts,
    waiting_cells,
)
from recovery.analysis.summary import Cell, cell_words
from recovery.metrics import metric
from recovery.model import Session
from recovery.report import fmt

_MOVED = 4 / 3
"""A figure of the host is a range from this ratio of its largest to its smallest value on: measurements on a quiet host
differ by up to a third."""
_MAX_NAMED = 3
"""Most cells that are named in a note; of more, it has the number."""


def is_over_sessions(session: Session) -> bool:
    """Returns whether means and intervals are those of the means of several sessions."""
    return isinstance(session, CombinedSession) and max(_sessions_of_hosts(session).values()) > 1


def _sessions_of_hosts(session: CombinedSession) -> Counter[str]:
    return Counter(part.host for part in session.parts)


def scope(session: Session) -> str:
    """Returns what an interval is about: `in this session`, or `over 5 sessions of 3 days`."""
    if not isinstance(session, CombinedSession) or len(session.parts) == 1:
        return "in this session"
    if not is_over_sessions(session):
        return "in one session of each host"
    of_hosts = _sessions_of_hosts(session)
    most = max(of_hosts.values())
    days = count_days(part.session.started_at for part in session.parts)
    when = f"{days} days" if days > 1 else "one day"
    return f"over {most} sessions of {when if len(of_hosts) == 1 else f'each host ({when})'}"


def on_host(session: Session) -> str:
    many = number_of_hosts(session)
    return "on this host" if many == 1 else f"on {many} hosts"


def host_line(session: Session) -> Iterator[str]:
    """Yields what was recorded of the host, if anything was."""
    figures = host_figures(session)
    found = []
    if READS in figures:
        found.append(f"{_range(figures[READS])} reads/s by one thread")
    if READS_16 in figures:
        found.append(f"{_range(figures[READS_16])}{'' if READS in figures else ' reads/s'} by 16")
    limit = session.design.limits.read_iops
    had = f" (the server had {limit:,})" if limit and found else ""
    words = [f"{', '.join(found)}{had}"] if found else []
    if CPU_LOOP in figures:
        words.append(f"CPU loop {_range(figures[CPU_LOOP])} s")
    if STEAL in figures:
        share = figures[STEAL].high
        words.append(f"steal {'up to ' if share >= 0.0005 else ''}{fmt.percent(share)}")
    if words:
        yield f"This host: {'; '.join(words)}."


def _range(figure: HostFigure) -> str:
    """Formats a figure of the host with two digits, as a range if it moved."""
    if figure.high <= _MOVED * figure.low:
        return fmt.two_digits(figure.median)
    return f"{fmt.two_digits(figure.low)}-{fmt.two_digits(figure.high)}"


def storage_words(session: Session) -> str:
    """Returns the storage that a ratio belongs to: `on this storage (21,000 to 94,000 reads/s)`, by one and by 16
    threads, or with its limit."""
    name = "on this storage" if number_of_hosts(session) == 1 else "on the storage of these hosts"
    known = _speed(session)
    return f"{name} ({known})" if known else name


def _speed(session: Session) -> str:
    """Returns the reads a second on which starts depend; empty for loads, which mostly wait for writes."""
    if metric(session.metric).unit != "s":
        return ""
    limits = session.design.limits
    if limits.read_iops:
        return f"limited to {limits.read_iops:,} reads/s"
    if limits.read_bps:
        return f"limited to {fmt.size(limits.read_bps)}/s"
    found = host_figures(session)
    speeds = [fmt.two_digits(found[name].median) for name in (READS, READS_16) if name in found]
    return f"{' to '.join(dict.fromkeys(speeds))} reads/s" if speeds else ""


def storage_note(session: Session, pairs: Iterable[tuple[Cell, Cell]]) -> tuple[str, ...]:
    """Returns a note for a table of ratios, if any of these pairs of cells changes with the storage."""
    cells = [cell for pair in dependent_pairs(session, pairs) for cell in pair]
    if not cells:
        return ()
    waits = waiting_cells(session)
    sides: dict[bool | None, list[str]] = {}
    for version, variant in dict.fromkeys(cells):
        side = waits.get((version, variant))
        named = f"{version} " if len(session.versions) > 1 else ""
        sides.setdefault(side, []).append(f"{named}{cell_words(session, variant)}")
    speed = _speed(session)
    if not sides.get(True) or not sides.get(False):
        return (f"Ratios of cold starts change with the storage{f' ({speed})' if speed else ''}.",)
    waiting, others = _some(sides[True], "waits", "wait"), _some(sides[False], "does", "do")
    where = f" ({speed})" if speed else ""
    return (f"Some ratios change with the storage{where}: {waiting} for it, {others} not.",)


def _some(names: list[str], one: str, several: str) -> str:
    """Returns these names, or how many they are, with a verb."""
    named = " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]
    return f"{named if len(names) <= _MAX_NAMED else f'{len(names)} cells'} {one if len(names) == 1 else several}"
