"""Who may drop the whole host's caches, and by which means?"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import Protocol

from recovery.host.rights import is_refused
from recovery.rootsteps import RootStep

DROP_CACHES = Path("/proc/sys/vm/drop_caches")


class Caches(Enum):
    """As the kernel numbers them."""

    PAGES = "1"
    EVERYTHING = "3"
    """Inodes and names as well."""


class Dropper(Protocol):
    @property
    def means(self) -> str:
        """For the results: `drop_caches`, and in brackets through whom where it is not this process itself."""
        ...

    def drop(self, caches: Caches) -> bool:
        """False where it cannot be done after all."""
        ...


class OwnDropper:
    """This process writes the kernel's file, as root may."""

    means = "drop_caches"

    def drop(self, caches: Caches) -> bool:
        try:
            DROP_CACHES.write_text(caches.value)
        except OSError:  # no root, a container's read-only /proc, a security module
            return False
        return True


def own_dropper() -> OwnDropper | None:
    if is_refused(RootStep.DROP_CACHES):
        return None
    return OwnDropper() if os.access(DROP_CACHES, os.W_OK) else None


def cold_means(dropper: Dropper | None) -> str:
    """Without anybody who may drop, files are evicted one by one."""
    return dropper.means if dropper else "fadvise"
