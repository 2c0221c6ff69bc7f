"""What may a wanted server's image be called, here and in a registry? Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from recovery.errors import UsageError
from recovery.model import Flavor, Version
from recovery.versions import parse_version

OURS = "recovery-tester"
SUITE = "bookworm"
BASE = f"{OURS}/base:{SUITE}"
_LIKE_DEBIAN = {
    "debian-sid": (Flavor.MYSQL, (9, 7)),
    "debian-mariadb": (Flavor.MARIADB, (10, 11)),
    "debian-mariadb-11": (Flavor.MARIADB, (11, 8)),
}
DEBIAN_NAMES = tuple(_LIKE_DEBIAN)

_SERIES = re.compile(r"^(?:(?P<flavor>mysql|mariadb|percona)[-:])?(?P<a>\d{1,3})\.(?P<b>\d{1,3})$", re.ASCII)
# host[:port][/path], as an image's name begins
_REGISTRY = re.compile(r"[A-Za-z0-9.\-\[\]:]+(/[a-z0-9._\-]+)*", re.ASCII)
_REPOSITORIES = {
    Flavor.MYSQL: ("mysql",),
    Flavor.MARIADB: ("mariadb",),
    Flavor.PERCONA: ("percona", "percona/percona-server"),
}


@dataclass(frozen=True)
class Wanted:
    """A release (5.7.22), the newest of a series (9.7), or what a Debian suite carries (debian-sid)."""

    text: str
    flavor: Flavor = Flavor.MYSQL
    release: Version | None = None
    series: tuple[int, int] | None = None
    debian: str | None = None

    def fits(self, version: Version) -> bool:
        if self.debian is not None:
            return True
        if self.series is not None:
            return (version.flavor, version.numbers[:2]) == (self.flavor, self.series)
        # Debian spells 9.7.4-2 what is MySQL's 9.7.4: between MySQL and Percona the server knows best.
        return self.release is not None and version.numbers == self.release.numbers and self._same_house(version)

    @property
    def like(self) -> Version:
        """A release like it, where only a rough estimate is made of it."""
        if self.release is not None:
            return self.release
        flavor, numbers = _LIKE_DEBIAN.get(self.debian or "", (self.flavor, self.series or (9, 7)))
        return Version(flavor, (*numbers, 0))

    def _same_house(self, version: Version) -> bool:
        return self.flavor is version.flavor or Flavor.MARIADB not in (self.flavor, version.flavor)


def parse_wanted(text: str) -> Wanted:
    text = text.strip()
    if text in DEBIAN_NAMES:
        return Wanted(text, debian=text)
    if (match := _SERIES.match(text)) is not None:
        flavor = Flavor(match["flavor"] or "mysql")
        return Wanted(text, flavor, series=(int(match["a"]), int(match["b"])))
    release = parse_version(text)
    return Wanted(text, release.flavor, release=release)


def check_registry(registry: str) -> str:
    """REGISTRY as it stands before an image's name."""
    plain = registry.strip().rstrip("/")
    if not _REGISTRY.fullmatch(plain):
        raise UsageError(
            f"REGISTRY={registry} is no registry", "write it as images are named, without https://: localhost:5000"
        )
    return plain + "/"


def registry_names(wanted: Wanted, registry: str | None) -> tuple[str, ...]:
    """`mysql:5.7.22`, behind a mirror's name where one was given."""
    if wanted.debian is not None:
        return ()
    prefix = "" if registry is None else check_registry(registry)
    return tuple(f"{prefix}{repository}:{_tag(wanted)}" for repository in _REPOSITORIES[wanted.flavor])


def _tag(wanted: Wanted) -> str:
    if wanted.release is None:
        return ".".join(map(str, wanted.series or ()))
    if wanted.flavor is Flavor.PERCONA:
        return wanted.text.removeprefix("percona-").removeprefix("percona:")
    return ".".join(map(str, wanted.release.numbers))


def own_name(version: Version, fingerprint: str) -> str:
    """Of an image that we make: two builds of one release have two names."""
    release = ".".join(map(str, version.numbers))
    return f"{OURS}/{version.flavor}:{release}-{fingerprint[:8]}"
