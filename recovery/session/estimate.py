"""Estimates how long a session takes, from rough rates for each generation of servers.

The estimates are for --dry-run and the displayed remaining time; they never enter a result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from recovery.model import Cache, Flavor, Schema, Variant, Version, can
from recovery.session.datadirs import DatadirRequirement
from recovery.session.plan import Plan, datadir_spec
from recovery.session.progress import SessionEstimate
from recovery.session.request import Request


@dataclass(frozen=True)
class _Rates:
    """Holds the rates of one generation of servers."""

    tables_built_per_s: float
    cold_ms_per_table: float
    """Of a whole trial: the start that creates the crash, the timed start, the count and the shutdown."""
    warm_ms_per_table: float
    """The same, with the starts until the cache is warm."""
    reads_per_table: float
    """Read requests per table at a cold start, as a limit on read requests counts them."""


def _rates(version: Version) -> _Rates:
    """Returns the rates of a version, as in the sessions of docs/results: on 2 cores and a local disk."""
    if version.flavor is Flavor.MARIADB:
        validates = version.numbers < (10, 3, 0)
        return _Rates(900, 0.9, 0.55, 1) if validates else _Rates(900, 0.065, 0.015, 0.1)
    if not can(version, "redo_names_files"):
        return _Rates(1500, 0.33, 0.4, 1)
    if version.numbers < (8, 0, 0):
        return _Rates(1600, 0.42, 0.35, 3)
    return _Rates(500, 0.5, 0.65, 2)


SESSION_OVERHEAD_S = 10.0
"""Duration of finding the servers and measuring the storage, once in each session."""
_INITIALISE_S = 8.0
"""Duration of the initialisation of a data directory, before its tables are built."""
_START_OVERHEAD_S = 3.0
"""Duration of a trial of timed starts with hardly any table."""
_LOAD_OVERHEAD_S = 4.0
"""Duration of a start, a flush, and a shutdown that has pages to write."""
_ROWS_BUILT_PER_S = 60_000
_WITH_STATISTICS = 1.6
_NO_SETTINGS: Mapping[str, str] = {}


def version_seconds(
    version: Version,
    schema: Schema,
    *,
    runs: int,
    variants: Sequence[Variant],
    read_iops: int | None = None,
    settings: Mapping[str, str] = _NO_SETTINGS,
) -> float:
    """Returns the estimated seconds for the build and all trials of one version.

    A partition takes as long as a table, to build and at a start. A table in a shared file takes as long to build as
    any other. `settings` are those that all variants have in common."""
    trials_s = sum(
        trial_seconds(version, schema, variant, read_iops=read_iops, settings=settings) for variant in variants
    )
    return build_seconds(version, schema) + runs * trials_s


def build_seconds(version: Version, schema: Schema) -> float:
    """Returns the estimated seconds to initialise a data directory and to build its tables."""
    tables_s = max(schema.total_tables, schema.files) / _rates(version).tables_built_per_s
    if schema.statistics:
        tables_s *= _WITH_STATISTICS
    return _INITIALISE_S + tables_s + schema.total_tables * schema.rows / _ROWS_BUILT_PER_S


def saved_by_growth_s(version: Version, smaller: Iterable[Schema]) -> float:
    """Returns the seconds that a build saves because the largest of these smaller schemas grows into it."""
    return max((build_seconds(version, schema) for schema in smaller), default=0.0)


def trial_seconds(
    version: Version,
    schema: Schema,
    variant: Variant,
    *,
    read_iops: int | None = None,
    settings: Mapping[str, str] = _NO_SETTINGS,
) -> float:
    if variant.task is not None:
        return _LOAD_OVERHEAD_S + variant.task.estimated_s(schema, {**settings, **dict(variant.settings)}, read_iops)
    return _start_seconds(version, schema, variant.cache, read_iops=read_iops)


def _start_seconds(version: Version, schema: Schema, cache: Cache, *, read_iops: int | None = None) -> float:
    rates = _rates(version)
    reading_ms = 0.0 if read_iops is None else 1000 * rates.reads_per_table / read_iops
    table_ms = max(rates.cold_ms_per_table, reading_ms) if cache is Cache.COLD else rates.warm_ms_per_table
    return _START_OVERHEAD_S + schema.files * table_ms / 1000


def duration_text(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes <= 1:
        return "1 minute"
    return f"{minutes} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"


# --- Estimates for the planned trials and builds


def estimate_session(request: Request, plan: Plan, requirements: Sequence[DatadirRequirement]) -> SessionEstimate:
    """Returns the planned trials and the builds of `requirements` with rough estimates."""
    trial_s = {}
    for trial in plan.trials:
        schema = datadir_spec(trial.version, trial.variant).schema(request.schema)
        trial_s[str(trial.version), trial.variant.name] = trial_seconds(
            trial.version,
            schema,
            trial.variant,
            read_iops=request.limits.read_iops,
            settings=request.lasting_settings,
        )
    builds = tuple(
        (requirement.title, _remaining_build_s(requirement, requirements, grown=plan))
        for requirement in requirements
        if not requirement.whole
    )
    return SessionEstimate(plan.trials, trial_s, builds)


def _remaining_build_s(
    requirement: DatadirRequirement, requirements: Sequence[DatadirRequirement], *, grown: Plan
) -> float:
    """Returns the estimated seconds of a build; only the rest counts if a smaller directory grows into this one."""
    whole_s = build_seconds(requirement.spec.version, requirement.schema)
    if grown.alternating:
        return whole_s
    smaller = [other for other in requirements if not other.whole and other.spec.grows_into(requirement.spec)]
    smaller = [other for other in smaller if other.schema.total_tables < requirement.schema.total_tables]
    return whole_s - saved_by_growth_s(requirement.spec.version, [other.schema for other in smaller])
