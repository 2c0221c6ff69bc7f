"""Was it the server that was measured while it worked, on a quiet host, for long enough, and as was asked?"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from statistics import fmean

from recovery.cells import cell_words, is_switch
from recovery.findings.doubt import MIB, Check, beyond, cells, doubt, number, numbered
from recovery.measures import middles, value_of
from recovery.quantities import RECOVERY, quantity
from recovery.stored import Finding, Run, Session
from recovery.summary import mean

_BUSY = 0.85
"""Of the CPUs that clients may use, from where on they may have been what was waited for."""
_SHARE = 0.3
"""Of the host's CPUs, for clients that leave none idle."""
_IDLE = 0.05
"""Of the host's CPUs: less is none."""
_OTHERS = 0.1
"""CPUs that others kept busy on average."""
_THIRDS = 0.1
_LEAST_LOOKS = 9
_SECONDS = 60
_WIDE = 0.1
"""Half of the mean's interval, over the mean."""
_ERRORS = 0.001
_FEW_BYTES = 64 * MIB
_OTHERS_READ, _OTHERS_WRITTEN = 0.1, 1.0
"""Of what the server did itself: to write, a file system has more to do than what it was given."""
_POLLS = "polls_per_s"
_DUMP = "dump"
"""Among the clients of a run."""


def busy_clients(session: Session) -> Iterator[Finding]:
    cpus = number(session.environment.get("cpus"))
    for about, runs in cells(session):
        used, allowed = mean(run.measures.get("client_cpus") for run in runs), _client_cpus(session, runs)
        if used is None:
            continue
        if allowed is not None and used >= _BUSY * allowed:
            yield doubt(
                "client-was-the-bottleneck", about,
                f"The clients kept {used:.1f} CPUs busy, of {allowed:g} that they could use at once: they may have "
                "been slower than the server.",
                "Give the clients more CPUs or more threads, or a host of their own; until then this is a lower bound "
                "of what the server can do.",
            )  # fmt: skip
        elif cpus and used > min(_SHARE * cpus, _of_server(runs)) and _idle(runs, cpus) < _IDLE * cpus:
            yield doubt(
                "client-was-the-bottleneck", about,
                f"The clients used {used:.1f} of the host's {cpus:g} CPUs, and none was idle: client and server share "
                "the CPUs.",
                "The server had only what the clients left: hold versions against each other, and no figure against "
                "that of a host where the clients have CPUs of their own.",
            )  # fmt: skip


def _client_cpus(session: Session, runs: Sequence[Run]) -> float | None:
    """What they may use at once: a CPU a thread, and no more than they are pinned to. A dump is one thread, and pinned
    nowhere."""
    if any(_DUMP in run.clients for run in runs):
        return 1.0
    if quantity(session.figure).unit != "/s":
        return None
    cell = session.cells.get(runs[0].variant, {})
    threads = number(cell.get("threads")) or number(session.settings.get("threads"))
    pinned = _pinned(session.settings.get("client_cpus"))
    return min((one for one in (threads, pinned) if one), default=None)


def _pinned(told: str | float | bool | None) -> float | None:
    """A number of CPUs, or which they are: `2-3,6`."""
    if not isinstance(told, str):
        return number(told)
    ends = [part.split("-") for part in told.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,9}", one) for part in ends for one in part):
        return None
    return sum(int(part[-1]) - int(part[0]) + 1 for part in ends)


def _of_server(runs: Sequence[Run]) -> float:
    """CPUs that it used; clients at work usually use a third of that. No end where nobody told."""
    used = mean(run.measures.get("server_cpus") for run in runs)
    return math.inf if used is None else used


def _idle(runs: Sequence[Run], cpus: float) -> float:
    """CPUs of the host that nobody used."""
    names = ("server_cpus", "client_cpus", "others_cpus")
    return cpus - sum(mean(run.measures.get(name) for run in runs) or 0.0 for name in names)


def never_warm(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        changed = [(run, change) for run in runs if (change := _change(run)) is not None and abs(change) > _THIRDS]
        if changed:
            most = max((change for _, change in changed), key=abs)
            yield doubt(
                "never-warmed-up", about,
                f"In the last third of the measured time it did {abs(most):.0%} {'more' if most > 0 else 'less'} a "
                f"second than in the first, in {numbered([run for run, _ in changed])}.",
                "It was not at rest yet: measure longer (SECONDS=), after a longer warm-up.",
            )  # fmt: skip


def _change(run: Run) -> float | None:
    """From the first to the last third of what was measured; None where there are too few looks."""
    if run.watched is None:
        return None
    series = next((one.values for one in run.watched.series if one.name == "qps"), ())
    looks = zip(run.watched.at_s, series, strict=False)
    # The first look is of the warm-up's last second.
    values = [value for at_s, value in looks if at_s > 0.5 and value is not None]
    third = len(values) // 3
    if len(values) < _LEAST_LOOKS or not fmean(values[:third]):
        return None
    return fmean(values[-third:]) / fmean(values[:third]) - 1


def short_run(session: Session) -> Iterator[Finding]:
    """Of loads, which go on as long as they are told to; how many runs there are is asked of every session."""
    seconds = number(session.settings.get("seconds"))
    if seconds is not None and 0 < seconds < _SECONDS and quantity(session.figure).unit == "/s":
        yield doubt(
            "short-run", "all", f"Each load was measured for {seconds:g} s, less than a minute.",
            f"Take it for a first look: flushing and checkpoints come in waves of many seconds; SECONDS={_SECONDS} "
            "or more.",
        )  # fmt: skip


def wide_spread(session: Session) -> Iterator[Finding]:
    """Not of kills at other moments each: that their recoveries differ is what was asked for."""
    if session.figure == RECOVERY:
        return
    for one in middles(session):
        if one.interval is not None and one.mean and one.interval > _WIDE * one.mean:
            yield doubt(
                "wide-spread", f"{one.version} {cell_words(session, one.variant)}",
                f"The mean is known to {one.interval / one.mean:.0%} only: its runs lie {_in_full(one.min)} to "
                f"{_in_full(one.max)} {quantity(one.name).unit}.".replace(" /s.", " a second."),
                "Say it with its interval, and claim no smaller difference; more RUNS= narrow it.",
            )  # fmt: skip


def no_polls(session: Session) -> Iterator[Finding]:
    """Where something was to be asked beside the load, and nothing was."""
    polled = {axis.name for axis in session.axes if axis.name == "poll" and is_switch(axis)}
    for about, runs in cells(session):
        cell = session.cells.get(runs[0].variant, {})
        if not any(cell.get(name, "off") == "on" for name in polled):
            continue
        silent = [run for run in runs if not run.measures.get(_POLLS)]
        if silent:
            yield doubt(
                "polls-did-not-run", about, f"Nothing was answered beside the load in {numbered(silent)}.",
                "This cell measured the load alone. A question that takes longer than the load is cut short: see what "
                "was asked, the server's log, and SECONDS=.",
            )  # fmt: skip


def many_errors(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        shares = beyond(runs, _error_share, _ERRORS)
        if shares:
            yield doubt(
                "errors", about,
                f"Up to {max(shares.values()):.1%} of the transactions ended in an error that the clients ignored: "
                f"{numbered(list(shares))}.",
                "Deadlocks are a part of some workloads: compare cells with as many of them; of any other error see "
                "what the clients printed.",
            )  # fmt: skip


def _error_share(run: Run) -> float | None:
    return value_of(run, "errors_per_transaction") or None


def others(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        used = beyond(runs, _others_cpus, _OTHERS)
        if used:
            yield doubt(
                "other-cpu-load", about,
                f"Others kept {max(used.values()):.1f} CPUs busy during {numbered(list(used))}.",
                "Find out who it was (top), stop it, and measure again.",
            )  # fmt: skip
        disturbed = [run for run in runs if _others_bytes(run)]
        if disturbed:
            most = max(map(_others_bytes, disturbed))
            yield doubt(
                "other-disk-load", about,
                f"Others read and wrote up to {most / 1e6:,.0f} MB on the same device during {numbered(disturbed)}.",
                "Find out who it was (iotop), stop it, and measure again.",
            )  # fmt: skip


def _others_cpus(run: Run) -> float:
    """As the sampler tells it, which knows the clients; else from both ends."""
    told = run.measures.get("others_cpus")
    if told is not None:
        return told
    around = run.around
    return 0.0 if around is None or around.seconds <= 0 else (around.others_cpu_s or 0.0) / around.seconds


def _others_bytes(run: Run) -> float:
    """Beyond what the server did itself; 0 where it is not much."""
    around = run.around
    if around is None:
        return 0.0
    found = 0.0
    for theirs, name, share in (
        (around.others_read_bytes, "read_bytes", _OTHERS_READ),
        (around.others_written_bytes, "written_bytes", _OTHERS_WRITTEN),
    ):
        own = run.measures.get(name, run.measures.get(f"{name}_per_s", 0.0) * around.seconds)
        if (theirs or 0) > max(_FEW_BYTES, share * own):
            found += theirs or 0
    return found


def _in_full(value: float | None) -> str:
    """Four digits, or all before the point."""
    if value is None:
        return "?"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


CHECKS: tuple[Check, ...] = (
    busy_clients, never_warm, short_run, wide_spread, no_polls, many_errors, others,
)  # fmt: skip
