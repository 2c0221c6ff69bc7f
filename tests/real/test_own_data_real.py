"""A user's own data directory, filled by a real server with a root password, and measured over a copy."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest
from archives import members
from datadirs import made_by, running, server_on
from failing import small_disk
from pymysql.cursors import Cursor
from sessions import left_out, need_disks, stored
from waiting import until

from recovery.builds.resolve import Sources, resolve_server
from recovery.cli.main import run
from recovery.errors import UsageError
from recovery.linux.loop_device import private_mount_namespace
from recovery.linux.storage import free_space, shares_blocks
from recovery.mysqld.own_data import copy_own_data, examine
from recovery.mysqld.server import Server
from recovery.mysqld.tablespace_names import tablespace_names

pytestmark = pytest.mark.real
TABLES = 8
SCHEMAS = ("shop-eu", "crm")


def fill(server: Server) -> None:
    """Makes 16 tables with a row each; then no new connection is possible without the password."""
    with server.session() as connection, connection.cursor() as cursor:
        for schema in SCHEMAS:
            cursor.execute(f"CREATE DATABASE `{schema}`")
            for number in range(TABLES):
                cursor.execute(f"CREATE TABLE `{schema}`.customers_{number} (id INT PRIMARY KEY) ENGINE=InnoDB")
                cursor.execute(f"INSERT INTO `{schema}`.customers_{number} VALUES (1)")
        connection.commit()
        cursor.execute("SET PASSWORD FOR 'root'@'localhost' = PASSWORD('secret')")


def users_datadir(version: str, folder: Path, **settings: str) -> Path:
    """A data directory of a server that was killed."""
    build = resolve_server(version, Sources(), lambda _: None)
    folder.mkdir()
    data = made_by(build, folder, **settings)
    with server_on(build, data, folder / "logs", **settings) as server:
        server.start()
        fill(server)
        server.kill()
    return data


def contents(data: Path) -> dict[str, str]:
    return {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(data.rglob("*"))
        if path.is_file()
    }


def names_in(folder: Path) -> list[Path]:
    """The files that have a name of a schema or a table of the user's."""
    texts = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".gz")
    return [path for path in texts if any(name in path.read_bytes() for name in (b"customers_", b"shop-eu", b"crm"))]


def test_a_crash_of_the_tools_own_over_a_copy(tmp_path: Path) -> None:
    """With a my.cnf that places the redo log elsewhere, and files of other sizes than the defaults."""
    log = tmp_path / "redo"
    log.mkdir()
    shape = {"innodb_log_file_size": "8388608", "innodb_log_files_in_group": "3", "innodb_page_size": "8192"}
    data = users_datadir("5.7.22", tmp_path / "user", **shape)
    for file in data.glob("ib_logfile*"):
        file.rename(log / file.name)
    my_cnf = tmp_path / "my.cnf"
    my_cnf.write_text(f"[mysqld]\ninnodb_log_group_home_dir={log}\nplugin-load-add=auth_socket.so\n")
    before = contents(data) | contents(log)
    at = ["--data", str(tmp_path / "data"), "--no-probe", "--results", str(tmp_path / "results")]
    words = ["--datadir", str(data), "--defaults-file", str(my_cnf), "--runs", "1", "--trace", *at]
    assert run(["crash-recovery", *words]) == 0
    report = stored(tmp_path)
    assert report["settings"]["tables"] == 2 * TABLES + 100
    # Where other tests take the memory, a warm start is called what it was.
    planned = [(one["variant"].replace("second start", "warm"), one["extra"]) for one in report["runs"]]
    assert planned[:3] == [("cold", "first read"), ("cold", None), ("warm", None)]
    assert set(planned[3:]) == {("cold", "trace"), ("warm", "trace")}
    assert [one["verdict"] for one in report["runs"]] == ["sampled", "measured", "measured", "sampled", "sampled"]
    kills = accumulate(1 + (one["warmups"] or 0) for one in report["runs"])  # each after 100 rows
    assert [one["rows_expected"] for one in report["runs"]] == [100 * count for count in kills]
    assert {one["tablespaces_modified"] for one in report["runs"][3:]} == {100}
    assert contents(data) | contents(log) == before
    assert names_in(tmp_path / "results") == []
    options = next(iter(report["servers"].values()))["options"]
    assert {"innodb_page_size=8192", "innodb_log_file_size=8388608", "innodb_log_files_in_group=3"} <= set(
        options.split()
    )
    assert run(["clean-start", *words]) == 0
    assert [one["verdict"] for one in stored(tmp_path)["runs"]] == [
        "sampled", "measured", "measured", "sampled", "sampled",
    ]  # fmt: skip


def test_a_load_until_the_kill_leaves_more_redo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("recovery.experiments.before_kill.LOAD_S", 1.0)
    monkeypatch.setattr("recovery.experiments.before_kill._MAX_BYTES", 4 << 20)
    data = users_datadir("mariadb-10.2.11", tmp_path / "user")
    at = ["--data", str(tmp_path / "data"), "--no-probe", "--results", str(tmp_path / "results")]
    redo = []
    for given in ([], ["--before-kill", "load"]):
        assert run(["cold-recovery", "--datadir", str(data), "--runs", "1", *given, *at]) == 0
        (one,) = (one for one in stored(tmp_path)["runs"] if one["extra"] is None)
        assert (one["verdict"], one["tables_found"]) == ("measured", 2 * TABLES + 100)
        redo.append(one["redo_bytes"])
    assert redo[1] > 10 * redo[0]
    assert "after BEFORE_KILL." in capsys.readouterr().out


def test_the_recovery_that_is_ahead_is_timed_again_and_again(tmp_path: Path) -> None:
    data = users_datadir("mariadb-10.2.11", tmp_path / "user")
    before = contents(data)
    at = ["--data", str(tmp_path / "data"), "--no-probe", "--results", str(tmp_path / "results")]
    assert run(["crash-recovery", "--datadir", str(data), "--as-is", "--runs", "2", "--trace", *at]) == 0
    report = stored(tmp_path)
    assert report["title"] == "Recovery of a data directory as it is"
    assert [one["verdict"] for one in report["runs"]] == ["sampled", *["measured"] * 4, "sampled", "sampled"]
    assert {one["tablespaces_modified"] for one in report["runs"] if one["extra"] == "trace"} == {2 * TABLES}
    assert {one["tables_found"] for one in report["runs"]} == {2 * TABLES}
    assert contents(data) == before
    assert names_in(tmp_path / "results") == []
    assert not list((tmp_path / "data").glob("*/mysql")), "only the copy that is never started is kept"


IN_NAMES = "zebra"
"""A part of the names of all schemas and tables."""


def secret_datadir(version: str, folder: Path) -> Path:
    """A killed server's data directory: names with blanks and quotes, partitions, and files that are missing."""
    build = resolve_server(version, Sources(), lambda _: None)
    folder.mkdir()
    data = made_by(build, folder)
    with server_on(build, data, folder / "logs") as server:
        server.start()
        with server.session() as connection, connection.cursor() as cursor:
            for schema in ("zebra plan", "Zebra-Bank"):
                cursor.execute(f"CREATE DATABASE `{schema}`")
                for table in ("zebra salary", "zebra's", 'zebra"', "zebra.x", "zebra\nline", "zebra"):
                    cursor.execute(f"CREATE TABLE `{schema}`.`{table}` (id INT PRIMARY KEY) ENGINE=InnoDB")
                cursor.execute(
                    f"CREATE TABLE `{schema}`.`zebra part` (id INT PRIMARY KEY) ENGINE=InnoDB "
                    "PARTITION BY HASH (id) PARTITIONS 2"
                )
        server.stop()
        server.start()
        with server.session() as connection, connection.cursor() as cursor:
            for number in range(50):
                cursor.execute(f"INSERT INTO `zebra plan`.`zebra salary` VALUES ({number})")
                cursor.execute(f"INSERT INTO `zebra plan`.`zebra part` VALUES ({number})")
        server.kill()
    missing = [*data.glob("Zebra*/zebra@0027s.ibd"), *data.glob("Zebra*/zebra@0020part#?#p0.ibd")]
    assert len(missing) == 2
    for file in missing:
        file.unlink()
    return data


@pytest.mark.parametrize("version", ["5.7.22", "8.0.31", "mariadb-10.11.5"])
def test_no_name_is_in_a_bundle(version: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The logs and the messages name tables, on the user's own disk."""
    data, results = secret_datadir(version, tmp_path / "user"), tmp_path / "results"
    queries = tmp_path / "queries.sql"
    # Its error quotes the name of a table.
    name = "SELECT MIN(table_name) FROM information_schema.tables WHERE table_schema LIKE 'Ze%'"
    queries.write_text(f"SELECT EXTRACTVALUE(1, CONCAT(0x3a, ({name})));\n")
    at = ["--data", str(tmp_path / "data"), "--no-probe", "--results", str(results), "--runs", "1", "-v"]
    codes = []
    for more in (["--as-is"], [], ["--first-queries", str(queries)], ["--as-is"]):
        codes.append(run(["crash-recovery", "--datadir", str(data), *more, *at]))
        assert run(["bundle", "--results", str(results), "--output", str(tmp_path / f"bundle{len(codes)}")]) == 0
        if len(codes) == 3:  # without a file that the log names, no server starts
            (data / "zebra@0020plan/zebra@0020salary.ibd").unlink()
    assert codes == [0, 0, 1, 1]
    shown = "".join(capfd.readouterr()).replace(str(data), "").replace(str(queries), "")
    stored = b"".join(path.read_bytes().lower() for path in results.rglob("*") if path.is_file())
    assert IN_NAMES.encode() in stored
    bundles = sorted(tmp_path.glob("bundle*/*.tar.gz"))
    assert len(bundles) == 4
    for bundle in bundles:
        files = members(bundle.read_bytes())
        assert {"report.json", "report.html", "bug.txt"} <= set(files)
        assert not [name for name in files if name.startswith("logs/")]
        assert [name for name, content in files.items() if IN_NAMES.encode() in content.lower()] == []
        assert IN_NAMES.encode() not in bundle.with_name("bug.txt").read_bytes().lower()
    assert "failed: " in shown
    assert IN_NAMES in shown.lower(), "the message of the server, whole"
    assert "Redo to read: " in shown
    assert ", the least: a crash under load leaves more (BEFORE_KILL=load, AS_IS=1)." in " ".join(shown.split())


def test_a_directory_that_was_shut_down_cleanly_has_no_recovery_ahead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = resolve_server("mariadb-10.11.5", Sources(), lambda _: None)
    (tmp_path / "user").mkdir()
    data = made_by(build, tmp_path / "user")
    at = ["--data", str(tmp_path / "data"), "--no-probe", "--results", str(tmp_path / "results")]
    assert run(["cold-recovery", "--datadir", str(data), "--as-is", "--runs", "1", *at]) == 1
    assert "the log does not show a crash recovery" in capsys.readouterr().err


def has_written_all(cursor: Cursor) -> bool:
    """Whether the last checkpoint is at the end of the log."""
    cursor.execute("SHOW ENGINE INNODB STATUS")
    lines = cursor.fetchall()[0][2].splitlines()
    ends = [line.split()[-1] for line in lines if line.startswith(("Log sequence number", "Last checkpoint at"))]
    return len(ends) == 2 and ends[0] == ends[1]


def test_a_server_that_was_killed_when_idle_has_a_recovery_ahead(tmp_path: Path) -> None:
    """Its log ends at its last checkpoint, as after a clean shutdown."""
    build = resolve_server("8.0.31", Sources(), lambda _: None)
    data = made_by(build, tmp_path)
    with running(build, data, tmp_path / "logs") as server, server.session() as connection:
        with connection.cursor() as cursor:
            cursor.execute("SET GLOBAL innodb_max_dirty_pages_pct = 0")
            cursor.execute("SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0")
            until(lambda: has_written_all(cursor), "a checkpoint at the end of the log")
        server.kill()
    assert examine(data, {}, as_is=True).was_shut_down is False


def test_the_directory_of_a_running_server_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build = resolve_server("5.7.22", Sources(), lambda _: None)
    data = made_by(build, tmp_path)
    with running(build, data, tmp_path / "logs"):
        assert run(["cold-recovery", "--datadir", str(data), "--data", str(tmp_path / "copy")]) == 2
    assert "a server is running over" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()


@pytest.fixture
def xfs(tmp_path: Path) -> Iterator[Path]:
    """A filesystem on which files can share blocks."""
    need_disks()
    program = shutil.which("mkfs.xfs", path="/usr/sbin:/sbin")
    if program is None:
        left_out("mkfs.xfs is missing (xfsprogs)")
    image, place = tmp_path / "image", tmp_path / "disk"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(512 << 20)
    subprocess.run((program, "-q", str(image)), check=True)
    with private_mount_namespace():
        subprocess.run(("mount", "-o", "loop", str(image), str(place)), check=True)
        yield place
        subprocess.run(("umount", str(place)), check=True)


def test_copies_share_their_blocks_where_the_filesystem_can(xfs: Path) -> None:
    data = users_datadir("5.7.22", xfs / "user")
    own = examine(data, {}, as_is=True)
    assert shares_blocks(own.path, xfs)
    free = free_space(xfs)
    copy_own_data(own, xfs / "copy", on_progress=lambda *_: None)
    assert (free - free_space(xfs)).bytes < own.bytes / 10
    assert (xfs / "copy/ibdata1").read_bytes() == (data / "ibdata1").read_bytes()


def test_a_copy_that_does_not_fit_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_disks()
    build = resolve_server("5.7.22", Sources(), lambda _: None)
    data = made_by(build, tmp_path)
    with small_disk(tmp_path / "disk", 64 << 20) as disk:
        at = ["--data", str(disk.place / "data"), "--results", str(tmp_path / "results"), "--no-probe"]
        assert run(["cold-recovery", "--datadir", str(data), *at]) == 3
        assert not list(disk.place.glob("data/*/mysql"))
    assert "does not fit" in capsys.readouterr().err


def test_a_dictionary_is_read_record_by_record(tmp_path: Path) -> None:
    """File names of each length from 9 to 150, several of each beside each other, and then one table outside."""
    build = resolve_server("8.0.31", Sources(), lambda _: None)
    folder, outside = tmp_path / "user", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    data = made_by(build, folder)
    settings = {"innodb_directories": str(outside), "innodb_flush_log_at_trx_commit": "0"}
    with server_on(build, data, folder / "logs", **settings) as server:
        server.start()
        with server.session() as connection, connection.cursor() as cursor:
            for length in range(9, 151):
                letters = length - len("./") - len("/") - len(".ibd")
                schema = "s" * min(60, letters // 2)
                # A hyphen is five letters in the name of a file.
                hyphens = -(-max(0, letters - 120) // 4)
                table = "-" * hyphens + "t" * (letters - len(schema) - 5 * hyphens)
                cursor.execute(f"CREATE DATABASE IF NOT EXISTS `{schema}`")
                for last in "tabc" if len(table) > 1 else "t":
                    cursor.execute(f"CREATE TABLE `{schema}`.`{table[:-1]}{last}` (id INT PRIMARY KEY)")
        server.stop()
        named = {one.name for one in tablespace_names(data / "mysql.ibd") if one.is_current}
        files = {f"./{path.relative_to(data)}" for path in data.glob("*/*.ibd")}
        assert files <= named
        assert {len(name) for name in files} >= set(range(9, 151))
        examine(data, {}, as_is=False)
        server.start()
        with server.session() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE s.outside (id INT PRIMARY KEY) DATA DIRECTORY='{outside}'")
        server.stop()
        with pytest.raises(UsageError, match=rf"names {outside}/s/outside\.ibd, a tablespace outside"):
            examine(data, {}, as_is=False)
        server.start()
        with server.session() as connection, connection.cursor() as cursor:
            cursor.execute("DROP TABLE s.outside")
        server.stop()
    examine(data, {}, as_is=False)


@pytest.mark.parametrize("version", ["5.7.22", "8.0.15", "8.0.31"])
def test_tables_in_general_and_in_the_system_tablespace_are_counted(version: str, tmp_path: Path) -> None:
    build = resolve_server(version, Sources(), lambda _: None)
    pages = "8k" if version == "8.0.31" else "16k"
    data = made_by(build, tmp_path, innodb_page_size=pages)
    columns = ", ".join(
        f"c{number} INT COMMENT '{number * 7919 % 9973} {'x' * (number % 40)}'" for number in range(900)
    )
    with server_on(build, data, tmp_path / "logs", innodb_page_size=pages) as server:
        server.start()
        with server.session() as connection, connection.cursor() as cursor:
            for schema in ("shop-eu", "mixed", "in_the_system"):
                cursor.execute(f"CREATE DATABASE `{schema}`")
            for space in ("many", "wide"):
                cursor.execute(f"CREATE TABLESPACE {space} ADD DATAFILE '{space}.ibd'")
            for number in range(60):
                cursor.execute(f"CREATE TABLE `shop-eu`.t{number} (id INT, t TEXT, FULLTEXT (t)) TABLESPACE many")
            cursor.execute("DROP TABLE `shop-eu`.t7")
            cursor.execute("RENAME TABLE `shop-eu`.t8 TO mixed.moved")
            if version != "5.7.22":
                cursor.execute(f"CREATE TABLE mixed.wide ({columns}) TABLESPACE wide")
            cursor.execute("CREATE TABLE mixed.own_file (id INT)")
            cursor.execute("CREATE TABLE in_the_system.t (id INT) TABLESPACE innodb_system")
            cursor.execute(
                "SELECT COUNT(*), COUNT(DISTINCT table_schema) FROM information_schema.tables "
                "WHERE table_type = 'BASE TABLE' AND table_schema IN ('shop-eu', 'mixed', 'in_the_system')"
            )
            known = cursor.fetchone()
        server.stop()
    own = examine(data, {}, as_is=False)
    assert (own.tables, own.schemas) == known
    assert (own.general_tablespaces, own.not_counted) == (2, 0)
