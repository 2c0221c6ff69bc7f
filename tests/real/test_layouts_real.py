"""Do real servers keep the tables in the files that were asked for, and are those the files that are counted?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sessions import left_out, stored

from recovery.builds.executable import fetch_package_file
from recovery.cli.main import run
from recovery.mysqld.datadir import DataDirs

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may be told by fanotify"),
]

TABLES = 120
INSERTS = 40


def variants(*texts: str) -> Iterator[str]:
    for text in texts:
        yield from ("--variant", text)


def measured(tmp_path: Path, *arguments: str) -> dict[str, dict[str, object]]:
    """The runs of a session by variant; each server says how many tables it has found."""
    assert run([*arguments, "--runs", "1", "--inserts", str(INSERTS)]) == 0
    runs = stored(tmp_path)["runs"]
    for one in runs:
        assert one["verdict"] == "measured", one["reason"]
        assert one["rows_found"] == one["rows_expected"] >= INSERTS
    return {one["variant"]: one for one in runs}


def touched(one: dict[str, object]) -> tuple[object, object, object]:
    return one["tablespaces_opened"], one["tablespaces_read"], one["tablespaces_modified"]


def lying(server: dict[str, str]) -> tuple[str, ...]:
    """What the report says of its tables."""
    return tuple(server[what] for what in ("tables", "schemas", "layout", "ibd_files"))


def test_files_against_one_file(at: list[str], data: Path, tmp_path: Path) -> None:
    layouts = variants("files:", "one-file:layout=general")
    runs = measured(tmp_path, "cold-recovery", "--version", "5.7.22", "--trace", *layouts, *at)
    assert touched(runs["cold-files"]) == (TABLES, TABLES, INSERTS)
    assert touched(runs["cold-one-file"]) == (1, 1, 1)
    assert {one["tables"] for one in runs.values()} == {TABLES}
    report = stored(tmp_path)
    assert lying(report["servers"]["5.7.22 files"]) == ("120", "1", "files", "120")
    assert lying(report["servers"]["5.7.22 one-file"]) == ("120", "1", "general", "1")
    assert "data directories alternate" in (tmp_path / "results" / "latest" / "report.txt").read_text()
    assert len([one for one in data.glob(f"5.7.22-discovery-{TABLES}-*") if one.is_dir()]) == 2


def test_every_partition_is_a_file(at: list[str], tmp_path: Path) -> None:
    asked = ["--version", "8.0.31", "--layout", "partitioned", *at]
    (one,) = measured(tmp_path, "cold-recovery", "--trace", *asked).values()
    assert touched(one) == (4 * TABLES, 4 * TABLES, INSERTS)


def test_partitioned_tables_that_grow(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--version", "mariadb-10.11.5", "--tables", "50 100", "--layout", "partitioned", "--trace"]
    runs = measured(tmp_path, "scale", *asked, "--data", str(data), "--results", str(tmp_path / "results"))
    assert [one["tables"] for one in runs.values()] == [50, 100]
    assert [one["tablespaces_opened"] for one in runs.values()] == [200, 400]
    assert "growing from 50 to 100 tables" in capsys.readouterr().err
    (left,) = (one for one in data.glob("mariadb-10.11.5-discovery-100-*") if one.is_dir())
    assert "-partitioned-" in left.name


def test_a_server_without_the_plugin_is_told_before_anything_is_built(
    at: list[str], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for version, plugin in (("5.7.22", "keyring_file.so"), ("mariadb-10.11.5", "file_key_management.so")):
        before = DataDirs(data).list()
        asked = ["--version", version, "--tables", "30", *at[2:], *variants("files:", "secret:layout=encrypted")]
        assert run(["cold-recovery", *asked]) == 3
        said = capsys.readouterr().err
        assert f"error: this build of {version} has no " in said
        assert f"{plugin}, which encrypted tables take their keys from" in said
        assert "--set plugin_dir=FOLDER" in said
        assert DataDirs(data).list() == before, "not even the plain tables"


def test_encrypted_tables_and_many_schemas(at: list[str], data: Path, tmp_path: Path) -> None:
    plugin = fetch_package_file("mariadb-server", "file_key_management.so")
    if plugin is None:
        left_out("this host's packages hold no file_key_management.so")
    layouts = variants(f"secret:layout=encrypted,plugin_dir={plugin.parent}", "many:schemas=4")
    runs = measured(tmp_path, "cold-recovery", "--version", "mariadb-10.11.5", "--trace", *layouts, *at)
    for one in runs.values():
        assert (one["tablespaces_opened"], one["tablespaces_modified"]) == (TABLES, INSERTS)
    servers = stored(tmp_path)["servers"]
    assert lying(servers["mariadb-10.11.5 secret"]) == ("120", "1", "encrypted", "120")
    assert lying(servers["mariadb-10.11.5 many"]) == ("120", "4", "files", "120")
    (built,) = (one for one in data.glob(f"mariadb-10.11.5-discovery-{TABLES}-encrypted-*") if one.is_dir())
    page = (built / "mysql" / "discovery" / "table_1.ibd").read_bytes()
    assert b"infimum" not in page, "the records of every index page begin with this word, in clear"
    assert (built / "keys").stat().st_mode & 0o777 == 0o700
