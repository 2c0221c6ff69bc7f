"""Signals that come at the wrong moment come a moment later, and those that are ignored stay ignored."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from recovery.host.signals import end_like_an_interrupt, handled_by, held_back


@pytest.fixture(autouse=True)
def as_they_were() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # Whoever starts the tests with nohup has them ignore one.
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_all_three_are_an_interrupt(number: signal.Signals) -> None:
    end_like_an_interrupt()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_what_comes_while_held_back_comes_right_afterwards() -> None:
    end_like_an_interrupt()
    reached = []

    def launch() -> None:
        with held_back():
            signal.raise_signal(signal.SIGTERM)
            reached.append("the end of the block")

    with pytest.raises(KeyboardInterrupt):
        launch()
    assert reached
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_what_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    end_like_an_interrupt()
    with held_back():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_another_thread_handles_none() -> None:
    came: list[int] = []

    def elsewhere() -> None:
        with handled_by(lambda number, _frame: came.append(number)):
            came.append(0)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert came == [0]
