"""The text for a bug tracker: what was seen, and how anybody sees it too, with this tool or without. ASCII, pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from recovery.model import Cache
from recovery.report import figures
from recovery.report.tables import tables
from recovery.report.text import WIDTH, command_lines, opening, paragraph, render_table
from recovery.stored import Session

_CLEAN = "clean-start"
_MADE_BY_SCRIPT = re.compile(r"mariadb|(?<![\d.])5\.[0-6](?!\d)")
"""Versions that make no data directory by themselves."""
_WARM = "repeat from step 3 until the start does not get shorter (the tool does 1 to 7 of them)"


@dataclass(frozen=True)
class Scripts:
    """What lies in the archive to repeat it with."""

    archive: str
    tables: tuple[str, ...]
    """The first statements that make them."""
    inserts: tuple[str, ...]
    options: dict[str, str]
    """Names of options files, by server."""


def render(session: Session, scripts: Scripts) -> str:
    """Under the headings of the tracker; ends with a line end."""
    lines = [
        "Description:",
        *_description(session),
        "",
        "How to repeat:",
        *_repeat(session, scripts),
        "",
        "Suggested fix:",
        "[yours to write, or to leave empty]",
        "",
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _description(session: Session) -> Iterator[str]:
    yield from opening(session)
    for table in tables(session):
        yield ""
        yield from render_table(table).splitlines()


def _repeat(session: Session, scripts: Scripts) -> Iterator[str]:
    yield "With the tool that measured this:"
    yield ""
    yield from command_lines(session.command)
    yield ""
    yield from paragraph(
        f"Without it (the files named here lie in {scripts.archive}; DATADIR is an empty folder on the disk under "
        "test, RUNDIR another one):"
    )
    for number, (told, lines) in enumerate(_steps(session, scripts), start=1):
        yield ""
        yield from _numbered(number, told)
        yield from lines
    yield ""
    yield "Options that the servers were given:"
    for name, said in session.servers.items():
        yield ""
        yield from paragraph(f"{name} ({scripts.options[name]}):" if name in scripts.options else f"{name}:")
        yield from _indented(said.get("options") or "not known")


def _steps(session: Session, scripts: Scripts) -> Iterator[tuple[str, list[str]]]:
    settings = session.settings
    several = len(scripts.options) > 1
    given = "my-VERSION.cnf" if several else next(iter(scripts.options.values()), "my.cnf")
    start = f"mysqld --defaults-file={given} --datadir=DATADIR 2> start.err &"
    older = [version for version in session.versions if _MADE_BY_SCRIPT.search(version)]
    scripted = len(older) == len(session.versions)
    make = f"mysqld --defaults-file={given} --initialize-insecure"
    make = f"mysql_install_db --defaults-file={given}" if scripted else make
    if scripted:
        other = " (newer MariaDB: mariadb-install-db)" if "mariadb" in "".join(older) else ""
    else:
        other = (
            " (MariaDB, and MySQL up to 5.6: mysql_install_db/mariadb-install-db with the same file)" if older else ""
        )
    files = f" ({given} stands for the file of each, named there)" if several else ""
    yield (
        f"Make a data directory{other}, and start the server, both with the options below{files}; write the paths of "
        "RUNDIR into them first (a server that is not installed needs --basedir as well, and one that root starts "
        "--user):",
        [f"    {make} \\", "        --datadir=DATADIR", f"    {start}"],
    )
    number = settings.get("tables")
    made = figures.count(number) if isinstance(number, int) else "the"
    schemas = settings.get("schemas")
    spread = f" in each of {schemas} schemas" if isinstance(schemas, int) and schemas > 1 else ""
    yield (
        f"Make {made} tables{spread}. schema.sql has the statements, or where they are too many the first and the last "
        "of them and the command that prints all. It begins so:",
        [*_statements(scripts.tables), "    mysql --socket=RUNDIR/mysqld.sock -u root < schema.sql"],
    )
    yield (
        "Shut the server down cleanly, start it again, and wait until it is ready:",
        [
            "    mysqladmin --socket=RUNDIR/mysqld.sock -u root shutdown",
            f"    {start}",
        ],
    )
    yield from _ending(session, scripts)
    yield from _emptied(session)
    yield (
        'Start the server again and take the time until "ready for connections" stands in its log (the figures above '
        "begin at the exec of the server):",
        [
            # A line of the start before would end the wait at once.
            "    rm -f start.err",
            f"    time sh -c 'mysqld --defaults-file={given} \\",
            "            --datadir=DATADIR 2> start.err &",
            '        until grep -qs "ready for connections" start.err; do sleep 0.01; done\'',
        ],
    )
    runs = settings.get("runs")
    if isinstance(runs, int):
        yield f"Repeat from step 3. Here it was done {runs} times for each version and variant.", []


def _ending(session: Session, scripts: Scripts) -> Iterator[tuple[str, list[str]]]:
    if session.scenario == _CLEAN:
        yield "Shut it down cleanly once more.", []
        return
    yield (
        "Fire the insert script, one statement and one commit after the other. inserts.sql begins so:",
        [
            *_statements(scripts.inserts),
            "    mysql --socket=RUNDIR/mysqld.sock -u root < inserts.sql",
        ],
    )
    yield "Right after the last one kill the server:", ["    kill -KILL $(cat RUNDIR/mysqld.pid)"]


def _emptied(session: Session) -> Iterator[tuple[str, list[str]]]:
    colds = [variant for variant in session.variants if Cache.COLD.begins(variant)]
    if not colds:
        yield f"The caches stay as they are. {_WARM.capitalize()}.", []
        return
    told = "Empty the page cache:"
    if len(colds) < len(session.variants):
        told = f'For "cold" empty the page cache. For "warm" leave dropping out, and {_WARM}:'
    yield told, ["    sync; echo 3 > /proc/sys/vm/drop_caches"]


def _statements(statements: tuple[str, ...]) -> Iterator[str]:
    for one in statements:
        yield from _indented(f"{one};")
    if statements:
        yield "    ..."


def _numbered(number: int, told: str) -> Iterator[str]:
    lead = f"{number}. "
    for line in textwrap.wrap(told, WIDTH - len(lead), break_on_hyphens=False):
        yield lead + line
        lead = " " * len(lead)


def _indented(text: str) -> Iterator[str]:
    told = " ".join(paragraph(text))
    yield from textwrap.wrap(told, WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
