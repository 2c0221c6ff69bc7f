"""What is in an image: where is its mysqld, which version, and what is the SHA-256 of the executable?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath

import docker
from docker.errors import APIError
from docker.models.containers import Container
from docker.types import Mount

from recovery.builds.executable import version_said
from recovery.builds.image_files import read_file, read_folder, real_path, status_of, throw_away
from recovery.builds.libraries import eatmydata
from recovery.errors import HostUnfitError, UsageError
from recovery.files import write_atomically
from recovery.model import Build, Version
from recovery.ownership import made_readable
from recovery.paths import images_dir
from recovery.versions import can

_FOLDERS = ("/usr/sbin", "/usr/local/mysql/bin", "/usr/bin", "/usr/libexec", "/opt/mysqld/bin", "/opt/mysqld",
            "/opt/bitnami/mysql/bin", "/opt/bitnami/mariadb/sbin", "/usr/local/sbin", "/usr/local/bin")  # fmt: skip
_PROGRAMS = ("mysqld", "mariadbd")
_ANSWER_S = 120
_LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
_OTHER = "take an image of this host's CPU that holds a MySQL, MariaDB or Percona server"


@dataclass(frozen=True)
class _Look:
    """What is remembered of an image."""

    mysqld: str
    basedir: str
    messages: str | None
    fingerprint: str
    said: str
    """Its answer to --version."""


def look(client: docker.DockerClient, image: str, source: str) -> Build:
    """The server in it. Looked at once: an image never changes under its id."""
    memo = _memory(image).with_suffix(".json")
    try:
        found = _Look(**json.loads(memo.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):  # no memo, or a damaged one: it is made again
        found = _look(client, image)
        made_readable(memo.parent)
        write_atomically(memo, json.dumps(asdict(found)).encode())
    version = version_said(found.said)
    assert version is not None
    messages = None if found.messages is None else Path(found.messages)
    mysqld, basedir = Path(found.mysqld), Path(found.basedir)
    return Build(version, mysqld, basedir, found.fingerprint, source, messages=messages, image=image)


def _memory(image: str) -> Path:
    return images_dir() / image.removeprefix("sha256:")


def _look(client: docker.DockerClient, image: str) -> _Look:
    with throw_away(client, image, ["/nothing"]) as container:
        mysqld = _find(container, image)
        said, version = ask_version(client, image, mysqld)
        basedir, messages = _places(container, PurePosixPath(mysqld), version)
        sha256 = hashlib.sha256()
        for chunk in read_file(container, mysqld):
            sha256.update(chunk)
    return _Look(mysqld, basedir, messages, sha256.hexdigest(), said)


def ask_version(client: docker.DockerClient, image: str, mysqld: str) -> tuple[str, Version]:
    with throw_away(client, image, [mysqld, "--no-defaults", "--version"]) as container:
        try:
            container.start()
        except APIError as error:
            raise HostUnfitError(f"{mysqld} of the image cannot be run: {error.explanation}", _OTHER) from None
        container.wait(timeout=_ANSWER_S)
        said = container.logs().decode(errors="replace").strip()
    version = version_said(said)
    if version is None:
        last = said.splitlines()[-1][:200] if said else "nothing"
        raise HostUnfitError(f"{mysqld} of the image, asked for its version, says: {last}", _OTHER)
    return said, version


def _find(container: Container, image: str) -> str:
    for folder in dict.fromkeys((*_search_path(container), *_FOLDERS)):
        for program in _PROGRAMS:
            if (real := real_path(container, f"{folder}/{program}")) is not None:
                return real
    raise UsageError(f"there is no mysqld in the image {image[:19]}", _OTHER)


def _search_path(container: Container) -> list[str]:
    environment = container.attrs.get("Config", {}).get("Env") or []
    path = next((entry.removeprefix("PATH=") for entry in environment if entry.startswith("PATH=")), "")
    return [folder for folder in path.split(":") if folder.startswith("/")]


def _places(container: Container, mysqld: PurePosixPath, version: Version) -> tuple[str, str | None]:
    """basedir, and the folder of the messages: as for a server of the host. The vendor's packages name it by series."""
    above = mysqld.parent.parent if mysqld.parent.name in ("bin", "sbin", "libexec") else mysqld.parent
    series = "share/mysql-{}.{}".format(*version.numbers)
    for base in (above, mysqld.parent):
        for share in ("share", "share/mysql", "share/mariadb", series):
            if status_of(container, f"{base}/{share}/english/errmsg.sys") is not None:
                return str(base), str(base / share)
    return str(above), None


def with_scripts(client: docker.DockerClient, build: Build) -> Build:
    """A server that cannot initialise itself is fed from this side: its install scripts are copied out of the image."""
    if can(build.version, "initialize"):
        return build
    assert build.image is not None
    folder = _memory(build.image).with_suffix(".scripts")
    if not (folder / _COMPLETE).is_file():
        made_readable(folder)
        with throw_away(client, build.image, ["/nothing"]) as container:
            for name, content in _scripts(container, build):
                write_atomically(folder / name, content)
        write_atomically(folder / _COMPLETE, b"")
    return replace(build, scripts=(folder,))


def with_eatmydata(client: docker.DockerClient, build: Build) -> Build:
    """Looked for anew each time, which takes some hundredths of a second. Where the image has none, as those of the
    vendors, the host's is shown to it, if the image's C library can load that."""
    assert build.image is not None
    with throw_away(client, build.image, ["/nothing"]) as container:
        places = (f"{folder}/libeatmydata.so" for folder in _LIBRARY_FOLDERS)
        found = next((path for path in places if status_of(container, path) is not None), None)
    if found is not None:
        return replace(build, eatmydata=Path(found))
    ours = eatmydata()
    if ours is None or not _loads(client, build, ours):
        return build
    return replace(build, eatmydata=ours, mounted=(ours,))


def _loads(client: docker.DockerClient, build: Build, library: Path) -> bool:
    """The loader says so where it cannot: it ends, or goes on without."""
    mount = Mount(str(library), str(library), type="bind", read_only=True)
    command = [str(build.mysqld), "--no-defaults", "--version"]
    environment = {"LD_PRELOAD": str(library)}
    with (
        suppress(APIError),  # an engine that sees no such file
        throw_away(client, str(build.image), command, environment=environment, mounts=[mount]) as container,
    ):
        container.start()
        ended = container.wait(timeout=_ANSWER_S)["StatusCode"]
        return bool(ended == 0 and b"ld.so" not in container.logs())
    return False


_COMPLETE = ".complete"


def _scripts(container: Container, build: Build) -> Iterator[tuple[str, bytes]]:
    places = [build.messages] if build.messages else [build.basedir / "share/mysql", build.basedir / "share/mariadb"]
    for place in (*places, build.basedir / "scripts"):
        yield from read_folder(container, str(place), ".sql").items()


def forget(image: str) -> None:
    """What was remembered of an image that is removed."""
    with suppress(OSError):
        _memory(image).with_suffix(".json").unlink()
    folder = _memory(image).with_suffix(".scripts")
    for path in folder.glob("*") if folder.is_dir() else ():
        with suppress(OSError):
            path.unlink()
    with suppress(OSError):
        folder.rmdir()
