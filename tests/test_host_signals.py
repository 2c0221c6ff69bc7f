"""Signals that come at the wrong moment come a moment later, and those that are ignored stay ignored."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from recovery.linux.signals import ENDING_SIGNALS, defer_signals, raise_interrupt_on_signals, use_signal_handler


@pytest.fixture(autouse=True)
def as_they_were() -> Iterator[None]:
    # Whoever starts the tests with nohup has them ignore one.
    before = {number: signal.signal(number, signal.SIG_DFL) for number in ENDING_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", sorted(ENDING_SIGNALS))
def test_each_is_an_interrupt(number: int) -> None:
    raise_interrupt_on_signals()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


ALL_OF_THEM = """
import os, signal
from recovery.cli import main as cli

def killed(number):
    "Returns how the command line ends, if this signal comes while it runs."
    child = os.fork()
    if not child:
        for one in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(one, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

        def work(_):
            os.kill(os.getpid(), number)
            return 7

        cli.run = work
        try:
            cli.main()
        except SystemExit as ended:
            os._exit(ended.code)
    status = os.waitpid(child, os.WUNTRACED)[1]
    if os.WIFSTOPPED(status):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "stopped"
    return os.waitstatus_to_exitcode(status)

for number in sorted(signal.valid_signals()):
    print(number, killed(number))
"""


def test_what_would_end_the_command_ends_it_by_130() -> None:
    """Whatever the kernel knows: those that are left end nothing, or cannot be handled."""
    told = subprocess.run([sys.executable, "-c", ALL_OF_THEM], capture_output=True, text=True, check=True).stdout
    codes = {int(number): code for number, code in map(str.split, told.splitlines())}
    faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
    ended = {number for number, code in codes.items() if code.startswith("-")}
    assert ended == {signal.SIGKILL, *faults}
    assert {number for number, code in codes.items() if code == "130"} == ENDING_SIGNALS


def test_one_that_comes_while_handlers_change_is_not_lost() -> None:
    """Those of the outer block get it, or those of the inner one; afterwards it is an interrupt again."""
    raise_interrupt_on_signals()
    came: list[int] = []
    with use_signal_handler(lambda number, _: came.append(number)):
        with use_signal_handler(lambda number, _: came.append(-number)):
            signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR1)
    assert came == [-signal.SIGUSR1, signal.SIGUSR1]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGUSR1)


def test_what_comes_while_held_back_comes_right_afterwards() -> None:
    raise_interrupt_on_signals()
    reached = []

    def launch() -> None:
        with defer_signals():
            signal.raise_signal(signal.SIGTERM)
            reached.append("the end of the block")

    with pytest.raises(KeyboardInterrupt):
        launch()
    assert reached
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_what_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise_interrupt_on_signals()
    with defer_signals():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_another_thread_handles_none() -> None:
    came: list[int] = []

    def elsewhere() -> None:
        with use_signal_handler(lambda number, _frame: came.append(number)):
            came.append(0)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert came == [0]
