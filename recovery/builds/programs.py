"""How is a client program run that fetches something, and what was its reason if it failed? What does a program
answer that nobody here knows?"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from recovery.errors import RecoveryError

_LIMIT_S = 3600
_ANSWER_LIMIT_S = 30
_LONGEST_ANSWER = 64 << 10

# Advice that the clients print after the reason, and notes that are none.
_BOILERPLATE = re.compile(
    r"^(\[ERROR\]\s*)?(\[Help \d|Re-run Maven|To see the full|For more information|After correcting)"
    r"|complete log of this run|_logs/|^npm (notice|warn)|^[WN]: |^\s*$|^\[ERROR\]\s*$|^npm (ERR!|error)\s*$",
    re.IGNORECASE,
)
_URL_ASIDE = re.compile(r"\s*\(https?://[^\s)]+\)")
_URL = re.compile(r"https?://[^\s),;]+")
_HOST = re.compile(r"\b(?:[a-z0-9-]+\.)+(?:org|com|net|io|dev|local|test|invalid)\b(?::\d+)?(?![\w.:-])", re.IGNORECASE)
_PREFIX = re.compile(r"^(\[ERROR\]|npm (ERR!|error)|E:)\s*")


class ClientFailedError(RecoveryError):
    """The message is the program's own reason."""


def run(*command: str, folder: Path, environment: Mapping[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=False,
            env={**os.environ, **(environment or {}), "LC_ALL": "C"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ClientFailedError(f"it did not end within {_LIMIT_S} s", "check the network") from None
    if done.returncode != 0:
        said = (done.stdout + b"\n" + done.stderr).decode(errors="replace")
        raise ClientFailedError(reason(said), "check the network")


class NoAnswerError(RecoveryError):
    """The message is what the program does instead."""


def answer(
    *command: str | Path,
    environment: Mapping[str, str],
    folder: Path | None = None,
    longest: int = _LONGEST_ANSWER,
    errors: int = subprocess.STDOUT,
) -> str:
    """Return what the program prints until it ends, with its errors where these go to standard output.

    NoAnswerError where it takes too long or prints too much. Nothing of its process group is left running."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment,
        start_new_session=True, cwd=folder,
    )  # fmt: skip
    with process:
        try:
            return _printed(process, longest).decode(errors="replace").strip()
        finally:
            # It is not waited for before: until then nobody else gets its number.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _printed(process: subprocess.Popen[bytes], longest: int) -> bytes:
    """Ends with the process, too: one that it started may hold the pipe open."""
    assert process.stdout is not None
    pipe, ended = process.stdout.fileno(), os.pidfd_open(process.pid)
    try:
        poller, pipe_alone = select.poll(), select.poll()
        poller.register(pipe, select.POLLIN)
        pipe_alone.register(pipe, select.POLLIN)
        poller.register(ended, select.POLLIN)
        give_up = time.monotonic() + _ANSWER_LIMIT_S
        printed = b""
        while len(printed) <= longest:
            ready = dict(poller.poll(max(0, give_up - time.monotonic()) * 1000))
            if not ready or time.monotonic() > give_up:
                raise NoAnswerError(f"it does not answer within {_ANSWER_LIMIT_S} s")
            if pipe not in ready:  # the process has ended: what it printed last may have come since
                ready = dict(pipe_alone.poll(0))
            piece = os.read(pipe, 64 << 10) if pipe in ready else b""
            if not piece:
                return printed
            printed += piece
        raise NoAnswerError(f"it prints more than {longest >> 10} KiB")
    finally:
        os.close(ended)


def reason(output: str) -> str:
    """The last line that says something, without the names of hosts: they are the client's business."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    lines = [line.strip() for line in plain.splitlines() if not _BOILERPLATE.search(line.strip())]
    if not lines:
        return "it gave no reason"
    line = _PREFIX.sub("", lines[-1]).split(" -> [Help")[0]
    line = _HOST.sub("its host", _URL.sub("its host", _URL_ASIDE.sub("", line)))
    line = " ".join(line.split())
    return line if len(line) <= 200 else line[:199] + "…"
