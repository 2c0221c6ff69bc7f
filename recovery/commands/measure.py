"""The commands that measure: cold-recovery, warm-recovery, crash-recovery, clean-start, scale."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from recovery.commands.asked import make_request, newest
from recovery.commands.dry_run import tell_plan
from recovery.commands.options import measuring_options
from recovery.compare import slower_than_baseline
from recovery.engines import choose
from recovery.errors import RecoveryError, TooSlowError, UsageError
from recovery.report import console as console_report
from recovery.report.narrator import ConsoleNarrator, ProgressConsole
from recovery.report.write import write_reports
from recovery.runner import run_session
from recovery.scenarios import SCENARIOS
from recovery.scenarios.scale import SCALE
from recovery.scenarios.scenario import Scenario
from recovery.store import REPORT, load
from recovery.stored import Session


def commands() -> tuple[click.Command, ...]:
    return tuple(_command(scenario) for scenario in SCENARIOS)


def _command(scenario: Scenario) -> click.Command:
    @click.command(scenario.name, help=_help(scenario), short_help=f"{scenario.title}, {_caches(scenario)}.")
    @measuring_options
    def command(**given: Any) -> int:
        return measure(scenario.name, given)

    return _PREDICT(command) if scenario is SCALE else command


_PREDICT = click.option("--predict", metavar="N", help="And how long would a start take with N tables?")


def _caches(scenario: Scenario) -> str:
    return " and ".join(cache.value for cache in scenario.caches)


def _help(scenario: Scenario) -> str:
    return f"{scenario.question}\n\nMeasured with {_caches(scenario)} cache. Results go to --results, one folder each."


def measure(scenario: str, given: dict[str, Any]) -> int:
    dry_run, json_to = given.pop("dry_run"), given.pop("json_to")
    request = make_request(scenario, given)
    if json_to and json_to != "-" and not os.access(Path(json_to).absolute().parent, os.W_OK):
        raise UsageError(f"--json {json_to} cannot be written", "give a file in a folder that may be written")
    stderr = ProgressConsole()
    stderr.print(f"$ {request.command}", style="dim", markup=False, soft_wrap=True)
    if dry_run:
        tell_plan(request, Console(highlight=False))
        return 0
    narrator = ConsoleNarrator(stderr)
    before = newest(request.results)
    try:
        folder = run_session(request, engine=choose(request, narrator.say), narrator=narrator).folder
    except BaseException:
        left = newest(request.results)
        if left is not None and left != before:
            _show(left, json_to, stderr)
        raise
    session = _show(folder, json_to, stderr)
    if request.fail_over is not None and (told := slower_than_baseline(session, request.fail_over)):
        raise TooSlowError("; ".join(told), "the report says where the time went")
    as_asked = sum(run.verdict.as_asked for run in session.runs)
    return 0 if as_asked == session.planned_runs else 1


def _show(folder: Path, json_to: str | None, stderr: Console) -> Session:
    """Renders what is stored: on standard output the table, or the report itself where it was asked for."""
    write_reports(folder)
    session = load(folder)
    report = (folder / REPORT).read_text(encoding="utf-8")
    if json_to == "-":
        sys.stdout.write(report)
    else:
        console_report.render(session, Console(highlight=False))
        if json_to:
            _write(Path(json_to), report)
    stderr.print(f"stored in {folder}", markup=False, soft_wrap=True)
    return session


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecoveryError(
            f"{path} cannot be written: {error.strerror}", "the session itself is stored; copy its report.json"
        ) from error
