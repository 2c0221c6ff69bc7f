"""Gets Debian and Ubuntu packages: unpacks libraries of them without being root, and installs whole packages as root.

It also provides the programs that experiments need in addition to a server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from recovery.builds.download import ClientFailedError, Say, run_client
from recovery.errors import HostUnfitError, RecoveryError
from recovery.linux.cleanup import part_folder
from recovery.linux.files import (
    create_readable_folder,
    libraries_dir,
    remove_write_permissions,
    sync_on_exit,
    why_not_trusted,
)
from recovery.linux.locks import wait_for_lock
from recovery.linux.packages import install_advice
from recovery.linux.privileges import REFUSED_TEXT, RootStep, is_refused
from recovery.linux.storage import CACHE, WritableFolder, storage_errors

# --- Mirror and proxies in this host's apt settings

_FORMAT = "$(REPO_URI)\t$(CODENAME)\t$(ORIGIN)\t$(COMPONENT)"


def debian_mirror(suite: str) -> str | None:
    """Returns apt's mirror of Debian's main archive, which has every suite; None if apt names none (debootstrap has a
    default)."""
    rows = [
        line.split("\t")
        for line in _output_lines("apt-get", "indextargets", "Created-By: Packages", "--format", _FORMAT)
    ]
    main = [row for row in rows if len(row) == 4 and row[2] == "Debian" and row[3] == "main" and "-" not in row[1]]
    # The requested suite first: a host with several suites may have several mirrors.
    main.sort(key=lambda row: row[1] != suite)
    return main[0][0].rstrip("/") if main else None


def apt_proxies() -> dict[str, str]:
    """Returns the proxies that apt uses, as environment variables. Variables that are already set take precedence."""
    proxies = {}
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        value = os.environ.get(name) or os.environ.get(name.upper())
        if not value and name != "no_proxy":
            key = f"Acquire::{name.removesuffix('_proxy')}::Proxy"
            lines = _output_lines("apt-config", "dump", key, "--format", "%v%n")
            value = next((line.strip() for line in lines if "://" in line), None)
        if value:
            proxies[name] = value
    return proxies


def _output_lines(*command: str) -> list[str]:
    if shutil.which(command[0]) is None:
        return []
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


# --- Single packages: fetched and unpacked, or installed

# The packages that hold a library, with the names in older distributions first.
_LIBRARY_PACKAGES: dict[str, tuple[str, ...]] = {
    "libaio.so.1": ("libaio1", "libaio1t64"),
    "libnuma.so.1": ("libnuma1",),
    "libncurses.so.5": ("libncurses5",),
    "libncursesw.so.5": ("libncursesw5",),
    "libtinfo.so.5": ("libtinfo5",),
    "libncurses.so.6": ("libncurses6",),
    "libncursesw.so.6": ("libncursesw6",),
    "libtinfo.so.6": ("libtinfo6",),
    "libssl.so.1.0.0": ("libssl1.0.0",),
    "libcrypto.so.1.0.0": ("libssl1.0.0",),
    "libssl.so.1.1": ("libssl1.1",),
    "libcrypto.so.1.1": ("libssl1.1",),
    "libssl.so.3": ("libssl3", "libssl3t64"),
    "libcrypto.so.3": ("libssl3", "libssl3t64"),
    "libjemalloc.so.1": ("libjemalloc1",),
    "libjemalloc.so.2": ("libjemalloc2",),
    "libatomic.so.1": ("libatomic1",),
    "libcrypt.so.1": ("libcrypt1",),
    "libgcc_s.so.1": ("libgcc-s1", "libgcc1"),
    "libstdc++.so.6": ("libstdc++6",),
    "libsystemd.so.0": ("libsystemd0",),
    "liburing.so.2": ("liburing2",),
    "libpmem.so.1": ("libpmem1",),
    "libpam.so.0": ("libpam0g",),
    "libwrap.so.0": ("libwrap0",),
    "liblz4.so.1": ("liblz4-1",),
    "libzstd.so.1": ("libzstd1",),
    "libsnappy.so.1": ("libsnappy1v5",),
    "libtirpc.so.3": ("libtirpc3", "libtirpc3t64"),
}
# What apt-get prints if its lists are empty or older than the archive.
_STALE = re.compile(r"Unable to locate|no candidate|Can't find a source|404", re.IGNORECASE)
_LOCKED = re.compile(r"Unable to lock|Could not get lock", re.IGNORECASE)
_LOCK_TIMEOUT_S = 600
_NONINTERACTIVE = {"DEBIAN_FRONTEND": "noninteractive"}


def packages_with(library: str) -> tuple[str, ...]:
    return _LIBRARY_PACKAGES.get(library, ())


def why_not_installable() -> str | None:
    """Returns the reason why this process may not install packages on this host; None if it may."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("apt-get", "dpkg"))):
        return "only root has it installed, and only by apt-get"
    return REFUSED_TEXT if is_refused(RootStep.INSTALL) else None


def install_package(package: str) -> None:
    """Installs a package on this host, as root. Raises ClientFailedError with apt-get's own reason."""
    assert why_not_installable() is None
    root = _root()
    # Processes of this tool wait for each other here, so that only one of them refreshes the lists. For other programs,
    # apt itself waits.
    with wait_for_lock(root / ".lock"):
        _apt_get(
            "install", "--yes", "--no-install-recommends",
            "--option", f"DPkg::Lock::Timeout={_LOCK_TIMEOUT_S}", package, folder=root,
        )  # fmt: skip


def _root() -> Path:
    return create_readable_folder(libraries_dir())


def _folder(package: str) -> Path:
    return libraries_dir() / package


def find_unpacked(package: str, filename: str) -> Path | None:
    """Returns the file of a package that was unpacked before; None if there is none, or if other users could change
    what its folder holds."""
    folder = _folder(package)
    files = (path for path in sorted(folder.rglob(filename)) if path.is_file())
    inside = (path for path in files if path.resolve().is_relative_to(folder.resolve()))
    return next((path for path in inside if not any(map(why_not_trusted, path.parent.iterdir()))), None)


def fetch_file(package: str, filename: str) -> Path:
    """Downloads a package, unpacks it in the cache, and returns the file in it. Raises HostUnfitError if the package
    does not hold the file."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise HostUnfitError(f"{program} is missing", "install the library with your distribution's own means")
    root = _root()
    with wait_for_lock(root / ".lock"), part_folder(root, ".part-") as part:
        if (file := find_unpacked(package, filename)) is not None:  # another process was faster
            return file
        tree = part / "tree"
        # Neither a power cut nor a full or failing disk may leave an empty file under the name of a library.
        with storage_errors(WritableFolder(CACHE, root)), sync_on_exit(root):
            run_client("dpkg-deb", "-x", str(_download(package, part)), str(tree), folder=part)
            # libaio1t64 calls its file libaio.so.1t64, which on 64 bits is the same as libaio.so.1.
            for path in list(tree.rglob(f"{filename}t64")):
                path.with_name(filename).symlink_to(path.name)
            remove_write_permissions(tree)
        shutil.rmtree(_folder(package), ignore_errors=True)
        tree.replace(_folder(package))
    file = find_unpacked(package, filename)
    if file is None:
        raise HostUnfitError(f"the package {package} holds no {filename}", "install the library by hand")
    return file


def _download(package: str, folder: Path) -> Path:
    _apt_get("download", package, folder=folder)
    file = next(folder.glob("*.deb"), None)
    if file is None:
        raise HostUnfitError(f"apt-get left no file for {package}", "install the package by hand")
    return file


def _apt_get(*words: str, folder: Path) -> None:
    """Runs apt-get, and again with fresh lists if the host's lists are empty or older than the archive."""
    try:
        run_client("apt-get", "-q", *words, folder=folder, environment=_NONINTERACTIVE)
    except ClientFailedError as error:
        if not _STALE.search(error.message):
            raise
        run_client("apt-get", "-q", *_refresh_lists(), *words, folder=folder, environment=_NONINTERACTIVE)


@cache
def _refresh_lists() -> tuple[str, ...]:
    """Refreshes the package lists once per process, and returns the apt-get options that name them. Root refreshes the
    host's own lists, unless that was refused; other users have private lists.

    A newly created machine has no lists at all."""
    root = _root() / "apt"
    if os.geteuid() == 0 and not is_refused(RootStep.INSTALL):
        _update_host_lists(root.parent)
        return ()
    for name in ("lists/partial", "cache/archives/partial"):
        create_readable_folder(root / name)
    options = ("-o", f"Dir::State::Lists={root}/lists", "-o", f"Dir::Cache={root}/cache")
    run_client("apt-get", "-q", *options, "update", folder=root)
    return options


def _update_host_lists(folder: Path) -> None:
    """Refreshes the host's own lists, and retries while another process locks them: apt's time-out for its locks does
    not apply to the lock of the lists."""
    give_up = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            return run_client("apt-get", "-q", "update", folder=folder)
        except ClientFailedError as error:
            if not _LOCKED.search(error.message) or time.monotonic() > give_up:
                raise
        time.sleep(1)


# --- Programs that experiments need in addition to a server: found on PATH, or installed by root

SYSBENCH, DUMP, PERF = "sysbench", "mariadb-dump", "perf"
TOOL_PACKAGES: dict[str, tuple[str, ...]] = {
    SYSBENCH: ("sysbench",),
    DUMP: ("mariadb-client",),
    PERF: ("linux-perf", "linux-tools-generic"),
}
"""Packages that hold each program: Debian's name first, then Ubuntu's if it is different."""
_MYSQLDUMP = "mysqldump"
"""Name of MySQL's dump client, and formerly of MariaDB's."""
_PROGRAM_NAMES = {DUMP: (DUMP, _MYSQLDUMP)}
_MYSQL_MAJOR = re.compile(r"Ver (?:\S+ Distrib )?(\d+)\.")
_DUMP_MAJOR_FOR_ALL_SERVERS = 8
"""The one major version of MySQL's own dump client that can dump every server. It queries column statistics, and fails
if a server has none, unless an option forbids it. Clients before 8 do not know what newer servers have, and clients
from 9.0 on can no longer log in to old servers."""
_WITHOUT_STATISTICS = "--column-statistics=0"
_WITHOUT_TLS = "--skip-ssl"
"""MariaDB's client requires TLS from 11.4 on, even over a socket, and fails if the server has none."""
_VERSION_TIMEOUT_S = 30


@dataclass(frozen=True)
class Tool:
    """A program on this host that experiments need."""

    name: str
    path: Path
    version: str
    """As the program prints it: `sysbench 1.0.20`."""
    options: tuple[str, ...] = ()
    """Options that every call here needs."""


def provide_tool(tool: str, *, offline: bool, say: Say) -> Tool:
    """Returns one of the programs named above, and installs it if it is missing. Raises HostUnfitError, with the
    command that installs it, if that is not possible."""
    return _find_tool(tool) or _install_tool(tool, offline=offline, say=say)


def provide_tools(tools: Iterable[str], *, offline: bool, say: Say) -> dict[str, Tool]:
    return {tool: provide_tool(tool, offline=offline, say=say) for tool in tools}


def _find_tool(tool: str) -> Tool | None:
    for name in _PROGRAM_NAMES.get(tool, (tool,)):
        if (way := shutil.which(name)) is None:
            continue
        if name != _MYSQLDUMP:
            return Tool(name, Path(way), _query_version(Path(way)), (_WITHOUT_TLS,) if name == DUMP else ())
        if (dump := _mysqldump(Path(way))) is not None:
            return dump
    return None


def _mysqldump(path: Path) -> Tool | None:
    """Returns mysqldump if it can dump all servers; None otherwise. MariaDB's dumps servers of all flavors; of MySQL's
    own, one series does."""
    try:
        version = _query_version(path)
    except HostUnfitError:
        return None
    if "MariaDB" in version:
        return Tool(path.name, path, version, (_WITHOUT_TLS,))
    major = _MYSQL_MAJOR.search(version)
    dumps_all = major is not None and int(major[1]) == _DUMP_MAJOR_FOR_ALL_SERVERS
    return Tool(path.name, path, version, (_WITHOUT_STATISTICS,)) if dumps_all else None


def _install_tool(tool: str, *, offline: bool, say: Say) -> Tool:
    if offline:
        raise _missing_tool_error(tool, "nothing may be fetched while offline")
    if (why := why_not_installable()) is not None:
        raise _missing_tool_error(tool, why)
    failures = []
    for package in TOOL_PACKAGES[tool]:
        say(f"installing {tool} (package {package})")
        try:
            install_package(package)
        except RecoveryError as error:
            failures.append(error.message)
            continue
        if (program := _find_tool(tool)) is not None:
            return program
        failures.append(f"the package {package} does not hold it")
    raise _missing_tool_error(tool, failures[0])


def _missing_tool_error(tool: str, why: str) -> HostUnfitError:
    return HostUnfitError(f"{tool} is missing ({why})", install_advice(TOOL_PACKAGES[tool][0]))


def _query_version(program: Path) -> str:
    try:
        done = subprocess.run(
            (program, "--version"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostUnfitError(f"{program} does not print its version: {error}", "install it again") from error
    version = " ".join(done.stdout.decode(errors="replace").split())
    if done.returncode != 0 or not version:
        complaint = " ".join(done.stderr.decode(errors="replace").split())[:200]
        raise HostUnfitError(f"{program} does not print its version: {complaint}", "install it again")
    return version
