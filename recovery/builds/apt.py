"""Which mirror and which proxy has this host's apt been told to use?"""

from __future__ import annotations

import os
import shutil
import subprocess

_FORMAT = "$(REPO_URI)\t$(CODENAME)\t$(ORIGIN)\t$(COMPONENT)"


def mirror(suite: str) -> str | None:
    """Of Debian's main archive, for any suite of it; None where apt names none (debootstrap has a default)."""
    rows = [line.split("\t") for line in _said("apt-get", "indextargets", "Created-By: Packages", "--format", _FORMAT)]
    main = [row for row in rows if len(row) == 4 and row[2] == "Debian" and row[3] == "main" and "-" not in row[1]]
    # The suite itself first: a host with several suites may have several mirrors.
    main.sort(key=lambda row: row[1] != suite)
    return main[0][0].rstrip("/") if main else None


def proxies() -> dict[str, str]:
    """As environment variables; those that are set already are taken as they are."""
    found = {}
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        value = os.environ.get(name) or os.environ.get(name.upper())
        if not value and name != "no_proxy":
            value = _configured(name.partition("_")[0])
        if value:
            found[name] = value
    return found


def _configured(scheme: str) -> str:
    for line in _said("apt-config", "dump", f"Acquire::{scheme}::Proxy", "--format", "%v%n"):
        if "://" in line:
            return line.strip()
    return ""


def _said(*command: str) -> list[str]:
    if shutil.which(command[0]) is None:
        return []
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []
