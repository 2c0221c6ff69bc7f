"""Compares the options that were given to servers with those in effect, and detects cells that ran with the same
options although different ones were requested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from recovery.model import Session

ServerFacts = Mapping[str, str]
"""Facts about a server as stored in a session: the `options` given to it, and under `@name` the effective values."""
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_BOOLEAN_WORDS = {"on": "1", "true": "1", "off": "0", "false": "0"}


@dataclass(frozen=True)
class ChangedOption:
    """An option with an effective value other than the requested one. Servers lower values that their host does not
    allow, round those that are not a multiple, and raise those that are too small."""

    option: str
    requested: str
    effective: str

    def __str__(self) -> str:
        return f"{self.option}={self.requested} was requested, {self.effective} is in effect"


def given_options(known: ServerFacts) -> dict[str, str]:
    """Returns the options that were given to the server, without the prefix `loose_`."""
    pairs = (pair.partition("=")[::2] for pair in known.get("options", "").split())
    return {name.removeprefix("loose_"): value for name, value in pairs}


def same_value(one: str, other: str) -> bool:
    """Returns whether two values of an option are equal: `16k` equals 16384, and ON equals 1."""
    return one == other or _normalized(one) == _normalized(other)


def changed_options(known: ServerFacts) -> Iterator[ChangedOption]:
    """Yields the given options that have another effective value, if the server reports it."""
    for option, requested in given_options(known).items():
        effective = known.get(f"@{option}")
        if option == "log_bin" and effective == "ON":  # the option takes a file name, its variable is a switch
            continue
        if effective is not None and not same_value(requested, effective):
            yield ChangedOption(option, requested, effective)


def same_effective_options(one: ServerFacts, other: ServerFacts) -> tuple[ChangedOption, ...]:
    """Returns the options that were requested with different values and have the same value in effect on both servers.
    Empty if any option differs in effect, or if only one of the servers was given it: the default of the other one may
    be another value."""
    requested, others = given_options(one), given_options(other)
    found = []
    for name in requested | others:
        if name not in requested or name not in others:
            return ()
        if same_value(requested[name], others[name]):
            continue
        effective, too = one.get(f"@{name}"), other.get(f"@{name}")
        if effective is None or too is None or not same_value(effective, too):
            return ()
        found.append(ChangedOption(name, requested[name], effective))
    return tuple(found)


def server_of_cell(session: Session, version: str, variant: str) -> ServerFacts:
    """Returns the facts about the server of this cell: among the servers with options that agree with the cell, the one
    with the most options of its axes."""
    cell = session.values_of(variant)
    axes = {axis.name for axis in session.axes}
    best: tuple[int, ServerFacts] = (-1, {})
    for name, known in session.servers_of(variant).items():
        if name.partition(" ")[0] != version:
            continue
        options = {option: value for option, value in given_options(known).items() if option in axes}
        if any(option not in cell or not same_value(value, cell[option]) for option, value in options.items()):
            continue
        if len(options) > best[0]:
            best = (len(options), known)
    return best[1]


def are_equivalent(session: Session, version: str, variants: tuple[str, str]) -> bool:
    """Returns whether two cells differ only in requested options that have the same value in effect."""
    one, other = (server_of_cell(session, version, variant) for variant in variants)
    return bool(same_effective_options(one, other))


def _normalized(text: str) -> float | str:
    small = _BOOLEAN_WORDS.get(text.lower(), text.lower())
    factor = _UNITS.get(small[-1:], 1)
    try:
        return float(small[:-1] if factor > 1 else small) * factor
    except ValueError:
        return small.replace("_", "-")
