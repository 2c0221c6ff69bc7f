"""A server started by hand, without the tool's code: from its cache, on a socket, without a network."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

VERSIONS = ("5.7.22", "8.0.31", "mariadb-10.11.5", "mariadb-11.4.5")
COMMON = ("--skip-networking", "--lc-messages=en_US", "--user=root")
# MariaDB takes NULL for a folder.
OF_MYSQL = ("--secure-file-priv=NULL",)
BLKIO = Path("/sys/fs/cgroup/blkio")
READY_WITHIN_S = 300.0


class StartError(Exception):
    """The server ended before it answered."""


def _cache() -> Path:
    given = os.environ.get("RECOVERY_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "mysql-recovery-tester"


@dataclass(frozen=True)
class Build:
    """An unpacked server of the tool's cache."""

    version: str
    tree: Path

    @classmethod
    def find(cls, version: str) -> Build:
        for tree in sorted(_cache().glob(f"servers/{version}-*/tree")):
            return cls(version, tree)
        raise FileNotFoundError(f"{version} is not in the cache: recovery cold-recovery --version {version} fetches it")

    @property
    def mariadb(self) -> bool:
        return self.version.startswith("mariadb-")

    @property
    def series(self) -> tuple[int, int]:
        major, minor = self.version.removeprefix("mariadb-").split(".")[:2]
        return int(major), int(minor)

    @property
    def mysql_8(self) -> bool:
        return not self.mariadb and self.series >= (8, 0)

    @property
    def program(self) -> Path:
        return self.tree / "bin" / ("mariadbd" if self.mariadb else "mysqld")

    def environment(self, durable: bool = True) -> dict[str, str]:
        """For this server's processes; one that is only built over need not wait for the disk."""
        found = [str(self.tree / "libs"), str(self.tree / "bin")]
        found += map(str, _cache().glob("libraries/libaio1/usr/lib/*-linux-gnu"))
        preload = [] if durable else list(_cache().glob("libraries/libeatmydata1/usr/lib/*-linux-gnu/libeatmydata.so"))
        extra = {"LD_PRELOAD": str(preload[0])} if preload else {}
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(found), **extra}

    def initialize(self, datadir: Path, options: tuple[str, ...] = ()) -> None:
        """Make the system tables, as the vendor says."""
        if self.mariadb:
            command = [str(self.tree / "scripts" / "mariadb-install-db"), "--no-defaults", f"--basedir={self.tree}"]
            command += [f"--datadir={datadir}", "--auth-root-authentication-method=normal", "--user=root", *options]
        else:
            command = [str(self.program), "--no-defaults", "--user=root", f"--basedir={self.tree}", *options]
            command += [f"--datadir={datadir}", "--initialize-insecure", *OF_MYSQL]
        done = subprocess.run(command, env=self.environment(durable=False), capture_output=True, text=True, check=False)
        if done.returncode:
            raise StartError(f"{self.version} was not initialized: {(done.stdout + done.stderr)[-800:]}")


@dataclass
class Server:
    """One data directory and the process over it, if there is one."""

    build: Build
    datadir: Path
    options: tuple[str, ...] = ()
    group: Path | None = None
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    _connections: list[Connection[Any]] = field(default_factory=list)

    @property
    def socket(self) -> Path:
        return self.datadir.parent / "s"

    @property
    def log(self) -> Path:
        return self.datadir.parent / "error.log"

    def command(self) -> list[str]:
        own = [] if self.build.mariadb else [*OF_MYSQL]
        own += ["--mysqlx=OFF"] if self.build.mysql_8 else []
        return [
            str(self.build.program),
            "--no-defaults",
            f"--basedir={self.build.tree}",
            f"--datadir={self.datadir}",
            f"--socket={self.socket}",
            f"--log-error={self.log}",
            f"--pid-file={self.datadir.parent / 'pid'}",
            *COMMON,
            *own,
            *self.options,
        ]

    def _join_group(self) -> None:
        if self.group is not None:
            (self.group / "cgroup.procs").write_text(str(os.getpid()))

    def spawn(self, durable: bool = True) -> int:
        self.socket.unlink(missing_ok=True)
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(
            self.command(),
            env=self.build.environment(durable),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=self._join_group,
        )
        return self.process.pid

    def wait_ready(self) -> float:
        """Seconds from the start of the process to its first answer."""
        assert self.process is not None
        while time.monotonic() - self.started_at < READY_WITHIN_S:
            if self.process.poll() is not None:
                raise StartError(f"{self.build.version} ended with {self.process.returncode}: {self.tail()}")
            with suppress(pymysql.Error, OSError):
                self.connect()
                return time.monotonic() - self.started_at
            time.sleep(0.01)
        raise StartError(f"{self.build.version} is not ready after {READY_WITHIN_S:.0f} s: {self.tail()}")

    def start(self, durable: bool = True) -> float:
        self.spawn(durable)
        return self.wait_ready()

    def tail(self) -> str:
        lines = self.log.read_text("utf-8", "replace").splitlines() if self.log.exists() else ["no log"]
        return " | ".join(lines[-6:])[-800:]

    def connect(self, database: str | None = None) -> Connection[Any]:
        made = pymysql.connect(
            unix_socket=str(self.socket), user="root", database=database, charset="utf8mb4", autocommit=True
        )
        self._connections.append(made)
        return made

    def kill(self, sign: int = signal.SIGKILL) -> None:
        """End the process with this signal, and wait until it is gone."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(sign)
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for connection in self._connections:
            with suppress(pymysql.Error, OSError):
                connection._force_close()  # type: ignore[attr-defined]
        self._connections.clear()

    def shut_down(self) -> None:
        self.kill(signal.SIGTERM)


@dataclass
class Templates:
    """Initialized directories, made once for each server and set of options."""

    folder: Path

    def copy(self, build: Build, options: tuple[str, ...], datadir: Path) -> None:
        self.copy_made(build, options, "", lambda made: build.initialize(made, options), datadir)

    def copy_made(
        self, build: Build, options: tuple[str, ...], name: str, make: Callable[[Path], None], datadir: Path
    ) -> None:
        """Copy the directory of this name, which `make` makes where there is none yet."""
        key = f"{build.version}-{zlib.crc32(repr(options).encode()):08x}{name}"
        made = self.folder / key
        if not made.exists():
            begun = self.folder / f"{key}.begun" / "d"
            shutil.rmtree(begun.parent, ignore_errors=True)
            begun.parent.mkdir()
            make(begun)
            begun.rename(made)
        shutil.copytree(made, datadir)


@contextmanager
def limited_reads(name: str, folder: Path, per_second: int | None) -> Iterator[Path | None]:
    """A control group (v1) whose processes may read so often a second from the disk under `folder`."""
    if per_second is None:
        yield None
        return
    group = BLKIO / name
    group.mkdir()
    try:
        limit_reads(group, folder, per_second)
        yield group
    finally:
        until = time.monotonic() + 10
        while group.exists() and time.monotonic() < until:
            with suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.05)


def limit_reads(group: Path, folder: Path, per_second: int) -> None:
    device = folder.stat().st_dev
    (group / "blkio.throttle.read_iops_device").write_text(f"{os.major(device)}:{os.minor(device)} {per_second}")


@contextmanager
def busy_host(cpus: int) -> Iterator[None]:
    """So many processes that only use the CPU."""
    spinning = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(cpus)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def evict(folder: Path) -> None:
    """Write the files, and drop them from the page cache and from the cache of inodes, as a reboot does."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fdatasync(handle)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)
    with suppress(OSError):  # only root may
        Path("/proc/sys/vm/drop_caches").write_text("2")
