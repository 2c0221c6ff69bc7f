"""Can a disk be made here, and can its power be cut? Tried with a small one, once, when somebody wants such a disk.

That root may mount something is not told by any file: a container may lack the right, and a kernel the ioctl."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from recovery.errors import RecoveryError
from recovery.host import tempfolders
from recovery.host.loopdisk import loop_disk
from recovery.host.rights import is_refused, refusal
from recovery.host.signals import held_back
from recovery.rootsteps import RootStep

_NAME = "tried"
_BYTES = 8 << 20


def no_disk() -> str | None:
    """Why there can be none; None where there can."""
    return _forbidden() or _tried().disk


def no_power_cut() -> str | None:
    """The same of one that loses its power."""
    return _forbidden() or _tried().disk or _tried().power


def _forbidden() -> str | None:
    """What is refused is not tried either."""
    if is_refused(RootStep.MOUNT):
        return refusal(RootStep.MOUNT)
    return None if os.geteuid() == 0 else "only root may mount"


@dataclass(frozen=True)
class _Tried:
    """What was in the way, in words."""

    disk: str | None = None
    power: str | None = None


@cache
def _tried() -> _Tried:
    """Whatever ends it leaves nothing: an interrupt comes when all is gone, and it takes no second."""
    with held_back():
        try:
            folder = tempfolders.make()
        except OSError as error:
            return _Tried(f"no temporary folder can be made: {error.strerror}")
        place = folder / _NAME
        try:
            return _on_one(place)
        except (RecoveryError, OSError) as error:
            told = error.message if isinstance(error, RecoveryError) else str(error)
            return _Tried(told.replace(f"{folder}/", ""))
        finally:
            if not os.path.ismount(place):
                tempfolders.remove(folder)


def _on_one(place: Path) -> _Tried:
    with loop_disk(place, size_bytes=_BYTES) as disk:
        try:
            disk.lose_power()
        except RecoveryError as error:
            return _Tried(power=error.message)
    return _Tried()
