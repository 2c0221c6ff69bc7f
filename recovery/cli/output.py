"""Lines for a terminal whose text may come from outside."""

from __future__ import annotations

import click

from recovery.errors import escape_control


def tell(line: str, *, err: bool = False) -> None:
    """Prints one line, without control characters."""
    click.echo(escape_control(line), err=err)
