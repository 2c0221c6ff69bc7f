"""How do the experiments go, one after the other? Each a session of its own, in one process, within a given time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from recovery.commands.budgeted import Chosen
from recovery.commands.gone_on import newest
from recovery.commands.measure import run_and_show
from recovery.compare import not_measured
from recovery.errors import RecoveryError
from recovery.experiments.allot import span_text
from recovery.experiments.literature import publications
from recovery.experiments.page import write
from recovery.experiments.told import Journey, Step, create, save

_INTERRUPTED = 130
Say = Callable[[str], None]


def begun(command: str, budget_s: float, versions: tuple[str, ...], found: Sequence[Chosen]) -> Journey:
    return Journey(
        command=command,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        budget_s=budget_s,
        versions=versions,
        steps=tuple(
            Step(
                name=one.name,
                command=one.request.command if one.request else None,
                scale=one.scale,
                expected_s=one.expected_s,
                left_out=one.left_out,
            )
            for one in found
        ),
    )


class Travel:
    """Through all of them. What has ended is on disk, and in the reports, however the rest goes."""

    def __init__(self, journey: Journey, results: Path, *, say: Say, quiet: bool) -> None:
        self.journey = journey
        self.folder = create(results)
        self._results = results
        self._say = say
        self._quiet = quiet
        self._began_s = time.monotonic()

    def run(self, found: Sequence[Chosen]) -> int:
        """The exit code: 1 where one of them failed."""
        save(self.journey, self.folder)
        status = "aborted"
        try:
            for number, one in enumerate(found, 1):
                self._keep(self._step(one, f"experiment {number} of {len(found)}"))
            failed = any(step.error for step in self.journey.steps)
            status = "failed" if failed else "finished"
        except BaseException as ended:
            told = getattr(ended, "exit_code", None) == _INTERRUPTED
            status = "interrupted" if told or isinstance(ended, KeyboardInterrupt) else status
            raise
        finally:
            self.journey = replace(self.journey, status=status, took_s=round(self._spent_s, 1))
            save(self.journey, self.folder)
            write(self.folder)
        return 1 if failed else 0

    @property
    def _spent_s(self) -> float:
        return time.monotonic() - self._began_s

    def _keep(self, step: Step) -> None:
        self.journey = self.journey.with_step(step)
        save(self.journey, self.folder)

    def _step(self, one: Chosen, which: str) -> Step:
        step = next(step for step in self.journey.steps if step.name == one.name)
        title = next(f"{known.label} {known.title}" for known in publications() if known.name == one.name)
        if one.request is not None and self._spent_s >= self.journey.budget_s:
            late = f"the budget of {span_text(self.journey.budget_s)} was over before it could begin"
            step = replace(step, left_out=late)
        if one.request is None or step.left_out:
            self._say(f"{which}: {title}: left out: {step.left_out}")
            return step
        self._say(f"{which}: {title}: {one.scale}")
        before, began_s = newest(self._results), time.monotonic()
        error: str | None = None
        try:
            error = not_measured(run_and_show(one.request, quiet=self._quiet))
        except KeyboardInterrupt:
            self._keep(self._ended(step, before, began_s, error="it was interrupted"))
            raise
        except (RecoveryError, OSError) as failure:
            error = failure.message if isinstance(failure, RecoveryError) else str(failure)
            if getattr(failure, "exit_code", 1) == _INTERRUPTED:
                self._keep(self._ended(step, before, began_s, error="it was interrupted"))
                raise
        if error is not None:
            self._say(f"{which}: {title}: {error}")
        return self._ended(step, before, began_s, error=error)

    def _ended(self, step: Step, before: Path | None, began_s: float, *, error: str | None) -> Step:
        """With the session that was kept of it, whole or not."""
        left = newest(self._results)
        session = left.name if left is not None and left != before else None
        return replace(step, session=session, took_s=round(time.monotonic() - began_s, 1), error=error)
