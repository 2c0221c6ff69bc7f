"""Temporary folders of this process, of one that has ended, and of nobody."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recovery.linux import cleanup
from recovery.linux.procfs import is_orphan, name_with_process_id

MAKE = "import sys; from recovery.linux.cleanup import make_temp_folder; print(make_temp_folder(sys.argv[1]))"


def test_those_of_a_run_that_has_ended_go_and_no_others(tmp_path: Path) -> None:
    made = subprocess.run([sys.executable, "-c", MAKE, str(tmp_path)], capture_output=True, text=True, check=True)
    left, own, strange = (
        Path(made.stdout.strip()),
        cleanup.make_temp_folder(str(tmp_path)),
        tmp_path / "recovery-of-mine",
    )
    strange.mkdir()
    (left / "1").mkdir()
    (left / "1" / "my.cnf").touch()
    assert cleanup.sweep_temp_folders_in(tmp_path) == 1
    assert not left.exists()
    assert own.is_dir()
    assert strange.is_dir()
    assert cleanup.sweep_temp_folders_in(tmp_path) == 0


def of_the_dead() -> str:
    """A name with the mark of a process that has this one's number, and began earlier."""
    before, dot, began = name_with_process_id(1).removesuffix("-1").rpartition(".")
    return f"{before}{dot}{int(began) - 1}-1"


def test_one_that_was_killed_before_its_mark_was_written_or_within_the_removal(tmp_path: Path) -> None:
    """Its name tells whose it was: it has another one only while the mark is in it."""
    half = tmp_path / of_the_dead()
    assert is_orphan(half.name)
    (half / "1").mkdir(parents=True)
    assert cleanup.sweep_temp_folders_in(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []


def test_there_is_no_moment_without_a_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    rename = Path.rename

    def watched(self: Path, target: Path) -> Path:
        seen.append(f"{self.name} {sorted(entry.name for entry in self.iterdir())} {target.name}")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", watched)
    made = cleanup.make_temp_folder(str(tmp_path))
    (made / "1").mkdir()
    assert cleanup.remove_temp_folder(made)
    named, unnamed = seen
    assert named.startswith("mysql-recovery-")
    assert named.endswith(f" ['owner'] {made.name}")
    assert unnamed.startswith(f"{made.name} ['1', 'owner'] mysql-recovery-")
    assert list(tmp_path.iterdir()) == []
    assert not cleanup.remove_temp_folder(made)


def test_a_folder_for_a_while(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with cleanup.temp_folder() as made:
        assert made.stat().st_mode & 0o777 == 0o700
        assert cleanup.socket_temp_base() == (str(tmp_path) if len(os.fsencode(tmp_path)) <= 60 else "/tmp")
    assert not made.exists()


def test_another_users_are_left_alone_by_root_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = subprocess.run([sys.executable, "-c", MAKE, str(tmp_path)], capture_output=True, text=True, check=True)
    left, half = Path(made.stdout.strip()), tmp_path / of_the_dead()
    half.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: half.stat().st_uid + 1)
    assert cleanup.sweep_temp_folders_in(tmp_path) == 0
    assert not cleanup.remove_temp_folder(left)
    assert left.is_dir()
    assert half.is_dir()
