"""How does a process come into its control group before it becomes a server? It waits for a word on its input.

A group that a process enters only after its start would miss what it has read until then, and a tool that enters it
itself would be measured along. So a shell is started, is put into the group, and then told to become the server. The
word is written right after the clock was read: a small program's own first look at the clock came 0.64 ms after that
(median of 100), and 0.41 ms after it when it was started as without limits."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from recovery.errors import HostUnfitError
from recovery.host.limits import Group

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
