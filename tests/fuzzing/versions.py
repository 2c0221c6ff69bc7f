"""Is any text a version, or refused? What is one prints back to what is the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from fuzzing.target import Target, text_of
from recovery.builds import catalog
from recovery.builds.resolve import DEBIAN_NAMES, check_registry, parse_request, registry_names
from recovery.errors import RecoveryError
from recovery.model import CAPABILITIES, can, crashes_with_tables, parse_version
from recovery.mysqld.options import base_settings
from recovery.mysqld.phases import file_access_of
from recovery.session.request import split_versions

_ASKED_ALL = 32
"""One release in so many is asked all that is known of any, which takes longer than to read it."""
_SPELLED = (
    "5.7.22", "mariadb-10.11.5", "mysql:8.0.31", "percona-8.0.39-30", "8.0.39-30", "8.0.39-30.1-log", "5.6.27-log",
    "10.11.19-MariaDB-0+deb12u1", "10.2.11-MariaDB-log", " 9.7.4 ", "8.4", "percona:8.4", "mariadb-11", "5.7.22 8.0.31",
    "localhost:5000/mirror", "[::1]:5000", "999.999.9999", "05.07.022",
)  # fmt: skip


def check(data: bytes) -> None:
    text = text_of(data)
    for one in split_versions((text,)):
        assert one.split() == [one]
    with suppress(RecoveryError):
        registry = check_registry(text)
        assert registry.split() == [registry]
        assert registry.endswith("/")
    with suppress(RecoveryError):
        wanted = parse_request(text)
        assert wanted.fits(wanted.like)
        assert all(name.partition(":")[2] for name in registry_names(wanted, None))
    with suppress(ValueError):
        _check_release(text)


def _check_release(text: str) -> None:
    found = parse_version(text)
    assert parse_version(str(found)) == found
    assert parse_version(found.text) == found
    assert found.text == text.strip()
    file_access_of(found)
    if crc32(text.encode()) % _ASKED_ALL:
        return
    crashes_with_tables(found, 8001)
    base_settings(found, rundir=Path("/run"))
    for capability in CAPABILITIES:
        assert can(found, capability) in (True, False)


def _seeds() -> Iterator[bytes]:
    for text in (*_SPELLED, *DEBIAN_NAMES, *(row.version.text for row in catalog.pinned_servers())):
        yield text.encode()


TARGET = Target(
    "versions",
    check,
    _seeds,
    words=("mysql", "mariadb", "percona", "-log", "-debug", "-MariaDB", "debian-sid", "8.0.", "10.11."),
    most_bytes=64,
    share=6500,
)
