"""Where does a session stand? One frozen state, and what each event makes of it. Pure: every moment is given to it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from glob import escape
from pathlib import Path
from statistics import fmean

from pydantic import TypeAdapter

from recovery.analysis.summary import value_of
from recovery.linux.files import parse_json, read_strange
from recovery.model import STARTUP, Run, Trial, Verdict
from recovery.mysqld.phases import Standing


class Stage(StrEnum):
    PREPARING = "preparing"
    BUILDING = "building"
    MEASURING = "measuring"
    ENDED = "ended"


class Status(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    ABORTED = "aborted"
    KILLED = "killed"
    """As only a reader of what it left can tell."""


@dataclass(frozen=True)
class Ahead:
    """What was planned, and how long each part of it may take, at a guess."""

    trials: tuple[Trial, ...]
    trial_s: Mapping[tuple[str, str], float]
    """By version and variant."""
    builds: tuple[tuple[str, float], ...] = ()
    """Title and seconds of each data directory that is still to be made."""


@dataclass(frozen=True)
class Building:
    title: str
    began_s: float
    expected_s: float | None = None
    done: int | None = None
    total: int | None = None
    first: tuple[int, float] | None = None
    """What was done at the first report of it, and when: an interrupted build goes on where it stopped."""
    at_s: float | None = None
    """When `done` was told."""

    @property
    def rate_per_s(self) -> float | None:
        if self.first is None or self.done is None or self.at_s is None:
            return None
        done, at_s = self.first
        return (self.done - done) / (self.at_s - at_s) if self.done > done and self.at_s > at_s else None

    def left_s(self, now_s: float) -> float | None:
        if self.rate_per_s and self.total is not None and self.done is not None and self.at_s is not None:
            return max(0.0, (self.total - self.done) / self.rate_per_s - (now_s - self.at_s))
        return None if self.expected_s is None else max(0.0, self.expected_s - (now_s - self.began_s))


@dataclass(frozen=True)
class Step:
    """What is being done with the server, in words."""

    words: str
    began_s: float


@dataclass(frozen=True)
class Ended:
    """A trial that is over."""

    number: int
    version: str
    variant: str
    verdict: Verdict
    value: float | None
    """Of what its variant is about: seconds of a start, queries a second."""
    took_s: float | None
    """The whole of it: inserts, flush, count and shutdown around the timed start. None where that was before this
    process began."""


@dataclass(frozen=True)
class Cell:
    """A version in a variant: what its runs have come to so far."""

    version: str
    variant: str
    planned: int
    ended: int
    mean_s: float | None = None
    """Where starts are timed; what other sessions are about is in the two below."""
    last_s: float | None = None
    failed: int = 0
    void: int = 0
    mean: float | None = None
    last: float | None = None
    figure: str | None = None
    """What these are of, where it is not what the session is about."""


@dataclass(frozen=True)
class Progress:
    scenario: str
    versions: tuple[str, ...]
    command: str
    results: str
    """The folder of the session, or, before there is one, of all sessions."""
    began_s: float
    started_at: str
    """Wall clock, UTC."""
    figure: str = STARTUP
    """What the session is about."""
    status: Status = Status.RUNNING
    ahead: Ahead | None = None
    builds: tuple[tuple[str, float], ...] = ()
    """Those that have not begun."""
    building: Building | None = None
    trial: Trial | None = None
    trial_began_s: float | None = None
    trial_expected_s: float = 0.0
    later_s: float = 0.0
    """For the trials that have not begun."""
    step: Step | None = None
    ended: tuple[Ended, ...] = ()
    cells: tuple[Cell, ...] = ()
    """Those that have a result, in the order of the plan."""

    # -- what each event makes of it

    def planned(self, ahead: Ahead) -> Progress:
        versions = tuple(dict.fromkeys(str(trial.version) for trial in ahead.trials))
        return replace(self, ahead=ahead, builds=ahead.builds, versions=versions, step=None)._foreseen(0)

    def gone_on(self, runs: Iterable[Run]) -> Progress:
        """These had ended before this process began."""
        known = [(run, value_of(run, self.figure_of(run.variant))) for run in runs]
        ended = tuple(Ended(run.number, run.version, run.variant, run.verdict, value, None) for run, value in known)
        begun = replace(self, ended=ended)
        return replace(begun, cells=tuple(begun._cells()))._foreseen(0)

    def keeping_in(self, folder: str) -> Progress:
        return replace(self, results=folder)

    def build_began(self, title: str, now_s: float) -> Progress:
        expected_s = next((seconds for name, seconds in self.builds if name == title), None)
        at = next((number for number, (name, _) in enumerate(self.builds) if name == title), len(self.builds))
        left = self.builds[:at] + self.builds[at + 1 :]
        return replace(self, building=Building(title, now_s, expected_s), builds=left, step=None)

    def built(self, done: int, total: int, now_s: float) -> Progress:
        if self.building is None:
            return self
        first = self.building.first or (done, now_s)
        return replace(self, building=replace(self.building, done=done, total=total, first=first, at_s=now_s))

    def build_ended(self) -> Progress:
        return replace(self, building=None, step=None)

    def trial_began(self, trial: Trial, now_s: float) -> Progress:
        expected_s = self._trial_s(trial)
        begun = replace(self, trial=trial, trial_began_s=now_s, trial_expected_s=expected_s, step=None)
        return begun._foreseen(trial.number)

    def doing(self, words: str, now_s: float) -> Progress:
        return replace(self, step=Step(words, now_s))

    def trial_ended(self, run: Run, now_s: float) -> Progress:
        began_s = now_s if self.trial_began_s is None else self.trial_began_s
        value = value_of(run, self.figure_of(run.variant))
        ended = Ended(run.number, run.version, run.variant, run.verdict, value, now_s - began_s)
        known = replace(self, trial=None, trial_began_s=None, step=None, ended=(*self.ended, ended))
        return replace(known, cells=tuple(known._cells()))._foreseen(run.number)

    def over(self, status: Status) -> Progress:
        return replace(self, status=status, building=None, trial=None, trial_began_s=None, step=None)

    # -- what follows from it

    def figure_of(self, variant: str) -> str:
        return self._own_figure(variant) or self.figure

    def _own_figure(self, variant: str) -> str | None:
        trials = self.ahead.trials if self.ahead else ()
        return next((trial.variant.figure for trial in trials if trial.variant.name == variant), None)

    @property
    def stage(self) -> Stage:
        if self.status is not Status.RUNNING:
            return Stage.ENDED
        if self.building is not None:
            return Stage.BUILDING
        return Stage.MEASURING if self.trial is not None or self.ended else Stage.PREPARING

    def left_s(self, now_s: float) -> float | None:
        """By the rate of the build that goes on, by the trials of the same version and variant that have ended, and by
        a guess where there are none yet. None until the plan is known."""
        if self.ahead is None or self.status is not Status.RUNNING:
            return None
        left_s = self.later_s
        if self.trial_began_s is not None:
            left_s += max(0.0, self.trial_expected_s - (now_s - self.trial_began_s))
        if self.building is not None:
            left_s += self.building.left_s(now_s) or 0.0
        return left_s + sum(seconds for _, seconds in self.builds)

    def _foreseen(self, begun: int) -> Progress:
        """Summed up when something has changed: it is asked for several times a second, beside timed starts."""
        ended = {one.number for one in self.ended}
        later = [one for one in self.ahead.trials[begun:] if one.number not in ended] if self.ahead else []
        return replace(self, later_s=sum(map(self._trial_s, later)))

    def _cells(self) -> Iterator[Cell]:
        names = [(str(trial.version), trial.variant.name) for trial in self.ahead.trials] if self.ahead else []
        for version, variant in dict.fromkeys(names):
            ended = [one for one in self.ended if (one.version, one.variant) == (version, variant)]
            measured = [one for one in ended if one.verdict is Verdict.MEASURED]
            values = [one.value for one in measured if one.value is not None]
            mean, last = (fmean(values), values[-1]) if values else (None, None)
            starts = self.figure == STARTUP
            if ended:
                yield Cell(
                    version,
                    variant,
                    planned=names.count((version, variant)),
                    ended=len(ended),
                    mean_s=mean if starts else None,
                    last_s=last if starts else None,
                    mean=mean,
                    last=last,
                    failed=sum(one.verdict is Verdict.FAILED for one in ended),
                    void=sum(one.verdict is Verdict.VOID for one in ended),
                    figure=self._own_figure(variant),
                )

    def _trial_s(self, trial: Trial) -> float:
        cell = (str(trial.version), trial.variant.name)
        alike = [one for one in self.ended if (one.version, one.variant) == cell and one.verdict.as_asked]
        took = [one.took_s for one in alike if one.took_s is not None]
        if took:
            return fmean(took)
        return self.ahead.trial_s.get(cell, 0.0) if self.ahead else 0.0


# Where is a session at this moment? What is drawn, told, and left for `recovery status` is one and the same.

FORMAT = 1


@dataclass(frozen=True)
class BuildProgress:
    title: str
    elapsed_s: float
    done: int | None = None
    total: int | None = None
    """Statements; None before the first of them."""
    rate_per_s: float | None = None
    left_s: float | None = None


@dataclass(frozen=True)
class TrialProgress:
    number: int
    version: str
    variant: str
    repeat: int
    elapsed_s: float


@dataclass(frozen=True)
class Whereabouts:
    scenario: str
    versions: tuple[str, ...]
    command: str
    pid: int
    owner: str
    """The process' mark, which no other one ever has."""
    started_at: str
    written_at: str
    results: str
    status: Status
    stage: Stage
    planned_runs: int | None
    """None until the plan is known."""
    elapsed_s: float
    left_s: float | None = None
    build: BuildProgress | None = None
    trial: TrialProgress | None = None
    step: str | None = None
    """What is being done with the server."""
    step_s: float | None = None
    phase: str | None = None
    """Of a start under way, as the log shows it at this moment."""
    phase_s: float | None = None
    told: str | None = None
    """How far that is, in the server's own words."""
    cells: tuple[Cell, ...] = ()
    figure: str = STARTUP
    """What the means of the cells are of."""

    @property
    def what(self) -> tuple[object, ...]:
        """It is another stage when this differs."""
        return (self.status, self.stage, self.build and self.build.title, self.trial and self.trial.number, self.step)


@dataclass(frozen=True)
class Writer:
    """Who says so, and when by the wall clock."""

    pid: int
    owner: str
    written_at: str


def whereabouts(progress: Progress, now_s: float, *, by: Writer, standing: Standing | None = None) -> Whereabouts:
    trial, step = progress.trial, progress.step
    return Whereabouts(
        scenario=progress.scenario,
        versions=progress.versions,
        command=progress.command,
        pid=by.pid,
        owner=by.owner,
        started_at=progress.started_at,
        written_at=by.written_at,
        results=progress.results,
        status=progress.status,
        stage=progress.stage,
        planned_runs=len(progress.ahead.trials) if progress.ahead else None,
        elapsed_s=_rounded(now_s - progress.began_s),
        left_s=_maybe(progress.left_s(now_s)),
        build=_build(progress.building, now_s) if progress.building else None,
        trial=None
        if trial is None
        else TrialProgress(
            trial.number,
            str(trial.version),
            trial.variant.name,
            trial.repeat,
            _rounded(now_s - (progress.trial_began_s or now_s)),
        ),
        step=step.words if step else None,
        step_s=_rounded(now_s - step.began_s) if step else None,
        phase=standing.phase if standing and step else None,
        phase_s=_rounded(now_s - standing.since_s) if standing and step else None,
        told=standing.told if standing and step else None,
        cells=progress.cells,
        figure=progress.figure,
    )


def _build(building: Building, now_s: float) -> BuildProgress:
    return BuildProgress(
        title=building.title,
        elapsed_s=_rounded(now_s - building.began_s),
        done=building.done,
        total=building.total,
        rate_per_s=_maybe(building.rate_per_s),
        left_s=_maybe(building.left_s(now_s)),
    )


def _rounded(seconds: float) -> float:
    return round(max(0.0, seconds), 1)


def _maybe(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


_WHEREABOUTS = TypeAdapter(Whereabouts)


def to_json(found: Whereabouts) -> str:
    return json.dumps({"format": FORMAT, **_WHEREABOUTS.dump_python(found, mode="json")}, ensure_ascii=False) + "\n"


def from_json(text: str) -> Whereabouts | None:
    """None where nobody could have written it who writes this format."""
    try:
        stored = parse_json(text)
        if not isinstance(stored, dict) or stored.pop("format", None) != FORMAT:
            return None
        return _WHEREABOUTS.validate_python(stored)
    except ValueError:
        return None


# Where does a session leave word of itself? Beside the lock that it holds: each user in a file of their own.

_MOST_BYTES = 1 << 20


def status_path(lock: Path) -> Path:
    """With the user's number in it: in a folder for everybody nobody may replace a file of somebody else's."""
    return lock.with_name(f"{lock.name}.{os.geteuid()}.status")


def write(path: Path, text: str) -> None:
    """The old one or the new one is there, never half of one; for its owner alone. Nothing waits for the disk, and
    where it cannot be written nothing is lost but the answer to who asks."""
    draft = path.with_name(f".{path.name}")
    with suppress(OSError):
        draft.unlink(missing_ok=True)
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, text.encode("utf-8", errors="replace"))
        finally:
            os.close(file)
        draft.replace(path)


def left_beside(lock: Path) -> Iterator[str]:
    """What sessions have left that this user may read: one's own, and to root everybody's."""
    for path in sorted(lock.parent.glob(f"{escape(lock.name)}.*.status")):
        with suppress(OSError):
            text = _read(path)
            if text is not None:
                yield text


def _read(path: Path) -> str | None:
    """None where it is not that user's whose number it bears."""
    found = read_strange(path, _MOST_BYTES)
    if found is None or not path.name.endswith(f".{found[1]}.status"):
        return None
    return found[0].decode("utf-8", errors="replace")
