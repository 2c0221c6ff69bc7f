"""Parses the options of experiments that put load on a server, or crash it in a series."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from recovery.builds.resolve import parse_version_option
from recovery.errors import UsageError
from recovery.experiments.experiment import ExperimentOptions, HostCapacity, LoadExperiment
from recovery.experiments.table_cache import INSTANCES
from recovery.linux import procfs
from recovery.linux.files import read_limited, template_dir
from recovery.linux.loop_device import why_no_loop_disk, why_no_power_cut
from recovery.linux.procfs import memory_bytes
from recovery.model import MAX_RUNS, Limits, Schema
from recovery.mysqld.options import DEFAULT_CACHE_INSTANCES, check_user_settings, table_cache_instances
from recovery.profiling.samplers import PERF
from recovery.session.request import MAX_SCHEMAS, MAX_TABLES, parse_count, parse_settings
from recovery.workload.schema import split_script

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
        raise UsageError(f"QUERIES={path} is not UTF-8 text", "save it as UTF-8") from error
    except OSError as error:
        raise UsageError(f"QUERIES={path} cannot be read: {error.strerror}", "check the path") from error
    if "\0" in text:
        raise UsageError(f"QUERIES={path} is not a text file", "give a file of SQL statements")
    return text


MAX_SECONDS = 86_400
_MAX_THREADS = 10_000
_MAX_ROWS = 1_000_000_000
_MIN_RATIO, _MAX_RATIO = 0.001, 1000.0
_MAX_EVERY_S = 3600.0
_MAX_SEED = 10**9
_MAX_DEPTH = 100


_STARTUP_OPTION_DEFAULTS = {
    **dict.fromkeys(("insert_template", "baseline", "fail_over", "template")),
    **dict.fromkeys(("as_published", "trace", "floor"), False),
}
"""Values for options of timed starts that the command of a load may not have."""


def complete_load_options(given: Mapping[str, Any], load: LoadExperiment) -> dict[str, Any]:
    """Returns the options of a load, completed with values for those of timed starts."""
    stacks = PERF if given.get("profile") else None
    return {**_STARTUP_OPTION_DEFAULTS, **given, "inserts": str(load.inserts), "stacks": stacks}


def parse_experiment_options(given: Mapping[str, Any], load: LoadExperiment) -> ExperimentOptions:
    apart = procfs.split_cores(procfs.own_cores())
    return ExperimentOptions(
        seconds=parse_count("SECONDS", given.get("seconds") or load.seconds, MAX_SECONDS),
        warmup_s=_parse_warmup(given.get("warmup")),
        threads=_parse_numbers("THREADS", given.get("threads"), _MAX_THREADS),
        workloads=_parse_words("WORKLOAD", given.get("workload")),
        parts=_parse_words("QUESTION", given.get("parts")),
        load_tables=_parse_numbers("LOAD_TABLES", given.get("load_tables"), MAX_TABLES),
        options=tuple(map(_parse_server_option, given.get("options") or ())),
        queries=tuple(read_queries(given["queries"], load.names)) if given.get("queries") else (),
        pollers=parse_count("POLLERS", given.get("pollers") or 1, _MAX_THREADS),
        every_s=_parse_decimal("EVERY", given.get("every"), _MAX_EVERY_S) or 0.0,
        memory_ratio=_parse_decimal("MEMORY_RATIO", given.get("memory_ratio"), _MAX_RATIO, least=_MIN_RATIO),
        published_build=parse_optional_count("PUBLISHED_BUILD", given.get("published_build"), MAX_TABLES),
        seed=parse_count("SEED", given.get("seed") or ExperimentOptions.seed, _MAX_SEED),
        depth=parse_count("DEPTH", given.get("depth") or ExperimentOptions.depth, _MAX_DEPTH),
        only=parse_optional_count("ONLY", given.get("only"), MAX_RUNS),
        server_cpus=None if apart is None else procfs.format_cpu_list(apart.server),
        client_cpus=None if apart is None else procfs.format_cpu_list(apart.clients),
    )


def experiment_schema(given: Mapping[str, Any], load: LoadExperiment, options: ExperimentOptions) -> Schema:
    """Returns the experiment's schema, with the numbers of tables, schemas and rows that the user gave."""
    usual = load.schema
    template = template_dir() / load.template if load.template else None
    tables = parse_count("TABLES", given.get("tables") or usual.tables, MAX_TABLES)
    if options.load_tables and max(options.load_tables) > tables:
        raise UsageError(
            f"LOAD_TABLES={max(options.load_tables)} is more than TABLES={tables}", "give TABLES= at least this number"
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
        rows=parse_optional_count("ROWS", given.get("rows"), _MAX_ROWS) or usual.rows,
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
    options: ExperimentOptions, versions: tuple[str, ...], settings: tuple[str, ...]
) -> tuple[int, ...]:
    """Returns the numbers of table cache instances that the servers may have, each number once.

    If the release of a server is not known before the server is fetched, it counts with the numbers that the user
    gave, or else with the default number."""
    given = dict(parse_settings(settings))
    named = dict(options.options).get(INSTANCES) or ((given[INSTANCES],) if INSTANCES in given else ())
    numbers = [int(one) for one in named if re.fullmatch(r"[0-9]{1,9}", one) and int(one) > 0]
    releases = [parse_version_option(text).release for text in versions]
    unknown = tuple(numbers) or (DEFAULT_CACHE_INSTANCES,)
    found = [table_cache_instances(release, numbers) if release else unknown for release in releases]
    return tuple(sorted({one for each in found or [unknown] for one in each}))


def _parse_warmup(text: str | None) -> int:
    if text is None:
        return ExperimentOptions.warmup_s
    return 0 if text == "0" else parse_count("WARMUP", text, MAX_SECONDS)


def parse_optional_count(name: str, text: str | None, most: int) -> int | None:
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
        raise UsageError(f"OPTION={text} has no values", "write it like OPTION=table_open_cache=400,4000")
    (checked,) = {one for value in found for one in check_user_settings({name: value})}
    return checked, found
