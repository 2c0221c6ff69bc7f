"""What is going on? Every event of a session goes into one state, which is drawn or told, and left for who asks.

Whoever works only puts a reference there; a thread of this file's own looks at it a few times a second."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from recovery.errors import RecoveryError
from recovery.measures import value_of
from recovery.model import Trial
from recovery.progress import Ahead, Progress, Standing, Status
from recovery.quantities import quantity
from recovery.report.screen import Screen
from recovery.report.watching import current, view
from recovery.report.work.said import worded
from recovery.stored import Run
from recovery.whereabouts import Whereabouts, Writer, to_json, whereabouts

LOOK_EVERY_S = 0.25
RECORD_EVERY_S = 1.0
PLAIN_EVERY_S = 15.0
_INTERRUPTED = 130


class SessionNarrator:
    def __init__(
        self,
        progress: Progress,
        *,
        screen: Screen,
        owner: str = "",
        record: Callable[[str], None] = lambda _: None,
        quiet: bool = False,
    ) -> None:
        self.progress = progress
        self.screen = screen
        self._owner = owner
        self._record = record
        """Keeps the state where `recovery status` looks for it."""
        self._quiet = quiet
        self._standing: Callable[[float], Standing] | None = None
        self._said_s = time.monotonic()
        self._recorded: tuple[object, ...] | None = None
        self._recorded_s = 0.0
        self._over = threading.Event()

    def say(self, line: str, style: str = "") -> None:
        if not self._quiet:
            self._said_s = time.monotonic()
            self.screen.say(line, style)

    def warn(self, line: str) -> None:
        """Told to the quiet, too."""
        self.screen.say(line)

    @contextmanager
    def on_stage(self) -> Iterator[None]:
        """From here to the end the host is this session's, and so is the terminal."""
        looking = threading.Thread(target=self._look, name="narrator", daemon=True)
        status = Status.ABORTED
        try:
            with self.screen.given_back_when_suspended():
                looking.start()
                yield
            status = Status.FINISHED
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
            raise
        except RecoveryError as error:
            status = Status.INTERRUPTED if error.exit_code == _INTERRUPTED else status
            raise
        finally:
            # The terminal first, and for good: whoever presses Ctrl-C again gets it back, too.
            self.screen.close()
            self._over.set()
            if looking.ident is not None:
                looking.join()
            self.progress = self.progress.over(status)
            self._record(to_json(self._now()))

    def planned(self, ahead: Ahead) -> None:
        self.progress = self.progress.planned(ahead)

    def gone_on(self, runs: Iterable[Run]) -> None:
        self.progress = self.progress.gone_on(runs)

    def keeping_in(self, folder: Path) -> None:
        self.progress = self.progress.keeping_in(str(folder))

    @contextmanager
    def building(self, title: str) -> Iterator[Callable[[int, int], None]]:
        """Yields what is to be called with (done, total)."""
        self._standing = None
        self.progress = self.progress.build_began(title, time.monotonic())

        def built(done: int, total: int) -> None:
            self.progress = self.progress.built(done, total, time.monotonic())

        try:
            yield built
        finally:
            self.progress = self.progress.build_ended()

    def trial_began(self, trial: Trial) -> None:
        self._standing = None
        self.progress = self.progress.trial_began(trial, time.monotonic())

    def doing(self, step: str) -> None:
        self._standing = None
        self.progress = self.progress.doing(step, time.monotonic())

    def follow(self, standing: Callable[[float], Standing]) -> None:
        """Called within a timed start."""
        self._standing = standing

    def trial_ended(self, run: Run, planned: int) -> None:
        self._standing = None
        self.progress = self.progress.trial_ended(run, time.monotonic())
        line = f"[{run.number}/{planned}] {run.version} {run.variant} run {run.repeat}: "
        figure = self.progress.figure_of(run.variant)
        if (value := value_of(run, figure)) is not None:
            read = "" if run.read_bytes is None else f", {run.read_bytes / 1e9:.2f} GB read"
            line += f"{worded(quantity(figure), value)}{read}"
        if run.sampled_by is not None:
            line += f", {run.samples} samples by {run.sampled_by}"
        if run.verdict.as_asked:
            self.say(line)
        else:
            self.warn(f"{line} {run.verdict.value.upper()}: {run.reason}")

    def _look(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            found = self._now()
            if not self._quiet:
                self._tell(found)
            now_s = time.monotonic()
            if found.what != self._recorded or now_s - self._recorded_s >= RECORD_EVERY_S:
                self._recorded, self._recorded_s = found.what, now_s
                self._record(to_json(found))

    def _tell(self, found: Whereabouts) -> None:
        if self.screen.live:
            columns, rows = self.screen.size
            # The last column stays free: some terminals go on to the next row once it is written.
            self.screen.draw(view(found, columns - 1, rows - 1))
        elif time.monotonic() - self._said_s >= PLAIN_EVERY_S and (found.build or found.step):
            self.say(current(found))

    def _now(self) -> Whereabouts:
        progress, standing, now_s = self.progress, self._standing, time.monotonic()
        writer = Writer(os.getpid(), self._owner, datetime.now(UTC).isoformat(timespec="seconds"))
        return whereabouts(progress, now_s, by=writer, standing=standing(now_s) if standing else None)
