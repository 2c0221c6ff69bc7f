"""Pulls images, and finds out from the messages of old and new engines why an image was not pulled."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import docker
from docker.errors import APIError

from recovery.builds.download import Say, failure_reason
from recovery.errors import RecoveryError
from recovery.linux.docker_engine import ENGINE_ERRORS


class PullFailure(StrEnum):
    """The reason why an image was not pulled. Each value completes a message that starts with the image's name."""

    OLD_FORMAT = "is in the format of 2015 (schema 1), which this engine does not pull"
    ABSENT = "is not in the registry"
    REFUSED = "is not there, or not for everybody"
    LIMITED = "was refused: too many pulls from here"
    UNREACHABLE = "cannot be asked for: the registry does not answer"
    NO_SUCH_NAME = "is not an image name"
    OTHER = "could not be pulled"


# The first match counts: an engine wraps several of these phrases into one line.
_FAILURE_PATTERNS = (
    # Docker 26 and 27; Docker 28; containerd before 2.1 and since 2.1
    (
        PullFailure.OLD_FORMAT,
        r"schema ?(version )?1\b|Image Format v1|manifest\.v1\+(prettyjws|json)|schemaVersion.? ?1\b",
    ),
    (PullFailure.LIMITED, r"toomanyrequests|rate limit|429 Too Many"),
    (PullFailure.NO_SUCH_NAME, r"invalid reference format|invalid repository name|must be lowercase|invalid tag"),
    (PullFailure.ABSENT, r"manifest unknown|manifest for .* not found|name unknown|repository name not known"),
    (PullFailure.ABSENT, r"no matching manifest|does not match the specified platform|: not found$"),
    (
        PullFailure.REFUSED,
        r"pull access denied|unauthorized|authentication required|no basic auth|denied|403 Forbidden|401 ",
    ),
    (
        PullFailure.UNREACHABLE,
        r"no such host|connection refused|connection reset|no route to host|network is unreachable|i/o timeout"
        r"|handshake timeout|deadline exceeded|Client\.Timeout|request canceled|server gave HTTP response|x509|tls:"
        r"|\bEOF\b|Temporary failure in name|server misbehaving|proxyconnect|\b50[0234] "
        r"|unexpected HTTP status|Read timed out|Connection aborted",
    ),
    (PullFailure.ABSENT, r"\bnot found\b|does not exist"),
)


def classify_pull_error(message: str) -> PullFailure:
    """Returns the reason that an engine's error message contains."""
    return next((why for why, sign in _FAILURE_PATTERNS if re.search(sign, message, re.IGNORECASE)), PullFailure.OTHER)


RETRY_ELSEWHERE = frozenset(
    {PullFailure.OLD_FORMAT, PullFailure.ABSENT, PullFailure.REFUSED, PullFailure.LIMITED, PullFailure.UNREACHABLE}
)
"""After a pull that failed for one of these reasons, another source of the same server is tried."""


# --- Pulling an image, with progress messages

_PROGRESS_INTERVAL_S = 5.0


class NotPulledError(RecoveryError):
    exit_code = 3

    def __init__(self, name: str, why: PullFailure, reason: str) -> None:
        detail = f" ({reason})" if reason and why in (PullFailure.UNREACHABLE, PullFailure.OTHER) else ""
        super().__init__(f"{name} {why.value}{detail}", _HINTS.get(why, _HINT))
        self.why = why


_HINT = "see the engine's log, and its settings for registries and proxies; --registry names a mirror"
_HINTS = {
    PullFailure.OLD_FORMAT: "leave --image out: an image is made from the server's tarball then",
    PullFailure.ABSENT: "look for the tag in the registry",
    PullFailure.REFUSED: "look for the name in the registry, or log in: docker login",
    PullFailure.NO_SUCH_NAME: "write it as `docker pull` takes it, like mysql:5.7.22",
}


def pull_image(client: docker.DockerClient, name: str, say: Say) -> str:
    """Pulls an image and returns its id. An interrupted pull leaves no name behind, because the engine assigns the name
    at the very end."""
    say(f"pulling {name}")
    try:
        has_tag = "@" in name or ":" in name.rpartition("/")[2]
        stream = client.api.pull(name if has_tag else f"{name}:latest", stream=True, decode=True)
        _follow_progress(name, stream, say)
        return str(client.images.get(name).id)
    except APIError as error:
        raise _pull_error(name, str(error.explanation or error)) from None
    except ENGINE_ERRORS as error:
        raise _pull_error(name, str(error)) from None


def look_up_image(client: docker.DockerClient, name: str) -> None:
    """Asks the registry for an image, without pulling it. Raises NotPulledError if the registry does not have it."""
    try:
        client.images.get_registry_data(name)
    except APIError as error:
        raise _pull_error(name, str(error.explanation or error)) from None
    except ENGINE_ERRORS as error:
        raise _pull_error(name, str(error)) from None


@dataclass
class _LayerProgress:
    """Downloaded and total bytes of each layer, from the engine's progress events."""

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
        # A lower bound: the engine has not reported the size of the layers that are still waiting.
        return f"{sum(self.done.values()) >> 20} of at least {sum(self.total.values()) >> 20} MB"


def _follow_progress(name: str, stream: Iterable[dict[str, Any]], say: Say) -> None:
    """Reads the engine's progress events and reports the progress every few seconds. Raises NotPulledError on an error
    event."""
    layers, said_at = _LayerProgress({}, {}), time.monotonic()
    for event in stream:
        if "error" in event:
            raise _pull_error(name, str((event.get("errorDetail") or {}).get("message") or event["error"]))
        layers.take(event)
        if time.monotonic() - said_at >= _PROGRESS_INTERVAL_S:
            said_at = time.monotonic()
            say(f"{name}: {layers}")


def _pull_error(name: str, message: str) -> NotPulledError:
    why = classify_pull_error(message)
    if why is PullFailure.UNREACHABLE:
        # A chain of causes ends with the reason: `Get "https://…": dial tcp: lookup …: no such host`.
        message = message.rpartition(": ")[2]
    return NotPulledError(name, why, failure_reason(message))
