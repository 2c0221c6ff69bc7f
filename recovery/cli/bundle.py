"""The command `recovery bundle`, which turns a stored session into a bug report that contains nothing private.

The result is a text for a bug tracker and a .tar.gz archive to attach. The session is masked first, and all reports in
the archive are rendered from the masked session. No symbolic link of the session is followed, and the same session
always gives the same archive."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import re
import shlex
import stat
import tarfile
import textwrap
from collections import Counter, deque
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path, PurePath

import click
from pydantic import TypeAdapter

from recovery.cli.completion import complete_session
from recovery.cli.mask import (
    PLACEHOLDER,
    Literal,
    Masker,
    distinct_literals,
    host_literals,
    session_literals,
    split_options,
    split_words,
)
from recovery.cli.options import PATH_TYPE, table_option
from recovery.cli.output import print_line
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux import cleanup, locks
from recovery.linux.files import STORED_FORMAT, expand_path, write_atomically
from recovery.model import Cache, Layout, Schema, Session
from recovery.report import fmt
from recovery.report.stored_session import LOCK_FILE, REPORT_FILE, STACKS_FOLDER, find_session, load_session, to_json
from recovery.report.tables import all_tables, figure_tables
from recovery.report.text import WIDTH, command_lines, opening, paragraph, render_table
from recovery.report.write import write_reports
from recovery.session.request import DEFAULT_INSERTS, MAX_COLUMNS, MAX_INSERTS, MAX_TABLES, parse_layout, parse_variants
from recovery.workload.inserts import insert_statements
from recovery.workload.schema import measure_by_rendering, script_size, script_statements

# --- Copying the files of a session, and packing them into an archive

MANIFEST = "MANIFEST"
_FOLDERS = {"runs": (".json",), "logs": (".err", ".log", ".txt"), STACKS_FOLDER: (".folded",)}
"""Folders of a session that are copied, with the suffixes of the copied files."""


def copy_session_files(folder: Path, to: Path) -> None:
    """Copies the regular files of a session to the folder `to`, but not the targets of symbolic links.

    Raises RecoveryError if the report file of the session is not a regular file."""
    report = _read_regular_file(folder / REPORT_FILE)
    if report is None:
        raise RecoveryError(f"{folder / REPORT_FILE} is not a regular file", "name the folder of the session itself")
    (to / REPORT_FILE).write_bytes(report)
    for name, endings in _FOLDERS.items():
        (to / name).mkdir()
        for path in _sorted_entries(folder / name):
            content = _read_regular_file(path) if path.suffix in endings else None
            if content is not None:
                (to / name / path.name).write_bytes(content)
    lock = folder / LOCK_FILE
    if lock.is_file() and not lock.is_symlink() and locks.lock_holder(lock) is None:
        # A lock file without a holder marks a session that was killed; the copy must show that as well.
        (to / LOCK_FILE).touch()


def _sorted_entries(folder: Path) -> list[Path]:
    """Returns the sorted entries of a folder; none if it is missing or a symbolic link."""
    with suppress(OSError):
        if stat.S_ISDIR(folder.lstat().st_mode):
            return sorted(folder.iterdir())
    return []


def _read_regular_file(path: Path) -> bytes | None:
    """Returns the content of a regular file, or None for anything else, such as a symbolic link or a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return None
        raise
    with open(descriptor, "rb") as file:  # noqa: PTH123 - of a descriptor
        return file.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def add_manifest(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the files and a manifest of their checksums, in the format of `sha256sum -c MANIFEST`."""
    sums = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items()))
    return {**files, MANIFEST: "".join(sums).encode()}


def build_archive(name: str, files: Mapping[str, bytes], *, started_at: str) -> bytes:
    """Returns a .tar.gz archive of one folder, `name`, that contains these files.

    Every timestamp is the start of the session and no owner is stored, so the same files give the same archive."""
    when = _epoch_seconds(started_at)
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=when) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path, content in sorted(files.items()):
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size, member.mtime, member.mode = len(content), when, 0o644
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def read_texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yields the logs and the stack traces, each with its path in the session."""
    for name in ("logs", STACKS_FOLDER):
        for path in _sorted_entries(folder / name):
            if path.suffix in _FOLDERS[name]:
                yield f"{name}/{path.name}", path.read_text(encoding="utf-8", errors="replace")


def _epoch_seconds(started_at: str) -> int:
    """Returns the timestamp in seconds since 1970, or 0 if the text cannot be parsed."""
    try:
        return max(0, int(datetime.fromisoformat(started_at).timestamp()))
    except (ValueError, OverflowError, OSError):
        return 0


# --- SQL scripts and options files

MAX_SCRIPT_BYTES = 1_000_000
"""Maximum size of a script that is included in full: about 13,000 tables."""
MAX_SCRIPT_STATEMENTS = 1_000_000
"""Maximum number of statements of a script that is rendered in full."""
_MAX_SHOWN_INSERTS = 10_000
"""Maximum number of inserts in inserts.sql."""
_SHOWN_STATEMENTS = 100
"""Number of statements shown from each end of a longer script."""


def sql_scripts(session: Session) -> dict[str, str]:
    """Returns the SQL scripts by file name. A script that can no longer be rendered is replaced by a comment."""
    found = {}
    try:
        for name, schema in _script_schemas(session).items():
            found[name] = _script_text(schema)
    except RecoveryError as error:
        found.setdefault("schema.sql", f"-- not rendered: {error.message}\n")
    try:
        count = _requested_inserts(session)
        head = f"-- The first {_MAX_SHOWN_INSERTS:,} of {count:,}.\n" if count > _MAX_SHOWN_INSERTS else ""
        found["inserts.sql"] = head + "".join(f"{one};\n" for one in session_inserts(session))
    except RecoveryError:
        # The message of the error quotes the template file, which may be a different file by now: it is not shown.
        found["inserts.sql"] = "-- not rendered: the insert template is missing, or is another file now\n"
    return found


def session_schema(session: Session) -> Schema:
    """Returns the schema that the settings describe, with defaults for settings that older versions did not store."""
    settings = session.settings
    template = settings.get("template")
    return Schema(
        tables=_int_setting(session, "tables", 1),
        databases=_int_setting(session, "schemas", 1),
        columns=_int_setting(session, "columns", 0, most=MAX_COLUMNS),
        rows=_int_setting(session, "rows", 0),
        database=str(settings.get("database") or Schema.database),
        template=Path(str(template)) if template else None,
        layout=parse_layout(str(settings.get("layout") or Layout.FILES)),
    )


def first_statements(session: Session, many: int = 3) -> tuple[str, ...]:
    """Returns the first statements of the script that creates the tables; none if it can no longer be rendered."""
    try:
        _check_template(schema := session_schema(session))
        return tuple(one for one, _ in zip(script_statements(schema), range(many), strict=False))
    except RecoveryError:
        return ()


def session_inserts(session: Session) -> tuple[str, ...]:
    """Returns the insert statements of the session, at most `_SHOWN_INSERTS`.

    Raises RecoveryError if they can no longer be rendered."""
    template = session.settings.get("insert_template")
    return insert_statements(
        session_schema(session),
        count=min(_MAX_SHOWN_INSERTS, _requested_inserts(session)),
        template=Path(str(template)) if template else None,
    )


def _requested_inserts(session: Session) -> int:
    return _int_setting(session, "inserts", DEFAULT_INSERTS, most=MAX_INSERTS)


def options_file(name: str, options: str) -> str:
    """Returns an options file with the options that the server was started with.

    Values that only the tool knew (RUNDIR, basedir and datadir) are not filled in."""
    lines = [
        f"# Options of the timed start of {name}, in the order of their names.",
        "# RUNDIR: a folder that only this start uses. Not here: basedir and datadir, which are those of your server.",
        "[mysqld]",
    ]
    for option in split_options(options):
        option_name, equals, value = option.partition("=")
        quoted = f'"{value}"' if re.search(r"[\s#;]", value) and '"' not in value else value
        lines.append(f"{option_name} = {quoted}" if equals else option_name)
    return "\n".join(lines) + "\n"


def _script_schemas(session: Session) -> dict[str, Schema]:
    """Returns the schemas by name of their script: the requested one, and those of variants that use another one."""
    requested = session_schema(session)
    found = {"schema.sql": requested}
    for variant in parse_variants(tuple(split_words(session.settings.get("variants")))):
        schema = requested if variant.layout is None else replace(requested, layout=variant.layout)
        if variant.schemas:
            schema = schema.spread_over(variant.schemas)
        if schema != requested:
            found[f"schema-{variant.label}.sql"] = schema
    return found


def _check_template(schema: Schema) -> None:
    """Raises UsageError if the template of the schema is missing or does not create the expected tables.

    A session from somebody else may name any file as its template. Unless the file is a template, its content must not
    get into the archive."""
    if schema.template is None:
        return
    if not schema.template.is_file():
        raise UsageError("the template is missing")
    if schema.total_tables > MAX_SCRIPT_STATEMENTS:
        raise UsageError(f"the template creates more than {MAX_SCRIPT_STATEMENTS:,} tables")
    try:
        made = measure_by_rendering(schema).tables
    except RecoveryError:
        made = -1
    if made != schema.total_tables:
        raise UsageError("the template no longer creates these tables")


def _script_text(schema: Schema) -> str:
    """Returns the script of a schema. Of a long one it contains the beginning, or the beginning and the end."""
    _check_template(schema)
    count = script_size(replace(schema, template=None)).statements
    if count * max(1, schema.columns) > MAX_SCRIPT_STATEMENTS:
        first = "".join(f"{one};\n" for one in islice(script_statements(schema), _SHOWN_STATEMENTS))
        return (
            f"-- About {count:,} statements. The first {_SHOWN_STATEMENTS} are here. All of them: "
            f"{_schema_command(schema)}\n{first}"
        )
    head: list[str] = []
    ends: deque[str] = deque(maxlen=_SHOWN_STATEMENTS)
    size = count = 0
    for one in script_statements(schema):
        count += 1
        size += len(one) + 2
        if size <= MAX_SCRIPT_BYTES:
            head.append(one)
        ends.append(one)
    if size <= MAX_SCRIPT_BYTES:
        return "".join(f"{one};\n" for one in head)
    first = "".join(f"{one};\n" for one in head[:_SHOWN_STATEMENTS])
    last = "".join(f"{one};\n" for one in ends)
    left_out = count - 2 * _SHOWN_STATEMENTS
    return (
        f"-- {count:,} statements, {size:,} bytes: more than the maximum of {MAX_SCRIPT_BYTES:,}. The first\n"
        f"-- and the last {_SHOWN_STATEMENTS} are here. All of them: {_schema_command(schema)}\n{first}"
        f"-- … {left_out:,} statements are left out here …\n{last}"
    )


def _schema_command(schema: Schema) -> str:
    """Returns the command that prints the whole script of a schema."""
    words = ["recovery", "schema", "--tables", str(schema.tables)]
    for option, value, usual in (
        ("--schemas", schema.databases, 1),
        ("--layout", schema.layout.value, Layout.FILES.value),
        ("--columns", schema.columns, 0),
        ("--rows", schema.rows, 0),
        ("--database", schema.database, Schema.database),
        ("--template", schema.template, None),
    ):
        words += [] if value == usual else [option, str(value)]
    return shlex.join(words)


def _int_setting(session: Session, name: str, usual: int, *, most: int = MAX_TABLES) -> int:
    """Returns a setting as a number, or `usual` if it is not set. Raises UsageError if it is not from 0 to `most`."""
    value = session.settings.get(name, usual)
    if value is None or value == "":
        return usual
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise UsageError(f"the session has an invalid setting {name}: expected a number from 0 to {most:,}")
    return value


# --- The text for the bug tracker (ASCII)

_CLEAN_START_SCENARIO = "clean-start"
_NEEDS_INSTALL_DB = re.compile(r"mariadb|(?<![\d.])5\.[0-6](?!\d)")
"""Versions that need a script (mysql_install_db) to create a data directory."""
_WARM_STEP = "repeat from step 3 until the start does not get shorter (the tool repeats it 1 to 7 times)"


@dataclass(frozen=True)
class ArchiveContents:
    """The contents of the archive that the instructions for repeating the test refer to."""

    archive: str
    """File name of the archive."""
    tables: tuple[str, ...]
    """The first statements that create the tables."""
    inserts: tuple[str, ...]
    """The first insert statements."""
    options: dict[str, str]
    """Names of the options files, by server."""


def render_bug_report(session: Session, scripts: ArchiveContents) -> str:
    """Returns the text of the bug report under the headings of the tracker. It ends with a newline."""
    lines = [
        "Description:",
        *_description(session),
        "",
        "How to repeat:",
        *_repeat_instructions(session, scripts),
        "",
        "Suggested fix:",
        "[yours to write, or to leave empty]",
        "",
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _description(session: Session) -> Iterator[str]:
    yield from opening(session)
    for table in all_tables(session):
        yield ""
        yield from render_table(table).splitlines()


def _repeat_instructions(session: Session, scripts: ArchiveContents) -> Iterator[str]:
    yield "With the tool that measured this:"
    yield ""
    yield from command_lines(session.command)
    yield ""
    yield from paragraph(
        f"Without it (the files named here are in {scripts.archive}; DATADIR is an empty folder on the disk under "
        "test, RUNDIR another one):"
    )
    for number, (what, lines) in enumerate(_steps(session, scripts), start=1):
        yield ""
        yield from _numbered_lines(number, what)
        yield from lines
    yield ""
    yield "Options of the servers:"
    for name, server in session.servers.items():
        yield ""
        yield from paragraph(f"{name} ({scripts.options[name]}):" if name in scripts.options else f"{name}:")
        yield from _indented(server.get("options") or "not known")


def _steps(session: Session, scripts: ArchiveContents) -> Iterator[tuple[str, list[str]]]:
    settings = session.settings
    several = len(scripts.options) > 1
    given = "my-VERSION.cnf" if several else next(iter(scripts.options.values()), "my.cnf")
    start = f"mysqld --defaults-file={given} --datadir=DATADIR 2> start.err &"
    older = [version for version in session.versions if _NEEDS_INSTALL_DB.search(version)]
    scripted = len(older) == len(session.versions)
    make = f"mysqld --defaults-file={given} --initialize-insecure"
    make = f"mysql_install_db --defaults-file={given}" if scripted else make
    if scripted:
        other = " (newer MariaDB: mariadb-install-db)" if "mariadb" in "".join(older) else ""
    else:
        other = (
            " (MariaDB, and MySQL up to 5.6: mysql_install_db/mariadb-install-db with the same file)" if older else ""
        )
    files = f" ({given} stands for the file of each server, named there)" if several else ""
    yield (
        f"Make a data directory{other}, and start the server, both with the options below{files}; write the paths of "
        "RUNDIR into them first (a server that is not installed needs --basedir as well, and one that root starts "
        "--user):",
        [f"    {make} \\", "        --datadir=DATADIR", f"    {start}"],
    )
    number = settings.get("tables")
    made = fmt.count(number) if isinstance(number, int) else "the"
    schemas = settings.get("schemas")
    spread = f" in each of {schemas} schemas" if isinstance(schemas, int) and schemas > 1 else ""
    yield (
        f"Create {made} tables{spread}. schema.sql has the statements, or if there are too many the first and the last "
        "of them and the command that prints all. It begins with:",
        [*_statement_lines(scripts.tables), "    mysql --socket=RUNDIR/mysqld.sock -u root < schema.sql"],
    )
    yield (
        "Shut the server down cleanly, start it again, and wait until it is ready:",
        [
            "    mysqladmin --socket=RUNDIR/mysqld.sock -u root shutdown",
            f"    {start}",
        ],
    )
    yield from _kill_steps(session, scripts)
    yield from _cache_steps(session)
    yield (
        'Start the server again and measure the time until its log has "ready for connections" (the figures above '
        "begin at the exec of the server):",
        [
            # The ready line of the previous start would end the wait at once.
            "    rm -f start.err",
            f"    time sh -c 'mysqld --defaults-file={given} \\",
            "            --datadir=DATADIR 2> start.err &",
            '        until grep -qs "ready for connections" start.err; do sleep 0.01; done\'',
        ],
    )
    runs = settings.get("runs")
    if isinstance(runs, int):
        yield f"Repeat from step 3. The session has {runs} runs of each version and variant.", []


def _kill_steps(session: Session, scripts: ArchiveContents) -> Iterator[tuple[str, list[str]]]:
    if session.scenario == _CLEAN_START_SCENARIO:
        yield "Shut it down cleanly once more.", []
        return
    yield (
        "Run the insert script, one statement and one commit after the other. inserts.sql begins with:",
        [
            *_statement_lines(scripts.inserts),
            "    mysql --socket=RUNDIR/mysqld.sock -u root < inserts.sql",
        ],
    )
    yield "Right after the last insert, kill the server:", ["    kill -KILL $(cat RUNDIR/mysqld.pid)"]


def _cache_steps(session: Session) -> Iterator[tuple[str, list[str]]]:
    colds = [variant for variant in session.variants if Cache.COLD.begins(variant)]
    if not colds:
        yield f"Leave the caches as they are. {_WARM_STEP.capitalize()}.", []
        return
    step = "Empty the page cache:"
    if len(colds) < len(session.variants):
        step = f'For "cold" empty the page cache. For "warm" do not empty it, and {_WARM_STEP}:'
    yield step, ["    sync; echo 3 > /proc/sys/vm/drop_caches"]


def _statement_lines(statements: tuple[str, ...]) -> Iterator[str]:
    for one in statements:
        yield from _indented(f"{one};")
    if statements:
        yield "    ..."


def _numbered_lines(number: int, text: str) -> Iterator[str]:
    lead = f"{number}. "
    for line in textwrap.wrap(text, WIDTH - len(lead), break_on_hyphens=False):
        yield lead + line
        lead = " " * len(lead)


def _indented(text: str) -> Iterator[str]:
    line = " ".join(paragraph(text))
    yield from textwrap.wrap(line, WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)


# --- Making a bundle: the session is masked, then rendered

TEXT_FILE = "report.txt"
_MASKED_FILE = "masked.txt"
_MAX_LITERALS = 1_000
"""Maximum number of different names and secrets in a session."""
_PLAIN_NAME = re.compile(r"[\w.-]{1,120}", re.ASCII)


@dataclass(frozen=True)
class BundledFile:
    """A file of the archive, for the listing that the user sees."""

    name: str
    size_bytes: int
    replaced: int
    """Number of placeholders in the file."""


@dataclass(frozen=True)
class Bundle:
    """A bug report made from a session."""

    name: str
    """Name of the session, masked."""
    text: bytes
    """The text to paste into a bug tracker."""
    archive: bytes
    """The content of the .tar.gz archive."""
    files: tuple[BundledFile, ...]
    """The files of the archive, in its order."""


def make_bundle(folder: Path) -> Bundle:
    """Makes a bundle of the session stored in the folder, which is not changed."""
    with cleanup.temp_folder() as made:
        raw, clean = made / "raw", made / "clean"
        raw.mkdir()
        clean.mkdir()
        copy_session_files(folder, raw)
        try:
            session = load_session(raw)
        except RecoveryError as error:
            # The error names the temporary copy, which no longer exists when the user reads the message.
            here, there = str(raw), str(folder)
            raise type(error)(error.message.replace(here, there), error.hint.replace(here, there)) from error
        return _bundle_session(folder.name, session, raw=raw, clean=clean)


def output_paths(bundle: Bundle, output: Path | None) -> tuple[Path, Path]:
    """Returns the paths of the archive and of the text next to it.

    `output` is a folder, or the path of the archive if it ends with .tar.gz or .tgz. Raises UsageError if the files
    would be in the folder of a session."""
    place = output or Path(f"{bundle.name}-bundle")
    if place.name.endswith((".tar.gz", ".tgz")):
        packed = place
        text = place.with_name(f"{place.name.removesuffix('.tgz').removesuffix('.tar.gz')}.txt")
    else:
        packed, text = place / f"{bundle.name}.tar.gz", place / TEXT_FILE
    if (packed.parent / REPORT_FILE).exists():
        raise UsageError(f"{packed.parent} is the folder of a session", "give --output another folder")
    return packed, text


def write_bundle(bundle: Bundle, packed: Path, text: Path) -> None:
    """Writes the archive and the text. Raises HostUnfitError if they cannot be written."""
    try:
        packed.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(packed, bundle.archive)
        write_atomically(text, bundle.text)
    except OSError as error:
        raise HostUnfitError(
            f"cannot write to {packed.parent}: {error.strerror or error}", "give --output a folder that can be written"
        ) from error


def _bundle_session(name: str, session: Session, *, raw: Path, clean: Path) -> Bundle:
    masker = Masker(_private_literals(session))
    masked = _masked_session(session, masker, clean)
    name = masker.name(name)
    name = name if _PLAIN_NAME.fullmatch(name) else "session"
    files = _masked_texts({**dict(read_texts(raw)), **sql_scripts(session)}, masker)
    files |= _render_reports(clean, files)
    options = _options_file_names(masked)
    files |= {
        file: options_file(server, masked.servers[server]["options"]).encode() for server, file in options.items()
    }
    files["host.txt"] = (
        "\n\n".join(map(render_table, all_tables(masked)[len(figure_tables(masked)) :])).encode() + b"\n"
    )
    text = _bug_report_text(masked, session, masker, ArchiveContents(f"{name}.tar.gz", (), (), options)).encode()
    files[TEXT_FILE] = text
    replaced = _count_placeholders(files, set(masker.placeholders.values()))
    files[_MASKED_FILE] = _placeholder_list(replaced).encode()
    files = add_manifest(files)
    listing = tuple(
        BundledFile(path, len(content), replaced[path].total() if path in replaced else 0)
        for path, content in sorted(files.items())
    )
    return Bundle(name, text, build_archive(name, files, started_at=session.started_at), listing)


def _private_literals(session: Session) -> tuple[Literal, ...]:
    """Returns the texts of this host and of the session that are masked. Raises RecoveryError if there are too many."""
    kept = distinct_literals((*host_literals(os.environ), *session_literals(session)))
    if len(kept) > _MAX_LITERALS:
        raise RecoveryError(
            f"the session names {len(kept):,} paths, users, hosts and secrets; {_MAX_LITERALS:,} can be masked",
            "check its settings: so many are not normal",
        )
    return kept


def _masked_session(session: Session, masker: Masker, clean: Path) -> Session:
    """Returns the masked session, after writing it to `clean`. Its summaries and findings are computed again."""
    masked = masker.value({"format": STORED_FORMAT, **TypeAdapter(Session).dump_python(session, mode="json")})
    for run in masked["runs"]:
        run["log"] = run["log"] and _masked_path(run["log"], masker)
        run["stacks"] = run["stacks"] and _masked_path(run["stacks"], masker)
    (clean / REPORT_FILE).write_bytes(json.dumps(masked).encode("utf-8", errors="replace"))
    made = load_session(clean)
    (clean / REPORT_FILE).write_bytes(to_json(made))
    return made


def _masked_path(path: str, masker: Masker) -> str:
    """Returns the masked path of a log or stack file in the archive, which keeps only its name from the session."""
    folder = STACKS_FOLDER if path.startswith(f"{STACKS_FOLDER}/") else "logs"
    return f"{folder}/{masker.name(PurePath(path).name)}"


def _masked_texts(texts: dict[str, str], masker: Masker) -> dict[str, bytes]:
    """Returns the files with masked names and masked contents."""
    found = {}
    for path, content in sorted(texts.items()):
        folder, slash, name = path.rpartition("/")
        found[f"{folder}{slash}{masker.name(name)}"] = masker.text(content).encode()
    return found


def _render_reports(clean: Path, files: dict[str, bytes]) -> dict[str, bytes]:
    """Returns the reports in all formats, the charts and a JSON file for each run, all made from the masked session."""
    (clean / STACKS_FOLDER).mkdir()
    for path, content in files.items():
        if path.startswith(f"{STACKS_FOLDER}/"):
            (clean / path).write_bytes(content)
    made = {str(path.relative_to(clean)): path.read_bytes() for path in (clean / REPORT_FILE, *write_reports(clean))}
    stored = json.loads(made[REPORT_FILE])
    for run in stored["runs"]:
        text = json.dumps({"format": STORED_FORMAT, **run}, indent=2, ensure_ascii=False) + "\n"
        made[f"runs/{run['number']:03d}.json"] = text.encode()
    return made


def _options_file_names(masked: Session) -> dict[str, str]:
    """Returns the names of the options files by server: my.cnf if there is only one server with known options."""
    known = [name for name, server in masked.servers.items() if server.get("options")]
    if len(known) == 1:
        return {known[0]: "my.cnf"}
    return {name: re.sub(r"[^\w.+\[\]@-]", "_", f"my-{name}.cnf", flags=re.ASCII) for name in known}


def _bug_report_text(masked: Session, session: Session, masker: Masker, scripts: ArchiveContents) -> str:
    """Returns the text for the bug tracker, with masked statements from the original session."""
    first = tuple(map(masker.text, first_statements(session)))
    try:
        inserts = tuple(map(masker.text, session_inserts(session)[:2]))
    except RecoveryError:
        inserts = ()
    return render_bug_report(masked, replace(scripts, tables=first, inserts=inserts))


# --- Showing what was replaced

_KIND_DESCRIPTIONS = {
    "secret": "a password, a token, or an option that may hold one",
    "data": "the folder of the data directories",
    "path": "a file or folder of yours",
    "home": "a home folder",
    "user": "the name of a user",
    "host": "the name of a host or a registry",
    "address": "an IP address",
    "mac": "the address of a network card",
    "serial": "the serial number of a device",
    "volume": "the id of a volume",
    "id": "an id of this machine, or in a cloud",
}


def _count_placeholders(files: Mapping[str, bytes], given: Container[str]) -> dict[str, Counter[str]]:
    """Returns how often each of the given placeholders occurs in each file."""
    return {
        path: Counter(one for one in re.findall(PLACEHOLDER, content.decode("utf-8", errors="replace")) if one in given)
        for path, content in files.items()
    }


def _placeholder_list(replaced: Mapping[str, Counter[str]]) -> str:
    """Returns a list of the placeholders with their meanings and counts, which contains no private text."""
    lines = [
        "What was masked in this archive: placeholder, how often, and in which files.",
        "The same text has the same placeholder everywhere. The originals are in no file here.",
        "",
    ]
    total = sum(replaced.values(), Counter[str]())
    for placeholder, times in sorted(total.items()):
        kind = placeholder.strip("[]").partition("-")[0]
        lines.append(f"{placeholder}  {_KIND_DESCRIPTIONS[kind]}, {times} times")
        lines += [
            f"    {counts[placeholder]} in {path}" for path, counts in sorted(replaced.items()) if counts[placeholder]
        ]
    return "\n".join([*lines, *([] if total else ["nothing"])]) + "\n"


def list_files(files: Sequence[BundledFile]) -> Iterator[str]:
    """Yields the lines of a table: each file with its size and how many places in it were replaced."""
    width = max(len(file.name) for file in files)
    yield f"{'file':{width}}  {'bytes':>11}  {'replaced':>8}"
    for file in files:
        yield f"{file.name:{width}}  {file.size_bytes:>11,}  {file.replaced:>8,}"


@click.command()
@click.argument("session", required=False, shell_complete=complete_session)
@table_option("results")
@click.option(
    "--output",
    type=PATH_TYPE,
    metavar="FOLDER|FILE",
    help="Where to write: a folder, or a name that ends with .tar.gz. [default: SESSION-bundle, here]",
)
@click.option("--dry-run", is_flag=True, help="Show what would be in the archive, and write nothing.")
def bundle(session: str | None, results: Path, output: Path | None, *, dry_run: bool) -> int:
    """Make a bug report of a stored session: a text for the tracker, and an archive to attach. Known private texts are
    replaced."""
    made = make_bundle(find_session(expand_path(results), session))
    packed, text = output_paths(made, output and expand_path(output))
    for line in list_files(made.files):
        print_line(line)
    if dry_run:
        print_line("Nothing was written.", err=True)
        return 0
    write_bundle(made, packed, text)
    print_line(f"archive  {packed}")
    print_line(f"text     {text}")
    print_line(f"Read both before you send them. {_MASKED_FILE} in the archive lists what was replaced.")
    return 0
