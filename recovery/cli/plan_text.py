"""Prints the plan of a session: all of it for a dry run, and its time and disk space before a session begins."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
from rich.console import Console

from recovery.builds.catalog import DEFAULT_VERSION
from recovery.builds.resolve import Sources, available_servers, parse_release, parse_version_option, resolve_server
from recovery.cli.report import escaped_text
from recovery.errors import HostUnfitError, UsageError
from recovery.experiments import find_experiment
from recovery.experiments.crash_findings import count_text
from recovery.linux.cgroups import controller_settings, limits_text
from recovery.linux.storage import NO_SPACE, DiskSpace, free_space
from recovery.model import ExtraRun, Layout, Load, Schema, Trial, Version
from recovery.mysqld.datadir import DataDirs
from recovery.mysqld.options import datadir_settings, merge
from recovery.profiling.samplers import usable_programs
from recovery.session.datadirs import can_alternate, check_schema_supported
from recovery.session.engine import IN_CONTAINERS, LOCAL, describe_engine
from recovery.session.estimate import (
    SESSION_OVERHEAD_S,
    build_seconds,
    duration_text,
    saved_by_growth_s,
    version_seconds,
)
from recovery.session.option_checks import check_options_offline, check_table_open_cache
from recovery.session.plan import DatadirSpec, datadir_specs, is_measured_over, unsupported_questions
from recovery.session.request import Request
from recovery.workload.schema import checked_script_size, disk_need, template_text

_MAX_TRIALS, _FIRST_TRIALS = 20, 10
"""The plan lists at most so many trials; of more, it lists the first."""
_EXTRA_RUN_NOTES = {ExtraRun.STACKS: "stacks are taken", ExtraRun.WAITS: "waits are counted"}


def print_plan(request: Request, console: Console) -> None:
    """Prints what would be run: the plan, and the disk space, inodes and time that it needs.

    Nothing is downloaded, built or started."""
    checked_script_size(request.schema)
    controller_settings(request.limits, request.data)
    if request.stacks is not None:
        usable_programs(request.stacks)

    def say(line: str) -> None:
        console.print(escaped_text(line), soft_wrap=True)

    check_table_open_cache(request, say=say)
    found = outline(request)
    check_options_offline(request, [one for one in found.versions if one not in found.names], say)
    for line in _plan_lines(request, found):
        say(line)


@dataclass(frozen=True)
class _PlannedDatadir:
    """Describes one data directory of the plan, with rough estimates."""

    name: str
    spec: DatadirSpec
    schema: Schema
    need: DiskSpace
    seconds: float
    """Of its build and of all trials over it."""
    there: str | None = None
    """Key of the data directory if it is built already."""

    def grows_into(self, other: _PlannedDatadir) -> bool:
        return self.spec.grows_into(other.spec) and self.schema.total_tables < other.schema.total_tables


@dataclass(frozen=True)
class Outline:
    """Holds what is known about a request before anything is fetched."""

    versions: tuple[Version, ...]
    names: Mapping[Version, str]
    """As the user wrote them, of versions whose release is determined at the start."""
    datadirs: tuple[_PlannedDatadir, ...]

    @property
    def seconds(self) -> float:
        return SESSION_OVERHEAD_S + sum(one.seconds for one in self.datadirs)


def combined_need(outlines: Iterable[Outline]) -> DiskSpace:
    """Returns the disk space of several sessions. A directory that they share or that grows counts once."""
    needs = {
        (one.spec.version, one.schema, one.spec.settings): one.need
        for each in outlines
        for one in each.datadirs
        if not any(map(one.grows_into, each.datadirs))
    }
    return sum(needs.values(), NO_SPACE)


def outline(request: Request) -> Outline:
    """Estimates the time and the disk space of a session in which every data directory has to be built."""
    versions, names = _assumed_versions(request)
    datadirs: list[_PlannedDatadir] = []
    for spec in datadir_specs(versions, request.all_variants):
        schema = spec.schema(request.schema)
        options = merge(dict(request.settings), dict(spec.settings))
        found = DataDirs(request.data).find_complete(
            spec.version, schema, template_text=template_text(schema), options=datadir_settings(options)
        )
        need = NO_SPACE if found else disk_need(checked_script_size(schema), spec.version, schema, options)
        check_schema_supported(spec.version, schema)
        seconds = version_seconds(
            spec.version,
            schema,
            runs=request.repeats + len(request.extras),
            variants=[variant for variant in request.all_variants if is_measured_over(variant, spec)],
            read_iops=request.limits.read_iops,
            settings=request.lasting_settings,
        )
        name = " ".join((names.get(spec.version, str(spec.version)), *spec.words))
        planned = _PlannedDatadir(name, spec, schema, need, seconds, None if found is None else found.key)
        if found is not None:
            datadirs.append(replace(planned, seconds=seconds - build_seconds(spec.version, schema)))
            continue
        smaller = [one.schema for one in datadirs if one.there is None and one.grows_into(planned)]
        datadirs.append(replace(planned, seconds=seconds - saved_by_growth_s(spec.version, smaller)))
    return Outline(tuple(versions), names, tuple(datadirs))


def _assumed_versions(request: Request) -> tuple[list[Version], dict[Version, str]]:
    """Returns the versions of a session, and what the user wrote for those that are determined at the start.

    For these a similar release or the default version is assumed."""
    wanted = [parse_version_option(text) for text in request.versions]
    if not wanted and not request.mysqld:
        assumed = parse_release(DEFAULT_VERSION)
        return [assumed], {assumed: str(request.image)}
    if request.mysqld:
        like = wanted[0].like if wanted else parse_release(DEFAULT_VERSION)
        found = {own: _own_server_version(own.place) for own in request.mysqld}
        names = {replace(like, build=own.name): str(own) for own, version in found.items() if version is None}
        return [replace(version or like, build=own.name) for own, version in found.items()], names
    if request.engine == LOCAL:
        return list(map(parse_release, request.versions)), {}
    return [one.like for one in wanted], {one.like: one.text for one in wanted if one.release is None}


def _plan_lines(request: Request, found: Outline) -> Iterator[str]:
    run_by, room = describe_engine(request), free_space(request.data)
    yield find_experiment(request.scenario).question
    yield f"  servers run {run_by}"
    yield f"  sizes: {_sizes_text(request)}"
    if request.engine == LOCAL:
        for text, version in zip(request.versions, found.versions, strict=False):
            if parse_version_option(text).release is None:
                yield f"  {text} is {version}, the newest that is known on this host"
    for name in found.names.values():
        yield f"  the version of {name} is determined at the start"
    known = [one for one in found.versions if one not in found.names]
    for note in (*request.unavailable, *unsupported_questions(known, request.all_variants)):
        yield f"  {note}"
    for one in found.datadirs:
        fit = "" if one.need.fits(room) else " (does not fit, unless it already exists)"
        own = next((str(own) for own in request.mysqld if own.name == one.spec.version.build), request.image)
        server = own or _server_source(one.spec.version, in_images=IN_CONTAINERS in run_by)
        tables, time = _tables_text(one.schema), duration_text(one.seconds)
        if one.there is None:
            yield f"  {one.name}: server {server}; {tables}: {one.need}{fit}; about {time} with the build"
        else:
            yield f"  {one.name}: server {server}; {tables} in {one.there}, which is there; about {time}"
    yield f"  data in {request.data}: {room} free"
    yield from _existing_lines(request, found)
    if request.limits:
        yield f"  the measured server is limited to {limits_text(request.limits)}"
    alternating = can_alternate([one.need for one in found.datadirs], room, growing=bool(request.points))
    plan = request.plan(found.versions, request.all_variants, alternating=alternating)
    if len(plan.specs) > 1:
        yield f"  {plan.order}, unless some are built already"
    yield from _trial_lines(plan.trials, found.names)
    about = "About" if request.precision is None else "At most about"
    yield f"{about} {duration_text(found.seconds)} in all. Times are rough: the rates of a 2-core machine."


def _trial_lines(trials: Sequence[Trial], names: Mapping[Version, str]) -> Iterator[str]:
    shown = trials if len(trials) <= _MAX_TRIALS else trials[:_FIRST_TRIALS]
    for trial in shown:
        name = names.get(trial.version, str(trial.version))
        extra = f", {_EXTRA_RUN_NOTES[trial.extra]}" if trial.extra else ""
        yield f"  {trial.number:3d}  {name}  {trial.variant.name}{extra}"
    if len(shown) < len(trials):
        yield f"  and {len(trials) - len(shown):,} more"


def _existing_lines(request: Request, found: Outline) -> Iterator[str]:
    """Yields the other data directories of these versions that exist, which are not used."""
    names, used = tuple(f"{version.release}-" for version in found.versions), {one.there for one in found.datadirs}
    for info in DataDirs(request.data).list():
        if info.key.startswith(names) and info.key not in used:
            yield f"  also there, for other sessions: {info.key} ({info.status})"


def _sizes_text(request: Request) -> str:
    schema = request.schema
    points = " ".join(f"{count:,}" for count in request.points or (schema.tables,))
    parts = [f"{points} tables in each of {schema.databases:,} schemas" if schema.databases > 1 else f"{points} tables"]
    if schema.rows:
        parts.append(f"{schema.rows:,} rows in each")
    at_most = "" if request.precision is None else "at most "
    variants, runs = len(request.all_variants), f"{at_most}{count_text(request.repeats, 'run')}"
    versions = " of each version" if len(request.versions) > 1 else ""
    parts.append(f"{variants} variants, {runs} of each" if variants > 1 else f"{runs}{versions}")
    if loads := {(one.task.seconds, one.task.warmup_s) for one in request.all_variants if isinstance(one.task, Load)}:
        parts += [f"loads of {seconds:,} s after {warmup:,} s" for seconds, warmup in sorted(loads)]
    return "; ".join(parts)


LONG_S = 1800.0
"""A session that is expected to take longer asks before it begins."""


def announce(requests: Sequence[Request], say: Callable[[str], None], *, yes: bool) -> None:
    """Prints the expected time and disk space. On a terminal, asks whether to begin if it is over 30 minutes.

    Raises UsageError if the answer is no."""
    outlines = list(map(outline, requests))
    seconds = sum(one.seconds for one in outlines)
    disk = combined_need(outlines).bytes / 1e9
    about = "about" if all(request.precision is None for request in requests) else "at most about"
    say(f"{about} {duration_text(seconds)} and {disk:.1f} GB of disk")
    asks = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    if seconds > LONG_S and asks and not yes and not click.confirm("Begin?", default=False, err=True):
        raise UsageError(
            "nothing was measured", "give SCALE=quick, or fewer TABLES=, RUNS= or versions; --dry-run prints the plan"
        )


def _tables_text(schema: Schema) -> str:
    files = "" if schema.layout is Layout.FILES else f" ({schema.layout}: .ibd files: {schema.files:,})"
    return f"{schema.total_tables:,} tables{files}"


def _own_server_version(mysqld: str) -> Version | None:
    """Returns the version of a server of the user's own (MYSQLD), or None if it cannot be determined yet.

    The server must be unpacked on this host, and must run without libraries that would have to be fetched."""
    if "://" in mysqld:
        return None
    if not Path(mysqld).exists():
        raise UsageError(f"MYSQLD={mysqld}: there is no such file or folder", "give the server's executable or tarball")
    if not (Path(mysqld).is_dir() or os.access(mysqld, os.X_OK)):
        return None
    try:
        return resolve_server(None, Sources(mysqld=mysqld, offline=True), lambda _: None).version
    except HostUnfitError:
        return None


def _server_source(version: Version, *, in_images: bool) -> str:
    if in_images:
        return "in an image"
    cached = {offer.version for offer in available_servers() if offer.cached}
    return "in the cache" if str(version) in cached else "to be fetched"
