"""Renders the SQL script of a schema from its template, splits it into statements, and measures and checks it.

The script is processed as a stream and never held in memory as a whole, because it may create 200,000 tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import islice
from pathlib import Path
from random import Random

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from recovery.errors import RecoveryError, UsageError
from recovery.linux.files import read_limited, template_dir
from recovery.linux.storage import DiskSpace, shares_blocks
from recovery.model import DEFAULT_CHARSET, PARTITIONS, Layout, Schema, Version
from recovery.mysqld.table_size import estimate_space

# --- Rendering of templates

_PIECES_PER_CHUNK = 4096
"""Number of pieces from Jinja2, each of a few bytes, that are joined into one chunk."""
_MAX_TEMPLATE_BYTES = 16 << 20
_MAX_RANGE = 100_000_000
"""Maximum length of a range() in a template."""
_UNQUOTED_NAME = re.compile(r"(?:discovery|s|sbtest)(?:_\d+)?|(?:table_|sbtest)\d+")
"""Names from the published scripts and from sysbench, which are not quoted, so that the scripts stay as published."""


def template_variables(schema: Schema) -> dict[str, object]:
    return {
        "databases": [quote_identifier(name) for name in schema.database_names],
        "tables": schema.tables,
        "columns": schema.columns,
        "rows": schema.rows,
        "layout": schema.layout.value,
        "partitions": PARTITIONS,
        "foreign_keys": schema.foreign_keys,
    }


def quote_identifier(name: str) -> str:
    """Returns the name as an SQL identifier, in backquotes unless it is one of the tool's standard names.

    A user may name a schema with a reserved word, such as `order`."""
    return name if _UNQUOTED_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def read_template(path: Path) -> str:
    """Reads the text of a template; raises UsageError if it cannot be read or is not UTF-8."""
    try:
        return read_limited(path, _MAX_TEMPLATE_BYTES).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"the template {path} is not UTF-8 text", "save it as UTF-8") from error
    except OSError as error:
        raise UsageError(f"the template {path} cannot be read: {error.strerror}", "check the path") from error


def render_text(text: str, name: str, values: Mapping[str, object]) -> Iterator[str]:
    """Yields the rendered script in chunks. Raises UsageError, with the line, for any mistake in the template."""
    try:
        pieces = _environment().from_string(text).generate(**values)
        while chunk := "".join(islice(pieces, _PIECES_PER_CHUNK)):
            yield chunk
    except jinja2.TemplateSyntaxError as error:
        raise _template_error(name, error.lineno, error.message or "syntax error") from error
    except RecoveryError:
        raise
    except Exception as error:  # an expression in a template can raise anything, and each is a mistake of its author
        raise _template_error(name, _template_line(error), str(error) or type(error).__name__) from error


def _environment() -> SandboxedEnvironment:
    environment = SandboxedEnvironment(undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True)
    # The range() of the sandbox is limited to 100,000 to save memory. A loop over a range takes no memory, and there
    # can be more tables than that.
    environment.globals["range"] = _long_range
    # A script is rendered several times, and must be the same each time.
    environment.filters["random"] = Random(0).choice  # noqa: S311 - no secret
    return environment


def _long_range(*limits: int) -> range:
    result = range(*limits)
    if result.stop - result.start > _MAX_RANGE:
        raise OverflowError(f"a range of more than {_MAX_RANGE} numbers")
    return result


def _template_line(error: BaseException) -> int | None:
    """Returns the line of the template that raised the error; None if unknown.

    Jinja2 adds the lines of the template to the traceback. The innermost one is returned."""
    line = None
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == "<template>":
            line = step.tb_lineno
        step = step.tb_next
    return line


def _template_error(name: str, line: int | None, what: str) -> UsageError:
    where = name if line is None else f"{name}, line {line}"
    return UsageError(
        f"the template {where}: {what}",
        "it is Jinja2 with the variables databases, tables, columns and rows, for inserts count as well; the tool's "
        "own are schema.sql.j2 and insert.sql.j2 in templates/",
    )


# --- Splitting a script into statements, and their kinds

_READ_CHARS = 65536

# The pattern matches whole tokens with possessive quantifiers. It reaches a semicolon only if all tokens before it are
# complete. A buffer that ends inside a string or comment, or between the two dashes of a comment, never matches early.
_STATEMENT = re.compile(
    r"""(?:
        [^;'"`#/-]++
      | '(?:[^'\\]++|\\.)*+'
      | "(?:[^"\\]++|\\.)*+"
      | `[^`]*+`
      | \#[^\n]*+\n
      | --(?=\s)[^\n]*+\n
      | -(?!-\s)
      | /\*(?:[^*]++|\*(?!/))*+\*/
      | /(?!\*)
    )*+;""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
# What the server does not execute: white space, and comments except /*! … */ and /*M! … */, which contain code.
_LEADING_COMMENTS = re.compile(
    r"(?:\s++|\#[^\n]*+(?:\n|\Z)|--(?:\Z|(?=\s)[^\n]*+(?:\n|\Z))|/\*(?!M?!)(?:[^*]++|\*(?!/))*+\*/)++",
    re.ASCII,
)
_WHITE_SPACE = " \t\r\n\f\v"
"""Characters that servers treat as white space. Other blank characters are left for the server to reject."""

_CREATE_TABLE = re.compile(r"create\s+(?:or\s+replace\s+)?table\b", re.IGNORECASE)
_INSERT = re.compile(r"insert\b", re.IGNORECASE)
_SESSION = re.compile(r"(?:use|set)\b", re.IGNORECASE)
_DEPENDS = re.compile(r"\b(?:like|references|select|union)\b", re.IGNORECASE)
_FILLS = re.compile(r"insert\s*/\*\s*fills\s*\*/", re.IGNORECASE)
_QUOTED = re.compile(r"""'(?:[^'\\]++|\\.)*+'|"(?:[^"\\]++|\\.)*+"|`[^`]*+`""", re.DOTALL)
_INDEX = re.compile(r"\bprimary\s+key\b|\b(unique(?:\s+(?:key|index))?|key|index)\b", re.IGNORECASE)
_COMPRESSED = re.compile(r"\brow_format\s*=?\s*compressed\b|\bkey_block_size\b", re.IGNORECASE)
_KEY_BLOCK_SIZE = re.compile(r"\bkey_block_size\s*=?\s*(\d{1,2})\b", re.IGNORECASE)
REFERENCES = re.compile(r"\breferences\b", re.IGNORECASE)


class StatementKind(Enum):
    """How a statement may be executed in relation to others."""

    TABLE = "table"
    """Creates a table that does not refer to another one."""
    INSERT = "insert"
    """Inserts rows that are written out in the statement."""
    FILL = "fill"
    """A large insert, marked as `insert /* fills */`, which is sent alone."""
    SESSION = "session"
    """Changes a connection, so every connection must execute it."""
    IN_ORDER = "in order"
    """Anything else: executed after all earlier statements and before all later ones."""


def split_script(chunks: Iterable[str], *, read_chars: int = _READ_CHARS) -> Iterator[str]:
    """Yields the statements of a script given in chunks, without semicolons, leading comments and empty statements.

    At least `read_chars` characters are collected before each search. A statement that is still incomplete is searched
    again only after the buffer has doubled, so that long statements do not take quadratic time."""
    source = iter(chunks)
    rest = ""
    while True:
        gathered, ended = _collect_chunks(source, max(read_chars, len(rest)))
        buffer = rest + gathered
        start = 0
        while match := _STATEMENT.match(buffer, start):
            yield from _trim(buffer[start : match.end() - 1])
            start = match.end()
        rest = buffer[start:]
        if ended:
            yield from _trim(rest)
            return


def kind_of(statement: str) -> StatementKind:
    if _CREATE_TABLE.match(statement):
        return StatementKind.IN_ORDER if _DEPENDS.search(statement) else StatementKind.TABLE
    if _FILLS.match(statement):
        return StatementKind.FILL
    if _INSERT.match(statement):
        return StatementKind.IN_ORDER if _DEPENDS.search(statement) else StatementKind.INSERT
    return StatementKind.SESSION if _SESSION.match(statement) else StatementKind.IN_ORDER


def creates_table(statement: str) -> bool:
    """Returns whether the statement creates a table that is not temporary."""
    return _CREATE_TABLE.match(statement) is not None


def count_indexes(definition: str) -> int:
    """Returns the number of indexes in a table definition, without the primary key."""
    return sum(bool(match[1]) for match in _INDEX.finditer(_QUOTED.sub("", definition)))


def compressed_kib(definition: str) -> int | None:
    """Returns the size of a table's compressed pages in KiB.

    It is 0 if the server chooses the size, and None if the table is not compressed."""
    plain = _QUOTED.sub("", definition)
    if _COMPRESSED.search(plain) is None:
        return None
    size = _KEY_BLOCK_SIZE.search(plain)
    return int(size[1]) if size else 0


def _collect_chunks(source: Iterator[str], min_chars: int) -> tuple[str, bool]:
    """Returns the next chunks, with at least `min_chars` characters if there are so many, and whether the source has
    ended."""
    parts: list[str] = []
    length = 0
    for chunk in source:
        parts.append(chunk)
        length += len(chunk)
        if length >= min_chars:
            return "".join(parts), False
    return "".join(parts), True


def _trim(statement: str) -> Iterator[str]:
    """Yields the statement without leading comments and surrounding white space, or nothing if it is empty."""
    if statement[:1] in "-#/" + _WHITE_SPACE and (leading := _LEADING_COMMENTS.match(statement)):
        statement = statement[leading.end() :]
    if statement:
        yield statement.rstrip(_WHITE_SPACE)


ROWS_PER_INSERT = 1000
"""Rows per insert statement in the tool's own templates. A test checks that they agree."""


@dataclass(frozen=True)
class ScriptSize:
    """The number of statements, tables and indexes in the script of a schema."""

    statements: int
    tables: int
    indexes: int = 0
    """Number of indexes of all tables, without primary keys."""
    block_bytes: int | None = None
    """Largest size of compressed pages, or 0 if the server chooses it. None if not all tables are compressed."""


def has_own_template(schema: Schema) -> bool:
    """Returns whether the tables come from a template of the user's, which is not trusted."""
    return schema.template is not None and schema.template.parent != template_dir()


def template_path(schema: Schema) -> Path:
    if schema.template is not None:
        return schema.template
    return template_dir() / ("schema.sql.j2" if schema.layout is Layout.FILES else "layouts.sql.j2")


_COLLATIONS = {DEFAULT_CHARSET: "latin1_swedish_ci", "utf8mb4": "utf8mb4_general_ci"}
"""Collations that all versions have, by character set."""


def _charset_clause(charset: str) -> str:
    return f"character set {charset.partition('_')[0]} collate {_COLLATIONS.get(charset, charset)}"


def template_text(schema: Schema) -> str:
    """Returns the text of the template with the character set of the schema.

    It is no variable: the text decides which data directories can be used, and must stay as it is for the default."""
    text = read_template(template_path(schema))
    if schema.charset == DEFAULT_CHARSET:
        return text
    return text.replace(_charset_clause(DEFAULT_CHARSET), _charset_clause(schema.charset))


def render_script(schema: Schema) -> Iterator[str]:
    """Yields the script in chunks. The text can be attached to a report."""
    return render_text(template_text(schema), str(template_path(schema)), template_variables(schema))


def script_statements(schema: Schema) -> Iterator[str]:
    return split_script(render_script(schema))


def script_size(schema: Schema) -> ScriptSize:
    """Returns the size of the script.

    It is computed for the tool's own template. Another one is rendered, once for each state of its file."""
    if schema.template is None:
        inserts = schema.total_tables * -(-schema.rows // ROWS_PER_INSERT)
        spaces = 1 if schema.layout is Layout.GENERAL else 0
        return ScriptSize(spaces + schema.databases + schema.total_tables + inserts, schema.total_tables)
    state = None
    with suppress(OSError):  # rendering tells what is wrong with the file
        status = schema.template.stat()
        state = (status.st_mtime_ns, status.st_size)
    return _rendered_size(schema, state)


@lru_cache
def _rendered_size(schema: Schema, _: tuple[int, int] | None) -> ScriptSize:
    return measure_by_rendering(schema)


def sysbench_tables(schema: Schema) -> tuple[str, ...]:
    """Returns the names of the tables that templates/sysbench.sql.j2 creates, as `database.table`."""
    return tuple(
        f"{database}.sbtest{number}" for database in schema.database_names for number in range(1, schema.tables + 1)
    )


def measure_by_rendering(schema: Schema) -> ScriptSize:
    """Returns the size of the script. It is rendered again later, with the same result."""
    count = tables = indexes = 0
    compressed: set[int | None] = set()
    for statement in script_statements(schema):
        count += 1
        if creates_table(statement):
            tables += 1
            indexes += count_indexes(statement)
            compressed.add(compressed_kib(statement))
    sizes = [kib for kib in compressed if kib is not None]
    block_bytes = 1024 * max(sizes) if len(sizes) == len(compressed) > 0 else None
    return ScriptSize(count, tables, indexes, block_bytes)


_RESERVE = DiskSpace(300_000_000, 1000)
"""For the tables that are added to a copy, temporary files, and undo logs."""


def disk_need(
    script: ScriptSize, version: Version, schema: Schema, settings: Mapping[str, str], folder: Path
) -> DiskSpace:
    """Returns the space that a data directory with these tables needs in this folder."""
    if (own := schema.own) is not None:
        # Each run over a directory as it is works on another copy of the copy.
        copies = 2 if own.as_is else 1
        return _RESERVE + DiskSpace(0 if shares_blocks(own.path, folder) else copies * own.bytes, copies * own.files)
    return estimate_space(version, schema, settings, indexes=script.indexes, block_bytes=script.block_bytes)


def can_extend(smaller: Schema, larger: Schema) -> bool:
    """Returns whether the script of `larger` begins with the complete script of `smaller`.

    If so, a data directory built for `smaller` can be extended to `larger`."""
    rest = script_statements(larger)
    return all(statement == next(rest, None) for statement in script_statements(smaller))


def checked_script_size(schema: Schema) -> ScriptSize:
    """Returns the size of the script; raises UsageError if the template does not create the requested tables.

    This is checked before anything is changed."""
    size = script_size(schema)
    path = template_path(schema)
    if size.statements == 0:
        raise UsageError(f"the template {path} renders to no statement at all", "it should create a schema and tables")
    if size.tables != schema.total_tables:
        comparison = "fewer" if size.tables < schema.total_tables else "more"
        raise UsageError(
            f"the template {path} makes {comparison} tables than requested: "
            f"{size.tables} instead of {schema.total_tables}",
            f"ask for as many as it makes, or loop over `databases` and `range(1, tables + 1)` in it "
            f"({schema.databases} databases of {schema.tables} tables were asked)",
        )
    return size
