"""Prints the plan of a session: all of it for a dry run, and its time and disk space before a session begins."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import click
from rich.console import Console

from recovery.builds.resolve import available_servers, parse_version_option
from recovery.cli.output import escaped_text, print_line
from recovery.errors import InterruptedByUserError, RecoveryError, UsageError, escape_control
from recovery.experiments import find_experiment
from recovery.linux.cgroups import controller_settings, limits_text
from recovery.model import ExtraRun, Layout, Schema, Version
from recovery.mysqld.datadir import DataDirs
from recovery.report.fmt import count_text, size
from recovery.session.engine import LOCAL, describe_engine, locate_servers
from recovery.session.estimate import duration_text
from recovery.session.option_checks import check_options_offline, check_table_open_cache
from recovery.session.plan import Plan, combined_need
from recovery.session.prepare import check_space_ahead, plan_ahead
from recovery.session.request import Request

_MAX_TRIALS, _FIRST_TRIALS = 20, 10
"""The plan lists at most so many trials; of more, it lists the first."""
_EXTRA_RUN_NOTES = {
    ExtraRun.FIRST_READ: "first read, not averaged",
    ExtraRun.TRACE: "opened files are counted",
    ExtraRun.STACKS: "stacks are taken",
    ExtraRun.WAITS: "waits are counted",
}


def print_plan(request: Request, console: Console) -> None:
    """Prints what would be run: the plan, and the disk space, inodes and time that it needs.

    Nothing is downloaded, built or started. Raises the error of a server that cannot be had, after the plan."""
    controller_settings(request.servers.limits, request.output.data)
    if request.method.stacks is not None:
        from recovery.profiling.samplers import usable_programs

        usable_programs(request.method.stacks)

    def say(line: str) -> None:
        console.print(escaped_text(line), soft_wrap=True)

    check_table_open_cache(request, say=say)
    plan = plan_ahead(request)
    check_options_offline(request, plan.known_versions, say)
    notes: list[str] = []
    located = locate_servers(request, notes.append)
    for line in _plan_lines(request, plan, dict(zip(plan.versions, located, strict=False)), notes):
        say(line)
    raise_if_missing(located)


def raise_if_missing(located: Iterable[str | RecoveryError]) -> None:
    """Raises the first error among what `locate_servers` returned, if there is one."""
    if (problem := next((place for place in located if isinstance(place, RecoveryError)), None)) is not None:
        raise problem


def _plan_lines(
    request: Request, plan: Plan, located: Mapping[Version, str | RecoveryError], notes: Sequence[str]
) -> Iterator[str]:
    run_by = describe_engine(request)
    yield find_experiment(request.scenario).question
    yield f"  servers run {run_by}"
    yield f"  sizes: {_sizes_text(request)}"
    yield from (f"  {line}" for line in (*_version_lines(request, plan), *notes, *plan.unavailable))
    build_s = {datadir.spec: seconds for datadir, seconds in plan.builds}
    for datadir in plan.datadirs:
        version = datadir.spec.version
        name = " ".join((plan.name(version), *datadir.spec.words))
        fit = "" if datadir.need.fits(plan.room) else " (does not fit, unless it already exists)"
        own = next((str(own) for own in request.servers.mysqld if own.name == version.build), request.servers.image)
        source = located[version]
        server = "cannot be had here" if isinstance(source, RecoveryError) else own or source
        tables = _tables_text(datadir.schema)
        time = duration_text(build_s.get(datadir.spec, 0.0) + plan.trials_s(plan.over(datadir.spec)))
        if datadir.whole:
            yield f"  {name}: server {server}; {tables} in {datadir.key}, which is there; about {time}"
        else:
            yield f"  {name}: server {server}; {tables}: {datadir.need}{fit}; about {time} with the build"
    yield f"  data in {request.output.data}: {plan.room} free"
    yield from _existing_lines(request, plan)
    if request.servers.limits:
        yield f"  the measured server is limited to {limits_text(request.servers.limits)}"
    if len(plan.specs) > 1:
        yield f"  {plan.order}, unless some are built already"
    yield from _trial_lines(plan)
    about = "About" if request.sizes.precision is None else "At most about"
    yield f"{about} {duration_text(plan.seconds)} in all. Times are rough: the rates of a 2-core machine."


def _version_lines(request: Request, plan: Plan) -> Iterator[str]:
    """Yields what the names in VERSION mean."""
    yield from _flavor_notes(request)
    if request.servers.engine == LOCAL and not request.servers.mysqld:
        for text, version in zip(request.servers.versions, plan.versions, strict=False):
            if parse_version_option(text).release is None and version not in plan.names:
                yield f"{text} is {version}, the newest that is known on this host"
    for name in plan.names.values():
        yield f"the version of {name} is determined at the start"


def _flavor_notes(request: Request) -> Iterator[str]:
    if request.servers.mysqld or request.servers.image:  # such a server says itself what it is
        return iter(())
    return filter(None, (parse_version_option(text).flavor_note for text in request.servers.versions))


def _trial_lines(plan: Plan) -> Iterator[str]:
    shown = plan.trials if len(plan.trials) <= _MAX_TRIALS else plan.trials[:_FIRST_TRIALS]
    for trial in shown:
        extra = f", {_EXTRA_RUN_NOTES[trial.extra]}" if trial.extra else ""
        yield f"  {trial.number:3d}  {plan.name(trial.version)}  {trial.variant.name}{extra}"
    if rest := plan.trials[len(shown) :]:
        notes = Counter(_EXTRA_RUN_NOTES[trial.extra] for trial in rest if trial.extra)
        yield "; ".join((f"  and {len(rest):,} more", *(f"{note} in {number:,}" for note, number in notes.items())))


def _existing_lines(request: Request, plan: Plan) -> Iterator[str]:
    """Yields the other data directories of these versions that exist, which are not used."""
    names, used = tuple(f"{version.release}-" for version in plan.versions), {datadir.key for datadir in plan.datadirs}
    for info in DataDirs(request.output.data).list():
        if info.key.startswith(names) and info.key not in used:
            yield f"  also there, for other sessions: {info.key} ({info.status})"


def _sizes_text(request: Request) -> str:
    schema = request.sizes.schema
    points = " ".join(f"{count:,}" for count in request.sizes.points or (schema.all_tables // schema.databases,))
    tables = f"{points} table{'' if points == '1' else 's'}"
    parts = [f"{tables} in each of {schema.databases:,} schemas" if schema.databases > 1 else tables]
    if schema.rows:
        parts.append(f"{count_text(schema.rows, 'row')} in each")
    at_most = "" if request.sizes.precision is None else "at most "
    variants, runs = len(request.all_variants), f"{at_most}{count_text(request.sizes.repeats, 'run')}"
    versions = " of each version" if len(request.servers.versions) > 1 else ""
    parts.append(f"{variants} variants, {runs} of each" if variants > 1 else f"{runs}{versions}")
    parts += sorted({variant.task.size_text for variant in request.all_variants if variant.task} - {""})
    return "; ".join(parts)


def can_ask() -> bool:
    """Returns whether somebody at a terminal can answer a question."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


LONG_S, LARGE_BYTES = 600.0, 10_000_000_000
"""A session that is expected to take longer, or more of the disk, asks before it begins."""


def announce(requests: Sequence[Request], say: Callable[[str], None], *, yes: bool, times: int = 1) -> None:
    """Prints the expected time and disk space, of so many repetitions over the same data directories. On a terminal,
    asks whether to begin if it is over 10 minutes or 10 GB.

    Raises HostUnfitError if the sessions cannot fit on the disk, and UsageError if the answer is no."""
    plans = list(map(plan_ahead, requests))
    check_space_ahead(requests, plans)
    for note in dict.fromkeys(note for request in requests for note in _flavor_notes(request)):
        say(note)
    say(f"{cost_text(requests, plans, times=times)}{_downloads_text(requests)}")
    is_large = _seconds(plans, times) > LONG_S or combined_need(plans).bytes > LARGE_BYTES
    if is_large and can_ask() and not yes and not confirm("Begin?"):
        less = "--scale quick, or " if any(find_experiment(request.scenario).scale for request in requests) else ""
        raise UsageError(
            "nothing was measured", f"give {less}fewer --tables, --runs or versions; --dry-run prints the plan"
        )


def confirm(question: str) -> bool:
    """Returns whether the answer is yes. Raises InterruptedByUserError at Ctrl-C and Ctrl-D."""
    try:
        return click.confirm(escape_control(question), default=False, err=True)
    except click.Abort as error:
        print_line("", err=True)  # ends the line of the question
        raise InterruptedByUserError("interrupted", "nothing was measured") from error


def _seconds(plans: Iterable[Plan], times: int) -> float:
    """Returns what so many repetitions of the sessions take. Only the first builds what is not there."""
    return sum(times * plan.seconds - (times - 1) * sum(seconds for _, seconds in plan.builds) for plan in plans)


def cost_text(requests: Sequence[Request], plans: Sequence[Plan], *, times: int = 1) -> str:
    """Returns in words what the sessions take: their time, and the disk space of what is not built yet."""
    about = "about" if all(request.sizes.precision is None for request in requests) else "at most about"
    need = combined_need(plans).bytes
    disk = f"{size(need)} of disk" if need else "nothing new on the disk"
    return f"{about} {duration_text(_seconds(plans, times))} and {disk}"


def _downloads_text(requests: Iterable[Request]) -> str:
    """Returns what has to be fetched of the catalog before the first start. Of other sources no size is known ahead."""
    needed = {name for request in requests if not request.servers.image for name in request.servers.versions}
    sizes = [one.bytes or 0 for one in available_servers() if one.version in needed and not one.cached]
    return f"; {size(sum(sizes))} are downloaded first" if any(sizes) else ""


def _tables_text(schema: Schema) -> str:
    files = "" if schema.layout is Layout.FILES else f" ({schema.layout}: .ibd files: {schema.files:,})"
    return f"{count_text(schema.all_tables, 'table')}{files}"
