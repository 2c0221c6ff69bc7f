"""How often was each chain of calls seen, and which functions were on top? As a counter, and as flame graph programs
read it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from recovery.model import Hot

_WAITS = re.compile(
    r"futex|cond_(?:timed|clock)?wait|io_p?getevents|getevent_thread|io_uring_(?:enter|wait)|sigwait|sigtimedwait|nanosleep"
    r"|(?:^|_)p?poll(?:_nocancel)?$|epoll_p?wait|(?:^|_)p?select(?:64)?$|(?:^|_)accept4?$|^\[libaio"
)
_CONTENDS = re.compile(r"lll_lock|mutex_(?:timed)?lock")
_INNERMOST = 3
"""Frames in which a waiting thread's call to the kernel lies."""
_COUNT = re.compile(r"[0-9]{1,15}")
MOST_FRAMES = 300
"""The programs that take stacks end at fewer."""
MOST_HOT = 15
"""Functions of a run."""
LEAST_SAMPLES = 20
"""Of fewer no share is told."""

Folded = Counter[tuple[str, ...]]
"""By phase, thread, and functions from the outermost on."""


def written(folded: Folded) -> str:
    """Names joined by semicolons, and how often."""
    return "".join(f"{';'.join(names)} {count}\n" for names, count in sorted(folded.items()))


def read(text: str) -> Folded:
    """What is no such line is left out, and of a stack that goes round in circles its inside."""
    folded: Folded = Counter()
    for line in text.split("\n"):
        names, _, count = line.rpartition(" ")
        if names and _COUNT.fullmatch(count):
            folded[tuple(names.split(";")[:MOST_FRAMES])] += int(count)
    return folded


def waits(frames: Sequence[str]) -> bool:
    """For another thread, for work, or for a time. To wait for a mutex is to work: others hold it, and that is told."""
    innermost = frames[-_INNERMOST:]
    return any(map(_WAITS.search, innermost)) and not any(map(_CONTENDS.search, innermost))


def share(count: int, of: int, *, decimals: int = 1) -> str:
    """In percent; of too few samples `7 of 12`."""
    return f"{100 * count / of:.{decimals}f} %" if of >= LEAST_SAMPLES else f"{count} of {of}"


def hottest(folded: Folded) -> tuple[Hot, ...]:
    """The functions most often on top, of threads that did not wait."""
    on_top: Counter[str] = Counter()
    within: Counter[str] = Counter()
    for names, count in folded.items():
        frames = names[2:]
        if frames and not waits(frames):
            on_top[frames[-1]] += count
            within.update(dict.fromkeys(frames, count))
    of = on_top.total()
    ranked = sorted(on_top.items(), key=lambda one: (-one[1], one[0]))
    return tuple(Hot(name, count, within[name], of) for name, count in ranked[:MOST_HOT])
