"""How many bytes of one open file are in the page cache? Asked of the kernel, without touching the file's pages."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os

_CACHESTAT = 451
"""The same number on every architecture (Linux 6.5 and later)."""
_WINDOW_BYTES = 256 * 1024 * 1024
_LOWEST_BIT = bytes(value & 1 for value in range(256))
"""The only bit of a page's answer that mincore defines."""
_FAILED = ctypes.c_void_p(-1).value
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)


class _Range(ctypes.Structure):
    _fields_ = (("off", ctypes.c_uint64), ("len", ctypes.c_uint64))


class _Stat(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "recently"))


class Probe:
    """Asks file after file by the best means that works here: `cachestat`, or else `mincore`."""

    def __init__(self, *, cachestat: bool = True) -> None:
        self.means = "cachestat" if cachestat else "mincore"
        self._whole = _Range(0, 0)  # length 0: to the end
        self._stat = _Stat()
        self._arguments = (ctypes.byref(self._whole), ctypes.byref(self._stat), ctypes.c_uint(0))

    def resident_bytes(self, fd: int, status: os.stat_result) -> int | None:
        """None where the kernel does not tell: that is unknown, and not cold."""
        if status.st_size == 0:
            return 0
        if self.means == "cachestat":
            if _libc.syscall(_CACHESTAT, fd, *self._arguments) == 0:
                return int(self._stat.cache) * mmap.PAGESIZE
            if ctypes.get_errno() != errno.EPERM:  # an old kernel; EPERM may be about this one file
                self.means = "mincore"
        return _by_mincore(fd, status)


def _by_mincore(fd: int, status: os.stat_result) -> int | None:
    """To those who could not write the file, mincore says of every page that it is resident: so they are not told."""
    if os.geteuid() not in (0, status.st_uid) and not os.access(f"/proc/self/fd/{fd}", os.W_OK):
        return None
    pages = 0
    for offset in range(0, status.st_size, _WINDOW_BYTES):
        found = _window(fd, offset, min(_WINDOW_BYTES, status.st_size - offset))
        if found is None:
            return None
        pages += found
    return pages * mmap.PAGESIZE


def _window(fd: int, offset: int, length: int) -> int | None:
    address = _libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, offset)
    if address == _FAILED:
        return None
    try:
        vector = ctypes.create_string_buffer(-(-length // mmap.PAGESIZE))
        if _libc.mincore(address, length, vector) != 0:
            return None
        return vector.raw.translate(_LOWEST_BIT).count(1)
    finally:
        _libc.munmap(address, length)
