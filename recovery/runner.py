"""The whole way from a request to a stored session: what is needed for it, the loop, and nothing left behind."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from recovery.builds.resolve import known_wanted
from recovery.builds.tools import Tool, provide, provide_all
from recovery.engines import Engine, resolve_builds
from recovery.forecast import ahead_of
from recovery.foreseen import foresee
from recovery.host import tempfolders
from recovery.host.datadir import DataDirs
from recovery.host.leftcopies import clear_left_copies
from recovery.host.limits import limited
from recovery.host.lock import host_lock
from recovery.host.orphans import end_left_groups, end_left_servers
from recovery.host.randomreads import LEFT_OUT, effort_for, probe
from recovery.host.rights import refusing
from recovery.host.standstill import Standstill
from recovery.leftout import left_out
from recovery.load.insert import insert_statements
from recovery.load.schema import check_template
from recovery.loop import Loop
from recovery.plan import NOTHING_YET, places_for
from recovery.prepared import Prepared, check_options, dropper_of, prepare
from recovery.request import Request
from recovery.resumed import Resumed, taken_up
from recovery.scenarios import find_scenario
from recovery.server.options import quoted_value
from recovery.stacks.programs import programs
from recovery.stagehand import Narrator, Stagehand
from recovery.stages import refuse
from recovery.store import SessionStore, check_results_folder
from recovery.unended import Left, tidy


def run_session(request: Request, *, engine: Engine, narrator: Narrator, goes_on: Left | None = None) -> SessionStore:
    """The whole way from a request to a stored session: a new one, or what is missing of one that ended early. Raises
    what ended it early, with what there is kept."""
    with refusing(request.refused):
        return _session(request, engine=engine, narrator=narrator, goes_on=goes_on)


def _session(request: Request, *, engine: Engine, narrator: Narrator, goes_on: Left | None) -> SessionStore:
    samplers = _refused_early(request, narrator)
    with host_lock(), narrator.on_stage(), ExitStack() as stack:
        resumed = stack.enter_context(taken_up(goes_on))
        _clear_up(narrator, request.data)
        # At the end: a server that a killed run has left is ended first, and must not lose its folder before.
        stack.callback(tempfolders.sweep_all)
        # Before the hour of building: a limit that cannot be set is refused at once.
        group = stack.enter_context(limited(request.limits, request.data))
        engine, prepared, programs_at_work = _prepared(request, engine, narrator, resumed=resumed)
        narrator.planned(ahead_of(request, prepared.plan, prepared.needed))
        if resumed is not None:
            there = resumed.store.session
            narrator.gone_on(run for run in there.runs if run.number in there.done)
        scratch = tempfolders.make()
        stack.callback(tempfolders.remove, scratch)
        stagehand = stack.enter_context(
            Stagehand(
                request,
                prepared.stages,
                engine=engine,
                narrator=narrator,
                group=group,
                samplers=samplers,
                programs=programs_at_work,
                built=prepared.begun.built,
                done_with=[stage.key for stage in prepared.done_with],
            )
        )
        loop = Loop(request, prepared, stagehand=stagehand, scratch=scratch, narrator=narrator, resumed=resumed)
        stagehand.rehearse([stage.place for stage in prepared.needed])
        return loop.run()


def _refused_early(request: Request, narrator: Narrator) -> tuple[str, ...]:
    """What cannot be, before anything is touched; or the programs that can take stacks."""
    foresee(request, say=narrator.warn)
    check_template(request.schema)
    insert_statements(request.schema, count=request.inserts, template=request.insert_template)
    releases = [release for version in request.versions if (release := known_wanted(version).release) is not None]
    for place in places_for(releases, request.measured):
        refuse(place.version, place.schema(request.schema))
    if request.work is not None and request.stacks is not None:
        provide(request.stacks, offline=request.offline, say=narrator.warn)
    samplers = programs(request.stacks) if request.stacks is not None else ()
    check_results_folder(request.results)
    quoted_value("DATA", str(request.data))
    DataDirs(request.data).check()
    return samplers


def _clear_up(narrator: Narrator, data: Path) -> None:
    """After runs that were killed, of whatever results and data: what they left would work beside what is timed."""
    for name in end_left_groups():
        narrator.say(f"removed the control group {name}, which a killed run had left behind")
    for pid in end_left_servers():
        narrator.say(f"ended server {pid}, which a killed run had left behind")
    for folder, why_not in clear_left_copies(data):
        told = f"the copy beside {folder.name}, which a killed run had left behind"
        if why_not is None:
            narrator.say(f"removed {told}")
        else:
            narrator.warn(f"{told}, is still there: {why_not}")


def _prepared(
    request: Request, engine: Engine, narrator: Narrator, *, resumed: Resumed | None
) -> tuple[Engine, Prepared, dict[str, Tool]]:
    """Return the engine that has the servers, what is prepared, and the programs that put a server to work."""
    tidy(request.results)
    narrator.doing("getting the servers")
    engine, builds = resolve_builds(request, engine, narrator.warn)
    for build in builds:
        for warning in build.warnings:
            narrator.warn(f"warning: {build.version}: {warning}")
    check_options(request, engine, builds, narrator.warn)
    dropper = dropper_of(request, engine, builds, narrator.warn)
    at_work = find_scenario(request.scenario).programs
    programs_at_work = provide_all(at_work, offline=request.offline, say=narrator.warn)
    # Before anything is built: later the storage would still be at work for us. One that goes on knows it already.
    narrator.doing("trying the storage")
    is_tried = request.probe and resumed is None
    standstill = Standstill()
    tried = probe(request.data, effort_for(request.most_tables)) if is_tried else LEFT_OUT
    if is_tried and (stood := standstill.told()) is not None:
        tried = replace(LEFT_OUT, why_not=stood)
    for told in (*request.unasked, *left_out([build.version for build in builds], request.measured)):
        narrator.warn(told)
    begun = NOTHING_YET if resumed is None else resumed.begun
    prepared = prepare(request, builds, begun)
    return engine, replace(prepared, dropper=dropper, storage=tried.facts()), programs_at_work
