"""Contains `recovery fleet report`, which compares the stored sessions of many hosts.

The folder is one of `recovery fleet run`, with its fleet.json, or any with FOLDER/HOST/SESSION/report.json."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path, PurePath
from textwrap import shorten
from typing import Any
from urllib.parse import quote

import click
from pydantic import TypeAdapter

from recovery.analysis.compare import incomplete_reason
from recovery.analysis.contrasts import Contrast
from recovery.analysis.fleet import PRICE, Fact, FleetCell, Host, compare_hosts
from recovery.analysis.warnings import findings_of_each_cell
from recovery.cli.fleet_plan import check_price
from recovery.cli.options import table_option
from recovery.cli.output import escaped_text, write_json
from recovery.errors import RecoveryError, UsageError
from recovery.linux.files import STORED_FORMAT, read_stored, write_atomically
from recovery.model import Session, Status
from recovery.report import fmt
from recovery.report.console import ReportConsole, fitted, print_tables
from recovery.report.fleet import (
    FleetReport,
    StoredAt,
    caveats,
    fleet_answer,
    fleet_tables,
    ratio_sentences,
    render_html,
    render_markdown,
    render_text,
)
from recovery.report.html.page import PAGE
from recovery.report.stored_session import REPORT_FILE, load_session, session_names, writing_results

FLEET_FILE = "fleet.json"
FLEET_PAGE = "fleet.html"
_LAYOUT = f"it has a folder for each host with its sessions: FOLDER/HOST/SESSION/{REPORT_FILE}"
_HOST_NAME = re.compile(r"(?!\.)[\w.-]+", re.ASCII)
_MAX_LINES = 12


@dataclass(frozen=True, kw_only=True)
class SessionRecord:
    """What became of a session of the plan on one host, as fleet.json has it."""

    command: str = ""
    line: str = ""
    """The command with its options."""
    key: str = ""
    """Name of its folder on the host."""
    folder: str | None = None
    """HOST/SESSION, or None if nothing was fetched."""
    state: str = "missing"
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class HostRecord:
    facts: dict[str, Fact] = field(default_factory=dict)
    sessions: tuple[SessionRecord, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FleetRecord:
    hosts: dict[str, HostRecord]


_RECORD = TypeAdapter(FleetRecord)


@click.command("report")
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
            write_atomically(folder / name, text.encode("utf-8", errors="replace"))
    if not write_json(json_to, _as_json(report)):
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
        for title, texts in (("Not compared", report.fleet.not_compared), ("Missing or incomplete", report.problems)):
            for text in texts:
                console.print(escaped_text(f"{title}: {text}"))
        print_tables(fleet_tables(report), console)
    console.print(escaped_text(f"report: {folder / FLEET_PAGE}"), soft_wrap=True)


# --- Reading the folder


def read_fleet(folder: Path) -> FleetReport:
    """Reads and compares the hosts of a folder. A session that cannot be read is one line of the report."""
    record = _read_record(folder)
    hosts, problems, rows = [], [], []
    for name, about in record.hosts.items():
        sessions = []
        for each in about.sessions:
            session, found = _load(folder, name, each)
            sessions += [session] if session else []
            problems += [f"{name}, {each.command or each.folder}: {text}" for text in found]
            rows.append(_row(folder, name, each, session))
        hosts.append(Host(name, about.facts, tuple(sessions)))
    command = shlex.join(("recovery", "fleet", "report", str(folder)))
    return FleetReport(compare_hosts(hosts), tuple(problems), tuple(rows), command)


def _read_record(folder: Path) -> FleetRecord:
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", f"name the folder of a fleet: {_LAYOUT}")
    path = folder / FLEET_FILE
    if not path.is_file():
        found = {one.name: session_names(one) for one in sorted(folder.iterdir()) if one.is_dir()}
        hosts = {
            name: HostRecord(sessions=tuple(SessionRecord(folder=f"{name}/{one}", state="finished") for one in names))
            for name, names in found.items()
            if names
        }
        if not hosts:
            raise UsageError(f"there is no host in {folder}", f"name the folder of a fleet: {_LAYOUT}")
        return FleetRecord(hosts=hosts)
    return read_record(path)


def read_record(path: Path) -> FleetRecord:
    record = read_stored(path, _RECORD)
    if not record.hosts:
        raise UsageError(f"there is no host in {path}", "add hosts to the plan, and run it")
    for name, host in record.hosts.items():
        if not _HOST_NAME.fullmatch(name):
            raise RecoveryError(f"{path} is damaged: '{name}' is no name of a host", "restore the file, or run again")
        try:
            check_price(host.facts.get(PRICE), name)
        except UsageError as error:
            raise RecoveryError(f"{path}: {error.message}", error.hint) from None
    return record


def _load(folder: Path, host: str, record: SessionRecord) -> tuple[Session | None, list[str]]:
    """Returns the session, and what is wrong with it."""
    reason = f"{record.state}: {record.reason}" if record.reason else record.state
    problems = [] if record.state == Status.FINISHED else [reason]
    if record.folder is None:
        return None, problems or ["it has no folder"]
    try:
        session = load_session(_session_path(folder, host, record.folder))
    except RecoveryError as error:
        return None, [*problems, error.message]
    if not problems and (lacking := incomplete_reason(session)) is not None:
        problems.append(lacking)
    return session, problems


def _session_path(folder: Path, host: str, name: str) -> Path:
    """Returns the folder of a session. The record may come from somebody else, so only the last part is used."""
    return folder / host / PurePath(name).name


def _row(folder: Path, host: str, record: SessionRecord, session: Session | None) -> StoredAt:
    command, state = record.command, record.state
    if session is not None:
        # A host's own command names folders that the fleet has removed.
        command = f"recovery {record.line}" if record.line else session.command
        state = f"{session.status}, {len(session.runs)} of {session.planned_runs} runs"
    name = PurePath(record.folder).name if record.folder else ""
    page = quote(f"{host}/{name}/{PAGE}") if name and (folder / host / name / PAGE).is_file() else None
    return StoredAt(host, name, command, state, page, findings_of_each_cell(session) if session else ())


# --- JSON


def _as_json(report: FleetReport) -> dict[str, Any]:
    fleet = report.fleet
    return {
        "format": STORED_FORMAT,
        "answer": list(fleet_answer(report)),
        "hosts": {one.name: {"facts": dict(one.facts), "found": dict(one.found)} for one in fleet.hosts},
        "cells": list(map(_cell, fleet.cells)),
        "within": list(map(asdict, fleet.within)),
        "between": list(map(asdict, fleet.between)),
        "not_compared": list(fleet.not_compared),
        "problems": list(report.problems),
        "sessions": list(map(asdict, report.sessions)),
    }


def _cell(one: FleetCell) -> dict[str, Any]:
    effects = {each.name for each in fields(Contrast)}
    summary = {name: value for name, value in asdict(one.summary).items() if name not in effects}
    return {**asdict(one), "summary": summary}
