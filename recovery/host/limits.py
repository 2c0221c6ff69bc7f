"""How is a server held to less than its host has? By one control group for a session, made with its limits set."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import HostUnfitError, RecoveryError
from recovery.host import cgroups
from recovery.host.limitable import Setting, Unit, needed
from recovery.host.owner import own_name
from recovery.model import Limits

_PATIENCE_S = 5.0
_POLL_S = 0.02
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Counted:
    """What the group has used; None is a figure that its controllers do not keep."""

    read_requests: int | None = None
    """Since it was made, before neighbours are merged: as the limit counts them."""
    memory_bytes: int | None = None
    """Now, page cache included."""
    oom_kills: int | None = None
    """Processes that the kernel has killed in it for want of memory."""


class Group:
    """Every process of the session's servers is put into it, one Life after the other: what an earlier one has read
    into the cache stays charged to it, so that MEMORY holds for the cache of them all."""

    def __init__(self, limits: Limits, name: str, units: Sequence[Unit]) -> None:
        self.limits = limits
        self.name = name
        self._units = tuple(units)

    @property
    def folders(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(unit.hierarchy.root / self.name for unit in self._units))

    @property
    def parent_name(self) -> str:
        """For an engine that makes its containers' groups below another (`cgroup_parent`, cgroupfs driver). Version 1
        hands no limit on reads down to them: put the container's process itself in with `add`, or give the engine the
        limit too."""
        return self._units[0].hierarchy.name_of(self.name)

    def make(self) -> None:
        for unit in self._units:
            folder = unit.hierarchy.root / self.name
            try:
                cgroups.enable(unit.hierarchy, unit.controller)
                folder.mkdir(exist_ok=True)
                for setting in unit.settings:
                    if setting.vital or (folder / setting.file).exists():
                        (folder / setting.file).write_text(setting.text)
            except OSError as error:
                raise HostUnfitError(
                    f"{unit.asked} cannot be set: {error.filename or folder}: {error.strerror}",
                    "run as root on the host itself, or leave it out",
                ) from error

    def add(self, pid: int) -> None:
        """It is held to the limits from now on: to be called before the process becomes a server."""
        for folder in self.folders:
            try:
                (folder / "cgroup.procs").write_text(str(pid))
            except OSError as error:
                raise RecoveryError(
                    f"the server cannot be put into its control group {folder}: {error.strerror}",
                    "see whether another program removes control groups on this host",
                ) from error

    def counted(self) -> Counted:
        """Never an error: a figure that cannot be read is None."""
        folders = self.folders
        return Counted(
            read_requests=_first(folders, cgroups.read_requests),
            memory_bytes=_first(folders, cgroups.memory_bytes),
            oom_kills=_first(folders, cgroups.oom_kills),
        )

    def lost(self) -> str | None:
        """A limit that is no longer set: somebody else on the host has taken it away."""
        for unit in self._units:
            folder = unit.hierarchy.root / self.name
            for setting in unit.settings:
                if setting.vital and not _stands(folder, setting):
                    return f"{unit.asked} was taken away meanwhile: {folder / setting.file} does not say it any more"
        return None

    def remove(self) -> None:
        """An engine makes groups of this name in every hierarchy. A process just killed leaves a moment later; what
        does not go in time is removed by the next session."""
        left = {one.root / self.name for one in cgroups.hierarchies()} | set(self.folders)
        deadline = time.monotonic() + _PATIENCE_S
        while left := {folder for folder in left if not cgroups.remove(folder)}:
            if time.monotonic() > deadline:
                return
            time.sleep(_POLL_S)


@contextmanager
def limited(limits: Limits, data: Path, *, mounts: Path = cgroups.MOUNTS) -> Iterator[Group | None]:
    """For the length of a session; None without limits. HostUnfitError where this host cannot set one of them."""
    if not limits:
        yield None
        return
    group = Group(limits, own_name(next(_numbers)), needed(limits, data, mounts=mounts))
    try:
        group.make()
        yield group
    finally:
        group.remove()


def _first(folders: Sequence[Path], figure: cgroups.Figure) -> int | None:
    return next((found for folder in folders if (found := figure(folder)) is not None), None)


def _stands(folder: Path, setting: Setting) -> bool:
    with suppress(OSError):
        return set(setting.text.split()) <= set((folder / setting.file).read_text().split())
    return False
