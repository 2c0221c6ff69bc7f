"""Every output format is complete, changes no stored file, and prints nothing that a terminal or spreadsheet obeys."""

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
from at_work import write_scaling
from runs import with_parts
from sessions import FIXTURES, KINDS_OF_SESSIONS

from recovery.cli.doctor import Check
from recovery.cli.main import run
from recovery.model import Phase, Run, Session, Verdict
from recovery.report.csv_report import render_csv
from recovery.report.exports import FORMATS, render_as
from recovery.report.html.page import PAGE, render
from recovery.report.json_report import to_json
from recovery.report.summary_text import answer_of, answers
from recovery.storage.sessions import load_session

ROOT = Path(__file__).parents[2]
STORED = FIXTURES / "sessions" / "three-versions"
SESSION = load_session(STORED)


def rows(session: Session) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render_csv(session), newline=""), strict=True))


@pytest.mark.parametrize("name", ["stacks", "three-versions"])
def test_csv_has_a_row_for_each_run_with_the_stored_figures(name: str) -> None:
    session = load_session(FIXTURES / "sessions" / name)
    found = rows(session)
    assert len(found) == len(session.runs) > 0
    for row, one in zip(found, session.runs, strict=True):
        assert int(row["number"]) == one.number
        assert row["startup_s"] == str(one.metrics.get("startup_s", ""))
        assert row["verdict"] == one.verdict.value
        seconds = sum(float(row[name]) for name in row if name.startswith("phase_") and row[name])
        assert seconds == pytest.approx(sum(phase.end_s - phase.start_s for phase in one.startup.phases))


def test_csv_has_the_same_columns_for_every_session_of_starts() -> None:
    head = render_csv(SESSION).splitlines()[0]
    assert render_csv(replace(SESSION, runs=())).splitlines() == [head]
    plain = replace(SESSION, runs=(Run(1, "x", "mysql", "cold", 1, Verdict.VOID),))
    assert render_csv(plain).splitlines()[0] == head
    assert {"phase_redo_scan_s", "around_steal_s", "startup_s"} <= set(head.split(","))


def test_csv_has_a_column_for_each_axis_and_measure() -> None:
    session = write_scaling(small=True)
    found = rows(session)
    assert len(found) == len(session.runs)
    assert (found[0]["axis_threads"], found[0]["axis_innodb_doublewrite"]) == ("1", "")
    assert float(found[0]["measure_qps"]) == session.runs[0].metrics["qps"]


def test_csv_has_a_column_for_a_phase_of_a_later_tool() -> None:
    one = with_parts(SESSION.runs[0], phases=(Phase("redo scan + redo apply", 0.0, 1.5), Phase("tea", 2.0, 3.0)))
    (row,) = rows(replace(SESSION, runs=(one,)))
    assert (row["phase_redo_scan_and_redo_apply_s"], row["phase_tea_s"]) == ("1.5", "1.0")


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@sum(a1)"])
def test_no_text_in_csv_is_a_formula(text: str) -> None:
    (row,) = rows(replace(SESSION, runs=(replace(SESSION.runs[0], reason=text, metrics={"startup_s": -0.5}),)))
    assert row["reason"] == f"'{text}"
    assert row["startup_s"] == "-0.5"


def test_csv_keeps_quotes_commas_and_line_ends() -> None:
    reason = 'he said "no", and\nleft; \u00e9'
    session = replace(SESSION, runs=(replace(SESSION.runs[0], reason=reason),))
    assert rows(session)[0]["reason"] == reason
    assert render_csv(session).count("\r\n") == 2


@pytest.mark.parametrize(
    ("words", "begins", "stored"),
    [
        (("--format", "text"), "crash-recovery", "report.txt"),
        (("--format", "markdown"), "# ", "report.md"),
        (("--format", "csv"), "number,", None),
        (("--format", "json"), "{", "report.json"),
        (("--json",), "{", "report.json"),
        (("--format", "html"), "<!DOCTYPE html>", None),
        ((), "Startup after SIGKILL", None),
    ],
)
def test_the_command_prints_each_format_and_changes_no_file(
    words: tuple[str, ...], begins: str, stored: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "kept"
    shutil.copytree(STORED, folder)
    (folder / "report.txt").write_text("as an older version wrote it")
    before = contents(folder)
    assert run(["report", str(folder), *words]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(begins)
    assert stored is None or printed == (STORED / stored).read_text()
    assert contents(folder) == before


def contents(folder: Path) -> dict[Path, tuple[int, bytes]]:
    """The files with the times at which they were written."""
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_reports_are_written_on_request(words: tuple[str, ...], tmp_path: Path) -> None:
    report = json.loads((STORED / "report.json").read_text())
    del report["findings"]
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert run(["report", str(tmp_path), *words, "--write"]) == 0
    for name in ("report.txt", "report.json"):
        assert (tmp_path / name).read_text() == (STORED / name).read_text()
    assert (tmp_path / PAGE).is_file()


def test_the_command_prints_the_path_of_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(STORED / "report.json", tmp_path)
    assert run(["report", str(tmp_path), "--format", "path"]) == 2
    assert "`recovery report SESSION --write` writes it" in capsys.readouterr().err
    assert run(["report", str(tmp_path), "--format", "path", "--write"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path == tmp_path.resolve() / PAGE
    assert path.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--format", "pdf"), "csv"),
        (("--format", "html", "--open"), "leave one of them out"),
        (("--json", "--open"), "leave one of them out"),
    ],
)
def test_contradicting_and_unknown_formats_are_refused(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", str(STORED), *words]) == 2
    assert message in capsys.readouterr().err


# --- Control characters: whoever sent a session may have written anything into it, and into the files beside it

CODES = (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
CONTROLS = "".join(map(chr, CODES))


def _everywhere(value: Any, text: str) -> Any:
    """The stored value with this text in place of every text but those that decide what it is."""
    if isinstance(value, dict):
        kept = ("verdict", "extra", "status", "flavor")
        return {key: one if key in kept else _everywhere(one, text) for key, one in value.items()}
    if isinstance(value, list):
        return [_everywhere(one, text) for one in value]
    return f"a{text}b" if isinstance(value, str) else value


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_prints_control_characters_of_a_session(name: str, tmp_path: Path) -> None:
    stored = _everywhere(json.loads(to_json(SESSION)), CONTROLS)
    stored |= {"settings": {"note": CONTROLS}, "servers": {CONTROLS: {CONTROLS: CONTROLS}}}
    (tmp_path / "report.json").write_text(json.dumps(stored, ensure_ascii=False).replace(r"\u007f", "\x7f"))
    (tmp_path / "report.html").write_text(f"<!DOCTYPE html>{CONTROLS}")
    assert "\x9b" in (tmp_path / "report.json").read_text()
    printed = render_as(tmp_path, name)
    # A row of csv ends with \r\n.
    assert not set(printed.replace("\r\n", "\n")) & set(CONTROLS)
    if name == "json":
        assert json.loads(printed) == stored


@pytest.mark.parametrize("name", [*KINDS_OF_SESSIONS, "2026-11-22-damage"])
def test_no_page_has_hidden_characters_of_a_session(name: str, kept_sessions: Path, tmp_path: Path) -> None:
    """They would turn around what is read, also in titles and drawings. The page is as it is stored beside the runs."""
    stored = _everywhere(json.loads(to_json(load_session(kept_sessions / name))), "\x1b[2J\u202e\u200b")
    (tmp_path / "report.json").write_text(json.dumps(stored))
    html = render(load_session(tmp_path))
    assert not set(html) & set("\x1b\u202e\u200b")
    assert "?[2J??" in html


def test_json_has_the_answer_of_the_other_formats() -> None:
    lines = json.loads(to_json(SESSION))["answer"]
    assert lines == list(answers(SESSION))
    written = render_as(STORED, "markdown").replace("\\", "").replace("\u00b1", "+-")
    assert all(line in written for line in (*answer_of(SESSION).sentences, f"{answer_of(SESSION).title}:"))


@pytest.mark.parametrize("name", [*KINDS_OF_SESSIONS, "2026-11-22-damage"])
def test_json_has_an_answer_whatever_became_of_the_runs(name: str, kept_sessions: Path) -> None:
    """It is written after every run: an error in it would end the session."""
    session = load_session(kept_sessions / name)
    first, *_ = runs = session.runs
    for some in ((), (first,), *(tuple(replace(one, verdict=verdict) for one in runs) for verdict in Verdict)):
        assert isinstance(json.loads(to_json(replace(session, runs=some)))["answer"], list)


def test_control_characters_are_stored_escaped() -> None:
    text = to_json(replace(SESSION, notes=(CONTROLS,))).decode()
    assert not set(text) & set(CONTROLS)
    assert json.loads(text)["notes"] == [CONTROLS]


def test_the_name_of_a_folder_does_not_control_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a\x1b[2J\x9bb"
    shutil.copytree(STORED, folder)
    name = str(folder)
    bundled = ["bundle", name, "--for", "mysql", "--output", str(tmp_path / "x\x1b[2J.tar.gz")]
    for words in (["report", name, "--format", "path"], bundled, ["compare", name, name], ["report", "\x1b"]):
        run(words)
        printed = "".join(capsys.readouterr())
        assert "?" in printed
        assert not set(printed) & set(CONTROLS)


def test_a_finding_of_the_doctor_does_not_control_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"host": (Check(CONTROLS, None, CONTROLS, CONTROLS, CONTROLS),)}
    monkeypatch.setattr("recovery.cli.doctor.examine", lambda *_, **__: found)
    assert run(["doctor", "--no-probe", "-v"]) == 0
    assert not set(capsys.readouterr().out) & set(CONTROLS)


def test_the_name_of_a_log_does_not_control_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "\x1b[2J\x9b"
    log.write_text("nothing")
    run(["analyze", str(log), str(FIXTURES / "errorlogs" / "mysql-5.7.22-crash.err")])
    assert not set(capsys.readouterr().out) & set(CONTROLS)


def test_commands_print_lines_without_control_characters() -> None:
    """By `print_line`, which escapes them; main.py and report.py escape what they print."""
    for path in (ROOT / "recovery" / "cli").glob("*.py"):
        if path.name not in ("main.py", "output.py", "report.py"):
            assert not re.search(r"\bclick\.echo\(|\bText\(", path.read_text()), path.name
