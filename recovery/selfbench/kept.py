"""At full size: how long until cold is proved, and until a second run over a kept data directory begins?"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from recovery.builds.resolve import Sources, resolve
from recovery.host.datadir import DataDirs, prove_intact
from recovery.host.pagecache import make_cold
from recovery.load.insert import insert_statements
from recovery.model import Schema
from recovery.scenarios.bench import Conditions
from recovery.selfbench.site import quiet


@dataclass(frozen=True)
class Kept:
    key: str
    tables: int
    begin_s: float
    cold_s: float
    resident_bytes: int | None


def largest(data: Path) -> str | None:
    """The key of the largest whole data directory that is kept and free."""
    whole = [info for info in DataDirs(data).list() if info.status == "whole" and not info.busy_by]
    return max(whole, key=lambda info: info.tables or 0).key if whole else None


def measure(data: Path, key: str) -> Kept:
    """The way of a second run up to its first trial (server found, directory locked and proved intact, insert script
    rendered, state saved), and then one flush with its proof, after every file was read."""
    began = time.monotonic()
    with DataDirs(data).acquire(key) as kept:
        resolve(kept.state.version, Sources(), quiet)
        schema = Schema(**{name: value for name, value in kept.state.schema.items() if name != "template"})
        prove_intact(kept, schema.database_names)
        Conditions(insert_statements(schema))
        kept.save(kept.state)
        begin_s = time.monotonic() - began
        proof = make_cold(kept.mysql)
        return Kept(key, kept.state.tables or 0, begin_s, proof.seconds, proof.resident_bytes)
