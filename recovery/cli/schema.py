"""The command `recovery schema`."""

from __future__ import annotations

import sys
from typing import Any

import click

from recovery.cli.options import table_option
from recovery.cli.parse import schema_of_options
from recovery.workload.schema import checked_script_size, render_script


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
