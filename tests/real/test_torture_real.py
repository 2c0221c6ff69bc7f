"""Nothing is lost and nothing left, whenever the tool is killed: a dozen moments (`make torture` has hundreds)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from torture.chain import Chain, Lengths, Point
from torture.place import Place, torture_place
from torture.told import failures

# Any session would end the servers that a killed one has left, which is what is looked for here.
pytestmark = [pytest.mark.real, pytest.mark.alone]
SEED, KILLS, MOST_CHAINS = 7, 12, 30


@pytest.fixture
def place() -> Iterator[Place]:
    with torture_place() as found:
        yield found


@pytest.mark.timeout(240)
def test_a_dozen_kills(place: Place) -> None:
    points: list[Point] = []
    lengths = Lengths()
    for number in range(MOST_CHAINS):
        points += Chain(place, number, seed=SEED, lengths=lengths).run()
        if len(points) >= KILLS:
            break
    assert not list(failures(points, SEED))
    assert len(points) >= KILLS
