"""Prepares a session before its first server starts: checks options and disk space, and plans directories and trials.

Problems are reported at this point, not after an hour of building or measuring."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from recovery.errors import UsageError
from recovery.experiments import find_scenario
from recovery.experiments.experiment import Scenario
from recovery.linux.page_cache import Dropper, check_can_be_cold
from recovery.linux.privileges import RootStep
from recovery.linux.procfs import Fact
from recovery.linux.storage import free
from recovery.model import Build, Cache
from recovery.mysqld.local import open_files_limit
from recovery.mysqld.options import DEFAULT_CONNECTIONS, files_for, most_open
from recovery.session.datadirs import Stage, check_beside, check_room, may_alternate, survey
from recovery.session.engine import Engine, Say
from recovery.session.plan import NOTHING_YET, Begun, Plan, places_for, refuse_nothing
from recovery.session.request import Request, given_options, refuse_size_of_files, refuse_unknown

# --- Options that will not take effect as requested

_OPTION = "table_open_cache"
_CONNECTIONS = "max_connections"


def foresee(request: Request, *, say: Callable[[str], None], open_files: int | None = None) -> None:
    """Warns about values of `table_open_cache` that servers will lower because of the limit on open files.

    Raises UsageError if several such values would be lowered to the same one: that would measure one experiment twice.
    If one of the servers may keep the values, there are only warnings: the value in effect is read after its start."""
    files = open_files or open_files_limit()
    beyond: dict[str, int] = {}
    for settings in _settings(request):
        connections = _number(settings, _CONNECTIONS) or DEFAULT_CONNECTIONS
        most, wished = most_open(files, connections=connections), _number(settings, _OPTION)
        if wished is not None and wished > most:
            beyond[settings[_OPTION]] = files_for(wished, connections=connections)
            who = "most servers" if _may_keep(request) else "servers"
            told = f"with {files:,} open files {who} lower it to about {most:,}"
            hint = f"give {most} at most; for more than that {max(beyond.values()):,} files must be allowed (ulimit -n)"
            if len(beyond) > 1 and not _may_keep(request):
                values = " and ".join(beyond)
                raise UsageError(f"{_OPTION}={values} would be measured as one and the same: {told}", hint)
            say(f"warning: {_OPTION}={wished} will not be in effect: {told}; {hint}")


def _may_keep(request: Request) -> bool:
    """Returns whether one of the servers may keep a value that others lower.

    MariaDB 10.2.11 keeps it, 10.11.5 does not. The behaviour of the user's own server is unknown."""
    return bool(request.mysqld or request.image) or any(one.startswith("mariadb") for one in request.versions)


def _settings(request: Request) -> Iterator[Mapping[str, str]]:
    """Yields the relevant settings of the variants, without duplicates."""
    seen: dict[tuple[tuple[str, str], ...], None] = {}
    for one in request.measured:
        merged = {**request.lasting_settings, **dict(one.settings)}
        bare = {name.removeprefix("loose_"): value for name, value in merged.items()}
        seen[tuple((name, bare[name]) for name in (_OPTION, _CONNECTIONS) if name in bare)] = None
    yield from map(dict, seen)


def _number(settings: Mapping[str, str], name: str) -> int | None:
    text = settings.get(name, "")
    return int(text) if text.isdecimal() else None


def check_options(request: Request, engine: Engine, builds: Sequence[Build], say: Say) -> None:
    """Raises UsageError for an option of the user's that a server does not list."""
    if not given_options(request):
        return
    listed = {build.version: engine.options(build) for build in builds}
    for version in (version for version, names in listed.items() if not names):
        say(f"warning: {version} does not list its options: their names are not checked")
    refuse_unknown(request, listed)


def dropper_of(request: Request, engine: Engine, builds: Sequence[Build], say: Say) -> Dropper | None:
    """Returns the means to drop the host's caches, or None if it is refused or this user cannot.

    A user who expects the caches to be dropped is warned here, before the hour of measuring."""
    if RootStep.DROP_CACHES in request.refused:
        return None
    dropper = engine.dropper(builds)
    if dropper is None:
        say("this user cannot drop the host's caches: files are evicted one by one, inodes and names stay warm")
        say("for the published way run as root")
    return dropper


@dataclass(frozen=True)
class Prepared:
    """Holds all that is known about a session before its first server starts."""

    scenario: Scenario
    plan: Plan
    stages: tuple[Stage, ...]
    dropper: Dropper | None = None
    storage: Mapping[str, Fact] = field(default_factory=dict)
    """Speed of the storage, as facts for the report."""
    begun: Begun = NOTHING_YET

    @property
    def needed(self) -> tuple[Stage, ...]:
        """Returns the data directories over which trials are still missing."""
        return tuple(stage for stage in self.stages if self.plan.is_missing(stage.place, self.begun.done))

    @property
    def done_with(self) -> tuple[Stage, ...]:
        """Returns the complete data directories that this session built and no longer needs."""
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
