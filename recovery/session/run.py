"""Runs a session: prepares it, measures its trials one after the other, and stores each run as soon as it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from recovery.analysis.history import earlier_sessions
from recovery.analysis.statistics import is_precise
from recovery.analysis.summary import main_values, measured_runs_by_cell
from recovery.analysis.warm import rename_second_starts, second_start_name
from recovery.builds.packages import provide_tool, provide_tools
from recovery.errors import (
    HostUnfitError,
    InterruptedByUserError,
    PausedError,
    RecoveryError,
    ServerFailedError,
    ServerKilledError,
    StorageFailedError,
    TrialVoidError,
)
from recovery.experiments import find_experiment
from recovery.experiments.bench import Bench, measure_storage_floor
from recovery.experiments.experiment import Experiment
from recovery.linux import cleanup
from recovery.linux.cgroups import LimitGroup, run_exceeded, server_limits
from recovery.linux.cleanup import kill_orphaned_servers, remove_orphaned_groups
from recovery.linux.files import copy_atomically
from recovery.linux.host_facts import collect_host_facts
from recovery.linux.host_speed import block_effort, measure_host_speed
from recovery.linux.locks import host_lock
from recovery.linux.page_cache import CacheDropper, check_can_be_cold, cold_method
from recovery.linux.privileges import RootStep
from recovery.linux.procfs import Fact, peak_memory_bytes
from recovery.linux.read_benchmark import NOT_PROBED, effort_for, probe_reads
from recovery.linux.signals import ClockGuard, defer_signals
from recovery.linux.storage import DATA, WritableFolder, as_storage_error, storage_errors, temporary_folder
from recovery.metrics import metric
from recovery.model import Build, Cache, Measurement, Run, Session, Status, Trial, Verdict
from recovery.mysqld.datadir import DataDirs, remove_leftover_copies
from recovery.mysqld.options import quoted_value
from recovery.mysqld.table_files import kept_table_files
from recovery.report.json_report import to_json
from recovery.session.datadirs import DatadirPool, check_encryption
from recovery.session.engine import Engine, Say, resolve_builds
from recovery.session.option_checks import check_options, check_table_open_cache, check_versions, known_releases
from recovery.session.plan import DatadirSpec, Plan, datadir_spec
from recovery.session.prepare import check_space, plan_session
from recovery.session.progress import Progress, ProgressReporter
from recovery.session.repeat import NotDueError
from recovery.session.request import Request
from recovery.session.resume import (
    ResumedSession,
    Unfinished,
    check_same_measurement,
    open_resumed,
    stored_plan,
    sweep_results,
)
from recovery.session.store import (
    SAMPLES,
    SessionStore,
    check_results_folder,
    floor_from_reads,
    run_from_error,
    run_from_measurement,
    session_from_request,
    with_verdict,
)
from recovery.storage.earlier import other_sessions
from recovery.storage.sessions import STACKS_FOLDER, writing_results

# --- Files stored with a run: logs, stacks and samples


def store_artifacts(folder: Path, trial: Trial, run: Run, *, outcome: Measurement | None, logs: Path) -> Run:
    """Stores the log, stacks and samples of a trial in the session's folder and returns the run with their names.

    The log is that of the timed start. A trial that failed before that has a log, too: the newest one shows why it
    failed."""
    name = f"{trial.number:03d}-{trial.version}-{trial.variant.name}-{trial.repeat}"
    found = [] if outcome is None else list(logs.glob("timed*.err"))
    if not found and (outcome is None or run.verdict is Verdict.FAILED):
        found = list(logs.glob("*.err"))
    with writing_results(folder):
        if found:
            run = replace(run, log=f"logs/{name}.err")
            log = max(found, key=lambda log: log.stat().st_mtime)
            copy_atomically(log, folder / f"logs/{name}.err", links_until=folder.parent)
        if run.stacks.file is not None:
            kept = _keep(Path(run.stacks.file), folder, f"{STACKS_FOLDER}/{name}.folded")
            run = replace(run, stacks=replace(run.stacks, file=kept))
        if run.load.raw is not None:
            kept = _keep(Path(run.load.raw), folder, f"{SAMPLES}/{name}.csv.gz")
            run = replace(run, load=replace(run.load, raw=kept))
    return run


def _keep(file: Path, folder: Path, name: str) -> str:
    """Copies a file of a trial into the session's folder, and returns its name there."""
    (folder / name).parent.mkdir(exist_ok=True)
    copy_atomically(file, folder / name, links_until=folder.parent)
    return name


# --- The loop over the trials


def limit_violation(group: LimitGroup | None, run: Run) -> str | None:
    """Returns why the server was not held to its limits during this run, or None if it was or if it has no limits."""
    if group is None:
        return None
    return group.lost() or run_exceeded(group.limits, run)


class TrialLoop:
    """Runs the trials of a plan; every run is on disk as soon as it has ended."""

    def __init__(self, experiment: Experiment, pool: DatadirPool) -> None:
        self.experiment = experiment
        self.pool = pool
        self.request, self.plan, self.store, self.reporter = pool.request, pool.plan, pool.store, pool.reporter
        self._has_started = self.store.is_resumed
        """True once a trial has begun, and in every resumed session. Otherwise the folder is removed at the end."""
        self._abandoned: set[DatadirSpec] = set()
        self._left_out: set[int] = set()
        """Numbers of the trials that a precision made unnecessary."""
        self._last_spec: DatadirSpec | None = None
        self._last_block: tuple[DatadirSpec, int] | None = None
        self._host_speed: dict[str, float] = {}
        """Metrics of the host, measured before the block that is under way."""

    def run(self) -> SessionStore:
        status, note = Status.ABORTED, None
        try:
            with storage_errors(WritableFolder(DATA, self.request.output.data), temporary_folder()):
                self._trials()
            status = Status.FINISHED
        except (KeyboardInterrupt, InterruptedByUserError):
            status = Status.INTERRUPTED
            raise
        except (RecoveryError, OSError) as error:
            note = str(error)
            raise
        finally:
            # A second Ctrl-C is deferred: without this write the session would look like one with a killed tool.
            # If the write fails as well, the user sees the error that ended the session, not this one.
            with defer_signals(), nullcontext() if status is Status.FINISHED else suppress(RecoveryError):
                self._end(status, note)
        return self.store

    def _end(self, status: Status, note: str | None) -> None:
        if not self._has_started:
            self.reporter.event(Progress.set_session_folder, self.request.output.results)
            self.store.discard()
            return
        session = rename_second_starts(self.store.session)
        notes = dict.fromkeys((*session.notes, *filter(None, (note,))))
        host = session.environment | {"tool_peak_memory_bytes": peak_memory_bytes()}
        self.store.change(status=status.value, notes=tuple(notes), environment=host)
        # Reading the earlier sessions may take long, and the tool may be killed meanwhile. If this write fails, so does
        # the last one, which says so.
        with suppress(RecoveryError):
            self.store.save()
        others = other_sessions(self.store.folder.parent, [session], without=[self.store.folder])
        self.store.finish(
            to_json,
            notes=tuple(dict.fromkeys((*notes, *filter(None, (others.note,))))),
            earlier=earlier_sessions(session, others.cells),
        )

    def _trials(self) -> None:
        plan = self.plan
        if plan.alternating:
            # All directories are built before the first trial: a build in between would disturb the next trials.
            for planned in plan.needed:
                self.pool.bench(planned.spec)
        for trial in plan.trials:
            spec, is_last = datadir_spec(trial.version, trial.variant), plan.is_last(trial)
            if spec not in self._abandoned:
                if trial.number not in plan.done and not self._is_unnecessary(trial, spec):
                    self._run_trial(trial, spec)
                is_there = spec not in self._abandoned and self.pool.is_built(spec)
                if is_last and is_there and self.request.method.floor and not self._has_floor(spec):
                    self._floor(trial, self.pool.bench(spec))
            if is_last and not plan.alternating:
                self.pool.release(spec)

    def _is_unnecessary(self, trial: Trial, spec: DatadirSpec) -> bool:
        """Returns whether all cells of the trial's data directory had the requested precision before its block."""
        precision = self.request.sizes.precision
        if precision is None or trial.extra is not None:
            return False
        if trial.number not in self._left_out:
            before = tuple(run for run in self.store.session.runs if run.repeat < trial.repeat)
            session = rename_second_starts(replace(self.store.session, runs=before))
            cells = measured_runs_by_cell(session)
            for variant in self.plan.variants_over(spec):
                # Of warm starts either the warm ones or the second starts count: the larger number of them.
                names = (variant, second_start_name(session, variant))
                runs = max((cells.get((str(spec.version), name), ()) for name in names), key=len)
                if not is_precise(main_values(session, runs), precision):
                    return False
            self._leave_out(spec, precision)
        return True

    def _leave_out(self, spec: DatadirSpec, precision: float) -> None:
        """Removes the trials over this data directory that are not done from those that are planned."""
        done = self.store.session.done
        self._left_out |= {trial.number for trial in self.plan.over(spec) if trial.extra is None} - done
        self.store.change(planned_runs=len(self.plan.trials) - len(self._left_out))
        self.store.save()
        self.reporter.event(Progress.trials_left_out, self._left_out)
        self.reporter.say(f"{spec.version}: every interval is within +- {100 * precision:g} % in this session")

    def _has_floor(self, spec: DatadirSpec) -> bool:
        """Returns whether the floor of this data directory is stored already, by this or by the interrupted process."""
        over = self.plan.variants_over(spec)
        return any((floor.version, floor.variants) == (str(spec.version), over) for floor in self.store.session.floors)

    def _run_trial(self, trial: Trial, spec: DatadirSpec) -> None:
        bench = self.pool.bench(spec)
        if spec != self._last_spec:
            bench.cache.forget_reads()
        self._last_spec = spec
        if (spec, trial.repeat) != self._last_block:
            self._last_block, self._host_speed = (spec, trial.repeat), self._measure_host()
        bench.configure(trial.variant, extra=trial.extra, repeat=trial.repeat)
        if not self._has_started:
            self._has_started = True
            self.store.mark_newest()
        self.reporter.event(Progress.trial_began, trial)
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        bench.clear_logs()
        clock = ClockGuard()
        run, outcome, storage_error = self._measure(trial, bench, clock)
        if not run.verdict.as_asked:
            # The ledger of acknowledged rows and the files may disagree now. They are counted again below or, if this
            # process ends before that, by the next session.
            bench.stopped_cleanly = False
        # The trial has ended: a Ctrl-C from now on must not lose its result.
        with defer_signals():
            run = replace(run, started_at=started_at, metrics=run.metrics | self._host_speed)
            kept = self._store_result(trial, bench, run, outcome, clock.clock_set_s())
        if storage_error is not None:
            raise storage_error
        if kept is not None:
            self._note_rebuild(trial, spec)
        elif not run.verdict.as_asked:
            self._recover_state(bench, trial, spec)

    def _measure_host(self) -> dict[str, float]:
        """Returns how fast the host is now, unless the probe was refused or nothing that depends on it is compared."""
        if not self.request.method.probe or not metric(self.experiment.metric).is_compared:
            return {}
        return measure_host_speed(self.request.output.data, block_effort(self.request.sizes.most_tables))

    def _store_result(
        self, trial: Trial, bench: Bench, run: Run, outcome: Measurement | None, clock_set_s: float | None
    ) -> str | None:
        """Stores and shows the run, and returns where its data directory was set aside, if it was."""
        kept = None
        try:
            if clock_set_s is not None:
                # Durations come from the monotonic clock; only this lag compares server timestamps with the wall clock.
                run = replace(run, startup=replace(run.startup, ready_lag_s=None))
            run = store_artifacts(self.store.folder, trial, run, outcome=outcome, logs=bench.server.logdir)
            if run.verdict is Verdict.FAILED and not bench.can_recover:
                kept = self.pool.set_aside(datadir_spec(trial.version, trial.variant))
                run = replace(run, reason="; ".join(filter(None, (run.reason, kept))))
            self._store_facts(trial, bench, clock_set_s=clock_set_s)
            self.store.append(run)
        finally:
            # Shown even if it could not be stored.
            self.reporter.trial_ended(run)
        return kept

    def _measure(
        self, trial: Trial, bench: Bench, clock: ClockGuard
    ) -> tuple[Run, Measurement | None, StorageFailedError | None]:
        """Measures one trial and returns the run, the raw outcome, and the storage error that has to end the session.

        If the storage fails, the trial is void instead of failed: the server is not to blame."""
        storage = bench.datadir.writable_folder
        try:
            outcome = self.experiment.measure(bench, trial.variant)
        except (ServerFailedError, TrialVoidError, HostUnfitError) as error:
            if (storage_error := as_storage_error(error, storage, temporary_folder())) is not None:
                return run_from_error(trial, storage_error), None, storage_error
            if isinstance(error, HostUnfitError):
                raise
            if (paused := clock.pause()) is not None:
                # This includes trials that were aborted because of the standstill: error.message says so.
                return run_from_error(trial, PausedError(f"{paused}; {error.message}")), None, None
            return run_from_error(trial, error), None, None
        run, paused = run_from_measurement(trial, outcome), clock.pause()
        doubt = paused or limit_violation(bench.server.group, run)
        verdict, reason = (Verdict.VOID, doubt) if doubt else self.experiment.judge(outcome)
        storage_error = None
        if verdict is Verdict.FAILED:
            storage_error = as_storage_error(ServerFailedError(reason or verdict.value), storage, temporary_folder())
        if storage_error is not None:
            verdict, reason = Verdict.VOID, storage_error.message
        again = paused is not None or storage_error is not None
        return replace(with_verdict(trial, run, verdict, reason), measure_again=again), outcome, storage_error

    def _floor(self, trial: Trial, bench: Bench) -> None:
        """Measures the floor after the last trial over a data directory, if its server was shut down cleanly."""
        if not bench.stopped_cleanly:
            return
        self.reporter.say(f"{trial.version}: reading the first page of every table's file, for the floor")
        clock = ClockGuard()
        try:
            floor = floor_from_reads(trial, self.plan, measure_storage_floor(bench))
            if (text := clock.pause()) is not None:
                raise TrialVoidError(text)
        except RecoveryError as error:
            self._note(f"{trial.version}: there is no floor: {error.message}")
        else:
            self.store.change(floors=(*self.store.session.floors, floor))
        self.store.save()

    def _store_facts(self, trial: Trial, bench: Bench, *, clock_set_s: float | None) -> None:
        """Adds the notes and server facts that a trial produced to the session."""
        if clock_set_s is not None:
            text = f"set by {clock_set_s:+.1f} s during run {trial.number}; no duration is taken from it."
            self._note(f"The host's clock was {text}")
        for text in bench.run_notes:
            self._note(f"{trial.version}, run {trial.number}: {text}")
        for text in bench.notes:
            self._note(text)
        session = self.store.session
        if bench.cpus_shared:
            self.store.change(settings={**session.settings, "server_cpus": None, "client_cpus": None})
        name = " ".join(filter(None, (str(trial.version), trial.variant.label)))
        self.store.change(servers={**session.servers, name: bench.description})

    def _recover_state(self, bench: Bench, trial: Trial, spec: DatadirSpec) -> None:
        """Restores a known state after a trial that did not end as planned: starts the server and counts its rows.

        If the server does not come back, its remaining trials are skipped. Raises StorageFailedError if the storage
        fails: this skips all remaining trials, which are measured when the session is resumed."""
        try:
            bench.contents.recount_after_failure()
        except RecoveryError as error:
            bench.server.close()
            folder = bench.datadir.writable_folder
            if (storage_error := as_storage_error(error, folder, temporary_folder())) is not None:
                raise storage_error from error
            self._abandoned.add(spec)
            if not bench.can_recover and not isinstance(error, ServerKilledError):
                self.pool.remove(spec)
            if self.plan.is_last(trial):
                return
            self._note(f"{trial.version}: the trials left were not run: {error.message}")

    def _note_rebuild(self, trial: Trial, spec: DatadirSpec) -> None:
        """Notes that the next trial builds a new data directory, because that of this trial was set aside.

        After the last trial the directory is abandoned instead, so that nothing is built for the floor alone."""
        if self.plan.is_last(trial):
            self._abandoned.add(spec)
        else:
            self._note(f"{trial.version}: after run {trial.number} its data directory was built anew.")

    def _note(self, note: str) -> None:
        """Adds a note to the report and shows it to the user, unless it is there already."""
        if note not in self.store.session.notes:
            self.store.change(notes=(*self.store.session.notes, note))
            self.reporter.warn(note)


# --- The whole session: servers, preparation, trials


def run_session(
    request: Request,
    *,
    engine: Engine,
    reporter: ProgressReporter,
    unfinished: Unfinished | None = None,
    first: Unfinished | None = None,
    wait: bool = False,
    is_due: Callable[[], bool] | None = None,
) -> SessionStore:
    """Runs a new session, or the missing runs of the session `unfinished`, and returns its store. A new session that
    repeats `first` must be the same measurement.

    Raises NotDueError if it is not due any more once no other session can run. An error that ends the session early is
    raised; the runs that ended before it are stored."""
    with ExitStack() as stack:
        samplers = _preflight(request, reporter)
        stack.enter_context(host_lock(waiting=reporter.waiting if wait else None))
        if is_due is not None and not is_due():
            raise NotDueError("another command has measured this session meanwhile", "nothing is to be done")
        stack.enter_context(reporter.active())
        resumed = stack.enter_context(open_resumed(unfinished))
        _remove_leftovers(reporter, request.output.data)
        # Temporary folders of killed runs go last: a server that was left behind must end before it loses its folder.
        stack.callback(cleanup.sweep_temp_folders)
        # Created before the builds, so that a limit which cannot be set is reported before an hour of building.
        group = stack.enter_context(server_limits(request.servers.limits, request.output.data))
        engine, builds = _get_servers(request, engine, reporter)
        dropper = _choose_dropper(request, engine, builds, reporter.warn)
        experiment = find_experiment(request.scenario)
        programs = provide_tools(experiment.programs, offline=request.servers.offline, say=reporter.warn)
        probe_facts = _probe_storage(request, reporter, is_resumed=resumed is not None)
        plan = plan_session(request, [build.version for build in builds], builds=builds, resumed=resumed)
        for text in plan.unavailable:
            reporter.warn(text)
        check_space(plan, keep=request.output.keep)
        reporter.event(Progress.planned, plan)
        if resumed is not None:
            ended = [run for run in resumed.store.session.runs if run.number in plan.done]
            reporter.event(Progress.resumed_with, ended)
        environment = collect_host_facts(request.output.data) | probe_facts | dict(engine.facts)
        environment["cold_means"] = cold_method(dropper)
        session = session_from_request(request, experiment, plan, environment=environment, engine=engine.name)
        if resumed is not None:
            session = resumed.session(session, stored_plan(request, plan))
        elif first is not None:
            check_same_measurement(first, session, stored_plan(request, plan))
        check_encryption(request, plan, engine, reporter)
        scratch = cleanup.make_temp_folder()
        stack.callback(cleanup.remove_temp_folder, scratch)
        store = open_store(request, session, plan, reporter, resumed)
        pool = DatadirPool(
            request, plan, engine, store, reporter,
            dropper=dropper, scratch=scratch, group=group, samplers=samplers, programs=programs,
        )  # fmt: skip
        with pool:
            return TrialLoop(experiment, pool).run()


def open_store(
    request: Request, session: Session, plan: Plan, reporter: ProgressReporter, resumed: ResumedSession | None
) -> SessionStore:
    """Creates or reopens the session's folder.

    This comes before the first build, so that a session killed during a build can be resumed."""
    planned = stored_plan(request, plan)
    with storage_errors(WritableFolder(DATA, request.output.data), temporary_folder()):
        if resumed is None:
            store = SessionStore.create(request.output.results, session, plan=planned)
        else:
            store = resumed.store
            store.store_plan(replace(resumed.planned, boot=planned.boot))
            # A precision that was reached may be missed again, with runs that are measured again.
            store.change(status=session.status, notes=session.notes, planned_runs=len(plan.trials))
            store.save()
            store.mark_newest()
            have_ended = "run has ended" if len(plan.trials) == 1 else "runs have ended"
            reporter.say(f"{store.folder.name} is resumed: {len(plan.done)} of {len(plan.trials)} {have_ended}")
    reporter.event(Progress.set_session_folder, store.folder)
    return store


def _preflight(request: Request, reporter: ProgressReporter) -> tuple[str, ...]:
    """Checks what can be checked without a server, and makes the folders RESULTS and DATA.

    Returns the programs that can take stacks on this host."""
    check_table_open_cache(request, say=reporter.warn)
    check_versions(request, known_releases(request))
    samplers: tuple[str, ...] = ()
    if request.method.stacks is not None:
        from recovery.profiling.samplers import PERF, usable_programs

        if request.method.stacks == PERF:
            provide_tool(PERF, offline=request.servers.offline, say=reporter.warn)
        samplers = usable_programs(request.method.stacks)
    check_results_folder(request.output.results)
    for chosen in (WritableFolder(DATA, request.output.data), temporary_folder()):
        quoted_value(chosen.setting, str(chosen.path), f"give {chosen.setting} a folder with another name")
    DataDirs(request.output.data).check()
    if any(spec.cache is Cache.COLD for spec in request.variant_specs):
        check_can_be_cold(request.output.data)
    return samplers


def _remove_leftovers(reporter: ProgressReporter, data: Path) -> None:
    """Removes what killed runs left behind: it would compete with the timed servers for the host.

    Control groups and servers of every killed run are found, copies only in `data` or where one is mounted."""
    for name in remove_orphaned_groups():
        reporter.say(f"removed the control group {name}, which a killed run had left behind")
    for pid in kill_orphaned_servers():
        reporter.say(f"ended server {pid}, which a killed run had left behind")
    for folder, why_not in remove_leftover_copies(data):
        text = f"the copy beside {folder.name}, which a killed run had left behind"
        if why_not is None:
            reporter.say(f"removed {text}")
        else:
            reporter.warn(f"{text}, is still there: {why_not}")


def _get_servers(request: Request, engine: Engine, reporter: ProgressReporter) -> tuple[Engine, tuple[Build, ...]]:
    """Returns the servers and the engine that runs them."""
    sweep_results(request.output.results)
    reporter.event(Progress.doing, "getting the servers")
    engine, builds = resolve_builds(request, engine, reporter.warn)
    for build in builds:
        for warning in build.warnings:
            reporter.warn(f"warning: {build.version}: {warning}")
    check_options(request, engine, builds, reporter.warn)
    return engine, builds


def _choose_dropper(request: Request, engine: Engine, builds: Sequence[Build], say: Say) -> CacheDropper | None:
    """Returns the means to drop the host's caches, or None if it is refused or this user cannot.

    A user who expects the caches to be dropped is warned here, before the hour of measuring."""
    if RootStep.DROP_CACHES in request.method.refused:
        return None
    dropper = engine.dropper(builds)
    if dropper is None:
        say("the host's caches cannot be dropped: files are evicted one by one; inodes and names stay cached")
    return dropper


def _probe_storage(request: Request, reporter: ProgressReporter, *, is_resumed: bool) -> dict[str, Fact]:
    """Returns the speed of the storage, for the report. A resumed session has stored results.

    It is measured before the builds: after them the storage is still busy with our writes."""
    reporter.event(Progress.doing, "trying the storage")
    if not request.method.probe or is_resumed:
        return NOT_PROBED.facts()
    clock = ClockGuard()
    data = request.output.data
    probe = probe_reads(data, effort_for(request.sizes.most_tables), kept_table_files(data))
    paused = clock.pause()
    return (probe if paused is None else replace(NOT_PROBED, why_not=paused)).facts()
