"""Which sessions fit a given time on this host? Each is asked as its own command would ask for it."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from recovery.builds import catalog
from recovery.builds.resolve import known_wanted
from recovery.commands import measure
from recovery.commands.asked import make_request
from recovery.commands.asked_work import host_for
from recovery.errors import UsageError
from recovery.experiments.allot import OF_THE_BUDGET, Price, allot, held_by_disk, span_text
from recovery.experiments.literature import names
from recovery.experiments.priced import price
from recovery.experiments.rungs import Caps, Rung, rungs
from recovery.host.space import MOST_OF_THE_ROOM, free
from recovery.model import NO_LIMITS
from recovery.paths import default_data_dir
from recovery.request import Request, split_versions

VERSIONS = ("5.7.22", "8.0.31")
"""One of each series that most of the publications hold against each other."""
_MOST_BUDGET_S = 30 * 86_400.0
_BUDGET = re.compile(r"(?:(?P<h>\d+(?:\.\d+)?)h)?(?:(?P<m>\d+(?:\.\d+)?)m(?:in)?)?(?:(?P<s>\d+(?:\.\d+)?)s)?")


@dataclass(frozen=True)
class Asked:
    """Of all experiments together."""

    budget_s: float
    versions: tuple[str, ...]
    names: tuple[str, ...] = field(default_factory=names)
    caps: Caps = field(default_factory=Caps)
    shared: tuple[str, ...] = ()
    """Options that every session gets as they were given."""
    data: Path | None = None


@dataclass(frozen=True)
class Chosen:
    """One experiment at the scale that it gets."""

    name: str
    request: Request | None
    """None where it is left out."""
    scale: str
    expected_s: float | None
    left_out: str | None = None


def parse_budget(text: str) -> float:
    """`30m`, `2h`, `1h30m`, `90s`; a plain number is minutes."""
    word = text.strip().lower().replace(" ", "")
    plain = re.fullmatch(r"\d+(?:\.\d+)?", word)
    match = _BUDGET.fullmatch(f"{word}m" if plain else word)
    hours, minutes, seconds = (float(match[part] or 0) for part in "hms") if match else (0.0, 0.0, 0.0)
    found = 3600 * hours + 60 * minutes + seconds
    if not 0 < found <= _MOST_BUDGET_S:
        raise UsageError(f"BUDGET={text} is no time to measure in", "write it like 30m, 2h or 1h30m; 90 is 90 minutes")
    return found


def asked_versions(given: Sequence[str]) -> tuple[str, ...]:
    """Those that were named, or of the two that are compared those that this host's CPU can run."""
    named = split_versions(tuple(given))
    at_hand = {str(row.version) for row in catalog.rows()}
    return named or tuple(version for version in VERSIONS if version in at_hand) or (catalog.DEFAULT_VERSION,)


@dataclass(frozen=True)
class _Ladder:
    """All scales of an experiment, from the smallest."""

    name: str
    rungs: tuple[Rung, ...]
    requests: tuple[Request, ...]
    prices: tuple[Price, ...]


def chosen(asked: Asked) -> tuple[Chosen, ...]:
    """In the order of the publications."""
    releases = tuple(dict.fromkeys(known_wanted(version).like for version in asked.versions))
    host, ladders = host_for(NO_LIMITS), []
    for name in asked.names:
        found = rungs(name, host, asked.caps)
        requests = tuple(_request(name, asked, rung) for rung in found)
        ladders.append(_Ladder(name, found, requests, tuple(price(request, releases) for request in requests)))
    room = free(asked.data or default_data_dir())
    whole = Price(
        OF_THE_BUDGET * asked.budget_s, int(MOST_OF_THE_ROOM * room.bytes), int(MOST_OF_THE_ROOM * room.inodes)
    )
    prices = [ladder.prices for ladder in ladders]
    steps = allot(prices, whole)
    held = held_by_disk(prices, steps, whole)
    return tuple(
        _chosen(ladder, step, whole, by_disk=by_disk)
        for ladder, step, by_disk in zip(ladders, steps, held, strict=True)
    )


def _chosen(ladder: _Ladder, step: int | None, whole: Price, *, by_disk: bool) -> Chosen:
    if step is None:
        return Chosen(ladder.name, None, "", None, _left_out(ladder.rungs[0], ladder.prices[0], whole))
    more = "; for more of it the disk is too small" if by_disk else ""
    return Chosen(ladder.name, ladder.requests[step], f"{ladder.rungs[step].told}{more}", ladder.prices[step].seconds)


def _left_out(smallest: Rung, cost: Price, whole: Price) -> str:
    what = f"its smallest scale ({smallest.told})"
    if not cost.is_on_disk(whole):
        return f"{what} needs {cost.bytes / 1e9:.1f} GB of disk, and {whole.bytes / 1e9:.1f} GB may be used"
    return f"{what} takes about {span_text(cost.seconds)}, for which the budget has no room beside the others"


def _request(name: str, asked: Asked, rung: Rung) -> Request:
    command = _commands()[name]
    words = ["--version", " ".join(asked.versions), *rung.words, *asked.shared]
    given: dict[str, Any] = dict(command.make_context(name, words).params)
    for beside in ("dry_run", "json_to", "quiet", "predict"):
        given.pop(beside, None)
    return make_request(name, given)


def _commands() -> Mapping[str, click.Command]:
    """Those that measure, deaf to the environment: what it says is for the command that was called."""
    found = {}
    for command in measure.commands():
        deaf = []
        for parameter in command.params:
            own = copy.copy(parameter)
            own.envvar = None
            deaf.append(own)
        found[str(command.name)] = click.Command(command.name, params=deaf, add_help_option=False)
    return found
