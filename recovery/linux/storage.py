"""Finds the device and filesystem behind a path, explains storage errors, and checks the free space."""

from __future__ import annotations

import errno
import os
import queue
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from recovery.errors import HostUnfitError, InterruptedByUserError, RecoveryError, ServerFailedError, StorageFailedError
from recovery.linux.files import allocated_bytes, expand_path, user_name, walk_files
from recovery.linux.procfs import read_number, read_text, selected_value

# --- Device and filesystem
#
# A fact that cannot be determined is None.

MOUNTS = Path("/proc/self/mountinfo")
_BLOCK = Path("/sys/dev/block")
IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
"""Filesystems that keep their files in memory and never on a disk."""
_READS, _READ_SECTORS, _WRITES, _WRITTEN_SECTORS, _BUSY_MS = 0, 2, 4, 6, 9
_SECTOR_BYTES = 512
"""The unit of the kernel's counters, whatever the device's own sector size is."""
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Device:
    """A block device and the filesystem that is mounted from it."""

    device: str | None = None
    """`/dev/nvme1n1p1`; None if no single block device is behind the path (overlay, tmpfs, btrfs, a network)."""
    filesystem: str | None = None
    mount_options: str | None = None
    model: str | None = None
    serial: str | None = None
    scheduler: str | None = None
    read_ahead_kb: int | None = None
    rotational: bool | None = None
    size_bytes: int | None = None
    """Of the partition, if it is one."""
    stat_path: Path | None = None
    """File with the kernel's request counters of the device."""
    disk: str | None = None
    """Device number of the whole disk, such as `259:0`. A partition cannot have I/O limits."""
    stacked: bool = False
    """Whether it is built from other devices (device mapper, RAID)."""


@dataclass(frozen=True)
class Mount:
    number: str
    """Device number, such as `254:0`."""
    point: str
    filesystem: str
    options: str
    """Options of the mount and of the filesystem, separated by commas."""


def nearest_existing(path: Path) -> Path:
    """Returns the path itself, or the closest folder above it that exists. A path that is created later will be on the
    same filesystem."""
    path = expand_path(path).absolute()
    return next((candidate for candidate in (path, *path.parents) if candidate.exists()), Path("/")).resolve()


def device_of(path: Path) -> Device:
    """Returns the device and filesystem of a path, which need not exist yet."""
    place = nearest_existing(path)
    number = place.stat().st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    mount = _mount_of(place, name)
    known = _block_device(_BLOCK / name)
    if mount is None:
        return known
    return replace(known, filesystem=mount.filesystem, mount_options=mount.options)


_SHARING_FILESYSTEMS = frozenset({"xfs", "btrfs"})


def shares_blocks(path: Path, folder: Path) -> bool:
    """Returns whether a copy of this file or folder in the other folder takes no space until one of both changes."""
    return (
        path.stat().st_dev == nearest_existing(folder).stat().st_dev
        and device_of(folder).filesystem in _SHARING_FILESYSTEMS
    )


def _mount_of(place: Path, number: str) -> Mount | None:
    """Returns the mount with the longest mount point above the path.

    A mount with the same device number is preferred (bind mounts, overmounts), and the last one mounted wins a tie. The
    number alone is not enough: a btrfs subvolume has a device number that no line of mountinfo shows."""
    above = [mount for mount in read_mounts() if place.is_relative_to(mount.point)]
    ranked = sorted(above, key=lambda mount: (mount.number == number, len(mount.point)))
    return ranked[-1] if ranked else None


def read_mounts(mountinfo: Path = MOUNTS) -> tuple[Mount, ...]:
    """Returns the mounts in the order of the file; none if it cannot be read."""
    return tuple(map(parse_mount, (read_text(mountinfo) or "").splitlines()))


def parse_mount(line: str) -> Mount:
    """Parses a line of mountinfo: `27 1 254:0 / /data rw,noatime shared:1 - ext4 /dev/vda rw,discard`"""
    before, _, after = line.partition(" - ")
    _, _, number, _, point, options, *_ = before.split(" ")
    filesystem, _, own_options = after.split(" ")
    both = dict.fromkeys(f"{options},{own_options}".split(","))
    return Mount(number, _OCTAL.sub(lambda match: chr(int(match[1], 8)), point), filesystem, ",".join(both))


def _block_device(link: Path) -> Device:
    if not link.exists():
        return Device()
    own = link.resolve()
    disk = own.parent if (own / "partition").exists() else own  # a partition uses the queue of its disk
    rotational, sectors = read_text(disk / "queue/rotational"), read_number(own / "size")
    return Device(
        device=f"/dev/{own.name.replace('!', '/')}",
        model=read_text(disk / "device/model"),
        serial=read_text(disk / "device/serial") or read_text(disk / "serial"),
        scheduler=selected_value(read_text(disk / "queue/scheduler")),
        read_ahead_kb=read_number(disk / "queue/read_ahead_kb"),
        rotational=rotational == "1" if rotational else None,
        size_bytes=None if sectors is None else sectors * _SECTOR_BYTES,
        stat_path=own / "stat",
        disk=read_text(disk / "dev"),
        stacked=any((disk / "slaves").glob("*")),
    )


@dataclass(frozen=True)
class DeviceCounters:
    """The device's counters since it was attached, for all processes."""

    reads: int
    """Completed requests, after adjacent ones were merged."""
    writes: int
    read_bytes: int
    written_bytes: int
    busy_s: float
    """Time with at least one request in progress."""


def read_device_counters(device: Device) -> DeviceCounters | None:
    text = read_text(device.stat_path) if device.stat_path else None
    if text is None:
        return None
    fields = [int(field) for field in text.split()]
    return DeviceCounters(
        reads=fields[_READS],
        writes=fields[_WRITES],
        read_bytes=fields[_READ_SECTORS] * _SECTOR_BYTES,
        written_bytes=fields[_WRITTEN_SECTORS] * _SECTOR_BYTES,
        busy_s=fields[_BUSY_MS] / 1000,
    )


def completed_reads(device: Device) -> int | None:
    counted = read_device_counters(device)
    return None if counted is None else counted.reads


def device_io_bytes(device: Device) -> tuple[int, int] | None:
    """Returns the bytes read and the bytes written."""
    counted = read_device_counters(device)
    return None if counted is None else (counted.read_bytes, counted.written_bytes)


# --- Storage errors
#
# After a failure the filesystem itself is tested, to find out whether storage is the cause.

DATA, RESULTS, CACHE, TEMPORARY = "--data", "--results", "RECOVERY_CACHE=", "TMPDIR="
_AT_ONCE_BYTES = 16 << 20
"""What a server or a download allocates at once, and may free again when it fails for lack of more."""
_WRITTEN_BYTES = 64 << 10
_MIN_FREE_BYTES = 1 << 20
_TIMEOUT_S = 30.0
_MAX_FOLDERS = 300
_Answer = TypeVar("_Answer")
_MAX_MESSAGE_CHARS = 160
_ERROR_MESSAGE = re.compile(
    r"(?:errcode|errno|error number)[: ]+(?P<number>5|28|30|122)\b|(?P<full>no space left on device|disk is full)",
    re.IGNORECASE,
)
"""Matches the storage errors in messages of servers and their clients."""
_STORAGE_ERRNOS = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
        *(errno.ENXIO, errno.ENODEV, errno.ESTALE, errno.ENOTCONN, errno.ESHUTDOWN, errno.EREMOTEIO, errno.ETIMEDOUT),
        errno.EUCLEAN,
    }
)
"""Errors of storage, as opposed to a wrong path from the user."""
_PAST_ERRORS = {
    errno.ENOSPC: "a disk was full",
    errno.EDQUOT: "a quota was used up",
    errno.EROFS: "a filesystem was read-only",
    errno.EIO: "a disk gave errors",
}


@dataclass(frozen=True)
class WritableFolder:
    """A folder that this tool writes to, and the setting that names another one."""

    setting: str
    path: Path
    subfolder: Path | None = None
    """A folder inside it with further folders that must accept files, too."""


@dataclass(frozen=True)
class StorageProblem:
    what: str
    remedy: str


def temporary_folder() -> WritableFolder:
    """Returns the folder for the servers' temporary files, and for their logs while they run."""
    return WritableFolder(TEMPORARY, Path(tempfile.gettempdir()))


def find_storage_problem(chosen: WritableFolder) -> StorageProblem | None:
    """Returns what is wrong with the folder, or None if files can be created, written and synced there."""
    needed = _AT_ONCE_BYTES if chosen.setting in (DATA, CACHE) else _WRITTEN_BYTES
    for folder in islice(_folders(chosen), _MAX_FOLDERS):
        try:
            error = call_with_timeout(_TIMEOUT_S, partial(_try_write, folder, needed))
        except TimeoutError:
            what = f"the storage hangs: writing {_WRITTEN_BYTES >> 10} KB to {folder} took more than {_TIMEOUT_S:.0f} s"
            return StorageProblem(what, f"check `dmesg`, {_or_another(chosen.setting)}")
        if error is not None and error.errno in _STORAGE_ERRNOS:
            return _explain(folder, error, chosen.setting)
    return None


def as_storage_error(error: BaseException, *folders: WritableFolder) -> StorageFailedError | None:
    """Returns the storage error behind this failure, or None if storage is not the cause."""
    if isinstance(error, StorageFailedError):
        return error
    if isinstance(error, InterruptedByUserError):
        return None
    tail = tuple(getattr(error, "log_tail", ()))
    failed = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    for chosen in folders:
        if (problem := find_storage_problem(chosen)) is not None:
            message = problem.what if isinstance(error, OSError) else f"{problem.what}; this caused: {_shorten(failed)}"
            return StorageFailedError(message, f"{problem.remedy}; {_KEPT_HINT}", log_tail=tail)
    number = _errno_in((failed, *tail)) if isinstance(error, ServerFailedError) else getattr(error, "errno", None)
    if number in _PAST_ERRORS:
        hint = f"check what else uses that disk, and `dmesg`; {_KEPT_HINT}"
        return StorageFailedError(f"{_PAST_ERRORS[number]} during the run: {_shorten(failed)}", hint, log_tail=tail)
    return None


@contextmanager
def storage_errors(*folders: WritableFolder) -> Iterator[None]:
    """Converts an error inside the block into a StorageFailedError if storage is the cause."""
    try:
        yield
    except (RecoveryError, OSError) as error:
        cause = as_storage_error(error, *folders)
        if cause is None or cause is error:
            raise
        raise cause from error


def find_full_folder(folders: Iterable[Path]) -> str | None:
    """Returns why a folder has no free space, or None. Used while waiting for a server that may itself wait for space.

    A disk that reports free space is not touched. A small allocation is tried only if it reports less than 1 MiB or no
    inodes: part of the space may be reserved for root or for the filesystem itself, and only a trial shows whether this
    user gets it."""
    for folder in folders:
        try:
            status = os.statvfs(folder)
        except OSError:
            continue
        if status.f_bavail * status.f_frsize < _MIN_FREE_BYTES or _no_inodes(folder):
            error = _try_write(folder, _MIN_FREE_BYTES, sync=False)
            if error is not None and error.errno == errno.ENOSPC:
                return f"no {'inodes are' if _no_inodes(folder) else 'space is'} left for {folder}"
    return None


_KEPT_HINT = "what was finished is kept"


def _folders(chosen: WritableFolder) -> Iterator[Path]:
    """Yields the folders to test, including those that cannot be listed."""
    yield chosen.path
    if chosen.subfolder is not None:
        yield chosen.subfolder
        for folder, names, _ in os.walk(chosen.subfolder):
            yield from (Path(folder, name) for name in names)


def call_with_timeout(seconds: float, ask: Callable[[], _Answer]) -> _Answer:
    """Returns the result of `ask`, which runs in a thread. Raises TimeoutError after the given time, and abandons the
    thread: a call on a disk that hangs blocks it, and so may a name resolution, and no signal ends them."""
    answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
    threading.Thread(target=lambda: answers.put(ask()), name="with-timeout", daemon=True).start()
    try:
        return answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None


def can_write(folder: Path) -> bool:
    """Returns whether a small temporary file can be written and synced in the folder. It is tried, because permissions
    do not show a read-only mount, a quota or a full disk."""
    return _try_write(folder, _WRITTEN_BYTES) is None


def _try_write(folder: Path, needed: int, *, sync: bool = True) -> OSError | None:
    try:
        with tempfile.TemporaryFile(dir=nearest_existing(folder)) as file:
            os.posix_fallocate(file.fileno(), 0, needed)
            if sync:
                os.pwrite(file.fileno(), bytes(_WRITTEN_BYTES), 0)
                os.fsync(file.fileno())
    except OSError as error:
        return error
    return None


def _explain(folder: Path, error: OSError, setting: str) -> StorageProblem:
    another = _or_another(setting)
    match error.errno:
        case errno.ENOSPC if _no_inodes(folder):
            return StorageProblem(
                f"no inodes are left for {folder}", f"remove files there, {another} with more of them"
            )
        case errno.ENOSPC:
            return StorageProblem(
                f"the disk of {folder} is full ({_free_text(folder)})", f"free space there, {another}"
            )
        case errno.EDQUOT:
            return StorageProblem(f"the quota for {folder} is used up", f"raise the quota, {another}")
        case errno.EROFS:
            remedy = f"check `dmesg` for an error after which the kernel made it so; mount it again, {another}"
            return StorageProblem(f"the filesystem of {folder} is read-only", remedy)
        case errno.EACCES | errno.EPERM:
            remedy = f"check its owner, mode and attributes (ls -ld, lsattr -d), {another}"
            return StorageProblem(f"the user {user_name(os.geteuid())} may not write to {folder}", remedy)
        case _:
            why = error.strerror or str(error)
            return StorageProblem(f"the storage of {folder} fails: {why}", f"check `dmesg`, {another}")


def _or_another(setting: str) -> str:
    return f"or name another disk with {setting}"


def _no_inodes(folder: Path) -> bool:
    try:
        return free_space(folder).inodes == 0
    except OSError:
        return False


def _free_text(folder: Path) -> str:
    try:
        free = free_space(folder).bytes
    except OSError:
        return "its free space is unknown"
    # A thin volume may report more space than the storage below it has.
    below = " as it reports, so the storage below it is full" if free > _AT_ONCE_BYTES else ""
    return f"{free / 1e6:.1f} MB free{below}"


def _shorten(message: str) -> str:
    """Returns a shortened message. What a server writes about a full disk is long, and also in the log below."""
    return message if len(message) <= _MAX_MESSAGE_CHARS else f"{message[:_MAX_MESSAGE_CHARS]}…"


def _errno_in(lines: Iterable[str]) -> int | None:
    for line in lines:
        if (match := _ERROR_MESSAGE.search(line)) is not None:
            return errno.ENOSPC if match["full"] else int(match["number"])
    return None


# --- Space on a disk

MAX_USED_SHARE = 0.85
"""Share of the free space that may be used: a full disk is slow, and results and logs need space, too."""
SPACE_HINT = (
    "use fewer tables (--tables), remove kept data directories (`recovery datadirs`), or name another disk in --data"
)


@dataclass(frozen=True)
class DiskSpace:
    """The space that something needs on a disk, or the space that a disk has."""

    bytes: int
    inodes: int

    def __add__(self, other: DiskSpace) -> DiskSpace:
        return DiskSpace(self.bytes + other.bytes, self.inodes + other.inodes)

    def __sub__(self, other: DiskSpace) -> DiskSpace:
        return DiskSpace(self.bytes - other.bytes, self.inodes - other.inodes)

    def __str__(self) -> str:
        size = f"{self.bytes / 1e9:.1f} GB" if self.bytes >= 1e8 else f"{self.bytes / 1e6:.1f} MB"
        return f"{size} and {self.inodes:,} inodes"

    def fits(self, room: DiskSpace, *, share: float = 1.0) -> bool:
        return self.bytes <= share * room.bytes and self.inodes <= share * room.inodes

    def remaining(self, done: float) -> DiskSpace:
        """Returns what is still needed when this share is done."""
        return DiskSpace(int(self.bytes * (1 - done)), int(self.inodes * (1 - done)))


NO_SPACE = DiskSpace(0, 0)


def free_space(folder: Path) -> DiskSpace:
    """Returns the space that an ordinary process may still use there; the folder need not exist yet."""
    status = os.statvfs(nearest_existing(folder))
    # btrfs and others create inodes on demand, and report a total of 0.
    return DiskSpace(status.f_bavail * status.f_frsize, status.f_favail if status.f_files else sys.maxsize)


def used_space(folders: Iterable[Path]) -> DiskSpace:
    """Returns the space that the contents of these folders occupy. A folder that does not exist occupies nothing."""
    there = [folder for folder in folders if folder.is_dir()]
    return DiskSpace(sum(map(allocated_bytes, there)), sum(1 for folder in there for _ in walk_files(folder)))


def check_space(folder: Path, need: DiskSpace) -> None:
    """Raises HostUnfitError if the folder's disk does not have enough free space or inodes."""
    room = free_space(folder)
    if not need.fits(room):
        raise HostUnfitError(f"{folder} needs {need} and has {room} free", SPACE_HINT)
