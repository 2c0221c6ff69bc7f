"""How does an unpacked mysqld become a process of this host, and how does that process end?"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from recovery.errors import HostUnfitError, ServerFailedError
from recovery.host.standstill import a_server_was_stopped
from recovery.ownership import refuse_untrusted
from recovery.server.entering import spawn_in
from recovery.server.held import HeldProcess
from recovery.server.launcher import Exit, Launch
from recovery.server.runfiles import environment, new_log, open_files_limit, write_options

_LOADED_FROM = ("lib/private", "lib/plugin", "lib/mysql/plugin", "lib64/mysql/plugin")
"""In a server's own folder: libraries that it finds there by itself."""


class LocalLife(HeldProcess):
    """One child process. It leads a session of its own: a Ctrl-C at the terminal reaches the tool, never the server."""

    started_error_s = 0.0
    overhead_s: float | None = None

    def __init__(self, launch: Launch, process: subprocess.Popen[bytes], started_at: float) -> None:
        # Our child is not reaped before we ask, so its number can't have become another process' yet.
        super().__init__(launch, process.pid, started_at)
        self._process = process

    def exited(self) -> Exit | None:
        code = self._process.poll()
        if code is None:
            return None
        return Exit(code=None, signal=-code) if code < 0 else Exit(code=code, signal=None)

    def signal(self, number: int) -> None:
        """What has happened to it until then is known to its parent alone, and not any more once it is gone."""
        with contextlib.suppress(ChildProcessError):
            while os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG) is not None:
                a_server_was_stopped("somebody stopped the server meanwhile (SIGSTOP)")
        super().signal(number)

    def wait(self, timeout_s: float) -> Exit | None:
        if self._process.returncode is None:
            self.has_ended(timeout_s)
        return self.exited()


class LocalLauncher:
    """Starts servers of this host, as the user who runs the tool."""

    def launch(self, launch: Launch) -> LocalLife:
        _refuse_untrusted(launch)
        options_file = write_options(launch, open_files=open_files_limit())
        command = [str(launch.build.mysqld), f"--defaults-file={options_file}"]
        with contextlib.ExitStack() as stack:
            log = new_log(launch.log)
            stack.callback(os.close, log)
            source = os.open(launch.stdin or os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, source)
            stack.enter_context(limited_open_files())
            if launch.group is None:
                started_at = time.monotonic()
                process = _spawn(command, launch, stdin=source, log=log)
            else:
                process, started_at = spawn_in(
                    launch.group,
                    command,
                    source=launch.stdin or Path(os.devnull),
                    log=log,
                    environment=environment(launch),
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


def _refuse_untrusted(launch: Launch) -> None:
    """Refuses to start a server whose files another user can change: what they say, it does as the user of the tool.
    What root runs nobody else may change either; whose server any other user runs is their own choice."""
    refuse_untrusted(launch.datadir, "give DATA= a folder that nobody else can change")
    if os.geteuid() == 0:
        build = launch.build
        loaded = (*build.library_dirs, *(build.basedir / place for place in _LOADED_FROM), *launch.preload)
        for path in filter(None, (build.mysqld, *loaded, build.messages, *build.scripts)):
            refuse_untrusted(path, "see who owns it and who may write there, or take another server")


@contextlib.contextmanager
def limited_open_files() -> Iterator[None]:
    """mysqld takes a soft limit above what it was asked to use, so the child gets no more than that from us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files_limit(), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _spawn(command: list[str], launch: Launch, *, stdin: int, log: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=log,
            stderr=log,
            env=environment(launch),
            cwd=launch.rundir,
            start_new_session=True,
        )
    except OSError as error:
        raise ServerFailedError(
            f"{launch.build.mysqld} can't be run: {error.strerror}", "is it a mysqld for this system and CPU?"
        ) from error
