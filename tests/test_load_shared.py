"""Is what the load did itself told apart from what was done for those who ask beside it?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from recovery.workload.poller import CounterReport, PollerCounters, add_load_counters, parse_counter_reports
from recovery.workload.status_rates import averages, sample_series
from recovery.workload.status_sampler import Sample

WROTE = """\
[ 1s ] thds: 2 tps: 7.99 qps: 7.99 (r/w/o: 7.99/0.00/0.00) lat (ms,99%): 215.44 err/s: 0.00 reconn/s: 0.00
table cache, poller 1 at 4711.250000 s: hits 30 of 1030, misses 400 of 402
table cache, poller 0 at 4712.500000 s, its last: hits 31 of 2031, misses 500 of 903
table cache, poller 0 at 4712.5
"""
BEGAN_S, OVER_S = 1000.0, 1010.0
QUESTION_S, ITS_MISSES = 0.7, 60


def asked(at_s: float, since_s: float = BEGAN_S - 1.9, until_s: float = BEGAN_S + 10.5) -> float:
    """Misses of a poller that asks on and on: all of a question's within its first tenth."""
    questions, within = divmod(max(0.0, min(at_s, until_s) - since_s), QUESTION_S)
    return ITS_MISSES * (questions + min(1.0, within / (QUESTION_S / 10)))


def own(at_s: float, rate: float) -> float:
    """The load's, which ends before the pollers do."""
    return rate * (min(at_s, OVER_S) - BEGAN_S + 5)


def looks(rate: float, pollers: int = 1) -> tuple[Sample, ...]:
    """At the last of them the load has been over for a while."""
    times = (*(BEGAN_S + second for second in range(-4, 10)), OVER_S + 0.2)
    return tuple(
        Sample(round(at_s - BEGAN_S, 3), {
            "status.Table_open_cache_misses": own(at_s, rate) + sum(asked(at_s + 0.11 * one) for one in range(pollers)),
            "status.Table_open_cache_hits": 7.0 * own(at_s, 100),
        })
        for at_s in times
    )  # fmt: skip


def telling(rate: float, pollers: int = 1) -> tuple[CounterReport, ...]:
    """Each after every second question, and at its end."""
    found = []
    for poller in range(pollers):
        times = [BEGAN_S - 1.9 - 0.11 * poller + 2 * QUESTION_S * number - 1e-6 for number in range(9)]
        for at_s in (*times, BEGAN_S + 10.6):
            parts = [asked(at_s + 0.11 * one) for one in range(pollers)]
            misses = (round(parts[poller]), round(own(at_s, rate) + sum(parts)))
            hits = (0, round(7 * own(at_s, 100)))
            found.append(CounterReport(at_s, poller, (hits[0], misses[0]), (hits[1], misses[1]), at_s > OVER_S))
    return tuple(found)


def measured(rate: float, told: tuple[CounterReport, ...], pollers: int = 1) -> dict[str, float]:
    found = add_load_counters(looks(rate, pollers), PollerCounters(pollers, OVER_S, told), began_s=BEGAN_S)
    return averages(found, queries=1, commits=1)


def test_what_pollers_wrote_is_read_among_the_rest() -> None:
    assert parse_counter_reports(WROTE) == (
        CounterReport(4711.25, 1, own=(30, 400), all=(1030, 402)),
        CounterReport(4712.5, 0, own=(31, 500), all=(2031, 903), is_last=True),
    )


@pytest.mark.parametrize("rate", [0.0, 3000.0])
def test_what_is_left_is_the_loads(rate: float) -> None:
    found = measured(rate, telling(rate))
    seconds = OVER_S + 0.2 - BEGAN_S
    # Nothing is made out of nothing, though the poller alone comes to some 85 a second, by leaps.
    assert found["load_table_open_cache_misses_per_s"] == pytest.approx(rate * 10 / seconds, abs=0.3)
    assert found["table_open_cache_misses_per_s"] > rate * 10 / seconds + 80
    assert found["load_table_open_cache_hits_per_s"] == pytest.approx(found["table_open_cache_hits_per_s"], abs=0.3)
    share = 700 / (700 + rate)
    assert found["load_table_open_cache_hit_share"] == pytest.approx(share, abs=0.001)


def test_of_several_pollers_it_is_right_to_a_few_questions() -> None:
    found = measured(0.0, telling(0.0, 3), 3)
    assert found["table_open_cache_misses_per_s"] > 240
    assert found["load_table_open_cache_misses_per_s"] < 3 * ITS_MISSES / 10


def test_a_load_alone_has_all_of_it() -> None:
    found = measured(50.0, (), 0)
    assert found["load_table_open_cache_misses_per_s"] == found["table_open_cache_misses_per_s"] > 40


def test_it_is_drawn_over_time_and_before_anybody_asked_all_is_the_loads() -> None:
    found = sample_series(add_load_counters(looks(50.0), PollerCounters(1, OVER_S, telling(50.0)), began_s=BEGAN_S))
    values = next(one.values for one in found.series if one.name == "load_table_open_cache_misses_per_s")
    assert values[0] is None
    assert values[1:-1] == pytest.approx([50.0] * (len(values) - 2), abs=1)


def test_a_poller_that_was_ended_leaves_its_end_untold() -> None:
    told = tuple(one for one in telling(50.0) if not one.is_last)
    found = add_load_counters(looks(50.0), PollerCounters(1, OVER_S, told), began_s=BEGAN_S)
    assert "load.Table_open_cache_misses" not in found[-1].figures
    assert found[5].figures["load.Table_open_cache_misses"] == pytest.approx(own(found[5].at_s + BEGAN_S, 50.0), abs=2)
    figures = averages(found, queries=1, commits=1)
    assert "load_table_open_cache_misses_per_s" not in figures
    assert "table_open_cache_misses_per_s" in figures


def test_who_tells_nothing_leaves_nothing_to_be_told() -> None:
    assert add_load_counters(looks(9.0), PollerCounters(1, OVER_S), began_s=BEGAN_S) == looks(9.0)
    one_of_two = telling(9.0)
    assert add_load_counters(looks(9.0), PollerCounters(2, OVER_S, one_of_two), began_s=BEGAN_S) == looks(9.0)
    mute = tuple(replace(one, figures={}) for one in looks(9.0))
    assert add_load_counters(mute, PollerCounters(0, OVER_S), began_s=BEGAN_S) == mute, "MariaDB 10.2 counts none of it"
