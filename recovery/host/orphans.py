"""Is a server still running whose owner was killed? It holds the data directory's files, and nobody waits for it."""

from __future__ import annotations

from pathlib import Path

import psutil

from recovery.errors import HostUnfitError

_PATIENCE_S = 60.0


def end_servers_in(folder: Path, *names: str) -> tuple[int, ...]:
    """SIGKILL to every process so called that works in this folder, as a server does in its data directory. Only
    for who holds the directory's lock: then the owner of any such process is dead. Returns their ids, once gone."""
    found = [process for process in psutil.process_iter() if _works_in(process, folder, names)]
    for process in found:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
        except psutil.AccessDenied as error:
            raise HostUnfitError(
                f"server {process.pid} runs over {folder} and is another user's", "end it, or give DATA= another folder"
            ) from error
    _, alive = psutil.wait_procs(found, timeout=_PATIENCE_S)
    if alive:
        raise HostUnfitError(
            f"server {alive[0].pid} runs over {folder} and cannot be killed", "see what its storage waits for"
        )
    return tuple(process.pid for process in found)


def _works_in(process: psutil.Process, folder: Path, names: tuple[str, ...]) -> bool:
    try:
        return process.cwd() == str(folder.resolve()) and process.name() in names
    except psutil.Error:  # gone, or another user's
        return False
