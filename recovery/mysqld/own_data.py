"""Examines a data directory of the user's own, which is only read and never started, and copies it.

Servers are started on the copy. Nothing that is stored about it names a schema or a table."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import stat
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import HostUnfitError, UsageError
from recovery.linux.cleanup import SERVER_NAMES, servers_in
from recovery.linux.files import clone_or_copy, open_regular
from recovery.model import SYSTEM_SCHEMAS, Flavor, OwnData, Version, can, parse_version
from recovery.mysqld.options import (
    ENCRYPTED_REDO,
    FLAG,
    PLACE_OPTIONS,
    REDO_CAPACITY,
    REDO_FILE_COUNT,
    REDO_FILE_OPTIONS,
    REDO_FILE_SIZE,
    Settings,
    base_name,
    parse_size,
)
from recovery.mysqld.redo_log import archived_redo_files, parse_page_bytes, redo_files, was_shut_down
from recovery.mysqld.table_files import folder_name
from recovery.mysqld.tablespace_names import tables_in, tablespace_names

OWN_SCHEMA, OWN_TABLES = "crash_recovery_test", 100
"""The schema that the tool adds to a copy, with the tables that its inserts write to."""
_COPIED_SETTINGS: Settings = {
    # Root may have a password there. Without grant tables a server loads no plugins and no functions, either.
    "skip_grant_tables": FLAG,
    "loose_event_scheduler": "OFF",
    "loose_skip_slave_start": FLAG,
    "loose_skip_replica_start": FLAG,
}

# --- The files, and what my.cnf says about where they are

_SYSTEM_FILES = "innodb_data_file_path"
_FOLDER_OPTIONS = PLACE_OPTIONS - {_SYSTEM_FILES}
_OF_INNODB = re.compile(r"ibdata\d+|ib_logfile\d+|#innodb_redo|undo_?\d+|.+\.ibu|#ib_\d+_\d+\.\w*dblwr")
_TEMPORARY = re.compile(r"ibtmp\d+|#innodb_temp|.+\.(?:pid|sock|sock\.lock|err)|.+-slow\.log")
_LEFT_OUT = re.compile(r"mysqld-auto\.cnf|mysqld\.my|component_.+\.cnf")
"""Files that would change how the server starts: persisted options and components. The user is told."""
_NUMBERED = re.compile(r"(?P<base>.+)\.\d{6,}")
_MOST_FOLDERS = 8
"""Most folders in each other, with room for other engines and plugins than InnoDB."""


@dataclass(frozen=True)
class _File:
    path: Path
    name: str
    """Its path in the copy, relative to the data directory."""
    status: os.stat_result


@dataclass(frozen=True)
class _Place:
    """A data directory, and the folders outside it that have files of InnoDB."""

    path: Path
    given: Mapping[str, str]
    """The `PLACE_OPTIONS` of the user's my.cnf."""

    def folder(self, option: str) -> Path:
        return Path(os.path.normpath(self.path / (self.given.get(option) or ".")))

    @property
    def logs(self) -> list[str]:
        """Returns the names of the binary and relay logs, which have an index beside them."""
        matches = filter(None, map(_NUMBERED.fullmatch, _names(self.path)))
        return [match[0] for match in matches if (self.path / f"{match['base']}.index").exists()]

    @property
    def binary_log(self) -> str | None:
        """Returns the name of the newest binary log. A server that wrote one needs it to finish transactions."""
        return next((name for name in reversed(self.logs) if "relay-bin." not in name), None)

    def files(self) -> Iterator[_File]:
        """Yields the files that are copied. Raises UsageError for a link: what it names would not be a copy."""
        folders = {self.folder(option) for option in _FOLDER_OPTIONS} - {self.path}
        older_logs = {*self.logs} - {self.binary_log}
        for folder in sorted(folders):
            if not folder.is_dir():
                raise UsageError(f"{folder}, which my.cnf names, is not a folder", "check --defaults-file")
            for name in filter(_OF_INNODB.fullmatch, _names(folder)):
                yield from _walk(folder / name, name)
        for name in _names(self.path):
            if name not in older_logs and not (_TEMPORARY.fullmatch(name) or _LEFT_OUT.fullmatch(name)):
                for file in _walk(self.path / name, name):
                    if file.path.parent not in folders or not _OF_INNODB.fullmatch(file.path.name):
                        yield file


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def _walk(path: Path, name: str) -> Iterator[_File]:
    status = path.lstat()
    if name.count("/") > _MOST_FOLDERS:
        raise UsageError(
            f"{path} is in {name.count('/')} folders, and a server makes one for each schema",
            "give the data directory of a server, and nothing else",
        )
    if stat.S_ISLNK(status.st_mode) or path.suffix == ".isl":
        raise UsageError(
            f"{path} leads to another place (a link or DATA DIRECTORY), which a copy would share with the original",
            "bring these files into the data directory first: moved outside, they cannot be copied safely",
        )
    if stat.S_ISDIR(status.st_mode):
        for entry in _names(path):
            yield from _walk(path / entry, f"{name}/{entry}")
    elif stat.S_ISREG(status.st_mode):
        yield _File(path, name, status)
    elif not stat.S_ISSOCK(status.st_mode):
        raise UsageError(f"{path} is not a regular file", "remove the pipe or device: no server makes one there")


def _digest(files: Iterable[_File]) -> str:
    """Returns a digest of the names, sizes and times of the files: it changes if anybody writes to one."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name} {file.status.st_size} {file.status.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


# --- What is in the files

_DICTIONARY = "mysql.ibd"
"""The data dictionary, from MySQL 8.0 on."""
_HEADER_BYTES = 64
_VERSION_AT, _SIZE_AT, _FLAGS_AT = 8, 38 + 8, 38 + 16
"""Offsets in the first page of a tablespace: the server's version (only in mysql.ibd), the pages, the flags."""
_FRM, _FRM_OF_INNODB = b"\xfe\x01", b"\x0c"
"""The beginning of a table's definition, and its fourth byte, the engine."""
_ENCRYPTED, _FULL_CRC32 = 1 << 13, 0x10
_CREATOR = slice(16, 48)
"""The place of the server's name and version in the first block of the redo log."""
_RELEASE = re.compile(r"(?<!\d)\d{1,3}\.\d{1,3}\.\d{1,4}(?!\d)", re.ASCII)
_RELEASE_NUMBERS = range(80_000, 1_000_000)
"""The numbers that a server may have in its data dictionary: 80031 is 8.0.31."""
_OUTSIDE = re.compile(r"(?:/|(?:\./)*\.\./).*\.ib[du]", re.DOTALL)
"""The name of a tablespace outside the data directory, in the data dictionary of 8.0 and later."""
_SMALLEST_PAGE = 1024


def _first_bytes(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read(_HEADER_BYTES)


def examine(path: Path, given: Mapping[str, str], *, as_is: bool) -> OwnData:
    """Returns what a data directory holds. `given` are the `PLACE_OPTIONS` of the user's my.cnf.

    Raises UsageError or HostUnfitError if it is not a whole data directory of a server that has ended."""
    try:
        return _examine(_Place(path, given), as_is=as_is)
    except PermissionError as error:
        raise UsageError(f"{error.filename} cannot be read by this user", "run as root, or as its owner") from error
    except FileNotFoundError as error:
        raise HostUnfitError(f"{error.filename} vanished while it was read", "end what writes there") from error
    except OSError as error:
        raise HostUnfitError(
            f"{path} cannot be read: {error.strerror}", "check its disk (`dmesg`)", option="datadir"
        ) from error


def _examine(place: _Place, *, as_is: bool) -> OwnData:
    path = place.path
    if not path.is_dir():
        raise UsageError(f"{path} is not a folder", "give the data directory of a server", option="datadir")
    if not (path / "mysql").is_dir():
        raise UsageError(f"{path} has no folder `mysql`", "give the data directory of a server, the whole of it")
    system = _system_files(place)
    _refuse_running(path, system[0])
    log_folder = place.folder("innodb_log_group_home_dir")
    _refuse_unread_logs(path, log_folder)
    redo = redo_files(log_folder)
    if not redo:
        raise UsageError(
            f"{path} has no redo log, without which a server cannot recover it",
            "give a copy of everything; if my.cnf places the log elsewhere, name it with --defaults-file",
        )
    first_page = _first_bytes(system[0])
    is_clean = was_shut_down(log_folder, first_page)
    if as_is and is_clean:
        raise UsageError(
            f"the server over {path} was shut down cleanly: there is nothing to recover", "leave --as-is out"
        )
    files = list(place.files())
    table_files = [file.name for file in files if _is_table_file(file.name)]
    innodb = {name for name in map(_table_of_file, table_files) if not _OF_INDEX.match(name.rpartition("/")[2])}
    defined = {file.name.removesuffix(".frm"): engine for file in files if (engine := _engine_in_frm(file))}
    # From 8.0 on, the definition of a table of another engine is in a file .sdi, with a number in its name.
    others = {file.name for file in files if file.name.endswith(".sdi") and _is_of_user(file.name)}
    tables = defined.keys() or innodb | others
    for file in files:
        if file.name.endswith(".ibd"):
            _check_tablespace(file)
    general = [file.path for file in files if _is_general(file.name)]
    shared, not_counted = set[tuple[str, str]](), 0
    if has_dictionary := (dictionary := path / _DICTIONARY).exists():
        _refuse_outside(dictionary)
        shared, not_counted = _shared_tables([system[0], *general])
    schemas = {name.partition("/")[0] for name in tables} | {folder_name(schema) for schema, _ in shared}
    version, is_exact = _version(path, redo)
    _check_redo(redo, version)
    settings = {
        **_COPIED_SETTINGS,
        "innodb_page_size": str(parse_page_bytes(first_page)),
        **_redo_settings(redo),
        **_undo_settings(files),
        **({} if place.binary_log is None else {"log_bin": place.binary_log.rpartition(".")[0], "server_id": "1"}),
        **{name: value for name, value in place.given.items() if name == _SYSTEM_FILES},
    }
    return OwnData(
        path, as_is, version, is_exact,
        # Some letters have a shorter code in the name of a folder: such a schema may be there by both names.
        schemas=min(len(schemas), sum((path / name).is_dir() and _is_of_user(f"{name}/") for name in _names(path))),
        tables=len(tables) + len(shared), table_files=len(table_files), files=len(files),
        bytes=sum(file.status.st_blocks * 512 for file in files), digest=_digest(files),
        settings=tuple(settings.items()), given=tuple(place.given.items()),
        left_out=tuple(name for name in _names(path) if _LEFT_OUT.fullmatch(name)),
        was_shut_down=is_clean,
        without_file=len({name for name, engine in defined.items() if engine == _FRM_OF_INNODB} - innodb),
        general_tablespaces=len(general), in_shared_files=len(shared) if has_dictionary else None,
        not_counted=not_counted,
    )  # fmt: skip


_OF_INDEX = re.compile(r"fts_[0-9a-f]{16}_", re.IGNORECASE)
"""Files of full-text indexes, which are tables to InnoDB only."""


def _table_of_file(name: str) -> str:
    """Returns the schema and the table that an .ibd file belongs to, which may be one of its partitions."""
    return re.split(r"(?i)#p#|\.ibd$", name)[0]


def _is_table_file(name: str) -> bool:
    return name.endswith(".ibd") and _is_of_user(name)


def _is_of_user(name: str) -> bool:
    """Returns whether a file is of a table in a schema of the user's, and not of an ALTER under way."""
    folder, _, file = name.rpartition("/")
    return not file.startswith("#sql") and folder not in {"", *SYSTEM_SCHEMAS}


def _is_general(name: str) -> bool:
    """Returns whether a file is a general tablespace: a server makes them beside the folders of the schemas."""
    return name.endswith(".ibd") and "/" not in name and name != _DICTIONARY


def _shared_tables(tablespaces: Iterable[Path]) -> tuple[set[tuple[str, str]], int]:
    """Returns schema and name of the user's tables in these tablespaces, and how many of them are not readable."""
    found = [tables_in(tablespace) for tablespace in tablespaces]
    tables = {(schema, table) for one in found for schema, table in one or () if schema not in SYSTEM_SCHEMAS}
    return tables, found.count(None)


def _engine_in_frm(file: _File) -> bytes:
    """Returns the number of the engine in the definition of a table, which is a file of its own before MySQL 8.0; empty
    for a view, and for other files."""
    if not file.name.endswith(".frm") or not _is_of_user(file.name):
        return b""
    header = _first_bytes(file.path)
    return header[3:4] if header[:2] == _FRM else b""


def _refuse_unread_logs(path: Path, log_folder: Path) -> None:
    """Raises UsageError for logs that newer servers recover from, and that this tool does not read."""
    if archived := archived_redo_files(log_folder):
        raise UsageError(
            f"{archived[0]} is an archived redo log (innodb_log_archive=ON, MariaDB 13.0), which this tool cannot read",
            "set innodb_log_archive=OFF on the server, shut it down, and give a copy without the files ib_*.log",
        )
    if binary := sorted(path.glob("*.ibb")):
        raise UsageError(
            f"{binary[0]} is a binary log inside InnoDB (binlog_storage_engine=innodb, MariaDB 12.3), and the copy "
            "would be recovered without it",
            "start the server once without binlog_storage_engine=, shut it down, and give a copy without these files",
        )


def _check_redo(redo: list[Path], version: Version | None) -> None:
    names = [file.name for file in redo]
    if names[0].startswith("#"):
        return
    needed = 1 if version is None or version.flavor is Flavor.MARIADB else 2
    for name in (f"ib_logfile{number}" for number in range(max(needed, len(redo)))):
        if name not in names:
            raise UsageError(
                f"{redo[0].parent} has no {name}: it is only a part of the redo log", "copy it again, as a whole"
            )


def _system_files(place: _Place) -> list[Path]:
    text, home = place.given.get(_SYSTEM_FILES), place.folder("innodb_data_home_dir")
    names = [part.partition(":")[0] for part in text.split(";")] if text else ["ibdata1"]
    for name in names:
        if "/" in name:
            raise UsageError(f"{_SYSTEM_FILES} names {name}, a file outside the data directory", "move it there first")
        if not (home / name).is_file():
            raise UsageError(
                f"{home} has no {name}: it is not a data directory, or only a part of one",
                "give a copy of everything, and the server's my.cnf with --defaults-file if it names other files",
            )
    if text is None and (home / "ibdata2").exists():
        raise UsageError(
            f"{home} has several files ibdata, whose sizes only my.cnf knows", "name it with --defaults-file"
        )
    return [home / name for name in names]


def _refuse_running(path: Path, system: Path) -> None:
    """Raises UsageError if a server uses the files: it locks its system tablespace, and works in its directory."""
    with open_regular(system) as file:
        asked = struct.pack("@hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        is_locked = struct.unpack_from("@h", fcntl.fcntl(file, fcntl.F_GETLK, asked))[0] != fcntl.F_UNLCK
    if is_locked or servers_in(path, *SERVER_NAMES):
        raise UsageError(
            f"a server is running over {path}", "shut it down or kill it first, or give a snapshot of its volume"
        )


def _check_tablespace(file: _File) -> None:
    page = _first_bytes(file.path)
    if len(page) < _HEADER_BYTES:
        return
    size, flags = int.from_bytes(page[_SIZE_AT : _SIZE_AT + 4]), int.from_bytes(page[_FLAGS_AT : _FLAGS_AT + 4])
    has, needs = file.status.st_size, size * parse_page_bytes(page)
    if has < needs or has % _SMALLEST_PAGE:
        raise UsageError(
            f"{file.path} is cut off: it has {has:,} bytes{f' instead of {needs:,}' if has < needs else ''}",
            "copy it again: this is half a copy",
        )
    if flags & _ENCRYPTED and not flags & _FULL_CRC32:
        raise UsageError(
            f"{file.path} is encrypted, and its key is not in the data directory",
            "measure without encryption, or tables of the tool's own with --layout encrypted",
        )


def _refuse_outside(dictionary: Path) -> None:
    """Raises UsageError if the dictionary has a tablespace outside the data directory. One that was dropped counts as
    long as its file is there: the server may have been killed before the end of the DROP."""
    for tablespace in tablespace_names(dictionary):
        name = tablespace.name
        if _OUTSIDE.match(name) and (tablespace.is_current or (dictionary.parent / name).exists()):
            raise UsageError(
                f"the data dictionary names {name}, a tablespace outside the data directory, "
                "which a copy would share with the original",
                "bring it into the data directory first",
            )


def _version(path: Path, redo: list[Path]) -> tuple[Version | None, bool]:
    """Returns the version of the server that wrote the files, None if they do not say it, and whether it is exact:
    before MySQL 8.0 a newer release of the same series may have used them since."""
    if (dictionary := path / _DICTIONARY).exists():
        number = int.from_bytes(_first_bytes(dictionary)[_VERSION_AT : _VERSION_AT + 4])
        if number not in _RELEASE_NUMBERS:
            return None, False
        return parse_version(f"{number // 10_000}.{number // 100 % 100}.{number % 100}"), True
    creator = _first_bytes(redo[0])[_CREATOR].partition(b"\0")[0].decode("latin-1")
    notes = (path / name for name in ("mysql_upgrade_info", "mariadb_upgrade_info"))
    texts = [creator, *(_first_bytes(note).decode("latin-1") for note in notes if note.is_file())]
    is_mariadb = any("mariadb" in text.lower() for text in texts)
    releases = [match[0] for text in texts if (match := _RELEASE.search(text))]
    versions = [parse_version(f"mariadb-{text}" if is_mariadb else text) for text in releases]
    return max(versions, default=None), False


_REDO_FILES_OF_CAPACITY = 32
_DEFAULT_REDO_FILES, _DEFAULT_REDO_BYTES = 2, 48 << 20
_LARGEST_PAGE = 1 << 16
"""Servers round the size of a redo file down to whole pages."""


def _redo_settings(redo: list[Path]) -> Settings:
    """Returns the options with which a server keeps the redo log as it is: in another size it would be rebuilt."""
    largest = max(file.stat().st_size for file in redo)
    if redo[0].name.startswith("#"):
        return {REDO_CAPACITY: str(_REDO_FILES_OF_CAPACITY * largest)}
    files = {} if len(redo) <= _DEFAULT_REDO_FILES else {REDO_FILE_COUNT: str(len(redo))}
    return {REDO_FILE_SIZE: str(largest), **files}


def keeps_redo_log(own: OwnData, settings: Mapping[str, str]) -> bool:
    """Returns whether a server with these options uses the redo log that is there, and does not rebuild it."""
    there, given = dict(own.settings), {base_name(name): value for name, value in settings.items()}
    if given.get(ENCRYPTED_REDO, "OFF").upper() not in ("OFF", "0", "FALSE"):
        return False
    if not given.keys() & {REDO_CAPACITY, *REDO_FILE_OPTIONS}:
        return True

    def size(name: str, usual: int) -> int:
        return (parse_size(given[name]) or 0) if name in given else usual

    if REDO_CAPACITY in there:
        by_files = size(REDO_FILE_SIZE, _DEFAULT_REDO_BYTES) * size(REDO_FILE_COUNT, _DEFAULT_REDO_FILES)
        more = size(REDO_CAPACITY, by_files) - int(there[REDO_CAPACITY])
        return 0 <= more < _LARGEST_PAGE * _REDO_FILES_OF_CAPACITY
    is_one = own.version is not None and can(own.version, "one_redo_file")
    files = 1 if is_one else int(there.get(REDO_FILE_COUNT, _DEFAULT_REDO_FILES))
    bytes_each = int(there[REDO_FILE_SIZE])
    by_capacity = bytes_each if REDO_FILE_COUNT in given else size(REDO_CAPACITY, bytes_each * files) // files
    is_same_count = is_one or size(REDO_FILE_COUNT, files) == files
    return is_same_count and 0 <= size(REDO_FILE_SIZE, by_capacity) - bytes_each < _LARGEST_PAGE


def _undo_settings(files: list[_File]) -> Settings:
    count = sum(re.fullmatch(r"undo\d{3}", file.name) is not None for file in files)
    return {"innodb_undo_tablespaces": str(count)} if count else {}


# --- Which server may be started over it


def check_server(own: OwnData, server: Version) -> None:
    """Raises UsageError if this server is another one than that which wrote the files."""
    mine = own.version
    if mine is None:
        return
    wrote = f"{own.path} was written by {mine}"
    if (mine.flavor is Flavor.MARIADB) != (server.flavor is Flavor.MARIADB):
        raise UsageError(f"{wrote}, and {server} is another product", f"give --version {mine}, or --mysqld")
    written, starts = mine.numbers[:3], server.numbers[:3]  # the files do not name the update of a release
    same_series = written[:2] == starts[:2]
    if written == starts or (same_series and not own.is_exact and starts > written):
        return
    if starts < written:
        raise UsageError(
            f"{wrote}, and {server} is older: a downgrade damages files", f"give --version {mine}, or --mysqld"
        )
    raise UsageError(
        f"{wrote}, and {server} would upgrade it at the first start, which would be measured, too",
        f"give --version {mine} or --mysqld; or upgrade a copy of it first, and measure that",
    )


# --- The copy


def copy_own_data(own: OwnData, target: Path, *, on_progress: Callable[[int, int], None]) -> None:
    """Copies the files into the new folder `target`. Raises HostUnfitError if they changed meanwhile.

    Where the filesystem can, a copy shares the blocks of the original until one of them changes."""
    place = _Place(own.path, dict(own.given))
    target.mkdir(mode=0o700)
    try:
        _copy_files(place, target, lambda done: on_progress(done, own.bytes))
        files = list(place.files())
    except (FileNotFoundError, PermissionError) as error:
        if error.filename is not None and Path(error.filename).is_relative_to(target):
            raise
        is_gone = isinstance(error, FileNotFoundError)
        raise _changed_error(own.path, "a file vanished" if is_gone else "a file cannot be read any more") from error
    except (UsageError, IsADirectoryError, NotADirectoryError) as error:
        raise _changed_error(own.path, "a file was replaced by something else") from error
    if len(files) != own.files:
        raise _changed_error(own.path, f"it had {own.files:,} files and has {len(files):,}")
    if _digest(files) != own.digest:
        raise _changed_error(own.path, "a file was written or renamed")


def _copy_files(place: _Place, target: Path, on_copied: Callable[[int], None]) -> None:
    done = 0
    for file in place.files():
        copy = target / file.name
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open_regular(file.path) as source, copy.open("xb") as written:
            clone_or_copy(source.fileno(), written.fileno())
        done += file.status.st_blocks * 512
        on_copied(done)
    if (log := place.binary_log) is not None:
        (target / f"{log.rpartition('.')[0]}.index").write_text(f"./{log}\n")


def _changed_error(path: Path, what: str) -> HostUnfitError:
    """Returns the error for files that changed. None of them is named: the message is stored with the session."""
    return HostUnfitError(f"{path} changed while it was copied: {what}", "end what writes there, and try again")
