"""Lists the pinned servers of catalog.toml, and the possible addresses of a release's tarball and of the lists of
releases."""

from __future__ import annotations

import platform
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from recovery.model import Flavor, Track, Version, can, parse_version, track_of

PINNED_FOR = "x86_64"
"""The processor of the pinned servers, unless a row names another."""

# --- Names and addresses of the vendors' Linux tarballs

VENDOR_URLS = (
    "https://cdn.mysql.com/Downloads",
    "https://cdn.mysql.com/archives",
    "https://downloads.mysql.com/archives",
)
"""MySQL's own hosts."""
MARIADB_URL = "https://archive.mariadb.org"
PERCONA_URL = "https://downloads.percona.com/downloads"
PERCONA_LIST_URL = "https://www.percona.com/products-api.php"
"""Answers the name of a product with its releases. It is what Percona's page of downloads asks."""

# From these releases of each series on, the tarballs are built for glibc 2.12 instead of 2.5.
_GLIBC_2_12: dict[tuple[int, ...], int] = {(5, 5): 57, (5, 6): 37, (5, 7): 19}
_GLIBCS = ("2.28", "2.17", "2.34", "2.39")
"""Those of Red Hat's 8, 7, 9 and 10: the vendor builds for one that is still supported."""


def tarball_names(version: Version, machine: str) -> tuple[str, ...]:
    """Returns the file names that the Linux tarball of a MySQL version may have, by the era of the version: the most
    likely and smallest first."""
    if can(version, "minimal_tarball_for_each_glibc"):
        forms = [f"linux-glibc{glibc}-{{cpu}}{size}.tar.xz" for size in ("-minimal", "") for glibc in _GLIBCS]
    elif can(version, "minimal_tarball"):
        full = [f"linux-glibc{glibc}-{{cpu}}.tar.xz" for glibc in ("2.12", "2.17", "2.28")]
        minimal = ["linux-{cpu}-minimal.tar.xz", *(form.replace(".tar", "-minimal.tar") for form in full[1:])]
        forms = [*minimal, *full]
    elif can(version, "tarball_for_one_glibc"):
        forms = [f"linux-glibc2.12-{{cpu}}.tar.{'xz' if can(version, 'tarball_by_xz') else 'gz'}"]
    else:
        forms = ["linux-glibc2.5-{cpu}.tar.gz", "linux-glibc2.12-{cpu}.tar.gz"]
        if version.numbers[2] >= _GLIBC_2_12.get(version.numbers[:2], 0):
            forms.reverse()
        if not can(version, "tarball_of_any_kernel"):
            forms.append("linux2.6-{cpu}.tar.gz")
    return tuple(f"mysql-{version.release}-{form.format(cpu=machine)}" for form in forms)


def tarball_urls(version: Version, mirror: str | None, machine: str) -> tuple[str, ...]:
    """Returns the addresses of a version's tarball in the order in which they are tried. A mirror replaces the vendor's
    hosts."""
    if version.flavor is Flavor.MYSQL:
        return _mysql_urls(version, mirror, machine)
    base = (mirror or (MARIADB_URL if version.flavor is Flavor.MARIADB else PERCONA_URL)).rstrip("/")
    paths = _mariadb_paths(version, machine) if version.flavor is Flavor.MARIADB else _percona_paths(version, machine)
    flat = () if mirror is None else tuple(f"{base}/{path.rpartition('/')[2]}" for path in paths)
    return (*flat, *(f"{base}/{path}" for path in paths))


def _mariadb_paths(version: Version, machine: str) -> tuple[str, ...]:
    name = version.release
    forms = (f"linux-systemd-{machine}", f"linux-{machine}")
    return tuple(f"{name}/bintar-{form}/{name}-{form}.tar.gz" for form in forms)


def _percona_paths(version: Version, machine: str) -> tuple[str, ...]:
    release, number = ".".join(map(str, version.numbers)), version.percona_number
    rel = "rel" if can(version, "percona_rel_names") else ""
    if not rel:  # Packages and images have a further number, as in 8.0.36-28.1; tarballs do not.
        number = number.partition(".")[0]
    places = [f"{product}/Percona-Server-{release}-{number}/binary/tarball" for product in _percona_products(version)]
    name = f"Percona-Server-{release}-{rel}{number}-Linux.{machine}"
    return tuple(f"{place}/{name}.{form}.tar.gz" for form in _PERCONA_FORMS for place in places)


# For a glibc, and before 5.7.31 and 8.0.20 for an OpenSSL.
_PERCONA_FORMS = (
    "glibc2.17-minimal", "glibc2.28-minimal", "glibc2.12-minimal", "glibc2.34-minimal", "glibc2.35-minimal",
    "ssl102", "ssl101", "ssl100",
)  # fmt: skip


def _percona_products(version: Version) -> tuple[str, ...]:
    """Returns the names under which Percona may list a release: its series, and for innovation releases one for all."""
    series = f"Percona-Server-{'.'.join(map(str, version.numbers[:2]))}"
    return ("Percona-Server-innovative-release", series) if track_of(version) is Track.INNOVATION else (series,)


def release_lists(like: Version, mirror: str | None) -> tuple[tuple[str, str | None], ...]:
    """Returns the addresses of the pages that list the releases of a series of MariaDB or Percona Server, each with the
    form to be sent, if any."""
    if like.flavor is Flavor.MARIADB:
        return ((f"{(mirror or MARIADB_URL).rstrip('/')}/", None),)
    products = _percona_products(like)
    if mirror is None:
        return tuple((PERCONA_LIST_URL, f"version={product}") for product in products)
    return tuple((f"{mirror.rstrip('/')}/{folder}", None) for folder in (*(f"{product}/" for product in products), ""))


def listed_releases(page: str, flavor: Flavor) -> tuple[Version, ...]:
    """Returns the releases named on a page that lists folders or files of the archive, the oldest first."""
    product = "mariadb" if flavor is Flavor.MARIADB else "Percona-Server"
    releases = re.findall(rf"(?<![\w-]){product}-(\d+\.\d+\.\d+)(?:-(?:rel)?(\d+(?:\.\d+)?))?(?![\d.]*\d)", page)
    names = {f"{flavor}-{release}" + (f"-{number}" if number else "") for release, number in releases}
    return tuple(sorted(map(parse_version, names), key=_age))


def _age(version: Version) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return version.numbers, tuple(int(part) for part in version.percona_number.split(".") if part)


def _mysql_urls(version: Version, mirror: str | None, machine: str) -> tuple[str, ...]:
    series = ".".join(map(str, version.numbers[:2]))
    if mirror is None:
        cdn_new, cdn_old, archives = VENDOR_URLS
        folders = [f"{cdn_old}/mysql-{series}", f"{archives}/get/p/23/file"]
        # No release of a 5.x series is the newest any more, so the folder of the newest comes second for them.
        folders.insert(0 if can(version, "still_released") else 1, f"{cdn_new}/MySQL-{series}")
    else:
        base = mirror.rstrip("/")
        below = ("", f"/mysql-{series}", f"/MySQL-{series}", f"/archives/mysql-{series}", f"/Downloads/MySQL-{series}")
        folders = [base + folder for folder in below]
    names = tarball_names(version, machine)
    return tuple(f"{folder}/{name}" for name in names for folder in folders)


# --- Pinned servers, one row of catalog.toml each

DEFAULT_VERSION = "5.7.22"


@dataclass(frozen=True)
class PinnedServer:
    """One pinned server. The fields are explained in catalog.toml."""

    version: Version
    client: str
    """`maven` or `npm`."""
    artifact: str
    sha256: str
    bytes: int
    inner: str | None = None
    root: str = ""
    drop: tuple[str, ...] = ()
    cpu: str = PINNED_FOR

    @property
    def source(self) -> str:
        return f"catalog ({self.client} {self.artifact})"


@cache
def pinned_servers() -> tuple[PinnedServer, ...]:
    """Returns the pinned servers that this host's CPU can run."""
    text = resources.files(__package__).joinpath("catalog.toml").read_text(encoding="utf-8")
    every = (_parse_row(entry) for entry in tomllib.loads(text)["server"])
    return tuple(row for row in every if row.cpu == platform.machine())


def find_pinned(version: Version) -> PinnedServer | None:
    return next((row for row in pinned_servers() if row.version == version), None)


def _parse_row(entry: dict[str, object]) -> PinnedServer:
    fields = dict(entry)
    client = "maven" if "maven" in fields else "npm"
    return PinnedServer(
        version=parse_version(str(fields.pop("version"))),
        client=client,
        artifact=str(fields.pop(client)),
        drop=tuple(fields.pop("drop", ())),  # type: ignore[arg-type]  # a list, by the file's own rules
        **fields,  # type: ignore[arg-type]  # a row with an unknown field must not load
    )
