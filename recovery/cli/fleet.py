"""Contains `recovery fleet`: measures on many hosts, and compares what they stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any

import click

from recovery.cli.measure import NOT_OF_REQUEST
from recovery.cli.measuring_command import MeasuringCommand
from recovery.cli.options import table_option
from recovery.cli.output import escaped_text, print_line, write_json
from recovery.cli.parse import make_request
from recovery.cli.plan_text import cost_text, raise_if_missing
from recovery.cli.repeat import series_of
from recovery.cli.settings import read_toml, refuse_address_with_user
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.fleet.job import collect_results, pack_tool, run_job
from recovery.fleet.plan import FLEET_OPTIONS, FleetPlan, FleetSession, PlannedSession, parse_plan
from recovery.fleet.playbook import (
    ANSIBLE_FOLDER,
    FINISHED,
    PLAYBOOK,
    Outcomes,
    is_packed,
    measure_on_hosts,
    outcome_of,
    with_inventory,
)
from recovery.fleet.report import FLEET_PAGE, as_json, read_fleet
from recovery.fleet.sections import (
    FleetReport,
    caveats,
    fleet_answer,
    fleet_tables,
    not_compared_lines,
    ratio_sentences,
    render_html,
    render_markdown,
    render_text,
)
from recovery.linux.files import make_folder, refuse_untrusted, template_dir, write_atomically
from recovery.linux.locks import lock_holder, take_lock
from recovery.report import fmt
from recovery.report.console import ReportConsole, fitted, print_tables
from recovery.session.engine import locate_servers
from recovery.session.prepare import plan_ahead
from recovery.session.request import Request
from recovery.storage.sessions import writing_results

_MAX_PLAN_BYTES = 1_000_000
_MAX_LINES = 12
"""Most lines of an answer in a terminal."""


@click.group("fleet")
def fleet() -> None:
    """Measure on many hosts, with Ansible."""


# --- recovery fleet run


@fleet.command("run")
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--output", type=click.Path(path_type=Path), default="fleet", show_default=True, help="Folder of results."
)
@click.option("--print", "print_only", is_flag=True, help="Only print the playbook.")
@click.option("--dry-run", is_flag=True, help="Only print what each host would measure.")
def run_fleet(plan: Path, output: Path, print_only: bool, dry_run: bool) -> int:
    """Measure the sessions of PLAN, a TOML file, on each of its hosts.

    A second call fetches what has ended meanwhile, resumes what ended early, and measures nothing twice."""
    say = partial(print_line, err=True)
    if print_only:
        read_plan(plan)
        for line in (template_dir() / PLAYBOOK).read_text(encoding="utf-8").splitlines():
            print_line(line)
        return 0
    wanted = with_inventory(read_plan(plan))
    if dry_run:
        for line in _dry_run_lines(wanted):
            print_line(line)
        for session in filter(is_packed, wanted.sessions):
            # Hosts fetch nothing, this machine does.
            servers = replace(session.request.servers, offline=False)
            raise_if_missing(locate_servers(replace(session.request, servers=servers), say))
        return 0
    folder = output.absolute()
    with writing_results(folder):
        make_folder(folder / ANSIBLE_FOLDER, links_until=folder.parent)
    refuse_untrusted(folder, "name a folder that only you can write to, with --output")
    lock = take_lock(folder / ANSIBLE_FOLDER / "lock")
    if lock is None:
        holder = lock_holder(folder / ANSIBLE_FOLDER / "lock")
        raise HostUnfitError(f"another call measures in {folder}: {holder}", "wait until it ends, or --output FOLDER")
    try:
        return _show(wanted, folder, measure_on_hosts(wanted, folder, say))
    finally:
        lock.release(unlink=True)


def read_plan(path: Path) -> FleetPlan:
    """Returns the plan in a file. Raises UsageError that names the first mistake in it."""
    stored = read_toml(path, _MAX_PLAN_BYTES, "check the plan's path, content and permissions")
    lines = stored.get("sessions")
    for line in lines if isinstance(lines, list) else ():
        refuse_address_with_user("a line of sessions", str(line))
    return parse_plan(stored, path, _request)


def _request(session: FleetSession) -> Request:
    """Returns the request that a host would make of this line. Raises UsageError if it is invalid.

    A data directory of the user's own is on the host, and examined there: here it is left out."""
    command = MeasuringCommand(session.name, environment=False)
    nowhere = ("--results", "/nonexistent/results", "--data", "/nonexistent/data")
    try:
        context = command.make_context(session.name, [*session.words, *FLEET_OPTIONS, *nowhere])
        given: dict[str, Any] = dict(context.params)
        series_of(given)
        for option in NOT_OF_REQUEST:
            given.pop(option, None)
        if session.has_own_data:
            if not given["versions"] and not given["mysqld"]:
                raise UsageError("the data directory is on the hosts, so its version is unknown here", "add --version")
            given |= {"datadir": None, "as_is": False, "before_kill": None, "predicted": None}
        return make_request(session.name, given)
    except click.ClickException as error:
        message = " ".join(error.format_message().split())
        raise UsageError(
            f"session `{session.line}`: {message}", f"`recovery {session.name} --help` lists its options"
        ) from None
    except RecoveryError as error:
        raise UsageError(f"session `{session.line}`: {error.message}", error.hint) from None


def _dry_run_lines(plan: FleetPlan) -> Iterator[str]:
    for host in plan.hosts:
        yield f"{host.name}: {', '.join(f'{key} {value}' for key, value in host.facts.items()) or 'no facts'}"
        for session in plan.sessions:
            yield f"  {session.line}: {_need_text(session)}"
    yield "Times are rough: the rates of a 2-core machine. Nothing was asked of the hosts."


def _need_text(session: PlannedSession) -> str:
    if session.has_own_data:
        return "time and disk depend on the host's data directory"
    try:
        planned = plan_ahead(session.request)
    except RecoveryError as error:
        return f"time and disk unknown here: {error.message}"
    return cost_text([session.request], [planned], times=session.times)


def _show(plan: FleetPlan, folder: Path, outcomes: Outcomes) -> int:
    """Prints what every host has measured, and which are missing. Returns the exit code."""
    missing: dict[str, None] = {}
    bad = False
    for host in plan.hosts:
        for session in plan.sessions:
            found = outcome_of(outcomes, host, session)
            bad = bad or found.state != FINISHED or found.reason is not None
            reason = f": {found.reason}" if found.reason else ""
            print_line(f"{host.name}: {session.line}: {found.state}{reason}")
            if found.state != FINISHED:
                missing[host.name] = None
    if missing:
        print_line(f"missing: {', '.join(missing)}; the same command again measures only what is missing")
    print_line(f"stored in {folder}")
    return 1 if bad else 0


# --- Commands that the playbook calls, on a host and on this machine


@fleet.command("job", hidden=True)
@click.argument("work", type=click.Path(path_type=Path))
def job(work: Path) -> None:
    """Measure what is missing in the folder WORK of a fleet. A second job waits for the first."""
    run_job(work)


@fleet.command("collect", hidden=True)
@click.argument("work", type=click.Path(path_type=Path))
def collect(work: Path) -> None:
    """Print whether the job in the folder WORK is running. If not, pack the sessions that have ended."""
    print_line(collect_results(work))


@fleet.command("pack", hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("python")
@click.argument("cpu")
def pack(folder: Path, python: str, cpu: str) -> None:
    """Pack the tool and its locked packages for a Python version and a CPU, and print the name of the file."""
    print_line(str(pack_tool(folder, python, cpu)))


# --- recovery fleet report


@fleet.command("report")
@click.argument("folder", default="fleet", type=click.Path(path_type=Path))
@table_option("json")
@table_option("verbose")
def fleet_report(folder: Path, json_to: str | None, verbose: bool) -> int:
    """Compare the versions on each host, and the hosts with each other.

    FOLDER is that of a fleet run, or any that has FOLDER/HOST/SESSION/report.json. The report is also written to it:
    fleet.txt, fleet.md and fleet.html. The exit code is 1 if a session is missing or incomplete."""
    report = read_fleet(folder)
    with writing_results(folder):
        for name, text in (
            ("fleet.txt", render_text(report)),
            ("fleet.md", render_markdown(report)),
            (FLEET_PAGE, render_html(report)),
        ):
            content = text.encode("utf-8", errors="replace")
            write_atomically(folder / name, content, links_until=folder.absolute().parent)
    if not write_json(json_to, as_json(report)):
        _print(report, folder, ReportConsole(), verbose=verbose)
    return 1 if report.problems else 0


def _print(report: FleetReport, folder: Path, console: ReportConsole, *, verbose: bool) -> None:
    lines = [fmt.printable(text) for text in fleet_answer(report)]
    if not verbose:
        sentences = [fmt.printable(text) for text in ratio_sentences(report.fleet)]
        short = [shorten(fmt.printable(text), console.width, placeholder=" ...") for text in caveats(report)]
        count = _MAX_LINES - 2 - len(short)
        lines = [*fitted(sentences, (), console.width, count, keep=False), *short]
    console.print(escaped_text(report.title))
    for line in lines:
        console.print(escaped_text(line))
    if verbose:
        for title, texts in (
            ("Not compared", not_compared_lines(report.fleet)),
            ("Missing or incomplete", report.problems),
        ):
            for text in texts:
                console.print(escaped_text(f"{title}: {text}"))
        print_tables(fleet_tables(report), console)
    console.print(escaped_text(f"report: {folder / FLEET_PAGE}"), soft_wrap=True)
