"""What does a server do with the work it is given? It is started, watched second by second, and stopped."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from recovery.load.averages import averages
from recovery.load.rawlooks import write_raw
from recovery.load.shared import with_own
from recovery.load.watching import watched
from recovery.measured import Samples, Series, Watched
from recovery.model import Cache, Variant
from recovery.scenarios.bench import Bench
from recovery.scenarios.done import Done
from recovery.scenarios.loads import load
from recovery.scenarios.outcome import Worked
from recovery.scenarios.statements import ask, create, dump
from recovery.scenarios.watch import Watch
from recovery.stored import Verdict
from recovery.work import Ask, Create, Dump, Load

TIMED_LOG = "timed.err"
_NEAR_S = 0.5
_DOING: dict[type, Callable[[Bench, Any, Watch], Done]] = {Load: load, Ask: ask, Dump: dump, Create: create}


def measure(bench: Bench, variant: Variant) -> Worked:
    """Each piece of work has a server of its own start, so that none finds what another has left in memory."""
    task = variant.task
    assert task is not None, "this variant has nothing to do"
    bench.start(TIMED_LOG)
    cold = bench.make_tables_cold() if variant.cache is Cache.COLD else None
    with Watch(bench) as watch:
        done = _DOING[type(task)](bench, task, watch)
    worked = _worked(watch, done, watch.stacks(variant.name))
    bench.describe()
    bench.stop()
    return replace(worked, cold=cold)


def counts(_: Worked) -> tuple[Verdict, str | None]:
    """Work that came to its end is what was asked; what did not has raised its reason."""
    return Verdict.MEASURED, None


def _worked(watch: Watch, done: Done, stacks: Samples | None) -> Worked:
    looks, whole = watch.sampler.samples, watch.sampler.whole
    if done.beside is not None:
        looks = with_own(looks, done.beside, began_s=watch.sampler.began_s)
    write_raw(watch.raw, looks)
    found = averages(looks, queries=done.queries if whole else 0, commits=done.commits if whole else 0)
    return Worked(
        measures={**found, **_used(watch, done), **done.measures},
        seconds=watch.seconds,
        usage=watch.usage,
        around=watch.around,
        clients=done.clients,
        watched=with_polled(with_seen(watched(looks), done.seen), done.polled),
        waits=watch.sampler.waits,
        raw=watch.raw,
        samples=stacks,
    )


def _used(watch: Watch, done: Done) -> dict[str, float]:
    """From beginning to end, of work that ends by itself; of a load what it used a second says more."""
    if done.queries:
        return {}
    usage = watch.usage
    found = {"read_bytes": usage.read_bytes, "read_requests": usage.read_requests, "server_cpu_s": usage.cpu_s}
    return {name: float(value) for name, value in found.items() if value is not None}


def with_seen(looks: Watched, seen: Sequence[tuple[float, float]]) -> Watched:
    """What the clients counted each second, at the look that came nearest to its end; one that came much later has none
    of theirs, and a second without a look is left out."""
    if not seen:
        return looks
    found: dict[float, float] = {}
    for second, qps in seen:
        nearest = min(looks.at_s, key=lambda at_s: abs(at_s - second), default=None)
        if nearest is not None and abs(nearest - second) <= _NEAR_S:
            found[nearest] = qps
    values = tuple(found.get(at_s) for at_s in looks.at_s)
    return replace(looks, series=(Series("qps", values), *looks.series))


def with_polled(looks: Watched, polled: Sequence[tuple[float, float]]) -> Watched:
    """Answers a second between each look and the one before, so that none is lost where looks are far apart. Before
    the poller began, and after its end, it has none."""
    found: dict[int, list[float]] = {}
    for second, per_s in polled:
        found.setdefault(bisect_left(looks.at_s, second - _NEAR_S), []).append(per_s)
    values = tuple(fmean(found[number]) if number in found else None for number in range(len(looks.at_s)))
    told = any(value is not None for value in values)
    return replace(looks, series=(*looks.series, Series("polls_per_s", values))) if told else looks
