"""Compares warm starts with and without a `recovery watch` beside them, in pairs whose order alternates."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from bench.site import quiet, scratch

from recovery.analysis.statistics import half_interval_95
from recovery.builds.resolve import Sources, resolve_server
from recovery.mysqld.local import LocalLauncher
from watch.states import FEW, CrashedData, Sizes


@dataclass(frozen=True)
class Overhead:
    """The ratio of watched to unwatched starts."""

    version: str
    tables: int
    pairs: int
    ratio: float
    low: float
    high: float
    watched_s: tuple[float, ...]
    unwatched_s: tuple[float, ...]


def measure(data: Path, version: str, tables: int, pairs: int) -> Overhead:
    """Times pairs of warm crash starts; a first pair is not counted."""
    build = resolve_server(version, Sources(), quiet)
    times: dict[bool, list[float]] = {True: [], False: []}
    with scratch(data) as site:
        crashed = CrashedData(site.folder, build, LocalLauncher(), Sizes(tables, 1 << 20, 1000))
        try:
            crashed.make()
            crashed.crash(FEW)
            for pair in range(pairs + 1):
                for is_watched in (True, False) if pair % 2 else (False, True):
                    seconds = _start(crashed, is_watched=is_watched)
                    if pair:
                        times[is_watched].append(seconds)
        finally:
            crashed.close()
    ratio, low, high = ratio_with_interval(times[True], times[False])
    return Overhead(version, tables, pairs, ratio, low, high, tuple(times[True]), tuple(times[False]))


def ratio_with_interval(watched: list[float], unwatched: list[float]) -> tuple[float, float, float]:
    """Returns the geometric mean of the ratios of pairs with its 95 % interval."""
    logs = [math.log(one / other) for one, other in zip(watched, unwatched, strict=True)]
    mean, half = fmean(logs), half_interval_95(logs)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def _start(crashed: CrashedData, *, is_watched: bool) -> float:
    """Times a start, and crashes the server again as it was crashed before."""
    with crashed.server(FEW) as server:
        found = server.start(companion=_watching if is_watched else _not_watching)
        crashed.insert_and_kill(server)
    return found.metrics["startup_s"]


def _not_watching(_: int) -> AbstractContextManager[object]:
    return nullcontext()


@contextmanager
def _watching(pid: int) -> Iterator[None]:
    """Runs the command in a process of its own, as a user does. It begins within a tenth of a second of the server."""
    watch = subprocess.Popen(
        [sys.executable, "-m", "recovery", "watch", str(pid)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        watch.kill()
        watch.wait()
