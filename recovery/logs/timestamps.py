"""Reads the time stamps of every server generation, and those that a collector of logs put before the lines.

The server's own stamp counts where a line has one. A collector's stamp (`kubectl logs --timestamps`, `docker logs -t`,
Docker Desktop, journald, syslog) counts only for the other lines, brought to the server's clock by the lines that have
both: the collector's zone may be another one, and the short format of journald has no year."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from recovery.logs.error_log import joined_line

_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d\d):(?P<second>\d\d)(?P<fraction>\.\d{1,9})?"
_STAMP = re.compile(
    r"(?<!\d)(?:(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)(?P<between>[T ])|(?P<short>\d{6}) ) ?"
    rf"{_TIME}(?:\s?(?P<zone>Z|[+-]\d\d:?\d\d)(?!\d))?",
    re.ASCII,
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WITHOUT_YEAR = re.compile(rf"(?P<month>{'|'.join(_MONTHS)}) +(?P<day>\d{{1,2}}) {_TIME}(?= )", re.ASCII)
"""The stamp of journald's short format and of syslog, at the beginning of a line."""
_SEARCH_CHARS = 120
"""Number of characters in which a stamp is searched: only the name of a container or of a host comes before it."""
_COLLECTOR = re.compile(
    r" std(?:out|err) [FP] |(?: [A-Z]{3,5})? \S{1,255} (?P<program>[\w./@-]{1,64})(?:\[\d+\]:|(?<= kernel):) ?",
    re.ASCII,
)
"""What a container runtime or journald writes between its stamp and the server's line."""
_RSYSLOG = re.compile(r" [\w.-]{1,255} (?P<program>(?:mysql|maria)\w{0,8}(?:[_-]safe)?)(?:\[\d+\])?: ", re.ASCII)
"""The same of rsyslog, whose stamp is that of RFC 3339, for a program without its process id."""
_SYSLOG = re.compile(r" \S{1,255} (?P<program>[\w./@-]{1,64})(?:\[\d+\])?: ?", re.ASCII)
_OWN_REST = re.compile(r" (?:\d+ \[|mysqld_safe |mariadbd-safe )", re.ASCII)
"""What follows the server's own stamp if that has a zone."""
_PLAIN_COLLECTOR = re.compile(r":| (?=(?:\d{4}-\d\d-\d\d[T ]|\d{6} ) ?\d{1,2}:\d\d:\d\d)", re.ASCII)
"""What follows a stamp that is a collector's, although it has no zone: a colon, which no server writes there, or the
server's own stamp."""
_SERVER_TEXT = "InnoDB: "
"""A stamp after this is that of the next line: the server writes percentages without a newline."""
_DIGITS = re.compile(r"\d", re.ASCII)
_COLOUR = r"(?:\x1b\[[\d;]{0,20}m)?"
_COMPOSE = re.compile(rf"{_COLOUR}([\w.-]{{1,100}}) +\| {_COLOUR}", re.ASCII)
"""The container's name, which `docker compose logs` puts before each line."""
_KUBECTL = re.compile(r"\[pod/([\w.-]{1,253}/[\w.-]{1,63})\] ", re.ASCII)
"""What `kubectl logs --prefix` puts before each line."""


@dataclass(frozen=True)
class Stamp:
    at_s: float
    """Seconds since the epoch; a stamp without a zone is taken as UTC."""
    text: str
    whole: bool
    """Whether the stamp is in whole seconds, so that shorter times cannot be measured."""
    zoned: bool = True
    """Whether the stamp names its time zone."""


@dataclass(frozen=True)
class LogLine:
    """A line of a log, without what a collector added."""

    message: str
    """The server's own line, with its stamp."""
    own: Stamp | None
    collected: Stamp | None = None
    """When the collector received the line. Its year is that of `split_line`."""
    program: str | None = None
    """The program that wrote the line, if the collector names it."""


def split_line(line: str, *, year: int = 2000) -> LogLine:
    """Returns the parts of a line. `year` is that of a stamp without one."""
    head = line[:_SEARCH_CHARS]
    if (dated := _WITHOUT_YEAR.match(head)) is not None:
        collected, between = _dated_stamp(dated, year), _SYSLOG.match(line, dated.end())
    else:
        first = _STAMP.search(head)
        if first is None or _SERVER_TEXT in head[: first.start()]:
            named = _COMPOSE.match(head)
            return LogLine(line[named.end() :] if named else line, None)
        patterns = (_COLLECTOR, _RSYSLOG, _PLAIN_COLLECTOR)
        between = next(filter(None, (pattern.match(line, first.end()) for pattern in patterns)), None)
        if between is None and not _may_be_collected(first, line):
            return LogLine(line[first.start() :], _stamp_of(first))
        collected, dated = _stamp_of(first), first
    at = dated.end() + 1 if between is None else between.end()
    program = between.groupdict().get("program") if between is not None else None
    own = _STAMP.match(line, at)
    return LogLine(line[at:], None if own is None else _stamp_of(own), collected, program)


def _may_be_collected(first: re.Match[str], line: str) -> bool:
    """Returns whether the first stamp of a line may be that of kubectl or Docker: it has the form of RFC 3339, and the
    server's own stamp or no line of a server follows."""
    return first["between"] == "T" and first["zone"] is not None and not _OWN_REST.match(line, first.end())


def container_of(line: str) -> str | None:
    """Returns the name of the container that a collector puts before a line, or None."""
    if "|" not in line[:_SEARCH_CHARS] and not line.startswith("[pod/"):
        return None
    named = _COMPOSE.match(line) or _KUBECTL.match(line)
    return None if named is None else named[1]


def form_of_stamp(line: str) -> str | None:
    """Returns the form of the server's own stamp, without its zone, which changes twice a year; None if it has none."""
    own = split_line(line).own
    if own is None:
        return None
    date = "yymmdd" if own.text[:6].isdigit() else "T" if "T" in own.text else "date"
    return date if own.whole else f"{date}.us"


def parse_stamp(line: str) -> Stamp | None:
    """Returns the server's own time stamp of a line, or else that of a collector. None: it has none with a year, or not
    a valid date."""
    parts = split_line(line)
    return parts.own or (
        parts.collected if parts.collected is not None and parts.collected.text[:1].isdigit() else None
    )


def _stamp_of(match: re.Match[str]) -> Stamp | None:
    short = match["short"]
    date = f"20{short[:2]}-{short[2:4]}-{short[4:]}" if short else f"{match['year']}-{match['month']}-{match['day']}"
    return _stamp(date, match, match["zone"])


def _dated_stamp(match: re.Match[str], year: int) -> Stamp | None:
    month = _MONTHS.index(match["month"]) + 1
    return _stamp(f"{year:04}-{month:02}-{int(match['day']):02}", match, None)


def _stamp(date: str, match: re.Match[str], zone: str | None) -> Stamp | None:
    try:
        time = f"{match['hour']:0>2}:{match['minute']}:{match['second']}"
        seconds = datetime.fromisoformat(f"{date}T{time}{zone or 'Z'}").timestamp() + float(match["fraction"] or 0)
    except (ValueError, OverflowError):
        return None
    return Stamp(seconds, match.group().strip(), match["fraction"] is None, zone is not None)


_BACK_S, _LEAP_S = 2.0, 7 * 86_400
"""Steps from one line of a start to the next that no server takes."""
_HOUR_S, _SUNDAY = 3600, 6
_SUMMER_MONTHS, _SUMMER_HOURS = (3, 4, 9, 10), (1, 2, 3)
"""When the clocks of the world go forward: on a Sunday of these months, by skipping one of these hours."""


def shows_set_clock(before: Stamp, stamp: Stamp) -> bool:
    """Returns whether the clock was set between two lines of a start, or went to summer time, as far as stamps tell.
    Threads may write their lines in another order, and stamps of another form may be of another clock."""
    if (before.zoned, before.whole) != (stamp.zoned, stamp.whole):
        return False
    step_s = stamp.at_s - before.at_s
    return step_s < -_BACK_S or step_s > _LEAP_S or (not stamp.zoned and _skips_hour(before.at_s, stamp.at_s))


def _skips_hour(before_s: float, at_s: float) -> bool:
    if not _HOUR_S <= at_s - before_s <= 2 * _HOUR_S:
        return False
    hour = datetime.fromtimestamp((before_s // _HOUR_S + 1) * _HOUR_S, UTC)  # the first one that begins after it
    is_skipped = hour.timestamp() + _HOUR_S <= at_s
    is_night = hour.weekday() == _SUNDAY and hour.month in _SUMMER_MONTHS and hour.hour in _SUMMER_HOURS
    return is_skipped and is_night


# --- The stamps of a whole log

_QUARTER_HOUR_S = 900
_DAY_S = 86_400
_PROVEN_PAIRS = 2
_LATE_S = 60
"""A collector whose stamps are further from the server's own, apart from the zone, has read the lines later."""
_DRIFT_S = 5
"""The same, between two lines."""
_HALF_YEAR_S = 183 * _DAY_S


class StampReader:
    """Reads the stamps of a log line by line, all on the clock of its server."""

    def __init__(self, now_s: float) -> None:
        """`now_s` gives the year of stamps without one, as long as no line has had a year."""
        self._now_s = now_s
        self._last_s: float | None = None
        """The last stamp with a year."""
        self._shift_s = 0.0
        """From the collector's clock to the server's: the difference of their zones."""
        self._pair: tuple[float, float] | None = None
        """The last two stamps of one line: the server's own and the collector's."""
        self._is_late = False
        """Whether the collector read the lines long after they were written: then its stamps say nothing."""
        self._pairs: Counter[str] = Counter()
        """How many lines had a collector's stamp of a form before the server's own."""
        self._before: tuple[LogLine, Stamp] | None = None
        """The last line with a stamp."""

    def read(self, text: str) -> tuple[LogLine, Stamp | None]:
        """Returns the parts of a line and its time: the server's own stamp, or that of the collector. The second half
        of a line that a terminal has broken in two is returned as the whole line."""
        line, stamp = self._read(text)
        if stamp is not None:
            self._before = line, stamp
        joined = None if stamp is not None or self._before is None else joined_line(self._before[0].message, text)
        if joined is None or self._before is None:
            return line, stamp
        return replace(self._before[0], message=joined), self._before[1]

    def _read(self, text: str) -> tuple[LogLine, Stamp | None]:
        line = self._without_plain_stamp(split_line(text))
        collected = line.collected
        if collected is not None and not collected.text[:1].isdigit():
            collected = self._with_year(text, line.own)
        if line.own is not None:
            if collected is not None:
                self._pairs[_form(collected)] += 1
                self._compare(line.own.at_s, collected.at_s)
            self._last_s = line.own.at_s
            return line, line.own
        if collected is None or self._is_late:
            return line, None
        stamp = replace(collected, at_s=collected.at_s + self._shift_s)
        self._last_s = stamp.at_s
        return line, stamp

    def _compare(self, own_s: float, collected_s: float) -> None:
        """Takes the two stamps of a line: the difference of their zones, and whether the collector was late."""
        ahead_s = own_s - collected_s
        self._shift_s = round(ahead_s / _QUARTER_HOUR_S) * _QUARTER_HOUR_S
        drift_s = 0.0 if self._pair is None else ahead_s - (self._pair[0] - self._pair[1])
        self._is_late = abs(ahead_s - self._shift_s) > _LATE_S or abs(drift_s) > _DRIFT_S
        self._pair = own_s, collected_s

    def _without_plain_stamp(self, line: LogLine) -> LogLine:
        """Returns the line with its only stamp as that of the collector, if the collector's stamps have that form. One
        line with two stamps is no proof: it may be torn."""
        if line.own is None or line.collected is not None or self._pairs[_form(line.own)] < _PROVEN_PAIRS:
            return line
        return replace(line, message=line.message[len(line.own.text) :].lstrip(" "), own=None, collected=line.own)

    def _with_year(self, text: str, own: Stamp | None) -> Stamp | None:
        """Returns the stamp in the year that brings it nearest to the server's last stamp. Without one it is the last
        year in which the stamp does not lie in the future."""
        near_s = self._last_s if own is None else own.at_s
        latest_s = self._now_s + _DAY_S if near_s is None else near_s + _HALF_YEAR_S
        stamps = (split_line(text, year=year).collected for year in _years_before(latest_s))
        return next((stamp for stamp in stamps if stamp is not None and stamp.at_s <= latest_s), None)


def _form(stamp: Stamp) -> str:
    return _DIGITS.sub("0", stamp.text)


def _years_before(latest_s: float) -> Iterator[int]:
    """Yields the year of a time and those before it, as many as a 29 February needs."""
    with suppress(ValueError, OverflowError, OSError):
        year = datetime.fromtimestamp(latest_s, UTC).year
        yield from range(year, max(0, year - 9), -1)
