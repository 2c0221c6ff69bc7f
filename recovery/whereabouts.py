"""Where is a session at this moment? What is drawn, told, and left for `recovery status` is one and the same."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pydantic import TypeAdapter

from recovery.progress import Building, Cell, Progress, Stage, Standing, Status
from recovery.readback import parse_json
from recovery.stored import STARTUP

FORMAT = 1


@dataclass(frozen=True)
class Build:
    title: str
    elapsed_s: float
    done: int | None = None
    total: int | None = None
    """Statements; None before the first of them."""
    rate_per_s: float | None = None
    left_s: float | None = None


@dataclass(frozen=True)
class Trial:
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
    build: Build | None = None
    trial: Trial | None = None
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
        else Trial(
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


def _build(building: Building, now_s: float) -> Build:
    return Build(
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
