"""What does a report tell of limits? What was really done a second under them, run by run."""

from __future__ import annotations

from collections.abc import Callable

from recovery.model import Limits
from recovery.report import figures
from recovery.stored import Run

Column = Callable[[Run], str]


def limit_columns(limits: Limits) -> dict[str, Column]:
    """Only what a limit is on: the page is narrow."""
    columns: dict[str, Column] = {}
    if limits.read_iops is not None:
        columns["reads/s"] = lambda run: figures.count(_whole(run.reads_per_s))
    if limits.read_bps is not None:
        columns["read/s"] = lambda run: figures.size(_whole(_bytes_per_s(run)))
    if limits.memory_bytes is not None:
        columns["memory"] = lambda run: figures.size(run.group_memory_bytes)
    return columns


def limit_notes(limits: Limits) -> tuple[str, ...]:
    told = []
    if limits.read_iops is not None or limits.read_bps is not None:
        told.append("what is done a second is counted from exec to the first answered query")
    if limits.memory_bytes is not None:
        told.append("memory: all that the server's control group held then, page cache included")
    return (_sentence("; ".join(told)),) if told else ()


def requests_are(limits: Limits) -> str:
    if limits.read_iops is not None or limits.read_bps is not None:
        return "reads of the server's control group, as the limit counts them, before neighbours are merged"
    return "reads the device completed meanwhile"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _bytes_per_s(run: Run) -> float | None:
    """Over the time in which they were counted."""
    return None if run.read_bytes is None or not run.first_query_s else run.read_bytes / run.first_query_s


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
