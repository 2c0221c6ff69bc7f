"""sysbench, the poller and the sampler with a real server, over tables that are like those that sysbench makes."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from datadirs import built_datadir, empty_datadir, running
from pymysql.connections import Connection
from pymysql.cursors import Cursor
from sessions import read_samples
from waiting import DEADLINE_S, until

from recovery.builds.packages import DUMP, SYSBENCH, Tool, provide_tool
from recovery.builds.resolve import Sources, resolve_server
from recovery.errors import RecoveryError
from recovery.linux.files import template_dir
from recovery.linux.storage import device_of
from recovery.loads.poller import (
    FOREIGN_KEY_QUERY,
    kill_running_queries,
    parse_counter_reports,
    parse_polls,
    poller_command,
    write_statements,
)
from recovery.loads.status_rates import averages, sample_series
from recovery.loads.status_sampler import SAMPLE_COST, Sample, Sampler, write_samples
from recovery.loads.sysbench import WORKLOADS, Client, Report, parse_report, prepared_statements, sysbench_command
from recovery.loads.tasks import Load, Poll
from recovery.model import Schema, can
from recovery.mysqld.client import connect, scalar
from recovery.mysqld.server import Server

pytestmark = pytest.mark.real
SHARES_SERVER = True
VERSIONS = ["8.0.31", pytest.param("5.7.22", marks=pytest.mark.on_demand("large"))]
TABLES, ROWS = 40, 1200
LOAD = Load("oltp_read_write", threads=2, tables=4, rows=ROWS, seconds=1, warmup_s=0)


@pytest.fixture(scope="module")
def tool() -> Tool:
    return provide_tool(SYSBENCH, offline=True, say=lambda _: None)


@pytest.fixture(scope="module", params=VERSIONS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Over sysbench's tables, of which the last four hold two references, and one with two rows of its own."""
    folder = tmp_path_factory.mktemp("sysbench")
    template = folder / "own.sql.j2"
    template.write_text("{% set foreign_keys = 2 %}" + (template_dir() / "sysbench.sql.j2").read_text())
    build = resolve_server(request.param, Sources(), lambda _: None)
    schema = Schema(TABLES, rows=ROWS, database="sbtest", template=template)
    with (
        built_datadir(build, schema, folder / "data") as target,
        running(build, target.mysql, folder / "logs", innodb_flush_log_at_trx_commit="1") as server,
    ):
        asked(server, "create table sbtest.counted (id int primary key, worth int) engine=innodb")
        asked(server, "insert into sbtest.counted values (1, 0), (2, 0)")
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


def test_all_workloads_run_at_once(server: Server, tool: Tool) -> None:
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
        assert report.seconds >= 2
        assert len(report.intervals) >= 1
        assert sum(look.qps for look in report.intervals) > 0
        assert report.latency_p50_ms is not None
        assert report.latency_p999_ms is not None
        assert report.latency_max_ms is not None
        assert report.latency_p50_ms <= report.latency_p999_ms <= report.latency_max_ms * 1.01
    assert asked(server, "select count(*) from sbtest.sbtest1") == ROWS


def test_statements_are_prepared_options_win_and_errors_are_reported(server: Server, tool: Tool) -> None:
    """Whether statements are prepared decides how they are sent."""
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


def test_a_poller_sends_its_statements_until_it_is_killed(server: Server, tool: Tool, tmp_path: Path) -> None:
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


# --- The sampler

SAMPLER_THREAD = "sampler"
QUERIES, COMMITS = 500, 40
WAITED_S = 0.3
"""At least, for a row."""


def sampler_of(server: Server, every_s: float = 1.0) -> Sampler:
    return Sampler(
        partial(connect, server.socket, timeout_s=DEADLINE_S),
        server.process.pid,
        device_of(server.datadir),
        clients=lambda: 0.0,
        every_s=every_s,
    )


def after_samples(sampler: Sampler, count: int) -> None:
    before = len(sampler._series.kept)
    until(lambda: len(sampler._series.kept) >= before + count, "samples")


def ask(server: Server, statement: str, times: int) -> None:
    with closing(connect(server.socket)) as connection, connection.cursor() as cursor:
        for _ in range(times):
            cursor.execute(statement)


def together(*jobs: Callable[[], None]) -> None:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def grown(samples: tuple[Sample, ...], column: str) -> float:
    measured = [one for one in samples if one.at_s >= 0]
    return measured[-1].figures[column] - measured[0].figures[column]


def test_samples_count_what_was_asked_and_are_stored(server: Server, tmp_path: Path) -> None:
    sampler = sampler_of(server)
    with sampler:
        after_samples(sampler, 1)
        sampler.begin()
        select = "SELECT worth FROM sbtest.counted WHERE id = 1"
        together(
            partial(ask, server, select, QUERIES // 2),
            partial(ask, server, select, QUERIES // 2),
            partial(ask, server, "UPDATE sbtest.counted SET worth = worth + 1 WHERE id = 2", COMMITS),
        )
        after_samples(sampler, 2)
        sampler.end()
        ask(server, select, 100)
    samples = sampler.samples
    assert sampler.whole

    times = [one.at_s for one in samples if one.at_s >= 0]
    assert all(at_s >= second for second, at_s in enumerate(times[:-1])), "never before its second"
    assert samples[0].at_s < 0, "the warm-up"

    assert grown(samples, "status.Com_select") == QUERIES + len(times) - 1, (
        "theirs, and one of each sample but the last"
    )
    assert grown(samples, "status.Com_update") == COMMITS
    assert grown(samples, "metric.dml_updates") == COMMITS
    assert COMMITS <= grown(samples, "status.Innodb_os_log_fsyncs") <= grown(samples, "status.Innodb_data_fsyncs")
    assert all(one.figures[SAMPLE_COST] > 0 for one in samples)

    found = averages(samples, queries=QUERIES, commits=COMMITS)
    assert found["server_cpu_us_per_query"] > 0
    assert 512 <= found["redo_bytes_per_commit"] < 1 << 20
    assert found["fsyncs_per_commit"] >= 1
    assert found["table_open_cache_hit_share"] > 0.9
    assert found["resident_bytes"] > 10 << 20
    drawn = sample_series(samples).columns.keys()
    assert {"questions_per_s", "server_cpus", "fsyncs_per_s", "history_list_length", "rows_changed_per_s"} <= drawn

    write_samples(tmp_path / "raw.csv.gz", samples)
    assert read_samples(tmp_path / "raw.csv.gz") == list(samples)
    assert (tmp_path / "raw.csv.gz").stat().st_size < 10_000 * len(samples)


def a_transaction_waits(connection: Connection[Cursor]) -> bool:
    """By the status: information_schema.innodb_trx gives whoever asks every few milliseconds its first answer again."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")
        row = cursor.fetchone()
    return row is not None and row[1] != "0"


def test_waits_for_rows_are_sampled(server: Server) -> None:
    sampler = sampler_of(server, every_s=0.2)
    with closing(connect(server.socket)) as holder, holder.cursor() as cursor, sampler:
        sampler.begin()
        cursor.execute("BEGIN")
        cursor.execute("UPDATE sbtest.counted SET worth = 0 WHERE id = 1")
        waiter = threading.Thread(target=ask, args=(server, "UPDATE sbtest.counted SET worth = 9 WHERE id = 1", 1))
        waiter.start()
        until(lambda: a_transaction_waits(holder), "the wait for the row")
        time.sleep(WAITED_S)
        cursor.execute("COMMIT")
        waiter.join()
        sampler.end()
    (waited,) = [one for one in sampler.waits if one.name == "row locks"]
    assert (waited.source, waited.count) == ("status", 1)
    assert waited.wait_s is not None
    assert waited.wait_s >= WAITED_S
    found = averages(sampler.samples, queries=2, commits=2)
    assert found["row_lock_wait_ms"] >= 1000 * WAITED_S


def test_the_sampler_of_a_server_that_is_killed_ends_quietly(tmp_path: Path) -> None:
    with running(*empty_datadir("mariadb-10.11.5", tmp_path), tmp_path / "logs") as server:
        sampler = sampler_of(server, every_s=0.1)
        with sampler:
            sampler.begin()
            after_samples(sampler, 3)
            server.kill()
            before = len(sampler._series.kept)
            sampler.end()
    assert len(sampler.samples) <= before + 1, "one may have been under way"
    assert (sampler.waits, sampler.whole) == ((), False)
    assert SAMPLER_THREAD not in {thread.name for thread in threading.enumerate()}
