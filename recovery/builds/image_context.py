"""What goes into the image of a server: its own tree, and the libraries that the base would lack."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from recovery.model import Build
from recovery.paths import docker_dir

SERVER = PurePosixPath("/opt/mysqld")
EXTRA = PurePosixPath("/opt/libraries")
MYSQLD_FILE = "mysqld.Dockerfile"

# A server that a distribution has put among everything else: of such a folder only these are its own.
_SHARED = tuple(map(Path, ("/", "/usr", "/usr/local")))
_OF_A_SERVER = ("share/mysql*", "share/mariadb*", "lib/mysql", "lib64/mysql", "lib/*/mariadb*", "lib/*/mysql*")


def place_inside(build: Build, path: Path) -> PurePosixPath:
    return SERVER / path.relative_to(build.basedir)


def library_path(build: Build, *, with_hosts: bool) -> str:
    """LD_LIBRARY_PATH of the image."""
    own = [str(place_inside(build, folder)) for folder in build.library_dirs if folder.is_relative_to(build.basedir)]
    return ":".join([*own, *([str(EXTRA)] if with_hosts else [])])


def write_context(build: Build, file: IO[bytes], *, with_hosts: bool) -> None:
    """A tar of the Dockerfile and of what it copies. `with_hosts`: also the libraries that this host fetched for it."""
    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.add(docker_dir() / MYSQLD_FILE, MYSQLD_FILE)
        for path in _parts(build):
            tar.add(path, _name(place_inside(build, path)), filter=_as_root)
        if with_hosts:
            for path in _host_libraries(build):
                _add_file(tar, path, _name(EXTRA / path.name))


def _parts(build: Build) -> Iterator[Path]:
    if build.messages is not None and build.basedir not in _SHARED:
        yield build.basedir
        return
    # Without messages beside it the folder is no server's: an executable right out of its build, among all else.
    yield build.mysqld
    for pattern in _OF_A_SERVER:
        yield from build.basedir.glob(pattern)


def _host_libraries(build: Build) -> Iterator[Path]:
    for folder in build.library_dirs:
        if not folder.is_relative_to(build.basedir):
            yield from (path for path in folder.iterdir() if ".so" in path.name and path.is_file())


def _add_file(tar: tarfile.TarFile, path: Path, name: str) -> None:
    """Under the name that the loader asks for, whatever it is a link to."""
    content = path.read_bytes()
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o755
    tar.addfile(member, io.BytesIO(content))


def _name(place: PurePosixPath) -> str:
    return str(place.relative_to("/"))


def _as_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Readable for whichever user the server runs as."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode |= 0o444 | (0o111 if member.isdir() or member.mode & 0o100 else 0)
    return member
