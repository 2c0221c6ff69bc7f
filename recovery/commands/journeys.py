"""How do the experiments go, one after the other? Each a session of its own, in one process, within a given time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from recovery.builds.tools import provide
from recovery.commands.budgeted import Asked, Chosen, chosen
from recovery.commands.gone_on import newest
from recovery.commands.measure import run_and_show
from recovery.compare import not_measured
from recovery.engines import choose, resolve_builds
from recovery.errors import RecoveryError
from recovery.experiments.allot import Price, pace_of, span_text
from recovery.experiments.literature import publications
from recovery.experiments.page import write
from recovery.experiments.told import Journey, Step, create, save
from recovery.host.lock import host_lock
from recovery.prepared import check_options
from recovery.scenarios import find_scenario

_INTERRUPTED = 130
_SLOW = 1.2
"""Times the guess: from there on it is worth telling."""
Say = Callable[[str], None]


def fetch(found: Sequence[Chosen], say: Say) -> None:
    """Servers and programs, before the clock starts. Without a server nothing can be measured; who lacks a program says
    so when its turn comes."""
    requests = [one.request for one in found if one.request is not None]
    programs = dict.fromkeys(name for request in requests for name in find_scenario(request.scenario).programs)
    with host_lock():
        engine, builds = resolve_builds(requests[0], choose(requests[0], say), say)
        for request in requests:
            check_options(request, engine, builds, say)
        for name in programs:
            with suppress(RecoveryError):
                provide(name, offline=requests[0].offline, say=say)


def begun(command: str, asked: Asked, found: Sequence[Chosen]) -> Journey:
    return Journey(
        command=command,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        budget_s=asked.budget_s,
        versions=asked.versions,
        steps=tuple(_as_planned(Step(name=one.name), one) for one in found),
    )


def _as_planned(step: Step, one: Chosen) -> Step:
    command = one.request.command if one.request else None
    return replace(step, command=command, scale=one.scale, expected_s=one.expected_s, left_out=one.left_out)


class Travel:
    """Through all of them. What has ended is on disk, and in the reports, however the rest goes."""

    def __init__(self, journey: Journey, asked: Asked, results: Path, *, say: Say, quiet: bool) -> None:
        self.journey = journey
        self.folder = create(results)
        self._asked = asked
        self._results = results
        self._say = say
        self._quiet = quiet
        self._began_s = time.monotonic()
        self._ended: list[tuple[Price, float]] = []

    def run(self, found: Sequence[Chosen]) -> int:
        """The exit code: 1 where one of them failed, or none was measured."""
        save(self.journey, self.folder)
        status = "aborted"
        try:
            self._all(found)
            steps = self.journey.steps
            failed = any(step.error for step in steps) or not any(step.session for step in steps)
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

    def _all(self, found: Sequence[Chosen]) -> None:
        """The first that can be measured, then the first of the others with the time that is left. One that was left
        out may find room once others took less than was guessed."""
        rest = list(found)
        while able := [one for one in rest if one.request is not None]:
            self._keep(self._measured(able[0]))
            names = tuple(one.name for one in rest if one is not able[0])
            rest = list(self._anew(names)) if names else []
        for one in rest:
            self._say(f"{self._which(one.name)}: left out: {one.left_out}")

    def _anew(self, names: tuple[str, ...]) -> tuple[Chosen, ...]:
        left_s, pace = self._asked.budget_s - self._spent_s, pace_of(self._ended)
        found = chosen(replace(self._asked, names=names, left_s=max(0.0, left_s), pace=pace))
        for one in found:
            step = self._step(one.name)
            scales = [each or "left out" for each in (step.planned or step.scale, one.scale)]
            self._keep(replace(_as_planned(step, one), planned=scales[0] if scales[0] != scales[1] else ""))
        if pace > _SLOW:
            self._say(f"so far it took {pace:.1f} times as long as guessed: the rest is planned by that")
        return found

    def _keep(self, step: Step) -> None:
        self.journey = self.journey.with_step(step)
        save(self.journey, self.folder)

    def _step(self, name: str) -> Step:
        return next(step for step in self.journey.steps if step.name == name)

    def _which(self, name: str) -> str:
        names = [step.name for step in self.journey.steps]
        title = next(f"{known.label} {known.title}" for known in publications() if known.name == name)
        return f"experiment {names.index(name) + 1} of {len(names)}: {title}"

    def _measured(self, one: Chosen) -> Step:
        assert one.request is not None
        assert one.expected_s is not None
        step, which = self._step(one.name), self._which(one.name)
        planned = f" (planned: {step.planned})" if step.planned else ""
        self._say(f"{which}: {one.scale}, about {span_text(one.expected_s)}{planned}")
        before, began_s = newest(self._results), time.monotonic()
        error: str | None = None
        try:
            error = not_measured(run_and_show(one.request, quiet=self._quiet))
        except KeyboardInterrupt:
            self._keep(self._over(step, before, began_s, error="it was interrupted"))
            raise
        except (RecoveryError, OSError) as failure:
            error = failure.message if isinstance(failure, RecoveryError) else str(failure)
            if getattr(failure, "exit_code", 1) == _INTERRUPTED:
                self._keep(self._over(step, before, began_s, error="it was interrupted"))
                raise
        if error is not None:
            self._say(f"{which}: {error}")
        took_s = time.monotonic() - began_s
        if error is None or took_s > one.price.seconds:
            self._ended.append((one.price, took_s))
        return self._over(step, before, began_s, error=error)

    def _over(self, step: Step, before: Path | None, began_s: float, *, error: str | None) -> Step:
        """With the session that was kept of it, whole or not."""
        left = newest(self._results)
        session = left.name if left is not None and left != before else None
        return replace(step, session=session, took_s=round(time.monotonic() - began_s, 1), error=error)
