"""Inspects server images through the Docker engine, pulls them, and lists and removes the images made by this tool."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.models.containers import Container
from docker.models.images import Image
from docker.types import Mount

from recovery.builds.download import failure_reason
from recovery.builds.executable import (
    MAX_OPTIONS_BYTES,
    find_eatmydata,
    list_options_command,
    parse_option_names,
    parse_version_output,
)
from recovery.builds.resolve import IMAGE_NAMESPACE, ServerRequest
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux import docker_engine
from recovery.linux.docker_engine import OWNER, PURPOSE
from recovery.linux.files import create_readable_folder, images_dir, parse_json, write_atomically
from recovery.linux.procfs import process_id
from recovery.linux.signals import defer_signals
from recovery.model import Build, Version, can

# --- Reasons why an image was not pulled, read from the messages of old and new engines (pure functions)


class PullFailure(StrEnum):
    """The reason why an image was not pulled. Each value completes a message that starts with the image's name."""

    OLD_FORMAT = "is in the format of 2015 (schema 1), which this engine does not pull"
    ABSENT = "is not in the registry"
    REFUSED = "is not there, or not for everybody"
    LIMITED = "was refused: too many pulls from here"
    UNREACHABLE = "cannot be asked for: the registry does not answer"
    NO_SUCH_NAME = "is no name of an image"
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


# --- Reading files of an image through a container that is never started

_GO_FOLDER_OR_LINK = 27
"""In a Go file mode, the bits for links and folders have this number or a higher one."""


def temporary_container_labels() -> dict[str, str]:
    """Returns the labels of a temporary container. If the process that owns it is killed, the next run finds the
    container by these labels and removes it."""
    return {PURPOSE: "look", OWNER: process_id()}


@contextmanager
def temporary_container(
    client: docker.DockerClient, image: str, command: list[str], **more: Any
) -> Iterator[Container]:
    """Creates a container that is not started yet, and removes it with its volumes on exit, also after an error. The
    command replaces the image's entrypoint, which would begin by creating a data directory."""
    with ExitStack() as undo:
        with defer_signals():
            container = client.containers.create(
                image, entrypoint=command, command=[], network_mode="none", user="0",
                labels=temporary_container_labels(),
                cap_drop=["ALL"], security_opt=["no-new-privileges"], **more,
            )  # fmt: skip
            undo.callback(_remove_container, container)
        yield container


def _remove_container(container: Container) -> None:
    with suppress(NotFound):
        container.remove(v=True, force=True)


def real_path(container: Container, path: str) -> str | None:
    """Returns the path of the file itself with links resolved; None if the path does not lead to a file."""
    status = path_status(container, path)
    if status is not None and status.get("linkTarget"):
        path = str(status["linkTarget"])
        status = path_status(container, path)
    return None if status is None or int(status["mode"]) >> _GO_FOLDER_OR_LINK else path


def path_status(container: Container, path: str) -> dict[str, Any] | None:
    """Returns what the engine reports about a path in the container; None if it does not exist."""
    try:
        _, status = container.get_archive(path)  # the content is not read from the stream
    except NotFound:
        return None
    return status


def read_file(container: Container, path: str) -> Iterator[bytes]:
    """Yields the content of one file in chunks."""
    for _, chunk in _members(container, path, ""):
        yield chunk


def read_folder(container: Container, path: str, ending: str) -> dict[str, bytes]:
    """Returns the content by name of those files directly in a folder that have this ending; empty if there is no such
    folder."""
    found: dict[str, bytes] = {}
    with suppress(NotFound):
        for name, chunk in _members(container, path, ending):
            inside = PurePosixPath(name)
            if len(inside.parts) == 2:
                found[inside.name] = found.get(inside.name, b"") + chunk
    return found


def _members(container: Container, path: str, ending: str) -> Iterator[tuple[str, bytes]]:
    """Yields name and content, in chunks, of the files below a path that have this ending."""
    chunks, _ = container.get_archive(path)
    with tarfile.open(fileobj=io.BufferedReader(_ChunkReader(iter(chunks)), 1 << 20), mode="r|") as tar:
        for member in tar:
            if not member.isfile() or not member.name.endswith(ending):
                continue
            file = tar.extractfile(member)
            assert file is not None
            while chunk := file.read(1 << 20):
                yield member.name, chunk


class _ChunkReader(io.RawIOBase):
    """A raw file object that reads from an iterator of chunks."""

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


# --- Inspecting the server in an image

_MYSQLD_FOLDERS = ("/usr/sbin", "/usr/local/mysql/bin", "/usr/bin", "/usr/libexec", "/opt/mysqld/bin", "/opt/mysqld",
            "/opt/bitnami/mysql/bin", "/opt/bitnami/mariadb/sbin", "/usr/local/sbin", "/usr/local/bin")  # fmt: skip
_PROGRAMS = ("mysqld", "mariadbd")
_RUN_TIMEOUT_S = 120
_LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
_IMAGE_HINT = "take an image of this host's CPU that holds a MySQL, MariaDB or Percona server"


@dataclass(frozen=True)
class _ImageInspection:
    """What is stored about an image, so that it is inspected only once."""

    mysqld: str
    basedir: str
    messages: str | None
    fingerprint: str
    said: str
    """The output of mysqld --version."""


def inspect_image(client: docker.DockerClient, image: str, source: str) -> Build:
    """Returns the server in an image. The image is inspected only once, because an image never changes under its id."""
    memo = _memo_path(image).with_suffix(".json")
    try:
        found = _ImageInspection(**parse_json(memo.read_bytes()))
    except (OSError, ValueError, TypeError):  # no stored result, or a damaged one: inspect again
        found = _inspect_uncached(client, image)
        create_readable_folder(memo.parent)
        write_atomically(memo, json.dumps(asdict(found)).encode())
    version = parse_version_output(found.said)
    assert version is not None
    messages = None if found.messages is None else Path(found.messages)
    mysqld, basedir = Path(found.mysqld), Path(found.basedir)
    return Build(version, mysqld, basedir, found.fingerprint, source, messages=messages, image=image)


def _memo_path(image: str) -> Path:
    """Returns the path, without a suffix, of what is stored about an image."""
    return images_dir() / image.removeprefix("sha256:")


def _inspect_uncached(client: docker.DockerClient, image: str) -> _ImageInspection:
    with temporary_container(client, image, ["/nothing"]) as container:
        mysqld = _find_mysqld(container, image)
        said, version = query_image_version(client, image, mysqld)
        basedir, messages = _find_basedir_and_messages(container, PurePosixPath(mysqld), version)
        sha256 = hashlib.sha256()
        for chunk in read_file(container, mysqld):
            sha256.update(chunk)
    return _ImageInspection(mysqld, basedir, messages, sha256.hexdigest(), said)


def query_image_version(client: docker.DockerClient, image: str, mysqld: str) -> tuple[str, Version]:
    """Returns what the server in an image prints for --version, and the version parsed from it. Raises HostUnfitError
    if it cannot be run or prints no version."""
    with temporary_container(client, image, [mysqld, "--no-defaults", "--version"]) as container:
        try:
            container.start()
        except APIError as error:
            raise HostUnfitError(f"{mysqld} of the image cannot be run: {error.explanation}", _IMAGE_HINT) from None
        container.wait(timeout=_RUN_TIMEOUT_S)
        said = container.logs().decode(errors="replace").strip()
    version = parse_version_output(said)
    if version is None:
        last = said.splitlines()[-1][:200] if said else "nothing"
        raise HostUnfitError(f"{mysqld} of the image, asked for its version, says: {last}", _IMAGE_HINT)
    return said, version


def query_image_options(client: docker.DockerClient, build: Build) -> frozenset[str]:
    """Returns the names of all options that the server in an image lists; empty if it does not answer."""
    said = b""
    with (
        suppress(DockerException, requests.RequestException),
        temporary_container(client, str(build.image), list(list_options_command(build))) as container,
    ):
        container.start()
        container.wait(timeout=_RUN_TIMEOUT_S)
        for chunk in container.logs(stderr=False, stream=True):
            said += chunk
            if len(said) > MAX_OPTIONS_BYTES:
                break
    return parse_option_names(said.decode(errors="replace"))


def _find_mysqld(container: Container, image: str) -> str:
    for folder in dict.fromkeys((*_search_path(container), *_MYSQLD_FOLDERS)):
        for program in _PROGRAMS:
            if (real := real_path(container, f"{folder}/{program}")) is not None:
                return real
    raise UsageError(f"there is no mysqld in the image {image[:19]}", _IMAGE_HINT)


def _search_path(container: Container) -> list[str]:
    environment = container.attrs.get("Config", {}).get("Env") or []
    path = next((entry.removeprefix("PATH=") for entry in environment if entry.startswith("PATH=")), "")
    return [folder for folder in path.split(":") if folder.startswith("/")]


def _find_basedir_and_messages(container: Container, mysqld: PurePosixPath, version: Version) -> tuple[str, str | None]:
    """Returns the basedir and the folder of the error messages, searched for as for a server on the host. The vendor's
    packages name that folder after the series."""
    above = mysqld.parent.parent if mysqld.parent.name in ("bin", "sbin", "libexec") else mysqld.parent
    series = "share/mysql-{}.{}".format(*version.numbers)
    for base in (above, mysqld.parent):
        for share in ("share", "share/mysql", "share/mariadb", series):
            if path_status(container, f"{base}/{share}/english/errmsg.sys") is not None:
                return str(base), str(base / share)
    return str(above), None


def with_scripts(client: docker.DockerClient, build: Build) -> Build:
    """Returns the build, with the install scripts copied out of the image if the server cannot initialize itself: the
    host then passes the scripts to the server."""
    if can(build.version, "initialize"):
        return build
    assert build.image is not None
    folder = _memo_path(build.image).with_suffix(".scripts")
    if not (folder / _COMPLETE_MARKER).is_file():
        create_readable_folder(folder)
        with temporary_container(client, build.image, ["/nothing"]) as container:
            for name, content in _read_scripts(container, build):
                write_atomically(folder / name, content)
        write_atomically(folder / _COMPLETE_MARKER, b"")
    return replace(build, scripts=(folder,))


def with_eatmydata(client: docker.DockerClient, build: Build) -> Build:
    """Returns the build with a libeatmydata for its container; unchanged if there is none. The library is searched for
    on every call, which takes some hundredths of a second. If the image has none, like the images of the vendors, the
    host's library is mounted into the container, provided that the image's C library can load it."""
    assert build.image is not None
    with temporary_container(client, build.image, ["/nothing"]) as container:
        places = (f"{folder}/libeatmydata.so" for folder in _LIBRARY_FOLDERS)
        found = next((path for path in places if path_status(container, path) is not None), None)
    if found is not None:
        return replace(build, eatmydata=Path(found))
    ours = find_eatmydata()
    if ours is None or not _can_preload(client, build, ours):
        return build
    return replace(build, eatmydata=ours, mounted=(ours,))


def _can_preload(client: docker.DockerClient, build: Build, library: Path) -> bool:
    """Returns whether the server in the image runs with the host's library preloaded. If the loader cannot load it, it
    either ends the program or prints a message and continues without the library."""
    mount = Mount(str(library), str(library), type="bind", read_only=True)
    command = [str(build.mysqld), "--no-defaults", "--version"]
    environment = {"LD_PRELOAD": str(library)}
    with (
        suppress(APIError),  # an engine that cannot see this file of the host
        temporary_container(client, str(build.image), command, environment=environment, mounts=[mount]) as container,
    ):
        container.start()
        ended = container.wait(timeout=_RUN_TIMEOUT_S)["StatusCode"]
        return bool(ended == 0 and b"ld.so" not in container.logs())
    return False


_COMPLETE_MARKER = ".complete"


def _read_scripts(container: Container, build: Build) -> Iterator[tuple[str, bytes]]:
    places = [build.messages] if build.messages else [build.basedir / "share/mysql", build.basedir / "share/mariadb"]
    for place in (*places, build.basedir / "scripts"):
        yield from read_folder(container, str(place), ".sql").items()


def delete_memo(image: str) -> None:
    """Deletes what is stored about an image that was removed."""
    with suppress(OSError):
        _memo_path(image).with_suffix(".json").unlink()
    folder = _memo_path(image).with_suffix(".scripts")
    for path in folder.glob("*") if folder.is_dir() else ():
        with suppress(OSError):
            path.unlink()
    with suppress(OSError):
        folder.rmdir()


# --- Images on this host


def image_id(client: docker.DockerClient, name: str) -> str | None:
    """Returns the id of an image on this host; None if there is no image of that name."""
    try:
        return str(client.images.get(name).id)
    except ImageNotFound:
        return None
    except APIError as error:
        if error.status_code == 400:  # not a valid image name
            return None
        raise


# Which images were made by this tool, and what they hold, is read from their labels alone.

_SERVERS = ("mysql", "mariadb", "percona", "mariadb/server", "percona/percona-server", "mysql/mysql-server")


@dataclass(frozen=True)
class ImageRow:
    """A row in the list of images."""

    name: str
    version: str
    bytes: int
    source: str
    ours: bool
    image: str


def build_labels(build: Build) -> dict[str, str]:
    """Returns the labels from which `build_of` restores the same build."""
    return {
        docker_engine.SERVER_VERSION: str(build.version),
        docker_engine.FLAVOR: str(build.version.flavor),
        # in the form of --version output, from which flavor and numbers are parsed
        docker_engine.VERSION_OUTPUT: f"Ver {build.version.text} ({build.version.flavor})",
        docker_engine.FINGERPRINT: build.fingerprint,
        docker_engine.MYSQLD: str(build.mysqld),
        docker_engine.BASEDIR: str(build.basedir),
        docker_engine.MESSAGES: str(build.messages or ""),
        docker_engine.SOURCE: build.source,
    }


def build_from_labels(image: Image) -> Build | None:
    """Returns the server in an image made by this tool; None if the image holds none (the base image)."""
    labels = image.labels
    version = parse_version_output(labels.get(docker_engine.VERSION_OUTPUT, ""))
    if version is None or docker_engine.FINGERPRINT not in labels:
        return None
    return Build(
        version=version,
        mysqld=Path(labels[docker_engine.MYSQLD]),
        basedir=Path(labels[docker_engine.BASEDIR]),
        fingerprint=labels[docker_engine.FINGERPRINT],
        source=labels[docker_engine.SOURCE],
        messages=Path(labels[docker_engine.MESSAGES]) if labels.get(docker_engine.MESSAGES) else None,
        image=str(image.id),
    )


def own_images(client: docker.DockerClient) -> list[Image]:
    return _images(client, {"label": [f"{docker_engine.PURPOSE}=image"]})


def _images(client: docker.DockerClient, filters: dict[str, list[str]] | None = None) -> list[Image]:
    """Returns the images that match the filters, except those that another process removes meanwhile."""
    found = []
    for image in client.api.images(quiet=True, filters=filters):
        with suppress(ImageNotFound):
            found.append(client.images.get(image))
    return found


def find_own_image(client: docker.DockerClient, wanted: ServerRequest) -> tuple[str, Build] | None:
    """Returns name and build of the newest image made by this tool that fits; None if none does. An image of the user's
    own server is never used for the release with the same number."""
    found: list[tuple[Version, bool, str, Build]] = []
    for image in own_images(client):
        build, name = build_from_labels(image), image.labels.get(docker_engine.IMAGE_NAME, "")
        # An image from a registry can have any label, but not a name of this tool.
        if (
            build is None
            or build.source.startswith("own ")
            or name not in image.tags
            or not name.startswith(f"{IMAGE_NAMESPACE}/")
        ):
            continue
        if wanted.debian is not None and name != debian_image_name(wanted.debian):
            continue
        if wanted.fits(build.version):
            found.append((build.version, build.source.startswith("catalog"), name, build))
    if not found:
        return None
    _, _, name, build = max(found, key=lambda one: one[:3])
    return name, build


def debian_image_name(name: str) -> str:
    return f"{IMAGE_NAMESPACE}/{name}:latest"


def list_images(client: docker.DockerClient) -> list[ImageRow]:
    """Returns the images made by this tool, the image of the tool itself, and the official images of the servers, which
    a VERSION would find."""
    ours = {str(image.id) for image in own_images(client)}
    rows = []
    for image in _images(client):
        mine = str(image.id) in ours
        # An image that the user has renamed belongs to the user.
        shown = [
            name
            for name in image.tags
            if (name == image.labels.get(docker_engine.IMAGE_NAME) if mine else _is_official(name))
        ]
        rows += [_image_row(image, name, mine=mine) for name in shown]
    for image in _images(client, {"label": [f"{docker_engine.PURPOSE}=tool"]}):
        size = int(image.attrs.get("Size", 0))
        rows += [ImageRow(name, "-", size, "docker/recovery.Dockerfile", True, str(image.id)) for name in image.tags]
    return sorted(rows, key=lambda row: (not row.ours, row.name))


def _is_official(name: str) -> bool:
    """Returns whether this is the name of an official server image, with or without a mirror's name before it."""
    return any(f"/{name}".rpartition(":")[0].endswith(f"/{server}") for server in _SERVERS)


def _image_row(image: Image, name: str, *, mine: bool) -> ImageRow:
    size = int(image.attrs.get("Size", 0))
    version, source = (
        image.labels.get(docker_engine.SERVER_VERSION, "-"),
        image.labels.get(docker_engine.SOURCE, "pulled"),
    )
    if not mine:
        version, source = name.rpartition(":")[2], "pulled"
    return ImageRow(name, version, size, source, mine, str(image.id))


def remove_image(client: docker.DockerClient, name: str) -> str:
    """Removes one image made by this tool and returns its name. The image is given by name, by VERSION as the list
    shows it, or by id. Raises UsageError if no image or more than one matches."""
    ours = [row for row in list_images(client) if row.ours]
    image = image_id(client, name)
    chosen = [row for row in ours if name in (row.name, row.version) or row.image == image]
    chosen = chosen or [row for row in ours if row.name == debian_image_name(name)]
    if not chosen:
        known = ", ".join(row.name for row in ours) or "none"
        why = "was not made here: remove it by `docker rmi`" if image is not None else "is no image on this host"
        raise UsageError(f"{name} {why}", f"made here: {known}")
    if len(chosen) > 1:
        raise UsageError(f"{name} are several images", "say which: " + ", ".join(row.name for row in chosen))
    _remove_image(client, chosen[0])
    return chosen[0].name


def _remove_image(client: docker.DockerClient, row: ImageRow) -> None:
    name = row.name
    try:
        client.images.remove(name)
        delete_memo(row.image)
    except ImageNotFound:
        pass  # another process was faster
    except APIError as error:
        if error.status_code != 409:
            raise
        raise HostUnfitError(f"{name} is in use: {error.explanation}", "end what runs in it, then try again") from None


def remove_all_images(client: docker.DockerClient) -> tuple[list[str], list[str]]:
    """Removes all images made by this tool; returns the names of the removed ones and of those in use. The base image
    is removed last, because the others are built on it."""
    removed, left = [], []
    rows = [row for row in list_images(client) if row.ours]
    for row in sorted(rows, key=lambda row: row.version == "-"):
        try:
            _remove_image(client, row)
            removed.append(row.name)
        except HostUnfitError:
            left.append(row.name)
    return removed, left


# --- Pulling an image, with progress messages

Say = Callable[[str], None]

_PROGRESS_INTERVAL_S = 5.0


class NotPulledError(RecoveryError):
    """Raised if an image could not be pulled."""

    exit_code = 3

    def __init__(self, name: str, why: PullFailure, said: str) -> None:
        detail = f" ({said})" if said and why in (PullFailure.UNREACHABLE, PullFailure.OTHER) else ""
        super().__init__(f"{name} {why.value}{detail}", _HINTS.get(why, _HINT))
        self.why = why

    @property
    def goes_on(self) -> bool:
        """Whether another source of the same server may be tried."""
        return self.why in RETRY_ELSEWHERE


_HINT = "see the engine's log, and its settings for registries and proxies; REGISTRY= names a mirror"
_HINTS = {
    PullFailure.OLD_FORMAT: "leave IMAGE out: an image is made from the server's tarball then",
    PullFailure.ABSENT: "look for the tag in the registry",
    PullFailure.REFUSED: "look for the name in the registry, or log in: docker login",
    PullFailure.NO_SUCH_NAME: "write it as `docker pull` takes it, like mysql:5.7.22",
}


def pull_image(client: docker.DockerClient, name: str, say: Say, *, clock: Callable[[], float] = time.monotonic) -> str:
    """Pulls an image and returns its id. An interrupted pull leaves no name behind, because the engine assigns the name
    at the very end."""
    say(f"pulling {name}")
    try:
        stream = client.api.pull(name if _has_tag(name) else f"{name}:latest", stream=True, decode=True)
        _follow_progress(name, stream, say, clock)
        return str(client.images.get(name).id)
    except APIError as error:
        raise _pull_error(name, str(error.explanation or error)) from None
    except (DockerException, requests.RequestException) as error:
        raise _pull_error(name, str(error)) from None


def _has_tag(name: str) -> bool:
    return "@" in name or ":" in name.rpartition("/")[2]


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


def _follow_progress(name: str, stream: Iterable[dict[str, Any]], say: Say, clock: Callable[[], float]) -> None:
    """Reads the engine's progress events and reports the progress every few seconds. Raises NotPulledError on an error
    event."""
    layers, said_at = _LayerProgress({}, {}), clock()
    for event in stream:
        if "error" in event:
            raise _pull_error(name, str((event.get("errorDetail") or {}).get("message") or event["error"]))
        layers.take(event)
        if clock() - said_at >= _PROGRESS_INTERVAL_S:
            said_at = clock()
            say(f"{name}: {layers}")


def _pull_error(name: str, message: str) -> NotPulledError:
    why = classify_pull_error(message)
    # A chain of causes ends with the reason: `Get "https://…": dial tcp: lookup …: no such host`.
    return NotPulledError(
        name, why, failure_reason(message.rpartition(": ")[2] if why is PullFailure.UNREACHABLE else message)
    )
