"""Prints lines whose text may come from outside the tool."""

from __future__ import annotations

import click

from recovery.errors import escape_control


def print_line(line: str, *, err: bool = False) -> None:
    """Prints one line, with each control character replaced by `?`."""
    click.echo(escape_control(line), err=err)
