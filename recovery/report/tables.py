"""Selects the tables of a report and their order, and builds those with startup times and with every run.

The results come first, then every run, then the settings, the host and the servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recovery.analysis.statistics import MIN_RUNS
from recovery.analysis.summary import (
    Summary,
    baseline_of,
    is_load_session,
    mean,
    measured_runs_by_cell,
    session_summaries,
)
from recovery.linux.cgroups import limits_from_settings
from recovery.model import Limits, Run, Session, Table, is_second_start
from recovery.report import fmt
from recovery.report.load_tables import load_client_tables, load_figure_tables, load_terminal_tables
from recovery.report.settings_tables import (
    Column,
    cold_cache_notes,
    findings_tables,
    limit_columns,
    limit_notes,
    not_counted,
    requests_definition,
    runs_by_value,
    server_option_tables,
    settings_and_host_tables,
)
from recovery.report.startup_tables import (
    floor_table,
    hottest_tables,
    page_cache_notes,
    phase_table,
    scale_tables,
    stacks_tables,
    touched_table,
    warm_notes,
)

# --- Startup times of every version and variant, and their comparison with the baseline


def timing_tables(session: Session) -> Iterator[Table]:
    """Yields the table of startup times and, for several versions, the table of ratios to the baseline."""
    found = session_summaries(session)
    of_second_starts = {one.version for one in found if is_second_start(one.variant)}
    summaries = tuple(
        one for one in found if one.count or one.failed or one.void or one.version not in of_second_starts
    )
    yield _timing(session, summaries)
    if len(session.versions) > 1:
        yield _ratios(baseline_of(session), summaries)


def _timing(session: Session, summaries: Sequence[Summary]) -> Table:
    measured = {(version, variant): runs for version, variant, runs in measured_runs_by_cell(session)}
    return Table(
        title=f"{session.title}, seconds until ready for connections",
        headers=("version", "variant", "runs", "mean", "+-", "median", "min", "max", "stdev", "first query"),
        rows=tuple(_timing_row(summary, measured.get((summary.version, summary.variant), ())) for summary in summaries),
        numeric=(False, False, *(True,) * 8),
        notes=(
            "+-: half of the mean's 95 % interval, by Student's t, from "
            f"{MIN_RUNS} runs on; first query: mean time to the first answered query.",
            *_left_out(summaries),
            *warm_notes(session),
        ),
        keys=2,
    )


def _timing_row(summary: Summary, runs: tuple[Run, ...]) -> tuple[str, ...]:
    times = (
        *(summary.mean_s, summary.interval_s, summary.median_s),
        *(summary.min_s, summary.max_s, summary.stdev_s),
        mean(run.first_query_s for run in runs),
    )
    return (summary.version, summary.variant, fmt.count(summary.count), *map(fmt.seconds, times))


def _left_out(summaries: Sequence[Summary]) -> tuple[str, ...]:
    parts = [
        f"{summary.version} {summary.variant} {number} {what}"
        for summary in summaries
        for number, what in ((summary.failed, "failed"), (summary.void, "void"))
        if number
    ]
    return (f"Not counted: {', '.join(parts)}.",) if parts else ()


def _ratios(baseline: str, summaries: Sequence[Summary]) -> Table:
    return Table(
        title=f"Compared with {baseline}",
        headers=("version", "variant", "ratio", "significant"),
        rows=tuple(
            _ratio_row(one) for one in summaries if one.version != baseline and not is_second_start(one.variant)
        ),
        numeric=(False, False, True, False),
        notes=(
            f"ratio: mean over the mean of {baseline} in the same variant, from {MIN_RUNS} runs of each on with its "
            "95 % interval; significant: 1 lies outside of it.",
        ),
        keys=2,
    )


def _ratio_row(summary: Summary) -> tuple[str, ...]:
    return (
        summary.version,
        summary.variant,
        fmt.effect(summary),
        fmt.yes_or_no(summary.differs),
    )


# --- All tables of a report


def all_tables(session: Session) -> tuple[Table, ...]:
    """Returns all tables of a session, in reading order."""
    clients = load_client_tables(session) if is_load_session(session) else ()
    return (*figure_tables(session), *settings_and_host_tables(session), *clients, *server_option_tables(session))


def figure_tables(session: Session) -> tuple[Table, ...]:
    """Returns the tables of what was measured."""
    return load_figure_tables(session) if is_load_session(session) else _startup_tables(session)


def terminal_tables(session: Session) -> tuple[Table, ...]:
    """Returns the tables that are shown in a terminal."""
    return load_terminal_tables(session) if is_load_session(session) else figure_tables(session)


def _startup_tables(session: Session) -> tuple[Table, ...]:
    more = (phase_table(session), touched_table(session), floor_table(session))
    return (
        *timing_tables(session),
        *scale_tables(session),
        *(table for table in more if table is not None),
        *hottest_tables(session),
        *stacks_tables(session),
        _runs(session),
        *not_counted(session),
        *findings_tables(session),
    )


def heading(session: Session) -> str:
    """Returns the first line of the report."""
    return f"{session.scenario}: {', '.join(session.versions)}"


def status_line(session: Session) -> str:
    """Returns the status of the session: how many runs ended, when it started, and the tool version."""
    ended = len(session.runs)
    all_of_them = "1 run" if ended == 1 else f"{ended} runs"
    progress = all_of_them if ended == session.planned_runs else f"{ended} of {session.planned_runs} runs"
    return f"{session.status}, {progress}; started {session.started_at}; tool version {session.tool_version}"


def _runs(session: Session) -> Table:
    limits = limits_from_settings(session.settings)
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
        fmt.seconds(run.startup_s),
        fmt.seconds(run.first_query_s),
        fmt.size(run.read_bytes),
        fmt.count(run.read_requests),
        *(column(run) for column in more),
        fmt.seconds(run.cpu_s),
        run.verdict.value,
    )


def _run_notes(runs: tuple[Run, ...], limits: Limits, *, as_published: bool) -> tuple[str, ...]:
    """Returns the notes on units, then facts that apply to several runs and so have no separate column."""
    emptied = runs_by_value((run.cold_means, run.number) for run in runs)
    warmed = runs_by_value((run.warmups, run.number) for run in runs)
    return (
        "startup, query: seconds until the ready line, and until the first answered query; read: fetched from "
        f"storage by the server; requests: {requests_definition(limits)}; cpu: seconds of the server; MB and GB "
        "are decimal.",
        *(f"Cache emptied by {means}: {numbers}." for means, numbers in emptied.items()),
        *cold_cache_notes(runs, as_published=as_published),
        *(f"Warm-up starts that are not counted: {count} before {numbers}." for count, numbers in warmed.items()),
        *page_cache_notes(runs),
        *_container_notes(runs),
        *_rows_found_notes(runs),
        *_stacks_notes(runs),
    )


def _container_notes(runs: tuple[Run, ...]) -> tuple[str, ...]:
    """Returns a note on the time that the container engine adds, which is not part of any startup time."""
    overheads = [run.engine_overhead_s for run in runs if run.engine_overhead_s is not None]
    errors = [run.start_error_s for run in runs if run.start_error_s is not None]
    if not overheads:
        return ()
    return (
        "In containers: startup begins with the exec of the server, known to "
        f"{1000 * max(errors, default=0):.1f} ms; before it the engine took {fmt.seconds(min(overheads))} to "
        f"{fmt.seconds(max(overheads))} s, which are in no figure here.",
    )


def _rows_found_notes(runs: tuple[Run, ...]) -> tuple[str, ...]:
    """Returns a note on the acknowledged rows found after each start. It is short if all of them were found."""
    counted = [run for run in runs if run.rows_expected is not None]
    if not counted:
        return ()
    if all(run.rows_found == run.rows_expected for run in counted):
        return ("After each start that was counted every table and every acknowledged row was found.",)
    found = "; ".join(f"run {run.number} {fmt.found_of_expected(run.rows_found, run.rows_expected)}" for run in counted)
    return (f"Acknowledged rows found after the start: {found}.",)


def _stacks_notes(runs: tuple[Run, ...]) -> tuple[str, ...]:
    found = runs_by_value((run.sampled_by, run.number) for run in runs)
    return tuple(f"Stacks taken by {by} while it started, in no mean: {numbers}." for by, numbers in found.items())
