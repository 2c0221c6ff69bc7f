"""The command `recovery experiments`, which repeats the five published experiments in a given time, with one report."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from recovery.cli.options import (
    BY_NAME,
    DEFAULT_RESULTS,
    PREFIX,
    SETTINGS,
    Kind,
    Option,
    click_option,
    refuse_unused_variables,
    repeat_command,
)
from recovery.cli.output import print_line
from recovery.cli.report import escaped_text
from recovery.cli.settings import CONFIG_FILE
from recovery.cli.suite_budget import Caps, short_duration_text
from recovery.cli.suite_published import publication_names, publications
from recovery.cli.suite_report import SUITE_PAGE, experiment_pages, load_results, read_suite, write_suite_reports
from recovery.cli.suite_run import (
    ChosenScale,
    SuiteRequest,
    SuiteRunner,
    choose_scales,
    fetch_prerequisites,
    new_suite_record,
    parse_budget,
    requested_versions,
    require_any_experiment,
)
from recovery.errors import UsageError
from recovery.linux.cgroups import parse_limits
from recovery.linux.files import expand_path
from recovery.linux.privileges import refuse_steps, refused_steps
from recovery.report.console import ReportConsole, print_tables
from recovery.session.request import MAX_RUNS, MAX_TABLES, parse_count

DEFAULT_BUDGET = "30m"
_MAX_SECONDS = 86_400
"""Upper limit of --seconds: a day."""
_SHARED_OPTIONS = tuple(
    BY_NAME[name]
    for name in (
        "data", "results", "archive", "offline", "engine", "registry", "no_drop_caches", "unprivileged", "no_probe",
        "note", "keep", "stall", "set", "read_iops", "read_bps", "memory", "cpus",
    )
)  # fmt: skip
"""Options that are passed on unchanged to every session."""
_OWN_OPTIONS = (
    replace(BY_NAME["budget"], help=f"{BY_NAME['budget'].help} [default: {DEFAULT_BUDGET}]"),
    BY_NAME["version"],
    Option("only", "Only these experiments, by the names of their commands.", "NAME...", line_only=True),
    replace(BY_NAME["tables"], help="At most so many, where they are many."),
    replace(BY_NAME["seconds"], help="At most so many of each load."),
    replace(BY_NAME["runs"], help="At most so many of each."),
    Option("smallest", "Each at its smallest scale: does all of it work on this host?", kind=Kind.FLAG, line_only=True),
)
_UNREPEATED_OPTIONS = (
    BY_NAME["dry_run"],
    BY_NAME["quiet"],
    Option("report", "Make a folder's reports again instead.", "FOLDER", Kind.PATH, parameter="again", line_only=True),
)


@click.command(
    "experiments", params=[click_option(one) for one in (*_OWN_OPTIONS, *_SHARED_OPTIONS, *_UNREPEATED_OPTIONS)]
)
@click.pass_context
def experiments(context: click.Context, /, **given: Any) -> int:
    """What was published of MySQL's crash recovery, dictionary, table cache and InnoDB, and does it show on this host?

    Each experiment is a session of its own in --results, at the scale that the budget allows; the report of all of them
    is a folder beside those. What a host of this size cannot show is said."""
    refuse_unused_variables(os.environ, context.command)
    _refuse_unknown_settings(context)
    if given["again"] is not None:
        return _rewrite_reports(expand_path(given["again"]).absolute())
    asked, quiet = _suite_request(given), bool(given["quiet"])

    def say(line: str) -> None:
        if not quiet:
            print_line(line, err=True)

    command = _command_to_repeat(asked, given)
    say(f"$ {command}")
    if given["dry_run"]:
        found = choose_scales(asked)
        _print_plan(asked, found, ReportConsole())
        require_any_experiment(asked, found)
        return 0
    found = choose_scales(asked)
    require_any_experiment(asked, found)
    with refuse_steps(refused_steps(unprivileged=given["unprivileged"], no_drop_caches=given["no_drop_caches"])):
        fetch_prerequisites(found, say)
    results = expand_path(given["results"]).absolute()
    travel = SuiteRunner(new_suite_record(command, asked, found), asked, results, say=say, quiet=quiet)
    try:
        return travel.run(found)
    finally:
        _print_answers(travel.folder, ReportConsole())
        say(f"stored in {travel.folder}; open its {SUITE_PAGE}")


def _refuse_unknown_settings(context: click.Context) -> None:
    """Raises UsageError if recovery.toml has a setting that this command does not know.

    The file applies to all commands, and a setting about measuring must not be ignored silently here."""
    known = {parameter.name for parameter in context.command.params}
    for name in context.default_map or {}:
        if name not in known:
            called = next((one.name for one in SETTINGS if one.key == name), name)
            raise UsageError(
                f"'{called}' of {CONFIG_FILE} says nothing to {context.command.name}",
                f"remove it there, or name another file in {PREFIX}CONFIG",
            )


def _suite_request(given: dict[str, Any]) -> SuiteRequest:
    wished = tuple((given["only"] or "").replace(",", " ").split())
    for name in wished:
        if name not in publication_names():
            raise UsageError(f"there is no experiment '{name}'", f"there are: {', '.join(publication_names())}")
    return SuiteRequest(
        budget_s=parse_budget(given["budget"] or DEFAULT_BUDGET),
        versions=requested_versions(given["versions"]),
        names=tuple(name for name in publication_names() if name in wished or not wished),
        caps=Caps(
            _parse_cap("TABLES", given["tables"], MAX_TABLES),
            _parse_cap("SECONDS", given["seconds"], _MAX_SECONDS),
            _parse_cap("RUNS", given["runs"], MAX_RUNS),
            given["smallest"],
        ),
        shared=tuple(shlex.split(repeat_command("", given, _SHARED_OPTIONS))[1:]),
        data=given["data"] and expand_path(given["data"]).absolute(),
        limits=parse_limits(given["read_iops"], given["read_bps"], given["memory"], given["cpus"]),
    )


def _parse_cap(name: str, text: str | None, most: int) -> int | None:
    return None if text is None else parse_count(name, text, most)


def _command_to_repeat(asked: SuiteRequest, given: dict[str, Any]) -> str:
    """Returns the command that repeats the run, with all defaults that matter filled in."""
    shown = given | {
        "budget": given["budget"] or DEFAULT_BUDGET,
        "versions": " ".join(asked.versions),
        "tables": asked.caps.tables,
        "seconds": asked.caps.seconds,
        "runs": asked.caps.runs,
    }
    for name in ("data", "results"):
        if given[name] not in (None, DEFAULT_RESULTS):
            shown[name] = expand_path(given[name]).absolute()
    return repeat_command("experiments", shown, (*_OWN_OPTIONS, *_SHARED_OPTIONS))


def _print_plan(asked: SuiteRequest, found: Sequence[ChosenScale], console: Console) -> None:
    """Prints the plan of a dry run."""
    known = {one.name: one for one in publications()}
    total = sum(one.expected_s or 0.0 for one in found)
    able = sum(one.request is not None for one in found)
    lines = [
        f"{able} of {len(found)} experiments on {', '.join(asked.versions)}: about {short_duration_text(total)} of "
        f"{short_duration_text(asked.budget_s)}"
    ]
    for one in found:
        lines += ["", f"{known[one.name].label} {known[one.name].title}"]
        if one.request is None or one.expected_s is None:
            lines.append(f"  left out: {one.left_out}")
        else:
            lines += [f"  {one.scale}; about {short_duration_text(one.expected_s)}", f"  $ {one.request.command}"]
    lines += [
        "",
        "Times are rough: rates seen on a 2-core machine, not measured here; what is built already is faster.",
    ]
    for line in lines:
        console.print(escaped_text(line), soft_wrap=True)


def _rewrite_reports(folder: Path) -> int:
    """Writes the reports of a stored run again and prints its answers."""
    write_suite_reports(folder)
    _print_answers(folder, ReportConsole())
    print_line(f"written to {folder}; open its {SUITE_PAGE}", err=True)
    return 0


def _print_answers(folder: Path, console: Console) -> None:
    """Prints the short answer to each question and the tables of answers to standard output."""
    found = experiment_pages(load_results(read_suite(folder), folder))
    for page in found:
        console.print(escaped_text(page.in_short))
    print_tables((page.answers_table for page in found if page.answers_table is not None), console)
