"""Files and folders are replaced or renamed as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.linux.files import copy_atomically, draft_path, numbered_names, rename_to_free_name


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
