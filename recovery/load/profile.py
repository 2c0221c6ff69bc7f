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
    preload: bool
    """Whether a library that makes fsync do nothing is worth its while."""
    disable_redo: bool


def build_profile(version: Version) -> BuildProfile:
    return BuildProfile(
        connections=4 if can(version, "ddl_scales_with_connections") else 2,
        batch=500,
        preload=True,
        disable_redo=can(version, "disable_redo"),
    )
