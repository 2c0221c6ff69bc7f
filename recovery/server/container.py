"""How does a server in an image become a process of this host, and how does that process end?

The container is described, created, started and removed by testcontainers. Its own ways to wait are not used: it reads
the whole log once a second. The moment of exec, the log, the signals and the end are those of the process itself."""

from __future__ import annotations

import os
import select
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests
from docker.errors import APIError, DockerException, NotFound
from docker.types import LogConfig, Mount, Ulimit
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from recovery.errors import HostUnfitError, ServerFailedError
from recovery.host import engine
from recovery.host.owner import mark
from recovery.server.gate import Gate, Opening
from recovery.server.launcher import Exit, Launch
from recovery.server.runfiles import environment, new_log, open_files_limit, write_options

if TYPE_CHECKING:
    from docker.models.containers import Container

# It would have to be pulled, and it removes what it thinks is left over: leftovers are found by their labels here.
testcontainers_config.ryuk_disabled = True
testcontainers_config.hub_image_name_prefix = ""

_SEE = (
    "let the engine see the folders of DATA, RESULTS and TMPDIR: where this tool runs in a container itself, they are "
    "mounted into it under the same paths, as docker/recovery does"
)
_REMOVED_S = 120
_FEW_FILES = 2048
_SIGNAL_BASE = 128
"""What the engine adds to the number of the signal that a process died of."""


class ContainerLife:
    """The server's process, which is the container's first and only one."""

    def __init__(
        self, launch: Launch, container: Container, opening: Opening, *, pidfd: int, overhead_s: float
    ) -> None:
        self._launch = launch
        self._container = container
        self._opening = opening
        self._pidfd = pidfd
        self._pid: int = container.attrs["State"]["Pid"]
        self._exit: Exit | None = None
        self._overhead_s = overhead_s

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def started_at(self) -> float:
        return self._opening.released_at

    @property
    def started_error_s(self) -> float:
        return self._opening.error_s

    @property
    def overhead_s(self) -> float | None:
        return self._overhead_s

    @property
    def launch(self) -> Launch:
        return self._launch

    def exit_fd(self) -> int:
        return self._pidfd

    def exited(self) -> Exit | None:
        return self.wait(0)

    def wait(self, timeout_s: float) -> Exit | None:
        if self._exit is None and _ended(self._pidfd, timeout_s):
            self._exit = self._bury()
        return self._exit

    def signal(self, number: int) -> None:
        """To the process itself; as the first of its namespace it would not hear some of them from inside."""
        with suppress(ProcessLookupError):
            try:
                signal.pidfd_send_signal(self._pidfd, number)
            except PermissionError:  # another user's, where the engine gives ids away
                with engine.errors_told(), suppress(NotFound):
                    self._container.kill(signal=number)

    def _bury(self) -> Exit:
        """The engine notices some hundredths of a second later. Nothing of the container stays."""
        code = _SIGNAL_BASE + signal.SIGKILL  # as it is for one that somebody else has removed
        with engine.errors_told(), suppress(NotFound):
            code = int(self._container.wait(timeout=_REMOVED_S)["StatusCode"])
            self._container.remove(v=True, force=True)
        return Exit(None, code - _SIGNAL_BASE) if code > _SIGNAL_BASE else Exit(code, None)

    def __del__(self) -> None:
        with suppress(OSError, AttributeError):
            os.close(self._pidfd)


class ContainerLauncher:
    """Starts servers of images, each start in a container of its own."""

    def __init__(self, url: str, *, extra: Mapping[str, Any] | None = None) -> None:
        self._url = url
        self._extra = extra or {}
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
        options_file = write_options(launch, open_files=self._open_files)
        command = [str(launch.build.mysqld), f"--defaults-file={options_file}"]
        os.close(new_log(launch.log))
        with Gate(launch.rundir) as gate, engine.errors_told(), ExitStack() as undo:
            called_at = time.monotonic()
            described = self._describe(launch, gate.command(launch.log, launch.stdin or Path(os.devnull), command))
            undo.callback(_discard, described)
            _start(described)
            container = described.get_wrapped_container()
            container.reload()
            pidfd = _pidfd(container)
            undo.callback(os.close, pidfd)
            if not gate.wait(lambda: not _ended(pidfd, 0)):
                raise ServerFailedError(
                    f"the container of {launch.build.image[:19]} ended before its server was run",
                    "the image needs a /bin/sh; see whether it starts: `docker run --entrypoint /bin/sh IMAGE`",
                )
            check_seen(container, launch.datadir)
            here_at = time.monotonic()
            if launch.group is not None:
                launch.group.add(container.attrs["State"]["Pid"])
            life = ContainerLife(launch, container, gate.open(), pidfd=pidfd, overhead_s=here_at - called_at)
            undo.pop_all()
            return life

    def _describe(self, launch: Launch, command: list[str]) -> DockerContainer:
        """Nothing that the server does not need; every path is the same inside as outside."""
        described = DockerContainer(
            str(launch.build.image), docker_client_kw={"environment": {"DOCKER_HOST": self._url}}
        ).with_command(command[1:])
        # As mounts, not as volumes: a folder that the engine does not see would be made, empty, on its side.
        paths = filter(None, (launch.datadir, launch.rundir, launch.log, launch.stdin))
        return described.with_envs(**environment(launch)).with_kwargs(
            entrypoint=command[:1],
            user=f"{os.geteuid()}:{os.getegid()}",
            working_dir=str(launch.rundir),
            mounts=[Mount(str(path), str(path), type="bind") for path in paths],
            network="none",
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            ulimits=[Ulimit(name="nofile", soft=self._open_files, hard=self._open_files)],
            log_config=LogConfig(type=LogConfig.types.NONE),
            labels={engine.MADE: "server", engine.OWNER: mark()},
            **self._extra,
        )


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


def _pidfd(container: Container) -> int:
    pid = container.attrs["State"]["Pid"]
    try:
        return os.pidfd_open(pid)
    except (OSError, ValueError) as error:
        raise HostUnfitError(
            f"the server's process {pid} cannot be seen from here",
            "it ended at once; or this tool runs in a container itself, which then needs --pid=host",
        ) from error


def check_seen(container: Container, folder: Path) -> None:
    """Where this tool runs in a container itself, the engine may know another folder by the same path."""
    try:
        there = Path(f"/proc/{container.attrs['State']['Pid']}/root{folder}").stat()
    except OSError:  # another user's process, or one that has just ended
        return
    if not os.path.samestat(there, folder.stat()):
        raise HostUnfitError(f"the Docker engine sees another folder than this tool as {folder}", _SEE)


def _ended(pidfd: int, timeout_s: float) -> bool:
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(max(0, int(timeout_s * 1000))))


def _discard(described: DockerContainer) -> None:
    with suppress(DockerException, requests.RequestException):
        described.stop(force=True, delete_volume=True)
