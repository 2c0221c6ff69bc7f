"""Finds the stored sessions in the results folder, and reads them.

A session has one folder. Each run is written to a file there as soon as it ends, so that the results survive a crash of
the tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from recovery.analysis.warm import rename_second_starts
from recovery.errors import HostUnfitError, RecoveryError, UsageError, did_you_mean
from recovery.linux import locks
from recovery.linux.files import open_folder, open_regular
from recovery.linux.storage import RESULTS, WritableFolder, as_storage_error
from recovery.metrics import METRICS
from recovery.model import Run, Session, Status, exceeded_limit
from recovery.storage.format import read_report, read_run

REPORT_FILE = "report.json"
HEAD_BYTES = 64 << 10
"""Enough of a report for the facts about its host and its first settings. The runs, which are long, come after them."""
_STARTED_AT = re.compile(rb'^ *"started_at": "([^"]*)"', re.MULTILINE)
_TEXT_REPORT = "report.txt"
LATEST_LINK = "latest"
STACKS_FOLDER = "stacks"
"""Name of the folder for the folded stacks of sampled runs."""
LOCK_FILE = "running.lock"
"""Name of the lock file, which is locked while the session runs. If the file exists but nobody holds the lock, the tool
was killed."""
_TIMES = ("s", "ms")
_KILLED_NOTE = "The tool was killed or could not write before the session ended. All finished runs are kept."


def load_session(folder: Path) -> Session:
    """Returns the stored session, including runs that are not in its report because the tool was killed."""
    session = read_session(folder)
    lock = folder / LOCK_FILE
    if session.status == Status.RUNNING and lock.exists() and locks.lock_holder(lock) is None:
        session = replace(session, status=Status.ABORTED.value, notes=(*session.notes, _KILLED_NOTE))
    return rename_second_starts(session)


def read_session(folder: Path) -> Session:
    """Reads the session from report.json and from the files of its runs. Raises UsageError if there is none, and
    RecoveryError if it is damaged or too large for a report."""
    path = folder / REPORT_FILE
    if not path.is_file():
        raise UsageError(f"there is no session in {folder}", "name a folder that has a report.json")
    session = read_report(path)
    if not session.versions or not session.variant_names:
        raise RecoveryError(f"{path} is damaged: it names no version", "restore the file, or measure again")
    # A run that was to be repeated may have been measured again after the report was written.
    done = session.done
    late = [run for file in (folder / "runs").glob("*.json") if (run := read_run(file)).number not in done]
    session = replace(session, runs=in_plan_order({run.number: run for run in (*session.runs, *late)}.values()))
    if (wrong := next(filter(None, map(_negative_time, session.runs)), None)) is not None:
        raise RecoveryError(f"{path} is damaged: {wrong}", "restore the file, or measure again")
    many = exceeded_limit(
        runs=len(session.runs),
        versions=len(session.versions),
        variants=len(session.variant_names),
        names=len(
            {name for run in session.runs for name in (*run.metrics, *(phase.name for phase in run.startup.phases))}
        ),
    )
    if many:
        raise RecoveryError(f"{path} has {many}", "no report is made of that many; measure fewer in one session")
    return session


def _negative_time(run: Run) -> str | None:
    """Returns which time of a run no clock can have measured, or None."""
    times = ((name, value) for name, value in run.metrics.items() if name in METRICS and METRICS[name].unit in _TIMES)
    parts = ((phase.name, phase.end_s - phase.start_s) for phase in run.startup.phases)
    wrong = next(((name, value) for name, value in (*times, *parts) if value < 0), None)
    return None if wrong is None else f"{wrong[0]} of run {run.number} is negative: {wrong[1]:g}"


def in_plan_order(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Sorts runs by their number in the plan. A resumed session may have measured an earlier run later."""
    return tuple(sorted(runs, key=lambda run: run.number))


def still_running_error(folder: Path) -> HostUnfitError:
    """Returns the error for a session that another process is running."""
    who = locks.lock_holder(folder / LOCK_FILE) or "another process"
    return HostUnfitError(
        f"the session {folder.name} is still running: {who}",
        "wait until it ends; `recovery status` shows its progress",
    )


def find_session(results: Path, name: str | None, *, to_write: bool = False) -> Path:
    """Returns the folder of a session. `name` is a session in `results`, a path, or None for the newest session. With
    `to_write`, raises HostUnfitError at a link but `latest` in place of the folder, and as `open_folder` does."""
    if name is not None:
        for folder in (results / name, Path(name)):
            if name and (folder / REPORT_FILE).is_file():
                return _resolved(folder, to_write=to_write)
        for folder in (results / name, Path(name)):
            if name and (folder / _TEXT_REPORT).is_file():
                raise UsageError(
                    f"{folder} has no {REPORT_FILE}: only the text of its report was kept",
                    f"name a folder with {REPORT_FILE}; those of docs/results are in fixtures/kept-sessions.tar.xz",
                )
        raise UsageError(f"there is no session '{name}' in {results}", _known_sessions(results, name))
    if (results / LATEST_LINK / REPORT_FILE).is_file():
        return _resolved(results / LATEST_LINK, to_write=to_write)
    # A copied results folder may have lost the link `latest`.
    names = newest_first(results)
    if not names:
        raise UsageError(f"there is no session in {results} yet", "measure something first: `recovery cold-recovery`")
    return _resolved(results / names[0], to_write=to_write)


def _resolved(folder: Path, *, to_write: bool) -> Path:
    if to_write:
        links_until = None if folder.name == LATEST_LINK else folder.absolute().parent
        with writing_results(folder), open_folder(folder, links_until=links_until):
            pass
    return folder.resolve()


def find_sessions(results: Path, names: str, *, to_write: bool = False) -> list[Path]:
    """Returns the folders of a session, or of several whose names are separated by commas. `to_write` is as in
    find_session."""
    whole = names in session_names(results) or Path(names).is_dir()
    if not whole and "" in names.split(","):
        raise UsageError(f"a name is missing beside a comma: {names}", "name sessions like A,B,C")
    parts = [names] if whole else names.split(",")
    found = [find_session(results, name, to_write=to_write) for name in parts]
    if len(set(found)) < len(found):
        raise UsageError(f"{names} names a session twice", "name each session once")
    return found


def session_names(results: Path) -> list[str]:
    """Returns the names of all sessions in the results folder, the newest last."""
    return sorted(path.parent.name for path in results.glob(f"*/{REPORT_FILE}") if path.parent.name != LATEST_LINK)


def newest_first(results: Path) -> list[str]:
    """Returns the names of all sessions by the time at which they started, the newest first. Names sort by time, too,
    unless folders were renamed."""

    def started_at(name: str) -> tuple[bytes, str]:
        try:
            with open_regular(results / name / REPORT_FILE) as file:
                found = _STARTED_AT.search(file.read(HEAD_BYTES))
        except (RecoveryError, OSError):
            found = None
        return found[1] if found else b"", name

    return sorted(session_names(results), key=started_at, reverse=True)


def _known_sessions(results: Path, name: str) -> str:
    names = session_names(results)
    if not names:
        return "there are none yet: `recovery cold-recovery`"
    return did_you_mean(name, names, otherwise=f"the newest ones: {', '.join(names[-3:])}")


@contextmanager
def writing_results(folder: Path) -> Iterator[None]:
    """Turns an OSError while results are written into an error that says what to do: a StorageFailedError if the
    storage is the cause, else a HostUnfitError."""
    try:
        yield
    except OSError as error:
        raise as_storage_error(error, WritableFolder(RESULTS, folder)) or HostUnfitError(
            f"cannot keep results in {folder}: {error.strerror or error}",
            "name a folder that can be written and has space, with --results",
        ) from error
