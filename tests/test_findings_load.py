"""Is every doubt about a server at work said where its condition is, and only there?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from at_work import FORMS, interference, metadata, write_scaling

from recovery.analysis.summary import all_variant_ratios
from recovery.analysis.warnings import findings
from recovery.experiments import find_scenario
from recovery.experiments.experiment import ExperimentRequest, HostCapacity
from recovery.model import Finding, HostActivity, LoadTimeline, Run, Schema, Series, Session, parse_version
from recovery.session.plan import make_plan
from recovery.session.request import Request
from recovery.session.store import session_from_request, without_dedicated_cpus


def kinds(session: Session) -> list[str]:
    return [one.kind for one in findings(session)]


def one(session: Session, kind: str) -> Finding:
    (found,) = [each for each in findings(session) if each.kind == kind]
    assert found.hint, "each says what to do"
    return found


def changed(session: Session, change: Callable[[Run], Run], *, numbers: tuple[int, ...] = (1,)) -> Session:
    return replace(session, runs=tuple(change(run) if run.number in numbers else run for run in session.runs))


def measured(**figures: float) -> Callable[[Run], Run]:
    return lambda run: replace(run, measures={**run.measures, **figures})


SMALL = interference(caches=("400",))


@pytest.mark.parametrize("name", ["metadata", "interference", "write-scaling"])
def test_a_quiet_session_has_none(name: str) -> None:
    assert findings(FORMS[name]()) == ()


def test_doubts_about_starts_are_not_said_of_work() -> None:
    """However slow its start was: it is not what was measured."""
    started = changed(SMALL, lambda run: replace(run, startup_s=90.0, first_query_s=91.0, ready_lag_s=5.0))
    assert findings(started) == ()


def test_clients_without_a_cpu_left() -> None:
    every = tuple(range(1, 13))
    busy = replace(SMALL, settings={**SMALL.settings, "threads": 2})
    found = one(changed(busy, measured(client_cpus=1.9), numbers=(1, 5, 9)), "client-was-the-bottleneck")
    assert found.about == "5.7.22 poll=off"
    assert "1.9 of the 2 CPUs" in found.text
    pinned = replace(SMALL, settings={**SMALL.settings, "threads": 8, "client_cpus": "2-3,6"})
    assert (
        "of the 3"
        in one(changed(pinned, measured(client_cpus=2.9), numbers=(1, 5, 9)), "client-was-the-bottleneck").text
    )
    two = changed(SMALL, measured(client_cpus=1.9, server_cpus=1.0), numbers=(1, 5, 9))
    two = replace(two, settings={**SMALL.settings, "threads": 8, "client_cpus": 2})
    assert kinds(two) == ["client-was-the-bottleneck"]
    assert kinds(without_dedicated_cpus(two)) == [], "the host did not put them there, and a CPU was idle"
    shared = changed(SMALL, measured(client_cpus=1.5, server_cpus=2.4), numbers=(1, 5, 9))
    assert "share the CPUs" in one(shared, "client-was-the-bottleneck").text
    starved = changed(SMALL, measured(client_cpus=0.6, server_cpus=0.1, others_cpus=3.2), numbers=(1, 5, 9))
    assert "share the CPUs" in one(starved, "client-was-the-bottleneck").text, "more than the server, whoever else runs"
    left = changed(SMALL, measured(client_cpus=1.5, server_cpus=1.0), numbers=every)
    assert "client-was-the-bottleneck" not in kinds(left)


@pytest.mark.parametrize(("last", "told"), [(100.0, False), (108.0, False), (130.0, True), (80.0, True)])
def test_a_load_that_never_warmed_up(last: float, *, told: bool) -> None:
    at_s = tuple(float(second) for second in range(-10, 31))
    values = tuple(5.0 if at <= 0 else 100.0 if at <= 20 else last for at in at_s)
    watched = LoadTimeline(at_s, (Series("qps", values),))
    session = changed(SMALL, lambda run: replace(run, watched=watched))
    assert ("never-warmed-up" in kinds(session)) is told
    if told:
        assert "run 1" in one(session, "never-warmed-up").text


def ages(values: Sequence[float | None], *, warmup: Sequence[float] = ()) -> Callable[[Run], Run]:
    """One a second, the first of them a second after the warm-up."""
    at_s = tuple(float(second) for second in range(-len(warmup), len(values) + 1))
    series = Series("checkpoint_age_bytes", (*warmup, 0.0, *values))
    return lambda run: replace(run, watched=LoadTimeline(at_s, (series,)))


def filling(seconds: int, *, since: int = 0) -> list[float | None]:
    return [5e6 * (since + at + 1) for at in range(seconds)]


# Of real servers, in millions, under updates by four clients: 5.7.22 and 8.0.31 with a log of 32 MiB, and MariaDB
# 10.11.5 with one of a gigabyte.
FULL = (
    [0.0, 0.0, 0.0, 3.7, 9.2, 13.1, 16.3, 20.0, 21.3, 24.2, 22.2, 24.6, 15.7, 19.8, 18.8, 22.8, 25.1, 20.9, 24.3, 18.7,
     21.2, 15.3, 19.0, 22.7, 24.9, 25.0, 24.7],
    [0.1, 3.3, 6.3, 10.6, 13.0, 16.1, 19.9, 23.0, 26.6, 25.7, 23.2, 26.9, 20.9, 23.8, 26.8, 19.0, 21.0, 22.9, 25.1,
     18.9, 21.7],
)  # fmt: skip
NOT_FULL = [1.9, 4.9, 10.1, 13.2, 14.1, 15.7, 17.0, 18.2, 19.5, 20.7, 21.7, 27.5]


def millions(values: Sequence[float]) -> list[float | None]:
    return [1e6 * value for value in values]


def wave(seconds: int, period: float, *, share: float = 0.3) -> list[float | None]:
    return [6e8 * (1 + share * math.sin(2 * math.pi * at / period)) for at in range(seconds)]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (millions(NOT_FULL), True),
        (millions(FULL[0]), False),
        (millions(FULL[1]), False),
        (filling(60), True),
        (filling(10), True),
        (filling(60, since=60), True),
        (filling(8), False),
        ([value and value / 1000 for value in filling(60)], False),
        ([*filling(40), *(2e8 for _ in range(20))], False),
        (wave(60, 7.3), False),
        (wave(60, 25), False),
        (wave(60, 40), False),
        (wave(12, 5), False),
        ([*wave(58, 9, share=0.01), 9e8, 9e8], False),
        ([None if at % 5 == 3 else value for at, value in enumerate(filling(60))], True),
        ([], False),
    ],
)  # fmt: skip
def test_a_log_that_was_not_full_yet(values: list[float | None], *, told: bool) -> None:
    session = changed(SMALL, ages(values, warmup=[1e9] * 10))
    assert ("log-still-filling" in kinds(session)) is told


def test_how_full_the_log_was_is_told() -> None:
    of_two = {"5.7.22": {"@innodb_log_file_size": str(1 << 29), "@innodb_log_files_in_group": "2"}}
    session = changed(SMALL, ages(filling(60)))
    assert "to 300 MB, in run 1:" in one(session, "log-still-filling").text
    found = one(replace(session, servers=of_two), "log-still-filling")
    assert (found.about, "to 300 MB of 1,074 MB, in run 1:" in found.text) == ("5.7.22 poll=off", True)
    both = {"5.7.22": {"@innodb_log_file_size": "50331648", "@innodb_redo_log_capacity": "1073741824"}}
    assert "of 1,074 MB" in one(replace(session, servers=both), "log-still-filling").text
    assert all(word in found.hint for word in ("SECONDS=", "WARMUP=", "innodb_redo_log_capacity="))


def test_a_short_load_and_few_runs() -> None:
    short = replace(SMALL, settings={**SMALL.settings, "seconds": 10})
    assert "10 s" in one(short, "short-run").text
    assert "short-run" not in kinds(replace(metadata(), settings={**metadata().settings, "seconds": 10}))
    few = interference(caches=("400",), runs=2)
    assert "few-runs" in kinds(few)


def test_others_at_work() -> None:
    found = one(changed(SMALL, measured(others_cpus=0.7)), "other-cpu-load")
    assert (found.about, "0.7 CPUs" in found.text) == ("5.7.22 poll=off", True)
    alone = changed(metadata(), lambda run: replace(run, around=HostActivity(10.0, others_cpu_s=5.0)))
    assert "other-cpu-load" in kinds(alone), "where the sampler did not tell"
    reading = HostActivity(60.0, others_read_bytes=500_000_000)
    assert "500 MB" in one(changed(SMALL, lambda run: replace(run, around=reading)), "other-disk-load").text
    journal = HostActivity(60.0, others_written_bytes=500_000_000)
    own = measured(written_bytes_per_s=2e7)
    assert "other-disk-load" not in kinds(changed(SMALL, lambda run: own(replace(run, around=journal))))
    stolen = HostActivity(60.0, steal_s=6.0)
    found = one(changed(SMALL, lambda run: replace(run, around=stolen)), "steal")
    assert (found.about, "10%" in found.text) == ("5.7.22 poll=off", True)


def test_a_wide_spread_of_the_figure() -> None:
    found = one(changed(SMALL, measured(qps=20000.0)), "wide-interval")
    assert found.about == "5.7.22 poll=off"
    assert "+- " in found.text


def test_polls_that_did_not_run() -> None:
    silent = changed(SMALL, measured(polls_per_s=0.0), numbers=(3,))
    assert one(silent, "polls-did-not-run").about == "5.7.22 poll=on"
    without = changed(SMALL, lambda run: replace(run, measures={"qps": run.measures["qps"]}), numbers=(3,))
    assert "polls-did-not-run" in kinds(without)


def test_errors_of_transactions() -> None:
    few, many = 60 * 2316 * 0.0005, 60 * 2316 * 0.05
    assert "errors" not in kinds(changed(SMALL, measured(client_errors=few, elapsed_s=60)))
    assert "5.0%" in one(changed(SMALL, measured(client_errors=many, elapsed_s=60)), "errors").text
    assert "2.5%" in one(changed(SMALL, measured(client_errors=many, elapsed_s=120)), "errors").text, "its own time"


def test_what_holds_for_many_cells_is_said_once() -> None:
    session = write_scaling()
    noisy = changed(session, measured(others_cpus=1.0), numbers=tuple(range(1, 21)))
    found = one(noisy, "other-cpu-load")
    assert found.about == "20 cells"
    assert found.text.endswith("; 15 more.")


def lowered(*values: str, effective: str) -> Session:
    """A table cache of other values asked for, and the same in effect for all of them."""
    session = interference(caches=values)
    servers = {
        f"5.7.22 table_open_cache={value}": {
            "options": f"max_connections=1000 table_open_cache={value}",
            "@table_open_cache": effective,
            "@open_files_limit": "4096",
        }
        for value in values
    }
    return replace(session, servers=servers, axes=(replace(session.axes[0], base=values[0]), session.axes[1]))


def test_an_option_that_is_not_in_effect_is_told_once_for_all_its_cells() -> None:
    found = one(lowered("4000", effective="1533"), "option-not-in-effect")
    assert found.about == "5.7.22 table_open_cache=4000"
    assert found.text == "table_open_cache=4000 was requested, 1533 is in effect."
    assert "4096 here" in found.hint
    assert "option-not-in-effect" not in kinds(lowered("4000", effective="4000"))


def test_two_cells_with_the_same_in_effect_are_not_held_against_each_other() -> None:
    session = lowered("4000", "20000", effective="1533")
    told = [each.text for each in findings(session) if each.kind == "option-not-in-effect"]
    assert len(told) == 2
    assert all("these cells are not compared" in text for text in told)
    assert {held.axis for held in all_variant_ratios(session) if held.version == "5.7.22"} == {"poll"}
    assert {held.axis for held in all_variant_ratios(session) if held.version == "8.0.31"} == {
        "poll",
        "table_open_cache",
    }


def test_a_load_that_reads_what_was_to_be_in_memory() -> None:
    read = measured(buffer_pool_reads_per_s=2000.0)
    found = one(changed(SMALL, read), "not-in-memory")
    assert (found.about, "0.043 pages per query" in found.text) == ("5.7.22 poll=off", True)
    assert "not-in-memory" not in kinds(changed(SMALL, measured(buffer_pool_reads_per_s=20.0)))
    slow = changed(SMALL, measured(qps=500.0, buffer_pool_reads_per_s=8.0), numbers=tuple(range(1, 13)))
    assert "not-in-memory" not in kinds(slow), "a few pages of the server's own"
    asked = replace(SMALL, settings={**SMALL.settings, "memory_ratio": 4.0})
    assert "not-in-memory" not in kinds(changed(asked, read)), "that was asked for"
    larger = write_scaling()
    of = {run.number: larger.cells[run.variant]["question"] for run in larger.runs}
    numbers = tuple(number for number, question in of.items() if question in ("larger-than-memory", "compression"))
    assert "not-in-memory" not in kinds(changed(larger, read, numbers=numbers)), "that is the question"
    by_the_process = changed(SMALL, measured(read_bytes_per_s=4e7))
    assert "not-in-memory" in kinds(by_the_process), "a server that does not count them"
    assert "not-in-memory" not in kinds(changed(metadata(), measured(buffer_pool_reads_per_s=1e6, qps=1.0)))


def test_a_pool_that_is_smaller_than_the_tables() -> None:
    small = {"5.7.22": {"@innodb_buffer_pool_size": str(10 << 30), "data_bytes": str(20 << 30), "tables": "1000"}}
    session = replace(SMALL, servers=small)
    found = next(each for each in findings(session) if each.kind == "not-in-memory")
    assert "20.9 GB, more than the 10.7 GB" in found.text
    few = {name: {**cell, "tables": "100"} for name, cell in session.cells.items()}
    assert "not-in-memory" not in kinds(replace(session, cells=few)), "a tenth of the tables fits"


def test_a_dump_is_one_thread() -> None:
    dumped = changed(
        metadata(), lambda run: measured(client_cpus=0.9)(replace(run, clients={"dump": "mariadb-dump"})),
        numbers=tuple(run.number for run in metadata().runs if run.variant == "dump" and run.version == "5.7.22"),
    )  # fmt: skip
    pinned = replace(dumped, settings={**dumped.settings, "client_cpus": 4})
    assert "of the 1 CPUs that they could use" in one(pinned, "client-was-the-bottleneck").text
    asked = changed(metadata(), measured(client_cpus=0.9), numbers=tuple(range(1, 31)))
    idle = replace(asked, settings={**asked.settings, "client_cpus": 1})
    assert "client-was-the-bottleneck" not in kinds(idle), "who asks is pinned nowhere"


@pytest.mark.parametrize(("name", "stored"), [("table-cache", "3,7"), ("metadata", None)])
def test_only_who_is_pinned_is_stored_as_that(name: str, stored: str | None, tmp_path: Path) -> None:
    scenario, work = find_scenario(name), ExperimentRequest(threads=(1,), client_cpus="3,7")
    assert scenario.experiment is not None
    schema = Schema(10, rows=10)
    works = scenario.experiment.works(work, schema, HostCapacity(12, 8 << 30))
    request = Request(name, works, ("5.7.22",), schema, 1, tmp_path, tmp_path, work=work)
    plan = make_plan([parse_version("5.7.22")], request.measured, repeats=1, alternating=True)
    session = session_from_request(request, scenario, plan, environment={}, engine="local", tool_version="1")
    assert session.settings["client_cpus"] == stored
