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


def advice(package: str, elsewhere: Mapping[str, str]) -> str:
    """`install it: dnf install perf`. The package has one name, and others to the managers that call it otherwise."""
    manager = next(filter(shutil.which, _MANAGERS), None)
    if manager is None:
        return f"install it with this host's own means: the package {package}, or how it is called here"
    return f"install it: {_MANAGERS[manager]} {elsewhere.get(manager, package)}"
