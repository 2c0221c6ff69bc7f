"""On what was this measured? The host's facts for the report: nothing that names the host, its user or a folder."""

from __future__ import annotations

import os
import platform
import resource
import tempfile
from pathlib import Path

import psutil

from recovery import __version__
from recovery.host import ec2
from recovery.host.dropping import cold_means, own_dropper
from recovery.host.kernel import kernel_facts
from recovery.host.machine import DMI, Fact, ebs_volume, ec2_instance_type, machine
from recovery.host.orphans import SERVERS
from recovery.host.storage import Device, device_of, nearest

_PRIVATE_OPTIONS = frozenset(
    {"username", "user", "domain", "addr", "clientaddr", "mountaddr", "ip", "user_id", "source"}
)


def environment(data: Path) -> dict[str, Fact]:
    """The folder under test decides which device and filesystem these are; it need not exist yet."""
    return {**machine(), **_amazon(), **_storage(data), **_tool(), **_limits(), **kernel_facts(nearest(data))}


def _amazon() -> dict[str, Fact]:
    """What the firmware does not tell is asked for."""
    firmware = ec2_instance_type(DMI)
    told = ec2.instance()
    return {"ec2_instance_type": firmware or told.type, "ec2_zone": told.zone}


def _tool() -> dict[str, Fact]:
    """Where this tool itself lies, and where it writes while a start is timed: the log of the server."""
    tool, temporary = device_of(Path(__file__)), device_of(Path(tempfile.gettempdir()))
    return {
        "tool_device": tool.device,
        "tool_filesystem": tool.filesystem,
        "temporary_device": temporary.device,
        "temporary_filesystem": temporary.filesystem,
    }


def _storage(data: Path) -> dict[str, Fact]:
    device = device_of(data)
    status = os.statvfs(nearest(data))
    return {
        "filesystem": device.filesystem,
        "filesystem_size_bytes": status.f_blocks * status.f_frsize,
        "filesystem_free_bytes": status.f_bavail * status.f_frsize,
        "inodes_free": status.f_favail,
        "mount_options": public_options(device),
        "device": device.device,
        "device_model": device.model,
        "device_serial": device.serial,
        "ebs_volume": ebs_volume(device),
        "scheduler": device.scheduler,
        "read_ahead_kb": device.read_ahead_kb,
        "rotational": None if device.rotational is None else int(device.rotational),
    }


def public_options(device: Device) -> str | None:
    """Without options that show folders (an overlay's layers), users or addresses."""
    if device.mount_options is None:
        return None
    told = (option.partition("=") for option in device.mount_options.split(","))
    return ",".join("".join(option) for option in told if option[0] not in _PRIVATE_OPTIONS and "/" not in option[2])


def _limits() -> dict[str, Fact]:
    return {
        "root": "yes" if os.geteuid() == 0 else "no",
        "cold_means": cold_means(own_dropper()),
        "other_servers": len(other_servers()),
        "open_files_limit": open_files_limit(),
        "load_1m": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "tool": __version__,
    }


def open_files_limit() -> int | None:
    """What a server started from here may open; None is no limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return None if hard == resource.RLIM_INFINITY else hard


def other_servers() -> list[int]:
    """Their process ids."""
    return [one.pid for one in psutil.process_iter(["name"]) if one.info["name"] in SERVERS]
