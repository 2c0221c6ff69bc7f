"""Manages the data directories in the folder DATA: state files, locks, removal, integrity checks and disposable
copies."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import re
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import TypeAdapter, ValidationError

from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux import locks
from recovery.linux.cleanup import SERVER_NAMES, kill_servers_in, sweep_drafts
from recovery.linux.files import (
    allocated_bytes,
    clone_or_copy,
    create_private_folder,
    default_data_dir,
    empty_folder,
    expand_path,
    open_descriptor,
    open_regular,
    parse_json,
    read_untrusted,
    refuse_untrusted,
    sync_folder,
    trusted_users,
    user_name,
    why_not_trusted,
    write_atomically,
)
from recovery.linux.loop_device import LoopDisk, attached_images, image_path, loop_disk, remove_loop_disk
from recovery.linux.storage import DATA, WritableFolder, as_storage_error
from recovery.model import DEFAULT_CHARSET, Build, Layout, Schema, Version
from recovery.mysqld.table_files import table_files

# --- Disposable copies, so that an experiment does not damage the data directory itself

_COPY = "copy"
_TEMPORARY_PREFIXES = ("ibtmp", "#innodb_temp")
"""Name prefixes of the temporary files and folders that a server recreates at every start."""
_COPY_SUBFOLDER = "mysql"
"""Subfolder of a copy for the server's files: at the top of a filesystem, its lost+found would look like a schema."""
_SPARE_BYTES = 1 << 30
"""Space on a loop disk in addition to the size of the copied files."""


@dataclass(frozen=True)
class Copy:
    mysql: Path
    disk: LoopDisk | None = None
    """The loop disk that holds the copy; None if the copy is an ordinary folder."""


def copy_mysql_dir(parent: Path) -> Path:
    """Returns where a copy in the folder `parent` has the server's files, whether or not there is a copy."""
    return parent / _COPY / _COPY_SUBFOLDER


def remove_copy(parent: Path) -> None:
    """Removes the copy in the folder `parent`, also one left by a killed run; does nothing if there is none."""
    copy = parent / _COPY
    if copy.is_dir() and not os.path.ismount(copy):
        empty_folder(copy)
    remove_loop_disk(copy)


def remove_temporary(datadir: Path) -> None:
    """Removes the temporary tablespaces, which the server recreates, and allocates space for, at each start."""
    for path in datadir.iterdir():
        if path.name.startswith(_TEMPORARY_PREFIXES):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def move_copy_out(mysql: Path, to: Path) -> None:
    """Moves the server's files out of a copy that will be removed. From a loop disk they are copied, because a rename
    cannot cross filesystems."""
    try:
        mysql.rename(to)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        copy_data(mysql, to)


@contextmanager
def disposable_copy(
    original: Path, parent: Path, *, on_a_disk: bool = False, for_containers: bool = False
) -> Iterator[Copy]:
    """Yields a copy of `original` in the folder `parent`, and removes the copy afterwards.

    Owners and modes are those of the original, and temporary tablespaces are left out. The server of the original must
    not be running. With `on_a_disk` the copy is on a loop disk. Raises HostUnfitError if it cannot be made."""
    place = parent / _COPY
    remove_copy(parent)
    with ExitStack() as stack:
        stack.callback(remove_copy, parent)
        try:
            disk = None
            if on_a_disk:
                room = allocated_bytes(original) + _SPARE_BYTES
                disk = stack.enter_context(loop_disk(place, size_bytes=room, for_containers=for_containers))
            copy = Copy(copy_mysql_dir(parent), disk)
            copy.mysql.parent.mkdir(mode=0o700, exist_ok=True)
            copy_data(original, copy.mysql)
            if disk is not None:
                os.sync()
        except OSError as error:
            raise HostUnfitError(
                f"{original} cannot be copied: {error.strerror or error}",
                "each trial works on a copy: free as much space as the data takes, or give --data another folder",
            ) from error
        yield copy


def copy_data(original: Path, copy: Path) -> None:
    """Copies a server's files into the new folder `copy`, with owners and modes, and without temporary files."""
    for folder, names, file_names in os.walk(original):
        there = copy / Path(folder).relative_to(original)
        there.mkdir()
        _copy_owner_and_mode(Path(folder), there)
        names[:] = [name for name in names if not name.startswith(_TEMPORARY_PREFIXES)]
        for name in file_names:
            if not name.startswith(_TEMPORARY_PREFIXES):
                with open_regular(Path(folder, name)) as source, Path(there, name).open("wb") as target:
                    clone_or_copy(source.fileno(), target.fileno())
                _copy_owner_and_mode(Path(folder, name), there / name)


def _copy_owner_and_mode(original: Path, copy: Path) -> None:
    known = original.stat()
    if (known.st_uid, known.st_gid) != (os.geteuid(), os.getegid()):
        os.chown(copy, known.st_uid, known.st_gid)
    copy.chmod(known.st_mode & 0o7777)


# --- State file: written atomically, and validated when it is read, because others may have put something there

FORMAT = 1
DatadirStatus = Literal["new", "building", "whole", "in_use", "failed"]
"""`new` (nothing usable is there), `building`, `whole`, `in_use` while trials run, or `failed`: kept as it was when a
server failed to recover it, and used by no run."""
_COMPLETE = ("whole", "in_use")
"""The status of a directory whose build was completed: `in_use` also after a run that died."""
_FILE = "state.json"
_MAX_STATE_BYTES = 1 << 26


@dataclass(frozen=True)
class State:
    status: DatadirStatus
    version: str = ""
    fingerprint: str = ""
    schema: dict[str, Any] = field(default_factory=dict)
    statements_done: int = 0
    build_s: float | None = None
    """Seconds that the build statements took, over all sessions that built it."""
    tables: int | None = None
    ibd_files: int | None = None
    bytes: int | None = None
    rows: dict[str, int] = field(default_factory=dict)
    """Number of acknowledged rows for each table of the insert script, over all trials."""
    temporary_schemas: tuple[str, ...] = ()
    """Schemas that an experiment has created and not dropped yet; the next run drops them if this one is killed."""
    created_at: str = ""
    tool_version: str = ""
    format: int = FORMAT

    @property
    def is_complete(self) -> bool:
        return self.status in _COMPLETE


_ADAPTER = TypeAdapter(State)
NEW = State("new")


def removal_hint(folder: Path) -> str:
    """Returns the hint for an unusable data directory: the command that removes it."""
    where = "" if folder.parent == default_data_dir() else f"--data {shlex.quote(str(folder.parent))} "
    return f"`recovery datadirs {where}remove {folder.name}` removes it; the next run builds it again"


def load_state(folder: Path) -> State:
    """Returns the state of a data directory, or NEW if it has no state file. Raises HostUnfitError if the state file is
    damaged or was written by a newer version of this tool."""
    hint = removal_hint(folder)
    try:
        content = read_untrusted(folder / _FILE, _MAX_STATE_BYTES)
        stored = parse_json(content[0] if content is not None else b"")
    except FileNotFoundError:
        return NEW
    except (ValueError, OSError) as error:
        raise HostUnfitError(f"the data directory {folder.name} is damaged: {_FILE} cannot be read", hint) from error
    number = stored.get("format") if isinstance(stored, dict) else None
    if type(number) is int and number > FORMAT:
        raise HostUnfitError(
            f"the data directory {folder.name} was made by a newer version of this tool (format {number})",
            f"use that version, or {hint}",
        )
    try:
        return _ADAPTER.validate_python(stored)
    except ValidationError as error:
        raise HostUnfitError(f"the data directory {folder.name} is damaged: {_FILE} is invalid", hint) from error


def save_state(folder: Path, state: State) -> None:
    """Writes the state file atomically: after a power loss it is either the old or the new one, never half of one."""
    try:
        write_atomically(folder / _FILE, json.dumps(dataclasses.asdict(state), indent=1).encode())
    except OSError as error:
        raise HostUnfitError(
            f"{folder / _FILE} cannot be written: {error.strerror}", "make room there, or give --data another folder"
        ) from error


def delete_state(folder: Path) -> None:
    """Deletes the state file. Every removal begins with it, because a half-removed data directory must never look like
    a complete one."""
    (folder / _FILE).unlink(missing_ok=True)
    sync_folder(folder)


# --- Data directories and their locks

_MYSQL, _KEYS, _ORIGINAL = "mysql", "keys", "original"
_FAILED = "-failed-"
"""In the key of a directory kept after a failed start, the text between the original key and the session's name."""
_KEY_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
_PRIVATE = 0o700
_OWN_FOLDER_HINT = "give --data a folder of your own, or remove the write permission of others (chmod o-w)"
_OTHER_DISK_HINT = "give --data a folder on a disk that this user may write"


@dataclass(frozen=True)
class DataDirInfo:
    key: str
    status: str
    """The status in State, `damaged`, or `another user's` if it cannot be read."""
    bytes: int | None
    tables: int | None
    busy_by: str | None

    @property
    def is_complete(self) -> bool:
        return self.status in _COMPLETE


class DataDir:
    """A data directory that is locked from `DataDirs.acquire` until `release` or the end of the `with` block."""

    def __init__(self, path: Path, lock: locks.Lock, stored: State) -> None:
        self.path = path
        self.state = stored
        self._lock = lock

    @property
    def mysql(self) -> Path:
        """The subfolder with the server's files; the code that initialises the server creates it."""
        return self.path / _MYSQL

    @property
    def original(self) -> Path:
        """The subfolder with a copy of the user's own data directory as it is, on which no server is started."""
        return self.path / _ORIGINAL

    @property
    def writable_folder(self) -> WritableFolder:
        return WritableFolder(DATA, self.path, self.mysql)

    def keys_for(self, schema: Schema) -> Path | None:
        """Returns the folder of the keys of encrypted tables, or None if the schema has no such tables."""
        return self.path / _KEYS if schema.layout is Layout.ENCRYPTED else None

    def save(self, new: State) -> None:
        save_state(self.path, new)
        self.state = new

    def wipe(self) -> None:
        """Removes everything but the folder itself and its lock, so that it can be built again."""
        with _os_errors_as_unfit(self.path, "cannot be emptied"):
            delete_state(self.path)
            empty_folder(self.path)
        self.state = NEW

    def release(self) -> None:
        """Releases the lock. If nothing was built in the folder, removes it and the lock file."""
        with suppress(OSError):
            self.path.rmdir()
        self._lock.release(unlink=not self.path.exists())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class DataDirs:
    """The data directories in the folder DATA.

    The lock file of a directory is next to it, not in it, so that the directory can be emptied while it is locked."""

    def __init__(self, root: Path) -> None:
        self.root = expand_path(root).absolute()

    def check(self) -> None:
        """Raises HostUnfitError if directories cannot be created here, before anything is downloaded or measured. Also
        removes stale lock files."""
        with _os_errors_as_unfit(self.root, "cannot hold data directories"):
            self._make_root()
            with tempfile.TemporaryFile(dir=self.root):
                pass
            self._tidy()

    def _make_root(self) -> None:
        """Creates the folder DATA; refuses one in which another user could place files."""
        refuse_untrusted(self.root, _OWN_FOLDER_HINT)
        create_private_folder(self.root)

    def _tidy(self) -> None:
        """Removes the lock files of directories that do not exist: their owner was killed just after it had removed the
        directory, or before it created it."""
        for path in self.root.glob("*.lock"):
            if (self.root / path.stem).exists() or not locks.is_own_lock(path):
                continue
            if (lock := locks.take_lock(path, mode=0o644)) is not None:
                lock.release(unlink=not (self.root / path.stem).exists())

    def key_for(self, build: Build, schema: Schema, *, template_text: str, options: Mapping[str, str]) -> str:
        """Returns the key (the folder's name) for everything that decides what is built. It is readable, because
        `recovery datadirs` lists it."""
        parts = [build.fingerprint, schema.tables, schema.databases, schema.columns, schema.rows, schema.database]
        # Directories that were built before layouts existed keep their keys.
        layout = [] if schema.layout is Layout.FILES else [schema.layout.value]
        layout += [f"{schema.foreign_keys}fk"] if schema.foreign_keys else []
        layout += ["statistics"] if schema.statistics else []
        layout += [schema.own.digest, str(schema.own.as_is)] if schema.own else []
        layout += [] if schema.charset == DEFAULT_CHARSET else [schema.charset]
        content = json.dumps([parts + layout, template_text, sorted(options.items())])
        digest = hashlib.sha256(content.encode()).hexdigest()[:8]
        database = re.sub(r"[^A-Za-z0-9_]", "_", schema.database)[:64]
        if schema.own is not None:
            return "-".join((build.version.release, "copy", str(schema.own.table_files), digest))
        return "-".join((build.version.release, database, str(schema.total_tables), *layout, digest))

    def acquire(self, key: str) -> DataDir:
        """Returns the directory with this key, locked, and created if it is missing. In state `new` the caller must
        wipe it before use."""
        path = self._path(key)
        with _os_errors_as_unfit(self.root, "cannot hold data directories"):
            self._make_root()
            lock = self._lock(key)
            try:
                path.mkdir(mode=0o700, exist_ok=True)
                _make_private(path)
                remove_copy(path)  # left by a killed run, since we hold the lock
                sweep_drafts(path)
                return DataDir(path, lock, load_state(path))
            except BaseException:
                lock.release()
                raise

    def rename(self, dd: DataDir, key: str) -> None:
        """Moves the directory to another key, and removes whatever had that key before."""
        with self.acquire(key) as renamed:
            renamed.wipe()
            with _os_errors_as_unfit(dd.path, "cannot be renamed"):
                dd.path.rename(renamed.path)

    def set_aside(self, dd: DataDir, session: str, *, copy: Path | None = None) -> Path | None:
        """Keeps data that a server failed to recover, unchanged, under a key that no run looks for.

        Keeps the whole directory or, with `copy`, only that copy of the server's files and the keys. Returns the kept
        folder, or None if this session has already kept this directory once."""
        key, failed = f"{dd.path.name}{_FAILED}{session}", replace(dd.state, status="failed")
        if (self.root / key).exists():
            return None
        if copy is None:
            before = dd.state
            try:
                dd.save(failed)
                self.rename(dd, key)
            except BaseException:
                dd.save(before)
                raise
            return self.root / key
        with self.acquire(key) as kept:
            try:
                with _os_errors_as_unfit(kept.path, "cannot keep a copy"):
                    kept.save(replace(failed, bytes=None))
                    move_copy_out(copy, kept.mysql)
                    if (dd.path / _KEYS).is_dir():
                        shutil.copytree(dd.path / _KEYS, kept.path / _KEYS)
            except BaseException:
                kept.wipe()
                raise
        return kept.path

    def list(self) -> tuple[DataDirInfo, ...]:
        if not self.root.exists():
            return ()
        with _os_errors_as_unfit(self.root, "cannot be listed"):
            folders = sorted(entry.name for entry in os.scandir(self.root) if entry.is_dir(follow_symlinks=False))
            return tuple(self._info(name) for name in folders if _KEY_PATTERN.fullmatch(name) and self._ours(name))

    def find(
        self, version: Version, schema: Schema, *, template_text: str, options: Mapping[str, str]
    ) -> DataDirInfo | None:
        """Returns a directory of this version and contents: a complete one if there is one, else one whose build can
        be continued. Which build of the server made it is not compared: before a server is fetched, that is not
        known."""
        infos = []
        for info in self.list():
            if info.key.startswith(f"{version.release}-"):
                with suppress(RecoveryError, OSError):
                    made_by = Build(version, Path(), Path(), load_state(self._path(info.key)).fingerprint, "")
                    if self.key_for(made_by, schema, template_text=template_text, options=options) == info.key:
                        infos.append(info)
        return max(infos, key=lambda info: (info.is_complete, info.bytes or 0), default=None)

    def remove(self, key: str) -> None:
        """Removes a data directory, also a damaged or half-built one, but never one that is in use."""
        path = self._path(key)
        if path.is_symlink() or not path.is_dir() or not self._ours(key):
            raise UsageError(f"there is no data directory '{key}' in {self.root}", "`recovery datadirs` lists them")
        refuse_untrusted(self.root, _OWN_FOLDER_HINT)
        with _os_errors_as_unfit(path, "cannot be removed"):
            lock = self._lock(key)
            try:
                _make_private(path, doomed=True)
                # We hold the lock, so the owner is dead. A server that it left running would keep the files open, and
                # their space would not be freed.
                for folder in (path / _MYSQL, copy_mysql_dir(path)):
                    kill_servers_in(folder, *SERVER_NAMES)
                remove_copy(path)
                delete_state(path)
                empty_folder(path)
                path.rmdir()
            except BaseException:
                lock.release()
                raise
            lock.release(unlink=True)

    def _path(self, key: str) -> Path:
        if not _KEY_PATTERN.fullmatch(key):
            raise UsageError(f"'{key}' is not the name of a data directory", "`recovery datadirs` lists them")
        return self.root / key

    def _lock(self, key: str) -> locks.Lock:
        path = lock_path(self.root / key)
        for place in (path, self.root / key):
            with suppress(FileNotFoundError):
                _refuse_other_users(key, place.lstat().st_uid)
        lock = locks.take_lock(path, mode=0o644)  # readable, so that other users see who holds it
        if lock is None:
            who = locks.lock_holder(path) or "another process"
            raise HostUnfitError(
                f"the data directory {key} is in use by {who}", "wait until that ends, or give --data another folder"
            )
        return lock

    def _ours(self, key: str) -> bool:
        """Returns whether this tool made the folder. Others can be in DATA, such as lost+found on a mounted volume."""
        return lock_path(self.root / key).exists()

    def _info(self, key: str) -> DataDirInfo:
        path = self.root / key
        busy_by = locks.lock_holder(lock_path(path))
        if not os.access(path, os.R_OK | os.X_OK):
            return DataDirInfo(key, "another user's", None, None, busy_by)
        try:
            stored = load_state(path)
        except RecoveryError:
            return DataDirInfo(key, "damaged", allocated_bytes(path), None, busy_by)
        size = allocated_bytes(path) if stored.bytes is None else stored.bytes
        return DataDirInfo(key, stored.status, size, stored.tables, busy_by)


@contextmanager
def _os_errors_as_unfit(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        unfit = HostUnfitError(f"{path} {what}: {error.strerror or error}", _OTHER_DISK_HINT)
        raise as_storage_error(RecoveryError(f"it {what}"), WritableFolder(DATA, path)) or unfit from error


def _make_private(path: Path, *, doomed: bool = False) -> None:
    """Closes the data directory to everybody but its owner. Raises HostUnfitError if it belongs to another user or if
    everybody could write to it until now; the latter is accepted if it is `doomed` (about to be removed)."""
    with open_descriptor(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) as folder:
        about = os.fstat(folder)
        _refuse_other_users(path.name, about.st_uid)
        if about.st_mode & stat.S_IWOTH and not doomed:
            raise HostUnfitError(f"everybody may write to the data directory {path.name}", removal_hint(path))
        if stat.S_IMODE(about.st_mode) != _PRIVATE:
            os.fchmod(folder, _PRIVATE)


def _refuse_other_users(key: str, uid: int) -> None:
    """Raises HostUnfitError if the data directory belongs to another user. Root may use those of the user who called it
    by sudo, and nobody else's."""
    if uid not in trusted_users() or os.geteuid() not in (0, uid):
        raise HostUnfitError(
            f"the data directory {key} belongs to {user_name(uid)}", "it was not changed; give --data another folder"
        )


def lock_path(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def check_intact(dd: DataDir, schema: Schema, *, fingerprint: str) -> None:
    """Raises HostUnfitError if the directory does not hold what was built, or if another build made it."""
    if damage := _find_damage(dd, schema, fingerprint):
        raise HostUnfitError(f"the data directory {dd.path.name} is damaged: {damage}", removal_hint(dd.path))


def _find_damage(dd: DataDir, schema: Schema, fingerprint: str) -> str | None:
    stored = dd.state
    if not stored.is_complete:
        return f"it was never finished ({stored.status})"
    if stored.fingerprint != fingerprint:
        return f"another build made it ({stored.version}, {stored.fingerprint[:12]})"
    data = dd.original if schema.own is not None and schema.own.as_is else dd.mysql
    if schema.own is None and not (data / "ibdata1").is_file():
        return "it has no ibdata1"
    count = table_files(data, schema).count()
    if stored.ibd_files is not None and count != stored.ibd_files:
        return f"found {count:,} table files, expected {stored.ibd_files:,}"
    return None


# --- Copies left by killed runs, perhaps on a loop disk that is still mounted


def remove_leftover_copies(data: Path) -> Iterator[tuple[Path, str | None]]:
    """Removes the copies left by killed runs: those in this DATA, and all that this process sees mounted anywhere.

    A run is dead if the lock of its data directory is free. Yields each directory, and either the reason why its copy
    could not be removed or None."""
    for folder in sorted({*folders_with_copy(data), *_folders_with_mounted_copy()}):
        if why_not_trusted(folder) is not None or not locks.is_own_lock(lock_path(folder)):
            continue
        lock = locks.take_lock(lock_path(folder), mode=0o644)
        if lock is None:
            continue
        try:
            kill_servers_in(copy_mysql_dir(folder), *SERVER_NAMES)
            remove_copy(folder)
        except (RecoveryError, OSError) as error:
            lock.leave()  # as if this process had been killed: the next run tries again
            yield folder, str(error)
        else:
            lock.release()
            yield folder, None


def folders_with_copy(data: Path) -> set[Path]:
    """Returns the data directories in DATA with a copy beside them, whether its run is alive or was killed."""
    names = (_COPY, image_path(Path(_COPY)).name)
    return {path.parent for name in names for path in data.glob(f"*/{name}")}


def _folders_with_mounted_copy() -> Iterator[Path]:
    for image in attached_images():
        copy = copy_mysql_dir(image.parent).parent
        if image == image_path(copy) and os.path.ismount(copy):
            yield image.parent
