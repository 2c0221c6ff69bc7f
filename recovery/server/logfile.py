"""How is a log of any size read, compressed or not, in little memory? File or standard input to starts.

While a server just runs, its log is of no interest: pieces that hold nothing which could begin a start are passed over
without being split into lines."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from recovery.errors import UsageError
from recovery.server.starts import Start, Starts

_CHUNK_BYTES = 1 << 18
_LONGEST_LINE_BYTES = 1 << 16
"""A longer one is cut, so that no log fills the memory by leaving out its newlines."""
_OVERLAP_BYTES = 1 << 10
_ANCHORS = (
    b"as process ", b"Server - start", b"MY-015015", b"mysqld_safe", b"initializ", b"Initializ",
    b"Directories to scan", b"Completed init",
    b"file format is", b"ready for conn", b"rash recovery", b"was not shut", b"not match", b"redo log",
    b"tablespace information", b"checkpoint", b"load completed", b"load aborted", b"ackground the rollback",
    b"Rollback of non", b"Version: ", b"Scanning '", b"size_max=", b"Log scan prog", b"log scan based",
    b"scanned up to", b"End of log", b"Loading buffer", b"ib_buffer_pool",
)  # fmt: skip
"""One of these is in every line that matters while no start is under way."""


def starts_in(log: BinaryIO, name: str) -> Iterator[Start]:
    """As they are found. What cannot be read to its end gives those before, and then UsageError."""
    starts, number, rest = Starts(), 0, b""
    try:
        for chunk in _chunks(_opened(log)):
            piece = rest + chunk
            if starts.idle and not any(anchor in piece for anchor in _ANCHORS):
                number += piece.count(b"\n")
                # An anchor may be cut in two by the end of the piece; what is kept has no whole line in it.
                rest = piece[piece.rfind(b"\n") + 1 :][-_LONGEST_LINE_BYTES:]
                continue
            *lines, rest = piece.split(b"\n")
            if len(rest) > _LONGEST_LINE_BYTES:
                rest = rest[-_OVERLAP_BYTES:]
            for line in lines:
                number += 1
                yield from starts.take(number, _text(line))
    except (OSError, EOFError, MemoryError, lzma.LZMAError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error) or "it needs too much memory"
        raise UsageError(
            f"{name} cannot be read to its end: {why}",
            "is it whole? Unpack it yourself and pipe it in: `zcat FILE | recovery analyze -`",
        ) from error
    if rest:
        yield from starts.take(number + 1, _text(rest))
    yield from starts.finish()


def opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", "name an error log, or - for standard input"
        ) from error


def _opened(log: BinaryIO) -> io.BufferedIOBase:
    """By its first bytes, not by its name: standard input has none."""
    buffered = cast("io.BufferedReader", log if hasattr(log, "peek") else io.BufferedReader(cast("io.RawIOBase", log)))
    head = buffered.peek(6)[:6]
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=buffered)
    if head.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(buffered)
    if head.startswith(b"BZh"):
        return bz2.BZ2File(buffered)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        raise UsageError(
            "the log is compressed by zstd, which cannot be unpacked here", "zstdcat FILE | recovery analyze -"
        )
    return buffered


def _chunks(log: io.BufferedIOBase) -> Iterator[bytes]:
    while chunk := log.read(_CHUNK_BYTES):
        yield chunk


def _text(line: bytes) -> str:
    return line[:_LONGEST_LINE_BYTES].decode("utf-8", errors="replace").rstrip("\r")
