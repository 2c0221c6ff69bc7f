"""How do the commands that look lay out what they have found?"""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from recovery.report.watching import harmless


def tell(line: str, *, err: bool = False) -> None:
    """Prints a line without its control characters."""
    click.echo(harmless(line), err=err)


def cell(text: str) -> Text:
    """Returns the text without its control characters, never taken for markup."""
    return Text(harmless(text))


def grid_of(*headers: str) -> Grid:
    grid = Grid(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for header in headers:
        grid.add_column(header, justify="right" if header == "size" else "left", overflow="fold")
    return grid


def page() -> Console:
    """As wide as the terminal; whoever pipes it wants a line a row."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 250)


def size_text(count: int | None) -> str:
    return "-" if count is None else f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
