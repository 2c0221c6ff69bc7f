"""Runs for tests: with fields of their parts, whichever part has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from recovery.model import CACHE_AXIS, STARTUP_METRIC, TABLES_AXIS, Run, Session, VariantInfo

_PARTS = [part for part in fields(Run) if is_dataclass(part.default)]
_PART_OF = {field.name: part.name for part in _PARTS for field in fields(type(part.default))}  # type: ignore[arg-type]
"""The part of a run that has a field of this name. No two parts have fields of one name."""


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


_FLAT_METRICS = (
    "startup_s", "first_query_s", "read_bytes", "read_requests", "cpu_s", "reads_per_s", "group_memory_bytes",
    "peak_memory_bytes", "shutdown_s", "redo_bytes", "before_start_s", "cache_grown_bytes",
)  # fmt: skip


def flat_run(run: dict[str, Any]) -> dict[str, Any]:
    """A stored run with the fields of its parts as keys of its own."""
    parts = {
        part.name: {field.name: field.default for field in fields(part.default)} | (run.get(part.name) or {})  # type: ignore[arg-type]
        for part in _PARTS
    }
    stacks, metrics, samples = parts["stacks"], run["metrics"], run["timeline"]
    is_start = samples is not None and not any(name.endswith("_per_s") for name in samples["columns"])
    return {
        "extra": None,
        **{name: value for name, value in run.items() if name not in parts},
        **{name: value for part in parts.values() for name, value in part.items()},
        **{name: metrics.get(name) for name in _FLAT_METRICS},
        "measures": {} if "startup_s" in metrics and "recovery_s" not in metrics else metrics,
        "beside": list(parts["startup"]["background_phases"]),
        "phases": list(parts["startup"]["phases"]),
        "tables": parts["contents"]["tables_found"],
        "resident_before_bytes": parts["cold"]["resident_bytes"],
        "cold_means": parts["cold"]["means"],
        "clients": (run.get("load") or {}).get("clients", {}),
        "waits": list(parts["load"]["waits"]),
        "exit_signal": run["previous_exit"],
        "sampled_by": stacks["program"],
        "samples": stacks["count"],
        "chains": list(stacks["chains"]),
        "hottest": list(stacks["hottest"]),
        "stacks": stacks["file"],
        "around": run["host_activity"],
        "told": run["observations"],
        "timeline": flat_start(samples) if samples and is_start else None,
        "watched": flat_load(samples) if samples and not is_start else None,
    }


def flat_start(samples: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {"read_bytes": [], "read_requests": [], "cpu_s": [], "others_cpu_s": []}
    return {"at_s": samples["at_s"], **empty, **samples["columns"]}


def flat_load(samples: dict[str, Any]) -> dict[str, Any]:
    series = [{"name": name, "values": values} for name, values in samples["columns"].items()]
    return {"at_s": samples["at_s"], "series": series}
