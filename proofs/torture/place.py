"""The folders in which the tool is killed, next to a running server that it must not touch (the bystander)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
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
"""The version that starts and stops fastest."""
TABLES, RUNS = 12, 2
_LOCK = "host.lock"
LIMITS = Limits(memory_bytes=1 << 30)


@dataclass
class Place:
    root: Path
    build: Build
    bystander: Server
    can_limit: bool
    server_s: float
    """How long it took to create the bystander and to start it."""
    beside: frozenset[str] = frozenset()
    """Temporary folders of the bystander."""
    victims: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """The processes of the tool."""

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def status(self) -> Path:
        return session_progress.status_path(self.root / _LOCK)

    @property
    def temporary(self) -> Path:
        return self.root / "t"

    def results(self, chain: int) -> Path:
        return self.root / f"results-{chain}"

    def environment(self, *, cache: Path | None) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RECOVERY_")}
        return kept | {
            "PYTHONPATH": str(ROOT),
            "RECOVERY_HOST_LOCK": str(self.root / _LOCK),
            "RECOVERY_CACHE": str(cache or cache_dir()),
            "TMPDIR": str(self.temporary),
            "TERM": "dumb",
        }

    def arguments(self, chain: int) -> list[str]:
        """Returns the options that all sessions have in common."""
        folders = ["--data", str(self.data), "--results", str(self.results(chain))]
        return ["--tables", str(TABLES), "--engine", "local", "--no-probe", "--no-drop-caches", *folders]

    @cached_property
    def tarball(self) -> Path:
        """Returns the server as an archive."""
        archive = self.root / "server.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(self.build.basedir, "server")
        return archive

    def mounts(self) -> list[Path]:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        return [found for line in lines if (found := Path(line.split()[4])).is_relative_to(self.root)]

    def end_servers(self) -> None:
        """Kills the servers of killed tools, whose options lie in its temporary folders."""
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
        """Ends what is running if the torture itself is interrupted."""
        for one in self.victims:
            if one.poll() is None:
                one.kill()
                one.wait()
        self.end_servers()
        for mount in self.mounts():
            unmount(mount)

    def harm(self) -> Iterator[str]:
        """Yields what has happened to the bystander."""
        if not self.bystander.alive:
            yield "the bystander's server was ended"
        elif not try_query(self.bystander.socket, timeout_s=20):
            yield "the bystander's server does not answer"
        if self.beside - {entry.name for entry in self.temporary.iterdir()}:
            yield "the bystander's folder was removed"
        group = self.bystander.group
        if group is not None and not all(folder.is_dir() for folder in group.folders):
            yield "the bystander's control group was removed"


@contextmanager
def torture_place(base: Path | None = None) -> Iterator[Place]:
    """Makes the place in `base`, or else on a disk: data in memory cannot be cold."""
    with ExitStack() as stack:
        root = Path(tempfile.mkdtemp(prefix="torture-", dir=_on_a_disk(base)))
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        temporary = root / "t"
        temporary.mkdir()
        before, tempfile.tempdir = tempfile.tempdir, str(temporary)  # the bystander's are next to those of the killed
        stack.callback(setattr, tempfile, "tempdir", before)
        build = resolve_server(VERSION, Sources(), lambda _: None)
        can_limit = _can_limit(root)
        group = stack.enter_context(cgroups.server_limits(LIMITS, root)) if can_limit else None
        began_s = time.monotonic()
        site = Site(root)
        bystander = site.server(build, site.empty_datadir(build, "bystander"))
        bystander.config = replace(bystander.config, group=group)
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
        controller_settings(LIMITS, folder)
        return True
    return False


def own_cache(place: Place) -> Path:
    """Makes a cache without servers, and with the libraries of the user's cache."""
    cache = place.root / "cache"
    cache.mkdir()
    there = cache_dir() / "libraries"
    if there.is_dir():
        shutil.copytree(there, cache / "libraries", symlinks=True, ignore=shutil.ignore_patterns(".*", "apt"))
    return cache


def facts() -> dict[str, str]:
    """Describes the tool that was killed."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return {"commit": asked.stdout.strip() or "unknown", "python": sys.version.split()[0], "server": VERSION}
