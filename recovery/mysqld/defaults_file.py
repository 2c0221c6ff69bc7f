"""Reads the options of a user's my.cnf and of the files that it includes, as servers and clients do.

A folder is read in the order of its names' bytes, includes are followed to a depth of ten, and the last value of an
option counts, whichever group it is in. tests/real/test_defaults_file_real.py compares this with real servers."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recovery.errors import UsageError
from recovery.linux.files import read_limited
from recovery.model import Flavor
from recovery.mysqld.options import (
    PLACE_OPTIONS,
    TIMED_ONLY_OPTIONS,
    Settings,
    base_name,
    canonical_name,
    check_user_settings,
    merge,
)

MAX_DEPTH = 10
"""Servers skip the directives of files that are included more deeply."""
_MAX_BYTES = 1_000_000
_MAX_FILES = 1_000
"""Limits of all files together: files that include each other's folder would be read thousands of times."""
_ENDING, _REMOVE = ".cnf", "remove it, or its !include"
_DIRECTIVE = re.compile(r"!\s*(?P<name>includedir|include)(?:\s+(?P<path>.*))?")
_GROUP = re.compile(r"\[(?P<name>[^\]]*)\]")
_COMMENT = re.compile(r"""^((?:[^"'#]|"(?:\\.|[^"\\])*(?:"|\\?$)|'(?:\\.|[^'\\])*(?:'|\\?$))*)#.*""")
"""A # between quotes begins no comment, not even if the second quote is missing."""
_QUOTES = ("'", '"')
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "s": " ", "\\": "\\", '"': '"', "'": "'"}
_ESCAPE = re.compile(r"""\\([btnrs\\"'])""")


@dataclass(frozen=True)
class FileOption:
    """One line of an options file."""

    group: str
    name: str
    value: str


@dataclass(frozen=True)
class DefaultsFile:
    """The options of a my.cnf with all files that it includes, in the order in which servers read them."""

    path: Path
    options: tuple[FileOption, ...]
    included: int
    """Number of other files that were read."""
    skipped: tuple[str, ...] = ()
    """What servers skip, too, or what this user may not read, with the reason."""


def read_defaults_file(path: Path) -> DefaultsFile:
    """Reads a my.cnf and the files that it includes. Raises UsageError if it cannot be read, if servers would refuse
    it, or if there is too much to read."""
    reader = _Reader(path)
    try:
        reader.read(path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", "check the path", option="defaults_file"
        ) from error
    except _RefusedLineError as error:
        raise UsageError(
            f"{path}: {error}: neither server nor client starts with it", "correct the file", option="defaults_file"
        ) from None
    return DefaultsFile(path, tuple(reader.options), reader.files - 1, tuple(reader.skipped))


class _RefusedLineError(Exception):
    """A line with which servers stop reading a file. They refuse to start only if it is the first file."""


@dataclass
class _Reader:
    first: Path
    options: list[FileOption] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    files: int = 0
    bytes: int = 0

    def read(self, path: Path, depth: int = 0) -> None:
        status = path.stat()
        if stat.S_ISFIFO(status.st_mode) and depth:
            raise _WaitingError(
                f"{path}, which {self.first} includes, is a pipe: servers and clients wait for it", _REMOVE
            )
        if stat.S_ISREG(status.st_mode):
            if status.st_mode & stat.S_IWOTH:
                raise UsageError(f"{path} is skipped by servers: everybody may write to it", f"chmod o-w {path}")
            self._check_amount(status.st_size)
        content = read_limited(path, _MAX_BYTES)
        self.files, self.bytes = self.files + 1, self.bytes + len(content)
        group: str | None = None
        for number, line in enumerate(map(str.strip, content.decode("utf-8", errors="replace").split("\n")), 1):
            where = f"line {number} of {path.name}"
            if not line or line.startswith(("#", ";")):
                continue
            if line.startswith("!"):
                self._follow(line, where, depth)
            elif line.startswith("["):
                if (match := _GROUP.match(line)) is None:
                    raise _RefusedLineError(f"{where} has no closing bracket")
                group = match["name"].rstrip().lower()
            elif group is None:
                raise _RefusedLineError(f"{where} is an option without a group")
            else:
                name, _, value = _COMMENT.sub(r"\1", line).partition("=")
                self.options.append(FileOption(group, canonical_name(name), _value(value)))

    def _check_amount(self, more_bytes: int) -> None:
        if self.files == _MAX_FILES or self.bytes + more_bytes > _MAX_BYTES:
            raise _TooMuchError(
                f"{self.first} has more than {_MAX_BYTES:,} bytes or {_MAX_FILES:,} files, with those that it includes",
                "name the file that has the group [mysqld]",
                option="defaults_file",
            )

    def _follow(self, line: str, where: str, depth: int) -> None:
        match = _DIRECTIVE.fullmatch(line)
        if match is None:  # servers skip other words without a warning
            return
        if not match["path"]:
            raise _RefusedLineError(f"{where} names nothing to include")
        if depth >= MAX_DEPTH:
            self.skipped.append(f"{where} (included more than {MAX_DEPTH} files deep)")
            return
        path = Path(match["path"])
        if match["name"] == "include":
            self._include(path, depth + 1)
            return
        try:
            files = sorted(path.iterdir(), key=os.fsencode)
        except PermissionError as error:  # the server's user may read it
            self.skipped.append(f"{path.name} ({error.strerror})")
            return
        except (OSError, ValueError) as error:
            raise _RefusedLineError(f"{where} names {path}: {getattr(error, 'strerror', error)}") from None
        for file in files:
            if file.name.endswith(_ENDING):
                self._include(file, depth + 1)

    def _include(self, path: Path, depth: int) -> None:
        """Reads an included file. Servers go on without one that is missing or wrong."""
        try:
            self.read(path, depth)
        except (_TooMuchError, _WaitingError):
            raise
        except (OSError, ValueError) as error:
            self.skipped.append(f"{path.name} ({getattr(error, 'strerror', error)})")
        except UsageError as error:
            self.skipped.append(f"{path.name} ({error.message.removeprefix(f'{path} ')})")
        except _RefusedLineError as error:
            self.skipped.append(f"the rest of {path.name} ({error})")


class _TooMuchError(UsageError):
    """Raised where no further file is read."""


class _WaitingError(UsageError):
    """Raised for an included file with which no program starts."""


def _value(text: str) -> str:
    """Returns the value of an option in a my.cnf, without the quotes around it, and with its escapes replaced."""
    text = text.strip()
    if len(text) > 1 and text[0] in _QUOTES and text[0] == text[-1]:
        text = text[1:-1]
    return _ESCAPE.sub(lambda match: _ESCAPES[match[1]], text)


# --- Which options are used, for which servers

_SERVER_GROUP = re.compile(
    r"(?P<program>mysqld|mariadbd?)(?:-(?P<series>\d+\.\d+))?|server|(?P<more>client-server|galera)"
)
"""The groups that `mysqld --verbose --help` lists; `more` are read by MariaDB only."""
_OF_MARIADB = frozenset({"mariadb", "mariadbd", "client-server", "galera"})
_LEFT_OUT_PREFIXES = ("early_plugin_load", "init_", "plugin_", "replicate_", "require_secure", "ssl", "tls_", "wsrep_")
_LEFT_OUT_NAMES = frozenset({
    "grant_tables", "partial_revokes", "read_only", "super_read_only", "innodb_read_only", "offline_mode",
    "binlog_do_db", "binlog_ignore_db",  # they name schemas of the user's, and options are stored
})  # fmt: skip
_NAME = re.compile(r"[a-z0-9_.]{1,80}")


@dataclass(frozen=True)
class ServerKind:
    """What is known of a server before it is fetched. None: unknown."""

    name: str
    """As the user wrote it."""
    flavor: Flavor | None = None
    series: tuple[int, ...] | None = None
    """The first two numbers of the version."""

    def reads(self, group: str) -> bool | None:
        """Returns whether the server reads a group of options, or None if that is unknown."""
        match = _SERVER_GROUP.fullmatch(group)
        if match is None:
            return False
        if (match["more"] or match["program"]) in _OF_MARIADB and self.flavor is not Flavor.MARIADB:
            return None if self.flavor is None else False
        if match["series"] is None:
            return True
        return None if self.series is None else match["series"] == "{}.{}".format(*self.series)


_ANY = ServerKind("")


@dataclass(frozen=True)
class UsedOptions:
    """What a session uses of a my.cnf."""

    settings: Settings
    places: Settings
    """Its `PLACE_OPTIONS`."""
    left_out: tuple[str, ...]
    """Names of options, and groups of other servers."""


def used_options(
    file: DefaultsFile, servers: Callable[[], Sequence[ServerKind]], *, only: Collection[str] = ()
) -> UsedOptions:
    """Returns the options of the file that these servers use; with `only`, those of these names.

    Left out are options that the tool decides, that name files of another server, that keep the insert script from
    writing, or that load plugins, join a cluster or need certificates. Raises UsageError for an option that only some
    of the servers read: all of them are measured with the same options. `servers` is called if a group makes it
    necessary."""
    settings: Settings = {}
    places: Settings = {}
    left_out: dict[str, None] = {}
    for option in file.options:
        meant = base_name(option.name)
        is_read, checked = _ANY.reads(option.group), _checked(option)
        if is_read is False or (only and meant not in only):
            continue
        if is_read is None and (checked or meant in PLACE_OPTIONS) and not _all_read(file, option.group, servers()):
            left_out[f"[{option.group}]"] = None
            continue
        if meant in PLACE_OPTIONS:
            places[meant] = option.value
        if checked:
            settings = merge(settings, checked)
        else:
            left_out[option.name if _NAME.fullmatch(option.name) else "a line that is no option"] = None
    return UsedOptions(settings, places, tuple(left_out))


def _checked(option: FileOption) -> Settings:
    """Returns the option if it can be used, in normal spelling, else nothing."""
    meant = base_name(option.name)
    foreign = "/" in option.value or meant in _LEFT_OUT_NAMES or meant.startswith(_LEFT_OUT_PREFIXES)
    if foreign or meant in TIMED_ONLY_OPTIONS:
        return {}
    try:
        return check_user_settings({option.name: option.value})
    except UsageError:
        return {}


def _all_read(file: DefaultsFile, group: str, servers: Sequence[ServerKind]) -> bool:
    """Returns whether the servers read a group. Raises UsageError where they differ, or if it is unknown."""
    reads = {server.name: server.reads(group) for server in servers}
    if unknown := [name for name, is_read in reads.items() if is_read is None]:
        raise UsageError(
            f"{file.path.name} has the group [{group}], and the version of {unknown[0]} is not known yet",
            "name its release or series with --version",
        )
    if len(set(reads.values())) > 1:
        readers = " and ".join(name for name, is_read in reads.items() if is_read)
        raise UsageError(
            f"{file.path.name} has the group [{group}], which only {readers} reads: options would differ, too",
            "measure one version at a time, or give a file without this group",
        )
    return all(reads.values())
