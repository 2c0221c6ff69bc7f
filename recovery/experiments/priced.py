"""How long may a session take, and how much disk? By the rates of `estimate.py`, which are rough. Pure."""

from __future__ import annotations

from dataclasses import replace

from recovery.estimate import build_seconds, seconds_for
from recovery.experiments.allot import Price
from recovery.host.space import need_for
from recovery.model import Version
from recovery.plan import is_over, places_for
from recovery.request import Request
from recovery.work import Load

_AROUND_SESSION_S = 12.0
"""Getting the servers and trying the storage."""
_AROUND_PLACE_S = 10.0
"""A data directory is initialised, and its server rehearsed, whatever it holds."""


def price(request: Request, versions: tuple[Version, ...]) -> Price:
    """With all data directories beside each other, none of which is there yet."""
    variants = request.measured
    found = Price(_AROUND_SESSION_S)
    for place in places_for(versions, variants):
        here = [variant for variant in variants if is_over(variant, place)]
        schema = place.schema(request.schema)
        seconds = seconds_for(
            place.version,
            schema,
            runs=request.runs,
            variants=here,
            read_iops=request.limits.read_iops,
            settings=request.lasting_settings,
        )
        if schema.rows:
            # Each table is filled by a statement of its own, beside the one that makes it.
            seconds += build_seconds(place.version, replace(schema, rows=0))
        loads = [variant.task for variant in here if isinstance(variant.task, Load)]
        loads_s = request.runs * sum(load.seconds + load.warmup_s for load in loads)
        need = need_for(place.version, schema, {**dict(request.settings), **dict(place.settings)})
        found += Price(_AROUND_PLACE_S + seconds, need.bytes, need.inodes, loads_s)
    return found
