"""Where is built what, and with what? And does a server start there at all, with all that was asked?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from recovery.effect import given, lowered, one_experiment
from recovery.errors import HostUnfitError, ServerFailedError, UsageError
from recovery.host.ailing import blaming, temporary
from recovery.host.datadir import DataDir
from recovery.host.keys import make_keys
from recovery.host.storage import device_of
from recovery.model import Build, Schema
from recovery.server.bootstrap import initialise
from recovery.server.launcher import Launcher
from recovery.server.options import merge, test_settings
from recovery.server.rundirs import RunDirs
from recovery.server.server import Server
from recovery.server.watcher import DEFAULT_STALL_S

_LOG = "initialise.log"
_NOT_FOUND = re.compile(r"Can't open shared library '([^']+)'")


@dataclass(frozen=True)
class Ground:
    """Of one stage."""

    build: Build
    schema: Schema
    target: DataDir
    launcher: Launcher
    say: Callable[[str], None]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Those that shape the files."""
    tried: Sequence[Mapping[str, str]] = ()
    """Those of later starts: one that the server refuses is told before the hour of building."""
    stall_s: float = DEFAULT_STALL_S

    @property
    def logs(self) -> Path:
        return self.target.path / "build-logs"

    def server(self, settings: Mapping[str, str], preload: tuple[Path, ...] = ()) -> Server:
        return Server(
            self.launcher,
            self.build,
            self.target.mysql,
            device=device_of(self.target.path),
            logdir=self.logs,
            settings=merge(settings, self.settings),
            preload=preload,
            stall_s=self.stall_s,
            keys=self._keys,
        )

    @property
    def _keys(self) -> Path | None:
        return self.target.keys_for(self.schema)

    def initialise(self) -> None:
        """Of an empty folder."""
        self.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._keys is not None:
            make_keys(self._keys)
        rundirs = RunDirs()
        try:
            initialise(
                self.launcher,
                self.build,
                self.target.mysql,
                rundir=rundirs.next(),
                log=self.logs / _LOG,
                settings=dict(self.settings),
                keys=self._keys,
                stall_s=self.stall_s,
            )
        except ServerFailedError as error:
            if self._keys is not None and (plugin := _not_found(self.logs / _LOG)):
                self.target.wipe()
                raise HostUnfitError(
                    f"this build of {self.build.version} has no {plugin}, which encrypted tables take their keys from",
                    "take a build that has it (MYSQLD=, IMAGE=), or say where it lies: --set plugin_dir=FOLDER",
                ) from error
            raise
        finally:
            rundirs.remove()

    def try_settings(self) -> None:
        """On the empty directory, where a start takes a second."""
        found: list[dict[str, str]] = []
        try:
            for number, settings in enumerate(filter(None, self.tried), 1):
                with (
                    blaming(self.target.storage, temporary()),
                    self.server(merge(test_settings(self.build.version), settings)) as server,
                ):
                    server.start(log_name=f"settings-{number}.log")
                    found.append(_in_effect(server, settings))
                    server.stop()
        except ServerFailedError as error:
            self.target.wipe()
            raise UsageError(
                f"with the options asked for, {error.message}",
                "see --set and --variant, and the server's manual of this version",
            ) from error
        self._compare(found)

    def _compare(self, found: Sequence[Mapping[str, str]]) -> None:
        """Two that a server starts with alike would be measured as two; one that it lowers is told."""
        for one, other in combinations(found, 2):
            if alike := one_experiment(one, other):
                self.target.wipe()
                told = " and ".join(map(str, alike))
                raise UsageError(
                    f"{self.build.version} makes no difference between two of the settings asked for: {told} in both",
                    f"give values that it does not change; {one['@open_files_limit']} open files are allowed it "
                    "(ulimit -n)",
                )
        vary = {name for one, other in combinations(map(given, found), 2) for name, _ in one.items() ^ other.items()}
        for less in dict.fromkeys(less for known in found for less in lowered(known) if less.option in vary):
            self.say(f"{self.build.version}: {less}")


def _in_effect(server: Server, settings: Mapping[str, str]) -> dict[str, str]:
    """As a session stores it."""
    names = [name.removeprefix("loose_") for name in settings]
    told = server.variables((*names, "open_files_limit"))
    options = " ".join(f"{name}={value}" for name, value in settings.items())
    return {"options": options} | {f"@{name}": value for name, value in told.items()}


def _not_found(log: Path) -> str | None:
    """The plugin that the server looked for in vain, and where."""
    try:
        found = _NOT_FOUND.search(log.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:  # it was never started
        return None
    return found and found[1]
