"""What machine is this: its CPU, its memory, what virtualises it, and is it one of Amazon's?"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

from recovery.host.storage import Device

Fact = str | int | float | None

DMI = Path("/sys/class/dmi/id")
_MEMINFO = Path("/proc/meminfo")
_CPUINFO = Path("/proc/cpuinfo")
_CGROUP = Path("/sys/fs/cgroup")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_SWAPPINESS = Path("/proc/sys/vm/swappiness")
_DAMON = Path("/sys/kernel/mm/damon/admin/kdamonds")
_EBS_MODEL = "Amazon Elastic Block Store"


def line(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def machine() -> dict[str, Fact]:
    swappiness = line(_SWAPPINESS)
    return {
        "cpu_model": _cpuinfo("model name") or platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "cpu_governor": line(_GOVERNOR),
        "memory_bytes": memory_bytes(),
        "memory_available_bytes": _available_bytes(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "os": _os_name(),
        "virtualisation": _virtualisation(),
        "cgroup_version": cgroup_version(),
        "machine_vendor": line(DMI / "sys_vendor"),
        "machine_product": line(DMI / "product_name"),
        "thp": _bracketed(line(_THP)),
        "swappiness": int(swappiness) if swappiness else None,
        "idle_pageout": idle_pageout(),
    }


def idle_pageout(admin: Path = _DAMON) -> str | None:
    """Some virtual machines give memory back that was idle for a while, page cache included: there no cache stays warm.
    None where nothing like it is seen (or may be seen)."""
    for scheme in sorted(admin.glob("*/contexts/*/schemes/*")):
        monitor = scheme.parents[3]
        if line(monitor / "state") == "on" and line(scheme / "action") in ("pageout", "reclaim"):
            age = line(scheme / "access_pattern/age/min")
            aggregation_us = line(scheme.parents[1] / "monitoring_attrs/intervals/aggr_us")
            if age is None or aggregation_us is None:
                return "DAMON pages out idle memory"
            return f"DAMON pages out what is idle for {int(age) * int(aggregation_us) / 1e6:.0f} s"
    return None


def memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _available_bytes() -> int | None:
    """What could be had without swapping: the page cache counts, as far as it can be given up."""
    for text in (line(_MEMINFO) or "").splitlines():
        if text.startswith("MemAvailable:"):
            return int(text.split()[1]) * 1024
    return None


def ec2_instance_type(dmi: Path) -> str | None:
    """On Nitro the product name is the instance type; elsewhere it is something else, and None here."""
    return line(dmi / "product_name") if line(dmi / "sys_vendor") == "Amazon EC2" else None


def ebs_volume(device: Device) -> str | None:
    """The serial is the volume's id, without its dash."""
    serial = device.serial or ""
    if device.model != _EBS_MODEL or not serial.startswith("vol"):
        return None
    return "vol-" + serial.removeprefix("vol").removeprefix("-")


def _cpuinfo(name: str) -> str | None:
    for text in (line(_CPUINFO) or "").splitlines():
        key, _, value = text.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _os_name() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def _virtualisation() -> str | None:
    """`kvm`, `docker in kvm`, `none`; from the CPU's flag alone just `a hypervisor`."""
    if shutil.which("systemd-detect-virt"):
        container, machine = (_detect(kind) for kind in ("--container", "--vm"))
        return f"{container} in {machine}" if container not in (None, "none") else machine
    return "a hypervisor" if "hypervisor" in (_cpuinfo("flags") or "").split() else None


def _detect(kind: str) -> str | None:
    try:  # it exits with 1 where it says "none"
        asked = subprocess.run(["systemd-detect-virt", kind], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() or None


def cgroup_version() -> int | None:
    if (_CGROUP / "cgroup.controllers").exists():
        return 2
    return 1 if (_CGROUP / "memory").exists() else None


def _bracketed(text: str | None) -> str | None:
    """`always [madvise] never` → `madvise`"""
    chosen = (text or "").partition("[")[2].partition("]")[0]
    return chosen or text
