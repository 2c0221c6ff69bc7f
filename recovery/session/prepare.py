"""Prepares a session before its first server starts: checks options and disk space, and plans directories and trials.

Problems are reported at this point, not after an hour of building or measuring."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from recovery.errors import UsageError
from recovery.experiments import find_scenario
from recovery.experiments.experiment import Scenario
from recovery.linux.page_cache import CacheDropper, check_can_be_cold
from recovery.linux.privileges import RootStep
from recovery.linux.procfs import Fact
from recovery.linux.storage import free_space
from recovery.model import Build, Cache
from recovery.mysqld.launcher import open_files_limit
from recovery.mysqld.options import DEFAULT_CONNECTIONS, max_open_tables, needed_open_files
from recovery.session.datadirs import (
    DatadirRequirement,
    can_alternate,
    check_combined_disk_space,
    check_disk_space,
    required_datadirs,
)
from recovery.session.engine import Engine, Say
from recovery.session.plan import NOTHING_DONE, Plan, PlanProgress, check_any_trial_left, datadir_specs
from recovery.session.request import Request, check_options_known, check_redo_log_options, user_options

# --- Options that will not take effect as requested

_TABLE_OPEN_CACHE = "table_open_cache"
_MAX_CONNECTIONS = "max_connections"


def check_table_open_cache(request: Request, *, say: Callable[[str], None], open_files: int | None = None) -> None:
    """Warns about values of `table_open_cache` that servers will lower because of the limit on open files.

    Raises UsageError if several such values would be lowered to the same one: that would measure one experiment twice.
    If one of the servers may keep the values, there are only warnings: the value in effect is read after its start."""
    files = open_files or open_files_limit()
    beyond: dict[str, int] = {}
    for settings in _relevant_settings(request):
        connections = _number(settings, _MAX_CONNECTIONS) or DEFAULT_CONNECTIONS
        most, wished = max_open_tables(files, connections=connections), _number(settings, _TABLE_OPEN_CACHE)
        if wished is not None and wished > most:
            beyond[settings[_TABLE_OPEN_CACHE]] = needed_open_files(wished, connections=connections)
            who = "most servers" if _may_keep_value(request) else "servers"
            text = f"with {files:,} open files {who} lower it to about {most:,}"
            hint = f"give {most} at most; for more than that {max(beyond.values()):,} files must be allowed (ulimit -n)"
            if len(beyond) > 1 and not _may_keep_value(request):
                values = " and ".join(beyond)
                raise UsageError(f"{_TABLE_OPEN_CACHE}={values} would be measured as the same value: {text}", hint)
            say(f"warning: {_TABLE_OPEN_CACHE}={wished} will not be in effect: {text}; {hint}")


def _may_keep_value(request: Request) -> bool:
    """Returns whether one of the servers may keep a value that others lower.

    MariaDB 10.2.11 keeps it, 10.11.5 does not. The behaviour of the user's own server is unknown."""
    return bool(request.mysqld or request.image) or any(one.startswith("mariadb") for one in request.versions)


def _relevant_settings(request: Request) -> Iterator[Mapping[str, str]]:
    """Yields the relevant settings of the variants, without duplicates."""
    seen: dict[tuple[tuple[str, str], ...], None] = {}
    for one in request.measured:
        merged = {**request.lasting_settings, **dict(one.settings)}
        bare = {name.removeprefix("loose_"): value for name, value in merged.items()}
        seen[tuple((name, bare[name]) for name in (_TABLE_OPEN_CACHE, _MAX_CONNECTIONS) if name in bare)] = None
    yield from map(dict, seen)


def _number(settings: Mapping[str, str], name: str) -> int | None:
    text = settings.get(name, "")
    return int(text) if text.isdecimal() else None


def check_options(request: Request, engine: Engine, builds: Sequence[Build], say: Say) -> None:
    """Raises UsageError for an option of the user's that a server does not list."""
    if not user_options(request):
        return
    listed = {build.version: engine.options(build) for build in builds}
    for version in (version for version, names in listed.items() if not names):
        say(f"warning: {version} does not list its options: their names are not checked")
    check_options_known(request, listed)


def choose_dropper(request: Request, engine: Engine, builds: Sequence[Build], say: Say) -> CacheDropper | None:
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
class RunSetup:
    """Holds all that is known about a session before its first server starts."""

    scenario: Scenario
    plan: Plan
    requirements: tuple[DatadirRequirement, ...]
    dropper: CacheDropper | None = None
    storage: Mapping[str, Fact] = field(default_factory=dict)
    """Speed of the storage, as facts for the report."""
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


def prepare(request: Request, builds: tuple[Build, ...], earlier: PlanProgress = NOTHING_DONE) -> RunSetup:
    scenario = find_scenario(request.scenario)
    if any(work.cache is Cache.COLD for work in request.works):
        check_can_be_cold(request.data)
    versions = [build.version for build in builds]
    variants = request.measured
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
    setup = RunSetup(scenario, plan, requirements, earlier=earlier)
    if not alternating:
        check_disk_space(setup.needed, room, keep=request.keep, no_longer_needed=setup.no_longer_needed)
    elif earlier.done:
        check_combined_disk_space(setup.needed, room)
    return setup
