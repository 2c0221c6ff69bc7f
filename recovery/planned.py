"""What did a session plan, and over what? Kept beside its runs, so that it can go on when it has ended early."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from recovery.model import Build, Trial
from recovery.readback import FORMAT

PLAN = "plan.json"
"""Its file in the session's folder."""


@dataclass(frozen=True)
class Step:
    """A trial, as it was planned."""

    number: int
    version: str
    variant: str
    repeat: int
    extra: str | None = None

    def __str__(self) -> str:
        extra = f" with {self.extra}" if self.extra else ""
        return f"run {self.number} is {self.version} {self.variant} {self.repeat}{extra}"


@dataclass(frozen=True)
class Planned:
    command: str
    """That asks for all of it, whatever layers of settings that came from."""
    folder: str
    """In which it was typed: what it names may lie there."""
    boot: str
    """Of the host, when it last began or went on."""
    alternating: bool
    """The order was chosen by the room there was; it stays, whatever there is by now."""
    trials: tuple[Step, ...]
    settings: Mapping[str, Mapping[str, str]]
    """Options of the server, by variant."""
    servers: Mapping[str, str]
    """SHA-256 of each executable, by version."""
    directories: tuple[str, ...]
    """Keys of the data directories: they say what is built, and by whom."""
    inserts: str
    """SHA-256 of the insert script."""
    built: tuple[str, ...] = field(default=())
    """Those directories that the session has made itself: it may remove them when it needs their room."""

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(step.number for step in self.trials)


ADAPTER = TypeAdapter(Planned)


def to_json(planned: Planned) -> bytes:
    return (json.dumps({"format": FORMAT, **ADAPTER.dump_python(planned, mode="json")}, indent=1) + "\n").encode()


def steps(trials: Iterable[Trial]) -> tuple[Step, ...]:
    return tuple(
        Step(one.number, str(one.version), one.variant.name, one.repeat, one.extra.value if one.extra else None)
        for one in trials
    )


def settings_of(trials: Iterable[Trial]) -> dict[str, dict[str, str]]:
    return {one.variant.name: dict(one.variant.settings) for one in trials}


def servers_of(builds: Iterable[Build]) -> dict[str, str]:
    return {str(build.version): build.fingerprint for build in builds}


def differences(before: Planned, now: Planned) -> Iterator[str]:
    """In words: why the runs that are missing would not be of the same experiment."""
    for version, fingerprint in before.servers.items():
        found = now.servers.get(version)
        if found is None:
            yield f"the server is {' '.join(now.servers)} now, and was {version}"
        elif found != fingerprint:
            yield f"the server {version} is another build (SHA-256 {found[:12]}, and was {fingerprint[:12]})"
    if before.trials != now.trials:
        yield _other_plan(before, now)
    for variant, options in before.settings.items():
        if variant in now.settings and dict(now.settings[variant]) != dict(options):
            yield f"the options of {variant} are {_told(now.settings[variant])} now, and were {_told(options)}"
    if before.inserts != now.inserts:
        yield "the insert script is another one now"
    if before.servers == now.servers and before.directories != now.directories:
        yield "the tables are made in another way now: their template or the options that shape them have changed"


def _other_plan(before: Planned, now: Planned) -> str:
    if len(before.trials) != len(now.trials):
        return f"the plan has {len(now.trials)} runs now, and had {len(before.trials)}"
    for old, new in zip(before.trials, now.trials, strict=True):
        if old != new:
            return f"the plan is another one: {new} now, and was {old.version} {old.variant} {old.repeat}"
    return "the plan is another one"


def _told(options: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items()) or "none"
