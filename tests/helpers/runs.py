"""Runs for tests: with fields of their parts, whichever part has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from recovery.metrics import METRICS
from recovery.model import CACHE_AXIS, STARTUP_METRIC, TABLES_AXIS, Run, Session, VariantInfo

_PARTS = [part for part in fields(Run) if is_dataclass(part.default)]
_PART_OF = {field.name: part.name for part in _PARTS for field in fields(type(part.default))}  # type: ignore[arg-type]
"""The part of a run that has a field of this name. No two parts have fields of one name."""
_FIELDS = {field.name: field for part in _PARTS for field in fields(type(part.default))}  # type: ignore[arg-type]


def with_parts(run: Run, **changes: Any) -> Run:
    """The run with these fields, each in the part that has it: `with_parts(run, phases=…, tables_found=100)`."""
    own = {field.name for field in fields(Run)}
    for name, value in changes.items():
        if name in own:
            run = replace(run, **{name: value})
        else:
            part = _PART_OF[name]
            run = replace(run, **{part: replace(getattr(run, part), **{name: value})})
    return run


def make_run(*given: Any, **changes: Any) -> Run:
    """A run with its own fields by place, and all others by name, as in `with_parts`."""
    identity = {field.name for field in fields(Run)} & {"number", "version", "flavor", "variant", "repeat", "verdict"}
    own = {name: changes.pop(name) for name in tuple(changes) if name in identity}
    return with_parts(Run(*given, **own), **changes)


def with_axis_values(session: Session) -> Session:
    """The session with the values of its variants on the axes cache and tables, which are in their names: `cold`,
    `warm-small-20000`."""
    points = str(session.settings.get("points") or "").split()

    def values_in(name: str) -> dict[str, str]:
        first, *_, last = name.split("-") if "-" in name else (name, "")
        return {CACHE_AXIS: first, **({TABLES_AXIS: last} if last in points else {})}

    is_start = session.metric == STARTUP_METRIC
    return replace(
        session,
        variants=tuple(VariantInfo(name, values_in(name) if is_start else {}) for name in session.variant_names),
    )


def plain_variants(*names: str) -> tuple[VariantInfo, ...]:
    """Variants with a name only."""
    return tuple(map(VariantInfo, names))


def variants_with(values: Mapping[str, dict[str, str]]) -> tuple[VariantInfo, ...]:
    """Variants by their names, with their values by axis."""
    return tuple(VariantInfo(name, cell) for name, cell in values.items())


def values_of_all(session: Session) -> dict[str, dict[str, str]]:
    return {variant.name: variant.values for variant in session.variants}


def flat_run(run: dict[str, Any]) -> dict[str, Any]:
    """A stored run with its metrics and the fields of its parts as keys of its own; None or [] for what it lacks."""
    return {
        "extra": None,
        **dict.fromkeys(METRICS),
        **run["metrics"],
        **{name: [] if field.default == () else field.default for name, field in _FIELDS.items()},
        **{name: value for part in _PARTS for name, value in (run.get(part.name) or {}).items()},
        **{name: value for name, value in run.items() if name not in {part.name for part in _PARTS}},
    }
