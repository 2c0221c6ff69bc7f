"""Writes the files of a bundle that repeat a session without the tool: the SQL, the options, and repro.sh.

repro.sh is rendered from the reduced session. Everything that comes from the session is quoted for the shell, and
options of the server are written into an options file."""

from __future__ import annotations

import re
import shlex
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

import jinja2

from recovery.analysis.summary import Summary
from recovery.errors import RecoveryError, UsageError
from recovery.experiments import find_experiment
from recovery.experiments.clean_start import CLEAN_START
from recovery.experiments.experiment import Experiment
from recovery.linux.files import template_dir
from recovery.model import SECOND_START, SETTINGS_AXIS, Cache, Layout, Schema, Session
from recovery.mysqld.options import RESERVED_OPTIONS, base_name, quoted_value, timed_only_settings
from recovery.sharing.bug_finding import Finding
from recovery.sharing.reduction import NOT_SHARED
from recovery.sharing.stored_options import named_settings, split_options
from recovery.workload.first_queries import DEFAULT, stored_script
from recovery.workload.inserts import HEARTBEAT, insert_statements
from recovery.workload.schema import script_size, script_statements

# --- SQL scripts and options files

MAX_SCRIPT_BYTES = 1_000_000
"""Maximum size of a script that is included in full: about 13,000 tables."""
MAX_SCRIPT_STATEMENTS = 1_000_000
"""Maximum number of statements of a script that is rendered in full."""
_MAX_SHOWN_INSERTS = 10_000
"""Maximum number of inserts in inserts.sql."""
_SHOWN_STATEMENTS = 100
"""Number of statements shown from each end of a longer script."""
_MAX_COLUMNS = 1000
"""Most columns of a table, in addition to its key, that a session can have."""
_OWN_TEMPLATE = "the session used a template of the user's own, which is not shared: put its statements here"


def sql_scripts(session: Session) -> dict[str, str]:
    """Returns the SQL scripts by file name. A script that cannot be rendered, or that the user wrote, is replaced by a
    comment. Of a data directory of the user's own there are none."""
    if session.design.has_own_data:
        return {}
    found = {}
    try:
        schemas = _schemas(session)
        if has_own_tables(session):
            raise UsageError(_OWN_TEMPLATE)
        for label, schema in schemas.items():
            found[f"schema-{label}.sql" if label else "schema.sql"] = _script_text(schema)
    except RecoveryError as error:
        found.setdefault("schema.sql", f"-- not rendered: {error.message}\n")
    if queries := session.settings.get("first_queries"):
        is_own = queries != DEFAULT
        found["first-queries.sql"] = "-- The user's own queries are not shared.\n" if is_own else stored_script(DEFAULT)
    try:
        count = _inserts(session)
        head = f"-- The first {_MAX_SHOWN_INSERTS:,} of {count:,}.\n" if count > _MAX_SHOWN_INSERTS else ""
        found["inserts.sql"] = head + "".join(map(_line, _insert_statements(session, count)))
    except RecoveryError as error:
        found["inserts.sql"] = f"-- not rendered: {error.message}\n"
    return found


def _session_schema(session: Session) -> Schema:
    """Returns the schema that the settings describe, with defaults for settings that are not stored.

    Raises UsageError if they are invalid. A template of the user's own is left out."""
    try:
        layout = Layout(str(session.settings.get("layout") or Schema.layout))
    except ValueError as error:
        raise UsageError("the stored setting 'layout' is not valid") from error
    database = str(session.settings.get("database") or "")
    columns = _whole(session, "columns", Schema.columns)
    if columns > _MAX_COLUMNS:
        raise UsageError("the stored setting 'columns' is not valid")
    return Schema(
        tables=max(1, _whole(session, "tables", 1)),
        databases=max(1, _whole(session, "schemas", Schema.databases)),
        columns=columns,
        rows=_whole(session, "rows", Schema.rows),
        database=Schema.database if database in ("", NOT_SHARED) else database,
        layout=layout,
        template=_template_of_tool(session),
    )


def _template_of_tool(session: Session) -> Path | None:
    """Returns the template if it is the experiment's, of which a reduced session has the name alone."""
    name = session.settings.get("template")
    with suppress(RecoveryError):
        if name and name == find_experiment(session.experiment).template:
            return template_dir() / str(name)
    return None


def has_own_tables(session: Session) -> bool:
    """Returns whether the tables come from a template of the user's own."""
    return bool(session.settings.get("template")) and _template_of_tool(session) is None


def _inserts(session: Session) -> int:
    return _whole(session, "inserts", Experiment.inserts)


def _insert_statements(session: Session, count: int) -> tuple[str, ...]:
    """Returns the insert statements of the session, at most `_MAX_SHOWN_INSERTS`.

    Raises RecoveryError if they cannot be rendered, or if the user has a template."""
    if session.settings.get("insert_template"):
        raise UsageError(_OWN_TEMPLATE)
    return insert_statements(_session_schema(session), count=min(_MAX_SHOWN_INSERTS, count))


def _whole(session: Session, name: str, usual: int) -> int:
    """Returns a stored number, or `usual` if it is not stored. Raises UsageError if it is not valid."""
    stored = session.settings.get(name)
    if stored in (None, ""):
        return usual
    if not isinstance(stored, int) or stored < 0:
        raise UsageError(f"the stored setting '{name}' is not valid")
    return stored


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
    for variant in named_settings(session.settings.get("variants")):
        schema = requested if variant.layout is None else replace(requested, layout=variant.layout)
        if variant.schemas:
            schema = schema.spread_over(variant.schemas)
        if schema != requested:
            found[variant.label] = schema
    return found


def _script_text(schema: Schema) -> str:
    """Returns the script of a schema. Of a long one it contains the beginning, or the beginning and the end."""
    count = script_size(replace(schema, template=None)).statements
    if count * max(1, schema.columns) > MAX_SCRIPT_STATEMENTS:
        first = "".join(map(_line, islice(script_statements(schema), _SHOWN_STATEMENTS)))
        return (
            f"-- About {count:,} statements. The first {_SHOWN_STATEMENTS} are here. All of them: "
            f"{_schema_command(schema)}\n{first}"
        )
    head: list[str] = []
    ends: deque[str] = deque(maxlen=_SHOWN_STATEMENTS)
    size = count = 0
    for statement in script_statements(schema):
        count += 1
        size += len(statement) + 2
        if size <= MAX_SCRIPT_BYTES:
            head.append(statement)
        ends.append(statement)
    if size <= MAX_SCRIPT_BYTES:
        return "".join(map(_line, head))
    first = "".join(map(_line, head[:_SHOWN_STATEMENTS]))
    last = "".join(map(_line, ends))
    left_out = count - 2 * _SHOWN_STATEMENTS
    return (
        f"-- {count:,} statements, {size:,} bytes: more than the maximum of {MAX_SCRIPT_BYTES:,}. The first\n"
        f"-- and the last {_SHOWN_STATEMENTS} are here. All of them: {_schema_command(schema)}\n{first}"
        f"-- … {left_out:,} statements are left out here …\n{last}"
    )


def _line(statement: str) -> str:
    return f"{statement};\n"


def _schema_command(schema: Schema) -> str:
    """Returns the command that prints the whole script of a schema."""
    values = {
        "tables": schema.tables, "schemas": schema.databases, "layout": schema.layout.value, "columns": schema.columns,
        "rows": schema.rows, "database": schema.database,
    }  # fmt: skip
    usual = {"schemas": 1, "layout": Schema.layout.value, "columns": 0, "rows": 0, "database": Schema.database}
    given = ((f"--{name}", str(value)) for name, value in values.items() if value != usual.get(name))
    return shlex.join(("recovery", "schema", *(word for pair in given for word in pair)))


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
    """Returns the script that repeats the starts of a reduced session, with the tables and options of its slowest
    start, and those of the settings that are compared with it. It prints the figures of the report's synopsis.

    None if the script cannot make such tables, if they are the user's own, or if the settings are invalid."""
    if session.design.has_own_data:
        return None
    try:
        found = _schemas(session)
        schema = _schema_of(slow, found)
        inserts = _inserts(session)
        runs = _whole(session, "runs", _DEFAULT_RUNS)
    except RecoveryError:
        return None
    if schema.layout in _NEED_OPTIONS:
        return None
    own_inserts = bool(session.settings.get("insert_template"))
    others = (cell for cell in finding.compared if cell.version == slow.version and cell.variant != slow.variant)
    cells = [slow, *(cell for cell in others if _schema_of(cell, found) == schema)]
    settings = [_settings_name(session, cell) for cell in cells] if len(cells) > 1 else [""]
    options = [_script_options(session, cell) for cell in cells]
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
            {"name": setting, "options": lines, "timed": timed}
            for setting, (lines, timed) in zip(settings, options, strict=True)
        ],
        synopsis=" ".join(finding.synopsis.split()),
        title=session.title,
        verb=finding.verb,
        open_files=files if (files := _server_facts(session, slow).get("@open_files_limit", "")).isdecimal() else "",
        signal="TERM" if session.experiment == CLEAN_START.name else "KILL",
        heartbeat=HEARTBEAT,
        insert=None if own_inserts else _after(_FIRST_TABLE, insert_statements(_one_table(schema), count=1)[0]),
        **_table_parts(None if has_own_tables(session) else schema),
    )


def _schema_of(cell: Summary, found: Mapping[str, Schema]) -> Schema:
    return next((schema for label, schema in found.items() if label and cell.variant.endswith(f"-{label}")), found[""])


def _settings_name(session: Session, cell: Summary) -> str:
    return session.values_of(cell.variant).get(SETTINGS_AXIS, cell.variant)


def _caches(session: Session) -> list[Cache]:
    """Returns the caches that the session planned: a second start was planned as warm."""
    planned = {Cache.WARM if cache == SECOND_START else cache for cache in map(session.cache_of, session.variant_names)}
    return [cache for cache in Cache if cache in planned] or list(Cache)


def _one_table(schema: Schema) -> Schema:
    return replace(schema, tables=1, databases=1, rows=min(1, schema.rows), database=Schema.database, template=None)


def _table_parts(schema: Schema | None) -> dict[str, object]:
    """Returns what the script makes its tables with: the statements before the first schema, a table's definition and
    the values of a row. There is no definition if the user has a template."""
    if schema is None:
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
    measured are left out."""
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
        if quoted is None or "/" in value:
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
