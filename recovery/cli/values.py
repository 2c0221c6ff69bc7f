"""Parses the values of options. A converter of the option table takes what the user gave.

Modules that only a few options need are imported where they are used, because every command has the option table."""

from __future__ import annotations

import math
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recovery.errors import UsageError

if TYPE_CHECKING:
    from recovery.model import Layout, NamedSettings
    from recovery.session.request import OwnServer

Converter = Callable[[Any], Any]
"""Takes the value of an option. Raises UsageError for one that is not valid; the table adds the option's name."""

# --- Numbers

MAX_TABLES = 100_000_000
MAX_ROWS = 1_000_000_000
MAX_INSERTS = 1_000_000
MAX_SCHEMAS = 100_000
MAX_COLUMNS = 1000
MAX_SECONDS = 86_400
MAX_CLIENTS = 10_000
MAX_SESSIONS = 1000
MIN_OPEN_FILES, MAX_OPEN_FILES = 1024, 10_000_000
_MANY = 200_000
"""From this limit on, an example of a valid number is a large one."""
_MAX_SHARE = 100.0
_COUNT = re.compile(r"([0-9]{1,18})(k|m|e[0-9]{1,2})?", re.IGNORECASE)
_EXPONENTS = {"": 0, "k": 3, "m": 6}


def parse_count(text: str | int, most: int, *, least: int = 1) -> int:
    """Parses a whole number from `least` to `most`, such as 20000, 20k, 1M or 1e5.

    Raises UsageError for `0`, `-1`, `x` and numbers beyond."""
    written = _COUNT.fullmatch(str(text).replace("_", ""))
    unit = (written[2] or "").lower() if written else ""
    number = int(written[1]) * 10 ** int(unit[1:] if unit[:1] == "e" else _EXPONENTS[unit]) if written else 0
    if not least <= number <= most:
        example = "20000 or 20k" if most >= _MANY else "5"
        raise UsageError(f"{text} is not valid", f"give a whole number from {least:,} to {most:,}, like {example}")
    return number


def count(most: int, *, least: int = 1) -> Converter:
    return lambda text: parse_count(text, most, least=least)


def count_or_zero(most: int) -> Converter:
    return lambda text: 0 if str(text) == "0" else parse_count(text, most)


def counts(most: int) -> Converter:
    """Returns the converter of `THREADS="1 4 16"`: each number once, in ascending order."""
    return lambda text: tuple(sorted({parse_count(word, most) for word in words(text)}))


def sizes(text: str) -> tuple[int, ...]:
    """Converts `REDO="64m 2g"`: each size once, in ascending order."""
    from recovery.linux import cgroups

    return tuple(sorted({cgroups.parse_size(word, minimum=1 << 20, example="64m") for word in words(text)}))


def run_count(text: str | int) -> int:
    from recovery.model import MAX_RUNS

    return parse_count(text, MAX_RUNS)


def decimal(least: float, most: float) -> Converter:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise UsageError(f"{text} is not valid", f"give a number from {least:g} to {most:,.0f}")
        return value

    return parse


_PERIOD = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_MAX_PERIOD_S = 366 * 86_400


def parse_period(text: str) -> float:
    """Parses a time such as 6h, 90m or 1d, and returns its seconds."""
    written = _PERIOD.fullmatch(str(text).strip())
    seconds = float(written[1]) * _UNITS_S[written[2]] if written else 0.0
    if not 0 < seconds <= _MAX_PERIOD_S:
        raise UsageError(f"{text} is not valid", "give a number of s, m, h or d, like 6h, and 366d at most")
    return seconds


def period_text(seconds: float) -> str:
    """Returns the time as `parse_period` takes it, in the largest unit of which it is a whole number."""
    unit = next((unit for unit in "dhm" if seconds >= _UNITS_S[unit] and not seconds % _UNITS_S[unit]), "s")
    return f"{seconds / _UNITS_S[unit]:.10g}{unit}"


def parse_share(text: str) -> float:
    """Parses a percentage such as `10%` or `10` and returns it as a fraction (0.1)."""
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = math.nan
    if not 0 <= share <= _MAX_SHARE:
        raise UsageError(f"{text} is not valid", "give a percentage, like 10%")
    return share


def parse_precision(text: str) -> float:
    share = parse_share(text)
    if not 0 < share < 1 or (share < 0.01 and "%" not in text):  # PRECISION=0.05 may mean 5 %
        raise UsageError(f"{text} is not valid", "give a percentage, like 5%")
    return share


def limit(parser: str) -> Converter:
    """Returns the converter of a limit of the server, by the name of its parser."""

    def parse(text: object) -> Any:
        from recovery.linux import cgroups

        return getattr(cgroups, parser)(str(text))

    return parse


def parse_points(text: str) -> tuple[int, ...]:
    """Parses `TABLES="1000 10000"`; returns each number once, in ascending order."""
    points: tuple[int, ...] = counts(MAX_TABLES)(text)
    if len(points) < 2:
        raise UsageError(f"{text} is only one point", 'give several, like "1000 10000 50000"', option="tables")
    return points


# --- Words and names

MAX_NOTE_LENGTH = 500
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,49}")
_SYSTEM_SCHEMAS = frozenset({"mysql", "information_schema", "performance_schema", "sys", "test"})
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,30}")


def words(text: str) -> tuple[str, ...]:
    """Returns the words of a list with blanks or commas, each once."""
    found = tuple(dict.fromkeys(text.replace(",", " ").split()))
    if not found:
        raise UsageError(f"{text} has no value", "give it a value, or leave it out")
    return found


def split_versions(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Splits `VERSION="5.6.24 5.7.22"` and repeated options into versions, each of them once."""
    return tuple(dict.fromkeys(version for text in texts for version in text.replace(",", " ").split()))


def parse_identifier(text: str) -> str:
    if not _IDENTIFIER.fullmatch(text):
        raise UsageError(f"{text} is not a plain SQL name", "use letters, digits and underscores, 50 at most")
    if text.lower() in _SYSTEM_SCHEMAS:
        raise UsageError(f"{text} is a schema of the server itself", "use another name")
    return text


def parse_notes(notes: Iterable[str]) -> str | None:
    """Joins the texts of `--note "io2, 5000 IOPS"`; raises UsageError for text that a report cannot show."""
    note = "; ".join(filter(None, (text.strip() for text in notes)))
    if len(note) > MAX_NOTE_LENGTH:
        raise UsageError(f"{len(note):,} characters are too long", f"use at most {MAX_NOTE_LENGTH}", option="note")
    if not note.isprintable():
        raise UsageError(
            f"{note!r} is not a line of plain text", "leave out line ends and control characters", option="note"
        )
    return note or None


_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh"})
_SHELL_SYNTAX = re.compile(
    r"\$(?:[A-Za-z_]\w*|[{(])|`|^~(?=/|$)|^(?:\|\|?|&&?|;|\d?>>?.*|<.*)$|(?<=\S);$|^[^'\"\s]*\*[^'\"\s]*$", re.ASCII
)
"""What only a shell gives a meaning: variables, commands in a command, pipes, redirections, patterns of names."""


def parse_command(text: str) -> tuple[str, ...]:
    """Splits `BEFORE_START="blockdev --setra 0 /dev/nvme1n1"` into words. Raises UsageError without such a program."""
    program, *arguments = split_command(text)
    has_shell = any(Path(word).name in _SHELLS for word in (program, *arguments))
    if not has_shell and (sign := next(filter(None, map(_SHELL_SYNTAX.search, shlex.split(text))), None)):
        raise UsageError(
            f"{text} is run without a shell, which alone gives {sign[0]} a meaning",
            "put the command into a script and name that, or give \"sh -c '...'\"",
        )
    if shutil.which(program) is None:
        raise UsageError(f"{text}: there is no program {program}", "check its path, and that it is executable")
    return program, *arguments


def parse_before_kill(text: str) -> tuple[str, ...]:
    """Converts `BEFORE_KILL=load`, or a command."""
    from recovery.experiments.experiment import LOAD

    return (LOAD,) if text == LOAD else parse_command(text)


def split_command(text: str) -> tuple[str, ...]:
    """Splits a command into words; a path of the program becomes absolute."""
    try:
        program, *arguments = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{text} is not valid: {error}", "quote it as in a shell") from error
    if "/" in program:
        program = str(absolute_path(program))
    return program, *arguments


def absolute_path(path: Path | str) -> Path:
    """Returns the absolute path, because a stored path must have the same meaning in every working directory."""
    from recovery.linux.files import expand_path

    return expand_path(Path(path)).absolute()


def parse_layout(text: str) -> Layout:
    from recovery.model import Layout

    if text not in layout_names():
        raise UsageError(f"{text} is not valid", f"expected one of: {', '.join(layout_names())}")
    return Layout(text)


def layout_names() -> list[str]:
    from recovery.model import Layout

    return [layout for layout in Layout if layout is not Layout.COMPRESSED]  # which is reserved for loads


# --- Server options

_LAYOUT_KEYS = ("layout", "schemas")
"""Keys of a variant that are not server options."""


def parse_settings(pairs: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Parses `--set name=value` options for mysqld; a name without a value is a flag."""
    from recovery.mysqld.options import TIMED_ONLY_OPTIONS, check_user_settings

    settings: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not name.strip():
            raise UsageError(f"{pair} names no option", "write it like innodb_force_recovery=1")
        settings[name] = value.strip()
    checked = check_user_settings(settings)
    for name, value in checked.items():
        if name.removeprefix("loose_") in TIMED_ONLY_OPTIONS and value not in ("0", "1", "2", "3"):
            raise UsageError(f"{name}={value} can damage the data directory", "1 to 3 are safe; 1 skips the validation")
    return tuple(checked.items())


def settings_texts(settings: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in settings)


def parse_server_option(text: str) -> tuple[str, tuple[str, ...]]:
    """Returns the checked name and the values of a text such as `table_open_cache=400,4000`."""
    from recovery.mysqld.options import check_user_settings

    name, equals, values = text.partition("=")
    found = tuple(dict.fromkeys(value.strip() for value in values.split(",") if value.strip()))
    if not equals or not found:
        raise UsageError(f"{text} has no values", "write it like table_open_cache=400,4000")
    (checked,) = {checked_name for value in found for checked_name in check_user_settings({name: value})}
    return checked, found


def parse_variants(texts: tuple[str, ...]) -> tuple[NamedSettings, ...]:
    """Parses `--variant small:innodb_open_files=300,table_open_cache=100`.

    With nothing after the colon, the variant is the server without further options. `layout` and `schemas` are not
    server options: they determine how the tables are stored."""
    found: dict[str, NamedSettings] = {}
    for text in texts:
        label, colon, pairs = text.partition(":")
        if not colon or not _LABEL.fullmatch(label):
            raise UsageError(
                f"{text} has no name",
                "a variant has a name, a colon, and options with commas, like small:innodb_open_files=300",
            )
        if label in found:
            raise UsageError(f"two variants are called '{label}'", "give each a name of its own")
        found[label] = _parse_variant(label, pairs)
    return tuple(found.values())


def _parse_variant(label: str, pairs: str) -> NamedSettings:
    from recovery.model import NamedSettings
    from recovery.mysqld.options import canonical_name

    options: list[str] = []
    words: dict[str, str] = {}
    for pair in filter(str.strip, pairs.split(",")):
        name, equals, value = pair.partition("=")
        if not name.strip():
            raise UsageError(f"'{pair}' in the variant '{label}' names no option", "write it like NAME:OPTION=VALUE")
        if not equals:
            raise UsageError(
                f"'{pair}' in the variant '{label}' has no value",
                "a comma separates options, so a value cannot contain one; options of all variants go to --set",
            )
        if canonical_name(name) in _LAYOUT_KEYS:
            words[canonical_name(name)] = value.strip()
        else:
            options.append(pair)
    layout, schemas = (words.get(word) for word in _LAYOUT_KEYS)
    return NamedSettings(
        label,
        parse_settings(tuple(options)),
        _value_of_key("layout", parse_layout, layout),
        _value_of_key("schemas", count(MAX_SCHEMAS), schemas),
    )


def _value_of_key(key: str, convert: Converter, value: str | None) -> Any:
    try:
        return None if value is None else convert(value)
    except UsageError as error:
        raise UsageError(f"{key}={error}", error.hint) from None


def variant_text(variant: NamedSettings) -> str:
    """Returns the variant as a value of `--variant`; a flag keeps its `=`, because only OPTION=VALUE is accepted."""
    words = zip(_LAYOUT_KEYS, (variant.layout, variant.schemas), strict=True)
    pairs = [f"{name}={value}" for name, value in words if value is not None]
    return f"{variant.label}:" + ",".join((*pairs, *settings_texts(variant.settings)))


# --- Servers of the user's own

_OWN_SERVER = re.compile(rf"(?:({_LABEL.pattern})=)?(.+)", re.DOTALL)
_NEXT_OWN_SERVER = re.compile(rf"\s+(?=(?:{_LABEL.pattern}=)?(?:[~/]|\.\.?/|https?://))")


def split_own_servers(text: str) -> tuple[str, ...]:
    """Splits `MYSQLD="base=/a/mysqld patched=/b/mysqld"`, where a path may contain blanks."""
    return tuple(filter(None, _NEXT_OWN_SERVER.split(text.strip())))


def parse_own_servers(texts: Iterable[str]) -> tuple[OwnServer, ...]:
    """Parses `--mysqld PATH` and `--mysqld NAME=PATH`. Several servers without a name are named by their paths."""
    from recovery.session.request import OwnServer

    found = [OwnServer(place, name) for name, place in map(split_name, map(absolute_own_server, texts))]
    if len(found) > 1:
        names = _names_by_path([own.place for own in found])
        found = [replace(own, name=own.name or name) for own, name in zip(found, names, strict=True)]
        name, times = Counter(own.name for own in found).most_common(1)[0]
        if times > 1 or not all(own.name for own in found):
            what = f"two servers have the name '{name}'" if name else "the servers have no names"
            raise UsageError(what, "give each a name of its own before its path, like patched=/PATH", option="mysqld")
    return tuple(found)


def absolute_own_server(text: str) -> str:
    """Returns `NAME=PATH` with an absolute path. The address of a tarball stays as it is."""
    name, place = split_name(text)
    return text if "://" in place else f"{name}={absolute_path(place)}".removeprefix("=")


def split_name(text: str) -> tuple[str, str]:
    """Splits `NAME=PATH`; without a name the first part is empty."""
    match = _OWN_SERVER.fullmatch(text)
    return (match[1] or "", match[2]) if match else ("", text)


def _names_by_path(places: Sequence[str]) -> Sequence[str]:
    """Returns the first parts of the paths that are different in all of them, without what a name cannot have."""
    for parts in zip_longest(*(Path(place).parts for place in places), fillvalue=""):
        names = [re.sub(r"[^A-Za-z0-9_.-]+|\.tar\.\w+$", "", part)[:31] for part in parts]
        if len(set(names)) == len(names) and all(map(_LABEL.fullmatch, names)):
            return names
    return ("",) * len(places)


def charsets(text: str) -> tuple[str, ...]:
    """Parses `CHARSET="latin1 utf8mb4_0900_ai_ci"`: character sets, or their collations."""
    found = words(text)
    for charset in found:
        if charset not in ("latin1", "utf8mb4") and not re.fullmatch(r"[a-z0-9]{1,30}(_[a-z0-9]{1,30}){1,6}", charset):
            raise UsageError(f"{charset} is not valid", "give latin1, utf8mb4, or a collation of the server")
    return found


def parse_switch(given: str | bool) -> bool:
    return str(given).lower() in ("on", "true")


# --- Files of queries

_QUERY_NAME_COMMENT = re.compile(r"^--\s+(\S.*?)\s*$", re.MULTILINE)
_MAX_QUERY_FILE_BYTES = 1_000_000
_MAX_FIRST_QUERIES = 100
"""Each is a column of the report."""


def parse_first_queries(path: Path) -> str | tuple[tuple[str, str], ...]:
    """Returns the queries of `FIRST_QUERIES=FILE`, or `default`."""
    from recovery.phase_table import ORDER
    from recovery.workload.first_queries import DEFAULT

    if str(path) == DEFAULT:
        return DEFAULT
    found = tuple(read_queries(path, ORDER))
    if len(found) > _MAX_FIRST_QUERIES:
        raise UsageError(f"{path} has {len(found):,} queries", f"give {_MAX_FIRST_QUERIES} at most")
    return found


def read_queries(path: Path, taken: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each statement in a file of the user's own queries.

    The name is the last comment `-- NAME` above the statement, or else `query-` and its number. `taken` are the names
    of the experiment's own queries. Raises UsageError if a name occurs twice, in whatever case: two queries of one name
    would be reported as one."""
    from recovery.workload.schema import split_script

    text = _read_query_file(path)
    found = list(split_script([text]))
    if not found:
        raise UsageError(f"{path} contains no statement", "write SQL with a semicolon after each statement")
    lines = dict.fromkeys((name.casefold() for name in taken), 0)
    at = 0
    for number, statement in enumerate(found, 1):
        here = text.index(statement, at)
        named = list(_QUERY_NAME_COMMENT.finditer(text, at, here))
        name = named[-1][1] if named else f"query-{number}"
        line = 1 + text.count("\n", 0, named[-1].start() if named else here)
        if not _LABEL.fullmatch(name):
            raise UsageError(
                f"{path}, line {line}: '{name}' is not a valid name of a query",
                "use at most 31 letters, digits, dots and dashes",
            )
        if (before := lines.setdefault(name.casefold(), line)) != line:
            what = f"line {before} has one of this name" if before else "the experiment has one of this name itself"
            raise UsageError(f"{path}, line {line}: '{name}' is the name of two queries: {what}", "use another name")
        at = here + len(statement)
        yield name, statement


def _read_query_file(path: Path) -> str:
    from recovery.linux.files import read_limited

    try:
        text = read_limited(path, _MAX_QUERY_FILE_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text", "save it as UTF-8") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", "check the path") from error
    if "\0" in text:
        raise UsageError(f"{path} is not a text file", "give a file of SQL statements")
    return text
