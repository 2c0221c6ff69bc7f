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
    refuse_foreign,
    repeat_command,
)
from recovery.cli.output import tell
from recovery.cli.report import cell
from recovery.cli.settings import CONFIG
from recovery.cli.suite_budget import Caps, span_text
from recovery.cli.suite_published import publication_names, publications
from recovery.cli.suite_report import SUITE_PAGE, chapters, pages, read, write
from recovery.cli.suite_run import (
    Asked,
    Chosen,
    Travel,
    asked_versions,
    begun,
    chosen,
    fetch,
    parse_budget,
    refuse_nothing,
)
from recovery.errors import UsageError
from recovery.linux.cgroups import parse_limits
from recovery.linux.files import expand_path
from recovery.linux.privileges import refuse_steps, refused_steps
from recovery.report.console import ReportConsole, print_tables
from recovery.session.request import MAX_RUNS, MAX_TABLES, parse_count

DEFAULT_BUDGET = "30m"
_MOST_SECONDS = 86_400
"""Upper limit of --seconds: a day."""
_PASSED_ON = tuple(
    BY_NAME[name]
    for name in (
        "data", "results", "archive", "offline", "engine", "registry", "no_drop_caches", "no_root_steps", "no_probe",
        "note", "keep", "stall", "set", "read_iops", "read_bps", "memory", "cpus",
    )
)  # fmt: skip
"""Options that are passed on unchanged to every session."""
_OWN = (
    replace(BY_NAME["budget"], help=f"{BY_NAME['budget'].help} [default: {DEFAULT_BUDGET}]"),
    BY_NAME["version"],
    Option("only", "Only these experiments, by the names of their commands.", "NAME...", line_only=True),
    replace(BY_NAME["tables"], help="At most so many, where they are many."),
    replace(BY_NAME["seconds"], help="At most so many of each load."),
    replace(BY_NAME["runs"], help="At most so many of each."),
    Option("smallest", "Each at its smallest scale: does all of it work on this host?", kind=Kind.FLAG, line_only=True),
)
_NOT_REPEATED = (
    BY_NAME["dry_run"],
    BY_NAME["quiet"],
    Option("report", "Make a folder's reports again instead.", "FOLDER", Kind.PATH, parameter="again", line_only=True),
)


@click.command("experiments", params=[click_option(one) for one in (*_OWN, *_PASSED_ON, *_NOT_REPEATED)])
@click.pass_context
def experiments(context: click.Context, /, **given: Any) -> int:
    """What was published of MySQL's crash recovery, dictionary, table cache and InnoDB, and does it show on this host?

    Each experiment is a session of its own in --results, at the scale that the budget allows; the report of all of them
    is a folder beside those. What a host of this size cannot show is said."""
    refuse_foreign(os.environ, context.command)
    _refuse_foreign_file(context)
    if given["again"] is not None:
        return _again(expand_path(given["again"]).absolute())
    asked, quiet = _asked(given), bool(given["quiet"])

    def say(line: str) -> None:
        if not quiet:
            tell(line, err=True)

    command = _repeat(asked, given)
    say(f"$ {command}")
    if given["dry_run"]:
        found = chosen(asked)
        _tell(asked, found, ReportConsole())
        refuse_nothing(asked, found)
        return 0
    found = chosen(asked)
    refuse_nothing(asked, found)
    with refuse_steps(refused_steps(given["no_root_steps"], no_drop_caches=given["no_drop_caches"])):
        fetch(found, say)
    results = expand_path(given["results"]).absolute()
    travel = Travel(begun(command, asked, found), asked, results, say=say, quiet=quiet)
    try:
        return travel.run(found)
    finally:
        _show(travel.folder, ReportConsole())
        say(f"stored in {travel.folder}; open its {SUITE_PAGE}")


def _refuse_foreign_file(context: click.Context) -> None:
    """Raises UsageError if recovery.toml has a setting that this command does not know.

    The file applies to all commands, and a setting about measuring must not be ignored silently here."""
    known = {parameter.name for parameter in context.command.params}
    for name in context.default_map or {}:
        if name not in known:
            called = next((one.name for one in SETTINGS if one.key == name), name)
            raise UsageError(
                f"'{called}' of {CONFIG} says nothing to {context.command.name}",
                f"remove it there, or name another file in {PREFIX}CONFIG",
            )


def _asked(given: dict[str, Any]) -> Asked:
    wished = tuple((given["only"] or "").replace(",", " ").split())
    for name in wished:
        if name not in publication_names():
            raise UsageError(f"there is no experiment '{name}'", f"there are: {', '.join(publication_names())}")
    return Asked(
        budget_s=parse_budget(given["budget"] or DEFAULT_BUDGET),
        versions=asked_versions(given["versions"]),
        names=tuple(name for name in publication_names() if name in wished or not wished),
        caps=Caps(
            _cap("TABLES", given["tables"], MAX_TABLES),
            _cap("SECONDS", given["seconds"], _MOST_SECONDS),
            _cap("RUNS", given["runs"], MAX_RUNS),
            given["smallest"],
        ),
        shared=tuple(shlex.split(repeat_command("", given, _PASSED_ON))[2:]),
        data=given["data"] and expand_path(given["data"]).absolute(),
        limits=parse_limits(given["read_iops"], given["read_bps"], given["memory"], given["cpus"]),
    )


def _cap(name: str, text: str | None, most: int) -> int | None:
    return None if text is None else parse_count(name, text, most)


def _repeat(asked: Asked, given: dict[str, Any]) -> str:
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
    return repeat_command("experiments", shown, (*_OWN, *_PASSED_ON))


def _tell(asked: Asked, found: Sequence[Chosen], console: Console) -> None:
    """Prints the plan of a dry run."""
    known = {one.name: one for one in publications()}
    total = sum(one.expected_s or 0.0 for one in found)
    able = sum(one.request is not None for one in found)
    lines = [
        f"{able} of {len(found)} experiments on {', '.join(asked.versions)}: about {span_text(total)} of "
        f"{span_text(asked.budget_s)}"
    ]
    for one in found:
        lines += ["", f"{known[one.name].label} {known[one.name].title}"]
        if one.request is None or one.expected_s is None:
            lines.append(f"  left out: {one.left_out}")
        else:
            lines += [f"  {one.scale}; about {span_text(one.expected_s)}", f"  $ {one.request.command}"]
    lines += [
        "",
        "Times are rough: rates seen on a 2-core machine, not measured here; what is built already is faster.",
    ]
    for line in lines:
        console.print(cell(line), soft_wrap=True)


def _again(folder: Path) -> int:
    """Writes the reports of a stored run again and prints its answers."""
    write(folder)
    _show(folder, ReportConsole())
    tell(f"written to {folder}; open its {SUITE_PAGE}", err=True)
    return 0


def _show(folder: Path, console: Console) -> None:
    """Prints the short answer to each question and the tables of answers to standard output."""
    found = pages(chapters(read(folder), folder))
    for page in found:
        console.print(cell(page.in_short))
    print_tables((page.answers_table for page in found if page.answers_table is not None), console)
