"""The formats for other programs: a spreadsheet reads the runs."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recovery.cli.doctor import Check
from recovery.cli.main import run
from recovery.model import Phase, Run, Session, Verdict
from recovery.report import exports
from recovery.report.exports import FORMATS, render_as
from recovery.report.stored_session import load_session, to_json

ROOT = Path(__file__).parent.parent
SESSIONS = sorted(path.parent for path in (ROOT / "fixtures" / "sessions").glob("*/report.json"))


def rows(session: Session) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(exports.render_csv(session), newline=""), strict=True))


@pytest.fixture
def session() -> Session:
    return load_session(SESSIONS[0])


@pytest.mark.parametrize("name", ["stacks", "three-versions", "2026-11-21-scale"])
def test_a_row_a_run_with_the_figures_that_are_stored(name: str, kept_sessions: Path) -> None:
    folder = kept_sessions if name[0].isdigit() else ROOT / "fixtures" / "sessions"
    session = load_session(folder / name)
    found = rows(session)
    assert len(found) == len(session.runs) > 0
    for row, one in zip(found, session.runs, strict=True):
        assert int(row["number"]) == one.number
        assert row["startup_s"] == ("" if one.startup_s is None else repr(one.startup_s))
        assert row["verdict"] == one.verdict.value
        seconds = sum(float(row[name]) for name in row if name.startswith("phase_") and row[name])
        assert seconds == pytest.approx(sum(phase.end_s - phase.start_s for phase in one.phases))


def test_columns_are_the_same_for_every_session(session: Session) -> None:
    head = exports.render_csv(session).splitlines()[0]
    assert exports.render_csv(replace(session, runs=())).splitlines() == [head]
    plain = replace(session, runs=(Run(1, "x", "mysql", "cold", 1, Verdict.VOID),))
    assert exports.render_csv(plain).splitlines()[0] == head
    assert {"phase_redo_scan_s", "around_steal_s", "startup_s"} <= set(head.split(","))


def test_a_phase_of_a_later_tool_has_a_column_too(session: Session) -> None:
    one = replace(session.runs[0], phases=(Phase("redo scan + redo apply", 0.0, 1.5), Phase("tea", 2.0, 3.0)))
    (row,) = rows(replace(session, runs=(one,)))
    assert (row["phase_redo_scan_and_redo_apply_s"], row["phase_tea_s"]) == ("1.5", "1.0")


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@sum(a1)"])
def test_a_text_is_no_formula(session: Session, text: str) -> None:
    one = replace(session.runs[0], reason=text, startup_s=-0.5)
    (row,) = rows(replace(session, runs=(one,)))
    assert row["reason"] == f"'{text}"
    assert row["startup_s"] == "-0.5"


def test_quotes_commas_and_line_ends_are_kept(session: Session) -> None:
    reason = 'he said "no", and\nleft; \u00e9'
    (row,) = rows(replace(session, runs=(replace(session.runs[0], reason=reason),)))
    assert row["reason"] == reason
    assert exports.render_csv(session).count("\r\n") == len(session.runs) + 1


@pytest.mark.parametrize("name", FORMATS)
def test_the_command_prints_each(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(SESSIONS[0]), "--format", name]) == 0
    printed = capsys.readouterr().out
    begins = {
        "text": "c",
        "markdown": "# ",
        "csv": "number,",
        "json": "{",
        "html": "<!DOCTYPE html>",
    }
    assert printed.startswith(begins[name])
    stored = {"json": "report.json", "text": "report.txt", "markdown": "report.md"}.get(name)
    if stored:
        assert printed == (SESSIONS[0] / stored).read_text()


@pytest.mark.parametrize("words", [(), ("--json",), *(("--format", name) for name in FORMATS)])
def test_a_kept_folder_is_changed_only_where_it_is_asked_for(words: tuple[str, ...], tmp_path: Path) -> None:
    shutil.copytree(SESSIONS[0], tmp_path / "kept")
    (tmp_path / "kept" / "report.txt").write_text("as an older version wrote it")
    report = json.loads((SESSIONS[0] / "report.json").read_text())
    del report["findings"]
    (tmp_path / "kept" / "report.json").write_text(json.dumps(report))
    before = contents(tmp_path)
    assert run(["report", str(tmp_path / "kept"), *words]) == 0
    assert contents(tmp_path) == before
    assert run(["report", str(tmp_path / "kept"), *words, "--write"]) == 0
    assert (tmp_path / "kept" / "report.txt").read_text() == (SESSIONS[0] / "report.txt").read_text()
    assert (tmp_path / "kept" / "report.json").read_text() == (SESSIONS[0] / "report.json").read_text()
    assert (tmp_path / "kept" / "report.html").is_file()


def contents(folder: Path) -> dict[Path, tuple[int, bytes]]:
    """With the times at which they were written."""
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def test_the_old_words_are_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for words in (["--json"], ["--format", "json"]):
        assert run(["report", str(SESSIONS[0]), *words]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


CODES = (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
OBEYED = "".join(map(chr, CODES))


def _everywhere(value: Any, text: str) -> Any:
    """The stored value with this text in place of every text but those that decide what it is."""
    if isinstance(value, dict):
        kept = ("verdict", "figure", "status", "flavor")
        return {key: one if key in kept else _everywhere(one, text) for key, one in value.items()}
    if isinstance(value, list):
        return [_everywhere(one, text) for one in value]
    return f"a{text}b" if isinstance(value, str) else value


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_that_a_terminal_obeys_is_printed(name: str, session: Session, tmp_path: Path) -> None:
    """Whoever sent the session may have written anything into it, and into the files beside it."""
    stored = _everywhere(json.loads(to_json(session)), OBEYED)
    stored |= {"settings": {"note": OBEYED}, "servers": {OBEYED: {OBEYED: OBEYED}}}
    (tmp_path / "report.json").write_text(json.dumps(stored, ensure_ascii=False).replace(r"\u007f", "\x7f"))
    (tmp_path / "report.html").write_text(f"<!DOCTYPE html>{OBEYED}")
    assert "\x9b" in (tmp_path / "report.json").read_text()
    printed = render_as(tmp_path, name)
    # A row of csv ends with \r\n.
    assert not set(printed.replace("\r\n", "\n")) & set(OBEYED)
    if name == "json":
        assert json.loads(printed) == stored


def test_what_is_stored_can_be_printed(session: Session) -> None:
    session = replace(session, notes=(OBEYED,))
    text = to_json(session).decode()
    assert not set(text) & set(OBEYED)
    assert json.loads(text)["notes"] == [OBEYED]


def test_a_folders_name_does_not_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a\x1b[2J\x9bb"
    shutil.copytree(SESSIONS[0], folder)
    name = str(folder)
    bundled = ["bundle", name, "--output", str(tmp_path / "x\x1b[2J.tar.gz")]
    for words in (["report", name, "--html"], bundled, ["compare", name, name], ["report", "\x1b"]):
        run(words)
        said = "".join(capsys.readouterr())
        assert "?" in said
        assert not set(said) & set(OBEYED)


def test_a_finding_of_the_doctor_does_not_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"host": (Check(OBEYED, None, OBEYED, OBEYED, OBEYED),)}
    monkeypatch.setattr("recovery.cli.doctor.examine", lambda *_, **__: found)
    assert run(["doctor", "--no-probe", "-v"]) == 0
    assert not set(capsys.readouterr().out) & set(OBEYED)


def test_a_log_without_starts_does_not_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "\x1b[2J\x9b"
    log.write_text("nothing")
    run(["analyze", str(log), str(ROOT / "fixtures" / "errorlogs" / "mysql-5.7.22-crash.err")])
    assert not set(capsys.readouterr().out) & set(OBEYED)


def test_commands_print_lines_without_control_characters() -> None:
    """By `print_line`, which escapes them; main.py and report.py escape what they print."""
    for path in (ROOT / "recovery" / "cli").glob("*.py"):
        if path.name not in ("main.py", "output.py", "report.py"):
            assert not re.search(r"\bclick\.echo\(|\bText\(", path.read_text()), path.name


def test_an_unknown_format_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(SESSIONS[0]), "--format", "pdf"]) == 2
    assert "csv" in capsys.readouterr().err
