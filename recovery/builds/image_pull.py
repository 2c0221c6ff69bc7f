"""How is an image pulled, with lines that say how far it is, and in words why it was not?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException

from recovery.builds.image_failures import GO_ON, Why, why_not_pulled
from recovery.builds.programs import reason
from recovery.errors import RecoveryError

Say = Callable[[str], None]

_TELL_EVERY_S = 5.0


class NotPulledError(RecoveryError):
    exit_code = 3

    def __init__(self, name: str, why: Why, said: str) -> None:
        detail = f" ({said})" if said and why in (Why.UNREACHABLE, Why.OTHER) else ""
        super().__init__(f"{name} {why.value}{detail}", _HINTS.get(why, _HINT))
        self.why = why

    @property
    def goes_on(self) -> bool:
        return self.why in GO_ON


_HINT = "see the engine's log, and its settings for registries and proxies; REGISTRY= names a mirror"
_HINTS = {
    Why.OLD_FORMAT: "leave IMAGE out: an image is made from the server's tarball then",
    Why.ABSENT: "look for the tag in the registry",
    Why.REFUSED: "look for the name in the registry, or log in: docker login",
    Why.NO_SUCH_NAME: "write it as `docker pull` takes it, like mysql:5.7.22",
}


def pull(client: docker.DockerClient, name: str, say: Say, *, clock: Callable[[], float] = time.monotonic) -> str:
    """The image's id. A pull that is broken off leaves no name behind: the engine gives it at the very end."""
    say(f"pulling {name}")
    try:
        stream = client.api.pull(name if _has_tag(name) else f"{name}:latest", stream=True, decode=True)
        _follow(name, stream, say, clock)
        return str(client.images.get(name).id)
    except APIError as error:
        raise _failed(name, str(error.explanation or error)) from None
    except (DockerException, requests.RequestException) as error:
        raise _failed(name, str(error)) from None


def _has_tag(name: str) -> bool:
    return "@" in name or ":" in name.rpartition("/")[2]


@dataclass
class _Layers:
    """What has come of each layer, by the engine's own progress."""

    done: dict[str, int]
    total: dict[str, int]

    def take(self, event: dict[str, Any]) -> None:
        layer, detail = str(event.get("id", "")), event.get("progressDetail") or {}
        if event.get("status") == "Downloading" and detail.get("total"):
            self.total[layer] = int(detail["total"])
            self.done[layer] = int(detail.get("current", 0))
        elif event.get("status") == "Download complete":
            self.done[layer] = self.total.get(layer, 0)

    def __str__(self) -> str:
        # More layers may be waiting whose size nobody has told yet.
        return f"{sum(self.done.values()) >> 20} of at least {sum(self.total.values()) >> 20} MB"


def _follow(name: str, stream: Iterable[dict[str, Any]], say: Say, clock: Callable[[], float]) -> None:
    layers, said_at = _Layers({}, {}), clock()
    for event in stream:
        if "error" in event:
            raise _failed(name, str((event.get("errorDetail") or {}).get("message") or event["error"]))
        layers.take(event)
        if clock() - said_at >= _TELL_EVERY_S:
            said_at = clock()
            say(f"{name}: {layers}")


def _failed(name: str, message: str) -> NotPulledError:
    why = why_not_pulled(message)
    # `Get "https://…": dial tcp: lookup …: no such host`: of a chain of causes the last one tells it.
    return NotPulledError(name, why, reason(message.rpartition(": ")[2] if why is Why.UNREACHABLE else message))
