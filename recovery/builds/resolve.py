"""Which server is meant by a VERSION, an ARCHIVE and a MYSQLD, and is it ready to be started?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recovery.builds import catalog, clients, download, executable, installed, libraries, own, pinned, vendor
from recovery.builds.checksum import remembered
from recovery.builds.image_names import DEBIAN_NAMES, Wanted, parse_wanted
from recovery.builds.installed import Installed
from recovery.builds.listing import OTHERS, can_be_had
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.host.ailing import CACHE, Folder, blamed
from recovery.model import Build, Flavor, Version
from recovery.paths import cache_dir

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sources:
    """Where a server may come from."""

    archive: str | None = None
    """A mirror in place of the vendor's hosts (ARCHIVE); it goes before the catalog."""
    offline: bool = False
    mysqld: str | None = None
    """The user's own (MYSQLD): executable, folder, tarball, or URL of one."""
    image: str | None = None
    """The user's own image (IMAGE); only where containers run the servers."""
    registry: str | None = None
    """A mirror in place of the default registry (REGISTRY); likewise."""


def resolve(version: str | None, sources: Sources, say: Say) -> Build:
    """A server that can be started: found or fetched, with the libraries that it lacks here."""
    try:
        if sources.archive is not None:
            download.check_address(sources.archive, "ARCHIVE")
        wanted = None if version is None else known_version(version)
        if sources.mysqld is not None:
            return _own(wanted, sources, say)
        if wanted is None:
            raise UsageError("no server was named", "give VERSION=, or your own with MYSQLD=")
        return _kept(_find(wanted, sources, say), wanted, sources, say)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        unfit = HostUnfitError(
            f"the server could not be put in place: {what}", "check space and permissions, or set RECOVERY_CACHE"
        )
        raise blamed(unfit, Folder(CACHE, cache_dir())) or unfit from error


def known_wanted(text: str) -> Wanted:
    """Parsed; one that cannot be is answered with those that can be had."""
    try:
        return parse_wanted(text)
    except UsageError as error:
        raise UsageError(error.message, f"can be had: {can_be_had()}, {', '.join(DEBIAN_NAMES)}; {OTHERS}") from None


def known_version(text: str) -> Version:
    """One release, as a server of this host must be named."""
    wanted = known_wanted(text)
    if wanted.release is None:
        raise UsageError(
            f"{text} names no one release: only containers know it (ENGINE=docker)",
            f"can be had: {can_be_had()}; {OTHERS}",
        )
    return wanted.release


def _own(wanted: Version | None, sources: Sources, say: Say) -> Build:
    assert sources.mysqld is not None
    found = own.find(sources.mysqld, offline=sources.offline, say=say)
    build = _assemble(found, offline=sources.offline, say=say)
    if wanted is not None and not _agree(wanted, build.version):
        raise UsageError(
            f"MYSQLD is {build.version} ({build.version.text}), but VERSION says {wanted}",
            f"leave VERSION out, or say VERSION={build.version}",
        )
    return build


def _agree(wanted: Version, found: Version) -> bool:
    """`9.7.4-2` can be Debian's spelling or Percona's: between those two the server knows best."""
    if wanted.text.lower().startswith(("percona", "mysql")) or Flavor.MARIADB in (wanted.flavor, found.flavor):
        return wanted == found
    return wanted.numbers == found.numbers


def _find(wanted: Version, sources: Sources, say: Say) -> Installed:
    row = catalog.find(wanted)
    takes_mirror = sources.archive is not None and wanted.flavor is Flavor.MYSQL
    if row is not None and not takes_mirror:
        found = pinned.cached(row) or (vendor.cached(wanted, None) if sources.offline else None)
        if found is None and sources.offline:
            raise _not_cached(wanted)
        return found or _pinned_or_archived(wanted, row, sources, say)
    return _from_archive(wanted, row, sources, say)


def _pinned_or_archived(wanted: Version, row: catalog.Row, sources: Sources, say: Say) -> Installed:
    """The vendor has these releases too: a host without the registry's client need not have one."""
    try:
        return pinned.obtain(row, say)
    except clients.UnobtainableError as error:
        if wanted.flavor is not Flavor.MYSQL:
            raise
        say(f"{error.message}: looking in the vendor's archive")
        try:
            return _from_archive(wanted, None, sources, say)
        except RecoveryError:
            raise error from None


def _from_archive(wanted: Version, row: catalog.Row | None, sources: Sources, say: Say) -> Installed:
    if wanted.flavor is not Flavor.MYSQL:
        raise _nowhere(wanted, "is not in the catalog, and only MySQL has an archive that is known here")
    found = vendor.cached(wanted, sources.archive)
    if found is not None:
        return found
    if sources.offline:
        raise _not_cached(wanted)
    try:
        url = vendor.locate(wanted, sources.archive)
    except download.UnreachableError as error:
        raise HostUnfitError(
            f"{wanted} would come from the archive, but {error.message}",
            f"see the network and its proxy; without it can be had: {can_be_had()}; or ARCHIVE= (a mirror), MYSQLD=",
        ) from error
    if url is not None:
        return vendor.obtain(wanted, url, say)
    if row is None:
        raise _nowhere(wanted, f"is neither in the catalog nor in {sources.archive or 'the archive of the vendor'}")
    say(f"{sources.archive} has no {wanted}: taking it from the catalog")
    return pinned.cached(row) or pinned.obtain(row, say)


def _not_cached(wanted: Version) -> RecoveryError:
    for server in installed.altered():
        if server.origin.version == str(wanted):
            return HostUnfitError(
                f"{wanted} was changed in the cache ({server.folder}), and nothing may be fetched while offline",
                "leave --offline out, and it is fetched again",
            )
    return _nowhere(wanted, "is not in the cache, and nothing may be fetched while offline", cached_only=True)


def _nowhere(wanted: Version, why: str, *, cached_only: bool = False) -> RecoveryError:
    others = "or leave --offline out" if cached_only else "or MYSQLD=, ARCHIVE="
    return UsageError(f"{wanted} {why}", f"can be had: {can_be_had(cached_only=cached_only)}; {others}")


def _kept(server: Installed, wanted: Version, sources: Sources, say: Say) -> Build:
    found = own.Found(server.mysqld, server.origin.source, server.memo, server.origin.warnings)
    try:
        build = _assemble(found, offline=sources.offline, say=say)
    except UsageError as error:  # of the user's own server, as its hint says
        raise HostUnfitError(
            f"the server in the cache cannot be used: {error.message}",
            f"remove it, and it is fetched again: rm -r {server.folder}",
        ) from error
    if not _agree(wanted, build.version):
        server.remove()
        vendor.forget(server.origin.where)
        raise HostUnfitError(
            f"what {server.origin.where} holds is {build.version} ({build.version.text}), not {wanted}",
            "it was removed again; the archive it came from is wrongly named",
        )
    return build


def _assemble(found: own.Found, *, offline: bool, say: Say) -> Build:
    executable.check_elf(found.mysqld)
    basedir = executable.basedir_of(found.mysqld)
    folders = libraries.provide(found.mysqld, basedir, offline=offline, say=say)
    return Build(
        version=executable.ask_version(found.mysqld, folders),
        mysqld=found.mysqld,
        basedir=basedir,
        fingerprint=remembered(found.mysqld, found.memo),
        source=found.source,
        messages=executable.messages_in(basedir),
        scripts=executable.scripts_in(basedir),
        library_dirs=folders,
        warnings=found.warnings,
    )
