"""What else of an image must be known to run its server: messages, install scripts, libeatmydata?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

import docker
from docker.errors import NotFound
from docker.models.containers import Container

from recovery.builds.image_look import exists, stream, throw_away
from recovery.model import Build
from recovery.paths import images_dir
from recovery.versions import can

_SHARES = ("share", "share/mysql", "share/mariadb")
_SCRIPTS = (*_SHARES, "scripts")
_LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")


def complete(client: docker.DockerClient, build: Build) -> Build:
    """Looked for anew each time: it takes some hundredths of a second."""
    assert build.image is not None
    with throw_away(client, build.image, ["/nothing"]) as container:
        messages = (f"{build.basedir}/{share}" for share in _SHARES)
        libraries = (f"{folder}/libeatmydata.so" for folder in _LIBRARY_FOLDERS)
        return replace(
            build,
            messages=_first(container, messages, below="/english/errmsg.sys"),
            eatmydata=_first(container, libraries),
            scripts=() if can(build.version, "initialize") else _scripts(container, build),
        )


def _first(container: Container, candidates: Iterable[str], *, below: str = "") -> Path | None:
    return next((Path(path) for path in candidates if exists(container, path + below)), None)


def _scripts(container: Container, build: Build) -> tuple[Path, ...]:
    """Copied out: the statements are put together on this side."""
    assert build.image is not None
    target = images_dir() / f"{build.image.removeprefix('sha256:')}.scripts"
    if not target.is_dir():
        images_dir().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".scripts-", dir=images_dir()) as part:
            whole = Path(part) / "whole"
            whole.mkdir()
            for folder in _SCRIPTS:
                with suppress(NotFound):
                    _copy_out(container, f"{build.basedir}/{folder}", whole)
            with suppress(OSError):  # another process was faster
                whole.rename(target)
    return (target,)


def _copy_out(container: Container, folder: str, target: Path) -> None:
    """The statements of a folder, and of none below it."""
    with stream(container, folder) as tar:
        for member in tar:
            name = PurePosixPath(member.name)
            if len(name.parts) == 2 and name.suffix == ".sql" and (file := tar.extractfile(member)) is not None:
                (target / name.name).write_bytes(file.read())
