"""Resumes a session that ended early: on the same host and with the same plan, it measures the missing runs.

This file also removes the drafts and locks that killed sessions left in the results folder."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import recovery
from recovery.analysis.compare import words
from recovery.analysis.history import Role, role_of
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux import locks
from recovery.linux.cleanup import sweep_drafts
from recovery.linux.files import read_stored, why_not_trusted
from recovery.linux.procfs import boot_id
from recovery.model import Session, Status
from recovery.session.plan import PLAN_ADAPTER, PLAN_FILE, Plan, StoredPlan, differences, stored_trials
from recovery.session.request import Request
from recovery.session.store import DRAFT_NAMES, SessionStore
from recovery.storage.sessions import (
    LATEST_LINK,
    LOCK_FILE,
    REPORT_FILE,
    find_session,
    load_session,
    session_names,
    still_running_error,
)
from recovery.workload.inserts import insert_statements

# --- Sessions that ended early, and their leftovers


@dataclass(frozen=True)
class Unfinished:
    """Represents a stored session that may be resumed."""

    folder: Path
    session: Session

    @property
    def missing(self) -> int:
        return self.session.planned_runs - len(self.session.done)

    @property
    def has_ended(self) -> bool:
        """Returns whether the session came to the end of its plan and no run is to be measured again.

        Failed runs count as done."""
        return self.session.status == Status.FINISHED and not any(run.measure_again for run in self.session.runs)

    def plan(self, purpose: str = "resumed") -> StoredPlan:
        """Returns the stored plan.

        Raises UsageError if there is none, or if another user may have written the plan: then the session cannot be
        `resumed`, or whatever the purpose is."""
        path = self.folder / PLAN_FILE
        # The plan names the server to run, so it must be trusted.
        if why := why_not_trusted(path) or why_not_trusted(self.folder / REPORT_FILE):
            raise UsageError(f"{self.folder} cannot be {purpose}: {why}", "check who may write there, or measure again")
        if not path.is_file():
            raise UsageError(
                f"{self.folder.name} cannot be {purpose}: it has no {PLAN_FILE}",
                "restore the file, or measure again; its runs stay stored",
            )
        return read_stored(path, PLAN_ADAPTER)


def find_unfinished(results: Path, name: str | None) -> Unfinished:
    """Returns the session of this name, or without a name the newest one that is not complete."""
    if name is not None:
        folder = find_session(results, name, to_write=True)
        return Unfinished(folder, load_session(folder))
    found = next((unfinished for unfinished in _all_sessions(results) if not unfinished.has_ended), None)
    if found is None:
        raise UsageError(
            f"{results} has no session that can be resumed",
            "run the same command again, or name another folder with --results",
        )
    return found


def _all_sessions(results: Path) -> Iterator[Unfinished]:
    """Yields all sessions, newest first; damaged ones are skipped."""
    for name in reversed(session_names(results)):
        with suppress(RecoveryError):
            yield Unfinished(results / name, load_session(results / name))


def check_not_running(unfinished: Unfinished) -> None:
    """Raises HostUnfitError if the session still runs.

    This is only an early check, before anything is done for the session: resuming it takes its lock."""
    if locks.lock_holder(unfinished.folder / LOCK_FILE) is not None:
        raise still_running_error(unfinished.folder)


def sweep_results(results: Path) -> None:
    """Removes the drafts and locks that killed processes left in this results folder and in its sessions."""
    sweep_drafts(results, DRAFT_NAMES)
    for folder in (path.parent for path in results.glob(f"*/{REPORT_FILE}") if path.parent.name != LATEST_LINK):
        for part in (folder, folder / "runs"):
            sweep_drafts(part)
        if (folder / LOCK_FILE).exists():
            _unlock_ended(folder)


def _unlock_ended(folder: Path) -> None:
    """Removes the lock of an ended session: its tool was killed between the last write and the removal."""
    with suppress(RecoveryError, OSError):
        has_ended = load_session(folder).status in (Status.FINISHED, Status.INTERRUPTED)
        if has_ended and (lock := locks.take_lock(folder / LOCK_FILE, mode=0o644)) is not None:
            lock.release(unlink=True)


Facts = Mapping[str, str | int | float | bool | None]

_HOST_FACTS = (
    "cpu_model", "cpus", "cpu_quota", "cpu_governor", "memory_bytes", "architecture", "virtualisation",
    "ec2_instance_type", "kernel", "thp", "swappiness", "filesystem", "mount_options", "device_model",
    "device_serial", "scheduler", "read_ahead_kb", "rotational", "cold_means", "host_id",
)  # fmt: skip
"""Facts about the host: runs are not comparable if one of them has changed."""
_NONE_IS_VALUE = frozenset({"cpu_quota"})
"""Facts for which None is a value (there is no quota, for example); for all others it means unknown."""
_MEMORY_TOLERANCE = 0.01
"""Tolerated relative change of `memory_bytes`: the kernel reserves slightly more or less at each boot."""
_MAX_DIFFERENCES = 3
_END_TEXTS: Mapping[str, str] = {
    Status.RUNNING: "The tool was killed",
    Status.INTERRUPTED: "The session was interrupted",
    Status.ABORTED: "The session ended early",
}


@dataclass(frozen=True)
class ResumedSession:
    """Represents an interrupted session that this process has locked and resumes."""

    store: SessionStore
    planned: StoredPlan

    def session(self, now: Session, planned: StoredPlan) -> Session:
        """Returns the session to continue with.

        Raises HostUnfitError if the current plan, settings or host differ: the runs would not be comparable."""
        before = self.store.session
        found = [
            *differences(self.planned, planned),
            *_setting_differences(before, now),
            *_host_differences(before, now),
        ]
        if found:
            raise HostUnfitError(
                f"{self.store.folder.name} cannot be resumed: {'; '.join(found[:_MAX_DIFFERENCES])}",
                "new runs would not be comparable with the stored ones: measure again; its runs stay stored",
            )
        return replace(before, status=Status.RUNNING.value, notes=(*before.notes, *self._notes(before, now, planned)))

    def _notes(self, before: Session, now: Session, planned: StoredPlan) -> Iterator[str]:
        wrote = datetime.fromtimestamp((self.store.folder / REPORT_FILE).stat().st_mtime, UTC)
        where = "in the same boot of the host" if planned.boot == self.planned.boot else "after a reboot of the host"
        done, total, at = len(before.done), before.planned_runs, datetime.now(UTC)
        yield (
            f"{_END_TEXTS.get(before.status, 'The session ended')} when {done} of {total} runs had ended "
            f"(last write: {wrote:%Y-%m-%d %H:%M:%S} UTC); it was resumed at {at:%Y-%m-%d %H:%M:%S} UTC, "
            f"{where}, with {total - done} runs missing."
        )
        # Some hosts switch it on and off by themselves. Each warm start proves that its cache was warm.
        was, is_now = (session.environment.get("idle_pageout") for session in (before, now))
        if was != is_now:
            yield f"This host's idle pageout was {_value_text(was)}, and is {_value_text(is_now)} now."
        # The void run is stored until its repetition replaces it; afterwards this note is its only trace.
        for run in before.runs:
            if run.measure_again:
                why = (run.reason or "").partition("; ")[0]
                text = f"To be measured again: run {run.number} ({run.version} {run.variant}), which was void: {why}."
                if text not in before.notes:
                    yield text
        if before.tool_version != recovery.__version__:
            yield f"Version {before.tool_version} of the tool began it, and version {recovery.__version__} resumed it."


@contextmanager
def open_resumed(unfinished: Unfinished | None) -> Iterator[ResumedSession | None]:
    """Opens the session to resume and releases its lock at the end; yields None for a new session.

    A session that cannot be resumed stays as it was."""
    if unfinished is None:
        yield None
        return
    planned = unfinished.plan()
    store = SessionStore.resume(unfinished.folder)
    try:
        yield ResumedSession(store, planned)
    finally:
        store.release_lock()


def stored_plan(request: Request, plan: Plan) -> StoredPlan:
    """Returns the plan of this request on this host, in the form in which plans are stored."""
    script = insert_statements(
        request.sizes.schema, count=request.sizes.inserts, template=request.sizes.insert_template
    )
    return StoredPlan(
        command=request.command,
        folder=str(Path.cwd()),
        boot=boot_id(),
        alternating=plan.alternating,
        trials=stored_trials(plan.trials),
        settings={trial.variant.name: dict(trial.variant.settings) for trial in plan.trials},
        servers={
            str(datadir.spec.version): plan.servers[datadir.spec.version].fingerprint for datadir in plan.datadirs
        },
        directories=tuple(datadir.key for datadir in plan.datadirs),
        inserts=hashlib.sha256("\n".join(script).encode()).hexdigest(),
        built=tuple(sorted(plan.built)),
    )


def check_same_measurement(first: Unfinished, now: Session, planned: StoredPlan) -> None:
    """Raises HostUnfitError if a new session would not repeat this one: its servers, settings, data directories or host
    differ."""
    found = [
        *differences(first.plan("repeated"), planned, same_order=False),
        *_setting_differences(first.session, now, roles=(Role.DESIGN, Role.SERVER)),
        *_host_differences(first.session, now),
    ]
    if found:
        raise HostUnfitError(
            f"{first.folder.name} cannot be repeated: {'; '.join(found[:_MAX_DIFFERENCES])}",
            "this would be another measurement: begin a new session, and compare the two",
        )


def _setting_differences(before: Session, now: Session, *, roles: Collection[Role] = tuple(Role)) -> Iterator[str]:
    """Yields the settings of these roles that differ.

    A setting that is None on one side is no difference: it was dropped during the session."""
    for name, value in before.settings.items():
        other = now.settings.get(name)
        if role_of(name) in roles and value is not None and other is not None and value != other:
            yield f"{words(name)} is {other} now, and was {value}"


def _host_differences(before: Session, now: Session) -> Iterator[str]:
    for name in _HOST_FACTS:
        if name in before.environment and not _same(name, before.environment, now.environment):
            was, is_now = before.environment[name], now.environment.get(name)
            yield f"this host's {name.replace('_', ' ')} is {_value_text(is_now)} now, and was {_value_text(was)}"


def _same(name: str, before: Facts, now: Facts) -> bool:
    """Returns whether a fact is the same, or not known of one."""
    was, is_now = before[name], now.get(name)
    if was is None or is_now is None:
        return name not in _NONE_IS_VALUE or was is is_now
    if name == "memory_bytes" and isinstance(was, int) and isinstance(is_now, int):
        return abs(is_now - was) <= _MEMORY_TOLERANCE * was
    return was == is_now


def _value_text(value: str | int | float | bool | None) -> str:
    return "none" if value is None else str(value)
