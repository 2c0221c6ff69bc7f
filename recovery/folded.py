"""How often was each chain of calls seen? As a counter, and as the lines that flame graph programs read."""

from __future__ import annotations

from collections import Counter

Folded = Counter[tuple[str, ...]]
"""By phase, thread, and functions from the outermost on."""


def written(folded: Folded) -> str:
    """Names joined by semicolons, and how often."""
    return "".join(f"{';'.join(names)} {count}\n" for names, count in sorted(folded.items()))


def read(text: str) -> Folded:
    """What is no such line is left out."""
    folded: Folded = Counter()
    for line in text.splitlines():
        names, _, count = line.rpartition(" ")
        if names and count.isdecimal():
            folded[tuple(names.split(";"))] += int(count)
    return folded
