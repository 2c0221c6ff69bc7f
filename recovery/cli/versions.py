"""The command `recovery versions`."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict

import click

from recovery.builds.catalog import PINNED_FOR
from recovery.builds.resolve import DEBIAN_NAMES, available_servers
from recovery.cli.naming import Layers
from recovery.cli.options import table_option
from recovery.cli.output import LIST_FORMAT, escaped_text, make_grid, size_text, wide_console, write_json


@click.command()
@table_option("json")
def versions(json_to: str | None) -> int:
    """List the servers that are available, their sources, and which are in the cache."""
    found = available_servers()
    if write_json(json_to, {"format": LIST_FORMAT, "versions": [asdict(offer) for offer in found]}):
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
