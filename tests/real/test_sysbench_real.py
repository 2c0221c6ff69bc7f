"""Do sysbench and the poller put real servers to work, over tables that are sysbench's own in all but the making?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor
from waiting import DEADLINE_S, until

from recovery.builds.packages import DUMP, SYSBENCH, Tool, provide_tool
from recovery.builds.resolve import Sources, resolve_server
from recovery.errors import RecoveryError
from recovery.linux.files import template_dir
from recovery.linux.storage import device_of
from recovery.model import Build, Load, Poll, Schema, can
from recovery.mysqld.client import scalar
from recovery.mysqld.datadir import DataDirs
from recovery.mysqld.local import LocalLauncher
from recovery.mysqld.options import experiment_settings
from recovery.mysqld.server import Server
from recovery.workload.build import DatadirBuilder, prepare_datadir
from recovery.workload.poller import (
    FOREIGN_KEY_QUERY,
    kill_running_queries,
    parse_counter_reports,
    parse_polls,
    poller_command,
    write_statements,
)
from recovery.workload.sysbench import WORKLOADS, Client, Report, parse_report, prepared_statements, sysbench_command

pytestmark = pytest.mark.real
VERSIONS = ("5.7.22", "8.0.31")
TABLES, ROWS = 40, 1200
LOAD = Load("oltp_read_write", threads=2, tables=4, rows=ROWS, seconds=1, warmup_s=0)


@pytest.fixture(scope="module")
def tool() -> Tool:
    return provide_tool(SYSBENCH, offline=True, say=lambda _: None)


@dataclass(frozen=True)
class Stage:
    build: Build
    mysql: Path
    folder: Path


@pytest.fixture(scope="module", params=VERSIONS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Of sysbench's tables, of which the last four hold two references."""
    folder = tmp_path_factory.mktemp("sysbench")
    template = folder / "own.sql.j2"
    template.write_text("{% set foreign_keys = 2 %}" + (template_dir() / "sysbench.sql.j2").read_text())
    build = resolve_server(request.param, Sources(), lambda _: None)
    schema = Schema(TABLES, rows=ROWS, database="sbtest", template=template)
    directories = DataDirs(folder / "data")
    target = directories.acquire(directories.key_for(build, schema, template_text="", options={}))
    try:
        prepare_datadir(
            DatadirBuilder(build, schema, target, LocalLauncher(), lambda _: None), progress=lambda *_: None
        )
        yield Stage(build, target.mysql, folder)
    finally:
        target.release()


@pytest.fixture
def server(stage: Stage, tmp_path: Path) -> Iterator[Server]:
    with Server(
        LocalLauncher(),
        stage.build,
        stage.mysql,
        device=device_of(stage.folder),
        logdir=tmp_path / "logs",
        settings=experiment_settings(stage.build.version),
    ) as server:
        server.start()
        yield server


def asked(server: Server, statement: str) -> object:
    with closing(server.connect()) as connection:
        return scalar(connection, statement)


def status(server: Server, name: str) -> int:
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("show global status like %s", (name,))
        return int((cursor.fetchone() or ("", "0"))[1])


def asked_for_longer(connection: Connection[Cursor], seconds: int) -> int:
    """How many statements have taken longer than so many seconds."""
    with connection.cursor() as cursor:
        cursor.execute("show processlist")
        return sum(row[4] == "Query" and row[5] > seconds for row in cursor.fetchall())


def report_of(load: Load, server: Server, tool: Tool) -> Report:
    called = sysbench_command(load, program=tool.path, socket=server.socket, database="sbtest")
    with Client("sysbench", called) as client:
        return parse_report(client.wait(DEADLINE_S).text)


def test_the_tables_are_as_sysbench_makes_them_and_are_dumped(server: Server, tool: Tool) -> None:
    asked(server, "create schema made character set latin1")
    made = [tool.path, "oltp_read_write", "--mysql-user=root", f"--mysql-socket={server.socket}", "--mysql-db=made"]
    with Client("sysbench", [*map(str, made), "--table-size=20", "prepare"]) as client:
        client.wait(DEADLINE_S)
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        definitions = []
        for database in ("made", "sbtest"):
            cursor.execute(f"show create table {database}.sbtest1")
            ((_, definition),) = cursor.fetchall()
            definitions.append(re.sub(r" AUTO_INCREMENT=\d+", "", definition))
            group = "[0-9]{11}"
            cursor.execute(
                f"select count(*) from {database}.sbtest1 where not (c regexp '^{group}(-{group}){{9}}$' "
                f"and pad regexp '^{group}(-{group}){{4}}$')"
            )
            assert cursor.fetchall() == ((0,),)
        assert definitions[0] == definitions[1]
        assert definitions[1].endswith("CHARSET=latin1"), "in every version"
        cursor.execute("select count(*), min(id), max(id), min(k) > 0, max(k) from sbtest.sbtest1")
        ((rows, first, last, positive, largest),) = cursor.fetchall()
        assert (rows, first, last, positive) == (ROWS, 1, ROWS, 1)
        assert ROWS / 2 < largest <= ROWS
        cursor.execute("select count(distinct c), count(distinct k) from sbtest.sbtest1")
        ((texts, keys),) = cursor.fetchall()
        assert texts == ROWS
        assert ROWS / 2 < keys < ROWS, "about 63 % of all, where each is drawn by chance"
        cursor.execute(f"check table sbtest.sbtest1, sbtest.sbtest{TABLES}")
        assert {row[3] for row in cursor.fetchall()} == {"OK"}
        cursor.execute(
            "select table_name, referenced_table_name from information_schema.referential_constraints "
            "where constraint_schema = 'sbtest' order by table_name"
        )
        references = cursor.fetchall()
        cursor.execute("drop schema made")
    assert references == (("sbtest38", "sbtest37"), ("sbtest40", "sbtest39"))

    dump = provide_tool(DUMP, offline=True, say=lambda _: None)
    called = [str(dump.path), "--user=root", f"--socket={server.socket}", "--no-data", "--skip-lock-tables", "sbtest"]
    with Client(dump.name, called, only_count=True) as client:
        assert client.wait(DEADLINE_S).written_bytes > 500 * TABLES
    with (
        pytest.raises(RecoveryError, match=r"error: 1049: .*none"),
        Client(dump.name, [*called[:-1], "none"]) as client,
    ):
        client.wait(DEADLINE_S)


def test_all_scripts_at_once(server: Server, tool: Tool) -> None:
    """They go over the same rows, and over those that refer to others."""
    with ExitStack() as stack:
        clients = []
        for script in WORKLOADS.values():
            load = replace(LOAD, script=script, tables=TABLES, seconds=2)
            called = sysbench_command(load, program=tool.path, socket=server.socket, database="sbtest")
            clients.append(stack.enter_context(Client(script, called)))
        reports = [parse_report(client.wait(DEADLINE_S).text) for client in clients]
    for report in reports:
        assert report.transactions > 0
        assert report.reconnects == 0
        assert report.seconds >= 2
        assert len(report.intervals) >= 1
        assert sum(look.qps for look in report.intervals) > 0
        assert report.latency_p50_ms is not None
        assert report.latency_p999_ms is not None
        assert report.latency_max_ms is not None
        assert report.latency_p50_ms <= report.latency_p999_ms <= report.latency_max_ms * 1.01
    assert asked(server, "select count(*) from sbtest.sbtest1") == ROWS


def test_loads_one_by_one(server: Server, tool: Tool) -> None:
    """How many statements are prepared, for that decides how they go; that options win; and why one failed."""
    for script in WORKLOADS.values():
        load = replace(LOAD, script=script, options=("--events=1",))
        before = status(server, "Com_stmt_prepare")
        report_of(load, server, tool)
        prepared = status(server, "Com_stmt_prepare") - before
        assert prepared_statements(load) - 2 * load.threads <= prepared <= prepared_statements(load)

    too_many = replace(LOAD, threads=50, tables=TABLES, options=("--events=50",))
    before = status(server, "Com_stmt_prepare")
    assert report_of(too_many, server, tool).transactions > 0
    assert status(server, "Com_stmt_prepare") == before

    report = report_of(replace(LOAD, options=("--histogram=off", "--events=7", "--percentile=50")), server, tool)
    assert (report.transactions, report.latency_p99_ms) == (7, None)

    with pytest.raises(RecoveryError, match=r"sysbench failed \(code 1\): .*error: 1146 .*sbtest41"):
        report_of(replace(LOAD, tables=TABLES + 1), server, tool)


def test_a_poller_asks_what_was_written(server: Server, tool: Tool, tmp_path: Path) -> None:
    asked(server, "create table sbtest.asked (id int auto_increment primary key, said text, name text)")
    text = "it''s \"a\n;b\", é"
    own = f"insert into sbtest.asked (said, name) values ('{text}', '{{database}}.{{table}}')"
    poll = Poll(2, 0.5, (FOREIGN_KEY_QUERY, own))
    called = poller_command(
        poll, replace(LOAD, seconds=2), program=tool.path, statements=write_statements(poll, tmp_path),
        socket=server.socket, database="sbtest", tables=3, version=server.build.version,
    )  # fmt: skip
    with Client("poller", called) as client:
        wrote = client.wait(DEADLINE_S).text
    report, told = parse_report(wrote), parse_counter_reports(wrote)
    assert {one.poller for one in told if one.is_last} == {0, 1}
    assert len(told) >= 4, "each at its beginning and at its end"
    assert all(own <= every for one in told for own, every in zip(one.own, one.all, strict=True))
    misses = sum(one.own[1] for one in told if one.is_last)
    assert misses >= (TABLES if can(server.build.version, "frm_files") else 0)
    assert 2 <= report.transactions <= 10
    assert report.latency_mean_ms is not None
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("select said, name from sbtest.asked")
        rows = cursor.fetchall()
    assert len(rows) in (report.transactions // 2, report.transactions // 2 + 1)
    assert {said for said, _ in rows} == {text.replace("''", "'")}
    assert all(re.fullmatch(r"sbtest\.sbtest[123]", name) for _, name in rows)

    slow = replace(poll, statements=("select sleep(600)", "select benchmark(1000000000000, md5('a'))"))
    called = poller_command(
        slow, LOAD, program=tool.path, statements=write_statements(slow, tmp_path), socket=server.socket,
        database="sbtest", tables=3, version=server.build.version,
    )  # fmt: skip
    with Client("poller", called) as client:
        with closing(server.connect()) as connection:
            until(lambda: asked_for_longer(connection, LOAD.seconds) == 2, "questions beyond the pollers' time")
            assert not client.has_ended()
            kill_running_queries(connection)
        polls = parse_polls(client.wait(DEADLINE_S).text, warmup_s=0, whole=True)
        assert polls is not None
        assert (polls.per_s, polls.mean_ms) == (0, None), "neither was an answer"

    # The published effect, on which an experiment is built: without a dictionary all tables are opened to ask for one.
    question = FOREIGN_KEY_QUERY.format(database="sbtest", table=f"sbtest{TABLES}")
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("flush tables")
        before = status(server, "Opened_tables")
        cursor.execute(question)
        found = cursor.fetchall()
    opened = status(server, "Opened_tables") - before
    assert [row[0] for row in found] == [f"sbtest{TABLES - 1}"]
    if can(server.build.version, "frm_files"):
        assert TABLES <= opened < 2 * TABLES
    else:
        assert opened < TABLES / 2, "those of the dictionary itself"
