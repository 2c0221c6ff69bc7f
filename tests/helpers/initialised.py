"""Data directories as servers of this host initialise them. Each is made once for all tests, which costs seconds of CPU
time, and copied from then on."""

from __future__ import annotations

import os
import shutil
import tempfile
from hashlib import sha1
from pathlib import Path
from typing import Any

from recovery.model import Build
from recovery.mysqld import bootstrap
from recovery.mysqld.launcher import Launcher
from recovery.mysqld.local import LocalLauncher

_LOG = "initialise.log"


class Initialised:
    """Stands for `initialise` in tests. The folder may be that of other tests, which run at the same time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def initialise(
        self, launcher: Launcher, build: Build, datadir: Path, *, rundir: Path, log: Path, **more: Any
    ) -> None:
        made = self._made(launcher, build, **more)
        if made is not None and made.exists() and _is_copied(made, datadir, log):
            shutil.rmtree(rundir, ignore_errors=True)
            return
        bootstrap.initialise(launcher, build, datadir, rundir=rundir, log=log, **more)
        if made is not None and not made.exists():
            self._keep(datadir, log, made)

    def _made(self, launcher: Launcher, build: Build, **more: Any) -> Path | None:
        """Returns the folder for this server and these settings; None if there are files outside, or if it is no real
        server."""
        settings = dict(more.get("settings") or {})
        if type(launcher) is not LocalLauncher or more.get("keys") or any("/" in str(one) for one in settings.values()):
            return None
        with build.mysqld.open("rb") as program:
            if program.read(4) != b"\x7fELF":
                return None
        key = repr((build.fingerprint, str(build.basedir), sorted(settings.items())))
        return self._folder / sha1(key.encode(), usedforsecurity=False).hexdigest()

    def _keep(self, datadir: Path, log: Path, made: Path) -> None:
        self._folder.mkdir(exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=self._folder))
        shutil.copytree(datadir, draft / "data", copy_function=_copy)
        shutil.copy2(log, draft / _LOG)
        try:
            draft.rename(made)
        except OSError:  # others were faster
            shutil.rmtree(draft)


def _is_copied(made: Path, datadir: Path, log: Path) -> bool:
    """Returns whether all of it could be copied, as not to a full disk. Otherwise nothing is left of it."""
    bootstrap._ensure_empty(datadir)
    try:
        shutil.copytree(made / "data", datadir, copy_function=_copy, dirs_exist_ok=True)
        shutil.copy2(made / _LOG, log)
    except OSError:
        shutil.rmtree(datadir)
        return False
    return True


def _copy(source: str, target: str) -> str:
    shutil.copy2(source, target)
    about = Path(source).stat()
    os.chown(target, about.st_uid, about.st_gid)
    return target
