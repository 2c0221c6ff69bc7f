"""Looks at a server at work: what they become, how they are kept, and what is left where one has failed."""

from __future__ import annotations

import gzip
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor
from waiting import until

from recovery.errors import RecoveryError
from recovery.experiments.load import with_client_rates, with_poll_rates
from recovery.linux.procfs import process_resident_bytes
from recovery.linux.storage import Device, DeviceCounters, read_device_counters
from recovery.model import METRICS, LoadTimeline, Series, ThreadWait
from recovery.mysqld.client import connect
from recovery.workload import status_rates, status_sampler
from recovery.workload.status_rates import averages, sample_series
from recovery.workload.status_sampler import (
    Sample,
    Sampler,
    first_measured_sample,
    read_samples,
    write_samples,
)


def look(at_s: float, **figures: float) -> Sample:
    return Sample(at_s, {name.replace("__", "."): value for name, value in figures.items()})


def series(found: LoadTimeline) -> dict[str, tuple[float | None, ...]]:
    return {one.name: one.values for one in found.series}


ROOT = Path(__file__).parent.parent
STEADY = tuple(
    look(
        at_s,
        status__Questions=1000 + 50 * at_s,
        status__Threads_running=3,
        status__Innodb_rows_inserted=10 * at_s + 100,
        status__Innodb_rows_updated=5 * at_s + 100,
        status__Innodb_rows_deleted=1 * at_s + 100,
        status__Table_open_cache_hits=30 * at_s + 1000,
        status__Table_open_cache_misses=10 * at_s + 100,
        status__Innodb_os_log_written=4096 * at_s + 1e9,
        status__Innodb_row_lock_waits=7,
        status__Innodb_row_lock_time=91,
        process__cpu_s=0.5 * at_s + 9,
        clients__cpu_s=0.25 * at_s + 9,
        tool__cpu_s=0.125 * at_s + 9,
        host__busy_s=1.0 * at_s + 99,
    )
    for at_s in (-2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
)


def test_counters_become_rates_and_levels_stay() -> None:
    found = sample_series(STEADY)
    assert found.at_s == (-2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
    drawn = series(found)
    assert drawn["questions_per_s"] == (None, 50, 50, 50, 50, 50)
    assert drawn["rows_changed_per_s"] == (None, 16, 16, 16, 16, 16)
    assert drawn["threads_running"] == (3, 3, 3, 3, 3, 3)
    assert drawn["others_cpus"] == (None, *[0.125] * 5)
    assert drawn["row_lock_waits_per_s"] == (None, 0, 0, 0, 0, 0), "told, and none"


def test_what_this_server_does_not_tell_is_left_out() -> None:
    drawn = series(sample_series(STEADY))
    assert "table_open_cache_overflows_per_s" not in drawn
    assert "checkpoint_age_bytes" not in drawn
    assert "checkpoint_age_bytes" not in averages(STEADY, queries=1, commits=1)
    assert sample_series(()) == LoadTimeline(())
    assert series(sample_series((look(0.0, status__Questions=5),))) == {}, "one look is no rate"


def test_a_counter_set_back_and_a_hole_are_no_rate() -> None:
    samples = (look(0, status__Questions=5), look(1, status__Questions=2), look(2), look(3, status__Questions=9))
    assert "questions_per_s" not in series(sample_series(samples))
    more = (*samples, look(4, status__Questions=19))
    assert series(sample_series(more))["questions_per_s"] == (None, None, None, None, 10)


def test_coarse_ticks_leave_no_less_than_nothing_to_others() -> None:
    one = {"host__busy_s": 1.0, "clients__cpu_s": 0.0, "tool__cpu_s": 0.0}
    samples = (look(0, process__cpu_s=1.0, **one), look(1, process__cpu_s=1.01, **one))
    assert series(sample_series(samples))["others_cpus"] == (None, 0.0)


def test_the_first_word_that_a_server_knows_counts() -> None:
    lsn = {"status__Innodb_redo_log_current_lsn": 900, "status__Innodb_redo_log_checkpoint_lsn": 300}
    assert series(sample_series((look(0, **lsn),)))["checkpoint_age_bytes"] == (600,)
    both = look(0, metric__log_lsn_checkpoint_age=77, **lsn)
    assert series(sample_series((both,)))["checkpoint_age_bytes"] == (77,)


def test_no_rate_is_taken_over_a_moment() -> None:
    times = (-1.0, -0.02, 0.001, 1.0, 2.0, 3.0, 3.03)
    assert sample_series(tuple(look(at_s, process__cpu_s=1) for at_s in times)).at_s == (-1.0, 0.001, 1.0, 2.0, 3.0)


def test_hours_take_no_more_room_than_a_page_can_draw() -> None:
    found = sample_series(tuple(look(float(at_s), status__Questions=7 * at_s) for at_s in range(1000)))
    assert len(found.at_s) == 200
    assert set(series(found)["questions_per_s"][1:]) == {7}


def test_averages_are_of_what_was_measured() -> None:
    warming = look(-3.0, status__Questions=0, process__cpu_s=0.0, status__Threads_running=99)
    found = averages((warming, *STEADY), queries=1000, commits=8)
    assert found["questions_per_s"] == 50
    assert found["threads_running"] == 3
    assert found["server_cpus"] == 0.5
    assert found["server_cpu_us_per_query"] == 2000
    assert found["redo_bytes_per_commit"] == 2048
    assert found["table_open_cache_hit_share"] == 0.75
    assert "row_lock_wait_ms" not in found, "nobody waited"
    assert "fsyncs_per_commit" not in found


def test_what_clients_did_before_the_first_look_is_not_in_it() -> None:
    late = tuple(replace(one, at_s=one.at_s + 1) for one in STEADY)
    found = averages(late[2:], queries=1000, commits=8)
    assert (found["server_cpus"], found["questions_per_s"]) == (0.5, 50)
    assert found["server_cpu_us_per_query"] == 2500, "2 s of CPU for 800 of the 1000, which took 5 s"
    assert found["redo_bytes_per_commit"] == 2560
    later = tuple(replace(one, at_s=one.at_s + 5) for one in STEADY)
    assert averages(later[2:], queries=1000, commits=8) == {}, "4 s of 9"


def test_what_was_done_right_before_it_began_is_not_in_it() -> None:
    """Tables are read into memory then, and the look that tells of it may lie closer to the beginning than its own."""
    before = look(-0.05, status__Innodb_buffer_pool_reads=700, status__Questions=10)
    looks = [look(at_s, status__Innodb_buffer_pool_reads=1300, status__Questions=500 * at_s) for at_s in (0.2, 1.2)]
    assert first_measured_sample((before, *looks)) is looks[0]
    assert averages((before, *looks), queries=500, commits=0)["buffer_pool_reads_per_s"] == 0
    assert first_measured_sample((look(-2.0), before)) is before
    assert first_measured_sample(()) is None


def test_as_it_stands_once_the_work_is_over_is_no_level_of_it() -> None:
    over = replace(STEADY[-1], figures={**STEADY[-1].figures, "status.Threads_running": 1})
    assert averages((*STEADY[:-1], over), queries=1, commits=1)["threads_running"] == 3


def test_nothing_is_shared_by_no_queries() -> None:
    found = averages(STEADY, queries=0, commits=0)
    assert "server_cpu_us_per_query" not in found
    assert "redo_bytes_per_commit" not in found
    assert averages((), queries=1, commits=1) == {}
    assert averages(STEADY[:1], queries=1, commits=1) == {}


def test_waits_of_rows_and_spins() -> None:
    names = ("s_spin_rounds", "x_spin_rounds", "s_os_waits", "x_os_waits")
    before = look(0, status__Innodb_row_lock_waits=5, status__Innodb_row_lock_time=100)
    after = look(2, status__Innodb_row_lock_waits=9, status__Innodb_row_lock_time=180)
    spun = [{f"metric.innodb_rwlock_{name}": value for name in names} for value in (1, 11)]
    samples = (Sample(0, {**before.figures, **spun[0]}), Sample(2, {**after.figures, **spun[1]}))
    found = averages(samples, queries=40, commits=1)
    assert found["row_lock_wait_ms"] == 20
    assert found["rwlock_spin_rounds_per_query"] == 0.5
    assert found["rwlock_os_waits_per_s"] == 10


def test_the_look_of_the_beginning_may_have_failed() -> None:
    samples = (look(-0.3, status__Questions=10), look(0.9, status__Questions=90), look(2.9, status__Questions=150))
    assert averages(samples, queries=1, commits=1)["questions_per_s"] == 30


def test_every_figure_has_a_title() -> None:
    names = {*status_rates.COUNTER_SUMS, *status_rates.GAUGE_SUMS, *status_rates.AVERAGE_NAMES}
    assert len(names) > 25
    assert names <= set(METRICS)


def test_what_is_kept_is_read_back_the_same(tmp_path: Path) -> None:
    samples = (*STEADY, Sample(5.123, {"metric.a,b": 2**53, "look_s": 1e-06, "status.neg": -3}))
    write_samples(tmp_path / "a.csv.gz", samples)
    assert read_samples(tmp_path / "a.csv.gz") == samples
    write_samples(tmp_path / "b.csv.gz", read_samples(tmp_path / "a.csv.gz"))
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    write_samples(tmp_path / "none.csv.gz", ())
    assert read_samples(tmp_path / "none.csv.gz") == ()


PACKED = gzip.compress(b"at_s,a\n1.0,5\n" * 20, mtime=0)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"no gzip", None),
        *(PACKED[:15] + b"\xff" * 4 + PACKED[19:], PACKED[:-4]),
        gzip.compress(b"at_s,a\n1.0," + b"5" * 140_000),
    ],
)
def test_a_damaged_file_is_one_line(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "raw.csv.gz").write_bytes(content)
    with pytest.raises(RecoveryError, match="cannot read the samples"):
        read_samples(tmp_path / "raw.csv.gz")


def test_where_nobody_answers_nothing_is_seen_and_nothing_breaks(tmp_path: Path) -> None:
    tried = 0

    def refused() -> Connection[Cursor]:
        nonlocal tried
        tried += 1
        return connect(tmp_path / "no.sock")

    with Sampler(refused, os.getpid(), Device(), clients=lambda: None, every_s=0.01) as sampler:
        sampler.begin()
        until(lambda: tried > 5, "some looks")
        sampler.end()
    assert (sampler.samples, sampler.waits, sampler.whole) == ((), (), False)
    assert "sampler" not in {thread.name for thread in threading.enumerate()}


def test_what_a_device_has_served(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(" 7 0 16 1 5 0 24 2 0 1500 1 0 0 0 0 0 0\n")
    assert read_device_counters(Device(stat_path=tmp_path / "stat")) == DeviceCounters(7, 5, 8192, 12288, 1.5)
    assert read_device_counters(Device()) is None
    memory = process_resident_bytes(os.getpid())
    assert memory is not None
    assert 1 << 20 < memory < 1 << 34


MUTEX_5_7 = (
    ("InnoDB", "rwlock: btr0sea.cc:202", "waits=3"),
    ("InnoDB", "rwlock: btr0sea.cc:202", "waits=4"),
    ("InnoDB", "LOG_SYS", "spins=90,waits=2,calls=900"),
)


def test_waits_are_what_grew_between_two_moments() -> None:
    before = status_sampler.parse_mutexes(MUTEX_5_7)
    assert status_sampler.mutex_totals(before) == {"mutex.waits": 9, "mutex.spins": 90}
    after = status_sampler.parse_mutexes(
        (*MUTEX_5_7, ("InnoDB", "LOG_SYS", "spins=10,waits=5,calls=60"), ("InnoDB", "NEW", "waits=1"))
    )
    assert status_sampler.waits_between(before, after) == (
        ThreadWait("innodb mutex", "LOG_SYS", 5),
        ThreadWait("innodb mutex", "NEW", 1),
    )
    assert status_sampler.mutex_totals({}) == {}


def test_of_each_source_the_largest_by_time_where_it_is_told() -> None:
    after = status_sampler.parse_events(
        (f"wait/synch/mutex/{number}", 100 - number, number * 10**12) for number in range(30)
    )
    after |= status_sampler.parse_mutexes(("InnoDB", f"lock {number}", f"os_waits={number}") for number in range(30))
    after |= status_sampler.lock_counts({"status.Innodb_row_lock_waits": 2, "status.Innodb_row_lock_time": 1500})
    found = status_sampler.waits_between({}, after)
    assert [one.count for one in found[:10]] == list(range(29, 19, -1))
    assert [one.wait_s for one in found[10:20]] == [float(number) for number in range(29, 19, -1)]
    assert found[20:] == (ThreadWait("status", "row locks", 2, 1.5),)


def test_a_counter_that_is_kept_and_never_counted_tells_nothing() -> None:
    names = ("s_spin_rounds", "x_spin_rounds", "sx_spin_rounds", "s_os_waits", "x_os_waits", "sx_os_waits")
    samples = tuple(Sample(at_s, {f"metric.innodb_rwlock_{name}": 0 for name in names}) for at_s in (0.0, 9.0))
    assert averages(samples, queries=40, commits=1) == {}


def recorded(server: str) -> status_sampler.WaitCounts:
    lines = (ROOT / "fixtures" / "mutex" / f"{server}.tsv").read_text().splitlines()
    return status_sampler.parse_mutexes(tuple(line.split("\t")) for line in lines)


@pytest.mark.parametrize(("server", "largest", "total"), [
    ("mysql-5.6.24", ThreadWait("innodb mutex", "combined buf0buf.cc:1021", 132), 421),
    ("mysql-5.7.22", ThreadWait("innodb mutex", "SRV_SYS", 1952), 3017),
    ("mysql-8.0.31", ThreadWait("innodb mutex", "LOCK_SYS_PAGE", 1232), 3312),
    ("mariadb-10.2.11", ThreadWait("innodb mutex", "sum rwlock: buf0buf.cc:1471", 58), 59),
])  # fmt: skip
def test_each_generation_tells_of_its_mutexes_in_its_own_way(server: str, largest: ThreadWait, total: int) -> None:
    found = recorded(server)
    assert status_sampler.waits_between({}, found)[0] == largest
    assert status_sampler.mutex_totals(found)["mutex.waits"] == total
    assert ("mutex.spins" in status_sampler.mutex_totals(found)) == (server in ("mysql-5.7.22", "mysql-8.0.31"))


def test_mariadb_10_11_tells_nothing_of_its_mutexes() -> None:
    assert recorded("mariadb-10.11.5") == {}


def test_each_second_of_the_clients_goes_to_the_look_at_its_end() -> None:
    seen = [(-1.0, 10.0), (0.0, 20.0), (1.0, 30.0), (2.0, 40.0), (3.0, 50.0), (4.0, 60.0), (5.0, 70.0)]
    # The one of the second second came late, and the one of the fourth not at all.
    looks = LoadTimeline((-1.3, 0.02, 1.01, 2.7, 3.0, 5.1), ())
    assert series(with_client_rates(looks, seen))["qps"] == (10, 20, 30, None, 50, 70)
    assert with_client_rates(looks, ()) == looks
    assert with_client_rates(LoadTimeline(()), seen) == LoadTimeline((), (Series("qps", ()),))


def test_no_poll_is_lost_between_looks_that_are_far_apart() -> None:
    polled = [(-1.0, 0.0), (0.0, 4.0), (1.0, 0.0), (2.0, 2.0), (3.0, 0.0), (4.0, 0.0)]
    looks = LoadTimeline((-4.0, -2.0, 0.02, 2.0, 3.98, 6.0), ())
    assert series(with_poll_rates(looks, polled))["polls_per_s"] == (None, None, 2.0, 1.0, 0.0, None)
    assert with_poll_rates(looks, ()) == looks
    assert with_poll_rates(LoadTimeline(()), polled) == LoadTimeline(())
