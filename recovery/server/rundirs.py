"""Where does a server keep its socket, pid file and options? In a private folder with a short name."""

from __future__ import annotations

from pathlib import Path

from recovery.errors import HostUnfitError
from recovery.host import tempfolders


class RunDirs:
    """One folder for a server, and a new one in it for each of its Lives."""

    def __init__(self) -> None:
        self.root = self._make()
        self._lives = 0

    def _make(self) -> Path:
        base = tempfolders.short_base()
        try:
            return tempfolders.make(base)
        except OSError as error:
            raise HostUnfitError(
                f"no folder for temporary files can be made in {base}: {error.strerror}", "set TMPDIR to one that can"
            ) from error

    def next(self) -> Path:
        """Not made yet: the launcher does it. Once removed, the next private folder has another name."""
        if not self.root.is_dir():
            self.root = self._make()
        self._lives += 1
        return self.root / str(self._lives)

    def remove(self) -> None:
        tempfolders.remove(self.root)
