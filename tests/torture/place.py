"""Where is the tool tortured? In folders of its own, beside a server of somebody who lives and must not be touched."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from bench.site import Site

from recovery.builds.resolve import Sources, resolve_server
from recovery.errors import HostUnfitError
from recovery.linux import cgroups
from recovery.linux.cgroups import controller_settings
from recovery.linux.files import cache_dir
from recovery.linux.loop_device import unmount
from recovery.linux.storage import IN_MEMORY, device_of
from recovery.model import Build, Limits
from recovery.mysqld.client import try_query
from recovery.mysqld.server import Server
from recovery.session import progress as session_progress

ROOT = Path(__file__).parent.parent.parent
VERSION = "5.6.24"
"""The one that starts and stops fastest."""
TABLES, RUNS = 12, 2
HELD_TO = Limits(memory_bytes=1 << 30)


@dataclass
class Place:
    root: Path
    build: Build
    bystander: Server
    can_limit: bool
    server_s: float
    """How long it took to make the bystander, and to start it."""
    beside: frozenset[str] = frozenset()
    """What lay among the temporary folders before: the bystander's."""
    victims: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """The tool, each time that it was started here."""
    _tarball: Path | None = None

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def lock(self) -> Path:
        return self.root / "host.lock"

    @property
    def status(self) -> Path:
        return session_progress.status_path(self.lock)

    @property
    def temporary(self) -> Path:
        return self.root / "t"

    def results(self, chain: int) -> Path:
        return self.root / f"results-{chain}"

    def environment(self, *, cache: Path | None) -> dict[str, str]:
        """As of somebody who has set nothing, in these folders."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RECOVERY_")}
        return kept | {
            "PYTHONPATH": str(ROOT),
            "RECOVERY_HOST_LOCK": str(self.lock),
            "RECOVERY_CACHE": str(cache or cache_dir()),
            "TMPDIR": str(self.temporary),
            "TERM": "dumb",
        }

    def words(self, chain: int) -> list[str]:
        """That every session is asked with."""
        folders = ["--data", str(self.data), "--results", str(self.results(chain))]
        return ["--tables", str(TABLES), "--engine", "local", "--no-probe", "--no-drop-caches", *folders]

    def tarball(self) -> Path:
        """The same server, to be unpacked."""
        if self._tarball is None:
            self._tarball = self.root / "server.tar"
            with tarfile.open(self._tarball, "w") as tar:
                tar.add(self.build.basedir, "server")
        return self._tarball

    def mounts(self) -> list[Path]:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        return [found for line in lines if (found := Path(line.split()[4])).is_relative_to(self.root)]

    def end_servers(self) -> None:
        """Of the tool that was killed: their options lie among its temporary folders."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                named = any(word.startswith(f"--defaults-file={self.temporary}/") for word in process.cmdline())
                if named and process.pid != self.bystander.process.pid:
                    process.kill()
                    found.append(process)
        for process in found:
            with suppress(psutil.Error):
                while process.status() != psutil.STATUS_ZOMBIE:
                    time.sleep(0.01)

    def close(self) -> None:
        """Where the torture itself is ended in the middle."""
        for one in self.victims:
            if one.poll() is None:
                one.kill()
                one.wait()
        self.end_servers()
        for mount in self.mounts():
            unmount(mount)

    def is_untouched(self) -> str | None:
        """What has happened to the bystander; None where nothing has."""
        if not self.bystander.alive:
            return "the server of somebody who lives was ended"
        if not try_query(self.bystander.socket, timeout_s=20):
            return "the server of somebody who lives does not answer"
        if self.beside - {entry.name for entry in self.temporary.iterdir()}:
            return "the folder of somebody who lives was removed"
        group = self.bystander.group
        if group is not None and not all(folder.is_dir() for folder in group.folders):
            return "the control group of somebody who lives was removed"
        return None


@contextmanager
def torture_place(base: Path | None = None) -> Iterator[Place]:
    """In `base`, or beside the data directories of the tool: not in memory, which cannot be made cold."""
    with ExitStack() as stack:
        root = Path(tempfile.mkdtemp(prefix="torture-", dir=_on_a_disk(base)))
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        temporary = root / "t"
        temporary.mkdir()
        before, tempfile.tempdir = tempfile.tempdir, str(temporary)  # the bystander's lie among those of the killed
        stack.callback(setattr, tempfile, "tempdir", before)
        build = resolve_server(VERSION, Sources(), lambda _: None)
        can_limit = _can_limit(root)
        group = stack.enter_context(cgroups.server_limits(HELD_TO, root)) if can_limit else None
        began_s = time.monotonic()
        site = Site(root)
        bystander = site.server(build, site.empty_datadir(build, "bystander"))
        bystander.group = group
        stack.callback(bystander.close)
        bystander.start()
        names = frozenset(entry.name for entry in temporary.iterdir())
        place = Place(root, build, bystander, can_limit, time.monotonic() - began_s, names)
        stack.callback(place.close)
        yield place


def _on_a_disk(base: Path | None) -> str:
    if base is not None:
        base.mkdir(parents=True, exist_ok=True)
        return str(base)
    for folder in (Path("/tmp"), Path("/var/tmp"), Path.home()):
        if device_of(folder).filesystem not in IN_MEMORY and os.access(folder, os.W_OK):
            return str(folder)
    raise HostUnfitError("no folder on a disk can be written", "name one: --data FOLDER")


def _can_limit(folder: Path) -> bool:
    with suppress(HostUnfitError):
        controller_settings(HELD_TO, folder)
        return True
    return False


def own_cache(place: Place) -> Path:
    """An empty one, into which the server has to be unpacked; with the libraries that are there already."""
    cache = place.root / "cache"
    cache.mkdir()
    there = cache_dir() / "libraries"
    if there.is_dir():
        shutil.copytree(there, cache / "libraries", symlinks=True, ignore=shutil.ignore_patterns(".*", "apt"))
    return cache


def facts() -> dict[str, str]:
    """Of the tool that was tortured."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return {"commit": asked.stdout.strip() or "unknown", "python": sys.version.split()[0], "server": VERSION}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
