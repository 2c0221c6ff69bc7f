"""Checks the options of a measuring command and turns them into a `Request`.

The options have been merged before: the command line takes precedence over the environment, and that over
recovery.toml. A warm measurement that names no server takes its options from the newest session."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from recovery.analysis.statistics import MIN_RUNS, MIN_RUNS_FOR_PRECISION
from recovery.builds.catalog import DEFAULT_VERSION
from recovery.builds.download import check_url
from recovery.builds.resolve import check_registry, parse_request, parse_version_option
from recovery.cli.load_options import (
    complete_load_options,
    experiment_schema,
    host_capacity,
    parse_experiment_options,
    possible_cache_instances,
)
from recovery.cli.options import AUTO, DEFAULT_RESULTS, options_of, repeat_command
from recovery.cli.scales import STANDARD, scale_sizes
from recovery.errors import RecoveryError, UsageError
from recovery.experiments import EXPERIMENTS, find_experiment
from recovery.experiments.experiment import Experiment, ExperimentOptions
from recovery.experiments.scale import SCALE
from recovery.linux.cgroups import format_bytes, parse_limits
from recovery.linux.files import default_data_dir, expand_path, read_limited, why_not_trusted
from recovery.linux.privileges import refuse_steps, refused_steps
from recovery.model import MAX_RUNS, Cache, Layout, Limits, Schema, VariantSpec, startup_specs
from recovery.mysqld.options import (
    base_name,
    datadir_settings,
    parse_defaults_file,
)
from recovery.mysqld.startup import DEFAULT_STALL_S
from recovery.report.stored_session import REPORT_FILE, find_session, load_session
from recovery.session.option_checks import check_option_clashes, check_redo_log_options
from recovery.session.plan import check_any_trial_left
from recovery.session.request import (
    DEFAULT_INSERTS,
    DEFAULT_MAX_RUNS,
    DEFAULT_RUNS,
    DEFAULT_TABLES,
    MAX_COLUMNS,
    MAX_INSERTS,
    MAX_PREDICTED_FACTOR,
    MAX_SCHEMAS,
    MAX_TABLES,
    OwnServer,
    Request,
    check_layouts,
    parse_count,
    parse_identifier,
    parse_layout,
    parse_notes,
    parse_own_servers,
    parse_points,
    parse_settings,
    parse_share,
    parse_variants,
    split_own_servers,
    split_versions,
)

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
            *("archive", "engine", "image", "registry"),
            *("read_iops", "read_bps", "cpus"),
        )
    }
    stored["mysqld"] = split_own_servers(settings.get("mysqld", ""))
    stored["memory"] = settings.get("memory_bytes")
    stored |= {name: Path(settings[name]) for name in ("data", "template", "insert_template") if name in settings}
    # The version of the user's own server (MYSQLD, IMAGE) is determined again. Other versions are requested in the same
    # spelling as before, because the tag of an image may be more specific than the release that was found in it.
    stored_versions = (
        () if "mysqld" in settings or "image" in settings else (settings.get("version") or " ".join(session.versions),)
    )
    stored["versions"] = split_versions(stored_versions)
    shaping = datadir_settings(dict(parse_settings(_split_stored_setting(settings, "set"))))
    stored["settings"] = tuple(f"{name}={value}" for name, value in shaping.items())
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
    experiment = find_experiment(scenario)
    given = _with_scale(experiment, given)
    if scenario == "warm-recovery":
        given = complete_from_newest_session(given)
    elif experiment.load is not None:
        given = complete_load_options(given, experiment.load)
    given, left_out = _with_defaults_file(given)
    versions = _requested_versions(given)
    own_servers = parse_own_servers(given["mysqld"])
    points = parse_points(given["tables"]) if scenario == SCALE.name else ()
    limits = parse_limits(given["read_iops"], given["read_bps"], given["memory"], given["cpus"])
    refused = refused_steps(unprivileged=given["unprivileged"], no_drop_caches=given["no_drop_caches"])
    with refuse_steps(refused):
        resolved = _resolve_experiment(experiment, given, points=points, limits=limits, versions=versions)
    request = Request(
        scenario=scenario,
        variant_specs=resolved.variant_specs,
        experiment_options=resolved.options,
        settings_of_experiment=tuple(resolved.settings.items()),
        unavailable=(*resolved.unavailable, *left_out),
        versions=_without_repeats(versions),
        schema=resolved.schema,
        points=points,
        predict=parse_count("--predict", given["predict"], MAX_TABLES) if given.get("predict") else None,
        named_settings=parse_variants(given["variants"]),
        runs=1 if given.get("only") else parse_count("RUNS", given["runs"] or _default_runs(experiment), MAX_RUNS),
        precision=_parse_precision(given),
        max_runs=parse_count("MAX_RUNS", given.get("max_runs") or DEFAULT_MAX_RUNS, MAX_RUNS),
        data=_absolute_path(given["data"] or default_data_dir()),
        results=_absolute_path(given["results"]),
        settings=parse_settings(given["settings"]),
        insert_template=given["insert_template"] and _absolute_path(given["insert_template"]),
        mysqld=own_servers,
        archive=given["archive"],
        engine=_checked_engine(given),
        image=given["image"],
        registry=given["registry"],
        inserts=_parse_count_or_zero("INSERTS", given["inserts"] or str(DEFAULT_INSERTS), most=MAX_INSERTS),
        as_published=given["as_published"],
        trace=given["trace"],
        stacks=given["stacks"],
        waits=bool(given.get("waits")),
        baseline=_checked_baseline(given["baseline"], versions, own_servers),
        fail_over=None if given["fail_over"] is None else parse_share("FAIL_OVER", given["fail_over"]),
        floor=given["floor"],
        refused=refused,
        keep=given["keep"],
        offline=given["offline"],
        stall_s=given["stall_s"] or DEFAULT_STALL_S,
        limits=limits,
        note=parse_notes(given["notes"]),
        probe=not given["no_probe"],
    )
    _check_combinations(request)
    return replace(request, command=_command_to_repeat(request, given))


def _with_scale(experiment: Experiment, given: GivenOptions) -> GivenOptions:
    """Returns the options with the sizes of SCALE where the user gave none; without SCALE a load has the standard ones.

    A timed start has no other sizes than TABLES and RUNS, which its command always names."""
    scale = given.get("scale") or (None if experiment.load is None else STANDARD)
    if scale is None:
        return given
    sizes = scale_sizes(experiment.name, scale, cpus=host_capacity(parse_limits(None, None, None, given["cpus"])).cpus)
    if given.get("precision"):
        sizes.pop("runs", None)
    missing = {name: value for name, value in sizes.items() if given.get(name) is None}
    return {**given, **missing, "scale": scale if experiment.load else None}


_MAX_DEFAULTS_FILE_BYTES = 1_000_000


def _with_defaults_file(given: GivenOptions) -> tuple[GivenOptions, tuple[str, ...]]:
    """Returns the options with those of a my.cnf as `--set` options, and a note about what was left out of it."""
    path = given.get("defaults_file")
    if path is None:
        return given, ()
    try:
        text = read_limited(expand_path(path), _MAX_DEFAULTS_FILE_BYTES).decode("utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"DEFAULTS_FILE={path} cannot be read: {error.strerror}", "check the path") from error
    settings, left_out = parse_defaults_file(text)
    by_hand = {base_name(pair.partition("=")[0]) for pair in given["settings"]}
    pairs = tuple(
        f"{name}={value}" if value else name for name, value in settings.items() if base_name(name) not in by_hand
    )
    note = (f"Not used of {path.name}: {', '.join(left_out)}.",) if left_out else ()
    return {**given, "settings": (*pairs, *given["settings"])}, note


def _requested_versions(given: GivenOptions) -> tuple[str, ...]:
    versions = split_versions(given["versions"])
    for name in ("mysqld", "image"):
        if given[name] and len(versions) > 1:
            raise UsageError(f"--{name} has one version, but --version names several", "name one version or none")
    if not versions and not given["mysqld"] and not given["image"]:
        return (DEFAULT_VERSION,)
    return versions


@dataclass(frozen=True)
class _ResolvedExperiment:
    """Holds the schema to build, and what is measured with it."""

    schema: Schema
    variant_specs: tuple[VariantSpec, ...]
    options: ExperimentOptions | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    unavailable: tuple[str, ...] = ()


def _resolve_experiment(
    experiment: Experiment, given: GivenOptions, *, points: tuple[int, ...], limits: Limits, versions: tuple[str, ...]
) -> _ResolvedExperiment:
    load = experiment.load
    if load is None:
        schema_options = {**given, "tables": str(points[-1])} if points else given
        return _ResolvedExperiment(requested_schema(schema_options), startup_specs(experiment.caches))
    options = parse_experiment_options(given, load)
    host = replace(host_capacity(limits), instances=possible_cache_instances(options, versions, given["settings"]))
    schema = experiment_schema(given, load, options)
    specs, settings = load.variant_specs(options, schema, host), load.settings(options, schema, host)
    return _ResolvedExperiment(schema, specs, options, settings, load.unavailable(options, host))


def _parse_precision(given: GivenOptions) -> float | None:
    """Returns the precision as a share. Raises UsageError for options that it excludes or needs."""
    if not given.get("precision"):
        if given.get("max_runs"):
            raise UsageError("--max-runs has no effect without --precision", "give PRECISION=5%, or --runs alone")
        return None
    if given["runs"]:
        raise UsageError(
            "--runs is a fixed number, and --precision adds runs as they are needed",
            "give one of them; --max-runs limits --precision",
        )
    share = parse_share("PRECISION", given["precision"])
    if not 0 < share < 1 or (share < 0.01 and "%" not in given["precision"]):  # PRECISION=0.05 may mean 5 %
        raise UsageError(f"PRECISION={given['precision']} is not valid", "give a percentage, like 5%")
    return share


def _default_runs(experiment: Experiment) -> int:
    return DEFAULT_RUNS if experiment.load is None else experiment.load.runs


def _check_combinations(request: Request) -> None:
    """Raises UsageError for options that are valid alone, but not in combination."""
    if request.floor and Cache.COLD not in find_experiment(request.scenario).caches:
        raise UsageError(f"--floor needs cold starts, and {request.scenario} has none", "leave --floor out")
    if request.precision is not None and request.max_runs < MIN_RUNS_FOR_PRECISION:
        raise UsageError(
            f"MAX_RUNS={request.max_runs} is too few for --precision", f"give {MIN_RUNS_FOR_PRECISION} or more"
        )
    if request.fail_over is not None and request.runs < MIN_RUNS:
        raise UsageError(
            f"--fail-over cannot be judged from {request.runs} runs", f"measure with RUNS={MIN_RUNS} or more"
        )
    if request.fail_over is not None and len(request.server_names) < 2:
        raise UsageError(
            "--fail-over compares versions, and there is only one",
            "name two with VERSION=, or compare two sessions: `recovery compare A B --fail-over 10%`",
        )
    most = MAX_PREDICTED_FACTOR * max(request.points, default=0)
    if request.predict is not None and request.predict > most:
        raise UsageError(
            f"--predict {request.predict:,} is too far beyond the largest measured number of tables",
            f"measure {math.ceil(request.predict / MAX_PREDICTED_FACTOR):,} tables, too (TABLES=), or predict {most:,} "
            "at most",
        )
    check_option_clashes(request)
    check_layouts(request)
    _check_unique_names(request)
    _check_known_versions(request)
    every = (request.settings, *(variant.settings for variant in request.named_settings))
    if request.trace and any(("innodb_fast_shutdown", "2") in settings for settings in every):
        raise UsageError(
            "--trace reads the files after a shutdown, and with innodb_fast_shutdown=2 they lack changes",
            "leave one of them out",
        )


def _check_unique_names(request: Request) -> None:
    """Raises UsageError if two variants have the same name, because they would be reported as one."""
    for name, times in Counter(variant.name for variant in request.all_variants).items():
        if times > 1:
            raise UsageError(f"two variants have the name '{name}'", "give variants and queries different names")


def _check_known_versions(request: Request) -> None:
    """Raises UsageError if nothing can be measured with the versions, or if one ignores the given redo log options.

    Versions whose release is not known before the server is fetched are checked after that."""
    releases = {text: parse_version_option(text).release for text in request.versions}
    known = {text: release for text, release in releases.items() if release is not None}
    if known and len(known) == len(releases):
        check_any_trial_left(tuple(known.values()), request.all_variants, baseline=known.get(request.baseline or ""))
    check_redo_log_options(known.values(), request)


def _checked_engine(given: GivenOptions) -> str:
    for name in ("image", "registry"):
        if given[name] and given["engine"] == "local":
            raise UsageError(f"--{name} needs containers, and not ENGINE=local", "leave one of them out")
    for other in ("mysqld", "archive"):
        if given["image"] and given[other]:
            raise UsageError(f"--image and --{other} cannot be combined", "leave one of them out")
    if given["archive"]:
        check_url(given["archive"], "ARCHIVE")
    if given["registry"]:
        check_registry(given["registry"])
    if given["image"] and given["registry"]:
        raise UsageError(
            "--registry does not apply to --image", "write it into the image's name: localhost:5000/my/server:1"
        )
    return given["engine"] or AUTO


def _without_repeats(versions: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the versions without repetitions, where two spellings of one release count as the same server."""
    found: dict[object, str] = {}
    for text in versions:
        wanted = parse_version_option(text)
        found.setdefault(wanted.release or wanted, text)
    return tuple(found.values())


def requested_schema(given: GivenOptions) -> Schema:
    return Schema(
        tables=parse_count("TABLES", given["tables"] or DEFAULT_TABLES, MAX_TABLES),
        databases=parse_count("SCHEMAS", given["schemas"] or 1, MAX_SCHEMAS),
        columns=_parse_count_or_zero("COLUMNS", given["columns"], most=MAX_COLUMNS),
        rows=_parse_count_or_zero("ROWS", given["rows"], most=10_000_000),
        database=parse_identifier("DATABASE", given["database"] or "discovery"),
        template=given["template"] and _absolute_path(given["template"]),
        layout=parse_layout(given["layout"] or Layout.FILES),
    )


def _checked_baseline(named: str | None, versions: tuple[str, ...], own_servers: tuple[OwnServer, ...]) -> str | None:
    """Returns the baseline in the spelling of VERSION, where two spellings of one release are the same server, or the
    name of the user's own server."""
    names = tuple(own.name for own in own_servers if own.name)
    if named is None or named in names:
        return named
    if names:
        raise UsageError(f"BASELINE={named} is not measured", f"use one of: {' '.join(names)}")
    try:
        release = parse_request(named).release
    except UsageError:
        release = None
    for version in _without_repeats(versions):
        if named == version or (release or named) == parse_version_option(version).release:
            return version
    measured = " ".join(versions) or "nothing"
    raise UsageError(f"BASELINE={named} is not measured", f"use one of --version: {measured}")


def _parse_count_or_zero(name: str, text: str | None, *, most: int) -> int:
    return 0 if text in (None, "0") else parse_count(name, str(text), most)


def _absolute_path(path: Path) -> Path:
    """Returns the absolute path, because a stored path must have the same meaning in every working directory."""
    return expand_path(path).absolute()


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
        "runs": request.runs if request.precision is None else None,
        "max_runs": None if request.precision is None else request.max_runs,
        "results": request.results if request.results != _absolute_path(DEFAULT_RESULTS) else None,
        "data": request.data if request.data != default_data_dir() else None,
        "engine": request.engine if request.engine != AUTO else None,
        "memory": limits.memory_bytes and format_bytes(limits.memory_bytes),
        "read_bps": limits.read_bps and format_bytes(limits.read_bps),
        "mysqld": tuple(map(str, request.mysqld)),
        "template": schema.template if request.experiment_options is None else None,
        "insert_template": request.insert_template,
        "notes": request.note,
        "defaults_file": None,
    }
    return repeat_command(request.scenario, shown, options_of(EXPERIMENTS[request.scenario].options))
