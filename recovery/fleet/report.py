"""Reads the sessions of a fleet's folder, and compares them.

The folder is one of `recovery fleet run`, with its fleet.json, or any with FOLDER/HOST/SESSION/report.json."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from itertools import chain
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from recovery.analysis.compare import incomplete_reason
from recovery.analysis.contrasts import Contrast
from recovery.analysis.warnings import findings_of_each_cell
from recovery.errors import RecoveryError, UsageError
from recovery.fleet.hosts import FleetCell, FleetRatio, Host, compare_hosts
from recovery.fleet.record import FLEET_FILE, FleetRecord, HostRecord, SessionRecord, read_record
from recovery.fleet.sections import FleetReport, StoredAt, fleet_answer, not_compared_lines
from recovery.linux.files import STORED_FORMAT
from recovery.model import Session, Status
from recovery.report.fmt import count_text
from recovery.report.html.page import PAGE
from recovery.storage.sessions import REPORT_FILE, load_session, session_names

FLEET_PAGE = "fleet.html"
_LAYOUT = f"it has a folder for each host with its sessions: FOLDER/HOST/SESSION/{REPORT_FILE}"

# --- Reading the folder


def read_fleet(folder: Path) -> FleetReport:
    """Reads and compares the hosts of a folder. A session that cannot be read is one line of the report."""
    record = _read_record(folder)
    hosts, problems, rows = [], [], []
    for name, about in record.hosts.items():
        sessions = []
        for stored in chain.from_iterable(map(_each_session, about.sessions)):
            session, found = _load(folder, name, stored)
            sessions += [session] if session else []
            problems += [f"{name}, {stored.command or stored.folder}: {text}" for text in found]
            rows.append(_row(folder, name, stored, session))
        hosts.append(Host(name, about.facts, tuple(sessions)))
    command = shlex.join(("recovery", "fleet", "report", str(folder)))
    return FleetReport(compare_hosts(hosts), tuple(problems), tuple(rows), command)


def _read_record(folder: Path) -> FleetRecord:
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", f"name the folder of a fleet: {_LAYOUT}")
    path = folder / FLEET_FILE
    if not path.is_file():
        found = {host.name: session_names(host) for host in sorted(folder.iterdir()) if host.is_dir()}
        hosts = {
            name: HostRecord(
                sessions=tuple(SessionRecord(folder=f"{name}/{session}", state="finished") for session in names)
            )
            for name, names in found.items()
            if names
        }
        if not hosts:
            raise UsageError(f"there is no host in {folder}", f"name the folder of a fleet: {_LAYOUT}")
        return FleetRecord(hosts=hosts)
    return read_record(path)


def _each_session(record: SessionRecord) -> Iterator[SessionRecord]:
    """Yields a record for each session of a line that repeats it."""
    yield from (replace(record, folder=other, state=Status.FINISHED.value, reason=None) for other in record.others)
    yield record


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
        state = f"{session.status}, {len(session.runs)} of {count_text(session.planned_runs, 'run')}"
    name = PurePath(record.folder).name if record.folder else ""
    page = quote(f"{host}/{name}/{PAGE}") if name and (folder / host / name / PAGE).is_file() else None
    return StoredAt(host, name, command, state, page, findings_of_each_cell(session) if session else ())


# --- JSON


def as_json(report: FleetReport) -> dict[str, Any]:
    fleet = report.fleet
    return {
        "format": STORED_FORMAT,
        "answer": list(fleet_answer(report)),
        "hosts": {host.name: {"facts": dict(host.facts), "found": dict(host.found)} for host in fleet.hosts},
        "cells": list(map(_cell, fleet.cells)),
        "within": list(map(_ratio, fleet.within)),
        "between": list(map(_ratio, fleet.between)),
        "not_compared": list(not_compared_lines(fleet)),
        "problems": list(report.problems),
        "sessions": list(map(asdict, report.sessions)),
    }


def _cell(cell: FleetCell) -> dict[str, Any]:
    effects = {field.name for field in fields(Contrast)}
    summary = {name: value for name, value in asdict(cell.summary).items() if name not in effects}
    return {**asdict(cell), "summary": summary}


def _ratio(ratio: FleetRatio) -> dict[str, Any]:
    found = asdict(ratio)
    found["beside"] = found.pop("other_differences")  # the name that this format has for them
    return found
