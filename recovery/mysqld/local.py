"""Runs unpacked servers as child processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from recovery.errors import HostUnfitError, ServerFailedError
from recovery.linux.cgroups import LimitGroup
from recovery.linux.cleanup import kill_with_environment
from recovery.linux.files import refuse_untrusted
from recovery.linux.signals import record_server_stop
from recovery.mysqld.launcher import (
    Exit,
    Launch,
    ServerProcess,
    child_open_files,
    create_log,
    environment,
    open_files_limit,
    prepare_command,
)

# --- Start in a control group
#
# If the server entered its group only after its start, the group would miss what it has read until then. If the tool
# entered the group, the tool would be measured too. So a shell is started, is put into the group, and execs the server
# when it reads a line on its input. The line is written right after the clock is read. From that reading to the
# program's first instruction it takes 0.64 ms through the shell, and 0.41 ms without it (medians of 100).

# $1 is the input; then come the variables of the server's environment up to an empty word, and the command. All of it
# is passed as arguments, so nothing that a user named is ever read as shell code. The exported variables reach only the
# server, because the shell runs nothing else.
_SPAWN_SCRIPT = (
    'exec 4<"$1"; shift; while [ -n "$1" ]; do export "$1"; shift; done; shift; read -r _ && exec "$@" <&4 4<&-'
)


def spawn_in_cgroup(
    group: LimitGroup, command: Sequence[str], *, source: Path, log: int, environment: Mapping[str, str], cwd: Path
) -> tuple[subprocess.Popen[bytes], float]:
    """Starts a command in a control group. Returns the process and the moment of its release. If this tool dies before
    that, the shell reads no line and ends."""
    settings = [f"{name}={value}" for name, value in environment.items()]
    process = subprocess.Popen(
        ["/bin/sh", "-c", _SPAWN_SCRIPT, "entering", str(source), *settings, "", *command],
        stdin=subprocess.PIPE, stdout=log, stderr=log, env={}, cwd=cwd, start_new_session=True, bufsize=0,
    )  # fmt: skip
    assert process.stdin is not None
    try:
        group.add(process.pid)
        started_at = time.monotonic()
        process.stdin.write(b"go\n")
        process.stdin.close()
    except BaseException as error:
        process.kill()
        process.wait()
        if isinstance(error, BrokenPipeError):
            raise HostUnfitError("/bin/sh ended before it became the server", "see whether it works here") from error
        raise
    return process, started_at


# --- Servers as child processes

_LIBRARY_FOLDERS = ("lib/private", "lib/plugin", "lib/mysql/plugin", "lib64/mysql/plugin")
"""Folders below basedir from which a server loads libraries by default."""


class LocalProcess(ServerProcess):
    """A server as a child process. It leads a separate session, so that a Ctrl-C at the terminal reaches the tool but
    never the server."""

    def __init__(self, launch: Launch, process: subprocess.Popen[bytes], started_at: float) -> None:
        # A child is reaped only when we read its exit, so its pid cannot belong to another process yet.
        super().__init__(launch, process.pid, started_at)
        self._process = process

    def _read_exit(self) -> Exit:
        code = self._process.wait()
        return Exit(code=None, signal=-code) if code < 0 else Exit(code=code, signal=None)

    def end_detached(self) -> None:
        kill_with_environment("HOME", str(self.launch.rundir))

    def signal(self, number: int) -> None:
        """Sends a signal, after checking whether somebody has stopped the server. Only the parent process can find that
        out, and only until the server is gone."""
        with contextlib.suppress(ChildProcessError):
            while os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG) is not None:
                record_server_stop("somebody stopped the server meanwhile (SIGSTOP)")
        super().signal(number)


class LocalLauncher:
    """Starts unpacked servers on this host, as the user who runs the tool."""

    def __init__(self, open_files: int | None = None) -> None:
        """Raises HostUnfitError if a server may not open so many files."""
        self._open_files = open_files or open_files_limit()
        with child_open_files(self._open_files):
            pass

    def launch(self, launch: Launch) -> LocalProcess:
        _refuse_untrusted(launch)
        command = prepare_command(launch, open_files=self._open_files)
        with contextlib.ExitStack() as stack:
            log = create_log(launch.log)
            stack.callback(os.close, log)
            source = os.open(launch.stdin or os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, source)
            stack.enter_context(child_open_files(self._open_files))
            if launch.group is None:
                started_at = time.monotonic()
                process = _spawn(command, launch, stdin=source, log=log)
            else:
                process, started_at = spawn_in_cgroup(
                    launch.group,
                    command,
                    source=launch.stdin or Path(os.devnull),
                    log=log,
                    environment=environment(launch),
                    cwd=launch.rundir,
                )
        try:
            return LocalProcess(launch, process, started_at)
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
    """Refuses to start a server if another user can change its data directory: the server does what its files contain,
    as the user of the tool. If that is root, nobody else may be able to change the program, its libraries, messages and
    scripts either. Any other user is free to run the server of somebody else."""
    refuse_untrusted(launch.datadir, "give --data a folder that nobody else can change")
    if os.geteuid() == 0:
        build = launch.build
        loaded = (*build.library_dirs, *(build.basedir / place for place in _LIBRARY_FOLDERS), *launch.preload)
        for path in filter(None, (build.mysqld, *loaded, build.messages, *build.scripts)):
            refuse_untrusted(path, "see who owns it and who may write there, or take another server")


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
            f"{launch.build.mysqld} cannot be run: {error.strerror}", "is it a mysqld for this system and CPU?"
        ) from error
