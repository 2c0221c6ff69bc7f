"""The commands that measure: cold-recovery, warm-recovery, crash-recovery, clean-start, scale."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from recovery.commands.asked import make_request
from recovery.commands.dry_run import tell_plan
from recovery.commands.options import Decorator, measuring_options, repeat_command
from recovery.commands.work_options import refuse_foreign, with_defaults, working_options
from recovery.compare import not_compared, not_measured, slower_than_baseline
from recovery.engines import choose
from recovery.errors import RecoveryError, TooSlowError, UsageError
from recovery.host import statusfile
from recovery.host.lock import lock_path
from recovery.host.owner import mark
from recovery.host.rights import refusing
from recovery.paths import DEFAULT_RESULTS
from recovery.progress import Progress
from recovery.report import console as console_report
from recovery.report.console import Page
from recovery.report.narrator import SessionNarrator
from recovery.report.screen import Screen
from recovery.report.watching import FAINT
from recovery.report.write import write_reports
from recovery.request import DEFAULT_POINTS, Request
from recovery.runner import run_session
from recovery.scenarios import SCENARIOS, find_scenario
from recovery.scenarios.scale import SCALE
from recovery.scenarios.scenario import Scenario
from recovery.store import REPORT, load
from recovery.stored import Session
from recovery.unended import FINISHED, Left


def commands() -> tuple[click.Command, ...]:
    return tuple(_command(scenario) for scenario in SCENARIOS)


def _command(scenario: Scenario) -> click.Command:
    works = scenario.experiment is not None
    short = scenario.title if works else f"{scenario.title}, {_caches(scenario)}"

    @click.command(scenario.name, help=_help(scenario), short_help=f"{short}.")
    @(working_options(scenario) if works else _of_starts(scenario))
    @click.pass_context
    def command(context: click.Context, /, **given: Any) -> int:
        refuse_foreign(os.environ, context.command)
        return measure(scenario.name, given)

    return _PREDICT(command) if scenario is SCALE else command


_PREDICT = click.option("--predict", metavar="N", help="And how long would a start take with N tables?")


def _of_starts(scenario: Scenario) -> Decorator:
    if scenario is not SCALE:
        return measuring_options
    return lambda command: with_defaults(measuring_options(command), {"tables": " ".join(DEFAULT_POINTS)})


def _caches(scenario: Scenario) -> str:
    return " and ".join(cache.value for cache in scenario.caches)


def _help(scenario: Scenario) -> str:
    how = "" if scenario.experiment else f"Measured with {_caches(scenario)} cache. "
    return f"{scenario.question}\n\n{how}Results go to --results, one folder each."


def measure(scenario: str, given: dict[str, Any]) -> int:
    dry_run, json_to, quiet = given.pop("dry_run"), given.pop("json_to"), given.pop("quiet")
    request = make_request(scenario, given)
    check_json(json_to)
    if dry_run and json_to:
        raise UsageError("--dry-run measures nothing that --json could tell", "leave one of them out")
    if dry_run:
        _narrator(request, quiet=quiet).say(f"$ {request.command}", FAINT)
        with refusing(request.refused):
            tell_plan(request, Page())
        return 0
    return exit_code(request, run_and_show(request, quiet=quiet, json_to=json_to))


def check_json(json_to: str | None) -> None:
    if json_to and json_to != "-" and not os.access(Path(json_to).absolute().parent, os.W_OK):
        raise UsageError(f"--json {json_to} cannot be written", "give a file in a folder that may be written")


def exit_code(request: Request, session: Session) -> int:
    if not_measured(session) is not None:
        return 1
    if request.fail_over is not None and (unjudged := not_compared(session)):
        raise RecoveryError(
            f"--fail-over cannot be judged: no interval for {', '.join(unjudged)}",
            "see the report for the runs that are no warm starts, or do not count",
        )
    if request.fail_over is not None and (told := slower_than_baseline(session, request.fail_over)):
        raise TooSlowError("; ".join(told), "the report says where the time went")
    return 0


class SessionInterruptedError(RecoveryError):
    """By Ctrl-C, SIGTERM or a closed terminal; there is something to go on with."""

    exit_code = 130


def run_and_show(request: Request, *, quiet: bool, json_to: str | None = None, goes_on: Left | None = None) -> Session:
    """What was kept of one that ended early is shown, too, and how it goes on."""
    narrator = _narrator(request, quiet=quiet)
    narrator.say(f"$ {request.command}", FAINT)
    try:
        folder = run_session(request, engine=choose(request, narrator.say), narrator=narrator, goes_on=goes_on).folder
    except BaseException as error:
        further = _shown_as_it_ended(Path(narrator.progress.results), json_to, narrator.say)
        if further is None:
            raise
        if isinstance(error, KeyboardInterrupt):
            raise SessionInterruptedError("interrupted", f"what was finished is kept; {further}") from None
        if getattr(error, "exit_code", None) == SessionInterruptedError.exit_code:
            raise SessionInterruptedError(str(error), f"what was finished is kept; {further}") from None
        narrator.say(further)
        raise
    session = _show(folder, json_to, narrator.say)
    if not Left(folder, session).has_ended:
        narrator.say(_further(folder))
    return session


def _shown_as_it_ended(folder: Path, json_to: str | None, say: Callable[[str], None]) -> str | None:
    """How it goes on, in words; None where there is nothing to go on with."""
    kept = False
    with suppress(RecoveryError, OSError):  # what ended it is what must be told
        kept = (folder / REPORT).is_file()
        if kept and _show(folder, json_to, say).status == FINISHED:
            return None
    return _further(folder) if kept else None


def _further(folder: Path) -> str:
    results = folder.parent
    options = [("--resume", True), ("--results", results if results != DEFAULT_RESULTS.absolute() else None)]
    return f"`{repeat_command('run', options)} {shlex.quote(folder.name)}` goes on with the runs that are missing"


def _narrator(request: Request, *, quiet: bool) -> SessionNarrator:
    progress = Progress(
        scenario=request.scenario,
        figure=find_scenario(request.scenario).figure,
        versions=request.versions,
        command=request.command,
        results=str(request.results),
        began_s=time.monotonic(),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    record = partial(statusfile.write, statusfile.status_path(lock_path()))
    return SessionNarrator(progress, screen=Screen(sys.stderr), owner=mark(), record=record, quiet=quiet)


def _show(folder: Path, json_to: str | None, say: Callable[[str], None]) -> Session:
    """Renders what is stored: on standard output the table, or the report itself where it was asked for."""
    session = load(folder)
    try:
        write_reports(folder)
    finally:
        report = (folder / REPORT).read_text(encoding="utf-8")
        if json_to == "-":
            sys.stdout.write(report)
        else:
            console_report.render(session, Page())
            if json_to:
                _write(Path(json_to), report)
        say(f"stored in {folder}")
    return session


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecoveryError(
            f"{path} cannot be written: {error.strerror}", "the session itself is stored; copy its report.json"
        ) from error
