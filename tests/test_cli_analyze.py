"""Does `recovery analyze` say where the time went in anybody's log, and in one line why it cannot?"""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

import pytest

from recovery.cli.main import run

LOGS = Path(__file__).resolve().parent.parent / "fixtures" / "errorlogs"
CRASH_57 = LOGS / "mysql-5.7.22-crash.err"


def test_a_page_for_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", str(CRASH_57), str(LOGS / "mysql-5.6.24-crash.err")]) == 0
    out = capsys.readouterr().out
    assert "5.7.22" in out
    assert "validation" in out
    assert "The timestamps are whole seconds" in out
    assert max(map(len, out.splitlines())) <= max(78, len(str(CRASH_57)))


def test_for_programs_and_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = io.BytesIO(gzip.compress(CRASH_57.read_bytes()))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(packed)))
    assert run(["analyze", "--json", "-"]) == 0
    stored = json.loads(capsys.readouterr().out)
    (start,) = stored["logs"][0]["starts"]
    assert (stored["format"], start["kind"], start["version"]) == (1, "crash", "5.7.22")
    assert start["seconds"]["validation"] == pytest.approx(0.104, abs=0.001)
    assert start["named_share"] == 1.0


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("none", None, "cannot be read"),
        ("empty.err", b"", "no start of a server was found"),
        ("other.txt", b"a shopping list\n" * 1000, "no start of a server was found"),
        ("torn.gz", gzip.compress(b"x" * 10_000)[:20], "cannot be read to its end"),
        (".", None, "cannot be read"),
    ],
)
def test_what_is_no_log_is_told_in_one_line_and_a_hint(
    name: str, content: bytes | None, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert run(["analyze", str(tmp_path / name)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    lines = told.err.splitlines()
    assert len(lines) == 2, told.err
    error, hint = lines
    assert error.startswith("error: ")
    assert what in error
    assert hint.startswith("hint: ")


def test_no_file_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze"]) == 2
    assert "no error log was given" in capsys.readouterr().err
