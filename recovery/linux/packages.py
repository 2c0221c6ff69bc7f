"""What installs packages on this host, and what is it told, to install one?"""

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
"""By what tells that it is there; the first that is."""


_ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "mariadb-client": {"dnf": "mariadb", "yum": "mariadb", "pacman": "mariadb-clients"},
    "linux-perf": dict.fromkeys(("dnf", "yum", "zypper", "pacman", "apk"), "perf"),
}
"""Packages that other managers call otherwise than Debian's does."""


def advice(package: str) -> str:
    """`install it: dnf install perf`. The package is called as in Debian."""
    manager = next(filter(shutil.which, _MANAGERS), None)
    if manager is None:
        return f"install it with this host's own means: the package {package}, or how it is called here"
    return f"install it: {_MANAGERS[manager]} {_ELSEWHERE.get(package, {}).get(manager, package)}"
