"""Runs the commands that measure, from their options to the exit code, and `recovery resume`."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from recovery.analysis.compare import cells_without_interval, incomplete_reason, judge_baseline, starts_over
from recovery.analysis.warnings import cells_missing_precision
from recovery.cli.completion import complete_session
from recovery.cli.measuring_command import MeasuringCommand
from recovery.cli.options import BY_NAME, DEFAULT_RESULTS, refuse_unused_variables, repeat_command, table_option
from recovery.cli.output import STANDARD_OUTPUT, print_line, refuse_over, write_json
from recovery.cli.parse import make_request, taken_from_newest_session
from recovery.cli.plan_text import announce, can_ask, confirm, print_plan
from recovery.cli.progress_view import FAINT, ProgressDisplay, Screen
from recovery.cli.status import find_running_session
from recovery.errors import InterruptedByUserError, LimitExceededError, RecoveryError, UsageError
from recovery.experiments import EXPERIMENTS, find_experiment
from recovery.experiments.experiment import StartOptions
from recovery.linux.files import read_stored_text
from recovery.linux.locks import lock_path
from recovery.linux.privileges import refuse_steps
from recovery.linux.procfs import process_id
from recovery.model import Session, Status
from recovery.report.console import ReportConsole, program_name
from recovery.session import progress as session_progress
from recovery.session.engine import choose_engine
from recovery.session.plan import StoredPlan
from recovery.session.progress import Progress
from recovery.session.request import Request, with_seed
from recovery.session.resume import Unfinished, check_not_running, find_unfinished, sweep_results
from recovery.storage.sessions import REPORT_FILE, load_session

# --- A session, from its options to its results on the screen


@dataclass(frozen=True)
class Shown:
    """Options of a command that change nothing about what is measured."""

    quiet: bool = False
    verbose: bool = False
    """Print the tables, too."""
    yes: bool = False
    """Do not ask whether to begin a long session."""
    wait: bool = False
    """Wait while another timed run is in progress."""
    json_to: str | None = None
    """File for report.json, or `-`."""


NOT_OF_REQUEST = ("dry_run", "repeat", "repeat_every", *(field.name for field in fields(Shown)))
"""Options of every measuring command that are not part of the request for a session."""


def measure_once(request: Request, shown: Shown) -> int:
    return exit_code(request, run_and_show(request, shown).result())


def measure(
    command: MeasuringCommand, given: dict[str, Any], how: Callable[[Request, Shown], int] = measure_once
) -> int:
    """Makes the request of a command, and measures it in this way, unless only the plan is asked for."""
    refuse_unused_variables(os.environ, command)
    scenario = str(command.name)
    given = {name: value for name, value in given.items() if name not in ("repeat", "repeat_every")}
    dry_run, shown = given.pop("dry_run"), Shown(**{field.name: given.pop(field.name) for field in fields(Shown)})
    if scenario == "warm-recovery":
        taken, line = taken_from_newest_session(given)
        given |= taken
        if line and not shown.quiet:
            print_line(line, err=True)
    with _naming_file_of_options(given):
        request = make_request(scenario, given)
        if dry_run and shown.json_to:
            raise UsageError("--dry-run and --json cannot be combined: nothing is measured", "leave one of them out")
        if dry_run:
            _make_display(request, quiet=shown.quiet).say(f"$ {request.command}", FAINT)
            with refuse_steps(request.method.refused):
                print_plan(request, ReportConsole())
            return 0
        return how(request, shown)


@contextmanager
def _naming_file_of_options(given: Mapping[str, Any]) -> Iterator[None]:
    """Lets an error about a server option that can only be from a my.cnf name the file in place of --set."""
    try:
        yield
    except RecoveryError as error:
        if error.option == "set" and given.get("defaults_file") is not None and not given["settings"]:
            error.option = "defaults_file"
        raise


def exit_code(request: Request, session: Session) -> int:
    if incomplete_reason(session) is not None or any(cells_missing_precision(session)):
        return 1
    if request.output.fail_over is not None and (unjudged := cells_without_interval(session)):
        raise RecoveryError(
            f"it cannot be judged: no interval for {', '.join(unjudged)}",
            "see the report: these runs are not warm starts, or are not measured",
            option="fail_over",
        )
    if request.output.fail_over is not None:
        refuse_over(judge_baseline(session, request.output.fail_over), "the report shows where the time went")
    options = request.experiment_options
    longest_s = options.max_startup if isinstance(options, StartOptions) else None
    if longest_s is not None and (slow := starts_over(session, longest_s)):
        raise LimitExceededError(
            f"a start took longer than {longest_s:g} s: {'; '.join(slow)}",
            "the report shows where the time went",
            option="max_startup",
        )
    return 0


@dataclass(frozen=True)
class Ended:
    """Describes how a session ended."""

    folder: Path | None
    """None if nothing is stored."""
    session: Session | None = None
    error: BaseException | None = None
    """What ended it early, or why its results could not be shown."""

    def result(self) -> Session:
        """Returns the session; raises what ended it early."""
        if self.error is not None:
            raise self.error
        assert self.session is not None, "a session without an error has a result"
        return self.session


_MAX_RANDOM_SEED = 999_999


def run_and_show(
    request: Request,
    shown: Shown,
    unfinished: Unfinished | None = None,
    first: Unfinished | None = None,
    *,
    is_announced: bool = False,
    in_series: bool = False,
    is_due: Callable[[], bool] | None = None,
) -> Ended:
    """Runs the session and shows its results. It may be one to resume, or one that repeats `first`. Its time and disk
    space are announced, unless they were with that of other sessions. A new session without a seed gets a random one.
    With `is_due` it is only run if that is still true once no other session can run. With `in_series` the JSON is left
    to the report over all sessions, which follows.

    If it ends early, the stored results and the command that resumes it are shown, too."""
    from recovery.session.run import run_session

    if unfinished is None:
        request = with_seed(request, secrets.randbelow(_MAX_RANDOM_SEED) + 1)
    reporter = _make_display(request, quiet=shown.quiet)
    try:
        reporter.say(f"$ {request.command}", FAINT)
        with refuse_steps(request.method.refused):
            if unfinished is None and not is_announced:
                announce([request], reporter.say, yes=shown.yes)
            engine = choose_engine(request, reporter.say)
            folder = run_session(
                request, engine=engine, reporter=reporter, unfinished=unfinished, first=first, wait=shown.wait,
                is_due=is_due,
            ).folder  # fmt: skip
    except BaseException as error:
        if reporter.progress.results == str(request.output.results):  # nothing is stored yet
            return Ended(None, error=error)
        return _show_ended_early(Path(reporter.progress.results), error, shown, reporter.say, in_series=in_series)
    try:
        session = _show_session(folder, shown, reporter.say, in_series=in_series)
    except BaseException as error:
        return Ended(folder, error=error)
    if not Unfinished(folder, session).has_ended:
        reporter.say(_resume_hint(folder))
    return Ended(folder, session)


def _show_ended_early(
    folder: Path, error: BaseException, shown: Shown, say: Callable[[str], None], *, in_series: bool
) -> Ended:
    """Shows the stored results of a session that ended early, and how to resume it unless it was complete."""
    is_stored = is_complete = False
    with suppress(RecoveryError, OSError):  # the user must see the error that ended the session, not this one
        is_stored = (folder / REPORT_FILE).is_file()
        stored = _show_session(folder, shown, say, in_series=in_series) if is_stored else None
        is_complete = stored is not None and stored.status == Status.FINISHED
    if not is_stored:
        return Ended(None, error=error)
    if not is_complete:
        further = _resume_hint(folder)
        if isinstance(error, KeyboardInterrupt | InterruptedByUserError):
            text = f"the runs that have ended are stored; {further}"
            return Ended(folder, error=InterruptedByUserError(str(error) or "interrupted", text))
        say(further)
    return Ended(folder, error=error)


def _resume_hint(folder: Path) -> str:
    results = {} if folder.parent == DEFAULT_RESULTS.absolute() else {"results": folder.parent}
    command = repeat_command("resume", results, (BY_NAME["results"],)).removeprefix("recovery")
    return f"`{program_name()}{command} {shlex.quote(folder.name)}` resumes it and measures the missing runs"


def _make_display(request: Request, *, quiet: bool) -> ProgressDisplay:
    progress = Progress(
        experiment=request.scenario,
        metric=find_experiment(request.scenario).metric,
        versions=request.servers.versions,
        command=request.command,
        results=str(request.output.results),
        began_s=time.monotonic(),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        pid=os.getpid(),
        owner=process_id(),
    )
    record = partial(session_progress.write_status_file, session_progress.status_path(lock_path()))
    return ProgressDisplay(
        progress, screen=Screen(sys.stderr), record=record, find_running=find_running_session, quiet=quiet
    )


def _show_session(folder: Path, shown: Shown, say: Callable[[str], None], *, in_series: bool = False) -> Session:
    """Writes the reports of the stored session, and prints it, or report.json with `--json -`. Of a session `in_series`
    no JSON is written."""
    from recovery.report import console
    from recovery.report.write import write_reports

    session = load_session(folder)
    try:
        write_reports(folder, session)
    finally:
        if shown.json_to != STANDARD_OUTPUT:
            console.show(session, folder, ReportConsole(), verbose=shown.verbose)
        if shown.json_to and not in_series:
            write_json(shown.json_to, read_stored_text(folder / REPORT_FILE))
        if shown.json_to == STANDARD_OUTPUT or shown.verbose:
            say(f"stored in {folder}")
    return session


# --- Requests from stored commands

_MAX_SHOWN = 100
"""Most letters of a stored command that an error shows."""
_MEASURE_AGAIN = "use the version that began it, or measure again; its runs stay stored"


def split_stored_command(stored: str, session: str, purpose: str = "resumed") -> tuple[str, list[str]]:
    """Returns the name and the other words of a stored command of this session, such as
    `recovery cold-recovery --version 5.7.22`. Raises UsageError if it is none of a command that measures."""
    try:
        program, name, *words = shlex.split(stored)
    except ValueError:
        program = name = ""
        words = []
    if program != "recovery" or name not in EXPERIMENTS:
        shown = stored if len(stored) <= _MAX_SHOWN else f"{stored[:_MAX_SHOWN]}…"
        raise UsageError(
            f"{session} cannot be {purpose}: its stored command `{shown}` is not one of this tool's", _MEASURE_AGAIN
        )
    return name, words


def _unknown_command(session: str, purpose: str, error: Exception) -> UsageError:
    return UsageError(f"{session} cannot be {purpose}: this version does not know its command: {error}", _MEASURE_AGAIN)


def request_from_command(stored: str, session: str, purpose: str = "resumed") -> Request:
    """Returns the request of a stored command of this session.

    The arguments are parsed by the command itself. Its environment variables are ignored: they are not meant for this
    session. Raises UsageError if this version of the tool does not accept the command."""
    name, words = split_stored_command(stored, session, purpose)
    try:
        return request_from_arguments(name, words)
    except (click.ClickException, ValueError) as error:
        raise _unknown_command(session, purpose, error) from error


def request_from_arguments(name: str, words: Sequence[str]) -> Request:
    command = MeasuringCommand(name, environment=False)
    given: dict[str, Any] = dict(command.make_context(name, list(words)).params)
    given = {option: value for option, value in given.items() if option not in NOT_OF_REQUEST}
    return make_request(name, given)


def request_to_resume(unfinished: Unfinished) -> Request:
    """Returns the request of an unfinished session, with its seed, and the folder where it is now as its results
    folder.

    Raises UsageError if this version of the tool does not accept the stored command."""
    planned, seed = unfinished.plan(), unfinished.session.settings.get("seed")
    request = replace(_stored_request(unfinished, planned, planned.command), command=planned.command)
    return with_seed(request, seed) if isinstance(seed, int) else request


def request_to_repeat(first: Unfinished) -> Request:
    """Returns the request of a session that repeats this one: the same but for its seed, so that the order of its
    trials is its own.

    Raises UsageError if this version of the tool does not accept the stored command."""
    planned = first.plan("repeated")
    name, words = split_stored_command(planned.command, first.folder.name, "repeated")
    request = _stored_request(first, planned, shlex.join(["recovery", name, *_without_seed(name, words)]), "repeated")
    return replace(request, output=replace(request.output, repeat_of=first.folder.name))


def _without_seed(name: str, words: Sequence[str]) -> Iterator[str]:
    """Yields the words of a command without the seed of its order. That of a crash test is part of what is measured."""
    flag = BY_NAME["seed"].flag
    if "CrashOptions" in EXPERIMENTS[name].options:
        yield from words
        return
    for before, word in pairwise(("", *words)):
        if before != flag and word.partition("=")[0] != flag:
            yield word


def _stored_request(stored: Unfinished, planned: StoredPlan, command: str, purpose: str = "resumed") -> Request:
    folder = Path(planned.folder)
    with chdir(folder) if folder.is_dir() else nullcontext():  # its paths may be relative to that folder
        request = request_from_command(command, stored.folder.name, purpose)
    return replace(request, output=replace(request.output, results=stored.folder.parent))


# --- recovery resume


def confirm_commands(commands: Iterable[tuple[str, str]], *, yes: bool, verb: str = "resume") -> None:
    """Asks on a terminal whether to run stored commands whose options can name a program, a file, an address or a
    server option, because the sessions may come from somebody else. A command comes with the name of its session.

    Nothing that the options name is read before. Raises UsageError if the answer is no, or if nobody can be asked."""
    purpose = f"{verb.removesuffix('e')}ed"
    risky = dict.fromkeys(text for stored, session in commands for text in risky_options(stored, session, purpose))
    if not risky or yes:
        return
    what = f"the stored command has {', '.join(risky)}, which may run code of somebody else"
    if not (is_asked := can_ask()) or not confirm(f"{what}. {verb.capitalize()}?"):
        raise UsageError(
            f"nothing was {purpose}" if is_asked else what,
            "if you know that the session is yours, or have checked these options, add --yes",
        )


def risky_options(stored: str, session: str, purpose: str = "resumed") -> Iterator[str]:
    """Yields the options of a stored command that need consent, as they are stored.

    The folders of DATA and RESULTS need none: every command has them, the session is resumed where it is, and in DATA
    the tool changes its own data directories only, and uses no folder that somebody else can change."""
    name, words = split_stored_command(stored, session, purpose)
    command = MeasuringCommand(name, environment=False)
    try:
        given = command.make_context(name, words)
    except click.ClickException as error:
        raise _unknown_command(session, purpose, error) from error
    for option in command.options:
        if given.get_parameter_source(option.key) is click.core.ParameterSource.COMMANDLINE:
            value = given.params[option.key]
            for text in map(str, value if isinstance(value, tuple) else (value,)):
                if not option.is_plain(text):
                    yield f"{option.flag} {shlex.quote(text)}"


@click.command("resume")
@click.argument("session", required=False, shell_complete=complete_session)
@table_option("results")
@table_option("yes")
@table_option("wait")
@table_option("quiet")
@table_option("verbose")
@table_option("json")
def resume(session: str | None, results: Path, **given: Any) -> int:
    """Resume a session that was killed, interrupted or aborted: SESSION (a name in --results, or a folder), or the
    newest such session.

    The settings and the plan stay the same. Runs that have ended are kept. The missing runs are measured, and those
    that are void because the storage failed or something was paused. A session is not resumed if the servers, the
    settings or the host have changed."""
    shown = Shown(**given)
    results = results.absolute()
    sweep_results(results)
    unfinished = find_unfinished(results, session)
    check_not_running(unfinished)
    if unfinished.has_ended:
        return _finish_ended_session(unfinished, shown.json_to)
    confirm_commands([(unfinished.plan().command, unfinished.folder.name)], yes=shown.yes)
    request = request_to_resume(unfinished)
    return exit_code(request, run_and_show(request, shown, unfinished).result())


def _finish_ended_session(unfinished: Unfinished, json_to: str | None) -> int:
    """Prints that the session has ended, and returns the exit code of its runs.

    The reports are written again, because the tool may have been killed while it wrote them."""
    from recovery.report.write import write_reports

    write_reports(unfinished.folder, unfinished.session)
    lacking = incomplete_reason(unfinished.session)
    planned = unfinished.session.planned_runs
    all_of_it = "its only run was measured" if planned == 1 else f"all of its {planned} runs were measured"
    text = all_of_it if lacking is None else lacking
    print_line(f"{unfinished.folder.name} has ended: {text}; `recovery report` prints it", err=True)
    write_json(json_to, read_stored_text(unfinished.folder / REPORT_FILE))
    return 0 if lacking is None else 1
