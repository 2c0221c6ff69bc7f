"""How does a process come into its control group before it becomes a server? It waits for a word on its input.

A group that a process enters only after its start would miss what it has read until then, and a tool that enters it
itself would be measured along. So a shell is started, is put into the group, and then told to become the server. The
word is written right after the clock was read: a small program's own first look at the clock came 0.64 ms after that
(median of 100), and 0.41 ms after it when it was started as without limits."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from recovery.errors import HostUnfitError
from recovery.host.limits import Group


def spawn_in(
    group: Group, command: Sequence[str], *, source: Path, log: int, environment: Mapping[str, str], cwd: Path
) -> tuple[subprocess.Popen[bytes], float]:
    """The process, and the moment it was let go. Where this tool dies first, the shell reads no word, and ends."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", _script(command, source, environment)],
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


def _script(command: Sequence[str], source: Path, environment: Mapping[str, str]) -> str:
    """The server's own environment (libraries in front of the loader's) must not be the shell's."""
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
    return f"read -r _ && export {settings} && exec {shlex.join(command)} <{shlex.quote(str(source))}"
