"""Where does a statement of an SQL script end, and may it run beside its neighbours? Streaming, and pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum

_READ_CHARS = 65536

# Whole tokens only, possessive: the pattern reaches a semicolon exactly if everything before it is complete, so a
# buffer that ends inside a string, a comment or before the second dash of one never matches too early.
_STATEMENT = re.compile(
    r"""(?:
        [^;'"`#/-]++
      | '(?:[^'\\]++|\\.)*+'
      | "(?:[^"\\]++|\\.)*+"
      | `[^`]*+`
      | \#[^\n]*+\n
      | --(?=\s)[^\n]*+\n
      | -(?!-\s)
      | /\*(?:[^*]++|\*(?!/))*+\*/
      | /(?!\*)
    )*+;""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
# Nothing the server would run: white space, and comments except /*! … */ and /*M! … */, which are code.
_LEADING = re.compile(
    r"(?:\s++|\#[^\n]*+(?:\n|\Z)|--(?:\Z|(?=\s)[^\n]*+(?:\n|\Z))|/\*(?!M?!)(?:[^*]++|\*(?!/))*+\*/)++",
    re.ASCII,
)
_BLANKS = " \t\r\n\f\v"
"""As servers know them: what else looks blank is a mistake, and theirs to tell."""

_CREATE_TABLE = re.compile(r"create\s+(?:or\s+replace\s+)?table\b", re.IGNORECASE)
_INSERT = re.compile(r"insert\b", re.IGNORECASE)
_SESSION = re.compile(r"(?:use|set)\b", re.IGNORECASE)
_DEPENDS = re.compile(r"\b(?:like|references|select|union)\b", re.IGNORECASE)
_FILLS = re.compile(r"insert\s*/\*\s*fills\s*\*/", re.IGNORECASE)
_QUOTED = re.compile(r"""'(?:[^'\\]++|\\.)*+'|"(?:[^"\\]++|\\.)*+"|`[^`]*+`""", re.DOTALL)
_INDEX = re.compile(r"\bprimary\s+key\b|\b(unique(?:\s+(?:key|index))?|key|index)\b", re.IGNORECASE)
_COMPRESSED = re.compile(r"\brow_format\s*=?\s*compressed\b|\bkey_block_size\b", re.IGNORECASE)
_KEY_BLOCK_SIZE = re.compile(r"\bkey_block_size\s*=?\s*(\d{1,2})\b", re.IGNORECASE)
REFERENCES = re.compile(r"\breferences\b", re.IGNORECASE)


class Kind(Enum):
    """How a statement may be run."""

    TABLE = "creates a table that needs no other"
    INSERT = "inserts rows that come from nowhere else"
    FILL = "an insert that makes many such rows itself, and says so: `insert /* fills */`. It travels alone"
    SESSION = "changes a connection: all of them must run it"
    IN_ORDER = "anything else: after all before it, and before all after it"


def split(chunks: Iterable[str], *, read_chars: int = _READ_CHARS) -> Iterator[str]:
    """The statements of a script that comes in chunks, without semicolons, leading comments and empty ones.

    `read_chars` is how much is gathered at least before looking; a statement that goes on is looked at again only when
    it has doubled, so that long ones take no quadratic time."""
    source = iter(chunks)
    rest = ""
    while True:
        gathered, ended = _gather(source, max(read_chars, len(rest)))
        buffer = rest + gathered
        start = 0
        while match := _STATEMENT.match(buffer, start):
            yield from _clean(buffer[start : match.end() - 1])
            start = match.end()
        rest = buffer[start:]
        if ended:
            yield from _clean(rest)
            return


def kind_of(statement: str) -> Kind:
    if _CREATE_TABLE.match(statement):
        return Kind.IN_ORDER if _DEPENDS.search(statement) else Kind.TABLE
    if _FILLS.match(statement):
        return Kind.FILL
    if _INSERT.match(statement):
        return Kind.IN_ORDER if _DEPENDS.search(statement) else Kind.INSERT
    return Kind.SESSION if _SESSION.match(statement) else Kind.IN_ORDER


def creates_table(statement: str) -> bool:
    """A table that stays: a temporary one is none."""
    return _CREATE_TABLE.match(statement) is not None


def count_indexes(definition: str) -> int:
    """That a table's definition names, beside its primary key."""
    return sum(bool(found[1]) for found in _INDEX.finditer(_QUOTED.sub("", definition)))


def compressed_kib(definition: str) -> int | None:
    """The size of a table's compressed pages, 0 where the server chooses it; None where they are not compressed."""
    plain = _QUOTED.sub("", definition)
    if _COMPRESSED.search(plain) is None:
        return None
    asked = _KEY_BLOCK_SIZE.search(plain)
    return int(asked[1]) if asked else 0


def _gather(source: Iterator[str], least: int) -> tuple[str, bool]:
    parts: list[str] = []
    length = 0
    for chunk in source:
        parts.append(chunk)
        length += len(chunk)
        if length >= least:
            return "".join(parts), False
    return "".join(parts), True


def _clean(statement: str) -> Iterator[str]:
    if statement[:1] in "-#/" + _BLANKS and (leading := _LEADING.match(statement)):
        statement = statement[leading.end() :]
    if statement:
        yield statement.rstrip(_BLANKS)
