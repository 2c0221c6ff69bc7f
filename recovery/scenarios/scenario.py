"""What is a scenario? A value: a question, the variants it compares, one measurement, and what makes that count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recovery.model import Cache, Variant
from recovery.scenarios.bench import Bench
from recovery.scenarios.experiment import Experiment
from recovery.scenarios.outcome import Outcome, Worked
from recovery.stored import STARTUP, Verdict

Judgement = tuple[Verdict, str | None]
"""What a trial's figures are worth, and why where that is nothing."""


@dataclass(frozen=True)
class Scenario:
    name: str
    question: str
    title: str
    caches: tuple[Cache, ...]
    measure: Callable[[Bench, Variant], Outcome | Worked]
    judge: Callable[[Any], Judgement]
    """Of what `measure` brings."""
    experiment: Experiment | None = None
    """Where a server is put to work, and how; None where its starts are timed."""

    @property
    def figure(self) -> str:
        return STARTUP if self.experiment is None else self.experiment.figure

    @property
    def programs(self) -> tuple[str, ...]:
        """That put a server to work."""
        return () if self.experiment is None else self.experiment.programs


def judge_contents(outcome: Outcome) -> Judgement:
    """Whatever was asked, the server must hold afterwards what it had acknowledged: less is its failure."""
    if outcome.tables_found != outcome.tables_expected:
        return Verdict.FAILED, f"{outcome.tables_found} tables after the start, {outcome.tables_expected} before"
    if outcome.rows_lost:
        return Verdict.FAILED, f"{outcome.rows_lost} of {outcome.rows_expected} acknowledged rows are lost"
    if outcome.rows_found > outcome.rows_expected:
        extra = outcome.rows_found - outcome.rows_expected
        return Verdict.VOID, f"{extra} rows more than were acknowledged: something else wrote to this server"
    return Verdict.MEASURED, None
