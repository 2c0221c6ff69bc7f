"""How does a server of the catalog get into the cache?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from recovery.builds import clients, installed
from recovery.builds.catalog import Row
from recovery.builds.checksum import verify
from recovery.builds.executable import check_elf, find_mysqld
from recovery.builds.installed import Installed, Job, Origin
from recovery.builds.unpack import Selection, extract_inner, unpack


def cached(row: Row) -> Installed | None:
    return installed.find(lambda origin: _is(origin, row))


def _is(origin: Origin, row: Row) -> bool:
    return origin.kind == "catalog" and origin.version == str(row.version) and origin.archive_sha256 == row.sha256


def obtain(row: Row, say: Callable[[str], None]) -> Installed:
    def fill(part: Path) -> Origin:
        say(f"fetching {row.version}: {row.client} {row.artifact}, {row.bytes / 1e6:.0f} MB")
        fetched = _fetch(row, part / "fetched")
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

    return installed.obtain(Job(row.folder_name, lambda origin: _is(origin, row), fill), say)


def _fetch(row: Row, folder: Path) -> Path:
    folder.mkdir()
    fetched = clients.fetch(row, folder)
    program = clients.program(row)
    hint = f"{program} or its mirror gave another file than the pinned one; empty {program}'s own cache and try again"
    verify(fetched, row.sha256, hint=hint)
    return fetched
