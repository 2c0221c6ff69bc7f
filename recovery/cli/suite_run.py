"""The commands of the published experiments, and their run one after the other.

Each experiment is a session in the same process, and is requested with the options of its own command. All that is
stored about the run itself is the list of its commands. What has been measured is seen from the sessions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from recovery import __version__
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
from recovery.cli.values import split_versions
from recovery.errors import InterruptedByUserError, OptionConflictError, RecoveryError, UsageError
from recovery.experiments import EXPERIMENTS, find_experiment
from recovery.linux.files import (
    make_folder,
    new_folder,
    read_stored,
    sync_folder,
    why_not_trusted,
    write_atomically,
)
from recovery.linux.locks import host_lock
from recovery.linux.privileges import refuse_steps
from recovery.model import Session, Status
from recovery.report.claims import Answer, Publication, answer_claims
from recovery.report.fmt import count_text
from recovery.report.published import find_publication, publications, short_answer
from recovery.session.engine import choose_engine, resolve_builds
from recovery.session.option_checks import check_options
from recovery.session.prepare import check_combined_space, plan_session
from recovery.session.request import Request
from recovery.session.resume import Unfinished, check_not_running, sweep_results
from recovery.storage.sessions import load_session, session_names, writing_results

Say = Callable[[str], None]

# --- The request, and what it needs

DEFAULT_VERSIONS = ("5.7.22", "8.0.31")
"""One version of each series that most of the publications compare."""
_MANY_TABLES = ("crash-recovery", "metadata", "interference")
"""Experiments that the cap on tables applies to."""
_MAX_PUBLISHED_BUILD = 10_000


def publication_names() -> tuple[str, ...]:
    return tuple(publication.name for publication in publications())


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
    sizes = {"runs": (request.sizes.repeats, caps.runs)}
    if caps.tables is not None and request.scenario in _MANY_TABLES:
        least = max(1, 2 * request.sizes.schema.foreign_keys)
        sizes["tables"] = request.sizes.schema.tables, max(least, caps.tables // request.sizes.schema.databases)
    loads: Any = request.experiment_options
    if "LoadOptions" in EXPERIMENTS[request.scenario].options:
        sizes |= {"seconds": (loads.seconds, caps.seconds), "warmup": (loads.warmup_s, caps.seconds)}
    over = {name: most for name, (size, most) in sizes.items() if most is not None and size > most}
    return [word for name, most in over.items() for word in (f"--{name}", str(most))]


def _claimed_options(request: Request) -> list[str]:
    """Returns options for figures that were published, but are not measured by default."""
    if request.scenario == "crash-recovery":
        return ["--trace"]
    if request.scenario == "metadata":
        return ["--published-build", str(max(1, min(request.sizes.schema.total_tables // 10, _MAX_PUBLISHED_BUILD)))]
    return []


def fetch_prerequisites(requests: Sequence[Request], say: Say) -> None:
    """Fetches servers and programs, and checks the options of all sessions and the disk space that they need together.

    A missing server is an error, because nothing can be measured. A missing program is ignored here: the experiment
    that needs it reports it."""
    programs = dict.fromkeys(name for request in requests for name in find_experiment(request.scenario).programs)
    plans = []
    with refuse_steps(requests[0].method.refused), host_lock():
        engine, builds = resolve_builds(requests[0], choose_engine(requests[0], say), say)
        for request in requests:
            check_options(request, engine, builds, say)
            plans.append(plan_session(request, [build.version for build in builds], builds=builds))
        check_combined_space(plans)
        for name in programs:
            with suppress(RecoveryError):
                provide_tool(name, offline=requests[0].servers.offline, say=say)


# --- The list of commands (experiments.json)

RECORD_FILE = "experiments.json"
FORMAT = 1
"""Format of the list of commands, and of the results as JSON."""
INTERRUPTED = "it was interrupted"
_FOLDER_SUFFIX = "-experiments"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One of the experiments of a run."""

    name: str
    command: str
    """Command that measures it."""


@dataclass(frozen=True, kw_only=True)
class SuiteRecord:
    """What is stored about a run of `recovery experiments`, so that it can be resumed."""

    command: str
    started_at: str
    scale: str
    versions: tuple[str, ...]
    steps: tuple[Step, ...]
    tool_version: str = __version__


_SUITE_RECORD = TypeAdapter(SuiteRecord)


def save_record(record: SuiteRecord, folder: Path) -> None:
    text = json.dumps({"format": FORMAT, **asdict(record)}, indent=2, ensure_ascii=False) + "\n"
    with writing_results(folder):
        write_atomically(folder / RECORD_FILE, text.encode("utf-8", errors="replace"))


def _create_folder(results: Path) -> Path:
    """Creates the folder of a new run in `results`, named by the current time, and returns its path."""
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}{_FOLDER_SUFFIX}"
    with writing_results(results):
        make_folder(results)
        folder = new_folder(results, name)
        sync_folder(results)
    return folder


# --- The run


@dataclass(frozen=True)
class StepResult:
    """What came of one experiment."""

    publication: Publication
    step: Step
    stored: Unfinished | None
    """Its session, which may be complete."""
    error: str | None = None
    """Why it ended early, or why not all of its runs count."""

    @property
    def session(self) -> Session | None:
        return None if self.stored is None else self.stored.session

    @property
    def is_missing(self) -> bool:
        """Whether `--resume` would measure something."""
        return self.stored is None or not self.stored.has_ended

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        return () if self.session is None else answer_claims(self.publication, self.session)

    @property
    def summary(self) -> str:
        """The outcome in one line."""
        return " ".join((f"{self.publication.heading}:", *self._outcome()))

    def _outcome(self) -> Iterator[str]:
        session, error = self.session, (self.error or "").rstrip(".")
        if session is None:
            yield f"not measured: {error}." if error else "not measured yet."
            return
        yield short_answer(self.answers)
        if error:
            yield f"{'Not all of it counts' if session.status == Status.FINISHED else 'It ended early'}: {error}."
        elif session.status != Status.FINISHED:
            planned = count_text(session.planned_runs, "run")
            yield f"This session is {session.status}: {len(session.runs)} of {planned} had ended."


@dataclass(frozen=True)
class Pending:
    """A session that is still to be measured, or to be resumed."""

    request: Request
    left: Unfinished | None = None


class SuiteRun:
    """A run of the experiments, with its folder in the results folder of their sessions."""

    def __init__(self, record: SuiteRecord, folder: Path) -> None:
        self.record = record
        self.folder = folder
        self._errors: dict[str, str] = {}
        """Why an experiment was not measured, by its name."""

    @classmethod
    def begin(cls, command: str, suite: SuiteRequest, requests: Sequence[Request]) -> SuiteRun:
        """Stores the commands of a new run in a folder of its own."""
        record = SuiteRecord(
            command=command,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            scale=suite.scale,
            versions=suite.versions,
            steps=tuple(Step(name=request.scenario, command=request.command) for request in requests),
        )
        run = cls(record, _create_folder(requests[0].output.results))
        save_record(record, run.folder)
        return run

    @classmethod
    def read(cls, folder: Path) -> SuiteRun:
        """Returns a stored run. Raises UsageError if the folder has none."""
        path = folder / RECORD_FILE
        if not path.is_file():
            raise UsageError(f"there are no experiments in {folder}", f"name a folder that has {RECORD_FILE}")
        return cls(read_stored(path, _SUITE_RECORD), folder)

    @classmethod
    def resume(cls, folder: Path) -> SuiteRun:
        """Returns a stored run. Raises UsageError if another user may have written its commands."""
        if why := why_not_trusted(folder / RECORD_FILE):
            raise UsageError(f"{folder} cannot be resumed: {why}", "see who may write there, or measure again")
        sweep_results(folder.parent)
        return cls.read(folder)

    def results(self) -> tuple[StepResult, ...]:
        """Returns what came of the experiments, in their order."""
        found = ((find_publication(step.name), step) for step in self.record.steps)
        return tuple(self._result(publication, step) for publication, step in found if publication is not None)

    def _result(self, publication: Publication, step: Step) -> StepResult:
        stored, error = self._stored_session(step), self._errors.get(step.name)
        if stored is not None and stored.session.status == Status.FINISHED:
            error = error or incomplete_reason(stored.session)
        return StepResult(publication, step, stored, error)

    def _stored_session(self, step: Step) -> Unfinished | None:
        """Returns the first session of the step's command since the run began; None if there is none.

        Names of folders begin with the time at which they were created. A damaged session is skipped."""
        results, began = self.folder.parent, _time_of(self.folder.name)
        for name in session_names(results):
            if _time_of(name) >= began and f"-{step.name}" in name:
                with suppress(RecoveryError):
                    session = load_session(results / name)
                    if session.command == step.command:
                        return Unfinished(results / name, session)
        return None

    def pending_commands(self) -> tuple[tuple[str, str], ...]:
        """Returns the stored commands of what is missing, each with the name of its session or experiment.

        Raises HostUnfitError if one of the sessions still runs."""
        commands = []
        for result in self.results():
            if result.is_missing and result.stored is not None:
                check_not_running(result.stored)
                commands.append((result.stored.plan().command, result.step.name))
            elif result.is_missing:
                commands.append((result.step.command, result.step.name))
        return tuple(commands)

    def pending(self) -> dict[str, Pending]:
        """Returns what is missing, by the name of the experiment."""
        return {result.step.name: self._pending(result) for result in self.results() if result.is_missing}

    def _pending(self, result: StepResult) -> Pending:
        if result.stored is not None:
            return Pending(request_to_resume(result.stored), result.stored)
        command = result.step.command
        request = request_from_command(command, result.step.name)
        # The session is found by its command later, which this version of the tool may spell otherwise.
        output = replace(request.output, results=self.folder.parent)
        return Pending(replace(request, output=output, command=command))

    def measure(self, pending: Mapping[str, Pending], say: Say, *, quiet: bool) -> None:
        """Measures what is pending. An experiment that fails does not stop the others; an interrupt does."""
        for number, step in enumerate(self.record.steps, 1):
            if step.name in pending:
                publication = find_publication(step.name)
                title = step.name if publication is None else publication.heading
                say(f"experiment {number} of {len(self.record.steps)}: {title}")
                self._measure(step.name, pending[step.name], say, quiet=quiet)

    def _measure(self, name: str, pending: Pending, say: Say, *, quiet: bool) -> None:
        ended = run_and_show(pending.request, Shown(quiet=quiet, yes=True), pending.left)
        error = ended.error
        if isinstance(error, KeyboardInterrupt | InterruptedByUserError):
            self._errors[name] = INTERRUPTED
        elif isinstance(error, RecoveryError | OSError):
            self._errors[name] = error.message if isinstance(error, RecoveryError) else str(error)
            say(f"{name}: {self._errors[name]}")
            return
        if error is not None:
            raise error
        if ended.session is not None and (reason := incomplete_reason(ended.session)) is not None:
            say(f"{name}: {reason}")


def _time_of(folder_name: str) -> str:
    return folder_name.partition("-")[0]
