"""Sessions that hold all that a report can show, and one with something hostile in every text."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

from runs import plain_variants, with_axis_values, with_parts

from recovery import phase_table
from recovery.analysis.summary import measured_runs_by_cell
from recovery.metrics import METRICS
from recovery.model import (
    CallChain,
    ExtraRun,
    HostActivity,
    HotFunction,
    OpenedFiles,
    Phase,
    ReadFloor,
    Run,
    Session,
    Timeline,
    Verdict,
)

HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>]]>--></style>"
VERSIONS = ("5.7.22", "8.0.31", "mariadb-10.11.5")
TABLES = 200_000
SECONDS = {"5.7.22": (41.0, 6.2), "8.0.31": (76.0, 57.0), "mariadb-10.11.5": (4.1, 1.5)}
FOLDED = {("validation", "main thread", "main", "fil_ibd_open"): 90, ("redo scan", "main thread", "main"): 10}


def a_session(runs: tuple[Run, ...], **changed: Any) -> Session:
    versions = tuple(dict.fromkeys(run.version for run in runs)) or ("5.7.22",)
    session = Session(
        experiment="crash-recovery",
        question="How long does this server take to come back after a crash, on this storage?",
        command=f"recovery crash-recovery --version '{' '.join(versions)}' --tables {TABLES} --runs 5 --trace --floor",
        started_at="2026-11-21T16:00:00+00:00",
        environment={"cpu_model": "AMD EPYC", "memory_bytes": 25_300_000_000, "governor": None},
        settings={"tables": TABLES, "runs": 5, "set": None, "trace": True},
        versions=versions,
        variants=plain_variants(*(dict.fromkeys(run.variant for run in runs) or ("cold",))),
        planned_runs=len(runs),
        servers={version: {"source": "catalog", "sha256": "ab" * 32, "@innodb_flush": "ON"} for version in versions},
        runs=runs,
        tool_version="0.1.0",
        status="finished",
    )
    return with_axis_values(replace(session, **changed))


def everything() -> Session:
    runs: list[Run] = []
    for version in VERSIONS:
        for repeat in range(1, 6):
            for variant, seconds in zip(("cold", "warm"), SECONDS[version], strict=True):
                runs.append(a_run(len(runs) + 1, (version, variant), seconds * (1 + 0.02 * repeat), repeat=repeat))
    runs.append(replace(a_run(90, ("5.7.22", "cold"), None), verdict=Verdict.FAILED, reason="it did not come back"))
    runs.append(replace(a_run(91, ("8.0.31", "warm"), None), verdict=Verdict.VOID, reason="somebody else killed it"))
    sampled = replace(a_run(92, ("5.7.22", "cold"), 47.0), verdict=Verdict.SAMPLED, extra=ExtraRun.STACKS)
    sampled = with_parts(sampled, program="eu-stack", count=100)
    chain = CallChain(phase_table.VALIDATION, "main thread", ("main", "[mysqld]", "fil_ibd_open"), 90, 100)
    hot = (HotFunction("fil_ibd_open", 80, 90, 100), HotFunction("[mysqld]", 20, 100, 100))
    runs.append(with_parts(sampled, chains=(chain,), hottest=hot, file="stacks/092.folded"))
    floors = tuple(ReadFloor(version, ("cold", "warm"), TABLES, 20.6, 6.9, 16, 2.5, 3) for version in VERSIONS)
    notes = ("io2, 5000 IOPS, as its owner says",)
    return a_session(tuple(runs), floors=floors, notes=notes, planned_runs=33)


def traced_apart(session: Session) -> Session:
    """The session as it is measured since a trace has a run of its own: only an extra run of each cell has counts."""
    runs = [replace(run, opened_files=OpenedFiles()) for run in session.runs]
    for cell in measured_runs_by_cell(session).values():
        traced = replace(cell[0], number=100 + len(runs), repeat=cell[-1].repeat + 1, verdict=Verdict.SAMPLED)
        runs.append(replace(traced, extra=ExtraRun.TRACE))
    return replace(session, runs=tuple(runs), planned_runs=len(runs))


def a_run(number: int, what: tuple[str, str], seconds: float | None, *, repeat: int = 1) -> Run:
    version, variant = what
    run = Run(number, version, "mysql", variant, repeat, Verdict.MEASURED, log=f"logs/{number:03d}.err")
    if seconds is None:
        return run
    skips = version.startswith("mariadb")
    cold = variant == "cold"
    return with_parts(
        run,
        metrics={
            "startup_s": seconds,
            "first_query_s": seconds + 0.02,
            "read_bytes": int(seconds * 3e8) if cold else 60_000_000,
            "read_requests": int(seconds * 9000) if cold else 2000,
            "cpu_s": seconds * 0.6,
        },
        phases=_phases(seconds),
        tables_found=TABLES,
        tablespaces_opened=TABLES,
        tablespaces_modified=100,
        tablespace_opens=2 * TABLES,
        opened_unmodified=TABLES - 100,
        tablespaces_read=100 if skips else TABLES,
        read_unmodified=0 if skips else TABLES - 100,
        traced_by="fanotify",
        crash_proof="InnoDB: Starting crash recovery.",
        means="drop_caches" if cold else None,
        resident_bytes=0 if cold else None,
        warmups=None if cold else 2,
        rows_expected=100,
        rows_found=100,
        host_activity=HostActivity(seconds, others_cpu_s=0.4),
        timeline=_timeline(seconds),
    )


def _phases(seconds: float) -> tuple[Phase, ...]:
    ends = (
        (phase_table.PROCESS_START, 0.01),
        (phase_table.REDO_SCAN, 0.04),
        (phase_table.VALIDATION, 0.93),
        (phase_table.REST_TO_READY, 1.0),
    )
    found, start = [], 0.0
    for name, share in ends:
        found.append(Phase(name, start, share * seconds))
        start = share * seconds
    return (*found, Phase(phase_table.FIRST_QUERY, start, start + 0.02))


def _timeline(seconds: float) -> Timeline:
    """A look each 0.2 s: little is read at first, then much, by a server that waits for a third of its time."""
    at = tuple(0.2 * look for look in range(1, int(seconds / 0.2) + 1))
    read = [0.0]
    for look in at[1:]:
        read.append(read[-1] + 0.2 * 3e8 * (0.1 if look < 0.04 * seconds else 1 + 0.15 * math.sin(look * 3)))
    columns: dict[str, tuple[float | None, ...]] = {
        "read_bytes": tuple(map(int, read)),
        "read_requests": tuple(int(value / 33_000) for value in read),
        "cpu_s": tuple(0.62 * look + 0.03 * math.sin(look) for look in at),
        "others_cpu_s": tuple(0.05 * look for look in at),
    }
    return Timeline(at, columns)


def growing(predict: int | None = None) -> Session:
    """Three points of two versions, and the question how it goes on."""
    runs: list[Run] = []
    for version, each in (("5.7.22", 0.0003), ("8.0.31", 0.00045)):
        for tables in (1000, 10_000, 50_000):
            for repeat in (1, 2, 3):
                seconds = (1.2 + each * tables) * (1 + 0.01 * repeat)
                run = a_run(len(runs) + 1, (version, f"cold-{tables}"), seconds, repeat=repeat)
                untraced = replace(run, opened_files=OpenedFiles())
                runs.append(with_parts(untraced, tables_found=tables, scan_threads=1 + tables // 8000, timeline=None))
    settings = {"points": "1000 10000 50000", "predict": predict}
    return a_session(tuple(runs), experiment="scale", settings=settings)


def with_in_every_text(value: Any, hostile: str) -> Any:
    """The same value, with this at the end of every text in it, of names as of values."""
    changed = value
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        changed = value + hostile
    elif is_dataclass(value) and not isinstance(value, type):
        # Which figure it is about decides what kind of page it is.
        names = [field.name for field in fields(value) if not (field.name == "metric" and isinstance(value, Session))]
        told = {name: with_in_every_text(getattr(value, name), hostile) for name in names}
        changed = replace(value, **told)
    elif isinstance(value, dict):
        # The same holds for the names of metrics.
        changed = {
            key if key in METRICS else key + hostile: with_in_every_text(one, hostile) for key, one in value.items()
        }
    elif isinstance(value, tuple):
        changed = tuple(with_in_every_text(one, hostile) for one in value)
    return changed
