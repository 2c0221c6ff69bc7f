"""Returns advice on how to install a package on this host."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping

_APT, _OF_RPMS = "apt-get", ("dnf", "yum", "zypper")
_MANAGERS = {
    _APT: "apt-get install",
    **{name: f"{name} install" for name in _OF_RPMS},
    "pacman": "pacman -S",
    "apk": "apk add",
}
"""Install commands by program; the first program that exists is used."""


_ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "mariadb-client": {"dnf": "mariadb", "yum": "mariadb", "pacman": "mariadb-clients"},
    "linux-perf": dict.fromkeys((*_OF_RPMS, "pacman", "apk"), "perf"),
    "libc-bin": {"dnf": "glibc-common", "yum": "glibc-common", "zypper": "glibc", "pacman": "glibc"},
    "mount": dict.fromkeys((*_OF_RPMS, "pacman"), "util-linux"),
    "sysbench": dict.fromkeys(("dnf", "yum"), "sysbench (in RHEL from EPEL)"),
}
"""Packages with a name that differs from Debian's in other package managers."""


def install_advice(package: str) -> str:
    """Returns the advice, such as `install it: dnf install perf`. `package` is the name in Debian."""
    manager = _manager()
    if manager is None:
        return f"install it with this host's package manager; in Debian its package is {package}"
    return f"install it: {_MANAGERS[manager]} {_ELSEWHERE.get(package, {}).get(manager, package)}"


def libraries_advice(libraries: Iterable[str], in_debian: Iterable[str]) -> str:
    """Returns the advice for missing libraries of 64-bit servers: the packages in Debian, or where packages are RPMs
    the libraries themselves, which such packages declare."""
    manager = _manager()
    if manager == _APT:
        names = list(in_debian)
    else:
        names = [f"'{library}()(64bit)'" for library in libraries] if manager in _OF_RPMS else []
    if manager is None or not names:
        return "install the packages of your distribution that hold them"
    return f"install them: {_MANAGERS[manager]} {' '.join(names)}"


def _manager() -> str | None:
    return next(filter(shutil.which, _MANAGERS), None)
