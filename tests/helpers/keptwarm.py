"""Which pages stay in the page cache, whatever is done to put them out? Those that a process has locked."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest


@contextmanager
def kept_warm(paths: Iterable[Path]) -> Iterator[None]:
    """All of these files, which are not empty."""
    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(_locked(path))
        yield


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        view = (ctypes.c_char * len(mapped)).from_buffer(mapped)
        if libc.mlock(ctypes.byref(view), ctypes.c_size_t(len(mapped))) != 0:
            pytest.skip("pages cannot be locked here")
        try:
            yield
        finally:
            libc.munlock(ctypes.byref(view), ctypes.c_size_t(len(mapped)))
            del view
