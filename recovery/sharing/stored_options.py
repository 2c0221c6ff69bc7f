"""Reads the options that a session was measured with from their stored texts: words, server options, variants."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from recovery.errors import UsageError
from recovery.model import Layout, NamedSettings

_LAYOUT_KEYS = ("layout", "schemas")
"""Keys of a variant that are not server options."""


def split_words(text: object) -> list[str]:
    """Splits a text into words like a shell, or at blanks if its quotes are not balanced."""
    try:
        return shlex.split(str(text or ""))
    except ValueError:
        return str(text).split()


def split_options(options: str) -> list[str]:
    """Returns the options of a text in which they are separated by blanks.

    A value may contain blanks itself: a word that does not look like an option belongs to the option before it."""
    parts: list[str] = []
    for word in options.split():
        if not parts or re.match(r"[a-z][a-z0-9_.]*=", word) or re.fullmatch(r"[a-z0-9]+(?:_[a-z0-9]+)+", word):
            parts.append(word)
        else:
            parts[-1] += f" {word}"
    return parts


def is_init_option(option: str) -> bool:
    """Returns whether the value of a server option is SQL."""
    return option.removeprefix("loose_").startswith("init_")


def named_settings(stored: object) -> tuple[NamedSettings, ...]:
    """Returns the variants that the user named, from the stored setting `variants`. Raises UsageError if it is
    damaged."""
    return tuple(map(_named, split_words(stored)))


def _named(text: str) -> NamedSettings:
    label, colon, pairs = text.partition(":")
    if not colon or not label:
        raise UsageError("the stored variants are damaged")
    options = dict(_pairs(pairs))
    layout, schemas = (options.pop(key, None) for key in _LAYOUT_KEYS)
    try:
        return NamedSettings(
            label,
            tuple(options.items()),
            None if layout is None else Layout(layout),
            None if schemas is None else int(schemas),
        )
    except ValueError as error:
        raise UsageError("the stored variants are damaged") from error


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for pair in filter(str.strip, text.split(",")):
        name, _, value = pair.partition("=")
        yield name.strip(), value.strip()
