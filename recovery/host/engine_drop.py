"""How does a user who is not root, but may use the engine, drop the host's caches? Through a short container."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import Any

import docker
import requests
from docker.errors import DockerException
from docker.models.containers import Container

from recovery.host import engine
from recovery.host.dropping import DROP_CACHES, Caches
from recovery.host.owner import mark
from recovery.host.rights import is_refused
from recovery.host.signals import held_back
from recovery.rootsteps import RootStep

_LIMIT_S = 300
_INSIDE = "/drop_caches"
_SCRIPT = 'echo "$1" > "$2"'
# Root in a container may write the one file, where it is mounted. A host that forbids even that may allow it to a
# privileged one.
_WAYS: tuple[dict[str, Any], ...] = (
    {"volumes": {str(DROP_CACHES): {"bind": _INSIDE, "mode": "rw"}}, "security_opt": ["apparmor=unconfined"]},
    {"privileged": True},
)


class EngineDropper:
    """For some tenths of a second, of an image that is here already."""

    means = "drop_caches (by a container)"

    def __init__(self, client: docker.DockerClient, image: str) -> None:
        self._client = client
        self._image = image

    def drop(self, caches: Caches) -> bool:
        return not is_refused(RootStep.DROP_CACHES) and any(self._drop(caches, way) for way in _WAYS)

    def _drop(self, caches: Caches, way: dict[str, Any]) -> bool:
        target = DROP_CACHES if "privileged" in way else _INSIDE
        with suppress(DockerException, requests.RequestException), ExitStack() as undo:
            with held_back():  # Ctrl-C while the engine makes it would leave it there
                container = self._client.containers.create(
                    self._image,
                    entrypoint=["/bin/sh", "-c", _SCRIPT, "drop", caches.value, str(target)],
                    command=[],
                    user="0:0",
                    network_mode="none",
                    labels={engine.MADE: "drop", engine.OWNER: mark()},
                    **way,
                )
                undo.callback(_remove, container)
            container.start()
            return int(container.wait(timeout=_LIMIT_S)["StatusCode"]) == 0
        return False


def _remove(container: Container) -> None:
    with suppress(DockerException, requests.RequestException):
        container.remove(v=True, force=True)
