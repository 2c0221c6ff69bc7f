"""What is kept of a run through the experiments: experiments.json, which the reports are made of."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

from pydantic import TypeAdapter

from recovery import __version__
from recovery.errors import RecoveryError, UsageError
from recovery.experiments.answers import Answer, answers
from recovery.experiments.literature import Publication, publications
from recovery.files import new_folder, sync_folder, write_atomically
from recovery.measures import Middle, middles
from recovery.readback import FORMAT, read_back
from recovery.store import keeping_in, load
from recovery.stored import Session

STORED = "experiments.json"
_SUFFIX = "-experiments"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One of the experiments."""

    name: str
    """Of its scenario."""
    command: str | None = None
    """That repeats it; None where it was left out."""
    scale: str = ""
    """In words."""
    planned: str = ""
    """At first, where the time that was left made it another."""
    expected_s: float | None = None
    took_s: float | None = None
    session: str | None = None
    """Its folder, beside this one."""
    left_out: str | None = None
    """Why it was not even begun."""
    error: str | None = None
    """How it ended early, or why not all of it counts."""


@dataclass(frozen=True, kw_only=True)
class Journey:
    """All of them."""

    command: str
    started_at: str
    budget_s: float
    versions: tuple[str, ...]
    steps: tuple[Step, ...]
    status: str = "running"
    """running, finished, failed (one of them), interrupted or aborted."""
    took_s: float | None = None
    tool_version: str = __version__

    def with_step(self, step: Step) -> Journey:
        return replace(self, steps=tuple(step if one.name == step.name else one for one in self.steps))


@dataclass(frozen=True)
class Chapter:
    """A question, what was published of it, and what was measured."""

    publication: Publication
    step: Step
    session: Session | None
    answers: tuple[Answer, ...] = ()
    missing: str | None = None
    """Why there is no session, though one was kept."""

    @property
    def middles(self) -> tuple[Middle, ...]:
        return () if self.session is None else tuple(one for one in middles(self.session) if one.count)


_JOURNEY = TypeAdapter(Journey)
_ANSWERS = TypeAdapter(tuple[Answer, ...])
_MIDDLES = TypeAdapter(tuple[Middle, ...])


def create(results: Path) -> Path:
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}{_SUFFIX}"
    with keeping_in(results):
        results.mkdir(parents=True, exist_ok=True)
        folder = new_folder(results, name)
        sync_folder(results)
    return folder


def chapters(journey: Journey, folder: Path) -> tuple[Chapter, ...]:
    """With the sessions as they are stored beside it."""
    steps = {step.name: step for step in journey.steps}
    return tuple(_chapter(one, steps[one.name], folder) for one in publications() if one.name in steps)


def _chapter(publication: Publication, step: Step, folder: Path) -> Chapter:
    if step.session is None:
        return Chapter(publication, step, None)
    try:
        # Whoever sent this folder may have written any path into it: a session lies beside it.
        session = load(folder.parent / PurePath(step.session).name)
    except RecoveryError as error:
        return Chapter(publication, step, None, missing=error.message)
    return Chapter(publication, step, session, answers(publication, session))


def save(journey: Journey, folder: Path, read_before: tuple[Chapter, ...] | None = None) -> None:
    """With what the sessions come to now; they need not be read again where they were just before."""
    found = {one.publication.name: one for one in read_before or chapters(journey, folder)}
    body = _JOURNEY.dump_python(journey, mode="json")
    steps = [{**step, **_figures(found[step["name"]])} for step in body.pop("steps") if step["name"] in found]
    text = json.dumps({"format": FORMAT, **body, "steps": steps}, indent=2, ensure_ascii=False) + "\n"
    with keeping_in(folder):
        write_atomically(folder / STORED, text.encode("utf-8", errors="replace"))


def _figures(chapter: Chapter) -> dict[str, Any]:
    """Made from the session whenever this is written."""
    return {
        "published": TypeAdapter(Publication).dump_python(chapter.publication, mode="json"),
        "answers": _ANSWERS.dump_python(chapter.answers, mode="json"),
        "measures": _MIDDLES.dump_python(chapter.middles, mode="json"),
    }


def read(folder: Path) -> Journey:
    path = folder / STORED
    if not path.is_file():
        raise UsageError(f"there are no experiments in {folder}", f"name a folder that has {STORED}")
    return read_back(path, _JOURNEY)
