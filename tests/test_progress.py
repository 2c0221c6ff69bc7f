"""Does the state follow the events, and does the time left learn from what was measured?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from recovery.cli.progress_view import live_view
from recovery.model import Cache, Run, Trial, Variant, VariantSpec, Verdict, parse_version, startup_specs
from recovery.mysqld.phases import CurrentPhase
from recovery.session.plan import build_variants, make_plan
from recovery.session.progress import (
    Progress,
    ProgressSnapshot,
    SessionEstimate,
    Stage,
    Status,
    from_json,
    to_json,
)

VERSIONS = [parse_version("5.7.22"), parse_version("8.0.31")]
GUESS = {("5.7.22", "cold"): 50.0, ("5.7.22", "warm"): 20.0, ("8.0.31", "cold"): 60.0, ("8.0.31", "warm"): 30.0}
BUILDS = (("5.7.22: 9 tables", 100.0), ("8.0.31: 9 tables", 300.0))
NEW = Progress(
    "crash-recovery", ("5.7",), "recovery crash-recovery", "/results", 1000.0, "2026-01-01T00:00:00+00:00", 7, "mark"
)


def trials(runs: int = 2) -> tuple[Trial, ...]:
    return make_plan(
        VERSIONS, build_variants(startup_specs((Cache.COLD, Cache.WARM))), repeats=runs, alternating=True
    ).trials


PLANNED = NEW.planned(SessionEstimate(trials(), GUESS, BUILDS))


def run_of(trial: Trial, startup_s: float | None = 40.0, verdict: Verdict = Verdict.MEASURED) -> Run:
    version = str(trial.version)
    return Run(trial.number, version, "mysql", trial.variant.name, trial.repeat, verdict, startup_s=startup_s)


def after(progress: Progress, *took_s: float) -> Progress:
    """So many of the first trials, which took so long."""
    for trial, seconds in zip(trials(), took_s, strict=False):
        progress = progress.trial_began(trial, 2000.0).trial_ended(run_of(trial, seconds / 2), 2000.0 + seconds)
    return progress


def at(progress: Progress, now_s: float, phase: CurrentPhase | None = None) -> ProgressSnapshot:
    return progress.snapshot(now_s, written_at="2026-01-01T00:01:00+00:00", phase=phase)


def test_nothing_is_known_before_the_plan() -> None:
    assert NEW.stage is Stage.PREPARING
    assert NEW.left_s(1001.0) is None
    fetching = NEW.doing("getting the servers", 1000.0)
    assert at(fetching, 1020.0).step == "getting the servers"
    assert fetching.planned(SessionEstimate(trials(), GUESS)).step is None
    assert PLANNED.versions == ("5.7.22", "8.0.31")
    assert PLANNED.left_s(1001.0) == 400 + 2 * 160


def test_a_build_has_a_rate_and_goes_on_where_it_stopped() -> None:
    building = PLANNED.build_began(BUILDS[0][0], 1000.0)
    assert building.stage is Stage.BUILDING
    assert building.left_s(1040.0) == 60 + 300 + 320, "until it has a rate: by the guess"
    building = building.built(500, 1000, 1040.0)
    assert building.build is not None
    assert building.build.rate_per_s is None, "what an earlier session has done tells no rate"
    building = building.built(700, 1000, 1050.0)
    shown = at(building, 1052.0).build
    assert shown is not None
    assert (shown.elapsed_s, shown.rate_per_s, shown.left_s) == (52.0, 20.0, 13.0)
    assert building.left_s(1052.0) == 13 + 300 + 320
    assert building.build_ended().left_s(1060.0) == 300 + 320
    assert building.build_ended().stage is Stage.PREPARING


def test_builds_that_were_not_foreseen_and_some_of_one_name() -> None:
    assert PLANNED.build_began("5.6.24: 9 tables", 1000.0).builds == BUILDS
    twice = replace(PLANNED, builds=(BUILDS[0], BUILDS[0]))
    assert twice.build_began(BUILDS[0][0], 1000.0).builds == (BUILDS[0],)


def test_the_time_left_learns_from_trials_of_the_same_version_and_variant() -> None:
    built = replace(PLANNED, builds=())
    assert after(built, 10.0).left_s(3000.0) == 20 + 60 + 30 + (10 + 20 + 60 + 30)
    assert after(built, 10.0, 5.0).left_s(3000.0) == 60 + 30 + (10 + 5 + 60 + 30)
    fifth = after(built, 10.0, 5.0, 8.0, 4.0).trial_began(trials()[4], 3000.0)
    assert fifth.left_s(3004.0) == 6 + 5 + 8 + 4
    assert fifth.left_s(3099.0) == 5 + 8 + 4, "one that takes longer than the last does not make it negative"


def test_a_trial_that_failed_at_once_teaches_nothing() -> None:
    first = trials()[0]
    failed = PLANNED.trial_began(first, 0.0).trial_ended(run_of(first, None, Verdict.FAILED), 1.0)
    assert failed.left_s(2.0) == 400 + 320 - 50


def test_results_by_version_and_variant() -> None:
    progress = after(PLANNED, 10.0, 6.0, 8.0, 4.0, 20.0)
    last = trials()[5]
    progress = progress.trial_began(last, 0.0).trial_ended(run_of(last, 1.0, Verdict.VOID), 9.0)
    cold, warm, *others = progress.cells
    assert (cold.version, cold.variant, cold.ended, cold.planned) == ("5.7.22", "cold", 2, 2)
    assert (cold.mean, cold.last) == (7.5, 10.0)
    assert (warm.ended, warm.void, warm.mean) == (2, 1, 3.0), "a void run is counted, and in no mean"
    assert [one.version for one in others] == ["8.0.31", "8.0.31"]


def test_a_variant_that_is_about_another_figure_is_shown_by_that() -> None:
    works = (VariantSpec("usual", Cache.WARM), VariantSpec("hot", Cache.WARM, figure="tps"))
    plan = make_plan(VERSIONS[:1], build_variants(works), repeats=1, alternating=True)
    progress = replace(NEW, figure="qps").planned(SessionEstimate(plan.trials, {}))
    for trial in plan.trials:
        run = replace(run_of(trial, None), measures={"qps": 2000.0, "tps": 90.0})
        progress = progress.trial_began(trial, 0.0).trial_ended(run, 9.0)
    assert [(cell.variant, cell.mean, cell.figure) for cell in progress.cells] == [
        ("usual", 2000.0, None), ("hot", 90.0, "tps"),
    ]  # fmt: skip
    shown = "\n".join(line.text for line in live_view(at(progress, 10.0), 100, 30))
    assert "mean 2,000/s" in shown
    assert "90 transactions/s" in shown


def test_what_is_written_is_read_again() -> None:
    first = Trial(1, VERSIONS[0], Variant("cold", Cache.COLD), 1)
    running = after(PLANNED, 10.0).trial_began(first, 3000.0).doing("timed start", 3005.0)
    found = at(running, 3050.0, CurrentPhase("validation", 3012.0, "Checked 7/9"))
    assert (found.phase, found.phase_s, found.step_s, found.told) == ("validation", 38.0, 45.0, "Checked 7/9")
    assert found.trial is not None
    assert found.trial.elapsed_s == 50.0
    assert from_json(to_json(found)) == found
    ended = at(running.finish(Status.INTERRUPTED), 3060.0)
    assert (ended.stage, ended.trial, ended.left_s) == (Stage.ENDED, None, None)
    assert from_json(to_json(ended)) == ended


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 1}', '{"format": 1, "pid": "x"}'])
def test_what_no_session_has_written_is_none(text: str) -> None:
    assert from_json(text) is None


def test_another_stage_is_told_from_the_same_one_later() -> None:
    first = trials()[0]
    trial = PLANNED.trial_began(first, 0.0)
    assert at(trial, 1.0).activity == at(trial, 9.0).activity
    assert len({at(one, 1.0).activity for one in (PLANNED, trial, trial.doing("inserting", 1.0))}) == 3
