"""Builds images of servers, from unpacked servers and from Debian packages.

An image gets its name only when it is complete, and only one process at a time makes it."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, Any

import docker
from docker.errors import APIError
from docker.models.containers import Container

from recovery.builds import download, packages
from recovery.builds.download import Say
from recovery.builds.image_inspect import LOG_CONFIG, inspect_image, run_inspection, version_of
from recovery.builds.image_list import build_labels, debian_image_name, image_id
from recovery.builds.image_pull import NotPulledError, pull_image
from recovery.builds.resolve import BASE_IMAGE_NAME, DEBIAN_SUITE, Sources, check_registry, own_image_name
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux import docker_engine
from recovery.linux.cleanup import part_folder
from recovery.linux.docker_engine import IMAGE_NAME, OWNER, PURPOSE
from recovery.linux.files import create_readable_folder, images_dir, read_limited
from recovery.linux.locks import wait_for_lock
from recovery.linux.privileges import REFUSED_TEXT, RootStep, is_refused
from recovery.model import Build

_MAX_FILE_BYTES = 4 << 30
"""More than the largest server with debugging information has."""
_SWEEPS_AFTER_INTERRUPT = 15
_SWEEP_INTERVAL_S = 0.2


@contextmanager
def image_lock(client: docker.DockerClient, name: str, say: Say) -> Iterator[None]:
    """Holds the lock on an image's name while the image is made. Parts that an attempt left behind are removed before
    and after."""
    lock = images_dir() / f".lock-{file_name_slug(name)}"
    with wait_for_lock(lock, lambda: say(f"waiting for another process that makes {name}")):
        _remove_parts(client, name)
        try:
            yield
        except KeyboardInterrupt:
            # The engine still completes its current step and keeps the result.
            for _ in range(_SWEEPS_AFTER_INTERRUPT):
                time.sleep(_SWEEP_INTERVAL_S)
                _remove_parts(client, name)
            raise
        finally:
            _remove_parts(client, name)


def file_name_slug(name: str) -> str:
    """Returns an image's name in a form that can be part of a file name."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", name)


def _remove_parts(client: docker.DockerClient, name: str) -> None:
    for image in client.api.images(quiet=True, filters={"label": [f"{IMAGE_NAME}={name}"], "dangling": True}):
        with suppress(APIError):  # a container uses it, or it was already removed
            client.images.remove(image)


_BUILD_HINT = "see the engine's log and its space (`docker system df`)"


def make_part(
    client: docker.DockerClient,
    base: str,
    name: str,
    *,
    files: IO[bytes] | None = None,
    command: Sequence[str] = (),
    changes: Sequence[str] = (),
) -> str:
    """Returns the id of a new image, which has no name yet and is labeled as a part of the image `name`.

    It is the image `base` with the files of a tar archive, after a command that was run in it by root with the host's
    network. `changes` are instructions of a Dockerfile, such as `ENV`."""
    changes = (f'LABEL {PURPOSE}=part {IMAGE_NAME}={name} {OWNER}=""', *changes)
    with (
        _without_timeout(client),
        docker_engine.temporary_container(
            client, base, "look", command=[*command] or ["/bin/sh"], network_mode="host" if command else "none",
            log_config=LOG_CONFIG,
        ) as container,
    ):  # fmt: skip
        if files is not None:
            files.seek(0)
            container.put_archive("/", files)
        if command:
            _run_to_end(container)
        answer = client.api.commit(str(container.id), changes="\n".join(changes))
    return str(answer["Id"])


@contextmanager
def _without_timeout(client: docker.DockerClient) -> Iterator[None]:
    """Waits for the engine's answers as long as they take: to copy and to commit a large server may take minutes."""
    api: Any = client.api  # its types know no None
    before, api.timeout = api.timeout, None
    try:
        yield
    finally:
        api.timeout = before


def _run_to_end(container: Container) -> None:
    container.start()
    code = int(container.wait()["StatusCode"])
    if code != 0:
        last = container.logs(tail=1).decode(errors="replace").strip()[:200]
        raise HostUnfitError(f"the image could not be built: {last or f'code {code}'}", _BUILD_HINT)


def commit_image(client: docker.DockerClient, image: str, name: str, labels: Mapping[str, str]) -> str:
    """Gives a complete image its name and the labels that describe it, and returns the id of the result. All labels are
    set again here: otherwise those of the temporary container would remain, and everything made from the image would
    carry the process id of this process."""
    repository, _, tag = name.rpartition(":")
    all_labels = {**labels, PURPOSE: "image", IMAGE_NAME: name, OWNER: ""}
    written = [f'LABEL {key}="{_escaped(value)}"' for key, value in all_labels.items()]
    with docker_engine.temporary_container(client, image, "look", command=["/bin/sh"]) as container:
        answer = client.api.commit(str(container.id), repository=repository, tag=tag, changes="\n".join(written))
    return str(answer["Id"])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("\n", " ")


def scratch_file() -> IO[bytes]:
    return tempfile.TemporaryFile(dir=create_readable_folder(images_dir()))


# --- Content of a server image: the tree of the server, and the libraries that the base image lacks

SERVER_ROOT = PurePosixPath("/opt/mysqld")
EXTRA_LIBRARIES = PurePosixPath("/opt/libraries")

# A server that a distribution has installed into one of these shared folders: only these patterns belong to it.
_SHARED_BASEDIRS = tuple(map(Path, ("/", "/usr", "/usr/local")))
_SERVER_PATTERNS = ("share/mysql*", "share/mariadb*", "lib/mysql", "lib64/mysql", "lib/*/mariadb*", "lib/*/mysql*")


def place_inside(build: Build, path: Path) -> PurePosixPath:
    return SERVER_ROOT / path.relative_to(build.basedir)


def library_path(build: Build, *, with_hosts: bool) -> str:
    """Returns the LD_LIBRARY_PATH of the image."""
    own = [str(place_inside(build, folder)) for folder in build.library_dirs if folder.is_relative_to(build.basedir)]
    return ":".join([*own, *([str(EXTRA_LIBRARIES)] if with_hosts else [])])


def write_server_archive(build: Build, file: IO[bytes], *, with_hosts: bool) -> None:
    """Writes a tar of the server's files under their names in the image. If `with_hosts` is set, it also contains the
    libraries that this host fetched for the server."""
    folders: set[PurePosixPath] = set()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for path in _server_paths(build):
            place = place_inside(build, path)
            _add_parents(tar, place, folders)
            tar.add(path, _member_name(place), filter=_owned_by_root)
        for folder in build.library_dirs if with_hosts else ():
            if not folder.is_relative_to(build.basedir):
                for path in (path for path in folder.iterdir() if ".so" in path.name and path.is_file()):
                    _add_parents(tar, EXTRA_LIBRARIES / path.name, folders)
                    _add_file(tar, path, _member_name(EXTRA_LIBRARIES / path.name))


def _add_parents(tar: tarfile.TarFile, place: PurePosixPath, folders: set[PurePosixPath]) -> None:
    """Adds the folders above a file that the archive does not have yet. Some engines would make them for root only."""
    for folder in reversed(place.parents[:-2]):  # /opt is there
        if folder not in folders:
            folders.add(folder)
            member = tarfile.TarInfo(_member_name(folder))
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(member)


def _server_paths(build: Build) -> Iterator[Path]:
    if build.messages is not None and build.basedir not in _SHARED_BASEDIRS:
        yield build.basedir
        return
    # A folder without messages does not belong to the server alone: the executable may be in its build folder.
    yield build.mysqld
    for pattern in _SERVER_PATTERNS:
        yield from build.basedir.glob(pattern)


def _add_file(tar: tarfile.TarFile, path: Path, name: str) -> None:
    """Adds the content of a file under the name that the loader asks for, even if the path is a link."""
    content = read_limited(path, _MAX_FILE_BYTES)
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o755
    tar.addfile(member, io.BytesIO(content))


def _member_name(place: PurePosixPath) -> str:
    return str(place.relative_to("/"))


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Makes root the owner of the member, and makes it readable for any user that the server runs as."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode |= 0o444 | (0o111 if member.isdir() or member.mode & 0o100 else 0)
    return member


# --- Images of a Debian suite: from Debian's own image or, if that cannot be pulled, by debootstrap

_HINT = (
    "name a registry that has it (--registry), or run as root where debootstrap is installed, or take --engine local"
)


@dataclass(frozen=True)
class DebianRecipe:
    """What an image of a Debian suite is made from."""

    name: str
    suite: str
    packages: tuple[str, ...]


def build_debian_part(client: docker.DockerClient, recipe: DebianRecipe, sources: Sources, say: Say) -> tuple[str, str]:
    """Makes an image that is still unnamed (a part), and returns its id and what it was built from, as text. The caller
    holds the lock on the name."""
    if sources.offline:
        raise UsageError(f"{recipe.name} is not on this host, and nothing is fetched while offline", "leave it out")
    name = f"{check_registry(sources.registry) if sources.registry else ''}debian:{recipe.suite}-slim"
    try:
        if image_id(client, name) is None:
            pull_image(client, name, say)
            say(f"{name} is not pinned: its registry may give another image by that name later")
        say(f"installing {recipe.packages[-1]} and what it needs into {name}")
        return _install_packages(client, recipe, name), f"built from {name}"
    except (NotPulledError, HostUnfitError) as error:  # for example no network inside the container
        why = error.message
    say(f"{why}: making {recipe.name} by debootstrap, which takes a minute or two")
    return _build_by_debootstrap(client, recipe, why), f"built from Debian {recipe.suite} by debootstrap"


# Arguments: the mirror that the host's own apt uses, or nothing; packages. apt checks the signatures.
_INSTALL_SCRIPT = r"""
set -e
sources=/etc/apt/sources.list.d/debian.sources
if [ -n "$1" ] && [ -f "$sources" ]; then sed -i -E "s#^(URIs: ).*/debian/?\$#\1$1#" "$sources"; fi
shift
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb
"""


def _install_packages(client: docker.DockerClient, recipe: DebianRecipe, base: str) -> str:
    mirror = packages.debian_mirror(recipe.suite) or ""
    if not mirror.startswith("http://"):  # HTTPS would need certificates, which the image lacks
        mirror = ""
    # The proxies are those of the command alone: in the container's environment they would become the image's.
    proxies = (f"{name}={value}" for name, value in packages.apt_proxies().items())
    command = ["env", *proxies, "/bin/sh", "-c", _INSTALL_SCRIPT, "install", mirror, *recipe.packages]
    with docker_engine.engine_errors():
        return make_part(client, base, recipe.name, command=command)


def _build_by_debootstrap(client: docker.DockerClient, recipe: DebianRecipe, why: str) -> str:
    """Makes the image by debootstrap and returns its id; `why` is the reason why Debian's own image is not used."""
    program = shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise HostUnfitError(f"{why}, and debootstrap, which could make it, is missing", _HINT)
    if os.geteuid() != 0:
        raise HostUnfitError(f"{why}, and only root can make it by debootstrap", _HINT)
    if is_refused(RootStep.DEBOOTSTRAP):
        raise HostUnfitError(f"{why}, and debootstrap was {REFUSED_TEXT}", _HINT)
    with part_folder(images_dir(), f".part-{file_name_slug(recipe.name)}-") as folder:
        tree = folder / "tree"
        _debootstrap(program, recipe, tree)
        for rest in (*tree.glob("var/cache/apt/archives/*.deb"), *tree.glob("var/lib/apt/lists/*_*")):
            rest.unlink()
        return _import_folder(client, tree, recipe.name)


def _debootstrap(program: str, recipe: DebianRecipe, tree: Path) -> None:
    """Runs debootstrap in new mount and PID namespaces, so that everything it mounts and starts is gone when it ends,
    also when it is interrupted."""
    command = [program, "--force-check-gpg", "--variant=minbase", f"--include={','.join(recipe.packages)}"]
    alone = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    mirror = packages.debian_mirror(recipe.suite)
    try:
        words = (*alone, *command, recipe.suite, str(tree), *([mirror] if mirror else []))
        download.run_client(*words, folder=tree.parent, environment=packages.apt_proxies())
    except download.ClientFailedError as error:
        raise HostUnfitError(
            f"debootstrap could not make {recipe.name}: {error.message}",
            "check the network, and the mirror in apt's sources; debian-archive-keyring must be installed",
        ) from None


def _import_folder(client: docker.DockerClient, tree: Path, name: str) -> str:
    without = [f"--exclude=./{folder}/*" for folder in ("dev", "proc", "sys", "run", "tmp")]
    command = ("tar", "-C", str(tree), "--numeric-owner", *without, "-c", ".")
    changes = [f"LABEL {PURPOSE}=part {IMAGE_NAME}={name}", 'CMD ["/bin/sh"]']
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as tar:
        assert tar.stdout is not None
        answer = str(client.api.import_image_from_data(tar.stdout, changes=changes))
    if tar.returncode != 0:
        raise HostUnfitError(f"tar could not read what debootstrap made for {name}", "see space and permissions")
    if (digest := re.search(r"sha256:[0-9a-f]{64}", answer)) is None:
        raise HostUnfitError(f"the engine imported no image: {answer.strip()[:200]}", _BUILD_HINT)
    return digest[0]


# --- Complete images of servers, with labels that describe the server

# The libraries that servers of all ages are linked against. The last one makes building data directories fast.
# docker/recovery.Dockerfile has the same list.
LIBRARIES = (
    "libaio1", "libnuma1", "libncurses5", "libncurses6", "libtinfo5", "libtinfo6", "libatomic1", "libssl3", "libcrypt1",
    "libstdc++6", "libgcc-s1", "liblz4-1", "libzstd1", "libsnappy1v5", "libsystemd0", "libpam0g", "libwrap0",
    "liburing2", "libtirpc3", "libeatmydata1",
)  # fmt: skip
_BASE_RECIPE = DebianRecipe(BASE_IMAGE_NAME, DEBIAN_SUITE, LIBRARIES)
_DEBIAN_RECIPES = {
    name: DebianRecipe(debian_image_name(name), suite, packages)
    for name, suite, packages in (
        ("debian-sid", "sid", ("libeatmydata1", "mysql-client-core", "mysql-server-core")),
        ("debian-mariadb", DEBIAN_SUITE, (*LIBRARIES, "mariadb-client-core", "mariadb-server-core")),
        ("debian-mariadb-11", "trixie", ("libeatmydata1", "mariadb-client-core", "mariadb-server-core")),
    )
}


def ensure_base_image(client: docker.DockerClient, sources: Sources, say: Say) -> str:
    """Returns the name of the base image, which is made once and is the same for every server image built here."""
    with image_lock(client, BASE_IMAGE_NAME, say):
        if image_id(client, BASE_IMAGE_NAME) is None:
            part, origin = build_debian_part(client, _BASE_RECIPE, sources, say)
            commit_image(client, part, BASE_IMAGE_NAME, {docker_engine.SOURCE: origin})
    return BASE_IMAGE_NAME


def server_image(client: docker.DockerClient, server: Build, sources: Sources, say: Say) -> Build:
    """Returns the image of a server that is unpacked on this host; the existing image if there is one."""
    name = own_image_name(server.version, server.fingerprint)
    with image_lock(client, name, say):
        if (image := image_id(client, name)) is None:
            below = ensure_base_image(client, sources, say)
            say(f"building the image {name} from {server.source}")
            labels = build_labels(replace(server, mysqld=Path(place_inside(server, server.mysqld))))
            image = commit_image(client, build_server_part(client, server, name, below), name, labels)
    built = inspect_image(client, image, server.source, str(place_inside(server, server.mysqld)))
    return replace(built, warnings=server.warnings)


def build_server_part(client: docker.DockerClient, server: Build, name: str, below: str) -> str:
    """Builds an unnamed image of the server and returns its id. It uses the libraries of the base image; the libraries
    of this host are added only if those are not enough."""
    mysqld = str(place_inside(server, server.mysqld))
    for with_hosts in (False, True):
        libraries = library_path(server, with_hosts=with_hosts)
        changes = (f'ENV LD_LIBRARY_PATH="{_escaped(libraries)}"',) if libraries else ()
        with scratch_file() as archive:
            write_server_archive(server, archive, with_hosts=with_hosts)
            image = make_part(client, below, name, files=archive, changes=changes)
        try:
            run_inspection(client, image, mysqld)
        except RecoveryError as error:
            if with_hosts:
                raise HostUnfitError(
                    f"{server.version} does not run on {below}: {error.message}",
                    "take --engine local, where it runs with this host's libraries, or an image of it (--image)",
                ) from None
        else:
            return image
    raise AssertionError("unreachable")


def debian_image(client: docker.DockerClient, name: str, sources: Sources, say: Say) -> str:
    """Returns the id of the image of the server that the suite carries today. It is made once, and kept until it is
    removed."""
    recipe = _DEBIAN_RECIPES[name]
    with image_lock(client, recipe.name, say):
        return image_id(client, recipe.name) or _build_debian_image(client, recipe, sources, say)


def _build_debian_image(client: docker.DockerClient, recipe: DebianRecipe, sources: Sources, say: Say) -> str:
    part, origin = build_debian_part(client, recipe, sources, say)
    inspection, _, versions = run_inspection(client, part, packages=recipe.packages)
    version = version_of(inspection)
    say(f"Debian {recipe.suite} carries {version} ({version.text})")
    # In the order of the recipe: the last two are client and server.
    exact = [f"{package} {versions[package]}" for package in recipe.packages if package in versions]
    source = f"{origin}: {', '.join(exact[-2:])}"
    build = Build(version, Path(inspection.mysqld), Path(inspection.basedir), inspection.fingerprint, source)
    return commit_image(client, part, recipe.name, {**build_labels(build), docker_engine.PACKAGES: ", ".join(exact)})
