"""What did the user ask for? Checked once, here, before anything is touched."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import UsageError
from recovery.model import NO_LIMITS, Limits, Schema
from recovery.server.options import check_user_settings
from recovery.server.watcher import DEFAULT_STALL_S

DEFAULT_TABLES = 200_000
DEFAULT_RUNS = 5
MOST_TABLES = 100_000_000
MOST_RUNS = 10_000
TIMED_ONLY = frozenset({"innodb_force_recovery"})
"""A server that runs under them takes no inserts, and no clean start is wanted with them."""
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,49}")
_THE_SERVERS_OWN = frozenset({"mysql", "information_schema", "performance_schema", "sys", "test"})


@dataclass(frozen=True)
class Request:
    """One session, as asked."""

    scenario: str
    versions: tuple[str, ...]
    schema: Schema
    runs: int
    data: Path
    results: Path
    settings: tuple[tuple[str, str], ...] = ()
    insert_template: Path | None = None
    mysqld: str | None = None
    archive: str | None = None
    engine: str = "auto"
    """`auto`, `docker` or `local`."""
    image: str | None = None
    registry: str | None = None
    as_published: bool = False
    allow_drop: bool = True
    keep: bool = False
    offline: bool = False
    stall_s: float = DEFAULT_STALL_S
    limits: Limits = NO_LIMITS
    """For the servers that are measured; tables are built without."""
    command: str = ""

    @property
    def lasting_settings(self) -> dict[str, str]:
        """The user's options for every start."""
        return {name: value for name, value in self.settings if name.removeprefix("loose_") not in TIMED_ONLY}

    @property
    def timed_settings(self) -> tuple[tuple[str, str], ...]:
        """And those for the timed one alone."""
        return tuple((name, value) for name, value in self.settings if name.removeprefix("loose_") in TIMED_ONLY)


def positive(name: str, text: str | int, most: int) -> int:
    """A count the user gave: `TABLES=0`, `-1`, `x` and the absurd are told apart from a number."""
    try:
        number = int(str(text).replace("_", ""))
    except ValueError:
        number = 0
    if not 1 <= number <= most:
        raise UsageError(f"{name}={text} makes no sense", f"give a whole number from 1 to {most:,}")
    return number


def identifier(name: str, text: str) -> str:
    if not _IDENTIFIER.fullmatch(text):
        raise UsageError(f"{name}={text} is no plain SQL name", "use letters, digits and underscores, 50 at most")
    if text.lower() in _THE_SERVERS_OWN:
        raise UsageError(f"{name}={text} is a schema of the server itself", "take another name")
    return text


def parse_settings(pairs: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """`--set name=value` for mysqld; a bare name is a flag."""
    settings: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not name.strip():
            raise UsageError(f"--set '{pair}' names no option", "write it like --set innodb_force_recovery=1")
        settings[name] = value.strip()
    checked = check_user_settings(settings)
    for name, value in checked.items():
        if name.removeprefix("loose_") in TIMED_ONLY and value not in ("0", "1", "2", "3"):
            raise UsageError(f"{name}={value} can damage the data directory", "1 to 3 are safe; 1 skips the validation")
    return tuple(checked.items())


def split_versions(texts: tuple[str, ...]) -> tuple[str, ...]:
    """`VERSION="5.6.24 5.7.22"` and repeated options alike; each version once."""
    return tuple(dict.fromkeys(version for text in texts for version in text.replace(",", " ").split()))
