"""Finds and connects to the Docker engine, which must run on this host, and removes the containers that killed runs
have left."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import docker
import requests
from docker.errors import DockerException, NotFound
from docker.models.containers import Container

from recovery.errors import HostUnfitError
from recovery.linux.files import read_memo
from recovery.linux.page_cache import DROP_CACHES, CacheKind
from recovery.linux.privileges import RootStep, is_refused
from recovery.linux.procfs import is_owner_gone, process_id
from recovery.linux.signals import defer_signals

# --- Labels
#
# Labels on all images and containers that this tool makes. An object without them is never removed.
LABEL = "recovery-tester."
PURPOSE = LABEL + "made"
"""What an image or a container is for. Images: `image`; `part` for one that is not finished; `tool` for the image of
this tool itself. Containers: `look` to inspect or make an image, `server` to run a server, `drop` to drop the host's
caches."""
IMAGE_NAME = LABEL + "name"
"""The name of an image, which an unfinished one will get later."""
SERVER_VERSION = LABEL + "version"
FLAVOR = LABEL + "flavor"
FINGERPRINT = LABEL + "fingerprint"
MYSQLD = LABEL + "mysqld"
SOURCE = LABEL + "source"
VERSION_OUTPUT = LABEL + "said"
"""The server's output for --version."""
PACKAGES = LABEL + "packages"
OWNER = LABEL + "owner"
"""Mark of the process that made a container."""

# --- The engine

ENGINE_ERRORS = (DockerException, requests.RequestException)
"""Errors of the engine, and of the connection to it, which the SDK passes on as they are."""
_DEFAULT_URL = "unix:///var/run/docker.sock"
_ANSWER_S = 60
_START_HINT = "start one (as root: `dockerd`), or use --engine local"
_SOCKET_HINT = (
    "if it runs on this host, name its socket: DOCKER_HOST=unix:///var/run/docker.sock; or use --engine local"
)
_MAPS_USERS = {"name=rootless": "is rootless", "name=userns": "maps users to others"}
"""Security options with which no container can run as the owner of the data directory."""
ENGINE_HOST_HINT = (
    "run this tool on the engine's host, where the page cache, the log and the processes are, or use --engine local"
)


@dataclass(frozen=True)
class Endpoint:
    """The address of an engine, and where it was configured."""

    url: str
    why: str
    """Where the address comes from: `DOCKER_HOST`, `the context NAME`, `the default`."""

    def __str__(self) -> str:
        return f"{self.url} ({self.why})"


class NoEngineError(HostUnfitError):
    """No engine answers, or its containers do not run on this host or cannot be given the data directory."""


def endpoint() -> Endpoint:
    """Returns the engine that the docker client itself would choose: from DOCKER_HOST, then the context, then the
    system's socket."""
    if url := os.environ.get("DOCKER_HOST"):
        return Endpoint(url, "DOCKER_HOST")
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path(os.environ.get("HOME", "/")) / ".docker")
    name = os.environ.get("DOCKER_CONTEXT") or _read_json(folder / "config.json").get("currentContext")
    if isinstance(name, str) and name not in ("", "default"):
        digest = hashlib.sha256(name.encode()).hexdigest()
        meta = _read_json(folder / "contexts" / "meta" / digest / "meta.json")
        url = meta.get("Endpoints", {}).get("docker", {}).get("Host", "")
        if not url:
            raise NoEngineError(f"the docker context '{name}' has no engine address", "check `docker context ls`")
        return Endpoint(url, f"the context {name}")
    own = Path(os.environ.get("XDG_RUNTIME_DIR", "/nowhere")) / "docker.sock"
    if not Path(_DEFAULT_URL.removeprefix("unix://")).exists() and own.exists():
        return Endpoint(f"unix://{own}", "the user's own")
    return Endpoint(_DEFAULT_URL, "the default")


def connect(at: Endpoint | None = None) -> docker.DockerClient:
    """Returns a client for the engine of this host. Raises NoEngineError with the reason if there is none."""
    at = at or endpoint()
    if not at.url.startswith("unix://"):
        hint = _SOCKET_HINT if urlsplit(at.url).hostname in ("localhost", "127.0.0.1", "::1") else ENGINE_HOST_HINT
        raise NoEngineError(f"the Docker engine {at} has no socket on this host", hint)
    try:
        client = docker.DockerClient(base_url=at.url, timeout=_ANSWER_S)
        info = client.info()
    except (*ENGINE_ERRORS, OSError) as error:
        raise _no_engine(at, error) from error
    here = os.uname()
    if info.get("KernelVersion") != here.release:
        client.close()
        raise NoEngineError(
            f"the Docker engine {at} runs on another machine ({info.get('Name')}, {info.get('KernelVersion')})",
            ENGINE_HOST_HINT,
        )
    for option in info.get("SecurityOptions") or ():
        if (why := _MAPS_USERS.get(str(option).partition(",")[0])) is not None:
            client.close()
            raise NoEngineError(
                f"the Docker engine {at} {why}: its containers cannot use the data directory",
                "use an engine of the system, or --engine local",
            )
    return client


def engine_facts(client: docker.DockerClient, at: Endpoint) -> dict[str, str]:
    with engine_errors():
        info = client.info()
    return {
        "engine": f"Docker {info.get('ServerVersion')}, {at}",
        "engine_storage": str(info.get("Driver")),
        "engine_cgroups": f"v{info.get('CgroupVersion')}, driver {info.get('CgroupDriver')}",
    }


def _no_engine(at: Endpoint, error: Exception) -> NoEngineError:
    socket = Path(at.url.removeprefix("unix://"))
    if not socket.exists():
        return NoEngineError(f"there is no Docker engine at {at}", _START_HINT)
    if not os.access(socket, os.W_OK):
        return NoEngineError(
            f"the Docker engine {at} may not be used by this user",
            "run as root, or join the group docker and log in again",
        )
    return NoEngineError(f"the Docker engine {at} does not answer: {' '.join(str(error).split())}", _START_HINT)


@contextmanager
def engine_errors() -> Iterator[None]:
    """Converts errors of the engine and of the connection to it into a HostUnfitError with a message of one line."""
    try:
        yield
    except DockerException as error:
        text = " ".join(str(getattr(error, "explanation", None) or error).split())
        raise HostUnfitError(
            f"the Docker engine failed: {text}", "check the engine's log and its disk space"
        ) from error
    except requests.RequestException as error:
        raise HostUnfitError(
            f"the Docker engine stopped answering: {' '.join(str(error).split())}", "check that it runs"
        ) from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = read_memo(path)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


# --- Temporary containers


@contextmanager
def temporary_container(client: docker.DockerClient, image: str, purpose: str, **options: Any) -> Iterator[Container]:
    """Creates a container that is not started yet, and removes it with its volumes on exit, also after an error. If
    this process is killed, the next run finds the container by its labels and removes it."""
    labels = {PURPOSE: purpose, OWNER: process_id()}
    with ExitStack() as undo:
        with defer_signals():  # an interrupt during the creation would leave the container behind
            container = client.containers.create(image, labels=labels, **{"network_mode": "none", **options})
            undo.callback(_remove_container, container)
        yield container


def _remove_container(container: Container) -> None:
    with suppress(NotFound):
        container.remove(v=True, force=True)


# --- Containers of killed runs
#
# They are found by label and owner. Containers of other users and programs are never touched.

_KINDS = ("look", "server", "drop")
"""Kinds of containers that may be removed. A container that another program made from an image of this tool inherits
the labels of the image, and stays."""


def remove_orphaned_containers(client: docker.DockerClient) -> tuple[str, ...]:
    """Kills and removes the containers of ended owners, with their volumes, and returns their names."""
    removed = []
    with engine_errors():
        for container in client.containers.list(all=True, ignore_removed=True, filters={"label": OWNER}):
            if container.labels.get(PURPOSE) in _KINDS and is_owner_gone(container.labels[OWNER]):
                _remove_container(container)
                removed.append(str(container.name))
    return tuple(removed)


# --- Dropping the caches through the Docker engine
#
# A user who is not root, but may use the engine, can drop the host's caches by a short-lived container.

_DROP_TIMEOUT_S = 300
_DROP_CACHES_INSIDE = "/drop_caches"
# Root in a container may write to this one file if it is mounted. Where a host forbids even that, a privileged
# container may be allowed to.
_CONTAINER_OPTIONS: tuple[dict[str, Any], ...] = (
    {
        "volumes": {str(DROP_CACHES): {"bind": _DROP_CACHES_INSIDE, "mode": "rw"}},
        "security_opt": ["apparmor=unconfined"],
    },
    {"privileged": True},
)


class DockerCacheDropper:
    """Drops the caches by a container that runs for some tenths of a second, from an image that already exists
    locally."""

    means = "drop_caches (by a container)"

    def __init__(self, client: docker.DockerClient, image: str) -> None:
        self._client = client
        self._image = image

    def drop(self, caches: CacheKind) -> bool:
        return not is_refused(RootStep.DROP_CACHES) and any(self._drop(caches, way) for way in _CONTAINER_OPTIONS)

    def _drop(self, caches: CacheKind, way: dict[str, Any]) -> bool:
        target = DROP_CACHES if "privileged" in way else _DROP_CACHES_INSIDE
        command = ["/bin/sh", "-c", 'echo "$1" > "$2"', "drop", caches.value, str(target)]
        options = {"entrypoint": command, "command": [], "user": "0:0", **way}
        code = None
        # The result counts also if the engine then fails to remove the container.
        with (
            suppress(*ENGINE_ERRORS),
            temporary_container(self._client, self._image, "drop", **options) as container,
        ):
            container.start()
            code = int(container.wait(timeout=_DROP_TIMEOUT_S)["StatusCode"])
        return code == 0
