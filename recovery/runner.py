"""The one loop: stage, (prepare, measure, conclude) x N, release. Every run is on disk as soon as it ends."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import recovery
from recovery.builds.resolve import known_wanted
from recovery.builds.tools import provide, provide_all
from recovery.engines import Engine
from recovery.errors import RecoveryError, ServerFailedError, ServerKilledError, TrialVoidError
from recovery.forecast import ahead_of
from recovery.foreseen import foresee
from recovery.host import tempfolders
from recovery.host.datadir import DataDirs
from recovery.host.dropping import cold_means
from recovery.host.facts import environment
from recovery.host.limits import Group, limited
from recovery.host.lock import host_lock
from recovery.host.orphans import end_left_groups, end_left_servers
from recovery.host.randomreads import LEFT_OUT, effort_for, probe
from recovery.host.rights import refusing
from recovery.host.standstill import Standstill
from recovery.host.usage import peak_memory_bytes
from recovery.keeping import keep
from recovery.leftout import left_out
from recovery.limited import overrun
from recovery.load.build import BuildInterruptedError
from recovery.load.insert import insert_statements
from recovery.load.schema import check_template
from recovery.model import Trial
from recovery.plan import Place, place_of, places_for
from recovery.prepared import Prepared, dropper_of, prepare, resolve_builds
from recovery.request import Request
from recovery.results import empty_run, floor_of, judged, run_of, session_of, with_cpus_shared
from recovery.scenarios import find_scenario
from recovery.scenarios.bench import Bench
from recovery.scenarios.floor import floor as measure_floor
from recovery.stacks.programs import programs
from recovery.stagehand import Narrator, Stagehand
from recovery.stages import refuse
from recovery.store import SessionStore, check_results_folder
from recovery.stored import Run, Verdict


def limits_not_held(group: Group | None, run: Run) -> str | None:
    """Why this run did not measure what was asked."""
    if group is None:
        return None
    requests, read, seconds = run.read_requests, run.read_bytes, run.first_query_s
    if seconds is None:
        seconds = run.around.seconds if run.around else 0.0
    return group.lost() or overrun(group.limits, read_requests=requests, read_bytes=read, seconds=seconds)


def run_session(request: Request, *, engine: Engine, narrator: Narrator) -> SessionStore:
    """The whole way from a request to a stored session. Raises what ended it early, with what there is kept."""
    with refusing(request.refused):
        return _session(request, engine=engine, narrator=narrator)


def _session(request: Request, *, engine: Engine, narrator: Narrator) -> SessionStore:
    foresee(request, say=narrator.warn)
    check_template(request.schema)
    insert_statements(request.schema, count=request.inserts, template=request.insert_template)
    releases = [release for version in request.versions if (release := known_wanted(version).release) is not None]
    for place in places_for(releases, request.measured):
        refuse(place.version, place.schema(request.schema))
    if request.work is not None and request.stacks is not None:
        provide(request.stacks, offline=request.offline, say=narrator.warn)
    samplers = programs(request.stacks) if request.stacks is not None else ()
    check_results_folder(request.results)
    DataDirs(request.data).check()
    with host_lock(), narrator.on_stage():
        for name in end_left_groups():
            narrator.say(f"removed the control group {name}, which a killed run had left behind")
        for pid in end_left_servers():
            narrator.say(f"ended server {pid}, which a killed run had left behind")
        with ExitStack() as stack:
            # At the end: a server that a killed run has left is ended first, and must not lose its folder before.
            stack.callback(tempfolders.sweep, Path(tempfile.gettempdir()))
            # Before the hour of building: a limit that cannot be set is refused at once.
            group = stack.enter_context(limited(request.limits, request.data))
            narrator.doing("getting the servers")
            builds = resolve_builds(request, engine, narrator.warn)
            dropper = dropper_of(request, engine, builds, narrator.warn)
            at_work = find_scenario(request.scenario).programs
            programs_at_work = provide_all(at_work, offline=request.offline, say=narrator.warn)
            # Before anything is built: later the storage would still be at work for us.
            narrator.doing("trying the storage")
            tried = probe(request.data, effort_for(request.most_tables)) if request.probe else LEFT_OUT
            for told in left_out([build.version for build in builds], request.measured):
                narrator.warn(told)
            prepared = replace(prepare(request, builds), dropper=dropper, storage=tried.facts())
            narrator.planned(ahead_of(request, prepared.plan, prepared.stages))
            scratch = tempfolders.make()
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            stagehand = stack.enter_context(
                Stagehand(
                    request,
                    prepared.stages,
                    engine=engine,
                    narrator=narrator,
                    group=group,
                    samplers=samplers,
                    programs=programs_at_work,
                )
            )
            stagehand.rehearse()
            return _Loop(request, prepared, stagehand=stagehand, scratch=scratch, narrator=narrator).run()


class _Loop:
    def __init__(
        self, request: Request, prepared: Prepared, *, stagehand: Stagehand, scratch: Path, narrator: Narrator
    ) -> None:
        self.request = request
        self.prepared = prepared
        self.stagehand = stagehand
        self.scratch = scratch
        self.narrator = narrator
        self.store: SessionStore | None = None
        self.session = session_of(
            request,
            prepared.scenario,
            prepared.plan,
            environment=environment(request.data)
            | dict(prepared.storage)
            | dict(stagehand.engine.facts)
            | {"cold_means": cold_means(prepared.dropper)},
            engine=stagehand.engine.name,
            tool_version=recovery.__version__,
        )
        self._given_up: set[Place] = set()
        self._last_place: Place | None = None

    def run(self) -> SessionStore:
        status, note = "aborted", None
        try:
            self._trials()
            status = "finished"
        except (KeyboardInterrupt, BuildInterruptedError):
            status = "interrupted"
            raise
        except (RecoveryError, OSError) as error:
            note = str(error)
            raise
        finally:
            if self.store is not None:
                notes = (*self.session.notes, note) if note else self.session.notes
                host = self.session.environment | {"tool_peak_memory_bytes": peak_memory_bytes()}
                self.session = replace(self.session, status=status, notes=notes, environment=host)
                self.store.finish(self.session)
        assert self.store is not None, "a plan has at least one trial"
        return self.store

    def _trials(self) -> None:
        plan = self.prepared.plan
        if plan.alternating:
            # All are built before any is timed: a build in between would disturb what follows.
            for stage in self.prepared.stages:
                self._bench(stage.place)
        for trial in plan.trials:
            place, is_last = place_of(trial.version, trial.variant), plan.is_last(trial)
            if place not in self._given_up:
                bench = self._bench(place)
                if place != self._last_place:
                    bench.disturbed()
                self._last_place = place
                bench.vary(trial.variant, extra=trial.extra, repeat=trial.repeat)
                self._one(trial, bench)
                if is_last and self.request.floor:
                    self._floor(trial, bench)
            if is_last and not plan.alternating:
                self.stagehand.leave(place)

    def _bench(self, place: Place) -> Bench:
        return self.stagehand.bench(place, self.prepared.dropper, self.scratch)

    def _one(self, trial: Trial, bench: Bench) -> None:
        if self.store is None:
            self.store = SessionStore.create(self.request.results, self.session)
            self.narrator.keeping_in(self.store.folder)
        self.narrator.trial_began(trial)
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        for old in bench.server.logdir.glob("*.err"):
            old.unlink()
        outcome, standstill = None, Standstill()
        try:
            outcome = self.prepared.scenario.measure(bench, trial.variant)
        except (ServerFailedError, TrialVoidError) as error:
            void = isinstance(error, TrialVoidError | ServerKilledError)
            verdict = Verdict.VOID if void else Verdict.FAILED
            told = f"{error.message}; {error.hint}" if error.hint else error.message
            run = replace(empty_run(trial), verdict=verdict, reason=told)
        else:
            run = run_of(trial, outcome)
            doubt = standstill.told() or limits_not_held(bench.server.group, run)
            verdict, reason = (Verdict.VOID, doubt) if doubt else self.prepared.scenario.judge(outcome)
            run = judged(trial, run, verdict, reason)
            if outcome.samples is not None and outcome.samples.note:
                self._note(f"{trial.version}, run {trial.number}: {outcome.samples.note}")
        run = self._by_a_steady_clock(trial, run, standstill)
        run = keep(self.store.folder, trial, run, outcome=outcome, logs=bench.server.logdir)
        self.store.append(replace(run, started_at=started_at))
        for told in bench.notes:
            self._note(told)
        if bench.cpus_shared:
            self.session = with_cpus_shared(self.session)
        self._describe_server(trial, bench)
        self.narrator.trial_ended(run, len(self.prepared.plan.trials))
        if not run.verdict.as_asked:
            # Whatever went wrong, the ledger and the files may disagree now; the next trial must not inherit that.
            self._settle(bench, trial)

    def _by_a_steady_clock(self, trial: Trial, run: Run, standstill: Standstill) -> Run:
        """No duration is taken from the host's clock; what holds the server's stamps against it is."""
        set_s = standstill.clock_set_s()
        if set_s is None:
            return run
        self._note(
            f"The host's clock was set by {set_s:+.1f} s during run {trial.number}; no duration is taken from it."
        )
        return replace(run, ready_lag_s=None)

    def _floor(self, trial: Trial, bench: Bench) -> None:
        """After the last trial over a directory: only of files that a server has left in peace."""
        if not bench.at_rest:
            return
        self.narrator.say(f"{trial.version}: reading the first page of every table's file, for the floor")
        try:
            floor = floor_of(trial, self.prepared.plan, measure_floor(bench))
        except RecoveryError as error:
            self._note(f"{trial.version}: there is no floor: {error.message}")
        else:
            self.session = replace(self.session, floors=(*self.session.floors, floor))
        assert self.store is not None
        self.store.update(self.session)

    def _describe_server(self, trial: Trial, bench: Bench) -> None:
        assert self.store is not None
        name = " ".join(filter(None, (str(trial.version), trial.variant.label)))
        if self.session.servers.get(name) != (known := bench.description):
            self.session = replace(self.session, servers={**self.session.servers, name: known})
            self.store.update(self.session)

    def _settle(self, bench: Bench, trial: Trial) -> None:
        """After a trial that ended half-way. Where the server does not come back, its other trials are given up."""
        try:
            bench.settle()
        except RecoveryError as error:
            bench.server.close()
            self._given_up.add(place_of(trial.version, trial.variant))
            if self.prepared.plan.is_last(trial):
                return
            self._note(f"{trial.version}: the trials left were not run: {error.message}")

    def _note(self, note: str) -> None:
        """For the report, and for who looks on: once."""
        if note not in self.session.notes:
            self.session = replace(self.session, notes=(*self.session.notes, note))
            self.narrator.warn(note)
