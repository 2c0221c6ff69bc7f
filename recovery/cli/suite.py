"""The command `recovery experiments`, which repeats the five published experiments at one of three scales."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict, replace
from typing import Any

import click
from pydantic import TypeAdapter
from rich.console import Console

from recovery.analysis.summary import Summary, summarise
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
from recovery.cli.settings import CONFIG_FILE
from recovery.cli.suite_run import (
    FORMAT,
    INTERRUPTED,
    Caps,
    Pending,
    Say,
    StepResult,
    SuiteRecord,
    SuiteRequest,
    SuiteRun,
    fetch_prerequisites,
    publication_names,
    requested_versions,
    session_requests,
)
from recovery.errors import UsageError
from recovery.experiments.experiment import QUICK
from recovery.model import Status
from recovery.report.claims import Answer, Publication
from recovery.report.console import ReportConsole
from recovery.report.fmt import count_text
from recovery.report.html.page import PAGE
from recovery.report.published import publications
from recovery.report.write import write_reports
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
        "open_files", "seed",
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


@click.command(
    "experiments",
    params=[click_option(option) for option in (*_OWN_OPTIONS, *_SHARED_OPTIONS, *_UNREPEATED_OPTIONS)],
)
@click.pass_context
def experiments(context: click.Context, /, **given: Any) -> int:
    """What was published about MySQL's crash recovery, dictionary, table cache and InnoDB, and does it reproduce here?

    The commands of five experiments run one after the other. Each is a session of its own in --results, and its report
    shows the published figures beside those of this host. --scale quick takes about 10 minutes on two CPUs and measures
    everything once; standard takes about two hours and gives intervals; published takes a day or more."""
    refuse_unused_variables(os.environ, context.command)
    _refuse_unknown_settings(context)
    quiet = bool(given["quiet"])

    def say(line: str) -> None:
        if not quiet:
            print_line(line, err=True)

    if given["again"] is not None:
        return _write_reports_again(SuiteRun.read(given["again"].absolute()), given["json_to"])
    if given["resume"] is not None:
        run = SuiteRun.resume(given["resume"].absolute())
        confirm_commands(run.pending_commands(), yes=bool(given["yes"]))
        if missing := run.pending():
            fetch_prerequisites([pending.request for pending in missing.values()], say)
        return _measure(run, missing, say, quiet=quiet, json_to=given["json_to"])
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
    all_of_them = {request.scenario: Pending(request) for request in requests}
    return _measure(SuiteRun.begin(command, suite, requests), all_of_them, say, quiet=quiet, json_to=given["json_to"])


def _measure(run: SuiteRun, missing: Mapping[str, Pending], say: Say, *, quiet: bool, json_to: str | None) -> int:
    # Every session prints its results, and only JSON may be on standard output.
    output = redirect_stdout(sys.stderr) if json_to == STANDARD_OUTPUT else nullcontext()
    try:
        with output:
            run.measure(missing, say, quiet=quiet)
    finally:
        results = run.results()
        _show(run.record, results, json_to)
        if any(result.is_missing for result in results):
            say(f"`recovery experiments --resume {shlex.quote(str(run.folder))}` measures what is missing")
    return 0 if _status(results) == Status.FINISHED else 1


def _write_reports_again(run: SuiteRun, json_to: str | None) -> int:
    results = run.results()
    for result in results:
        if result.stored is not None:
            write_reports(result.stored.folder, result.stored.session)
    _show(run.record, results, json_to)
    return 0


def _refuse_unknown_settings(context: click.Context) -> None:
    """Raises UsageError if recovery.toml has a setting that this command does not know, instead of ignoring it."""
    known = {parameter.name for parameter in context.command.params}
    for name in context.default_map or {}:
        if name not in known:
            called = next((setting.name for setting in SETTINGS if setting.key == name), name)
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
    headings = {publication.name: publication.heading for publication in publications()}
    notes: dict[str, None] = {}
    for request in requests:
        check_options_offline(request, known_releases(request), lambda note: notes.setdefault(note.strip()))
    plans = list(map(plan_ahead, requests))
    total = duration_text(sum(plan.seconds for plan in plans))
    need, room = combined_need(plans), plans[0].room
    lines = [
        f"{count_text(len(requests), 'experiment')} at scale {suite.scale} on {', '.join(suite.versions)}: "
        f"about {total}",
        f"disk: {f'at most {need}' if need.bytes else 'nothing new'} in {requests[0].output.data}; {room} are free",
        *notes,
    ]
    for request, plan in zip(requests, plans, strict=True):
        lines += ["", f"{headings[request.scenario]}: about {duration_text(plan.seconds)}", f"  $ {request.command}"]
    lines += [
        "",
        "Times are rough: rates seen on a 2-core machine, not measured here; what is already built is faster.",
    ]
    for line in lines:
        console.print(escaped_text(line), soft_wrap=True)
    raise_if_missing(locate_servers(requests[0], lambda _: None))


# --- The results of a run

_PUBLICATION = TypeAdapter(Publication)
_ANSWERS = TypeAdapter(tuple[Answer, ...])
_SUMMARIES = TypeAdapter(tuple[Summary, ...])


def _show(record: SuiteRecord, results: Sequence[StepResult], json_to: str | None) -> None:
    """Prints one line for each experiment, and where the reports are; or all of it as JSON."""
    if json_to != STANDARD_OUTPUT:
        console = ReportConsole()
        for result in results:
            console.print(escaped_text(result.summary))
        reports = [result.stored.folder / PAGE for result in results if result.stored is not None]
        for line in ("reports:", *(f"  {path}" for path in reports)) if reports else ():
            console.print(escaped_text(line), soft_wrap=True)
    if json_to is not None:
        head = {"format": FORMAT, **asdict(record), "status": _status(results)}
        write_json(json_to, {**head, "steps": [_step_as_json(result) for result in results]})


def _status(results: Sequence[StepResult]) -> str:
    """Returns `failed` if an experiment failed or none was measured, `interrupted` if one is still to be measured, and
    otherwise `finished`."""
    if any(result.is_missing and result.error in (None, INTERRUPTED) for result in results):
        return Status.INTERRUPTED.value
    is_failed = any(result.error for result in results) or not any(result.stored for result in results)
    return "failed" if is_failed else Status.FINISHED.value


def _step_as_json(result: StepResult) -> dict[str, Any]:
    """Returns what was published about an experiment, and what follows from its session."""
    summaries = (
        () if result.session is None else tuple(filter(lambda summary: summary.count, summarise(result.session)))
    )
    return {
        **asdict(result.step),
        "session": None if result.stored is None else result.stored.folder.name,
        "error": result.error,
        "summary": result.summary,
        "published": _PUBLICATION.dump_python(result.publication, mode="json"),
        "answers": _ANSWERS.dump_python(result.answers, mode="json"),
        "summaries": _SUMMARIES.dump_python(summaries, mode="json"),
    }
