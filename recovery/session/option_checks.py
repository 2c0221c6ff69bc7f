"""Checks a request: whether its options can be combined, and the server options that the user gave.

The servers must know these, they must not clash with those of the experiment, and they must have an effect."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from recovery.analysis.statistics import MIN_RUNS, MIN_RUNS_FOR_PRECISION
from recovery.builds.download import check_url
from recovery.builds.executable import query_options
from recovery.builds.option_lists import kept_options, listed_options
from recovery.builds.resolve import Sources, check_registry, parse_version_option, resolve_server
from recovery.errors import HostUnfitError, OptionConflictError, RecoveryError, UsageError
from recovery.model import (
    QUESTION_AXIS,
    Build,
    Cache,
    Flavor,
    Layout,
    NamedSettings,
    VariantSpec,
    Version,
    can,
    capability_versions,
    crashes_with_tables,
)
from recovery.mysqld.launcher import open_files_limit
from recovery.mysqld.options import (
    DEFAULT_CONNECTIONS,
    ENCRYPTED_REDO,
    REDO_CAPACITY,
    REDO_FILE_OPTIONS,
    adapt_redo_capacity,
    base_name,
    hint_if_unknown,
    max_open_tables,
    needed_open_files,
)
from recovery.mysqld.own_data import check_server, keeps_redo_log
from recovery.mysqld.table_size import PAGE_SIZE, configured_page_bytes
from recovery.report.fmt import count_text
from recovery.session.engine import Engine, Say
from recovery.session.plan import datadir_specs, restricted_questions
from recovery.session.request import Request
from recovery.workload.inserts import insert_statements
from recovery.workload.schema import checked_script_size

# --- Options that are valid alone, but not in combination


def check_request(request: Request) -> None:
    """Raises UsageError, or OptionConflictError, for the first of the rules that the request breaks."""
    for rule in RULES:
        rule(request)


def check_servers(request: Request) -> None:
    """Checks where the servers come from."""
    for name in ("image", "registry"):
        if getattr(request.servers, name) and request.servers.engine == "local":
            raise UsageError("it needs containers, and not --engine local", "leave one of them out", option=name)
    for other in ("mysqld", "archive"):
        if request.servers.image and getattr(request.servers, other):
            raise UsageError("it does not apply to --image", "leave one of them out", option=other)
    if request.servers.archive:
        check_url(request.servers.archive, "archive")
    if request.servers.registry:
        check_registry(request.servers.registry)
    if request.servers.image and request.servers.registry:
        raise UsageError(
            "it does not apply to --image",
            "write it into the image's name: localhost:5000/my/server:1",
            option="registry",
        )


def check_own_data(request: Request) -> None:
    """Checks what cannot be measured over a data directory of the user's own: other files than it has."""
    if (own := request.sizes.schema.own) is None:
        return
    for name, folder in (("data", request.output.data), ("results", request.output.results)):
        if folder.resolve().is_relative_to(own.path):
            raise UsageError(f"{folder} is inside --datadir {own.path}", "name another folder", option=name)
    pages = int(dict(own.settings)[PAGE_SIZE])
    for settings in (
        dict(request.servers.options),
        *(dict(variant.settings) for variant in request.servers.named_settings),
    ):
        if configured_page_bytes({PAGE_SIZE: str(pages), **settings}) != pages:
            raise UsageError(f"{own.path} has pages of {pages:,} bytes", f"leave {PAGE_SIZE} out")
    if any(variant.layout or variant.schemas for variant in request.servers.named_settings):
        raise UsageError("layout= and schemas= do not apply to --datadir", "leave them out", option="variant")


_REDO_SHAPES = REDO_FILE_OPTIONS | {REDO_CAPACITY, ENCRYPTED_REDO}


def check_redo_as_is(request: Request) -> None:
    """Raises OptionConflictError for another shape of the redo log than that which AS_IS recovers."""
    own, common = request.sizes.schema.own, _options_from_set(request)
    given = [option for option in user_options(request) if base_name(option.name) in _REDO_SHAPES]
    if own is None or not own.as_is or not given:
        return
    is_kept = keeps_redo_log(own, dict(request.servers.options))
    there = ", ".join(f"{name}={value}" for name, value in own.settings if name in _REDO_SHAPES)
    for option in given:
        if not (is_kept and option in common):
            raise OptionConflictError(
                f"{option.text} does not change the redo that --as-is recovers: the server would read the same, and "
                "then rebuild or resize its log",
                f"leave it out, or give what {own.path} has: {there}; without --as-is the crash has such a log",
                option=option.by,
            )


def check_own_version(request: Request, versions: Sequence[Version]) -> None:
    if (own := request.sizes.schema.own) is not None:
        for version in versions:
            check_server(own, version)


def check_floor(request: Request) -> None:
    if request.method.floor and not any(spec.cache is Cache.COLD for spec in request.variant_specs):
        raise UsageError(f"it needs cold starts, and {request.scenario} has none", "leave it out", option="floor")


def check_precision(request: Request) -> None:
    if request.sizes.max_runs is not None and request.sizes.max_runs < MIN_RUNS_FOR_PRECISION:
        raise UsageError(
            f"{request.sizes.max_runs} is too few for --precision",
            f"give {MIN_RUNS_FOR_PRECISION} or more",
            option="max_runs",
        )


def check_fail_over(request: Request) -> None:
    if request.output.fail_over is None:
        return
    if request.sizes.repeats < MIN_RUNS:
        raise UsageError(
            f"it cannot be judged from {count_text(request.sizes.repeats, 'run')}",
            f"measure with --runs {MIN_RUNS} or more",
            option="fail_over",
        )
    if len(request.servers.names) < 2:
        raise UsageError(
            "it compares versions, and there is only one",
            "name two with --version, or compare two sessions: `recovery compare A B --fail-over 10%`",
            option="fail_over",
        )


MAX_PREDICTED_FACTOR = 10
"""A prediction may be for this many times the largest measured number of tables. Farther, its interval says nothing."""


def check_prediction(request: Request) -> None:
    schemas = request.sizes.schema.databases
    most = MAX_PREDICTED_FACTOR * max(request.sizes.points, default=0) * schemas
    if request.sizes.predict is not None and request.sizes.predict > most:
        needed = math.ceil(request.sizes.predict / MAX_PREDICTED_FACTOR / schemas)
        raise UsageError(
            f"{request.sizes.predict:,} is too far beyond the largest measured number of tables",
            f"measure {needed:,} tables{' in each schema' * (schemas > 1)}, too, or predict {most:,} at most",
            option="--predict",
        )


def check_layouts(request: Request) -> None:
    """Raises UsageError for a layout with the user's own template, or tables that cannot be divided among schemas.

    Layouts apply to the tool's own tables only. Variants must have the same number of tables to be comparable."""
    requested = request.sizes.schema
    layouts = {requested.layout, *(variant.layout or requested.layout for variant in request.servers.named_settings)}
    if requested.template is not None and layouts != {Layout.FILES}:
        raise UsageError("your own template determines the layout of its tables", "leave out one of the two")
    for variant in request.servers.named_settings:
        for tables in request.sizes.points or (requested.tables,):
            total = tables * requested.databases
            if variant.schemas and total % variant.schemas:
                raise UsageError(
                    f"the variant '{variant.label}' cannot divide {total:,} tables among {variant.schemas:,} schemas",
                    "all schemas have the same number of tables: give a --tables that can be divided by it",
                )


def check_unique_names(request: Request) -> None:
    """Raises UsageError if two variants have the same name, because they would be reported as one."""
    for name, times in Counter(variant.name for variant in request.all_variants).items():
        if times > 1:
            raise UsageError(f"two variants have the name '{name}'", "give variants and queries different names")


def check_known_versions(request: Request) -> None:
    """Checks the versions whose release is known already; all are checked again once the servers are fetched."""
    for rule in VERSION_RULES:
        rule(request, known_releases(request))


def check_trace(request: Request) -> None:
    every = (request.servers.options, *(variant.settings for variant in request.servers.named_settings))
    if request.method.trace and any(("innodb_fast_shutdown", "2") in settings for settings in every):
        raise UsageError(
            "it reads the files after a shutdown, and with innodb_fast_shutdown=2 they lack changes",
            "leave one of them out",
            option="trace",
        )
    archiving = {base_name(name) for settings in every for name, value in settings if value.upper() in _ON}
    if request.method.trace and "innodb_log_archive" in archiving:
        raise UsageError(
            "it reads the redo log, which innodb_log_archive=ON (MariaDB 13.0) writes in another form",
            "leave one of them out",
            option="trace",
        )


_ON = ("", "ON", "1", "TRUE")


# --- Clashes with options that an experiment varies or needs
#
# A cell is named after the values that were requested for it. If an option of the user's replaced such a value, or
# was replaced by it, two cells would measure the same thing, or a cell something else than its name says. No figure
# would show this.


@dataclass(frozen=True)
class _UserOption:
    """Represents a server option as the user gave it."""

    name: str
    value: str
    by: str
    """The option of the tool by which it was given, such as `set`."""
    label: str = ""
    """The variant that has it."""

    @property
    def text(self) -> str:
        name = f"{self.label}:{self.name}" if self.label else self.name
        return f"{name}={self.value}" if self.value else name


def check_option_clashes(request: Request) -> None:
    """Raises OptionConflictError for the first option of the user's that clashes with the experiment.

    Options that the experiment neither varies nor needs are free: `--set` replaces a value that the experiment would
    set for all variants, `OPTION=` replaces an axis or adds one."""
    options = _axis_options(request)
    _check_spellings(request, options)
    own = {base_name(option.name): f"--option {option.text}" for option in options}
    for option in (*_options_from_set(request), *_variant_options(request.servers.named_settings)):
        if base_name(option.name) in own:
            raise OptionConflictError(
                f"{option.text}: {own[base_name(option.name)]} already gives its values",
                "leave out one of the two",
                option=option.by,
            )
        _check_fixed_option(request, option, varied=True)
        _check_varied_option(request, option)
    for option in options:
        _check_fixed_option(request, option, varied=False)
    for variant in request.servers.named_settings:
        _check_variant_layout(request, variant)


def check_redo_log_options(request: Request, versions: Sequence[Version]) -> None:
    """Raises OptionConflictError if the size of the redo log's files is varied, and a server ignores it.

    A server ignores the size of the files if the capacity of the log is set, by the user or by the experiment."""
    given = [
        option
        for option in (*_axis_options(request), *_variant_options(request.servers.named_settings))
        if base_name(option.name) in REDO_FILE_OPTIONS
    ]
    for version in versions if given else ():
        usual = adapt_redo_capacity(version, request.lasting_settings)
        if can(version, "redo_log_capacity") and REDO_CAPACITY in map(base_name, usual):
            raise OptionConflictError(
                f"{given[0].text} has no effect on {version}: {REDO_CAPACITY} sets the size of its redo log",
                f"vary {REDO_CAPACITY} instead, the size of the whole log: for servers before 8.0.30 "
                "it is translated to the size of their files",
                option=given[0].by,
            )


def user_options(request: Request) -> tuple[_UserOption, ...]:
    """Returns all server options that the user gave."""
    return (*_options_from_set(request), *_variant_options(request.servers.named_settings), *_axis_options(request))


def check_options_known(request: Request, listed: Mapping[Version, Collection[str]]) -> None:
    """Raises UsageError for the first option that a server does not list; one that lists no options is not checked."""
    for option in user_options(request):
        hints = {version: _hint(option, version, names) for version, names in listed.items() if names}
        lacking = [version for version, hint in hints.items() if hint]
        if lacking:
            text = f"{option.text}: no such option in {', '.join(map(str, lacking))}"
            raise UsageError(text, hints[lacking[0]], option=option.by)


def _hint(given: _UserOption, version: Version, listed: Collection[str]) -> str:
    """Returns what to write instead, or an empty text if the server has the option or the one it is translated to."""
    names = [name for value in given.value.split(",") for name in adapt_redo_capacity(version, {given.name: value})]
    return next(filter(None, (hint_if_unknown(name, listed) for name in names)), "")


def _options_from_set(request: Request) -> tuple[_UserOption, ...]:
    return tuple(_UserOption(name, value, "set") for name, value in request.servers.options)


def _axis_options(request: Request) -> tuple[_UserOption, ...]:
    options = request.experiment_options.options
    return tuple(_UserOption(name, ",".join(values), "option") for name, values in options)


def _variant_options(variants: Iterable[NamedSettings]) -> Iterator[_UserOption]:
    for variant in variants:
        yield from (_UserOption(name, value, "variant", variant.label) for name, value in variant.settings)


def _check_spellings(request: Request, options: Sequence[_UserOption]) -> None:
    """Raises OptionConflictError for two spellings of one axis, as `loose_max_connections` and `max_connections`."""
    for option in options:
        name = base_name(option.name)
        if [base_name(other.name) for other in options].count(name) > 1:
            raise OptionConflictError(
                f"{option.text}: {name} is named twice",
                f"give all its values at once: --option {name}=A,B",
                option=option.by,
            )
        axes = {axis for spec in request.variant_specs for axis, _ in spec.axes}
        if any(base_name(axis) == name for axis in axes - {option.name}):
            raise OptionConflictError(
                f"{option.text}: {request.scenario} varies {name} itself",
                f"write it without a prefix to replace these values: --option {name}=…",
                option=option.by,
            )


def _check_fixed_option(request: Request, given: _UserOption, *, varied: bool) -> None:
    """Raises OptionConflictError if the experiment sets the option itself.

    With `varied`, the hint also leaves out the questions that vary the option: they clash with it as well."""
    name = base_name(given.name)
    if (why := request.experiment_options.setting_of(name)) is not None:
        raise OptionConflictError(f"{given.text}: {why}", "leave out one of the two", option=given.by)
    found = [spec for spec in request.variant_specs if name in spec.fixed]
    if found:
        too = [spec for spec in request.variant_specs if varied and name in _axis_names(spec)]
        text = f"{given.text}: {request.scenario} sets {name} itself{_in_questions(found)}"
        hint = f"leave it out{_other_questions_hint(request, [*found, *too])}"
        raise OptionConflictError(text, hint, option=given.by)


def _check_varied_option(request: Request, given: _UserOption) -> None:
    name = base_name(given.name)
    found = [spec for spec in request.variant_specs if name in _axis_names(spec)]
    if found:
        raise OptionConflictError(
            f"{given.text}: {request.scenario} measures at several values of {name}{_in_questions(found)}",
            f"give the values, like --option {name}={_example_values(given)}; or leave it "
            f"out{_other_questions_hint(request, found)}",
            option=given.by,
        )


def _check_variant_layout(request: Request, variant: NamedSettings) -> None:
    """Raises OptionConflictError if the variant changes the schema or layout of tables that a task names."""
    requested = request.sizes.schema
    spread = requested if variant.schemas is None else requested.spread_over(variant.schemas)
    otherwise = spread != requested or variant.layout not in (None, requested.layout)
    if otherwise and any(spec.task and spec.task.has_clients for spec in request.variant_specs):
        raise OptionConflictError(
            f"the variant '{variant.label}' changes the layout, but a load uses tables of one schema, each "
            "in its own file",
            "leave layout= and schemas= out of it",
        )
    first = requested.database_names[0]
    if first not in spread.database_names and any(spec.task for spec in request.variant_specs):
        raise OptionConflictError(
            f"the variant '{variant.label}' has no schema {first}, which {request.scenario} queries",
            "with schemas=1 the schema has another name: give more than one, or only --schemas 1",
        )


def _example_values(given: _UserOption) -> str:
    """Returns example values for the hint: both for an option that its name switches (`skip_` and the like)."""
    switched = not given.value or given.name.startswith(("skip_", "loose_skip_", "disable_", "loose_disable_"))
    return "1,0" if switched else f"{given.value},…"


def _axis_names(spec: VariantSpec) -> set[str]:
    return {base_name(name) for name, _ in spec.axes}


def _questions(specs: Iterable[VariantSpec]) -> list[str]:
    return list(dict.fromkeys(dict(spec.axes)[QUESTION_AXIS] for spec in specs if QUESTION_AXIS in dict(spec.axes)))


def _in_questions(specs: Iterable[VariantSpec]) -> str:
    names = _questions(specs)
    return f" in {_join_names(names)}" if names else ""


def _other_questions_hint(request: Request, specs: Iterable[VariantSpec]) -> str:
    """Returns the end of a hint: which questions to ask instead; empty if the specs belong to no question."""
    names = _questions(specs)
    rest = [name for name in _questions(request.variant_specs) if name not in names]
    if not names:
        return ""
    return f'; or ask --question "{" ".join(rest)}" alone' if rest else "; or ask another --question"


def _join_names(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


RULES: tuple[Callable[[Request], None], ...] = (
    check_servers, check_own_data, check_redo_as_is, check_floor, check_precision, check_fail_over, check_prediction,
    check_option_clashes, check_layouts, check_unique_names, check_known_versions, check_trace,
)  # fmt: skip
"""What a request must fulfil before anything is fetched or built."""


# --- What the versions must support


def known_releases(request: Request) -> list[Version]:
    """Returns the requested versions whose release is known before a server is fetched."""
    wanted = map(parse_version_option, request.servers.versions)
    known = [server.release for server in wanted if server.release is not None]
    return (
        [replace(known[0], build=own.name) for own in request.servers.mysqld]
        if known and request.servers.mysqld
        else known
    )


def check_any_trial_left(request: Request, versions: Sequence[Version]) -> None:
    """Raises UsageError if no trial is left for the versions, or none for the baseline; needs to know all of them."""
    if not versions or len(versions) < max(len(request.servers.versions), len(request.servers.mysqld)):
        return
    variants = request.all_variants
    needs = restricted_questions(variants)
    if not datadir_specs(versions, variants):
        raise UsageError(
            f"{' and '.join(map(str, versions))} does not support {' or '.join(needs)}, and nothing else was requested",
            "; ".join(f"{name} needs {capability_versions(str(variant.needs))}" for name, variant in needs.items()),
        )
    baseline = request.servers.exact_baseline(versions)
    if baseline is not None and not datadir_specs([baseline], variants):
        raise UsageError(
            f"{baseline} has no trial: it does not support {' or '.join(needs)}",
            "name another, or none",
            option="baseline",
        )


def check_tables(request: Request, versions: Sequence[Version]) -> None:
    """Checks the scripts of tables and inserts, and that no server is known not to support such tables."""
    insert_statements(request.sizes.schema, count=request.sizes.inserts, template=request.sizes.insert_template)
    checked_script_size(request.sizes.schema)
    for spec in datadir_specs(versions, request.all_variants):
        version, schema = spec.version, spec.schema(request.sizes.schema)
        checked_script_size(schema)
        if crashes_with_tables(version, schema.total_tables):
            raise HostUnfitError(
                f"{version} was withdrawn: it dies on a restart with more than 8,000 tables",
                "use the release after it, or --tables 8000",
            )
        if schema.layout is Layout.GENERAL and not can(version, "general_tablespaces"):
            raise UsageError(
                f"{version} has no general tablespaces, which hold all tables in one file",
                "use MySQL 5.7.6 or later, or leave layout=general out",
            )
        has_plugin = can(version, "keyring_file") or can(version, "file_key_management")
        if schema.layout is Layout.ENCRYPTED and not has_plugin:
            raise UsageError(
                f"{version} has no plugin that reads the keys of encrypted tables from a file",
                "use MySQL 5.7.11 to 8.3, or MariaDB, or leave layout=encrypted out",
            )


VERSION_RULES: tuple[Callable[[Request, Sequence[Version]], None], ...] = (
    check_any_trial_left,
    check_redo_log_options,
    check_own_version,
)
"""What the versions must fulfil: those that are known when the request is made, and again the exact ones."""


def check_versions(request: Request, versions: Sequence[Version], *, assumed: Sequence[Version] = ()) -> None:
    """Raises an error for the first of the rules that these versions break, before anything is built.

    `assumed` are similar to those whose release is not known yet: only their tables are checked."""
    for rule in VERSION_RULES:
        rule(request, versions)
    check_tables(request, (*versions, *assumed))


# --- Options that will not take effect as requested

_TABLE_OPEN_CACHE = "table_open_cache"
_MAX_CONNECTIONS = "max_connections"


def check_table_open_cache(request: Request, *, say: Callable[[str], None]) -> None:
    """Warns about values of `table_open_cache` that servers will lower because of the limit on open files.

    Raises UsageError if several such values would be lowered to the same one: that would measure one experiment twice.
    If one of the servers may keep the values, there are only warnings: the value in effect is read after its start."""
    files = request.servers.open_files or open_files_limit()
    beyond: dict[str, int] = {}
    for settings in _relevant_settings(request):
        connections = _number(settings, _MAX_CONNECTIONS) or DEFAULT_CONNECTIONS
        most, wished = max_open_tables(files, connections=connections), _number(settings, _TABLE_OPEN_CACHE)
        if wished is not None and wished > most:
            beyond[settings[_TABLE_OPEN_CACHE]] = needed_open_files(wished, connections=connections)
            who = "most servers" if _may_keep_value(request) else "servers"
            text = f"with {files:,} open files {who} lower it to about {most:,}"
            hint = f"give {most} at most, or --open-files {max(beyond.values())}"
            if len(beyond) > 1 and not _may_keep_value(request):
                values = " and ".join(beyond)
                raise UsageError(f"{_TABLE_OPEN_CACHE}={values} would be measured as the same value: {text}", hint)
            say(f"warning: {_TABLE_OPEN_CACHE}={wished} will not be in effect: {text}; {hint}")


def _may_keep_value(request: Request) -> bool:
    """Returns whether one of the servers may keep a value that others lower.

    MariaDB 10.2.11 keeps it, 10.11.5 does not. The behaviour of the user's own server is unknown."""
    flavors = {parse_version_option(text).flavor for text in request.servers.versions}
    return bool(request.servers.mysqld or request.servers.image) or Flavor.MARIADB in flavors


def _relevant_settings(request: Request) -> Iterator[Mapping[str, str]]:
    """Yields the relevant settings of the variants, without duplicates."""
    seen: dict[tuple[tuple[str, str], ...], None] = {}
    for variant in request.all_variants:
        merged = {**request.lasting_settings, **dict(variant.settings)}
        bare = {name.removeprefix("loose_"): value for name, value in merged.items()}
        seen[tuple((name, bare[name]) for name in (_TABLE_OPEN_CACHE, _MAX_CONNECTIONS) if name in bare)] = None
    yield from map(dict, seen)


def _number(settings: Mapping[str, str], name: str) -> int | None:
    text = settings.get(name, "")
    return int(text) if text.isdecimal() else None


def check_options(request: Request, engine: Engine, builds: Sequence[Build], say: Say) -> None:
    """Raises UsageError for an option of the user's that a server does not list."""
    listed = {build.version: engine.options(build) for build in builds}  # completion offers them from now on
    if not user_options(request):
        return
    for version in (version for version, names in listed.items() if not names):
        say(f"warning: {version} does not list its options: their names are not checked")
    check_options_known(request, listed)


def check_options_offline(request: Request, versions: Sequence[Version], say: Say) -> None:
    """Raises UsageError for an option that a server does not list, as far as that is known without fetching it.

    `versions` are those whose release is known."""
    if not user_options(request):
        return
    listed = {version: _known_options(request, version) for version in versions}
    check_options_known(request, listed)
    for version in (version for version, names in listed.items() if not names):
        say(f"  {version} is not in the cache: the names of server options are checked when it is there")
        for option in user_options(request):
            if hint := _hint(option, version, kept_options() or {option.name}):
                say(f"  no server in the cache has the option {option.name}: {hint}")


def _known_options(request: Request, version: Version) -> frozenset[str]:
    place = next((own.place for own in request.servers.mysqld if own.name == version.build), None)
    try:
        build = resolve_server(version.release, Sources(mysqld=place, offline=True), lambda _: None)
    except RecoveryError:
        return kept_options(version)
    return listed_options(build, query_options)
