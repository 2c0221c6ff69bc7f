"""When exactly is the server's exec? A process that an engine has made waits at a gate until this tool lets it go.

Between the call to the engine and the exec of mysqld lie some tenths of a second which are the engine's, not the
server's. So the container begins as a shell that says that it is there, waits, and becomes mysqld when told to: the
moment is known on this tool's own clock, with nothing but a shell needed in the image."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

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
