"""What did the command store, which servers does it run, can this host be limited, and what may be left out?"""

from __future__ import annotations

import csv
import gzip
import json
import os
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import psutil
import pytest
from runs import flat_run
from waiting import BUILDING_S, until

from recovery.errors import HostUnfitError
from recovery.linux.cgroups import controller_settings
from recovery.linux.cleanup import SERVER_NAMES
from recovery.linux.loop_device import why_no_power_cut
from recovery.linux.procfs import is_stopped
from recovery.loads.status_sampler import Sample, parse_number
from recovery.model import Limits, Run

FIXTURES = Path(__file__).parents[2] / "fixtures"
KEPT_ARCHIVE = FIXTURES / "kept-sessions.tar.xz"
"""The report.json of the kept sessions."""
KEPT_SESSIONS = (
    "2026-11-21-containers-9.7-5000-iops", "2026-11-21-four-versions", "2026-11-21-layouts", "2026-11-21-scale",
    "2026-11-21-scale-mariadb", "2026-11-21-stacks", "2026-11-22-crash-matrix-coming-back",
    "2026-11-22-crash-matrix-definitions", "2026-11-22-crash-matrix-definitions-5.6.24",
    "2026-11-22-crash-matrix-inserts", "2026-11-22-crash-matrix-recovery-shutdown",
    "2026-11-22-crash-matrix-writing", "2026-11-22-damage", "2026-11-22-interference", "2026-11-22-metadata",
    "2026-11-23-mariadb-11.4-tls", "2026-11-23-mariadb-11.4-trace", "2026-11-23-warm-20000", "2026-11-25-5.7.22-2g",
    "2026-11-25-5.7.22-5000-iops", "2026-11-25-5.7.22-read-ahead-128", "2026-11-25-5.7.22-read-ahead-16",
    "2026-11-25-mariadb-200000", "2026-11-25-million", "2026-11-25-million-dump", "2026-11-25-million-mariadb",
    "2026-11-25-million-mariadb-traced", "2026-11-25-million-scale", "2026-11-25-million-scale-mariadb",
    "2026-11-25-million-traced", "2026-11-25-six-servers", "2026-11-26-10000-created", "2026-11-26-5.6.24-9.7",
    "2026-11-26-5.7.22", "2026-11-26-5.7.22-as-published", "2026-11-26-5.7.22-one-cpu", "2026-11-26-8.0.31",
    "2026-11-26-8.0.31-one-cpu", "2026-11-26-8.0.31-two-cpus", "2026-11-26-built-5.7.22",
    "2026-11-26-built-mariadb-10.11.5", "2026-11-26-charset", "2026-11-26-clean-start-8.0.31",
    "2026-11-26-dump-1000", "2026-11-26-dump-2000", "2026-11-26-dump-4000", "2026-11-26-experiments-crash-recovery",
    "2026-11-26-experiments-interference", "2026-11-26-experiments-metadata", "2026-11-26-experiments-table-cache",
    "2026-11-26-experiments-write-scaling", "2026-11-26-first-queries-8.0.31", "2026-11-26-interference",
    "2026-11-26-interference-loop", "2026-11-26-killed-during-shutdown", "2026-11-26-lock-schedule",
    "2026-11-26-million", "2026-11-26-million-dump", "2026-11-26-million-dump-5.7.22", "2026-11-26-million-scale",
    "2026-11-26-million-traced", "2026-11-26-table-cache", "2026-11-26-table-cache-waits",
    "2026-11-26-what-helps-8.0.31", "2026-11-26-write-scaling", "2026-11-27-5.7.22-read-ahead-0",
    "2026-11-27-5.7.22-read-ahead-16", "2026-11-27-5.7.22-read-ahead-8192", "2026-11-27-8.0.31-read-ahead-16",
    "2026-11-27-8.0.31-read-ahead-8192", "2026-11-27-9.7", "2026-11-27-built-5.6.24", "2026-11-27-built-8.0.31",
    "2026-11-27-mariadb-traced", "2026-11-27-million-queries-5.7.22", "2026-11-27-million-queries-8.0.31",
    "2026-11-27-one-client", "2026-11-27-point-select", "2026-11-27-seven-versions",
    "2026-11-27-two-versions-traced", "2026-11-27-what-helps-5.7.22", "2026-11-27-write-scaling-waits",
    "2026-11-28-pending-2g", "2026-11-28-pending-50000", "2026-11-28-pending-pages", "2026-11-28-pending-redo",
    "2026-11-28-pending-transactions", "2026-11-28-plain-8.0.31", "2026-11-28-plain-mariadb",
    "2026-11-28-two-versions",
)  # fmt: skip
OTHER_SESSIONS = ("stacks", "three-versions")
"""Folders in fixtures/sessions."""
KINDS_OF_SESSIONS = (
    "2026-11-27-two-versions-traced", "2026-11-21-scale", "2026-11-22-interference", "2026-11-22-metadata",
    "2026-11-22-crash-matrix-inserts",
)  # fmt: skip
"""Kept sessions that differ most: starts with trace and floor, growth, a load, tasks, kills."""


def stored(folder: Path) -> dict[str, Any]:
    """The newest session's report.json, of a test whose results lie in this folder, with flat runs."""
    report: dict[str, Any] = json.loads((folder / "results" / "latest" / "report.json").read_text())
    return {**report, "runs": list(map(flat_run, report["runs"]))}


def read_samples(path: Path) -> list[Sample]:
    """All samples of a server under load, as a run stores them."""
    with gzip.open(path, "rt", newline="") as file:
        (_, *columns), *rows = csv.reader(file)
    return [
        Sample(float(at_s), {name: parse_number(cell) for name, cell in zip(columns, cells, strict=True) if cell})
        for at_s, *cells in rows
    ]


def first_run_stored(results: Path) -> None:
    """Waits for its file: lines that begin with its number are printed while it goes on, too, on a slow host."""
    until(lambda: any(results.glob("2*/runs/001.json")), "the first run to be stored", within_s=BUILDING_S)


def servers_of(tool: int) -> list[psutil.Process]:
    """The servers that this process runs; there is none between two starts."""
    found = []
    for child in psutil.Process(tool).children(recursive=True):
        with suppress(psutil.Error):
            if child.name() in SERVER_NAMES:
                found.append(child)
    return found


def next_server(tool: int, *, of_all: bool = False) -> psutil.Process:
    """The next server that this process starts. It has only just begun, so the tool does not end it yet. With `of_all`
    one that it has started already will do."""
    before = set() if of_all else {one.pid for one in servers_of(tool)}
    return until(lambda: next((one for one in servers_of(tool) if one.pid not in before), None), "the next server")


def stopped_at_a_start(tool: int) -> psutil.Process:
    """Stops the tool (SIGSTOP) while its next server starts, and returns that server."""
    server = next_server(tool)
    os.kill(tool, signal.SIGSTOP)
    until(lambda: is_stopped(tool), "the stop of the tool")
    return server


def why_not_limited() -> str | None:
    """Of the disk that holds the tests; None where limits can be set."""
    try:
        controller_settings(Limits(read_iops=1, memory_bytes=1, cpus=0.1), Path(__file__).parent)
    except HostUnfitError as error:
        return error.message
    return None


def left_out(why: str) -> NoReturn:
    """Here it is skipped, and said; in CI it counts as a failure, or nobody would ever see that nothing was tested."""
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(f"CI must not leave this out: {why}", pytrace=False)
    pytest.skip(why)


def need_limits() -> None:
    if (why := why_not_limited()) is not None:
        left_out(why)


def need_disks() -> None:
    if (why := why_no_power_cut()) is not None:
        left_out(f"no filesystem in a file can be mounted here: {why}")


def as_a_user() -> dict[str, str]:
    """The environment of somebody who types a command: without settings, but for those that keep tests apart."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RECOVERY_", "MAKE"))}
    apart = ("RECOVERY_CACHE", "RECOVERY_HOST_LOCK", "RECOVERY_NO_DROP_CACHES")
    return kept | {name: os.environ[name] for name in apart if name in os.environ}


def with_metrics(run: Run, **changed: float | None) -> Run:
    """The run with other values of these metrics; None removes one."""
    merged = run.metrics | changed
    return replace(run, metrics={name: value for name, value in merged.items() if value is not None})


def seconds(startup_s: float | None) -> dict[str, float]:
    """The metrics of a run that was timed, or of one that was not."""
    return {} if startup_s is None else {"startup_s": startup_s}
