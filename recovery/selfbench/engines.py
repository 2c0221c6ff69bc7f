"""Does a server come back more slowly in a container? The same executable over the same data directory, both ways."""

from __future__ import annotations

import statistics
from contextlib import closing
from dataclasses import dataclass

import docker

from recovery.builds.image import resolve_image
from recovery.builds.resolve import Sources
from recovery.host import engine
from recovery.host.datadir import DataDir
from recovery.host.dropping import own_dropper
from recovery.host.pagecache import make_cold
from recovery.load.insert import fire, insert_statements
from recovery.model import Build, Cache, Schema
from recovery.selfbench.site import Site, quiet
from recovery.server.container import ContainerLauncher
from recovery.server.local import LocalLauncher
from recovery.server.server import Server
from recovery.students import interval_95


@dataclass(frozen=True)
class Pair:
    local_s: float
    container_s: float
    overhead_s: float
    """Of the engine, before the exec."""


def pairs(site: Site, build: Build, staged: DataDir, cache: Cache, *, count: int) -> list[Pair]:
    """Crash recoveries, alternately as a local process and in a container of an image of the same server; the order
    within a pair alternates too."""
    with closing(engine.connect()) as client:
        image = _image(build, client)
    assert image.fingerprint == build.fingerprint, "the same executable"
    found = []
    with (
        site.server(build, staged.mysql, launcher=LocalLauncher()) as local,
        site.server(image, staged.mysql, launcher=ContainerLauncher(engine.endpoint().url)) as contained,
    ):
        servers = {"local": local, "container": contained}
        _crash(local, staged)
        for number in range(count + 1):
            order = list(servers) if number % 2 else list(reversed(servers))
            seconds = {name: _recover(servers[name], staged, cache) for name in order}
            if number:  # the first pair warms the files
                found.append(Pair(seconds["local"][0], *seconds["container"]))
    return found


def difference(found: list[Pair]) -> tuple[float, float, float]:
    """Mean, and the ends of its 95 % interval (two-sided, paired), as shares of the local startup."""
    local = statistics.mean(pair.local_s for pair in found)
    differences = [pair.container_s - pair.local_s for pair in found]
    low, high = interval_95(differences)
    return statistics.mean(differences) / local, low / local, high / local


def _image(build: Build, client: docker.DockerClient) -> Build:
    return resolve_image(str(build.version), Sources(mysqld=str(build.mysqld)), quiet, client)


def _recover(server: Server, staged: DataDir, cache: Cache) -> tuple[float, float]:
    if cache is Cache.COLD:
        make_cold(staged.mysql, own_dropper())
    startup = server.start()
    assert startup.crash_proof is not None
    _write_and_kill(server, staged)
    return startup.startup_s, startup.engine_overhead_s or 0.0


def _crash(server: Server, staged: DataDir) -> None:
    server.start()
    _write_and_kill(server, staged)


def _write_and_kill(server: Server, staged: DataDir) -> None:
    with server.session() as connection:
        fire(connection, insert_statements(Schema(staged.state.tables or 1)))
    server.kill()
