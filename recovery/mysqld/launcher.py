"""Defines the `Launcher` that starts servers, the `ServerProcess` that it returns, and what all launchers share: run
folders, options file, environment and log.

A restart is another ServerProcess, so no pid, socket or log position can outlive its process."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux import cleanup
from recovery.linux.cgroups import LimitGroup
from recovery.linux.files import create_private_folder, template_dir
from recovery.model import Build
from recovery.mysqld.options import Settings, key_settings, merge, render_cnf


@dataclass(frozen=True)
class Exit:
    """How a process ended: either `code` or `signal` is set."""

    code: int | None
    signal: int | None

    def __str__(self) -> str:
        return f"signal {self.signal}" if self.signal is not None else f"exit {self.code}"


@dataclass(frozen=True)
class Launch:
    build: Build
    datadir: Path
    """The server's own data directory."""
    settings: dict[str, str]
    """mysqld options: names with underscores and without leading dashes; an empty value is an option without one."""
    log: Path
    """The file for the error log of this process, from its first byte; it must not exist yet."""
    rundir: Path
    """A private folder with a short name for the socket, the pid file, my.cnf and tmpdir; the launcher creates it."""
    preload: tuple[Path, ...] = ()
    """Libraries for LD_PRELOAD (libeatmydata, while building)."""
    stdin: Path | None = None
    """A file of statements for a server that bootstraps; None if its input is empty."""
    group: LimitGroup | None = None
    """The control group that the process must be in from its first instruction on; None if there are no limits."""
    oom_kills: int = 0
    """Number of processes of this group that the kernel had killed before for lack of memory."""
    keys: Path | None = None
    """The folder of the keys of encrypted tables; None if there are no such tables."""

    @property
    def socket(self) -> Path:
        return self.rundir / "mysqld.sock"


def has_process_ended(pidfd: int, timeout_s: float) -> bool:
    """Returns whether the process of a descriptor ends within that time."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(max(0, int(timeout_s * 1000))))


class ServerProcess(ABC):
    """One server process, from exec to exit. It is watched and signalled through its descriptor, so that no later
    process can be taken for it. How its exit is read depends on the launcher."""

    started_error_s = 0.0
    """Seconds by which the exec may have been later than `started_at`."""
    overhead_s: float | None = None
    """Seconds that the container engine took before that; None without a container engine."""

    def __init__(self, launch: Launch, pid: int, started_at: float) -> None:
        """Raises OSError if there is no such process, or if it cannot be seen from here."""
        self.launch = launch
        self.pid = pid
        self.started_at = started_at
        """The moment right before the exec, on the monotonic clock."""
        self.ended_at: float | None = None
        """The moment at which its end was seen, on the monotonic clock; None while it runs."""
        self._exit: Exit | None = None
        self._pidfd = os.pidfd_open(pid)

    def exit_fd(self) -> int:
        """Returns a descriptor that polls readable once the process has ended."""
        return self._pidfd

    def has_ended(self, timeout_s: float = 0) -> bool:
        return has_process_ended(self._pidfd, timeout_s)

    def exited(self) -> Exit | None:
        """Returns how the process ended, or None while it runs."""
        return self.wait(0)

    def wait(self, timeout_s: float) -> Exit | None:
        """Waits up to `timeout_s` for the process to end. Returns how it ended, or None if it still runs."""
        if self._exit is None and self.has_ended(timeout_s):
            self.ended_at = self.ended_at or time.monotonic()
            self._exit = self._read_exit()
        return self._exit

    def signal(self, number: int) -> None:
        """Sends a signal to this very process; does nothing if it has already ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def end_detached(self) -> None:  # noqa: B027 - a container ends with its first process
        """Kills what the server has started and left running. Call it once the process has ended."""

    @abstractmethod
    def _read_exit(self) -> Exit:
        """Returns how the process ended. It is called once it has ended."""

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.close(self._pidfd)


class Launcher(Protocol):
    def launch(self, launch: Launch) -> ServerProcess: ...


# --- Options file, environment and log of a server, for every launcher

_SOCKET_PATH_BYTES = 107
"""Longest path in a sockaddr_un, without the closing NUL."""
_MAX_DEFAULT_OPEN_FILES = 1 << 20
"""The default where the host has no limit or a higher one: with "unlimited", 5.6 and 5.7 allocate gigabytes and close a
billion descriptors one by one. Linux itself allows a process no more unless fs.nr_open is raised."""


def prepare_command(launch: Launch, *, open_files: int, uid: int | None = None) -> list[str]:
    """Creates the run folder with my.cnf in it, and returns the command line of the server. It will run as the user of
    the tool, or as `uid`."""
    _check_socket_path(launch.socket)
    try:
        launch.rundir.mkdir(mode=0o700, parents=True)
        options_file = launch.rundir / "my.cnf"
        template = (template_dir() / "my.cnf.j2").read_text(encoding="utf-8")
        options_file.write_text(
            render_cnf(merge(_launcher_settings(launch, open_files, uid), launch.settings), template), encoding="utf-8"
        )
    except OSError as error:
        raise RecoveryError(
            f"cannot prepare the server's run folder: {error}", "see that the folder for temporary files is writable"
        ) from error
    return [str(launch.build.mysqld), f"--defaults-file={options_file}"]


def _launcher_settings(launch: Launch, open_files: int, uid: int | None) -> Settings:
    """Returns the options that the launcher adds: paths, the open-files limit, the user and the keys."""
    build = launch.build
    settings = {
        "basedir": str(build.basedir),
        "datadir": str(launch.datadir),
        "open_files_limit": str(open_files),
    }
    if build.messages is not None:
        settings["lc_messages_dir"] = str(build.messages)
    if (os.geteuid() if uid is None else uid) == 0:
        # mysqld refuses to run as root without this option.
        settings["user"] = "root"
    return settings | (key_settings(build.version, launch.keys) if launch.keys else {})


def environment(launch: Launch) -> dict[str, str]:
    """Returns the server's environment. Nothing is inherited from the caller: neither language nor time zone may change
    the text of a log."""
    variables = {"PATH": os.defpath, "TZ": "UTC", "LC_ALL": "C", "HOME": str(launch.rundir)}
    if launch.build.library_dirs:
        variables["LD_LIBRARY_PATH"] = ":".join(map(str, launch.build.library_dirs))
    if launch.preload:
        variables["LD_PRELOAD"] = ":".join(map(str, launch.preload))
    return variables


def open_files_limit() -> int:
    """Returns how many files a server may open unless the user gives another number: this process's hard limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _MAX_DEFAULT_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_DEFAULT_OPEN_FILES)


@contextlib.contextmanager
def child_open_files(files: int) -> Iterator[None]:
    """Sets the limit of open files while a child is started: mysqld uses a soft limit above the one in its options, so
    the child must not inherit a higher one.

    Raises HostUnfitError if this process may not raise its hard limit to this number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard if hard == resource.RLIM_INFINITY else max(files, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    except (ValueError, OSError) as error:
        raise HostUnfitError(
            f"{files} is more than a server may open here: the limit is {hard:,} (ulimit -Hn)",
            f"give {hard} at most, or raise the limit, as root: ulimit -Hn {files}",
            option="open_files",
        ) from error
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _check_socket_path(socket: Path) -> None:
    length = len(os.fsencode(socket))
    if length > _SOCKET_PATH_BYTES:
        raise UsageError(
            f"the server's socket path has {length} bytes, {_SOCKET_PATH_BYTES} are allowed: {socket}",
            "set TMPDIR to a folder with a shorter name",
        )


def create_log(path: Path) -> int:
    """Creates the log of one server process and returns its descriptor. An existing log is never appended to."""
    try:
        create_private_folder(path.parent)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise RecoveryError(
            f"there is a log of another start already: {path}", "each start needs a log of its own"
        ) from error
    except OSError as error:
        raise RecoveryError(
            f"cannot write the server's log: {error}", "see that the folder for temporary files (TMPDIR) is writable"
        ) from error


# --- Run folders: private, with short names, for the sockets, pid files and options of servers


class RunDirs:
    """The private folder of a server, with a new subfolder for each of its processes."""

    def __init__(self) -> None:
        self.root = self._make()
        self._process_count = 0

    def _make(self) -> Path:
        base = cleanup.socket_temp_base()
        try:
            return cleanup.make_temp_folder(base)
        except OSError as error:
            raise HostUnfitError(
                f"no folder for temporary files can be made in {base}: {error.strerror}", "set TMPDIR to one that can"
            ) from error

    def next(self) -> Path:
        """Returns the path of the next subfolder, which the launcher creates. If the private folder has been removed,
        creates one with another name."""
        if not self.root.is_dir():
            self.root = self._make()
        self._process_count += 1
        return self.root / str(self._process_count)

    def remove(self) -> None:
        cleanup.remove_temp_folder(self.root)
