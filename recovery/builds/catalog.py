"""Lists the pinned servers of catalog.toml, and the possible addresses of a MySQL version's tarball."""

from __future__ import annotations

import platform
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from recovery.model import Version, can, parse_version

# --- Names and addresses of the vendor's Linux tarballs

VENDOR_URLS = (
    "https://cdn.mysql.com/Downloads",
    "https://cdn.mysql.com/archives",
    "https://downloads.mysql.com/archives",
)

# From these releases of each series on, the tarballs are built for glibc 2.12 instead of 2.5.
_GLIBC_2_12 = {(5, 5): 57, (5, 6): 37, (5, 7): 19}


def tarball_names(version: Version, machine: str) -> tuple[str, ...]:
    """Returns the file names that the Linux tarball of a version may have, by the era of the version: the most likely
    and smallest first."""
    if can(version, "minimal_tarball_for_each_glibc"):
        forms = [f"linux-glibc{glibc}-{{cpu}}{size}.tar.xz" for size in ("-minimal", "") for glibc in ("2.28", "2.17")]
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
    cpu: str = "x86_64"

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
