"""What does a template say with these variables? Rendered as a stream, so that memory does not grow with the tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from recovery.errors import RecoveryError, UsageError
from recovery.model import PARTITIONS, Schema

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
