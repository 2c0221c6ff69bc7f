"""Where are the programs that experiments need beside a server? On PATH; where one is missing, root installs it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recovery.builds import packages
from recovery.errors import HostUnfitError, RecoveryError

SYSBENCH, DUMP, PERF = "sysbench", "mariadb-dump", "perf"
PACKAGES: dict[str, tuple[str, ...]] = {
    SYSBENCH: ("sysbench",),
    DUMP: ("mariadb-client",),
    PERF: ("linux-perf", "linux-tools-generic"),
}
"""That hold a program: Debian's name first, then Ubuntu's where it is another."""
# MariaDB's client dumps servers of all flavors; MySQL's own of 8.0 and later asks older ones for what they do not have.
_PROGRAMS = {DUMP: ("mariadb-dump", "mysqldump")}
_ASK_LIMIT_S = 30


@dataclass(frozen=True)
class Tool:
    name: str
    path: Path
    version: str
    """As it says it itself: `sysbench 1.0.20`."""


def provide(tool: str, *, offline: bool, say: Callable[[str], None]) -> Tool:
    """One of the names above. HostUnfitError, with the command that installs it, where it cannot be had."""
    found = _found(tool) or _installed(tool, offline=offline, say=say)
    return Tool(found.name, found, _version(found))


def _found(tool: str) -> Path | None:
    ways = map(shutil.which, _PROGRAMS.get(tool, (tool,)))
    return next((Path(way) for way in ways if way is not None), None)


def _installed(tool: str, *, offline: bool, say: Callable[[str], None]) -> Path:
    if offline:
        raise _missing(tool, "nothing may be fetched while offline")
    if not packages.can_install():
        raise _missing(tool, "only root can install it, with apt-get")
    failures = []
    for package in PACKAGES[tool]:
        say(f"installing {tool} (package {package})")
        try:
            packages.install(package)
        except RecoveryError as error:
            failures.append(error.message)
            continue
        if (found := _found(tool)) is not None:
            return found
        failures.append(f"the package {package} does not hold it")
    raise _missing(tool, failures[0])


def _missing(tool: str, why: str) -> HostUnfitError:
    return HostUnfitError(f"{tool} is missing ({why})", f"install it: apt-get install {PACKAGES[tool][0]}")


def _version(program: Path) -> str:
    try:
        done = subprocess.run(
            (program, "--version"), stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostUnfitError(f"{program} does not tell its version: {error}", "install it again") from error
    said = " ".join(done.stdout.decode(errors="replace").split())
    if done.returncode != 0 or not said:
        complaint = " ".join(done.stderr.decode(errors="replace").split())[:200]
        raise HostUnfitError(f"{program} does not tell its version: {complaint}", "install it again")
    return said
