"""Stores the results of a session, and converts measurements and requests into what is stored.

Each session has a folder, and each run a file in it that is written as soon as the run ends, so that the results
survive a crash of this tool."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recovery import __version__
from recovery.analysis.statistics import MIN_RUNS_FOR_PRECISION, PRECISION_FACTOR
from recovery.errors import (
    PausedError,
    RecoveryError,
    ServerKilledError,
    StorageFailedError,
    TrialVoidError,
    UsageError,
)
from recovery.experiments.experiment import Experiment
from recovery.linux import locks
from recovery.linux.cgroups import limits_text
from recovery.linux.cleanup import sweep_drafts
from recovery.linux.files import (
    draft_path,
    make_folder,
    numbered_names,
    open_folder,
    refuse_untrusted,
    rename_to_free_name,
    sync_folder,
    write_atomically,
)
from recovery.linux.privileges import EVERY_STEP, RootStep
from recovery.linux.procfs import format_cpu_list, reserved_cpus
from recovery.model import (
    REPEAT_OF,
    SETTINGS_AXIS,
    Axis,
    Cache,
    Measurement,
    ReadFloor,
    Run,
    Session,
    Status,
    Trial,
    VariantInfo,
    Verdict,
)
from recovery.session.plan import PLAN_FILE, Plan, StoredPlan, datadir_spec
from recovery.session.plan import to_json as plan_to_json
from recovery.session.request import Request
from recovery.storage.format import run_to_json, session_to_json
from recovery.storage.sessions import (
    LATEST_LINK,
    LOCK_FILE,
    REPORT_FILE,
    STACKS_FOLDER,
    in_plan_order,
    read_session,
    still_running_error,
    writing_results,
)

if TYPE_CHECKING:
    from recovery.mysqld.read_floor import FloorTimes

SAMPLES = "samples"
"""Folder of the samples that were taken while servers were under load."""
DRAFT_NAMES = r"\d{8}T\d{6}Z-[a-z0-9-]+|latest|probe|\.probe\.\d+"
"""Pattern of the names of drafts in the results folder. Other names are left alone: they may be the user's files."""


REPORT_INTERVAL_S = 30.0
"""Least time between two reports that are written only because a run has ended."""
_REPORT_SHARE = 0.02
"""Largest share of a session's time for these reports. With 10,000 runs each of them takes seconds."""


class SessionStore:
    """Manages the folder of a running session; a run survives a power loss once `append` has returned."""

    def __init__(self, folder: Path, session: Session) -> None:
        self.folder = folder
        self.logs = folder / "logs"
        self._session = session
        self.plan: StoredPlan | None = None
        self.is_resumed = False
        self._lock: locks.Lock | None = None
        self._report_due_s = -math.inf
        """When the next report is due, on the monotonic clock."""
        self._is_changed = False
        """Whether fields of the session are not stored yet. A run in its own file is stored."""

    @classmethod
    def create(cls, results: Path, session: Session, *, plan: StoredPlan | None = None) -> SessionStore:
        """Creates the folder of a new session.

        The folder gets its name once it is complete, so that there is never an incomplete session of that name."""
        name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{session.experiment}"
        with writing_results(results):
            make_folder(results)
            store = cls(draft_path(results / name), replace(session, tool_version=session.tool_version or __version__))
            store.folder.mkdir()
            try:
                store._take_lock()
                store.logs.mkdir()
                (store.folder / "runs").mkdir()
                if plan is not None:
                    store.store_plan(plan)
                store._write_report()
                store._moved(rename_to_free_name(store.folder, numbered_names(name)))
            except BaseException:
                store.discard()
                raise
            sync_folder(results)
        return store

    @classmethod
    def resume(cls, folder: Path) -> SessionStore:
        """Opens and locks the folder of an interrupted session, and removes its drafts; the report is not changed yet.

        Raises HostUnfitError if the session still runs."""
        with writing_results(folder), open_folder(folder, links_until=folder.parent):
            store = cls(folder, read_session(folder))
            if not store._take_lock():
                raise still_running_error(folder)
            # Read again: another process may have written to it before it was locked.
            store._session = read_session(folder)
            store.is_resumed = True
            for part in (folder, folder / "runs", folder / "logs", folder / STACKS_FOLDER, folder / SAMPLES):
                if not part.is_symlink():
                    sweep_drafts(part)
        return store

    def _take_lock(self) -> bool:
        """Returns False if another process holds the lock, and True also on a filesystem without locks."""
        try:
            self._lock = locks.take_lock(self.folder / LOCK_FILE, mode=0o644)
        except OSError:
            return True
        return self._lock is not None

    def _moved(self, folder: Path) -> None:
        self.folder, self.logs = folder, folder / "logs"
        if self._lock is not None:
            self._lock.path = folder / LOCK_FILE

    def release_lock(self) -> None:
        """Releases the lock without storing anything, for a session that could not be resumed.

        The lock file of a killed session stays: it is what marks the session as killed."""
        if self._lock is not None:
            self._lock.release(unlink=self._session.status != Status.RUNNING)

    def discard(self) -> None:
        """Removes the folder of a session in which nothing was measured."""
        has_its_name = not self.folder.name.startswith(".")
        doomed = draft_path(self.folder) if has_its_name else self.folder
        with suppress(OSError):
            self.folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)
        self.release_lock()

    def mark_newest(self) -> None:
        """Makes the link `latest` point at this session."""
        with writing_results(self.folder.parent):
            _point_latest(self.folder.parent, self.folder.name)
            sync_folder(self.folder.parent)

    def store_plan(self, plan: StoredPlan) -> None:
        self.plan = plan
        with writing_results(self.folder):
            self._write(PLAN_FILE, plan_to_json(plan))

    def record_build(self, key: str) -> None:
        """Adds a data directory to those that the session builds, before it is built."""
        if self.plan is not None and key not in self.plan.built:
            self.store_plan(replace(self.plan, built=(*self.plan.built, key)))

    def append(self, run: Run) -> None:
        """Stores a run that has ended in a file of its own. Readers of the session add it to those in the report.

        What changed in the session is stored before: if the tool is killed in between, the run is measured again."""
        with writing_results(self.folder):
            if self._is_changed:
                self._write_report()
            self._write(f"runs/{run.number:03d}.json", run_to_json(run))
            runs = self._session.runs
            if runs and run.number <= runs[-1].number:  # measured again, by a resumed session
                runs = tuple(other for other in runs if other.number != run.number)
                self._session = replace(self._session, runs=in_plan_order((*runs, run)))
            else:
                self._session = replace(self._session, runs=(*runs, run))
            if time.monotonic() >= self._report_due_s:
                self._write_report()

    def change(self, **changes: Any) -> None:
        """Changes fields of the session, which are stored before the next run, or by `save`."""
        changed = replace(self._session, **changes)
        self._is_changed |= changed != self._session
        self._session = changed

    def save(self) -> None:
        with writing_results(self.folder):
            self._write_report()

    def finish(self, report: Callable[[Session], bytes] | None = None, **changes: Any) -> None:
        """Stores the final state, with these changes; `report` returns the contents of report.json with what
        a report computes."""
        self.change(**changes)
        written = False
        try:
            with writing_results(self.folder):
                self._write_report(report)
            written = True
        finally:
            # If the write failed, the lock file stays: it shows that the stored state is not the final one.
            if self._lock is not None:
                self._lock.release(unlink=written)

    @property
    def session(self) -> Session:
        """Returns the session as it is stored now."""
        return self._session

    def _write(self, name: str, content: bytes) -> None:
        """Writes a file of the session. A session from someone else may have links to any place."""
        write_atomically(self.folder / name, content, links_until=self.folder.parent)

    def _write_report(self, report: Callable[[Session], bytes] | None = None) -> None:
        began_s = time.monotonic()
        self._write(REPORT_FILE, (report or session_to_json)(self._session))
        ended_s = time.monotonic()
        self._report_due_s = ended_s + max(REPORT_INTERVAL_S, (ended_s - began_s) / _REPORT_SHARE)
        self._is_changed = False


def check_results_folder(results: Path) -> None:
    """Checks that results can be stored, before hours of work: makes the folder, and writes and removes a file."""
    with writing_results(results):
        if (results / REPORT_FILE).exists():
            raise UsageError(f"{results} is the folder of a session", "name the folder above it with --results")
        if os.geteuid() == 0:
            refuse_untrusted(results, "what root writes there could land elsewhere: name another folder with --results")
        make_folder(results)
        probe = draft_path(results / "probe")
        try:
            write_atomically(probe, b"x" * 4096)
        finally:
            probe.unlink(missing_ok=True)


def _point_latest(results: Path, name: str) -> None:
    link = results / LATEST_LINK
    draft = draft_path(link)
    draft.unlink(missing_ok=True)
    draft.symlink_to(name)
    draft.replace(link)


# --- From measurements to runs, and from requests to sessions


def empty_run(trial: Trial) -> Run:
    return Run(
        number=trial.number,
        version=str(trial.version),
        flavor=trial.version.flavor.value,
        variant=trial.variant.name,
        repeat=trial.repeat,
        verdict=Verdict.VOID,
        extra=trial.extra,
    )


def run_from_error(trial: Trial, error: RecoveryError) -> Run:
    """Returns the run of a trial that ended with this error, without a measurement."""
    void = isinstance(error, TrialVoidError | ServerKilledError | StorageFailedError)
    return replace(
        empty_run(trial),
        verdict=Verdict.VOID if void else Verdict.FAILED,
        reason=f"{error.message}; {error.hint}" if error.hint else error.message,
        measure_again=isinstance(error, StorageFailedError | PausedError),
    )


def run_from_measurement(trial: Trial, measured: Measurement) -> Run:
    """Returns the run of a trial with all that was measured, before it is judged."""
    parts = {part.name: getattr(measured, part.name) for part in fields(Measurement)}
    return replace(empty_run(trial), **{**parts, "verdict": Verdict.MEASURED})


def with_verdict(trial: Trial, run: Run, verdict: Verdict, reason: str | None) -> Run:
    """Returns the run with its verdict; an extra run gets SAMPLED instead of MEASURED, because it is never averaged."""
    sampled = trial.extra is not None and verdict is Verdict.MEASURED
    return replace(run, verdict=Verdict.SAMPLED if sampled else verdict, reason=reason)


def floor_from_reads(last: Trial, plan: Plan, reads: FloorTimes) -> ReadFloor:
    """Returns the floor of the data directory of this trial."""
    return ReadFloor(str(last.version), plan.variants_over(datadir_spec(last.version, last.variant)), **asdict(reads))


def _notes(request: Request, plan: Plan, environment: Mapping[str, str | int | float | None]) -> tuple[str, ...]:
    notes = list(plan.unavailable)
    if request.servers.limits:
        notes.append(f"The server was limited to {limits_text(request.servers.limits)}.")
    if request.sizes.precision is not None:
        notes.append(
            f"PRECISION={100 * request.sizes.precision:g}%: runs are added until every interval is that narrow in this "
            f"session ({MIN_RUNS_FOR_PRECISION} to {request.sizes.max_runs} runs). To make up for that choice, all "
            f"intervals are {100 * (PRECISION_FACTOR - 1):.0f} % wider than with a fixed number of runs."
        )
    reclaimed = environment.get("idle_pageout")
    if reclaimed is not None and any(variant.cache is Cache.WARM for variant in request.all_variants):
        notes.append(
            f"No cache stays warm for long on this host: {reclaimed}. Warm starts that read much are partly cold."
        )
    return tuple(notes)


def session_from_request(
    request: Request,
    experiment: Experiment,
    plan: Plan,
    *,
    environment: Mapping[str, str | int | float | None],
    engine: str,
) -> Session:
    baseline, own = request.servers.exact_baseline(plan.versions), request.sizes.schema.own
    return Session(
        experiment=experiment.name,
        question=experiment.question,
        title="Recovery of a data directory as it is" if own is not None and own.as_is else experiment.title,
        command=request.command,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=dict(environment),
        settings={
            # The first: what looks for it reads only the beginning of the report.
            **({} if request.output.repeat_of is None else {REPEAT_OF: request.output.repeat_of}),
            **dict(request.stored_settings),
            "engine": engine,
            "no_drop_caches": RootStep.DROP_CACHES in request.method.refused,
            "unprivileged": request.method.refused == EVERY_STEP,
            "baseline": None if baseline is None else str(baseline),
            "order": plan.order,
            "points": " ".join(map(str, request.sizes.points)) or None,
            **_reserved_cpus(request, plan),
        },
        versions=tuple(map(str, plan.measured_versions)),
        variants=tuple(VariantInfo(variant.name, variant.values, variant.metric) for variant in plan.variants),
        planned_runs=len(plan.trials),
        notes=_notes(request, plan, environment),
        metric=experiment.metric,
        axes=_axes(experiment, plan),
    )


def _reserved_cpus(request: Request, plan: Plan) -> dict[str, str | None]:
    """Returns the CPUs reserved for the server and for the clients, or None if the host has too few to reserve any.
    Only those of a load get CPUs of their own."""
    if not any(trial.variant.task and trial.variant.task.has_clients for trial in plan.trials):
        return {}
    apart = reserved_cpus(request.servers.limits.cpu_set)
    if apart is None:
        return {"server_cpus": None, "client_cpus": None}
    return {"server_cpus": format_cpu_list(apart.server), "client_cpus": format_cpu_list(apart.clients)}


def _axes(experiment: Experiment, plan: Plan) -> tuple[Axis, ...]:
    """Returns the axes in the order in which the variants name them, with the values that occur in the plan."""
    values: dict[str, dict[str, None]] = {}
    for variant in plan.variants:
        for name, value in variant.axes:
            values.setdefault(name, {})[value] = None
    bases = {**experiment.bases, SETTINGS_AXIS: next(iter(values.get(SETTINGS_AXIS, ())), None)}
    return tuple(
        Axis(name, tuple(found), bases.get(name) if bases.get(name) in found else None)
        for name, found in values.items()
    )
