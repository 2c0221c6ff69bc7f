"""The command `recovery experiments`, which repeats the five published experiments at one of three scales."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from recovery.cli.measure import confirm_commands
from recovery.cli.options import (
    BY_NAME,
    PREFIX,
    SETTINGS,
    Kind,
    Option,
    click_option,
    refuse_unused_variables,
    repeat_command,
)
from recovery.cli.output import STANDARD_OUTPUT, escaped_text, print_line, write_json
from recovery.cli.plan_text import announce, raise_if_missing
from recovery.cli.settings import BUDGET_HINT, CONFIG_FILE
from recovery.cli.suite_published import publication_names, publications
from recovery.cli.suite_report import (
    RECORD_FILE,
    SUITE_PAGE,
    experiment_sections,
    load_results,
    read_suite,
    write_suite_reports,
)
from recovery.cli.suite_run import (
    Caps,
    Say,
    SuiteRequest,
    SuiteRunner,
    begin_suite,
    fetch_prerequisites,
    requested_versions,
    session_requests,
)
from recovery.errors import UsageError
from recovery.experiments.experiment import QUICK
from recovery.linux.files import read_stored_text
from recovery.report.console import ReportConsole, print_tables
from recovery.session.engine import locate_servers
from recovery.session.estimate import duration_text
from recovery.session.option_checks import check_options_offline, known_releases
from recovery.session.plan import combined_need
from recovery.session.prepare import plan_ahead
from recovery.session.request import Request

_SHARED_OPTIONS = tuple(
    BY_NAME[name]
    for name in (
        "data", "results", "archive", "offline", "engine", "registry", "no_drop_caches", "unprivileged", "no_probe",
        "note", "keep", "stall", "set", "read_iops", "read_bps", "memory", "cpus", "cpu_set",
        "open_files",
    )
)  # fmt: skip
"""Options that are passed on unchanged to every session."""
_OWN_OPTIONS = (
    replace(BY_NAME["scale"], help=f"Size of the experiments. [default: {QUICK}]"),
    BY_NAME["version"],
    Option("only", "Only these experiments, by the names of their commands.", "NAME...", line_only=True),
    replace(BY_NAME["tables"], help="At most so many, in experiments about many tables."),
    replace(BY_NAME["seconds"], help="At most so many of each load."),
    replace(BY_NAME["runs"], help="At most so many of each."),
)
_UNREPEATED_OPTIONS = (
    BY_NAME["dry_run"],
    BY_NAME["quiet"],
    BY_NAME["yes"],
    BY_NAME["json"],
    Option("resume", "Measure what is missing in a folder that ended early.", "FOLDER", Kind.PATH, line_only=True),
    Option("report", "Write the reports of a folder again.", "FOLDER", Kind.PATH, parameter="again", line_only=True),
)


def _refuse_budget(context: click.Context, parameter: click.Parameter, value: str | None) -> None:  # noqa: ARG001
    if value is not None:
        raise UsageError("there is no option --budget any more", BUDGET_HINT)


@click.command(
    "experiments",
    params=[
        *(click_option(one) for one in (*_OWN_OPTIONS, *_SHARED_OPTIONS, *_UNREPEATED_OPTIONS)),
        click.Option(["--budget"], hidden=True, expose_value=False, callback=_refuse_budget),
    ],
)
@click.pass_context
def experiments(context: click.Context, /, **given: Any) -> int:
    """What was published about MySQL's crash recovery, dictionary, table cache and InnoDB, and does it reproduce here?

    Each experiment is a session of its own in --results. A page in a folder next to them links the sessions and shows
    the published figures beside those of this host. --scale quick takes about 10 minutes on two CPUs and measures
    everything once; standard takes about two hours and gives intervals; published takes a day or more."""
    refuse_unused_variables(os.environ, context.command)
    _refuse_unknown_settings(context)
    quiet = bool(given["quiet"])

    def say(line: str) -> None:
        if not quiet:
            print_line(line, err=True)

    if given["again"] is not None:
        folder = given["again"].absolute()
        write_suite_reports(folder)
        _show_results(folder, given["json_to"])
        say(f"written to {folder}; open its {SUITE_PAGE}")
        return 0
    if given["resume"] is not None:
        runner = SuiteRunner.resume(given["resume"].absolute())
        confirm_commands(runner.pending_commands(), yes=bool(given["yes"]))
        if pending := runner.pending():
            fetch_prerequisites([one.request for one in pending.values()], say)
        return _run(runner, say, quiet=quiet, json_to=given["json_to"])
    suite = _suite_request(given)
    requests = session_requests(suite)
    command = _command_to_repeat(suite, given)
    say(f"$ {command}")
    if given["dry_run"] and given["json_to"]:
        raise UsageError("--dry-run and --json cannot be combined: nothing is measured", "leave one of them out")
    if given["dry_run"]:
        _print_plan(suite, requests, ReportConsole())
        return 0
    announce(requests, say, yes=bool(given["yes"]))
    fetch_prerequisites(requests, say)
    runner = begin_suite(command, suite, requests, requests[0].results)
    return _run(runner, say, quiet=quiet, json_to=given["json_to"])


def _run(runner: SuiteRunner, say: Say, *, quiet: bool, json_to: str | None) -> int:
    # Every session prints its results, and only JSON may be on standard output.
    output = redirect_stdout(sys.stderr) if json_to == STANDARD_OUTPUT else nullcontext()
    try:
        with output:
            return runner.run(say, quiet=quiet)
    finally:
        _show_results(runner.folder, json_to)
        say(f"stored in {runner.folder}; open its {SUITE_PAGE}")
        if runner.record.status in ("interrupted", "aborted"):
            say(f"`recovery experiments --resume {shlex.quote(str(runner.folder))}` measures what is missing")


def _refuse_unknown_settings(context: click.Context) -> None:
    """Raises UsageError if recovery.toml has a setting that this command does not know, instead of ignoring it."""
    known = {parameter.name for parameter in context.command.params}
    for name in context.default_map or {}:
        if name not in known:
            called = next((one.name for one in SETTINGS if one.key == name), name)
            raise UsageError(
                f"'{called}' in {CONFIG_FILE} does not apply to {context.command.name}",
                f"remove it there, or name another file in {PREFIX}CONFIG",
            )


def _suite_request(given: dict[str, Any]) -> SuiteRequest:
    named = tuple((given["only"] or "").replace(",", " ").split())
    for name in named:
        if name not in publication_names():
            raise UsageError(f"there is no experiment '{name}'", f"there are: {', '.join(publication_names())}")
    return SuiteRequest(
        scale=given["scale"] or QUICK,
        versions=requested_versions(given["versions"]),
        names=tuple(name for name in publication_names() if name in named or not named),
        caps=Caps(*(BY_NAME[name].value_of(given[name]) for name in ("tables", "seconds", "runs"))),
        shared=tuple(shlex.split(repeat_command("", given, _SHARED_OPTIONS))[1:]),
    )


def _command_to_repeat(suite: SuiteRequest, given: dict[str, Any]) -> str:
    """Returns the command that repeats the run, with all defaults that matter filled in."""
    shown = given | {
        "scale": suite.scale,
        "versions": " ".join(suite.versions),
        "tables": suite.caps.tables,
        "seconds": suite.caps.seconds,
        "runs": suite.caps.runs,
    }
    return repeat_command("experiments", shown, (*_OWN_OPTIONS, *_SHARED_OPTIONS))


def _print_plan(suite: SuiteRequest, requests: Sequence[Request], console: Console) -> None:
    """Prints the plan of a dry run."""
    labels = {one.name: f"{one.label} {one.title}" for one in publications()}
    notes: dict[str, None] = {}
    for request in requests:
        check_options_offline(request, known_releases(request), lambda note: notes.setdefault(note.strip()))
    plans = list(map(plan_ahead, requests))
    total = duration_text(sum(plan.seconds for plan in plans))
    need, room = combined_need(plans), plans[0].room
    lines = [
        f"{len(requests)} experiments at scale {suite.scale} on {', '.join(suite.versions)}: about {total}",
        f"disk: {f'at most {need}' if need.bytes else 'nothing new'} in {requests[0].data}; {room} are free",
        *notes,
    ]
    for request, plan in zip(requests, plans, strict=True):
        lines += ["", f"{labels[request.scenario]}: about {duration_text(plan.seconds)}", f"  $ {request.command}"]
    lines += [
        "",
        "Times are rough: rates seen on a 2-core machine, not measured here; what is already built is faster.",
    ]
    for line in lines:
        console.print(escaped_text(line), soft_wrap=True)
    raise_if_missing(locate_servers(requests[0], lambda _: None))


def _show_results(folder: Path, json_to: str | None) -> None:
    if json_to != STANDARD_OUTPUT:
        _print_answers(folder, ReportConsole())
    write_json(json_to, read_stored_text(folder / RECORD_FILE))


def _print_answers(folder: Path, console: Console) -> None:
    """Prints the short answer to each question, and the tables, to standard output."""
    sections = experiment_sections(load_results(read_suite(folder), folder))
    for section in sections:
        console.print(escaped_text(section.summary))
    print_tables((table for section in sections if section.link for table in section.tables), console)
