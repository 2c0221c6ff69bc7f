"""What is known before the first server starts: which servers, which data directories, which trials in which order?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from recovery.clashes import given_options, refuse_size_of_files, refuse_unknown
from recovery.engines import Engine, Say
from recovery.host.dropping import Dropper
from recovery.host.machine import Fact
from recovery.host.pagecache import check_can_be_cold
from recovery.host.space import free
from recovery.leftout import refuse_nothing
from recovery.model import Build, Cache
from recovery.plan import NOTHING_YET, Begun, Plan, places_for
from recovery.request import Request
from recovery.rootsteps import RootStep
from recovery.scenarios import find_scenario
from recovery.scenarios.scenario import Scenario
from recovery.stages import Stage, check_beside, check_room, may_alternate, survey


def check_options(request: Request, engine: Engine, builds: Sequence[Build], say: Say) -> None:
    """UsageError for an option of the user's that a server does not list."""
    if not given_options(request):
        return
    listed = {build.version: engine.options(build) for build in builds}
    for version in (version for version, names in listed.items() if not names):
        say(f"warning: {version} does not list its options: their names are not checked")
    refuse_unknown(request, listed)


def dropper_of(request: Request, engine: Engine, builds: Sequence[Build], say: Say) -> Dropper | None:
    """Who expects the host's caches to be dropped must hear before the hour of measuring that they cannot be."""
    if RootStep.DROP_CACHES in request.refused:
        return None
    dropper = engine.dropper(builds)
    if dropper is None:
        say("this user cannot drop the host's caches: files are evicted one by one, inodes and names stay warm")
        say("for the published way run as root")
    return dropper


@dataclass(frozen=True)
class Prepared:
    """All that is known before the first server starts."""

    scenario: Scenario
    plan: Plan
    stages: tuple[Stage, ...]
    dropper: Dropper | None = None
    storage: Mapping[str, Fact] = field(default_factory=dict)
    """How fast it is, as facts for the report."""
    begun: Begun = NOTHING_YET

    @property
    def needed(self) -> tuple[Stage, ...]:
        """Those over which something is still to be measured."""
        return tuple(stage for stage in self.stages if self.plan.is_missing(stage.place, self.begun.done))

    @property
    def done_with(self) -> tuple[Stage, ...]:
        """Those that were made for this plan alone, and have served."""
        needed = self.needed
        return tuple(
            stage for stage in self.stages if stage.whole and stage.key in self.begun.built and stage not in needed
        )


def prepare(request: Request, builds: tuple[Build, ...], begun: Begun = NOTHING_YET) -> Prepared:
    scenario = find_scenario(request.scenario)
    if any(work.cache is Cache.COLD for work in request.works):
        check_can_be_cold(request.data)
    versions = [build.version for build in builds]
    variants = request.measured
    baseline = None if request.baseline is None else versions[request.versions.index(request.baseline)]
    refuse_nothing(versions, variants, baseline=baseline)
    refuse_size_of_files(versions, request)
    places = places_for(versions, variants)
    stages = survey(places, builds, asked=request.schema, data=request.data, settings=dict(request.settings))
    room = free(request.data)
    alternating = begun.alternating
    if alternating is None:
        alternating = may_alternate([stage.need for stage in stages], room, growing=bool(request.points))
    plan = request.plan(versions, variants, alternating=alternating)
    prepared = Prepared(scenario, plan, stages, begun=begun)
    if not alternating:
        check_room(prepared.needed, room, keep=request.keep, done_with=prepared.done_with)
    elif begun.done:
        check_beside(prepared.needed, room)
    return prepared
