"""Collects the facts about the host for the report, without anything that identifies the host, its user or a folder."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import re
import resource
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from recovery import __version__
from recovery.linux import cgroups
from recovery.linux.cleanup import SERVER_NAMES
from recovery.linux.file_opens import open_fanotify
from recovery.linux.page_cache import cold_method, direct_cache_dropper
from recovery.linux.procfs import DMI, Fact, machine_facts, read_number, read_text
from recovery.linux.storage import Device, call_with_timeout, device_of, nearest_existing

# --- EC2 instance
#
# The type comes from the firmware, or from the metadata service where that is not enough. Only a host that appears to
# be on EC2 sends a request: elsewhere the address is unused, or belongs to another service.

METADATA_URL = "http://169.254.169.254"
METADATA_LIMIT_S = 0.3
"""Time limit for all requests together. The service is one hop away, and a container or a firewall may block it."""
_EBS_MODEL = "Amazon Elastic Block Store"
_HYPERVISOR = Path("/sys/hypervisor")
_NAMES = ("sys_vendor", "board_vendor", "bios_vendor", "bios_version")
_TOKEN = ("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"})
_TYPE, _ZONE = "/latest/meta-data/instance-type", "/latest/meta-data/placement/availability-zone"
_VALID_ANSWER = re.compile(r"[a-z0-9][a-z0-9.-]{1,39}")
_MAX_BYTES = 4096


@dataclass(frozen=True)
class Ec2Instance:
    """The type and the zone of an EC2 instance; None if unknown."""

    type: str | None = None
    zone: str | None = None


def looks_like_ec2(dmi: Path = DMI, hypervisor: Path = _HYPERVISOR) -> bool:
    """Returns whether this host appears to be an EC2 instance. Nitro shows it in the vendor, Xen in the BIOS version or
    in an id that begins with `ec2`."""
    if any("amazon" in (read_text(dmi / name) or "").lower() for name in _NAMES):
        return True
    ids = (read_text(hypervisor / "uuid"), read_text(dmi / "product_uuid"))
    return any((identity or "").lower().startswith("ec2") for identity in ids)


def is_xen_guest(hypervisor: Path = _HYPERVISOR) -> bool:
    """Returns whether this is a Xen guest, which has disks without model and serial number."""
    return read_text(hypervisor / "type") == "xen"


def ec2_instance(
    address: str = METADATA_URL, *, limit_s: float = METADATA_LIMIT_S, dmi: Path = DMI, hypervisor: Path = _HYPERVISOR
) -> Ec2Instance:
    """Returns what the metadata service (IMDSv2) reports within the time limit. A connection may hang in ways that no
    timeout of its own covers."""
    if looks_like_ec2(dmi, hypervisor):
        with suppress(TimeoutError):
            return call_with_timeout(limit_s, partial(_ask, address, limit_s))
    return Ec2Instance()


def _ask(address: str, limit_s: float) -> Ec2Instance:
    until = time.monotonic() + limit_s
    try:
        token = _answer(address, _TOKEN, until)
        headers = {"X-aws-ec2-metadata-token": token}
        kind, zone = (_answer(address, ("GET", path, headers), until) for path in (_TYPE, _ZONE))
    except (OSError, HTTPException, ValueError):
        return Ec2Instance()
    return Ec2Instance(*(text if _VALID_ANSWER.fullmatch(text) else None for text in (kind, zone)))


def _answer(address: str, request: tuple[str, str, dict[str, str]], until: float) -> str:
    """Sends one request directly to the address, without a proxy from the environment, and returns the answer. Raises
    OSError if the status is not 200."""
    connection = HTTPConnection(urlsplit(address).netloc, timeout=max(0.001, until - time.monotonic()))
    try:
        method, path, headers = request
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        if response.status != 200:
            raise OSError(f"the answer was {response.status}")
        return response.read(_MAX_BYTES).decode("ascii").strip()
    finally:
        connection.close()


def ec2_instance_type(dmi: Path = DMI) -> str | None:
    """Returns the EC2 instance type. On Nitro it is the product name; elsewhere that is something else, and the result
    is None."""
    return read_text(dmi / "product_name") if read_text(dmi / "sys_vendor") == "Amazon EC2" else None


def ebs_volume(device: Device) -> str | None:
    """Returns the id of the EBS volume, which is the device's serial number without its dash."""
    serial = device.serial or ""
    if device.model != _EBS_MODEL or not serial.startswith("vol"):
        return None
    return "vol-" + serial.removeprefix("vol").removeprefix("-")


# --- Kernel settings

INOTIFY = Path("/proc/sys/fs/inotify")
FANOTIFY = Path("/proc/sys/fs/fanotify")


def kernel_facts(folder: Path) -> dict[str, Fact]:
    """Returns the kernel's settings for control groups and file tracing. Some depend on the filesystem of the folder,
    which need not exist yet."""
    return {
        "cgroup_controllers": cgroup_controllers(),
        "cpu_quota": own_cpu_quota(),
        "inotify_watches": read_number(INOTIFY / "max_user_watches"),
        "inotify_instances": read_number(INOTIFY / "max_user_instances"),
        "fanotify": "works" if (why := fanotify_refused(folder)) is None else why,
        "fanotify_groups": read_number(FANOTIFY / "max_user_groups"),
        "fanotify_marks": read_number(FANOTIFY / "max_user_marks"),
    }


def cgroup_controllers() -> str | None:
    """Returns the cgroup controllers that this tool can use, by version: `v1: blkio cpu memory`."""
    by_version: dict[int, set[str]] = {}
    for hierarchy in cgroups.hierarchies():
        by_version.setdefault(hierarchy.version, set()).update(hierarchy.controllers)
    texts = (f"v{version}: {' '.join(sorted(names))}" for version, names in sorted(by_version.items()) if names)
    return "; ".join(texts) or None


def own_cpu_quota() -> float | None:
    """Returns the number of CPUs that this tool and the servers it starts directly may use, or None if there is no
    limit."""
    quotas = [cgroups.cpu_quota(folder) for folder in cgroups.groups_of("self", "cpu")]
    return min((quota for quota in quotas if quota is not None), default=None)


def fanotify_refused(folder: Path) -> str | None:
    """Returns why fanotify cannot trace opens, or None if it can. It is tried, since it needs CAP_SYS_ADMIN and a
    filesystem with file handles."""
    try:
        os.close(open_fanotify(folder))
    except OSError as error:
        return error.strerror or str(error)
    return None


# --- The host's facts

_PRIVATE_OPTIONS = frozenset(
    {"username", "user", "domain", "addr", "clientaddr", "mountaddr", "ip", "user_id", "source"}
)


def collect_host_facts(data: Path) -> dict[str, Fact]:
    """Returns all facts about the host. Those about device and filesystem are of the data folder, which need not exist
    yet."""
    service = ec2_instance()
    machine, storage = machine_facts(), _storage_facts(data)
    return {
        **machine,
        "host_id": host_id({**machine, **storage}, storage_identity(data)),
        # from the metadata service where the firmware does not show it
        "ec2_instance_type": ec2_instance_type() or service.type,
        "ec2_zone": service.zone,
        **storage,
        **_tool_facts(),
        **_process_facts(),
        **kernel_facts(nearest_existing(data)),
    }


_MACHINE_ID = Path("/etc/machine-id")
_OF_HOST_ID = ("cpu_model", "memory_bytes", "kernel", "filesystem", "read_ahead_kb")
"""Facts that the figures of a session depend on, besides the machine and the disk. Memory counts in whole GiB: the
kernel reserves slightly more or less of it at each boot."""
_HOST_ID_CHARS = 12
_HOST_ID_PREFIX = "2-"
"""Stands for the facts that an id is made of: ids of other facts begin with another number."""
_FSID_OF_UUID = frozenset({"ext2", "ext3", "ext4", "btrfs"})
"""Filesystems whose id is made of their UUID. That of others may be made of the number of the device."""


def host_id(
    facts: Mapping[str, Fact], storage: Sequence[str | int | None], machine_id: Path = _MACHINE_ID
) -> str | None:
    """Returns an id of this host and its storage, which is the same for sessions that can be expected to be alike. It
    is a hash, from which neither the machine's id nor a name can be found. None if the machine has no id."""
    machine = read_text(machine_id)
    if machine is None:
        return None
    memory = facts.get("memory_bytes")
    known = {**facts, "memory_bytes": math.ceil(memory / 2**30) if isinstance(memory, int) else None}
    parts = (machine, *(str(known.get(name)) for name in _OF_HOST_ID), *map(str, storage))
    found = hashlib.sha256("\0".join(("mysql-recovery-tester", *parts)).encode()).hexdigest()
    return f"{_HOST_ID_PREFIX}{found[:_HOST_ID_CHARS]}"


def storage_identity(data: Path) -> tuple[str | int | None, ...]:
    """Returns what tells the storage of a folder from other storage of this host. The kernel's name of the disk does
    not: it may change when the host boots."""
    device = device_of(data)
    filesystem = os.statvfs(nearest_existing(data)).f_fsid if device.filesystem in _FSID_OF_UUID else None
    return device.model, device.size_bytes, device.serial or filesystem


def host_id_with(data: Path) -> str | None:
    """Returns the id of this host with the storage of a folder, as sessions have it that were measured there."""
    return host_id({**machine_facts(), **_storage_facts(data)}, storage_identity(data))


def _tool_facts() -> dict[str, Fact]:
    """Returns the devices of this tool itself and of the temporary folder, to which the server's log is written during
    a timed start."""
    tool, temporary = device_of(Path(__file__)), device_of(Path(tempfile.gettempdir()))
    return {
        "tool_device": tool.device,
        "tool_filesystem": tool.filesystem,
        "temporary_device": temporary.device,
        "temporary_filesystem": temporary.filesystem,
    }


def _storage_facts(data: Path) -> dict[str, Fact]:
    device = device_of(data)
    status = os.statvfs(nearest_existing(data))
    return {
        "filesystem": device.filesystem,
        "filesystem_size_bytes": status.f_blocks * status.f_frsize,
        "filesystem_free_bytes": status.f_bavail * status.f_frsize,
        "inodes_free": status.f_favail,
        "mount_options": public_mount_options(device),
        "device": device.device,
        "device_model": device.model,
        "device_serial": device.serial,
        "ebs_volume": ebs_volume(device),
        "scheduler": device.scheduler,
        "read_ahead_kb": device.read_ahead_kb,
        "rotational": None if device.rotational is None else int(device.rotational),
    }


def public_mount_options(device: Device) -> str | None:
    """Returns the mount options without those that show folders (an overlay's layers), users or addresses."""
    if device.mount_options is None:
        return None
    options = (option.partition("=") for option in device.mount_options.split(","))
    return ",".join("".join(option) for option in options if option[0] not in _PRIVATE_OPTIONS and "/" not in option[2])


def _process_facts() -> dict[str, Fact]:
    return {
        "root": "yes" if os.geteuid() == 0 else "no",
        "cold_means": cold_method(direct_cache_dropper()),
        "other_servers": len(other_servers()),
        "open_files_limit": open_files_limit(),
        "load_1m": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "tool": __version__,
    }


def open_files_limit() -> int | None:
    """Returns how many files a server started from here may open, or None if there is no limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return None if hard == resource.RLIM_INFINITY else hard


def other_servers() -> list[int]:
    """Returns the process ids of all servers on this host."""
    return [process.pid for process in psutil.process_iter(["name"]) if process.info["name"] in SERVER_NAMES]
