"""All experiments as they are stored, of sessions that nobody measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from at_work import interference, metadata, table_cache, write_scaling
from everything import everything

from recovery.cli.suite_report import ExperimentRecord, SuiteRecord, save_suite, write_suite_reports
from recovery.model import Session
from recovery.report.stored_session import REPORT_FILE, to_json

SESSIONS: dict[str, Callable[[], Session]] = {
    "crash-recovery": everything,
    "metadata": metadata,
    "interference": interference,
    "table-cache": table_cache,
    "write-scaling": write_scaling,
}
LEFT_OUT = "its smallest scale takes about 9 minutes, for which the budget has no room beside the others"


def journey(*steps: ExperimentRecord) -> SuiteRecord:
    return SuiteRecord(
        command="recovery experiments --budget 30m --version '5.7.22 8.0.31'",
        started_at="2026-11-21T20:00:00+00:00",
        budget_s=1800.0,
        versions=("5.7.22", "8.0.31"),
        steps=steps,
        status="finished",
        took_s=1500.0,
    )


def stored(results: Path, *names: str, text: str = "") -> Path:
    """A folder of experiments, with the sessions of these beside it; the others were left out."""
    steps = []
    for name, made in SESSIONS.items():
        if name not in names:
            steps.append(ExperimentRecord(name=name, left_out=LEFT_OUT + text))
            continue
        session = made()
        folder = results / f"20261121T200000Z-{name}"
        folder.mkdir(parents=True)
        (folder / REPORT_FILE).write_bytes(to_json(session))
        command, scale = f"recovery {name} --runs 3{text}", f"1,000 tables{text}"
        steps.append(
            ExperimentRecord(name=name, command=command, scale=scale, expected_s=300, took_s=280.5, session=folder.name)
        )
    folder = results / "20261121T195900Z-experiments"
    folder.mkdir(parents=True)
    save_suite(journey(*steps), folder)
    write_suite_reports(folder)
    return folder
