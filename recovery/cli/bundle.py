"""The command `recovery bundle`: makes a bug report of a stored session that contains nothing private."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from recovery.cli.completion import complete_session
from recovery.cli.options import PATH_TYPE, Choice, table_option
from recovery.cli.output import print_line, write_json
from recovery.model import Flavor
from recovery.sharing.bundle import Bundle, BundledFile, make_bundle, output_paths, write_bundle
from recovery.storage.sessions import find_session


@click.command()
@click.argument("session", required=False, shell_complete=complete_session)
@table_option("results")
@click.option(
    "--for",
    "product",
    type=Choice(flavor.value for flavor in Flavor),
    help="The product whose tracker the text is for, with its versions only. [default: that of the session's servers]",
)
@click.option(
    "--output",
    type=PATH_TYPE,
    metavar="FOLDER|FILE",
    help="Where to write: a folder, or a name that ends with .tar.gz. [default: SESSION-bundle, here]",
)
@table_option("json")
@click.option("--dry-run", is_flag=True, help="Show what would be in the archive, and write nothing.")
def bundle(
    session: str | None,
    results: Path,
    product: str | None,
    output: Path | None,
    *,
    dry_run: bool,
    json_to: str | None,
) -> int:
    """Make a bug report of a stored session: a text for the tracker, a script that repeats the test, and an archive to
    attach. It has figures, phases, versions, facts about host and settings, and the logs of servers that were given
    nothing private; no other text of the session."""
    made = make_bundle(find_session(results, session), product)
    packed, text, script = output_paths(made, output)
    if not dry_run:
        write_bundle(made, packed, text, script)
    files = [{"name": file.name, "bytes": file.size_bytes} for file in made.files]
    paths = {"archive": str(packed), "text": str(text), "script": None if made.script is None else str(script)}
    if write_json(json_to, {"format": 1, **({} if dry_run else paths), "files": files}):
        return 0
    for line in _contents(made, made.files if dry_run else _by_folder(made.files)):
        print_line(line)
    if dry_run:
        print_line("Nothing was written.", err=True)
        return 0
    print_line(f"archive  {packed}")
    print_line(f"text     {text}")
    if made.script is not None:
        print_line(f"script   {script}")
    print_line("Read them before you send them.")
    return 0


def _contents(made: Bundle, files: Sequence[BundledFile]) -> Iterator[str]:
    """Yields the lines about what is inside and what was left out."""
    width = max(len(file.name) for file in files)
    yield f"{'file':{width}}  {'bytes':>11}"
    for file in files:
        yield f"{file.name:{width}}  {file.size_bytes:>11,}"
    yield from made.summary
    yield from (f"{name} stands for {given}" for name, given in made.names.items())


def _by_folder(files: Sequence[BundledFile]) -> list[BundledFile]:
    """Returns the files with one line for all of a folder."""
    found: dict[str, list[BundledFile]] = {}
    for file in files:
        folder, slash, _ = file.name.partition("/")
        found.setdefault(f"{folder}/" if slash else file.name, []).append(file)
    return [
        BundledFile(
            f"{name} ({len(own)} files)" if len(own) > 1 else own[0].name,
            sum(file.size_bytes for file in own),
        )
        for name, own in found.items()
    ]
