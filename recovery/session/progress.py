"""Tracks the progress of a session, estimates the remaining time, and stores snapshots for `recovery status`.

The progress is a frozen state, and each event, which is a method of it, returns a new one. No function reads a clock:
every time is passed in, in seconds of the monotonic clock unless stated otherwise."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from glob import escape
from pathlib import Path
from statistics import fmean
from typing import Protocol, TypeVarTuple

from pydantic import TypeAdapter

from recovery.analysis.summary import metric_value
from recovery.linux.files import open_descriptor, parse_json, read_untrusted
from recovery.logs.phases import CurrentPhase
from recovery.model import STARTUP_METRIC, ExtraRun, Run, Status, Trial, Verdict
from recovery.session.plan import Plan


class Stage(StrEnum):
    PREPARING = "preparing"
    BUILDING = "building"
    MEASURING = "measuring"
    ENDED = "ended"


@dataclass(frozen=True)
class CellSummary:
    """Summarises the runs of one version in one variant so far."""

    version: str
    variant: str
    planned: int
    ended: int
    failed: int = 0
    void: int = 0
    mean: float | None = None
    last: float | None = None
    metric: str | None = None
    """Metric of `mean` and `last`. None: that of the session."""


@dataclass(frozen=True)
class BuildProgress:
    """Describes the build of a data directory that is under way."""

    title: str
    elapsed_s: float = 0.0
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
    extra: str | None = None
    """The purpose of an extra run."""
    of_all: int = 0
    """Number of planned runs of its version and variant that are averaged."""


@dataclass(frozen=True, kw_only=True)
class SessionProgress:
    """Holds what the state of a session and its record have in common."""

    experiment: str
    versions: tuple[str, ...]
    command: str
    pid: int = 0
    owner: str = ""
    """Identifier of the process that runs the session, which is never used again, unlike its pid."""
    started_at: str
    """Wall-clock time, UTC."""
    results: str
    """Folder of the session, or the folder of all sessions until that exists."""
    status: Status = Status.RUNNING
    step: str | None = None
    """Current step with the server, in words."""
    cells: tuple[CellSummary, ...] = ()
    """Cells with at least one ended run, in the order of the plan."""
    metric: str = STARTUP_METRIC
    """Figure of the session, to which the means of the cells belong by default."""


@dataclass(frozen=True, kw_only=True)
class ProgressSnapshot(SessionProgress):
    """Holds the progress of a session at a time: the record that is stored as JSON and displayed."""

    written_at: str
    stage: Stage
    planned_runs: int | None
    """Number of planned runs. None until the plan is known."""
    elapsed_s: float
    left_s: float | None = None
    build: BuildProgress | None = None
    trial: TrialProgress | None = None
    step_s: float | None = None
    phase: str | None = None
    """Phase of the start under way, as the server's log shows it at this time."""
    phase_s: float | None = None
    phase_left_s: float | None = None
    """Time left of this phase, where it can be estimated."""
    told: str | None = None
    """Progress within the phase, as the server's log words it."""

    @property
    def activity(self) -> tuple[object, ...]:
        """Returns a key that changes with the status, stage, build, trial or step."""
        return (self.status, self.stage, self.build and self.build.title, self.trial and self.trial.number, self.step)


@dataclass(frozen=True, kw_only=True)
class Progress(SessionProgress):
    """Holds the state of a session. Each event is a method that takes the time, and returns the next state."""

    began_s: float
    plan: Plan | None = None
    builds: tuple[tuple[str, float], ...] = ()
    """Title and estimated seconds of the builds that have not begun."""
    build: BuildProgress | None = None
    """Build under way, without the times that depend on the time of a snapshot."""
    build_began_s: float = 0.0
    build_end_s: float | None = None
    """Expected end of the build: at first by the estimate, later by its own rate."""
    build_first: tuple[int, float] | None = None
    """Statements done at the first report, and its time. A resumed build does not start at 0."""
    trial: Trial | None = None
    trial_began_s: float = 0.0
    trial_end_s: float = 0.0
    """Expected end of the trial under way."""
    later_s: float = 0.0
    """Estimated seconds for the trials that have not begun."""
    step_began_s: float = 0.0
    ended: tuple[Run, ...] = ()
    took_s: Mapping[int, float] = field(default_factory=dict)
    """Duration of each trial that ended in this process, with all that is around the timed start, by its number."""

    # -- events

    def planned(self, _: float, plan: Plan) -> Progress:
        versions = tuple(map(str, plan.measured_versions))
        builds = tuple((datadir.title, seconds) for datadir, seconds in plan.builds)
        return replace(self, plan=plan, builds=builds, versions=versions, step=None)._with_later_s(0)

    def runs_of(self, version: str, variant: str) -> int:
        """Returns the planned number of runs of a cell, without extra runs."""
        trials = self.plan.trials if self.plan else ()
        cell = (version, variant)
        return sum((str(one.version), one.variant.name) == cell and one.extra is None for one in trials)

    def resumed_with(self, _: float, runs: Iterable[Run]) -> Progress:
        """Adds the runs that had ended before this process began."""
        return replace(self, ended=tuple(runs))._with_cells()._with_later_s(0)

    def set_session_folder(self, _: float, folder: Path) -> Progress:
        return replace(self, results=str(folder))

    def build_began(self, now_s: float, title: str) -> Progress:
        at = next((number for number, (name, _) in enumerate(self.builds) if name == title), len(self.builds))
        end_s = now_s + self.builds[at][1] if at < len(self.builds) else None
        return replace(
            self,
            builds=self.builds[:at] + self.builds[at + 1 :],
            build=BuildProgress(title),
            build_began_s=now_s,
            build_end_s=end_s,
            build_first=None,
            step=None,
        )

    def built(self, now_s: float, done: int, total: int) -> Progress:
        if self.build is None:
            return self
        first_done, first_s = first = self.build_first or (done, now_s)
        rate, end_s = None, self.build_end_s
        if done > first_done and now_s > first_s:
            rate = (done - first_done) / (now_s - first_s)
            end_s = now_s + (total - done) / rate
        build = replace(self.build, done=done, total=total, rate_per_s=rate)
        return replace(self, build=build, build_end_s=end_s, build_first=first)

    def build_ended(self, _: float) -> Progress:
        return replace(self, build=None, step=None)

    def trials_left_out(self, _: float, numbers: Container[int]) -> Progress:
        if self.plan is None:
            return self
        kept = tuple(trial for trial in self.plan.trials if trial.number not in numbers)
        return replace(self, plan=replace(self.plan, trials=kept))._with_cells()._with_later_s(0)

    def trial_began(self, now_s: float, trial: Trial) -> Progress:
        begun = replace(self, trial=trial, trial_began_s=now_s, trial_end_s=now_s + self._expected_s(trial), step=None)
        return begun._with_later_s(trial.number)

    def doing(self, now_s: float, step: str) -> Progress:
        return replace(self, step=step, step_began_s=now_s)

    def trial_ended(self, now_s: float, run: Run) -> Progress:
        took_s = 0.0 if self.trial is None else now_s - self.trial_began_s
        ended = replace(
            self, trial=None, step=None, ended=(*self.ended, run), took_s={**self.took_s, run.number: took_s}
        )
        return ended._with_cells()._with_later_s(run.number)

    def finished(self, _: float, status: Status) -> Progress:
        return replace(self, status=status, build=None, trial=None, step=None)

    # -- derived values

    def metric_of(self, variant: str) -> str:
        return self._own_metric(variant) or self.metric

    def _own_metric(self, variant: str) -> str | None:
        trials = self.plan.trials if self.plan else ()
        return next((trial.variant.metric for trial in trials if trial.variant.name == variant), None)

    @property
    def stage(self) -> Stage:
        if self.status is not Status.RUNNING:
            return Stage.ENDED
        if self.build is not None:
            return Stage.BUILDING
        return Stage.MEASURING if self.trial is not None or self.ended else Stage.PREPARING

    def left_s(self, now_s: float) -> float | None:
        """Returns the estimated seconds until the session ends; None if it has ended or its plan is not known yet.

        A build under way is estimated by its rate, a trial by the ended trials of the same version and variant, or
        roughly in advance if there are none yet."""
        if self.plan is None or self.status is not Status.RUNNING:
            return None
        left_s = self.later_s + sum(seconds for _, seconds in self.builds)
        if self.trial is not None:
            left_s += max(0.0, self.trial_end_s - now_s)
        return left_s + (self._build_left_s(now_s) or 0.0)

    def _build_left_s(self, now_s: float) -> float | None:
        if self.build is None or self.build_end_s is None:
            return None
        return max(0.0, self.build_end_s - now_s)

    def _with_later_s(self, begun: int) -> Progress:
        """Returns the state with a new estimate for the trials after number `begun`.

        It is computed only when something has changed, because `left_s` is called several times a second while starts
        are timed."""
        ended = {run.number for run in self.ended}
        planned = self.plan.trials if self.plan else ()
        later = [trial for trial in planned if trial.number > begun and trial.number not in ended]
        return replace(self, later_s=sum(map(self._expected_s, later)))

    def _expected_s(self, trial: Trial) -> float:
        cell = (str(trial.version), trial.variant.name)
        alike = [run for run in self.ended if (run.version, run.variant) == cell and run.verdict.as_asked]
        # A first read may take twice as long as all later starts.
        alike = [run for run in alike if run.extra is not ExtraRun.FIRST_READ] or alike
        took = [self.took_s[run.number] for run in alike if run.number in self.took_s]
        if took:
            return fmean(took)
        return self.plan.trial_s.get(cell, 0.0) if self.plan else 0.0

    def _with_cells(self) -> Progress:
        names = [(str(trial.version), trial.variant.name) for trial in self.plan.trials] if self.plan else []
        cells = []
        for version, variant in self.plan.cells if self.plan else ():
            ended = [run for run in self.ended if (run.version, run.variant) == (version, variant)]
            metric = self._own_metric(variant)
            measured = (metric_value(run, metric or self.metric) for run in ended if run.verdict is Verdict.MEASURED)
            values = [value for value in measured if value is not None]
            if ended:
                cell = CellSummary(
                    version,
                    variant,
                    planned=names.count((version, variant)),
                    ended=len(ended),
                    failed=sum(run.verdict is Verdict.FAILED for run in ended),
                    void=sum(run.verdict is Verdict.VOID for run in ended),
                    mean=fmean(values) if values else None,
                    last=values[-1] if values else None,
                    metric=metric,
                )
                cells.append(cell)
        return replace(self, cells=tuple(cells))

    # -- the record

    def snapshot(self, now_s: float, *, written_at: str, phase: CurrentPhase | None = None) -> ProgressSnapshot:
        """Returns the record of this state at a time; `phase` is that of the start under way."""
        build, trial = self.build, self.trial
        phase = phase if self.step else None
        return ProgressSnapshot(
            **{common.name: getattr(self, common.name) for common in fields(SessionProgress)},
            written_at=written_at,
            stage=self.stage,
            planned_runs=len(self.plan.trials) if self.plan else None,
            elapsed_s=_elapsed_s(self.began_s, now_s),
            left_s=_rounded(self.left_s(now_s)),
            build=None
            if build is None
            else replace(
                build,
                elapsed_s=_elapsed_s(self.build_began_s, now_s),
                rate_per_s=_rounded(build.rate_per_s),
                left_s=_rounded(self._build_left_s(now_s)),
            ),
            trial=None
            if trial is None
            else TrialProgress(
                trial.number,
                str(trial.version),
                trial.variant.name,
                trial.repeat,
                _elapsed_s(self.trial_began_s, now_s),
                None if trial.extra is None else trial.extra.value,
                self.runs_of(str(trial.version), trial.variant.name),
            ),
            step_s=_elapsed_s(self.step_began_s, now_s) if self.step else None,
            phase=phase.phase if phase else None,
            phase_s=_elapsed_s(phase.since_s, now_s) if phase else None,
            phase_left_s=_rounded(phase.left_s) if phase else None,
            told=phase.progress if phase else None,
        )


def _elapsed_s(since_s: float, now_s: float) -> float:
    return round(max(0.0, now_s - since_s), 1)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


Told = TypeVarTuple("Told")
"""What is told of an event besides its time."""


class ProgressReporter(Protocol):
    """Reports the progress of a session, to the user on stderr and to other processes such as `recovery status`."""

    def say(self, line: str) -> None: ...
    def warn(self, line: str) -> None: ...
    def waiting(self, holder: str) -> AbstractContextManager[None]: ...
    def active(self) -> AbstractContextManager[None]: ...
    def event(self, change: Callable[[Progress, float, *Told], Progress], *told: *Told) -> None:
        """Reports an event, such as `event(Progress.trial_began, trial)`."""

    def follow(self, phase_at: Callable[[float], CurrentPhase]) -> None: ...
    def trial_ended(self, run: Run) -> None: ...


@contextmanager
def report_build(reporter: ProgressReporter, title: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function to call with the numbers of statements done and in total, while a data directory is built."""
    reporter.event(Progress.build_began, title)
    try:
        yield lambda done, total: reporter.event(Progress.built, done, total)
    finally:
        reporter.event(Progress.build_ended)


# --- The stored record: the screen, the plain lines and `recovery status` all show it

FORMAT = 1
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
        with open_descriptor(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW) as file:
            os.write(file, text.encode("utf-8", errors="replace"))
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
