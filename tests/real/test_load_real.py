"""Building data directories with real servers: what is in them, how builds are resumed, and what is refused."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import psutil
import pytest
from datadirs import server_on

from recovery.builds.resolve import Sources, resolve_server
from recovery.errors import HostUnfitError, RecoveryError, ServerFailedError
from recovery.linux.storage import DiskSpace
from recovery.model import Build, Schema
from recovery.mysqld.datadir import DataDir, DataDirs, check_intact
from recovery.mysqld.local import LocalLauncher
from recovery.workload.build import BuildInterruptedError, DatadirBuilder, DatadirMismatchError, prepare_datadir
from recovery.workload.inserts import InsertsFailedError, count_rows, execute_inserts, insert_statements
from recovery.workload.schema import checked_script_size, disk_need

pytestmark = pytest.mark.real
FASTEST = "mariadb-10.11.5"
OTHERS = ("5.6.24", "5.7.22", "8.0.15", "8.0.31", "mariadb-10.2.11")
"""Whole recoveries have the tables of most of these built, too."""
VERSIONS = [FASTEST, *(pytest.param(version, marks=pytest.mark.on_demand("large")) for version in OTHERS)]
MANY = Schema(1000)
"""More than is sent to a server before the first progress is reported."""
Progress = Callable[[int, int], None]


@cache
def build_of(version: str) -> Build:
    return resolve_server(version, Sources(), lambda _: None)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[DataDir]:
    with DataDirs(tmp_path / "data").acquire("built") as target:
        yield target


def build(
    target: DataDir, schema: Schema, version: str = FASTEST, progress: Progress = lambda done, total: None
) -> None:
    """As a session does it."""
    builder = DatadirBuilder(build_of(version), schema, target, LocalLauncher(), lambda _: None)
    prepare_datadir(builder, progress=progress)


def own(folder: Path, text: str, tables: int, databases: int = 1) -> Schema:
    path = folder / "own.sql.j2"
    path.write_text(text)
    return Schema(tables, databases=databases, template=path)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def kill_the_server() -> None:
    for process in psutil.Process().children(recursive=True):
        process.kill()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_data_directory_is_built_proved_and_written_to(version: str, target: DataDir, tmp_path: Path) -> None:
    schema = Schema(300, rows=2)
    reported: list[tuple[int, int]] = []
    build(target, schema, version, lambda done, total: reported.append((done, total)))
    assert (target.state.status, target.state.tables, target.state.ibd_files) == ("whole", 300, 300)
    assert len(target.state.rows) == 100
    assert set(target.state.rows.values()) == {2}
    assert reported[-1] == (601, 601)
    check_intact(target, schema, fingerprint=build_of(version).fingerprint)

    script = insert_statements(schema)
    with server_on(build_of(version), target.mysql, tmp_path / "logs") as server:
        assert server.start().startup.crash_proof is None
        with closing(server.connect()) as connection:
            assert set(execute_inserts(connection, script).values()) == {1}
            assert set(count_rows(connection, target.state.rows).values()) == {3}
            with pytest.raises(InsertsFailedError) as caught:
                execute_inserts(connection, [script[0], "insert into discovery.none values (1)"])
            assert caught.value.acknowledged == {"discovery.table_1": 1}
        with closing(server.connect()) as connection:
            server.kill()
            with pytest.raises(InsertsFailedError) as caught:
                execute_inserts(connection, script)
            assert caught.value.acknowledged == {}


def test_tables_larger_than_planned_are_refused_after_the_first_ones(
    target: DataDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full-text index makes eleven files beside the table's own."""
    text = """create schema discovery;
    {% for number in range(1, tables + 1) -%}
    create table discovery.t_{{ number }} (id int primary key, t text, fulltext key (t));
    {% endfor %}"""
    schema, reported = own(tmp_path, text, 1000), list[int]()
    planned = disk_need(checked_script_size(schema), build_of(FASTEST).version, schema, {}, Path())
    monkeypatch.setattr("recovery.workload.build.free_space", lambda _: DiskSpace(10**12, planned.inodes))
    with pytest.raises(HostUnfitError, match=r"the first \d+ tables of mariadb-10.11.5 take .* are free") as caught:
        build(target, schema, progress=lambda done, total: reported.append(done))
    assert "--tables" in caught.value.hint
    assert 0 < max(reported) < 1000, "and not after all of them"
    assert target.state.status == "new"
    assert not target.mysql.exists(), "it may be large"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_build_that_ctrl_c_interrupted_is_resumed_where_it_stopped(version: str, target: DataDir) -> None:
    handler, interrupted = signal.getsignal(signal.SIGINT), list[int]()

    def interrupt_once(done: int, total: int) -> None:
        if done > 1 and not interrupted:
            interrupted.append(done)
            interrupt()

    with pytest.raises(BuildInterruptedError) as caught:
        build(target, MANY, version, interrupt_once)
    done = caught.value.done
    assert 1 < done < MANY.tables
    assert (target.state.status, target.state.statements_done) == ("building", done)
    assert signal.getsignal(signal.SIGINT) is handler

    reported: list[int] = []
    build(target, MANY, version, lambda done, total: reported.append(done))
    assert (target.state.status, target.state.tables) == ("whole", MANY.tables)
    assert min(reported) == done


def test_a_second_ctrl_c_ends_a_build_at_once(target: DataDir) -> None:
    def interrupt_twice(done: int, total: int) -> None:
        interrupt()
        interrupt()

    with pytest.raises(KeyboardInterrupt):
        build(target, MANY, progress=interrupt_twice)
    assert (target.state.status, target.state.statements_done) == ("building", 0)


def test_a_build_whose_server_was_killed_begins_again(target: DataDir) -> None:
    schema = Schema(300)
    with pytest.raises(ServerFailedError, match="the server was lost"):
        build(target, schema, progress=lambda done, total: kill_the_server() if done else None)
    assert (target.state.status, target.state.statements_done) == ("building", 0)
    build(target, schema)
    assert (target.state.status, target.state.tables) == ("whole", 300)


@pytest.mark.parametrize("version", VERSIONS)
def test_sql_that_the_server_refuses_is_quoted_with_the_servers_error(
    version: str, target: DataDir, tmp_path: Path
) -> None:
    text = (
        "create schema discovery;{% for n in range(tables) %}\n"
        "create table discovery.t{{ n }} (id {{ 'nonsense' if n == 150 else 'int' }});{% endfor %}"
    )
    with pytest.raises(RecoveryError) as caught:
        build(target, own(tmp_path, text, 300), version)
    assert "statement 152 " in caught.value.message
    assert "create table discovery.t150 (id nonsense)" in caught.value.message
    assert re.search(r"'nonsense.*\((1064|4161)\)$", caught.value.message), "the server's own words and number"
    assert "template" in caught.value.hint
    assert target.state.status == "new"
    assert not target.mysql.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "create schema discovery; use discovery; {{ table }} drop table t1; drop table t2;",
            "1 tables in discovery instead of 3",
        ),
        (
            "create schema discovery; use discovery; set default_storage_engine=memory; {{ table }}",
            "discovery has 0 .ibd files for 3 tables",
        ),
    ],
    ids=["dropped", "in memory"],
)
def test_a_template_that_makes_other_tables_than_asked_is_refused(
    target: DataDir, tmp_path: Path, text: str, message: str
) -> None:
    table = "{% for n in range(tables) %}create table t{{ n }} (id int); {% endfor %}"
    with pytest.raises(DatadirMismatchError) as caught:
        build(target, own(tmp_path, text.replace("{{ table }}", table), 3))
    assert message in caught.value.message
    assert target.state.status == "new"


def test_a_template_may_hold_all_kinds_of_statements(target: DataDir, tmp_path: Path) -> None:
    text = (
        "{% for d in databases %}create schema {{ d }}; use {{ d }};"
        "{% for n in range(tables - 1) %}create table t{{ n }} (id int primary key, c text default null);"
        "insert into t{{ n }} values (1, '; -- no comment'); {% endfor %}"
        "create table child (id int, foreign key (id) references t0 (id));"
        "insert into child values (1); analyze table child; /*! set @a = 1 */; {% endfor %} -- done"
    )
    build(target, own(tmp_path, text, 20, databases=2))
    assert (target.state.tables, target.state.ibd_files, target.state.rows) == (40, 40, {})
