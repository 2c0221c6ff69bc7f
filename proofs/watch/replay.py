"""Replays recorded starts through `StartProgress`, and compares the time left that it shows with the truth."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median

from recovery.logs.start_progress import REDO, RESOLUTION_S, Progress, StartProgress
from recovery.model import Version
from recovery.phase_table import DISCOVERY, JOIN, PAGE_FLUSH, UNNAMED
from watch.recording import Recording

SHARES = (0.25, 0.5, 0.75)
"""Of the time of a phase, at which the error of its time left is taken."""
MIN_PHASE_S = 3.0
"""Shorter phases are over before a time left is shown."""
REDO_TOGETHER = JOIN.join(REDO)
_STEP_S = 0.5
_ROUNDING_S = 0.5
"""The range is shown in whole seconds."""


@dataclass(frozen=True)
class Moment:
    """What was shown at a moment of a start, and the truth."""

    at_s: float
    progress: Progress


@dataclass(frozen=True)
class PhaseResult:
    """How well the time left of one phase of one start was told."""

    recording: str
    version: str
    conditions: str
    phase: str
    took_s: float
    unit: str | None
    at_most_only: bool
    """Whether only "at most" was shown."""
    errors: tuple[float | None, ...]
    """Estimate over truth, less one, at each of `SHARES`; of the upper bound if only that was shown. None: no time left
    was shown."""
    held: tuple[bool | None, ...]
    """Whether the truth was inside the shown range, at each of `SHARES`."""
    looks: int
    """Half seconds of the phase."""
    steps: int
    """Those in which a time left was shown."""
    steps_held: int
    """Those in which the truth was inside the range."""
    width: float | None
    """The upper end of the range over the lower one, both at least a second: the median of these half seconds."""
    shown_from: float | None
    """Share of the phase's time after which a time left was shown."""


def events(recording: Recording) -> Iterator[tuple[float, object]]:
    """Yields lines, samples and rows in the order of their times."""
    lines = [(at_s, (text, complete)) for at_s, text, complete in recording.lines]
    samples = [(sample.at_s, sample) for sample in recording.process_samples()]
    rows = [(at_s, rows) for at_s, rows in recording.rows]
    yield from sorted([*lines, *samples, *rows], key=lambda event: event[0])


def feed(progress: StartProgress, at_s: float, event: object) -> None:
    if isinstance(event, tuple):
        progress.add_line(event[0], at_s, complete=event[1])
    elif isinstance(event, int):
        progress.add_rows_to_undo(at_s, event)
    else:
        progress.add_sample(event)  # type: ignore[arg-type]


def new_progress(recording: Recording, version: Version | None = None) -> StartProgress:
    return StartProgress(version, 0.0, recording.totals)


def moments(recording: Recording, step_s: float = _STEP_S) -> list[Moment]:
    """Returns what was shown, at every line and every half second."""
    progress, found, next_s = new_progress(recording), list[Moment](), step_s
    for at_s, event in events(recording):
        while next_s < at_s:
            found.append(Moment(next_s, progress.progress(next_s)))
            next_s += step_s
        feed(progress, at_s, event)
        if not hasattr(event, "syscr"):
            found.append(Moment(at_s, progress.progress(at_s)))
    return found


def phase_results(recording: Recording) -> list[PhaseResult]:
    """Returns a result for each phase that is long enough and of which something is counted."""
    found = []
    for run, after in pairwise(_runs(recording)):
        begin_s, end_s, phase = run[0].at_s, after[0].at_s, _phase_of(run)
        # A process that was stopped has no true time left.
        if phase is None or end_s - begin_s < MIN_PHASE_S or _overlaps(recording.stopped, begin_s, end_s):
            continue
        if all(moment.progress.unit is None for moment in run):
            continue
        found.append(_result(recording, phase, run, begin_s, end_s))
    return found


def _runs(recording: Recording) -> list[list[Moment]]:
    """Returns the moments of each phase. Scan and apply of redo are one, from the first to the last moment of them: the
    time left is that of both."""
    found = moments(recording)
    discovered = max((number for number, moment in enumerate(found) if moment.progress.phase == DISCOVERY), default=-1)
    redo = [n for n, moment in enumerate(found) if moment.progress.phase in REDO and n > discovered]
    inside = range(redo[0], redo[-1] + 1) if redo else range(0)
    named = [
        (REDO_TOGETHER if number in inside else moment.progress.phase, moment) for number, moment in enumerate(found)
    ]
    return [[moment for _, moment in group] for _, group in groupby(named, key=lambda pair: pair[0])]


def _phase_of(run: Sequence[Moment]) -> str | None:
    phase = run[0].progress.phase
    return REDO_TOGETHER if phase in REDO else phase


def _overlaps(stopped: tuple[float, float] | None, begin_s: float, end_s: float) -> bool:
    return stopped is not None and stopped[0] < end_s and begin_s < stopped[1]


def _result(recording: Recording, phase: str, run: Sequence[Moment], begin_s: float, end_s: float) -> PhaseResult:
    looks = [moment for moment in run if (moment.at_s / _STEP_S).is_integer()]
    steps = [moment for moment in looks if moment.progress.left_s is not None]
    at = [
        next((moment for moment in reversed(run) if moment.at_s <= begin_s + share * (end_s - begin_s)), run[0])
        for share in SHARES
    ]
    held = [_holds(moment, end_s) for moment in steps]
    return PhaseResult(
        recording=recording.name,
        version=recording.version,
        conditions=recording.conditions.name,
        phase=phase,
        took_s=end_s - begin_s,
        unit=next((moment.progress.unit.value for moment in run if moment.progress.unit is not None), None),
        at_most_only=bool(steps) and all(_about_s(moment) is None for moment in steps),
        errors=tuple(_error(moment, end_s) for moment in at),
        held=tuple(None if moment.progress.left_s is None else _holds(moment, end_s) for moment in at),
        looks=len(looks),
        steps=len(steps),
        steps_held=sum(held),
        width=median(_width(moment) for moment in steps) if steps else None,
        shown_from=(steps[0].at_s - begin_s) / (end_s - begin_s) if steps else None,
    )


def _width(moment: Moment) -> float:
    left = moment.progress.left_s
    assert left is not None
    return max(1.0, left.most_s) / max(1.0, left.least_s)


def _about_s(moment: Moment) -> float | None:
    return None if moment.progress.left_s is None else moment.progress.left_s.about_s


def _error(moment: Moment, end_s: float) -> float | None:
    left = moment.progress.left_s
    if left is None:
        return None
    return (left.most_s if left.about_s is None else left.about_s) / max(0.001, end_s - moment.at_s) - 1


def _holds(moment: Moment, end_s: float) -> bool:
    left, truth_s = moment.progress.left_s, end_s - moment.at_s
    assert left is not None
    return left.least_s - _ROUNDING_S <= truth_s <= left.most_s + _ROUNDING_S


# --- How wide the ranges must be


@dataclass(frozen=True)
class Needed:
    """The error that a range needs to hold the truth of one moment."""

    load: str
    """What the crash left."""
    phase: str
    share: float
    """Of the phase, done so far."""
    error: float


def needed_errors(recording: Recording) -> list[Needed]:
    """Returns what each half second with a range needs."""
    found = []
    for run, after in pairwise(_runs(recording)):
        begin_s, end_s = run[0].at_s, after[0].at_s
        if end_s - begin_s < MIN_PHASE_S or _overlaps(recording.stopped, begin_s, end_s):
            continue
        for moment in run:
            now, about_s, truth_s = moment.progress, _about_s(moment), end_s - moment.at_s
            if about_s is not None and now.phase is not None and now.total and now.done is not None:
                slack_s = _ROUNDING_S + RESOLUTION_S
                error = max(0.0, (truth_s - slack_s) / max(about_s, 0.001) - 1, about_s / (truth_s + slack_s) - 1)
                found.append(Needed(recording.conditions.state, _phase_of(run) or "", now.done / now.total, error))
    return found


def left_out(recordings: Sequence[Recording]) -> dict[str, tuple[int, int]]:
    """Returns for each phase in how many of its half seconds a range that was set from other loads held the truth, and
    of how many. Such a range holds nine of ten of their truths, in the same third of the phase."""
    needed = [one for recording in recordings for one in needed_errors(recording)]
    found: dict[str, tuple[int, int]] = {}
    for (phase, _, name), ones in _grouped(needed).items():
        third = _third(ones[0])
        others = sorted(one.error for one in needed if one.phase == phase and one.load != name and _third(one) == third)
        if others:
            error = others[min(len(others) - 1, int(0.9 * len(others)))]
            held, of = found.get(phase, (0, 0))
            found[phase] = held + sum(one.error <= error for one in ones), of + len(ones)
    return found


def _grouped(needed: Sequence[Needed]) -> dict[tuple[str, int, str], list[Needed]]:
    """Returns what was needed, by phase, third of it, and load."""
    groups: dict[tuple[str, int, str], list[Needed]] = {}
    for one in needed:
        groups.setdefault((one.phase, _third(one), one.load), []).append(one)
    return groups


def _third(one: Needed) -> int:
    return min(2, int(3 * one.share))


# --- A stopped server, and cut logs


def falls_while_stopped(recording: Recording) -> list[str]:
    """Returns where the time left fell although the server was stopped."""
    if recording.stopped is None:
        return []
    begin_s, end_s = recording.stopped
    last: tuple[float, float] | None = None
    falls = []
    for moment in moments(recording, 0.25):
        left = moment.progress.left_s
        if not begin_s + 0.5 <= moment.at_s < end_s or left is None:
            continue
        now = (left.most_s if left.about_s is None else left.about_s, left.most_s)
        if last is not None and (now[0] < last[0] - 0.01 or now[1] < last[1] - 0.01):
            falls.append(f"{recording.name}: {last[0]:.2f} to {now[0]:.2f} s at {moment.at_s:.1f} s")
        last = now
    return falls


def shows_time_while_stopped(recording: Recording) -> bool:
    """Returns whether any time left was shown while the server was stopped, so that it could have fallen."""
    return recording.stopped is not None and any(
        moment.progress.left_s is not None
        for moment in moments(recording, 0.25)
        if recording.stopped[0] + 0.5 <= moment.at_s < recording.stopped[1]
    )


def wrong_phases_of_cuts(recordings: Sequence[Recording], count: int = 200, seed: int = 1) -> list[str]:
    """Cuts logs at random lines, some within a line, and returns where the phase shown differs from that of the whole
    log."""
    rng, wrong = random.Random(seed), []  # noqa: S311
    for _ in range(count):
        recording = rng.choice(recordings)
        lines = [(at_s, text) for at_s, text, complete in recording.lines if complete]
        cut = rng.randrange(1, len(lines) + 1)
        whole = StartProgress()
        for at_s, text in lines:
            whole.add_line(text, at_s)
        part = StartProgress()
        for at_s, text in lines[:cut]:
            part.add_line(text, at_s)
        now_s = lines[cut - 1][0]
        if cut < len(lines) and rng.random() < 0.5:
            text = lines[cut][1]
            part.add_line(text[: rng.randrange(len(text) + 1)], now_s, complete=False)
        shown = part.progress(now_s)
        if whole.ready_s is None or now_s >= whole.ready_s or shown.phase is None:
            continue
        # The last line of several that arrived together has opened the phase.
        following = next((at_s for at_s, _ in lines[cut:] if at_s > now_s), whole.ready_s)
        middle_s = (now_s + following) / 2
        if cut < len(lines) and lines[cut][0] == now_s:
            continue
        truths = {
            part_of
            for phase in whole.tracker.phases(whole.ready_s)
            if phase.start_s <= middle_s <= phase.end_s
            for part_of in phase.name.split(JOIN)
        }
        names = {UNNAMED if name == PAGE_FLUSH else name for name in shown.phase.split(JOIN)}
        if not names & truths:
            wrong.append(f"{recording.name}, line {cut}: {shown.phase} instead of {', '.join(sorted(truths))}")
    return wrong
