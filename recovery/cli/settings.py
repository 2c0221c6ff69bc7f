"""Checks the settings in the environment and reads those in recovery.toml, the layers below the command line."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from recovery.cli.options import BY_NAME, PREFIX, SETTING_NAMES, SETTINGS, Kind, Option
from recovery.errors import UsageError, did_you_mean

CONFIG_FILE = "recovery.toml"
_MAX_BYTES = 65_536
_TOOL_VARIABLES = ("CACHE", "CONFIG", "HOST_LOCK")
"""Variables of the tool itself, which are not options of any command."""
_TOML_TYPES: dict[Kind, tuple[type, ...]] = {
    Kind.FLAG: (bool,),
    Kind.WHOLE: (int, str),
    Kind.NUMBER: (int, float, str),
    Kind.SECONDS: (int, float),
}


def words_of_make(environment: MutableMapping[str, str]) -> list[str]:
    """Returns the words of `make TARGET ARGS="..."`, and removes them from the environment: another command that this
    one starts must not have them, too. The words are split as a shell splits them, and nothing in them is run."""
    text = environment.pop(PREFIX + "ARGS", "")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"ARGS cannot be split into words: {error}", "quote it as in a shell") from error


def refuse_empty_and_unknown(environment: Mapping[str, str], more: Sequence[str] = ()) -> None:
    """Raises UsageError for a RECOVERY_* variable that is empty, or neither a setting nor one of `more`. The Makefile
    makes one of each of its variables.

    An empty variable is a mistake and never means the default."""
    for name, value in sorted(environment.items()):
        if not name.startswith(PREFIX):
            continue
        short = name.removeprefix(PREFIX)
        known = (*_TOOL_VARIABLES, *SETTING_NAMES, *more)
        if not value.strip():
            raise UsageError(f"{short} is set but empty", "give it a value, or leave it out")
        if short not in known:
            raise UsageError(f"there is no setting {short}", _suggestion(short.upper(), known))


def unused_by_make(environment: Mapping[str, str]) -> Iterator[str]:
    """Yields a note about each setting that make has from its environment, as with `TABLES=20k make recovery`. Make
    does not use it, because other programs export such names: a terminal its COLUMNS."""
    for name in SETTING_NAMES:
        is_passed_on = "MAKELEVEL" not in environment or PREFIX + name in environment or name == "COLUMNS"
        if name in environment and not is_passed_on:
            yield f"{name} in the environment is not used: give it after `make`, or set {PREFIX}{name}"


def refuse_empty_words(arguments: Sequence[str]) -> None:
    """Raises UsageError for an empty argument on the command line, such as `--tables ""`."""
    for option, word in pairwise(("", *arguments)):
        name, equals, value = word.partition("=")
        if name.startswith("--") and equals and not value.strip():
            raise UsageError(f"{name} is set but empty", "give it a value, or leave it out")
        if not word.strip():
            name = f"{option} is set but" if option.startswith("-") else "an argument is"
            raise UsageError(f"{name} empty", "give it a value, or leave it out")


# The scheme's last letter is enough: to look for its first one takes a time that grows with the square of the text.
_ADDRESS_WITH_USER = re.compile(r"[a-z0-9+.-]://[^/?#@\s]*@", re.IGNORECASE)


def refuse_address_with_user(name: str, value: str) -> None:
    """Raises UsageError if the value has an address with a user name, which may be followed by a password. It would
    appear in every report, and in a lock that all users can read. The error does not repeat the value."""
    if _ADDRESS_WITH_USER.search(value):
        raise UsageError(
            f"{name} has an address with a user name, which would be in every report",
            "leave name and password out: download the file and give its path, or use a mirror without a password",
        )


def _suggestion(name: str, names: Sequence[str]) -> str:
    return did_you_mean(name, names, otherwise=f"the settings are: {', '.join(names)}")


def config_path() -> Path:
    return Path(os.environ.get(PREFIX + "CONFIG") or CONFIG_FILE)


def load_config() -> dict[str, Any]:
    """Returns the settings in the file that RECOVERY_CONFIG names, or else in recovery.toml of the working directory.

    The keys of the result are the names of click's parameters. Raises UsageError if the file cannot be read, has
    unknown or invalid settings, or is a recovery.toml that another user can change."""
    named, path = PREFIX + "CONFIG" in os.environ, config_path()
    if not path.is_file():
        if named:
            raise UsageError(f"there is no file {path}", "RECOVERY_CONFIG names it; correct it or unset it")
        return {}
    from recovery.linux.files import why_not_trusted

    if not named and (reason := why_not_trusted(path)):  # the file may name a server to run
        raise UsageError(
            f"{path} is not trusted: {reason}", "go to another folder, or name the file in RECOVERY_CONFIG"
        )
    return _as_defaults(read_toml(path, _MAX_BYTES, "check its content and permissions, or move it away"), path)


def read_toml(path: Path, max_bytes: int, hint: str) -> dict[str, Any]:
    """Returns the content of a TOML file. Raises UsageError if it cannot be read or is not valid."""
    from recovery.linux.files import read_limited

    try:
        content = tomllib.loads(read_limited(path, max_bytes).decode("utf-8"))
        repr(content)  # raises ValueError for a hexadecimal number with too many digits for an error message
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not valid TOML: {_parse_error_text(error)}", hint) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint) from error
    return content


def _parse_error_text(error: Exception) -> str:
    if isinstance(error, tomllib.TOMLDecodeError | UnicodeDecodeError):
        return str(error)
    return "it is nested too deeply" if isinstance(error, RecursionError) else "a number in it has too many digits"


def _as_defaults(content: dict[str, Any], path: Path) -> dict[str, Any]:
    defaults: dict[str, Any] = {}
    names = [option.name for option in SETTINGS]
    for name, value in content.items():
        key = name.replace("-", "_")
        if key not in names:
            raise UsageError(f"{path} has an unknown setting '{name}'", _suggestion(key, names))
        defaults[BY_NAME[key].key] = _checked_value(BY_NAME[key], value, path)
    return defaults


def _checked_value(option: Option, value: object, path: Path) -> object:
    name = option.name
    if name == "set":
        if not isinstance(value, dict):
            raise UsageError(f"{path}: 'set' is not a table", "write [set], and below it lines like name = value")
        return tuple(f"{key}={setting}" for key, setting in value.items())
    if option.several and isinstance(value, list) and all(isinstance(text, str) for text in value):
        return tuple(value)
    if option.alone is not None and value is True:
        return option.alone
    types = _TOML_TYPES.get(option.kind, (str,))
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        hint = "give true or false" if option.kind is Kind.FLAG else 'text must be in quotes, like version = "5.7.22"'
        raise UsageError(f"{path}: '{name}' cannot be {value!r}", hint)
    if isinstance(value, str) and not value.strip():
        raise UsageError(f"{path}: '{name}' is set but empty", "give it a value, or remove the line")
    if option.several:
        return (value,)
    return value if option.kind in (Kind.FLAG, Kind.SECONDS) else str(value)
