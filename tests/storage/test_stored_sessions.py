"""Stored sessions give the figures, texts and pages that they always gave, and report.json keeps its published schema.

The figures of `kept-sessions.tar.xz` are stored with its sessions; the texts are those of docs/results and fixtures.
tests/helpers/kept_reports.py accepts changed texts and CSV exports."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from at_work import SMALL
from html_page import check_page
from kept_reports import csv_digests, digest_of, text_of
from schema_check import SCHEMA, violations
from sessions import FIXTURES, KEPT_SESSIONS, KINDS_OF_SESSIONS, OTHER_SESSIONS

from recovery.cli.main import run
from recovery.model import Session, Verdict
from recovery.report import fmt, markdown, text
from recovery.report.csv_report import render_csv
from recovery.report.html import page
from recovery.report.json_report import schema_text, to_json
from recovery.report.tables import all_tables
from recovery.report.write import write_reports
from recovery.storage.format import FORMAT
from recovery.storage.sessions import load_session

ROOT = Path(__file__).parents[2]
SESSION = FIXTURES / "sessions" / "three-versions"
FORMAT_PAGE = (ROOT / "docs" / "sharing.md").read_text(encoding="utf-8").partition("## Stored format")[2]
PROMISE = (ROOT / "docs" / "using.md").read_text(encoding="utf-8").partition("## What stays the same")[2]

KEYS_OF = {
    "summaries": ("version", "variant", "name"),
    "fits": ("version", "variant"),
    "contrasts": ("version", "variant", "base_variant", "axis"),
    "ratios": ("version", "base_version", "variant"),
}


@pytest.fixture(scope="module", params=[*KEPT_SESSIONS, *OTHER_SESSIONS])
def folder(request: pytest.FixtureRequest, kept_sessions: Path) -> Path:
    name: str = request.param
    return (FIXTURES / "sessions" if name in OTHER_SESSIONS else kept_sessions) / name


@pytest.fixture(scope="module")
def session(folder: Path) -> Session:
    return load_session(folder)


def test_the_archive_has_all_kept_sessions(kept_sessions: Path) -> None:
    assert {folder.name for folder in kept_sessions.iterdir()} == set(KEPT_SESSIONS)


def test_every_figure_is_as_it_was_stored(folder: Path, session: Session) -> None:
    """For each metric and cell: number of runs, mean, median, deviation, interval and ratio."""
    stored, computed = json.loads((folder / "report.json").read_bytes()), json.loads(to_json(session))
    for part in KEYS_OF:
        assert list(differences(rows(stored, part), rows(computed, part))) == [], part


def test_every_value_of_every_run_is_read(folder: Path, session: Session) -> None:
    """Nothing that a run holds is lost or changed, except that keys may be added."""
    stored_report = json.loads((folder / "report.json").read_bytes())
    before, after = stored_report["runs"], json.loads(to_json(session))["runs"]
    assert len(before) == len(after)
    for stored, computed in zip(before, after, strict=True):
        changed = [key for key in stored if not same(stored[key], only_keys_of(stored[key], computed.get(key)))]
        assert changed == [], f"run {stored['number']}"


def only_keys_of(stored: Any, computed: Any) -> Any:
    """The part of a computed value whose keys were stored."""
    if isinstance(stored, dict) and isinstance(computed, dict):
        return {key: only_keys_of(value, computed[key]) for key, value in stored.items() if key in computed}
    if isinstance(stored, list) and isinstance(computed, list) and len(stored) == len(computed):
        return [only_keys_of(old, new) for old, new in zip(stored, computed, strict=True)]
    return computed


def rows(report: dict[str, Any], part: str) -> dict[tuple[str, ...], dict[str, Any]]:
    found = {tuple(str(row.get(key)) for key in KEYS_OF[part]): row for row in report.get(part, ())}
    assert len(found) == len(report.get(part, ())), f"{part}: two rows of one cell"
    return found


def differences(stored: dict[tuple[str, ...], Any], computed: dict[tuple[str, ...], Any]) -> Iterator[str]:
    """Keys may be added to a row; none may change or vanish."""
    yield from (f"{key} is missing" for key in stored.keys() - computed.keys())
    yield from (f"{key} is new" for key in computed.keys() - stored.keys())
    for key in stored.keys() & computed.keys():
        for name, value in stored[key].items():
            if not same(value, found := computed[key].get(name)):
                yield f"{key}: {name}: {value} became {found}"


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=1e-9)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def test_the_text_fits_a_page_and_is_the_published_one(folder: Path, session: Session) -> None:
    rendered = text.render(session)
    assert rendered.isascii()
    assert max(map(len, rendered.splitlines())) <= text.WIDTH
    assert rendered == text_of(folder.name).read_text()


def test_the_csv_export_is_as_it_was(folder: Path, session: Session) -> None:
    assert digest_of(render_csv(session)) == csv_digests()[folder.name]


def test_every_part_of_a_split_table_identifies_its_rows(session: Session) -> None:
    tables = [fmt.printable_table(table) for table in all_tables(session)]
    for table, width in product(tables, (text.WIDTH, 60, 40)):
        assert {len(table.headers)} == {len(table.numeric), *map(len, table.rows)}, table.title
        whole = {row[: table.keys] for row in table.rows}
        gap = fmt.column_gap(table, width)
        parts = fmt.split(table, width, gap=gap)
        for part in parts:
            assert len({row[: part.keys] for row in part.rows}) == len(whole), (table.title, part.headers)
            columns = fmt.widths(part, width, gap=gap)
            assert sum(columns) + gap * (len(columns) - 1) <= width, (table.title, part.headers)
        if len(parts) > 1 and width > 40:
            assert len(whole) == len(table.rows), f"{table.title}: its keys do not identify its rows"


@pytest.mark.parametrize("folder", [*KINDS_OF_SESSIONS, "2026-11-22-damage", *OTHER_SESSIONS], indirect=True)
def test_the_page_is_well_formed_and_has_charts(session: Session) -> None:
    found = check_page(page.render(session))
    assert found.tags["svg"] > 0
    assert "Every run" in found.texts


def test_reports_are_written_from_the_stored_session(tmp_path: Path) -> None:
    shutil.copy(SESSION / "report.json", tmp_path)
    written = write_reports(tmp_path, load_session(tmp_path))
    assert [path.name for path in written] == ["report.txt", "report.md", "report.html"]
    for path in written[:2]:
        assert path.read_text() == (SESSION / path.name).read_text()
    assert to_json(load_session(tmp_path)) == (SESSION / "report.json").read_bytes()


def test_the_fixtures_have_every_verdict() -> None:
    assert {run.verdict for run in load_session(SESSION).runs} == set(Verdict) - {Verdict.SAMPLED}
    stacks = load_session(FIXTURES / "sessions" / "stacks")
    assert {run.verdict for run in stacks.runs} == {Verdict.MEASURED, Verdict.SAMPLED}


@pytest.mark.parametrize("name", SMALL)
def test_texts_of_loads_fit_a_page(name: str) -> None:
    rendered = text.render(SMALL[name]())
    assert rendered.isascii()
    assert max(map(len, rendered.splitlines())) <= text.WIDTH
    assert "Every run" in markdown.render(SMALL[name]())


# --- The published schema, and the policy on changes of the format


def test_the_published_schema_is_generated_from_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    published = (ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8")
    assert published == schema_text(), "make it anew: recovery report --format schema > docs/report.schema.json"
    assert run(["report", "--format", "schema"]) == 0
    assert capsys.readouterr().out == published


@pytest.mark.parametrize("folder", ["2026-11-21-stacks", "2026-11-22-damage", "2026-11-22-interference"], indirect=True)
def test_stored_sessions_keep_the_schema_when_they_are_written_again(folder: Path, session: Session) -> None:
    again = json.loads(to_json(session))
    assert violations(again) == []
    assert len(again["runs"]) == len(session.runs)


def keys(part: dict[str, Any], name: str = "report") -> Iterator[tuple[str, dict[str, Any]]]:
    for key, described in part.get("properties", {}).items():
        yield f"{name}.{key}", described


def test_every_key_is_described() -> None:
    parts = {"report": SCHEMA, **SCHEMA["$defs"]}
    found = [one for name, part in parts.items() for one in keys(part, name)]
    assert len(found) > 100
    assert [name for name, described in found if len(described.get("description", "")) < 5] == []
    assert [name for name, part in parts.items() if not part.get("description")] == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("runs", 0, "metrics", "startup_s"), "fast"),
        (("runs", 0, "verdict"), "fine"),
        (("runs", 0, "number"), True),
        (("format",), 1),
        (("versions",), "5.7.22"),
        (("environment", "cpus"), [2]),
        (("summaries", 0, "count"), None),
    ],
)
def test_a_violation_of_the_schema_is_found(path: tuple[Any, ...], value: Any) -> None:
    report = json.loads((SESSION / "report.json").read_bytes())
    broken = copy.deepcopy(report)
    at = broken
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    assert len(violations(broken)) == 1
    del report["runs"][0]["version"]
    assert violations(report) == ["report.runs[0]: version is missing"]


def stored(folder: Path, **changes: Any) -> Path:
    report = json.loads((SESSION / "report.json").read_bytes()) | changes
    (folder / "report.json").write_text(json.dumps(report))
    return folder


def test_unknown_keys_are_ignored_and_keep_the_schema(tmp_path: Path) -> None:
    assert "ignore keys that they do not know" in PROMISE
    runs = json.loads((SESSION / "report.json").read_bytes())["runs"]
    runs[0]["tomorrow"] = {"x": 1}
    folder = stored(tmp_path, tomorrow=[1], runs=runs)
    assert violations(json.loads((folder / "report.json").read_bytes())) == []
    assert load_session(folder) == load_session(SESSION)


def test_keys_that_were_added_later_may_be_absent(tmp_path: Path) -> None:
    assert "may be absent" in PROMISE
    needed = set(SCHEMA["$defs"]["Run"]["required"])
    runs = json.loads((SESSION / "report.json").read_bytes())["runs"]
    runs = [{key: value for key, value in run.items() if key in needed} for run in runs]
    assert needed == {"number", "version", "flavor", "variant", "repeat", "verdict"}
    assert load_session(stored(tmp_path, runs=runs)).runs[0].metrics == {}


def test_the_page_names_the_format_and_only_existing_keys() -> None:
    assert f'"format": {FORMAT}' in FORMAT_PAGE
    known = {name.rpartition(".")[2] for part in (SCHEMA, *SCHEMA["$defs"].values()) for name, _ in keys(part)}
    listed = [line[2:].partition(":")[0] for line in FORMAT_PAGE.splitlines() if line.startswith("* `")]
    named = {word.strip("` ") for keys in listed for word in keys.split(",")}
    assert len(named) > 20
    assert named <= known
