"""report.json: the stored session with what a report computes from it, and its JSON schema.

The schema is generated from the types in `model.py` and their docstrings."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import cache
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter

from recovery import __version__, model
from recovery.analysis.combined import CombinedSession
from recovery.analysis.growth import stored_fits
from recovery.analysis.statistics import LINE, LineFit, SessionSpread, Step
from recovery.analysis.summary import (
    Summary,
    VariantRatio,
    VersionRatio,
    all_variant_ratios,
    stored_summaries,
    version_ratios,
)
from recovery.analysis.warm import rename_second_starts
from recovery.analysis.warnings import findings
from recovery.model import Run, Session
from recovery.report.summary_text import answers
from recovery.storage.format import FORMAT, json_bytes, session_to_json


def computed_parts(session: Session) -> dict[str, Any]:
    """Returns what a report computes from a session, as report.json has it."""
    return {
        "answer": answers(session),
        "summaries": stored_summaries(session),
        "contrasts": [asdict(ratio) for ratio in all_variant_ratios(session)],
        "ratios": [asdict(ratio) for ratio in version_ratios(session)],
        "fits": stored_fits(session),
        "findings": [asdict(finding) for finding in findings(session)],
    }


def to_json(session: Session) -> bytes:
    """Returns the contents of report.json, with the runs at the end."""
    session = rename_second_starts(session if session.tool_version else replace(session, tool_version=__version__))
    return session_to_json(session, computed_parts(session))


def sessions_to_json(session: CombinedSession) -> bytes:
    """Returns what a report computes from several sessions, as JSON, with the facts about each of them."""
    parts = [
        {
            "name": part.name,
            "started_at": part.session.started_at,
            "status": part.session.status,
            "host_id": part.session.host_id,
            "runs": len(part.runs),
            "planned_runs": part.session.planned_runs,
        }
        for part in session.parts
    ]
    head = {"format": FORMAT, "tool_version": __version__, "experiment": session.experiment}
    return json_bytes({**head, "sessions": parts, **computed_parts(session)})


# --- JSON schema of report.json, generated from the stored dataclasses and their docstrings

_JSON_SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, kw_only=True)
class _Predicted:
    tables: int
    """Number of tables that the prediction is for."""
    seconds: float
    """Seconds that one more start is expected to take, by the form that fits the measured points."""
    low_s: float | None
    """Lower end of the 95 % interval; null if no straight line fits."""
    high_s: float | None
    """Upper end of the 95 % interval; null if no straight line fits."""


@dataclass(frozen=True, kw_only=True)
class Predicted(_Predicted):
    """The predicted duration of one more start."""

    used: bool | None = None
    """Whether the prediction is used, which requires that the largest measured point is within 25 % of the prediction
    made for it from the smaller points; null if that cannot be tested."""


@dataclass(frozen=True, kw_only=True)
class HeldOut(_Predicted):
    """A test of the prediction: the largest measured point compared with what all smaller points predict for it."""

    runs: int
    """Number of runs that were measured at the largest point."""
    inside: int | None
    """Number of these runs within the interval; null if there is no interval."""
    form: str | None = None
    """The form that fits the smaller points: `straight line` or `piecewise`."""
    off: float | None = None
    """Relative error: the measured mean over the prediction, minus 1; null if the prediction is not above zero."""


@dataclass(frozen=True, kw_only=True)
class StoredFit(LineFit):
    """The growth of the startup time with the number of tables, for one version and variant."""

    version: str
    """Server version, as in the session's `versions`."""
    variant: str
    """Name of the variant without the number of tables."""
    form: str = LINE
    """`straight line`, or `piecewise` if the means of the points show that no straight line fits (`lack_of_fit_p`
    under 0.05). Piecewise means straight from each mean to the next, and beyond the last with the last slope."""
    steepest: Step | None = None
    """The step at which each table adds most. Its interval has the spread between sessions, too, if three are known."""
    memory_fixed_bytes: float | None = None
    """Peak memory of a start without any table, by a straight line. Present only if it was measured in enough runs."""
    memory_per_table_bytes: float | None = None
    """Peak memory that each table adds, by the same line."""
    memory_per_table_error_bytes: float | None = None
    """Half of its 95 % interval, if the straight line fits."""
    predicted: Predicted | None = None
    """Present only if a prediction was requested."""
    held_out: HeldOut | None = None
    """Present only if at least two smaller points with four runs in all remain without the largest one."""


@dataclass(frozen=True, kw_only=True)
class Report(Session):
    """A session of the crash-recovery tester. A null value (None in these descriptions) is a figure that was not
    measured; it never means zero. Keys that are not described here come from a later version of the tool: readers
    ignore them."""

    format: Literal[2]
    """Format version of this file. It increases when a key is removed or changes its meaning or unit; new keys leave it
    unchanged."""
    answer: tuple[str, ...] = ()
    """The lines at the top of every report: what was measured, the comparison and the reason. This and the following
    keys are computed from the runs; they are missing while the session runs."""
    summaries: tuple[Summary, ...] = ()
    """Summary of the metrics, one for each metric of each version in each variant."""
    contrasts: tuple[VariantRatio, ...] = ()
    """The metric of one variant compared with that of another, along each axis that has a base."""
    ratios: tuple[VersionRatio, ...] = ()
    """The metric of one version compared with that of another, for each variant."""
    fits: tuple[StoredFit, ...] = ()
    """Fits of the startup time, if several numbers of tables were measured."""
    findings: tuple[model.Finding, ...] = ()
    """Warnings about the figures; every report shows them."""


_STORED_CLASSES = (
    *(
        Report,
        Run,
        model.VariantInfo,
        model.Axis,
        model.Finding,
        Summary,
        VariantRatio,
        VersionRatio,
        StoredFit,
        SessionSpread,
        Step,
        Predicted,
        HeldOut,
    ),
    *(model.Startup, model.Phase, model.ColdProof, model.WarmProof, model.Contents, model.OpenedFiles),
    *(model.StackSamples, model.CallChain, model.HotFunction, model.LoadRecord, model.ThreadWait, model.HostActivity),
    *(model.Timeline, model.ReadFloor, model.EarlierSession),
)


@cache
def schema() -> dict[str, Any]:
    """Returns the JSON schema of report.json, with a description of every key."""
    made = schema_of(Report, (*_STORED_CLASSES, model.Verdict), f"report.json, format {FORMAT}")
    made["properties"] = {"format": made["properties"].pop("format")} | made["properties"]
    return made


def schema_of(noun: type, described: Sequence[type], title: str) -> dict[str, Any]:
    """Returns the JSON schema of a class, with the docstrings of these classes and of their fields."""
    made: dict[str, Any] = TypeAdapter(noun).json_schema()
    parts = {**made.pop("$defs", {}), noun.__name__: made}
    for one in described:
        if one.__name__ in parts:
            parts[one.__name__]["description"] = " ".join((inspect.getdoc(one) or "").split())
    for one in described:
        if not issubclass(one, Enum):
            for name, text in field_descriptions(one).items():
                parts[one.__name__]["properties"][name]["description"] = text
    for part in parts.values():
        _remove_titles(part)
    made["$defs"] = {name: part for name, part in sorted(parts.items()) if part is not made}
    return {"$schema": _JSON_SCHEMA_DIALECT, "title": title, **made}


def schema_text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def field_descriptions(noun: type) -> dict[str, str]:
    """Returns the docstring of each field of a dataclass, including the fields of its base classes, as pydantic reads
    them."""
    found: dict[str, str] = {}
    for base in reversed(noun.__mro__[:-1]):
        base.__pydantic_config__ = ConfigDict(use_attribute_docstrings=True)  # type: ignore[attr-defined]
        for name, described in TypeAdapter(base).json_schema().get("properties", {}).items():
            if "description" in described and name in base.__annotations__:
                found[name] = " ".join(described["description"].split())
    return found


def _remove_titles(part: dict[str, Any]) -> None:
    """Removes the generated titles, because they only repeat the names."""
    part.pop("title", None)
    for of_key in part.get("properties", {}).values():
        of_key.pop("title", None)
