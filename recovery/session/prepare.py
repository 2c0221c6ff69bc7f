"""Prepares a session before its first server starts: checks disk space, and plans directories and trials.

Problems are reported at this point, not after an hour of building or measuring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from recovery.experiments import find_experiment
from recovery.experiments.experiment import Experiment
from recovery.linux.page_cache import CacheDropper, check_can_be_cold
from recovery.linux.privileges import RootStep
from recovery.linux.procfs import Fact
from recovery.linux.storage import free_space
from recovery.model import Build, Cache
from recovery.session.datadirs import (
    DatadirRequirement,
    can_alternate,
    check_combined_disk_space,
    check_disk_space,
    required_datadirs,
)
from recovery.session.engine import Engine, Say
from recovery.session.option_checks import check_redo_log_options
from recovery.session.plan import NOTHING_DONE, Plan, PlanProgress, check_any_trial_left, datadir_specs
from recovery.session.request import Request


def choose_dropper(request: Request, engine: Engine, builds: Sequence[Build], say: Say) -> CacheDropper | None:
    """Returns the means to drop the host's caches, or None if it is refused or this user cannot.

    A user who expects the caches to be dropped is warned here, before the hour of measuring."""
    if RootStep.DROP_CACHES in request.refused:
        return None
    dropper = engine.dropper(builds)
    if dropper is None:
        say("the host's caches cannot be dropped: files are evicted one by one; inodes and names stay cached")
    return dropper


@dataclass(frozen=True)
class RunSetup:
    """Holds all that is known about a session before its first server starts."""

    experiment: Experiment
    plan: Plan
    requirements: tuple[DatadirRequirement, ...]
    dropper: CacheDropper | None = None
    probe_facts: Mapping[str, Fact] = field(default_factory=dict)
    """Speed of the storage, for the report."""
    earlier: PlanProgress = NOTHING_DONE

    @property
    def needed(self) -> tuple[DatadirRequirement, ...]:
        """Returns the data directories over which trials are still missing."""
        return tuple(
            requirement
            for requirement in self.requirements
            if self.plan.is_missing(requirement.spec, self.earlier.done)
        )

    @property
    def no_longer_needed(self) -> tuple[DatadirRequirement, ...]:
        """Returns the complete data directories that this session built and no longer needs."""
        needed = self.needed
        return tuple(
            requirement
            for requirement in self.requirements
            if requirement.whole and requirement.key in self.earlier.built and requirement not in needed
        )


def prepare(
    request: Request,
    builds: tuple[Build, ...],
    earlier: PlanProgress = NOTHING_DONE,
    *,
    dropper: CacheDropper | None = None,
    probe_facts: Mapping[str, Fact] | None = None,
) -> RunSetup:
    experiment = find_experiment(request.scenario)
    if any(spec.cache is Cache.COLD for spec in request.variant_specs):
        check_can_be_cold(request.data)
    versions = [build.version for build in builds]
    variants = request.all_variants
    check_any_trial_left(versions, variants, baseline=request.exact_baseline(versions))
    check_redo_log_options(versions, request)
    specs = datadir_specs(versions, variants)
    requirements = required_datadirs(
        specs, builds, requested=request.schema, data=request.data, settings=dict(request.settings)
    )
    room = free_space(request.data)
    alternating = earlier.alternating
    if alternating is None:
        alternating = can_alternate(
            [requirement.need for requirement in requirements], room, growing=bool(request.points)
        )
    plan = request.plan(versions, variants, alternating=alternating)
    setup = RunSetup(experiment, plan, requirements, dropper, probe_facts or {}, earlier)
    if not alternating:
        check_disk_space(setup.needed, room, keep=request.keep, no_longer_needed=setup.no_longer_needed)
    elif earlier.done:
        check_combined_disk_space(setup.needed, room)
    return setup
