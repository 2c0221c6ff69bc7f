"""What would be run? Plan, disk, inodes and time, with nothing downloaded, built or started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from recovery.builds.listing import offers
from recovery.builds.resolve import Sources, known_version, known_wanted, resolve
from recovery.engines import DOCKER, LOCAL, where
from recovery.errors import HostUnfitError
from recovery.estimate import duration_text, seconds_for
from recovery.host.limitable import needed
from recovery.host.space import free, need_for
from recovery.limited import words
from recovery.load.schema import check_template
from recovery.model import Version
from recovery.plan import make_plan
from recovery.request import Request
from recovery.scenarios import find_scenario
from recovery.stages import all_fit, refuse_withdrawn


def tell_plan(request: Request, console: Console) -> None:
    check_template(request.schema)
    needed(request.limits, request.data)
    for line in _plan(request):
        console.print(Text(line), soft_wrap=True)


def _plan(request: Request) -> Iterator[str]:
    scenario = find_scenario(request.scenario)
    wanted = [known_wanted(text) for text in request.versions]
    if request.engine == LOCAL:
        for text in request.versions:
            known_version(text)
    versions = [one.release for one in wanted if one.release is not None] or _asked(request.mysqld)
    total = request.schema.total_tables
    room = free(request.data)
    place = where(request)
    yield scenario.question
    yield f"  servers run {place}"
    for name in [one.text for one in wanted if one.release is None] or (() if versions else (request.mysqld,)):
        yield f"  server {name or request.image}; it is asked for its version at the start"
    needs = [need_for(version, request.schema) for version in versions]
    for version, need in zip(versions, needs, strict=True):
        refuse_withdrawn(version, total)
        fit = "" if need.fits(room) else " (does not fit, unless it is built already)"
        seconds = seconds_for(
            version, total, runs=request.runs, caches=scenario.caches, read_iops=request.limits.read_iops
        )
        time = duration_text(seconds)
        server = request.mysqld or ("an image" if request.engine == DOCKER else _whereabouts(version))
        yield f"  {version}: server {server}; {total:,} tables: {need}{fit}; about {time} with the build"
    yield f"  data in {request.data}: {room} free"
    if request.limits:
        yield f"  the measured server is limited to {words(request.limits)}"
    alternating = all_fit(needs, room)
    plan = make_plan(versions, scenario.variants(), repeats=request.runs, alternating=alternating)
    yield f"  order: {plan.order}, if nothing is built yet"
    for trial in plan.trials:
        yield f"  {trial.number:3d}  {trial.version}  {trial.variant.name}  run {trial.repeat}"
    yield "Times are rough: rates seen on a 2-core machine, not measured here."


def _asked(mysqld: str | None) -> list[Version]:
    """A server of the user's own that lies here unpacked tells its version, unless libraries had to be fetched."""
    if mysqld is None or "://" in mysqld or not (Path(mysqld).is_dir() or os.access(mysqld, os.X_OK)):
        return []
    try:
        return [resolve(None, Sources(mysqld=mysqld, offline=True), lambda _: None).version]
    except HostUnfitError:
        return []


def _whereabouts(version: Version) -> str:
    cached = {offer.version for offer in offers() if offer.cached}
    return "in the cache" if str(version) in cached else "to be fetched"
