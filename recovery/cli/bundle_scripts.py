"""Writes the files of a bundle that repeat a session without the tool: the SQL, the options, and repro.sh.

repro.sh is rendered from the masked session. Everything that comes from the session is quoted for the shell, and
options of the server are written into an options file."""

from __future__ import annotations

import re
import shlex
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import jinja2

from recovery.analysis.summary import Summary
from recovery.cli.bug_finding import Finding
from recovery.cli.mask import PLACEHOLDER, split_options, split_words
from recovery.cli.options import BY_NAME, OPTIONS, repeat_command
from recovery.cli.parse import field_values
from recovery.cli.values import parse_variants
from recovery.errors import RecoveryError, UsageError
from recovery.experiments.clean_start import CLEAN_START
from recovery.linux.files import template_dir
from recovery.model import SECOND_START, SETTINGS_AXIS, Cache, Layout, Schema, Session
from recovery.mysqld.options import RESERVED_OPTIONS, base_name, quoted_value, timed_only_settings
from recovery.session.request import SessionSizes
from recovery.workload.first_queries import stored_script
from recovery.workload.inserts import HEARTBEAT, insert_statements
from recovery.workload.schema import measure_by_rendering, script_size, script_statements

# --- SQL scripts and options files

MAX_SCRIPT_BYTES = 1_000_000
"""Maximum size of a script that is included in full: about 13,000 tables."""
MAX_SCRIPT_STATEMENTS = 1_000_000
"""Maximum number of statements of a script that is rendered in full."""
_MAX_SHOWN_INSERTS = 10_000
"""Maximum number of inserts in inserts.sql."""
_SHOWN_STATEMENTS = 100
"""Number of statements shown from each end of a longer script."""
_OF_SCHEMA = "sizes.schema."
_SCHEMA_OPTIONS = tuple(option for option in OPTIONS if option.field.startswith(_OF_SCHEMA))


def sql_scripts(session: Session) -> dict[str, str]:
    """Returns the SQL scripts by file name. A script that can no longer be rendered is replaced by a comment. Of a data
    directory of the user's own there are none."""
    if session.design.has_own_data:
        return {}
    found = {}
    try:
        for label, schema in _schemas(session).items():
            found[f"schema-{label}.sql" if label else "schema.sql"] = _script_text(schema)
    except RecoveryError as error:
        found.setdefault("schema.sql", f"-- not rendered: {error.message}\n")
    if queries := session.settings.get("first_queries"):
        found["first-queries.sql"] = stored_script(str(queries))
    try:
        count = _setting(session, "inserts", SessionSizes.inserts)
        head = f"-- The first {_MAX_SHOWN_INSERTS:,} of {count:,}.\n" if count > _MAX_SHOWN_INSERTS else ""
        found["inserts.sql"] = head + "".join(f"{one};\n" for one in _session_inserts(session))
    except RecoveryError:
        # The message of the error quotes the template file, which may be a different file by now: it is not shown.
        found["inserts.sql"] = "-- not rendered: the insert template is missing, or is another file now\n"
    return found


def _session_schema(session: Session) -> Schema:
    """Returns the schema that the settings describe, with defaults for settings that older versions did not store."""
    stored = {option.key: session.settings.get(option.stored) or None for option in _SCHEMA_OPTIONS}
    database = str(stored.pop("database") or Schema.database)  # a masked name is not a plain one
    return Schema(**{"tables": 1, **field_values(_OF_SCHEMA.rstrip("."), stored), "database": database})


def _session_inserts(session: Session) -> tuple[str, ...]:
    """Returns the insert statements of the session, at most `_MAX_SHOWN_INSERTS`.

    Raises RecoveryError if they can no longer be rendered."""
    return insert_statements(
        _session_schema(session),
        count=min(_MAX_SHOWN_INSERTS, _setting(session, "inserts", SessionSizes.inserts)),
        template=_setting(session, "insert_template"),
    )


def _setting(session: Session, name: str, usual: Any = None) -> Any:
    """Returns the value of an option as the session was measured with it, or `usual` if it is not stored.

    Raises UsageError if the stored value is not valid."""
    stored = session.settings.get(BY_NAME[name].stored)
    value = None if stored == "" else BY_NAME[name].value_of(stored)
    return usual if value is None else value


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


def _schemas(session: Session) -> dict[str, Schema]:
    """Returns the requested schema under an empty name, and the schemas of variants that use another one by label."""
    requested = _session_schema(session)
    found = {"": requested}
    for variant in parse_variants(tuple(split_words(session.settings.get("variants")))):
        schema = requested if variant.layout is None else replace(requested, layout=variant.layout)
        if variant.schemas:
            schema = schema.spread_over(variant.schemas)
        if schema != requested:
            found[variant.label] = schema
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
    given = {}
    for option in _SCHEMA_OPTIONS:
        name = option.field.removeprefix(_OF_SCHEMA)
        value = getattr(schema, name)
        if value != getattr(Schema, name, None) and name != "statistics":  # which are not in the script
            given[option.key] = value
    return repeat_command("schema", given, _SCHEMA_OPTIONS)


# --- repro.sh

REPRO_SCRIPT = "repro.sh"
_DEFAULT_RUNS = 5
_USED_BY_TOOL = {"innodb_file_per_table", "lc_messages", "log_timestamps"}
_SET_BY_SCRIPT = {base_name(name) for name in {*RESERVED_OPTIONS, "secure_file_priv"} - _USED_BY_TOOL}
"""Options that the script sets itself, or that no session can have."""
_NEED_OPTIONS = (Layout.ENCRYPTED, Layout.COMPRESSED)
"""Layouts for which a server needs options that a session does not store, such as those of keys."""
_FIRST_TABLE = f"{Schema.database}.table_1 "


def repro_script(session: Session, name: str, slow: Summary, finding: Finding) -> str | None:
    """Returns the script that repeats the starts of a masked session, with the tables and options of its slowest start,
    and those of the settings that are compared with it. It prints the figures of the report's synopsis.

    None if the script cannot make such tables, if they are the user's own, or if the settings are invalid."""
    if session.design.has_own_data:
        return None
    try:
        found = _schemas(session)
        schema = _schema_of(slow, found)
        inserts = _setting(session, "inserts", SessionSizes.inserts)
        runs = _setting(session, "runs", _DEFAULT_RUNS)
    except RecoveryError:
        return None
    if schema.layout in _NEED_OPTIONS:
        return None
    own_inserts = bool(session.settings.get("insert_template"))
    others = (one for one in finding.compared if one.version == slow.version and one.variant != slow.variant)
    cells = [slow, *(one for one in others if _schema_of(one, found) == schema)]
    settings = [_settings_name(session, one) for one in cells] if len(cells) > 1 else [""]
    options = [_script_options(session, one) for one in cells]
    environment = jinja2.Environment(  # noqa: S701 - a script, not a page
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters["sh"] = shlex.quote
    return environment.from_string((template_dir() / "repro.sh.j2").read_text(encoding="utf-8")).render(
        session=name,
        tables=schema.tables,
        schemas=schema.databases,
        database=schema.database.replace("`", "``"),
        rows=schema.rows,
        inserts=inserts,
        runs=runs,
        caches=" ".join(_caches(session)),
        variants=[
            {"name": one, "options": lines, "timed": timed}
            for one, (lines, timed) in zip(settings, options, strict=True)
        ],
        synopsis=" ".join(finding.synopsis.split()),
        title=session.title,
        verb=finding.verb,
        open_files=files if (files := _server_facts(session, slow).get("@open_files_limit", "")).isdecimal() else "",
        signal="TERM" if session.scenario == CLEAN_START.name else "KILL",
        heartbeat=HEARTBEAT,
        insert=None if own_inserts else _after(_FIRST_TABLE, insert_statements(_one_table(schema), count=1)[0]),
        **_table_parts(schema),
    )


def _schema_of(one: Summary, found: Mapping[str, Schema]) -> Schema:
    return next((schema for label, schema in found.items() if label and one.variant.endswith(f"-{label}")), found[""])


def _settings_name(session: Session, one: Summary) -> str:
    return session.cells[one.variant].get(SETTINGS_AXIS, one.variant)


def _caches(session: Session) -> list[Cache]:
    """Returns the caches that the session planned: a second start was planned as warm."""
    planned = {Cache.WARM if cache == SECOND_START else cache for cache in map(session.cache_of, session.variants)}
    return [cache for cache in Cache if cache in planned] or list(Cache)


def _one_table(schema: Schema) -> Schema:
    return replace(schema, tables=1, databases=1, rows=min(1, schema.rows), database=Schema.database, template=None)


def _table_parts(schema: Schema) -> dict[str, object]:
    """Returns what the script makes its tables with: the statements before the first schema, a table's definition and
    the values of a row. There is no definition if the user has a template."""
    if schema.template is not None:
        return {"definition": None, "before": (), "row": None}
    statements = tuple(script_statements(_one_table(schema)))
    first = statements.index(f"create schema {Schema.database}")
    return {
        "before": statements[:first],
        "definition": _after(_FIRST_TABLE, statements[first + 1]),
        "row": _after(" values ", statements[-1]),
    }


def _after(mark: str, statement: str) -> str:
    return statement.partition(mark)[2]


def _script_options(session: Session, slow: Summary) -> tuple[list[str], list[str]]:
    """Returns the options of the slowest start as lines of an options file, and as words those of timed starts only.

    All of them are `loose`, so that the script can be used with other versions. Values that name files of the host that
    measured, and masked ones, are left out."""
    lines, timed = [], []
    for option in split_options(_server_facts(session, slow).get("options", "")):
        name, _, value = option.partition("=")
        loose = f"loose_{name.removeprefix('loose_')}"
        if not re.fullmatch(r"[a-z0-9][a-z0-9_]*", name) or base_name(name) in _SET_BY_SCRIPT:
            continue
        try:
            quoted = quoted_value(name, value)
        except UsageError:
            quoted = None
        if quoted is None or "/" in value or re.search(PLACEHOLDER, value):
            lines.append(f"# {name} is left out: its value makes sense on one host only")
        elif timed_only_settings({name: value}):
            timed.append(f"--{loose}={value}")
        else:
            lines.append(f"{loose} = {quoted}" if value else loose)
    return lines, timed


def _server_facts(session: Session, slow: Summary) -> Mapping[str, str]:
    """Returns what is known of the server of a cell. Servers are named by version, or by version and variant."""
    for name, facts in session.servers.items():
        version, _, label = name.partition(" ")
        if version == slow.version and slow.variant.endswith(label):
            return facts
    return {}
