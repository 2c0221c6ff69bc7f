"""How is a load laid out? Which options of the server it is measured at, and how its clients choose their rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from itertools import islice, product

from recovery.builds.tools import SYSBENCH
from recovery.errors import HostUnfitError, UsageError
from recovery.load.sysbench import AS_TEXT, must_send_text
from recovery.model import Cache, Layout, Schema, Work
from recovery.rootsteps import RootStep
from recovery.scenarios.experiment import Asked, Experiment, Host
from recovery.scenarios.pools import POOL_OPTIONS, ROW_BYTES, check_held, pool_bytes, pool_options
from recovery.server.tablecache import connections_for, most_clients
from recovery.work import QUESTION, Load

Pairs = tuple[tuple[str, str], ...]
Works = Callable[[Asked, Schema, Host], tuple[Work, ...]]
Values = tuple[tuple[str, tuple[str, ...]], ...]

DATABASE = "sbtest"
WORKLOAD, THREADS, TABLES = "workload", "threads", "tables"
PAGES, SPINNING = "pages", "spinning"
"""Axes; the others are options of the server."""
_BY_THEMSELVES = frozenset({WORKLOAD, QUESTION, PAGES})
"""Whose values say what they are."""
_COUNTED = frozenset({THREADS, TABLES})
_CHOOSING = "--rand-type="
SPECIAL, UNIFORM = f"{_CHOOSING}special", f"{_CHOOSING}uniform"
"""How rows are chosen: sysbench's default, three of four accesses to one row in a hundred; or all alike."""
_REDO_BYTES = 1 << 30
THREADS_FOR_EACH_CPU = 4
_MOST_CELLS = 10_000
"""Of a minute each: a week."""
_LONGEST_NAME = 180
"""Bytes: its log is called after it, and after its version and number."""
TO_SO_MANY_THREADS = f"1 2 4 … {THREADS_FOR_EACH_CPU} times the CPUs"
"""In words."""


def options_of(asked: Asked, usual: Values) -> tuple[Pairs, ...]:
    """Every combination of the options' values; one that the user names is measured at his instead."""
    wished = dict(usual) | dict(asked.options)
    _check_number(math.prod(map(len, wished.values())))
    return tuple(tuple(zip(wished, values, strict=True)) for values in product(*wished.values()))


def _check_number(cells: int) -> None:
    if cells > _MOST_CELLS:
        raise UsageError(
            f"these are more than {_MOST_CELLS:,} combinations, and each would be measured",
            "give fewer values of OPTION=, WORKLOAD=, LOAD_TABLES= or THREADS=",
        )


@dataclass(frozen=True)
class Way:
    """One load, and where it stands among the others."""

    load: Load
    axes: Pairs
    options: Pairs = ()
    """Of the server."""
    layout: Layout | None = None
    needs: str | None = None
    """What a server must be able to do for it, by the name of the capability."""
    figure: str | None = None
    """What is held against each other, where it is not queries a second."""
    fixed: tuple[str, ...] = ()
    """Names of options that are no axis, and have to be as they are."""


def works_of(ways: Iterable[Way]) -> tuple[Work, ...]:
    """Named by what tells them apart."""
    found = _alike(tuple(islice(map(_chosen, ways), _MOST_CELLS + 1)))
    _check_number(len(found))
    values: dict[str, set[str]] = {}
    for way in found:
        for axis, value in way.axes:
            values.setdefault(axis, set()).add(value)
    apart = {axis for axis, there in values.items() if len(there) > 1 or axis in _BY_THEMSELVES}
    names = [_name(way.axes, apart) for way in found]
    for name, times in Counter(names).items():
        if times > 1:
            raise UsageError(f"two of the loads are called {name}", "give scripts and values that differ by name")
        if len(name.encode(errors="replace")) > _LONGEST_NAME:
            told = f"the load {name[:60]}… is called more than what is the name of a file"
            raise UsageError(told, "give shorter values of OPTION=")
    return tuple(
        Work(name, Cache.WARM, way.load, way.axes, way.options, way.fixed, way.layout, way.needs, way.figure)
        for name, way in zip(names, found, strict=True)
    )


def _chosen(way: Way) -> Way:
    """The report has the command: it says how rows are chosen."""
    if any(option.startswith(_CHOOSING) for option in way.load.options):
        return way
    return replace(way, load=replace(way.load, options=(*way.load.options, SPECIAL)))


def _alike(ways: tuple[Way, ...]) -> tuple[Way, ...]:
    """Where one load cannot prepare its statements none does: it would not be the clients' number that is compared."""
    if not any(must_send_text(way.load) for way in ways):
        return ways
    return tuple(replace(way, load=replace(way.load, options=(*way.load.options, AS_TEXT))) for way in ways)


def _name(axes: Pairs, apart: Set[str]) -> str:
    return "-".join(_part(axis, value.rpartition("/")[2]) for axis, value in axes if axis in apart)


def _part(axis: str, value: str) -> str:
    """`read-only`, `8-threads`, `instances-16`."""
    if axis in _BY_THEMSELVES:
        return value
    if axis in _COUNTED:
        return f"{value}-{axis.removesuffix('s') if value == '1' else axis}"
    return f"{axis.rpartition('_')[2]}-{value}"


def settings(asked: Asked, schema: Schema, host: Host, *, clients: int) -> Mapping[str, str]:
    """Alike for all that are held against each other, whatever their own defaults are, and for so many at once."""
    return {
        **pool_options(pool_bytes(schema, host, ratio=asked.memory_ratio)),
        "loose_innodb_redo_log_capacity": str(_REDO_BYTES),
        # What does not fit into the buffer pool shall not lie in the host's page cache instead.
        "innodb_flush_method": "O_DIRECT",
        "max_connections": str(connections_for(clients)),
        # Not `latch`: to count every mutex costs, so that it has a run of its own (Extra.WAITS).
        "loose_innodb_monitor_enable": "log_lsn_checkpoint_age",
        # Counts where the Performance Schema is switched on, which by itself counts none of these.
        "loose_performance_schema_instrument": "wait/synch/%/innodb/%=ON",
    }


def by_sysbench(
    works: Works,
    *,
    tables: int,
    rows: int,
    bases: Mapping[str, str],
    usual: Mapping[str, str],
    foreign_keys: int = 0,
) -> Experiment:
    """What all loads have in common: it is queries a second that they are about, over tables of sysbench's."""

    def checked(asked: Asked, schema: Schema, host: Host) -> tuple[Work, ...]:
        found = works(asked, schema, host)
        check_held(found, asked, schema, host)
        _check_clients(found, host)
        if asked.memory_ratio is None:
            return found
        return tuple(replace(work, fixed=tuple(dict.fromkeys((*work.fixed, *POOL_OPTIONS)))) for work in found)

    def for_all(asked: Asked, schema: Schema, host: Host) -> Mapping[str, str]:
        return settings(asked, schema, host, clients=most_at_once(works(asked, schema, host)))

    return Experiment(
        figure="qps",
        works=checked,
        settings=for_all,
        schema=Schema(tables, rows=rows, database=DATABASE, foreign_keys=foreign_keys, more_row_bytes=ROW_BYTES),
        template="sysbench.sql.j2",
        programs=(SYSBENCH,),
        bases=bases,
        usual=usual,
    )


def most_at_once(works: Iterable[Work]) -> int:
    """Clients of a load, and who polls beside it."""
    loads = [work.task for work in works if isinstance(work.task, Load)]
    return max((load.threads + (load.poll.clients if load.poll else 0) for load in loads), default=0)


def _check_clients(works: Iterable[Work], host: Host) -> None:
    clients, most = most_at_once(works), most_clients(host.open_files)
    if clients > most:
        raise UsageError(
            f"{clients:,} clients at once are more than the {host.open_files:,} files suffice for that a server may "
            f"open here (ulimit -n): {max(0, most):,}",
            "give fewer THREADS=, or fewer POLLERS= where these are the many",
        )


def powers_of_two(most: int) -> tuple[int, ...]:
    found = [1]
    while found[-1] * 2 <= most:
        found.append(found[-1] * 2)
    return tuple(found)


def wished(asked: Asked, names: tuple[str, ...], none: str) -> tuple[str, ...]:
    """Of an experiment's questions those that are asked for, else all of them; `none` begins the refusal of another."""
    for name in asked.parts:
        if name not in names:
            raise UsageError(f"{none} '{name}'", f"there are: {', '.join(names)}")
    return asked.parts or names


@dataclass(frozen=True)
class OnItsDisk:
    """A question that needs a disk of its own: where none can be made it is left out, unless it is asked for."""

    name: str
    why_not: Callable[[Host], str | None]

    def among(self, found: tuple[str, ...], *, asked: Asked, host: Host) -> tuple[str, ...]:
        """Of these questions those that can be asked here."""
        if self.name not in found or (why := self.why_not(host)) is None:
            return found
        if self.name in asked.parts:
            raise HostUnfitError(
                f"{self.name} needs a disk of its own, and none can be had here: {why}",
                f"root, loop devices, mkfs.ext4 and the step `{RootStep.MOUNT}` are needed; "
                "leave it out of QUESTION= without",
            )
        return tuple(one for one in found if one != self.name)

    def left_out(self, asked: Asked, host: Host) -> tuple[str, ...]:
        why = None if asked.parts else self.why_not(host)
        if why is None:
            return ()
        return (f"{self.name} is left out: it needs a disk of its own, and none can be had here: {why}",)
