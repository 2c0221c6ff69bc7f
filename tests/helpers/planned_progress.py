"""The progress of a planned session, as tests move it on."""

from __future__ import annotations

from dataclasses import replace

from request_parts import make_plan
from sessions import seconds

from recovery.linux.storage import NO_SPACE
from recovery.logs.phases import CurrentPhase
from recovery.model import (
    Cache,
    Run,
    Schema,
    Trial,
    Verdict,
    parse_version,
    startup_specs,
)
from recovery.session.plan import DatadirSpec, Plan, PlannedDatadir, build_variants
from recovery.session.progress import (
    Progress,
    ProgressSnapshot,
)

VERSIONS = [parse_version("5.7.22"), parse_version("8.0.31")]


GUESS = {("5.7.22", "cold"): 50.0, ("5.7.22", "warm"): 20.0, ("8.0.31", "cold"): 60.0, ("8.0.31", "warm"): 30.0}


NEW = Progress(
    experiment="crash-recovery",
    versions=("5.7",),
    command="recovery crash-recovery",
    results="/results",
    began_s=1000.0,
    started_at="2026-01-01T00:00:00+00:00",
    pid=7,
    owner="mark",
)


def plan(runs: int = 2) -> Plan:
    return make_plan(VERSIONS, build_variants(startup_specs((Cache.COLD, Cache.WARM))), repeats=runs, alternating=True)


def trials(runs: int = 2) -> tuple[Trial, ...]:
    return plan(runs).trials


BUILDS = (("5.7.22: 9 tables", 100.0), ("8.0.31: 9 tables", 300.0))


DATADIRS = tuple(
    PlannedDatadir(DatadirSpec(version), Schema(9), {}, "", whole=False, size=NO_SPACE, need=NO_SPACE, build_s=seconds)
    for version, (_, seconds) in zip(VERSIONS, BUILDS, strict=True)
)


PLANNED = NEW.planned(0.0, replace(plan(), datadirs=DATADIRS, trial_s=GUESS))


def run_of(trial: Trial, startup_s: float | None = 40.0, verdict: Verdict = Verdict.MEASURED) -> Run:
    version = str(trial.version)
    return Run(
        trial.number,
        version,
        "mysql",
        trial.variant.name,
        trial.repeat,
        verdict,
        metrics=seconds(startup_s),
    )


def after(progress: Progress, *took_s: float) -> Progress:
    for trial, took in zip(trials(), took_s, strict=False):
        progress = progress.trial_began(2000.0, trial).trial_ended(2000.0 + took, run_of(trial, took / 2))
    return progress


def at(progress: Progress, now_s: float, phase: CurrentPhase | None = None) -> ProgressSnapshot:
    return progress.snapshot(now_s, written_at="2026-01-01T00:01:00+00:00", phase=phase)
