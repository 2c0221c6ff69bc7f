"""Keeps in the cache which options the servers list.

Completion and dry runs need the names, and must not start a container or wait for a server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from recovery.builds.executable import MAX_OPTIONS_BYTES
from recovery.errors import RecoveryError, UsageError
from recovery.linux.files import create_private_folder, options_dir, read_limited, write_atomically
from recovery.model import Build, Version


def listed_options(build: Build, ask: Callable[[Build], frozenset[str]]) -> frozenset[str]:
    """Returns the names of all options that a server lists: from the cache, or else by asking it. Empty if it does not
    answer."""
    path = options_dir() / f"{build.version.release}-{build.fingerprint[:16]}.txt"
    if kept := _read(path):
        return kept
    names = ask(build)
    if names:
        with suppress(OSError):  # it is asked again then
            create_private_folder(path.parent)
            write_atomically(path, "\n".join(sorted(names)).encode())
    return names


def kept_options(version: Version | None = None) -> frozenset[str]:
    """Returns the names in the cache: of all builds of this version, or of all servers."""
    pattern = "*.txt" if version is None else f"{version.release}-????????????????.txt"
    with suppress(OSError, RecoveryError):
        return frozenset().union(*map(_read, options_dir().glob(pattern)))
    return frozenset()


def _read(path: Path) -> frozenset[str]:
    with suppress(OSError, UnicodeDecodeError, UsageError):
        return frozenset(read_limited(path, MAX_OPTIONS_BYTES).decode().split())
    return frozenset()
