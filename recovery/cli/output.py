"""Lines for a terminal whose text may come from outside."""

from __future__ import annotations

import click

from recovery.errors import harmless


def tell(line: str, *, err: bool = False) -> None:
    """Prints one line, without control characters."""
    click.echo(harmless(line), err=err)
