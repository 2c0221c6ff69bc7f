"""Checks which ended runs are lost, and what a killed tool has left behind."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import psutil

from recovery.cli.main import run as cli
from recovery.errors import RecoveryError
from recovery.linux.cgroups import hierarchies
from recovery.linux.procfs import is_orphan
from recovery.model import STARTUP_METRIC, Run, Verdict
from recovery.storage.sessions import LATEST_LINK, LOCK_FILE, REPORT_FILE, load_session
from torture.place import RUNS, TABLES, Place

_HALF = re.compile(r"\.(.+)\.\d+|\.part-.*|.*\.tmp|mysql-recovery-.*")
_FOLDERS = ("runs", "logs", "stacks", "looks")


def sessions(results: Path) -> list[Path]:
    return sorted(path.parent for path in results.glob(f"*/{REPORT_FILE}") if path.parent.name != LATEST_LINK)


def ended_runs(results: Path) -> dict[str, str]:
    """Returns the digest of each file of an ended run."""
    files = results.glob("2*/runs/[0-9]*.json")
    return {str(path.relative_to(results)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def lost(results: Path, before: dict[str, str], printed: frozenset[int]) -> Iterator[str]:
    """Yields what is missing or changed of the runs that had ended before, or that the tool printed as ended."""
    now = ended_runs(results)
    for name, content in before.items():
        if name not in now:
            yield f"{name} is gone"
        elif now[name] != content:
            yield f"{name} was changed"
    for folder in sessions(results):
        yield from _unreadable(folder, printed)
    if printed and not sessions(results):
        yield f"runs {sorted(printed)} were printed as ended, and there is no session"


def _unreadable(folder: Path, printed: frozenset[int]) -> Iterator[str]:
    try:
        session = load_session(folder)
    except RecoveryError as error:
        yield f"{folder.name} cannot be read: {error.message}"
        return
    numbers = {run.number for run in session.runs}
    if printed - numbers:
        yield f"runs {sorted(printed - numbers)} were printed as ended, and are not in {folder.name}"
    for run in session.runs:
        if run.log is not None and not (folder / run.log).is_file():
            yield f"the log of run {run.number} is gone"
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = cli(["report", str(folder)])
    if code or not out.getvalue().strip():
        yield f"`recovery report` of {folder.name} ended with {code}: {err.getvalue().strip()}"


def unfinished(results: Path, *, was_resumed: bool) -> str | None:
    """Returns what is wrong with a session that should have come to its end, or None."""
    found = sessions(results)
    if len(found) != 1:
        return f"there are {len(found)} sessions, and it was one"
    session = load_session(found[0])
    if session.status != "finished":
        return f"the session is {session.status}: {'; '.join(session.notes)}"
    if [run.number for run in session.runs] != list(range(1, RUNS + 1)) or session.planned_runs != RUNS:
        return f"it has the runs {[run.number for run in session.runs]} of {session.planned_runs}"
    stored = json.loads((found[0] / REPORT_FILE).read_text(encoding="utf-8"))
    means = [summary["count"] for summary in stored["summaries"] if summary["name"] == session.metric]
    if sum(means) != RUNS:
        return f"its means are of {means} runs"
    if was_resumed and not any("it was resumed at" in note for note in session.notes):
        return "no note says that it was resumed"
    starts = session.runs if session.metric == STARTUP_METRIC else ()
    return next(filter(None, (*map(_not_measured, session.runs), *map(_wrong_contents, starts))), None)


def _not_measured(run: Run) -> str | None:
    return None if run.verdict is Verdict.MEASURED else f"run {run.number} is {run.verdict}: {run.reason}"


def _wrong_contents(run: Run) -> str | None:
    if run.contents.tables_found != TABLES:
        return f"run {run.number} found {run.contents.tables_found} tables instead of {TABLES}"
    if not run.contents.rows_expected or run.contents.rows_found != run.contents.rows_expected:
        return f"run {run.number} found {run.contents.rows_found} rows instead of {run.contents.rows_expected}"
    return None


def left(place: Place, results: Path, cache: Path | None) -> Iterator[str]:
    """Yields what is left behind although the session has come to its end."""
    yield from (f"process {process.pid} ({process.name()})" for process in _processes(place))
    yield from (f"control group {name}" for name in _groups(place))
    yield from (f"mount {mount}" for mount in place.mounts())
    yield from _temporary(place)
    yield from _locks(place, results)
    for folder in (results, *sessions(results), place.data, *place.data.glob("*/"), *_caches(cache)):
        yield from _half(folder)
    for state in place.data.glob("*/state.json"):
        status = json.loads(state.read_text())["status"]
        if status != "whole":
            yield f"data directory {state.parent.name}: {status}"


def _temporary(place: Place) -> Iterator[str]:
    for entry in place.temporary.iterdir():
        if entry.name not in place.beside:
            yield f"temporary {entry.name} ({', '.join(sorted(inner.name for inner in entry.iterdir()))})"


def _locks(place: Place, results: Path) -> Iterator[str]:
    """Yields the locks of ended sessions and of removed data directories."""
    yield from (f"lock {folder.name}/{LOCK_FILE}" for folder in sessions(results) if (folder / LOCK_FILE).exists())
    yield from (f"lock {path.name}" for path in place.data.glob("*.lock") if not (place.data / path.stem).is_dir())


def _groups(place: Place) -> Iterator[str]:
    """Yields the control groups of the tools that were killed here."""
    for one in hierarchies():
        with contextlib.suppress(OSError):
            for entry in one.root.iterdir():
                if is_orphan(entry.name) and any(f".{one.pid}." in entry.name for one in place.victims):
                    yield entry.name


def _caches(cache: Path | None) -> tuple[Path, ...]:
    return () if cache is None else (cache / "servers", *(cache / "servers").glob("*/"), cache / "libraries")


def _half(folder: Path) -> Iterator[str]:
    """Yields drafts, which have no final name yet, and empty files."""
    for part in (folder, *(folder / name for name in _FOLDERS)):
        if part.is_dir():
            for entry in part.iterdir():
                if _HALF.fullmatch(entry.name):
                    yield f"half a file: {part.name}/{entry.name}"
                elif part.name in ("runs", "logs") and entry.is_file() and not entry.stat().st_size:
                    yield f"an empty file: {part.name}/{entry.name}"


def left_running(place: Place, before: set[int]) -> Iterator[str]:
    """Yields the processes that a tool left behind; those from before it started are not its own."""
    for process in _processes(place):
        if process.pid not in before:
            yield f"process {process.pid} ({process.name()}) after a polite end"


def process_ids(place: Place) -> set[int]:
    return {process.pid for process in _processes(place)}


def _processes(place: Place) -> Iterator[psutil.Process]:
    """Yields the processes of the tool, which name one of its folders."""
    own = {place.bystander.process.pid, psutil.Process().pid}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid in own or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if str(place.root) in " ".join((process.cwd(), *process.cmdline())):
                yield process
