"""Which statements build the stage, and do they make what was asked? The script is streamed, never held."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from pathlib import Path

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from recovery.errors import RecoveryError, UsageError
from recovery.linux.files import template_dir
from recovery.linux.storage import Need, need_for
from recovery.model import PARTITIONS, Layout, Schema, Version

# What does a template say with these variables? Rendered as a stream, so that memory does not grow with the tables.

_PIECES = 4096
"""The engine yields a few bytes at a time: so many are joined into one chunk."""
_LONGEST_RANGE = 100_000_000
_OWN_NAME = re.compile(r"(?:discovery|s|sbtest)(?:_\d+)?|(?:table_|sbtest)\d+")
"""As published, and as sysbench calls them: in the scripts they stand as they were published."""


def variables(schema: Schema) -> dict[str, object]:
    """What every template gets."""
    return {
        "databases": [quoted(name) for name in schema.database_names],
        "tables": schema.tables,
        "columns": schema.columns,
        "rows": schema.rows,
        "layout": schema.layout.value,
        "partitions": PARTITIONS,
        "foreign_keys": schema.foreign_keys,
    }


def quoted(name: str) -> str:
    """Whatever a user calls a schema: `order` is a word of the language, and a fine name."""
    return name if _OWN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def read_template(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"the template {path} is not UTF-8 text", "save it as UTF-8") from error
    except OSError as error:
        raise UsageError(f"the template {path} cannot be read: {error.strerror}", "check the path") from error


def render_text(text: str, name: str, values: Mapping[str, object]) -> Iterator[str]:
    """Chunks of the rendered script. Every mistake in the template is a UsageError that names its line."""
    try:
        pieces = _environment().from_string(text).generate(**values)
        while chunk := "".join(islice(pieces, _PIECES)):
            yield chunk
    except jinja2.TemplateSyntaxError as error:
        raise _mistake(name, error.lineno, error.message or "syntax error") from error
    except RecoveryError:
        raise
    except Exception as error:  # a template can raise whatever an expression in it can: all of it is its author's
        raise _mistake(name, _template_line(error), str(error) or type(error).__name__) from error


def _environment() -> SandboxedEnvironment:
    environment = SandboxedEnvironment(undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True)
    # The sandbox's own range ends at 100,000 to save memory; loops over a range take none, and tables are more.
    environment.globals["range"] = _long_range
    return environment


def _long_range(*limits: int) -> range:
    result = range(*limits)
    if result.stop - result.start > _LONGEST_RANGE:
        raise OverflowError(f"a range of more than {_LONGEST_RANGE} numbers")
    return result


def _template_line(error: BaseException) -> int | None:
    """The engine puts the template's own lines into the traceback; the innermost one is to blame."""
    line = None
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == "<template>":
            line = step.tb_lineno
        step = step.tb_next
    return line


def _mistake(name: str, line: int | None, what: str) -> UsageError:
    where = name if line is None else f"{name}, line {line}"
    return UsageError(
        f"the template {where}: {what}",
        "it is Jinja2 with the variables databases, tables, columns and rows, for inserts count as well; the tool's "
        "own are schema.sql.j2 and insert.sql.j2 in templates/",
    )


# Where does a statement of an SQL script end, and may it run beside its neighbours? Streaming, and pure.

_READ_CHARS = 65536

# Whole tokens only, possessive: the pattern reaches a semicolon exactly if everything before it is complete, so a
# buffer that ends inside a string, a comment or before the second dash of one never matches too early.
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
# Nothing the server would run: white space, and comments except /*! … */ and /*M! … */, which are code.
_LEADING = re.compile(
    r"(?:\s++|\#[^\n]*+(?:\n|\Z)|--(?:\Z|(?=\s)[^\n]*+(?:\n|\Z))|/\*(?!M?!)(?:[^*]++|\*(?!/))*+\*/)++",
    re.ASCII,
)
_BLANKS = " \t\r\n\f\v"
"""As servers know them: what else looks blank is a mistake, and theirs to tell."""

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


class Kind(Enum):
    """How a statement may be run."""

    TABLE = "creates a table that needs no other"
    INSERT = "inserts rows that come from nowhere else"
    FILL = "an insert that makes many such rows itself, and says so: `insert /* fills */`. It travels alone"
    SESSION = "changes a connection: all of them must run it"
    IN_ORDER = "anything else: after all before it, and before all after it"


def split(chunks: Iterable[str], *, read_chars: int = _READ_CHARS) -> Iterator[str]:
    """The statements of a script that comes in chunks, without semicolons, leading comments and empty ones.

    `read_chars` is how much is gathered at least before looking; a statement that goes on is looked at again only when
    it has doubled, so that long ones take no quadratic time."""
    source = iter(chunks)
    rest = ""
    while True:
        gathered, ended = _gather(source, max(read_chars, len(rest)))
        buffer = rest + gathered
        start = 0
        while match := _STATEMENT.match(buffer, start):
            yield from _clean(buffer[start : match.end() - 1])
            start = match.end()
        rest = buffer[start:]
        if ended:
            yield from _clean(rest)
            return


def kind_of(statement: str) -> Kind:
    if _CREATE_TABLE.match(statement):
        return Kind.IN_ORDER if _DEPENDS.search(statement) else Kind.TABLE
    if _FILLS.match(statement):
        return Kind.FILL
    if _INSERT.match(statement):
        return Kind.IN_ORDER if _DEPENDS.search(statement) else Kind.INSERT
    return Kind.SESSION if _SESSION.match(statement) else Kind.IN_ORDER


def creates_table(statement: str) -> bool:
    """A table that stays: a temporary one is none."""
    return _CREATE_TABLE.match(statement) is not None


def count_indexes(definition: str) -> int:
    """That a table's definition names, beside its primary key."""
    return sum(bool(found[1]) for found in _INDEX.finditer(_QUOTED.sub("", definition)))


def compressed_kib(definition: str) -> int | None:
    """The size of a table's compressed pages, 0 where the server chooses it; None where they are not compressed."""
    plain = _QUOTED.sub("", definition)
    if _COMPRESSED.search(plain) is None:
        return None
    asked = _KEY_BLOCK_SIZE.search(plain)
    return int(asked[1]) if asked else 0


def _gather(source: Iterator[str], least: int) -> tuple[str, bool]:
    parts: list[str] = []
    length = 0
    for chunk in source:
        parts.append(chunk)
        length += len(chunk)
        if length >= least:
            return "".join(parts), False
    return "".join(parts), True


def _clean(statement: str) -> Iterator[str]:
    if statement[:1] in "-#/" + _BLANKS and (leading := _LEADING.match(statement)):
        statement = statement[leading.end() :]
    if statement:
        yield statement.rstrip(_BLANKS)


ROWS_IN_AN_INSERT = 1000
"""As our own templates have it; a test holds them together."""


@dataclass(frozen=True)
class ScriptSize:
    statements: int
    tables: int
    indexes: int = 0
    """Of all tables, beside their primary keys."""
    block_bytes: int | None = None
    """Of compressed pages, the largest, or 0 where the server chooses it; None where not all tables have such."""


def template_path(schema: Schema) -> Path:
    if schema.template is not None:
        return schema.template
    return template_dir() / ("schema.sql.j2" if schema.layout is Layout.FILES else "layouts.sql.j2")


def template_text(schema: Schema) -> str:
    return read_template(template_path(schema))


def render(schema: Schema) -> Iterator[str]:
    """The script in chunks, as it may be attached to a report."""
    return render_text(template_text(schema), str(template_path(schema)), variables(schema))


def statements(schema: Schema) -> Iterator[str]:
    return split(render(schema))


def measure(schema: Schema) -> ScriptSize:
    """Our own template is known; somebody else's is rendered once: less than a second for 200,000 tables."""
    if schema.template is None:
        inserts = schema.total_tables * -(-schema.rows // ROWS_IN_AN_INSERT)
        spaces = 1 if schema.layout is Layout.GENERAL else 0
        return ScriptSize(spaces + schema.databases + schema.total_tables + inserts, schema.total_tables)
    return measure_by_rendering(schema)


def sysbench_tables(schema: Schema) -> tuple[str, ...]:
    """As templates/sysbench.sql.j2 calls them."""
    return tuple(
        f"{database}.sbtest{number}" for database in schema.database_names for number in range(1, schema.tables + 1)
    )


def measure_by_rendering(schema: Schema) -> ScriptSize:
    count = tables = indexes = 0
    compressed: set[int | None] = set()
    for statement in statements(schema):
        count += 1
        if creates_table(statement):
            tables += 1
            indexes += count_indexes(statement)
            compressed.add(compressed_kib(statement))
    sizes = [kib for kib in compressed if kib is not None]
    block_bytes = 1024 * max(sizes) if len(sizes) == len(compressed) > 0 else None
    return ScriptSize(count, tables, indexes, block_bytes)


def need_of(script: ScriptSize, version: Version, schema: Schema, settings: Mapping[str, str]) -> Need:
    """What the disk must have for the tables of a script."""
    return need_for(version, schema, settings, indexes=script.indexes, block_bytes=script.block_bytes)


def goes_on(smaller: Schema, larger: Schema) -> bool:
    """Whether the larger script begins with the whole of the smaller one: then a server that has had that can be given
    the rest."""
    rest = statements(larger)
    return all(one == next(rest, None) for one in statements(smaller))


def check_template(schema: Schema) -> ScriptSize:
    """UsageError unless the template renders, and to as many tables as asked. Done before anything is touched."""
    size = measure(schema)
    path = template_path(schema)
    if size.statements == 0:
        raise UsageError(f"the template {path} renders to no statement at all", "it should create a schema and tables")
    if size.tables != schema.total_tables:
        comparison = "fewer" if size.tables < schema.total_tables else "more"
        raise UsageError(
            f"the template {path} makes {comparison} tables than said: {size.tables} instead of {schema.total_tables}",
            f"ask for as many as it makes, or loop over `databases` and `range(1, tables + 1)` in it "
            f"({schema.databases} databases of {schema.tables} tables were asked)",
        )
    return size
