"""What one look at a server shows: a stack for each thread, by names that a reader knows. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

_OPERATOR = re.compile(r"operator\s*(?:\(\)|<=>|<<=?|>>=?|->\*?|[<>]=?)")
_CUT = re.compile(r"@@?(?=\w)| \[clone")
"""From here on: which edition of a library's function, which part of a function of the compiler's."""
_ANONYMOUS = "(anonymous namespace)"
_HIDDEN = str.maketrans("()<>", "\x01\x02\x03\x04")
_SHOWN = str.maketrans("\x01\x02\x03\x04", "()<>")


@dataclass(frozen=True)
class Stack:
    main: bool
    """Of the thread that the process began with: it is the one that starts the server."""
    frames: tuple[str, ...]
    """Functions, outermost first; `[file]` is one of that file, for which it has no symbol."""


@dataclass(frozen=True)
class Snapshot:
    at_s: float
    """Seconds since the exec of the server."""
    stacks: tuple[Stack, ...]


def nameless(file: str) -> str:
    return f"[{PurePath(file).name or '?'}]".replace(";", ",")


def plain_name(name: str) -> str:
    """A function without its parameters, its type, and what its templates were made for."""
    text = _OPERATOR.sub(lambda found: found[0].translate(_HIDDEN), _CUT.split(name, maxsplit=1)[0])
    text = text.replace(_ANONYMOUS, _ANONYMOUS.translate(_HIDDEN).replace(" ", "\x05"))
    kept, depth = list[str](), 0
    for letter in text:
        if letter == "(" and depth == 0:
            break
        depth -= letter == ">"
        if depth == 0:
            kept.append(letter)
        depth += letter == "<"
    words = "".join(kept).strip().split(" ")
    first = next((number for number, word in enumerate(words) if "operator" in word), len(words) - 1)
    plain = " ".join(words[first:]).replace("\x05", " ").translate(_SHOWN) or name
    return plain.replace(";", ",")
