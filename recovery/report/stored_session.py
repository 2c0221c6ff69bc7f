"""Reads stored sessions, serializes sessions as JSON, and finds them in the results folder.

A session has one folder. Each run is written to a file there as soon as it ends, so that the results survive a crash of
the tool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path, PurePath
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from recovery import __version__
from recovery.analysis.growth import stored_fits
from recovery.analysis.stacks import Folded, hottest_functions, parse_folded
from recovery.analysis.summary import all_variant_ratios, stored_startup_summaries, stored_summaries, version_ratios
from recovery.analysis.warm import rename_second_starts
from recovery.analysis.warnings import findings
from recovery.errors import HostUnfitError, RecoveryError, UsageError, did_you_mean
from recovery.linux import locks
from recovery.linux.files import STORED_FORMAT, read_limited, read_stored
from recovery.linux.storage import RESULTS, WritableFolder, as_storage_error
from recovery.model import CACHE_AXIS, STARTUP_METRIC, TABLES_AXIS, Run, Session, Status, Timeline, exceeded_limit
from recovery.report.summary_text import answers

REPORT_FILE = "report.json"
LATEST_LINK = "latest"
STACKS_FOLDER = "stacks"
"""Name of the folder for the folded stacks of sampled runs."""
_MAX_STACKS_BYTES = 256 << 20
LOCK_FILE = "running.lock"
"""Name of the lock file, which is locked while the session runs. If the file exists but nobody holds the lock, the tool
was killed."""
_KILLED_NOTE = "The tool was killed or could not write before the session ended. All finished runs are kept."
_TERMINAL_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


# --- The stored layout of runs: flat, with the metrics of a start among the fields


@dataclass(frozen=True)
class StartTimeline(Timeline):
    """Samples of a starting server, taken every few tenths of a second: columns of equal length, each counted from just
    before exec. An empty column is a figure that this host does not provide."""

    at_s: tuple[float, ...]
    """Time of each sample."""
    columns: Annotated[dict[str, tuple[float | None, ...]], Field(exclude=True)] = field(default_factory=dict)
    read_bytes: tuple[int, ...] = ()
    """Bytes fetched from storage for the server."""
    read_requests: tuple[int, ...] = ()
    """Reads for the server. Empty if others read from the device, too."""
    cpu_s: tuple[float, ...] = ()
    """CPU time of the server."""
    others_cpu_s: tuple[float, ...] = ()
    """CPU time of processes other than the server and this tool."""


_COUNTERS = ("read_bytes", "read_requests", "cpu_s", "others_cpu_s")


@dataclass(frozen=True)
class Series:
    """One figure of a server under load, with a value for each sample."""

    name: str
    """Its name, as in `measures`: `qps`, `table_open_cache_misses_per_s`."""
    values: tuple[float | None, ...]
    """One value for each sample; for a counter, its growth per second since the previous sample. None if not taken."""


@dataclass(frozen=True)
class LoadTimeline(Timeline):
    """Samples of a server under load, taken about every second: columns of equal length."""

    at_s: tuple[float, ...]
    """Time of each sample since the measurement began; the warm-up is before 0."""
    columns: Annotated[dict[str, tuple[float | None, ...]], Field(exclude=True)] = field(default_factory=dict)
    series: tuple[Series, ...] = ()
    """The figures that a report draws; all samples are in the file `raw` of the run."""


@dataclass(frozen=True)
class StoredRun(Run):
    metrics: Annotated[dict[str, float], Field(exclude=True)] = field(default_factory=dict, hash=False)
    startup_s: float | None = None
    """Time from the exec of the server until its own ready line."""
    first_query_s: float | None = None
    """Time from the exec of the server until the first answered query."""
    read_bytes: int | None = None
    """Bytes fetched from storage for the server, until the first answered query."""
    read_requests: int | None = None
    """Reads for the server in that time. None if others read from the device, too: over a twentieth of its bytes."""
    cpu_s: float | None = None
    """CPU time of the server, user and system."""
    reads_per_s: float | None = None
    """`read_requests` divided by the time in which they were counted, from exec to the first answered query."""
    group_memory_bytes: int | None = None
    """Memory of the server's control group at the first answered query, page cache included; None without limits."""
    peak_memory_bytes: int | None = None
    """Largest resident memory of the server until the first answered query."""
    shutdown_s: float | None = None
    """Time from SIGTERM to the exit of the server, in the clean shutdown that ends the run."""
    redo_bytes: int | None = None
    """Bytes of redo that the start had to read: from the last checkpoint to the end of the log, before the start."""
    before_start_s: float | None = None
    """Time of the command BEFORE_START, which ended with exit code 0 before the start; None without one."""
    timeline: StartTimeline | None = None
    """The course of the start, sample by sample."""
    watched: LoadTimeline | None = None
    """The course of the load, sample by sample."""
    measures: dict[str, float] = field(default_factory=dict, hash=False)
    """All figures of a run that measured others than these, by name, with units at the end of names: `qps`,
    `latency_p99_ms`, `elapsed_s`."""


# Its name and description in the JSON schema.
StoredRun.__name__, StoredRun.__doc__ = Run.__name__, Run.__doc__
_FLAT = tuple(one.name for one in fields(StoredRun)[len(fields(Run)) : -2])
"""Metrics that are fields of a stored run."""
_COUNTS = ("read_bytes", "read_requests", "group_memory_bytes", "peak_memory_bytes", "redo_bytes")
_FIRST = ("number", "version", "flavor", "variant", "repeat", "verdict", "reason", "started_at", *_FLAT)
_KEYS = tuple(one.name for one in fields(Run) if one.name != "metrics")
_BEFORE_WATCHED = (*_FIRST, *_KEYS[: _KEYS.index("timeline") + 1])
"""The first keys of a stored run, in their order."""


@dataclass(frozen=True)
class StoredSession(Session):
    runs: tuple[StoredRun, ...] = ()
    """All finished runs, in their order."""


_SESSION = TypeAdapter(StoredSession)
_RUN = TypeAdapter(StoredRun)


def stored_fields(run: Run) -> dict[str, Any]:
    """Returns the fields of a run as they are stored, but with the values of Python."""
    own = {one.name: getattr(run, one.name) for one in fields(Run)}
    flat = {name: run.metrics.get(name) for name in _FLAT}
    flat |= {name: round(value) for name in _COUNTS if (value := flat[name]) is not None}
    measures = {} if run.metrics.keys() <= flat.keys() else run.metrics
    return {**own, **flat, **_stored_timeline(run), "measures": measures}


def _stored_timeline(run: Run) -> dict[str, Any]:
    samples = run.timeline
    if samples is None:
        return {"timeline": None, "watched": None}
    if samples.columns.keys() <= set(_COUNTERS) and STARTUP_METRIC in run.metrics:
        counters: dict[str, Any] = {**samples.columns}
        return {"timeline": StartTimeline(samples.at_s, **counters), "watched": None}
    series = tuple(Series(name, values) for name, values in samples.columns.items())
    return {"timeline": None, "watched": LoadTimeline(samples.at_s, series=series)}


def _timeline_of(stored: StoredRun) -> Timeline | None:
    if stored.watched is not None:
        return Timeline(stored.watched.at_s, {one.name: one.values for one in stored.watched.series})
    if stored.timeline is None:
        return None
    columns = ((name, getattr(stored.timeline, name)) for name in _COUNTERS)
    return Timeline(stored.timeline.at_s, {name: values for name, values in columns if values})


def _run_of(stored: StoredRun) -> Run:
    own = {one.name: getattr(stored, one.name) for one in fields(Run)}
    flat = {name: value for name in _FLAT if (value := getattr(stored, name)) is not None}
    return Run(**own | {"metrics": flat | stored.measures, "timeline": _timeline_of(stored)})


def read_run(path: Path) -> Run:
    return _run_of(read_stored(path, _RUN))


def run_to_json(run: Run) -> bytes:
    return json_bytes({"format": STORED_FORMAT, **_dumped(run)})


def _dumped(run: Run) -> dict[str, Any]:
    found = _RUN.dump_python(StoredRun(**stored_fields(run)), mode="json")
    return {**{name: found[name] for name in (*_BEFORE_WATCHED, "watched")}, **found}


# --- Sessions


def to_json(session: Session) -> bytes:
    """Returns the contents of report.json: the session with its answer, summaries, fits and findings."""
    session = rename_second_starts(with_tool_version(session))
    body = stored_body(session)
    runs = body.pop("runs")
    head = {"format": STORED_FORMAT, "tool_version": body.pop("tool_version"), "answer": answers(session)}
    stored = {**head, **body, "runs": runs}
    # Summaries of startups have a format of their own; those of all other metrics are under `measures`.
    if session.figure == STARTUP_METRIC:
        stored["summaries"] = stored_startup_summaries(session)
    else:
        stored |= {"summaries": [], "measures": stored_summaries(session)}
    stored["contrasts"] = [asdict(one) for one in all_variant_ratios(session)]
    stored["ratios"] = [asdict(one) for one in version_ratios(session)]
    stored["fits"] = stored_fits(session)
    stored["findings"] = [asdict(one) for one in findings(session)]
    return json_bytes(stored)


def stored_body(session: Session) -> dict[str, Any]:
    """Returns the fields of a session as they are stored, without what a report computes from them."""
    without_runs = StoredSession(**_fields_of(session) | {"runs": ()})
    return {**_SESSION.dump_python(without_runs, mode="json"), "runs": list(map(_dumped, session.runs))}


def _fields_of(session: Session) -> dict[str, Any]:
    return {one.name: getattr(session, one.name) for one in fields(Session)}


def load_session(folder: Path) -> Session:
    """Returns the stored session, including runs that are not in its report because the tool was killed."""
    session = read_session(folder)
    lock = folder / LOCK_FILE
    if session.status == Status.RUNNING and lock.exists() and locks.lock_holder(lock) is None:
        session = replace(session, status=Status.ABORTED.value, notes=(*session.notes, _KILLED_NOTE))
    return rename_second_starts(replace(session, runs=tuple(_with_hottest(folder, run) for run in session.runs)))


def read_session(folder: Path) -> Session:
    """Reads the session from report.json and from the files of its runs. Raises UsageError if there is none, and
    RecoveryError if it is damaged or too large for a report."""
    path = folder / REPORT_FILE
    if not path.is_file():
        raise UsageError(f"there is no session in {folder}", "name a folder that has a report.json")
    stored = read_stored(path, _SESSION)
    session = with_axis_values(Session(**_fields_of(stored) | {"runs": tuple(map(_run_of, stored.runs))}))
    if not session.versions or not session.variants:
        raise RecoveryError(f"{path} is damaged: it names no version", "restore the file, or measure again")
    # A run that was to be repeated may have been measured again after the report was written.
    done = session.done
    late = [run for file in (folder / "runs").glob("*.json") if (run := read_run(file)).number not in done]
    session = replace(session, runs=in_plan_order({run.number: run for run in (*session.runs, *late)}.values()))
    many = exceeded_limit(
        runs=len(session.runs),
        versions=len(session.versions),
        variants=len(session.variants),
        names=len({name for run in session.runs for name in (*run.metrics, *(phase.name for phase in run.phases))}),
    )
    if many:
        raise RecoveryError(f"{path} has {many}", "no report is made of that many; measure fewer in one session")
    return session


def with_axis_values(session: Session) -> Session:
    """Returns a session of starts with the values of its variants on the axes cache and tables.

    Earlier versions stored these only in the names: `cold`, `warm-small-20000`."""
    if session.figure != STARTUP_METRIC or any(CACHE_AXIS in values for values in session.cells.values()):
        return session
    points = str(session.settings.get("points") or "").split()
    cells = {}
    for name in session.variants:
        first, *_, last = name.split("-") if "-" in name else (name, "")
        tables = {TABLES_AXIS: last} if last in points else {}
        cells[name] = {CACHE_AXIS: first, **tables, **session.cells.get(name, {})}
    return replace(session, cells=cells)


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


def _with_hottest(folder: Path, run: Run) -> Run:
    """Returns the run with its hottest functions. Older tool versions stored only the stacks."""
    folded = None if run.hottest else load_stacks(folder, run)
    return run if folded is None else replace(run, hottest=hottest_functions(folded))


def load_stacks(folder: Path, run: Run) -> Folded | None:
    """Returns the folded stacks of a run, or None if there are none or the session was copied without them.

    A session from someone else may contain any path, so that only files in the session's own folder are read.
    """
    name = PurePath(run.stacks or "").name
    try:
        return (
            parse_folded(read_limited(folder / STACKS_FOLDER / name, _MAX_STACKS_BYTES).decode(errors="replace"))
            if name
            else None
        )
    except (OSError, ValueError, UsageError):
        return None


def find_session(results: Path, name: str | None) -> Path:
    """Returns the folder of a session. `name` is a session in `results`, a path, or None for the newest session."""
    if name is not None:
        for folder in (results / name, Path(name)):
            if name and (folder / REPORT_FILE).is_file():
                return folder.resolve()
        raise UsageError(f"there is no session '{name}' in {results}", _known_sessions(results, name))
    if (results / LATEST_LINK / REPORT_FILE).is_file():
        return (results / LATEST_LINK).resolve()
    # A copied results folder may have lost the link `latest`; the names sort by time.
    names = session_names(results)
    if not names:
        raise UsageError(f"there is no session in {results} yet", "measure something first: `recovery cold-recovery`")
    return (results / names[-1]).resolve()


def with_tool_version(session: Session) -> Session:
    return session if session.tool_version else replace(session, tool_version=__version__)


def json_bytes(stored: dict[str, Any]) -> bytes:
    text = escape_control_characters(json.dumps(stored, indent=2, ensure_ascii=False)) + "\n"
    # The results must not be lost because a file name is not valid UTF-8.
    return text.encode("utf-8", errors="replace")


def escape_control_characters(text: str) -> str:
    r"""Returns JSON with the same meaning, in which each character that a terminal obeys is escaped, as in `\u009b`."""
    return _TERMINAL_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def session_names(results: Path) -> list[str]:
    """Returns the names of all sessions in the results folder, the newest last."""
    return sorted(path.parent.name for path in results.glob(f"*/{REPORT_FILE}") if path.parent.name != LATEST_LINK)


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
            "name a folder that can be written and has space, with RESULTS=",
        ) from error
