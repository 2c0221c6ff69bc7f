"""The published schema is what the code writes, every stored session keeps it, and the policy's word is kept."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from schema_check import complaints

from recovery.cli.main import run
from recovery.errors import RecoveryError
from recovery.linux.files import STORED_FORMAT
from recovery.report.exports import schema, schema_text
from recovery.report.stored_session import load_session, to_json

ROOT = Path(__file__).parent.parent
SESSION = ROOT / "fixtures" / "sessions" / "three-versions"
IN_DOCS = sorted(path.parent for path in (ROOT / "docs" / "results").glob("*/report.json"))
PAGE = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")


def wrong(report: dict[str, Any]) -> list[str]:
    made = schema()
    return list(complaints(report, made, made))


def test_the_published_file_is_what_the_code_gives(capsys: pytest.CaptureFixture[str]) -> None:
    published = (ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8")
    assert published == schema_text(), "make it anew: recovery report --schema > docs/report.schema.json"
    assert run(["report", "--schema"]) == 0
    assert capsys.readouterr().out == published


@pytest.mark.parametrize("name", ["2026-11-21-stacks", "2026-11-22-damage", "2026-11-22-interference"])
def test_a_stored_session_is_read_and_written_anew(kept_sessions: Path, name: str) -> None:
    before = json.loads((kept_sessions / name / "report.json").read_bytes())
    assert wrong(before) == []
    again = json.loads(to_json(load_session(kept_sessions / name)))
    assert wrong(again) == []
    assert len(again["runs"]) == len(before["runs"])


@pytest.mark.parametrize("folder", IN_DOCS, ids=lambda path: path.name)
def test_a_session_in_the_docs_can_be_read(folder: Path) -> None:
    assert wrong(json.loads((folder / "report.json").read_bytes())) == []
    assert load_session(folder).runs


def keys(part: dict[str, Any], name: str = "report") -> Iterator[tuple[str, dict[str, Any]]]:
    for key, told in part.get("properties", {}).items():
        yield f"{name}.{key}", told


def test_every_key_is_described() -> None:
    made = schema()
    parts = {"report": made, **made["$defs"]}
    found = [one for name, part in parts.items() for one in keys(part, name)]
    assert len(found) > 100
    assert [name for name, told in found if len(told.get("description", "")) < 5] == []
    assert [name for name, part in parts.items() if not part.get("description")] == []


def test_what_breaks_it_is_seen() -> None:
    good = json.loads((SESSION / "report.json").read_bytes())
    for path, value in (
        (("runs", 0, "startup_s"), "fast"),
        (("runs", 0, "verdict"), "fine"),
        (("runs", 0, "number"), True),
        (("format",), 2),
        (("versions",), "5.7.22"),
        (("environment", "cpus"), [2]),
        (("summaries", 0, "count"), None),
    ):
        broken = copy.deepcopy(good)
        at = broken
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value
        assert len(wrong(broken)) == 1, path
    del good["runs"][0]["version"]
    assert wrong(good) == ["report.runs[0]: version is missing"]


def stored(folder: Path, **changes: Any) -> Path:
    report = json.loads((SESSION / "report.json").read_bytes()) | changes
    folder.mkdir(exist_ok=True)
    (folder / "report.json").write_text(json.dumps(report))
    return folder


def test_the_policy_a_newer_format_is_refused_with_what_to_do(tmp_path: Path) -> None:
    assert "is refused, with what to do" in PAGE
    with pytest.raises(RecoveryError, match="newer version") as refused:
        load_session(stored(tmp_path, format=STORED_FORMAT + 1))
    assert "update the tool" in refused.value.hint


def test_the_policy_unknown_keys_are_ignored_and_keep_the_schema(tmp_path: Path) -> None:
    assert "ignore keys that they do not know" in PAGE
    report = json.loads((SESSION / "report.json").read_bytes())
    report["runs"][0]["tomorrow"] = {"x": 1}
    folder = stored(tmp_path, tomorrow=[1], runs=report["runs"])
    assert wrong(json.loads((folder / "report.json").read_bytes())) == []
    assert load_session(folder) == load_session(SESSION)


def test_the_policy_keys_that_came_later_may_be_absent(tmp_path: Path) -> None:
    assert "may be absent" in PAGE
    report = json.loads((SESSION / "report.json").read_bytes())
    needed = set(schema()["$defs"]["Run"]["required"])
    for run_ in report["runs"]:
        for key in set(run_) - needed:
            del run_[key]
    assert load_session(stored(tmp_path, runs=report["runs"])).runs[0].startup_s is None


def test_the_page_names_the_format_and_only_keys_that_are_there() -> None:
    assert f'"format": {STORED_FORMAT}' in PAGE
    made = schema()
    known = {name.rpartition(".")[2] for part in (made, *made["$defs"].values()) for name, _ in keys(part)}
    table = [line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("| `")]
    named = {word.strip("` ") for cell in table for word in cell.split(",")}
    assert len(named) > 20
    assert named <= known
