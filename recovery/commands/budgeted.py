"""Which sessions fit a given time on this host? Each is asked as its own command would ask for it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recovery.builds import catalog
from recovery.builds.resolve import known_wanted
from recovery.commands.again import request_of
from recovery.commands.asked_work import host_for
from recovery.errors import ClashError, HostUnfitError, UsageError
from recovery.experiments.allot import OF_THE_BUDGET, Price, allot, held_by_disk, span_text
from recovery.experiments.literature import names
from recovery.experiments.priced import price
from recovery.experiments.rungs import Caps, Rung, rungs
from recovery.host.space import HINT, MOST_OF_THE_ROOM, free
from recovery.model import NO_LIMITS, Limits, Version
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
    limits: Limits = NO_LIMITS
    """Of every server; they are among the options, too."""
    left_s: float | None = None
    """Of the budget, once some of it has gone."""
    pace: float = 1.0
    """So many times as long as guessed did it take so far."""


@dataclass(frozen=True)
class Chosen:
    """One experiment at the scale that it gets."""

    name: str
    request: Request | None
    """None where it is left out."""
    scale: str
    price: Price
    """At a guess, whatever was seen of this host; of the smallest scale where it is left out."""
    expected_s: float | None
    left_out: str | None = None
    fits_disk: bool = True


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
    clash: ClashError | None
    """What keeps it from a larger scale."""


def chosen(asked: Asked) -> tuple[Chosen, ...]:
    """In the order of the publications."""
    releases = tuple(dict.fromkeys(known_wanted(version).like for version in asked.versions))
    host = host_for(asked.limits)
    ladders = [_ladder(name, asked, rungs(name, host, asked.caps), releases=releases) for name in asked.names]
    whole = _whole(asked)
    prices = [[one.at(asked.pace) for one in ladder.prices] for ladder in ladders]
    steps = allot(prices, whole)
    held = held_by_disk(prices, steps, whole)
    return tuple(
        _left_out(ladder, asked, whole) if step is None else _taken(ladder, step, asked, by_disk=by_disk)
        for ladder, step, by_disk in zip(ladders, steps, held, strict=True)
    )


def _ladder(name: str, asked: Asked, found: tuple[Rung, ...], *, releases: tuple[Version, ...]) -> _Ladder:
    """Up to where the user's own settings are what an experiment varies by itself."""
    requests, clash = [], None
    for rung in found:
        try:
            requests.append(_request(name, asked, rung))
        except ClashError as error:
            clash = error
            break
    if clash is not None and not requests:
        others = " ".join(other for other in asked.names if other != name)
        hint = f'leave it out, or measure the others: --only "{others}"' if others else "leave it out"
        raise ClashError(f"{name} cannot be measured with {clash.message}", hint) from clash
    prices = tuple(price(request, releases) for request in requests)
    return _Ladder(name, found[: len(requests)], tuple(requests), prices, clash)


def _whole(asked: Asked) -> Price:
    room = free(asked.data or default_data_dir())
    seconds = asked.budget_s if asked.left_s is None else asked.left_s
    return Price(OF_THE_BUDGET * seconds, int(MOST_OF_THE_ROOM * room.bytes), int(MOST_OF_THE_ROOM * room.inodes))


def _taken(ladder: _Ladder, step: int, asked: Asked, *, by_disk: bool) -> Chosen:
    more = "; for more of it the disk is too small" if by_disk else ""
    if ladder.clash is not None and step == len(ladder.rungs) - 1:
        more = f"; there is no more of it with {ladder.clash.message.partition(':')[0]}"
    cost = ladder.prices[step]
    return Chosen(
        ladder.name, ladder.requests[step], f"{ladder.rungs[step].told}{more}", cost, cost.at(asked.pace).seconds
    )


def _left_out(ladder: _Ladder, asked: Asked, whole: Price) -> Chosen:
    cost = ladder.prices[0]
    what = f"its smallest scale ({ladder.rungs[0].told})"
    fits_disk = cost.is_on_disk(whole)
    if not fits_disk:
        why = f"{what} needs {cost.bytes / 1e9:.1f} GB of disk, and {whole.bytes / 1e9:.1f} GB may be used"
    else:
        room = "has no room" if asked.left_s is None else f"had no room any more ({span_text(asked.left_s)} were left)"
        took = span_text(cost.at(asked.pace).seconds)
        why = f"{what} takes about {took}, for which the budget {room} beside the others"
    return Chosen(ladder.name, None, "", cost, None, why, fits_disk)


def refuse_nothing(asked: Asked, found: Sequence[Chosen]) -> None:
    """A budget in which nothing can be measured: which one would do?"""
    if any(one.request for one in found):
        return
    able = [one.price.seconds for one in found if one.fits_disk]
    if not able:
        raise HostUnfitError(f"no experiment fits the disk: {found[0].name} at {found[0].left_out}", HINT)
    least, every = (math.ceil(seconds / OF_THE_BUDGET / 60) for seconds in (min(able), sum(able)))
    rest = f", or BUDGET={every}m for all of them at their smallest" if every > least else ""
    raise UsageError(
        f"in {span_text(asked.budget_s)} no experiment can be measured, not even at its smallest scale",
        f"give BUDGET={least}m for the shortest{rest}",
    )


def _request(name: str, asked: Asked, rung: Rung) -> Request:
    words = ["--version", " ".join(asked.versions), *rung.words, *asked.shared]
    return request_of(name, words)
