"""Is this one of Amazon's machines, and which? By what the firmware says, and where that is not enough by asking.

Only a host that looks like one asks: elsewhere the address is nobody's, or somebody else's."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

ADDRESS = "http://169.254.169.254"
LIMIT_S = 0.3
"""In all: the service is a hop away, and a container or a firewall may keep it from us."""
_DMI = Path("/sys/class/dmi/id")
_HYPERVISOR = Path("/sys/hypervisor")
_NAMES = ("sys_vendor", "board_vendor", "bios_vendor", "bios_version")
_TOKEN = ("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"})
_TYPE, _ZONE = "/latest/meta-data/instance-type", "/latest/meta-data/placement/availability-zone"
_PLAIN = re.compile(r"[a-z0-9][a-z0-9.-]{1,39}")
_MOST_BYTES = 4096


@dataclass(frozen=True)
class Instance:
    type: str | None = None
    zone: str | None = None


def looks_like_ec2(dmi: Path = _DMI, hypervisor: Path = _HYPERVISOR) -> bool:
    """Nitro says it by its vendor; Xen by the version of its BIOS, or an id that begins with `ec2`."""
    if any("amazon" in _text(dmi / name).lower() for name in _NAMES):
        return True
    ids = (_text(hypervisor / "uuid"), _text(dmi / "product_uuid"))
    return any(one.lower().startswith("ec2") for one in ids)


def on_xen(hypervisor: Path = _HYPERVISOR) -> bool:
    """Its disks have neither model nor serial."""
    return _text(hypervisor / "type") == "xen"


def instance(
    address: str = ADDRESS, *, limit_s: float = LIMIT_S, dmi: Path = _DMI, hypervisor: Path = _HYPERVISOR
) -> Instance:
    """What the metadata service tells (IMDSv2), within the time: by a thread that is left behind where it takes longer,
    for a name or a connection may hang in ways that no time-out reaches."""
    found: list[Instance] = []
    if looks_like_ec2(dmi, hypervisor):
        asking = threading.Thread(
            target=lambda: found.append(_ask(address, limit_s)), name="instance-metadata", daemon=True
        )
        asking.start()
        asking.join(limit_s)
    return found[0] if found else Instance()


def _ask(address: str, limit_s: float) -> Instance:
    until = time.monotonic() + limit_s
    try:
        token = _answer(address, _TOKEN, until)
        headers = {"X-aws-ec2-metadata-token": token}
        kind, zone = (_answer(address, ("GET", path, headers), until) for path in (_TYPE, _ZONE))
    except (OSError, HTTPException, ValueError):
        return Instance()
    return Instance(*(text if _PLAIN.fullmatch(text) else None for text in (kind, zone)))


def _answer(address: str, request: tuple[str, str, dict[str, str]], until: float) -> str:
    """Straight to the address: no proxy of the environment's is asked. OSError for an answer that is none."""
    connection = HTTPConnection(urlsplit(address).netloc, timeout=max(0.001, until - time.monotonic()))
    try:
        method, path, headers = request
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        if response.status != 200:
            raise OSError(f"the answer was {response.status}")
        return response.read(_MOST_BYTES).decode("ascii").strip()
    finally:
        connection.close()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
