"""Real servers keep the tables in the files that were asked for, and those files are counted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sessions import left_out, stored

from recovery.builds.executable import fetch_package_file
from recovery.cli.main import run
from recovery.mysqld.datadir import DataDirs

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may use fanotify"),
]

TABLES, INSERTS = 40, 12
LARGE = pytest.mark.on_demand("large")
FAST = "mariadb-10.11.5"


def measured(tmp_path: Path, *arguments: str) -> dict[str, dict[str, object]]:
    """Returns the traced runs of a session by variant; each run has found every row."""
    assert run([*arguments, "--trace", "--runs", "1", "--inserts", str(INSERTS)]) == 0
    runs = stored(tmp_path)["runs"]
    for one in runs:
        assert one["verdict"] == ("sampled" if one["extra"] else "measured"), one["reason"]
        assert one["rows_found"] == one["rows_expected"] >= INSERTS
    return {one["variant"]: one for one in runs if one["extra"]}


def touched(one: dict[str, object]) -> tuple[object, object, object]:
    return one["tablespaces_opened"], one["tablespaces_read"], one["tablespaces_modified"]


def described(tmp_path: Path, server: str) -> tuple[str, ...]:
    """Returns what the report says of the tables of a server."""
    found = stored(tmp_path)["servers"][server]
    return tuple(found[name] for name in ("tables", "schemas", "layout", "ibd_files"))


@pytest.mark.parametrize("version", ["5.7.22", pytest.param("8.0.31", marks=LARGE)])
def test_a_general_tablespace_is_one_file(version: str, at: list[str], tmp_path: Path) -> None:
    (one,) = measured(tmp_path, "cold-recovery", "--version", version, "--layout", "general", *at).values()
    assert touched(one) == (1, 1, 1)
    assert one["tables_found"] == TABLES
    assert described(tmp_path, version) == (str(TABLES), "1", "general", "1")


@pytest.mark.parametrize("version", ["8.0.31", pytest.param("5.7.22", marks=LARGE)])
def test_every_partition_is_a_file(version: str, at: list[str], tmp_path: Path) -> None:
    (one,) = measured(tmp_path, "cold-recovery", "--version", version, "--layout", "partitioned", *at).values()
    assert touched(one) == (4 * TABLES, 4 * TABLES, INSERTS)


def test_partitioned_tables_that_grow(
    at: list[str], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--version", FAST, "--tables", "20 40", "--layout", "partitioned"]
    runs = measured(tmp_path, "scale", *options, *at[2:])
    assert [one["tables_found"] for one in runs.values()] == [20, 40]
    assert [one["tablespaces_opened"] for one in runs.values()] == [80, 160]
    assert "growing from 20 to 40 tables" in capsys.readouterr().err
    (left,) = (one for one in data.glob(f"{FAST}-discovery-*-partitioned-*") if one.is_dir())
    assert left.name.startswith(f"{FAST}-discovery-40-")


def test_a_server_without_the_plugin_is_refused_before_anything_is_built(
    at: list[str], data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for version, plugin in (("5.7.22", "keyring_file.so"), (FAST, "file_key_management.so")):
        before = DataDirs(data).list()
        variants = ["--variant", "files:", "--variant", "secret:layout=encrypted"]
        assert run(["cold-recovery", "--version", version, "--tables", "30", *at[2:], *variants]) == 3
        printed = capsys.readouterr().err
        assert f"error: this build of {version} has no " in printed
        assert f"{plugin}, which encrypted tables take their keys from" in printed
        assert "--set plugin_dir=FOLDER" in printed
        assert DataDirs(data).list() == before, "not even the plain tables"


def test_encrypted_tables_and_many_schemas(at: list[str], data: Path, tmp_path: Path) -> None:
    plugin = fetch_package_file("mariadb-server", "file_key_management.so")
    if plugin is None:
        left_out("this host's packages hold no file_key_management.so")
    encrypted = f"secret:layout=encrypted,plugin_dir={plugin.parent}"
    variants = ["--variant", encrypted, "--variant", "many:schemas=4"]
    runs = measured(tmp_path, "cold-recovery", "--version", FAST, *variants, *at)
    assert set(runs) == {"cold-secret", "cold-many"}
    for one in runs.values():
        assert one["tables_found"] == TABLES
        assert (one["tablespaces_opened"], one["tablespaces_modified"]) == (TABLES, INSERTS)
    assert described(tmp_path, f"{FAST} secret") == (str(TABLES), "1", "encrypted", str(TABLES))
    assert described(tmp_path, f"{FAST} many") == (str(TABLES), "4", "files", str(TABLES))
    assert "data directories alternate" in (tmp_path / "results" / "latest" / "report.txt").read_text()
    (built,) = (one for one in data.glob(f"{FAST}-discovery-{TABLES}-encrypted-*") if one.is_dir())
    page = (built / "mysql" / "discovery" / "table_1.ibd").read_bytes()
    assert b"infimum" not in page, "the records of every index page begin with this word, in clear"
    assert (built / "keys").stat().st_mode & 0o777 == 0o700
