"""Which images on this host were made here, what do they hold, and how do they go again? Told by their labels alone."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import APIError, ImageNotFound
from docker.models.images import Image

from recovery.builds.executable import version_said
from recovery.builds.image_look import forget
from recovery.builds.image_make import id_of
from recovery.builds.image_names import OURS, Wanted
from recovery.errors import HostUnfitError, UsageError
from recovery.host import engine
from recovery.model import Build, Version

_SERVERS = ("mysql", "mariadb", "percona", "mariadb/server", "percona/percona-server", "mysql/mysql-server")


@dataclass(frozen=True)
class Listed:
    name: str
    version: str
    bytes: int
    source: str
    ours: bool
    image: str


def labels_of(build: Build) -> dict[str, str]:
    """What `build_of` makes the same build of again."""
    return {
        engine.SERVER_VERSION: str(build.version),
        engine.FLAVOR: str(build.version.flavor),
        # with the words around it, as --version has them: flavor and numbers are read from those
        engine.SAID: f"Ver {build.version.text} ({build.version.flavor})",
        engine.FINGERPRINT: build.fingerprint,
        engine.MYSQLD: str(build.mysqld),
        engine.BASEDIR: str(build.basedir),
        engine.MESSAGES: str(build.messages or ""),
        engine.SOURCE: build.source,
    }


def build_of(image: Image) -> Build | None:
    """The server in an image of ours; None where it holds none (the base)."""
    labels = image.labels
    version = version_said(labels.get(engine.SAID, ""))
    if version is None or engine.FINGERPRINT not in labels:
        return None
    return Build(
        version=version,
        mysqld=Path(labels[engine.MYSQLD]),
        basedir=Path(labels[engine.BASEDIR]),
        fingerprint=labels[engine.FINGERPRINT],
        source=labels[engine.SOURCE],
        messages=Path(labels[engine.MESSAGES]) if labels.get(engine.MESSAGES) else None,
        image=str(image.id),
    )


def made_here(client: docker.DockerClient) -> list[Image]:
    return _images(client, {"label": [f"{engine.MADE}=image"]})


def _images(client: docker.DockerClient, filters: dict[str, list[str]] | None = None) -> list[Image]:
    """One that another process removes meanwhile is passed over."""
    found = []
    for image in client.api.images(quiet=True, filters=filters):
        with suppress(ImageNotFound):
            found.append(client.images.get(image))
    return found


def find(client: docker.DockerClient, wanted: Wanted) -> tuple[str, Build] | None:
    """The newest that fits. One made of a server of the user's own is never taken for the release of its number."""
    found: list[tuple[Version, bool, str, Build]] = []
    for image in made_here(client):
        build, name = build_of(image), image.labels.get(engine.NAME, "")
        # A registry's image may bear any label, but no name of ours.
        if (
            build is None
            or build.source.startswith("own ")
            or name not in image.tags
            or not name.startswith(f"{OURS}/")
        ):
            continue
        if wanted.debian is not None and name != debian_name(wanted.debian):
            continue
        if wanted.fits(build.version):
            found.append((build.version, build.source.startswith("catalog"), name, build))
    if not found:
        return None
    _, _, name, build = max(found, key=lambda one: one[:3])
    return name, build


def debian_name(name: str) -> str:
    return f"{OURS}/{name}:latest"


def every(client: docker.DockerClient) -> list[Listed]:
    """Ours, that of this tool among them, and the servers' own official ones that a VERSION would find."""
    ours = {str(image.id) for image in made_here(client)}
    rows = []
    for image in _images(client):
        mine = str(image.id) in ours
        # What the user has named anew is the user's.
        shown = [name for name in image.tags if (name == image.labels.get(engine.NAME) if mine else _official(name))]
        rows += [_listed(image, name, mine=mine) for name in shown]
    for image in _images(client, {"label": [f"{engine.MADE}=tool"]}):
        size = int(image.attrs.get("Size", 0))
        rows += [Listed(name, "-", size, "docker/recovery.Dockerfile", True, str(image.id)) for name in image.tags]
    return sorted(rows, key=lambda row: (not row.ours, row.name))


def _official(name: str) -> bool:
    """With or without a mirror's name before it."""
    return any(f"/{name}".rpartition(":")[0].endswith(f"/{server}") for server in _SERVERS)


def _listed(image: Image, name: str, *, mine: bool) -> Listed:
    size = int(image.attrs.get("Size", 0))
    version, source = image.labels.get(engine.SERVER_VERSION, "-"), image.labels.get(engine.SOURCE, "pulled")
    if not mine:
        version, source = name.rpartition(":")[2], "pulled"
    return Listed(name, version, size, source, mine, str(image.id))


def remove(client: docker.DockerClient, name: str) -> str:
    """By name, by VERSION as the list shows it, or by id: what it was called. Only what was made here."""
    ours = [row for row in every(client) if row.ours]
    image = id_of(client, name)
    chosen = [row for row in ours if name in (row.name, row.version) or row.image == image]
    chosen = chosen or [row for row in ours if row.name == debian_name(name)]
    if not chosen:
        known = ", ".join(row.name for row in ours) or "none"
        why = "was not made here: remove it by `docker rmi`" if image is not None else "is no image on this host"
        raise UsageError(f"{name} {why}", f"made here: {known}")
    if len(chosen) > 1:
        raise UsageError(f"{name} are several images", "say which: " + ", ".join(row.name for row in chosen))
    _remove(client, chosen[0])
    return chosen[0].name


def _remove(client: docker.DockerClient, row: Listed) -> None:
    name = row.name
    try:
        client.images.remove(name)
        forget(row.image)
    except ImageNotFound:
        pass  # somebody else was faster
    except APIError as error:
        if error.status_code != 409:
            raise
        raise HostUnfitError(f"{name} is in use: {error.explanation}", "end what runs in it, then try again") from None


def remove_all(client: docker.DockerClient) -> tuple[list[str], list[str]]:
    """Names of the removed, and of those that are in use; the base last, for the others stand on it."""
    removed, left = [], []
    rows = [row for row in every(client) if row.ours]
    for row in sorted(rows, key=lambda row: row.version == "-"):
        try:
            _remove(client, row)
            removed.append(row.name)
        except HostUnfitError:
            left.append(row.name)
    return removed, left
