"""Counts folded stack traces, in the format that flame graph programs read, and finds the hottest functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from recovery.model import HotFunction

_WAITING_CALLS = re.compile(
    r"futex|cond_(?:timed|clock)?wait|io_p?getevents|getevent_thread|io_uring_(?:enter|wait)|sigwait|sigtimedwait|nanosleep"
    r"|(?:^|_)p?poll(?:_nocancel)?$|epoll_p?wait|(?:^|_)p?select(?:64)?$|(?:^|_)accept4?$|^\[libaio"
)
_MUTEX_CALLS = re.compile(r"lll_lock|mutex_(?:timed)?lock")
_INNERMOST_FRAMES = 3
"""Number of innermost frames that contain the system call of a waiting thread."""
_COUNT = re.compile(r"[0-9]{1,15}")
MAX_FRAMES = 300
"""More frames than the programs that take stack traces record."""
MAX_HOT_FUNCTIONS = 15
"""Number of functions that are stored for a run."""
MIN_SAMPLES = 20
"""With fewer samples no percentage is shown."""

Folded = Counter[tuple[str, ...]]
"""Keys are phase, thread, and functions from the outermost to the innermost."""


def folded_text(folded: Folded) -> str:
    """Returns one line for each stack: names joined by semicolons, and its count."""
    return "".join(f"{';'.join(names)} {count}\n" for names, count in sorted(folded.items()))


def parse_folded(text: str) -> Folded:
    """Parses folded stacks. Other lines are skipped, and a stack with too many frames (endless recursion) loses its
    innermost ones."""
    folded: Folded = Counter()
    for line in text.split("\n"):
        names, _, count = line.rpartition(" ")
        if names and _COUNT.fullmatch(count):
            folded[tuple(names.split(";")[:MAX_FRAMES])] += int(count)
    return folded


def is_waiting(frames: Sequence[str]) -> bool:
    """Returns whether a thread waits for another thread, for work, or for a time. Waiting for a mutex does not count as
    waiting, because other threads hold it, and the contention is to be reported."""
    innermost = frames[-_INNERMOST_FRAMES:]
    return any(map(_WAITING_CALLS.search, innermost)) and not any(map(_MUTEX_CALLS.search, innermost))


def share_text(count: int, of: int, *, decimals: int = 1) -> str:
    """Formats the share as a percentage, or as `7 of 12` if there are too few samples."""
    return f"{100 * count / of:.{decimals}f} %" if of >= MIN_SAMPLES else f"{count} of {of}"


def hottest_functions(folded: Folded) -> tuple[HotFunction, ...]:
    """Returns the functions most often on top of the stacks of threads that were not waiting."""
    on_top: Counter[str] = Counter()
    within: Counter[str] = Counter()
    for names, count in folded.items():
        frames = names[2:]
        if frames and not is_waiting(frames):
            on_top[frames[-1]] += count
            within.update(dict.fromkeys(frames, count))
    of = on_top.total()
    ranked = sorted(on_top.items(), key=lambda counted: (-counted[1], counted[0]))
    return tuple(HotFunction(name, count, within[name], of) for name, count in ranked[:MAX_HOT_FUNCTIONS])
