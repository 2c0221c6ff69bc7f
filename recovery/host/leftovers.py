"""Which containers did a run leave behind that was killed? By label and owner: nobody else's are touched."""

from __future__ import annotations

from contextlib import suppress

import docker
from docker.errors import NotFound

from recovery.host import engine
from recovery.host.owner import is_gone

_KINDS = ("look", "server", "drop")
"""A container that somebody else has made of an image of ours bears the image's labels, and stays."""


def remove_leftovers(client: docker.DockerClient) -> tuple[str, ...]:
    """Ends and removes them, with their volumes; their names."""
    removed = []
    with engine.errors_told():
        for container in client.containers.list(all=True, ignore_removed=True, filters={"label": engine.OWNER}):
            if container.labels.get(engine.MADE) in _KINDS and is_gone(container.labels[engine.OWNER]):
                with suppress(NotFound):
                    container.remove(v=True, force=True)
                removed.append(str(container.name))
    return tuple(removed)
