"""Tracks the progress of a session, estimates the remaining time, and stores snapshots for `recovery status`.

The progress is a frozen state, and each event returns a new one. No function reads a clock: every time is passed in,
in seconds of the monotonic clock unless stated otherwise."""

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

from recovery.analysis.summary import run_value
from recovery.linux.files import parse_json, read_untrusted
from recovery.model import STARTUP_FIGURE, Run, Trial, Verdict
from recovery.mysqld.phases import CurrentPhase


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
    """Set by the reader of a status file, never by the session itself."""


@dataclass(frozen=True)
class SessionEstimate:
    """Describes the planned trials and builds of a session, each with a rough estimate of its duration."""

    trials: tuple[Trial, ...]
    trial_s: Mapping[tuple[str, str], float]
    """Estimated duration of a trial, by version and variant."""
    builds: tuple[tuple[str, float], ...] = ()
    """Title and estimated seconds of each data directory that is still to be built."""


@dataclass(frozen=True)
class BuildState:
    """Describes the build of a data directory that is under way."""

    title: str
    began_s: float
    expected_s: float | None = None
    done: int | None = None
    total: int | None = None
    first: tuple[int, float] | None = None
    """Statements done at the first report, and its time. A resumed build does not start at 0."""
    at_s: float | None = None
    """Time of the report that `done` is from."""

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
class CurrentStep:
    """Describes the current step with the server in words."""

    words: str
    began_s: float


@dataclass(frozen=True)
class EndedTrial:
    """Describes a trial that has ended."""

    number: int
    version: str
    variant: str
    verdict: Verdict
    value: float | None
    """Value of the variant's figure: seconds of a start, queries per second."""
    took_s: float | None
    """Duration of the whole trial, with inserts, flush, count and shutdown around the timed start. None if the trial
    ended before this process began."""


@dataclass(frozen=True)
class CellSummary:
    """Summarises the runs of one version in one variant so far."""

    version: str
    variant: str
    planned: int
    ended: int
    mean_s: float | None = None
    """Mean startup time, None unless the session times starts. `mean` holds the mean of any figure."""
    last_s: float | None = None
    failed: int = 0
    void: int = 0
    mean: float | None = None
    last: float | None = None
    figure: str | None = None
    """Figure of `mean` and `last`. None: the figure of the session."""


@dataclass(frozen=True)
class Progress:
    """Holds the state of a session; each event method returns the next state."""

    scenario: str
    versions: tuple[str, ...]
    command: str
    results: str
    """Folder of the session, or the folder of all sessions until that exists."""
    began_s: float
    started_at: str
    """Wall-clock time, UTC."""
    figure: str = STARTUP_FIGURE
    """Figure that the session measures."""
    status: Status = Status.RUNNING
    ahead: SessionEstimate | None = None
    builds: tuple[tuple[str, float], ...] = ()
    """Title and estimated seconds of the builds that have not begun."""
    building: BuildState | None = None
    trial: Trial | None = None
    trial_began_s: float | None = None
    trial_expected_s: float = 0.0
    later_s: float = 0.0
    """Estimated seconds for the trials that have not begun."""
    step: CurrentStep | None = None
    ended: tuple[EndedTrial, ...] = ()
    cells: tuple[CellSummary, ...] = ()
    """Cells with at least one ended run, in the order of the plan."""

    # -- events

    def planned(self, ahead: SessionEstimate) -> Progress:
        versions = tuple(dict.fromkeys(str(trial.version) for trial in ahead.trials))
        return replace(self, ahead=ahead, builds=ahead.builds, versions=versions, step=None)._foreseen(0)

    def gone_on(self, runs: Iterable[Run]) -> Progress:
        """Adds the runs that had ended before this process began."""
        known = [(run, run_value(run, self.figure_of(run.variant))) for run in runs]
        ended = tuple(
            EndedTrial(run.number, run.version, run.variant, run.verdict, value, None) for run, value in known
        )
        begun = replace(self, ended=ended)
        return replace(begun, cells=tuple(begun._cells()))._foreseen(0)

    def keeping_in(self, folder: str) -> Progress:
        return replace(self, results=folder)

    def build_began(self, title: str, now_s: float) -> Progress:
        expected_s = next((seconds for name, seconds in self.builds if name == title), None)
        at = next((number for number, (name, _) in enumerate(self.builds) if name == title), len(self.builds))
        left = self.builds[:at] + self.builds[at + 1 :]
        return replace(self, building=BuildState(title, now_s, expected_s), builds=left, step=None)

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
        return replace(self, step=CurrentStep(words, now_s))

    def trial_ended(self, run: Run, now_s: float) -> Progress:
        began_s = now_s if self.trial_began_s is None else self.trial_began_s
        value = run_value(run, self.figure_of(run.variant))
        ended = EndedTrial(run.number, run.version, run.variant, run.verdict, value, now_s - began_s)
        known = replace(self, trial=None, trial_began_s=None, step=None, ended=(*self.ended, ended))
        return replace(known, cells=tuple(known._cells()))._foreseen(run.number)

    def over(self, status: Status) -> Progress:
        return replace(self, status=status, building=None, trial=None, trial_began_s=None, step=None)

    # -- derived values

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
        """Returns the estimated seconds until the session ends; None if it has ended or its plan is not known yet.

        A build under way is estimated by its rate, a trial by the ended trials of the same version and variant, or
        roughly in advance if there are none yet."""
        if self.ahead is None or self.status is not Status.RUNNING:
            return None
        left_s = self.later_s
        if self.trial_began_s is not None:
            left_s += max(0.0, self.trial_expected_s - (now_s - self.trial_began_s))
        if self.building is not None:
            left_s += self.building.left_s(now_s) or 0.0
        return left_s + sum(seconds for _, seconds in self.builds)

    def _foreseen(self, begun: int) -> Progress:
        """Returns the state with a new estimate for the trials after number `begun`.

        It is computed only when something has changed, because `left_s` is called several times a second while starts
        are timed."""
        ended = {one.number for one in self.ended}
        later = [one for one in self.ahead.trials[begun:] if one.number not in ended] if self.ahead else []
        return replace(self, later_s=sum(map(self._trial_s, later)))

    def _cells(self) -> Iterator[CellSummary]:
        names = [(str(trial.version), trial.variant.name) for trial in self.ahead.trials] if self.ahead else []
        for version, variant in dict.fromkeys(names):
            ended = [one for one in self.ended if (one.version, one.variant) == (version, variant)]
            measured = [one for one in ended if one.verdict is Verdict.MEASURED]
            values = [one.value for one in measured if one.value is not None]
            mean, last = (fmean(values), values[-1]) if values else (None, None)
            starts = self.figure == STARTUP_FIGURE
            if ended:
                yield CellSummary(
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


# --- Snapshots: the screen, the plain output and the status file for `recovery status` show the same one

FORMAT = 1


@dataclass(frozen=True)
class BuildProgress:
    """Describes, in a snapshot, the build of a data directory that is under way."""

    title: str
    elapsed_s: float
    done: int | None = None
    total: int | None = None
    """Number of statements. None before the first report."""
    rate_per_s: float | None = None
    left_s: float | None = None


@dataclass(frozen=True)
class TrialProgress:
    """Describes, in a snapshot, the trial that is under way."""

    number: int
    version: str
    variant: str
    repeat: int
    elapsed_s: float


@dataclass(frozen=True)
class ProgressSnapshot:
    """Holds a snapshot of a session's progress, as it is shown and stored."""

    scenario: str
    versions: tuple[str, ...]
    command: str
    pid: int
    owner: str
    """Identifier of the process, which is never used again, unlike its pid."""
    started_at: str
    written_at: str
    results: str
    status: Status
    stage: Stage
    planned_runs: int | None
    """Number of planned runs. None until the plan is known."""
    elapsed_s: float
    left_s: float | None = None
    build: BuildProgress | None = None
    trial: TrialProgress | None = None
    step: str | None = None
    """Current step with the server, in words."""
    step_s: float | None = None
    phase: str | None = None
    """Phase of the start under way, as the server's log shows it at this time."""
    phase_s: float | None = None
    told: str | None = None
    """Progress within the phase, as the server's log words it."""
    cells: tuple[CellSummary, ...] = ()
    figure: str = STARTUP_FIGURE
    """Figure of the session, to which the means of the cells belong by default."""

    @property
    def what(self) -> tuple[object, ...]:
        """Returns a key that changes with the status, stage, build, trial or step."""
        return (self.status, self.stage, self.build and self.build.title, self.trial and self.trial.number, self.step)


@dataclass(frozen=True)
class SnapshotWriter:
    """Identifies the process that takes a snapshot, and the wall-clock time at which it does."""

    pid: int
    owner: str
    written_at: str


def take_snapshot(
    progress: Progress, now_s: float, *, by: SnapshotWriter, standing: CurrentPhase | None = None
) -> ProgressSnapshot:
    trial, step = progress.trial, progress.step
    return ProgressSnapshot(
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
        left_s=_rounded_or_none(progress.left_s(now_s)),
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
        told=standing.progress if standing and step else None,
        cells=progress.cells,
        figure=progress.figure,
    )


def _build(building: BuildState, now_s: float) -> BuildProgress:
    return BuildProgress(
        title=building.title,
        elapsed_s=_rounded(now_s - building.began_s),
        done=building.done,
        total=building.total,
        rate_per_s=_rounded_or_none(building.rate_per_s),
        left_s=_rounded_or_none(building.left_s(now_s)),
    )


def _rounded(seconds: float) -> float:
    return round(max(0.0, seconds), 1)


def _rounded_or_none(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


_SNAPSHOT_ADAPTER = TypeAdapter(ProgressSnapshot)


def to_json(found: ProgressSnapshot) -> str:
    return (
        json.dumps({"format": FORMAT, **_SNAPSHOT_ADAPTER.dump_python(found, mode="json")}, ensure_ascii=False) + "\n"
    )


def from_json(text: str) -> ProgressSnapshot | None:
    """Parses a snapshot; returns None if the text is not in this format."""
    try:
        stored = parse_json(text)
        if not isinstance(stored, dict) or stored.pop("format", None) != FORMAT:
            return None
        return _SNAPSHOT_ADAPTER.validate_python(stored)
    except ValueError:
        return None


# --- The status file: one per user, next to the host lock that the session holds

_MAX_BYTES = 1 << 20


def status_path(lock: Path) -> Path:
    """Returns the path with the user's number: in a folder for everybody, a user cannot replace another user's file."""
    return lock.with_name(f"{lock.name}.{os.geteuid()}.status")


def write_status_file(path: Path, text: str) -> None:
    """Replaces the status file atomically, readable by its owner only.

    The write does not wait for the disk, and errors are ignored: they only cost `recovery status` its answer."""
    draft = path.with_name(f".{path.name}")
    with suppress(OSError):
        draft.unlink(missing_ok=True)
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, text.encode("utf-8", errors="replace"))
        finally:
            os.close(file)
        draft.replace(path)


def read_status_files(lock: Path) -> Iterator[str]:
    """Yields the status files that this user may read: their own, and for root those of all users."""
    for path in sorted(lock.parent.glob(f"{escape(lock.name)}.*.status")):
        with suppress(OSError):
            text = _read_status_file(path)
            if text is not None:
                yield text


def _read_status_file(path: Path) -> str | None:
    """Returns the text, or None if the file does not belong to the user number in its name."""
    found = read_untrusted(path, _MAX_BYTES)
    if found is None or not path.name.endswith(f".{found[1]}.status"):
        return None
    return found[0].decode("utf-8", errors="replace")
