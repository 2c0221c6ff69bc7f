"""Says in words, and in JSON, what `recovery watch` knows of a server. These functions are pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from recovery.cli.output import duration_words
from recovery.logs.start_progress import REDO, PhaseAhead, Progress, TimeLeft
from recovery.logs.watched_log import RestartLoop
from recovery.model import Version
from recovery.mysqld.running_server import Answer
from recovery.phase_table import Unit, what_happens_in

FORMAT = 1


class State(Enum):
    """What a watched server does, with the exit code of `--once`."""

    READY = 0
    PROGRESSING = 10
    STALLED = 11
    LOOP = 12
    GONE = 3


def worst(states: Iterable[State]) -> State:
    """Returns the state of several servers that a check must not miss."""
    order = (State.GONE, State.STALLED, State.LOOP, State.PROGRESSING, State.READY)
    return min(states, key=order.index)


@dataclass(frozen=True)
class View:
    """What is known of a watched server at a moment."""

    state: State
    pid: int | None
    version: Version | None
    where: str
    """The data directory or the log, in words."""
    progress: Progress
    startup_s: float | None
    """Time since the start began."""
    idle_s: float
    """Age of the last progress."""
    loop: RestartLoop | None = None
    limit: str | None = None
    """What limits the time of a start, in words."""
    waits_for: str | None = None
    missing: tuple[str, ...] = ()
    seconds_ahead: Mapping[str, float] = field(default_factory=dict)
    """Times of the phases in another session."""
    reason: str | None = None
    """Why the server ended."""
    answer: Answer | None = None
    """How a ready server answers a new connection; None while nobody asks."""


def view_lines(view: View) -> Iterator[str]:
    """Yields the lines of the live view."""
    since = "" if view.startup_s is None or view.state is State.READY else f", for {duration_words(view.startup_s)}"
    yield f"{name_of(view)}: {_STATE_WORDS[view.state]}{since}"
    yield f"  {progress_text(view)}"
    if view.state not in (State.READY, State.GONE):
        since, idle = (duration_words(seconds) for seconds in (view.progress.since_s, view.idle_s))
        in_phase = "" if view.progress.phase is None else f"{since} in this phase; "
        yield f"  {in_phase}last progress {idle} ago{_activity_text(view.progress)}"
    if view.loop is not None:
        yield f"  {loop_text(view.loop, view.limit)}"
    if view.waits_for is not None:
        yield f"  {_waits_text(view.waits_for, view.idle_s)}"
    for what in view.missing:
        yield f"  this user may not see {what}"


def name_of(view: View) -> str:
    """Returns which server it is."""
    return f"{view.version or 'the server'}{f', pid {view.pid}' if view.pid else ''}, {view.where}"


def _activity_text(progress: Progress) -> str:
    if progress.cpus is None:
        return ""
    reads = progress.read_bytes_per_s
    read_text = "" if reads is None else f" and reads {amount(reads, Unit.BYTES)} a second"
    return f"; it uses {progress.cpus:.1f} CPUs{read_text}"


_STATE_WORDS = {
    State.READY: "ready",
    State.PROGRESSING: "starting",
    State.STALLED: "stalled",
    State.LOOP: "starting again and again",
    State.GONE: "not there",
}


def one_line(view: View) -> str:
    """Returns what `--once` prints."""
    text = f"{view.state.name.lower()}: {progress_text(view)}"
    if view.loop is not None:
        text += f"; {loop_text(view.loop, view.limit)}"
    if view.waits_for is not None:
        text += f"; {_waits_text(view.waits_for, view.idle_s)}"
    return text + "".join(f"; this user may not see {what}" for what in view.missing)


def _waits_text(waits_for: str, idle_s: float) -> str:
    """A server that was stopped just now may have moved a moment ago."""
    return waits_for if idle_s < 1 else f"no progress for {duration_words(idle_s)}: {waits_for}"


def progress_text(view: View) -> str:
    """Returns the phase with what is done of it and how long it still takes, and the phases ahead."""
    progress = view.progress
    if view.state is State.GONE:
        return view.reason or "its process has ended"
    if progress.phase is None:
        if progress.ready:
            return f"ready for connections{_answer_text(view)}"
        return f"no line of its log shows a phase yet{_HELD_BACK if _may_hold_back(view) else ''}"
    parts = [part for part in (_done_text(progress), _left_text(progress)) if part]
    if progress.total is None or progress.done is None:
        parts += [text for text in (_what_happens(view),) if text]
    ahead = [_ahead_text(one, view.seconds_ahead) for one in progress.ahead]
    text = f"{progress.phase}: {'; '.join(parts)}" if parts else progress.phase
    text += _answer_text(view) if progress.ready else ""
    after = ["rows of open transactions are free"] if progress.ready else [*ahead, "ready"]
    return f"{text}; then {', '.join(after)}"


_HELD_BACK = "; early releases of MySQL 8.0, such as 8.0.15, may write none before they are nearly ready"
_LOGS_WITHIN_S = 5.0
"""Other servers have written a line by then, unless storage is slow."""


def _may_hold_back(view: View) -> bool:
    is_silent = view.pid is not None and view.version is None and not view.missing
    return is_silent and (view.startup_s or 0.0) > _LOGS_WITHIN_S


def _answer_text(view: View) -> str:
    answer = view.answer
    if answer is None:
        return ""
    if answer.hangs:
        return f"; {answer.why}"
    if answer.to == "query":
        return "; it answers a query"
    greets = "it greets new connections, and" if answer.to is not None else "it"
    return f"; {greets} was asked no query: {answer.why}"


def _done_text(progress: Progress) -> str:
    done, total, unit = progress.done, progress.total, progress.unit
    if unit is None or done is None or (total is None and not done):
        return ""
    if unit is Unit.PERCENT:
        return f"{done:.0f} %"
    number = f"{done:,.0f}" if unit is not Unit.BYTES and total else amount(done, unit)
    text = f"{number} of {amount(total, unit)}" if total else number
    if progress.rate is None or (total is not None and done >= total):
        return text
    return f"{text}, {_rate_text(progress, progress.rate, unit)}"


def _rate_text(progress: Progress, rate: float, unit: Unit) -> str:
    """Returns the rate, with that of the last seconds if it is another."""
    recent, before = progress.recent_rate, progress.fell_from
    mean, now = (amount(one, unit) if unit is Unit.BYTES else f"{one:,.0f}" for one in (rate, recent or rate))
    if before is not None:
        was = amount(before, unit) if unit is Unit.BYTES else f"{before:,.0f}"
        return f"was {was} a second, now {now}: the burst credits of a volume may have run out"
    if recent is None or abs(recent / rate - 1) <= _OTHER_RATE:
        return f"{mean} a second"
    return f"{mean} a second ({now} lately)"


_OTHER_RATE = 0.2
"""A recent rate is shown if it differs by more than this share."""


def amount(number: float, unit: Unit) -> str:
    if unit is not Unit.BYTES:
        return f"{number:,.0f} {unit.value}"
    return f"{number / 1e6:,.0f} MB" if number >= 1e7 else f"{number / 1e3:,.0f} kB"


def _left_text(progress: Progress) -> str:
    left = progress.left_s
    if left is None:
        return ""
    if left.about_s is None:
        return f"at most about {duration_words(left.most_s)} left"
    least, most = duration_words(left.least_s), duration_words(left.most_s)
    number, unit = least.split(" ", 1)
    range_text = f"{number if most.endswith(f' {unit}') else least} to {most}"
    of = " of redo" if progress.phase in REDO else ""
    return f"about {duration_words(left.about_s)} left{of} ({range_text})"


def _what_happens(view: View) -> str | None:
    """Returns what the server does in a phase of which nothing is counted."""
    phase = view.progress.phase
    does = None if phase is None else what_happens_in(phase, view.version, crashed=None)
    return f"the server {does}" if does else None


def _ahead_text(ahead: PhaseAhead, seconds: Mapping[str, float]) -> str:
    known = [amount(ahead.total, ahead.unit)] if ahead.total else []
    if ahead.phase in seconds:
        known.append(f"{duration_words(seconds[ahead.phase])} last time")
    return f"{ahead.phase} ({', '.join(known)})" if known else ahead.phase


_ORDINALS = {2: "second", 3: "third", 4: "fourth", 5: "fifth"}


def loop_text(loop: RestartLoop, limit: str | None) -> str:
    nth = _ORDINALS.get(loop.tries, f"{loop.tries}th")
    since = f" since {loop.since}" if loop.since else ""
    ended = "ended" if loop.longest_s is None else f"ended after at most {duration_words(loop.longest_s)}"
    each = "the one before" if loop.tries == 2 else "each"
    gains = {
        "nothing": "redo makes no progress",
        "page cache": "a try gains only what stays in the page cache",
    }[loop.gains]
    raised = f"raise the limit that kills it{f': {limit}' if limit else ''}"
    return f"{nth} try{since}, {each} {ended} at the same checkpoint (LSN {loop.checkpoint_lsn}): {gains}; {raised}"


# --- As JSON


@dataclass(frozen=True)
class AheadInJson:
    """A phase that is still to come."""

    phase: str
    """Its name."""
    total: int | None
    """What there is to do in it, in `unit`."""
    unit: str
    """What is counted in it."""
    seconds: float | None
    """How long it took in another session of this host."""


@dataclass(frozen=True)
class LineOfJson:
    """What `recovery watch --json` writes at each look. Null is what is not known."""

    format: int
    """Raised when a field changes its meaning or is removed."""
    at: str
    """When the server was looked at, in UTC."""
    state: str
    """`ready`, `progressing`, `stalled`, `loop` or `gone`."""
    text: str
    """The same in words."""
    pid: int | None = None
    """The process id, as this host sees it."""
    version: str | None = None
    """The server's, as far as its log tells."""
    where: str | None = None
    """The data directory or the log."""
    phase: str | None = None
    """The phase that is under way; after ready: the rollback of open transactions, as long as it lasts."""
    done: int | None = None
    """What is done in this phase, in `unit`."""
    total: int | None = None
    """What there is to do in this phase, in `unit`."""
    unit: str | None = None
    """`files`, `bytes`, `pages`, `%` or `rows`; null where nothing is counted in this phase."""
    rate: float | None = None
    """What is done in a second, in `unit`."""
    phase_s: float | None = None
    """Seconds since the phase began."""
    left_s: TimeLeft | None = None
    """Seconds that the phase still takes; null where none are claimed."""
    startup_s: float | None = None
    """Seconds since the process was created or, without one, since the first line of the start."""
    idle_s: float | None = None
    """Seconds since the log, the I/O or the CPU time of the process moved."""
    cpus: float | None = None
    """CPUs that the process used in the last seconds."""
    read_bytes_per_s: float | None = None
    """What the process read from storage in the last seconds."""
    ahead: tuple[AheadInJson, ...] = ()
    """The phases that are still to come."""
    loop: RestartLoop | None = None
    """The starts that ended at the same checkpoint."""
    limit: str | None = None
    """What limits the time of a start, in words."""
    waits_for: str | None = None
    """What a server that makes no progress waits for, in words."""
    missing: tuple[str, ...] = ()
    """What this user may not see."""
    answered: str | None = None
    """With `--once`, what a ready server has answered: `query`, which takes a login, or only `greeting`, that of a new
    connection to its socket. Null if it answered neither, or was asked neither: `text` says why."""


def to_json(view: View, at: datetime) -> str:
    """Returns the view at a moment as one line of JSON."""
    progress, left = view.progress, view.progress.left_s
    shown = None if left is None else TimeLeft(round(left.least_s, 3), round(left.most_s, 3), _rounded(left.about_s))
    return json_line(
        view.state,
        progress_text(view),
        at,
        pid=view.pid,
        version=None if view.version is None else str(view.version),
        where=view.where,
        phase=progress.phase,
        done=None if progress.done is None else round(progress.done),
        total=progress.total,
        unit=None if progress.unit is None else progress.unit.value,
        rate=_rounded(progress.rate),
        phase_s=_rounded(progress.since_s),
        left_s=shown,
        startup_s=_rounded(view.startup_s),
        idle_s=_rounded(view.idle_s),
        cpus=_rounded(progress.cpus),
        read_bytes_per_s=_rounded(progress.read_bytes_per_s),
        ahead=tuple(
            AheadInJson(one.phase, one.total, one.unit.value, _rounded(view.seconds_ahead.get(one.phase)))
            for one in progress.ahead
        ),
        loop=view.loop,
        limit=view.limit,
        waits_for=view.waits_for,
        missing=view.missing,
        answered=None if view.answer is None else view.answer.to,
    )


def json_line(state: State, text: str, at: datetime, **known: Any) -> str:
    stamp = at.astimezone(UTC).isoformat(timespec="milliseconds")
    return json.dumps(asdict(LineOfJson(FORMAT, stamp, state.name.lower(), text, **known)))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
