"""Who opens and reads which file on this filesystem? Told by the kernel, in containers too; needs CAP_SYS_ADMIN."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from recovery.host.rights import is_refused, refusal
from recovery.rootsteps import RootStep

_INIT_FLAGS = 0x01 | 0x02 | 0x10 | 0xC00
"""CLOEXEC, NONBLOCK, UNLIMITED_QUEUE; each event with its folder's handle and the file's name."""
_ADD_TO_FILESYSTEM = 0x01 | 0x100
"""A mark on a mount would not see what a container opens through a mount of its own."""
READ, OPEN = 0x01, 0x20
"""The same numbers as inotify's."""
_AT_FDCWD = -100
_FOLDER_AND_NAME = 2
_EVENT = struct.Struct("=IBBHQii")
"""Length, version, reserved, length of this part, mask, descriptor, process."""
_INFO = struct.Struct("=BBH8xIi")
"""Type, padding, length, the filesystem's id; of the folder's handle its length and type."""
_MOST_HANDLE_BYTES = 128
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fanotify_mark.argtypes = (ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p)


class _Handle(ctypes.Structure):
    _fields_ = (
        ("handle_bytes", ctypes.c_uint),
        ("handle_type", ctypes.c_int),
        ("f_handle", ctypes.c_ubyte * _MOST_HANDLE_BYTES),
    )


def listen(path: Path) -> int:
    """A descriptor that tells of every open and read on the filesystem of `path`; OSError where that is not allowed."""
    if is_refused(RootStep.FANOTIFY):
        raise OSError(errno.EPERM, refusal(RootStep.FANOTIFY))
    descriptor = _libc.fanotify_init(_INIT_FLAGS, os.O_RDONLY | os.O_CLOEXEC)
    if descriptor < 0:
        raise _last_error()
    if _libc.fanotify_mark(descriptor, _ADD_TO_FILESYSTEM, OPEN | READ, _AT_FDCWD, os.fsencode(path)) != 0:
        error = _last_error()
        os.close(descriptor)
        raise error
    return int(descriptor)


def handle_of(folder: Path) -> tuple[int, bytes]:
    """By which events name this folder."""
    handle, mount = _Handle(handle_bytes=_MOST_HANDLE_BYTES), ctypes.c_int()
    if _libc.name_to_handle_at(_AT_FDCWD, os.fsencode(folder), ctypes.byref(handle), ctypes.byref(mount), 0) != 0:
        raise _last_error()
    return handle.handle_type, bytes(handle.f_handle[: handle.handle_bytes])


def events(raw: bytes) -> Iterator[tuple[int, int, tuple[int, bytes], bytes]]:
    """Process, what it did, folder's handle, and file's name, of what was read from the descriptor."""
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


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
