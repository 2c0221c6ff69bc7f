"""What is in an image: where is its mysqld, which version, and what is the SHA-256 of the executable?"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

import docker
from docker.errors import APIError, NotFound
from docker.models.containers import Container

from recovery.builds.executable import version_said
from recovery.errors import HostUnfitError, UsageError
from recovery.files import write_atomically
from recovery.host.engine import MADE
from recovery.paths import images_dir

_FOLDERS = ("/usr/sbin", "/usr/local/mysql/bin", "/usr/bin", "/usr/libexec", "/opt/mysqld/bin", "/opt/mysqld",
            "/opt/bitnami/mysql/bin", "/opt/bitnami/mariadb/sbin", "/usr/local/sbin", "/usr/local/bin")  # fmt: skip
_PROGRAMS = ("mysqld", "mariadbd")
_SHARES = ("share", "share/mysql", "share/mariadb")
_ANSWER_S = 120


@dataclass(frozen=True)
class Look:
    mysqld: str
    basedir: str
    fingerprint: str
    said: str
    """Its answer to --version."""


def look(client: docker.DockerClient, image: str) -> Look:
    """Looked at once: an image never changes under its id."""
    memo = images_dir() / f"{image.removeprefix('sha256:')}.json"
    with suppress(OSError, ValueError, TypeError):  # no memo, or a damaged one: it is made again
        return Look(**json.loads(memo.read_text(encoding="utf-8")))
    with throw_away(client, image, ["/nothing"]) as container:
        mysqld = _find(container, image)
        fingerprint = _sha256(container, mysqld)
        basedir = _basedir(container, PurePosixPath(mysqld))
    found = Look(mysqld, basedir, fingerprint, ask_version(client, image, mysqld))
    memo.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(memo, json.dumps(asdict(found)).encode())
    return found


@contextmanager
def throw_away(client: docker.DockerClient, image: str, command: list[str]) -> Iterator[Container]:
    """A container that is not started yet; it goes, with its volumes, whatever happens. The command takes the place of
    the image's entrypoint, which would begin with a data directory of its own."""
    container = client.containers.create(
        image, entrypoint=command, command=[], network_mode="none", user="0", labels={MADE: "look"}
    )
    try:
        yield container
    finally:
        with suppress(NotFound):
            container.remove(v=True, force=True)


def ask_version(client: docker.DockerClient, image: str, mysqld: str) -> str:
    with throw_away(client, image, [mysqld, "--no-defaults", "--version"]) as container:
        try:
            container.start()
        except APIError as error:
            raise HostUnfitError(f"{mysqld} of the image cannot be run: {error.explanation}", _OTHER) from None
        container.wait(timeout=_ANSWER_S)
        said = container.logs().decode(errors="replace").strip()
    if version_said(said) is None:
        last = said.splitlines()[-1][:200] if said else "nothing"
        raise HostUnfitError(f"{mysqld} of the image, asked for its version, says: {last}", _OTHER)
    return said


_OTHER = "take an image of this host's CPU that holds a MySQL, MariaDB or Percona server"


def _find(container: Container, image: str) -> str:
    for folder in (*_search_path(container), *_FOLDERS):
        for program in _PROGRAMS:
            if (real := _real(container, f"{folder}/{program}")) is not None:
                return real
    raise UsageError(f"there is no mysqld in the image {image[:19]}", _OTHER)


def _search_path(container: Container) -> list[str]:
    environment = container.attrs.get("Config", {}).get("Env") or []
    path = next((entry.removeprefix("PATH=") for entry in environment if entry.startswith("PATH=")), "")
    return [folder for folder in path.split(":") if folder.startswith("/")]


def _real(container: Container, path: str) -> str | None:
    """The file itself, past every link; None where there is none."""
    status = _status(container, path)
    if status is not None and status.get("linkTarget"):
        path = str(status["linkTarget"])
        status = _status(container, path)
    if status is None or int(status["mode"]) >> 27:  # a folder, a device: Go's mode bits
        return None
    return path


def _status(container: Container, path: str) -> dict[str, Any] | None:
    try:
        _, status = container.get_archive(path)  # what it would stream is left unread
    except NotFound:
        return None
    return status


def _basedir(container: Container, mysqld: PurePosixPath) -> str:
    """The folder whose share/ holds the server's messages; as for a server of the host."""
    above = mysqld.parent.parent if mysqld.parent.name in ("bin", "sbin", "libexec") else mysqld.parent
    for base in (above, mysqld.parent):
        if any(_status(container, f"{base}/{share}/english/errmsg.sys") for share in _SHARES):
            return str(base)
    return str(above)


def _sha256(container: Container, path: str) -> str:
    sha256 = hashlib.sha256()
    for chunk in read_file(container, path):
        sha256.update(chunk)
    return sha256.hexdigest()


def read_file(container: Container, path: str) -> Iterator[bytes]:
    """The content of one file, streamed out of the container."""
    chunks, _ = container.get_archive(path)
    with tarfile.open(fileobj=io.BufferedReader(_Stream(iter(chunks)), 1 << 20), mode="r|") as tar:
        for member in tar:
            if (file := tar.extractfile(member)) is not None:
                while chunk := file.read(1 << 20):
                    yield chunk


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
