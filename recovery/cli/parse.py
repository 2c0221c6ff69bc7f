"""Checks the options of a measuring command and turns them into a `Request`.

The options have been merged before: the command line takes precedence over the environment, and that over
recovery.toml. A warm measurement that names no server takes its options from the newest session."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from recovery.analysis.statistics import MIN_RUNS
from recovery.builds.catalog import DEFAULT_VERSION
from recovery.builds.resolve import parse_request_or_list
from recovery.cli.options import AUTO, DEFAULT_RESULTS, options_of, repeat_command
from recovery.errors import RecoveryError, UsageError
from recovery.experiments import EXPERIMENTS, find_scenario
from recovery.experiments.experiment import Experiment, ExperimentRequest, HostCapacity, Scenario
from recovery.experiments.scale import SCALE
from recovery.experiments.table_cache import INSTANCES
from recovery.linux import procfs
from recovery.linux.cgroups import format_bytes, parse_limits
from recovery.linux.files import default_data_dir, expand_path, read_limited, template_dir, why_not_trusted
from recovery.linux.loop_device import why_no_loop_disk, why_no_power_cut
from recovery.linux.privileges import refuse_steps, refused_steps
from recovery.linux.procfs import memory_bytes
from recovery.model import Cache, Layout, Limits, Schema, VariantSpec, startup_specs
from recovery.mysqld.options import (
    DEFAULT_CACHE_INSTANCES,
    check_user_settings,
    datadir_settings,
    table_cache_instances,
)
from recovery.profiling.samplers import PERF
from recovery.report.stored_session import REPORT_FILE, find_session, load_session
from recovery.session.plan import check_any_trial_left
from recovery.session.request import (
    DEFAULT_INSERTS,
    DEFAULT_RUNS,
    DEFAULT_TABLES,
    MAX_COLUMNS,
    MAX_INSERTS,
    MAX_RUNS,
    MAX_SCHEMAS,
    MAX_TABLES,
    Request,
    check_layouts,
    check_option_clashes,
    check_redo_log_options,
    parse_count,
    parse_identifier,
    parse_layout,
    parse_notes,
    parse_points,
    parse_settings,
    parse_share,
    parse_variants,
    split_versions,
)
from recovery.workload.schema import split_script

# --- Options of the experiments that give a server work

_QUERY_NAME_COMMENT = re.compile(r"^--\s+(\S.*?)\s*$", re.MULTILINE)
_MAX_QUERY_FILE_BYTES = 1_000_000
_VALID_QUERY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,30}")


def read_queries(path: Path, taken: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each statement in a file of the user's own queries.

    The name is the last comment `-- NAME` above the statement, or else `query-` and its number. `taken` are the names
    of the experiment's own queries. Raises UsageError if a name occurs twice, in whatever case: two queries of one name
    would be reported as one."""
    text = _read_query_file(path)
    found = list(split_script([text]))
    if not found:
        raise UsageError(f"{path} contains no statement", "write SQL with a semicolon after each statement")
    lines = dict.fromkeys((name.casefold() for name in taken), 0)
    at = 0
    for number, statement in enumerate(found, 1):
        here = text.index(statement, at)
        named = list(_QUERY_NAME_COMMENT.finditer(text, at, here))
        name = named[-1][1] if named else f"query-{number}"
        line = 1 + text.count("\n", 0, named[-1].start() if named else here)
        if not _VALID_QUERY_NAME.fullmatch(name):
            raise UsageError(
                f"{path}, line {line}: '{name}' is not a valid name of a query",
                "use at most 31 letters, digits, dots and dashes",
            )
        if (before := lines.setdefault(name.casefold(), line)) != line:
            what = f"line {before} has one of this name" if before else "the experiment has one of this name itself"
            raise UsageError(f"{path}, line {line}: '{name}' is the name of two queries: {what}", "use another name")
        at = here + len(statement)
        yield name, statement


def _read_query_file(path: Path) -> str:
    try:
        text = read_limited(path, _MAX_QUERY_FILE_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"QUERIES: {path} is not UTF-8 text", "save it as UTF-8") from error
    except OSError as error:
        raise UsageError(f"QUERIES: {path} cannot be read: {error.strerror}", "check the path") from error
    if "\0" in text:
        raise UsageError(f"QUERIES: {path} is not a text file", "give a file of SQL statements")
    return text


_MAX_SECONDS = 86_400
_MAX_THREADS = 10_000
_MAX_ROWS = 1_000_000_000
_MIN_RATIO, _MAX_RATIO = 0.001, 1000.0
_MAX_EVERY_S = 3600.0
_MAX_SEED = 10**9
_MAX_DEPTH = 100


def parse_experiment_options(given: Mapping[str, Any], experiment: Experiment) -> ExperimentRequest:
    apart = procfs.split_cores(procfs.own_cores())
    return ExperimentRequest(
        seconds=parse_count("SECONDS", given.get("seconds") or experiment.seconds, _MAX_SECONDS),
        warmup_s=_parse_warmup(given.get("warmup")),
        threads=_parse_numbers("THREADS", given.get("threads"), _MAX_THREADS),
        workloads=_parse_words("WORKLOAD", given.get("workload")),
        parts=_parse_words("QUESTION", given.get("parts")),
        load_tables=_parse_numbers("LOAD_TABLES", given.get("load_tables"), MAX_TABLES),
        options=tuple(map(_parse_server_option, given.get("options") or ())),
        queries=tuple(read_queries(given["queries"], experiment.names)) if given.get("queries") else (),
        pollers=parse_count("POLLERS", given.get("pollers") or 1, _MAX_THREADS),
        every_s=_parse_decimal("EVERY", given.get("every"), _MAX_EVERY_S) or 0.0,
        memory_ratio=_parse_decimal("MEMORY_RATIO", given.get("memory_ratio"), _MAX_RATIO, least=_MIN_RATIO),
        published_build=_parse_optional_count("PUBLISHED_BUILD", given.get("published_build"), MAX_TABLES),
        seed=parse_count("SEED", given.get("seed") or ExperimentRequest.seed, _MAX_SEED),
        depth=parse_count("DEPTH", given.get("depth") or ExperimentRequest.depth, _MAX_DEPTH),
        only=_parse_optional_count("ONLY", given.get("only"), MAX_RUNS),
        server_cpus=None if apart is None else procfs.format_cpu_list(apart.server),
        client_cpus=None if apart is None else procfs.format_cpu_list(apart.clients),
    )


def experiment_schema(given: Mapping[str, Any], experiment: Experiment, request: ExperimentRequest) -> Schema:
    """Returns the experiment's schema, with the numbers of tables, schemas and rows that the user gave."""
    usual = experiment.schema
    template = template_dir() / experiment.template if experiment.template else None
    tables = parse_count("TABLES", given.get("tables") or usual.tables, MAX_TABLES)
    if request.load_tables and max(request.load_tables) > tables:
        raise UsageError(
            f"LOAD_TABLES={max(request.load_tables)} is more than TABLES={tables}", "give TABLES= at least this number"
        )
    if 2 * usual.foreign_keys > tables:
        raise UsageError(
            f"TABLES={tables} is too few for {usual.foreign_keys} foreign keys",
            f"each needs two tables: give at least TABLES={2 * usual.foreign_keys}",
        )
    return replace(
        usual,
        tables=tables,
        databases=parse_count("SCHEMAS", given.get("schemas") or usual.databases, MAX_SCHEMAS),
        rows=_parse_optional_count("--rows", given.get("rows"), _MAX_ROWS) or usual.rows,
        template=template,
    )


def host_capacity(limits: Limits) -> HostCapacity:
    """Returns the capacity of the host, reduced to the CPUs and the memory that the limits allow the server."""
    cpus = len(procfs.own_cpus())
    return HostCapacity(
        cpus=cpus if limits.cpus is None else max(1, min(cpus, int(limits.cpus))),
        memory_bytes=min(memory_bytes(), limits.memory_bytes or memory_bytes()),
        no_disk=why_no_loop_disk,
        no_power_cut=why_no_power_cut,
    )


def possible_cache_instances(
    request: ExperimentRequest, versions: tuple[str, ...], settings: tuple[str, ...]
) -> tuple[int, ...]:
    """Returns the numbers of table cache instances that the servers may have, each number once.

    If the release of a server is not known before the server is fetched, it counts with the numbers that the user
    gave, or else with the default number."""
    given = dict(parse_settings(settings))
    named = dict(request.options).get(INSTANCES) or ((given[INSTANCES],) if INSTANCES in given else ())
    numbers = [int(one) for one in named if re.fullmatch(r"[0-9]{1,9}", one) and int(one) > 0]
    releases = [parse_request_or_list(text).release for text in versions]
    unknown = tuple(numbers) or (DEFAULT_CACHE_INSTANCES,)
    found = [table_cache_instances(release, numbers) if release else unknown for release in releases]
    return tuple(sorted({one for each in found or [unknown] for one in each}))


def _parse_warmup(text: str | None) -> int:
    if text is None:
        return ExperimentRequest.warmup_s
    return 0 if text == "0" else parse_count("WARMUP", text, _MAX_SECONDS)


def _parse_optional_count(name: str, text: str | None, most: int) -> int | None:
    return None if text is None else parse_count(name, text, most)


def _parse_words(name: str, text: str | None) -> tuple[str, ...]:
    found = tuple(dict.fromkeys((text or "").replace(",", " ").split()))
    if text is not None and not found:
        raise UsageError(f"{name}={text} has no value", "give it a value, or leave it out")
    return found


def _parse_numbers(name: str, text: str | None, most: int) -> tuple[int, ...]:
    return tuple(sorted({parse_count(name, word, most) for word in _parse_words(name, text)}))


def _parse_decimal(name: str, text: str | None, most: float, *, least: float = 0) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise UsageError(f"{name}={text} is not valid", f"give a number from {least:g} to {most:,.0f}")
    return value


def _parse_server_option(text: str) -> tuple[str, tuple[str, ...]]:
    """Returns the checked name and the values of a text such as `table_open_cache=400,4000`."""
    name, equals, values = text.partition("=")
    found = tuple(dict.fromkeys(value.strip() for value in values.split(",") if value.strip()))
    if not equals or not found:
        raise UsageError(f"--option {text} has no values", "write it like --option table_open_cache=400,4000")
    (checked,) = {one for value in found for one in check_user_settings({name: value})}
    return checked, found


# --- Options from the newest session, and the request

GivenOptions = Mapping[str, Any]
"""Values of the options, by the names of click's parameters. None or empty: the option was not given."""


def newest_session_folder(results: Path) -> Path | None:
    """Returns the folder of the newest session, or None if there is none."""
    try:
        return find_session(results, None).resolve()
    except (RecoveryError, OSError):
        return None


def complete_from_newest_session(given: GivenOptions) -> GivenOptions:
    """Returns the options of a warm measurement, completed from the newest session if no server is named.

    The warm measurement then has the servers, the data directories and the limits of that session. Options that are
    given take precedence. Raises UsageError if the session cannot be read, or if another user can change its report."""
    folder = (
        None
        if given["versions"] or given["mysqld"] or given["image"]
        else newest_session_folder(expand_path(Path(given["results"])).absolute())
    )
    if folder is None:
        return given
    # The report names the server to run, so it must be trusted.
    if reason := why_not_trusted(folder / REPORT_FILE):
        raise UsageError(f"the newest session, {folder}, cannot be used: {reason}", "give VERSION=")
    try:
        session = load_session(folder)
    except RecoveryError as error:
        raise UsageError(
            f"the newest session cannot be used: {error.message}", f"give VERSION=, or {error.hint}"
        ) from None
    settings = {name: str(value) for name, value in session.settings.items() if value not in (None, "")}
    stored: dict[str, Any] = {
        name: settings.get(name)
        for name in (
            *("tables", "schemas", "columns", "rows", "database", "layout"),
            *("mysqld", "archive", "engine", "image", "registry"),
            *("read_iops", "read_bps", "cpus"),
        )
    }
    stored["memory"] = settings.get("memory_bytes")
    stored |= {name: Path(settings[name]) for name in ("data", "template", "insert_template") if name in settings}
    # The version of the user's own server (MYSQLD, IMAGE) is determined again. Other versions are requested in the same
    # spelling as before, because the tag of an image may be more specific than the release that was found in it.
    again = (
        () if "mysqld" in settings or "image" in settings else (settings.get("version") or " ".join(session.versions),)
    )
    stored["versions"] = split_versions(again)
    shape = datadir_settings(dict(parse_settings(_split_stored_setting(settings, "set"))))
    stored["settings"] = tuple(f"{name}={value}" for name, value in shape.items())
    stored["notes"] = (settings["note"],) if "note" in settings else ()
    stored["variants"] = _split_stored_setting(settings, "variants")
    return {**given, **{name: value for name, value in stored.items() if value and not given[name]}}


def _split_stored_setting(settings: Mapping[str, str], name: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(settings.get(name, "")))
    except ValueError as error:
        raise UsageError(
            f"the newest session cannot be used: its setting '{name}' is damaged ({error})",
            "give VERSION=, or measure something else first",
        ) from None


def make_request(scenario: str, given: GivenOptions) -> Request:
    given = complete_from_newest_session(given) if scenario == "warm-recovery" else given
    measured = find_scenario(scenario)
    if measured.experiment is not None:
        inserts, stacks = str(measured.experiment.inserts), PERF if given.get("profile") else None
        given = {**_STARTUP_OPTION_DEFAULTS, **given, "inserts": inserts, "stacks": stacks}
    versions = _requested_versions(given)
    if math.isnan(given["stall_s"]):
        raise UsageError("--stall nan is not valid", "give seconds, like --stall 300")
    points = parse_points(given["tables"]) if scenario == SCALE.name else ()
    limits = parse_limits(given["read_iops"], given["read_bps"], given["memory"], given["cpus"])
    refused = refused_steps(unprivileged=given["unprivileged"], no_drop_caches=given["no_drop_caches"])
    with refuse_steps(refused):
        resolved = _resolve_works(measured, given, points=points, limits=limits, versions=versions)
    request = Request(
        scenario=scenario,
        works=resolved.works,
        work=resolved.work,
        own_settings=tuple(resolved.settings.items()),
        unasked=resolved.unasked,
        versions=_without_repeats(versions),
        schema=resolved.schema,
        points=points,
        predict=parse_count("--predict", given["predict"], MAX_TABLES) if given.get("predict") else None,
        variants=parse_variants(given["variants"]),
        runs=1 if given.get("only") else parse_count("RUNS", given["runs"] or _default_runs(measured), MAX_RUNS),
        data=_absolute_path(given["data"] or default_data_dir()),
        results=_absolute_path(given["results"]),
        settings=parse_settings(given["settings"]),
        insert_template=given["insert_template"] and _absolute_path(given["insert_template"]),
        mysqld=_absolute_path_or_url(given["mysqld"]),
        archive=given["archive"],
        engine=_checked_engine(given),
        image=given["image"],
        registry=given["registry"],
        inserts=_parse_count_or_zero("--inserts", given["inserts"] or str(DEFAULT_INSERTS), most=MAX_INSERTS),
        as_published=given["as_published"],
        trace=given["trace"],
        stacks=given["stacks"],
        waits=bool(given.get("waits")),
        baseline=_checked_baseline(given["baseline"], versions),
        fail_over=None if given["fail_over"] is None else parse_share("--fail-over", given["fail_over"]),
        floor=given["floor"],
        refused=refused,
        keep=given["keep"],
        offline=given["offline"],
        stall_s=given["stall_s"],
        limits=limits,
        note=parse_notes(given["notes"]),
        probe=not given["no_probe"],
    )
    _check_combinations(request)
    return replace(request, command=_command_to_repeat(request, given))


_STARTUP_OPTION_DEFAULTS: GivenOptions = {
    **dict.fromkeys(("insert_template", "baseline", "fail_over", "template")),
    **dict.fromkeys(("as_published", "trace", "floor"), False),
}
"""Values for options of timed starts that the command of an experiment may not have."""


def _requested_versions(given: GivenOptions) -> tuple[str, ...]:
    versions = split_versions(given["versions"])
    for name in ("mysqld", "image"):
        if given[name] and len(versions) > 1:
            raise UsageError(f"{name.upper()} is one server, but VERSION names several", "name one version or none")
    if not versions and not given["mysqld"] and not given["image"]:
        return (DEFAULT_VERSION,)
    return versions


@dataclass(frozen=True)
class _ResolvedWorks:
    """Holds the schema to build and the works to measure with it."""

    schema: Schema
    works: tuple[VariantSpec, ...]
    work: ExperimentRequest | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    unasked: tuple[str, ...] = ()


def _resolve_works(
    scenario: Scenario, given: GivenOptions, *, points: tuple[int, ...], limits: Limits, versions: tuple[str, ...]
) -> _ResolvedWorks:
    experiment = scenario.experiment
    if experiment is None:
        schema_options = {**given, "tables": str(points[-1])} if points else given
        return _ResolvedWorks(requested_schema(schema_options), startup_specs(scenario.caches))
    work = parse_experiment_options(given, experiment)
    host = replace(host_capacity(limits), instances=possible_cache_instances(work, versions, given["settings"]))
    schema = experiment_schema(given, experiment, work)
    works, settings = experiment.works(work, schema, host), experiment.settings(work, schema, host)
    return _ResolvedWorks(schema, works, work, settings, experiment.unasked(work, host))


def _default_runs(scenario: Scenario) -> int:
    return DEFAULT_RUNS if scenario.experiment is None else scenario.experiment.runs


def _check_combinations(request: Request) -> None:
    """Raises UsageError for options that are valid alone, but not in combination."""
    if request.floor and Cache.COLD not in find_scenario(request.scenario).caches:
        raise UsageError(f"--floor needs cold starts, and {request.scenario} has none", "leave --floor out")
    if request.fail_over is not None and request.runs < MIN_RUNS:
        raise UsageError(
            f"--fail-over cannot be judged from {request.runs} runs", f"measure with --runs {MIN_RUNS} or more"
        )
    if request.fail_over is not None and len(request.versions) < 2:
        raise UsageError(
            "--fail-over compares versions, and there is only one",
            "name two (VERSION), or compare two sessions: recovery compare A B --fail-over 10%",
        )
    check_option_clashes(request)
    check_layouts(request)
    _check_unique_names(request)
    _check_known_versions(request)
    every = (request.settings, *(variant.settings for variant in request.variants))
    if request.trace and any(("innodb_fast_shutdown", "2") in settings for settings in every):
        raise UsageError(
            "--trace reads the files after a shutdown, and with innodb_fast_shutdown=2 they lack changes",
            "leave one of them out",
        )


def _check_unique_names(request: Request) -> None:
    """Raises UsageError if two variants have the same name, because they would be reported as one."""
    for name, times in Counter(variant.name for variant in request.measured).items():
        if times > 1:
            raise UsageError(f"two variants have the name '{name}'", "give variants and queries different names")


def _check_known_versions(request: Request) -> None:
    """Raises UsageError if nothing can be measured with the versions, or if one ignores the given redo log options.

    Versions whose release is not known before the server is fetched are checked after that."""
    releases = {text: parse_request_or_list(text).release for text in request.versions}
    known = {text: release for text, release in releases.items() if release is not None}
    if known and len(known) == len(releases):
        check_any_trial_left(tuple(known.values()), request.measured, baseline=known.get(request.baseline or ""))
    check_redo_log_options(known.values(), request)


def _checked_engine(given: GivenOptions) -> str:
    for name in ("image", "registry"):
        if given[name] and given["engine"] == "local":
            raise UsageError(f"{name.upper()} needs containers, but ENGINE is local", "leave one of them out")
    for other in ("mysqld", "archive"):
        if given["image"] and given[other]:
            raise UsageError(f"IMAGE and {other.upper()} cannot be combined", "leave one of them out")
    if given["image"] and given["registry"]:
        raise UsageError(
            "REGISTRY does not apply to IMAGE", "write it into the image's name: localhost:5000/my/server:1"
        )
    return given["engine"] or AUTO


def _without_repeats(versions: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the versions without repetitions, where two spellings of one release count as the same server."""
    found: dict[object, str] = {}
    for text in versions:
        wanted = parse_request_or_list(text)
        found.setdefault(wanted.release or wanted, text)
    return tuple(found.values())


def requested_schema(given: GivenOptions) -> Schema:
    return Schema(
        tables=parse_count("TABLES", given["tables"] or DEFAULT_TABLES, MAX_TABLES),
        databases=parse_count("SCHEMAS", given["schemas"] or 1, MAX_SCHEMAS),
        columns=_parse_count_or_zero("--columns", given["columns"], most=MAX_COLUMNS),
        rows=_parse_count_or_zero("--rows", given["rows"], most=10_000_000),
        database=parse_identifier("--database", given["database"] or "discovery"),
        template=given["template"] and _absolute_path(given["template"]),
        layout=parse_layout(given["layout"] or Layout.FILES),
    )


def _checked_baseline(named: str | None, versions: tuple[str, ...]) -> str | None:
    """Returns the baseline in the spelling of VERSION, where two spellings of one release are the same server."""
    if named is None:
        return None
    for version in _without_repeats(versions):
        if (
            named == version
            or (parse_request_or_list(named).release or named) == parse_request_or_list(version).release
        ):
            return version
    names = " ".join(versions) or "nothing"
    raise UsageError(f"the baseline {named} is not measured", f"use one of VERSION: {names}")


def _parse_count_or_zero(name: str, text: str | None, *, most: int) -> int:
    return 0 if text in (None, "0") else parse_count(name, str(text), most)


def _absolute_path(path: Path) -> Path:
    """Returns the absolute path, because a stored path must have the same meaning in every working directory."""
    return expand_path(path).absolute()


def _absolute_path_or_url(place: str | None) -> str | None:
    return place if place is None or "://" in place else str(_absolute_path(Path(place)))


def _command_to_repeat(request: Request, given: GivenOptions) -> str:
    """Returns the command that repeats the session: with the given options, and with those that have a default which
    may differ elsewhere."""
    schema, limits = request.schema, request.limits
    shown = {
        **given,
        "versions": " ".join(request.versions) or None,
        "tables": " ".join(map(str, request.points)) or schema.tables,
        "schemas": schema.databases if given.get("schemas") or schema.databases > 1 else None,
        "rows": schema.rows or None,
        "runs": request.runs,
        "results": request.results if request.results != _absolute_path(DEFAULT_RESULTS) else None,
        "data": request.data if request.data != default_data_dir() else None,
        "engine": request.engine if request.engine != AUTO else None,
        "memory": limits.memory_bytes and format_bytes(limits.memory_bytes),
        "read_bps": limits.read_bps and format_bytes(limits.read_bps),
        "mysqld": request.mysqld,
        "template": schema.template if request.work is None else None,
        "insert_template": request.insert_template,
        "notes": request.note,
    }
    options = (one for one in options_of(EXPERIMENTS[request.scenario].options) if one.name not in _NOT_REPEATED)
    return repeat_command(request.scenario, shown, options)


_NOT_REPEATED = ("quiet", "dry_run", "json")
