"""Says in words what figures belong to and stand on: sessions, hosts, storage, and what would make them stronger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from recovery.analysis.basis import Basis, basis_of, count_days, number_of_hosts
from recovery.analysis.combined import CombinedSession
from recovery.analysis.compare import incomplete_reason
from recovery.analysis.host_figures import (
    CPU_LOOP,
    READS,
    READS_16,
    STEAL,
    HostFigure,
    dependent_pairs,
    host_figures,
    waiting_cells,
)
from recovery.analysis.statistics import MIN_SESSIONS
from recovery.analysis.summary import Cell, cell_words, is_compared
from recovery.metrics import metric
from recovery.model import Session
from recovery.report import fmt

_MOVED = 4 / 3
"""A figure of the host is a range from this ratio of its largest to its smallest value on: measurements on a quiet host
differ by up to a third."""
_LEAST_STEAL = 0.01
"""Share of the CPU time that a host loses to others, from which on it is said."""
_MAX_NAMED = 3
"""Most cells or sessions that are named in a note; of more, it has the number."""


# --- Sessions and hosts


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
    when = fmt.count_text(days, "day")
    return f"over {most} sessions of {when if len(of_hosts) == 1 else f'each host ({when})'}"


def session_words(session: Session) -> str:
    """Returns which session it is, or a line for each of several."""
    if isinstance(session, CombinedSession):
        return "\n".join(f"session {part.name}, started {part.session.started_at}" for part in session.parts)
    return f"session started {session.started_at}"


def on_host(session: Session) -> str:
    many = number_of_hosts(session)
    return "on this host" if many == 1 else f"on {'an unknown number of' if many is None else many} hosts"


def basis_words(basis: Basis) -> str:
    """Returns it in words, such as `3 sessions over 26.1 hours on one host`."""
    many = "one session of" if basis.sessions == 1 else f"{basis.sessions} sessions over"
    where = "" if basis.hosts is None else f" on {'one host' if basis.hosts == 1 else f'{basis.hosts} hosts'}"
    return f"{many} {fmt.time_span(basis.seconds, whole=True)}{where}"


def stronger_words(basis: Basis) -> str:
    """Returns what would make the figures stronger; empty if nothing is known."""
    if basis.sessions < MIN_SESSIONS:
        return "three sessions of several days would show how much sessions differ"
    if basis.days == 1:
        return "sessions of several days would show how much days differ"
    if basis.hosts == 1:
        return "sessions of another host would show whether they hold there"
    return ""


def over_sessions_line(session: CombinedSession) -> str:
    """Returns what the figures of several sessions stand on, in a sentence."""
    basis = basis_of(session)
    if not is_compared(session):
        return f"{basis_words(basis)}: what is counted is of all of them.".capitalize()
    if basis.sessions < MIN_SESSIONS:
        return f"{basis_words(basis)}: no interval over sessions, which needs {MIN_SESSIONS}.".capitalize()
    stronger = stronger_words(basis) if basis.days == 1 else ""
    return f"{'; '.join(filter(None, (basis_words(basis), stronger)))}.".capitalize()


def incomplete_sessions_line(session: CombinedSession) -> Iterator[str]:
    """Yields which sessions lack runs, and that they count nevertheless."""
    parts = enumerate(session.parts, 1)
    found = [f"session {number}, {reason}" for number, part in parts if (reason := incomplete_reason(part.session))]
    if found and is_compared(session):
        more = f"; and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
        yield f"Each session is one value, however few runs it has: {'; '.join(found[:_MAX_NAMED])}{more}."


# --- Host and storage


def host_line(session: Session) -> Iterator[str]:
    """Yields what moved of the host while it was measured, and what it lost to others, if anything."""
    figures = host_figures(session)
    reads = _reads({name: _range(figure) for name, figure in figures.items() if _has_moved(figure)})
    words = [reads] if reads else []
    if CPU_LOOP in figures and _has_moved(figures[CPU_LOOP]):
        words.append(f"CPU loop {_range(figures[CPU_LOOP])} s")
    if STEAL in figures and (share := figures[STEAL].high) >= _LEAST_STEAL:
        words.append(f"steal up to {fmt.percent(share)}")
    if words:
        yield f"The host changed meanwhile: {'; '.join(words)}."


def reads_words(session: Session) -> str:
    """Returns the reads a second of the session's storage, without a limit; empty if they are not known."""
    return _reads({name: fmt.two_digits(figure.median) for name, figure in host_figures(session).items()})


def _reads(figures: Mapping[str, str]) -> str:
    """Returns the reads a second of a host: `21,000 reads/s by one thread, 94,000 by 16`."""
    by = {READS: "one thread", READS_16: "16"} if READS in figures else {READS_16: "16 threads"}
    found = [(figures[name], threads) for name, threads in by.items() if name in figures]
    texts = [f"{number}{'' if place else ' reads/s'} by {threads}" for place, (number, threads) in enumerate(found)]
    return ", ".join(texts)


def _has_moved(figure: HostFigure) -> bool:
    return figure.high > _MOVED * figure.low


def _range(figure: HostFigure) -> str:
    """Formats a figure of the host with two digits, as a range if it moved."""
    if not _has_moved(figure):
        return fmt.two_digits(figure.median)
    return f"{fmt.two_digits(figure.low)}-{fmt.two_digits(figure.high)}"


def storage_name(session: Session) -> str:
    """Returns which storage a ratio belongs to."""
    return "on this storage" if number_of_hosts(session) == 1 else "on the storage of these hosts"


def storage_words(session: Session) -> str:
    """Returns the storage that a ratio belongs to: `on this storage (21,000 reads/s by one thread, 94,000 by 16)`, or
    with its limit."""
    known = _speed(session)
    return f"{storage_name(session)} ({known})" if known else storage_name(session)


def _speed(session: Session) -> str:
    """Returns the reads a second on which starts depend; empty for loads, which mostly wait for writes."""
    return speed_words(session) if metric(session.metric).unit == "s" else ""


def speed_words(session: Session) -> str:
    """Returns the reads a second that the server had, measured or limited."""
    limits = session.design.limits
    if limits.read_iops:
        return f"limited to {limits.read_iops:,} reads/s"
    if limits.read_bps:
        return f"limited to {fmt.size(limits.read_bps)}/s"
    return reads_words(session)


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
