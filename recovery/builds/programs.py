"""How is a client program run that fetches something, and what was its reason if it failed?"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from recovery.errors import RecoveryError

_LIMIT_S = 3600

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
