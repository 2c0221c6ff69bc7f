"""Templates and query files of somebody else write to no file outside of the test's schemas, on real servers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pymysql
import pytest
from datadirs import built_datadir, running, shared_empty_datadir
from sessions import stored
from waiting import BUILDING_S, until

from recovery.builds.resolve import Sources, resolve_server
from recovery.cli.main import run
from recovery.errors import UsageError
from recovery.linux.cleanup import servers_in
from recovery.model import Schema
from recovery.mysqld.client import run_to_last_row, scalar
from recovery.workload.foreign_sql import check_access

pytestmark = pytest.mark.real
TABLES = 3
LARGE = pytest.mark.on_demand("large")
VERSIONS = ["5.6.24", "8.0.31", "mariadb-10.11.5"]
ALL_VERSIONS = [*VERSIONS, *(pytest.param(one, marks=LARGE) for one in ("5.7.22", "8.0.15", "mariadb-10.2.11"))]
CREATE = """
{%- for database in databases %}
create schema {{ database }};
{% for number in range(1, tables + 1) %}
create table {{ database }}.table_{{ number }} (id int primary key auto_increment);
{% endfor %}
{% endfor %}
"""

ATTACKS = """
set global general_log_file = 'OUT/general.log'; set global general_log = 1
set @@global.slow_query_log_file = 'OUT/slow.log'; set global slow_query_log = 1
/*!50000 set global general_log_file = 'OUT/comment.log' */
set persist general_log_file = 'OUT/persisted.log'
set @text = 'set global general_log_file = ''OUT/prepared.log'''; prepare x from @text; execute x
create procedure discovery.p() set global general_log_file = 'OUT/procedure.log'; call discovery.p()
create definer = root@localhost procedure discovery.q() set global general_log = 1
create definer = root@localhost trigger discovery.t before insert on discovery.table_1 for each row set @a = 1
create definer = root@localhost event discovery.e on schedule every 1 second do set global general_log = 1
create table discovery.a1 (a int) engine=innodb data directory = 'OUT'
create table discovery.a2 (a int) engine=myisam data directory = 'OUT' index directory = 'OUT'
create table discovery.a3 (a int) partition by hash (a) (partition p0 data directory = 'OUT')
alter table discovery.table_2 partition by hash (id) (partition p0 data directory = 'OUT')
/*!50000 create table discovery.a4 (a int) data/**/directory = 'OUT' */
/*M! create table discovery.a5 (a int) data directory = 'OUT' */
set @text = concat('create table discovery.a6 (a int) data dir', 'ectory = ''OUT'''); prepare x from @text; execute x
execute immediate concat('create table discovery.a7 (a int) data dir', 'ectory = ''OUT''')
create tablespace outside add datafile 'OUT/outside.ibd' engine=innodb
create undo tablespace outside add datafile 'OUT/outside.ibu'
select 1 into outfile 'OUT/outfile'
select 1 into dumpfile 'OUT/dumpfile'
load data infile '/etc/passwd' into table discovery.table_1
load data local infile '/etc/passwd' into table discovery.table_1
install plugin outside soname 'outside.so'
create function outside returns string soname 'outside.so'
insert into mysql.func values ('outside', 0, 'outside.so', 'function')
create server outside foreign data wrapper mysql options (host '127.0.0.1', user 'u', database 'd')
create table discovery.f (a int) engine=federated connection = 'mysql://u@127.0.0.1:1/d/t'
set session innodb_tmpdir = 'OUT'
set session sql_log_bin = 0
clone local data directory = 'OUT/clone'
drop database mysql
create database outside
create user outside@localhost
grant file on *.* to recovery_tester@localhost
set password for root@localhost = 'x'
shutdown
"""
"""One attack a line, whose statements run over one connection."""
SESSION_ONLY = {"set @text", "prepare x", "/*M! create", "create procedure discovery.p", "set session sql_log_bin"}
"""Beginnings of statements that may succeed: they do nothing outside, or are a comment to this server."""


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_the_limited_user_reads_everything_and_writes_to_the_test(version: str, tmp_path: Path, outside: Path) -> None:
    build = resolve_server(version, Sources(), lambda _: None)
    with (
        built_datadir(build, Schema(TABLES), tmp_path / "data") as datadir,
        running(build, datadir.mysql, tmp_path / "logs") as server,
    ):
        assert datadir.state.limited_user
        for line in ATTACKS.strip().replace("OUT", str(outside)).splitlines():
            with server.session(limited=True) as connection:
                for statement in line.split("; "):
                    try:
                        check_access(statement, build.version)
                        connection.query(statement)
                    except (UsageError, pymysql.MySQLError):
                        break
                else:
                    assert any(map(statement.startswith, SESSION_ONLY)), line
            assert list(outside.iterdir()) == [], line
        with server.session(limited=True) as limited, server.session() as admin:
            limited.query("insert into discovery.table_1 values (null)")
            limited.query("create table discovery.more (id int)")
            limited.query("drop table discovery.more")
            count = "select count(*) from information_schema.tables"
            found = []
            for connection in (limited, admin):
                with connection.cursor() as cursor:
                    cursor.execute(count)
                    found.append(cursor.fetchall())
            assert found[0] == found[1]
        server.stop()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_template_cannot_have_the_server_write_elsewhere(
    version: str, at: list[str], tmp_path: Path, outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = tmp_path / "schema.sql.j2"
    for attack in (f"set global general_log_file = '{outside}/log'; set global general_log = 1;",
                   f"create table discovery.table_3 (id int primary key) data directory = '{outside}';"):  # fmt: skip
        template.write_text(CREATE.replace("tables + 1", f"tables + {1 - attack.count('table_3')}") + attack)
        assert run(["cold-recovery", "--version", version, "--template", str(template), *at]) == 2
        assert "denied" in (printed := capsys.readouterr().err) or "has no right that prevents it" in printed
        assert list(outside.iterdir()) == []


def test_an_insert_template_cannot_write_to_system_tables(
    at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server would load a library that mysql.func names at its next start."""
    inserts = tmp_path / "insert.sql.j2"
    inserts.write_text("insert into mysql.func values ('outside', 0, 'outside.so', 'function');")
    assert run(["cold-recovery", "--version", "5.7.22", "--insert-template", str(inserts), *at]) == 1
    assert "denied" in capsys.readouterr().err


def test_a_view_of_a_template_runs_no_function_as_root(at: list[str], tmp_path: Path, outside: Path) -> None:
    """The tool counts the rows of each table that the insert script names, and this one is a view. It takes the place
    of a table, and a partition that of its file."""
    template, inserts = tmp_path / "schema.sql.j2", tmp_path / "insert.sql.j2"
    template.write_text(
        f"{CREATE}create function discovery.f() returns int sql security invoker /*! begin "
        f"set global general_log_file = '{outside}/log', global general_log = 1; return 1; end */;\n"
        "create sql security invoker view discovery.v as select id from discovery.table_1 where discovery.f() > 0;\n"
        "drop table discovery.table_3; alter table discovery.table_2 partition by hash (id) partitions 2;"
    )
    inserts.write_text("insert into discovery.v values (null);")
    words = ["--template", str(template), "--insert-template", str(inserts)]
    assert run(["cold-recovery", "--version", "5.7.22", *words, *at]) != 0
    assert list(outside.iterdir()) == []


def test_first_queries_cannot_have_the_server_write_elsewhere(at: list[str], tmp_path: Path, outside: Path) -> None:
    queries = tmp_path / "queries.sql"
    for attack in (f"select 1 into outfile '{outside}/out'", f"set global general_log_file = '{outside}/log'"):
        queries.write_text(f"{attack};")
        words = ["--version", "5.6.24", "--runs", "1", f"--first-queries={queries}"]
        assert run(["cold-recovery", *words, *at]) == 1
        assert "denied" in stored(tmp_path)["runs"][0]["reason"]
        assert list(outside.iterdir()) == []


def test_queries_cannot_have_the_server_write_elsewhere(at: list[str], tmp_path: Path, outside: Path) -> None:
    queries = tmp_path / "queries.sql"
    queries.write_text(
        f"-- attack\nset global slow_query_log_file = '{outside}/log';\n-- size\nselect count(*) from s.table_1;"
    )
    words = ["--version", "8.0.31", "--runs", "1", "--question", "attack size", f"--queries={queries}"]
    assert run(["metadata", *words, "--schemas", "1", *at]) == 1
    verdicts = {one["variant"]: one["verdict"] for one in stored(tmp_path)["runs"]}
    assert verdicts == {"attack": "failed", "size": "measured"}
    assert list(outside.iterdir()) == []


@pytest.mark.skipif(shutil.which("sysbench") is None, reason="sysbench is not installed")
def test_polled_queries_run_without_rights(at: list[str], tmp_path: Path) -> None:
    queries = tmp_path / "queries.sql"
    queries.write_text("-- attack\nset global innodb_io_capacity = 123;")
    words = ["--version", "5.7.22", "--runs", "1", "--seconds", "2", "--warmup", "0", "--rows", "10", "--threads", "1"]
    words += ["--poll-query", "attack", f"--queries={queries}", "--option", "table_open_cache=400"]
    at[at.index("--tables") + 1] = "40"
    assert run(["interference", *words, *at]) == 1
    assert any("denied" in (one["reason"] or "") for one in stored(tmp_path)["runs"])
    queries.write_text("load data local infile '/etc/passwd' into table sbtest.sbtest1;")
    assert run(["interference", *words[:10], f"--queries={queries}", *at]) == 2


def test_a_data_directory_of_an_earlier_version_gets_the_user(at: list[str], data: Path, tmp_path: Path) -> None:
    words = ["cold-recovery", "--version", "5.6.24", "--runs", "1", *at]
    assert run(words) == 0
    (kept,) = data.glob("5.6.24-discovery-3-*/state.json")
    build = resolve_server("5.6.24", Sources(), lambda _: None)
    with running(build, kept.parent / "mysql", tmp_path / "logs") as server:
        with server.session() as connection:
            connection.query("drop user recovery_tester@localhost")
        server.stop()
    state = json.loads(kept.read_text())
    del state["limited_user"]
    kept.write_text(json.dumps(state))
    inserts = tmp_path / "insert.sql.j2"
    inserts.write_text("insert into discovery.table_2 values (null);")
    assert run([*words, "--insert-template", str(inserts)]) == 0
    (one,) = stored(tmp_path)["runs"]
    assert one["verdict"] == "measured"
    assert json.loads(kept.read_text())["limited_user"]
    assert run([*words, "--insert-template", str(inserts)]) == 0, "the user is there now"


def test_a_signal_ends_a_build_in_a_statement_that_takes_long(at: list[str], data: Path, tmp_path: Path) -> None:
    template = tmp_path / "schema.sql.j2"
    template.write_text(f"{CREATE}create table discovery.begun (id int); do sleep(3600); drop table discovery.begun;")
    at[at.index("--tables") + 1] = "4"
    template.write_text(template.read_text().replace("tables + 1", "tables"))
    words = [sys.executable, "-m", "recovery", "cold-recovery", "--version", "5.7.22", "--template", str(template), *at]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as tool:
        until(
            lambda: list(data.glob("5.7.22-discovery-4-*/mysql/discovery/begun.ibd")),
            "the last statement",
            within_s=BUILDING_S,
        )
        (folder,) = data.glob("5.7.22-discovery-4-*/mysql")
        tool.send_signal(signal.SIGTERM)
        assert tool.stderr is not None
        printed = tool.stderr.read()
        assert tool.wait() == 130
    assert "a statement did not end within" in printed
    assert not folder.exists()
    assert list(servers_in(folder, "mysqld")) == []


def test_a_signal_ends_a_query_whose_rows_take_long(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Its first row, too large to be held back, arrives at once, and the last after hours."""
    query = "select repeat('x', 1000000), sleep(seconds) from (select 0 as seconds union all select 3600) as two"
    asked = "select id from information_schema.processlist where info like 'select repeat%%' and state = 'User sleep'"
    with (
        running(*shared_empty_datadir("5.7.22", tmp_path_factory), tmp_path / "logs") as server,
        closing(server.connect()) as admin,
        closing(server.connect()) as connection,
    ):

        def interrupt() -> None:
            until(lambda: scalar(admin, asked), "the query")
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            run_to_last_row(connection, query)
        thread.join()
        assert scalar(admin, asked) is not None, "it still runs, and nobody waits for it"
