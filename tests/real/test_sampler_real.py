"""A real server at work is looked at: every second, truly, for little, and until it is gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from datadirs import empty_datadir
from pymysql import Connection
from pymysql.cursors import Cursor
from waiting import DEADLINE_S, until

from recovery.linux.storage import device_of
from recovery.model import Build
from recovery.mysqld.client import connect
from recovery.mysqld.local import LocalLauncher
from recovery.mysqld.options import experiment_settings
from recovery.mysqld.server import Server
from recovery.workload.status_rates import averages, sample_series
from recovery.workload.status_sampler import SAMPLE_COST, Sample, Sampler, read_samples, write_samples

pytestmark = pytest.mark.real
VERSIONS = ("5.7.22", "8.0.31")
QUERIES, COMMITS = 500, 40
NAME = "sampler"
WAITED_S = 0.3
"""At least, for a row."""


@pytest.fixture(scope="module", params=VERSIONS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Build, Path]:
    return empty_datadir(request.param, tmp_path_factory.mktemp("made"))


@pytest.fixture
def server(made: tuple[Build, Path], tmp_path: Path) -> Iterator[Server]:
    """Running, with one small table."""
    build, datadir = made
    with Server(
        LocalLauncher(), build, datadir, device=device_of(datadir), logdir=tmp_path / "logs",
        settings=experiment_settings(build.version) | {"innodb_flush_log_at_trx_commit": "1"},
    ) as server:  # fmt: skip
        server.start()
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS discovery")
            cursor.execute("CREATE TABLE IF NOT EXISTS discovery.rows_of (id INT PRIMARY KEY, worth INT) ENGINE=InnoDB")
            cursor.execute("REPLACE INTO discovery.rows_of VALUES (1, 0), (2, 0)")
        yield server


def sampler_of(server: Server, every_s: float = 1.0) -> Sampler:
    return Sampler(
        partial(connect, server.socket, timeout_s=DEADLINE_S),
        server.process.pid,
        device_of(server.datadir),
        clients=lambda: 0.0,
        every_s=every_s,
    )


def after_looks(sampler: Sampler, count: int) -> None:
    before = len(sampler._series.kept)
    until(lambda: len(sampler._series.kept) >= before + count, "looks of the sampler")


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


def test_what_was_asked_is_what_has_grown_and_it_is_kept(server: Server, tmp_path: Path) -> None:
    sampler = sampler_of(server)
    with sampler:
        after_looks(sampler, 1)
        sampler.begin()
        select = "SELECT worth FROM discovery.rows_of WHERE id = 1"
        together(
            partial(ask, server, select, QUERIES // 2),
            partial(ask, server, select, QUERIES // 2),
            partial(ask, server, "UPDATE discovery.rows_of SET worth = worth + 1 WHERE id = 2", COMMITS),
        )
        after_looks(sampler, 2)
        sampler.end()
        ask(server, select, 100)
    samples = sampler.samples
    assert sampler.whole

    times = [one.at_s for one in samples if one.at_s >= 0]
    assert all(at_s >= second for second, at_s in enumerate(times[:-1])), "never before its second"
    assert samples[0].at_s < 0, "the warm-up"

    assert grown(samples, "status.Com_select") == QUERIES + len(times) - 1, "theirs, and one of each look but the last"
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
    drawn = {one.name for one in sample_series(samples).series}
    assert {"questions_per_s", "server_cpus", "fsyncs_per_s", "history_list_length", "rows_changed_per_s"} <= drawn

    write_samples(tmp_path / "raw.csv.gz", samples)
    assert read_samples(tmp_path / "raw.csv.gz") == samples
    assert (tmp_path / "raw.csv.gz").stat().st_size < 10_000 * len(samples)


def a_transaction_waits(connection: Connection[Cursor]) -> bool:
    """By the status: information_schema.innodb_trx gives whoever asks every few milliseconds its first answer again."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")
        row = cursor.fetchone()
    return row is not None and row[1] != "0"


def test_a_wait_for_a_row_is_told_at_the_end(server: Server) -> None:
    sampler = sampler_of(server, every_s=0.2)
    with closing(connect(server.socket)) as holder, holder.cursor() as cursor, sampler:
        sampler.begin()
        cursor.execute("BEGIN")
        cursor.execute("UPDATE discovery.rows_of SET worth = 0 WHERE id = 1")
        waiter = threading.Thread(target=ask, args=(server, "UPDATE discovery.rows_of SET worth = 9 WHERE id = 1", 1))
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


@pytest.mark.parametrize("made", VERSIONS[:1], indirect=True)
def test_a_server_that_is_killed_ends_it_quietly(server: Server) -> None:
    sampler = sampler_of(server, every_s=0.1)
    with sampler:
        sampler.begin()
        after_looks(sampler, 3)
        server.kill()
        before = len(sampler._series.kept)
        sampler.end()
    assert len(sampler.samples) <= before + 1, "one look may have been under way"
    assert (sampler.waits, sampler.whole) == ((), False)
    assert NAME not in {thread.name for thread in threading.enumerate()}
