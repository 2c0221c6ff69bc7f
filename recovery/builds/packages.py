"""How is a Debian or Ubuntu package had? One library of it without being root, by apt-get and dpkg-deb; or all of it,
installed by root."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from functools import cache
from pathlib import Path

from recovery.builds.alone import alone
from recovery.builds.programs import ClientFailedError, run
from recovery.errors import HostUnfitError
from recovery.files import on_the_disk
from recovery.host.ailing import CACHE, Folder, blaming
from recovery.host.rights import is_refused, refusal
from recovery.ownership import closed_to_writers, made_readable, why_not_trusted
from recovery.paths import libraries_dir
from recovery.rootsteps import RootStep

# The packages that hold a library, older distributions' names first.
_PACKAGES: dict[str, tuple[str, ...]] = {
    "libaio.so.1": ("libaio1", "libaio1t64"),
    "libnuma.so.1": ("libnuma1",),
    "libncurses.so.5": ("libncurses5",),
    "libncursesw.so.5": ("libncursesw5",),
    "libtinfo.so.5": ("libtinfo5",),
    "libncurses.so.6": ("libncurses6",),
    "libncursesw.so.6": ("libncursesw6",),
    "libtinfo.so.6": ("libtinfo6",),
    "libssl.so.1.0.0": ("libssl1.0.0",),
    "libcrypto.so.1.0.0": ("libssl1.0.0",),
    "libssl.so.1.1": ("libssl1.1",),
    "libcrypto.so.1.1": ("libssl1.1",),
    "libssl.so.3": ("libssl3", "libssl3t64"),
    "libcrypto.so.3": ("libssl3", "libssl3t64"),
    "libjemalloc.so.1": ("libjemalloc1",),
    "libjemalloc.so.2": ("libjemalloc2",),
    "libatomic.so.1": ("libatomic1",),
    "libcrypt.so.1": ("libcrypt1",),
    "libgcc_s.so.1": ("libgcc-s1", "libgcc1"),
    "libstdc++.so.6": ("libstdc++6",),
    "libsystemd.so.0": ("libsystemd0",),
    "liburing.so.2": ("liburing2",),
    "libpmem.so.1": ("libpmem1",),
    "libpam.so.0": ("libpam0g",),
    "libwrap.so.0": ("libwrap0",),
    "liblz4.so.1": ("liblz4-1",),
    "libzstd.so.1": ("libzstd1",),
    "libsnappy.so.1": ("libsnappy1v5",),
    "libtirpc.so.3": ("libtirpc3", "libtirpc3t64"),
}
# What apt-get says when its lists are empty or older than the archive.
_STALE = re.compile(r"Unable to locate|no candidate|Can't find a source|404", re.IGNORECASE)
_LOCKED = re.compile(r"Unable to lock|Could not get lock", re.IGNORECASE)
_LOCKED_AT_MOST_S = 600
_UNASKED = {"DEBIAN_FRONTEND": "noninteractive"}


def candidates(library: str) -> tuple[str, ...]:
    return _PACKAGES.get(library, ())


def why_not_installed() -> str | None:
    """None where this process may install packages on this host."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("apt-get", "dpkg"))):
        return "only root has it installed, and only by apt-get"
    return refusal(RootStep.INSTALL) if is_refused(RootStep.INSTALL) else None


def install(package: str) -> None:
    """On this host, as root. ClientFailedError with apt-get's own reason."""
    assert why_not_installed() is None
    root = _root()
    # Ours wait for each other here, so that not each of them asks for fresh lists; for others' apt waits itself.
    with alone(root / ".lock"):
        _apt_get(
            "install", "--yes", "--no-install-recommends",
            "--option", f"DPkg::Lock::Timeout={_LOCKED_AT_MOST_S}", package, folder=root,
        )  # fmt: skip


def _root() -> Path:
    return made_readable(libraries_dir())


def _folder(package: str) -> Path:
    return libraries_dir() / package


def held(package: str, filename: str) -> Path | None:
    """Return the file of a package that was unpacked before; None where others could change what its folder holds."""
    folder = _folder(package)
    found = (path for path in sorted(folder.rglob(filename)) if path.is_file())
    inside = (path for path in found if path.resolve().is_relative_to(folder.resolve()))
    return next((path for path in inside if not any(map(why_not_trusted, path.parent.iterdir()))), None)


def fetch(package: str, filename: str) -> Path:
    """Download and unpack the package beside the servers; the file in it."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise HostUnfitError(f"{program} is missing", "install the library with your distribution's own means")
    root = _root()
    with alone(root / ".lock"), _part(root) as part:
        if (found := held(package, filename)) is not None:  # another process was faster
            return found
        tree = Path(part) / "tree"
        # A power cut must not leave the name of a library whose file is empty, nor a disk that takes no more.
        with blaming(Folder(CACHE, root)), on_the_disk(root):
            run("dpkg-deb", "-x", str(_download(package, Path(part))), str(tree), folder=Path(part))
            _under_old_name(tree, filename)
            closed_to_writers(tree)
        shutil.rmtree(_folder(package), ignore_errors=True)
        tree.replace(_folder(package))
    found = held(package, filename)
    if found is None:
        raise HostUnfitError(f"the package {package} holds no {filename}", "install the library by hand")
    return found


def _part(root: Path) -> tempfile.TemporaryDirectory[str]:
    """Nobody else works here: what lies there was left by one that was killed."""
    for leftover in root.glob(".part-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    return tempfile.TemporaryDirectory(prefix=".part-", dir=root, ignore_cleanup_errors=True)


def _under_old_name(tree: Path, filename: str) -> None:
    """libaio1t64 calls its file libaio.so.1t64; on 64 bits it is what libaio.so.1 was."""
    for path in list(tree.rglob(f"{filename}t64")):
        path.with_name(filename).symlink_to(path.name)


def _download(package: str, folder: Path) -> Path:
    _apt_get("download", package, folder=folder)
    found = next(folder.glob("*.deb"), None)
    if found is None:
        raise HostUnfitError(f"apt-get left no file for {package}", "install the package by hand")
    return found


def _apt_get(*words: str, folder: Path) -> None:
    """With fresh lists where the host's are empty, or older than the archive."""
    try:
        run("apt-get", "-q", *words, folder=folder, environment=_UNASKED)
    except ClientFailedError as error:
        if not _STALE.search(error.message):
            raise
        run("apt-get", "-q", *_refreshed(), *words, folder=folder, environment=_UNASKED)


@cache
def _refreshed() -> tuple[str, ...]:
    """Once in a process, options that name fresh lists: root refreshes the host's own, unless that was refused; anybody
    else keeps private ones.

    A machine that was just made has none at all."""
    root = _root() / "apt"
    if os.geteuid() == 0 and not is_refused(RootStep.INSTALL):
        _update_own(root.parent)
        return ()
    for name in ("lists/partial", "cache/archives/partial"):
        made_readable(root / name)
    options = ("-o", f"Dir::State::Lists={root}/lists", "-o", f"Dir::Cache={root}/cache")
    run("apt-get", "-q", *options, "update", folder=root)
    return options


def _update_own(folder: Path) -> None:
    """The time-out that apt has for its locks does not hold for that of its lists."""
    give_up = time.monotonic() + _LOCKED_AT_MOST_S
    while True:
        try:
            return run("apt-get", "-q", "update", folder=folder)
        except ClientFailedError as error:
            if not _LOCKED.search(error.message) or time.monotonic() > give_up:
                raise
        time.sleep(1)
