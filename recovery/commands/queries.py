"""Which questions of the user's own are asked? A file of SQL statements, each under a name that nothing else has."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from recovery.errors import UsageError
from recovery.files import read_limited
from recovery.load.statements import split

_NAME = re.compile(r"^--\s+(\S.*?)\s*$", re.MULTILINE)
_MOST_BYTES = 1_000_000
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,30}")


def read_queries(path: Path, taken: Collection[str]) -> Iterator[tuple[str, str]]:
    """Each statement under the name in the comment right above it, or under its number. `taken` are the names of what
    is asked anyway: two of one name would be told as one."""
    text = _text(path)
    found = list(split([text]))
    if not found:
        raise UsageError(f"{path} holds no statement", "write SQL with a semicolon behind each statement")
    lines = dict.fromkeys((name.casefold() for name in taken), 0)
    at = 0
    for number, statement in enumerate(found, 1):
        here = text.index(statement, at)
        named = list(_NAME.finditer(text, at, here))
        name = named[-1][1] if named else f"query-{number}"
        line = 1 + text.count("\n", 0, named[-1].start() if named else here)
        if not _PLAIN.fullmatch(name):
            raise UsageError(
                f"{path}, line {line}: '{name}' is no name of a question",
                "use letters, digits, dots and dashes, 31 at most",
            )
        if (before := lines.setdefault(name.casefold(), line)) != line:
            what = f"line {before} has one of this name" if before else "the experiment has one of this name itself"
            raise UsageError(f"{path}, line {line}: '{name}' is the name of two questions: {what}", "call it otherwise")
        at = here + len(statement)
        yield name, statement


def _text(path: Path) -> str:
    try:
        text = read_limited(path, _MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"QUERIES: {path} is not UTF-8 text", "save it as UTF-8") from error
    except OSError as error:
        raise UsageError(f"QUERIES: {path} cannot be read: {error.strerror}", "check the path") from error
    if "\0" in text:
        raise UsageError(f"QUERIES: {path} is no text", "give a file of SQL statements")
    return text
