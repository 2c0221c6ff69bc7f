"""What is written of a stored session stays in its folder, and a bundle in the one that was named."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from otherusers import NOBODY, as_user, everybodys_folder, needs_root

from recovery.cli.main import run

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sessions"
NAME = "three-versions"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    shutil.copytree(FIXTURES / NAME, tmp_path / "results" / NAME)
    return tmp_path / "results"


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def refused(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert run([str(word) for word in words]) == 3
    error, hint = capsys.readouterr().err.splitlines()
    assert hint.startswith("hint:")
    return error


def test_reports_are_not_written_through_a_linked_session(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.move(results / NAME, results.parent / "elsewhere")
    (results / NAME).symlink_to(results.parent / "elsewhere")
    before = written(results.parent / "elsewhere")
    error = refused(capsys, "report", NAME, "--write", "--results", results)
    assert f"{results / NAME} is a link, and is not followed" in error
    assert written(results.parent / "elsewhere") == before
    assert run(["report", NAME, "--results", str(results)]) == 0, "it can be read"
    (results / NAME).rename(results / "latest")
    assert run(["report", "--write", "--results", str(results)]) == 0, "that is a link of the tool's own"


@pytest.mark.parametrize("name", ["report.txt", "report.html"])
def test_a_report_that_is_a_link_is_not_written(name: str, results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    precious, report = results.parent / "precious", results / NAME / name
    precious.write_text("keep")
    report.unlink(missing_ok=True)
    report.symlink_to(precious)
    error = refused(capsys, "report", NAME, "--write", "--results", results)
    assert f"{report} is a link, and is not followed" in error
    assert precious.read_text() == "keep"


@needs_root
def test_root_writes_no_report_of_a_session_in_another_users_folder(capsys: pytest.CaptureFixture[str]) -> None:
    with everybodys_folder() as shared:
        shutil.copytree(FIXTURES / NAME, shared / "theirs" / NAME)
        os.chown(shared / "theirs", NOBODY, NOBODY)
        before = written(shared / "theirs" / NAME)
        error = refused(capsys, "report", NAME, "--write", "--results", shared / "theirs")
        assert "theirs belongs to nobody, who could replace what root writes there" in error
        shutil.copytree(FIXTURES / NAME, shared / "own" / NAME)
        with as_user():
            (shared / "link").symlink_to(shared / "own")
        error = refused(capsys, "report", NAME, "--write", "--results", shared / "link")
        assert "link is a link of another user" in error
        assert written(shared / "theirs" / NAME) == before == written(shared / "own" / NAME)


@pytest.mark.parametrize("name", ["bundle", "bundle/session.tar.gz"])
def test_a_bundle_is_not_written_through_a_link(
    name: str, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "bundle").symlink_to("elsewhere")
    words = ("bundle", NAME, "--results", results, "--for", "mysql", "--output", tmp_path / name)
    assert f"{tmp_path / 'bundle'} is a link, and is not followed" in refused(capsys, *words)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (tmp_path / "bundle").unlink()
    (tmp_path / "bundle").mkdir()
    (tmp_path / "precious").write_text("keep")
    text = tmp_path / ("bundle/bug.txt" if name == "bundle" else "bundle/session.txt")
    text.symlink_to(tmp_path / "precious")
    assert f"{text} is a link, and is not followed" in refused(capsys, *words)
    assert list((tmp_path / "bundle").iterdir()) == [text], "no part of it is written"
    assert (tmp_path / "precious").read_text() == "keep"
