"""How does an unpacked mysqld become a process of this host, and how does that process end?"""

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
from recovery.linux.cgroups import Group
from recovery.linux.files import made_private, refuse_untrusted, template_dir
from recovery.linux.signals import a_server_was_stopped
from recovery.mysqld.launcher import Exit, Launch
from recovery.mysqld.options import Settings, key_settings, merge, render_cnf

# What must lie ready before a server's process can begin: its options file, and a log of its own.

_SOCKET_PATH_BYTES = 107
"""What sockaddr_un holds, without the closing NUL."""
_OPEN_FILES = 20_000
"""More, or "unlimited", makes 5.6 and 5.7 allocate gigabytes and close a billion descriptors one by one."""


def write_options(launch: Launch, *, open_files: int, uid: int | None = None) -> Path:
    """my.cnf in the run folder, which is made for it; for a server that runs as the user of the tool, or as `uid`."""
    _check_socket_path(launch.socket)
    try:
        launch.rundir.mkdir(mode=0o700, parents=True)
        options_file = launch.rundir / "my.cnf"
        template = (template_dir() / "my.cnf.j2").read_text(encoding="utf-8")
        options_file.write_text(
            render_cnf(merge(_places(launch, open_files, uid), launch.settings), template), encoding="utf-8"
        )
    except OSError as error:
        raise RecoveryError(
            f"can't prepare the server's run folder: {error}", "see that the folder for temporary files is writable"
        ) from error
    return options_file


def _places(launch: Launch, open_files: int, uid: int | None) -> Settings:
    """The options that say where things are."""
    build = launch.build
    settings = {
        "basedir": str(build.basedir),
        "datadir": str(launch.datadir),
        "open_files_limit": str(open_files),
    }
    if build.messages is not None:
        settings["lc_messages_dir"] = str(build.messages)
    if (os.geteuid() if uid is None else uid) == 0:
        # mysqld refuses to run as root unless it is told to.
        settings["user"] = "root"
    return settings | (key_settings(build.version, launch.keys) if launch.keys else {})


def environment(launch: Launch) -> dict[str, str]:
    """Nothing of the caller's own: neither language nor time zone may change what a log says."""
    variables = {"PATH": os.defpath, "TZ": "UTC", "LC_ALL": "C", "HOME": str(launch.rundir)}
    if launch.build.library_dirs:
        variables["LD_LIBRARY_PATH"] = ":".join(map(str, launch.build.library_dirs))
    if launch.preload:
        variables["LD_PRELOAD"] = ":".join(map(str, launch.preload))
    return variables


def open_files_limit() -> int:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)


def _check_socket_path(socket: Path) -> None:
    length = len(os.fsencode(socket))
    if length > _SOCKET_PATH_BYTES:
        raise UsageError(
            f"the server's socket path has {length} bytes, {_SOCKET_PATH_BYTES} are allowed: {socket}",
            "set TMPDIR to a folder with a shorter name",
        )


def new_log(path: Path) -> int:
    """A log of this Life alone: an earlier one is never appended to."""
    try:
        made_private(path.parent)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise RecoveryError(
            f"there is a log of another start already: {path}", "each start needs a log of its own"
        ) from error
    except OSError as error:
        raise RecoveryError(
            f"can't write the server's log: {error}", "see that the folder for temporary files (TMPDIR) is writable"
        ) from error


# What do processes of every engine have in common? A descriptor, so that no later process is taken for this one.


class HeldProcess:
    """Watched and signalled by its descriptor. How its end is learnt is the engine's own affair."""

    def __init__(self, launch: Launch, pid: int, started_at: float) -> None:
        """OSError where there is no such process, or it can't be seen from here."""
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
        """To this very process; nothing happens where it has ended already."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.close(self._pidfd)


# How does a process come into its control group before it becomes a server? It waits for a word on its input.
#
# A group that a process enters only after its start would miss what it has read until then, and a tool that enters it
# itself would be measured along. So a shell is started, is put into the group, and then told to become the server.
# The word is written right after the clock was read: a small program's own first look at the clock came 0.64 ms after
# that (median of 100), and 0.41 ms after it when it was started as without limits.

# $1 is the input; then come the settings of the server's environment up to an empty word, and the command. All of it
# is the shell's arguments: nothing of what a user named is ever read as its code. What is exported reaches the server
# alone, for a shell runs nothing else here.
_SCRIPT = 'exec 4<"$1"; shift; while [ -n "$1" ]; do export "$1"; shift; done; shift; read -r _ && exec "$@" <&4 4<&-'


def spawn_in(
    group: Group, command: Sequence[str], *, source: Path, log: int, environment: Mapping[str, str], cwd: Path
) -> tuple[subprocess.Popen[bytes], float]:
    """The process, and the moment it was let go. Where this tool dies first, the shell reads no word, and ends."""
    settings = [f"{name}={value}" for name, value in environment.items()]
    process = subprocess.Popen(
        ["/bin/sh", "-c", _SCRIPT, "entering", str(source), *settings, "", *command],
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
