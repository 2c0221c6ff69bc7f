"""The loop over the trials of a session, with a bench that measures what its script says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

from request_parts import changed_request, make_plan, new_request

from recovery.experiments.bench import Bench
from recovery.experiments.experiment import Experiment, judge_recovery
from recovery.linux.host_facts import collect_host_facts
from recovery.linux.storage import DATA, WritableFolder
from recovery.model import (
    Cache,
    Contents,
    ExtraRun,
    Flavor,
    Measurement,
    Schema,
    StackSamples,
    Startup,
    Variant,
    Version,
    startup_specs,
)
from recovery.mysqld.read_floor import FloorTimes
from recovery.session.datadirs import DatadirPool
from recovery.session.plan import build_variants, datadir_specs
from recovery.session.progress import ProgressReporter
from recovery.session.resume import ResumedSession, stored_plan
from recovery.session.run import TrialLoop, open_store
from recovery.session.store import session_from_request

VERSION = Version(Flavor.MYSQL, (5, 7, 22))


GOOD = "good"


class FakeBench:
    def __init__(self, logdir: Path) -> None:
        self.server = SimpleNamespace(logdir=logdir, group=None, close=lambda: None)
        self.datadir = SimpleNamespace(writable_folder=WritableFolder(DATA, logdir))
        self.schema = Schema(9)
        self.description = {"source": "a fake"}
        self.notes: list[str] = []
        self.run_notes: list[str] = []
        self.cpus_shared = False
        self.can_recover = True
        self.stopped_cleanly = True
        self.cache = Mock()
        self.contents = Mock()
        self.contents.recount_after_failure.side_effect = self.stop
        self.floor = Mock(return_value=FloorTimes(9, 2.0, 1.0, 16, 0.5, 2))

    clear_logs = Bench.clear_logs

    def stop(self) -> None:
        self.stopped_cleanly = True

    def configure(self, variant: Variant, *, extra: ExtraRun | None = None, repeat: int = 1) -> None:
        self.can_recover = True
        self.run_notes.clear()


def session_of(
    tmp_path: Path,
    script: list[Any],
    *,
    resumed: ResumedSession | None = None,
    first_read: bool = False,
    extras: tuple[ExtraRun, ...] = (),
    **wished: Any,
) -> tuple[TrialLoop, FakeBench, Mock]:
    """Returns a loop with its bench and its pool. Each trial raises its entry of the script, or measures well; a number
    is the duration of its start. `wished` are fields of the request."""
    steps = iter(script)

    def measure(bench: FakeBench, _: Variant) -> Measurement:
        step = next(steps)
        if isinstance(step, BaseException):
            (bench.server.logdir / "untimed-1.err").write_text("the last words\n")
            bench.can_recover = "does not come back" not in str(step)
            raise step
        bench.stop()
        log = bench.server.logdir / "timed.err"
        log.write_text("ready for connections\n")
        seconds = step if isinstance(step, float) else 4.0
        startup = Startup(crash_proof="Database was not shutdown normally!")
        metrics = {"startup_s": seconds, "first_query_s": seconds + 0.1, "read_bytes": 5.0}
        contents = Contents(tables_expected=9, tables_found=9, rows_expected=1, rows_found=1, rows_lost=0)
        stacks = StackSamples()
        if isinstance(step, StackSamples):
            stacks = step
            bench.run_notes[:] = [] if step.count == 4 else [f"{step.count} stacks"]
        return Measurement(metrics=metrics, startup=startup, previous_exit="signal 9", contents=contents, stacks=stacks)

    name, specs = "cold-recovery", startup_specs((Cache.COLD,))
    how = cast(Any, measure)
    scenario = Experiment(name, "How long?", "Startup after SIGKILL", how, judge_recovery, lambda *_: specs)
    runs = len(script) if resumed is None else resumed.store.session.planned_runs
    runs = wished.get("max_runs") or runs - first_read - len(extras)
    variants = build_variants(specs)
    plan = make_plan(
        [VERSION], variants, repeats=runs, alternating=False, extras=extras,
        first_reads=datadir_specs([VERSION], variants) if first_read else (),
    )  # fmt: skip
    if resumed is not None:
        plan = replace(plan, done=resumed.store.session.done, built=frozenset(resumed.planned.built))
    request = new_request(name, specs, ("5.7.22",), Schema(9), runs, tmp_path / "d", tmp_path / "results")
    logdir = tmp_path / "logs"
    logdir.mkdir(exist_ok=True)
    for log in logdir.iterdir():
        log.unlink()
    bench = FakeBench(logdir)
    reporter = Mock(spec=ProgressReporter)
    settings = tuple((name, wished[name]) for name in ("precision", "max_runs") if name in wished)
    request = changed_request(request, **wished, stored_settings=settings)
    session = session_from_request(
        request, scenario, plan, environment=collect_host_facts(request.output.data), engine="local"
    )
    if resumed is not None:
        session = resumed.session(session, stored_plan(request, plan))
    store = open_store(request, session, plan, reporter, resumed)
    pool = Mock(spec=DatadirPool, request=request, plan=plan, store=store, reporter=reporter)
    pool.bench.return_value = bench
    pool.set_aside.return_value = None
    loop = TrialLoop(scenario, pool)
    return loop, bench, pool
