"""The export for github-action-benchmark: a JSON list with the mean of each cell, as its tools `customSmallerIsBetter`
(seconds) and `customBiggerIsBetter` (loads) read it."""

from __future__ import annotations

import json

from recovery.analysis.summary import Summary, cell_words, is_compared, summarise
from recovery.metrics import metric
from recovery.model import Session
from recovery.report import fmt
from recovery.report.host_words import session_words


def render_github_benchmark(session: Session) -> str:
    """Returns the list. It has the cells whose metric is better in the same direction as that of the session; a session
    that only counts what survived crashes has none. Second starts are left out: the action would compare those of two
    sessions, and they were cold to different degrees."""
    better = metric(session.metric).more_is_better
    cells = [
        _entry(session, summary)
        for summary in (summarise(session) if is_compared(session) else ())
        if summary.mean is not None
        and metric(summary.name).more_is_better == better
        and not session.is_second_start(summary.variant)
    ]
    return json.dumps(cells, indent=2) + "\n"


def _entry(session: Session, summary: Summary) -> dict[str, object]:
    about = metric(summary.name)
    words = session_words(session).split("\n")
    interval = fmt.drawn_interval(summary)
    ends = {} if interval is None else {"range": f"{interval[0]:.6g} to {interval[1]:.6g}"}
    name = f"{session.experiment}: {summary.version}, {cell_words(session, summary.variant)}"
    return {
        "name": fmt.printable(name),
        "unit": fmt.printable(about.unit if about.unit == "s" else about.label),
        "value": summary.mean,
        **ends,
        "extra": "\n".join((fmt.count_text(summary.count, "run"), *map(fmt.printable, words))),
    }
