"""The text format of OpenMetrics 1.0, which Prometheus and node_exporter read: a gauge for each metric of a session,
with a sample for each cell, and the estimate of a start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from recovery.analysis.basis import time_of
from recovery.analysis.combined import CombinedSession
from recovery.analysis.crash_estimate import Estimate, ServerState
from recovery.analysis.summary import Summary, metric_names, runs_by_cell, summarise
from recovery.metrics import metric
from recovery.model import Session, Verdict
from recovery.report import fmt

_PREFIX = "recovery"
_UNITS = {"_s": "_seconds", "_ms": "_milliseconds", "_us": "_microseconds"}
"""Ends of metrics' names, as OpenMetrics spells them."""
_STATISTICS = ("mean", "low", "high", "min", "max")


def render_openmetrics(session: Session) -> str:
    """Returns the text. The samples of a cell have the label `statistic`: `mean`, the ends of its 95 % interval (`low`
    and `high`), `min` and `max`."""
    return "\n".join((*_sessions(session), *_runs(session), *_metrics(session), "# EOF")) + "\n"


def _sessions(session: Session) -> Iterator[str]:
    parts = session.parts if isinstance(session, CombinedSession) else ()
    named = [(part.name, part.session) for part in parts] or [(session.started_at, session)]
    known = [(name, one, began) for name, one in named if (began := time_of(one.started_at)) is not None]
    if known:
        yield from _head("session_start", "when each session began", "seconds")
    for name, one, began in known:
        yield _sample("session_start_seconds", {"experiment": one.experiment, "session": name}, began.timestamp())


def _runs(session: Session) -> Iterator[str]:
    yield from _head("runs", "runs of each cell by their verdict")
    for (version, variant), runs in runs_by_cell(session).items():
        for verdict in Verdict:
            count = sum(run.verdict is verdict for run in runs)
            yield _sample("runs", {**_labels(session, version, variant), "verdict": verdict.value}, count)


def _metrics(session: Session) -> Iterator[str]:
    shown: set[str] = set()
    for name in metric_names(session):
        family, unit = _family(name)
        found = [summary for summary in summarise(session, name) if summary.mean is not None]
        if not found or family in shown:
            continue
        shown.add(family)
        about = metric(name)
        yield from _head(family.removesuffix(f"_{unit}") if unit else family, about.note or about.label, unit)
        for summary in found:
            for statistic, value in _values(summary).items():
                labels = {**_labels(session, summary.version, summary.variant), "statistic": statistic}
                yield _sample(family, labels, value)


def render_estimate(server: str, answer: tuple[ServerState, Estimate] | None, asked_at_s: float) -> str:
    """Returns what a start of a running server would cost or, with None, that there is no estimate.

    The label server is where it was asked. The label datadir tells the servers of a host apart."""
    where = {"server": server}
    figures = [
        ("available", "1 if there is an estimate, else 0: then there are no other figures.",
         [(where, float(answer is not None))]),
        ("time_seconds", "When the server was asked, in seconds since 1970.", [(where, asked_at_s)]),
    ]  # fmt: skip
    figures += [] if answer is None else _figures(*answer)
    lines: list[str] = []
    for end, text, samples in figures:
        if samples:
            lines += _head(f"estimate_{end}", text)
            lines += [_sample(f"estimate_{end}", labels, value) for labels, value in samples]
    return "\n".join((*lines, "# EOF", ""))


def _figures(state: ServerState, found: Estimate) -> Iterator[tuple[str, str, list[tuple[dict[str, str], float]]]]:
    """Yields the name, the meaning and the samples of each figure that may be known."""
    where = {"datadir": state.datadir}
    parts = [({**where, "part": part.name}, part.seconds) for part in found.parts]
    yield "part_seconds", "Parts of the estimate.", parts
    for name, text, value in (
        ("seconds", "Start of the server if it were killed now.", found.seconds),
        ("low_seconds", "Lower end of the 90 % range.", found.low_s),
        ("high_seconds", "Upper end of the 90 % range.", found.high_s),
        ("locked_seconds", "Then rows of open transactions stay locked for up to so long.", found.locked_s),
        ("dirty_pages", "Pages to recover.", state.dirty_pages),
        ("redo_bytes", "Redo since the last checkpoint.", state.redo_bytes),
        ("uncommitted_rows", "Rows that open transactions have changed.", state.uncommitted_rows),
        ("reads_per_second", "Small reads of the storage.", state.reads_per_s),
    ):
        yield name, text, [] if value is None else [(where, value)]


def _family(name: str) -> tuple[str, str]:
    """Returns the name of a metric in the spelling of OpenMetrics, and the unit that it ends with."""
    known = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    if not known.endswith("_per_s"):
        for end, unit in _UNITS.items():
            if known.endswith(end):
                return known.removesuffix(end) + unit, unit[1:]
    return known, "bytes" if known.endswith("_bytes") else ""


def _values(summary: Summary) -> Mapping[str, float]:
    interval = fmt.drawn_interval(summary) or (None, None)
    found = (summary.mean, *interval, summary.min, summary.max)
    return {name: value for name, value in zip(_STATISTICS, found, strict=True) if value is not None}


def _labels(session: Session, version: str, variant: str) -> dict[str, str]:
    return {"experiment": session.experiment, "version": version, "variant": variant}


def _head(name: str, help_text: str, unit: str = "") -> Iterator[str]:
    family = f"{_PREFIX}_{name}_{unit}" if unit else f"{_PREFIX}_{name}"
    yield f"# TYPE {family} gauge"
    if unit:
        yield f"# UNIT {family} {unit}"
    # OpenMetrics escapes a double quote in this text, and older parsers of Prometheus refuse that escape.
    text = _escaped(help_text.replace('"', "'"))
    yield f"# HELP {family} {text}"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    texts = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{_PREFIX}_{name}{{{texts}}} {value!r}"


def _escaped(text: str) -> str:
    return fmt.printable(text).replace("\\", r"\\").replace('"', r"\"")
