"""Which options are in effect with another value than was asked for, and which two experiments are one? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from recovery.model import Session

Known = Mapping[str, str]
"""What is known of a server, as a session stores it: the `options` given to it, and under `@name` what is in effect."""
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_WORDS = {"on": "1", "true": "1", "off": "0", "false": "0"}


@dataclass(frozen=True)
class Lowered:
    """Servers lower what their host does not allow, round what is no multiple, and raise what is too little."""

    option: str
    asked: str
    effective: str

    def __str__(self) -> str:
        return f"{self.option}={self.asked} was asked for, and {self.effective} is in effect"


def given(known: Known) -> dict[str, str]:
    pairs = (pair.partition("=")[::2] for pair in known.get("options", "").split())
    return {name.removeprefix("loose_"): value for name, value in pairs}


def same(one: str, other: str) -> bool:
    """`16k` and 16384 are the same, and so are ON and 1."""
    return one == other or _plain(one) == _plain(other)


def lowered(known: Known) -> Iterator[Lowered]:
    """Of what was given, as far as the server tells it."""
    for option, asked in given(known).items():
        effective = known.get(f"@{option}")
        if effective is not None and not same(asked, effective):
            yield Lowered(option, asked, effective)


def one_experiment(one: Known, other: Known) -> tuple[Lowered, ...]:
    """Where other values were asked for, and the same are in effect for all of them; none where they differ. Who says
    nothing of an option is another: he may well ask for something else of a server at its default."""
    asked, others = given(one), given(other)
    found = []
    for name in asked | others:
        if name not in asked or name not in others:
            return ()
        if same(asked[name], others[name]):
            continue
        effective, too = one.get(f"@{name}"), other.get(f"@{name}")
        if effective is None or too is None or not same(effective, too):
            return ()
        found.append(Lowered(name, asked[name], effective))
    return tuple(found)


def server_of_cell(session: Session, version: str, variant: str) -> Known:
    """What was said by the server of this cell: of those whose options agree with it the one that has most of them."""
    cell = session.cells.get(variant, {})
    axes = {axis.name for axis in session.axes}
    best: tuple[int, Known] = (-1, {})
    for name, known in session.servers.items():
        if name.partition(" ")[0] != version:
            continue
        options = {option: value for option, value in given(known).items() if option in axes}
        if any(option not in cell or not same(value, cell[option]) for option, value in options.items()):
            continue
        if len(options) > best[0]:
            best = (len(options), known)
    return best[1]


def are_one(session: Session, version: str, variants: tuple[str, str]) -> bool:
    """Two cells in which other values were asked for of options that have the same in effect."""
    one, other = (server_of_cell(session, version, variant) for variant in variants)
    return bool(one_experiment(one, other))


def _plain(text: str) -> float | str:
    small = _WORDS.get(text.lower(), text.lower())
    factor = _UNITS.get(small[-1:], 1)
    try:
        return float(small[:-1] if factor > 1 else small) * factor
    except ValueError:
        return small.replace("_", "-")
