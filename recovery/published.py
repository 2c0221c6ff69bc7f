"""What does report.json look like? Its JSON schema, made from the nouns that are stored and what is said about them."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter

from recovery import stored, summary
from recovery.fit import LINE, Fit
from recovery.measured import Around, Chain, Floor, Hot, Phase, Series, Timeline, Wait, Watched
from recovery.measures import Between, Held, Middle
from recovery.readback import FORMAT

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, kw_only=True)
class _Predicted:
    tables: int
    """At this number of tables."""
    seconds: float
    """That one more start is expected to take, by the form that fits."""
    low_s: float | None
    """The lower end of the 95 % interval; null where no straight line fits."""
    high_s: float | None
    """The upper end."""


@dataclass(frozen=True, kw_only=True)
class Predicted(_Predicted):
    """How long one more start would take."""

    used: bool | None = None
    """Whether the largest point lies within 25 % of its own prediction; null where that cannot be tested."""


@dataclass(frozen=True, kw_only=True)
class HeldOut(_Predicted):
    """The largest point, and what all the others predict for it."""

    runs: int
    """That were measured there."""
    inside: int | None
    """Of those, within the interval; null where there is none."""
    form: str | None = None
    """`straight line` or `piecewise`: which fits the other points."""
    off: float | None = None
    """By what share more was measured than predicted; null where less than no time was predicted."""


@dataclass(frozen=True, kw_only=True)
class StoredFit(Fit):
    """The growth of startups over several numbers of tables."""

    version: str
    """As in the session's `versions`."""
    variant: str
    """Without the number of tables."""
    form: str = LINE
    """`straight line`, or `piecewise` where the means of the points show that no straight line fits (`lack_of_fit_p`
    under 0.05): straight from one of them to the next, and on from the last with the last slope."""
    predicted: Predicted | None = None
    """There only where it was asked for."""
    held_out: HeldOut | None = None
    """There only where two smaller points with four runs are left."""


@dataclass(frozen=True, kw_only=True)
class Report(stored.Session):
    """A session of the crash-recovery tester. Null (None in these words) is a figure that was not taken, never
    zero. Keys that are not named here are a later tool's: readers ignore them."""

    format: Literal[1]
    """Of this file. It grows when a key is removed, or changes its meaning or unit; new keys leave it as it is."""
    summaries: tuple[summary.Summary, ...] = ()
    """Made from the runs whenever the file is written: one for each version in each variant; empty where servers were
    put to work."""
    measures: tuple[Middle, ...] = ()
    """There only where servers were put to work, in place of summaries: one for each figure of each version in each
    variant."""
    contrasts: tuple[Held, ...] = ()
    """There beside them: the figure of one variant over that of another, along each axis that has a base."""
    ratios: tuple[Between, ...] = ()
    """There beside them: the figure of one version over that of another, variant by variant."""
    fits: tuple[StoredFit, ...] = ()
    """Made from the runs too, where several numbers of tables were measured."""
    findings: tuple[stored.Finding, ...]
    """Doubts about the figures, made from the runs too; in every report."""


_NOUNS = (
    *(Report, stored.Run, stored.Axis, stored.Finding, summary.Summary, Middle, Held, Between),
    *(StoredFit, Predicted, HeldOut),
    *(Phase, Chain, Hot, Around, Timeline, Floor, Series, Watched, Wait),
)


def schema() -> dict[str, Any]:
    """JSON schema, with a description of every key."""
    made: dict[str, Any] = TypeAdapter(Report).json_schema()
    parts = {**made.pop("$defs", {}), Report.__name__: made}
    for noun in (*_NOUNS, stored.Verdict):
        if noun.__name__ in parts:
            parts[noun.__name__]["description"] = " ".join((inspect.getdoc(noun) or "").split())
    for noun in _NOUNS:
        for name, told in described(noun).items():
            parts[noun.__name__]["properties"][name]["description"] = told
    _untitle(made)
    for part in parts.values():
        _untitle(part)
    made["properties"] = {"format": made["properties"].pop("format")} | made["properties"]
    made["$defs"] = {name: part for name, part in sorted(parts.items()) if part is not made}
    return {"$schema": _DIALECT, "title": f"report.json, format {FORMAT}", **made}


def schema_text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def described(noun: type) -> dict[str, str]:
    """What stands under each field of a dataclass, those of the classes it is made of included."""
    found: dict[str, str] = {}
    for one in reversed(noun.__mro__[:-1]):
        found |= dict(_told(one))
    return found


def _told(noun: type) -> Iterator[tuple[str, str]]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(noun))).body
    assert isinstance(tree, ast.ClassDef)
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            yield field.target.id, " ".join(below.value.value.split())


def _untitle(part: dict[str, Any]) -> None:
    """The titles are the names again."""
    part.pop("title", None)
    for of_key in part.get("properties", {}).values():
        of_key.pop("title", None)
