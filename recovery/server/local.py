"""How does an unpacked mysqld become a process of this host, and how does that process end?"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from recovery.errors import HostUnfitError, RecoveryError, ServerFailedError, UsageError
from recovery.model import Build
from recovery.paths import template_dir
from recovery.server.gate import spawn_in
from recovery.server.launcher import Exit, Launch
from recovery.server.options import Settings, merge, render_cnf

_SOCKET_PATH_BYTES = 107
"""What sockaddr_un holds, without the closing NUL."""
_OPEN_FILES = 20_000
"""More, or "unlimited", makes 5.6 and 5.7 allocate gigabytes and close a billion descriptors one by one."""


class LocalLife:
    """One child process. It leads a session of its own: a Ctrl-C at the terminal reaches the tool, never the server."""

    def __init__(self, launch: Launch, process: subprocess.Popen[bytes], started_at: float) -> None:
        self._launch = launch
        self._process = process
        self._started_at = started_at
        # Our child is not reaped before we ask, so its number can't have become another process' yet.
        self._pidfd = os.pidfd_open(process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def started_at(self) -> float:
        return self._started_at

    @property
    def launch(self) -> Launch:
        return self._launch

    def exit_fd(self) -> int:
        return self._pidfd

    def exited(self) -> Exit | None:
        code = self._process.poll()
        if code is None:
            return None
        return Exit(code=None, signal=-code) if code < 0 else Exit(code=code, signal=None)

    def wait(self, timeout_s: float) -> Exit | None:
        if self._process.returncode is None:
            poller = select.poll()
            poller.register(self._pidfd, select.POLLIN)
            poller.poll(max(0, int(timeout_s * 1000)))
        return self.exited()

    def signal(self, number: int) -> None:
        """To this very process; nothing happens where it has ended already."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.close(self._pidfd)


class LocalLauncher:
    """Starts servers of this host, as the user who runs the tool."""

    def launch(self, launch: Launch) -> LocalLife:
        _check_socket_path(launch.socket)
        options_file = self._prepare(launch)
        command = [str(launch.build.mysqld), f"--defaults-file={options_file}"]
        with contextlib.ExitStack() as stack:
            log = _new_log(launch.log)
            stack.callback(os.close, log)
            source = os.open(launch.stdin or os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, source)
            stack.enter_context(_limited_open_files())
            if launch.group is None:
                started_at = time.monotonic()
                process = _spawn(command, launch, stdin=source, log=log)
            else:
                process, started_at = spawn_in(
                    launch.group,
                    command,
                    source=launch.stdin or Path(os.devnull),
                    log=log,
                    environment=_environment(launch),
                    cwd=launch.rundir,
                )
        try:
            return LocalLife(launch, process, started_at)
        except BaseException as error:
            process.kill()
            process.wait()
            if not isinstance(error, OSError):
                raise
            raise HostUnfitError(
                f"the server's process cannot be watched: {error.strerror}",
                "see `ulimit -n`, and that the kernel has pidfd",
            ) from error

    def _prepare(self, launch: Launch) -> Path:
        try:
            launch.rundir.mkdir(mode=0o700, parents=True)
            options_file = launch.rundir / "my.cnf"
            template = (template_dir() / "my.cnf.j2").read_text(encoding="utf-8")
            options_file.write_text(render_cnf(merge(places(launch), launch.settings), template), encoding="utf-8")
        except OSError as error:
            raise RecoveryError(
                f"can't prepare the server's run folder: {error}", "see that the folder for temporary files is writable"
            ) from error
        return options_file


def places(launch: Launch) -> Settings:
    """The options that only the launcher knows, since they say where things are on its side."""
    build = launch.build
    settings = {
        "basedir": str(build.basedir),
        "datadir": str(launch.datadir),
        "open_files_limit": str(open_files_limit()),
    }
    messages = _messages_dir(build)
    if messages is not None:
        settings["lc_messages_dir"] = str(messages)
    if os.geteuid() == 0:
        # mysqld refuses to run as root unless it is told to.
        settings["user"] = "root"
    return settings


def open_files_limit() -> int:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)


def _messages_dir(build: Build) -> Path | None:
    """The folder that holds english/errmsg.sys; a server that is not told looks where it was compiled to be."""
    for folder in ("share", "share/mysql", "share/mariadb"):
        if (build.basedir / folder / "english" / "errmsg.sys").is_file():
            return build.basedir / folder
    return None


def _check_socket_path(socket: Path) -> None:
    length = len(os.fsencode(socket))
    if length > _SOCKET_PATH_BYTES:
        raise UsageError(
            f"the server's socket path has {length} bytes, {_SOCKET_PATH_BYTES} are allowed: {socket}",
            "set TMPDIR to a folder with a shorter name",
        )


def _new_log(path: Path) -> int:
    """A log of this Life alone: an earlier one is never appended to."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except FileExistsError as error:
        raise RecoveryError(
            f"there is a log of another start already: {path}", "each start needs a log of its own"
        ) from error
    except OSError as error:
        raise RecoveryError(
            f"can't write the server's log: {error}", "see that the folder for temporary files (TMPDIR) is writable"
        ) from error


@contextlib.contextmanager
def _limited_open_files() -> Iterator[None]:
    """mysqld takes a soft limit above what it was asked to use, so the child gets no more than that from us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files_limit(), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _environment(launch: Launch) -> dict[str, str]:
    environment = {"PATH": os.defpath, "TZ": "UTC", "LC_ALL": "C", "HOME": str(launch.rundir)}
    if launch.build.library_dirs:
        environment["LD_LIBRARY_PATH"] = ":".join(map(str, launch.build.library_dirs))
    if launch.preload:
        environment["LD_PRELOAD"] = ":".join(map(str, launch.preload))
    return environment


def _spawn(command: list[str], launch: Launch, *, stdin: int, log: int) -> subprocess.Popen[bytes]:
    environment = _environment(launch)
    try:
        return subprocess.Popen(
            command, stdin=stdin, stdout=log, stderr=log, env=environment, cwd=launch.rundir, start_new_session=True
        )
    except OSError as error:
        raise ServerFailedError(
            f"{launch.build.mysqld} can't be run: {error.strerror}", "is it a mysqld for this system and CPU?"
        ) from error
