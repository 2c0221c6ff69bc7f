"""What every engine must offer: launch a server, and one Life for each process that it becomes.

A reboot is another Life: no pid, port or log position can outlive its process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from recovery.errors import HostUnfitError
from recovery.linux import files
from recovery.linux.cgroups import Group
from recovery.model import Build


@dataclass(frozen=True)
class Exit:
    """How a process ended: one of the two is set."""

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
    """mysqld options, names with underscores, without dashes; an empty value is a bare flag."""
    log: Path
    """Receives the error log of this Life, from its first byte; must not exist yet."""
    rundir: Path
    """A short-named private folder for the socket, the pid file, my.cnf and tmpdir; the launcher makes it."""
    preload: tuple[Path, ...] = ()
    """Libraries for LD_PRELOAD (libeatmydata, while building)."""
    stdin: Path | None = None
    """A file of statements for a server that bootstraps; None is an empty input."""
    group: Group | None = None
    """The control group that the process must be in from its first instruction on; None is no limit."""
    keys: Path | None = None
    """The folder of the keys of encrypted tables; None where there are none."""

    @property
    def socket(self) -> Path:
        return self.rundir / "mysqld.sock"


class Life(Protocol):
    """One server process, from exec to exit."""

    @property
    def pid(self) -> int: ...
    @property
    def started_at(self) -> float:
        """On the monotonic clock, right before exec."""
        ...

    @property
    def started_error_s(self) -> float:
        """By how much later the exec may have been."""
        ...

    @property
    def overhead_s(self) -> float | None:
        """What the engine took before that; None where there is none."""
        ...

    @property
    def launch(self) -> Launch: ...
    def exit_fd(self) -> int:
        """A descriptor that polls readable once the process has ended."""
        ...

    def exited(self) -> Exit | None:
        """None while it runs."""
        ...

    def wait(self, timeout_s: float) -> Exit | None:
        """Reaped or None after `timeout_s`."""
        ...

    def signal(self, number: int) -> None: ...


class Launcher(Protocol):
    def launch(self, launch: Launch) -> Life: ...


# Where does a server keep its socket, pid file and options? In a private folder with a short name.


class RunDirs:
    """One folder for a server, and a new one in it for each of its Lives."""

    def __init__(self) -> None:
        self.root = self._make()
        self._lives = 0

    def _make(self) -> Path:
        base = files.short_base()
        try:
            return files.make(base)
        except OSError as error:
            raise HostUnfitError(
                f"no folder for temporary files can be made in {base}: {error.strerror}", "set TMPDIR to one that can"
            ) from error

    def next(self) -> Path:
        """Not made yet: the launcher does it. Once removed, the next private folder has another name."""
        if not self.root.is_dir():
            self.root = self._make()
        self._lives += 1
        return self.root / str(self._lives)

    def remove(self) -> None:
        files.remove(self.root)
