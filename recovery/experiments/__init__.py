"""The experiments: one file each, and one line each in this list. A file is imported when its experiment is used."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from recovery.errors import UsageError

if TYPE_CHECKING:
    from recovery.experiments.experiment import Experiment


_PRECISION = ("precision", "max_runs")
_ALL_STARTS = (
    "scale", "schemas", "layout", "columns", "database", "template", "insert_template", "inserts", "as_published",
    "trace", "stacks", "floor", "fail_over",
)  # fmt: skip
_STARTS = (*_ALL_STARTS, *_PRECISION)
_LOADS = ("scale", "seconds", "warmup", "threads", "workload", "load_tables", "memory_ratio", "option", *_PRECISION)
_EXTRAS = ("profile", "waits")
_METADATA = ("scale", "schemas", "queries", "published_build", *_EXTRAS, *_PRECISION)
_POLLED = (*_LOADS, "queries", "pollers", "every", *_EXTRAS)
_CRASHES = ("schemas", "question", "seed", "only")


@dataclass(frozen=True)
class Entry:
    """An experiment as the command line knows it before its file is imported."""

    location: str
    """Module and name."""
    help: str
    options: tuple[str, ...]
    """In addition to those that all measuring commands have."""


EXPERIMENTS = {
    "cold-recovery": Entry("crash_recovery:COLD", "Startup after SIGKILL, cold.", _STARTS),
    "warm-recovery": Entry("crash_recovery:WARM", "Startup after SIGKILL, warm.", _STARTS),
    "crash-recovery": Entry("crash_recovery:BOTH", "Startup after SIGKILL, cold and warm.", _STARTS),
    "clean-start": Entry("clean_start:CLEAN_START", "Clean start, cold and warm.", _STARTS),
    "scale": Entry("scale:SCALE", "Cold startup after SIGKILL, by number of tables.", (*_ALL_STARTS, "predict")),
    "metadata": Entry("metadata:METADATA", "information_schema and dumps.", _METADATA),
    "interference": Entry("interference:INTERFERENCE", "A load with concurrent information_schema queries.", _POLLED),
    "table-cache": Entry("table_cache:TABLE_CACHE", "sysbench by table cache instances.", (*_LOADS, *_EXTRAS)),
    "write-scaling": Entry("write_scaling:WRITE_SCALING", "InnoDB under load.", (*_LOADS, "question", *_EXTRAS)),
    "crash-matrix": Entry(
        "crash_matrix:CRASH_MATRIX", "What survives a crash.", ("scale", *_CRASHES, "option", "depth")
    ),
    "damage": Entry("damage:DAMAGE", "Damaged files after a SIGKILL.", _CRASHES),
}


def find_experiment(name: str) -> Experiment:
    """Imports and returns the experiment of this name."""
    if name not in EXPERIMENTS:
        raise UsageError(f"there is no experiment '{name}'", f"there are: {', '.join(EXPERIMENTS)}")
    module, _, attribute = EXPERIMENTS[name].location.partition(":")
    found: Experiment = getattr(import_module(f"{__name__}.{module}"), attribute)
    return found
