"""Which lines of a server's log say that its files are damaged? Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_DAMAGED = re.compile(
    r"corrupt|checksum|is in the future|Assertion failure|\bgot signal |marked as crashed"
    r"|\[ERROR\].*(was not found|is missing|does not exist|doesn't exist|cannot (open|read|rename|delete))",
    re.IGNORECASE,
)
_HARMLESS = re.compile(r"\[Note\]|^(?!.*\[ERROR\]).*doublewrite", re.IGNORECASE)
"""What a page was found to be before it was put right again, out of the doublewrite buffer, is no damage."""


def complaints(lines: Iterable[str]) -> tuple[str, ...]:
    """Those that speak of damage; a recovery that goes well has none."""
    return tuple(line.strip() for line in lines if _DAMAGED.search(line) and not _HARMLESS.search(line))
