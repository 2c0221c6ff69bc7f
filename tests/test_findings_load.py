"""Is every doubt about a server at work said where its condition is, and only there?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from at_work import FORMS, interference, metadata, write_scaling

from recovery.findings import findings
from recovery.measured import Around, Series, Watched
from recovery.stored import Finding, Run, Session


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
    assert "1.9 CPUs busy, of 2" in found.text
    pinned = replace(SMALL, settings={**SMALL.settings, "threads": 8, "client_cpus": "2-3,6"})
    assert (
        "of 3" in one(changed(pinned, measured(client_cpus=2.9), numbers=(1, 5, 9)), "client-was-the-bottleneck").text
    )
    shared = changed(SMALL, measured(client_cpus=1.5, server_cpus=2.4), numbers=(1, 5, 9))
    assert "share the CPUs" in one(shared, "client-was-the-bottleneck").text
    left = changed(SMALL, measured(client_cpus=1.5, server_cpus=1.0), numbers=every)
    assert "client-was-the-bottleneck" not in kinds(left)


@pytest.mark.parametrize(("last", "told"), [(100.0, False), (108.0, False), (130.0, True), (80.0, True)])
def test_a_load_that_never_warmed_up(last: float, *, told: bool) -> None:
    at_s = tuple(float(second) for second in range(-10, 31))
    values = tuple(5.0 if at <= 0 else 100.0 if at <= 20 else last for at in at_s)
    watched = Watched(at_s, (Series("qps", values),))
    session = changed(SMALL, lambda run: replace(run, watched=watched))
    assert ("never-warmed-up" in kinds(session)) is told
    if told:
        assert "run 1" in one(session, "never-warmed-up").text


def test_a_short_load_and_few_runs() -> None:
    short = replace(SMALL, settings={**SMALL.settings, "seconds": 10})
    assert "10 s" in one(short, "short-run").text
    assert "short-run" not in kinds(replace(metadata(), settings={**metadata().settings, "seconds": 10}))
    few = interference(caches=("400",), runs=2)
    assert "few-runs" in kinds(few)


def test_others_at_work() -> None:
    found = one(changed(SMALL, measured(others_cpus=0.7)), "other-cpu-load")
    assert (found.about, "0.7 CPUs" in found.text) == ("5.7.22 poll=off", True)
    alone = changed(metadata(), lambda run: replace(run, around=Around(10.0, others_cpu_s=5.0)))
    assert "other-cpu-load" in kinds(alone), "where the sampler did not tell"
    reading = Around(60.0, others_read_bytes=500_000_000)
    assert "500 MB" in one(changed(SMALL, lambda run: replace(run, around=reading)), "other-disk-load").text
    journal = Around(60.0, others_written_bytes=500_000_000)
    own = measured(written_bytes_per_s=2e7)
    assert "other-disk-load" not in kinds(changed(SMALL, lambda run: own(replace(run, around=journal))))
    stolen = Around(60.0, steal_s=6.0)
    found = one(changed(SMALL, lambda run: replace(run, around=stolen)), "steal")
    assert (found.about, "10%" in found.text) == ("5.7.22 poll=off", True)


def test_a_wide_spread_of_the_figure() -> None:
    found = one(changed(SMALL, measured(qps=20000.0)), "wide-spread")
    assert found.about == "5.7.22 poll=off"
    assert "a second" in found.text


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
