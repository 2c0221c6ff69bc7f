"""Runs servers from images: each start is a container, with the server as its only process.

The container is described, created, started and removed by testcontainers. The waits of testcontainers are not used,
because they read the whole log once a second. The moment of exec, the log, the signals and the exit are those of the
process itself."""

from __future__ import annotations

import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from docker.errors import APIError, NotFound
from docker.types import LogConfig, Mount, Ulimit
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from recovery.errors import HostUnfitError, ServerFailedError
from recovery.linux import docker_engine
from recovery.linux.procfs import process_id
from recovery.linux.signals import record_server_stop
from recovery.mysqld.launcher import (
    Exit,
    Launch,
    ServerProcess,
    create_log,
    environment,
    open_files_limit,
    prepare_command,
)

# --- Exec gate: the container's process waits until this tool releases it to exec the server
#
# Between the call to the engine and the exec of mysqld are some tenths of a second that belong to the engine, not to
# the server. So the container begins as a shell that reports that it is there, waits, and execs mysqld when it is
# released. The moment of the exec is then known on this tool's clock, and the image needs nothing but a shell.

# First the shell reads a practice line and makes an exec in a child. That loads what it needs for both into the page
# cache, which has just been emptied.
# $1 and $2 are the pipes, $3 the error log, $4 the input; the rest is the command. After the release nothing is left to
# be opened, and the last step before the exec is to report the release. The exec itself reads the server's file from a
# cold disk, which is part of the start. If no release comes because this tool has died, the shell ends.
GATE_SCRIPT = (
    'exec 3>"$1" 4<"$2" >>"$3" 2>&1 <"$4"; shift 4; read -r _ <&4; (exec /bin/sh -c : 3>&- 4<&-); '
    'echo here >&3; read -r _ <&4 && echo going >&3 && exec "$@" 4<&- 3>&-'
)
_POLL_S = 0.1


class ExecBarrier:
    """Two named pipes in a run folder: through one the process reports, through the other it is released."""

    def __init__(self, rundir: Path) -> None:
        self.here, self.go = rundir / "gate-here", rundir / "gate-go"
        self._fds: list[int] = []
        self._pipes: list[Path] = []
        try:
            for path, mode in ((self.here, os.O_RDONLY), (self.go, os.O_RDWR)):
                os.mkfifo(path, 0o600)
                self._pipes.append(path)
                self._fds.append(os.open(path, mode | os.O_NONBLOCK | os.O_CLOEXEC))
            os.write(self._fds[1], b"for practice\n")
        except BaseException:
            self.close()
            raise

    def command(self, log: Path, source: Path, command: list[str]) -> list[str]:
        """Returns the command that the engine must start instead of `command`."""
        return ["/bin/sh", "-c", GATE_SCRIPT, "gate", str(self.here), str(self.go), str(log), str(source), *command]

    def wait(self, alive: Callable[[], bool]) -> bool:
        """Waits until the process has reached the gate. Returns False if it ended before that."""
        poller = select.poll()
        poller.register(self._fds[0], select.POLLIN)
        while not poller.poll(_POLL_S * 1000):
            if not alive():
                return False
        return bool(os.read(self._fds[0], 64))

    def open(self) -> tuple[float, float]:
        """Releases the process, which becomes the server. Returns the moment right before the release, on the monotonic
        clock, and the seconds until the process reported the release, its last step before the exec."""
        poller = select.poll()
        poller.register(self._fds[0], select.POLLIN)
        released_at = time.monotonic()
        os.write(self._fds[1], b"go\n")
        poller.poll(_POLL_S * 1000)
        return released_at, time.monotonic() - released_at

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())
        while self._pipes:
            self._pipes.pop().unlink(missing_ok=True)

    def __enter__(self) -> ExecBarrier:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- Containers

# Ryuk would have to be pulled, and it removes what it takes for leftovers. Here leftovers are found by their labels.
testcontainers_config.ryuk_disabled = True
testcontainers_config.hub_image_name_prefix = ""

_SHARED_FOLDERS_HINT = (
    "let the engine see the folders of DATA, RESULTS and TMPDIR: where this tool runs in a container itself, they are "
    "mounted into it under the same paths, as docker/recovery does"
)
_REMOVE_TIMEOUT_S = 120
_MIN_OPEN_FILES = 2048
_CONFLICT = 409
_KILL_GRACE_S = 1.0
"""How long to wait for a killed process before checking whether its container is paused: then no signal reaches it."""
_SIGNAL_BASE = 128
"""The engine adds this to the number of the signal that ended a process."""


class ContainerProcess(ServerProcess):
    """The server's process, which is the first and only one of its container. Until the gate opens, it is a shell."""

    def __init__(self, launch: Launch, described: DockerContainer) -> None:
        self._described = described
        self._container = described.get_wrapped_container()
        self._container.reload()
        super().__init__(launch, self._container.attrs["State"]["Pid"], time.monotonic())
        self._was_killed = False

    def wait(self, timeout_s: float) -> Exit | None:
        if self._was_killed and timeout_s > _KILL_GRACE_S and not self.has_ended(_KILL_GRACE_S):
            with suppress(*docker_engine.ENGINE_ERRORS):
                self._container.reload()
                if self._container.status == "paused":
                    self._container.unpause()
        return super().wait(timeout_s)

    def signal(self, number: int) -> None:
        """Sends a signal directly. The engine would take longer, and inside a container the first process would not
        receive it."""
        try:
            super().signal(number)
        except PermissionError:  # another user's process, where the engine assigns other user ids
            with docker_engine.engine_errors(), suppress(NotFound):
                self._container.kill(signal=number)
        self._was_killed = number == signal.SIGKILL

    def _was_paused(self) -> bool:
        """Returns whether somebody paused the container. After it was unpaused only the engine knows that, from its
        last 256 events. The engine is asked once, after the process has ended, so that this does not affect what is
        timed."""
        with suppress(*docker_engine.ENGINE_ERRORS):
            filters = {"container": self._container.id, "event": "pause"}
            until: Any = f"{time.time():.6f}"  # with whole seconds the last event would be missing, or waited for
            client = self._container.client
            return client is not None and any(client.events(since=1, until=until, filters=filters, decode=True))
        return False

    def _read_exit(self) -> Exit:
        """Waits until the engine has noticed the end, some hundredths of a second later, removes the container and
        returns the exit."""
        if self._was_paused():
            record_server_stop("somebody paused the server's container meanwhile (`docker pause`)")
        code = _SIGNAL_BASE + signal.SIGKILL  # the exit code if somebody else has removed the container
        with docker_engine.engine_errors(), _ignore_removed():
            code = int(self._container.wait(timeout=_REMOVE_TIMEOUT_S)["StatusCode"])
            self._described.stop(force=True, delete_volume=True)
        return Exit(None, code - _SIGNAL_BASE) if code > _SIGNAL_BASE else Exit(code, None)


@contextmanager
def _ignore_removed() -> Iterator[None]:
    """Ignores the errors of a container that somebody else has removed, or is about to remove."""
    try:
        yield
    except NotFound:
        pass
    except APIError as error:
        if error.status_code != _CONFLICT:
            raise


class ContainerLauncher:
    """Starts servers from images, each start in a new container."""

    def __init__(self, url: str, open_files: int | None = None) -> None:
        self._url = url
        self._open_files = open_files or open_files_limit()
        self._is_default = open_files is None

    def launch(self, launch: Launch) -> ContainerProcess:
        """Starts a server with as many open files as the engine may allow.

        Only an attempt shows that, so the default is halved until one succeeds."""
        while True:
            try:
                return self._launch(launch)
            except _TooManyFilesError:
                if not self._is_default or self._open_files < _MIN_OPEN_FILES:
                    raise
            self._open_files //= 2
            shutil.rmtree(launch.rundir)
            launch.log.unlink()

    def _launch(self, launch: Launch) -> ContainerProcess:
        assert launch.build.image is not None, "this server is in no image"
        uid, gid = _owner_of(launch.datadir)
        command = prepare_command(launch, open_files=self._open_files, uid=uid)
        os.close(create_log(launch.log))
        with ExecBarrier(launch.rundir) as gate, docker_engine.engine_errors(), ExitStack() as undo:
            for path in (launch.log, launch.rundir, *launch.rundir.iterdir()):
                os.chown(path, uid, gid)
            called_at = time.monotonic()
            described = self._describe(launch, gate.command(launch.log, launch.stdin or Path(os.devnull), command))
            undo.callback(_discard, described)
            _start(described)
            process = _attach(launch, described)
            if not gate.wait(lambda: not process.has_ended()):
                raise ServerFailedError(
                    f"the container of {launch.build.image[:19]} ended before its server was run",
                    "the image needs a /bin/sh; see whether it starts: `docker run --entrypoint /bin/sh IMAGE`",
                )
            process.overhead_s = time.monotonic() - called_at
            check_same_folder(process.pid, launch.datadir)
            if launch.group is not None:
                launch.group.add(process.pid)
            process.started_at, process.started_error_s = gate.open()
            undo.pop_all()
            return process

    def _describe(self, launch: Launch, command: list[str]) -> DockerContainer:
        """Returns the description of the container. It has nothing that the server does not need, and every path is the
        same inside and outside."""
        described = DockerContainer(
            str(launch.build.image), docker_client_kw={"environment": {"DOCKER_HOST": self._url}}
        ).with_command(command[1:])
        # As mounts, not as volumes: for a volume the engine would create an empty folder where it does not see ours.
        paths = filter(None, (launch.datadir, launch.keys, launch.rundir, launch.log, launch.stdin))
        return described.with_envs(**environment(launch)).with_kwargs(
            entrypoint=command[:1],
            user="{}:{}".format(*_owner_of(launch.datadir)),
            working_dir=str(launch.rundir),
            mounts=[
                *(Mount(str(path), str(path), type="bind") for path in paths),
                *(Mount(str(path), str(path), type="bind", read_only=True) for path in launch.build.mounted),
            ],
            network="none",
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            ulimits=[Ulimit(name="nofile", soft=self._open_files, hard=self._open_files)],
            log_config=LogConfig(type=LogConfig.types.NONE),
            labels={docker_engine.PURPOSE: "server", docker_engine.OWNER: process_id()},
        )


def _owner_of(datadir: Path) -> tuple[int, int]:
    """Returns the user and the group that run the server. Without capabilities not even root may enter the folders of
    another user."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    status = datadir.stat()
    return status.st_uid, status.st_gid


class _TooManyFilesError(HostUnfitError):
    """Raised if the engine itself may open fewer files than the limit that its container was given."""


def _start(described: DockerContainer) -> None:
    try:
        described.start()
    except APIError as error:
        message = " ".join(str(error.explanation or error).split())
        kind, hint = HostUnfitError, "see the engine's log; --engine local runs the server without it"
        if "rlimit" in message:
            kind, hint = _TooManyFilesError, "give fewer --open-files, or let the engine open more"
        elif any(words in message for words in ("mounts denied", "not shared", "source path does not exist")):
            hint = _SHARED_FOLDERS_HINT
        raise kind(f"the Docker engine cannot start the server's container: {message}", hint) from error


def _attach(launch: Launch, described: DockerContainer) -> ContainerProcess:
    try:
        return ContainerProcess(launch, described)
    except (OSError, ValueError) as error:
        raise HostUnfitError(
            "the process of the server's container cannot be seen from here",
            "it ended at once; or this tool runs in a container itself, which then needs --pid=host",
        ) from error


def check_same_folder(pid: int, folder: Path) -> None:
    """Raises HostUnfitError if the engine sees another folder at this path, which happens if this tool itself runs in a
    container."""
    try:
        there = Path(f"/proc/{pid}/root{folder}").stat()
    except OSError:  # another user's process, or one that has just ended
        return
    if not os.path.samestat(there, folder.stat()):
        raise HostUnfitError(f"the Docker engine sees another folder than this tool as {folder}", _SHARED_FOLDERS_HINT)


def _discard(described: DockerContainer) -> None:
    with suppress(*docker_engine.ENGINE_ERRORS):
        described.stop(force=True, delete_volume=True)
