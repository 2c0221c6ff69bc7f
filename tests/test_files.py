"""Files are replaced as a whole, damaged ones are refused, and the tables' files are found."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import TypeAdapter

from recovery.errors import RecoveryError
from recovery.linux.files import (
    copy_atomically,
    draft_path,
    numbered_names,
    read_stored,
    rename_to_free_name,
    table_files,
)
from recovery.model import Layout, Schema


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


@pytest.mark.parametrize("number", ["true", "null", '"1"', "1.0"])
def test_a_stored_file_has_a_whole_number_as_its_format(number: str, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(f'{{"format": {number}}}')
    with pytest.raises(RecoveryError, match="is damaged: it has no format number"):
        read_stored(tmp_path / "report.json", TypeAdapter(dict[str, object]))


def test_tables_are_counted_as_the_server_names_their_folders(tmp_path: Path) -> None:
    for folder in ("discovery", "my@002ddb_1"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.ibd").touch()
        (tmp_path / folder / "t.frm").touch()
    assert table_files(tmp_path, Schema(1)).count() == 1
    assert table_files(tmp_path, Schema(1, database="my-db", databases=2)).count() == 1, "the second is missing"


def test_the_only_file_of_all_tables_lies_beside_the_servers_own(tmp_path: Path) -> None:
    general = table_files(tmp_path, Schema(1, layout=Layout.GENERAL))
    (tmp_path / "mysql.ibd").touch()
    assert general.count() == 0
    (tmp_path / "all_tables.ibd").touch()
    assert general.count() == 1
    assert not general.holds("mysql.ibd")
