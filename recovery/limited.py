"""How are limits written: by the user, in words, in the command that repeats them? And was a start held to them?"""

from __future__ import annotations

import re
from collections.abc import Mapping

from recovery.errors import UsageError
from recovery.model import Limits

_SIZE = re.compile(r"(\d{1,30}(?:\.\d{1,30})?)([kmgt]?)(?:i?b)?", re.IGNORECASE | re.ASCII)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MOST_IOPS = 10_000_000
_LEAST_BPS = 64 << 10
LEAST_MEMORY = 128 << 20
"""The smallest server here takes some 100 MB before it has opened a table."""
_LEAST_CPUS = 0.05
_PAGE = 4096

OVER = 1.1
"""More than a tenth above the limit was not held to it."""
SLICE_S = 0.2
"""The kernel gives out reads by slices of a tenth of a second, and the first ones come at once."""


def parse_limits(read_iops: object, read_bps: object, memory: object, cpus: object) -> Limits:
    """From the texts that the user gave; None is no limit."""
    return Limits(
        read_iops=None if read_iops is None else _iops(str(read_iops)),
        read_bps=None if read_bps is None else _size("READ_BPS", str(read_bps), least=_LEAST_BPS, like="100m"),
        memory_bytes=None if memory is None else _memory(str(memory)),
        cpus=None if cpus is None else _cpus(str(cpus)),
    )


def _iops(text: str) -> int:
    number = int(text.replace("_", "")) if re.fullmatch(r"[0-9_]{0,30}[0-9]", text) else 0
    if not 1 <= number <= _MOST_IOPS:
        raise UsageError(f"READ_IOPS={text} makes no sense", f"give reads a second, from 1 to {_MOST_IOPS:,}")
    return number


def _size(name: str, text: str, *, least: int, like: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    number = int(float(found[1]) * _UNITS[found[2].lower()]) if found else 0
    if not least <= number < 1 << 60:
        raise UsageError(
            f"{name}={text} makes no sense", f"give bytes, {compact(least)} at least, with k, m or g, like {like}"
        )
    return number


def _memory(text: str) -> int:
    number = _size("MEMORY", text, least=1, like="2g")
    if number < LEAST_MEMORY:
        raise UsageError(
            f"MEMORY={text} is less than any server can live with",
            f"give {compact(LEAST_MEMORY)} at least, and more where the buffer pool or the tables are large",
        )
    return number - number % _PAGE  # the kernel counts whole pages


def _cpus(text: str) -> float:
    number = float(text) if re.fullmatch(r"\d+(\.\d+)?|\.\d+", text, re.ASCII) else 0.0
    if not _LEAST_CPUS <= number <= 1e6:
        raise UsageError(f"CPUS={text} makes no sense", f"give a number of CPUs from {_LEAST_CPUS} on, like 1.5")
    return number


def compact(count: int) -> str:
    """As the user would write it: 2147483648 is `2g`."""
    unit = next(unit for unit in reversed(_UNITS) if count % _UNITS[unit] == 0)
    return f"{count // _UNITS[unit]}{unit}"


def decimal(value: float) -> str:
    """Nothing is lost: 1.5 is `1.5`, 2.0 is `2`."""
    return repr(value).removesuffix(".0")


def repeated(limits: Limits) -> list[tuple[str, object]]:
    """The options that ask for the same."""
    return [
        ("--read-iops", limits.read_iops),
        ("--read-bps", limits.read_bps and compact(limits.read_bps)),
        ("--memory", limits.memory_bytes and compact(limits.memory_bytes)),
        ("--cpus", None if limits.cpus is None else decimal(limits.cpus)),
    ]


def stored(limits: Limits) -> dict[str, int | float | None]:
    """As a session keeps them among its settings."""
    return {
        "read_iops": limits.read_iops,
        "read_bps": limits.read_bps,
        "memory_bytes": limits.memory_bytes,
        "cpus": limits.cpus,
    }


def limits_of(settings: Mapping[str, str | int | float | bool | None]) -> Limits:
    """Of a stored session; one of before there were limits has none."""
    return Limits(
        read_iops=_whole(settings.get("read_iops")),
        read_bps=_whole(settings.get("read_bps")),
        memory_bytes=_whole(settings.get("memory_bytes")),
        cpus=float(cpus) if isinstance(cpus := settings.get("cpus"), int | float) else None,
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def words(limits: Limits) -> str:
    """`5,000 reads a second, 2 GiB of memory with its page cache`; empty where there is no limit."""
    told = []
    if limits.read_iops is not None:
        told.append(f"{limits.read_iops:,} reads a second")
    if limits.read_bps is not None:
        told.append(f"{_binary(limits.read_bps)} read a second")
    if limits.memory_bytes is not None:
        told.append(f"{_binary(limits.memory_bytes)} of memory with its page cache")
    if limits.cpus is not None:
        told.append(f"{limits.cpus:g} CPU{'' if limits.cpus == 1 else 's'}")
    return ", ".join(told)


def _binary(count: int) -> str:
    unit = next(unit for unit in reversed(_UNITS) if count >= _UNITS[unit])
    return f"{count / _UNITS[unit]:.4g} {unit.upper()}{'i' if unit else ''}B"


def overrun(limits: Limits, *, read_requests: int | None, read_bytes: int | None, seconds: float) -> str | None:
    """Why this start was not held to its limits; None where it was, as far as it was counted."""
    told = (
        (limits.read_iops, read_requests, "reads"),
        (limits.read_bps, read_bytes, "bytes read"),
    )
    for limit, count, what in told:
        if limit is not None and count is not None and count > OVER * limit * (seconds + SLICE_S):
            return f"{count / seconds:,.0f} {what} a second under a limit of {limit:,}: it was not held to it"
    return None
