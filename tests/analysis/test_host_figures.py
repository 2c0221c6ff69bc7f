"""Which cells wait for the storage, in the kept sessions and at the limits, and when the host itself changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from at_work import interference
from everything import a_run, a_session
from runs import with_parts
from sessions import KEPT_SESSIONS, with_metrics

from recovery.analysis.combined import combine
from recovery.analysis.host_figures import (
    CPU_LOOP,
    READS,
    READS_16,
    STEAL,
    changed_figures,
    dependent_pairs,
    host_figures,
    waits_for_storage,
)
from recovery.analysis.summary import measured_runs_by_cell
from recovery.model import Run, Session
from recovery.storage.sessions import load_session

COLD, WARM = ("5.7.22", "cold"), ("5.7.22", "warm")


def starts(*reads: int | None, tables: int = 200_000, cell: tuple[str, str] = COLD) -> tuple[Run, ...]:
    runs = (a_run(number, cell, 41.0) for number in range(1, len(reads) + 1))
    return tuple(
        with_metrics(with_parts(run, tables_found=tables), read_requests=count)
        for run, count in zip(runs, reads, strict=True)
    )


def waits(runs: tuple[Run, ...]) -> bool | None:
    return waits_for_storage(a_session(runs), runs)


# --- Waiting for the storage

MARIADB_THAT_OPENS_ONLY = ("mariadb-10.11", "mariadb-11")
READS_ALL_EVEN_IF_WARM = ("8.0.31", "9.7.4")


@pytest.mark.parametrize("name", KEPT_SESSIONS)
def test_cold_starts_wait_for_the_storage_if_the_server_reads_all_files(name: str, kept_sessions: Path) -> None:
    session = load_session(kept_sessions / name)
    for (version, variant), runs in measured_runs_by_cell(session).items():
        if variant != "cold" or session.metric != "startup_s":
            continue
        found = waits_for_storage(session, runs)
        few = (runs[0].contents.tables_found or 0) < 5000
        assert found is (None if few else not version.startswith(MARIADB_THAT_OPENS_ONLY)), (version, name)


@pytest.mark.parametrize(
    "name", ["2026-11-25-six-servers", "2026-11-27-seven-versions", "2026-11-27-two-versions-traced"]
)
def test_warm_starts_wait_only_if_the_server_reads_the_files_again(name: str, kept_sessions: Path) -> None:
    session = load_session(kept_sessions / name)
    warm = {cell: runs for cell, runs in measured_runs_by_cell(session).items() if cell[1] == "warm"}
    assert warm
    for (version, _), runs in warm.items():
        assert waits_for_storage(session, runs) is (version in READS_ALL_EVEN_IF_WARM), version


def test_a_load_waits_if_it_flushes_the_log_or_reads_pages(kept_sessions: Path) -> None:
    session = load_session(kept_sessions / "2026-11-26-experiments-write-scaling")
    found = {
        variant: waits_for_storage(session, runs)
        for (version, variant), runs in measured_runs_by_cell(session).items()
        if version == "5.7.22"
    }
    for variant, is_waiting in found.items():
        reads_only = any(word in variant for word in ("point-select", "read-only"))
        larger = variant.startswith(("larger-than-memory", "compression"))
        flushes = not reads_only and not any(word in variant for word in ("commit-0", "commit-2"))
        assert is_waiting is (larger or flushes), variant


@pytest.mark.parametrize(
    ("reads", "tables", "expected"),
    [((100_000,), 200_000, True), ((99_000,), 200_000, False), ((9000,), 4999, None), ((9000,), 5000, True),
     ((None,), 200_000, None), ((None, 400_000), 200_000, True)],
)  # fmt: skip
def test_a_start_waits_from_one_read_for_every_second_table_on(
    reads: Sequence[int | None], tables: int, expected: bool | None
) -> None:
    assert waits(starts(*reads, tables=tables)) is expected


def test_a_ratio_depends_on_the_storage_if_one_side_waits_or_cold_starts_are_not_known() -> None:
    other = ("mariadb-10.11.5", "cold")

    def depends(ours: int | None, theirs: int | None, cell: tuple[str, str] = other) -> bool:
        theirs_runs = tuple(replace(run, number=run.number + 10) for run in starts(theirs, cell=cell))
        return bool(dependent_pairs(a_session((*starts(ours), *theirs_runs)), [(COLD, cell)]))

    assert depends(400_000, 9000)
    assert depends(400_000, 2000, WARM)
    assert not depends(400_000, 200_000)
    assert not depends(3000, 9000)
    assert depends(400_000, None)
    warm = (*starts(None, cell=WARM), *starts(None, cell=("8.0.31", "warm")))
    assert not dependent_pairs(a_session(warm), [(WARM, ("8.0.31", "warm"))])


def test_a_load_without_counters_is_not_said_to_depend_on_the_storage() -> None:
    session = interference(caches=("400",))
    one, other, *_ = measured_runs_by_cell(session)
    assert not dependent_pairs(session, [(one, other)])


# --- What was recorded of the host


def on_host(*reads: float, **metrics: float) -> Session:
    runs = (a_run(number, COLD, 41.0) for number in range(1, len(reads) + 1))
    return a_session(
        tuple(with_metrics(run, **{READS: value}, **metrics) for run, value in zip(runs, reads, strict=True))
    )


def test_older_sessions_have_the_probe_before_the_session() -> None:
    probed = a_session((a_run(1, COLD, 41.0),), environment={"probe_4k_1_iops": 23_400, "probe_4k_16_iops": 93_824})
    figures = host_figures(probed)
    assert {name: figure.median for name, figure in figures.items()} == {READS: 23_400, READS_16: 93_824}
    assert host_figures(a_session((a_run(1, COLD, 41.0),))) == {}
    newer = replace(on_host(20_000.0), environment=probed.environment)
    assert host_figures(newer)[READS].median == 20_000


def test_sessions_of_several_hosts_have_no_figures_of_one() -> None:
    one = on_host(20_000.0)
    assert host_figures(combine([("a", one), ("b", one)])) == {}
    of_one_host = host_figures(combine([("a", one), ("a", on_host(30_000.0))]))[READS]
    assert (of_one_host.low, of_one_host.high) == (20_000, 30_000)


def test_a_host_changed_if_a_speed_moved_by_more_than_half() -> None:
    assert [figure.name for figure in changed_figures(on_host(20_000.0, 31_000.0))] == [READS]
    assert not list(changed_figures(on_host(20_000.0, 29_000.0)))
    of_16 = (with_metrics(run, **{READS_16: 20_000.0 * run.number}) for run in on_host(1.0, 1.0).runs)
    assert not list(changed_figures(a_session(tuple(of_16))))
    moved = (
        with_metrics(run, **{CPU_LOOP: 0.03 * run.number, STEAL: 0.1 * run.number})
        for run in on_host(20_000.0, 20_000.0).runs
    )
    assert [figure.name for figure in changed_figures(a_session(tuple(moved)))] == [CPU_LOOP]
