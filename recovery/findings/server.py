"""Is the server, or the tool beside it, one that should be timed?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from recovery.effect import Lowered, given, lowered, same
from recovery.findings.doubt import Check, beyond, cells, doubt, number, numbered, server_of
from recovery.measured import Timeline
from recovery.phases import PROCESS_START, REST, named_share
from recovery.stored import Finding, Run, Session
from recovery.summary import mean

_TALKATIVE = {"@log_error_verbosity": 3.0, "@log_warnings": 2.0}
"""From where on the server says in its log what it does."""
_NAMED = 0.9
_BUSY = 0.5
"""CPUs that this tool used itself during a start."""
_LATE_S, _LATE = 0.1, 0.01
_OUTSIDE_INNODB = frozenset({PROCESS_START, REST})
_OUTSIDE_S, _OUTSIDE = 1.0, 0.5
"""CPU time there, and its share of the startup."""


def debug_build(session: Session) -> Iterator[Finding]:
    for version in session.versions:
        known = server_of(session, version)
        told = " ".join(known.get(name, "") for name in ("@version", "@version_comment"))
        if "debug" in told.lower():
            yield doubt(
                "debug-build", version,
                f"This is a debug build ({known.get('@version', version)}): it checks itself as it runs.",
                "Its times say nothing of a release: measure the release build.",
            )  # fmt: skip


def verbosity(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        known = server_of(session, runs[0].version)
        quiet = [
            f"{name.removeprefix('@')}={known[name]}" for name, least in _TALKATIVE.items()
            if name in known and (number(known[name]) or 0) < least
        ]  # fmt: skip
        share = mean(named_share(run.phases) for run in runs if run.phases)
        if quiet and share is not None and share < _NAMED:
            yield doubt(
                "quiet-log", about,
                f"Only {share:.0%} of the startup has a name: {' and '.join(quiet)} keeps lines out of the log.",
                "Leave that setting out; the tool asks for all that the server can say.",
            )  # fmt: skip


def busy_client(session: Session) -> Iterator[Finding]:
    """Whoever measures must not be what is waited for."""
    for about, runs in cells(session):
        busy = [run for run in runs if run.around and (run.around.tool_cpu_s or 0) > _BUSY * run.around.seconds]
        if busy:
            hint = "measure again"
            if session.settings.get("trace"):
                hint = "leave --trace out for the times, and trace in a session of its own"
            yield doubt(
                "busy-client", about,
                f"This tool itself kept half a CPU busy and more during {numbered(busy)}.",
                f"It may have been what was waited for: {hint}.",
            )  # fmt: skip
        late = [run for run in runs if (run.ready_lag_s or 0) > max(_LATE_S, _LATE * (run.startup_s or 0))]
        if late:
            worst = max(run.ready_lag_s or 0 for run in late)
            yield doubt(
                "late-log", about,
                f"The ready line arrived up to {worst:.2f} s after the server's own stamp on it: {numbered(late)}.",
                "The host was too busy to read along, or its clock was set: see what else runs, and measure again.",
            )  # fmt: skip


def cpu_outside_innodb(session: Session) -> Iterator[Finding]:
    """Most of such a start says nothing of recovery, nor of the storage."""
    for about, runs in cells(session):
        spent = beyond(runs, _cpu_outside_innodb_s, _OUTSIDE_S)
        most = {run: seconds for run, seconds in spent.items() if seconds > _OUTSIDE * (run.startup_s or 0)}
        if most:
            yield doubt(
                "cpu-outside-innodb", about,
                f"Most of the start was CPU time outside InnoDB, up to {max(most.values()):.1f} s: "
                f"{numbered(list(most))}.",
                "MariaDB 11.4 and later makes a TLS key at every start unless ssl=OFF, as this tool sets it: leave "
                "other settings of ssl out. For another cause, --stacks shows what the server computes.",
            )  # fmt: skip


def _cpu_outside_innodb_s(run: Run) -> float | None:
    """From exec to InnoDB's first line, and from its last to ready; None where no looks were taken."""
    timeline = run.timeline
    if timeline is None or not timeline.cpu_s:
        return None
    return sum(
        _cpu_s_until(timeline, phase.end_s) - _cpu_s_until(timeline, phase.start_s)
        for phase in run.phases
        if phase.name in _OUTSIDE_INNODB
    )


def _cpu_s_until(timeline: Timeline, at_s: float) -> float:
    """Between two looks it is taken to grow evenly."""
    looks = [(0.0, 0.0), *zip(timeline.at_s, timeline.cpu_s, strict=False)]
    for (one_s, one_cpu_s), (next_s, next_cpu_s) in pairwise(looks):
        if one_s <= at_s < next_s:
            return one_cpu_s + (next_cpu_s - one_cpu_s) * (at_s - one_s) / (next_s - one_s)
    return looks[-1][1]


def options_not_in_effect(session: Session) -> Iterator[Finding]:
    """Of those that are compared; what holds for all cells alike is told with the server."""
    wished = {axis.name for axis in session.axes}
    told: dict[tuple[str, Lowered], Finding] = {}
    for name, known in session.servers.items():
        version = name.partition(" ")[0]
        for one in lowered(known):
            if one.option in wished and (version, one) not in told:
                files = known.get("@open_files_limit")
                told[version, one] = doubt(
                    "option-not-in-effect", f"{version} {one.option}={one.asked}",
                    f"{one}{_as_in(session, version, one)}.",
                    "Read these cells as what is in effect; more open files (ulimit -n"
                    f"{f': {files} here' if files else ''}), or another value, may help.",
                )  # fmt: skip
    yield from told.values()


def _as_in(session: Session, version: str, one: Lowered) -> str:
    """Other values of the same option that came to the same."""
    here = [known for name, known in session.servers.items() if name.partition(" ")[0] == version]
    others = {
        given(known)[one.option] for known in here
        if one.option in given(known) and same(known.get(f"@{one.option}", ""), one.effective)
    } - {one.asked}  # fmt: skip
    if not others:
        return ""
    return f", as where {' or '.join(sorted(others))} was: one experiment, and no effect is told between them"


CHECKS: tuple[Check, ...] = (debug_build, verbosity, busy_client, cpu_outside_innodb, options_not_in_effect)
