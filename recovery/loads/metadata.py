"""The experiment metadata: how long information_schema queries and dumps take with very many tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from recovery.builds.packages import DUMP
from recovery.errors import UsageError
from recovery.experiments.experiment import (
    QUICK,
    STANDARD,
    Experiment,
    HostCapacity,
    QueryOptions,
    accept,
    selected_parts,
)
from recovery.loads.load import measure
from recovery.loads.tasks import SKIP_LOCKS, CreateTask, DumpTask, StatementTask
from recovery.model import QUESTION_AXIS, Cache, Schema, Task, VariantSpec

_POOL_BYTES = 4 << 30
"""Published size of the buffer pool, for hosts with enough memory."""
_POOL_SHARE = 4
SIZES, SIZE, ENGINES = "Q1", "Q2", "Q3"
PLAIN_DUMP, UNLOCKED_DUMP, PUBLISHED_BUILD = "dump", "dump-skip-lock-tables", "published-build"


@dataclass(frozen=True)
class MetadataOptions(QueryOptions):
    """The options of queries and dumps."""

    dump_schemas: int | None = None
    """Number of schemas to dump. None: all."""
    published_build: int | None = None
    """Number of tables to create in the published way. None: this is not measured."""


def variant_specs(requested: MetadataOptions, schema: Schema, _: HostCapacity) -> tuple[VariantSpec, ...]:
    """Returns one variant for each query and dump; before each, the server is restarted and the cache is emptied."""
    tasks = dict(_tasks(requested, schema))
    chosen = selected_parts(requested, tuple(tasks), "metadata")
    return tuple(
        VariantSpec(name, Cache.COLD, task, ((QUESTION_AXIS, name),)) for name, task in tasks.items() if name in chosen
    )


def _tasks(requested: MetadataOptions, schema: Schema) -> Iterator[tuple[str, Task]]:
    first = schema.database_names[0]
    sizes = "select table_schema, sum(data_length) from information_schema.tables group by table_schema"
    # The tool itself has chosen the name of the schema.
    size = f"select sum(data_length) from information_schema.tables where table_schema = '{first}'"  # noqa: S608
    engines = "select table_schema, engine, count(*) from information_schema.tables group by table_schema, engine"
    for name, statement in ((SIZES, sizes), (SIZE, size), (ENGINES, engines), *requested.queries):
        yield name, StatementTask(statement)
    schemas = requested.dump_schemas or schema.databases
    if schemas > schema.databases:
        raise UsageError(
            f"{schemas} is more than --schemas {schema.databases}",
            "give --schemas at least this number",
            option="dump_schemas",
        )
    yield PLAIN_DUMP, DumpTask(schemas)
    yield UNLOCKED_DUMP, DumpTask(schemas, (SKIP_LOCKS,))
    if requested.published_build:
        yield PUBLISHED_BUILD, CreateTask(requested.published_build)


def settings(_: MetadataOptions, __: Schema, host: HostCapacity) -> Mapping[str, str]:
    """Returns the published settings.

    The two options for statistics make the server ask the storage engine for current values instead of cached ones;
    each is known only to some versions."""
    return {
        "innodb_buffer_pool_size": str(min(_POOL_BYTES, host.memory_bytes // _POOL_SHARE)),
        # Two files of 256 MiB.
        "loose_innodb_redo_log_capacity": str(512 << 20),
        "loose_information_schema_stats": "latest",
        "loose_information_schema_stats_expiry": "0",
    }


METADATA = Experiment(
    "metadata",
    "How long do information_schema queries and dumps of all definitions take with very many tables?",
    "information_schema and dumps",
    measure,
    accept,
    variant_specs,
    metric="elapsed_s",
    options=MetadataOptions,
    settings=settings,
    # The queries should read statistics, not be the first to compute them.
    schema=Schema(tables=10_000, databases=100, columns=1, database="s", statistics=True),
    runs=3,
    inserts=0,
    programs=(DUMP,),
    names=(SIZES, SIZE, ENGINES, PLAIN_DUMP, UNLOCKED_DUMP, PUBLISHED_BUILD),
    sizes={QUICK: {"schemas": 10, "tables": 100, "runs": 1}, STANDARD: {"tables": 200}},
    scale=STANDARD,
    defaults={"statistics": "on", "parts": "all of them", "dump_schemas": "all of them"},
)
