"""How is a figure written? Seconds, bytes, counts and names as a reader wants them; what was not taken is `-`."""

from __future__ import annotations

ABSENT = "-"


def seconds(value: float | None) -> str:
    """Two decimals under 100, one above: a clock's reader needs no more."""
    if value is None:
        return ABSENT
    return f"{value:.2f}" if round(value, 2) < 100 else f"{value:.1f}"


def size(value: int | None) -> str:
    """Decimal units (1 MB is 1,000,000 bytes), as storage is sold and limited by."""
    if value is None:
        return ABSENT
    if abs(value) < 1000:
        return f"{value} B"
    scaled = float(value)
    for unit in ("kB", "MB", "GB"):
        scaled /= 1000
        if abs(round(scaled, 1)) < 1000:
            return f"{scaled:.1f} {unit}"
    return f"{scaled / 1000:,.1f} TB"


def count(value: int | None) -> str:
    return ABSENT if value is None else f"{value:,}"


def ratio(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.2f}"


def yes_or_no(value: bool | None) -> str:
    return ABSENT if value is None else "yes" if value else "no"


def of(found: int | None, expected: int | None) -> str:
    """`100/100`: how many were found of those that must be there."""
    return ABSENT if found is None and expected is None else f"{count(found)}/{count(expected)}"


def fact(key: str, value: str | float | bool | None) -> tuple[str, str]:
    """A named fact as a row: its name in words, its value in a reader's unit."""
    if key.endswith("_bytes") and isinstance(value, int):
        return words(key.removesuffix("_bytes")), size(value)
    if value is None or value == "":
        return words(key), ABSENT
    if isinstance(value, bool):
        return words(key), yes_or_no(value)
    if isinstance(value, int):
        return words(key), count(value)
    return words(key), f"{value:g}" if isinstance(value, float) else value


def words(key: str) -> str:
    return key.replace("_", " ")
