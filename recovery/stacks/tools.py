"""How are the programs run that look into a server? Apart from the terminal, and without asking a network."""

from __future__ import annotations

import os
import subprocess

LIMIT_S = 120.0
"""For one answer: symbols of a server with debugging information are a gigabyte."""


def environment() -> dict[str, str]:
    """Without what lets a debugger fetch symbols from somewhere in the middle of a start."""
    return {name: value for name, value in os.environ.items() if name != "DEBUGINFOD_URLS"} | {"LC_ALL": "C"}


def run(command: list[str], *, limit_s: float, given: str | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command, input=(given or "").encode(), capture_output=True, timeout=limit_s, env=environment(),
        start_new_session=True, check=False,
    )  # fmt: skip


def last_line(told: bytes) -> str:
    lines = (line.strip() for line in reversed(told.decode(errors="replace").splitlines()))
    return next((line for line in lines if line), "")
