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
from runs import plain_variants, with_axis_values, with_parts
from sessions import FIXTURES, KINDS_OF_SESSIONS

from recovery.analysis.combined import combine_sessions
from recovery.analysis.summary import summarise
from recovery.cli.measure import exit_code, request_from_arguments
from recovery.errors import RecoveryError
from recovery.metrics import METRICS
from recovery.model import SECOND_START, Run, Session, Verdict
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


def test_the_benchmark_list_leaves_out_second_starts() -> None:
    runs = tuple(replace(run, variant=SECOND_START) if run.variant == "warm" else run for run in SESSION.runs)
    session = with_axis_values(replace(SESSION, variants=plain_variants("cold", SECOND_START), runs=runs))
    assert any(summary.mean is not None for summary in summarise(session) if summary.variant == SECOND_START)
    assert {entry["name"].rpartition(", ")[2] for entry in json.loads(render_github_benchmark(session))} == {"cold"}


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


def test_openmetrics_has_no_escape_that_older_parsers_of_prometheus_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METRICS, "startup_s", replace(METRICS["startup_s"], note='until "ready"'))
    assert "# HELP recovery_startup_seconds until 'ready'\n" in render_openmetrics(SESSION)


def test_openmetrics_leaves_out_a_start_that_is_not_known() -> None:
    text = render_openmetrics(replace(SESSION, started_at="damaged"))
    assert "recovery_session_start_seconds" not in text
    parsed(text)


# --- JUnit


def parsed_junit(session: Session) -> ET.Element:
    """Returns the root, and checks that the numbers of each suite are those of its cases, and names tell them apart."""
    root = ET.fromstring(render_junit(session))  # noqa: S314, the tool's own
    for suite in root:
        found = {name: suite.findall(f"./testcase/{name}") for name in ("failure", "error", "skipped")}
        numbers = {"tests": len(suite.findall("testcase")), "failures": len(found["failure"])}
        numbers |= {"errors": len(found["error"]), "skipped": len(found["skipped"])}
        assert {name: int(suite.attrib[name]) for name in numbers} == numbers
        for element in (*found["failure"], *found["error"]):
            assert element.attrib["type"]
            assert (element.text or "").startswith(element.attrib["message"])
    names = [(case.attrib["classname"], case.attrib["name"]) for case in root.iter("testcase")]
    assert len(set(names)) == len(names)
    return root


def test_junit_has_a_case_for_each_run_that_counts(kept: Session) -> None:
    root = parsed_junit(kept)
    counted = [run for run in kept.runs if run.verdict is not Verdict.SAMPLED]
    assert [case.attrib["name"] for case in root.iter("testcase")][len(counted) :] == ["all runs"]
    assert len(root.findall(".//failure")) == sum(run.verdict is Verdict.FAILED for run in counted)
    assert len(root.findall(".//error")) == sum(run.verdict is Verdict.VOID for run in counted)


def test_junit_of_several_sessions_has_a_suite_for_each(kept: Session) -> None:
    root = parsed_junit(combine_sessions({"a": kept, "b": kept}))
    assert [suite.attrib["name"] for suite in root] == [f"{kept.experiment}, a", f"{kept.experiment}, b"]


def test_junit_says_why_a_run_failed_or_is_void() -> None:
    reason = 'it said "no" & <died>\x01\ud800'
    failed = replace(SESSION.runs[0], number=7, verdict=Verdict.FAILED, reason=reason, log="logs/007.err")
    void = with_parts(replace(SESSION.runs[1], number=8, verdict=Verdict.VOID, reason="the cache was not empty"))
    root = parsed_junit(replace(SESSION, runs=(failed, void), planned_runs=2))
    (failure,), (error,) = root.findall(".//failure"), root.findall(".//error")
    assert failure.attrib["message"].startswith('cold, run 1 of 2: it said "no" & <died>')
    assert (failure.text or "").endswith("\nlogs/007.err")
    assert error.attrib["message"] == "cold, run 2 of 2: the cache was not empty"


_OLD, _NEW = "5.7.22", "8.0.31"


def measured(*, slower: float = 1.0, planned: int = 10, **settings: str | float) -> Session:
    """A session in which the second version takes so many times as long as the first."""
    times = [
        (version, block, factor * seconds)
        for block, seconds in enumerate((10.0, 10.1, 9.9, 10.05, 9.95), 1)
        for version, factor in ((_OLD, 1.0), (_NEW, slower))
    ]
    runs = tuple(
        Run(number, version, "mysql", "cold", block, Verdict.MEASURED, metrics={"startup_s": seconds})
        for number, (version, block, seconds) in enumerate(times, 1)
    )
    return with_axis_values(Session(
        "cold-recovery", "q", "c", "2026-11-28T10:00:00+00:00", {}, {"tables": 10, **settings}, (_OLD, _NEW),
        plain_variants("cold"), planned, runs=runs, status="finished",
    ))  # fmt: skip


def with_first_run(session: Session, **changes: Verdict | str) -> Session:
    return replace(session, runs=(replace(session.runs[0], **changes), *session.runs[1:]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "session", "found"),
    [
        ("", measured(), {}),
        ("", with_first_run(measured(), verdict=Verdict.FAILED), {f"{_OLD}, cold, block 1": "failed"}),
        ("", with_first_run(measured(), verdict=Verdict.VOID), {f"{_OLD}, cold, block 1": "void"}),
        ("", measured(planned=12), {"all runs": "missing"}),
        ("--precision 5%", measured(precision=0.05), {}),
        ("--precision 0.1%", measured(precision=0.001), {"PRECISION 0.1%": "imprecise"}),
        ("--max-startup 11", measured(max_startup=11.0), {}),
        ("--max-startup 10.08", measured(max_startup=10.08), {
            f"{_OLD}, cold, block 2": "slow", f"{_NEW}, cold, block 2": "slow",
        }),
        ("--fail-over 10%", measured(slower=1.05, fail_over=0.1), {}),
        ("--fail-over 10%", measured(slower=1.3, fail_over=0.1), {"FAIL_OVER 10%": "slow"}),
        ("--fail-over 10%", replace(measured(fail_over=0.1, planned=2), runs=measured().runs[:2]), {
            "FAIL_OVER 10%": "not judged",
        }),
    ],
)  # fmt: skip
def test_junit_has_a_failure_or_an_error_exactly_if_the_exit_code_is_not_0(
    options: str, session: Session, found: dict[str, str]
) -> None:
    cases = parsed_junit(session).iter("testcase")
    assert {case.attrib["name"]: element.attrib["type"] for case in cases for element in case} == found
    request = request_from_arguments("cold-recovery", ["--version", f"{_OLD} {_NEW}", *options.split()])
    try:
        code = exit_code(request, session)
    except RecoveryError:
        code = 4
    assert bool(code) is bool(found)


def test_junit_judges_a_limit_over_all_sessions() -> None:
    found = {str(slower): measured(slower=slower, fail_over=0.1) for slower in (1.28, 1.3, 1.32)}
    root = parsed_junit(combine_sessions(found))
    assert [suite.attrib["failures"] for suite in root] == ["0", "0", "0", "1"]
    assert root[-1].attrib["name"] == "cold-recovery, all sessions"
