"""What is a server asked to do? The options of an experiment, checked, and the work that comes of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from recovery.builds.resolve import known_wanted
from recovery.commands.queries import read_queries
from recovery.errors import UsageError
from recovery.host import cores, pinning
from recovery.host.disktrial import no_disk, no_power_cut
from recovery.host.machine import memory_bytes
from recovery.model import Limits, Schema
from recovery.paths import template_dir
from recovery.request import MOST_RUNS, MOST_SCHEMAS, MOST_TABLES, parse_settings, positive
from recovery.scenarios.experiment import Asked, Experiment, Host
from recovery.scenarios.table_cache import INSTANCES
from recovery.server.options import check_user_settings
from recovery.server.tablecache import DIVIDED, instances_of

_MOST_SECONDS = 86_400
_MOST_THREADS = 10_000
_MOST_ROWS = 1_000_000_000
_LEAST_RATIO, _MOST_RATIO = 0.001, 1000.0
_MOST_EVERY_S = 3600.0
_MOST_SEED = 10**9
_MOST_DEPTH = 100


def asked_of(given: Mapping[str, Any], experiment: Experiment) -> Asked:
    apart = cores.split(pinning.own_cores())
    return Asked(
        seconds=positive("SECONDS", given.get("seconds") or experiment.seconds, _MOST_SECONDS),
        warmup_s=_warmup(given.get("warmup")),
        threads=_numbers("THREADS", given.get("threads"), _MOST_THREADS),
        workloads=_words("WORKLOAD", given.get("workload")),
        parts=_words("QUESTION", given.get("parts")),
        load_tables=_numbers("LOAD_TABLES", given.get("load_tables"), MOST_TABLES),
        options=tuple(map(_option, given.get("options") or ())),
        queries=tuple(read_queries(given["queries"], experiment.names)) if given.get("queries") else (),
        pollers=positive("POLLERS", given.get("pollers") or 1, _MOST_THREADS),
        every_s=_decimal("EVERY", given.get("every"), _MOST_EVERY_S) or 0.0,
        memory_ratio=_decimal("MEMORY_RATIO", given.get("memory_ratio"), _MOST_RATIO, least=_LEAST_RATIO),
        published_build=_optional("PUBLISHED_BUILD", given.get("published_build"), MOST_TABLES),
        seed=positive("SEED", given.get("seed") or Asked.seed, _MOST_SEED),
        depth=positive("DEPTH", given.get("depth") or Asked.depth, _MOST_DEPTH),
        only=_optional("ONLY", given.get("only"), MOST_RUNS),
        server_cpus=None if apart is None else cores.as_list(apart.server),
        client_cpus=None if apart is None else cores.as_list(apart.clients),
    )


def schema_of(given: Mapping[str, Any], experiment: Experiment, asked: Asked) -> Schema:
    """The experiment's tables, as many as the user wants."""
    usual = experiment.schema
    template = template_dir() / experiment.template if experiment.template else None
    tables = positive("TABLES", given.get("tables") or usual.tables, MOST_TABLES)
    if asked.load_tables and max(asked.load_tables) > tables:
        raise UsageError(
            f"LOAD_TABLES={max(asked.load_tables)} is more than there are tables ({tables})", "give TABLES= as many"
        )
    if 2 * usual.foreign_keys > tables:
        raise UsageError(
            f"TABLES={tables} has no room for {usual.foreign_keys} foreign keys",
            f"each needs two tables: give at least TABLES={2 * usual.foreign_keys}",
        )
    return replace(
        usual,
        tables=tables,
        databases=positive("SCHEMAS", given.get("schemas") or usual.databases, MOST_SCHEMAS),
        rows=_optional("--rows", given.get("rows"), _MOST_ROWS) or usual.rows,
        template=template,
    )


def host_for(limits: Limits) -> Host:
    """As much of it as the server may use."""
    cpus = len(pinning.own_cpus())
    return Host(
        cpus=cpus if limits.cpus is None else max(1, min(cpus, int(limits.cpus))),
        memory_bytes=min(memory_bytes(), limits.memory_bytes or memory_bytes()),
        no_disk=no_disk,
        no_power_cut=no_power_cut,
    )


def instances_for(asked: Asked, versions: tuple[str, ...], settings: tuple[str, ...]) -> tuple[int, ...]:
    """Of the table cache, in each of the servers. One that tells its release only when it is there may be any."""
    given = dict(parse_settings(settings))
    named = dict(asked.options).get(INSTANCES) or ((given[INSTANCES],) if INSTANCES in given else ())
    numbers = [int(one) for one in named if re.fullmatch(r"[0-9]{1,9}", one) and int(one) > 0]
    releases = [known_wanted(text).release for text in versions]
    unknown = tuple(numbers) or (DIVIDED,)
    found = [instances_of(release, numbers) if release else unknown for release in releases]
    return tuple(sorted({one for each in found or [unknown] for one in each}))


def _warmup(text: str | None) -> int:
    if text is None:
        return Asked.warmup_s
    return 0 if text == "0" else positive("WARMUP", text, _MOST_SECONDS)


def _optional(name: str, text: str | None, most: int) -> int | None:
    return None if text is None else positive(name, text, most)


def _words(name: str, text: str | None) -> tuple[str, ...]:
    found = tuple(dict.fromkeys((text or "").replace(",", " ").split()))
    if text is not None and not found:
        raise UsageError(f"{name}={text} names nothing", "give it a value, or leave it out")
    return found


def _numbers(name: str, text: str | None, most: int) -> tuple[int, ...]:
    return tuple(sorted({positive(name, word, most) for word in _words(name, text)}))


def _decimal(name: str, text: str | None, most: float, *, least: float = 0) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise UsageError(f"{name}={text} makes no sense", f"give a number from {least:g} to {most:,.0f}")
    return value


def _option(text: str) -> tuple[str, tuple[str, ...]]:
    """`table_open_cache=400,4000`"""
    name, equals, values = text.partition("=")
    found = tuple(dict.fromkeys(value.strip() for value in values.split(",") if value.strip()))
    if not equals or not found:
        raise UsageError(f"--option {text} names no values", "write it like --option table_open_cache=400,4000")
    (checked,) = {one for value in found for one in check_user_settings({name: value})}
    return checked, found
