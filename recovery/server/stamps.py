"""When was this line written, by its own stamp? Any generation's, behind whatever a log collector put before it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_STAMP = re.compile(
    r"(?<!\d)(?:(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T ]|(?P<short>\d{6}) ) ?"
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d):(?P<second>\d\d)(?P<fraction>\.\d{1,9})?"
    r"(?:\s?(?P<zone>Z|[+-]\d\d:?\d\d)(?!\d))?",
    re.ASCII,
)
_FURTHEST = 120
"""A stamp stands at the beginning of its line, but for the name of a container or of a host."""


@dataclass(frozen=True)
class Stamp:
    at_s: float
    """Seconds since the epoch; as if it were UTC where no zone is told."""
    text: str
    whole: bool
    """In whole seconds: nothing shorter can be told."""


def stamp_of_any(line: str) -> Stamp | None:
    """None for a line that has none, or one that no calendar knows."""
    match = _STAMP.search(line[:_FURTHEST])
    if match is None:
        return None
    short = match["short"]
    date = f"20{short[:2]}-{short[2:4]}-{short[4:]}" if short else f"{match['year']}-{match['month']}-{match['day']}"
    try:
        time = f"{match['hour']:0>2}:{match['minute']}:{match['second']}"
        moment = datetime.fromisoformat(f"{date}T{time}").replace(tzinfo=UTC) - _offset(match["zone"])
        seconds = moment.timestamp() + float(match["fraction"] or 0)
    except (ValueError, OverflowError):
        return None
    return Stamp(seconds, match.group().strip(), match["fraction"] is None)


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone == "Z":
        return timedelta()
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return timedelta(minutes=-minutes if zone[0] == "-" else minutes)
