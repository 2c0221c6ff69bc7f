"""Samples of a server under load: their rates and averages, the waits of its threads, and how samples are stored."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor
from sessions import read_samples
from waiting import until

from recovery.linux.procfs import process_resident_bytes
from recovery.linux.storage import Device, DeviceCounters, read_device_counters
from recovery.loads import status_rates
from recovery.loads.load import with_client_rates, with_poll_rates
from recovery.loads.poller import CounterReport, PollerCounters, add_load_counters, parse_counter_reports
from recovery.loads.status_rates import averages, sample_series
from recovery.loads.status_sampler import (
    Sample,
    Sampler,
    WaitCounts,
    first_measured_sample,
    lock_counts,
    mutex_totals,
    parse_events,
    parse_mutexes,
    waits_between,
    write_samples,
)
from recovery.metrics import METRICS
from recovery.model import ThreadWait, Timeline
from recovery.mysqld.client import connect


def sample(at_s: float, **figures: float) -> Sample:
    """With dots in the names: status__Questions is status.Questions."""
    return Sample(at_s, {name.replace("__", "."): value for name, value in figures.items()})


def series(timeline: Timeline) -> dict[str, tuple[float | None, ...]]:
    return timeline.columns


STEADY = tuple(
    sample(
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

# -- series


def test_counters_become_rates_and_levels_stay() -> None:
    timeline = sample_series(STEADY)
    assert timeline.at_s == (-2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
    values = series(timeline)
    assert values["questions_per_s"] == (None, 50, 50, 50, 50, 50)
    assert values["rows_changed_per_s"] == (None, 16, 16, 16, 16, 16)
    assert values["threads_running"] == (3, 3, 3, 3, 3, 3)
    assert values["others_cpus"] == (None, *[0.125] * 5)
    assert values["row_lock_waits_per_s"] == (None, 0, 0, 0, 0, 0)


def test_a_figure_that_the_server_does_not_have_is_absent() -> None:
    values = series(sample_series(STEADY))
    assert "table_open_cache_overflows_per_s" not in values
    assert "checkpoint_age_bytes" not in values
    assert "checkpoint_age_bytes" not in averages(STEADY, queries=1, commits=1)
    assert sample_series(()) == Timeline(())
    assert series(sample_series((sample(0.0, status__Questions=5),))) == {}, "one sample is no rate"


def test_a_counter_that_was_reset_and_a_missing_value_give_no_rate() -> None:
    samples = (
        sample(0, status__Questions=5), sample(1, status__Questions=2), sample(2), sample(3, status__Questions=9),
    )  # fmt: skip
    assert "questions_per_s" not in series(sample_series(samples))
    more = (*samples, sample(4, status__Questions=19))
    assert series(sample_series(more))["questions_per_s"] == (None, None, None, None, 10)


def test_a_counter_below_zero_is_unknown() -> None:
    """8.0.31 prints it without a sign."""
    values = (2, 2**64 - 1, 4, 0)
    samples = [sample(at_s, status__Innodb_data_pending_fsyncs=value) for at_s, value in enumerate(values)]
    assert series(sample_series(samples))["pending_fsyncs"] == (2, None, 4, 0)
    assert averages(samples, queries=1, commits=1)["pending_fsyncs"] == 3


def test_coarse_clock_ticks_give_no_negative_rate() -> None:
    one = {"host__busy_s": 1.0, "clients__cpu_s": 0.0, "tool__cpu_s": 0.0}
    samples = (sample(0, process__cpu_s=1.0, **one), sample(1, process__cpu_s=1.01, **one))
    assert series(sample_series(samples))["others_cpus"] == (None, 0.0)


def test_the_first_name_of_a_figure_that_a_server_knows_counts() -> None:
    lsn = {"status__Innodb_redo_log_current_lsn": 900, "status__Innodb_redo_log_checkpoint_lsn": 300}
    assert series(sample_series((sample(0, **lsn),)))["checkpoint_age_bytes"] == (600,)
    both = sample(0, metric__log_lsn_checkpoint_age=77, **lsn)
    assert series(sample_series((both,)))["checkpoint_age_bytes"] == (77,)


def test_no_rate_is_computed_over_a_moment() -> None:
    times = (-1.0, -0.02, 0.001, 1.0, 2.0, 3.0, 3.03)
    assert sample_series(tuple(sample(at_s, process__cpu_s=1) for at_s in times)).at_s == (-1.0, 0.001, 1.0, 2.0, 3.0)


def test_a_long_series_is_thinned_out() -> None:
    timeline = sample_series(tuple(sample(float(at_s), status__Questions=7 * at_s) for at_s in range(1000)))
    assert len(timeline.at_s) == 200
    assert set(series(timeline)["questions_per_s"][1:]) == {7}


def test_each_second_of_the_clients_belongs_to_the_sample_at_its_end() -> None:
    rates = [(-1.0, 10.0), (0.0, 20.0), (1.0, 30.0), (2.0, 40.0), (3.0, 50.0), (4.0, 60.0), (5.0, 70.0)]
    # The sample of the second second is late, and that of the fourth is missing.
    timeline = Timeline((-1.3, 0.02, 1.01, 2.7, 3.0, 5.1))
    assert series(with_client_rates(timeline, rates))["qps"] == (10, 20, 30, None, 50, 70)
    assert with_client_rates(timeline, ()) == timeline
    assert with_client_rates(Timeline(()), rates) == Timeline((), {"qps": ()})


def test_no_poll_is_lost_between_samples_that_are_far_apart() -> None:
    rates = [(-1.0, 0.0), (0.0, 4.0), (1.0, 0.0), (2.0, 2.0), (3.0, 0.0), (4.0, 0.0)]
    timeline = Timeline((-4.0, -2.0, 0.02, 2.0, 3.98, 6.0))
    assert series(with_poll_rates(timeline, rates))["polls_per_s"] == (None, None, 2.0, 1.0, 0.0, None)
    assert with_poll_rates(timeline, ()) == timeline
    assert with_poll_rates(Timeline(()), rates) == Timeline(())


# -- averages


def test_averages_are_of_the_measured_time() -> None:
    warm_up = sample(-3.0, status__Questions=0, process__cpu_s=0.0, status__Threads_running=99)
    found = averages((warm_up, *STEADY), queries=1000, commits=8)
    assert found["questions_per_s"] == 50
    assert found["threads_running"] == 3
    assert found["server_cpus"] == 0.5
    assert found["server_cpu_us_per_query"] == 2000
    assert found["redo_bytes_per_commit"] == 2048
    assert found["table_open_cache_hit_share"] == 0.75
    assert "row_lock_wait_ms" not in found, "nobody waited"
    assert "fsyncs_per_commit" not in found
    # A level is not taken from the last sample: the work is over.
    over = replace(STEADY[-1], figures={**STEADY[-1].figures, "status.Threads_running": 1})
    assert averages((*STEADY[:-1], over), queries=1, commits=1)["threads_running"] == 3


def test_averages_do_not_include_what_was_done_before_the_first_sample() -> None:
    late = tuple(replace(one, at_s=one.at_s + 1) for one in STEADY)
    found = averages(late[2:], queries=1000, commits=8)
    assert (found["server_cpus"], found["questions_per_s"]) == (0.5, 50)
    assert found["server_cpu_us_per_query"] == 2500, "2 s of CPU for 800 of the 1000, which took 5 s"
    assert found["redo_bytes_per_commit"] == 2560
    later = tuple(replace(one, at_s=one.at_s + 5) for one in STEADY)
    assert averages(later[2:], queries=1000, commits=8) == {}, "4 s of 9"
    assert averages(STEADY, queries=1000, commits=8, load_s=60.0) == {}, "5 s of 60: the start was seen too late"
    questions = {-0.3: 10, 0.9: 90, 2.9: 150}
    without_first = [sample(at_s, status__Questions=count) for at_s, count in questions.items()]
    assert averages(without_first, queries=1, commits=1)["questions_per_s"] == 30


def test_averages_do_not_include_what_was_done_right_before_the_load() -> None:
    """Tables are read into memory then, and the sample that shows it may be closer to the beginning than its own."""
    before = sample(-0.05, status__Innodb_buffer_pool_reads=700, status__Questions=10)
    after = [sample(at_s, status__Innodb_buffer_pool_reads=1300, status__Questions=500 * at_s) for at_s in (0.2, 1.2)]
    assert first_measured_sample((before, *after)) is after[0]
    assert averages((before, *after), queries=500, commits=0)["buffer_pool_reads_per_s"] == 0
    assert first_measured_sample((sample(-2.0), before)) is before
    assert first_measured_sample(()) is None


def test_nothing_is_divided_by_no_queries_and_no_time() -> None:
    found = averages(STEADY, queries=0, commits=0)
    assert "server_cpu_us_per_query" not in found
    assert "redo_bytes_per_commit" not in found
    assert averages((), queries=1, commits=1) == {}
    assert averages(STEADY[:1], queries=1, commits=1) == {}


def test_waits_for_rows_and_spins() -> None:
    names = ("s_spin_rounds", "x_spin_rounds", "s_os_waits", "x_os_waits")
    before = sample(0, status__Innodb_row_lock_waits=5, status__Innodb_row_lock_time=100)
    after = sample(2, status__Innodb_row_lock_waits=9, status__Innodb_row_lock_time=180)
    spun = [{f"metric.innodb_rwlock_{name}": value for name in names} for value in (1, 11)]
    samples = (Sample(0, {**before.figures, **spun[0]}), Sample(2, {**after.figures, **spun[1]}))
    found = averages(samples, queries=40, commits=1)
    assert found["row_lock_wait_ms"] == 20
    assert found["rwlock_spin_rounds_per_query"] == 0.5
    assert found["rwlock_os_waits_per_s"] == 10


def test_a_counter_that_is_never_counted_gives_no_figure() -> None:
    names = ("s_spin_rounds", "x_spin_rounds", "sx_spin_rounds", "s_os_waits", "x_os_waits", "sx_os_waits")
    samples = tuple(Sample(at_s, {f"metric.innodb_rwlock_{name}": 0 for name in names}) for at_s in (0.0, 9.0))
    assert averages(samples, queries=40, commits=1) == {}


def test_every_figure_has_a_label() -> None:
    names = {*status_rates.COUNTER_SUMS, *status_rates.GAUGE_SUMS, *status_rates.AVERAGE_NAMES}
    assert len(names) > 25
    assert names <= set(METRICS)


# -- counters of the load, without those of the pollers beside it

REPORTS = """\
[ 1s ] thds: 2 tps: 7.99 qps: 7.99 (r/w/o: 7.99/0.00/0.00) lat (ms,99%): 215.44 err/s: 0.00 reconn/s: 0.00
table cache, poller 1 at 4711.250000 s: hits 30 of 1030, misses 400 of 402
table cache, poller 0 at 4712.500000 s, its last: hits 31 of 2031, misses 500 of 903
table cache, poller 0 at 4712.5
"""
BEGAN_S, OVER_S = 1000.0, 1010.0
POLL_S, MISSES_PER_POLL = 0.7, 60


def poller_misses(at_s: float) -> float:
    """Misses of a poller from before the load until after it: all of a poll's within its first tenth."""
    polls, within = divmod(max(0.0, min(at_s, BEGAN_S + 10.5) - BEGAN_S + 1.9), POLL_S)
    return MISSES_PER_POLL * (polls + min(1.0, within / (POLL_S / 10)))


def load_misses(at_s: float, rate: float) -> float:
    """The load ends before the pollers do."""
    return rate * (min(at_s, OVER_S) - BEGAN_S + 5)


def shared_samples(rate: float, pollers: int = 1) -> tuple[Sample, ...]:
    """At the last of them the load has been over for a while."""
    times = (*(BEGAN_S + second for second in range(-4, 10)), OVER_S + 0.2)
    return tuple(
        sample(
            round(at_s - BEGAN_S, 3),
            status__Table_open_cache_misses=load_misses(at_s, rate)
            + sum(poller_misses(at_s + 0.11 * poller) for poller in range(pollers)),
            status__Table_open_cache_hits=7.0 * load_misses(at_s, 100),
        )
        for at_s in times
    )


def counter_reports(rate: float, pollers: int = 1) -> tuple[CounterReport, ...]:
    """Each poller reports after every second poll, and at its end."""
    reports = []
    for poller in range(pollers):
        times = [BEGAN_S - 1.9 - 0.11 * poller + 2 * POLL_S * number - 1e-6 for number in range(9)]
        for at_s in (*times, BEGAN_S + 10.6):
            parts = [poller_misses(at_s + 0.11 * one) for one in range(pollers)]
            own = (0, round(parts[poller]))
            everything = (round(7 * load_misses(at_s, 100)), round(load_misses(at_s, rate) + sum(parts)))
            reports.append(CounterReport(at_s, poller, own, everything, at_s > OVER_S))
    return tuple(reports)


def with_load_counters(rate: float, reports: tuple[CounterReport, ...], pollers: int = 1) -> tuple[Sample, ...]:
    samples = shared_samples(rate, pollers)
    return add_load_counters(samples, PollerCounters(pollers, OVER_S, reports), began_s=BEGAN_S)


def load_averages(rate: float, pollers: int = 1) -> dict[str, float]:
    reports = counter_reports(rate, pollers) if pollers else ()
    return averages(with_load_counters(rate, reports, pollers), queries=1, commits=1)


def test_the_reports_of_pollers_are_found_among_other_lines() -> None:
    assert parse_counter_reports(REPORTS) == (
        CounterReport(4711.25, 1, own=(30, 400), all=(1030, 402)),
        CounterReport(4712.5, 0, own=(31, 500), all=(2031, 903), is_last=True),
    )


@pytest.mark.parametrize("rate", [0.0, 3000.0])
def test_the_counters_of_the_load_are_what_the_poller_did_not_cause(rate: float) -> None:
    """The poller causes some 85 misses a second, in leaps."""
    found = load_averages(rate)
    seconds = OVER_S + 0.2 - BEGAN_S
    assert found["load_table_open_cache_misses_per_s"] == pytest.approx(rate * 10 / seconds, abs=0.3)
    assert found["table_open_cache_misses_per_s"] > rate * 10 / seconds + 80
    assert found["load_table_open_cache_hits_per_s"] == pytest.approx(found["table_open_cache_hits_per_s"], abs=0.3)
    share = 700 / (700 + rate)
    assert found["load_table_open_cache_hit_share"] == pytest.approx(share, abs=0.001)


def test_with_several_pollers_the_counters_are_right_to_a_few_polls() -> None:
    found = load_averages(0.0, pollers=3)
    assert found["table_open_cache_misses_per_s"] > 240
    assert found["load_table_open_cache_misses_per_s"] < 3 * MISSES_PER_POLL / 10


def test_without_pollers_all_counters_are_those_of_the_load() -> None:
    found = load_averages(50.0, pollers=0)
    assert found["load_table_open_cache_misses_per_s"] == found["table_open_cache_misses_per_s"] > 40


def test_the_counters_of_the_load_have_a_series() -> None:
    timeline = sample_series(with_load_counters(50.0, counter_reports(50.0)))
    values = series(timeline)["load_table_open_cache_misses_per_s"]
    assert values[0] is None
    assert values[1:-1] == pytest.approx([50.0] * (len(values) - 2), abs=1)


def test_without_the_last_report_of_a_poller_the_end_is_unknown() -> None:
    reports = tuple(one for one in counter_reports(50.0) if not one.is_last)
    found = with_load_counters(50.0, reports)
    assert "load.Table_open_cache_misses" not in found[-1].figures
    expected = load_misses(found[5].at_s + BEGAN_S, 50.0)
    assert found[5].figures["load.Table_open_cache_misses"] == pytest.approx(expected, abs=2)
    figures = averages(found, queries=1, commits=1)
    assert "load_table_open_cache_misses_per_s" not in figures
    assert "table_open_cache_misses_per_s" in figures


def test_without_all_reports_or_without_counters_nothing_is_added() -> None:
    for counters in (PollerCounters(1, OVER_S), PollerCounters(2, OVER_S, counter_reports(9.0))):
        assert add_load_counters(shared_samples(9.0), counters, began_s=BEGAN_S) == shared_samples(9.0)
    bare = tuple(replace(one, figures={}) for one in shared_samples(9.0))
    assert add_load_counters(bare, PollerCounters(0, OVER_S), began_s=BEGAN_S) == bare, "as in MariaDB 10.2"


# -- waits of threads

MUTEX_5_7 = (
    ("InnoDB", "rwlock: btr0sea.cc:202", "waits=3"),
    ("InnoDB", "rwlock: btr0sea.cc:202", "waits=4"),
    ("InnoDB", "LOG_SYS", "spins=90,waits=2,calls=900"),
)


def test_waits_are_the_growth_between_two_moments() -> None:
    before = parse_mutexes(MUTEX_5_7)
    assert mutex_totals(before) == {"mutex.waits": 9, "mutex.spins": 90}
    after = parse_mutexes(
        (*MUTEX_5_7, ("InnoDB", "LOG_SYS", "spins=10,waits=5,calls=60"), ("InnoDB", "NEW", "waits=1"))
    )
    assert waits_between(before, after) == (
        ThreadWait("innodb mutex", "LOG_SYS", 5),
        ThreadWait("innodb mutex", "NEW", 1),
    )
    assert mutex_totals({}) == {}


def test_the_largest_waits_of_each_source_are_kept() -> None:
    """They are sorted by time if the source has one."""
    after = parse_events((f"wait/synch/mutex/{number}", 100 - number, number * 10**12) for number in range(30))
    after |= parse_mutexes(("InnoDB", f"lock {number}", f"os_waits={number}") for number in range(30))
    after |= lock_counts({"status.Innodb_row_lock_waits": 2, "status.Innodb_row_lock_time": 1500})
    found = waits_between({}, after)
    assert [one.count for one in found[:10]] == list(range(29, 19, -1))
    assert [one.wait_s for one in found[10:20]] == [float(number) for number in range(29, 19, -1)]
    assert found[20:] == (ThreadWait("status", "row locks", 2, 1.5),)


def recorded_mutexes(server: str) -> WaitCounts:
    path = Path(__file__).parents[2] / "fixtures" / "mutex" / f"{server}.tsv"
    return parse_mutexes(tuple(line.split("\t")) for line in path.read_text().splitlines())


@pytest.mark.parametrize(
    ("server", "largest", "total"),
    [
        ("mysql-5.6.24", ThreadWait("innodb mutex", "combined buf0buf.cc:1021", 132), 421),
        ("mysql-5.7.22", ThreadWait("innodb mutex", "SRV_SYS", 1952), 3017),
        ("mysql-8.0.31", ThreadWait("innodb mutex", "LOCK_SYS_PAGE", 1232), 3312),
        ("mariadb-10.2.11", ThreadWait("innodb mutex", "sum rwlock: buf0buf.cc:1471", 58), 59),
    ],
)
def test_the_mutexes_of_each_generation(server: str, largest: ThreadWait, total: int) -> None:
    found = recorded_mutexes(server)
    assert waits_between({}, found)[0] == largest
    assert mutex_totals(found)["mutex.waits"] == total
    assert ("mutex.spins" in mutex_totals(found)) == (server in ("mysql-5.7.22", "mysql-8.0.31"))


def test_mariadb_10_11_does_not_report_its_mutexes() -> None:
    assert recorded_mutexes("mariadb-10.11.5") == {}


# -- sampling and storage


def test_stored_samples_are_read_back_the_same(tmp_path: Path) -> None:
    samples = [*STEADY, Sample(5.123, {"metric.a,b": 2**53, "look_s": 1e-06, "status.neg": -3})]
    for name in ("a.csv.gz", "b.csv.gz"):
        write_samples(tmp_path / name, samples)
        assert read_samples(tmp_path / name) == samples
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    write_samples(tmp_path / "none.csv.gz", ())
    assert read_samples(tmp_path / "none.csv.gz") == []


def test_a_server_that_does_not_answer_gives_no_samples(tmp_path: Path) -> None:
    attempts = 0

    def refused() -> Connection[Cursor]:
        nonlocal attempts
        attempts += 1
        return connect(tmp_path / "no.sock")

    with Sampler(refused, os.getpid(), Device(), clients=lambda: None, every_s=0.01) as sampler:
        sampler.begin()
        until(lambda: attempts > 5, "some attempts")
        sampler.end()
    assert (sampler.samples, sampler.waits, sampler.whole) == ((), (), False)
    assert "sampler" not in {thread.name for thread in threading.enumerate()}


def test_the_counters_of_a_device_and_the_memory_of_a_process(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(" 7 0 16 1 5 0 24 2 0 1500 1 0 0 0 0 0 0\n")
    assert read_device_counters(Device(stat_path=tmp_path / "stat")) == DeviceCounters(7, 5, 8192, 12288, 1.5)
    assert read_device_counters(Device()) is None
    memory = process_resident_bytes(os.getpid())
    assert memory is not None
    assert 1 << 20 < memory < 1 << 34
