"""How is a MySQL version had from the vendor's archive, or from a mirror of it?"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from recovery.builds import archive, download, installed
from recovery.builds.checksum import NAMES, digest, verify
from recovery.builds.executable import check_elf, find_mysqld
from recovery.builds.installed import Installed, Job, Origin
from recovery.builds.unpack import Selection, unpack
from recovery.errors import RecoveryError
from recovery.files import write_atomically
from recovery.model import Version
from recovery.ownership import made_readable
from recovery.paths import servers_dir

# The vendor's full tarballs hold ten times what a server needs.
NEEDLESS = Selection(
    drop=(
        "*/mysql-test/*", "*/sql-bench/*", "*/man/*", "*/docs/*", "*/include/*", "*.a", "*/bin/*-debug",
        "*/lib/plugin/debug/*", "*/bin/*embedded*", "*/lib/mysqlrouter/*", "*/bin/mysqlrouter*", "*/bin/mysqlxtest",
    )
)  # fmt: skip


def cached(version: Version, mirror: str | None) -> Installed | None:
    """With a mirror named, only what came from it."""
    return installed.find(lambda origin: _fits(origin, version, mirror))


def _fits(origin: Origin, version: Version, mirror: str | None) -> bool:
    if origin.kind != "archive" or origin.version != str(version):
        return False
    return mirror is None or origin.where.startswith(mirror.rstrip("/") + "/")


def locate(version: Version, mirror: str | None) -> str | None:
    """The first candidate that is there; None if all hosts answered that they have none."""
    unreachable: dict[str, RecoveryError] = {}
    answered = False
    for url in archive.candidates(version, mirror, platform.machine()):
        host = urlsplit(url).netloc
        if host in unreachable:
            continue
        try:
            if download.exists(url):
                return url
            answered = True
        except download.UnreachableError as error:
            unreachable[host] = error
    if unreachable and not answered:
        raise next(iter(unreachable.values()))
    return None


def obtain(version: Version, url: str, say: Callable[[str], None]) -> Installed:
    def fill(part: Path) -> Origin:
        file, warnings = fetch(url, part, say)
        sha256, size = digest(file), file.stat().st_size
        mysqld = unpack_server(file, part / "tree", say)
        record(url, sha256)
        return Origin("archive", str(version), f"archive {url}", url, sha256, size, mysqld, warnings)

    job = Job(f"archive-{version}", lambda origin: _fits(origin, version, url.rpartition("/")[0]), fill)
    return installed.obtain(job, say)


def fetch(url: str, folder: Path, say: Callable[[str], None]) -> tuple[Path, tuple[str, ...]]:
    """The tarball, held against the published checksum or the one recorded earlier; and what to warn of."""
    file = folder / urlsplit(url).path.rpartition("/")[2]
    say(f"downloading {url}")
    download.download(url, file, say)
    for algorithm, digits in (("sha256", 64), ("md5", 32)):
        published = _published(f"{url}.{algorithm}", digits)
        if published is not None:
            verify(file, published, algorithm=algorithm, hint=f"its publisher says otherwise in {url}.{algorithm}")
            return file, (_not_pinned(url, algorithm),)
    return file, (_against_record(url, file),)


def _not_pinned(url: str, algorithm: str) -> str:
    """Who can change the tarball there can change the sum beside it."""
    on_the_way = "" if urlsplit(url).scheme == "https" else ", and both came over http"
    name = urlsplit(url).path.rpartition("/")[2]
    return f"{name} is not pinned by this tool: it equals the {NAMES[algorithm]} that lies beside it{on_the_way}"


def _published(url: str, digits: int) -> str | None:
    text = download.small_text(url)
    found = re.search(rf"(?<![0-9a-fA-F])[0-9a-fA-F]{{{digits}}}(?![0-9a-fA-F])", text or "")
    return found[0] if found else None


def _against_record(url: str, file: Path) -> str:
    """Without a published sum the first download that held a server is believed, and every later one must equal it."""
    recorded = _record(url)
    if recorded.is_file():
        hint = f"it is not what came from there before; if that is right, remove {recorded}"
        verify(file, recorded.read_text(encoding="ascii").strip(), hint=hint)
    return f"no checksum is published for {file.name}: its SHA-256 {digest(file)} was recorded at the first download"


def _record(url: str) -> Path:
    name, key = urlsplit(url).path.rpartition("/")[2], hashlib.sha256(url.encode()).hexdigest()[:8]
    return servers_dir() / "recorded" / f"{name}-{key}.sha256"


def record(url: str, sha256: str) -> None:
    """Once it was unpacked: a download that was cut short must not become the measure of the next."""
    path = _record(url)
    if not path.is_file():
        made_readable(path.parent)
        write_atomically(path, f"{sha256}\n".encode())


def forget(url: str) -> None:
    """It held another server than its name says."""
    _record(url).unlink(missing_ok=True)


def unpack_server(file: Path, tree: Path, say: Callable[[str], None]) -> str:
    """The executable's place in the tree; the archive is removed, and a program of another CPU refused."""
    say(f"unpacking {file.name}")
    unpack(file, tree, NEEDLESS)
    mysqld = find_mysqld(tree)
    check_elf(mysqld)
    return str(mysqld.relative_to(tree))
