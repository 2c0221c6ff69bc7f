"""What have killed runs left of the data directories that they crashed? Copies, maybe on a disk still mounted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from recovery.errors import RecoveryError
from recovery.host import flock
from recovery.host.copies import copies_in, copy_in, remove_copy
from recovery.host.datadir import lock_of
from recovery.host.loopdisk import attached_images, image_of
from recovery.host.orphans import SERVERS, end_servers_in
from recovery.ownership import why_not_trusted


def clear_left_copies(data: Path) -> Iterator[tuple[Path, str | None]]:
    """Remove the copies of killed runs in this DATA, and those that this process sees mounted anywhere.

    The lock of the data directory tells whether a run is dead. Yields each directory, and why its copy could not be
    removed or None."""
    for folder in sorted({*copies_in(data), *_mounted()}):
        if why_not_trusted(folder) is not None or not flock.is_ours(lock_of(folder)):
            continue
        lock = flock.take(lock_of(folder), mode=0o644)
        if lock is None:
            continue
        try:
            end_servers_in(copy_in(folder), *SERVERS)
            remove_copy(folder)
        except (RecoveryError, OSError) as error:
            lock.leave()  # for the next one
            yield folder, str(error)
        else:
            lock.release()
            yield folder, None


def _mounted() -> Iterator[Path]:
    for image in attached_images():
        copy = copy_in(image.parent).parent
        if image == image_of(copy) and os.path.ismount(copy):
            yield image.parent
