"""Simulated sessions whose true means are known: how often the tool's own intervals contain what they claim."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from recovery.analysis.contrasts import CellKey, Sample, contrasts

ONE, OTHER = CellKey("", "one", "cold"), CellKey("", "other", "cold")
_RATIO = 1.3
_SECONDS = 50.0


@dataclass(frozen=True)
class Spread:
    """Standard deviations of log seconds, from the components of real sessions."""

    run: float
    """Of the runs of a session."""
    session: float
    """Of sessions on one host, the same for all servers of a session."""
    own: float
    """Of sessions on one host, of each server by itself: what the ratio of two servers varies by."""
    host: float
    """Of hosts, the same for all servers."""
    own_on_host: float
    """Of hosts, of each server by itself."""
    change: float
    """Of the change from the first run of a session to its last, in either order."""


@dataclass(frozen=True)
class Conditions:
    """What the mean log seconds of both servers are: on a host, or in one session there."""

    one: float
    other: float

    def __add__(self, more: Conditions) -> Conditions:
        return Conditions(self.one + more.one, self.other + more.other)

    @property
    def log_ratio(self) -> float:
        return self.other - self.one


@dataclass(frozen=True)
class SimulatedSession:
    true: Conditions
    one: tuple[float, ...]
    """Seconds of one server, block by block."""
    other: tuple[float, ...]


def simulate_host(spread: Spread, chance: random.Random) -> Conditions:
    """Returns the long-run means of both servers on a new host."""
    shared = math.log(_SECONDS) + chance.gauss(0, spread.host)
    own = [chance.gauss(0, spread.own_on_host) for _ in range(2)]
    return Conditions(shared + own[0], shared + own[1] + math.log(_RATIO))


def simulate_session(
    host: Conditions, spread: Spread, chance: random.Random, *, runs: int, alternates: bool
) -> SimulatedSession:
    """Returns a session on a host. In one that alternates, each block has both servers in a random order."""
    shared = chance.gauss(0, spread.session)
    true = host + Conditions(shared + chance.gauss(0, spread.own), shared + chance.gauss(0, spread.own))
    order = _order(chance, runs, alternates=alternates)
    change = chance.gauss(0, spread.change)
    values: tuple[list[float], list[float]] = ([], [])
    for place, server in enumerate(order):
        mean = (true.one, true.other)[server] + change * (place / (len(order) - 1) - 0.5)
        values[server].append(math.exp(chance.gauss(mean, spread.run)))
    return SimulatedSession(true, tuple(values[0]), tuple(values[1]))


def _order(chance: random.Random, runs: int, *, alternates: bool) -> list[int]:
    """Returns which server each run of the session measures."""
    if not alternates:
        return [0] * runs + [1] * runs
    blocks = ([0, 1], [1, 0])
    return [server for _ in range(runs) for server in chance.choice(blocks)]


# --- What the intervals say, and how often they are right


@dataclass(frozen=True)
class Simulated:
    """Sessions on one host, and one more that was measured later."""

    spread: Spread
    host: Conditions
    sessions: tuple[SimulatedSession, ...]
    later: SimulatedSession
    alternates: bool

    def mean_interval(self) -> tuple[float, float]:
        """Returns the tool's interval of the mean of one server, which reports of several sessions and the end of a
        session have alike."""
        found = Sample(tuple(session.one for session in self.sessions)).statistics()
        low, high = found["mean"] - found["interval"], found["mean"] + found["interval"]
        return found.get("low", low), found.get("high", high)

    def ratio_interval(self) -> tuple[float, float]:
        """Returns the tool's interval of the ratio of two servers."""
        samples = {
            ONE: Sample(tuple(session.one for session in self.sessions), blocks=self._blocks(ONE)),
            OTHER: Sample(tuple(session.other for session in self.sessions), blocks=self._blocks(OTHER)),
        }
        (found,) = contrasts(samples, [(ONE, OTHER)])
        assert found.ratio_low is not None
        assert found.ratio_high is not None
        return found.ratio_low, found.ratio_high

    def _blocks(self, server: CellKey) -> tuple[tuple[Hashable, ...], ...]:
        """Returns the block of each run. Servers that are measured one after the other have none in common."""
        within = "" if self.alternates else server.version
        return tuple(
            tuple((place, within, block) for block in range(len(session.one)))
            for place, session in enumerate(self.sessions)
        )

    def mean_in(self, session: SimulatedSession) -> float:
        """Returns the mean of all runs that a session could have had. It is above their median."""
        return math.exp(session.true.one + self.spread.run**2 / 2)

    @property
    def mean_on_host(self) -> float:
        """The geometric mean of the means of all sessions that the host could have had."""
        return math.exp(self.host.one + self.spread.run**2 / 2)


@dataclass(frozen=True)
class Question:
    what: str
    """What the interval is asked to contain."""
    is_claimed: bool
    """Whether the words beside the interval claim it."""
    sessions: int
    alternates: bool
    interval: Callable[[Simulated], tuple[float, float]]
    target: Callable[[Simulated], float]


@dataclass(frozen=True)
class Coverage:
    what: str
    is_claimed: bool
    sessions: int
    alternates: bool
    covered: int
    of: int

    @property
    def share(self) -> float:
        return self.covered / self.of


_MEANS: tuple[tuple[str, Callable[[Simulated], float]], ...] = (
    ("the mean in this session", lambda found: found.mean_in(found.sessions[0])),
    ("the mean in a later session", lambda found: found.mean_in(found.later)),
    ("the host's mean over sessions", lambda found: found.mean_on_host),
)
_RATIOS: tuple[tuple[str, Callable[[Simulated], float]], ...] = (
    ("the ratio in this session", lambda found: math.exp(found.sessions[0].true.log_ratio)),
    ("the ratio in a later session", lambda found: math.exp(found.later.true.log_ratio)),
    ("the host's ratio over sessions", lambda found: math.exp(found.host.log_ratio)),
)
SEVERAL = 5


def _questions() -> Iterator[Question]:
    for alternates in (True, False):
        for sessions in (1, SEVERAL):
            for targets, interval in ((_MEANS, Simulated.mean_interval), (_RATIOS, Simulated.ratio_interval)):
                for place, (what, target) in enumerate(targets):
                    if place == 0 and sessions > 1:
                        continue  # there is no single session that it could be about
                    is_claimed = alternates and place == (0 if sessions == 1 else 2)
                    yield Question(what, is_claimed, sessions, alternates, interval, target)


QUESTIONS = tuple(_questions())


def coverage(spread: Spread, *, repeats: int, runs: int = 5, seed: int) -> tuple[Coverage, ...]:
    """Simulates hosts, and returns how often each interval contains what it is asked to."""
    chance = random.Random(seed)  # noqa: S311, nothing is secret
    covered = [0] * len(QUESTIONS)
    for _ in range(repeats):
        host = simulate_host(spread, chance)
        for alternates in (True, False):
            drawn = [
                simulate_session(host, spread, chance, runs=runs, alternates=alternates) for _ in range(SEVERAL + 1)
            ]
            for place, question in enumerate(QUESTIONS):
                if question.alternates == alternates:
                    found = Simulated(spread, host, tuple(drawn[: question.sessions]), drawn[-1], alternates)
                    low, high = question.interval(found)
                    covered[place] += low <= question.target(found) <= high
    return tuple(
        Coverage(question.what, question.is_claimed, question.sessions, question.alternates, count, repeats)
        for question, count in zip(QUESTIONS, covered, strict=True)
    )
