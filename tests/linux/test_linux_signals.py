"""Signals end the command in order; pauses and clock changes during a measurement are detected."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from otherusers import done_in_child
from waiting import DEADLINE_S, until

from recovery.linux.procfs import is_stopped
from recovery.linux.signals import (
    ENDING_SIGNALS,
    ClockGuard,
    count_resumes,
    defer_signals,
    raise_interrupt_on_signals,
    repeat_lost_interrupts,
    use_signal_handler,
)


@pytest.fixture(autouse=True)
def handlers_restored() -> Iterator[None]:
    # nohup makes the tests ignore one.
    before = {number: signal.signal(number, signal.SIG_DFL) for number in ENDING_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", sorted(ENDING_SIGNALS))
def test_every_ending_signal_is_an_interrupt(number: int) -> None:
    raise_interrupt_on_signals()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_an_interrupt_within_a_destructor_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closing:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(sys, "unraisablehook", None)  # is restored at the end
    raise_interrupt_on_signals()
    repeat_lost_interrupts()
    opened = [Closing()]
    with pytest.raises(KeyboardInterrupt):
        wait_after(opened.clear)


def wait_after(action: Callable[[], None]) -> None:
    action()
    threading.Event().wait(DEADLINE_S)


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


def test_every_signal_that_can_be_handled_ends_the_command_with_130() -> None:
    printed = subprocess.run([sys.executable, "-c", ALL_OF_THEM], capture_output=True, text=True, check=True).stdout
    codes = {int(number): code for number, code in map(str.split, printed.splitlines())}
    faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
    ended = {number for number, code in codes.items() if code.startswith("-")}
    assert ended == {signal.SIGKILL, *faults}
    assert {number for number, code in codes.items() if code == "130"} == ENDING_SIGNALS


def test_a_signal_goes_to_the_innermost_handler() -> None:
    raise_interrupt_on_signals()
    came: list[int] = []
    with use_signal_handler(lambda number, _: came.append(number)):
        with use_signal_handler(lambda number, _: came.append(-number)):
            signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR1)
    assert came == [-signal.SIGUSR1, signal.SIGUSR1]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGUSR1)


def test_a_deferred_signal_is_raised_at_the_end_of_the_block() -> None:
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


def test_an_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise_interrupt_on_signals()
    with defer_signals():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_another_thread_installs_no_handler() -> None:
    came: list[int] = []

    def elsewhere() -> None:
        with use_signal_handler(lambda number, _frame: came.append(number)):
            came.append(0)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert came == [0]


# --- Pauses and clock changes


def test_an_hour_by_every_clock_is_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    guard, wall, clock, monotonic = ClockGuard(), time.time, time.clock_gettime, time.monotonic
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: wall() + 3600)
        patch.setattr(time, "clock_gettime", lambda which: clock(which) + 3600)
        patch.setattr(time, "monotonic", lambda: monotonic() + 3600)
        found = guard.pause(), guard.clock_set_s()
    assert found == (None, None)


@pytest.mark.parametrize("name", ["time", "clock_gettime"])
def test_a_process_that_waits_for_a_cpu_between_two_clocks_is_not_paused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, monotonic, waited_s = getattr(time, name), time.monotonic, 0.0

    def read_and_wait(*which: int) -> float:
        nonlocal waited_s
        now_s = clock(*which) + waited_s
        waited_s = 5.0
        return float(now_s)

    monkeypatch.setattr(time, name, read_and_wait)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + waited_s)
    guard = ClockGuard()
    assert waited_s
    if name == "time":
        assert guard.clock_set_s() is None
    else:
        assert guard.pause() is None


def test_a_process_notices_that_it_was_stopped() -> None:
    def stop_and_continue() -> str:
        count_resumes()
        guard, own = ClockGuard(), os.getpid()
        helper = os.fork()
        if helper == 0:
            until(lambda: is_stopped(own), "the stop")
            os.kill(own, signal.SIGCONT)
            os._exit(0)
        os.kill(own, signal.SIGSTOP)
        os.waitpid(helper, 0)
        return str(guard.pause())

    assert "this tool was stopped meanwhile" in done_in_child(stop_and_continue)


def test_a_clock_that_was_set_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    guard, now = ClockGuard(), time.time
    monkeypatch.setattr(time, "time", lambda: now() - 3600)
    assert guard.clock_set_s() == pytest.approx(-3600, abs=1)
    assert guard.pause() is None


def test_a_host_that_slept_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    guard, clock = ClockGuard(), time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda which: clock(which) + 90)
    assert guard.pause() == "the host slept for 90 s meanwhile"
