"""What is going on? Told on stderr: a bar with rate and time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from recovery.stored import Run

PLAIN_EVERY_S = 15.0


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")


class ProgressConsole(Console):
    """On stderr. Who stops reading it (`2>&1 | head`) must not end hours of measuring."""

    def __init__(self) -> None:
        super().__init__(stderr=True, highlight=False)

    def on_broken_pipe(self) -> None:
        self.quiet = True


class ConsoleNarrator:
    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, line: str) -> None:
        self.console.print(Text(line), soft_wrap=True)

    @contextmanager
    def building(self, title: str) -> Iterator[Callable[[int, int], None]]:
        """Yields what is to be called with (done, total)."""
        if not self.console.is_terminal:
            yield self._plain(title)
            return
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task(title, total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total)

    def _plain(self, title: str) -> Callable[[int, int], None]:
        began, last = time.monotonic(), time.monotonic()
        first_done: int | None = None

        def told(done: int, total: int) -> None:
            nonlocal last, first_done
            first_done = done if first_done is None else first_done
            now = time.monotonic()
            if now - last < PLAIN_EVERY_S or done == first_done:
                return
            last = now
            rate = (done - first_done) / (now - began)
            self.say(f"{title}: {done:,} of {total:,}, {rate:,.0f}/s, {(total - done) / rate:,.0f} s left")

        return told

    def trial_ended(self, run: Run, planned: int) -> None:
        line = f"[{run.number}/{planned}] {run.version} {run.variant} run {run.repeat}: "
        if run.startup_s is not None:
            read = "" if run.read_bytes is None else f", {run.read_bytes / 1e9:.2f} GB read"
            line += f"{run.startup_s:.2f} s{read}"
        if run.sampled_by is not None:
            line += f", {run.samples} looks by {run.sampled_by}"
        if not run.verdict.as_asked:
            line += f" {run.verdict.value.upper()}: {run.reason}"
        self.say(line)
