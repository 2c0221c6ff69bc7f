"""Does this really work here? Tried on a small file of our own, which is gone as soon as it is closed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from recovery.host.residency import Probe

_BYTES = 1 << 16


def can_write(folder: Path) -> bool:
    """Tried, not asked: permissions say nothing of a read-only mount, a quota or a full disk."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        return False
    return True


def cachestat_works(folder: Path) -> bool | None:
    """A file just written is in the cache. False where cachestat says otherwise (an overlay); None where the call is
    not there, or no file can be made to ask it of."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_BYTES))
            file.flush()
            probe = Probe()
            resident = probe.resident_bytes(file.fileno(), os.fstat(file.fileno()))
    except OSError:
        return None
    return resident == _BYTES if probe.means == "cachestat" else None
