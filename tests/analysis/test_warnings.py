"""Each warning is given where its condition holds, and only there. tests/real produces the conditions themselves."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import pytest
from at_work import SMALL, interference, metadata, write_scaling
from request_parts import make_plan, new_request
from runs import make_run, plain_variants, values_of_all, variants_with, with_axis_values, with_parts
from sessions import with_metrics

from recovery.analysis.combined import combine_sessions
from recovery.analysis.summary import all_variant_ratios, runs_words
from recovery.analysis.warnings import drift, findings
from recovery.experiments import find_experiment
from recovery.experiments.experiment import HostCapacity
from recovery.linux.procfs import CoreSplit
from recovery.model import (
    ExtraRun,
    Finding,
    HostActivity,
    Phase,
    Run,
    Schema,
    Session,
    Timeline,
    Verdict,
    parse_version,
)
from recovery.session import store as session_store
from recovery.session.store import session_from_request
from recovery.storage.sessions import load_session

STEADY = (10.0, 10.1, 9.9, 10.05, 9.95)
GB = 10**9


def kinds(found: Session) -> list[str]:
    return [one.kind for one in findings(found)]


def one(found: Session, kind: str) -> Finding:
    (finding,) = [each for each in findings(found) if each.kind == kind]
    assert finding.hint, "each says what to do"
    return finding


# --- Starts


def runs_of(times: Sequence[float], *, variant: str = "cold", version: str = "5.7.22", first: int = 1) -> list[Run]:
    return [
        make_run(
            number, version, "mysql", variant, repeat, Verdict.MEASURED,
            metrics={"startup_s": seconds, "first_query_s": seconds, "reads_per_s": 5000.0,
                     "read_bytes": 5 * GB if variant == "cold" else 10**6},
            phases=(Phase("validation", 0.0, seconds),), host_activity=HostActivity(seconds=seconds, others_cpu_s=0.01),
            means="drop_caches" if variant == "cold" else None,
            resident_bytes=0 if variant == "cold" else None,
        )
        for repeat, (number, seconds) in enumerate(enumerate(times, start=first), start=1)
    ]  # fmt: skip


def session(*cells: list[Run], **settings: str | int | bool | None) -> Session:
    runs = tuple(run for cell in cells for run in cell)
    versions = tuple(dict.fromkeys(run.version for run in runs))
    return with_axis_values(Session(
        "crash-recovery", "q", "c", "s", {"memory_bytes": 16 * GB, "device": "/dev/vdb"}, {"runs": 5, **settings},
        versions, plain_variants(*dict.fromkeys(run.variant for run in runs)), len(runs),
        servers={version: {"@version": version, "data_bytes": str(5 * GB)} for version in versions}, runs=runs,
    ))  # fmt: skip


COLD, WARM = runs_of(STEADY), runs_of(STEADY, variant="warm", first=6)


def with_run(at: int, **figures: object) -> list[Run]:
    """The cold runs, of which one has other figures."""
    return [with_parts(run, **figures) if number == at else run for number, run in enumerate(COLD)]


def with_size(at: int, read_bytes: int) -> list[Run]:
    return [with_metrics(run, read_bytes=read_bytes) if number == at else run for number, run in enumerate(COLD)]


def with_all(**figures: object) -> list[Run]:
    return [with_parts(run, **figures) for run in COLD]


def cold(*times: float, **settings: int) -> Session:
    return session(runs_of(times), **settings)


def beside_runs(**figures: float) -> Session:
    """A session with this activity during run 4."""
    return session(with_run(3, host_activity=HostActivity(seconds=10.0, **figures)))  # type: ignore[arg-type]


DEBUG = replace(session(COLD), servers={"5.7.22": {"@version": "5.7.22-debug"}})


@pytest.mark.parametrize(
    ("found", "kind", "text"),
    [
        (cold(20.0, 10.0, 10.1, 9.9, 10.2), "slow-first-run", "The first run took 20.0 s, the others 9.90 to 10.2 s."),
        (cold(14.0, 10.0, 9.9, 9.8, 9.7), "slow-first-run", "The first run took 14.0 s"),
        (cold(10.0, 10.1, 9.9, 20.0, 10.2), "outlier", "run 4 of 5 (20.0 s)"),
        (cold(10.0, 10.6, 11.1, 11.5, 12.2), "drift", ""),
        (cold(12.2, 11.5, 11.1, 10.6, 10.0), "drift", ""),
        (cold(51.0, 41.3, 46.8, 34.1, 30.0), "drift", "fell from run to run, from 51.0 to 30.0 s"),
        (cold(10.0, 10.95, 12.0), "drift", "rose from run to run, from 10.0 to 12.0 s"),
        (cold(8.0, 14.0, 9.0, 15.0, 10.0), "wide-interval", "+- "),
        (
            replace(cold(8.0, 9.0, 8.5, 9.5, 8.0), settings={"precision": 0.05}),
            "precision-missed",
            "The 95 % interval of the mean in this session is +- 10.4 %; +- 5 % was requested.",
        ),
        (cold(10.0, 10.1, runs=2), "few-runs", ""),
        (session(with_size(1, GB)), "cold-was-not", "Only 1000 MB were read in run 2 of 5"),
        (session(with_size(1, 0)), "cold-was-not", "Only 0 MB were read in run 2 of 5"),
        (session(with_all(resident_bytes=None)), "cold-not-proved", ""),
        (session(with_run(0, ready_lag_s=0.5)), "late-log", ""),
        (beside_runs(others_cpu_s=5.0), "other-cpu-load", "run 4 of 5"),
        (beside_runs(others_read_bytes=GB), "other-disk-load", "run 4 of 5"),
        (beside_runs(others_written_bytes=GB), "other-disk-load", "run 4 of 5"),
        (beside_runs(steal_s=1.0), "steal", "run 4 of 5"),
        (beside_runs(throttled_s=1.0), "throttled", "run 4 of 5"),
        (beside_runs(tool_cpu_s=8.0), "busy-client", "run 4 of 5"),
        (DEBUG, "debug-build", ""),
    ],
)
def test_a_doubtful_session_of_starts_has_its_warning(found: Session, kind: str, text: str) -> None:
    warning = one(found, kind)
    assert text in warning.text
    assert warning.about in ("5.7.22", "5.7.22 cold", "all")


@pytest.mark.parametrize(
    ("reporting", "kernel_s", "expected"), [("yes", 5.0, True), ("yes", 1.0, False), ("no", 5.0, False)]
)
def test_a_machine_that_gives_memory_back_has_a_warning(reporting: str, kernel_s: float, expected: bool) -> None:
    runs = [with_metrics(run, kernel_cpu_s=kernel_s) for run in runs_of((10.0, 10.0, 10.0))]
    found = replace(session(runs), environment={"free_page_reporting": reporting})
    assert ("memory-given-back" in kinds(found)) is expected
    if expected:
        assert "CPU time for 50 % of the start" in one(found, "memory-given-back").text


@pytest.mark.parametrize(("version", "newest"), [("26.7.0", "9.7"), ("28.4.1+mine", "9.7"), ("mariadb-13.0.1", "11.8")])
def test_a_release_newer_than_those_that_were_tried_has_a_warning(version: str, newest: str) -> None:
    warning = one(replace(session(COLD), versions=(version,)), "newer-release")
    assert (warning.about, f"Newer than {newest}," in warning.text) == (version, True)


@pytest.mark.parametrize(
    ("found", "absent"),
    [
        (cold(12.0, 10.0, 10.1, 9.9, 10.2), "slow-first-run"),
        (cold(14.0, 10.0, 9.9, 9.8, 9.7), "outlier"),  # a slow first run is one warning
        (cold(14.0, 10.0, 9.9, 9.8, 9.7), "drift"),
        (cold(10.0, 10.5, 9.5, 11.0, 9.0), "outlier"),
        (cold(10.0, 10.0, 10.0, 10.9, 10.0), "outlier"),  # steady, and off by little
        (cold(10.0, 10.1, 10.2, 10.3, 10.4), "drift"),
        (cold(10.0, 12.2, 10.6, 11.5, 11.1), "drift"),
        (cold(10.0, 11.5, 12.0), "drift"),
        (session(with_all(resident_bytes=None), as_published=True), "cold-not-proved"),  # nothing was counted
        (session(with_run(0, ready_lag_s=0.05)), "late-log"),
        (session(COLD, WARM), ""),
        # A few ticks of the clock are no load.
        (session(with_all(host_activity=HostActivity(0.3, others_cpu_s=0.05, steal_s=0.01, throttled_s=0.02))), ""),
        # A limit on CPUs throttles as requested.
        (session(with_run(3, host_activity=HostActivity(10.0, throttled_s=5.0)), cpus=1), ""),
    ],
)
def test_a_sound_session_of_starts_has_no_warning(found: Session, absent: str) -> None:
    assert absent not in kinds(found)
    assert absent or kinds(found) == []


def drifting(
    seed: int, *, cells: int, runs: int, deviation: float, by: float = 1.0, only: bool = False, blocks: float = 0.0
) -> bool:
    """Whether a simulated session of alternating cells has the warning. Its times change by this factor from the first
    run to the last: those of all cells, or `only` of the first. `blocks` is the deviation that all runs of a block have
    in common."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    shared = [dice.gauss(0, blocks) for _ in range(runs)]
    versions = [f"5.7.{number}" for number in range(cells)]
    made = [
        make_run(
            block * cells + place + 1, version, "mysql", "cold", block + 1, Verdict.MEASURED,
            metrics={"startup_s": math.exp(
                dice.gauss(place, deviation) + shared[block]
                + (0.0 if only and place else math.log(by) * block / (runs - 1))
            )},
        )
        for block in range(runs)
        for place, version in enumerate(versions)
    ]  # fmt: skip
    return any(drift(session(made)))


@pytest.mark.parametrize(("deviation", "most"), [(0.02, 0.005), (0.05, 0.02), (0.15, 0.05)])
@pytest.mark.parametrize(("cells", "runs"), [(4, 5), (1, 5), (4, 3), (6, 10)])
def test_a_steady_session_seldom_warns_of_a_drift(cells: int, runs: int, deviation: float, most: float) -> None:
    """At most this share of all, and so many more of 400 as there may be by chance."""
    warned = sum(drifting(seed, cells=cells, runs=runs, deviation=deviation) for seed in range(400))
    assert warned <= NormalDist(400 * most, (400 * most) ** 0.5).inv_cdf(0.98)


@pytest.mark.parametrize(("cells", "runs"), [(4, 5), (6, 3)])
def test_blocks_that_differ_are_seldom_a_drift(cells: int, runs: int) -> None:
    warned = sum(drifting(seed, cells=cells, runs=runs, deviation=0.03, blocks=0.1) for seed in range(400))
    assert warned <= NormalDist(400 * 0.06, (400 * 0.06) ** 0.5).inv_cdf(0.98)


@pytest.mark.parametrize(
    ("by", "cells", "only", "least"),
    [(1.2, 4, False, 0.9), (1 / 1.2, 4, False, 0.9), (1.4, 4, False, 0.99), (1.4, 1, False, 0.7), (1.4, 4, True, 0.3)],
)
def test_a_drift_of_all_cells_is_found_and_one_of_a_single_cell_often(
    by: float, cells: int, least: float, *, only: bool
) -> None:
    """Five runs of each cell, with a deviation of 5 %."""
    found = sum(drifting(seed, cells=cells, runs=5, deviation=0.05, by=by, only=only) for seed in range(200))
    assert found / 200 >= least


def test_a_cache_below_this_machine() -> None:
    seen: dict[str, str | int | float | None] = {
        "probe_again_times_faster": 7.2, "probe_again_blocks": 256, "probe_first_read_ms": 0.6,
        "probe_read_again_ms": 0.2,
    }  # fmt: skip
    cold = replace(session(COLD), environment=seen)
    assert "again is 3.0 times as fast (0.6 ms, then 0.2 ms)" in one(cold, "cached-below").text, "by the printed times"
    assert one(cold, "cached-below").text.endswith("Cold means cold for this machine only.")
    assert "cached-below" not in kinds(replace(session(WARM), environment=seen)), "none was cold"
    for name, doubtful in (("probe_again_times_faster", 1.4), ("probe_again_blocks", 36)):
        assert "cached-below" not in kinds(replace(cold, environment={**seen, name: doubtful}))
    assert "cached-below" not in kinds(session(COLD)), "it was not probed"


@pytest.mark.parametrize(
    ("settings", "environment", "words", "absent"),
    [
        ({}, {}, "Run as root", "--unprivileged"),
        ({}, {"root": "yes"}, "", "Run as root"),
        ({"no_drop_caches": True}, {}, "leave it out", "root"),
        ({"no_drop_caches": True, "unprivileged": True}, {}, "--unprivileged", "--no-drop-caches"),
        ({"no_drop_caches": True, "unprivileged": False}, {}, "--no-drop-caches", "--unprivileged"),
    ],
)
def test_inodes_stay_warm_without_root_and_the_hint_names_the_cause(
    settings: dict[str, str | bool], environment: dict[str, str | int | float | None], words: str, absent: str
) -> None:
    found = one(replace(session(with_all(means="fadvise"), **settings), environment=environment), "inodes-were-warm")
    assert words in found.hint
    assert absent not in found.hint


def test_a_slow_first_run_after_a_first_read_is_no_first_read() -> None:
    slow = runs_of((20.0, 10.0, 10.1, 9.9, 10.2))
    first = replace(slow[0], repeat=0, verdict=Verdict.SAMPLED, extra=ExtraRun.FIRST_READ)
    assert "read for the first time" in one(session(slow), "slow-first-run").hint
    assert "had been read before" in one(session([first, *slow]), "slow-first-run").hint
    assert "slow-first-run" not in kinds(session([first, *slow[1:]]))


@pytest.mark.parametrize(
    ("order", "settings", "versions", "what"),
    [
        ("versions run one after the other", {}, ("5.7.22", "8.0.31"), "The versions were"),
        ("versions run one after the other", {}, ("5.7.22", "5.7.22"), None),
        ("versions alternate, block by block", {}, ("5.7.22", "8.0.31"), None),
        (
            "data directories run one after the other",
            {"points": "10 20"},
            ("5.7.22", "5.7.22"),
            "The numbers of tables",
        ),
        ("one version", {}, ("5.7.22", "5.7.22"), None),
    ],
)
def test_what_was_measured_one_after_the_other_is_compared_with_a_warning(
    order: str, settings: dict[str, str], versions: tuple[str, str], what: str | None
) -> None:
    first, second = versions
    runs = [*runs_of(STEADY, version=first), *runs_of(STEADY, version=second, variant="warm", first=6)]
    found = [each for each in findings(session(runs, order=order, **settings)) if each.kind == "one-after-the-other"]
    assert [each.text.startswith(what or "") for each in found] == ([] if what is None else [True])
    if settings:
        assert "cannot alternate" in found[0].hint


def test_a_program_on_another_device() -> None:
    loading = (Phase("process start", 0.0, 1.0), Phase("validation", 1.0, 10.0))
    apart = session(with_all(phases=loading))
    apart = replace(apart, servers={"5.7.22": {**apart.servers["5.7.22"], "program_device": "/dev/vda"}})
    assert "program is on /dev/vda, its data on /dev/vdb" in one(apart, "filesystems").text
    assert "RECOVERY_CACHE" in one(apart, "filesystems").hint
    assert "MYSQLD" not in one(replace(apart, settings={"mysqld": "/opt/mysqld"}), "filesystems").hint
    assert "filesystems" not in kinds(replace(apart, runs=tuple(COLD))), "it costs next to nothing"
    warm = replace(session(WARM), servers=apart.servers)
    assert "filesystems" not in kinds(warm), "nothing is loaded then"


def test_a_largest_point_that_the_smaller_ones_do_not_predict(kept_sessions: Path) -> None:
    """As the first start over the largest data directory of 8.0.31 would be, if it counted."""
    scale = load_session(kept_sessions / "2026-11-21-scale")
    assert "no-line" not in kinds(scale)
    counted = replace(
        scale,
        runs=tuple(
            replace(run, extra=None, verdict=Verdict.MEASURED) if run.extra is ExtraRun.FIRST_READ else run
            for run in scale.runs
        ),
    )
    found = one(counted, "no-line")
    assert found.about == "8.0.31 cold", "5.7.22 is predicted to 6 %, piecewise"
    assert found.text == "The smaller points predict 89.2 s for 200,000 tables; 125.7 s were measured."
    assert "no-line" not in kinds(load_session(kept_sessions / "2026-11-21-scale-mariadb"))


# --- Servers under load

LOAD = interference(caches=("400",))
EVERY_RUN = tuple(range(1, 13))


def changed(session: Session, change: Callable[[Run], Run], *, numbers: tuple[int, ...] = (1,)) -> Session:
    return replace(session, runs=tuple(change(run) if run.number in numbers else run for run in session.runs))


def measured(**figures: float) -> Callable[[Run], Run]:
    return lambda run: replace(run, metrics={**run.metrics, **figures})


@pytest.mark.parametrize("name", ["metadata", "interference", "write-scaling"])
def test_a_quiet_session_of_loads_has_no_warning(name: str) -> None:
    assert findings(SMALL[name]()) == ()


def load_of(*qps: float) -> Session:
    """A load with these queries per second in its runs."""
    (cell,) = LOAD.variants[:1]
    first = next(run for run in LOAD.runs if run.variant == cell.name)
    runs = tuple(
        replace(first, number=number, repeat=number, metrics={**first.metrics, "qps": value})
        for number, value in enumerate(qps, start=1)
    )
    return replace(LOAD, variants=(cell,), runs=runs, planned_runs=len(runs))


@pytest.mark.parametrize(
    ("found", "kind", "text"),
    [
        (load_of(600.0, 1000.0, 1010.0, 990.0), "slow-first-run", "had 600 queries/s, the others 990 to 1,010"),
        (load_of(1000.0, 1010.0, 990.0, 500.0, 1005.0), "outlier", "1,000 queries/s: run 4 of 5 (500 queries/s)"),
        (load_of(*(1000 * 0.97**run for run in range(5))), "drift", "fell from run to run, from 1,000 to 885"),
    ],
)  # fmt: skip
def test_a_load_that_varies_gets_the_warnings_of_a_start(found: Session, kind: str, text: str) -> None:
    assert text in one(found, kind).text
    assert "slow-first-run" not in kinds(load_of(1600.0, 1000.0, 1010.0, 990.0)), "the first was fast"


@pytest.mark.parametrize(("pool", "limit", "warned"), [(32, None, True), (8, None, False), (8, 4, True)])
def test_a_buffer_pool_larger_than_memory(pool: int, limit: int | None, warned: bool) -> None:
    known = {"5.7.22": {"@innodb_buffer_pool_size": str(pool * GB)}}
    found = replace(session(COLD, memory_bytes=None if limit is None else limit * GB), servers=known)
    assert ("pool-larger-than-memory" in kinds(found)) is warned


def test_a_slow_start_is_no_warning_about_a_load() -> None:
    started = changed(
        LOAD, lambda run: with_metrics(with_parts(run, ready_lag_s=5.0), startup_s=90.0, first_query_s=91.0)
    )
    assert findings(started) == ()


def with_clients(session: Session, threads: str | int | None) -> Session:
    """The session with a number of clients in every variant."""
    axis = {} if threads is None else {"threads": str(threads)}
    return replace(session, variants=tuple(replace(one, values={**one.values, **axis}) for one in session.variants))


@pytest.mark.parametrize(
    ("settings", "measures", "text"),
    [
        ({"threads": 2}, {"client_cpus": 1.9}, "1.9 of the 2 CPUs"),
        ({"threads": 8, "client_cpus": "2-3,6"}, {"client_cpus": 2.9}, "of the 3"),
        ({}, {"client_cpus": 1.5, "server_cpus": 2.4}, "share the CPUs"),
        # More than the server, whoever else runs.
        ({}, {"client_cpus": 0.6, "server_cpus": 0.1, "others_cpus": 3.2}, "share the CPUs"),
    ],
)
def test_clients_without_a_cpu_left(settings: dict[str, str | int], measures: dict[str, float], text: str) -> None:
    settings = {**settings}
    session = with_clients(LOAD, settings.pop("threads", None))
    session = replace(session, settings={**LOAD.settings, **settings})
    found = one(changed(session, measured(**measures), numbers=(1, 2, 3)), "client-was-the-bottleneck")
    assert found.about == "5.7.22 poll=off"
    assert text in found.text


def test_clients_with_an_idle_cpu_are_no_bottleneck() -> None:
    two = changed(LOAD, measured(client_cpus=1.9, server_cpus=1.0), numbers=(1, 2, 3))
    two = replace(with_clients(two, 8), settings={**LOAD.settings, "client_cpus": 2})
    assert kinds(two) == ["client-was-the-bottleneck"]
    assert kinds(replace(two, settings={**two.settings, "server_cpus": None, "client_cpus": None})) == [], (
        "the clients were not pinned, and a CPU was idle"
    )
    idle = changed(LOAD, measured(client_cpus=1.5, server_cpus=1.0), numbers=EVERY_RUN)
    assert "client-was-the-bottleneck" not in kinds(idle)


def test_a_dump_uses_one_cpu_and_statements_are_not_pinned() -> None:
    dumped = changed(
        metadata(), lambda run: measured(client_cpus=0.9)(with_parts(run, clients={"dump": "mariadb-dump"})),
        numbers=tuple(run.number for run in metadata().runs if run.variant == "dump" and run.version == "5.7.22"),
    )  # fmt: skip
    pinned = replace(dumped, settings={**dumped.settings, "client_cpus": 4})
    assert "of the 1 CPUs that they could use" in one(pinned, "client-was-the-bottleneck").text
    asked = changed(metadata(), measured(client_cpus=0.9), numbers=tuple(range(1, 31)))
    idle = replace(asked, settings={**asked.settings, "client_cpus": 1})
    assert "client-was-the-bottleneck" not in kinds(idle)


@pytest.mark.parametrize(("name", "stored"), [("table-cache", "3,7"), ("metadata", None)])
def test_cpus_of_clients_are_stored_only_if_they_are_pinned(
    name: str, stored: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_store, "reserved_cpus", lambda _: CoreSplit(frozenset({0}), frozenset({3, 7})))
    scenario = find_experiment(name)
    work = scenario.options()
    schema = Schema(10, rows=10)
    works = scenario.variant_specs(work, schema, HostCapacity(12, 8 << 30))
    request = new_request(name, works, ("5.7.22",), schema, 1, tmp_path, tmp_path, experiment_options=work)
    plan = make_plan([parse_version("5.7.22")], request.all_variants, repeats=1, alternating=True)
    session = session_from_request(request, scenario, plan, environment={}, engine="local")
    assert session.settings.get("client_cpus") == stored


@pytest.mark.parametrize(("last", "warned"), [(100.0, False), (108.0, False), (130.0, True), (80.0, True)])
def test_a_load_that_never_warmed_up(last: float, *, warned: bool) -> None:
    at_s = tuple(float(second) for second in range(-10, 31))
    values = tuple(5.0 if at <= 0 else 100.0 if at <= 20 else last for at in at_s)
    timeline = Timeline(at_s, {"qps": values})
    session = changed(LOAD, lambda run: replace(run, timeline=timeline))
    assert ("never-warmed-up" in kinds(session)) is warned
    if warned:
        assert "run 1" in one(session, "never-warmed-up").text


def ages(values: Sequence[float | None], *, warmup: Sequence[float] = ()) -> Callable[[Run], Run]:
    """One a second, the first of them a second after the warm-up."""
    at_s = tuple(float(second) for second in range(-len(warmup), len(values) + 1))
    timeline = Timeline(at_s, {"checkpoint_age_bytes": (*warmup, 0.0, *values)})
    return lambda run: replace(run, timeline=timeline)


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
    ("values", "warned"),
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
)
def test_a_redo_log_that_was_still_filling(values: list[float | None], *, warned: bool) -> None:
    session = changed(LOAD, ages(values, warmup=[1e9] * 10))
    assert ("log-still-filling" in kinds(session)) is warned


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "to 300 MB, in run 1 of 3:"),
        (
            {"@innodb_log_file_size": str(1 << 29), "@innodb_log_files_in_group": "2"},
            "to 300 MB of 1,074 MB, in run 1 of 3:",
        ),
        ({"@innodb_log_file_size": "50331648", "@innodb_redo_log_capacity": "1073741824"}, "of 1,074 MB"),
    ],
)
def test_how_full_the_redo_log_was(options: dict[str, str], text: str) -> None:
    session = replace(changed(LOAD, ages(filling(60))), servers={"5.7.22": options})
    found = one(session, "log-still-filling")
    assert found.about == "5.7.22 poll=off"
    assert text in found.text
    assert all(word in found.hint for word in ("SECONDS=", "WARMUP=", "innodb_redo_log_capacity="))


def test_a_short_load_and_few_runs() -> None:
    short = replace(LOAD, settings={**LOAD.settings, "seconds": 10})
    assert "10 s" in one(short, "short-run").text
    assert "short-run" not in kinds(replace(metadata(), settings={**metadata().settings, "seconds": 10}))
    assert "few-runs" in kinds(interference(caches=("400",), runs=2))


def beside(**figures: float) -> Callable[[Run], Run]:
    around = HostActivity(60.0, **figures)  # type: ignore[arg-type]
    return lambda run: with_parts(run, host_activity=around)


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (measured(others_cpus=0.7), "other-cpu-load", "0.7 CPUs"),
        (beside(others_read_bytes=500_000_000), "other-disk-load", "500 MB"),
        (beside(steal_s=6.0), "steal", "10 %"),
        (measured(qps=20000.0), "wide-interval", "passes zero"),
    ],
)
def test_other_activity_beside_a_load(change: Callable[[Run], Run], kind: str, text: str) -> None:
    found = one(changed(LOAD, change), kind)
    assert found.about == "5.7.22 poll=off"
    assert text in found.text


@pytest.mark.parametrize(
    ("load_s", "seen_s", "text"),
    [(60.0, 59.0, None), (60.0, 18.5, "41.5 s late"), (60.0, 0.001, "60.0 s late"), (3.0, 1.4, "1.6 s late")],
)
def test_a_load_that_was_measured_late(load_s: float, seen_s: float, text: str | None) -> None:
    around = HostActivity(seen_s, tool_cpu_s=0.001)
    found = changed(LOAD, lambda run: with_parts(measured(elapsed_s=load_s)(run), host_activity=around))
    assert "busy-client" not in kinds(found), "a millisecond of CPU time is rounding"
    assert ("late-measurement" in kinds(found)) is bool(text)
    assert text is None or text in one(found, "late-measurement").text


def test_the_server_s_own_activity_is_no_other_load() -> None:
    unsampled = changed(metadata(), lambda run: with_parts(run, host_activity=HostActivity(10.0, others_cpu_s=5.0)))
    assert "other-cpu-load" in kinds(unsampled), "without a sampler the host's counters are used"
    own = measured(written_bytes_per_s=2e7)
    journal = beside(others_written_bytes=500_000_000)
    assert "other-disk-load" not in kinds(changed(LOAD, lambda run: own(journal(run))))


@pytest.mark.parametrize(
    "change", [measured(polls_per_s=0.0), lambda run: replace(run, metrics={"qps": run.metrics["qps"]})]
)
def test_polls_that_did_not_run(change: Callable[[Run], Run]) -> None:
    found = one(changed(LOAD, change, numbers=(4,)), "polls-did-not-run")
    assert found.about == "5.7.22 poll=on"


@pytest.mark.parametrize(("share", "seconds", "text"), [(0.0005, 60, None), (0.05, 60, "5.0 %"), (0.05, 120, "2.5 %")])
def test_errors_of_transactions(share: float, seconds: int, text: str | None) -> None:
    session = changed(LOAD, measured(client_errors=60 * 2316 * share, elapsed_s=seconds))
    assert ("errors" in kinds(session)) is bool(text)
    assert text is None or text in one(session, "errors").text


def test_a_warning_about_many_cells_is_given_once() -> None:
    noisy = changed(write_scaling(), measured(others_cpus=1.0), numbers=tuple(range(1, 61, 3)))
    found = one(noisy, "other-cpu-load")
    assert found.about == "20 cells"
    assert found.text.endswith("; 15 more.")


def lowered(*values: str, effective: str) -> Session:
    """A session with these values of the table cache requested, and one value in effect for all of them."""
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


def test_an_option_that_is_not_in_effect_is_reported_once_for_all_its_cells() -> None:
    found = one(lowered("4000", effective="1533"), "option-not-in-effect")
    assert found.about == "5.7.22 table_open_cache=4000"
    assert found.text == "table_open_cache=4000 was requested, 1533 is in effect."
    assert "4096 here" in found.hint
    assert "option-not-in-effect" not in kinds(lowered("4000", effective="4000"))


def test_cells_with_the_same_value_in_effect_are_not_compared() -> None:
    session = lowered("4000", "20000", effective="1533")
    texts = [each.text for each in findings(session) if each.kind == "option-not-in-effect"]
    assert len(texts) == 2
    assert all("these cells are not compared" in text for text in texts)
    axes = {(ratio.version, ratio.axis) for ratio in all_variant_ratios(session)}
    assert axes == {("5.7.22", "poll"), ("8.0.31", "poll"), ("8.0.31", "table_open_cache")}


def test_a_load_that_reads_what_should_be_in_memory() -> None:
    read = measured(buffer_pool_reads_per_s=2000.0)
    found = one(changed(LOAD, read), "not-in-memory")
    assert (found.about, "0.043 pages per query" in found.text) == ("5.7.22 poll=off", True)
    by_the_process = changed(LOAD, measured(read_bytes_per_s=4e7))
    assert "not-in-memory" in kinds(by_the_process), "a server that does not count them"
    assert "not-in-memory" not in kinds(changed(LOAD, measured(buffer_pool_reads_per_s=20.0)))
    slow = changed(LOAD, measured(qps=500.0, buffer_pool_reads_per_s=8.0), numbers=EVERY_RUN)
    assert "not-in-memory" not in kinds(slow), "a few pages of the server's own"


def test_reading_is_no_warning_if_the_data_should_exceed_memory() -> None:
    read = measured(buffer_pool_reads_per_s=2000.0)
    asked = replace(LOAD, settings={**LOAD.settings, "memory_ratio": 4.0})
    assert "not-in-memory" not in kinds(changed(asked, read))
    larger = write_scaling()
    of = {run.number: larger.values_of(run.variant)["question"] for run in larger.runs}
    numbers = tuple(number for number, question in of.items() if question in ("larger-than-memory", "compression"))
    assert "not-in-memory" not in kinds(changed(larger, read, numbers=numbers))
    assert "not-in-memory" not in kinds(changed(metadata(), measured(buffer_pool_reads_per_s=1e6, qps=1.0)))


def test_a_pool_that_is_smaller_than_the_tables() -> None:
    small = {"5.7.22": {"@innodb_buffer_pool_size": str(10 << 30), "data_bytes": str(20 << 30), "tables": "1000"}}
    session = replace(LOAD, servers=small)
    found = next(each for each in findings(session) if each.kind == "not-in-memory")
    assert "20.9 GB, more than the 10.7 GB" in found.text
    few = variants_with({name: {**cell, "tables": "100"} for name, cell in values_of_all(session).items()})
    assert "not-in-memory" not in kinds(replace(session, variants=few)), "a tenth of the tables fits"


def test_runs_are_called_by_their_cell_and_of_several_sessions_by_theirs() -> None:
    """Not by their numbers in the session, which count those of all cells."""
    old, new = runs_of(STEADY[:3]), runs_of(STEADY[:3], version="8.0.31")
    both_versions = [run for pair in zip(old, new, strict=True) for run in pair]
    two = session([replace(run, number=number) for number, run in enumerate(both_versions, start=1)])
    of_new = [run for run in two.runs if run.version == "8.0.31"]
    assert [run.number for run in of_new] == [2, 4, 6]
    assert runs_words(two, of_new[1:]) == "runs 2, 3 of 3"
    assert runs_words(two, of_new[:1]) == "run 1 of 3"
    assert runs_words(two, of_new) == "all 3 runs"
    both = combine_sessions({"a": two, "b": two})
    of_both = [run for run in both.runs if run.version == "8.0.31" and run.repeat == 2]
    assert runs_words(both, of_both) == "run 2 of 3 of session 1; run 2 of 3 of session 2"
