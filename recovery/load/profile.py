"""How is this server's stage built fastest? Measured, on two cores. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from recovery.model import Version
from recovery.versions import can


@dataclass(frozen=True)
class BuildProfile:
    connections: int
    batch: int
    """Statements in one packet."""
    disable_redo: bool


def build_profile(version: Version) -> BuildProfile:
    """A dictionary lock makes more than two connections useless before 8.0. Without the preloaded library the rate
    halves, or worse. Larger packets gain nothing, and an interruption has to wait for those under way."""
    scales = can(version, "ddl_scales_with_connections")
    return BuildProfile(
        connections=4 if scales else 2,
        batch=100 if scales else 200,
        disable_redo=can(version, "disable_redo"),
    )
