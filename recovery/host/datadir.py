"""Which data directories are kept, who uses them now, and is what lies there what its state says?"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.files import sweep_drafts
from recovery.host import flock, state, tree
from recovery.host.ailing import DATA, Folder, blamed
from recovery.host.copies import copy_in, move_out, remove_copy
from recovery.host.orphans import SERVERS, end_servers_in
from recovery.host.state import State
from recovery.host.tablefiles import table_files
from recovery.host.tree import allocated_bytes
from recovery.model import Build, Layout, Schema
from recovery.ownership import made_private, refuse_untrusted, trusted_users, user_called
from recovery.paths import expanded

__all__ = [
    "DataDir",
    "DataDirInfo",
    "DataDirs",
    "State",
    "allocated_bytes",
    "prove_intact",
]

_MYSQL, _KEYS = "mysql", "keys"
_FAILED = "-failed-"
"""In the key of what is kept of a failed start: before it the key of the directory, after it the session."""
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
_PRIVATE = 0o700
_OWN = "give DATA= a folder of your own; where everybody may write, chmod o-w or chmod +t helps"
_ELSEWHERE = "give DATA= a folder on a disk that this user may write"


@dataclass(frozen=True)
class DataDirInfo:
    key: str
    status: str
    """As in State, or `damaged`."""
    bytes: int | None
    tables: int | None
    busy_by: str | None


class DataDir:
    """One data directory, locked from `DataDirs.acquire` until this is left."""

    def __init__(self, path: Path, lock: flock.Lock, stored: State) -> None:
        self.path = path
        self.state = stored
        self._lock = lock

    @property
    def mysql(self) -> Path:
        """The server's own; whoever initialises it makes it."""
        return self.path / _MYSQL

    @property
    def storage(self) -> Folder:
        """What is under it, for who asks whether that is well."""
        return Folder(DATA, self.path, self.mysql)

    def keys_for(self, schema: Schema) -> Path | None:
        """The folder of the keys of encrypted tables; None where there are none."""
        return self.path / _KEYS if schema.layout is Layout.ENCRYPTED else None

    def save(self, new: State) -> None:
        state.save(self.path, new)
        self.state = new

    def wipe(self) -> None:
        """Start again: nothing is left but the folder and the lock."""
        with _unfit(self.path, "cannot be emptied"):
            state.forget(self.path)
            tree.empty(self.path)
        self.state = state.NEW

    def release(self) -> None:
        """One in which nothing was made goes again."""
        with suppress(OSError):
            self.path.rmdir()
        self._lock.release(unlink=not self.path.exists())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class DataDirs:
    """The folder DATA. A directory's lock lies beside it, so that it can be emptied while it is held."""

    def __init__(self, root: Path) -> None:
        self.root = expanded(root).absolute()

    def check(self) -> None:
        """That directories can be made here, before anything is downloaded or measured."""
        with _unfit(self.root, "cannot hold data directories"):
            self._make_root()
            with tempfile.TemporaryFile(dir=self.root):
                pass
            self._tidy()

    def _make_root(self) -> None:
        """Makes the folder, and refuses one below which another user could put files of theirs."""
        refuse_untrusted(self.root, _OWN)
        made_private(self.root)

    def _tidy(self) -> None:
        """Locks of directories that are not there: their owner was killed just after it had removed one, or before it
        made it."""
        for path in self.root.glob("*.lock"):
            if (self.root / path.stem).exists() or not flock.is_ours(path):
                continue
            if (lock := flock.take(path, mode=0o644)) is not None:
                lock.release(unlink=not (self.root / path.stem).exists())

    def key_for(self, build: Build, schema: Schema, *, template_text: str, options: Mapping[str, str]) -> str:
        """By all that decides what is built; readable, for `recovery datadirs`."""
        parts = [build.fingerprint, schema.tables, schema.databases, schema.columns, schema.rows, schema.database]
        # What was built before there were layouts keeps its key.
        lying = [] if schema.layout is Layout.FILES else [schema.layout.value]
        lying += [f"{schema.foreign_keys}fk"] if schema.foreign_keys else []
        lying += ["statistics"] if schema.statistics else []
        told = json.dumps([parts + lying, template_text, sorted(options.items())])
        digest = hashlib.sha256(told.encode()).hexdigest()[:8]
        database = re.sub(r"[^A-Za-z0-9_]", "_", schema.database)[:64]
        return "-".join((str(build.version), database, str(schema.total_tables), *lying, digest))

    def acquire(self, key: str) -> DataDir:
        """Locked; in state `new` whatever lies there is to be wiped."""
        path = self._path(key)
        with _unfit(self.root, "cannot hold data directories"):
            self._make_root()
            lock = self._lock(key)
            try:
                path.mkdir(mode=0o700, exist_ok=True)
                _make_private(path)
                remove_copy(path)  # of a killed run: the lock is ours
                sweep_drafts(path)
                return DataDir(path, lock, state.load(path))
            except BaseException:
                lock.release()
                raise

    def rename(self, dd: DataDir, key: str) -> None:
        """It goes on under another key; whatever lay there is removed."""
        with self.acquire(key) as renamed:
            renamed.wipe()
            with _unfit(dd.path, "cannot be renamed"):
                dd.path.rename(renamed.path)

    def set_aside(self, dd: DataDir, session: str, *, copy: Path | None = None) -> Path | None:
        """Keeps what a server did not come back over, as it was left: the directory, or a copy of the server's own. It
        gets a key that no run looks for. None where this session has already kept it once."""
        key, failed = f"{dd.path.name}{_FAILED}{session}", replace(dd.state, status="failed")
        if (self.root / key).exists():
            return None
        if copy is None:
            dd.save(failed)
            self.rename(dd, key)
            return self.root / key
        with self.acquire(key) as kept:
            try:
                with _unfit(kept.path, "cannot keep a copy"):
                    kept.save(replace(failed, bytes=None))
                    move_out(copy, kept.mysql)
                    if (dd.path / _KEYS).is_dir():
                        shutil.copytree(dd.path / _KEYS, kept.path / _KEYS)
            except BaseException:
                kept.wipe()
                raise
        return kept.path

    def list(self) -> tuple[DataDirInfo, ...]:
        if not self.root.exists():
            return ()
        with _unfit(self.root, "cannot be listed"):
            folders = sorted(entry.name for entry in os.scandir(self.root) if entry.is_dir(follow_symlinks=False))
            return tuple(self._info(name) for name in folders if _KEY.fullmatch(name) and self._ours(name))

    def remove(self, key: str) -> None:
        """Also what is damaged or half built; never what is in use."""
        path = self._path(key)
        if path.is_symlink() or not path.is_dir() or not self._ours(key):
            raise UsageError(f"there is no data directory '{key}' in {self.root}", "`recovery datadirs` lists them")
        refuse_untrusted(self.root, _OWN)
        with _unfit(path, "cannot be removed"):
            lock = self._lock(key)
            try:
                _make_private(path, doomed=True)
                # Its owner is dead, for the lock is ours; a server that it left holds the files, and so their space.
                for folder in (path / _MYSQL, copy_in(path)):
                    end_servers_in(folder, *SERVERS)
                remove_copy(path)
                state.forget(path)
                tree.empty(path)
                path.rmdir()
            except BaseException:
                lock.release()
                raise
            lock.release(unlink=True)

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise UsageError(f"'{key}' is no name of a data directory", "`recovery datadirs` lists them")
        return self.root / key

    def _lock_path(self, key: str) -> Path:
        return lock_of(self.root / key)

    def _lock(self, key: str) -> flock.Lock:
        path = self._lock_path(key)
        for one in (path, self.root / key):
            with suppress(FileNotFoundError):
                _refuse_anothers(key, one.lstat().st_uid)
        lock = flock.take(path, mode=0o644)  # who else comes to it may read who holds it
        if lock is None:
            who = flock.holder(path) or "another process"
            raise HostUnfitError(
                f"the data directory {key} is in use by {who}", "wait until that ends, or give DATA= another folder"
            )
        return lock

    def _ours(self, key: str) -> bool:
        """Not every folder in DATA is: a mounted volume has its lost+found."""
        return self._lock_path(key).exists()

    def _info(self, key: str) -> DataDirInfo:
        path = self.root / key
        busy_by = flock.holder(self._lock_path(key))
        if not os.access(path, os.R_OK | os.X_OK):
            return DataDirInfo(key, "another user's", None, None, busy_by)
        try:
            stored = state.load(path)
        except RecoveryError:
            return DataDirInfo(key, "damaged", allocated_bytes(path), None, busy_by)
        size = allocated_bytes(path) if stored.bytes is None else stored.bytes
        return DataDirInfo(key, stored.status, size, stored.tables, busy_by)


@contextmanager
def _unfit(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        unfit = HostUnfitError(f"{path} {what}: {error.strerror or error}", _ELSEWHERE)
        raise blamed(RecoveryError(f"it {what}"), Folder(DATA, path)) or unfit from error


def _make_private(path: Path, *, doomed: bool = False) -> None:
    """Closes the data directory to everybody but its owner. HostUnfitError where that is another user; also where
    everybody could write to it until now, unless it is to be removed."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        about = os.fstat(folder)
        _refuse_anothers(path.name, about.st_uid)
        if about.st_mode & stat.S_IWOTH and not doomed:
            raise HostUnfitError(f"everybody may write to the data directory {path.name}", state.removal(path))
        if stat.S_IMODE(about.st_mode) != _PRIVATE:
            os.fchmod(folder, _PRIVATE)
    finally:
        os.close(folder)


def _refuse_anothers(key: str, uid: int) -> None:
    """Root may use what belongs to the user who called it by sudo, and nobody else's."""
    if uid not in trusted_users() or os.geteuid() not in (0, uid):
        raise HostUnfitError(
            f"the data directory {key} belongs to {user_called(uid)}", "it is left alone: give DATA= another folder"
        )


def lock_of(folder: Path) -> Path:
    """Of a data directory."""
    return folder.with_name(f"{folder.name}.lock")


def prove_intact(dd: DataDir, schema: Schema, *, fingerprint: str | None = None) -> None:
    """Raises where what lies there is not what was built; with `fingerprint`, also where another build made it."""
    wrong = _what_is_wrong(dd, schema, fingerprint)
    if wrong:
        raise HostUnfitError(
            f"the data directory {dd.path.name} is damaged: {wrong}",
            state.removal(dd.path),
        )


def _what_is_wrong(dd: DataDir, schema: Schema, fingerprint: str | None) -> str | None:
    stored = dd.state
    if stored.status not in ("whole", "in_use"):
        return f"it was never finished ({stored.status})"
    if fingerprint is not None and stored.fingerprint != fingerprint:
        return f"another build made it ({stored.version}, {stored.fingerprint[:12]})"
    if not (dd.mysql / "ibdata1").is_file():
        return "it has no ibdata1"
    found = table_files(dd.mysql, schema).count()
    if stored.ibd_files is not None and found != stored.ibd_files:
        return f"{found:,} tables' files lie there, {stored.ibd_files:,} were built"
    return None
