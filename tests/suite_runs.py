"""Stored runs of `recovery experiments`, made from sessions that nobody measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from at_work import interference, metadata, table_cache, write_scaling
from everything import everything

from recovery.cli.suite_report import ExperimentRecord, SuiteRecord, save_suite, write_suite_reports
from recovery.model import Session
from recovery.report.json_report import to_json
from recovery.storage.sessions import REPORT_FILE

SESSIONS: dict[str, Callable[[], Session]] = {
    "crash-recovery": everything,
    "metadata": metadata,
    "interference": interference,
    "table-cache": lambda: table_cache(small=True),
    "write-scaling": lambda: write_scaling(small=True),
}
FAILURE = "the server could not be fetched"


def suite_record(*steps: ExperimentRecord) -> SuiteRecord:
    return SuiteRecord(
        command="recovery experiments --scale standard --version '5.7.22 8.0.31'",
        started_at="2026-11-21T20:00:00+00:00",
        scale="standard",
        versions=("5.7.22", "8.0.31"),
        steps=steps,
        status="finished",
        took_s=1500.0,
    )


def stored(results: Path, *names: str, text: str = "") -> Path:
    """Returns the folder of a run, with the sessions of these experiments next to it; the others failed."""
    steps = []
    for name, made in SESSIONS.items():
        if name not in names:
            steps.append(ExperimentRecord(name=name, command=f"recovery {name}{text}", error=FAILURE + text))
            continue
        session = made()
        folder = results / f"20261121T200000Z-{name}"
        folder.mkdir(parents=True)
        (folder / REPORT_FILE).write_bytes(to_json(session))
        command = f"recovery {name} --runs 3{text}"
        steps.append(ExperimentRecord(name=name, command=command, took_s=280.5, session=folder.name))
    folder = results / "20261121T195900Z-experiments"
    folder.mkdir(parents=True)
    save_suite(suite_record(*steps), folder)
    write_suite_reports(folder)
    return folder
