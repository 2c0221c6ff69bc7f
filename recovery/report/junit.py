"""The export as JUnit XML, which CI systems show: a test case for each run that counts, and for each limit. It has a
failure or an error exactly if the command that measured did not exit with 0."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from recovery.analysis.combined import CombinedSession
from recovery.analysis.compare import cells_without_interval, is_slow, judge_baseline, lacking_runs
from recovery.analysis.summary import cell_words, main_value, runs_words
from recovery.analysis.warnings import cells_missing_precision
from recovery.metrics import metric
from recovery.model import STARTUP_METRIC, Run, Session, Verdict
from recovery.report import fmt
from recovery.report.host_words import session_words

_FORBIDDEN = dict.fromkeys((*range(0xD800, 0xE000), 0xFFFE, 0xFFFF), "?")


@dataclass(frozen=True)
class _Case:
    name: str
    """The same in each session of a measurement, so that CI systems can follow it."""
    seconds: float = 0.0
    element: str = ""
    """`failure` for what the server did, `error` for what was not measured, `skipped` for a limit that may be exceeded
    or not; otherwise empty."""
    kind: str = ""
    message: str = ""
    details: tuple[str, ...] = ()


def render_junit(session: Session) -> str:
    """Returns the XML, with a suite for each session. Extra runs are left out."""
    parts = session.parts if isinstance(session, CombinedSession) else ()
    limits = tuple(_limits_of_all(session))
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for part in parts:
        lines += _suite(part.session, tuple(_of_session(part.session)), part.name)
    if not parts:
        lines += _suite(session, (*_of_session(session), *limits))
    elif limits:
        lines += _suite(session, limits, "all sessions")
    return "\n".join((*lines, "</testsuites>")) + "\n"


# --- Cases


def _of_session(session: Session) -> Iterator[_Case]:
    yield from (_of_run(session, run) for run in session.runs if run.verdict is not Verdict.SAMPLED)
    missing = lacking_runs(session) - sum(not run.verdict.as_asked for run in session.runs)
    if missing > 0:
        planned = session.planned_runs
        message = "the only run is missing" if planned == 1 else f"{missing} of {planned} runs are missing"
        yield _Case("all runs", 0.0, "error", "missing", message, session.notes)
    else:
        yield _Case("all runs")
    if session.design.precision is not None:
        wide = [f"{about} is +- {100 * share:.3g} %" for about, share in cells_missing_precision(session)]
        name = f"PRECISION {100 * session.design.precision:g}%"
        yield _Case(name, 0.0, "error", "imprecise", "; ".join(wide)) if wide else _Case(name)


def _of_run(session: Session, run: Run) -> _Case:
    value, longest_s = main_value(session, run), session.design.max_startup
    seconds = value if value is not None and metric(session.metric_of(run.variant)).unit == "s" else 0.0
    name = f"{run.version}, {cell_words(session, run.variant)}, block {run.repeat}"
    element, why = "", run.reason or run.verdict.value
    kind = run.verdict.value
    if run.verdict is Verdict.FAILED:
        element = "failure"
    elif run.verdict is Verdict.VOID:
        element = "error"
    elif longest_s is not None and is_slow(run, longest_s):
        took_s = run.metrics[STARTUP_METRIC]
        element, kind, why = "failure", "slow", f"the start took {took_s:.2f} s, MAX_STARTUP is {longest_s:g} s"
    if not element:
        return _Case(name, seconds)
    message = f"{cell_words(session, run.variant)}, {runs_words(session, [run])}: {why}"
    return _Case(name, seconds, element, kind, message, tuple(filter(None, (run.log,))))


def _limits_of_all(session: Session) -> Iterator[_Case]:
    """Yields the limit on ratios of versions, which is judged over all sessions."""
    allowed = session.design.fail_over
    if allowed is None:
        return
    name = f"FAIL_OVER {100 * allowed:g}%"
    if unjudged := cells_without_interval(session):
        yield _Case(name, 0.0, "error", "not judged", f"no interval for {', '.join(unjudged)}")
        return
    result = judge_baseline(session, allowed)
    if result.exceeded:
        yield _Case(name, 0.0, "failure", "slow", "; ".join(result.exceeded))
    elif result.undecided:
        yield _Case(name, 0.0, "skipped", "cannot tell", "; ".join(result.undecided))
    else:
        yield _Case(name)


# --- XML


def _suite(session: Session, cases: tuple[_Case, ...], name: str = "") -> Iterator[str]:
    of_elements = [case.element for case in cases]
    yield (
        f"<testsuite name={_attribute(', '.join(filter(None, (session.experiment, name))))} "
        f'tests="{len(of_elements)}" failures="{of_elements.count("failure")}" errors="{of_elements.count("error")}" '
        f'skipped="{of_elements.count("skipped")}" time="{sum(case.seconds for case in cases):.3f}" '
        f"timestamp={_attribute(session.started_at)}>"
    )
    yield "<properties>"
    yield from (f'<property name="session" value={_attribute(words)}/>' for words in session_words(session).split("\n"))
    yield "</properties>"
    class_name = ".".join(filter(None, ("recovery", session.experiment, name)))
    for case in cases:
        head = f'<testcase classname={_attribute(class_name)} name={_attribute(case.name)} time="{case.seconds:.3f}"'
        if not case.element:
            yield f"{head}/>"
            continue
        # Some CI systems show the message only, others the text only.
        text = "\n".join(escape(_allowed(line)) for line in (case.message, *case.details))
        why = f"type={_attribute(case.kind)} message={_attribute(case.message)}"
        yield f"{head}><{case.element} {why}>{text}</{case.element}></testcase>"
    yield "</testsuite>"


def _attribute(text: str) -> str:
    return quoteattr(_allowed(text))


def _allowed(text: str) -> str:
    """Returns the text as one line, without characters that XML forbids."""
    return fmt.printable(text).translate(_FORBIDDEN)
