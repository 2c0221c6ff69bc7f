"""The one loop, with a scenario and a bench that are scripted: what is stored when trials end in every possible way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from recovery.errors import (
    HostUnfitError,
    RecoveryError,
    ServerFailedError,
    ServerKilledError,
    StorageFailedError,
    TrialVoidError,
)
from recovery.experiments.bench import Bench, Contents
from recovery.experiments.experiment import LoadRecord, Measurement, Scenario, judge_recovery
from recovery.linux.storage import DATA, WritableFolder
from recovery.model import (
    Build,
    Cache,
    ColdProof,
    ExtraRun,
    Flavor,
    ReadFloor,
    ResourceUsage,
    Run,
    Schema,
    Session,
    StackSamples,
    Startup,
    Trial,
    Variant,
    Verdict,
    Version,
    WarmProof,
    startup_specs,
)
from recovery.mysqld.phases import CurrentPhase
from recovery.mysqld.read_floor import FloorTimes
from recovery.report.stored_session import find_session, load_session
from recovery.session.datadirs import DatadirPool
from recovery.session.plan import DatadirSpec, build_variants, make_plan
from recovery.session.prepare import RunSetup
from recovery.session.progress import SessionEstimate
from recovery.session.request import Request
from recovery.session.run import TrialLoop, store_artifacts
from recovery.session.store import empty_run, run_from_measurement

VERSION = Version(Flavor.MYSQL, (5, 7, 22))
GONE = ServerFailedError("it does not come back")
Step = Callable[["FakeBench"], None]


class FakeBench:
    def __init__(self, logdir: Path) -> None:
        build = cast(Build, SimpleNamespace(version=VERSION))
        self.server = SimpleNamespace(alive=False, logdir=logdir, build=build, group=None, close=lambda: None)
        self.description = {"source": "a fake"}
        self.notes: list[str] = []
        self.cpus_shared = False
        self.datadir = SimpleNamespace(writable_folder=WritableFolder(DATA, logdir))
        self.can_recover = True
        self.settled = 0
        self.disturbances = 0
        self.stopped_cleanly = True
        self.fails_to_recover = False

    def configure(self, variant: Variant, *, extra: ExtraRun | None = None, repeat: int = 1) -> None:
        self.extra = extra
        self.variant = variant
        self.repeat = repeat
        self.can_recover = True

    def floor(self) -> FloorTimes:
        if self.fails_to_recover:
            raise TrialVoidError("the cache was not cold")
        return FloorTimes(9, 2.0, 1.0, 16, 0.5, 2)

    clear_logs = Bench.clear_logs

    def invalidate_cache_baseline(self) -> None:
        self.disturbances += 1

    def recount_after_failure(self) -> None:
        self.settled += 1
        if self.fails_to_recover:
            raise ServerFailedError("it does not start any more")


class FakePool:
    def __init__(self, bench: FakeBench) -> None:
        self.the_bench = bench
        self.left: list[DatadirSpec] = []
        self.engine = SimpleNamespace(name="local", facts={})
        self.aside: str | None = None
        self.dropped: list[DatadirSpec] = []

    def set_aside(self, _: DatadirSpec) -> str | None:
        return self.aside

    def remove(self, spec: DatadirSpec) -> None:
        self.dropped.append(spec)

    def bench(self, *_: object) -> FakeBench:
        return self.the_bench

    def release(self, spec: DatadirSpec) -> None:
        self.left.append(spec)


class SilentReporter:
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    @contextmanager
    def building(self, title: str) -> Iterator[Callable[[int, int], None]]:
        yield lambda done, total: None

    def warn(self, line: str) -> None:
        self.said.append(line)

    @contextmanager
    def active(self) -> Iterator[None]:
        yield

    def planned(self, estimate: SessionEstimate) -> None: ...
    def resumed_with(self, runs: Iterable[Run]) -> None: ...
    def set_results_folder(self, folder: Path) -> None: ...
    def trial_began(self, trial: Trial) -> None: ...
    def doing(self, step: str) -> None: ...
    def follow(self, standing: Callable[[float], CurrentPhase]) -> None: ...

    def trial_ended(self, run: Run, planned: int) -> None:
        self.said.append(f"{run.number}/{planned} {run.verdict}")


def good(bench: FakeBench) -> Measurement:
    log = bench.server.logdir / "timed.err"
    log.write_text("ready for connections\n")
    startup = Startup(4.0, 4.1, "Database was not shutdown normally!", ResourceUsage(read_bytes=5), log)
    contents = Contents(tables_expected=9, tables_found=9, rows_expected=1, rows_found=1, rows_lost=0)
    return Measurement(startup=startup, previous_exit="signal 9", contents=contents)


@pytest.fixture(autouse=True)
def floors_of_the_fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recovery.session.run.measure_storage_floor", FakeBench.floor)


def session_of(tmp_path: Path, script: list[Any], *, floor: bool = False) -> tuple[TrialLoop, FakeBench, FakePool]:
    """A loop whose n-th trial does what the n-th entry says: raise it, or measure well."""
    steps = iter(script)

    def measure(bench: FakeBench, _: Cache) -> Measurement:
        step = next(steps)
        if isinstance(step, BaseException):
            (bench.server.logdir / "untimed-1.err").write_text("the last words\n")
            bench.can_recover = "does not come back" not in str(step)
            raise step
        return replace(good(bench), samples=step if isinstance(step, StackSamples) else None)

    scenario = Scenario(
        "cold-recovery", "How long?", "Startup after SIGKILL", (Cache.COLD,), cast(Any, measure), judge_recovery
    )
    plan = make_plan(
        [VERSION], build_variants(startup_specs(scenario.caches), (), ()), repeats=len(script), alternating=False
    )
    request = Request(
        "cold-recovery",
        startup_specs((Cache.COLD,)),
        ("5.7.22",),
        Schema(9),
        len(script),
        tmp_path / "d",
        tmp_path / "results",
    )
    request = replace(request, floor=floor)
    logdir = tmp_path / "logs"
    logdir.mkdir()
    bench = FakeBench(logdir)
    pool = FakePool(bench)
    setup = RunSetup(scenario, plan, ())
    return TrialLoop(request, setup, pool=cast(DatadirPool, pool), scratch=logdir, reporter=SilentReporter()), bench, pool  # fmt: skip # noqa: E501


def stored(tmp_path: Path) -> Session:
    return load_session(find_session(tmp_path / "results", None))


def test_every_trial_is_stored_with_its_log_and_the_server_described(tmp_path: Path) -> None:
    loop, _, pool = session_of(tmp_path, ["good", "good"])
    loop.run()
    session = stored(tmp_path)
    assert session.status == "finished"
    assert [run.verdict for run in session.runs] == [Verdict.MEASURED] * 2
    assert [run.log for run in session.runs] == ["logs/001-5.7.22-cold-1.err", "logs/002-5.7.22-cold-2.err"]
    assert session.servers == {"5.7.22": {"source": "a fake"}}
    assert pool.left == [DatadirSpec(VERSION)]
    peak = session.environment["tool_peak_memory_bytes"]
    assert isinstance(peak, int)
    assert peak > 1_000_000


def test_what_a_bench_notes_is_told_and_stored_once(tmp_path: Path) -> None:
    loop, bench, _ = session_of(tmp_path, ["good", "good"])
    bench.notes.append("Server and clients share all CPUs.")
    loop.run()
    assert stored(tmp_path).notes.count("Server and clients share all CPUs.") == 1
    assert cast(SilentReporter, loop.reporter).said.count("Server and clients share all CPUs.") == 1


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ServerFailedError("it did not start"), Verdict.FAILED),
        (ServerKilledError("it was killed"), Verdict.VOID),
        (TrialVoidError("the cache was not cold"), Verdict.VOID),
    ],
)
def test_what_goes_wrong_is_stored_with_its_reason_and_the_session_goes_on(
    error: RecoveryError, verdict: Verdict, tmp_path: Path
) -> None:
    loop, bench, _ = session_of(tmp_path, [error, "good"])
    loop.run()
    first, second = stored(tmp_path).runs
    assert (first.verdict, first.reason) == (verdict, error.message)
    assert first.startup_s is None
    assert first.log is not None
    assert (find_session(tmp_path / "results", None) / first.log).read_text() == "the last words\n"
    assert second.verdict is Verdict.MEASURED
    assert bench.settled == 1


@pytest.mark.parametrize(("error", "dropped"), [(GONE, 1), (ServerFailedError("it crashed"), 0)])
def test_a_server_that_does_not_come_back_loses_its_other_trials(
    error: ServerFailedError, dropped: int, tmp_path: Path
) -> None:
    """Its directory is not found by the next session, where this one has built it."""
    loop, bench, pool = session_of(tmp_path, ["good", error, "good", "good"])
    bench.fails_to_recover = True
    loop.run()
    assert len(pool.dropped) == dropped
    session = stored(tmp_path)
    assert [run.verdict for run in session.runs] == [Verdict.MEASURED, Verdict.FAILED]
    assert session.planned_runs == 4
    assert any("the trials left were not run" in note for note in session.notes)


@pytest.mark.parametrize(
    ("script", "aside", "verdicts", "settled"),
    [
        ([GONE, "good"], "kept as x", "failed measured", 0),
        ([GONE, "good"], None, "failed measured", 1),
        ([ServerFailedError("it died at an insert"), "good"], "kept as x", "failed measured", 1),
        (["good", GONE], "kept as x", "measured failed", 0),
    ],
)
def test_what_a_server_did_not_come_back_over_is_kept(
    script: list[Any], aside: str | None, verdicts: str, settled: int, tmp_path: Path
) -> None:
    """And started no more: the next trial is over another directory."""
    loop, bench, pool = session_of(tmp_path, script, floor=True)
    pool.aside = aside
    loop.run()
    session = stored(tmp_path)
    assert [str(run.verdict) for run in session.runs] == verdicts.split()
    assert bench.settled == settled
    failed = next(run for run in session.runs if run.verdict is Verdict.FAILED)
    is_kept = aside is not None and GONE.message in str(failed.reason)
    assert failed.reason == (f"{GONE.message}; kept as x" if is_kept else str(failed.reason).partition(";")[0])
    assert failed.log is not None
    assert (find_session(tmp_path / "results", None) / failed.log).read_text() == "the last words\n"
    anew = "5.7.22: after run 1 its data directory was built anew."
    assert (anew in session.notes) == (is_kept and failed.number == 1)
    assert bool(session.floors) == (session.runs[-1].verdict is Verdict.MEASURED)


def test_the_log_of_a_start_before_the_timed_one_is_kept_where_it_failed(tmp_path: Path) -> None:
    logs, folder = tmp_path / "server", tmp_path / "session"
    for made in (logs, folder / "logs"):
        made.mkdir(parents=True)
    (logs / "killed-1.err").write_text("it cannot recover\n")
    trial = Trial(1, VERSION, Variant("recovery", Cache.COLD), 1)
    for verdict, log in ((Verdict.FAILED, "logs/001-5.7.22-recovery-1.err"), (Verdict.MEASURED, None)):
        run = replace(empty_run(trial), verdict=verdict)
        assert store_artifacts(folder, trial, run, outcome=Measurement(), logs=logs).log == log


TRIAL = Trial(1, VERSION, Variant("cold", Cache.COLD), 1)
USAGE = ResourceUsage(read_bytes=5, read_requests=10, cpu_s=0.5, cache_grown_bytes=7, group_memory_bytes=9)


def test_a_timed_start_becomes_a_run() -> None:
    startup = Startup(3.0, 4.0, "crashed", USAGE, Path("x.err"), ready_lag_s=0.1, scan_threads=8)
    contents = Contents(tables_expected=9, tables_found=8, rows_expected=3, rows_found=2, rows_lost=1)
    run = run_from_measurement(
        TRIAL,
        Measurement(
            startup=startup, previous_exit="signal 9", cold=ColdProof("fadvise", 64, 0.1), contents=contents,
            flushed_by="drop_caches",
        ),
    )  # fmt: skip
    assert (run.startup_s, run.first_query_s, run.crash_proof, run.exit_signal) == (3.0, 4.0, "crashed", "signal 9")
    assert (run.read_bytes, run.read_requests, run.reads_per_s, run.cpu_s) == (5, 10, 2.5, 0.5)
    assert (run.cache_grown_bytes, run.group_memory_bytes, run.ready_lag_s, run.scan_threads) == (7, 9, 0.1, 8)
    assert (run.tables, run.rows_expected, run.rows_found) == (8, 3, 2)
    assert (run.cold_means, run.resident_before_bytes, run.warmups) == ("fadvise", 64, None)
    unproved = run_from_measurement(TRIAL, Measurement(flushed_by="drop_caches", warm=WarmProof(2, 0.5, 0.75)))
    assert (unproved.cold_means, unproved.resident_before_bytes, unproved.startup_s) == ("drop_caches", None, None)
    assert (unproved.warmups, unproved.resident_share, unproved.resident_share_after) == (2, 0.5, 0.75)


def test_a_load_becomes_a_run() -> None:
    load = LoadRecord(seconds=4.0, usage=USAGE, clients={"sysbench": "1.0"}, raw=Path("looks.csv.gz"))
    run = run_from_measurement(TRIAL, Measurement(metrics={"qps": 1234.56789}, load=load, observations={"says": "ok"}))
    assert run.measures == {"qps": 1234.568}
    assert (run.clients, run.told) == ({"sysbench": "1.0"}, {"says": "ok"})
    assert (run.read_bytes, run.read_requests, run.reads_per_s, run.group_memory_bytes) == (5, 10, 2.5, 9)
    assert run.cache_grown_bytes is None, "others may have filled the cache during a load"
    assert run.startup_s is None


def test_an_interruption_keeps_what_there_is(tmp_path: Path) -> None:
    loop, _, _ = session_of(tmp_path, ["good", KeyboardInterrupt(), "good"])
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    session = stored(tmp_path)
    assert session.status == "interrupted"
    assert len(session.runs) == 1


def test_an_unfit_host_ends_the_session_and_says_why(tmp_path: Path) -> None:
    loop, _, _ = session_of(tmp_path, ["good", HostUnfitError("the disk is full", "make room")])
    with pytest.raises(HostUnfitError):
        loop.run()
    session = stored(tmp_path)
    assert session.status == "aborted"
    assert "the disk is full" in session.notes
    assert len(session.runs) == 1


def test_a_file_that_the_storage_refuses_makes_the_trial_void_and_ends_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool itself may be the first to meet a full disk, before the server does."""
    full = StorageFailedError("the disk is full", "make room")
    monkeypatch.setattr("recovery.session.run.as_storage_error", lambda *_: full)
    loop, _, _ = session_of(tmp_path, ["good", HostUnfitError("state.json cannot be written")])
    with pytest.raises(StorageFailedError):
        loop.run()
    session = stored(tmp_path)
    assert session.status == "aborted"
    assert [(one.verdict, one.measure_again) for one in session.runs] == [
        (Verdict.MEASURED, False),
        (Verdict.VOID, True),
    ]


def test_the_floor_is_stored_with_the_variants_over_these_files(tmp_path: Path) -> None:
    loop, _, _ = session_of(tmp_path, ["good", "good"], floor=True)
    loop.run()
    assert stored(tmp_path).floors == (ReadFloor("5.7.22", ("cold",), 9, 2.0, 1.0, 16, 0.5, 2),)


def test_what_stacks_lack_is_noted_and_nothing_is_kept_of_none(tmp_path: Path) -> None:
    seen = StackSamples("perf", 3, (), "main 3\n", note="perf was full")
    loop, _, _ = session_of(
        tmp_path, [seen, StackSamples("perf", 0, (), "", note="perf saw nothing"), replace(seen, note="")]
    )
    loop.run()
    session = stored(tmp_path)
    assert session.notes[-2:] == ("5.7.22, run 1: perf was full", "5.7.22, run 2: perf saw nothing")
    assert [run.stacks for run in session.runs] == [
        "stacks/001-5.7.22-cold-1.folded",
        None,
        "stacks/003-5.7.22-cold-3.folded",
    ]
    assert [run.samples for run in session.runs] == [3, 0, 3]


@pytest.mark.parametrize(("shared", "cpus"), [(False, 3), (True, None)])
def test_cpus_that_were_refused_are_not_stored_as_the_clients_own(
    shared: bool, cpus: int | None, tmp_path: Path
) -> None:
    loop, bench, _ = session_of(tmp_path, ["good", "good"])
    loop.session = replace(loop.session, settings={**loop.session.settings, "client_cpus": 3})
    bench.cpus_shared = shared
    loop.run()
    assert stored(tmp_path).settings["client_cpus"] == cpus


def test_a_floor_that_cannot_be_had_costs_no_session(tmp_path: Path) -> None:
    loop, bench, _ = session_of(tmp_path, ["good"], floor=True)
    bench.fails_to_recover = True
    loop.run()
    session = stored(tmp_path)
    assert session.status == "finished"
    assert session.floors == ()
    assert any("there is no floor: the cache was not cold" in note for note in session.notes)
