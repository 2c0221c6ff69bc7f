"""The commands `recovery sessions` and `recovery report`, which print stored sessions."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from recovery.analysis.combined import CombinedSession, combine_sessions
from recovery.analysis.compare import not_alike
from recovery.cli.completion import complete_session
from recovery.cli.options import Choice, table_option
from recovery.cli.output import (
    LIST_FORMAT,
    STANDARD_OUTPUT,
    escaped_text,
    make_grid,
    print_line,
    wide_console,
    write_json,
)
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.model import Status
from recovery.report import console as console_report
from recovery.report.console import ReportConsole
from recovery.report.exports import FORMATS, render_as, render_sessions
from recovery.report.html.page import PAGE
from recovery.report.json_report import schema_text, to_json
from recovery.report.write import write_reports
from recovery.session.store import SessionStore
from recovery.storage.sessions import find_session, find_sessions, load_session, session_names

PATH, SCHEMA = "path", "schema"
_FORMAT_HELP = (
    "Print it in this format; path: the path of its HTML page, schema: the JSON schema of report.json (no session is "
    "needed)."
)


@click.command()
@click.argument("session", required=False, shell_complete=complete_session)
@table_option("results")
@click.option("--format", "wanted", type=Choice((*FORMATS, PATH, SCHEMA)), help=_FORMAT_HELP)
@table_option("json", "Write report.json itself to FILE, too. Without FILE, or with -: the same as --format json.")
@click.option("--open", "opened", is_flag=True, help="Open its HTML page in a browser.")
@click.option("--write", is_flag=True, help="Also write the reports in its folder again.")
@table_option("verbose")
def report(
    session: str | None,
    results: Path,
    wanted: str | None,
    json_to: str | None,
    opened: bool,
    write: bool,
    verbose: bool,
) -> int:
    """Print a stored session again: the newest, or SESSION (a name in --results, or a folder). Its folder is changed by
    --write only. Several sessions of the same measurement, separated by commas, are reported together: means and
    intervals are then those of the sessions' means."""
    chosen = _chosen_format(wanted, json_to, opened=opened)
    if chosen == SCHEMA:
        sys.stdout.write(schema_text())
        return 0
    folders = (
        [find_session(results, None, to_write=write)]
        if session is None
        else find_sessions(results, session, to_write=write)
    )
    if len(folders) > 1:
        if write or chosen == PATH:
            option = "--write" if write else "--open" if opened else "--format path"
            raise UsageError(f"{option} is for a single session", "--format html > FILE writes a page of several")
        return _report_sessions(folders, results, chosen, json_to, verbose=verbose)
    folder = folders[0]
    if write:
        _rewrite_reports(folder)
    if json_to not in (None, STANDARD_OUTPUT):
        write_json(json_to, render_as(folder, "json"))
    if chosen == PATH:
        _print_page_path(folder, opened=opened)
    elif chosen is not None:
        # A file name that is not valid UTF-8 must not prevent the output.
        sys.stdout.write(render_as(folder, chosen).encode("utf-8", errors="replace").decode("utf-8"))
    else:
        console_report.show(load_session(folder), folder, ReportConsole(), verbose=verbose)
    return 0


def _report_sessions(
    folders: Sequence[Path], results: Path, chosen: str | None, json_to: str | None, *, verbose: bool
) -> int:
    """Prints the report of several sessions of the same measurement."""
    combined = load_sessions(folders)
    if json_to not in (None, STANDARD_OUTPUT):
        write_json(json_to, render_sessions(combined, "json"))
    if chosen is not None:
        sys.stdout.write(render_sessions(combined, chosen).encode("utf-8", errors="replace").decode("utf-8"))
    else:
        console_report.show_sessions(combined, results.absolute(), ReportConsole(), verbose=verbose)
    return 0


def load_sessions(folders: Iterable[Path]) -> CombinedSession:
    """Returns these sessions of a measurement as one, without the first start over each data directory, which older
    versions counted. Raises UsageError if they are not of the same measurement."""
    places = tuple(folders)
    names = [place.name for place in places]
    # Two hosts may have begun theirs in the same second.
    found = {place.name if names.count(place.name) == 1 else str(place): load_session(place) for place in places}
    (first, one), *others = found.items()
    for name, other in others:
        if (what := not_alike(one, other)) is not None:
            raise UsageError(
                f"{first} and {name} are not the same measurement: {what}",
                "`recovery compare A B` compares them" if one.metric == other.metric else "name sessions of one kind",
            )
    return combine_sessions(found)


def _chosen_format(wanted: str | None, json_to: str | None, *, opened: bool) -> str | None:
    """Returns the format that is asked for by --format, or by an option that implies one; None if there is none.

    Raises UsageError if two of them are different."""
    implied = {
        option: chosen
        for option, chosen, is_given in (
            ("--json", "json", json_to == STANDARD_OUTPUT),
            ("--open", PATH, opened),
        )
        if is_given
    }
    chosen = wanted or next(iter(implied.values()), None)
    for option, other in implied.items():
        if other != chosen:
            raise UsageError(f"{option} and --format {chosen} cannot be combined", "leave one of them out")
    return chosen


def _print_page_path(folder: Path, *, opened: bool) -> None:
    page = folder / PAGE
    if not page.is_file():
        raise UsageError(f"there is no {PAGE} in {folder}", "`recovery report SESSION --write` writes it")
    print_line(str(page))
    if opened and not webbrowser.open(page.as_uri()):
        raise HostUnfitError("there is no browser on this host", f"copy {page} to a host that has one")


@click.command()
@table_option("results")
@table_option("json")
def sessions(results: Path, json_to: str | None) -> int:
    """List the stored sessions, the newest last: name, status, runs and versions."""
    grid = make_grid("session", "status", "runs", "versions")
    rows: list[dict[str, object]] = []
    for name in session_names(results):
        try:
            found = load_session(results / name)
        except RecoveryError as error:
            rows.append({"session": name, "status": "damaged", "error": error.message})
            grid.add_row(escaped_text(name), "damaged", "", escaped_text(error.message))
            continue
        done, planned, versions = len(found.done), found.planned_runs, found.versions
        rows.append({"session": name, "status": found.status, "done": done, "planned": planned, "versions": versions})
        grid.add_row(*map(escaped_text, (name, found.status, f"{done} of {planned}", " ".join(versions))))
    if not rows:
        raise UsageError(f"there is no session in {results} yet", "measure something first: `recovery cold-recovery`")
    if not write_json(json_to, {"format": LIST_FORMAT, "results": str(results.absolute()), "sessions": rows}):
        wide_console().print(grid)
    return 0


def _rewrite_reports(folder: Path) -> None:
    """Writes again what is derived from the runs: the reports, and the summaries, fits and findings in report.json.

    All of them are written, so that they agree. The report.json of a session that a killed tool left behind does not
    change, because the session can be resumed."""
    store = SessionStore.resume(folder)
    if store.session.status == Status.RUNNING:
        store.release_lock()
    else:
        store.finish(to_json)
    write_reports(folder, load_session(folder))
