"""The loop over the trials, with a scripted experiment: what is stored in each way in which a trial can end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
from fake_loop import GOOD, VERSION, session_of

from recovery.analysis.statistics import half_interval_95
from recovery.analysis.summary import summarise
from recovery.analysis.warnings import findings
from recovery.cli.measure import exit_code
from recovery.errors import (
    HostUnfitError,
    RecoveryError,
    ServerFailedError,
    ServerKilledError,
    StorageFailedError,
    TrialVoidError,
)
from recovery.model import (
    Cache,
    ColdProof,
    Contents,
    LoadRecord,
    Measurement,
    ReadFloor,
    Session,
    StackSamples,
    Startup,
    Trial,
    Variant,
    Verdict,
    WarmProof,
)
from recovery.report.summary_text import answers
from recovery.report.text import render
from recovery.session.plan import DatadirSpec
from recovery.session.run import store_artifacts
from recovery.session.store import empty_run, run_from_measurement
from recovery.storage.earlier import OtherSessions
from recovery.storage.sessions import find_session, load_session

GONE = ServerFailedError("it does not come back")


@pytest.fixture(autouse=True)
def fake_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recovery.session.run.measure_storage_floor", lambda bench: bench.floor())


def stored(tmp_path: Path) -> Session:
    return load_session(find_session(tmp_path / "results", None))


def verdicts(tmp_path: Path) -> str:
    return " ".join(run.verdict for run in stored(tmp_path).runs)


def stored_log(tmp_path: Path, name: str | None) -> str:
    assert name is not None
    return (find_session(tmp_path / "results", None) / name).read_text()


def test_every_trial_is_stored_with_its_log_and_its_server(tmp_path: Path) -> None:
    loop, _, pool = session_of(tmp_path, [GOOD, GOOD])
    loop.run()
    session = stored(tmp_path)
    assert session.status == "finished"
    assert verdicts(tmp_path) == "measured measured"
    assert [run.log for run in session.runs] == ["logs/001-5.7.22-cold-1.err", "logs/002-5.7.22-cold-2.err"]
    assert session.servers == {"5.7.22": {"source": "a fake"}}
    pool.release.assert_called_once_with(DatadirSpec(VERSION))
    peak = session.environment["tool_peak_memory_bytes"]
    assert isinstance(peak, int)
    assert peak > 1_000_000


def test_a_session_stores_the_earlier_ones_of_its_host_and_design(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that was interrupted, and nothing of another server."""
    monkeypatch.setattr("recovery.linux.host_facts.host_id", lambda *_: "0123456789ab")

    def measured(day: int, script: list[Any], sha256: str = "a") -> Session:
        loop, bench, _ = session_of(tmp_path, script)
        bench.description = {"sha256": sha256 * 64}
        loop.store.change(started_at=f"2026-11-{day}T10:00:00+00:00")
        with suppress(KeyboardInterrupt):
            loop.run()
        return load_session(loop.store.folder)

    assert measured(10, [4.0, 5.0]).earlier == ()
    (tmp_path / "results" / "damaged").mkdir()
    (tmp_path / "results" / "damaged" / "report.json").write_text("{")
    (first,) = measured(11, [5.0, KeyboardInterrupt()]).earlier
    assert (first.started_at, first.version, first.variant) == ("2026-11-10T10:00:00+00:00", "5.7.22", "cold")
    assert (first.count, first.mean, first.host_id) == (2, 4.5, "0123456789ab")
    assert measured(12, [9.0], sha256="b").earlier == ()
    last = measured(13, [5.5])
    assert [(one.count, one.mean) for one in last.earlier] == [(2, 4.5), (1, 5.0)]
    assert "Earlier on this host: 4.50 to 5.00 s in 2 sessions of 2 days." in answers(last)
    assert load_session(find_session(tmp_path / "results", first.session)).started_at == first.started_at


def test_a_session_is_stored_before_the_earlier_ones_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading them may take long, and the tool may be killed meanwhile."""
    seen = list[Session]()

    def other_sessions(_: Path, like: Sequence[Session], *, without: Sequence[Path]) -> OtherSessions:
        seen.extend(map(load_session, without))
        return OtherSessions(read=1, found=2)

    monkeypatch.setattr("recovery.session.run.other_sessions", other_sessions)
    loop, _, _ = session_of(tmp_path, [GOOD, GOOD])
    loop.run()
    (found,) = seen
    assert (found.status, len(found.runs)) == ("finished", 2)
    assert found.environment["tool_peak_memory_bytes"]
    assert stored(tmp_path).notes == (*found.notes, "Earlier sessions on this host: only the newest 1 of 2 were read.")


def test_a_precision_ends_the_runs_once_the_interval_is_narrow(tmp_path: Path) -> None:
    loop, _, _ = session_of(tmp_path, [4.0, 4.4, 4.0, 4.4, 4.2, 4.2, 4.2, *[GONE] * 3], precision=0.05, max_runs=10)
    loop.run()
    session = stored(tmp_path)
    assert (session.status, session.planned_runs, len(session.runs)) == ("finished", 6, 6)
    assert any(note.startswith("PRECISION=5%: ") for note in session.notes)
    (cell,) = summarise(session)
    assert cell.interval == pytest.approx(1.1 * half_interval_95([4.0, 4.4, 4.0, 4.4, 4.2, 4.2]))
    assert "precision-missed" not in {one.kind for one in findings(session)}
    assert not any("was missed" in line for line in answers(session))
    assert exit_code(loop.request, session) == 0


def test_a_first_read_counts_for_no_precision(tmp_path: Path) -> None:
    script = [90.0, 4.0, 4.1, 4.0, 4.1, 4.0, *[GONE] * 3]
    loop, _, _ = session_of(tmp_path, script, first_read=True, precision=0.05, max_runs=8)
    loop.run()
    session = stored(tmp_path)
    assert verdicts(tmp_path) == "sampled measured measured measured measured measured"
    assert session.planned_runs == 6
    (cell,) = summarise(session)
    assert cell.max == 4.1
    assert [run.log for run in session.runs][:2] == ["logs/001-5.7.22-cold-0.err", "logs/002-5.7.22-cold-1.err"]
    text = " ".join(render(session).split())
    assert "before the others and not averaged: 5.7.22 90.00 s." in text
    assert re.search(r"1 5\.7\.22 cold 90\.0\S* .*? first read", text)
    assert exit_code(loop.request, session) == 0


def test_a_precision_is_given_up_after_the_last_planned_run(tmp_path: Path) -> None:
    loop, _, _ = session_of(tmp_path, [4.0, 5.0, 4.0, 5.0, 4.0, 5.0], precision=0.05, max_runs=6)
    loop.run()
    session = stored(tmp_path)
    assert (session.status, session.planned_runs, len(session.runs)) == ("finished", 6, 6)
    assert "precision-missed" in {one.kind for one in findings(session)}
    assert "The precision of +- 5 % was missed in this session: 5.7.22 cold." in answers(session)
    assert exit_code(loop.request, session) == 1


def test_failed_runs_count_for_no_precision(tmp_path: Path) -> None:
    loop, _, _ = session_of(tmp_path, [GOOD, TrialVoidError("not cold"), *[GOOD] * 4, GONE], precision=0.05, max_runs=7)
    loop.run()
    assert verdicts(tmp_path) == "measured void measured measured measured measured"


def test_a_note_of_the_bench_is_shown_and_stored_once(tmp_path: Path) -> None:
    loop, bench, _ = session_of(tmp_path, [GOOD, GOOD])
    bench.notes.append("Server and clients share all CPUs.")
    loop.run()
    assert stored(tmp_path).notes.count("Server and clients share all CPUs.") == 1
    cast(Mock, loop.reporter).warn.assert_called_once_with("Server and clients share all CPUs.")


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ServerFailedError("it did not start"), Verdict.FAILED),
        (ServerKilledError("it was killed"), Verdict.VOID),
        (TrialVoidError("the cache was not cold"), Verdict.VOID),
    ],
)
def test_a_trial_that_fails_is_stored_with_its_reason_and_the_next_one_runs(
    error: RecoveryError, verdict: Verdict, tmp_path: Path
) -> None:
    loop, bench, _ = session_of(tmp_path, [error, GOOD])
    loop.run()
    first, second = stored(tmp_path).runs
    assert (first.verdict, first.reason, first.metrics.get("startup_s")) == (verdict, error.message, None)
    assert stored_log(tmp_path, first.log) == "the last words\n"
    assert second.verdict is Verdict.MEASURED
    bench.contents.recount_after_failure.assert_called_once_with()


@pytest.mark.parametrize(("error", "removed"), [(GONE, True), (ServerFailedError("it crashed"), False)])
def test_a_server_that_cannot_be_recovered_loses_its_other_trials(
    error: ServerFailedError, removed: bool, tmp_path: Path
) -> None:
    """Where it did not come back, the next session does not find its directory."""
    loop, bench, pool = session_of(tmp_path, [GOOD, error, GOOD, GOOD])
    bench.contents.recount_after_failure.side_effect = ServerFailedError("it does not start any more")
    loop.run()
    assert pool.remove.called == removed
    session = stored(tmp_path)
    assert verdicts(tmp_path) == "measured failed"
    assert session.planned_runs == 4
    assert any("the trials left were not run" in note for note in session.notes)


@pytest.mark.parametrize(
    ("script", "aside", "expected", "recovered"),
    [
        ([GONE, GOOD], "kept as x", "failed measured", 0),
        ([GONE, GOOD], None, "failed measured", 1),
        ([ServerFailedError("it died at an insert"), GOOD], "kept as x", "failed measured", 1),
        ([GOOD, GONE], "kept as x", "measured failed", 0),
    ],
)
def test_a_directory_over_which_the_server_did_not_come_back_is_set_aside(
    script: list[Any], aside: str | None, expected: str, recovered: int, tmp_path: Path
) -> None:
    """It is started no more: the next trial uses another directory."""
    loop, bench, pool = session_of(tmp_path, script, floor=True)
    pool.set_aside.return_value = aside
    loop.run()
    session = stored(tmp_path)
    assert verdicts(tmp_path) == expected
    assert bench.contents.recount_after_failure.call_count == recovered
    failed = next(run for run in session.runs if run.verdict is Verdict.FAILED)
    is_kept = aside is not None and GONE.message in str(failed.reason)
    assert failed.reason == (f"{GONE.message}; kept as x" if is_kept else str(failed.reason).partition(";")[0])
    assert stored_log(tmp_path, failed.log) == "the last words\n"
    rebuilt = "5.7.22: after run 1 its data directory was built anew."
    assert (rebuilt in session.notes) == (is_kept and failed.number == 1)
    assert bool(session.floors) == (session.runs[-1].verdict is Verdict.MEASURED)


def test_a_failed_trial_keeps_the_log_of_an_earlier_start(tmp_path: Path) -> None:
    logs, folder = tmp_path / "server", tmp_path / "session"
    for made in (logs, folder / "logs"):
        made.mkdir(parents=True)
    (logs / "killed-1.err").write_text("it cannot recover\n")
    trial = Trial(1, VERSION, Variant("recovery", Cache.COLD), 1)
    for verdict, log in ((Verdict.FAILED, "logs/001-5.7.22-recovery-1.err"), (Verdict.MEASURED, None)):
        run = replace(empty_run(trial), verdict=verdict)
        assert store_artifacts(folder, trial, run, outcome=Measurement(), logs=logs).log == log


TRIAL = Trial(1, VERSION, Variant("cold", Cache.COLD), 1)


def test_a_timed_start_becomes_a_run() -> None:
    startup = Startup(crash_proof="crashed", ready_lag_s=0.1, scan_threads=8)
    contents = Contents(tables_expected=9, tables_found=8, rows_expected=3, rows_found=2, rows_lost=1)
    run = run_from_measurement(
        TRIAL,
        Measurement(
            metrics={"startup_s": 3.123456789, "read_bytes": 5_668_179_968},
            startup=startup,
            previous_exit="signal 9",
            cold=ColdProof("fadvise", 64, 0.1),
            contents=contents,
        ),
    )
    assert (run.startup.crash_proof, run.previous_exit) == ("crashed", "signal 9")
    assert run.metrics == {"startup_s": 3.123456789, "read_bytes": 5_668_179_968}, "as they were measured"
    assert (run.startup.ready_lag_s, run.startup.scan_threads) == (0.1, 8)
    assert (run.contents.tables_found, run.contents.rows_expected, run.contents.rows_found) == (8, 3, 2)
    assert (run.cold.means, run.cold.resident_bytes, run.warm.warmups) == ("fadvise", 64, None)
    unproved = run_from_measurement(TRIAL, Measurement(cold=ColdProof("drop_caches"), warm=WarmProof(2, 0.5, 0.75)))
    assert (unproved.cold.means, unproved.cold.resident_bytes, unproved.metrics) == ("drop_caches", None, {})
    assert (unproved.warm.warmups, unproved.warm.resident_share, unproved.warm.resident_share_after) == (2, 0.5, 0.75)


def test_a_load_becomes_a_run() -> None:
    load = LoadRecord(clients={"sysbench": "1.0"}, raw="samples.csv.gz")
    run = run_from_measurement(TRIAL, Measurement(metrics={"qps": 1234.56789}, load=load, observations={"says": "ok"}))
    assert run.metrics == {"qps": 1234.56789}
    assert (run.load.clients, run.observations) == ({"sysbench": "1.0"}, {"says": "ok"})


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt(), "interrupted"), (HostUnfitError("no room", "make room"), "aborted")]
)
def test_a_session_that_ends_early_keeps_its_runs(error: BaseException, status: str, tmp_path: Path) -> None:
    loop, _, _ = session_of(tmp_path, [GOOD, error, GOOD])
    with pytest.raises(type(error)):
        loop.run()
    session = stored(tmp_path)
    assert session.status == status
    assert verdicts(tmp_path) == "measured"
    assert ("no room" in session.notes) == (status == "aborted")


def test_a_storage_error_makes_the_trial_void_and_ends_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool itself may be the first to meet a full disk, before the server does."""
    full = StorageFailedError("the disk is full", "make room")
    monkeypatch.setattr("recovery.session.run.as_storage_error", lambda *_: full)
    loop, _, _ = session_of(tmp_path, [GOOD, HostUnfitError("state.json cannot be written")])
    with pytest.raises(StorageFailedError):
        loop.run()
    session = stored(tmp_path)
    assert session.status == "aborted"
    assert [(str(one.verdict), one.measure_again) for one in session.runs] == [("measured", False), ("void", True)]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StorageFailedError("the disk is full", "make room")])
def test_a_ledger_is_not_trusted_if_the_rows_are_not_counted_again(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the process ends after a trial that lost rows, and the server was stopped cleanly before."""
    loop, bench, _ = session_of(tmp_path, [GOOD, GOOD])
    loop.experiment = replace(loop.experiment, judge=lambda _: (Verdict.FAILED, "1 of 9 acknowledged rows are lost"))
    monkeypatch.setattr(loop.store, "append", Mock(side_effect=error))
    with pytest.raises(type(error)):
        loop.run()
    assert not bench.stopped_cleanly
    assert not bench.contents.recount_after_failure.called


def test_the_floor_is_stored_with_its_variants(tmp_path: Path) -> None:
    loop, _, _ = session_of(tmp_path, [GOOD, GOOD], floor=True)
    loop.run()
    assert stored(tmp_path).floors == (ReadFloor("5.7.22", ("cold",), 9, 2.0, 1.0, 16, 0.5, 2),)


def test_gaps_in_stacks_are_noted_and_empty_stacks_are_not_stored(tmp_path: Path) -> None:
    file = tmp_path / "main.folded"
    file.write_text("main 3\n")
    full, empty = StackSamples("perf", 3, file=str(file)), StackSamples("perf", 0)
    loop, _, _ = session_of(tmp_path, [full, empty, replace(full, count=4)])
    loop.run()
    session = stored(tmp_path)
    assert session.notes[-2:] == ("5.7.22, run 1: 3 stacks", "5.7.22, run 2: 0 stacks")
    names = ["stacks/001-5.7.22-cold-1.folded", None, "stacks/003-5.7.22-cold-3.folded"]
    assert [run.stacks.file for run in session.runs] == names
    assert [run.stacks.count for run in session.runs] == [3, 0, 4]


@pytest.mark.parametrize(("shared", "cpus"), [(False, 3), (True, None)])
def test_refused_cpus_are_not_stored_as_dedicated(shared: bool, cpus: int | None, tmp_path: Path) -> None:
    loop, bench, _ = session_of(tmp_path, [GOOD, GOOD])
    loop.store.change(settings={**loop.store.session.settings, "client_cpus": 3})
    bench.cpus_shared = shared
    loop.run()
    assert stored(tmp_path).settings["client_cpus"] == cpus


def test_a_session_without_a_floor_is_finished(tmp_path: Path) -> None:
    loop, bench, _ = session_of(tmp_path, [GOOD], floor=True)
    bench.floor.side_effect = TrialVoidError("the cache was not cold")
    loop.run()
    session = stored(tmp_path)
    assert session.status == "finished"
    assert session.floors == ()
    assert any("there is no floor: the cache was not cold" in note for note in session.notes)
