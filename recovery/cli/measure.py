"""Runs the commands that measure, from their options to the exit code, and `recovery resume`."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from recovery.analysis.compare import cells_without_interval, incomplete_reason, worse_than_baseline
from recovery.analysis.warnings import cells_missing_precision
from recovery.builds.catalog import DEFAULT_VERSION
from recovery.builds.resolve import Sources, available_servers, parse_release, parse_version_option, resolve_server
from recovery.cli.commands import MeasuringCommand
from recovery.cli.completion import complete_session
from recovery.cli.options import BY_NAME, DEFAULT_RESULTS, refuse_unused_variables, repeat_command, table_option
from recovery.cli.output import STANDARD_OUTPUT, print_line, write_json
from recovery.cli.parse import host_capacity, make_request, scale_sizes
from recovery.cli.progress_view import FAINT, ProgressDisplay, Screen
from recovery.cli.report import escaped_text
from recovery.cli.settings import REPLACED_FLAGS
from recovery.errors import HostUnfitError, InterruptedByUserError, LimitExceededError, RecoveryError, UsageError
from recovery.experiments import find_experiment
from recovery.experiments.experiment import PUBLISHED, Experiment, ExperimentOptions
from recovery.linux.cgroups import controller_settings, limits_text
from recovery.linux.files import expand_path
from recovery.linux.locks import lock_path
from recovery.linux.privileges import refuse_steps
from recovery.linux.procfs import process_id
from recovery.linux.storage import NO_SPACE, DiskSpace, free_space
from recovery.model import NO_LIMITS, ExtraRun, Layout, Schema, Session, Status, Trial, Version
from recovery.mysqld.datadir import DataDirs
from recovery.mysqld.options import datadir_settings, merge
from recovery.profiling.samplers import usable_programs
from recovery.report import console as console_report
from recovery.report.console import ReportConsole, program_name
from recovery.report.fmt import count_text
from recovery.report.stored_session import REPORT_FILE, load_session
from recovery.report.write import write_reports
from recovery.session import progress as session_progress
from recovery.session.datadirs import can_alternate, check_schema_supported
from recovery.session.engine import IN_CONTAINERS, LOCAL, choose_engine, describe_engine
from recovery.session.estimate import (
    SESSION_OVERHEAD_S,
    build_seconds,
    duration_text,
    saved_by_growth_s,
    version_seconds,
)
from recovery.session.option_checks import check_options_offline, check_table_open_cache
from recovery.session.plan import DatadirSpec, datadir_specs, is_measured_over, unsupported_questions
from recovery.session.progress import Progress
from recovery.session.request import Request
from recovery.session.resume import Unfinished, check_not_running, find_unfinished, sweep_results
from recovery.session.run import run_session
from recovery.workload.schema import checked_script_size, disk_need, template_text

# --- The plan: what a dry run prints, and what is announced before a session

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
    parts += sorted({one.task.size_text for one in request.all_variants if one.task} - {""})
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


# --- Help of the measuring commands

_DEFAULT_IN_HELP = re.compile(r" \[default: [^]]*\]$")
_VARIANT_HELP = (
    "Server options to compare under a name; repeated for each. NAME: without options is the server as it is."
)


def help_of(experiment: Experiment) -> str:
    return f"{experiment.question}\n\n{experiment.how}Results go to --results, one folder each."


def option_help(experiment: Experiment, name: str, text: str | None) -> str | None:
    """Returns the help of an option with the default of this experiment."""
    schema, scale = experiment.schema, experiment.scale
    usual = {
        "tables": " ".join(map(str, experiment.points)) or schema.tables, "schemas": schema.databases,
        "rows": schema.rows, "runs": experiment.runs,
        "seconds": ExperimentOptions.seconds, "warmup": ExperimentOptions.warmup_s, **experiment.defaults,
    }  # fmt: skip
    if scale is not None:
        usual |= {"scale": scale, **scale_sizes(experiment, scale, cpus=host_capacity(NO_LIMITS).cpus)}
    if experiment.template is not None:  # all tables of a load have one schema and one layout
        text = {"tables": "Tables, all in one schema.", "variants": _VARIANT_HELP}.get(name, text)
    return f"{_DEFAULT_IN_HELP.sub('', text or '')} [default: {usual[name]}]" if name in usual else text


# --- A session, from its options to its results on the screen


@dataclass(frozen=True)
class Shown:
    """Options of a command that change nothing about what is measured."""

    quiet: bool = False
    verbose: bool = False
    """Print the tables, too."""
    yes: bool = False
    """Do not ask whether to begin a long session."""
    wait: bool = False
    """Wait while another timed run is in progress."""
    json_to: str | None = None
    """File for report.json, or `-`."""


def measure(command: MeasuringCommand, given: dict[str, Any]) -> int:
    refuse_unused_variables(os.environ, command)
    scenario = str(command.name)
    dry_run, shown = given.pop("dry_run"), Shown(**{one.name: given.pop(one.name) for one in fields(Shown)})
    request = make_request(scenario, given)
    if dry_run and shown.json_to:
        raise UsageError("--dry-run and --json cannot be combined: nothing is measured", "leave one of them out")
    if dry_run:
        _make_display(request, quiet=shown.quiet).say(f"$ {request.command}", FAINT)
        with refuse_steps(request.refused):
            print_plan(request, ReportConsole())
        return 0
    return exit_code(request, run_and_show(request, shown))


def exit_code(request: Request, session: Session) -> int:
    if incomplete_reason(session) is not None or any(cells_missing_precision(session)):
        return 1
    if request.fail_over is not None and (unjudged := cells_without_interval(session)):
        raise RecoveryError(
            f"--fail-over cannot be judged: no interval for {', '.join(unjudged)}",
            "see the report: these runs are not warm starts, or are not measured",
        )
    if request.fail_over is not None and (slower := worse_than_baseline(session, request.fail_over)):
        raise LimitExceededError("; ".join(slower), "the report shows where the time went")
    return 0


def run_and_show(request: Request, shown: Shown, unfinished: Unfinished | None = None) -> Session:
    """Runs the session, shows its results and returns it.

    If it ends early, the stored results and the command that resumes it are shown, too."""
    reporter = _make_display(request, quiet=shown.quiet)
    reporter.say(f"$ {request.command}", FAINT)
    if unfinished is None:
        announce([request], reporter.say, yes=shown.yes)
    try:
        folder = run_session(
            request,
            engine=choose_engine(request, reporter.say),
            reporter=reporter,
            unfinished=unfinished,
            wait=shown.wait,
        ).folder
    except BaseException as error:
        further = _show_ended_early(Path(reporter.progress.results), shown, reporter.say)
        if further is None:
            raise
        if isinstance(error, KeyboardInterrupt | InterruptedByUserError):
            raise InterruptedByUserError(
                str(error) or "interrupted", f"the runs that have ended are stored; {further}"
            ) from None
        reporter.say(further)
        raise
    session = _show_session(folder, shown, reporter.say)
    if not Unfinished(folder, session).has_ended:
        reporter.say(_resume_hint(folder))
    return session


def _show_ended_early(folder: Path, shown: Shown, say: Callable[[str], None]) -> str | None:
    """Shows the stored results of a session that ended early, and returns in words how to resume it.

    Returns None if nothing was stored or the session was complete."""
    kept = False
    with suppress(RecoveryError, OSError):  # the user must see the error that ended the session, not this one
        kept = (folder / REPORT_FILE).is_file()
        if kept and _show_session(folder, shown, say).status == Status.FINISHED:
            return None
    return _resume_hint(folder) if kept else None


def _resume_hint(folder: Path) -> str:
    results = {} if folder.parent == DEFAULT_RESULTS.absolute() else {"results": folder.parent}
    command = repeat_command("resume", results, (BY_NAME["results"],)).removeprefix("recovery")
    return f"`{program_name()}{command} {shlex.quote(folder.name)}` resumes it and measures the missing runs"


def _make_display(request: Request, *, quiet: bool) -> ProgressDisplay:
    progress = Progress(
        scenario=request.scenario,
        figure=find_experiment(request.scenario).metric,
        versions=request.versions,
        command=request.command,
        results=str(request.results),
        began_s=time.monotonic(),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        pid=os.getpid(),
        owner=process_id(),
    )
    record = partial(session_progress.write_status_file, session_progress.status_path(lock_path()))
    return ProgressDisplay(progress, screen=Screen(sys.stderr), record=record, quiet=quiet)


def _show_session(folder: Path, shown: Shown, say: Callable[[str], None]) -> Session:
    """Writes the reports of the stored session, and prints it, or report.json with `--json -`."""
    session = load_session(folder)
    try:
        write_reports(folder, session)
    finally:
        if shown.json_to != STANDARD_OUTPUT:
            console_report.show(session, folder, ReportConsole(), verbose=shown.verbose)
        if shown.json_to:
            write_json(shown.json_to, (folder / REPORT_FILE).read_text(encoding="utf-8"))
        if shown.json_to == STANDARD_OUTPUT or shown.verbose:
            say(f"stored in {folder}")
    return session


# --- Requests from stored commands


def request_from_arguments(name: str, words: Sequence[str]) -> Request:
    """Returns the request of the measuring command `name` with these arguments.

    The arguments are parsed by the command itself. Its environment variables are ignored: they are not meant for this
    session. A stored command without a scale is of an older version, which had the published sizes only."""
    command = MeasuringCommand(name, environment=False)
    given: dict[str, Any] = dict(command.make_context(name, list(words)).params)
    for beside in ("dry_run", *(one.name for one in fields(Shown))):
        given.pop(beside, None)
    if find_experiment(name).scale is not None:
        given["scale"] = given.get("scale") or PUBLISHED
    return make_request(name, given)


def request_to_resume(unfinished: Unfinished) -> Request:
    """Returns the request of an unfinished session, with the folder where the session is now as its results folder.

    Raises UsageError if this version of the tool does not accept the stored command."""
    planned = unfinished.plan()
    _, name, *words = shlex.split(planned.command)
    words = [REPLACED_FLAGS.get(word.partition("=")[0], word) for word in words]
    folder = Path(planned.folder)
    with chdir(folder) if folder.is_dir() else nullcontext():  # its paths may be relative to that folder
        try:
            request = request_from_arguments(name, words)
        except (click.ClickException, KeyError) as error:
            raise UsageError(
                f"{unfinished.folder.name} cannot be resumed: this version does not know its command: {error}",
                "use the version that began it, or measure again; its runs stay stored",
            ) from error
    return replace(request, results=unfinished.folder.parent, command=planned.command)


# --- recovery resume


@click.command("resume")
@click.argument("session", required=False, shell_complete=complete_session)
@table_option("results")
@table_option("wait")
@table_option("quiet")
@table_option("verbose")
@table_option("json")
def resume(session: str | None, results: Path, **given: Any) -> int:
    """Resume a session that was killed, interrupted or aborted: SESSION (a name in --results, or a folder), or the
    newest such session.

    The settings and the plan stay the same. Runs that have ended are kept. The missing runs are measured, and those
    that are void because the storage failed or something was paused. A session is not resumed if the servers, the
    settings or the host have changed."""
    shown = Shown(**given)
    results = expand_path(results).absolute()
    sweep_results(results)
    unfinished = find_unfinished(results, session)
    check_not_running(unfinished)
    if unfinished.has_ended:
        return _finish_ended_session(unfinished, shown.json_to)
    request = request_to_resume(unfinished)
    return exit_code(request, run_and_show(request, shown, unfinished))


@click.command("run", hidden=True)
@click.option("--resume", "resumed", is_flag=True, help="Resume a session. This option is required.")
@click.pass_context
def run_command(ctx: click.Context, /, *, resumed: bool, **given: Any) -> int:
    """The name of `recovery resume` in earlier versions: `recovery run --resume`."""
    if not resumed:
        raise UsageError(
            "`recovery run` needs --resume",
            "`recovery resume` resumes a session; `recovery cold-recovery` begins one",
        )
    code: int = ctx.invoke(resume, **given)
    return code


run_command.params += resume.params


def _finish_ended_session(unfinished: Unfinished, json_to: str | None) -> int:
    """Prints that the session has ended, and returns the exit code of its runs.

    The reports are written again, because the tool may have been killed while it wrote them."""
    write_reports(unfinished.folder, unfinished.session)
    lacking = incomplete_reason(unfinished.session)
    text = f"all of its {unfinished.session.planned_runs} runs were measured" if lacking is None else lacking
    print_line(f"{unfinished.folder.name} has ended: {text}; `recovery report` prints it", err=True)
    write_json(json_to, (unfinished.folder / REPORT_FILE).read_text(encoding="utf-8"))
    return 0 if lacking is None else 1
