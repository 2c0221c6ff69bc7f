"""How does a suite of Debian become an image: from its own image, or where none can be pulled, by debootstrap?"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import docker

from recovery.builds import apt, image_make, programs
from recovery.builds.image_files import read_file, throw_away
from recovery.builds.image_names import check_registry
from recovery.builds.image_pull import NotPulledError, pull
from recovery.builds.resolve import Sources
from recovery.errors import HostUnfitError, UsageError
from recovery.host.rights import is_refused, refusal
from recovery.paths import docker_dir, images_dir
from recovery.rootsteps import RootStep

Say = Callable[[str], None]

_FILE = "debian.Dockerfile"
_HINT = "name a registry that has it (REGISTRY=), or run as root where debootstrap is installed, or take ENGINE=local"


@dataclass(frozen=True)
class Recipe:
    name: str
    """The image's."""
    suite: str
    packages: tuple[str, ...]


def obtain(client: docker.DockerClient, recipe: Recipe, sources: Sources, say: Say) -> tuple[str, str]:
    """A part that is no image of ours yet, and where it came from. The caller holds the name (`making`)."""
    if sources.offline:
        raise UsageError(f"{recipe.name} is not on this host, and nothing is fetched while offline", "leave it out")
    name = f"{check_registry(sources.registry) if sources.registry else ''}debian:{recipe.suite}-slim"
    try:
        if image_make.id_of(client, name) is None:
            pull(client, name, say)
            say(f"{name} is no pin: another day its registry may give another image by that name")
        say(f"installing {recipe.packages[-1]} and what it needs into {name}")
        return _installed(client, recipe, name), name
    except NotPulledError as error:
        why = error.message
    except HostUnfitError as error:  # no network inside the build
        why = error.message
    say(f"{why}: making {recipe.name} by debootstrap, which takes a minute or two")
    return _bootstrapped(client, recipe, why), "debootstrap"


def _installed(client: docker.DockerClient, recipe: Recipe, origin: str) -> str:
    mirror = apt.mirror(recipe.suite) or ""
    arguments = {
        "FROM": origin, "NAME": recipe.name, "PACKAGES": " ".join(recipe.packages),
        # By https it would need certificates, which the image lacks.
        "MIRROR": mirror if mirror.startswith("http://") else "",
        **apt.proxies(),
    }  # fmt: skip
    with image_make.scratch_file() as context:
        with tarfile.open(fileobj=context, mode="w") as tar:
            tar.add(docker_dir() / _FILE, _FILE)
        return image_make.build(client, _FILE, context, arguments)


def _bootstrapped(client: docker.DockerClient, recipe: Recipe, why: str) -> str:
    program = shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise HostUnfitError(f"{why}, and debootstrap, which could make it, is missing", _HINT)
    if os.geteuid() != 0:
        raise HostUnfitError(f"{why}, and only root can make it by debootstrap", _HINT)
    if is_refused(RootStep.DEBOOTSTRAP):
        raise HostUnfitError(f"{why}, and debootstrap was {refusal(RootStep.DEBOOTSTRAP)}", _HINT)
    prefix = f".part-{image_make.plain(recipe.name)}-"
    for leftover in images_dir().glob(f"{prefix}*"):  # nobody else works on this name: its owner was killed
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=images_dir()) as folder:
        tree = Path(folder) / "tree"
        _debootstrap(program, recipe, tree)
        for rest in (*tree.glob("var/cache/apt/archives/*.deb"), *tree.glob("var/lib/apt/lists/*_*")):
            rest.unlink()
        return _imported(client, tree, recipe.name)


def _debootstrap(program: str, recipe: Recipe, tree: Path) -> None:
    """In namespaces of its own: whatever it mounts and starts is gone with it, also when it is interrupted."""
    command = [program, "--force-check-gpg", "--variant=minbase", f"--include={','.join(recipe.packages)}"]
    alone = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    mirror = apt.mirror(recipe.suite)
    try:
        programs.run(*alone, *command, recipe.suite, str(tree), *([mirror] if mirror else []), folder=tree.parent,
                     environment=apt.proxies())  # fmt: skip
    except programs.ClientFailedError as error:
        raise HostUnfitError(
            f"debootstrap could not make {recipe.name}: {error.message}",
            "check the network, and the mirror in apt's sources; debian-archive-keyring must be installed",
        ) from None


def _imported(client: docker.DockerClient, tree: Path, name: str) -> str:
    without = [f"--exclude=./{folder}/*" for folder in ("dev", "proc", "sys", "run", "tmp")]
    command = ("tar", "-C", str(tree), "--numeric-owner", *without, "-c", ".")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as tar:
        assert tar.stdout is not None
        image = image_make.import_tree(client, tar.stdout, name)
    if tar.returncode != 0:
        raise HostUnfitError(f"tar could not read what debootstrap made for {name}", "see space and permissions")
    return image


def package_versions(client: docker.DockerClient, image: str, packages: tuple[str, ...]) -> dict[str, str]:
    """As dpkg has them in the image; those that a package pulled in by name count with it (mysql-server-core-9.7)."""
    with throw_away(client, image, ["/bin/sh"]) as container:
        status = b"".join(read_file(container, "/var/lib/dpkg/status")).decode(errors="replace")
    found = {}
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Status): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Package") in packages and fields.get("Status", "").endswith(" installed"):
            found[fields["Package"]] = fields["Version"]
    return found
