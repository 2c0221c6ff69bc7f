"""Stored runs of `recovery experiments`, made from sessions that nobody measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from at_work import interference, metadata, table_cache, write_scaling
from everything import everything

from recovery.cli.suite_run import Step, SuiteRecord, save_record
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


def suite_record(*steps: Step) -> SuiteRecord:
    return SuiteRecord(
        command="recovery experiments --scale standard --version '5.7.22 8.0.31'",
        started_at="2026-11-21T20:00:00+00:00",
        scale="standard",
        versions=("5.7.22", "8.0.31"),
        steps=steps,
    )


def stored(results: Path, *names: str) -> Path:
    """Returns the folder of a run, with the sessions of these experiments next to it; the others were not measured."""
    steps = []
    for name, made in SESSIONS.items():
        command = f"recovery {name} --runs 3"
        steps.append(Step(name=name, command=command))
        if name in names:
            folder = results / f"20261121T200000Z-{name}"
            folder.mkdir(parents=True)
            (folder / REPORT_FILE).write_bytes(to_json(replace(made(), command=command)))
    folder = results / "20261121T195900Z-experiments"
    folder.mkdir(parents=True)
    save_record(suite_record(*steps), folder)
    return folder
