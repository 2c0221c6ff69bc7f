"""The exports for other programs have the form that those programs read, for sessions of every kind."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from at_work import write_scaling
from runs import with_parts
from sessions import FIXTURES, KINDS_OF_SESSIONS

from recovery.analysis.summary import summarise
from recovery.model import Session, Verdict
from recovery.report.github_benchmark import render_github_benchmark
from recovery.report.junit import render_junit
from recovery.report.openmetrics import render_openmetrics
from recovery.storage.sessions import load_session

SESSION = load_session(FIXTURES / "sessions" / "three-versions")
_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
_SAMPLE = re.compile(rf"(?P<name>{_NAME})\{{{_LABEL}(?:,{_LABEL})*\}} (?P<value>\S+)")


@pytest.fixture(params=KINDS_OF_SESSIONS)
def kept(request: pytest.FixtureRequest, kept_sessions: Path) -> Session:
    return load_session(kept_sessions / request.param)


# --- JSON of github-action-benchmark


def test_the_benchmark_list_has_the_keys_that_the_action_reads(kept: Session) -> None:
    found = json.loads(render_github_benchmark(kept))
    for entry in found:
        assert {"name", "unit", "value", "extra"} <= set(entry) <= {"name", "unit", "value", "range", "extra"}
        assert isinstance(entry["value"], int | float)
        assert all(isinstance(entry[key], str) for key in entry if key != "value")
    names = [entry["name"] for entry in found]
    assert len(set(names)) == len(names), "the action has one curve for each name"


def test_the_benchmark_list_has_the_mean_of_each_cell() -> None:
    found = json.loads(render_github_benchmark(SESSION))
    summaries = [summary for summary in summarise(SESSION) if summary.mean is not None]
    assert [entry["value"] for entry in found] == [summary.mean for summary in summaries]
    assert found[0]["name"] == f"{SESSION.experiment}: {summaries[0].version}, {summaries[0].variant}"
    assert {entry["unit"] for entry in found} == {"s"}


def test_the_benchmark_list_of_a_load_has_only_what_is_better_if_it_is_more() -> None:
    assert {entry["unit"] for entry in json.loads(render_github_benchmark(write_scaling()))} == {
        "queries/s", "transactions/s",
    }  # fmt: skip


def test_the_benchmark_list_of_a_session_that_counts_crashes_is_empty(kept_sessions: Path) -> None:
    session = load_session(kept_sessions / "2026-11-22-crash-matrix-inserts")
    assert json.loads(render_github_benchmark(session)) == []


# --- OpenMetrics


def parsed(text: str) -> dict[str, list[tuple[Mapping[str, str], float]]]:
    """Returns the samples of each family, and checks what OpenMetrics asks of the order and the form of lines."""
    *lines, end, nothing = text.split("\n")
    assert (end, nothing) == ("# EOF", "")
    families: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    family, known = "", set[str]()
    for line in lines:
        kind = re.match(r"# (TYPE|UNIT|HELP) (\S+) (.*)", line)
        if kind is None:
            sample = _SAMPLE.fullmatch(line)
            assert sample is not None, line
            assert sample["name"] == family
            labels = dict(part.split("=", 1) for part in re.findall(_LABEL, line))
            assert math.isfinite(float(sample["value"]))
            families[family].append((labels, float(sample["value"])))
        elif kind[1] == "TYPE":
            assert kind[2] not in families, "a family is in one piece"
            assert kind[3] == "gauge"
            family, known = kind[2], set()
            families[family] = []
        else:
            assert kind[2] == family
            assert kind[1] not in known
            known.add(kind[1])
            assert kind[1] != "UNIT" or family.endswith(f"_{kind[3]}")
    return families


def test_openmetrics_of_every_kind_of_session_is_well_formed(kept: Session) -> None:
    for samples in parsed(render_openmetrics(kept)).values():
        assert samples
        labels = [tuple(sorted(found.items())) for found, _ in samples]
        assert len(set(labels)) == len(labels), "no sample is there twice"


def test_openmetrics_has_the_mean_the_interval_and_the_number_of_runs() -> None:
    families = parsed(render_openmetrics(SESSION))
    summary = next(one for one in summarise(SESSION) if one.interval is not None)
    of_cell = {
        labels["statistic"].strip('"'): value
        for labels, value in families["recovery_startup_seconds"]
        if (labels["version"], labels["variant"]) == (f'"{summary.version}"', f'"{summary.variant}"')
    }
    assert of_cell["mean"] == summary.mean
    assert summary.mean is not None
    assert summary.interval is not None
    assert of_cell["low"] == pytest.approx(summary.mean - summary.interval)
    assert sum(value for _, value in families["recovery_runs"]) == len(SESSION.runs)


def test_openmetrics_escapes_names() -> None:
    odd = 'a"b\\c'
    runs = tuple(replace(run, version=odd) for run in SESSION.runs)
    session = replace(SESSION, versions=(odd,), runs=runs)
    assert r'version="a\"b\\c"' in render_openmetrics(session)
    parsed(render_openmetrics(session))


# --- JUnit


def test_junit_has_a_case_for_each_run_that_counts(kept: Session) -> None:
    root = ET.fromstring(render_junit(kept))  # noqa: S314, the tool's own
    cases = root.findall("./testsuite/testcase")
    counted = [run for run in kept.runs if run.verdict is not Verdict.SAMPLED]
    assert len(cases) == len(counted) == int(root.attrib["tests"])
    failed = [run for run in counted if run.verdict is Verdict.FAILED]
    assert len(root.findall(".//failure")) == len(failed) == int(root.attrib["failures"])
    names = [(case.attrib["classname"], case.attrib["name"]) for case in cases]
    assert len(set(names)) == len(names)


def test_junit_tells_failed_and_void_runs_apart() -> None:
    failed = replace(SESSION.runs[0], verdict=Verdict.FAILED, reason='it said "no" & <died>\x01\ud800')
    void = with_parts(replace(SESSION.runs[1], verdict=Verdict.VOID, reason="the cache was not empty"))
    root = ET.fromstring(render_junit(replace(SESSION, runs=(failed, void))))  # noqa: S314, the tool's own
    (failure,), (skipped,) = root.findall(".//failure"), root.findall(".//skipped")
    assert failure.attrib["message"].startswith('it said "no" & <died>')
    assert skipped.attrib["message"] == "the cache was not empty"
    assert (root.attrib["failures"], root.attrib["skipped"]) == ("1", "1")
