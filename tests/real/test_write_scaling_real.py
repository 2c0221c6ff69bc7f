"""Does each question of write-scaling ask what it is named for? Small, and over real servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from recovery.builds.resolve import Sources, resolve_server
from recovery.cli.main import run
from recovery.experiments.load_plan import ROW_BYTES
from recovery.linux.files import template_dir
from recovery.linux.storage import device_of
from recovery.model import Layout, Run, Schema, Session, Verdict
from recovery.mysqld.client import scalar
from recovery.mysqld.datadir import DataDir, DataDirs
from recovery.mysqld.local import LocalLauncher
from recovery.mysqld.server import Server
from recovery.report.stored_session import find_session, load_session
from recovery.workload.build import DatadirBuilder, DatadirMismatchError, prepare_datadir
from recovery.workload.status_sampler import read_samples

pytestmark = pytest.mark.real
NEW, OLD, SCHEDULED = "8.0.31", "5.6.24", "mariadb-10.2.11"
TABLES, ROWS = 2, 20_000


def asked(version: str, questions: str, data: Path, tmp_path: Path, *more: str) -> Session:
    sizes = ["--tables", str(TABLES), "--rows", str(ROWS), "--threads", "4", "--seconds", "1", "--warmup", "0"]
    folders = ["--data", str(data), "--results", str(tmp_path / "results"), "--no-probe", "--runs", "1"]
    command = ["write-scaling", "--version", version, "--question", questions, *sizes, *folders, *more]
    assert run(command) == 0
    session = load_session(find_session(tmp_path / "results", None))
    assert {one.verdict for one in session.runs} == {Verdict.MEASURED}
    return session


def cell(session: Session, **axes: str) -> Run:
    (found,) = (one for one in session.runs if axes.items() <= session.cells[one.variant].items())
    return found


def in_effect(session: Session, option: str) -> dict[str, str]:
    """By what was given for it beside the rest, what the server said it was run with."""
    return {
        key.removeprefix(session.versions[0]).strip(): about[f"@{option}"]
        for key, about in session.servers.items()
        if f"@{option}" in about
    }


def test_who_keeps_to_memory_reads_nothing_from_the_device(data: Path, tmp_path: Path) -> None:
    session = asked(NEW, "one-user", data, tmp_path, "--workload", "point-select")
    (one,) = session.runs
    assert one.measures["qps"] > 0
    pages = TABLES * ROWS * ROW_BYTES / (16 << 10)
    assert one.measures["buffer_pool_reads_per_s"] * one.measures["elapsed_s"] < pages / 20


@pytest.mark.on_demand("large")
def test_larger_than_memory_is_read_in_pages_of_each_size(data: Path, tmp_path: Path) -> None:
    session = asked(NEW, "larger-than-memory compression", data, tmp_path, "--workload", "point-select")
    sizes = {"16k": "16384", "8k": "8192", "4k": "4096"}
    for size in sizes:
        one = cell(session, question="larger-than-memory", innodb_page_size=size)
        assert one.measures["buffer_pool_reads_per_s"] > 0.1 * one.measures["qps"]
        assert "--rand-type=uniform" in one.clients["load"]
    assert set(in_effect(session, "innodb_page_size").values()) == set(sizes.values())
    assert set(in_effect(session, "innodb_buffer_pool_size").values()) == {str(5 << 20)}
    files = sorted(path.stat().st_size for path in data.glob("*/mysql/sbtest/sbtest1.ibd"))
    assert len(files) == 4
    assert files[0] < 0.7 * files[1], "compressed"


def test_rows_are_waited_for(data: Path, tmp_path: Path) -> None:
    session = asked(NEW, "hot-rows doublewrite", data, tmp_path)
    for level in ("REPEATABLE-READ", "READ-COMMITTED"):
        hot = cell(session, transaction_isolation=level)
        assert hot.measures["row_lock_waits_per_s"] > 0
        assert "oltp_read_write" in hot.clients["load"]
        assert "--tables=1 --table-size=10 " in hot.clients["load"]
    assert set(in_effect(session, "transaction_isolation").values()) == {"REPEATABLE-READ", "READ-COMMITTED"}
    assert set(in_effect(session, "innodb_doublewrite").values()) == {"ON", "OFF"}


@pytest.mark.on_demand("disturbed")
def test_the_log_spins_or_does_not_and_rows_lock_each_other_out(data: Path, tmp_path: Path) -> None:
    """How often depends on how much of its CPUs the host has left."""
    told = "innodb_monitor_enable=latch,log_on_flush_no_waits,log_on_flush_waits"
    session = asked(NEW, "hot-rows redo-spinning", data, tmp_path, "--set", told)
    hot = [cell(session, transaction_isolation=level) for level in ("REPEATABLE-READ", "READ-COMMITTED")]
    assert any(one.measures["client_errors"] for one in hot), "deadlocks"
    for one in hot:
        assert any(wait.source == "innodb mutex" and "rwlock" not in wait.name and wait.count for wait in one.waits)
    for threads in ("1", "4"):
        on, off = (spun(cell(session, spinning=value, threads=threads), tmp_path) for value in ("on", "off"))
        assert off < 0.1
        assert on > 0.3


def spun(one: Run, tmp_path: Path) -> float:
    """The share of commits whose flush came before they had to sleep."""
    looks = [
        look.figures for look in read_samples(find_session(tmp_path / "results", None) / str(one.raw)) if look.at_s >= 0
    ]
    awake, asleep = (
        looks[-1][name] - looks[0][name] for name in ("metric.log_on_flush_no_waits", "metric.log_on_flush_waits")
    )
    return awake / (awake + asleep)


@pytest.mark.on_demand("large")
def test_the_schedule_of_locks_is_the_one_asked_for(data: Path, tmp_path: Path) -> None:
    session = asked(SCHEDULED, "lock-schedule", data, tmp_path)
    assert {value.lower() for value in in_effect(session, "innodb_lock_schedule_algorithm").values()} == {
        "fcfs",
        "vats",
    }
    for schedule in ("fcfs", "vats"):
        assert cell(session, innodb_lock_schedule_algorithm=schedule).measures["row_lock_waits_per_s"] > 0


@contextmanager
def compressed(folder: Path, **settings: str) -> Iterator[tuple[DatadirBuilder, DataDir]]:
    """Of the version whose own options would make plain tables."""
    build = resolve_server(OLD, Sources(), lambda _: None)
    template = template_dir() / "sysbench.sql.j2"
    schema = Schema(1, rows=2000, database="sbtest", template=template, layout=Layout.COMPRESSED)
    directories = DataDirs(folder)
    with directories.acquire(directories.key_for(build, schema, template_text="", options=settings)) as target:
        yield DatadirBuilder(build, schema, target, LocalLauncher(), lambda _: None, settings=settings), target


@pytest.mark.on_demand("large")
def test_compressed_tables_of_an_old_server_are_compressed(tmp_path: Path) -> None:
    with compressed(tmp_path) as (ground, target):
        prepare_datadir(ground, progress=lambda *_: None)
        with Server(
            LocalLauncher(), ground.build, target.mysql, device=device_of(tmp_path), logdir=tmp_path / "logs"
        ) as server:
            server.start()
            with server.session() as connection:
                assert scalar(connection, "SELECT @@innodb_file_format") == "Antelope", "it need not be kept up"
                of_it = "FROM information_schema.innodb_sys_tables WHERE name = 'sbtest/sbtest1'"
                assert scalar(connection, f"SELECT zip_page_size {of_it}") == 8192
    with (
        compressed(tmp_path, innodb_file_format="Antelope", innodb_strict_mode="OFF") as (ground, _),
        pytest.raises(DatadirMismatchError, match="row format Compact"),
    ):
        prepare_datadir(ground, progress=lambda *_: None)
