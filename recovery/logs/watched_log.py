"""Follows the log of a server that starts, perhaps again and again: the progress of the last start, and whether the
starts before it ended at the same checkpoint.

It reads no clock and no file. Lines come with the moment of their arrival or, if they are older, without it: then their
stamps tell when they were written."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from recovery.logs.error_log import error_text, is_error, is_harmless
from recovery.logs.json_log import usual_line
from recovery.logs.log_analysis import LoggedStart, StartParser, process_id_in
from recovery.logs.start_progress import StartProgress, Totals
from recovery.logs.timestamps import Stamp, StampReader
from recovery.phase_table import JOIN, ROWS, UNNAMED

_QUARTER_HOUR_S = 900
_COMPARED_CHARS = 200
"""Number of characters by which two errors are told apart: the reason of a start is cut."""
_WHOLE_SECONDS_S = 2.0
"""How much earlier a line may seem than the process that wrote it: stamps may have whole seconds."""


@dataclass(frozen=True)
class RestartLoop:
    """Starts that all began at the same checkpoint, and of which none became ready: the next one does the same work."""

    tries: int
    """Number of starts, with the one under way."""
    since: str | None
    """The stamp of the first one."""
    checkpoint_lsn: int
    """Where each of them began in the redo log."""
    longest_s: float | None
    """The longest time after which one of them ended."""
    gains: str
    """`nothing` or, if they ended while they read the tables' files, `page cache`."""


def find_loop(
    history: Sequence[LoggedStart], checkpoint_lsn: int | None, seen: Mapping[str, int] | None = None
) -> RestartLoop | None:
    """Returns the loop that the start under way belongs to, by the starts before it. `seen` has the checkpoints that
    the log did not tell, by the stamp of the start."""
    tries = list[LoggedStart]()
    for start in reversed(history):
        lsn = start.checkpoint_lsn or (seen or {}).get(start.at or "")
        if start.outcome == "ready" or lsn not in (None, checkpoint_lsn):
            break
        if lsn is not None:
            tries.append(start)
    if not tries or checkpoint_lsn is None:
        return None
    phases = {part for start in tries for part in (start.phase or UNNAMED).split(JOIN)}
    times = [start.startup_s if start.end_logged else start.next_after_s or start.startup_s for start in tries]
    return RestartLoop(
        tries=len(tries) + 1,
        since=tries[-1].at,
        checkpoint_lsn=checkpoint_lsn,
        longest_s=max((seconds for seconds in times if seconds is not None), default=None),
        gains="page cache" if phases and all(ROWS[name].files.fills_page_cache for name in phases) else "nothing",
    )


@dataclass
class WatchedLog:
    """Takes the lines of a log. All times but `wall_s` are of one clock."""

    now_s: float
    """The moment of its creation."""
    wall_s: float
    """The same moment, in seconds since the epoch."""
    process_s: float | None = None
    """When the process was created; None if it is not known."""
    progress: StartProgress = field(init=False)
    """Of the last start."""
    history: list[LoggedStart] = field(default_factory=list)
    """The starts before it."""
    seen_checkpoints: dict[str, int] = field(default_factory=dict)
    """Checkpoints that were read from the redo log, by the stamp of the start."""

    def __post_init__(self) -> None:
        self._parser, self._stamps, self._number = StartParser(self.wall_s), StampReader(self.wall_s), 0
        self._shift_s: float | None = None
        """From the clock of the stamps to `wall_s`, if they do not name their zone."""
        self._at_s = self.now_s if self.process_s is None else self.process_s
        self.progress = StartProgress(started_s=self._at_s)
        self.stamp: str | None = None
        """The first stamp of the last start."""
        self.has_start = False
        """Whether the log has a line of a start."""
        self.errors: list[str] = []
        """The first error of the last start, which usually gives the reason, and its last ones."""
        self.named: tuple[int, float] | None = None
        """The process id that the last start has logged, and when."""

    @property
    def ended(self) -> bool:
        """Whether the log shows that the server has ended, before it was ready or after that."""
        is_over = self.has_start and self._parser.idle and self.progress.ready_s is None
        return is_over or self.progress.failure is not None

    @property
    def loop(self) -> RestartLoop | None:
        if self.progress.ready_s is not None:
            return None
        return find_loop(self.history, self.progress.checkpoint_lsn, self.seen_checkpoints)

    @property
    def waits_for(self) -> str | None:
        """The full disk that the server waits for, or None."""
        return self._parser.waits_for

    def take(self, text: str, arrived_s: float | None = None, *, complete: bool = True) -> None:
        """Takes a line. A line that is still being written is given again when it has grown."""
        line, stamp = self._stamps.read(usual_line(text))
        if complete:
            self._number += 1
            before, totals = self._parser.start_line, self.progress.totals
            self.history += self._parser.take(self._number, text)
            if not self._parser.follows_last:
                return
            if self._parser.start_line not in (None, before):
                self.stamp, self._shift_s, self.has_start = None if stamp is None else stamp.text, None, True
                self.named = None
                self.errors.clear()
                self._at_s = self._time_of(stamp, arrived_s)
                self.progress = StartProgress(started_s=self._at_s, totals=Totals(totals.files))
        is_reason = is_error(line.message) and not is_harmless(line.message)
        if complete and is_reason and not line.message.endswith("Aborting"):
            self.errors = [*self.errors[:1], *self.errors[1:][-1:], error_text(line.message)]
        self._at_s = max(self._at_s, self._time_of(stamp, arrived_s, complete=complete))
        if self.stamp is None and stamp is not None:
            self.stamp = stamp.text
        if complete and (pid := process_id_in(line.message)) is not None:
            self.named = pid, self._at_s
        self.progress.add_line(line.message, self._at_s, complete=complete)

    def failure_text(self, reason: str | None) -> str | None:
        """Returns why the last start failed, and its other errors."""
        first = [] if reason is None else [error_text(reason)]
        others = [error for error in self.errors if not any(error[:_COMPARED_CHARS] in one for one in first)]
        return "; ".join((*first, *others)) or None

    def is_of(self, ids: Sequence[int]) -> bool:
        """Returns whether the last start may be that of the process with these ids (one for each namespace). The log of
        a new process ends with the start of the one before it until it writes its first line."""
        if self.named is None or self.process_s is None:
            return True
        pid, at_s = self.named
        return pid in ids and at_s > self.process_s - _WHOLE_SECONDS_S

    def starts(self) -> list[LoggedStart]:
        """Returns all starts so far, with the last one."""
        return [*self.history, *copy.deepcopy(self._parser).finish()]

    def _time_of(self, stamp: Stamp | None, arrived_s: float | None, *, complete: bool = True) -> float:
        if arrived_s is not None:
            return arrived_s
        if not complete:
            return self.now_s  # what it says now may have been written long after its beginning
        if stamp is None:
            return self._at_s
        if not stamp.zoned and self._shift_s is None:
            self._shift_s = self._zone_shift(stamp)
        wall_s = stamp.at_s - (0.0 if stamp.zoned else self._shift_s or 0.0)
        return min(self.now_s, self.now_s + wall_s - self.wall_s)

    def _zone_shift(self, stamp: Stamp) -> float:
        """Returns the offset of stamps that do not name their zone: the first one is that of a new process or, if the
        process is not known, in the zone of this host."""
        if self.process_s is not None:
            created_s = self.wall_s + self.process_s - self.now_s
            return round((stamp.at_s - created_s) / _QUARTER_HOUR_S) * _QUARTER_HOUR_S
        offset = datetime.fromtimestamp(stamp.at_s).astimezone().utcoffset()
        return 0.0 if offset is None else offset.total_seconds()
