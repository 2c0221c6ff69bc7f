"""Is a server still running whose owner was killed? It holds the data directory's files, and nobody waits for it."""

from __future__ import annotations

from pathlib import Path

import psutil

_PATIENCE_S = 60.0


def end_servers_in(folder: Path, name: str) -> tuple[int, ...]:
    """SIGKILL to every process called `name` that works in this folder, as a server does in its data directory. Only
    for who holds the directory's lock: then the owner of any such process is dead. Returns their ids, once gone."""
    found = [process for process in psutil.process_iter() if _works_in(process, folder, name)]
    for process in found:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(found, timeout=_PATIENCE_S)
    return tuple(process.pid for process in found)


def _works_in(process: psutil.Process, folder: Path, name: str) -> bool:
    try:
        return process.cwd() == str(folder.resolve()) and process.name() == name
    except psutil.Error:  # gone, or another user's
        return False
