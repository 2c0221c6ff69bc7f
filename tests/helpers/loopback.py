"""Where do the tests of images fetch from, and which containers has a process made?"""

from __future__ import annotations

import docker
from docker.models.containers import Container

from recovery.builds.resolve import Sources
from recovery.linux import docker_engine

NOBODY = "127.0.0.1:1"
"""A registry that does not answer."""
ALONE = Sources(registry=NOBODY)


def containers_of(client: docker.DockerClient, tool: int) -> list[Container]:
    """Those that this process has made, also when it is gone."""
    found = client.containers.list(all=True, filters={"label": docker_engine.OWNER}, ignore_removed=True)
    return [one for one in found if f".{tool}." in one.labels[docker_engine.OWNER]]


def quiet(_line: str) -> None:
    pass
