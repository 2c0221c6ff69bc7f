"""Are the tables' files found where a server puts them, and no others?"""

from pathlib import Path

from recovery.linux.files import table_files
from recovery.model import Layout, Schema


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
