"""The export as JUnit XML, which CI systems show: a test case for each run that counts."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import quoteattr

from recovery.analysis.summary import cell_words, main_value
from recovery.metrics import metric
from recovery.model import Run, Session, Verdict
from recovery.report import fmt
from recovery.report.host_words import session_words

_FORBIDDEN = dict.fromkeys((*range(0xD800, 0xE000), 0xFFFE, 0xFFFF), "?")


def render_junit(session: Session) -> str:
    """Returns the XML. A failed run is a failure; a void one, which measured something else, is skipped. Extra runs are
    left out."""
    runs = [run for run in session.runs if run.verdict is not Verdict.SAMPLED]
    counts = (
        f'tests="{len(runs)}" failures="{_count(runs, Verdict.FAILED)}" errors="0" '
        f'skipped="{_count(runs, Verdict.VOID)}" time="{sum(_seconds(session, run) for run in runs):.3f}"'
    )
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites {counts}>",
        f"<testsuite name={_text(session.experiment)} {counts} timestamp={_text(session.started_at)}>",
        "<properties>",
        *(f'<property name="session" value={_text(words)}/>' for words in session_words(session).split("\n")),
        "</properties>",
        *(line for run in runs for line in _case(session, run)),
        "</testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _count(runs: list[Run], verdict: Verdict) -> int:
    return sum(run.verdict is verdict for run in runs)


def _case(session: Session, run: Run) -> Iterator[str]:
    name = f"{cell_words(session, run.variant)}, run {run.number}"
    head = (
        f"<testcase classname={_text(f'{session.experiment}.{run.version}')} name={_text(name)} "
        f'time="{_seconds(session, run):.3f}"'
    )
    kinds = {Verdict.FAILED: "failure", Verdict.VOID: "skipped"}
    if run.verdict not in kinds:
        yield f"{head}/>"
        return
    yield f"{head}><{kinds[run.verdict]} message={_text(run.reason or run.verdict.value)}/></testcase>"


def _seconds(session: Session, run: Run) -> float:
    """Returns the seconds that a run measured: of a load, 0."""
    value = main_value(session, run)
    return value if value is not None and metric(session.metric_of(run.variant)).unit == "s" else 0.0


def _text(text: str) -> str:
    """Returns the text as an attribute, without characters that XML forbids."""
    return quoteattr(fmt.printable(text).translate(_FORBIDDEN))
