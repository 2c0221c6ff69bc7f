"""Contains the commands versions, datadirs, sessions, report, schema and completion, which start no server."""

from __future__ import annotations

import os
import platform
import sys
import webbrowser
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class
from rich.table import Table as Grid

from recovery.analysis.combined import CombinedSession, combine_sessions
from recovery.analysis.compare import not_alike
from recovery.analysis.history import first_sessions_of, without_first_starts
from recovery.builds.catalog import PINNED_FOR
from recovery.builds.resolve import DEBIAN_NAMES, available_servers
from recovery.cli.completion import COMPLETE_VARIABLE, complete_session
from recovery.cli.naming import Layers
from recovery.cli.options import Choice, table_option
from recovery.cli.output import STANDARD_OUTPUT, escaped_text, print_line, write_json
from recovery.cli.parse import schema_of_options
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux.files import default_data_dir
from recovery.model import Status
from recovery.mysqld.datadir import DataDirs
from recovery.report import console as console_report
from recovery.report.console import ReportConsole
from recovery.report.exports import FORMATS, render_as, render_sessions
from recovery.report.html.page import PAGE
from recovery.report.json_report import schema_text, to_json
from recovery.report.write import write_reports
from recovery.session.store import SessionStore
from recovery.storage.sessions import find_session, find_sessions, load_session, session_names
from recovery.workload.schema import checked_script_size, render_script

# --- Layout of printed tables, also used by other commands


def make_grid(*headers: str) -> Grid:
    grid = Grid(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for header in headers:
        grid.add_column(header, justify="right" if header == "size" else "left", overflow="fold")
    return grid


def wide_console() -> ReportConsole:
    """Returns a console as wide as the terminal. In a pipe it has 250 columns, so that each row is one line."""
    return ReportConsole(width=None if sys.stdout.isatty() else 250)


def size_text(count: int | None) -> str:
    return "-" if count is None else f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


# --- The commands


FORMAT = 1
"""Format of the JSON of lists."""
PATH, SCHEMA = "path", "schema"
_FORMAT_HELP = (
    "Print it in this format; path: the path of its HTML page, schema: the JSON schema of report.json (no session is "
    "needed)."
)


def refuse_json_before_subcommand(context: click.Context, json_to: str | None) -> None:
    if json_to is not None:
        what = f"recovery {context.info_name} {context.invoked_subcommand}"
        raise UsageError(
            f"--json has no effect before {context.invoked_subcommand}", f"`{what} --help` has its options"
        )


@click.command()
@table_option("json")
def versions(json_to: str | None) -> int:
    """List the servers that are available, their sources, and which are in the cache."""
    found = available_servers()
    if write_json(json_to, {"format": FORMAT, "versions": [asdict(offer) for offer in found]}):
        return 0
    grid = make_grid("version", "in cache", "size", "source")
    for offer in found:
        grid.add_row(
            escaped_text(offer.version),
            "yes" if offer.cached else "no",
            size_text(offer.bytes),
            escaped_text(offer.source),
        )
    console = wide_console()
    console.print(grid)
    if (machine := platform.machine()) != PINNED_FOR:
        console.print(f"This host is {machine}; the servers of the catalog that are for {PINNED_FOR} are not listed.")
    as_given = Layers(environment=os.environ).rename
    console.print(
        as_given("Other releases of MySQL, MariaDB and Percona Server (percona-8.0.36) are fetched from the vendor's ")
        + as_given("archive, or with ARCHIVE= from a mirror of it. MYSQLD= is your own server.")
    )
    console.print(
        as_given("With a Docker engine also images of a registry (mysql:, mariadb:, percona:), or with REGISTRY= of a ")
        + as_given(f"mirror of it; {', '.join(DEBIAN_NAMES)} (Debian's current releases); and your own with IMAGE=: ")
        + "`recovery images` lists them."
    )
    return 0


@click.group(invoke_without_command=True)
@table_option("data", "The folder of the data directories.")
@table_option("json")
@click.pass_context
def datadirs(context: click.Context, data: Path | None, json_to: str | None) -> int:
    """List the data directories that are kept for the next run, with their sizes."""
    context.obj = DataDirs((data or default_data_dir()).absolute())
    if context.invoked_subcommand is None:
        return _list_datadirs(context.obj, json_to)
    refuse_json_before_subcommand(context, json_to)
    return 0


def _list_datadirs(directories: DataDirs, json_to: str | None) -> int:
    found = directories.list()
    rows = [asdict(info) for info in found]
    if write_json(json_to, {"format": FORMAT, "data": str(directories.root), "datadirs": rows}):
        return 0
    console = wide_console()
    if not found:
        console.print(escaped_text(f"no data directories in {directories.root}"), soft_wrap=True)
        return 0
    grid = make_grid("key", "state", "tables", "size", "used by")
    for info in found:
        grid.add_row(
            info.key, info.status, str(info.tables or "-"), size_text(info.bytes), escaped_text(info.busy_by or "-")
        )
    console.print(grid)
    console.print(escaped_text(f"in {directories.root}; `recovery datadirs remove KEY` removes one"), soft_wrap=True)
    return 0


@datadirs.command("list")
@table_option("json")
@click.pass_obj
def datadirs_list(directories: DataDirs, json_to: str | None) -> int:
    """List the data directories."""
    return _list_datadirs(directories, json_to)


@datadirs.command("remove")
@click.argument("keys", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Remove all that are not in use.")
@table_option("data", "The folder of the data directories.")
@click.pass_obj
def datadirs_remove(directories: DataDirs, keys: tuple[str, ...], everything: bool, data: Path | None) -> int:
    """Remove data directories by key."""
    directories = DataDirs(data.absolute()) if data else directories
    if bool(keys) == everything:
        raise UsageError("give either keys or --all", "`recovery datadirs` lists the keys")
    found = directories.list() if everything else ()
    busy = {info.key: info.busy_by for info in found if info.busy_by}
    chosen = keys or tuple(info.key for info in found if info.key not in busy)
    for key in chosen:
        directories.remove(key)
        print_line(f"removed {key}")
    for key in busy if everything else ():
        print_line(f"kept {key}: in use by {busy[key]}")
    return 0


@click.command()
@click.argument("session", required=False, shell_complete=complete_session)
@table_option("results")
@click.option("--format", "wanted", type=Choice((*FORMATS, PATH, SCHEMA)), help=_FORMAT_HELP)
@table_option("json", "Write report.json itself to FILE, too. Without FILE, or with -: the same as --format json.")
@click.option("--html", "as_path", is_flag=True, hidden=True, help="The same as --format path.")
@click.option("--open", "opened", is_flag=True, help="Open its HTML page in a browser.")
@click.option("--write", is_flag=True, help="Also write the reports in its folder again.")
@click.option("--schema", "as_schema", is_flag=True, hidden=True, help="The same as --format schema.")
@table_option("verbose")
def report(
    session: str | None,
    results: Path,
    wanted: str | None,
    json_to: str | None,
    as_path: bool,
    opened: bool,
    write: bool,
    as_schema: bool,
    verbose: bool,
) -> int:
    """Print a stored session again: the newest, or SESSION (a name in --results, or a folder). Its folder is changed by
    --write only. Several sessions of the same measurement, separated by commas, are reported together: means and
    intervals are then those of the sessions' means."""
    chosen = SCHEMA if as_schema else _chosen_format(wanted, json_to, as_path=as_path, opened=opened)
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
    began = first_sessions_of(found.values())
    return combine_sessions({name: without_first_starts(session, began) for name, session in found.items()})


def _chosen_format(wanted: str | None, json_to: str | None, *, as_path: bool, opened: bool) -> str | None:
    """Returns the format that is asked for by --format, or by an option that implies one; None if there is none.

    Raises UsageError if two of them are different."""
    implied = {
        option: chosen
        for option, chosen, is_given in (
            ("--json", "json", json_to == STANDARD_OUTPUT),
            ("--html", PATH, as_path),
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
    if not write_json(json_to, {"format": FORMAT, "results": str(results.absolute()), "sessions": rows}):
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


@click.command()
@table_option("tables")
@table_option("schemas")
@table_option("layout")
@table_option("columns")
@table_option("rows")
@table_option("database")
@table_option("template")
def schema(**given: Any) -> int:
    """Print the SQL script that creates the tables: `recovery schema > create.sql`."""
    wanted = schema_of_options(given)
    checked_script_size(wanted)
    for chunk in render_script(wanted):
        sys.stdout.write(chunk)
    return 0


@click.command()
@click.argument("shell", type=Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the script that lets your shell complete commands, options, versions, sessions and server options.

    Switch it on with: eval "$(recovery completion bash)"."""
    kind = get_completion_class(shell)
    if kind is None:
        raise RecoveryError(f"there is no completion script for {shell}", "use bash, zsh or fish")
    sys.stdout.write(kind(context.find_root().command, {}, "recovery", COMPLETE_VARIABLE).source() + "\n")
    return 0
