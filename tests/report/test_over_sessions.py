"""Sessions of the same measurement are reported together: each of them is one value of every mean and ratio."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import statistics
from pathlib import Path
from typing import Any

import pytest
from html_page import check_page, without_whole
from sessions import KINDS_OF_SESSIONS

from recovery.analysis.combined import combine_sessions
from recovery.analysis.statistics import over_sessions
from recovery.analysis.summary import is_compared, summarise, version_ratios
from recovery.analysis.warnings import findings_of_each_cell
from recovery.cli.main import run
from recovery.cli.report import load_sessions
from recovery.fleet import sections
from recovery.report.exports import FORMATS, render_sessions
from recovery.report.summary_text import answers
from recovery.report.tables import SECTIONS
from recovery.storage.sessions import load_session

KEPT = "2026-11-21-four-versions"
FACTORS = (1.0, 2.0, 3.0)
NAMES = tuple(f"2026112{number}T120000Z-crash-recovery" for number in (1, 2, 3))


@pytest.fixture
def results(kept_sessions: Path, tmp_path: Path) -> Path:
    """Three sessions of one measurement, of three days; the starts of each take so many times as long."""
    stored = (kept_sessions / KEPT / "report.json").read_text()
    for number, (name, factor) in enumerate(zip(NAMES, FACTORS, strict=True), 1):
        report: dict[str, Any] = json.loads(stored)
        for one in report["runs"]:
            one["metrics"]["startup_s"] *= factor
            one["metrics"]["first_query_s"] *= factor
            one["started_at"] = f"2026-11-2{number}T12:30:00+00:00"
        report["started_at"] = f"2026-11-2{number}T12:00:00+00:00"
        (tmp_path / "results" / name).mkdir(parents=True)
        (tmp_path / "results" / name / "report.json").write_text(json.dumps(report))
    return tmp_path / "results"


def test_sessions_of_two_hosts_may_have_the_same_name(results: Path, tmp_path: Path) -> None:
    others = tmp_path / "other" / NAMES[0]
    shutil.copytree(results / NAMES[0], others)
    combined = load_sessions([results / NAMES[0], others, results / NAMES[1]])
    assert [part.name for part in combined.parts] == [str(results / NAMES[0]), str(others), NAMES[1]]


def test_each_session_is_one_value(results: Path) -> None:
    folders = [results / name for name in NAMES]
    combined, first = load_sessions(folders), load_session(folders[0])
    assert combined.variant_names == first.variant_names
    assert [axis.name for axis in combined.axes] == [axis.name for axis in first.axes]
    alone = {(one.version, one.variant): one for one in summarise(first)}
    for one in summarise(combined):
        mean = alone[one.version, one.variant].mean
        if mean is None or one.mean is None:
            assert one.count == 0
            continue
        over = over_sessions([factor * mean for factor in FACTORS])
        assert over is not None
        assert over.interval is not None
        assert (one.mean, one.low, one.high) == pytest.approx((over.mean, *over.interval))
        assert one.count == 3 * alone[one.version, one.variant].count
    ratios = {(one.version, one.base_version, one.variant): one.ratio for one in version_ratios(first)}
    for ratio in version_ratios(combined):
        assert ratio.ratio == pytest.approx(ratios[ratio.version, ratio.base_version, ratio.variant], rel=0.02)


def test_the_report_says_what_it_stands_on(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", ",".join(NAMES), "--results", str(results), "-v"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "geometric mean (95 % interval) over 3 sessions of 3 days" in printed
    assert re.search(r"3 sessions over 48\.\d hours\. ", printed)
    assert run(["report", ",".join(NAMES[:2]), "--results", str(results), "--format", "text"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "2 sessions over 24." in printed
    assert "no interval over sessions, which needs 3" in printed
    assert "Not compared: 3 sessions of each are needed." in printed
    assert re.search(r"5\.6\.24 67\.2 s (?:#+ )?18\.5 s", printed)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_shows_all_sessions(name: str, results: Path) -> None:
    combined = load_sessions([results / name for name in NAMES])
    text = render_sessions(combined, name)
    assert all(session in text for session in NAMES)
    if name == "html":
        check_page(without_whole(text))
    if name == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
        assert len(rows) == len(combined.runs)
        of_second = [float(row["startup_s"]) for row in rows if row["session"] == NAMES[1] and row["startup_s"]]
        of_first = [float(row["startup_s"]) for row in rows if row["session"] == NAMES[0] and row["startup_s"]]
        assert statistics.fmean(of_second) == pytest.approx(2 * statistics.fmean(of_first))
    if name == "json":
        stored = json.loads(text)
        assert [one["name"] for one in stored["sessions"]] == list(NAMES)
        assert stored["answer"][-1].startswith("3 sessions over 48.")


def test_a_warning_names_its_session(results: Path) -> None:
    change(results, NAMES[1], settings={"runs": 2})
    combined = load_sessions([results / name for name in NAMES])
    found = {finding.about for finding in findings_of_each_cell(combined) if finding.kind == "few-runs"}
    assert found == {"all, session 2"}


@pytest.mark.parametrize("kind", KINDS_OF_SESSIONS)
def test_sessions_of_every_kind_can_be_reported_together(kind: str, kept_sessions: Path) -> None:
    session = load_session(kept_sessions / kind)
    combined = combine_sessions(dict.fromkeys(NAMES, session))
    for name in FORMATS:
        text = render_sessions(combined, name)
        if name == "github-benchmark" and not is_compared(session):
            assert json.loads(text) == []
        else:
            assert all(each in text for each in NAMES), name
    assert len(combined.runs) == 3 * len(session.runs)
    (basis,) = (line for line in answers(combined) if line.startswith("3 sessions over "))
    assert ("what is counted is of all of them" in basis) is not is_compared(session)


def change(results: Path, name: str, **changes: Any) -> None:
    path = results / name / "report.json"
    report = json.loads(path.read_text())
    for key, value in changes.items():
        report[key] = report[key] | value if isinstance(value, dict) else value
    path.write_text(json.dumps(report))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"settings": {"tables": 5}}, "tables is "),
        ({"experiment": "clean-start"}, "the experiment is crash-recovery and clean-start"),
        ({"servers": {"5.7.22": {"sha256": "0" * 64}}}, "5.7.22 is another build (SHA-256 "),
    ],
    ids=["setting", "experiment", "build"],
)
def test_sessions_of_different_measurements_are_refused(
    changes: dict[str, Any], why: str, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(results, NAMES[2], **changes)
    assert run(["report", ",".join(NAMES), "--results", str(results)]) == 2
    assert f"{NAMES[0]} and {NAMES[2]} are not the same measurement: {why}" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--write"], ["--open"], ["--format", "path"]])
def test_what_needs_one_folder_is_refused_for_several(
    option: list[str], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", ",".join(NAMES), "--results", str(results), *option]) == 2
    assert "is for a single session" in capsys.readouterr().err


def test_a_session_that_is_named_twice_is_refused(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", f"{NAMES[0]},{NAMES[0]}", "--results", str(results)]) == 2
    assert "names a session twice" in capsys.readouterr().err


def test_a_session_on_both_sides_is_refused(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is wrong would otherwise pass a limit."""
    assert run(["compare", ",".join(NAMES), NAMES[0], "--fail-over", "10%", "--results", str(results)]) == 2
    assert f"{NAMES[0]} is on both sides" in capsys.readouterr().err


def test_a_missing_name_is_refused(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", f"{NAMES[0]},", "--results", str(results)]) == 2
    assert "a name is missing beside a comma" in capsys.readouterr().err


def test_a_comparison_names_the_version_if_there_are_several(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *NAMES[:2], "--results", str(results)]) == 0
    assert "times as long as the first, 5.6.24 cold" in capsys.readouterr().out


def test_a_fleet_leaves_the_table_of_sessions_to_its_own() -> None:
    assert {section.key for section in SECTIONS} >= sections._OF_ONE_HOST
    assert "sessions" in sections._OF_ONE_HOST
