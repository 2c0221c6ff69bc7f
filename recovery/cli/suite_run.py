"""The requests of the published experiments, and their run one after the other.

Each experiment is a session in the same process, and is requested with the options of its own command."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from recovery.analysis.compare import incomplete_reason
from recovery.builds import catalog
from recovery.builds.packages import provide_tool
from recovery.cli.measure import (
    Shown,
    request_from_arguments,
    request_from_command,
    request_to_resume,
    run_and_show,
)
from recovery.cli.parse import newest_session_folder
from recovery.cli.suite_published import publication_names, publications
from recovery.cli.suite_report import (
    RECORD_FILE,
    ExperimentRecord,
    SuiteRecord,
    create_suite_folder,
    read_suite,
    save_suite,
    session_folder,
    write_suite_reports,
)
from recovery.cli.values import split_versions
from recovery.errors import InterruptedByUserError, OptionConflictError, RecoveryError, UsageError
from recovery.experiments import EXPERIMENTS, find_experiment
from recovery.linux.files import why_not_trusted
from recovery.linux.locks import host_lock
from recovery.linux.privileges import refuse_steps
from recovery.session.engine import choose_engine, resolve_builds
from recovery.session.option_checks import check_options
from recovery.session.prepare import check_combined_space, plan_session
from recovery.session.request import Request
from recovery.session.resume import Unfinished, check_not_running, sweep_results
from recovery.storage.sessions import load_session

Say = Callable[[str], None]

# --- The request, and what it needs

DEFAULT_VERSIONS = ("5.7.22", "8.0.31")
"""One version of each series that most of the publications compare."""
_MANY_TABLES = ("crash-recovery", "metadata", "interference")
"""Experiments that the cap on tables applies to."""
_MAX_PUBLISHED_BUILD = 10_000


@dataclass(frozen=True)
class Caps:
    """Upper limits given by the user; None is as much as the scale has."""

    tables: int | None = None
    """Tables in all schemas together, for experiments that are about many tables."""
    seconds: int | None = None
    runs: int | None = None


@dataclass(frozen=True)
class SuiteRequest:
    """The request for a whole run of `recovery experiments`."""

    scale: str
    versions: tuple[str, ...]
    names: tuple[str, ...] = field(default_factory=publication_names)
    caps: Caps = field(default_factory=Caps)
    shared: tuple[str, ...] = ()
    """Options that are passed on unchanged to every session."""


def requested_versions(given: Sequence[str]) -> tuple[str, ...]:
    """Returns the named versions, or those of `DEFAULT_VERSIONS` that this CPU can run, or else the default version."""
    named = split_versions(tuple(given))
    at_hand = {str(row.version) for row in catalog.pinned_servers()}
    return named or tuple(version for version in DEFAULT_VERSIONS if version in at_hand) or (catalog.DEFAULT_VERSION,)


def session_requests(suite: SuiteRequest) -> tuple[Request, ...]:
    """Returns the request of each session, in the order of the publications.

    Raises OptionConflictError if the user sets an option that one of the experiments varies itself."""
    requests = []
    for name in suite.names:
        words = ["--version", " ".join(suite.versions), "--scale", suite.scale, *suite.shared]
        try:
            words += _capped_options(request_from_arguments(name, words), suite.caps)
            words += _claimed_options(request_from_arguments(name, words))
            requests.append(request_from_arguments(name, words))
        except OptionConflictError as clash:
            others = " ".join(other for other in suite.names if other != name)
            hint = f'leave it out, or measure the others: --only "{others}"' if others else "leave it out"
            raise OptionConflictError(f"{name} cannot be measured with {clash.message}", hint) from clash
    return tuple(requests)


def _capped_options(request: Request, caps: Caps) -> list[str]:
    """Returns options for the sizes that exceed the user's limits."""
    sizes = {"runs": (request.repeats, caps.runs)}
    if caps.tables is not None and request.scenario in _MANY_TABLES:
        least = max(1, 2 * request.schema.foreign_keys)
        sizes["tables"] = request.schema.tables, max(least, caps.tables // request.schema.databases)
    loads = request.experiment_options
    if loads is not None and "seconds" in EXPERIMENTS[request.scenario].options:
        sizes |= {"seconds": (loads.seconds, caps.seconds), "warmup": (loads.warmup_s, caps.seconds)}
    over = {name: most for name, (size, most) in sizes.items() if most is not None and size > most}
    return [word for name, most in over.items() for word in (f"--{name}", str(most))]


def _claimed_options(request: Request) -> list[str]:
    """Returns options for figures that were published, but are not measured by default."""
    if request.scenario == "crash-recovery":
        return ["--trace"]
    if request.scenario == "metadata":
        return ["--published-build", str(max(1, min(request.schema.total_tables // 10, _MAX_PUBLISHED_BUILD)))]
    return []


def fetch_prerequisites(requests: Sequence[Request], say: Say) -> None:
    """Fetches servers and programs, and checks the options of all sessions and the disk space that they need together.

    A missing server is an error, because nothing can be measured. A missing program is ignored here: the experiment
    that needs it reports it."""
    programs = dict.fromkeys(name for request in requests for name in find_experiment(request.scenario).programs)
    plans = []
    with refuse_steps(requests[0].refused), host_lock():
        engine, builds = resolve_builds(requests[0], choose_engine(requests[0], say), say)
        for request in requests:
            check_options(request, engine, builds, say)
            plans.append(plan_session(request, [build.version for build in builds], builds=builds))
        check_combined_space(plans)
        for name in programs:
            with suppress(RecoveryError):
                provide_tool(name, offline=requests[0].offline, say=say)


# --- Running the experiments


def begin_suite(command: str, suite: SuiteRequest, requests: Sequence[Request], results: Path) -> SuiteRunner:
    """Returns the runner of a new run, whose folder it creates in `results`."""
    record = SuiteRecord(
        command=command,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        scale=suite.scale,
        versions=suite.versions,
        steps=tuple(ExperimentRecord(name=request.scenario, command=request.command) for request in requests),
    )
    return SuiteRunner(record, create_suite_folder(results))


@dataclass(frozen=True)
class Pending:
    """A session that is still to be measured, or to be resumed."""

    request: Request
    left: Unfinished | None = None


class SuiteRunner:
    """Runs the experiments and keeps the record of the run up to date.

    The record is written after each experiment, and the reports are written even if the run ends early."""

    def __init__(self, record: SuiteRecord, folder: Path) -> None:
        self.record = record
        self.folder = folder

    @classmethod
    def resume(cls, folder: Path) -> SuiteRunner:
        """Returns the runner of a stored run. Raises UsageError if another user may have written its record."""
        # The record names the commands to run, so it must be trusted.
        if why := why_not_trusted(folder / RECORD_FILE):
            raise UsageError(f"{folder} cannot be resumed: {why}", "see who may write there, or measure again")
        sweep_results(folder.parent)
        record, newest = read_suite(folder), newest_session_folder(folder.parent)
        # Names begin with the time at which the folder was created.
        if newest is not None and newest.name.partition("-")[0] >= folder.name.partition("-")[0]:
            # If the tool was killed, the session that it measured is not in the record yet.
            command = load_session(newest).command
            for step in record.steps:
                if step.session is None and step.command == command:
                    record = record.with_step(replace(step, session=newest.name))
        return cls(record, folder)

    def _incomplete(self) -> Iterator[tuple[ExperimentRecord, Unfinished | None]]:
        """Yields the steps that are not complete, with the session to resume if one was begun.

        A session that has been resumed by itself may be complete by now; the record is then corrected."""
        for step in self.record.steps:
            if step.session is None:
                yield step, None
                continue
            place = session_folder(step.session, self.folder)
            left = Unfinished(place, load_session(place))
            if left.has_ended:
                self.record = self.record.with_step(replace(step, error=incomplete_reason(left.session)))
                continue
            check_not_running(left)
            yield step, left

    def pending_commands(self) -> tuple[tuple[str, str], ...]:
        """Returns the stored commands of what is not complete, each with the name of its session."""
        found = (
            (step.command if left is None else left.plan().command, step.name) for step, left in self._incomplete()
        )
        return tuple((command, name) for command, name in found if command is not None)

    def pending(self) -> dict[str, Pending]:
        """Returns the sessions that are not complete, by the name of their experiment."""
        found = {}
        for step, left in self._incomplete():
            if left is not None:
                found[step.name] = Pending(request_to_resume(left), left)
            elif step.command is not None:
                request = request_from_command(step.command, step.name)
                found[step.name] = Pending(replace(request, results=self.folder.parent))
        return found

    def run(self, say: Say, *, quiet: bool) -> int:
        """Runs the experiments that are missing and returns the exit code: 1 if one of all failed, otherwise 0."""
        pending = self.pending()
        began_s, before_s, status = time.monotonic(), self.record.took_s or 0.0, "aborted"
        self._save(replace(self.record, status="running"))
        try:
            for number, step in enumerate(self.record.steps, 1):
                if step.name in pending:
                    label = next(f"{one.label} {one.title}" for one in publications() if one.name == step.name)
                    say(f"experiment {number} of {len(self.record.steps)}: {label}")
                    self._measure(step, pending[step.name], say, quiet=quiet)
            failed = any(one.error for one in self.record.steps) or not any(one.session for one in self.record.steps)
            status = "failed" if failed else "finished"
        except BaseException as ended:
            if isinstance(ended, KeyboardInterrupt | InterruptedByUserError):
                status = "interrupted"
            raise
        finally:
            took_s = round(before_s + time.monotonic() - began_s, 1)
            self._save(replace(self.record, status=status, took_s=took_s))
            write_suite_reports(self.folder)
        return 0 if status == "finished" else 1

    def _save(self, record: SuiteRecord) -> None:
        self.record = record
        save_suite(record, self.folder)

    def _measure(self, step: ExperimentRecord, one: Pending, say: Say, *, quiet: bool) -> None:
        """Runs one experiment and records it. An interrupt is recorded and raised again."""
        began_s = time.monotonic()
        ended = run_and_show(one.request, Shown(quiet=quiet, yes=True), one.left)
        failure, error = ended.error, None
        if isinstance(failure, KeyboardInterrupt | InterruptedByUserError):
            error = "it was interrupted"
        elif isinstance(failure, RecoveryError | OSError):
            error = failure.message if isinstance(failure, RecoveryError) else str(failure)
            failure = None
        elif ended.session is not None:
            error = incomplete_reason(ended.session)
        session = step.session or (ended.folder.name if ended.folder else None)
        took_s = round((step.took_s or 0.0) + time.monotonic() - began_s, 1)
        self._save(self.record.with_step(replace(step, session=session, took_s=took_s, error=error)))
        if failure is not None:
            raise failure
        if error is not None:
            say(f"{step.name}: {error}")
