"""What a server has after a crash, compared with what it promises to keep (pure functions).

Whether a server promises to keep all acknowledged writes depends on how it is configured to flush its log. It always
promises that no transaction is there in part, and none that was rolled back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from recovery.crash.tasks import CrashMoment
from recovery.report.fmt import count_text

DDL_DATABASE = "crash_definitions"
"""Schema for the tables of the DDL writer."""
_DDL_TABLE = re.compile(rf"{DDL_DATABASE}[`'\"]?[/.][`'\"]?(#?[\w-]+)")
"""Finds names of tables of the DDL writer, in a path or in a statement."""
_MAX_EXAMPLES = 3


@dataclass(frozen=True)
class Violations:
    """What a recovered server has, compared with what it had acknowledged before the kill."""

    acknowledged: int
    """Writes that the server had acknowledged to the client before the kill."""
    lost: int = 0
    """Acknowledged writes that are gone."""
    lost_window_s: float | None = None
    """How long before the kill the oldest lost write had been acknowledged; None if none was lost."""
    ghosts: int = 0
    """Writes that are there although they were rolled back or never committed."""
    torn: int = 0
    """Transactions of which only a part is there."""
    holes: int = 0
    """Lost writes with later ones of the same client still there: losing the end of the log does not explain them."""
    half_done: int = 0
    """Tables with a definition from neither before nor after the statement that was running."""
    some_dropped: bool = False
    """Whether a statement that drops several tables has completely dropped some of them and left the others intact."""
    examples: tuple[str, ...] = ()
    under_way: frozenset[str] = frozenset()
    """Tables named in the DDL statement that was running at the kill."""


@dataclass(frozen=True)
class CrashFindings:
    """Everything that was checked after the crash."""

    moment: CrashMoment
    violations: Violations
    promised: bool
    """Whether the server promises to keep every acknowledged write."""
    atomic: bool
    """Whether the server has atomic DDL: tables and their files change completely or not at all."""
    all_or_none: bool = True
    """Whether a statement that drops several tables drops all or none of them."""
    orphans: tuple[str, ...] = ()
    """Files that the dictionary does not know, and temporary tables left behind by an ALTER TABLE."""
    missing: tuple[str, ...] = ()
    """Files that are missing for a table of the dictionary."""
    failing: tuple[str, ...] = ()
    """Tables that fail CHECK TABLE, each with its message."""
    complaints: tuple[str, ...] = ()
    """Lines of the error log that report damage."""


def crash_metrics(findings: CrashFindings) -> dict[str, float]:
    violations = findings.violations
    counts = {
        "acknowledged": violations.acknowledged,
        "lost": violations.lost,
        "ghosts": violations.ghosts,
        "torn": violations.torn,
        "holes": violations.holes,
        "half_done": violations.half_done,
        "orphans": len(findings.orphans),
        "missing": len(findings.missing),
        "failing": len(findings.failing),
        "complaints": len(findings.complaints),
    }
    window = {} if violations.lost_window_s is None else {"lost_window_s": violations.lost_window_s}
    return {name: float(count) for name, count in counts.items()} | window


def broken_promises(findings: CrashFindings) -> tuple[str, ...]:
    """Describes the broken promises, followed by examples; empty if all were kept."""
    broken = (*_broken_writes(findings), *_broken_tables(findings))
    return (*broken, *findings.violations.examples) if broken else ()


def _broken_writes(findings: CrashFindings) -> Iterator[str]:
    violations, what = findings.violations, "statement" if findings.moment is CrashMoment.DEFINITIONS else "transaction"
    if violations.lost and findings.promised:
        yield f"{violations.lost:,} of {count_text(violations.acknowledged, f'acknowledged {what}')} lost"
    if violations.ghosts:
        yield f"{count_text(violations.ghosts, what)} present without a commit"
    if violations.torn:
        yield f"{count_text(violations.torn, what)} present in part"
    if violations.holes:
        yield f"{count_text(violations.holes, what)} lost although later ones are present"


def _broken_tables(findings: CrashFindings) -> Iterator[str]:
    is_known_weakness = _known_weakness(findings)
    complaints, failing, missing, orphans = (
        tuple(finding for finding in of_kind if not is_known_weakness(finding))
        for of_kind in (findings.complaints, findings.failing, findings.missing, findings.orphans)
    )
    if complaints:
        yield f"the error log reports damage: {complaints[0][:160]}"
    half_done = findings.violations.half_done
    if half_done and findings.atomic and (findings.all_or_none or not findings.violations.some_dropped):
        yield f"{count_text(half_done, 'definition')} changed in part"
    if failing:
        yield f"CHECK TABLE fails: {'; '.join(first_examples(failing))}"
    if missing:
        yield f"files are missing: {', '.join(first_examples(missing))}"
    if orphans:
        yield f"files are left behind: {', '.join(first_examples(orphans))}"


def _known_weakness(findings: CrashFindings) -> Callable[[str], bool]:
    """Returns a function that recognises a finding as the known weakness of servers without atomic DDL.

    These servers change a definition in one place after the other. Such findings are counted, but break no promise.
    They may only concern tables that were being changed; where acknowledged writes may be lost, also tables changed
    before."""
    if findings.moment is not CrashMoment.DEFINITIONS or findings.atomic:
        return lambda _: False

    def is_known_weakness(finding: str) -> bool:
        tables = _DDL_TABLE.findall(finding)
        return any(
            table in findings.violations.under_way or table.startswith("#") or not findings.promised for table in tables
        )

    return is_known_weakness


def first_examples(examples: Iterable[str]) -> tuple[str, ...]:
    return tuple(islice(examples, _MAX_EXAMPLES))
