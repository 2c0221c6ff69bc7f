"""From an unpacked server, or from Debian's packages, to an image that says what it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import docker

from recovery.builds import image_debian, image_make, image_ours
from recovery.builds.image_context import MYSQLD_FILE, library_path, place_inside, write_context
from recovery.builds.image_debian import Recipe
from recovery.builds.image_look import ask_version, look
from recovery.builds.image_names import BASE, SUITE, own_name
from recovery.builds.resolve import Sources
from recovery.errors import HostUnfitError, RecoveryError
from recovery.host import engine
from recovery.model import Build

Say = Callable[[str], None]

# What servers of all ages are linked against; the last is what builds data directories fast. docker/recovery.Dockerfile
# has the same.
LIBRARIES = (
    "libaio1", "libnuma1", "libncurses5", "libncurses6", "libtinfo5", "libtinfo6", "libatomic1", "libssl3", "libcrypt1",
    "libstdc++6", "libgcc-s1", "liblz4-1", "libzstd1", "libsnappy1v5", "libsystemd0", "libpam0g", "libwrap0",
    "liburing2", "libtirpc3", "libeatmydata1",
)  # fmt: skip
_BASE = Recipe(BASE, SUITE, LIBRARIES)
_DEBIAN = {
    "debian-sid": Recipe(
        image_ours.debian_name("debian-sid"), "sid", ("libeatmydata1", "mysql-client-core", "mysql-server-core")
    ),
    "debian-mariadb": Recipe(
        image_ours.debian_name("debian-mariadb"),
        SUITE,
        (*LIBRARIES, "mariadb-client-core", "mariadb-server-core"),
    ),
    "debian-mariadb-11": Recipe(
        image_ours.debian_name("debian-mariadb-11"),
        "trixie",
        ("libeatmydata1", "mariadb-client-core", "mariadb-server-core"),
    ),
}


def base(client: docker.DockerClient, sources: Sources, say: Say) -> str:
    """One and the same below every server that is built here; made once."""
    with image_make.making(client, BASE, say):
        if image_make.id_of(client, BASE) is None:
            part, origin = image_debian.obtain(client, _BASE, sources, say)
            image_make.finish(client, part, BASE, {engine.SOURCE: f"debian {SUITE} ({origin})"})
    return BASE


def of_server(client: docker.DockerClient, server: Build, sources: Sources, say: Say) -> Build:
    """An image of a server that is unpacked on this host; the one made before, if there is one."""
    name = own_name(server.version, server.fingerprint)
    with image_make.making(client, name, say):
        if (image := image_make.id_of(client, name)) is None:
            below = base(client, sources, say)
            say(f"building the image {name} from {server.source}")
            image = image_make.finish(client, part(client, server, name, below), name, _labels(server))
    built = image_ours.build_of(client.images.get(image))
    assert built is not None
    # The same executable may have come from elsewhere when the image was made.
    return replace(built, source=server.source, warnings=server.warnings)


def _labels(server: Build) -> dict[str, str]:
    inside = replace(
        server,
        mysqld=Path(place_inside(server, server.mysqld)),
        basedir=Path(place_inside(server, server.basedir)),
        messages=None if server.messages is None else Path(place_inside(server, server.messages)),
    )
    return image_ours.labels_of(inside)


def part(client: docker.DockerClient, server: Build, name: str, below: str) -> str:
    """With the libraries of the base; with those of this host beside them only where the base has not enough."""
    mysqld = str(place_inside(server, server.mysqld))
    for with_hosts in (False, True):
        arguments = {"BASE": below, "NAME": name, "LIBRARIES": library_path(server, with_hosts=with_hosts)}
        with image_make.scratch_file() as context:
            write_context(server, context, with_hosts=with_hosts)
            image = image_make.build(client, MYSQLD_FILE, context, arguments)
        try:
            ask_version(client, image, mysqld)
        except RecoveryError as error:
            if with_hosts:
                raise HostUnfitError(
                    f"{server.version} does not run on {below}: {error.message}",
                    "take ENGINE=local, where it runs with this host's libraries, or an image of it (IMAGE=)",
                ) from None
        else:
            return image
    raise AssertionError("unreachable")


def of_debian(client: docker.DockerClient, name: str, sources: Sources, say: Say) -> Build:
    """What the suite carries today: made once, and kept until it is removed."""
    recipe = _DEBIAN[name]
    with image_make.making(client, recipe.name, say):
        if (image := image_make.id_of(client, recipe.name)) is None:
            image = _debian_image(client, recipe, sources, say)
    built = image_ours.build_of(client.images.get(image))
    assert built is not None
    return built


def _debian_image(client: docker.DockerClient, recipe: Recipe, sources: Sources, say: Say) -> str:
    part, origin = image_debian.obtain(client, recipe, sources, say)
    seen = look(client, part, "")
    packages = image_debian.package_versions(client, part, recipe.packages)
    exact = ", ".join(f"{package} {packages[package]}" for package in recipe.packages[-2:] if package in packages)
    say(f"debian {recipe.suite} carries {seen.version} ({seen.version.text})")
    build = replace(seen, source=f"debian {recipe.suite} ({exact}; {origin})")
    all_packages = ", ".join(f"{package} {exactly}" for package, exactly in packages.items())
    labels = {**image_ours.labels_of(build), engine.PACKAGES: all_packages}
    return image_make.finish(client, part, recipe.name, labels)
