"""Returns advice on how to install a package on this host."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

_MANAGERS = {
    "apt-get": "apt-get install",
    "dnf": "dnf install",
    "yum": "yum install",
    "zypper": "zypper install",
    "pacman": "pacman -S",
    "apk": "apk add",
}
"""Install commands by program; the first program that exists is used."""


_ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "mariadb-client": {"dnf": "mariadb", "yum": "mariadb", "pacman": "mariadb-clients"},
    "linux-perf": dict.fromkeys(("dnf", "yum", "zypper", "pacman", "apk"), "perf"),
}
"""Packages with a name that differs from Debian's in other package managers."""


def install_advice(package: str) -> str:
    """Returns the advice, such as `install it: dnf install perf`. `package` is the name in Debian."""
    manager = next(filter(shutil.which, _MANAGERS), None)
    if manager is None:
        return f"install it with this host's package manager; in Debian its package is {package}"
    return f"install it: {_MANAGERS[manager]} {_ELSEWHERE.get(package, {}).get(manager, package)}"
