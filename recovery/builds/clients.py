"""How is a pinned artifact fetched? Through mvn and npm, so that the user's own mirrors and proxies count."""

from __future__ import annotations

import shutil
from pathlib import Path

from recovery.builds.catalog import Row
from recovery.builds.programs import ClientFailedError, run
from recovery.errors import HostUnfitError


class UnobtainableError(HostUnfitError):
    """The client is missing, or could not fetch it."""


_PROGRAMS = {"maven": ("mvn", "maven"), "npm": ("npm", "npm")}
_HINT = "check the network and the client's own mirror settings; `recovery versions` shows what is in the cache"


def fetch(row: Row, folder: Path) -> Path:
    """The artifact as a file in `folder`, which must be empty; not yet checked."""
    client, package = _PROGRAMS[row.client]
    if shutil.which(client) is None:
        raise UnobtainableError(
            f"{client} is missing, the client that fetches {row.version}", f"install it: apt-get install {package}"
        )
    try:
        run(*_command(row, folder), folder=folder)
    except ClientFailedError as error:
        raise UnobtainableError(f"{client} could not fetch {row.version}: {error.message}", _HINT) from None
    fetched = [path for path in folder.iterdir() if path.is_file()]
    if len(fetched) != 1:
        raise HostUnfitError(f"{client} left {len(fetched)} files for {row.artifact} instead of one", _HINT)
    return fetched[0]


def program(row: Row) -> str:
    return _PROGRAMS[row.client][0]


def _command(row: Row, folder: Path) -> tuple[str, ...]:
    if row.client == "npm":
        return ("npm", "pack", "--loglevel=error", row.artifact)
    return ("mvn", "-q", "-B", "dependency:copy", f"-Dartifact={row.artifact}", f"-DoutputDirectory={folder}")
