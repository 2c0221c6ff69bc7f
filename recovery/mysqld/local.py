"""Runs unpacked servers as child processes, and has what the processes of every engine share: the options file, the log
file, the environment and the process descriptor."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from recovery.errors import HostUnfitError, RecoveryError, ServerFailedError, UsageError
from recovery.linux.cgroups import LimitGroup
from recovery.linux.files import create_private_folder, refuse_untrusted, template_dir
from recovery.linux.signals import record_server_stop
from recovery.mysqld.launcher import Exit, Launch
from recovery.mysqld.options import Settings, key_settings, merge, render_cnf

# --- Options file, environment and log of a server, for every engine

_SOCKET_PATH_BYTES = 107
"""Longest path in a sockaddr_un, without the closing NUL."""
_MAX_OPEN_FILES = 20_000
"""Highest open-files limit. A higher one, or "unlimited", makes 5.6 and 5.7 allocate gigabytes and close a billion
descriptors one by one."""


def write_options(launch: Launch, *, open_files: int, uid: int | None = None) -> Path:
    """Creates the run folder, writes my.cnf into it and returns its path. The server will run as the user of the tool,
    or as `uid`."""
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
            f"can't prepare the server's run folder: {error}", "see that the folder for temporary files is writable"
        ) from error
    return options_file


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
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_OPEN_FILES)


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
            f"can't write the server's log: {error}", "see that the folder for temporary files (TMPDIR) is writable"
        ) from error


# --- Process descriptor, for every engine: no later process can be taken for this one


class PidfdProcess:
    """A process that is watched and signalled through its descriptor. How its exit status is read depends on the
    engine, so subclasses do that."""

    def __init__(self, launch: Launch, pid: int, started_at: float) -> None:
        """Raises OSError if there is no such process, or if it cannot be seen from here."""
        self._launch = launch
        self._pid = pid
        self._started_at = started_at
        self._pidfd = os.pidfd_open(pid)

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def started_at(self) -> float:
        return self._started_at

    @property
    def launch(self) -> Launch:
        return self._launch

    def exit_fd(self) -> int:
        return self._pidfd

    def has_ended(self, timeout_s: float = 0) -> bool:
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return bool(poller.poll(max(0, int(timeout_s * 1000))))

    def signal(self, number: int) -> None:
        """Sends a signal to this very process; does nothing if it has already ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.close(self._pidfd)


# --- Start in a control group
#
# If the server entered its group only after its start, the group would miss what it has read until then. If the tool
# entered the group, the tool would be measured too. So a shell is started, is put into the group, and execs the server
# when it reads a line on its input. The line is written right after the clock is read. A small program started this way
# read the clock 0.64 ms later (median of 100), and 0.41 ms later when it was started as without limits.

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


class LocalProcess(PidfdProcess):
    """A server as a child process. It leads a separate session, so that a Ctrl-C at the terminal reaches the tool but
    never the server."""

    started_error_s = 0.0
    overhead_s: float | None = None

    def __init__(self, launch: Launch, process: subprocess.Popen[bytes], started_at: float) -> None:
        # A child is reaped only when we poll it, so its pid cannot belong to another process yet.
        super().__init__(launch, process.pid, started_at)
        self._process = process

    def exited(self) -> Exit | None:
        code = self._process.poll()
        if code is None:
            return None
        return Exit(code=None, signal=-code) if code < 0 else Exit(code=code, signal=None)

    def signal(self, number: int) -> None:
        """Sends a signal, after checking whether somebody has stopped the server. Only the parent process can find that
        out, and only until the server is gone."""
        with contextlib.suppress(ChildProcessError):
            while os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG) is not None:
                record_server_stop("somebody stopped the server meanwhile (SIGSTOP)")
        super().signal(number)

    def wait(self, timeout_s: float) -> Exit | None:
        if self._process.returncode is None:
            self.has_ended(timeout_s)
        return self.exited()


class LocalLauncher:
    """Starts unpacked servers on this host, as the user who runs the tool."""

    def launch(self, launch: Launch) -> LocalProcess:
        _refuse_untrusted(launch)
        options_file = write_options(launch, open_files=open_files_limit())
        command = [str(launch.build.mysqld), f"--defaults-file={options_file}"]
        with contextlib.ExitStack() as stack:
            log = create_log(launch.log)
            stack.callback(os.close, log)
            source = os.open(launch.stdin or os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, source)
            stack.enter_context(limited_open_files())
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
    refuse_untrusted(launch.datadir, "give DATA= a folder that nobody else can change")
    if os.geteuid() == 0:
        build = launch.build
        loaded = (*build.library_dirs, *(build.basedir / place for place in _LIBRARY_FOLDERS), *launch.preload)
        for path in filter(None, (build.mysqld, *loaded, build.messages, *build.scripts)):
            refuse_untrusted(path, "see who owns it and who may write there, or take another server")


@contextlib.contextmanager
def limited_open_files() -> Iterator[None]:
    """Sets the soft limit of open files while a child is started: mysqld uses a soft limit above the one in its
    options, so the child must not inherit a higher one."""
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
