"""The commands that measure: cold-recovery, warm-recovery, crash-recovery, clean-start."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from recovery.builds.catalog import DEFAULT_VERSION
from recovery.commands.dry_run import tell_plan
from recovery.commands.options import measuring_options, repeat_command
from recovery.errors import RecoveryError, UsageError
from recovery.model import Schema, Session, Verdict
from recovery.paths import default_data_dir
from recovery.report import console as console_report
from recovery.report.narrator import ConsoleNarrator
from recovery.report.write import write_reports
from recovery.request import (
    DEFAULT_RUNS,
    DEFAULT_TABLES,
    MOST_RUNS,
    MOST_TABLES,
    Request,
    identifier,
    parse_settings,
    positive,
    split_versions,
)
from recovery.runner import run_session
from recovery.scenarios import SCENARIOS
from recovery.scenarios.scenario import Scenario
from recovery.server.local import LocalLauncher
from recovery.store import REPORT, find, load


@dataclass(frozen=True)
class Fallback:
    """What holds where the user said nothing."""

    versions: tuple[str, ...] = (DEFAULT_VERSION,)
    tables: int = DEFAULT_TABLES
    schemas: int = 1
    columns: int = 0
    rows: int = 0
    database: str = "discovery"
    data: Path | None = None


def commands() -> tuple[click.Command, ...]:
    return tuple(_command(scenario) for scenario in SCENARIOS)


def _command(scenario: Scenario) -> click.Command:
    @click.command(scenario.name, help=_help(scenario), short_help=f"{scenario.title}, {_caches(scenario)}.")
    @measuring_options
    def command(**given: Any) -> int:
        return measure(scenario.name, given)

    return command


def _caches(scenario: Scenario) -> str:
    return " and ".join(cache.value for cache in scenario.caches)


def _help(scenario: Scenario) -> str:
    return f"{scenario.question}\n\nMeasured with {_caches(scenario)} cache. Results go to --results, one folder each."


def measure(scenario: str, given: dict[str, Any]) -> int:
    dry_run, json_to = given.pop("dry_run"), given.pop("json_to")
    request = make_request(scenario, given)
    stderr = Console(stderr=True, highlight=False)
    stderr.print(f"$ {request.command}", style="dim", markup=False, soft_wrap=True)
    if dry_run:
        tell_plan(request, Console(highlight=False))
        return 0
    narrator = ConsoleNarrator(stderr)
    newest = _newest(request.results)
    try:
        folder = run_session(request, launcher=LocalLauncher(), narrator=narrator).folder
    except (RecoveryError, KeyboardInterrupt):
        left = _newest(request.results)
        if left is not None and left != newest:
            _show(left, json_to, stderr)
        raise
    session = _show(folder, json_to, stderr)
    measured = sum(run.verdict is Verdict.MEASURED for run in session.runs)
    return 0 if measured == session.planned_runs else 1


def make_request(scenario: str, given: dict[str, Any]) -> Request:
    fallback = _fallback(scenario, given)
    versions = split_versions(given["versions"])
    if given["mysqld"] and len(versions) > 1:
        raise UsageError("MYSQLD is one server, VERSION names several", "name one version, or none: it is asked")
    if not versions and not given["mysqld"]:
        versions = fallback.versions
    schema = Schema(
        tables=positive("TABLES", given["tables"] or fallback.tables, MOST_TABLES),
        databases=positive("SCHEMAS", given["schemas"] or fallback.schemas, 100_000),
        columns=_count("--columns", given["columns"], fallback.columns, most=1000),
        rows=_count("--rows", given["rows"], fallback.rows, most=10_000_000),
        database=identifier("--database", given["database"] or fallback.database),
        template=given["template"],
    )
    request = Request(
        scenario=scenario,
        versions=versions,
        schema=schema,
        runs=positive("RUNS", given["runs"] or DEFAULT_RUNS, MOST_RUNS),
        data=(given["data"] or fallback.data or default_data_dir()).absolute(),
        results=given["results"].absolute(),
        settings=parse_settings(given["settings"]),
        insert_template=given["insert_template"],
        mysqld=given["mysqld"],
        archive=given["archive"],
        as_published=given["as_published"],
        allow_drop=not given["no_drop_caches"],
        keep=given["keep"],
        stall_s=given["stall_s"],
    )
    return replace(request, command=_repeat(request, given))


def _count(name: str, text: str | None, fallback: int, *, most: int) -> int:
    return fallback if text is None else 0 if text == "0" else positive(name, text, most)


def _fallback(scenario: str, given: dict[str, Any]) -> Fallback:
    """A warm measurement for which no server is named goes on where the newest session left off: its versions over
    its data directories."""
    if scenario != "warm-recovery" or given["versions"] or given["mysqld"]:
        return Fallback()
    newest = _newest(given["results"])
    if newest is None:
        return Fallback()
    session = load(newest)
    asked = session.settings
    return Fallback(
        versions=session.versions,
        tables=int(asked.get("tables") or DEFAULT_TABLES),
        schemas=int(asked.get("schemas") or 1),
        columns=int(asked.get("columns") or 0),
        rows=int(asked.get("rows") or 0),
        database=str(asked.get("database") or "discovery"),
        data=Path(str(asked["data"])) if asked.get("data") else None,
    )


def _newest(results: Path) -> Path | None:
    try:
        return find(results, None).resolve()
    except RecoveryError:
        return None


def _repeat(request: Request, given: dict[str, Any]) -> str:
    schema = request.schema
    options: list[tuple[str, object]] = [
        ("--version", " ".join(request.versions) or None),
        ("--tables", schema.tables),
        ("--schemas", schema.databases if schema.databases > 1 else None),
        ("--columns", schema.columns or None),
        ("--rows", schema.rows or None),
        ("--database", schema.database if schema.database != "discovery" else None),
        ("--runs", request.runs),
        ("--data", given["data"]),
        ("--mysqld", request.mysqld),
        ("--archive", request.archive),
        ("--template", schema.template),
        ("--insert-template", request.insert_template),
        *(("--set", f"{name}={value}" if value else name) for name, value in request.settings),
        ("--as-published", request.as_published),
        ("--no-drop-caches", not request.allow_drop),
        ("--keep", request.keep),
    ]
    return repeat_command(request.scenario, options)


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
