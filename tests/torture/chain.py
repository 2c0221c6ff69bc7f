"""One session, killed once or more on its way, and brought to its end: every choice is made by its seed."""

from __future__ import annotations

import shutil
import signal
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random

from recovery.linux.loop_device import why_no_loop_disk
from recovery.report.stored_session import load_session
from torture import looks, victim
from torture.place import ROOT, RUNS, Place, own_cache
from torture.victim import Ended, Victim

COLD, BOTH, LIMITED, UNPACKED, MOUNTED = "cold", "cold and warm", "limited", "unpacked", "mounted"
"""The last one crashes servers on a filesystem in a file, which is full."""
_SHAPES = (COLD, COLD, COLD, BOTH, BOTH, LIMITED, LIMITED, UNPACKED, MOUNTED)
WENT_ON, BEGAN, WAS_OVER = "went on", "began anew", "was over"
"""How the next start takes it: one that was killed before there was a session leaves nothing to go on with."""
_FRESH = 0.5
"""So often the data directory is made anew."""
_AGAIN = (0.45, 0.2)
"""So often what goes on after a kill is killed, too; and once more."""
_FURTHER = 1.08
"""Times the usual length is the last moment: the writing of the reports is to be hit, too."""
_CODES = (130, 0, -signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP)
"""Of one that was asked to end: interrupted; too late; or before it had begun to listen."""
_PAUSE_S = 0.4
"""At most, between one Ctrl-C and the next."""


@dataclass(frozen=True)
class Point:
    """One kill, and what came of it."""

    chain: int
    kill: int
    way: str
    stage: str
    after_s: float
    shape: str
    fresh: bool
    """Whether a data directory had to be made."""
    runs: int
    """That had ended by then."""
    next_start: str = ""
    lost: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()

    @property
    def failures(self) -> tuple[str, ...]:
        return (*self.lost, *self.left, *self.wrong)


@dataclass
class Lengths:
    """How long a whole start of the tool takes, by what it has to do: learnt as it goes."""

    server_s: float
    """How long a server takes here to be made and to start: how long the rest takes goes by it at first."""
    seconds: dict[tuple[str, bool], float] = field(default_factory=dict)

    def of(self, shape: str, *, fresh: bool) -> float:
        guess = (7.0 if fresh else 4.0) + (1.5 if shape == MOUNTED else 0.0)
        return self.seconds.get((shape, fresh), guess * self.server_s)

    def learn(self, shape: str, *, fresh: bool, took_s: float) -> None:
        self.seconds[shape, fresh] = took_s


class Chain:
    def __init__(self, place: Place, number: int, *, seed: int, lengths: Lengths) -> None:
        self.place = place
        self.number = number
        self.lengths = lengths
        self.rng = Random(f"{seed}/{number}")  # noqa: S311 - it is to be repeated
        self.shape = self.rng.choice([one for one in _SHAPES if self._can(one)])
        self.fresh = self.rng.random() < _FRESH
        self.kills = 1 + sum(self.rng.random() < share for share in _AGAIN)
        self.results = place.results(number)
        self.cache: Path | None = None
        self.points: list[Point] = []

    def _can(self, shape: str) -> bool:
        return {LIMITED: self.place.can_limit, MOUNTED: why_no_loop_disk() is None}.get(shape, True)

    def run(self) -> tuple[Point, ...]:
        """With what is wrong at its end at its last kill."""
        # Such a directory is of use to no other shape.
        if self.fresh or self.shape == MOUNTED:
            shutil.rmtree(self.place.data, ignore_errors=True)
        self.cache = own_cache(self.place) if self.shape == UNPACKED else None
        try:
            for kill in range(self.kills):
                if not self._killed(kill):
                    break
            self._to_its_end()
        finally:
            shutil.rmtree(self.results, ignore_errors=True)
            if self.shape == MOUNTED:
                shutil.rmtree(self.place.data, ignore_errors=True)
            if self.cache is not None:
                shutil.rmtree(self.cache, ignore_errors=True)
        return tuple(self.points)

    def _killed(self, kill: int) -> bool:
        """False where it had come to its end before."""
        way = self.rng.choice(victim.WAYS)
        fresh = not any(self.place.data.glob("*/state.json"))
        moment_s = self.rng.random() * _FURTHER * self.lengths.of(self.shape, fresh=fresh)
        pause_s = self.rng.random() * _PAUSE_S
        before, there = looks.ended_runs(self.results), looks.process_ids(self.place)
        how, words = self._words()
        at_work = Victim(self.place, words, cache=self.cache, on_terminal=way == victim.TERMINAL)
        alive = at_work.lives_on_until(moment_s)
        stage = at_work.stage()
        if alive:
            at_work.die(way, pause_s)
        ended = at_work.end()
        self._tell(how)
        if not alive and ended is not None and ended.code == 0:
            self._learn(how, ended, fresh=fresh)
            return False
        if way == victim.REBOOT:
            victim.play_reboot(self.place, self.results)
        runs = len(looks.ended_runs(self.results))
        point = Point(self.number, kill, way, stage, round(moment_s, 3), self.shape, fresh, runs)
        left = tuple(looks.at_once(self.place, there)) if way in victim.POLITE else ()
        self.points.append(self._looked_at(replace(point, left=left), before, ended, alive=alive))
        return True

    def _looked_at(self, point: Point, before: dict[str, str], ended: Ended | None, *, alive: bool) -> Point:
        told = ended.told if ended is not None else frozenset[int]()
        wrong = []
        if ended is None:
            wrong.append("it did not end")
        elif not alive:
            wrong.append(f"it failed by itself, with {ended.code}: {_tail(ended.said)}")
        elif _before_the_tool(ended.said):
            pass
        elif "Traceback" in ended.said:
            wrong.append(f"it ended with a traceback: {_tail(ended.said)}")
        elif point.way in victim.POLITE - {victim.TERMINAL} and ended.code not in _CODES:
            wrong.append(f"it ended with {ended.code}: {_tail(ended.said)}")
        if (why := self.place.is_untouched()) is not None:
            wrong.append(why)
        return replace(
            point,
            lost=tuple(looks.lost(self.results, before, told)),
            wrong=tuple(wrong),
        )

    def _words(self) -> tuple[str, list[str]]:
        """What is typed next: it goes on where there is a session, and begins where there is none."""
        found = looks.sessions(self.results)
        if found:
            over = load_session(found[-1]).status == "finished"
            words = ["run", "--resume", "--results", str(self.results), *([found[-1].name] if over else [])]
            return WAS_OVER if over else WENT_ON, words
        words = self.place.words(self.number)
        if self.shape == UNPACKED:
            words += ["--mysqld", str(self.place.tarball())]
        else:
            words += ["--version", str(self.place.build.version)]
        if self.shape == LIMITED:
            words += ["--memory", "1g"]
        if self.shape == MOUNTED:
            return BEGAN, ["damage", "--question", "full-disk", "--runs", str(RUNS), *words]
        if self.shape == BOTH:
            return BEGAN, ["crash-recovery", "--runs", str(RUNS // 2), *words]
        return BEGAN, ["cold-recovery", "--runs", str(RUNS), *words]

    def _learn(self, how: str, ended: Ended, *, fresh: bool) -> None:
        if how == BEGAN:
            self.lengths.learn(self.shape, fresh=fresh, took_s=ended.took_s)

    def _to_its_end(self) -> None:
        fresh = not any(self.place.data.glob("*/state.json"))
        before = looks.ended_runs(self.results)
        how, words = self._words()
        at_work = Victim(self.place, words, cache=self.cache, on_terminal=False)
        ended = at_work.end()
        self._tell(how)
        wrong: list[str] = []
        if ended is None:
            wrong.append("what came after it did not end")
        elif ended.code != 0:
            wrong.append(f"what came after it ended with {ended.code}: {_tail(ended.said)}")
        elif (why := looks.unfinished(self.results, went_on=how == WENT_ON)) is not None:
            wrong.append(why)
        else:
            self._learn(how, ended, fresh=fresh)
        if (why := self.place.is_untouched()) is not None:
            wrong.append(why)
        lost = tuple(looks.lost(self.results, before, ended.told if ended else frozenset()))
        left = tuple(looks.left(self.place, self.results, self.cache))
        self._at_the_last(lost=lost, left=left, wrong=tuple(wrong))

    def _tell(self, how: str) -> None:
        """The kill before: how the next start took it."""
        if self.points and not self.points[-1].next_start:
            self.points[-1] = replace(self.points[-1], next_start=how)

    def _at_the_last(self, *, lost: tuple[str, ...], left: tuple[str, ...], wrong: tuple[str, ...]) -> None:
        if self.points:
            last = self.points[-1]
            self.points[-1] = replace(
                last, lost=(*last.lost, *lost), left=(*last.left, *left), wrong=(*last.wrong, *wrong)
            )
        elif lost or left or wrong:
            way, shape = "none", self.shape
            self.points.append(Point(self.number, 0, way, "none", 0.0, shape, self.fresh, 0, "", lost, left, wrong))


def told(point: Point) -> dict[str, object]:
    """For JSON: what is empty says nothing."""
    return {name: value for name, value in asdict(point).items() if value not in ((), "")}


def _before_the_tool(said: str) -> bool:
    """Python itself was interrupted, before it had read a line of the tool: it ends as it likes then."""
    return "Traceback" in said and str(ROOT / "recovery") not in said


def _tail(said: str) -> str:
    lines = [line.strip() for line in said.replace("\r", "").splitlines() if line.strip()]
    return " | ".join(lines[-4:])
