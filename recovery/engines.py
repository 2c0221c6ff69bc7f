"""What runs the servers of a session: processes of this host, or containers of its Docker engine?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recovery.builds.resolve import Sources, resolve
from recovery.host.dropping import Dropper, own_dropper
from recovery.model import Build
from recovery.request import Request
from recovery.server.launcher import Launcher
from recovery.server.local import LocalLauncher

Say = Callable[[str], None]


@dataclass(frozen=True)
class Engine:
    """One way to get a server, to start it, and to empty the cache under it."""

    name: str
    resolve: Callable[[str | None], Build]
    launcher: Launcher
    dropper: Dropper | None
    """Who may drop the host's caches; None is nobody."""


def choose(request: Request, say: Say) -> Engine:
    return _local(request, say)


def _local(request: Request, say: Say) -> Engine:
    sources = Sources(archive=request.archive, offline=request.offline, mysqld=request.mysqld)
    return Engine("local", lambda version: resolve(version, sources, say), LocalLauncher(), own_dropper())
