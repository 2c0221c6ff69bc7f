"""The command `recovery datadirs`: the data directories that are kept."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from recovery.cli.options import table_option
from recovery.cli.output import (
    LIST_FORMAT,
    escaped_text,
    make_grid,
    print_line,
    refuse_json_before_subcommand,
    size_text,
    wide_console,
    write_json,
)
from recovery.errors import UsageError
from recovery.linux.files import default_data_dir
from recovery.mysqld.datadir import DataDirs


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
    if write_json(json_to, {"format": LIST_FORMAT, "data": str(directories.root), "datadirs": rows}):
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
