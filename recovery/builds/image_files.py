"""What lies at this path in an image? Read out of a container that is never started."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import PurePosixPath
from typing import Any

import docker
from docker.errors import NotFound
from docker.models.containers import Container

from recovery.host.engine import MADE, OWNER
from recovery.host.owner import mark
from recovery.host.signals import held_back

_GO_FOLDER_OR_LINK = 27
"""Go's mode bits from this one on: links, and folders."""


def labels_of_a_look() -> dict[str, str]:
    """One whose owner was killed is found by them, and removed with the next run."""
    return {MADE: "look", OWNER: mark()}


@contextmanager
def throw_away(client: docker.DockerClient, image: str, command: list[str], **more: Any) -> Iterator[Container]:
    """A container that is not started yet; it goes, with its volumes, whatever happens. The command takes the place of
    the image's entrypoint, which would begin with a data directory of its own."""
    with ExitStack() as undo:
        with held_back():
            container = client.containers.create(
                image, entrypoint=command, command=[], network_mode="none", user="0", labels=labels_of_a_look(),
                cap_drop=["ALL"], security_opt=["no-new-privileges"], **more,
            )  # fmt: skip
            undo.callback(_remove, container)
        yield container


def _remove(container: Container) -> None:
    with suppress(NotFound):
        container.remove(v=True, force=True)


def real_path(container: Container, path: str) -> str | None:
    """The file itself, past every link; None where there is none."""
    status = status_of(container, path)
    if status is not None and status.get("linkTarget"):
        path = str(status["linkTarget"])
        status = status_of(container, path)
    return None if status is None or int(status["mode"]) >> _GO_FOLDER_OR_LINK else path


def status_of(container: Container, path: str) -> dict[str, Any] | None:
    try:
        _, status = container.get_archive(path)  # what it would stream is left unread
    except NotFound:
        return None
    return status


def read_file(container: Container, path: str) -> Iterator[bytes]:
    """The content of one file, streamed."""
    for _, chunk in _members(container, path, ""):
        yield chunk


def read_folder(container: Container, path: str, ending: str) -> dict[str, bytes]:
    """The files right in it whose names end so; empty where there is no such folder."""
    found: dict[str, bytes] = {}
    with suppress(NotFound):
        for name, chunk in _members(container, path, ending):
            inside = PurePosixPath(name)
            if len(inside.parts) == 2:
                found[inside.name] = found.get(inside.name, b"") + chunk
    return found


def _members(container: Container, path: str, ending: str) -> Iterator[tuple[str, bytes]]:
    chunks, _ = container.get_archive(path)
    with tarfile.open(fileobj=io.BufferedReader(_Stream(iter(chunks)), 1 << 20), mode="r|") as tar:
        for member in tar:
            if not member.isfile() or not member.name.endswith(ending):
                continue
            file = tar.extractfile(member)
            assert file is not None
            while chunk := file.read(1 << 20):
                yield member.name, chunk


class _Stream(io.RawIOBase):
    """What comes in chunks, read as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = next(self._chunks, b"")
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count
