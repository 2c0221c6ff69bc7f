"""One session, which is killed once or more and then brought to its end. Its seed makes every choice."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from recovery.linux.loop_device import why_no_loop_disk
from recovery.storage.sessions import load_session
from torture import checks, victim
from torture.place import ROOT, RUNS, Place, own_cache
from torture.victim import Ended, Victim

COLD, BOTH, LIMITED, UNPACKED, MOUNTED = "cold", "cold and warm", "limited", "unpacked", "mounted"
"""The last one crashes servers on a full filesystem in a file."""
_SHAPES = (COLD, COLD, COLD, BOTH, BOTH, LIMITED, LIMITED, UNPACKED, MOUNTED)
RESUMED, BEGAN, WAS_OVER = "went on", "began anew", "was over"
"""What the next start does: a session that was killed before its folder was created cannot be resumed."""
_FRESH_SHARE = 0.5
"""Share of the sessions that build a new data directory."""
_MORE_KILLS = (0.45, 0.2)
"""Probability of a second and of a third kill."""
_LAST_MOMENT = 1.08
"""The last moment of a kill, in usual lengths: reports are written at the end."""
_POLITE_CODES = (130, 0, -signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP)
"""Exit codes after a polite signal: interrupted, too late, or before the tool handled signals."""
_MAX_PAUSE_S = 0.4
"""Between one Ctrl-C and the next."""


@dataclass
class Point:
    """One kill, and what was found afterwards."""

    chain: int
    kill: int
    way: str
    stage: str
    after_s: float
    shape: str
    fresh: bool
    """Whether a data directory had to be built."""
    runs: int
    """Number of runs that had ended."""
    next_start: str = ""
    lost: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def failures(self) -> list[str]:
        return [*self.lost, *self.left, *self.wrong]


class Chain:
    def __init__(self, place: Place, number: int, *, seed: int, lengths: dict[tuple[str, bool], float]) -> None:
        self.place = place
        self.number = number
        self.lengths = lengths
        """Seconds of a whole session, by shape and by whether it builds a data directory: learnt as they end."""
        self.rng = Random(f"{seed}/{number}")  # noqa: S311 - it is to be repeated
        cannot = {LIMITED: not place.can_limit, MOUNTED: why_no_loop_disk() is not None}
        self.shape = self.rng.choice([shape for shape in _SHAPES if not cannot.get(shape)])
        self.fresh = self.rng.random() < _FRESH_SHARE
        self.kills = 1 + sum(self.rng.random() < share for share in _MORE_KILLS)
        self.results = place.results(number)
        self.cache: Path | None = None
        self.points: list[Point] = []

    def run(self) -> list[Point]:
        """Returns the kills; the last one also has what is wrong at the end of the session."""
        # Such a directory is of use to no other shape.
        if self.fresh or self.shape == MOUNTED:
            shutil.rmtree(self.place.data, ignore_errors=True)
        self.cache = own_cache(self.place) if self.shape == UNPACKED else None
        try:
            for kill in range(self.kills):
                if not self._kill(kill):
                    break
            self._finish()
        finally:
            shutil.rmtree(self.results, ignore_errors=True)
            if self.shape == MOUNTED:
                shutil.rmtree(self.place.data, ignore_errors=True)
            if self.cache is not None:
                shutil.rmtree(self.cache, ignore_errors=True)
        return self.points

    def _kill(self, kill: int) -> bool:
        """Starts the tool and kills it; returns False if it ended before that."""
        way = self.rng.choice(victim.WAYS)
        fresh = self._builds()
        moment_s = self.rng.random() * _LAST_MOMENT * self._usual_length_s(fresh=fresh)
        pause_s = self.rng.random() * _MAX_PAUSE_S
        before, processes = checks.ended_runs(self.results), checks.process_ids(self.place)
        start, words = self._command()
        tool = Victim(self.place, words, cache=self.cache, on_terminal=way == victim.TERMINAL)
        alive = tool.lives_until(moment_s)
        stage = tool.stage()
        if alive:
            tool.die(way, pause_s)
        ended = tool.end()
        self._has_started(start)
        if not alive and ended is not None and ended.code == 0:
            self._learn(start, ended, fresh=fresh)
            return False
        if way == victim.REBOOT:
            victim.play_reboot(self.place, self.results)
        runs = len(checks.ended_runs(self.results))
        point = Point(self.number, kill, way, stage, round(moment_s, 3), self.shape, fresh, runs)
        if way in victim.POLITE:
            point.left += checks.left_running(self.place, processes)
        point.wrong += self._wrong_end(way, ended, alive=alive)
        point.lost += checks.lost(self.results, before, ended.stored_runs if ended else frozenset())
        self.points.append(point)
        return True

    def _wrong_end(self, way: str, ended: Ended | None, *, alive: bool) -> Iterator[str]:
        if ended is None:
            yield "it did not end"
        elif not alive:
            yield f"it failed by itself, with {ended.code}: {ended.last_lines}"
        elif "Traceback" in ended.output:
            # Python itself may be interrupted before it has read a line of the tool.
            if str(ROOT / "recovery") in ended.output:
                yield f"it ended with a traceback: {ended.last_lines}"
        elif way in victim.POLITE - {victim.TERMINAL} and ended.code not in _POLITE_CODES:
            yield f"it ended with {ended.code}: {ended.last_lines}"
        yield from self.place.harm()

    def _finish(self) -> None:
        """Brings the session to its end, and checks what is stored and what is left."""
        fresh, before = self._builds(), checks.ended_runs(self.results)
        start, words = self._command()
        ended = Victim(self.place, words, cache=self.cache, on_terminal=False).end()
        self._has_started(start)
        end = Point(self.number, 0, "none", "none", 0.0, self.shape, self.fresh, 0)
        if ended is None:
            end.wrong.append("what came after it did not end")
        elif ended.code != 0:
            end.wrong.append(f"what came after it ended with {ended.code}: {ended.last_lines}")
        elif (why := checks.unfinished(self.results, was_resumed=start == RESUMED)) is not None:
            end.wrong.append(why)
        else:
            self._learn(start, ended, fresh=fresh)
        end.wrong += self.place.harm()
        end.lost += checks.lost(self.results, before, ended.stored_runs if ended else frozenset())
        end.left += checks.left(self.place, self.results, self.cache)
        if self.points:
            last = self.points[-1]
            last.lost, last.left, last.wrong = last.lost + end.lost, last.left + end.left, last.wrong + end.wrong
        elif end.failures:
            self.points.append(end)

    def _builds(self) -> bool:
        return not any(self.place.data.glob("*/state.json"))

    def _command(self) -> tuple[str, list[str]]:
        """Returns what the next start does, and its arguments."""
        found = checks.sessions(self.results)
        if found:
            over = load_session(found[-1]).status == "finished"
            words = ["resume", "--yes", "--results", str(self.results), *([found[-1].name] if over else [])]
            return WAS_OVER if over else RESUMED, words
        words = self.place.arguments(self.number)
        if self.shape == UNPACKED:
            words += ["--mysqld", str(self.place.tarball)]
        else:
            words += ["--version", str(self.place.build.version)]
        if self.shape == LIMITED:
            words += ["--memory", "1g"]
        if self.shape == MOUNTED:
            return BEGAN, ["damage", "--question", "full-disk", "--runs", str(RUNS), *words]
        if self.shape == BOTH:
            return BEGAN, ["crash-recovery", "--runs", str(RUNS // 2), *words]
        return BEGAN, ["cold-recovery", "--runs", str(RUNS), *words]

    def _usual_length_s(self, *, fresh: bool) -> float:
        guess = (7.0 if fresh else 4.0) + (1.5 if self.shape == MOUNTED else 0.0)
        return self.lengths.get((self.shape, fresh), guess * self.place.server_s)

    def _learn(self, start: str, ended: Ended, *, fresh: bool) -> None:
        if start == BEGAN:
            self.lengths[self.shape, fresh] = ended.took_s

    def _has_started(self, start: str) -> None:
        if self.points and not self.points[-1].next_start:
            self.points[-1].next_start = start
