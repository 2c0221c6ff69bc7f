"""The command that hands a session to others: bundle."""

from __future__ import annotations

from pathlib import Path

import click

from recovery.bundle.make import make, write
from recovery.commands.grids import tell
from recovery.commands.look import RESULTS
from recovery.commands.options import FOLDER
from recovery.paths import expanded
from recovery.store import find


@click.command()
@click.argument("session", required=False)
@RESULTS
@click.option(
    "--output",
    type=FOLDER,
    metavar="FOLDER|FILE",
    help="Where it goes: a folder, or a name that ends with .tar.gz. [default: SESSION-bundle, here]",
)
def bundle(session: str | None, results: Path, output: Path | None) -> int:
    """Make a bug report of a stored session: a text for the tracker, and an archive to attach, with nothing private."""
    folder = find(expanded(results), session)
    made = make(folder)
    packed, text = write(made, output and expanded(output))
    tell(f"archive  {packed}")
    tell(f"text     {text}")
    tell(f"masked   {made.masked} texts: masked.txt in the archive lists them. Read both before you send them.")
    return 0
