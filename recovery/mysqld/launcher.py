"""Defines what every engine must offer: a `Launcher` that starts servers, with one `Life` for each server process; and
the run folders of those processes.

A restart is another Life, so no pid, port or log position can outlive its process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from recovery.errors import HostUnfitError
from recovery.linux import cleanup
from recovery.linux.cgroups import LimitGroup
from recovery.model import Build


@dataclass(frozen=True)
class Exit:
    """How a process ended: either `code` or `signal` is set."""

    code: int | None
    signal: int | None

    def __str__(self) -> str:
        return f"signal {self.signal}" if self.signal is not None else f"exit {self.code}"


@dataclass(frozen=True)
class Launch:
    """Everything that one start needs."""

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
    keys: Path | None = None
    """The folder of the keys of encrypted tables; None if there are no such tables."""

    @property
    def socket(self) -> Path:
        return self.rundir / "mysqld.sock"


class ServerProcess(Protocol):
    """One server process, from exec to exit."""

    @property
    def pid(self) -> int: ...
    @property
    def started_at(self) -> float:
        """The moment right before the exec, on the monotonic clock."""
        ...

    @property
    def started_error_s(self) -> float:
        """Seconds by which the exec may have been later than `started_at`."""
        ...

    @property
    def overhead_s(self) -> float | None:
        """Seconds that the container engine took before that; None without a container engine."""
        ...

    @property
    def launch(self) -> Launch: ...
    def exit_fd(self) -> int:
        """Returns a descriptor that polls readable once the process has ended."""
        ...

    def exited(self) -> Exit | None:
        """Returns how the process ended, or None while it runs."""
        ...

    def wait(self, timeout_s: float) -> Exit | None:
        """Waits up to `timeout_s` for the process to end. Returns how it ended, or None if it still runs."""
        ...

    def signal(self, number: int) -> None: ...


class Launcher(Protocol):
    def launch(self, launch: Launch) -> ServerProcess: ...


# --- Run folders: private, with short names, for the sockets, pid files and options of servers


class RunDirs:
    """The private folder of a server, with a new subfolder for each of its processes."""

    def __init__(self) -> None:
        self.root = self._make()
        self._lives = 0

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
        self._lives += 1
        return self.root / str(self._lives)

    def remove(self) -> None:
        cleanup.remove_temp_folder(self.root)
