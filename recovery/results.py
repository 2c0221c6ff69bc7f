"""How does what was measured become what is stored? Pure: outcomes to runs, requests to sessions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from recovery.errors import RecoveryError, ServerKilledError, StoodStillError, StorageFailedError, TrialVoidError
from recovery.folded import hottest, read
from recovery.host.floor import Reads
from recovery.leftout import left_out
from recovery.limited import stored, words
from recovery.measured import Floor, Samples, Startup, Touched
from recovery.model import Schema, Trial
from recovery.plan import Plan, place_of
from recovery.request import Request, variant_text
from recovery.rootsteps import RootStep, steps_text
from recovery.scenarios.outcome import Outcome, Worked
from recovery.scenarios.scenario import Scenario
from recovery.stored import Axis, Run, Session, Verdict
from recovery.work import Load


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
