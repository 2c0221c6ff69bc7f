"""Which server does the user mean by MYSQLD: an executable, an unpacked folder, a tarball, or a tarball's URL?"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recovery.builds import download, installed, vendor
from recovery.builds.checksum import digest, remembered
from recovery.builds.executable import find_mysqld
from recovery.builds.installed import Installed, Job, Origin
from recovery.errors import RecoveryError, UsageError
from recovery.ownership import refuse_untrusted
from recovery.paths import expanded, servers_dir

_TARBALLS = (".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tar")


@dataclass(frozen=True)
class Found:
    """An executable of the user's, and what the report says of it."""

    mysqld: Path
    source: str
    memo: Path
    warnings: tuple[str, ...] = ()


def find(mysqld: str, *, offline: bool, say: Callable[[str], None]) -> Found:
    if not mysqld.strip():
        raise UsageError("MYSQLD is set but empty", "leave it out, or give a path or a URL")
    if "://" in mysqld:
        download.check_address(mysqld, "MYSQLD")
        return _unpacked(_from_url(mysqld, offline=offline, say=say))
    path = expanded(Path(mysqld))
    if not path.exists():
        raise UsageError(f"MYSQLD={mysqld}: there is no such file or folder", "give the server's executable or tarball")
    _refuse_as_root(path)
    path = path.resolve()
    if path.is_dir():
        found = find_mysqld(path)
        _refuse_as_root(found)
        return _lying(found.resolve(), path)
    if path.name.endswith(_TARBALLS):
        return _unpacked(_from_tarball(path, say))
    if not path.is_file():
        raise UsageError(f"MYSQLD={mysqld} is neither a file nor a folder", "give the server's executable or tarball")
    return _lying(path, path)


def _refuse_as_root(path: Path) -> None:
    """Whose server to run is the user's own choice; but nobody else may choose what root runs."""
    if os.geteuid() == 0:
        refuse_untrusted(path, "name a server that only root can change; `chown -R root` gives root one that is not")


def _lying(mysqld: Path, given: Path) -> Found:
    return Found(mysqld, f"own {given}", _memo(mysqld))


def _unpacked(server: Installed) -> Found:
    return Found(server.mysqld, server.origin.source, server.memo, server.origin.warnings)


def _memo(path: Path) -> Path:
    """Beside a server of the user's nothing is written."""
    key = hashlib.sha256(str(path).encode()).hexdigest()[:16]
    return servers_dir() / "recorded" / f"own-{key}.json"


def _from_tarball(path: Path, say: Callable[[str], None]) -> Installed:
    sha256 = remembered(path, _memo(path))

    def fill(part: Path) -> Origin:
        mysqld = vendor.unpack_server(path, part / "tree", say)
        return Origin("file", "", f"own {path}", str(path), sha256, path.stat().st_size, mysqld)

    job = Job(f"file-{sha256[:8]}", lambda origin: origin.kind == "file" and origin.archive_sha256 == sha256, fill)
    return installed.obtain(job, say)


def _from_url(url: str, *, offline: bool, say: Callable[[str], None]) -> Installed:
    key = hashlib.sha256(url.encode()).hexdigest()[:8]

    def fill(part: Path) -> Origin:
        if offline:
            raise RecoveryError(f"{url} is not in the cache, and nothing may be fetched while offline", "go online")
        file, warnings = vendor.fetch(url, part, say)
        sha256, size = digest(file), file.stat().st_size
        mysqld = vendor.unpack_server(file, part / "tree", say)
        vendor.record(url, sha256)
        return Origin("url", "", f"own {url}", url, sha256, size, mysqld, warnings)

    job = Job(f"url-{key}", lambda origin: origin.kind == "url" and origin.where == url, fill)
    return installed.obtain(job, say)
