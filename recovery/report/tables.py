"""Which tables is a report made of? The numbers first, then every run, then what was measured on what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from recovery.limited import limits_of
from recovery.model import Limits
from recovery.report import figures
from recovery.report.doubts import findings_tables
from recovery.report.floor import floor_table
from recovery.report.limited import Column, limit_columns, limit_notes, requests_are
from recovery.report.phases import phase_table
from recovery.report.scale import scale_tables
from recovery.report.stacks import stacks_tables
from recovery.report.timing import timing_tables
from recovery.report.touched import touched_table
from recovery.stored import Run, Session, Table

_FINGERPRINTS = ("sha256", "fingerprint")
_FINGERPRINT_LENGTH = 12
"""Enough of a SHA-256 to tell two builds apart; report.json has all of it."""


def tables(session: Session) -> tuple[Table, ...]:
    """All tables of a session, in reading order."""
    about = (_facts("Settings", session.settings), _facts("Host", session.environment))
    return (
        *figures_of(session),
        *about,
        *(_server(version, session.servers[version]) for version in session.servers),
    )


def figures_of(session: Session) -> tuple[Table, ...]:
    """What was measured: the part that a terminal shows."""
    more = (phase_table(session), touched_table(session), floor_table(session))
    found = [
        *timing_tables(session),
        *scale_tables(session),
        *(table for table in more if table is not None),
        *stacks_tables(session),
        _runs(session),
    ]
    if not all(run.verdict.as_asked for run in session.runs):
        found.append(_not_counted(session))
    return (*found, *findings_tables(session))


def heading(session: Session) -> str:
    """The report's first line."""
    return f"{session.scenario}: {', '.join(session.versions)}"


def state(session: Session) -> str:
    """When it was, by which tool, and how far it came."""
    ended = len(session.runs)
    all_of_them = "1 run" if ended == 1 else f"{ended} runs"
    progress = all_of_them if ended == session.planned_runs else f"{ended} of {session.planned_runs} runs"
    return f"{session.status}, {progress}; started {session.started_at}; tool version {session.tool_version}"


def _runs(session: Session) -> Table:
    limits = limits_of(session.settings)
    columns = limit_columns(limits)
    return Table(
        title="Every run",
        headers=(
            "#",
            "version",
            "variant",
            "startup",
            "query",
            "read",
            "requests",
            *columns,
            "cpu",
            "verdict",
        ),
        rows=tuple(_run_row(run, tuple(columns.values())) for run in session.runs),
        numeric=(True, False, False, *(True,) * (5 + len(columns)), False),
        notes=(
            *_run_notes(session.runs, limits, as_published=bool(session.settings.get("as_published"))),
            *limit_notes(limits),
        ),
    )


def _run_row(run: Run, more: tuple[Column, ...]) -> tuple[str, ...]:
    return (
        str(run.number),
        run.version,
        run.variant,
        figures.seconds(run.startup_s),
        figures.seconds(run.first_query_s),
        figures.size(run.read_bytes),
        figures.count(run.read_requests),
        *(column(run) for column in more),
        figures.seconds(run.cpu_s),
        run.verdict.value,
    )


def _run_notes(runs: tuple[Run, ...], limits: Limits, *, as_published: bool) -> tuple[str, ...]:
    """Units, then what holds for several runs: better said once than in a column of its own."""
    emptied = _grouped((run.cold_means, run.number) for run in runs)
    warmed = _grouped((run.warmups, run.number) for run in runs)
    return (
        "startup, query: seconds until the ready line, and until the first answered query; read: fetched from "
        f"storage by the server; requests: {requests_are(limits)}; cpu: seconds of the server; MB and GB "
        "are decimal.",
        *(f"Cache emptied by {means}: {numbers}." for means, numbers in emptied.items()),
        *_left_in_cache(runs, as_published=as_published),
        *(f"Warm-up starts that are not counted: {count} before {numbers}." for count, numbers in warmed.items()),
        *_engine(runs),
        *_contents(runs),
        *_sampled(runs),
    )


def _engine(runs: tuple[Run, ...]) -> tuple[str, ...]:
    """What a container adds, apart: it is in no startup."""
    overheads = [run.engine_overhead_s for run in runs if run.engine_overhead_s is not None]
    errors = [run.start_error_s for run in runs if run.start_error_s is not None]
    if not overheads:
        return ()
    return (
        "In containers: startup begins with the exec of the server, known to "
        f"{1000 * max(errors, default=0):.1f} ms; before it the engine took {figures.seconds(min(overheads))} to "
        f"{figures.seconds(max(overheads))} s, which are in no figure here.",
    )


def _left_in_cache(runs: tuple[Run, ...], *, as_published: bool) -> tuple[str, ...]:
    """The proof of a cold start."""
    notes = []
    emptied = [run for run in runs if run.cold_means]
    left = [run.resident_before_bytes for run in emptied if run.resident_before_bytes is not None]
    if left:
        most = figures.size(max(left))
        notes.append(f"Bytes of the data directory found in the emptied cache before a start: {most} at most.")
    if len(left) < len(emptied) and not as_published:
        notes.append(f"Not proved to be cold, since the host does not tell: {len(emptied) - len(left)} starts.")
    return tuple(notes)


def _contents(runs: tuple[Run, ...]) -> tuple[str, ...]:
    """What came back: short, where it is all that was acknowledged."""
    counted = [run for run in runs if run.rows_expected is not None]
    if not counted:
        return ()
    if all(run.rows_found == run.rows_expected for run in counted):
        return ("After each start that was counted every table and every acknowledged row was found.",)
    found = "; ".join(f"run {run.number} {figures.of(run.rows_found, run.rows_expected)}" for run in counted)
    return (f"Acknowledged rows found after the start: {found}.",)


def _sampled(runs: tuple[Run, ...]) -> tuple[str, ...]:
    found = _grouped((run.sampled_by, run.number) for run in runs)
    return tuple(f"Stacks taken by {by} while it started, in no mean: {numbers}." for by, numbers in found.items())


def _grouped(pairs: Iterable[tuple[str | int | None, int]]) -> dict[str | int, str]:
    """`run 1, 4, 5` by what holds for them; what is None or 0 holds for nobody."""
    numbers: dict[str | int, list[str]] = {}
    for key, number in pairs:
        if key:
            numbers.setdefault(key, []).append(str(number))
    return {key: f"run{'s' if len(found) > 1 else ''} {', '.join(found)}" for key, found in numbers.items()}


def _not_counted(session: Session) -> Table:
    left_out = [run for run in session.runs if not run.verdict.as_asked]
    return Table(
        title="Not counted",
        headers=("#", "version", "variant", "verdict", "reason"),
        rows=tuple(
            (str(run.number), run.version, run.variant, run.verdict.value, _reason_and_log(run)) for run in left_out
        ),
        numeric=(True, False, False, False, False),
        notes=("failed: the server did not come back; void: it did something else than what was asked.",),
    )


def _reason_and_log(run: Run) -> str:
    reason = run.reason or "no reason was stored"
    return f"{reason} ({run.log})" if run.log else reason


def _facts(title: str, facts: Mapping[str, str | int | float | bool | None]) -> Table:
    return Table(
        title=title,
        headers=("what", "value"),
        rows=tuple(figures.fact(key, value) for key, value in facts.items()),
        numeric=(False, False),
    )


def _server(version: str, said: Mapping[str, str]) -> Table:
    """Names of options stay as the server spells them: they are looked up in its manual."""
    return Table(
        title=f"Server {version}",
        headers=("what", "value"),
        rows=tuple((key, _short(value) if key in _FINGERPRINTS else value or "(empty)") for key, value in said.items()),
        numeric=(False, False),
        notes=("@: the value in effect, asked from the server.",) if any(key.startswith("@") for key in said) else (),
    )


def _short(fingerprint: str) -> str:
    return fingerprint[:_FINGERPRINT_LENGTH]
