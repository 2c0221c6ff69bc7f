"""Where are the results, and how do they survive a crash of ours? One folder a session, one file a run as it ends."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recovery.analysis.stacks import hottest, read
from recovery.errors import RecoveryError, ServerKilledError, StoodStillError, StorageFailedError, TrialVoidError
from recovery.experiments.experiment import Outcome, Scenario, Worked
from recovery.linux import locks
from recovery.linux.cgroups import stored, words
from recovery.linux.files import (
    FORMAT,
    draft_of,
    name_folder,
    refuse_untrusted,
    sweep_drafts,
    sync_folder,
    write_atomically,
)
from recovery.linux.privileges import RootStep, steps_text
from recovery.model import Axis, Floor, Load, Run, Samples, Schema, Session, Startup, Touched, Trial, Verdict
from recovery.mysqld.read_floor import Reads
from recovery.report.stored_session import (
    LATEST,
    LOCK,
    REPORT,
    RUN_TYPE,
    STACKS,
    in_plan_order,
    json_bytes,
    keeping_in,
    read_session,
    stamped,
    still_runs,
    to_json,
)
from recovery.session.plan import PLAN, Plan, Planned, left_out, place_of
from recovery.session.plan import to_json as plan_to_json
from recovery.session.request import Request, variant_text

LOOKS = "looks"
"""The folder of what was looked at while servers were at work."""
DRAFTS = r"\d{8}T\d{6}Z-[a-z0-9-]+|latest|probe|\.probe\.\d+"
"""What is half made in the folder of all sessions, which may hold files of the user's."""


class SessionStore:
    """The folder of a session that is under way. Whatever `append` has returned from survives a loss of power."""

    def __init__(self, folder: Path, session: Session) -> None:
        self.folder = folder
        self.logs = folder / "logs"
        self._session = session
        self._lock: locks.Lock | None = None

    @classmethod
    def create(cls, results: Path, session: Session, *, plan: Planned | None = None) -> SessionStore:
        """Make a folder that was not there before. It gets its name once all is in it that makes it a session, so that
        there is never half of one."""
        name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{session.scenario}"
        with keeping_in(results):
            results.mkdir(parents=True, exist_ok=True)
            store = cls(draft_of(results / name), stamped(session))
            store.folder.mkdir()
            try:
                store._take_lock()
                store.logs.mkdir()
                (store.folder / "runs").mkdir()
                if plan is not None:
                    store.keep_plan(plan)
                store._write_report()
                store._moved(name_folder(store.folder, name))
            except BaseException:
                store.discard()
                raise
            sync_folder(results)
        return store

    @classmethod
    def go_on(cls, folder: Path) -> SessionStore:
        """The folder of one that ended early. Nothing is written yet; HostUnfitError where it has not ended."""
        with keeping_in(folder):
            store = cls(folder, read_session(folder))
            if not store._take_lock():
                raise still_runs(folder)
            # Once more: until it was locked another process may have written to it.
            store._session = read_session(folder)
            for part in (folder, folder / "runs", folder / "logs", folder / STACKS, folder / LOOKS):
                sweep_drafts(part)
        return store

    def _take_lock(self) -> bool:
        """True also on a filesystem without locks."""
        try:
            self._lock = locks.take(self.folder / LOCK, mode=0o644)
        except OSError:
            return True
        return self._lock is not None

    def _moved(self, folder: Path) -> None:
        self.folder, self.logs = folder, folder / "logs"
        if self._lock is not None:
            self._lock.path = folder / LOCK

    def let_go(self) -> None:
        """Without a word, of one that could not go on: it ended as it had ended before."""
        if self._lock is not None:
            self._lock.release(unlink=self._session.status != "running")

    def discard(self) -> None:
        """Nothing was measured, and whoever asked for it knows why."""
        has_its_name = not self.folder.name.startswith(".")
        doomed = draft_of(self.folder) if has_its_name else self.folder
        with suppress(OSError):
            self.folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)
        self.let_go()

    def is_newest(self) -> None:
        """`latest` points at it from now on."""
        with keeping_in(self.folder.parent):
            _point_latest(self.folder.parent, self.folder.name)
            sync_folder(self.folder.parent)

    def keep_plan(self, plan: Planned) -> None:
        with keeping_in(self.folder):
            write_atomically(self.folder / PLAN, plan_to_json(plan))

    def append(self, run: Run) -> None:
        """Store a run that ended: first its own file, then the report that has them all."""
        stored = {"format": FORMAT, **RUN_TYPE.dump_python(run, mode="json")}
        with keeping_in(self.folder):
            write_atomically(self.folder / "runs" / f"{run.number:03d}.json", json_bytes(stored))
            others = (one for one in self._session.runs if one.number != run.number)
            self._session = replace(self._session, runs=in_plan_order((*others, run)))
            self._write_report()

    def update(self, session: Session) -> None:
        """Store what has become known beside the runs (servers, notes, status); the runs are those appended."""
        self._session = stamped(replace(session, runs=self._session.runs))
        with keeping_in(self.folder):
            self._write_report()

    def finish(self, session: Session) -> None:
        """The last update: a session that was not interrupted or aborted is finished."""
        written = False
        try:
            self.update(replace(session, status="finished") if session.status == "running" else session)
            written = True
        finally:
            # Left there, it tells that what is stored is not how it ended.
            if self._lock is not None:
                self._lock.release(unlink=written)

    @property
    def session(self) -> Session:
        """As stored by now."""
        return self._session

    def _write_report(self) -> None:
        write_atomically(self.folder / REPORT, to_json(self._session))


def check_results_folder(results: Path) -> None:
    """Before hours of work: can anything be kept here? Makes the folder, writes a file, and takes it away again."""
    with keeping_in(results):
        if os.geteuid() == 0:
            refuse_untrusted(results, "what root writes there could land elsewhere: name another folder with RESULTS=")
        results.mkdir(parents=True, exist_ok=True)
        probe = draft_of(results / "probe")
        try:
            write_atomically(probe, b"x" * 4096)
        finally:
            probe.unlink(missing_ok=True)


def _point_latest(results: Path, name: str) -> None:
    link = results / LATEST
    draft = draft_of(link)
    draft.unlink(missing_ok=True)
    draft.symlink_to(name)
    draft.replace(link)


# How does what was measured become what is stored? Pure: outcomes to runs, requests to sessions.


def empty_run(trial: Trial) -> Run:
    return Run(
        number=trial.number,
        version=str(trial.version),
        flavor=trial.version.flavor.value,
        variant=trial.variant.name,
        repeat=trial.repeat,
        verdict=Verdict.VOID,
    )


def failed_run(trial: Trial, error: RecoveryError) -> Run:
    """That has no outcome, for this."""
    void = isinstance(error, TrialVoidError | ServerKilledError | StorageFailedError)
    told = f"{error.message}; {error.hint}" if error.hint else error.message
    return replace(
        empty_run(trial),
        verdict=Verdict.VOID if void else Verdict.FAILED,
        reason=told,
        measure_again=isinstance(error, StorageFailedError | StoodStillError),
    )


def run_of(trial: Trial, outcome: Outcome | Worked) -> Run:
    return _work_of(trial, outcome) if isinstance(outcome, Worked) else _start_of(trial, outcome)


def _work_of(trial: Trial, worked: Worked) -> Run:
    return replace(
        empty_run(trial),
        verdict=Verdict.MEASURED,
        measures={name: _rounded(value) for name, value in worked.measures.items()},
        read_bytes=worked.usage.read_bytes,
        read_requests=worked.usage.read_requests,
        cpu_s=worked.usage.cpu_s,
        reads_per_s=_rate(worked.usage.read_requests, worked.seconds),
        group_memory_bytes=worked.usage.group_memory_bytes,
        cold_means=worked.cold.means if worked.cold else None,
        resident_before_bytes=worked.cold.resident_bytes if worked.cold else None,
        around=worked.around,
        watched=worked.watched,
        waits=worked.waits,
        clients=dict(worked.clients),
        told=dict(worked.told),
        **_came_back(worked.startup),
        **_seen(worked.samples),
    )


def _came_back(startup: Startup | None) -> dict[str, Any]:
    """Of a start that is not what the session is about."""
    if startup is None:
        return {}
    return {
        "startup_s": startup.startup_s,
        "first_query_s": startup.first_query_s,
        "phases": startup.phases,
        "crash_proof": startup.crash_proof,
    }


def _rounded(value: float) -> float:
    """To seven digits, of which no measurement here has as many."""
    return float(f"{value:.7g}")


def _start_of(trial: Trial, outcome: Outcome) -> Run:
    startup, cold, warm = outcome.startup, outcome.cold, outcome.warm
    return replace(
        empty_run(trial),
        verdict=Verdict.MEASURED,
        startup_s=startup.startup_s,
        first_query_s=startup.first_query_s,
        phases=startup.phases,
        beside=startup.beside,
        tables=outcome.tables_found,
        read_bytes=startup.usage.read_bytes,
        read_requests=startup.usage.read_requests,
        cpu_s=startup.usage.cpu_s,
        resident_before_bytes=cold.resident_bytes if cold else None,
        cache_grown_bytes=startup.usage.cache_grown_bytes,
        cold_means=outcome.cold_means,
        warmups=warm.warmups if warm else None,
        resident_share=warm.resident_share if warm else None,
        resident_share_after=warm.resident_share_after if warm else None,
        crash_proof=startup.crash_proof,
        rows_expected=outcome.rows_expected,
        rows_found=outcome.rows_found,
        ready_lag_s=startup.ready_lag_s,
        start_error_s=startup.start_error_s,
        engine_overhead_s=startup.engine_overhead_s,
        exit_signal=outcome.previous_exit,
        reads_per_s=_rate(startup.usage.read_requests, startup.first_query_s),
        group_memory_bytes=startup.usage.group_memory_bytes,
        log_held_s=startup.log_held_s,
        scan_threads=startup.scan_threads,
        around=startup.around,
        timeline=startup.timeline,
        **_touched(outcome.touched),
        **_seen(outcome.samples),
    )


def _touched(found: Touched | None) -> dict[str, Any]:
    if found is None:
        return {}
    return {
        "tablespaces_opened": found.opened,
        "tablespaces_modified": found.modified,
        "tablespace_opens": found.opens,
        "opened_unmodified": found.opened_unmodified,
        "tablespaces_read": found.read,
        "read_unmodified": found.read_unmodified,
        "traced_by": found.means,
        "resident_after_bytes": found.resident_after_bytes,
    }


def _seen(samples: Samples | None) -> dict[str, Any]:
    if samples is None:
        return {}
    return {
        "sampled_by": samples.program,
        "samples": samples.looks,
        "chains": samples.chains,
        "hottest": hottest(read(samples.folded)),
    }


def judged(trial: Trial, run: Run, verdict: Verdict, reason: str | None) -> Run:
    """An extra one is never counted, however well it went."""
    sampled = trial.extra is not None and verdict is Verdict.MEASURED
    return replace(run, verdict=Verdict.SAMPLED if sampled else verdict, reason=reason)


def floor_of(last: Trial, plan: Plan, reads: Reads) -> Floor:
    """Of the data directory of this trial."""
    return Floor(str(last.version), plan.variants_over(place_of(last.version, last.variant)), **asdict(reads))


def _rate(count: int | None, seconds: float) -> float | None:
    return None if count is None or seconds <= 0 else round(count / seconds, 1)


def _notes(request: Request, plan: Plan, environment: Mapping[str, str | int | float | None]) -> tuple[str, ...]:
    notes = [*request.unasked, *left_out(plan.versions, request.measured)]
    if request.limits:
        notes.append(f"The server was limited to {words(request.limits)}.")
    reclaimed = environment.get("idle_pageout")
    if reclaimed is not None:
        notes.append(
            f"No cache stays warm for long on this host: {reclaimed}. Compare the bytes read by the warm starts."
        )
    return tuple(notes)


def _versions(plan: Plan) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(trial.version) for trial in plan.trials))


def _baseline(request: Request, plan: Plan) -> str | None:
    """As the server calls itself that was asked for under this name: 9.7 may have become 9.7.4."""
    return None if request.baseline is None else str(plan.versions[request.versions.index(request.baseline)])


def session_of(
    request: Request,
    scenario: Scenario,
    plan: Plan,
    *,
    environment: Mapping[str, str | int | float | None],
    engine: str,
    tool_version: str,
) -> Session:
    return Session(
        scenario=scenario.name,
        question=scenario.question,
        title=scenario.title,
        command=request.command,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=dict(environment),
        settings={
            "version": " ".join(request.versions) or None,
            **_built(request.schema),
            "insert_template": str(request.insert_template) if request.insert_template else None,
            "mysqld": request.mysqld,
            "archive": request.archive,
            "image": request.image,
            "registry": request.registry,
            "runs": request.runs,
            "data": str(request.data),
            "engine": engine,
            "as_published": request.as_published,
            "inserts": request.inserts,
            "trace": request.trace,
            "stacks": request.stacks,
            "floor": request.floor,
            "no_drop_caches": RootStep.DROP_CACHES in request.refused,
            "no_root_steps": steps_text(request.refused),
            "baseline": _baseline(request, plan),
            "fail_over": request.fail_over,
            "order": plan.order,
            "points": " ".join(map(str, request.points)) or None,
            "predict": request.predict,
            "variants": shlex.join(map(variant_text, request.variants)) or None,
            **stored(request.limits),
            "set": shlex.join(f"{name}={value}" for name, value in request.settings) or None,
            "note": request.note,
            **_work_settings(request, plan),
        },
        versions=_versions(plan),
        variants=tuple(dict.fromkeys(trial.variant.name for trial in plan.trials)),
        planned_runs=len(plan.trials),
        notes=_notes(request, plan, environment),
        tool_version=tool_version,
        figure=scenario.figure,
        axes=_axes(scenario, plan),
        cells={trial.variant.name: dict(trial.variant.axes) for trial in plan.trials if trial.variant.axes},
        figures={trial.variant.name: trial.variant.figure for trial in plan.trials if trial.variant.figure},
    )


def _built(schema: Schema) -> dict[str, str | int | None]:
    return {
        "tables": schema.tables,
        "schemas": schema.databases,
        "columns": schema.columns,
        "rows": schema.rows,
        "database": schema.database,
        "layout": schema.layout.value,
        "template": str(schema.template) if schema.template else None,
    }


def _work_settings(request: Request, plan: Plan) -> dict[str, str | int | float | bool | None]:
    """Those that say how an experiment was laid out; what its variants are made of is in the axes."""
    if (work := request.work) is None:
        return {}
    options = shlex.join(f"{name}={','.join(values)}" for name, values in work.options)
    # Only a load's clients are put on CPUs of their own, and its server.
    apart = any(isinstance(one.variant.task, Load) for one in plan.trials)
    return {
        "seconds": work.seconds,
        "warmup_s": work.warmup_s,
        "server_cpus": work.server_cpus if apart else None,
        "client_cpus": work.client_cpus if apart else None,
        "options": options or None,
        "pollers": work.pollers,
        "every_s": work.every_s,
        "queries": "; ".join(f"{name}: {statement}" for name, statement in work.queries) or None,
        "memory_ratio": work.memory_ratio,
        "published_build": work.published_build,
        "waits": request.waits,
    }


def with_cpus_shared(session: Session) -> Session:
    """Where the host refused to put a process there: which CPUs they would have had says nothing then."""
    return replace(session, settings={**session.settings, "server_cpus": None, "client_cpus": None})


def _axes(scenario: Scenario, plan: Plan) -> tuple[Axis, ...]:
    """In the order in which the work names them, with the values that there are."""
    values: dict[str, dict[str, None]] = {}
    for trial in plan.trials:
        for name, value in trial.variant.axes:
            values.setdefault(name, {})[value] = None
    bases = scenario.experiment.bases if scenario.experiment else {}
    return tuple(
        Axis(name, tuple(found), bases.get(name) if bases.get(name) in found else None)
        for name, found in values.items()
    )
