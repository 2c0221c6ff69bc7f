"""Resolves VERSION, ARCHIVE and MYSQLD to a server that is ready to be started, and lists the servers that are
available."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from recovery.builds import catalog, download, executable, install, server_sources
from recovery.builds.download import Say, cached_sha256
from recovery.builds.install import FoundServer, InstalledServer, InstallJob
from recovery.builds.server_sources import is_release
from recovery.errors import HostUnfitError, RecoveryError, UsageError, did_you_mean
from recovery.linux.files import cache_dir
from recovery.linux.storage import CACHE, WritableFolder, as_storage_error
from recovery.model import (
    FIRST_CALENDAR_VERSION,
    NEWEST_TRIED,
    Build,
    Flavor,
    Track,
    Version,
    parse_version,
    track_of,
    usual_flavor,
)

# --- Requested servers and the names of their images, on this host and in a registry (pure functions)

IMAGE_NAMESPACE = "recovery-tester"
DEBIAN_SUITE = "bookworm"
BASE_IMAGE_NAME = f"{IMAGE_NAMESPACE}/base:{DEBIAN_SUITE}"
_DEBIAN_RELEASES = {
    "debian-sid": (Flavor.MYSQL, NEWEST_TRIED[Flavor.MYSQL]),
    "debian-mariadb": (Flavor.MARIADB, (10, 11)),
    "debian-mariadb-11": (Flavor.MARIADB, (11, 8)),
}
DEBIAN_NAMES = tuple(_DEBIAN_RELEASES)
LATEST, INNOVATION = "latest", "innovation"
ALIASES = (LATEST, "lts", INNOVATION)

_SERIES = re.compile(r"^(?:(?P<flavor>mysql|mariadb|percona)[-:])?(?P<a>\d{1,3})\.(?P<b>\d{1,3})$", re.ASCII)
_RELEASE_SUFFIX = re.compile(
    r"(-(log|rc|dmr))?|-\d+(\.\d+)?(-(log|multi|amd64|arm64|aarch64))?|-\d+(ubuntu|\+deb)[\w.+~-]*|-mariadb([-+~:].*)?",
    re.ASCII | re.IGNORECASE,
)
"""What may follow the numbers of a release: what servers print there, and Percona's own number, as in its tags."""
_BEFORE_SUFFIX = re.compile(r"^(?:[a-z]+[-:])?[\d.]+", re.ASCII)
_ALIAS = re.compile(r"^(?:(?P<flavor>mysql|mariadb|percona)[-:])?(?P<alias>latest|lts)$|^(?:mysql[-:])?innovation$")
# host[:port][/path], the start of an image's name
_REGISTRY = re.compile(r"[A-Za-z0-9.\-\[\]:]+(/[a-z0-9._\-]+)*", re.ASCII)
_REPOSITORIES = {
    Flavor.MYSQL: ("mysql",),
    Flavor.MARIADB: ("mariadb",),
    Flavor.PERCONA: ("percona", "percona/percona-server"),
}


@dataclass(frozen=True)
class ServerRequest:
    """A requested server: a release (5.7.22), the newest one of a series (9.7) or of a track (lts, innovation), what a
    registry calls `latest`, or what a Debian suite carries (debian-sid)."""

    text: str
    flavor: Flavor = Flavor.MYSQL
    release: Version | None = None
    series: tuple[int, int] | None = None
    debian: str | None = None
    alias: str | None = None
    """One of `ALIASES`."""

    @property
    def flavor_note(self) -> str | None:
        """Returns a line about the flavor if only the numbers tell it, and it is not MySQL; otherwise None."""
        if not self.text[:1].isdigit() or "mariadb" in self.text.lower() or self.flavor is Flavor.MYSQL:
            return None
        why = "MySQL has no such version" if self.flavor is Flavor.MARIADB else "the number after the dash is Percona's"
        return f"{self.text} means {self.flavor}-{self.text}: {why}"

    def fits(self, version: Version) -> bool:
        """Returns whether a server of this version is what was requested."""
        if self.debian is not None:
            return True
        if self.series is not None:
            return (version.flavor, version.numbers[:2]) == (self.flavor, self.series)
        if self.alias is not None:
            return version.flavor is self.flavor and self._is_on_track(track_of(version))
        return self.release is not None and is_release(version, self.release)

    def fits_tag(self, version: Version) -> bool:
        """Returns whether an image that has the requested name may be used. What a registry calls `lts` is."""
        return version.flavor is self.flavor if self.alias is not None else self.fits(version)

    def _is_on_track(self, track: Track | None) -> bool:
        if self.alias == LATEST:
            # Docker's `latest` of MySQL is the newest with long-term support since April 2026.
            return self.flavor is Flavor.MARIADB or track is not Track.INNOVATION
        return track == self.alias

    @property
    def is_listed(self) -> bool:
        """Returns whether the vendor's archive tells which release this is: those of MariaDB and Percona list the
        releases of a series, that of MySQL does not."""
        return self.series is not None and self.flavor is not Flavor.MYSQL

    @property
    def like(self) -> Version:
        """Returns a similar release, which is good enough for a rough estimate."""
        if self.release is not None:
            return self.release
        major, minor = NEWEST_TRIED[self.flavor]
        newest = self.series or (major, minor + (self.alias == INNOVATION))
        flavor, numbers = _DEBIAN_RELEASES.get(self.debian or "", (self.flavor, newest))
        return Version(flavor, (*numbers, 0))


class NoSuchReleaseError(UsageError):
    """A text has the form of a release or a series, and there can be none of this name."""


def parse_request(text: str) -> ServerRequest:
    """Parses a VERSION. Raises UsageError if it is invalid."""
    text = text.strip()
    if text in DEBIAN_NAMES:
        return ServerRequest(text, debian=text)
    if (match := _SERIES.match(text)) is not None:
        series = (int(match["a"]), int(match["b"]))
        flavor = Flavor(match["flavor"] or usual_flavor(series[0]))
        _check_month(text, flavor, series)
        return ServerRequest(text, flavor, series=series)
    if (match := _ALIAS.match(text)) is not None:
        return ServerRequest(text, Flavor(match["flavor"] or "mysql"), alias=match["alias"] or INNOVATION)
    try:
        release = parse_version(text)
    except ValueError as error:
        hint = "write it like 5.7.22 or mariadb-10.11.5; `recovery versions` lists them"
        raise UsageError(str(error), hint) from error
    if release.build:
        raise UsageError(f"'{text}' has the name of a build", f"give the build: --mysqld {release.build}=PATH")
    _check_month(text, release.flavor, release.numbers)
    after = _BEFORE_SUFFIX.sub("", text)
    if not _RELEASE_SUFFIX.fullmatch(after):
        raise NoSuchReleaseError(
            f"'{text}' is not a server version: no release has '{after}' after its numbers",
            "leave it out, or give such a build of your own: --mysqld PATH",
        )
    return ServerRequest(text, release.flavor, release=release)


def _check_month(text: str, flavor: Flavor, numbers: Sequence[int]) -> None:
    has_month = flavor is not Flavor.MARIADB and numbers[0] >= FIRST_CALENDAR_VERSION
    if has_month and not 1 <= numbers[1] <= 12:
        raise NoSuchReleaseError(
            f"'{text}' is not a server version: MySQL's from {FIRST_CALENDAR_VERSION} on have the year and the month",
            "give a month from 1 to 12 as the second number, like 26.7.0",
        )


def check_registry(registry: str) -> str:
    """Returns REGISTRY in the form that precedes an image's name. Raises UsageError if it is invalid."""
    plain = registry.strip().rstrip("/")
    if not _REGISTRY.fullmatch(plain):
        raise UsageError(
            f"{registry} is not a registry",
            "write it as images are named, without https://: localhost:5000",
            option="registry",
        )
    return plain + "/"


def registry_names(request: ServerRequest, registry: str | None) -> tuple[str, ...]:
    """Returns the names that the image may have in a registry, such as `mysql:5.7.22`, with the mirror's name before
    them if one was given."""
    if request.debian is not None:
        return ()
    prefix = "" if registry is None else check_registry(registry)
    return tuple(f"{prefix}{repository}:{_tag(request)}" for repository in _REPOSITORIES[request.flavor])


def _tag(request: ServerRequest) -> str:
    if request.release is None:
        return request.alias or ".".join(map(str, request.series or ()))
    if request.flavor is Flavor.PERCONA:
        return request.text.removeprefix("percona-").removeprefix("percona:")
    return ".".join(map(str, request.release.numbers))


def own_image_name(version: Version, fingerprint: str) -> str:
    """Returns the name of an image made by this tool. Two builds of one release have different names."""
    release = ".".join(map(str, version.numbers))
    return f"{IMAGE_NAMESPACE}/{version.flavor}:{release}-{fingerprint[:8]}"


# --- Servers that are known without network access: the catalog and the cache


@dataclass(frozen=True)
class AvailableServer:
    version: str
    source: str
    cached: bool
    bytes: int | None
    """Size of its download in bytes."""


def available_servers() -> tuple[AvailableServer, ...]:
    """Returns the servers that are known without network access: the catalog in its own order, then the others in the
    cache."""
    pins = [
        AvailableServer(str(row.version), row.source, _is_cached(row), row.bytes) for row in catalog.pinned_servers()
    ]
    others = [
        AvailableServer(origin.version or "own", origin.source, True, origin.archive_bytes)
        for server in install.installed_servers()
        if (origin := server.origin).kind != "catalog"
    ]
    return (*pins, *others)


def _is_cached(row: catalog.PinnedServer) -> bool:
    return install.find_installed(lambda origin: server_sources.is_pinned(origin, row)) is not None


def nearest_release(release: Version, *, cached_only: bool = False) -> str:
    """Returns, for the hint of an error, the nearest release of the same flavor that is in the catalog or the cache."""
    known = [parse_version(name) for name in _release_names(cached_only=cached_only)]
    same = [version for version in known if version.flavor is release.flavor]
    if not same:
        return f"the nearest are {', '.join(map(str, known))}" if known else "none is there"
    series = [version for version in same if version.numbers[:2] == release.numbers[:2]] or same
    before = [version for version in series if version.numbers <= release.numbers]
    return f"the nearest is {max(before) if before else min(series)}"


def _release_names(*, cached_only: bool = False) -> tuple[str, ...]:
    servers = (server for server in available_servers() if server.cached or not cached_only)
    return tuple(dict.fromkeys(server.version for server in servers if server.version != "own"))


# --- From the request to a server that can be started


@dataclass(frozen=True)
class Sources:
    archive: str | None = None
    """A mirror that replaces the vendor's hosts (ARCHIVE); it takes precedence over the catalog."""
    offline: bool = False
    mysqld: str | None = None
    """The user's own server (MYSQLD): its executable, folder or tarball, or the URL of a tarball."""
    image: str | None = None
    """The user's own image (IMAGE); used only if containers run the servers."""
    registry: str | None = None
    """A mirror that replaces the default registry (REGISTRY); used only if containers run the servers."""


def resolve_server(version: str | None, sources: Sources, say: Say) -> Build:
    """Returns a server that can be started: found or fetched, with the libraries that this host lacks. Raises
    HostUnfitError or UsageError if that is not possible."""
    try:
        if sources.archive is not None:
            download.check_url(sources.archive, "archive")
        request = None if version is None else parse_version_option(version)
        if sources.mysqld is not None:
            return _resolve_own(request, sources, say)
        if request is None:
            raise UsageError("no server was named", "give --version, or your own with --mysqld")
        release = request.release or _newest_release(request, sources, say)
        return _build_from_cache(_find_or_fetch(release, sources, say), release, sources, say)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        unfit = HostUnfitError(
            f"the server could not be put in place: {what}", "check space and permissions, or set RECOVERY_CACHE"
        )
        raise as_storage_error(unfit, WritableFolder(CACHE, cache_dir())) or unfit from error


def locate_server(version: str | None, sources: Sources, say: Say) -> str:
    """Returns where the server is or would come from, as text: the cache, a client program, or an address. Nothing is
    fetched. Raises what `resolve_server` would, as far as that is known without a download."""
    if sources.archive is not None:
        download.check_url(sources.archive, "archive")
    if sources.mysqld is not None:
        is_url = "://" in sources.mysqld
        return server_sources.locate_url(sources.mysqld, offline=sources.offline) if is_url else "there"
    request = parse_version_option(version or "")
    release = request.release or _newest_release(request, sources, say)
    jobs = _jobs(release, sources, say)
    if _find_cached(jobs, release, sources) is not None:
        return install.IN_CACHE
    return _first_success(jobs, install.located, release, sources, say)


def parse_version_option(text: str) -> ServerRequest:
    """Parses a VERSION; if it is invalid, the UsageError lists the available versions."""
    try:
        return parse_request(text)
    except NoSuchReleaseError as error:
        raise UsageError(error.message.replace(f"'{text}'", text, 1), error.hint, option="version") from None
    except UsageError:
        known = (*_release_names(), *DEBIAN_NAMES, *ALIASES, "mariadb-lts")
        example = "give a release like 5.7.22 or mariadb-10.11.5, a series like 8.0, or lts; see `recovery versions`"
        hint = did_you_mean(text.lower(), known, otherwise=example)
        raise UsageError(f"{text} is not a server version", hint, option="version") from None


def parse_release(text: str) -> Version:
    """Returns the release that a VERSION names, as servers on this host require: of a series or a track the newest one
    in the catalog or the cache. Raises UsageError if there is none."""
    request = parse_version_option(text)
    if request.release is not None:
        return request.release
    known = [] if request.debian is not None else map(parse_version, _release_names())
    fitting = [version for version in known if request.fits(version)]
    if not fitting:
        raise UsageError(
            f"{text} names no release that is known on this host, and local servers need one, such as 5.7.22",
            f"{nearest_release(request.like)}, which can be given; or let containers find it: --engine docker",
        )
    return max(fitting, key=lambda version: version.numbers)


def known_release(request: ServerRequest) -> str | None:
    """Returns the release that a local server of this request has; None if only the archive tells it, or nothing."""
    if request.is_listed:
        return None
    try:
        return parse_release(request.text).full_release
    except UsageError:
        return None


def _newest_release(request: ServerRequest, sources: Sources, say: Say) -> Version:
    """Returns the newest release that fits the request: of a series of MariaDB or Percona the newest that the archive
    lists, otherwise, or if the archive may not be asked or does not help, the newest that is known on this host."""
    text = request.text
    problem: RecoveryError | None = None
    if request.is_listed and not sources.offline:
        archive = sources.archive or "the archive of the vendor"
        try:
            if listed := server_sources.find_listed(request.like, sources.archive):
                say(f"{text} is {listed[-1].full_release}, the newest in {archive}")
                return listed[-1]
            hint = f"{nearest_release(request.like)}; or name a release, or give --mysqld"
            problem = UsageError(f"{archive} lists no release of {text}", hint)
        except download.UnreachableError as error:
            hint = "check the network and its proxy; or set --archive (a mirror) or --mysqld"
            problem = HostUnfitError(f"the newest {text} would come from the archive, but {error.message}", hint)
    try:
        release = parse_release(text)
    except UsageError as error:
        raise problem or error from None
    before = "" if problem is None else f"{problem.message}: "
    say(f"{before}{text} is {release}, the newest that is known on this host")
    return release


def _resolve_own(request: ServerRequest | None, sources: Sources, say: Say) -> Build:
    assert sources.mysqld is not None
    server = server_sources.find_own_server(sources.mysqld, offline=sources.offline, say=say)
    build = _make_build(server, offline=sources.offline, say=say)
    if request is not None and not request.fits(build.version):
        raise UsageError(
            f"it is {build.version} ({build.version.text}), but --version {request.text} was asked for",
            f"leave --version out, or say --version {build.version}",
            option="mysqld",
        )
    return build


def _find_or_fetch(release: Version, sources: Sources, say: Say) -> InstalledServer:
    """Returns the server from the cache, or else from the first source that has it: the catalog, then the vendor's
    archive. The archive also has the catalog's releases, so mvn and npm are optional. A mirror (ARCHIVE) comes before
    the catalog, also before a server from the catalog that is in the cache."""
    jobs = _jobs(release, sources, say)
    if (server := _find_cached(jobs, release, sources)) is not None:
        return server
    return _first_success(jobs, lambda job: install.ensure_installed(job, say), release, sources, say)


def _jobs(release: Version, sources: Sources, say: Say) -> list[InstallJob]:
    jobs = [server_sources.vendor_job(release, sources.archive, say)]
    if (row := catalog.find_pinned(release)) is not None:
        jobs.insert(0 if sources.archive is None else 1, server_sources.pinned_job(row, say))
    return jobs


def _find_cached(jobs: list[InstallJob], release: Version, sources: Sources) -> InstalledServer | None:
    """Returns the server if it is in the cache; raises an error if it is not, and nothing may be fetched."""
    if sources.offline or sources.archive is None:
        for server in (install.find_installed(job.accept) for job in jobs):
            if server is not None:
                return server
    if sources.offline:
        raise _not_cached(release)
    return None


_T = TypeVar("_T")


def _first_success(
    jobs: list[InstallJob], use: Callable[[InstallJob], _T], release: Version, sources: Sources, say: Say
) -> _T:
    """Returns what `use` returns for the first job that does not fail."""
    problem: RecoveryError | None = None
    for job in jobs:
        if problem is not None:
            say(f"{problem.message}: trying the next source")
        try:
            return use(job)
        except download.ArtifactFetchError as error:
            problem = error
        except server_sources.NotInArchiveError as error:
            problem = problem or error
        except download.UnreachableError as error:
            problem = problem or HostUnfitError(
                f"{release.full_release} would come from the archive, but {error.message}",
                f"check the network and its proxy; without it {nearest_release(release)}; "
                "or set --archive (a mirror) or --mysqld",
            )
    if problem is None or isinstance(problem, server_sources.NotInArchiveError):
        archive = sources.archive or "the archive of the vendor"
        raise _not_available(release, f"is neither in the catalog nor in {archive} for {platform.machine()}")
    raise problem


def _not_cached(release: Version) -> RecoveryError:
    for server in install.altered_servers():
        if server.origin.version == release.full_release:
            return HostUnfitError(
                f"{release} was changed in the cache ({server.folder}), and nothing may be fetched while offline",
                "leave --offline out, and it is fetched again",
            )
    return _not_available(release, "is not in the cache, and nothing may be fetched while offline", cached_only=True)


def _not_available(release: Version, why: str, *, cached_only: bool = False) -> RecoveryError:
    others = "or leave --offline out" if cached_only else "or give --mysqld or --archive"
    return UsageError(f"{release.full_release} {why}", f"{nearest_release(release, cached_only=cached_only)}; {others}")


def _build_from_cache(server: InstalledServer, release: Version, sources: Sources, say: Say) -> Build:
    try:
        build = _make_build(server.found, offline=sources.offline, say=say)
    except UsageError as error:  # its hint is about the user's own server
        raise HostUnfitError(
            f"the server in the cache cannot be used: {error.message}",
            f"remove it, and it is fetched again: rm -r {server.folder}",
        ) from error
    if not is_release(build.version, release):
        server.remove()
        server_sources.forget_checksum(server.origin.where)
        raise HostUnfitError(
            f"{server.origin.where} contains {build.version} ({build.version.text}), not {release.full_release}",
            "it was removed from the cache; report the wrong file name to its publisher, or use another mirror",
        )
    return build


def _make_build(server: FoundServer, *, offline: bool, say: Say) -> Build:
    executable.check_elf(server.mysqld)
    basedir = executable.basedir_of(server.mysqld)
    folders = executable.provide_libraries(server.mysqld, basedir, offline=offline, say=say)
    return Build(
        version=executable.query_version(server.mysqld, folders),
        mysqld=server.mysqld,
        basedir=basedir,
        fingerprint=cached_sha256(server.mysqld, server.checksum_file),
        source=server.source,
        messages=executable.messages_in(basedir),
        scripts=executable.scripts_in(basedir),
        library_dirs=folders,
        warnings=server.warnings,
    )
