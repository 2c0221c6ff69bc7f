"""What would be run? Plan, disk, inodes and time, with nothing downloaded, built or started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from recovery.builds.catalog import DEFAULT_VERSION
from recovery.builds.listing import offers
from recovery.builds.resolve import Sources, known_version, known_wanted, resolve
from recovery.commands.grids import cell
from recovery.engines import IN_CONTAINERS, LOCAL, where
from recovery.errors import HostUnfitError
from recovery.estimate import duration_text, seconds_for
from recovery.foreseen import foresee
from recovery.host.datadir import DataDirs
from recovery.host.limitable import needed
from recovery.host.space import free
from recovery.leftout import left_out
from recovery.limited import words
from recovery.load.schema import check_template, need_of
from recovery.model import Extra, Layout, Schema, Version
from recovery.plan import is_over, places_for
from recovery.request import Request
from recovery.scenarios import find_scenario
from recovery.server.options import merge
from recovery.stacks.programs import programs
from recovery.stages import may_alternate, refuse

_TOLD = {Extra.STACKS: "stacks are taken", Extra.WAITS: "waits are counted"}


def tell_plan(request: Request, console: Console) -> None:
    check_template(request.schema)
    needed(request.limits, request.data)
    if request.stacks is not None:
        programs(request.stacks)

    def say(line: str) -> None:
        console.print(cell(line), soft_wrap=True)

    foresee(request, say=say)
    for line in _plan(request):
        say(line)


def _plan(request: Request) -> Iterator[str]:
    scenario = find_scenario(request.scenario)
    wanted = [known_wanted(text) for text in request.versions]
    if request.engine == LOCAL:
        for text in request.versions:
            known_version(text)
    names = {one.like: one.text for one in wanted if one.release is None}
    versions = [one.like for one in wanted] or _asked(request.mysqld)
    if not versions:  # told when it is there; until then it is taken for the default
        versions = [known_version(DEFAULT_VERSION)]
        names = {versions[0]: str(request.image or request.mysqld)}
    variants = request.measured
    places = places_for(versions, variants)
    room = free(request.data)
    runs = request.runs + len(request.extras)
    run_by = where(request)
    yield scenario.question
    yield f"  servers run {run_by}"
    for name in names.values():
        yield f"  {name} is asked for its version at the start"
    for told in (*request.unasked, *left_out([one for one in versions if one not in names], variants)):
        yield f"  {told}"
    schemas = [place.schema(request.schema) for place in places]
    given = dict(request.settings)
    needs = [
        need_of(check_template(schema), place.version, schema, merge(given, dict(place.settings)))
        for place, schema in zip(places, schemas, strict=True)
    ]
    for place, schema, need in zip(places, schemas, needs, strict=True):
        refuse(place.version, schema)
        here = [variant for variant in variants if is_over(variant, place)]
        name = " ".join((names.get(place.version, str(place.version)), *place.words))
        fit = "" if need.fits(room) else " (does not fit, unless it is built already)"
        server = request.mysqld or request.image or _whereabouts(place.version, in_images=IN_CONTAINERS in run_by)
        seconds = seconds_for(
            place.version,
            schema,
            runs=runs,
            variants=here,
            read_iops=request.limits.read_iops,
            settings=request.lasting_settings,
        )
        time = duration_text(seconds)
        yield f"  {name}: server {server}; {_tables(schema)}: {need}{fit}; about {time} with the build"
    yield f"  data in {request.data}: {room} free"
    for info in DataDirs(request.data).list():
        yield f"  there already: {info.key} ({info.status})"
    if request.limits:
        yield f"  the measured server is limited to {words(request.limits)}"
    alternating = may_alternate(needs, room, growing=bool(request.points))
    plan = request.plan(versions, variants, alternating=alternating)
    yield f"  order: {plan.order}, if nothing is built yet"
    for trial in plan.trials:
        name = names.get(trial.version, str(trial.version))
        extra = f", {_TOLD[trial.extra]}" if trial.extra else ""
        yield f"  {trial.number:3d}  {name}  {trial.variant.name}  run {trial.repeat}{extra}"
    yield "Times are rough: rates seen on a 2-core machine, not measured here."


def _tables(schema: Schema) -> str:
    files = "" if schema.layout is Layout.FILES else f" ({schema.layout}: .ibd files: {schema.files:,})"
    return f"{schema.total_tables:,} tables{files}"


def _asked(mysqld: str | None) -> list[Version]:
    """A server of the user's own that lies here unpacked tells its version, unless libraries had to be fetched."""
    if mysqld is None or "://" in mysqld or not (Path(mysqld).is_dir() or os.access(mysqld, os.X_OK)):
        return []
    try:
        return [resolve(None, Sources(mysqld=mysqld, offline=True), lambda _: None).version]
    except HostUnfitError:
        return []


def _whereabouts(version: Version, *, in_images: bool) -> str:
    if in_images:
        return "an image"
    cached = {offer.version for offer in offers() if offer.cached}
    return "in the cache" if str(version) in cached else "to be fetched"
