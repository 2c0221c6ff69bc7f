"""Is every doubt said where its condition is, and only there? The conditions themselves are made in tests/real."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.analysis.warnings import _kendall_deviations, findings
from recovery.model import Finding, HostActivity, Phase, Run, Session, Timeline, Verdict
from recovery.report.stored_session import load_session

STEADY = (10.0, 10.1, 9.9, 10.05, 9.95)
GB = 10**9


def runs_of(times: Sequence[float], *, variant: str = "cold", version: str = "5.7.22", first: int = 1) -> list[Run]:
    return [
        Run(
            number, version, "mysql", variant, repeat, Verdict.MEASURED, startup_s=seconds, first_query_s=seconds,
            read_bytes=5 * GB if variant == "cold" else 10**6, reads_per_s=5000.0,
            phases=(Phase("validation", 0.0, seconds),), around=HostActivity(seconds=seconds, others_cpu_s=0.01),
            cold_means="drop_caches" if variant == "cold" else None,
            resident_before_bytes=0 if variant == "cold" else None,
        )
        for repeat, (number, seconds) in enumerate(enumerate(times, start=first), start=1)
    ]  # fmt: skip


def session(*cells: list[Run], **settings: str | int | bool | None) -> Session:
    runs = tuple(run for cell in cells for run in cell)
    versions = tuple(dict.fromkeys(run.version for run in runs))
    return Session(
        "crash-recovery", "q", "c", "s", {"memory_bytes": 16 * GB, "device": "/dev/vdb"}, {"runs": 5, **settings},
        versions, tuple(dict.fromkeys(run.variant for run in runs)), len(runs),
        servers={version: {"@version": version, "data_bytes": str(5 * GB)} for version in versions}, runs=runs,
    )  # fmt: skip


def kinds(found: Session) -> list[str]:
    return [one.kind for one in findings(found)]


def one(found: Session, kind: str) -> Finding:
    (finding,) = [each for each in findings(found) if each.kind == kind]
    assert finding.hint, "each says what to do"
    return finding


COLD, WARM = runs_of(STEADY), runs_of(STEADY, variant="warm", first=6)


def test_a_quiet_session_has_none() -> None:
    assert findings(session(COLD, WARM)) == ()


def changed(runs: list[Run], at: int, **figures: object) -> list[Run]:
    return [replace(run, **figures) if number == at else run for number, run in enumerate(runs)]  # type: ignore[arg-type]


def test_a_slow_first_run() -> None:
    found = one(session(runs_of((20.0, 10.0, 10.1, 9.9, 10.2))), "slow-first-run")
    assert (found.about, found.text) == ("5.7.22 cold", "The first run took 20.0 s, the others 9.9 to 10.2 s.")
    assert "slow-first-run" not in kinds(session(runs_of((12.0, 10.0, 10.1, 9.9, 10.2))))


def test_an_outlier_by_its_distance_from_the_median() -> None:
    assert "run 4 (20.0 s)" in one(session(runs_of((10.0, 10.1, 9.9, 20.0, 10.2))), "outlier").text
    assert "outlier" not in kinds(session(runs_of((10.0, 10.5, 9.5, 11.0, 9.0))))
    assert "outlier" not in kinds(session(runs_of((10.0, 10.0, 10.0, 10.9, 10.0)))), "steady, and off by little"


@pytest.mark.parametrize(("times", "drifts"), [
    ((10.0, 10.6, 11.1, 11.5, 12.2), True), ((12.2, 11.5, 11.1, 10.6, 10.0), True),
    ((10.0, 10.1, 10.2, 10.3, 10.4), False),
    ((10.0, 12.2, 10.6, 11.5, 11.1), False), ((10.0, 11.0, 12.0), False),
])  # fmt: skip
def test_a_drift_over_the_order_of_runs(times: tuple[float, ...], *, drifts: bool) -> None:
    assert ("drift" in kinds(session(runs_of(times)))) is drifts


@given(st.lists(st.sampled_from([1.0, 2.0, 3.0, 4.5]), min_size=2, max_size=30))
def test_a_trend_counts_each_pair(times: list[float]) -> None:
    rising = sum((later > earlier) - (later < earlier) for earlier, later in combinations(times, 2))
    count = len(times)
    assert _kendall_deviations(times) == abs(rising) / math.sqrt(count * (count - 1) * (2 * count + 5) / 18)


def test_a_trend_of_many_runs_compares_few_of_them() -> None:
    """All pairs of 5,000 runs are 12 million."""
    compared = 0

    class Seconds(float):
        __slots__ = ()
        __hash__ = float.__hash__

        def __lt__(self, other: float) -> bool:
            nonlocal compared
            compared += 1
            return float.__lt__(self, other)

        __gt__ = __lt__

    _kendall_deviations([Seconds(number * 7 % 5003) for number in range(5000)])
    assert compared < 500_000


def test_a_mean_with_a_wide_interval() -> None:
    assert "wide-interval" in kinds(session(runs_of((8.0, 14.0, 9.0, 15.0, 10.0))))


def test_too_few_runs() -> None:
    assert "RUNS=5" in one(session(runs_of((10.0, 10.1)), runs=2), "few-runs").hint


def test_a_cold_start_that_found_files_in_the_cache() -> None:
    assert "Only 1000 MB were read in run 2" in one(session(changed(COLD, 1, read_bytes=GB)), "cold-was-not").text
    assert "Only 0 MB were read in run 2" in one(session(changed(COLD, 1, read_bytes=0)), "cold-was-not").text


def test_a_cache_below_this_machine() -> None:
    seen: dict[str, str | int | float | None] = {
        "probe_again_times_faster": 7.2, "probe_again_blocks": 256, "probe_first_read_ms": 0.47,
        "probe_read_again_ms": 0.065,
    }  # fmt: skip
    cold = replace(session(COLD), environment=seen)
    assert "again is 7.2 times as fast (0.47 ms, then 0.065 ms)" in one(cold, "cached-below").text
    assert one(cold, "cached-below").text.endswith("Cold means cold for this machine only.")
    assert "cached-below" not in kinds(replace(session(WARM), environment=seen)), "none was cold"
    for name, doubtful in (("probe_again_times_faster", 1.4), ("probe_again_blocks", 36)):
        assert "cached-below" not in kinds(replace(cold, environment={**seen, name: doubtful}))
    assert "cached-below" not in kinds(session(COLD)), "an older tool has not looked"


def test_inodes_stay_warm_without_root() -> None:
    by_file = [replace(run, cold_means="fadvise") for run in COLD]
    assert one(session(by_file), "inodes-were-warm").hint.startswith("Run as root")
    asked = one(session(by_file, no_drop_caches=True), "inodes-were-warm")
    assert "leave it out" in asked.hint
    assert "root" not in asked.hint, "that was not missing"
    for stored in ({"unprivileged": True}, {"no_root_steps": "all"}, {"no_root_steps": "drop-caches,fanotify"}):
        refused = one(session(by_file, no_drop_caches=True, **stored), "inodes-were-warm")
        assert "--unprivileged" in refused.hint
    for stored in ({"unprivileged": False}, {"no_root_steps": "drop-caches"}):
        assert "--no-drop-caches" in one(session(by_file, no_drop_caches=True, **stored), "inodes-were-warm").hint


def test_nobody_could_prove_it_cold() -> None:
    unproved = [replace(run, resident_before_bytes=None) for run in COLD]
    assert "cold-not-proved" in kinds(session(unproved))
    assert "cold-not-proved" not in kinds(session(unproved, as_published=True)), "nobody looked"


@pytest.mark.parametrize(
    ("figures", "kind"),
    [
        ({"others_cpu_s": 5.0}, "other-cpu-load"),
        ({"others_read_bytes": GB}, "other-disk-load"),
        ({"others_written_bytes": GB}, "other-disk-load"),
        ({"steal_s": 1.0}, "steal"),
        ({"throttled_s": 1.0}, "throttled"),
        ({"tool_cpu_s": 8.0}, "busy-client"),
    ],
)
def test_what_else_went_on(figures: dict[str, float], kind: str) -> None:
    around = HostActivity(seconds=10.0, **figures)  # type: ignore[arg-type]
    found = session(changed(COLD, 3, around=around))
    assert kinds(found) == [kind]
    assert "run 4" in one(found, kind).text


def test_a_few_ticks_are_no_load() -> None:
    short = HostActivity(seconds=0.3, others_cpu_s=0.05, steal_s=0.01, throttled_s=0.02)
    assert findings(session([replace(run, around=short) for run in COLD])) == ()


def test_one_slow_first_run_is_one_doubt() -> None:
    found = kinds(session(runs_of((14.0, 11.0 / 1.1, 9.9, 9.8, 9.7))))
    assert "slow-first-run" in found
    assert not {"outlier", "drift"} & set(found)


def test_root_is_not_told_to_become_root() -> None:
    by_file = replace(session([replace(run, cold_means="fadvise") for run in COLD]), environment={"root": "yes"})
    assert "Run as root" not in one(by_file, "inodes-were-warm").hint


def test_who_asked_for_less_cpu_is_held_back_as_asked() -> None:
    around = HostActivity(seconds=10.0, throttled_s=5.0)
    assert findings(session(changed(COLD, 3, around=around), cpus=1)) == ()


def test_who_traces_is_told_to_leave_that_out() -> None:
    busy = changed(COLD, 0, around=HostActivity(seconds=10.0, tool_cpu_s=8.0))
    assert "--trace" in one(session(busy, trace=True), "busy-client").hint
    assert "--trace" not in one(session(busy, trace=False), "busy-client").hint


def test_a_log_that_came_late() -> None:
    assert "late-log" in kinds(session(changed(COLD, 0, ready_lag_s=0.5)))
    assert "late-log" not in kinds(session(changed(COLD, 0, ready_lag_s=0.05)))


def test_a_program_on_another_device() -> None:
    loading = (Phase("process start", 0.0, 1.0), Phase("validation", 1.0, 10.0))
    apart = session([replace(run, phases=loading) for run in COLD])
    apart = replace(apart, servers={"5.7.22": {**apart.servers["5.7.22"], "program_device": "/dev/vda"}})
    assert "program is on /dev/vda, its data on /dev/vdb" in one(apart, "filesystems").text
    assert "RECOVERY_CACHE" in one(apart, "filesystems").hint
    assert "MYSQLD" not in one(replace(apart, settings={"mysqld": "/opt/mysqld"}), "filesystems").hint
    assert "filesystems" not in kinds(replace(apart, runs=tuple(COLD))), "it costs next to nothing"
    warm = replace(session(WARM), servers=apart.servers)
    assert "filesystems" not in kinds(warm), "nothing is loaded then"


def test_a_debug_build() -> None:
    debug = replace(session(COLD), servers={"5.7.22": {"@version": "5.7.22-debug"}})
    assert one(debug, "debug-build").about == "5.7.22"


def computing(cpu_s: tuple[float, ...], *, startup_s: float = 5.0) -> list[Run]:
    """Starts with InnoDB up after a fifth of the time; looks are taken at that moment, and at the end."""
    innodb_s = startup_s / 5
    phases = (
        Phase("process start", 0.0, 0.1), Phase("redo scan", 0.1, innodb_s),
        Phase("rest to ready", innodb_s, startup_s), Phase("first query", startup_s, startup_s),
    )  # fmt: skip
    looks = Timeline((0.1, innodb_s, startup_s), cpu_s=cpu_s)
    return [replace(run, phases=phases, timeline=looks) for run in runs_of((startup_s,) * 3)]


def test_of_the_stored_sessions(kept_sessions: Path) -> None:
    """What is known of them: two slow first runs."""
    (slow,) = [
        one
        for one in findings(load_session(kept_sessions / "2026-11-21-seven-versions"))
        if one.kind == "slow-first-run"
    ]
    assert "5.7.22 cold" in slow.text
    assert "8.0.31 cold" in slow.text


def test_a_largest_point_that_the_smaller_ones_do_not_predict(kept_sessions: Path) -> None:
    growth = load_session(kept_sessions / "2026-11-21-scale")
    (bent,) = [found for found in findings(growth) if found.kind == "no-line"]
    assert bent.about == "8.0.31 cold", "of 5.7.22 it is predicted to 6 %, piecewise"
    assert bent.text == "The smaller points predict 89.2 s for 200,000 tables; 125.7 s were measured."
    assert "no-line" not in kinds(load_session(kept_sessions / "2026-11-21-scale-mariadb"))
