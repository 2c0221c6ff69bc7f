"""Is whatever a user gives to an option a value, or refused? What is one can be given again, and is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from zlib import crc32

from fuzzing.target import Target, text_of
from recovery.errors import RecoveryError
from recovery.linux.cgroups import format_bytes, limits_from_settings, limits_text, limits_to_settings, parse_limits
from recovery.mysqld.options import canonical_name, merge
from recovery.session.request import (
    MAX_TABLES,
    parse_count,
    parse_identifier,
    parse_layout,
    parse_notes,
    parse_points,
    parse_settings,
    parse_share,
    parse_variants,
    variant_text,
)

Texts = tuple[str, ...]


def _limits(read_iops: str | None, read_bps: str | None, memory: str | None, cpus: str | None) -> None:
    found = parse_limits(read_iops, read_bps, memory, cpus)
    read_bps, memory = (None if size is None else format_bytes(size) for size in (found.read_bps, found.memory_bytes))
    assert parse_limits(found.read_iops, read_bps, memory, found.cpus) == found
    assert limits_from_settings(limits_to_settings(found)) == found
    assert limits_text(found)


def _set(texts: Texts) -> None:
    found = parse_settings(texts)
    assert parse_settings(tuple(f"{name}={value}" for name, value in found)) == found
    assert merge(dict(found)) == dict(found)
    assert all(canonical_name(name) == name for name, _ in found)


def _variants(texts: Texts) -> None:
    found = parse_variants(texts)
    assert parse_variants(tuple(map(variant_text, found))) == found


def _points(texts: Texts) -> None:
    found = parse_points(texts[0])
    assert list(found) == sorted(set(found))


def _tables(texts: Texts) -> None:
    assert 1 <= parse_count("TABLES", texts[0], MAX_TABLES) <= MAX_TABLES


def _share(texts: Texts) -> None:
    assert 0 <= parse_share("--fail-over", texts[0]) <= 100


def _note(texts: Texts) -> None:
    found = parse_notes(texts)
    assert found is None or parse_notes((found,)) == found


def _names(texts: Texts) -> None:
    with suppress(RecoveryError):
        assert parse_identifier("--database", texts[0]).isascii()
    parse_layout(texts[0])


_CHECKS: Mapping[str, Callable[[Texts], None]] = {
    "read-iops": lambda texts: _limits(texts[0], None, None, None),
    "read-bps": lambda texts: _limits(None, texts[0], None, None),
    "memory": lambda texts: _limits(None, None, texts[0], None),
    "cpus": lambda texts: _limits(None, None, None, texts[0]),
    "set": _set,
    "variant": _variants,
    "tables": _tables,
    "points": _points,
    "fail-over": _share,
    "note": _note,
    "database": _names,
}


def check(data: bytes) -> None:
    """The first line says which option, or it is any; each of the others is given to it."""
    name, *texts = text_of(data).split("\n")
    one = _CHECKS.get(name) or tuple(_CHECKS.values())[crc32(data) % len(_CHECKS)]
    with suppress(RecoveryError):
        one(tuple(texts) or (name,))


def _seeds() -> Iterator[bytes]:
    for option, values in {
        "read-iops": ("5000", "5_000"),
        "read-bps": ("100m", "1.5GiB", "65536"),
        "memory": ("2g", "200000001", "0.5t"),
        "cpus": ("1.5", ".5", "0.1234567"),
        "set": ("innodb_io_capacity=2000\n--Skip-Name-Resolve\nloose_innodb-x=a b", "innodb_force_recovery=1"),
        "variant": ("small:innodb_open_files=300,table_open_cache=100\nusual:", "one: layout = general, schemas=10"),
        "tables": ("200_000",),
        "points": ("1000 10000,50000",),
        "fail-over": ("10%", "12.5"),
        "note": ("io2, 5000 IOPS\nfrom a snapshot",),
        "database": ("discovery", "general"),
    }.items():
        for value in values:
            yield f"{option}\n{value}".encode()


TARGET = Target(
    "settings",
    check,
    _seeds,
    words=(*(f"{name}\n" for name in _CHECKS), "loose_", "skip_", "layout=", "schemas=", "innodb_", ":", "GiB", "kb"),
    most_bytes=256,
    share=3100,
)
