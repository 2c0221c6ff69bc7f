"""How does a server in an image become a process of this host, and how does that process end?

The container is described, created, started and removed by testcontainers. Its own ways to wait are not used: it reads
the whole log once a second. The moment of exec, the log, the signals and the end are those of the process itself."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import requests
from docker.errors import APIError, DockerException, NotFound
from docker.types import LogConfig, Mount, Ulimit
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from recovery.errors import HostUnfitError, ServerFailedError
from recovery.linux import docker_engine
from recovery.linux.files import mark
from recovery.linux.signals import a_server_was_stopped
from recovery.mysqld.launcher import Exit, Launch
from recovery.mysqld.local import HeldProcess, environment, new_log, open_files_limit, write_options

# When exactly is the server's exec? A process that an engine has made waits at a gate until this tool lets it go.
#
# Between the call to the engine and the exec of mysqld lie some tenths of a second which are the engine's, not the
# server's. So the container begins as a shell that says that it is there, waits, and becomes mysqld when told to: the
# moment is known on this tool's own clock, with nothing but a shell needed in the image.

# A word is read and an exec is made in a child first: what the shell needs for both is in the cache then, which has
# just been emptied.
# $1 and $2 are the pipes, $3 the error log, $4 the input; the rest is the command. Once the word has come nothing is
# left to be opened, and the last thing that is done before the exec is to say so: the exec itself reads the server's
# file from a cold disk, which is part of the start. Where no word comes any more, since this tool has died, the shell
# ends.
SCRIPT = (
    'exec 3>"$1" 4<"$2" >>"$3" 2>&1 <"$4"; shift 4; read -r _ <&4; (exec /bin/sh -c : 3>&- 4<&-); '
    'echo here >&3; read -r _ <&4 && echo going >&3 && exec "$@" 4<&- 3>&-'
)
_LOOK_S = 0.1


@dataclass(frozen=True)
class Opening:
    released_at: float
    """On the monotonic clock, right before the word to go: the exec comes after it."""
    error_s: float
    """Until the process was heard to go, which is the last it does before its exec."""


class Gate:
    """Two pipes in a run folder: one says "here", the other says "go"."""

    def __init__(self, rundir: Path) -> None:
        self.here, self.go = rundir / "gate-here", rundir / "gate-go"
        self._fds: list[int] = []
        for path, mode in ((self.here, os.O_RDONLY), (self.go, os.O_RDWR)):
            os.mkfifo(path, 0o600)
            self._fds.append(os.open(path, mode | os.O_NONBLOCK | os.O_CLOEXEC))
        os.write(self._fds[1], b"for practice\n")

    def command(self, log: Path, source: Path, command: list[str]) -> list[str]:
        """What the engine has to start in place of the command."""
        return ["/bin/sh", "-c", SCRIPT, "gate", str(self.here), str(self.go), str(log), str(source), *command]

    def wait(self, alive: Callable[[], bool]) -> bool:
        """Until the process stands at the gate; False where it ended before."""
        poller = select.poll()
        poller.register(self._fds[0], select.POLLIN)
        while not poller.poll(_LOOK_S * 1000):
            if not alive():
                return False
        return bool(os.read(self._fds[0], 64))

    def open(self) -> Opening:
        poller = select.poll()
        poller.register(self._fds[0], select.POLLIN)
        released_at = time.monotonic()
        os.write(self._fds[1], b"go\n")
        poller.poll(_LOOK_S * 1000)
        return Opening(released_at, time.monotonic() - released_at)

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())
        for path in (self.here, self.go):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()

    def __enter__(self) -> Gate:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# It would have to be pulled, and it removes what it thinks is left over: leftovers are found by their labels here.
testcontainers_config.ryuk_disabled = True
testcontainers_config.hub_image_name_prefix = ""

_SEE = (
    "let the engine see the folders of DATA, RESULTS and TMPDIR: where this tool runs in a container itself, they are "
    "mounted into it under the same paths, as docker/recovery does"
)
_REMOVED_S = 120
_FEW_FILES = 2048
_CONFLICT = 409
_DIES_S = 1.0
"""So long a killed process is waited for before it is asked whether it is frozen: then no signal reaches it."""
_SIGNAL_BASE = 128
"""What the engine adds to the number of the signal that a process died of."""


class ContainerLife(HeldProcess):
    """The server's process, which is the container's first and only one; until the gate is opened, a shell."""

    def __init__(self, launch: Launch, described: DockerContainer) -> None:
        self._described = described
        self._container = described.get_wrapped_container()
        self._container.reload()
        super().__init__(launch, self._container.attrs["State"]["Pid"], time.monotonic())
        self._exit: Exit | None = None
        self._was_killed = False
        self.started_error_s = 0.0
        self.overhead_s: float | None = None

    def begin(self, gate: Gate) -> None:
        """It becomes the server."""
        opening = gate.open()
        self._started_at, self.started_error_s = opening.released_at, opening.error_s

    def exited(self) -> Exit | None:
        return self.wait(0)

    def wait(self, timeout_s: float) -> Exit | None:
        if self._was_killed and timeout_s > _DIES_S and not self.has_ended(_DIES_S):
            self._thaw()
        if self._exit is None and self.has_ended(timeout_s):
            self._exit = self._bury()
        return self._exit

    def signal(self, number: int) -> None:
        """Not through the engine, which takes longer; and not from inside, where the first process would not hear."""
        try:
            super().signal(number)
        except PermissionError:  # another user's, where the engine gives ids away
            with docker_engine.errors_told(), suppress(NotFound):
                self._container.kill(signal=number)
        self._was_killed = number == signal.SIGKILL

    def _thaw(self) -> None:
        """A container that somebody has paused dies once it goes on."""
        with suppress(DockerException, requests.RequestException):
            self._container.reload()
            if self._container.status == "paused":
                self._container.unpause()

    def _was_paused(self) -> bool:
        """Nothing on the host remembers it after it went on, but for the engine, which keeps its last 256 events. Asked
        once, of a process that has ended, so that it takes nothing from what was timed."""
        with suppress(DockerException, requests.RequestException):
            filters = {"container": self._container.id, "event": "pause"}
            until: Any = f"{time.time():.6f}"  # in whole seconds the last one would be lacking, or waited for
            client = self._container.client
            return client is not None and any(client.events(since=1, until=until, filters=filters, decode=True))
        return False

    def _bury(self) -> Exit:
        """The engine notices some hundredths of a second later. Nothing of the container stays."""
        if self._was_paused():
            a_server_was_stopped("somebody paused the server's container meanwhile (`docker pause`)")
        code = _SIGNAL_BASE + signal.SIGKILL  # as it is for one that somebody else has removed
        with docker_engine.errors_told(), _gone_already():
            code = int(self._container.wait(timeout=_REMOVED_S)["StatusCode"])
            self._described.stop(force=True, delete_volume=True)
        return Exit(None, code - _SIGNAL_BASE) if code > _SIGNAL_BASE else Exit(code, None)


@contextmanager
def _gone_already() -> Iterator[None]:
    """Somebody else has removed it, or is about to."""
    try:
        yield
    except NotFound:
        pass
    except APIError as error:
        if error.status_code != _CONFLICT:
            raise


class ContainerLauncher:
    """Starts servers of images, each start in a container of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._open_files = open_files_limit()

    def launch(self, launch: Launch) -> ContainerLife:
        """With as many open files as the engine may give, which only an attempt tells."""
        while True:
            try:
                return self._launch(launch)
            except _TooManyFilesError:
                if self._open_files < _FEW_FILES:
                    raise
            self._open_files //= 2
            shutil.rmtree(launch.rundir)
            launch.log.unlink()

    def _launch(self, launch: Launch) -> ContainerLife:
        assert launch.build.image is not None, "this server is in no image"
        uid, gid = _owner_of(launch.datadir)
        options_file = write_options(launch, open_files=self._open_files, uid=uid)
        command = [str(launch.build.mysqld), f"--defaults-file={options_file}"]
        os.close(new_log(launch.log))
        with Gate(launch.rundir) as gate, docker_engine.errors_told(), ExitStack() as undo:
            for path in (launch.log, launch.rundir, *launch.rundir.iterdir()):
                os.chown(path, uid, gid)
            called_at = time.monotonic()
            described = self._describe(launch, gate.command(launch.log, launch.stdin or Path(os.devnull), command))
            undo.callback(_discard, described)
            _start(described)
            life = _seen(launch, described)
            if not gate.wait(lambda: not life.has_ended()):
                raise ServerFailedError(
                    f"the container of {launch.build.image[:19]} ended before its server was run",
                    "the image needs a /bin/sh; see whether it starts: `docker run --entrypoint /bin/sh IMAGE`",
                )
            life.overhead_s = time.monotonic() - called_at
            check_seen(life.pid, launch.datadir)
            if launch.group is not None:
                launch.group.add(life.pid)
            life.begin(gate)
            undo.pop_all()
            return life

    def _describe(self, launch: Launch, command: list[str]) -> DockerContainer:
        """Nothing that the server does not need; every path is the same inside as outside."""
        described = DockerContainer(
            str(launch.build.image), docker_client_kw={"environment": {"DOCKER_HOST": self._url}}
        ).with_command(command[1:])
        # As mounts, not as volumes: a folder that the engine does not see would be made, empty, on its side.
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
            labels={docker_engine.MADE: "server", docker_engine.OWNER: mark()},
        )


def _owner_of(datadir: Path) -> tuple[int, int]:
    """Who runs the server: without capabilities root itself may not enter what is another's."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    status = datadir.stat()
    return status.st_uid, status.st_gid


class _TooManyFilesError(HostUnfitError):
    """The engine itself may open fewer files than its container was to be allowed."""


def _start(described: DockerContainer) -> None:
    try:
        described.start()
    except APIError as error:
        said = " ".join(str(error.explanation or error).split())
        kind, hint = HostUnfitError, "see the engine's log; ENGINE=local runs the server without it"
        if "rlimit" in said:
            kind, hint = _TooManyFilesError, "let the engine open more files"
        elif any(words in said for words in ("mounts denied", "not shared", "source path does not exist")):
            hint = _SEE
        raise kind(f"the Docker engine cannot start the server's container: {said}", hint) from error


def _seen(launch: Launch, described: DockerContainer) -> ContainerLife:
    try:
        return ContainerLife(launch, described)
    except (OSError, ValueError) as error:
        raise HostUnfitError(
            "the process of the server's container cannot be seen from here",
            "it ended at once; or this tool runs in a container itself, which then needs --pid=host",
        ) from error


def check_seen(pid: int, folder: Path) -> None:
    """Where this tool runs in a container itself, the engine may know another folder by the same path."""
    try:
        there = Path(f"/proc/{pid}/root{folder}").stat()
    except OSError:  # another user's process, or one that has just ended
        return
    if not os.path.samestat(there, folder.stat()):
        raise HostUnfitError(f"the Docker engine sees another folder than this tool as {folder}", _SEE)


def _discard(described: DockerContainer) -> None:
    with suppress(DockerException, requests.RequestException):
        described.stop(force=True, delete_volume=True)
