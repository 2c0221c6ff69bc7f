"""Shows the progress of a session: as a live view on a terminal, as plain lines elsewhere, and as a status page.

Each event of a session replaces one immutable state. The thread that measures only stores a reference to the new state.
A thread of this module reads it a few times a second, displays it, and records it for `recovery status`."""

from __future__ import annotations

import os
import re
import signal
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import TextIO

from recovery.analysis.summary import metric_value
from recovery.cli.output import duration_words
from recovery.errors import InterruptedByUserError, escape_control
from recovery.logs.phases import CurrentPhase
from recovery.metrics import metric
from recovery.model import Run, Status
from recovery.report.fmt import cell as cell_text
from recovery.report.fmt import count, count_text, seconds, with_unit
from recovery.session.progress import (
    BuildProgress,
    CellSummary,
    Progress,
    ProgressSnapshot,
    Told,
    TrialProgress,
    to_json,
)

# --- Text of the live view, of the plain lines and of the status page. These functions are pure.

STRONG, FAINT = "strong", "faint"
_MIN_WIDTH = 12
_BAR_WIDTH = 24
_NO_BREAK_SPACE = "\u00a0"
"""A no-break space: lines are not wrapped there."""


@dataclass(frozen=True)
class Line:
    text: str
    style: str = ""


def live_view(snapshot: ProgressSnapshot, width: int, height: int) -> tuple[Line, ...]:
    """Returns the lines of the live view, none wider than `width` (12 columns at least).

    If the height does not allow all results, those around the current trial are shown."""
    width = max(_MIN_WIDTH, width)
    lines = [Line(text, FAINT) for text in wrapped(headline(snapshot), width)]
    lines += [Line(text, STRONG) for text in wrapped(current_activity(snapshot), width)]
    if snapshot.build is not None and (drawn := _progress_bar(snapshot.build, width)):
        lines.append(Line(drawn))
    lines += [Line(text) for text in _rows_that_fit(snapshot, width, max(0, height - len(lines)))]
    return tuple(Line(escape_control(line.text)[:width], line.style) for line in lines[: max(1, height)])


def headline(snapshot: ProgressSnapshot) -> str:
    ended = sum(cell.ended for cell in snapshot.cells)
    parts = [] if snapshot.planned_runs is None else [f"{ended} of {count_text(snapshot.planned_runs, 'run')} done"]
    parts.append(f"{duration_words(snapshot.elapsed_s)} so far")
    if snapshot.left_s is not None and snapshot.status is Status.RUNNING:
        parts.append(f"about {duration_words(snapshot.left_s)} left" if snapshot.left_s >= 1 else "nearly done")
    return f"{snapshot.experiment}: {', '.join(parts)}"


def current_activity(snapshot: ProgressSnapshot) -> str:
    """Returns in words what the session is doing now."""
    if snapshot.build is not None:
        return _build_text(snapshot.build)
    step_text = _step_text(snapshot)
    trial = snapshot.trial
    if trial is None:
        return step_text or str(snapshot.stage)
    ended = sum(cell.ended for cell in snapshot.cells)
    run = _run_name(trial, trial.of_all)
    name = f"[{ended + 1}/{snapshot.planned_runs}] {trial.version} {trial.variant} {run}"
    return f"{name}: {step_text}" if step_text else f"{name}: {duration_words(trial.elapsed_s)}"


def _run_name(run: TrialProgress | Run, of_all: int) -> str:
    """Returns the name of a run in its cell, with its number in the session: `2 of 3, run 7`. One that is not averaged
    is `run 1 (first read)`."""
    if run.extra:
        return f"run {run.number} ({run.extra})"
    return f"{run.repeat} of {of_all}, run {run.number}" if run.repeat <= of_all else f"run {run.number}"


def status_page(snapshot: ProgressSnapshot, *, running: bool) -> Iterator[str]:
    """Yields the lines of `recovery status` about the running session, or about the last one if none is running."""
    what = f"{snapshot.experiment} of {' '.join(snapshot.versions)}" if snapshot.versions else snapshot.experiment
    started_at = snapshot.started_at.replace("T", " ").replace("+00:00", " UTC")
    if running:
        yield f"{what}: pid {snapshot.pid}, since {started_at}"
        yield f"  $ {snapshot.command}"
        activity = current_activity(snapshot)
        yield f"  {activity}" if activity == snapshot.stage else f"  {snapshot.stage}: {activity}"
        yield f"  {headline(snapshot).partition(': ')[2]}"
    else:
        yield "no session is running"
        ended = f"{snapshot.status} after {duration_words(snapshot.elapsed_s)}"
        yield f"the last session is {what}: {ended}, started {started_at}"
        yield f"  $ {snapshot.command}"
    for row in _cell_rows(snapshot):
        yield f"  {row}"
    if running or snapshot.cells:
        yield f"  results {'go to' if running else 'are in'} {snapshot.results}"
    else:
        yield "  no run was stored"


def _build_text(build: BuildProgress) -> str:
    if build.done is None or build.total is None:
        return f"{build.title}: making the data directory, {duration_words(build.elapsed_s)}"
    if build.done >= build.total:
        return f"{build.title}: built, being checked"
    text = f"{build.title}: {build.done:,} of {build.total:,}"
    if build.rate_per_s is not None:
        text += f", {build.rate_per_s:,.0f}/s"
        if build.left_s is not None:
            text += f", {duration_words(build.left_s)} left"
    return text


def _progress_bar(build: BuildProgress, width: int) -> str:
    if build.done is None or not build.total:
        return ""
    room = min(_BAR_WIDTH, width - 2)
    full = min(room, room * build.done // build.total)
    return f"[{'#' * full}{'-' * (room - full)}]"


def _step_text(snapshot: ProgressSnapshot) -> str:
    if snapshot.step is None:
        return ""
    text = f"{snapshot.step} {duration_words(snapshot.step_s or 0)}"
    if snapshot.phase_s is not None:
        text += (
            f", {snapshot.phase} {duration_words(snapshot.phase_s)}" if snapshot.phase else ", nothing in the log yet"
        )
    if snapshot.phase_left_s is not None:
        text += f", about {duration_words(snapshot.phase_left_s)} left"
    return f"{text} ({snapshot.told})" if snapshot.told else text


def wrapped(text: str, width: int) -> list[str]:
    """Wraps the text, and keeps each number on one line with its unit."""
    tied = re.sub(r"(?<=\d) (?=(?:s|min|hours|%)(?!\w))", _NO_BREAK_SPACE, text)
    lines = textwrap.wrap(tied, width, subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace(_NO_BREAK_SPACE, " ") for line in lines]


def _rows_that_fit(snapshot: ProgressSnapshot, width: int, room: int) -> list[str]:
    rows = _cell_rows(snapshot)
    if max(map(len, rows), default=0) > width:
        rows = [
            line for cell in snapshot.cells for line in (_cell_name(cell), f"  {_short_row(cell, snapshot.metric)}")
        ]
    if len(rows) <= room:
        return rows
    if room < 2:
        return []
    at = _current_cell_index(snapshot) * (len(rows) // len(snapshot.cells))
    first = min(max(0, at - room // 2), len(rows) - (room - 1))
    return [*rows[first : first + room - 1], f"... and {len(rows) - room + 1} lines more"]


def _current_cell_index(snapshot: ProgressSnapshot) -> int:
    """Returns the index of the current trial's cell, or of the last cell if there is no such cell with results."""
    names = [(cell.version, cell.variant) for cell in snapshot.cells]
    now = snapshot.trial and (snapshot.trial.version, snapshot.trial.variant)
    return names.index(now) if now in names else len(names) - 1


def _cell_name(cell: CellSummary) -> str:
    return f"{cell.version} {cell.variant}"


def _short_row(cell: CellSummary, figure: str) -> str:
    mean, last = (_value_text(value, cell.metric or figure) for value in (cell.mean, cell.last))
    return f"{cell.ended}/{cell.planned}  mean {mean}  last {last}{_failed_and_void(cell)}"


def _value_text(value: float | None, figure: str) -> str:
    return seconds(value) if metric(figure).unit == "s" else cell_text(metric(figure), value)


def _failed_and_void(cell: CellSummary) -> str:
    counts = ((cell.failed, "failed"), (cell.void, "void"))
    return "".join(f"  {count(number)} {name}" for number, name in counts if number)


def _cell_rows(snapshot: ProgressSnapshot) -> list[str]:
    """Returns one line for each cell, aligned in columns."""
    if not snapshot.cells:
        return []
    unit = metric(snapshot.metric).unit
    unit = " s" if unit == "s" else unit
    columns = [
        (
            _cell_name(cell),
            f"{cell.ended}/{cell.planned}",
            *(_value_text(value, cell.metric or snapshot.metric) for value in (cell.mean, cell.last)),
        )
        for cell in snapshot.cells
    ]
    name_width, runs_width, *widths = (max(map(len, column)) for column in zip(*columns, strict=True))
    rows = []
    for cell, (name, runs, *values) in zip(snapshot.cells, columns, strict=True):
        own = f" {metric(cell.metric).label.removesuffix(unit)}" if cell.metric else ""
        mean, last = (f"{value:>{width}}{own}{unit}" for value, width in zip(values, widths, strict=True))
        rows.append(f"{name:<{name_width}}  {runs:>{runs_width}}  mean {mean}  last {last}{_failed_and_void(cell)}")
    return rows


# --- The screen
#
# rich's Live is not used: it computes the layout again at every refresh, and leaves lines behind if the terminal has
# become narrower. A reader that stops reading (`2>&1 | head`, a closed terminal) must not end hours of measuring.

_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_STYLES = {STRONG: "1", FAINT: "2"}
_DEFAULT_SIZE = (80, 24)


class Screen:
    """Writes messages that scroll and, on a terminal, lines below them that are redrawn in place.

    Several threads may use it at the same time."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lock = threading.RLock()
        self._drawn: tuple[Line, ...] = ()
        self._hidden = False
        """Whether the cursor is hidden."""
        self.live = _is_terminal(stream)
        self._colours = self.live and not os.environ.get("NO_COLOR")

    @property
    def size(self) -> tuple[int, int]:
        """Returns the current number of columns and rows, or 80 and 24 if the stream is not a terminal."""
        with suppress(OSError, ValueError, AttributeError):
            size = os.get_terminal_size(self._stream.fileno())  # type: ignore[union-attr]
            if size.columns and size.lines:
                return size.columns, size.lines
        return _DEFAULT_SIZE

    def say(self, text: str, style: str = "") -> None:
        """Writes a message above the drawn lines.

        Long messages are left for the terminal to wrap, so that they can be copied as one line."""
        with self._lock:
            drawn = self._drawn
            self._write(self._erased() + self._styled(Line(escape_control(text), style)) + "\n" + self._lines(drawn))

    def draw(self, lines: Sequence[Line]) -> None:
        """Replaces the drawn lines.

        Nothing is drawn or erased while another program is in the foreground of the terminal: the lines are its own."""
        with self._lock:
            if not self.live or tuple(lines) == self._drawn:
                return
            if not self._in_front():
                self._drawn = ()
                return
            erased = self._erased() if self._hidden else _HIDE_CURSOR
            self._hidden = True
            self._write(erased + self._lines(tuple(lines)))

    def clear(self) -> None:
        """Erases the drawn lines and shows the cursor."""
        with self._lock:
            if self._hidden:
                self._hidden = False
                self._write(self._erased() + _SHOW_CURSOR)

    def close(self) -> None:
        """Erases the drawn lines and draws no others from now on. Messages are still written."""
        with self._lock:
            self.clear()
            self.live = False

    @contextmanager
    def restored_when_suspended(self) -> Iterator[None]:
        """Restores the terminal when Ctrl-Z suspends the process inside the block, since the cursor may be hidden.

        The next call of `draw` draws the lines again."""
        main = threading.current_thread() is threading.main_thread()
        if not self.live or not main or signal.getsignal(signal.SIGTSTP) is not signal.SIG_DFL:
            yield
            return

        def stop(number: int, _: FrameType | None) -> None:
            with self._lock:  # held until the process continues: no thread may draw between `clear` and the stop
                self.clear()
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
                signal.signal(number, stop)

        signal.signal(signal.SIGTSTP, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)

    def _erased(self) -> str:
        """Returns the control sequence that erases the drawn lines, which count as erased from now on.

        If the terminal has become narrower, a line takes up several rows."""
        columns, _ = self.size
        rows = sum(max(1, -(-len(line.text) // columns)) for line in self._drawn)
        self._drawn = ()
        return f"\x1b[{rows}A\r\x1b[J" if rows else ""

    def _lines(self, lines: tuple[Line, ...]) -> str:
        self._drawn = lines
        return "".join(self._styled(line) + "\n" for line in lines)

    def _styled(self, line: Line) -> str:
        code = _STYLES.get(line.style)
        return f"\x1b[{code}m{line.text}\x1b[0m" if code and self._colours else line.text

    def _in_front(self) -> bool:
        try:
            return os.tcgetpgrp(self._stream.fileno()) == os.getpgrp()  # type: ignore[union-attr]
        except OSError:  # the stream is a terminal, but not the controlling terminal of this process
            return True

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                # The rest of the buffer goes to /dev/null, too, at the latest when the interpreter exits.
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)
            self.live, self._stream = False, None


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
    except ValueError:  # the stream is closed
        return False


# --- The display and the record of a session

REFRESH_EVERY_S = 0.25
RECORD_EVERY_S = 1.0
PLAIN_EVERY_S = 15.0


class ProgressDisplay:
    """Receives the events of a session, displays its progress on the screen and records it for `recovery status`."""

    def __init__(
        self,
        progress: Progress,
        *,
        screen: Screen,
        record: Callable[[str], None] = lambda _: None,
        find_running: Callable[[], ProgressSnapshot | None] = lambda: None,
        quiet: bool = False,
    ) -> None:
        self.progress = progress
        self.screen = screen
        self._record = record
        """Stores the snapshot, as JSON, where `recovery status` reads it."""
        self._find_running = find_running
        """Returns the snapshot of the session that runs on this host, if there is one."""
        self._quiet = quiet
        self._phase_at: Callable[[float], CurrentPhase] | None = None
        self._last_line_s = time.monotonic()
        self._recorded: tuple[object, ...] | None = None
        self._recorded_s = 0.0
        self._over = threading.Event()

    def say(self, line: str, style: str = "") -> None:
        if not self._quiet:
            self._last_line_s = time.monotonic()
            self.screen.say(line, style)

    def warn(self, line: str) -> None:
        """Writes a message that also appears with --quiet."""
        self.screen.say(line)

    @contextmanager
    def waiting(self, holder: str) -> Iterator[None]:
        """Displays, inside the block, the progress of the session that this one waits for, with the time left."""
        first = self._other_session()
        self.say(f"waiting for another timed run: {holder}{f'; {first}' if first else ''}")
        over = threading.Event()
        watching = threading.Thread(target=self._watch_other, args=(over, first), name="waiting", daemon=True)
        try:
            with self.screen.restored_when_suspended():
                watching.start()
                yield
        finally:
            over.set()
            if watching.ident is not None:
                watching.join()
            self.screen.clear()

    def _watch_other(self, over: threading.Event, shown: str) -> None:
        while not self._quiet and not over.wait(RECORD_EVERY_S):
            text = self._other_session()
            if self.screen.live:
                columns, _ = self.screen.size
                self.screen.draw([Line(line, STRONG) for line in wrapped(f"waiting for {text}", columns - 1) if text])
            elif text not in ("", shown) and time.monotonic() - self._last_line_s >= PLAIN_EVERY_S:
                shown = text
                self.say(f"waiting for {text}")

    def _other_session(self) -> str:
        found = self._find_running()
        return "" if found is None else escape_control(headline(found))

    @contextmanager
    def active(self) -> Iterator[None]:
        """Displays and records the progress inside the block, for which the session has the host and the terminal.

        At the end it restores the terminal and records whether the session finished, was interrupted or aborted."""
        refreshing = threading.Thread(target=self._refresh_until_over, name="progress", daemon=True)
        status = Status.ABORTED
        try:
            with self.screen.restored_when_suspended():
                refreshing.start()
                yield
            status = Status.FINISHED
        except (KeyboardInterrupt, InterruptedByUserError):
            status = Status.INTERRUPTED
            raise
        finally:
            # The terminal is restored first, and nothing is drawn later: a second Ctrl-C must not leave it unusable.
            self.screen.close()
            self._over.set()
            if refreshing.ident is not None:
                refreshing.join()
            self.event(Progress.finished, status)
            self._record(to_json(self._snapshot()))

    def event(self, change: Callable[[Progress, float, *Told], Progress], *told: *Told) -> None:
        """Takes the state that this event of the session leads to. The phase of a start ends with every event."""
        self._phase_at = None
        self.progress = change(self.progress, time.monotonic(), *told)

    def follow(self, phase_at: Callable[[float], CurrentPhase]) -> None:
        """Sets the function that returns the phase of the timed start under way at a time of the monotonic clock."""
        self._phase_at = phase_at

    def trial_ended(self, run: Run) -> None:
        """Takes the event, and prints the result."""
        self.event(Progress.trial_ended, run)
        planned = self.progress.plan.trials if self.progress.plan else ()
        name = _run_name(run, self.progress.runs_of(run.version, run.variant))
        line = f"[{len(self.progress.ended)}/{len(planned)}] {run.version} {run.variant} {name}: "
        figure = self.progress.metric_of(run.variant)
        if (value := metric_value(run, figure)) is not None:
            read = f", {run.metrics['read_bytes'] / 1e9:.2f} GB read" if "read_bytes" in run.metrics else ""
            line += f"{with_unit(metric(figure), value)}{read}"
        elif run.observations:  # of a server that did not start
            line += next(iter(run.observations.values()))
        if run.stacks.program is not None:
            line += f", {count_text(run.stacks.count or 0, 'sample')} by {run.stacks.program}"
        if run.verdict.as_asked:
            self.say(line)
        else:
            self.warn(f"{line.rstrip()} {run.verdict.value.upper()}: {run.reason}")

    def _refresh_until_over(self) -> None:
        while not self._over.wait(REFRESH_EVERY_S):
            snapshot = self._snapshot()
            if not self._quiet:
                self._show(snapshot)
            now_s = time.monotonic()
            if snapshot.activity != self._recorded or now_s - self._recorded_s >= RECORD_EVERY_S:
                self._recorded, self._recorded_s = snapshot.activity, now_s
                self._record(to_json(snapshot))

    def _show(self, snapshot: ProgressSnapshot) -> None:
        if self.screen.live:
            columns, rows = self.screen.size
            # The last column stays free: some terminals move to the next row as soon as it is written.
            self.screen.draw(live_view(snapshot, columns - 1, rows - 1))
        elif time.monotonic() - self._last_line_s >= PLAIN_EVERY_S and (snapshot.build or snapshot.step):
            self.say(current_activity(snapshot))

    def _snapshot(self) -> ProgressSnapshot:
        progress, phase_at, now_s = self.progress, self._phase_at, time.monotonic()
        written_at = datetime.now(UTC).isoformat(timespec="seconds")
        return progress.snapshot(now_s, written_at=written_at, phase=phase_at(now_s) if phase_at else None)
