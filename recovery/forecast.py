"""What lies ahead of a session once its plan is known, and how long may each part of it take?"""

from __future__ import annotations

from collections.abc import Sequence

from recovery.estimate import build_seconds, trial_seconds
from recovery.plan import Plan, place_of
from recovery.progress import Ahead
from recovery.request import Request
from recovery.stages import Stage


def ahead_of(request: Request, plan: Plan, stages: Sequence[Stage]) -> Ahead:
    """At a guess: what is measured on the way takes its place."""
    schemas = {stage.place: stage.schema for stage in stages}
    trial_s = {}
    for trial in plan.trials:
        schema = schemas[place_of(trial.version, trial.variant)]
        trial_s[str(trial.version), trial.variant.name] = trial_seconds(
            trial.version,
            schema,
            trial.variant,
            read_iops=request.limits.read_iops,
            settings=request.lasting_settings,
        )
    builds = tuple((stage.title, _build_s(stage, stages, grown=plan)) for stage in stages if not stage.whole)
    return Ahead(plan.trials, trial_s, builds)


def _build_s(stage: Stage, stages: Sequence[Stage], *, grown: Plan) -> float:
    """One that a smaller one grows into has only the rest to be made."""
    whole_s = build_seconds(stage.place.version, stage.schema)
    if grown.alternating:
        return whole_s
    smaller = [other for other in stages if not other.whole and other.place.grows_into(stage.place)]
    smaller = [other for other in smaller if other.schema.total_tables < stage.schema.total_tables]
    return whole_s - max((build_seconds(one.place.version, one.schema) for one in smaller), default=0.0)
