"""Reads fleet.json, which says what became of every session of a fleet."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from recovery.errors import RecoveryError, UsageError
from recovery.fleet.hosts import PRICE, Fact
from recovery.fleet.plan import check_price
from recovery.linux.files import read_stored

FLEET_FILE = "fleet.json"
_HOST_NAME = re.compile(r"(?!\.)[\w.-]+", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class SessionRecord:
    """What became of a session of the plan on one host, as fleet.json has it."""

    command: str = ""
    line: str = ""
    """The command with its options."""
    key: str = ""
    """Name of its folder on the host."""
    folder: str | None = None
    """HOST/SESSION, or None if nothing was fetched."""
    others: tuple[str, ...] = ()
    """HOST/SESSION of the sessions before it, if the line repeats it. They are there even if not all have ended."""
    state: str = "missing"
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class HostRecord:
    facts: dict[str, Fact] = field(default_factory=dict)
    sessions: tuple[SessionRecord, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FleetRecord:
    hosts: dict[str, HostRecord]


_RECORD = TypeAdapter(FleetRecord)


def read_record(path: Path) -> FleetRecord:
    record = read_stored(path, _RECORD)
    if not record.hosts:
        raise UsageError(f"there is no host in {path}", "add hosts to the plan, and run it")
    for name, host in record.hosts.items():
        if not _HOST_NAME.fullmatch(name):
            raise RecoveryError(f"{path} is damaged: '{name}' is no name of a host", "restore the file, or run again")
        try:
            check_price(host.facts.get(PRICE), name)
        except UsageError as error:
            raise RecoveryError(f"{path}: {error.message}", error.hint) from None
    return record
