"""Finds, lists and removes the images of servers on this host. Which of them this tool made, and what they hold, is
read from their labels alone."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import docker
from docker.errors import APIError, ImageNotFound
from docker.models.images import Image

from recovery.builds.executable import parse_version_output
from recovery.builds.image_inspect import delete_memo
from recovery.builds.resolve import IMAGE_NAMESPACE, ServerRequest
from recovery.errors import HostUnfitError, UsageError
from recovery.linux import docker_engine
from recovery.linux.docker_engine import PURPOSE
from recovery.model import Build, Version


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


_SERVERS = ("mysql", "mariadb", "percona", "mariadb/server", "percona/percona-server", "mysql/mysql-server")


@dataclass(frozen=True)
class ImageRow:
    name: str
    version: str | None
    """None if the image holds no server: the base image, the image of the tool."""
    bytes: int
    source: str
    ours: bool
    image: str


def build_labels(build: Build) -> dict[str, str]:
    """Returns the labels of the image of a server. `build.mysqld` is the path in the image."""
    return {
        docker_engine.SERVER_VERSION: str(build.version),
        docker_engine.FLAVOR: str(build.version.flavor),
        # in the form of --version output, from which flavor and numbers are parsed
        docker_engine.VERSION_OUTPUT: f"Ver {build.version.text} ({build.version.flavor})",
        docker_engine.FINGERPRINT: build.fingerprint,
        docker_engine.MYSQLD: str(build.mysqld),
        docker_engine.SOURCE: build.source,
    }


def _images(client: docker.DockerClient) -> list[Image]:
    """Returns all images, except those that another process removes meanwhile."""
    images = []
    for image in client.api.images(quiet=True):
        with suppress(ImageNotFound):
            images.append(client.images.get(image))
    return images


def find_own_image(client: docker.DockerClient, request: ServerRequest) -> Image | None:
    """Returns the newest image made by this tool that fits; None if none does. An image of the user's own
    server is never used for the release with the same number."""
    fitting: list[tuple[Version, bool, str, Image]] = []
    for image in _images(client):
        version = parse_version_output(image.labels.get(docker_engine.VERSION_OUTPUT, ""))
        source, name = image.labels.get(docker_engine.SOURCE, ""), image.labels.get(docker_engine.IMAGE_NAME, "")
        if version is None or not _is_made_here(image, name) or source.startswith("own "):
            continue
        if request.debian is not None and name != debian_image_name(request.debian):
            continue
        if request.fits(version):
            fitting.append((version, source.startswith("catalog"), name, image))
    return max(fitting, key=lambda candidate: candidate[:3])[-1] if fitting else None


def _is_made_here(image: Image, name: str) -> bool:
    """Returns whether this tool made the image under this name. An image that the user has renamed belongs to the user,
    and one from a registry can have any label, but not a name of this tool."""
    made = image.labels.get(PURPOSE) == "image" and image.labels.get(docker_engine.IMAGE_NAME) == name
    return made and name in image.tags


def debian_image_name(name: str) -> str:
    return f"{IMAGE_NAMESPACE}/{name}:latest"


def list_images(client: docker.DockerClient) -> list[ImageRow]:
    """Returns the images made by this tool, the image of the tool itself, and the official images of the servers, which
    a VERSION would find."""
    rows = []
    for image in _images(client):
        labels, size, image_id = image.labels, int(image.attrs.get("Size", 0)), str(image.id)
        for name in image.tags:
            if labels.get(PURPOSE) == "tool":
                rows.append(ImageRow(name, None, size, "docker/recovery.Dockerfile", True, image_id))
            elif _is_made_here(image, name):
                version, source = labels.get(docker_engine.SERVER_VERSION), labels.get(docker_engine.SOURCE, "")
                rows.append(ImageRow(name, version, size, source, True, image_id))
            elif labels.get(PURPOSE) != "image" and _is_official(name):
                rows.append(ImageRow(name, name.rpartition(":")[2], size, "pulled", False, image_id))
    return sorted(rows, key=lambda row: (not row.ours, row.name))


def _is_official(name: str) -> bool:
    """Returns whether this is the name of an official server image, with or without a mirror's name before it."""
    return any(f"/{name}".rpartition(":")[0].endswith(f"/{server}") for server in _SERVERS)


def remove_image(client: docker.DockerClient, name: str) -> str:
    """Removes one image made by this tool and returns its name. The image is given by name, by VERSION as the list
    shows it, or by id. Raises UsageError if no image or more than one matches."""
    ours = [row for row in list_images(client) if row.ours]
    image = image_id(client, name)
    chosen = [row for row in ours if name in (row.name, row.version) or row.image == image]
    chosen = chosen or [row for row in ours if row.name == debian_image_name(name)]
    if not chosen:
        known = ", ".join(row.name for row in ours) or "none"
        why = "was not made here: remove it by `docker rmi`" if image is not None else "is not an image on this host"
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
    for row in sorted(rows, key=lambda row: row.version is None):
        try:
            _remove_image(client, row)
            removed.append(row.name)
        except HostUnfitError:
            left.append(row.name)
    return removed, left
