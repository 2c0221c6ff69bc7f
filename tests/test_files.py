"""What a killed process leaves half made is found by whom it belonged to, and nothing else is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recovery.linux.cleanup import sweep_drafts
from recovery.linux.files import copy_atomically, draft_path, numbered_names, rename_to_free_name


@pytest.fixture
def dead() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


def test_drafts_of_the_dead_go_and_no_others(tmp_path: Path, dead: int) -> None:
    gone = [f".report.json.{dead}", f".001.json.{dead}", f".report.txt.{os.getpid()}"]
    stay = [f".report.json.{os.getppid()}", f".hidden.{dead}", "report.json", ".report.json", f"report.json.{dead}"]
    for name in (*gone, *stay):
        (tmp_path / name).touch()
    sweep_drafts(tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(stay)


def test_of_a_folder_with_files_of_the_user_s_only_what_has_our_names(tmp_path: Path, dead: int) -> None:
    (tmp_path / f".20261122T060000Z-scale.{dead}" / "runs").mkdir(parents=True)
    (tmp_path / f".notes.txt.{dead}").touch()
    (tmp_path / f".latest.{dead}").symlink_to("elsewhere")
    sweep_drafts(tmp_path, r"\d{8}T\d{6}Z-[a-z-]+|latest")
    assert [entry.name for entry in tmp_path.iterdir()] == [f".notes.txt.{dead}"]


def test_a_folder_that_is_not_there_has_no_drafts(tmp_path: Path) -> None:
    sweep_drafts(tmp_path / "nowhere")


def test_a_copy_is_whole_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 3_000_000)
    copy_atomically(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"x" * 3_000_000
    with pytest.raises(FileNotFoundError):
        copy_atomically(tmp_path / "missing", tmp_path / "b")
    assert (tmp_path / "b").stat().st_size == 3_000_000
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a", "b"]


def test_two_of_one_name_get_numbers(tmp_path: Path) -> None:
    for expected in ("session", "session-2", "session-3"):
        draft = draft_path(tmp_path / "session")
        draft.mkdir()
        (draft / "inside").touch()
        assert rename_to_free_name(draft, numbered_names("session")) == tmp_path / expected
        assert not draft.exists()
