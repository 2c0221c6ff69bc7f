"""Who and what is this host, that none of it gets into an archive? Its names, its users', and what they keep secret."""

from __future__ import annotations

import os
import platform
import pwd
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from recovery.bundle.literals import Literal
from recovery.bundle.patterns import SENSITIVE

_HOSTS = Path("/etc/hosts")
_USERS = ("USER", "LOGNAME", "SUDO_USER")
_SECRET = re.compile(rf"(?i){SENSITIVE}")


def of_host(environment: Mapping[str, str], hosts: Path = _HOSTS) -> Iterator[Literal]:
    yield from (("host", name) for name in _host_names(environment, hosts))
    yield from (("user", environment.get(name, "")) for name in _USERS)
    yield "home", environment.get("HOME", "")
    for number in {os.getuid(), os.geteuid()}:
        with suppress(KeyError):
            user = pwd.getpwuid(number)
            yield "user", user.pw_name
            yield "user", user.pw_gecos.partition(",")[0]
            yield "home", user.pw_dir
    yield from (("secret", value) for name, value in environment.items() if _SECRET.fullmatch(name))


def _host_names(environment: Mapping[str, str], hosts: Path) -> Iterator[str]:
    """Its own, and what else this address is called in its own list. No server is asked."""
    own = {platform.node(), environment.get("HOSTNAME", "")} - {""}
    with suppress(OSError):
        for line in hosts.read_text(encoding="utf-8", errors="replace").splitlines():
            _, *names = line.partition("#")[0].split() or [""]
            if own & set(names):
                yield from names
    for name in own:
        yield name
        yield name.partition(".")[0]
