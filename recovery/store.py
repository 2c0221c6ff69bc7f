"""Where are the results, and how do they survive a crash of ours? One folder a session, one file a run as it ends."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

from pydantic import TypeAdapter

from recovery import __version__
from recovery.curves import stored_fits
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.files import draft_of, name_folder, sweep_drafts, sync_folder, write_atomically
from recovery.findings import findings
from recovery.folded import Folded, hottest, read
from recovery.host import flock
from recovery.host.ailing import RESULTS, Folder, blamed
from recovery.measures import Between, Held, Middle, between, contrasts, is_work, stored_measures
from recovery.ownership import refuse_untrusted
from recovery.planned import PLAN, Planned
from recovery.planned import to_json as plan_to_json
from recovery.readback import FORMAT, read_back
from recovery.stored import Finding, Run, Session, more_than_a_report_shows
from recovery.summary import Summary, summarised
from recovery.warm import with_second_starts

REPORT = "report.json"
LATEST = "latest"
STACKS = "stacks"
"""The folder of those that were taken."""
LOOKS = "looks"
"""The folder of what was looked at while servers were at work."""
LOCK = "running.lock"
"""Held while the session runs: one that nobody holds tells of a tool that was killed."""
_KILLED = "The tool was killed, or could write no more, before the session ended; what had ended until then is kept."
DRAFTS = r"\d{8}T\d{6}Z-[a-z0-9-]+|latest|probe|\.probe\.\d+"
"""What is half made in the folder of all sessions, which may hold files of the user's."""
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

_SESSION = TypeAdapter(Session)
_RUN = TypeAdapter(Run)
_SUMMARIES = TypeAdapter(tuple[Summary, ...])
_MEASURES = TypeAdapter(tuple[Middle, ...])
_CONTRASTS = TypeAdapter(tuple[Held, ...])
_RATIOS = TypeAdapter(tuple[Between, ...])
_FINDINGS = TypeAdapter(tuple[Finding, ...])


class SessionStore:
    """The folder of a session that is under way. Whatever `append` has returned from survives a loss of power."""

    def __init__(self, folder: Path, session: Session) -> None:
        self.folder = folder
        self.logs = folder / "logs"
        self._session = session
        self._lock: flock.Lock | None = None

    @classmethod
    def create(cls, results: Path, session: Session, *, plan: Planned | None = None) -> SessionStore:
        """Make a folder that was not there before. It gets its name once all is in it that makes it a session, so that
        there is never half of one."""
        name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{session.scenario}"
        with keeping_in(results):
            results.mkdir(parents=True, exist_ok=True)
            store = cls(draft_of(results / name), _stamped(session))
            store.folder.mkdir()
            try:
                store._take_lock()
                store.logs.mkdir()
                (store.folder / "runs").mkdir()
                if plan is not None:
                    store.keep_plan(plan)
                store._write_report()
                store._moved(name_folder(store.folder, name))
            except BaseException:
                store.discard()
                raise
            sync_folder(results)
        return store

    @classmethod
    def go_on(cls, folder: Path) -> SessionStore:
        """The folder of one that ended early. Nothing is written yet; HostUnfitError where it has not ended."""
        with keeping_in(folder):
            store = cls(folder, _read(folder))
            if not store._take_lock():
                raise still_runs(folder)
            # Once more: until it was locked another process may have written to it.
            store._session = _read(folder)
            for part in (folder, folder / "runs", folder / "logs", folder / STACKS, folder / LOOKS):
                sweep_drafts(part)
        return store

    def _take_lock(self) -> bool:
        """True also on a filesystem without locks."""
        try:
            self._lock = flock.take(self.folder / LOCK, mode=0o644)
        except OSError:
            return True
        return self._lock is not None

    def _moved(self, folder: Path) -> None:
        self.folder, self.logs = folder, folder / "logs"
        if self._lock is not None:
            self._lock.path = folder / LOCK

    def let_go(self) -> None:
        """Without a word, of one that could not go on: it ended as it had ended before."""
        if self._lock is not None:
            self._lock.release(unlink=self._session.status != "running")

    def discard(self) -> None:
        """Nothing was measured, and whoever asked for it knows why."""
        has_its_name = not self.folder.name.startswith(".")
        doomed = draft_of(self.folder) if has_its_name else self.folder
        with suppress(OSError):
            self.folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)
        self.let_go()

    def is_newest(self) -> None:
        """`latest` points at it from now on."""
        with keeping_in(self.folder.parent):
            _point_latest(self.folder.parent, self.folder.name)
            sync_folder(self.folder.parent)

    def keep_plan(self, plan: Planned) -> None:
        with keeping_in(self.folder):
            write_atomically(self.folder / PLAN, plan_to_json(plan))

    def append(self, run: Run) -> None:
        """Store a run that ended: first its own file, then the report that has them all."""
        stored = {"format": FORMAT, **_RUN.dump_python(run, mode="json")}
        with keeping_in(self.folder):
            write_atomically(self.folder / "runs" / f"{run.number:03d}.json", _json(stored))
            others = (one for one in self._session.runs if one.number != run.number)
            self._session = replace(self._session, runs=_in_order((*others, run)))
            self._write_report()

    def update(self, session: Session) -> None:
        """Store what has become known beside the runs (servers, notes, status); the runs are those appended."""
        self._session = _stamped(replace(session, runs=self._session.runs))
        with keeping_in(self.folder):
            self._write_report()

    def finish(self, session: Session) -> None:
        """The last update: a session that was not interrupted or aborted is finished."""
        written = False
        try:
            self.update(replace(session, status="finished") if session.status == "running" else session)
            written = True
        finally:
            # Left there, it tells that what is stored is not how it ended.
            if self._lock is not None:
                self._lock.release(unlink=written)

    @property
    def session(self) -> Session:
        """As stored by now."""
        return self._session

    def _write_report(self) -> None:
        write_atomically(self.folder / REPORT, to_json(self._session))


def to_json(session: Session) -> bytes:
    """A session with its summaries, as in report.json."""
    session = with_second_starts(_stamped(session))
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
    return _json(stored)


def load(folder: Path) -> Session:
    """The stored session, with the runs that a killed one had no time to put into its report."""
    session = _read(folder)
    if session.status == "running" and (folder / LOCK).exists() and flock.holder(folder / LOCK) is None:
        session = replace(session, status="aborted", notes=(*session.notes, _KILLED))
    return with_second_starts(replace(session, runs=tuple(_with_hottest(folder, run) for run in session.runs)))


def _read(folder: Path) -> Session:
    path = folder / REPORT
    if not path.is_file():
        raise UsageError(f"there is no session in {folder}", "name a folder that has a report.json")
    session = read_back(path, _SESSION)
    if not session.versions or not session.variants:
        raise RecoveryError(f"{path} is damaged: it names no version", "restore the file, or measure again")
    # One that was to be measured again may have been.
    done = session.done
    late = [run for file in (folder / "runs").glob("*.json") if (run := read_back(file, _RUN)).number not in done]
    session = replace(session, runs=_in_order({run.number: run for run in (*session.runs, *late)}.values()))
    many = more_than_a_report_shows(
        runs=len(session.runs),
        versions=len(session.versions),
        variants=len(session.variants),
        names=len({name for run in session.runs for name in (*run.measures, *(phase.name for phase in run.phases))}),
    )
    if many:
        raise RecoveryError(f"{path} has {many}", "no report is made of that many; measure fewer in one session")
    return session


def _in_order(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Of the plan: one that went on after it had ended early may have measured an earlier one later."""
    return tuple(sorted(runs, key=lambda run: run.number))


def still_runs(folder: Path) -> HostUnfitError:
    who = flock.holder(folder / LOCK) or "another process"
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


def check_results_folder(results: Path) -> None:
    """Before hours of work: can anything be kept here? Makes the folder, writes a file, and takes it away again."""
    with keeping_in(results):
        if os.geteuid() == 0:
            refuse_untrusted(results, "what root writes there could land elsewhere: name another folder with RESULTS=")
        results.mkdir(parents=True, exist_ok=True)
        probe = draft_of(results / "probe")
        try:
            write_atomically(probe, b"x" * 4096)
        finally:
            probe.unlink(missing_ok=True)


def _stamped(session: Session) -> Session:
    return session if session.tool_version else replace(session, tool_version=__version__)


def _point_latest(results: Path, name: str) -> None:
    link = results / LATEST
    draft = draft_of(link)
    draft.unlink(missing_ok=True)
    draft.symlink_to(name)
    draft.replace(link)


def _json(stored: dict[str, Any]) -> bytes:
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
