"""Contains the group `recovery fleet`: many hosts."""

from __future__ import annotations

import click

from recovery.cli.fleet_report import fleet_report


@click.group()
def fleet() -> None:
    """Compare the results of many hosts."""


fleet.add_command(fleet_report)
