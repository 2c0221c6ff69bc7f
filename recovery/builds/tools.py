"""Where are the programs that experiments need beside a server? On PATH; where one is missing, root installs it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from recovery.builds import packages
from recovery.builds.managers import advice
from recovery.errors import HostUnfitError, RecoveryError

SYSBENCH, DUMP, PERF = "sysbench", "mariadb-dump", "perf"
PACKAGES: dict[str, tuple[str, ...]] = {
    SYSBENCH: ("sysbench",),
    DUMP: ("mariadb-client",),
    PERF: ("linux-perf", "linux-tools-generic"),
}
"""That hold a program: Debian's name first, then Ubuntu's where it is another."""
_MYSQLS_DUMP = "mysqldump"
"""As MySQL calls its own, and MariaDB once called its."""
_PROGRAMS = {DUMP: (DUMP, _MYSQLS_DUMP)}
_OF_MYSQL = re.compile(r"Ver (?:\S+ Distrib )?(\d+)\.")
_SERIES_FOR_ALL = 8
"""MySQL's own dump client of 8.x asks for statistics, and fails where a server has none, unless it is told not to. One
before it does not know what newer servers have, and one since 9.0 cannot log in to old ones any more."""
_WITHOUT_STATISTICS = "--column-statistics=0"
_WITHOUT_TLS = "--skip-ssl"
"""MariaDB's client wants TLS from 11.4 on, even over a socket, and fails where a server has none."""
_ASK_LIMIT_S = 30


@dataclass(frozen=True)
class Tool:
    name: str
    path: Path
    version: str
    """As it says it itself: `sysbench 1.0.20`."""
    options: tuple[str, ...] = ()
    """Without which it is of no use here."""


def provide(tool: str, *, offline: bool, say: Callable[[str], None]) -> Tool:
    """One of the names above. HostUnfitError, with the command that installs it, where it cannot be had."""
    return _found(tool) or _installed(tool, offline=offline, say=say)


def provide_all(tools: Iterable[str], *, offline: bool, say: Callable[[str], None]) -> dict[str, Tool]:
    return {tool: provide(tool, offline=offline, say=say) for tool in tools}


def _found(tool: str) -> Tool | None:
    for name in _PROGRAMS.get(tool, (tool,)):
        if (way := shutil.which(name)) is None:
            continue
        if name != _MYSQLS_DUMP:
            return Tool(name, Path(way), _version(Path(way)), (_WITHOUT_TLS,) if name == DUMP else ())
        if (dump := _mysqldump(Path(way))) is not None:
            return dump
    return None


def _mysqldump(path: Path) -> Tool | None:
    """MariaDB's, which dumps servers of all flavors; or MySQL's own of the one series that does."""
    try:
        version = _version(path)
    except HostUnfitError:
        return None
    if "MariaDB" in version:
        return Tool(path.name, path, version, (_WITHOUT_TLS,))
    found = _OF_MYSQL.search(version)
    dumps_all = found is not None and int(found[1]) == _SERIES_FOR_ALL
    return Tool(path.name, path, version, (_WITHOUT_STATISTICS,)) if dumps_all else None


def _installed(tool: str, *, offline: bool, say: Callable[[str], None]) -> Tool:
    if offline:
        raise _missing(tool, "nothing may be fetched while offline")
    if (why := packages.why_not_installed()) is not None:
        raise _missing(tool, why)
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
    return HostUnfitError(f"{tool} is missing ({why})", advice(PACKAGES[tool][0]))


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
