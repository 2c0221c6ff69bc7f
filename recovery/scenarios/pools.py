"""How large is the buffer pool, alike for all servers, and does it hold what a load uses?"""

from __future__ import annotations

from collections.abc import Iterable

from recovery.errors import UsageError
from recovery.model import Schema, Work
from recovery.scenarios.experiment import Asked, Host
from recovery.work import Load

POOL = "innodb_buffer_pool_size"
POOL_OPTIONS = (POOL, "innodb_buffer_pool_instances", "innodb_buffer_pool_chunk_size")
"""By the others servers round the first."""
ROW_BYTES = 250
"""Of a table of sysbench with its index, in pages that are not full."""
_TABLE_BYTES = 128 << 10
_ROOM = 1.5
_LEAST_ROOM = 1.3
"""As the files are, which are never full."""
_MIB = 1 << 20
_GIB = 1 << 30
_LEAST_BYTES = 128 * _MIB
_LEAST_BYTES_OF_A_SERVER = 5 * _MIB
_MOST_SHARE = 0.5
"""Of the host's memory: the clients and the page cache need some, too."""
_INSTANCES = 8
"""From a gigabyte on, as all versions have it that know several; below it some take one, whatever they are told."""
_CHUNK, _LARGE_CHUNK = 16 * _MIB, 128 * _MIB


def data_bytes(tables: int, rows: int) -> int:
    return tables * (_TABLE_BYTES + rows * ROW_BYTES)


def pool_bytes(schema: Schema, host: Host, *, ratio: float | None) -> int:
    """All data fits, unless it is to be so many times larger, or the host is too small."""
    wished = _wished(schema, ratio)
    return _rounded(min(max(wished, _LEAST_BYTES_OF_A_SERVER), _most(host)))


def pool_options(size: int) -> dict[str, str]:
    """Since 5.7 a pool is made of chunks, as many in each instance, and a size that does not come out even is rounded
    up, by default to the next gigabyte; 5.6 takes any. So what is asked for comes out even."""
    instances, chunk = _made_of(size)
    chunk = min(chunk, size)
    return {
        POOL: str(size),
        "loose_innodb_buffer_pool_instances": str(instances),
        "loose_innodb_buffer_pool_chunk_size": str(chunk),
    }


def check_held(works: Iterable[Work], asked: Asked, schema: Schema, host: Host) -> None:
    """UsageError where what is to be in memory, or the ratio that was asked for, is not what this host can give."""
    if asked.memory_ratio is not None:
        _check_ratio(asked.memory_ratio, schema, host)
        return
    for work in works:
        if isinstance(work.task, Load) and POOL not in dict(work.settings):
            _check_load(work.task, host)


def _check_ratio(ratio: float, schema: Schema, host: Host) -> None:
    wished, most = _wished(schema, ratio), _most(host)
    if wished > most:
        least = data_bytes(schema.total_tables, schema.rows) / most
        raise UsageError(
            f"MEMORY_RATIO={ratio:g} asks for a buffer pool of {_gib(wished)}: {_too_much(most)}",
            f"give MEMORY_RATIO={least + 0.05:.1f} or more",
        )


def _check_load(load: Load, host: Host) -> None:
    needed, most = _LEAST_ROOM * data_bytes(load.tables, load.rows), _most(host)
    if needed > most:
        fit = int((most / _LEAST_ROOM / load.tables - _TABLE_BYTES) / ROW_BYTES)
        fewer = f"ROWS={fit}, which fit" if fit > 0 else "fewer TABLES"
        raise UsageError(
            f"{load.tables:,} tables of {load.rows:,} rows need a buffer pool of {_gib(needed)}: {_too_much(most)}",
            f"give {fewer}; or MEMORY_RATIO=4 for a load that is to read from the device",
        )


def _wished(schema: Schema, ratio: float | None) -> float:
    found = data_bytes(schema.total_tables, schema.rows)
    return found / ratio if ratio else max(_ROOM * found, _LEAST_BYTES)


def _most(host: Host) -> float:
    return _MOST_SHARE * host.memory_bytes


def _rounded(wished: float) -> int:
    """Up or down, whichever is nearer: the ratio is to be what was asked."""
    instances, chunk = _made_of(wished)
    unit = _MIB if wished < chunk else instances * chunk
    return max(1, round(wished / unit)) * unit


def _made_of(size: float) -> tuple[int, int]:
    """Instances, and bytes of a chunk: they are fewer than a thousand, as they should be."""
    if size < _GIB:
        return 1, _CHUNK
    return _INSTANCES, _CHUNK if size < _INSTANCES * _GIB else _LARGE_CHUNK


def _too_much(most: float) -> str:
    return f"that is more than half of the memory, {_gib(most)}"


def _gib(size: float) -> str:
    return f"{size / _GIB:.1f} GiB"
