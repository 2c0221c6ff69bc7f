"""The command `recovery versions`."""

from __future__ import annotations

import platform
from dataclasses import asdict

import click

from recovery.builds.catalog import PINNED_FOR
from recovery.builds.resolve import DEBIAN_NAMES, available_servers
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
    console.print(
        "Other releases of MySQL, MariaDB and Percona Server (percona-8.0.36) are fetched from the vendor's "
        "archive, or with --archive from a mirror of it. --mysqld is your own server."
    )
    console.print(
        "With a Docker engine also images of a registry (mysql:, mariadb:, percona:), or with --registry of a "
        f"mirror of it; {', '.join(DEBIAN_NAMES)} (Debian's current releases); and your own with --image: "
        "`recovery images` lists them."
    )
    return 0
