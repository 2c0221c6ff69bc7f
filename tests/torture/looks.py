"""What was lost of that which had ended, and what is left of the tool that was killed?"""

from __future__ import annotations

import contextlib
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
from recovery.report.stored_session import LATEST_LINK, LOCK_FILE, REPORT_FILE, load_session
from torture.place import RUNS, TABLES, Place, digest

_HALF = re.compile(r"\.(.+)\.\d+|\.part-.*|.*\.tmp|mysql-recovery-.*")
_FOLDERS = ("runs", "logs", "stacks", "looks")


def sessions(results: Path) -> list[Path]:
    return sorted(path.parent for path in results.glob(f"*/{REPORT_FILE}") if path.parent.name != LATEST_LINK)


def ended_runs(results: Path) -> dict[str, str]:
    """Each file of a run that has ended, and what is in it."""
    return {str(path.relative_to(results)): digest(path) for path in results.glob("2*/runs/[0-9]*.json")}


def lost(results: Path, before: dict[str, str], told: frozenset[int]) -> Iterator[str]:
    """Of what had ended before, and of what the tool said that had ended."""
    now = ended_runs(results)
    for name, content in before.items():
        if name not in now:
            yield f"{name} is gone"
        elif now[name] != content:
            yield f"{name} was changed"
    for folder in sessions(results):
        yield from _unreadable(folder, told)
    if told and not sessions(results):
        yield f"runs {sorted(told)} were told to have ended, and there is no session"


def _unreadable(folder: Path, told: frozenset[int]) -> Iterator[str]:
    try:
        session = load_session(folder)
    except RecoveryError as error:
        yield f"{folder.name} cannot be read: {error.message}"
        return
    numbers = {run.number for run in session.runs}
    if told - numbers:
        yield f"runs {sorted(told - numbers)} were told to have ended, and are not in {folder.name}"
    for run in session.runs:
        if run.log is not None and not (folder / run.log).is_file():
            yield f"the log of run {run.number} is gone"
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()) as said:
        code = cli(["report", str(folder)])
    if code or not printed.getvalue().strip():
        yield f"`recovery report` of {folder.name} ended with {code}: {said.getvalue().strip()}"


def unfinished(results: Path, *, went_on: bool) -> str | None:
    """What is wrong with a session that came to its end; None where nothing is."""
    found = sessions(results)
    if len(found) != 1:
        return f"there are {len(found)} sessions, and it was one"
    session = load_session(found[0])
    if session.status != "finished":
        return f"the session is {session.status}: {'; '.join(session.notes)}"
    if [run.number for run in session.runs] != list(range(1, RUNS + 1)) or session.planned_runs != RUNS:
        return f"it has the runs {[run.number for run in session.runs]} of {session.planned_runs}"
    stored = json.loads((found[0] / REPORT_FILE).read_text(encoding="utf-8"))
    means = [one["count"] for one in stored.get("measures", stored["summaries"])]
    if sum(means) != RUNS:
        return f"its means are of {means} runs"
    if went_on and not any("it was resumed at" in note for note in session.notes):
        return "a reader is not told that it was not of one piece"
    starts = session.runs if session.figure == STARTUP_METRIC else ()
    return next(filter(None, (*map(_not_measured, session.runs), *map(_wrong, starts))), None)


def _not_measured(run: Run) -> str | None:
    return None if run.verdict is Verdict.MEASURED else f"run {run.number} is {run.verdict}: {run.reason}"


def _wrong(run: Run) -> str | None:
    if run.tables != TABLES:
        return f"run {run.number} found {run.tables} tables instead of {TABLES}"
    if not run.rows_expected or run.rows_found != run.rows_expected:
        return f"run {run.number} found {run.rows_found} rows instead of {run.rows_expected}"
    return None


def left(place: Place, results: Path, cache: Path | None) -> Iterator[str]:
    """Once all has come to its end."""
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
    """Of sessions that have ended, and of data directories that are not there."""
    yield from (f"lock {folder.name}/{LOCK_FILE}" for folder in sessions(results) if (folder / LOCK_FILE).exists())
    yield from (f"lock {path.name}" for path in place.data.glob("*.lock") if not (place.data / path.stem).is_dir())


def _groups(place: Place) -> Iterator[str]:
    """Of those who were killed here: others' are their own affair."""
    for one in hierarchies():
        with contextlib.suppress(OSError):
            for entry in one.root.iterdir():
                if is_orphan(entry.name) and any(f".{one.pid}." in entry.name for one in place.victims):
                    yield entry.name


def _caches(cache: Path | None) -> tuple[Path, ...]:
    return () if cache is None else (cache / "servers", *(cache / "servers").glob("*/"), cache / "libraries")


def _half(folder: Path) -> Iterator[str]:
    """What has no name of its own yet."""
    for part in (folder, *(folder / name for name in _FOLDERS)):
        if part.is_dir():
            for entry in part.iterdir():
                if _HALF.fullmatch(entry.name):
                    yield f"half a file: {part.name}/{entry.name}"
                elif part.name in ("runs", "logs") and entry.is_file() and not entry.stat().st_size:
                    yield f"an empty file: {part.name}/{entry.name}"


def at_once(place: Place, before: set[int]) -> Iterator[str]:
    """After a polite end no start has to clear up servers; what an earlier one had left was not its own."""
    for process in _processes(place):
        if process.pid not in before:
            yield f"process {process.pid} ({process.name()}) after a polite end"


def process_ids(place: Place) -> set[int]:
    return {process.pid for process in _processes(place)}


def _processes(place: Place) -> Iterator[psutil.Process]:
    """That work for the tool: whatever of them names a folder of ours."""
    own = {place.bystander.process.pid, psutil.Process().pid}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid in own or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if str(place.root) in " ".join((process.cwd(), *process.cmdline())):
                yield process
