"""Traces which files in some folders a process opens and reads. Events are collected meanwhile and evaluated
afterwards. Or tells how far a process has come that opens them in the order of their names."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from inotify_simple import INotify, parse_events
from inotify_simple import flags as inotify_flags

from recovery.errors import HostUnfitError
from recovery.linux.files import last_error
from recovery.linux.privileges import REFUSED_TEXT, RootStep, is_refused

# --- fanotify
#
# The kernel reports who opens and reads which file on a filesystem, also in containers. This needs CAP_SYS_ADMIN.

_INIT_FLAGS = 0x01 | 0x02 | 0x10 | 0xC00
"""CLOEXEC, NONBLOCK, UNLIMITED_QUEUE, and REPORT_DFID_NAME: each event has the handle of the folder and the name of the
file."""
_ADD_TO_FILESYSTEM = 0x01 | 0x100
"""A mark on a mount would miss what a container opens through a separate mount."""
READ, OPEN = 0x01, 0x20
"""inotify uses the same numbers."""
_AT_FDCWD = -100
_FOLDER_AND_NAME = 2
_EVENT = struct.Struct("=IBBHQii")
"""Length, version, reserved, length of this part, mask, descriptor, process."""
_INFO = struct.Struct("=BBH8xIi")
"""Type, padding, length, id of the filesystem, and length and type of the folder's handle."""
_MAX_HANDLE_BYTES = 128
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fanotify_mark.argtypes = (ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p)


class _Handle(ctypes.Structure):
    _fields_ = (
        ("handle_bytes", ctypes.c_uint),
        ("handle_type", ctypes.c_int),
        ("f_handle", ctypes.c_ubyte * _MAX_HANDLE_BYTES),
    )


def open_fanotify(path: Path) -> int:
    """Returns a descriptor that reports every open and read on the filesystem of `path`. Raises OSError if that is not
    allowed."""
    if is_refused(RootStep.FANOTIFY):
        raise OSError(errno.EPERM, REFUSED_TEXT)
    descriptor = _libc.fanotify_init(_INIT_FLAGS, os.O_RDONLY | os.O_CLOEXEC)
    if descriptor < 0:
        raise last_error()
    if _libc.fanotify_mark(descriptor, _ADD_TO_FILESYSTEM, OPEN | READ, _AT_FDCWD, os.fsencode(path)) != 0:
        error = last_error()
        os.close(descriptor)
        raise error
    return int(descriptor)


def folder_handle(folder: Path) -> tuple[int, bytes]:
    """Returns the handle by which events identify this folder."""
    handle, mount = _Handle(handle_bytes=_MAX_HANDLE_BYTES), ctypes.c_int()
    if _libc.name_to_handle_at(_AT_FDCWD, os.fsencode(folder), ctypes.byref(handle), ctypes.byref(mount), 0) != 0:
        raise last_error()
    return handle.handle_type, bytes(handle.f_handle[: handle.handle_bytes])


def parse_fanotify_events(raw: bytes) -> Iterator[tuple[int, int, tuple[int, bytes], bytes]]:
    """Yields process, event mask, folder handle and file name of each event in the bytes that were read from the
    descriptor."""
    at = 0
    while at < len(raw):
        length, _version, _reserved, header, mask, _descriptor, pid = _EVENT.unpack_from(raw, at)
        info = at + header
        if info < at + length:
            kind, _padding, _length, handle_bytes, handle_type = _INFO.unpack_from(raw, info)
            if kind == _FOLDER_AND_NAME:
                name_at = info + _INFO.size + handle_bytes
                handle = raw[info + _INFO.size : name_at]
                yield pid, mask, (handle_type, handle), raw[name_at : raw.index(b"\0", name_at)]
        at += length


# --- The trace

_READ_BYTES = 1 << 20
_FETCH_S = 0.005
"""How often the events are fetched. A thread that wakes for each event slows the server down, and so does a long queue,
which the kernel searches for events to merge. inotify drops events once its queue is full, of 16,384 by default."""
_QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")


@dataclass(frozen=True)
class TracedOpens:
    """What was opened below the watched folders. Files are written as `folder/name`."""

    files: frozenset[str]
    read: frozenset[str]
    """Those of the files that were read by synchronous calls: reads by AIO are not reported."""
    count: int
    """Number of opens, not of files. The kernel may merge an open with an earlier event of the same file that has not
    been fetched yet."""
    means: str
    """`fanotify` (only the opens of the server) or `inotify` (the opens of all processes)."""
    fetched_s: tuple[float, ...] = ()
    """When opens were fetched from the kernel, some milliseconds after them, on the monotonic clock."""


class _ByFanotify:
    """Reports the opens of each process through a descriptor, from which events are read and decoded later. Needs
    root."""

    means = "fanotify"

    def __init__(self, folders: Sequence[Path], is_traced: Callable[[str], bool]) -> None:
        self._is_traced = is_traced
        self._names = {folder_handle(folder): folder.name for folder in folders}
        self.fd = open_fanotify(folders[0])

    def touched(self, raw: bytes) -> Iterator[tuple[int, int, str]]:
        """Yields process, event mask and file of each event."""
        for process, how, folder, name in parse_fanotify_events(raw):
            if folder in self._names and self._is_traced(file := os.fsdecode(name)):
                yield process, how, f"{self._names[folder]}/{file}"

    def close(self) -> None:
        os.close(self.fd)


class _ByInotify:
    """Reports opens without root. inotify does not report the process; while a server starts, no other process opens
    these files."""

    means = "inotify"

    def __init__(self, folders: Sequence[Path], is_traced: Callable[[str], bool]) -> None:
        self._is_traced = is_traced
        self._inotify = INotify(nonblocking=True)
        self.fd = self._inotify.fileno()
        try:
            self._names = {
                self._inotify.add_watch(folder, inotify_flags.OPEN | inotify_flags.ACCESS): folder.name
                for folder in folders
            }
        except OSError:
            self.close()
            raise

    def touched(self, raw: bytes) -> Iterator[tuple[None, int, str]]:
        for event in parse_events(raw):
            if event.mask & inotify_flags.Q_OVERFLOW:
                queue = _QUEUE.read_text().strip()
                raise HostUnfitError(
                    f"more files were opened at once than the kernel's event queue holds ({queue})",
                    "trace as root, or raise fs.inotify.max_queued_events (sysctl)",
                )
            if self._is_traced(event.name):
                yield None, event.mask, f"{self._names[event.wd]}/{event.name}"

    def close(self) -> None:
        self._inotify.close()


def _open_source(folders: Sequence[Path], is_traced: Callable[[str], bool]) -> _ByFanotify | _ByInotify:
    try:
        return _ByFanotify(folders, is_traced)
    except OSError:  # no CAP_SYS_ADMIN, or a filesystem without file handles
        try:
            return _ByInotify(folders, is_traced)
        except OSError as error:
            raise HostUnfitError(
                f"what a server opens cannot be traced here: {error.strerror}",
                "run as root, or leave --trace out; the limits are fs.inotify in `sysctl -a`",
            ) from error


class OpenTrace:
    """Traces opens and reads of files in the folders, from its entry to its exit. `is_traced` says of a file's name
    whether it counts.

    A thread copies the kernel's queue to a file. Nothing is decoded before the end: work that can be postponed must not
    run during a timed start."""

    def __init__(self, folders: Sequence[Path], is_traced: Callable[[str], bool]) -> None:
        self._source = _open_source(folders, is_traced)
        try:
            self._spool: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by __exit__
        except OSError:
            self._source.close()
            raise
        self._fetched: list[tuple[int, float]] = []
        """Number of bytes of each piece in the file, and when it was fetched."""
        self._failure: OSError | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._collect, name="open-trace", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Ends the trace. Everything up to now is included, and nothing later."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def of(self, pid: int) -> TracedOpens:
        """Returns what this process has opened and read, or all processes if the source does not report the process."""
        self.stop()
        if self._failure is not None:
            raise HostUnfitError(
                f"the trace of opened files could not be written: {self._failure.strerror}",
                f"free space in {tempfile.gettempdir()}, or leave --trace out",
            )
        files: set[str] = set()
        read: set[str] = set()
        count, fetched = 0, list[float]()
        self._spool.seek(0)
        for length, fetched_s in self._fetched:
            count_before = count
            for process, how, name in self._source.touched(self._spool.read(length)):
                if process not in (None, pid):
                    continue
                if how & OPEN:
                    files.add(name)
                    count += 1
                if how & READ:
                    read.add(name)
            if count > count_before:
                fetched.append(fetched_s)
        return TracedOpens(frozenset(files), frozenset(read), count, self._source.means, tuple(fetched))

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._source.close()
        self._spool.close()

    def _collect(self) -> None:
        over = False
        while not over:
            over = self._over.wait(_FETCH_S)
            try:
                with suppress(BlockingIOError):  # all events were fetched
                    while True:
                        events = os.read(self._source.fd, _READ_BYTES)
                        self._spool.write(events)
                        self._fetched.append((len(events), time.monotonic()))
            except OSError as error:
                self._failure = error  # an incomplete count must not be used
                return


# --- How far a process has come that opens the files in the order of their names

_NEXT_FILES = 10
"""A file opened after another, at most so many names before it, is opened in their order: some are open already."""
_FIRST_WAIT_S = 0.5


class OpenOrder:
    """Tells how many of the files with a suffix, in a folder and those in it, were opened, by the last one that was
    opened right after its predecessor in the order of the names. inotify reports opens by any process, without root;
    events that do not fit into its queue are not needed."""

    def __init__(self, folder: Path, suffix: str) -> None:
        """Raises OSError if there is a folder that this user may not watch."""
        names, watched = list[bytes](), dict[int, bytes]()
        self._suffix = os.fsencode(suffix)
        self._inotify = INotify(nonblocking=True)
        try:
            for path, _folders, files in os.walk(folder):
                found = [name for name in map(os.fsencode, files) if name.endswith(self._suffix)]
                if found:
                    below = b"" if Path(path) == folder else os.fsencode(os.path.relpath(path, folder)) + b"/"
                    watched[self._inotify.add_watch(path, inotify_flags.OPEN)] = below
                    names += [below + self._without_suffix(name) for name in found]
        except OSError:
            self.close()
            raise
        self._folders = watched
        self._ranks = {name: rank for rank, name in enumerate(sorted(names), start=1)}
        self._last = 0
        """The rank of the file that was opened last."""
        self._position: int | None = None
        self._was_asked = False

    def position(self) -> int | None:
        """Returns the rank of the last file that was opened in order, from 1 on; None if there was none. The first time
        it waits a moment for one."""
        until_s = time.monotonic() + (0.0 if self._was_asked else _FIRST_WAIT_S)
        self._was_asked = True
        self._take_events()
        while self._position is None and (left_s := until_s - time.monotonic()) > 0:
            select.select([self._inotify.fileno()], [], [], left_s)
            self._take_events()
        return self._position

    def close(self) -> None:
        self._inotify.close()

    def _take_events(self) -> None:
        for event in self._inotify.read(timeout=0):
            name = os.fsencode(event.name)
            if event.wd not in self._folders or not name.endswith(self._suffix):
                continue
            rank = self._ranks.get(self._folders[event.wd] + self._without_suffix(name), 0)
            if 0 < rank - self._last <= _NEXT_FILES:
                self._position = rank
            self._last = rank or self._last

    def _without_suffix(self, name: bytes) -> bytes:
        return name[: -len(self._suffix)]
