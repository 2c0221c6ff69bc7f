"""What does a figure say of what was published? A verdict and a sentence. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from recovery.experiments.literature import EITHER, Claim
from recovery.quantities import quantity
from recovery.report.work.said import number, times, worded
from recovery.students import LEAST_RUNS, Effect, difference_95

_NOTHING = 0.05
"""A published ratio that is no further from 1 says that nothing changes; so does one of ours."""
_COARSE = 0.1
"""An interval as wide hides what would be worth telling."""


_SPELLED = {"cpus": "CPUs"}


class Word(StrEnum):
    SHOWS = "shows"
    NOT = "does not show"
    OPPOSITE = "the opposite shows"
    UNTOLD = "cannot be told"
    COMPARED = "was compared"
    """Without a figure that was published."""


@dataclass(frozen=True)
class Asked:
    claim: Claim
    facts: Mapping[str, float]

    @property
    def lacks(self) -> str:
        """Why this host, or this scale, is no place to ask; empty where it is one."""
        missing = [name for name, least in self.claim.needs.items() if self.facts.get(name, 0) < least]
        if not missing:
            return ""
        told = " and ".join(f"{self.facts.get(name, 0):,} {_SPELLED.get(name, name)}" for name in missing)
        return f"{told} are too few{f': {self.claim.why}' if self.claim.why else ''}"


def published(claim: Claim) -> str:
    if claim.level is not None:
        return figure_words(claim, claim.level)
    if claim.direction == EITHER:
        return "no figure"
    if claim.published is None:
        return f"{claim.direction} than 1"
    if claim.at_least:
        return f"at least {times(claim.published)}"
    told = times(claim.published)
    return f"{told} to {times(claim.up_to)}" if claim.up_to else told


def figure_words(claim: Claim, value: float) -> str:
    """`31,000 bytes`, `100 % of all`."""
    told = f"{100 * value:.4g} %" if claim.unit.startswith("of ") else number(value)
    return f"{told} {claim.unit}".strip()


def of_ratio(asked: Asked, ours: Effect | None, *, least: int) -> tuple[Word, str]:
    theirs = f"published: {published(asked.claim)}"
    if ours is None:
        return Word.UNTOLD, f"Cannot be told: one of the two sides was not measured, or came to nothing; {theirs}."
    told = _times(ours)
    if ours.differs is None:
        runs = "one run" if least == 1 else f"{least} runs"
        return Word.UNTOLD, f"Cannot be told from {runs} of a cell, without an interval: {told}; {theirs}."
    if asked.claim.direction == EITHER:
        word = "significant" if ours.differs else "not significant"
        return Word.COMPARED, f"No figure was published; here {told}, {word}."
    word, text = _nothing_claimed(ours) if _is_nothing(asked.claim) else _effect_claimed(asked.claim, ours)
    lacks = asked.lacks
    if lacks and word is Word.NOT:
        return Word.UNTOLD, f"Cannot be told here: {told}, but {lacks}; {theirs}."
    doubt = f" A caveat: {lacks}." if lacks and word is not Word.UNTOLD else ""
    return word, f"{text.format(ours=told, theirs=theirs)}{doubt}"


def _is_nothing(claim: Claim) -> bool:
    return claim.published is not None and abs(claim.published - 1) <= _NOTHING


def _nothing_claimed(ours: Effect) -> tuple[Word, str]:
    assert ours.error is not None
    if ours.differs and abs(ours.value - 1) > _NOTHING:
        return Word.NOT, "Does not show here: {ours}, which is significant; {theirs}."
    if ours.error > _COARSE:
        return Word.UNTOLD, "Cannot be told: {ours} hides a difference as large as its interval; {theirs}."
    return Word.SHOWS, "Shows here: {ours}, next to no difference; {theirs}."


def _effect_claimed(claim: Claim, ours: Effect) -> tuple[Word, str]:
    assert ours.low is not None
    assert ours.high is not None
    low, high = ours.low, ours.high
    least, most = claim.published, claim.up_to or claim.published
    more = claim.direction == "more" if least is None else least > 1
    if not ours.differs:
        inside = least is not None and low <= least <= high
        if inside or (least is None and (high - low) / 2 > _COARSE):
            return (
                Word.UNTOLD,
                "Cannot be told: the interval of {ours} holds what was published and no difference, too; {theirs}.",
            )
        return Word.NOT, "Does not show here: {ours}, no significant difference; {theirs}."
    if (ours.value > 1) != more:
        return Word.OPPOSITE, "The opposite shows here: {ours}; {theirs}."
    if least is None or most is None:
        return Word.SHOWS, "Shows here: {ours}; {theirs}."
    if claim.at_least:
        held = "as published" if high >= least else "less than was published"
    elif low <= most and high >= least:
        held = "as much as was published"
    else:
        held = "more than was published" if (ours.value > most) == more else "less than was published"
    return Word.SHOWS, f"Shows here, {held}: {{ours}}; {{theirs}}."


def _times(ours: Effect) -> str:
    return times(ours.value) + (f" ({interval_words(ours)})" if ours.error is not None else "")


def interval_words(ours: Effect | None) -> str:
    """`1.52-1.90`"""
    if ours is None or ours.low is None or ours.high is None:
        return ""
    return f"{times(ours.low)}-{times(ours.high)}"


@dataclass(frozen=True)
class Levels:
    """Both sides by themselves, where their ratio would say nothing."""

    word: Word
    text: str
    one: float
    other: float
    told: str


def of_levels(asked: Asked, name: str, sides: Sequence[Sequence[float]]) -> Levels | None:
    """Over nothing there is no ratio, and over next to nothing it is all noise; where only a direction was published
    the levels themselves tell it. None where a ratio is as good."""
    claim, about = asked.claim, quantity(name)
    one, other = (fmean(side) for side in sides)
    told = f"{worded(about, one)} against {worded(about, other)}"
    theirs = f"published: {claim.direction}"
    few = min(map(len, sides)) < LEAST_RUNS
    apart = not few and _are_apart(*sides)
    if one and other and not apart:
        return None
    if few:
        word, text = Word.UNTOLD, "Cannot be told from so few runs, without an interval"
    elif apart:
        shows = (one > other) is (claim.direction == "more")
        word, text = (Word.SHOWS, "Shows here") if shows else (Word.OPPOSITE, "The opposite shows here")
    elif one or other:
        word, text = Word.UNTOLD, "Cannot be told, for some of the runs have none"
    else:
        word, text = Word.NOT, "Does not show here"
    if asked.lacks and word is Word.NOT:
        word, text, told = Word.UNTOLD, "Cannot be told here", f"{told}, but {asked.lacks}"
    return Levels(word, f"{text}: {told}; {theirs}.", one, other, f"{worded(about, one)} from {number(other)}")


def _are_apart(one: Sequence[float], other: Sequence[float]) -> bool:
    """They differ significantly; or one has none in any run, and the other some in each."""
    less, more = sorted((one, other), key=fmean)
    if not any(less):
        return min(more) > 0
    return difference_95(more, less).differs is True
