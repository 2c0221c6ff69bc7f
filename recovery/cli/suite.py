"""`recovery experiments`: all five published experiments in a given time, and one report of what shows here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from recovery.cli.options import CONFIG, FOLDER, OPTIONS, PREFIX, parameters_of, refuse_foreign, repeat_command
from recovery.cli.report import cell, tell
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
from recovery.linux.files import DEFAULT_RESULTS, expanded
from recovery.linux.privileges import asked_steps, refusing
from recovery.report.console import Page, print_tables
from recovery.session.request import MOST_RUNS, MOST_TABLES, positive

DEFAULT_BUDGET = "30m"
_IN_THE_FILE = {"variants": "variant", "options": "option", "parts": "question"}
"""What is called otherwise there."""
_MOST_SECONDS = 86_400
_PASSED_ON = (
    "data", "results", "archive", "offline", "engine", "registry", "no_drop_caches", "no_root_steps", "no_probe",
    "notes", "keep", "stall_s", "settings", "read_iops", "read_bps", "memory", "cpus",
)  # fmt: skip
"""Options that mean here what they mean to every session."""
_SHARED = tuple(
    option
    for option, known in zip(OPTIONS, parameters_of(OPTIONS), strict=True)
    if known.name in (*_PASSED_ON, "versions", "quiet")
)
_OWN = (
    click.option(
        "--budget", metavar="TIME", envvar=PREFIX + "BUDGET", default=DEFAULT_BUDGET, show_default=True,
        help="For all of them, servers' downloads not counted: 30m, 2h, 1h30m; 90 is 90 minutes.",
    ),
    click.option("--only", metavar="NAME...", help="Some of them, by the names of their commands."),
    click.option("--tables", metavar="N", envvar=PREFIX + "TABLES", help="At most so many, where they are many."),
    click.option("--seconds", metavar="N", envvar=PREFIX + "SECONDS", help="At most so many of each load."),
    click.option("--runs", metavar="N", envvar=PREFIX + "RUNS", help="At most so many of each."),
    click.option("--smallest", is_flag=True, help="Each at its smallest scale: does all of it go on this host?"),
    click.option("--dry-run", is_flag=True, help="Tell the plan: each command, and how long it may take."),
    click.option("--report", "again", type=FOLDER, metavar="FOLDER", help="Make a folder's reports again instead."),
)  # fmt: skip


def _with_options(command: Any) -> Any:
    for option in reversed((*_OWN, *_SHARED)):
        command = option(command)
    return command


@click.command("experiments", short_help="All five published experiments in a given time, in one report.")
@_with_options
@click.pass_context
def experiments(context: click.Context, /, **given: Any) -> int:
    """What was published of MySQL's crash recovery, dictionary, table cache and InnoDB, and does it show on this host?

    Each experiment is a session of its own in --results, at the scale that the budget allows; the report of all of them
    is a folder beside those. What a host of this size cannot show is said."""
    refuse_foreign(os.environ, context.command)
    _refuse_foreign_file(context)
    if given["again"] is not None:
        return _again(expanded(given["again"]).absolute())
    asked, quiet = _asked(given), bool(given["quiet"])

    def say(line: str) -> None:
        if not quiet:
            tell(line, err=True)

    command = _repeat(asked, given)
    say(f"$ {command}")
    if given["dry_run"]:
        found = chosen(asked)
        _tell(asked, found, Page())
        refuse_nothing(asked, found)
        return 0
    found = chosen(asked)
    refuse_nothing(asked, found)
    with refusing(asked_steps(given["no_root_steps"], no_drop_caches=given["no_drop_caches"])):
        fetch(found, say)
    results = expanded(given["results"]).absolute()
    travel = Travel(begun(command, asked, found), asked, results, say=say, quiet=quiet)
    try:
        return travel.run(found)
    finally:
        _show(travel.folder, Page())
        say(f"stored in {travel.folder}; open its {SUITE_PAGE}")


def _refuse_foreign_file(context: click.Context) -> None:
    """recovery.toml is for all commands, but what it says of measuring must hold for what is measured here, too."""
    known = {parameter.name for parameter in context.command.params}
    for name in context.default_map or {}:
        if name not in known:
            called = _IN_THE_FILE.get(name, name)
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
        budget_s=parse_budget(given["budget"]),
        versions=asked_versions(given["versions"]),
        names=tuple(name for name in publication_names() if name in wished or not wished),
        caps=Caps(
            _cap("TABLES", given["tables"], MOST_TABLES),
            _cap("SECONDS", given["seconds"], _MOST_SECONDS),
            _cap("RUNS", given["runs"], MOST_RUNS),
            given["smallest"],
        ),
        shared=tuple(_shared(given)),
        data=given["data"] and expanded(given["data"]).absolute(),
        limits=parse_limits(given["read_iops"], given["read_bps"], given["memory"], given["cpus"]),
    )


def _cap(name: str, text: str | None, most: int) -> int | None:
    return None if text is None else positive(name, text, most)


def _shared(given: dict[str, Any]) -> Iterator[str]:
    """As words of a command line, whatever layer they came from."""
    for parameter in parameters_of(_SHARED):
        value = given[str(parameter.name)]
        if parameter.name not in _PASSED_ON or value in (None, False, ()):
            continue
        for one in value if isinstance(value, tuple) else (value,):
            yield from [parameter.opts[0]] if one is True else [parameter.opts[0], str(one)]


def _repeat(asked: Asked, given: dict[str, Any]) -> str:
    options = [
        ("--budget", given["budget"]),
        ("--version", " ".join(asked.versions)),
        ("--only", given["only"]),
        ("--tables", asked.caps.tables),
        ("--seconds", asked.caps.seconds),
        ("--runs", asked.caps.runs),
        ("--smallest", asked.caps.smallest),
        *((parameter.opts[0], one) for parameter, one in _changed(given)),
    ]
    return repeat_command("experiments", options)


def _changed(given: dict[str, Any]) -> Iterator[tuple[click.Parameter, object]]:
    """Of the shared ones, those that are not as they are anyway."""
    for parameter in parameters_of(_SHARED):
        value = given[str(parameter.name)]
        if parameter.name not in _PASSED_ON or value == parameter.default or value == DEFAULT_RESULTS:
            continue
        for one in value if isinstance(value, tuple) else (value,):
            yield parameter, expanded(one).absolute() if isinstance(one, Path) else one


def _tell(asked: Asked, found: Sequence[Chosen], console: Console) -> None:
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
    write(folder)
    _show(folder, Page())
    tell(f"written to {folder}; open its {SUITE_PAGE}", err=True)
    return 0


def _show(folder: Path, console: Console) -> None:
    """On standard output: what shows, question by question."""
    found = pages(chapters(read(folder), folder))
    for page in found:
        console.print(cell(page.in_short))
    print_tables((page.answers_table for page in found if page.answers_table is not None), console)
