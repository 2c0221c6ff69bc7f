"""What has the doctor found: how is it, why does it matter, and what is to be done?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    name: str
    ok: bool | None
    """None is a note: good to know, but nothing is refused for it."""
    detail: str
    why: str
    """What it has to do with a start."""
    hint: str = ""
    """What to do about it; empty where there is nothing to be done."""


def told(value: object, unit: str = "") -> str:
    return "unknown" if value is None else f"{value}{unit}"
