"""Do real servers of every catalog version get the stage that was asked, proved, and nothing else?"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path

import psutil
import pytest

from recovery.builds.resolve import Sources, resolve_server
from recovery.errors import HostUnfitError, RecoveryError, ServerFailedError
from recovery.linux.storage import DiskSpace, device_of
from recovery.model import Build, Schema
from recovery.mysqld.datadir import DataDir, DataDirs, check_intact
from recovery.mysqld.local import LocalLauncher
from recovery.mysqld.options import experiment_settings
from recovery.mysqld.server import Server
from recovery.workload.build import BuildInterruptedError, DatadirBuilder, DatadirMismatchError, prepare_datadir
from recovery.workload.inserts import InsertsFailedError, count_rows, execute_inserts, insert_statements
from recovery.workload.schema import check_template, disk_need

pytestmark = pytest.mark.real
VERSIONS = ("5.6.24", "5.7.22", "8.0.15", "8.0.31", "mariadb-10.2.11", "mariadb-10.11.5")
Said = Callable[[int, int], None]


@cache
def build_of(version: str) -> Build:
    return resolve_server(version, Sources(), lambda _: None)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Callable[..., DataDir]]:
    """Makes a stage as the runner does; the directory's lock is given back at the end."""
    taken: list[DataDir] = []

    def make(
        version: str,
        schema: Schema,
        *,
        progress: Said = lambda done, total: None,
        stop: threading.Event | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> DataDir:
        build = build_of(version)
        if not taken:
            directories = DataDirs(tmp_path / "data")
            taken.append(directories.acquire(directories.key_for(build, schema, template_text="", options={})))
        ground = DatadirBuilder(build, schema, taken[0], LocalLauncher(), lambda _: None, settings or {})
        prepare_datadir(ground, progress=progress, stop=stop)
        return taken[0]

    make.taken = taken  # type: ignore[attr-defined]
    yield make
    for target in taken:
        target.release()


def left(stage: Callable[..., DataDir]) -> DataDir:
    """What a failed stage leaves."""
    (target,) = stage.taken  # type: ignore[attr-defined]
    assert isinstance(target, DataDir)
    return target


def kill_the_server() -> None:
    for process in psutil.Process().children(recursive=True):
        process.kill()


def own(folder: Path, text: str, tables: int) -> Schema:
    path = folder / "own.sql.j2"
    path.write_text(text)
    return Schema(tables, template=path)


@pytest.mark.parametrize(
    "version",
    # Whole recoveries have every version's tables built.
    [
        one if one in ("5.6.24", "8.0.31") else pytest.param(one, marks=pytest.mark.on_demand("large"))
        for one in VERSIONS
    ],
)
def test_a_stage_is_made_proved_and_written_to(version: str, stage: Callable[..., DataDir], tmp_path: Path) -> None:
    schema = Schema(300, rows=2)
    told: list[tuple[int, int]] = []
    target = stage(version, schema, progress=lambda done, total: told.append((done, total)))
    assert (target.state.status, target.state.tables, target.state.ibd_files) == ("whole", 300, 300)
    assert len(target.state.rows) == 100
    assert set(target.state.rows.values()) == {2}
    assert told[-1] == (601, 601)
    check_intact(target, schema, fingerprint=build_of(version).fingerprint)

    script = insert_statements(schema)
    with Server(
        LocalLauncher(),
        build_of(version),
        target.mysql,
        device=device_of(tmp_path),
        logdir=tmp_path / "logs",
        settings=experiment_settings(build_of(version).version),
    ) as server:
        started = server.start()
        assert started.crash_proof is None
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
    stage: Callable[..., DataDir], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full-text index makes eleven files beside the table's own."""
    text = """create schema discovery;
    {% for number in range(1, tables + 1) -%}
    create table discovery.t_{{ number }} (id int primary key, t text, fulltext key (t));
    {% endfor %}"""
    schema, told = own(tmp_path, text, 1000), list[int]()
    planned = disk_need(check_template(schema), build_of("5.7.22").version, schema, {})
    monkeypatch.setattr("recovery.workload.build.free_space", lambda _: DiskSpace(10**12, planned.inodes))
    with pytest.raises(HostUnfitError, match=r"the first \d+ tables of 5\.7\.22 take .* are free") as caught:
        stage("5.7.22", schema, progress=lambda done, total: told.append(done))
    assert "TABLES=" in caught.value.hint
    assert 0 < max(told) < 1000, "and not after all of them"
    assert left(stage).state.status == "new"
    assert not left(stage).mysql.exists(), "it may be large"


@pytest.mark.parametrize("version", ["5.7.22", "mariadb-10.11.5"])
def test_an_interrupted_build_goes_on(version: str, stage: Callable[..., DataDir]) -> None:
    schema = Schema(1500)
    stop = threading.Event()
    with pytest.raises(BuildInterruptedError) as caught:
        stage(version, schema, progress=lambda done, total: stop.set() if done > 1 else None, stop=stop)
    done = caught.value.done
    assert 1 < done < schema.tables
    assert (left(stage).state.status, left(stage).state.statements_done) == ("building", done)

    told: list[int] = []
    target = stage(version, schema, progress=lambda done, total: told.append(done))
    assert (target.state.status, target.state.tables) == ("whole", schema.tables)
    assert min(told) == done, "it continues from there"


def test_ctrl_c_in_a_build(stage: Callable[..., DataDir]) -> None:
    handler = signal.getsignal(signal.SIGINT)
    interrupts = iter([signal.SIGINT])

    def interrupt_once() -> None:
        for number in interrupts:
            os.kill(os.getpid(), number)

    with pytest.raises(BuildInterruptedError) as caught:
        stage("5.7.22", Schema(1500), progress=lambda done, total: interrupt_once() if done else None)
    assert 0 < left(stage).state.statements_done == caught.value.done < 1500
    assert signal.getsignal(signal.SIGINT) is handler


def test_two_ctrl_c_end_it_at_once(stage: Callable[..., DataDir]) -> None:
    def interrupt_twice(done: int, total: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        stage("5.7.22", Schema(1500), progress=interrupt_twice)
    assert (left(stage).state.status, left(stage).state.statements_done) == ("building", 0)


def test_a_server_that_is_killed_while_it_builds(stage: Callable[..., DataDir]) -> None:
    with pytest.raises(ServerFailedError, match="the server was lost"):
        stage("5.7.22", Schema(1500), progress=lambda done, total: kill_the_server() if done else None)
    assert (left(stage).state.status, left(stage).state.statements_done) == ("building", 0)


def test_a_build_that_died_begins_anew(stage: Callable[..., DataDir]) -> None:
    def die(done: int, total: int) -> None:
        raise MemoryError

    schema = Schema(300)
    with pytest.raises(MemoryError):
        stage("5.7.22", schema, progress=die)
    assert (left(stage).state.status, left(stage).state.statements_done) == ("building", 0)
    assert stage("5.7.22", schema).state.tables == 300


@pytest.mark.parametrize("version", ["5.7.22", "8.0.31", "mariadb-10.11.5"])
def test_sql_that_the_server_refuses(version: str, stage: Callable[..., DataDir], tmp_path: Path) -> None:
    text = (
        "create schema discovery;{% for n in range(tables) %}\n"
        "create table discovery.t{{ n }} (id {{ 'nonsense' if n == 150 else 'int' }});{% endfor %}"
    )
    with pytest.raises(RecoveryError) as caught:
        stage(version, own(tmp_path, text, 300))
    assert "statement 152 " in caught.value.message
    assert "create table discovery.t150 (id nonsense)" in caught.value.message
    assert re.search(r"'nonsense.*\((1064|4161)\)$", caught.value.message), "the server's own words and number"
    assert "template" in caught.value.hint
    assert left(stage).state.status == "new"
    assert not left(stage).mysql.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("create schema discovery; use discovery; {{ table }} drop table t1;", "2 tables in discovery instead of 3"),
        ("create schema elsewhere; use elsewhere; {{ table }}", "0 tables in discovery instead of 3"),
    ],
)
def test_fewer_tables_than_said(stage: Callable[..., DataDir], tmp_path: Path, text: str, said: str) -> None:
    """Templates that look right until they are run."""
    table = "{% for n in range(tables) %}create table t{{ n }} (id int); {% endfor %}"
    with pytest.raises(DatadirMismatchError) as caught:
        stage("5.7.22", own(tmp_path, text.replace("{{ table }}", table), 3))
    assert said in caught.value.message
    assert left(stage).state.status == "new"


def test_tables_that_are_no_files(stage: Callable[..., DataDir], tmp_path: Path) -> None:
    table = "create table discovery.t{{ n }} (id int) engine=memory;"
    text = "create schema discovery; {% for n in range(tables) %}" + table + "{% endfor %}"
    with pytest.raises(DatadirMismatchError, match=r"0 \.ibd files"):
        stage("5.7.22", own(tmp_path, text, 3))


def test_a_template_with_everything(stage: Callable[..., DataDir], tmp_path: Path) -> None:
    text = (
        "{% for d in databases %}create schema {{ d }}; use {{ d }};"
        "{% for n in range(tables - 1) %}create table t{{ n }} (id int primary key, c text default null);"
        "insert into t{{ n }} values (1, '; -- no comment'); {% endfor %}"
        "create table child (id int, foreign key (id) references t0 (id));"
        "insert into child values (1); analyze table child; /*! set @a = 1 */; {% endfor %} -- done"
    )
    schema = Schema(20, databases=2, template=own(tmp_path, text, 20).template)
    target = stage("8.0.31", schema)
    assert (target.state.tables, target.state.ibd_files, target.state.rows) == (40, 40, {})
