from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from pydantic import TypeAdapter

from recovery import __version__
from recovery.analysis.growth import stored_fits
from recovery.analysis.stacks import Folded, hottest, read
from recovery.analysis.summary import (
    Between,
    Held,
    Middle,
    Summary,
    between,
    contrasts,
    is_work,
    stored_measures,
    summarised,
)
from recovery.analysis.warm import with_second_starts
from recovery.analysis.warnings import findings
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux import locks
from recovery.linux.files import FORMAT, read_back
from recovery.linux.storage import RESULTS, Folder, blamed
from recovery.model import Finding, Run, Session, more_than_a_report_shows

# Where are the results, and how do they survive a crash of ours? One folder a session, one file a run as it ends.

REPORT = "report.json"
LATEST = "latest"
STACKS = "stacks"
"""The folder of those that were taken."""
LOCK = "running.lock"
"""Held while the session runs: one that nobody holds tells of a tool that was killed."""
_KILLED = "The tool was killed, or could write no more, before the session ended; what had ended until then is kept."
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

_SESSION = TypeAdapter(Session)
RUN_TYPE = TypeAdapter(Run)
_SUMMARIES = TypeAdapter(tuple[Summary, ...])
_MEASURES = TypeAdapter(tuple[Middle, ...])
_CONTRASTS = TypeAdapter(tuple[Held, ...])
_RATIOS = TypeAdapter(tuple[Between, ...])
_FINDINGS = TypeAdapter(tuple[Finding, ...])


def to_json(session: Session) -> bytes:
    """A session with its summaries, as in report.json."""
    session = with_second_starts(stamped(session))
    body = _SESSION.dump_python(session, mode="json")
    runs = body.pop("runs")
    stored = {"format": FORMAT, "tool_version": body.pop("tool_version"), **body, "runs": runs}
    # Of servers at work there are as many figures as were taken, and summaries are those of starts.
    stored["summaries"] = _SUMMARIES.dump_python(() if is_work(session) else summarised(session), mode="json")
    if is_work(session):
        stored["measures"] = _MEASURES.dump_python(stored_measures(session), mode="json")
        stored["contrasts"] = _CONTRASTS.dump_python(contrasts(session), mode="json")
        stored["ratios"] = _RATIOS.dump_python(between(session), mode="json")
    stored["fits"] = stored_fits(session)
    stored["findings"] = _FINDINGS.dump_python(findings(session), mode="json")
    return json_bytes(stored)


def load(folder: Path) -> Session:
    """The stored session, with the runs that a killed one had no time to put into its report."""
    session = read_session(folder)
    if session.status == "running" and (folder / LOCK).exists() and locks.holder(folder / LOCK) is None:
        session = replace(session, status="aborted", notes=(*session.notes, _KILLED))
    return with_second_starts(replace(session, runs=tuple(_with_hottest(folder, run) for run in session.runs)))


def read_session(folder: Path) -> Session:
    path = folder / REPORT
    if not path.is_file():
        raise UsageError(f"there is no session in {folder}", "name a folder that has a report.json")
    session = read_back(path, _SESSION)
    if not session.versions or not session.variants:
        raise RecoveryError(f"{path} is damaged: it names no version", "restore the file, or measure again")
    # One that was to be measured again may have been.
    done = session.done
    late = [run for file in (folder / "runs").glob("*.json") if (run := read_back(file, RUN_TYPE)).number not in done]
    session = replace(session, runs=in_plan_order({run.number: run for run in (*session.runs, *late)}.values()))
    many = more_than_a_report_shows(
        runs=len(session.runs),
        versions=len(session.versions),
        variants=len(session.variants),
        names=len({name for run in session.runs for name in (*run.measures, *(phase.name for phase in run.phases))}),
    )
    if many:
        raise RecoveryError(f"{path} has {many}", "no report is made of that many; measure fewer in one session")
    return session


def in_plan_order(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Of the plan: one that went on after it had ended early may have measured an earlier one later."""
    return tuple(sorted(runs, key=lambda run: run.number))


def still_runs(folder: Path) -> HostUnfitError:
    who = locks.holder(folder / LOCK) or "another process"
    return HostUnfitError(
        f"the session {folder.name} is going on just now: {who}",
        "wait until it ends; `recovery status` tells where it is",
    )


def _with_hottest(folder: Path, run: Run) -> Run:
    """An older tool has kept the stacks alone."""
    folded = None if run.hottest else stacks_of(folder, run)
    return run if folded is None else replace(run, hottest=hottest(folded))


def stacks_of(folder: Path, run: Run) -> Folded | None:
    """None where none were taken, or a session was copied without them. Whoever sent this session may have written any
    path into it: only what lies in this folder is read."""
    name = PurePath(run.stacks or "").name
    try:
        return read((folder / STACKS / name).read_text(encoding="utf-8", errors="replace")) if name else None
    except (OSError, ValueError):
        return None


def find(results: Path, name: str | None) -> Path:
    """The folder of the session called so, in `results` or anywhere by its path; None is the newest one."""
    if name is not None:
        for folder in (results / name, Path(name)):
            if name and (folder / REPORT).is_file():
                return folder.resolve()
        raise UsageError(f"there is no session '{name}' in {results}", _known_sessions(results))
    if (results / LATEST / REPORT).is_file():
        return (results / LATEST).resolve()
    # A copied results folder may have lost the link; the names sort by time.
    names = session_names(results)
    if not names:
        raise UsageError(f"there is no session in {results} yet", "measure something first: `make cold-recovery`")
    return (results / names[-1]).resolve()


def stamped(session: Session) -> Session:
    return session if session.tool_version else replace(session, tool_version=__version__)


def json_bytes(stored: dict[str, Any]) -> bytes:
    text = escape_control_characters(json.dumps(stored, indent=2, ensure_ascii=False)) + "\n"
    # A file name that is no UTF-8 must not cost the session its results.
    return text.encode("utf-8", errors="replace")


def escape_control_characters(text: str) -> str:
    r"""Returns JSON that means the same, with `\u009b` and the like for each character that a terminal obeys."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def session_names(results: Path) -> list[str]:
    """The newest last."""
    return sorted(path.parent.name for path in results.glob(f"*/{REPORT}") if path.parent.name != LATEST)


def _known_sessions(results: Path) -> str:
    names = session_names(results)
    return f"the newest ones: {', '.join(names[-3:])}" if names else "there are none yet: `make cold-recovery`"


@contextmanager
def keeping_in(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise blamed(RecoveryError("no results can be kept there"), Folder(RESULTS, folder)) or HostUnfitError(
            f"cannot keep results in {folder}: {error.strerror or error}",
            "name a folder that can be written and has space, with RESULTS= or --results",
        ) from error
