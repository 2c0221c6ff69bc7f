"""Turns the options of a measuring command into a `Request`, and a request into the command that repeats it.

The options have been merged before: the command line takes precedence over the environment, and that over
recovery.toml. A warm measurement that names no server takes it, and the number of tables, from the newest session."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from recovery.analysis.history import Role, role_of
from recovery.builds.catalog import DEFAULT_VERSION
from recovery.builds.resolve import parse_request, parse_version_option
from recovery.cli.options import OPTIONS, REQUEST, options_of, repeat_command
from recovery.cli.values import (
    absolute_path,
    parse_notes,
    parse_own_servers,
    parse_points,
    read_queries,
    split_versions,
)
from recovery.errors import RecoveryError, UsageError
from recovery.experiments import EXPERIMENTS, find_experiment
from recovery.experiments.experiment import Experiment, ExperimentOptions, HostCapacity, default_clients
from recovery.linux import procfs
from recovery.linux.cgroups import usable_cpus
from recovery.linux.files import default_data_dir, template_dir, why_not_trusted
from recovery.linux.privileges import refuse_steps, refused_steps
from recovery.model import NO_LIMITS, Limits, OwnData, Schema, Session, Version
from recovery.mysqld.defaults_file import DefaultsFile, ServerKind, read_defaults_file, used_options
from recovery.mysqld.options import PLACE_OPTIONS, base_name
from recovery.mysqld.own_data import OWN_SCHEMA, OWN_TABLES, examine
from recovery.report.fmt import count_text, size
from recovery.session.option_checks import check_request
from recovery.session.prepare import own_server_version
from recovery.session.request import Method, Output, Request, Servers, SessionSizes
from recovery.storage.sessions import REPORT_FILE, find_session, load_session

GivenOptions = Mapping[str, Any]
"""Values of the options, by the names of click's parameters. None or empty: the option was not given."""
_DEFAULT_MAX_RUNS = 30
_OF_LOADS = {"seconds": "seconds", "warmup": "warmup_s"}
"""Options of loads whose default is that of a field, and the field."""


def make_request(scenario: str, given: GivenOptions) -> Request:
    experiment = find_experiment(scenario)
    complete = _complete_options(experiment, given)
    return _request_of(experiment, complete)


@dataclass(frozen=True)
class _CompleteOptions:
    """The options of a session, as text, with those that the user leaves to other places."""

    given: GivenOptions
    own_data: OwnData | None
    """What the data directory of DATADIR= holds."""
    notes: tuple[str, ...]
    """What the report has to say about the places."""


def _complete_options(experiment: Experiment, given: GivenOptions) -> _CompleteOptions:
    """Returns the options with the sizes of the scale, the server options of a my.cnf, and defaults that may differ
    elsewhere. What is given takes precedence."""
    scaled = _with_scale(experiment, given)
    file = None if given.get("defaults_file") is None else read_defaults_file(given["defaults_file"])
    own_data = _own_data(experiment.name, scaled, file)
    with_servers = _with_servers(scaled, own_data)
    with_file, file_notes = (with_servers, ()) if file is None else _with_file_options(with_servers, file, own_data)
    _check_runs_and_precision(with_file)
    report_notes = (*file_notes, *(() if own_data is None else own_data_notes(own_data)))
    note = parse_notes(with_file["notes"])
    with_note = {**with_file, "notes": () if note is None else (note,)}
    return _CompleteOptions(_with_defaults(experiment, with_note, own_data), own_data, report_notes)


def _request_of(experiment: Experiment, complete: _CompleteOptions) -> Request:
    given, own_data = complete.given, complete.own_data
    points = parse_points(given["tables"]) if experiment.points else ()
    texts = {
        **given,
        "versions": split_versions(given["versions"]),
        "queries": tuple(read_queries(given["queries"], experiment.names)) if given.get("queries") else (),
        **({"tables": points[-1]} if points else {}),
    }
    limits = Limits(**field_values(REQUEST.servers.limits, texts))
    servers = Servers(**field_values(REQUEST.servers, texts), limits=limits)
    servers = replace(servers, baseline=_checked_baseline(servers))
    options = experiment.options(**_experiment_values(experiment, texts))
    if own_data is not None:
        schema = Schema(OWN_TABLES, database=OWN_SCHEMA, own=own_data)
    else:
        schema = requested_schema(experiment, field_values(REQUEST.sizes.schema, texts), options)
    inserts = 0 if own_data is not None and own_data.as_is else experiment.inserts
    refused = refused_steps(unprivileged=bool(given["unprivileged"]), no_drop_caches=bool(given["no_drop_caches"]))
    with refuse_steps(refused):
        capacity = host_capacity(limits)
        host = replace(capacity, open_files=servers.open_files or capacity.open_files)
        specs, settings = experiment.variant_specs(options, schema, host), experiment.settings(options, schema, host)
        unavailable = experiment.unavailable(options, host)
    method = Method(**field_values(REQUEST.method, texts), refused=refused)
    if given["stall_s"] is None and experiment.stall_s is not None:
        method = replace(method, stall_s=experiment.stall_s)
    unprobed = (experiment.unprobed,) if experiment.unprobed and not (method.probe or limits.read_iops) else ()
    request = Request(
        experiment.name,
        specs,
        servers,
        SessionSizes(**{"schema": schema, "points": points, "inserts": inserts, **field_values(REQUEST.sizes, texts)}),
        method,
        Output(**{"data": default_data_dir(), **field_values(REQUEST.output, texts)}),
        experiment_options=options,
        settings_of_experiment=tuple(settings.items()),
        unavailable=(*unavailable, *unprobed, *complete.notes),
    )
    check_request(request)
    command = repeat_command(experiment.name, given, options_of(EXPERIMENTS[experiment.name].options))
    return replace(request, command=command, stored_settings=tuple(_stored_settings(request)))


# --- The option table: from the options to fields of the request, and to what is stored


def field_values(owner: object, given: GivenOptions) -> dict[str, Any]:
    """Returns the values of the given options for the fields of one owner, such as `REQUEST.sizes` or the name of a
    class of options, by the field's name."""
    found: dict[str, Any] = {}
    for option in OPTIONS:
        if option.owner == str(owner) and (value := option.value_of(given.get(option.key))) is not None:
            found[option.field_name] = value
    return found


def _experiment_values(experiment: Experiment, given: GivenOptions) -> dict[str, Any]:
    """Returns the values of the given options for the fields of the experiment's own class."""
    owners = [owner.__name__ for owner in experiment.options.__mro__]
    return {name: value for owner in owners for name, value in field_values(owner, given).items()}


def _stored_settings(request: Request) -> Iterator[tuple[str, str | int | float | bool | None]]:
    """Yields the options as they are stored. What only some experiments have is stored with these."""
    of_experiment = options_of(EXPERIMENTS[request.scenario].options)
    for option in OPTIONS:
        if option.stored and option.options_class is None:
            yield option.stored, option.to_stored(attrgetter(str(option.field))(request))
        elif option.stored and option in of_experiment:
            yield option.stored, option.to_stored(getattr(request.experiment_options, option.field_name))
    if request.sizes.schema.own is not None:
        yield "tables", request.sizes.schema.all_tables
        yield from dict.fromkeys(("schemas", "layout", "database")).items()


# --- Options from other places: the newest session, the scale, a my.cnf


def taken_from_newest_session(given: GivenOptions) -> tuple[dict[str, Any], str]:
    """Returns the servers and the number of tables of the newest session, as options for a warm measurement that names
    no server, and a line that says so, with the options of that session that are not taken. Both are empty if a server
    is named, or if there is no session of starts.

    Raises UsageError if the session cannot be read, if another user can change its report, or if its servers or tables
    are the user's own: others would be measured in their place."""
    folder = None if any(map(given.get, ("versions", "mysqld", "image"))) else _newest_session(given["results"])
    if folder is None:
        return {}, ""
    # The report names the server to run, so it must be trusted.
    if reason := why_not_trusted(folder / REPORT_FILE):
        raise UsageError(f"the newest session, {folder}, cannot be used: {reason}", "give --version")
    try:
        session = load_session(folder)
    except RecoveryError as error:
        text, hint = f"the newest session cannot be used: {error.message}", f"give --version, or {error.hint}"
        raise UsageError(text, hint) from None
    if not session.has_caches:  # it has other tables
        return {}, ""
    for name in ("mysqld", "image", "datadir"):
        if session.settings.get(name) and not given.get(name):
            text = f"the newest session, {folder.name}, has one of your own, which is not taken from it"
            raise UsageError(text, f"give --{name} again, or --version", option=name)
    # In the same spelling as before: the tag of an image may be more specific than the release that was found in it.
    version, tables = session.settings.get("version") or " ".join(session.versions), session.settings.get("tables")
    taken: dict[str, Any] = {"versions": (str(version),)}
    line = f"--version {shlex.quote(str(version))}"
    if tables and not (given.get("tables") or given.get("datadir")):
        taken["tables"], line = str(tables), f"{line} and --tables {tables}"
    left = ", ".join(_flags_that_matter(session))
    return taken, f"{line} from the newest session, {folder.name}{f'; not its {left}' if left else ''}"


def _newest_session(results: Path) -> Path | None:
    try:
        return find_session(absolute_path(results), None).resolve()
    except (RecoveryError, OSError):
        return None


def _flags_that_matter(session: Session) -> Iterator[str]:
    """Yields the flags of the session's command without which a session measures something else."""
    words = {word.partition("=")[0] for word in session.command.split()}
    for option in OPTIONS:
        shapes = option.name == "data" or (option.stored and role_of(option.stored) in (Role.DESIGN, Role.SERVER))
        if option.flag in words and shapes and option.name != "tables":
            yield option.flag


def _with_scale(experiment: Experiment, given: GivenOptions) -> GivenOptions:
    """Returns the options with the sizes of SCALE where the user gave none."""
    scale = given.get("scale") or experiment.scale
    if scale is None:
        return given
    sizes = scale_sizes(
        experiment, scale, cpus=host_capacity(Limits(**field_values(REQUEST.servers.limits, given))).cpus
    )
    if given.get("precision"):
        sizes.pop("runs", None)
    missing = {name: value for name, value in sizes.items() if given.get(name) is None}
    return {**given, **missing, "scale": scale}


def _with_defaults(experiment: Experiment, given: GivenOptions, own_data: OwnData | None) -> GivenOptions:
    """Returns the options with the sizes that this experiment has in this version of the tool: a command that repeats
    the session needs them, because they may differ elsewhere."""
    schema, usual = experiment.schema, Schema(experiment.schema.tables)
    defaults: dict[str, str] = {}
    if own_data is None:
        defaults["tables"] = " ".join(map(str, experiment.points)) or str(schema.tables)
        names = {"schemas": "databases", "columns": "columns", "rows": "rows", "database": "database"}
        for option, field in names.items():
            if getattr(schema, field) != getattr(usual, field):
                defaults[option] = str(getattr(schema, field))
        if schema.statistics:
            defaults["statistics"] = "on"
    if given.get("precision"):
        defaults["max_runs"] = str(_DEFAULT_MAX_RUNS)
    else:
        defaults["runs"] = str(experiment.runs)
    fixed = {"runs": "1"} if given.get("only") else {}
    return {**given, **{name: text for name, text in defaults.items() if not given.get(name)}, **fixed}


def usual_values(experiment: Experiment) -> dict[str, Any]:
    """Returns what this experiment uses where an option is not given, by the option's name."""
    schema, scale = experiment.schema, experiment.scale
    usual = {
        "tables": " ".join(map(str, experiment.points)) or schema.tables, "schemas": schema.databases,
        "rows": schema.rows, "runs": experiment.runs,
        **{name: getattr(experiment.options, field, None) for name, field in _OF_LOADS.items()},
        **experiment.defaults,
    }  # fmt: skip
    if scale is not None:
        usual |= {"scale": scale, **scale_sizes(experiment, scale, cpus=host_capacity(NO_LIMITS).cpus)}
    return usual


def scale_sizes(experiment: Experiment, scale: str, *, cpus: int) -> dict[str, str]:
    """Returns the values that a scale gives to the options of an experiment."""
    clients = default_clients(cpus)
    return {name: str(value).format(clients=clients) for name, value in experiment.sizes.get(scale, {}).items()}


_MAX_SKIPPED = 5
"""Most files of a my.cnf's includes that are named as not read."""


def _with_file_options(
    given: GivenOptions, file: DefaultsFile, copied: OwnData | None
) -> tuple[GivenOptions, tuple[str, ...]]:
    """Returns the options with those of a my.cnf as `--set` options, and notes about what is used of it and what is
    not. Raises UsageError if nothing is used."""
    used = used_options(file, partial(_server_kinds, given, copied))
    places = dict(copied.given) if copied is not None else {}
    left_out = tuple(name for name in used.left_out if base_name(name) not in places)
    by_hand = {base_name(pair.partition("=")[0]) for pair in given["settings"]}
    settings = {name: value for name, value in used.settings.items() if base_name(name) not in by_hand}
    # `innodb_data_file_path` and others are used if a copy of the user's own directory is measured.
    count = len({*map(base_name, settings), *places})
    included = f" with {count_text(file.included, 'included file')}" if file.included else ""
    name = f"{file.path.name}{included}"
    if not count:
        why = "it has no group of a server, like [mysqld]"
        if not_used := (*used.settings, *left_out, *file.skipped):
            why = f"it has only {', '.join(not_used[:3])}"
        raise UsageError(
            f"no option of {file.path}{included} is used: {why}",
            "name the file that has the server's options, or leave it out",
            option="defaults_file",
        )
    notes = [f"Used of {name}: {count_text(count, 'option')}."]
    if left_out:
        notes.append(f"Not used of {file.path.name}: {', '.join(left_out)}.")
    if file.skipped:
        more = f" and {len(file.skipped) - _MAX_SKIPPED:,} more" if len(file.skipped) > _MAX_SKIPPED else ""
        notes.append(f"Not read of {file.path.name}: {', '.join(file.skipped[:_MAX_SKIPPED])}{more}.")
    # Only a command with the file itself has its places of files.
    kept = {"defaults_file": absolute_path(file.path) if copied is not None else None}
    pairs = tuple(f"{option}={value}" if value else option for option, value in settings.items())
    return {**given, "settings": (*pairs, *given["settings"]), **kept}, tuple(notes)


def _server_kinds(given: GivenOptions, copied: OwnData | None = None) -> list[ServerKind]:
    """Returns what is known of the session's servers before one of them is fetched."""
    if copied is not None and copied.version is not None:
        return [_kind_of(str(copied.version), copied.version)]
    wanted = list(map(parse_version_option, split_versions(given["versions"])))
    if given["mysqld"] and not wanted:
        own = parse_own_servers(given["mysqld"])
        return [_kind_of(str(server), own_server_version(server.place)) for server in own]
    if given["image"] and not wanted:
        return [ServerKind(given["image"])]
    return [
        ServerKind(server.text, server.flavor) if server.alias else _kind_of(server.text, server.like)
        for server in wanted or [parse_version_option(DEFAULT_VERSION)]
    ]


def _kind_of(name: str, version: Version | None) -> ServerKind:
    return ServerKind(name) if version is None else ServerKind(name, version.flavor, version.numbers[:2])


# --- A data directory of the user's own

_OF_OWN_TABLES = (
    "scale", "tables", "schemas", "layout", "columns", "rows", "database", "statistics", "template", "insert_template",
)  # fmt: skip
"""Options about the tool's own tables."""
_OF_OWN_CRASH = ("inserts", "as_published", "before_kill")
"""Options about the crash that the tool makes."""


def _own_data(scenario: str, given: GivenOptions, file: DefaultsFile | None) -> OwnData | None:
    """Returns what the data directory of DATADIR= holds, or None without it."""
    path, as_is = given.get("datadir"), bool(given.get("as_is"))
    if given.get("predicted") is not None and not (path and as_is):
        raise UsageError(
            "it is about the recovery that is ahead of your data", "give --datadir and --as-is", option="predicted"
        )
    if path is None:
        for name in filter(given.get, ("as_is", "before_kill")):
            raise UsageError("it is about a data directory of your own", "name it with --datadir", option=name)
        return None
    for with_option, names in (("--datadir", _OF_OWN_TABLES), ("--as-is", _OF_OWN_CRASH if as_is else ())):
        for name in filter(given.get, names):
            raise UsageError(f"it does not apply to {with_option}", "leave one of them out", option=name)
    for name in filter(given.get, ("as_is", "before_kill") if scenario == "clean-start" else ()):
        raise UsageError("it is about a crash, and clean-start has none", "leave it out", option=name)
    places = {} if file is None else used_options(file, partial(_server_kinds, given), only=PLACE_OPTIONS).places
    return examine(absolute_path(path).resolve(), places, as_is=as_is)


def own_data_notes(own: OwnData) -> Iterator[str]:
    wrote = f"was written by {own.version}" if own.version else "does not say which version wrote it"
    shared = f" and {count_text(own.general_tablespaces, 'general tablespace')}" if own.general_tablespaces else ""
    yield (
        f"The data directory {wrote}: {count_text(own.tables, 'table')} in {count_text(own.schemas, 'schema')}, "
        f"with {count_text(own.table_files, '.ibd file')}{shared}, {size(own.bytes)}. "
        "Servers run over a copy, without its users, plugins, functions, events and replication."
    )
    if own.was_shut_down is False and not own.as_is:
        yield "It was not shut down cleanly: its copy is recovered first, untimed. AS_IS=1 times that recovery."
    if own.not_counted:
        yield (
            f"Tablespaces whose tables are not counted: {own.not_counted:,}. They are compressed or damaged, or their "
            "list of tables was not written yet when the server ended."
        )
    has_shared = own.in_shared_files is not None and (own.in_shared_files > 0 or own.general_tablespaces > 0)
    if own.was_shut_down is not True and has_shared:
        yield (
            "Of the tables in general tablespaces, and in the system tablespace, those are counted that are in the "
            "file. Newer ones may still be in the redo log only."
        )
    if own.without_file:
        yield (
            f"InnoDB tables with a definition and no file: {own.without_file:,}. Either they are in a shared "
            "tablespace, or this is half a copy."
        )
    if own.left_out:
        yield f"Not in the copy: {', '.join(own.left_out)}."


# --- Servers and sizes


def _with_servers(given: GivenOptions, own_data: OwnData | None) -> GivenOptions:
    """Returns the options with the version that wrote the user's own data directory, or else with the default version,
    unless the user names a server."""
    versions = split_versions(given["versions"])
    for name in ("mysqld", "image"):
        if given[name] and len(versions) > 1:
            raise UsageError("a server has one version, and --version names several", "name one or none", option=name)
    if versions:
        return {**given, "versions": (" ".join(_without_repeats(versions)),)}
    if given["mysqld"] or given["image"]:
        return given
    if own_data is None:
        return {**given, "versions": (DEFAULT_VERSION,)}
    if own_data.version is None:
        raise UsageError(f"the files of {own_data.path} do not say their version", "give --version or --mysqld")
    return {**given, "versions": (own_data.version.release,)}


def _without_repeats(versions: Iterable[str]) -> tuple[str, ...]:
    """Returns the versions without repetitions, where two spellings of one release count as the same server."""
    found: dict[object, str] = {}
    for text in versions:
        server = parse_version_option(text)
        found.setdefault(server.release or server, text)
    return tuple(found.values())


def _checked_baseline(servers: Servers) -> str | None:
    """Returns the baseline in the spelling of VERSION, where two spellings of one release are the same server, or the
    name of the user's own server."""
    named, names = servers.baseline, tuple(own.name for own in servers.mysqld if own.name)
    if named is None or named in names:
        return named
    if names:
        raise UsageError(f"{named} is not measured", f"use one of: {' '.join(names)}", option="baseline")
    try:
        release = parse_request(named).release
    except UsageError:
        release = None
    for version in servers.versions:
        if named == version or (release or named) == parse_version_option(version).release:
            return version
    measured = " ".join(servers.versions) or "nothing"
    raise UsageError(f"{named} is not measured", f"use one of: {measured}", option="baseline")


def _check_runs_and_precision(given: GivenOptions) -> None:
    if not given.get("precision"):
        if given.get("max_runs"):
            raise UsageError(
                "it has no effect without --precision", "give --precision 5%, or --runs alone", option="max_runs"
            )
    elif given["runs"]:
        raise UsageError(
            "it is a fixed number, and --precision adds runs as they are needed",
            "give one of them; --max-runs limits --precision",
            option="runs",
        )


def requested_schema(experiment: Experiment, given: Mapping[str, Any], options: ExperimentOptions) -> Schema:
    """Returns the experiment's schema with the fields that the user gave."""
    load_tables: tuple[int, ...] = getattr(options, "load_tables", ())
    fields_given = dict(given)
    if experiment.template:
        fields_given["template"] = template_dir() / experiment.template
    schema = replace(experiment.schema, **fields_given)
    if experiment.schema.rows and not schema.rows:
        raise UsageError("0 is not valid", f"{experiment.name} uses the rows: give 1 or more", option="rows")
    if load_tables and max(load_tables) > schema.tables:
        raise UsageError(
            f"{max(load_tables)} is more than --tables {schema.tables}",
            "give --tables at least this number",
            option="load_tables",
        )
    if 2 * schema.foreign_keys > schema.tables:
        raise UsageError(
            f"{schema.tables} is too few for {schema.foreign_keys} foreign keys",
            f"each needs two tables: give at least {2 * schema.foreign_keys}",
            option="tables",
        )
    return schema


def schema_of_options(given: GivenOptions) -> Schema:
    """Returns the schema of these options of timed starts."""
    experiment = find_experiment("cold-recovery")
    return requested_schema(experiment, field_values(REQUEST.sizes.schema, given), ExperimentOptions())


# --- The host


def host_capacity(limits: Limits) -> HostCapacity:
    """Returns the capacity of the host, reduced to the CPUs and the memory that the limits allow the server."""
    return HostCapacity(
        cpus=max(1, int(usable_cpus(limits, len(procfs.own_cpus())))),
        memory_bytes=min(procfs.memory_bytes(), limits.memory_bytes or procfs.memory_bytes()),
        no_disk=_why_no_disk,
        no_power_cut=_why_no_power_cut,
    )


def _why_no_disk() -> str | None:
    from recovery.linux.loop_device import why_no_loop_disk

    return why_no_loop_disk()


def _why_no_power_cut() -> str | None:
    from recovery.linux.loop_device import why_no_power_cut

    return why_no_power_cut()
