"""What is a scenario? A value: a question, the variants it compares, one measurement, and what makes that count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recovery.measured import ColdProof, Samples, Startup, Touched
from recovery.model import Cache
from recovery.scenarios.bench import Bench
from recovery.stored import Verdict


@dataclass(frozen=True)
class Outcome:
    """What one trial brought, raw: the timed start, the stage it began from, and what the server held afterwards."""

    startup: Startup
    previous_exit: str
    """How the process before the timed one had ended."""
    cold: ColdProof | None
    cold_means: str | None
    """How the cache was emptied; None where it was not."""
    warmups: int | None
    tables_expected: int
    tables_found: int
    rows_expected: int
    rows_found: int
    rows_lost: int
    """Table by table: rows too many in one do not make up for those that another lost."""
    touched: Touched | None = None
    samples: Samples | None = None


Judgement = tuple[Verdict, str | None]


@dataclass(frozen=True)
class Scenario:
    name: str
    question: str
    title: str
    caches: tuple[Cache, ...]
    measure: Callable[[Bench, Cache], Outcome]
    judge: Callable[[Outcome], Judgement]


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
