"""Which lines of a server's log say that its files are damaged? Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from recovery.server.errorlog import LONGEST, is_error

_DAMAGED = re.compile(
    r"corrupt|checksum|is in the future|Assertion failure|\bgot signal |marked as crashed"
    r"|(\[ERROR\]|InnoDB: Error:).*(was not found|is missing|does not exist|doesn't exist"
    r"|cannot (open|read|rename|delete)|could not (find|open|read)|unable to read|failed to find tablespace"
    r"|outside the tablespace bounds|stored in the page)",
    re.IGNORECASE,
)
_HARMLESS = re.compile(r"\[Note\]|^(?!.*\[ERROR\]).*doublewrite", re.IGNORECASE)
"""What a page was found to be before it was put right again, out of the doublewrite buffer, is no damage."""


def complaints(lines: Iterable[str]) -> tuple[str, ...]:
    """Those that speak of damage; a recovery that goes well has none."""
    return tuple(line.strip() for line in lines if _DAMAGED.search(line) and not _HARMLESS.search(line))


_SPEAKS = re.compile(
    r"\[(?:ERROR|Warning)\].*(?:corrupt|checksum|in the future|marked as crashed|should be at least|is missing\b"
    r"|does not exist|was not found|(?:could not|cannot) (?:be )?(?:find|found|open|opened|read)\b"
    r"|failed ?at offset|failed with error|no space left|out of disk space)"
    r"|InnoDB: (?:Error:|Database page corruption|.*\bcorrupted?\b|.*in the future|.*file is missing)",
    re.IGNORECASE,
)
_SAYS_LITTLE = re.compile(
    r"system error number \d+ in a file|error number \d+ means|the error means|installing InnoDB", re.IGNORECASE
)
"""Errors, of which the line after them says what of."""
_DIES = re.compile(r"Assertion failure|\bgot signal ")
_BEGINS = re.compile(r"\[(?:ERROR|Warning)\].*|InnoDB: (?!Progress in percent).*")
"""What stands before it is a stamp, or a line that another thread was in the midst of."""
_ENDS = (".", "!", "?", ":")
_MOST_LINES = 3
"""Of a sentence."""


def first_told(lines: Sequence[str]) -> str | None:
    """What a log says first of a damage, else its first error, else what the server dies of. Servers say it as errors
    and as warnings; 5.6 says some of it without either, in sentences of several lines."""
    for speaks in (_speaks, _is_telling_error, is_error, _dies):
        for number, line in enumerate(lines):
            if speaks(line[:LONGEST]):
                return _sentence(lines, number)
    return None


def _speaks(line: str) -> bool:
    return _SPEAKS.search(line) is not None and not _HARMLESS.search(line) and not _SAYS_LITTLE.search(line)


def _is_telling_error(line: str) -> bool:
    return is_error(line) and not _SAYS_LITTLE.search(line)


def _dies(line: str) -> bool:
    return _DIES.search(line) is not None


def _sentence(lines: Sequence[str], number: int) -> str:
    line = lines[number][:LONGEST].strip()
    begun = _BEGINS.search(line)
    found = line if begun is None else begun[0]
    if line.startswith("InnoDB: "):
        for more in lines[number + 1 : number + _MOST_LINES]:
            if found.endswith(_ENDS) or not more.startswith("InnoDB: "):
                break
            found = f"{found} {more[:LONGEST].removeprefix('InnoDB: ').strip()}"
    return found
