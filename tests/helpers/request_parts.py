"""Makes and changes requests by the names of their fields, whichever part of the request has them, and plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from recovery.model import Schema, Variant, VariantSpec, Version
from recovery.session.plan import Plan, plan_trials, variants_by_datadir
from recovery.session.request import Method, Output, Request, Servers, SessionSizes

_PARTS = {"servers": Servers, "sizes": SessionSizes, "method": Method, "output": Output}


def new_request(
    scenario: str,
    specs: Sequence[VariantSpec],
    versions: tuple[str, ...],
    schema: Schema,
    runs: int | None,
    data: Path,
    results: Path,
    **given: Any,
) -> Request:
    parts = Servers(versions), SessionSizes(schema, runs=runs), Method(), Output(data, results)
    return changed_request(Request(scenario, tuple(specs), *parts), **given)


def changed_request(request: Request, **given: Any) -> Request:
    """Returns the request with these fields; a field of a part goes into the part."""
    for part, owner in _PARTS.items():
        names = {field.name for field in fields(owner)}
        of_part = {name: given.pop(name) for name in list(given) if name in names}
        request = replace(request, **{part: replace(getattr(request, part), **of_part)})
    return replace(request, **given)


def make_plan(versions: Sequence[Version], variants: Sequence[Variant], *, alternating: bool, **given: Any) -> Plan:
    """Returns a plan with nothing but its trials."""
    trials = plan_trials(versions, variants, alternating=alternating, **given)
    return Plan(trials, alternating, tuple(versions), variants_by_datadir(versions, variants))
