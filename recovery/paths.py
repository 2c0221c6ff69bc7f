"""Where templates, caches and results are, in a checkout, a wheel and an editable install alike."""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path

import platformdirs

from recovery.errors import RecoveryError, UsageError
from recovery.ownership import refuse_untrusted

APP = "mysql-recovery-tester"
_MOST_IN_A_NAME, _MOST_IN_ALL = 255, 4000
"""Bytes; the kernel takes 4,096, and names of ours come behind it."""
DEFAULT_RESULTS = Path("results")
"""In the folder where the user stands."""


def template_dir() -> Path:
    return _brought("templates", "schema.sql.j2")


def docker_dir() -> Path:
    return _brought("docker", "mysqld.Dockerfile")


def _brought(name: str, holds: str) -> Path:
    """The checkout's own folder where there is one, else what the wheel brought as data."""
    checkout = Path(__file__).resolve().parent.parent / name
    installed = [Path(prefix) / "share" / APP / name for prefix in (sys.prefix, site.getuserbase())]
    for folder in (checkout, *installed):
        if (folder / holds).is_file():
            return folder
    raise RecoveryError(
        f"the tool's own {name} folder is missing", "install it again, or run it from a checkout of its repository"
    )


def cache_dir() -> Path:
    """Servers, libraries and, unless DATA says otherwise, data directories. RECOVERY_CACHE moves it."""
    chosen = os.environ.get("RECOVERY_CACHE")
    return expanded(Path(chosen)).absolute() if chosen else Path(platformdirs.user_cache_dir(APP))


def expanded(path: Path) -> Path:
    """`~` and `~user` are home folders. What no file can be called is told here, before anybody looks for it."""
    try:
        found = path.expanduser()
    except RuntimeError as error:
        raise UsageError(f"{path}: nobody here has that home folder", "write the path out") from error
    if any(len(os.fsencode(part)) > _MOST_IN_A_NAME for part in found.parts) or len(os.fsencode(found)) > _MOST_IN_ALL:
        raise UsageError(f"{str(path)[:40]}… is longer than any path", "check the path")
    return found


def images_dir() -> Path:
    """What is remembered of images, and what is made on the way to one."""
    return _run_from("images")


def servers_dir() -> Path:
    return _run_from("servers")


def libraries_dir() -> Path:
    """Of packages that were unpacked for servers which lack them."""
    return _run_from("libraries")


def _run_from(name: str) -> Path:
    """What lies there is run, or believed, so nobody else may put anything there."""
    folder = cache_dir() / name
    refuse_untrusted(folder, "name a folder of your own in RECOVERY_CACHE; where everybody may write, chmod o-w helps")
    return folder


def default_data_dir() -> Path:
    return cache_dir() / "data"
