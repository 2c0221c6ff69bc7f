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
    "scale", "schemas", "layout", "columns", "database", "statistics", "template", "insert_template", "inserts",
    "as_published", "trace", "stacks", "floor", "fail_over", "StartOptions",
)  # fmt: skip
_STARTS = (*_ALL_STARTS, "OwnDataOptions", *_PRECISION)
"""All but `scale`: its fit and prediction need the tool's own tables, and the same number of runs at every size, chosen
without seeing them."""
_LOADS = ("scale", "option", "WorkloadOptions", "LoadOptions", *_PRECISION)
_EXTRAS = ("profile", "waits")
_METADATA = (
    "scale", "schemas", "statistics", "question", "QueryOptions", "MetadataOptions", *_EXTRAS, *_PRECISION,
)  # fmt: skip
_POLLED = (*_LOADS, "QueryOptions", "InterferenceOptions", *_EXTRAS)
_CRASHES = ("schemas", "question", "CrashOptions")


@dataclass(frozen=True)
class Entry:
    """An experiment as the command line knows it before its file is imported."""

    location: str
    """Module, and name in it."""
    help: str
    options: tuple[str, ...]
    """Names of options that it has in addition to those of all measuring commands, and the classes whose options it
    has."""


EXPERIMENTS = {
    "cold-recovery": Entry(
        "recovery.experiments.crash_recovery:COLD", "Time crash recovery with an empty page cache.", _STARTS
    ),
    "warm-recovery": Entry(
        "recovery.experiments.crash_recovery:WARM", "Time crash recovery with the files in the cache.", _STARTS
    ),
    "crash-recovery": Entry(
        "recovery.experiments.crash_recovery:BOTH", "Time both, over the same data directory.", _STARTS
    ),
    "clean-start": Entry(
        "recovery.experiments.clean_start:CLEAN_START", "Time starts after a clean shutdown: the baseline.", _STARTS
    ),
    "scale": Entry(
        "recovery.experiments.scale:SCALE", "Time cold crash recovery by number of tables.", (*_ALL_STARTS, "predict")
    ),
    "metadata": Entry("recovery.loads.metadata:METADATA", "Time information_schema queries and dumps.", _METADATA),
    "interference": Entry(
        "recovery.loads.interference:INTERFERENCE", "Measure a load during information_schema queries.", _POLLED
    ),
    "table-cache": Entry(
        "recovery.loads.table_cache:TABLE_CACHE",
        "Measure loads by number of table cache instances.",
        (*_LOADS, *_EXTRAS),
    ),
    "write-scaling": Entry(
        "recovery.loads.write_scaling:WRITE_SCALING",
        "Measure InnoDB loads by number of clients.",
        (*_LOADS, "question", *_EXTRAS),
    ),
    "crash-matrix": Entry(
        "recovery.crash.crash_matrix:CRASH_MATRIX",
        "Count what survives kills at random moments.",
        ("scale", *_CRASHES, "option", "CrashMatrixOptions"),
    ),
    "pending-work": Entry(
        "recovery.crash.pending_work:PENDING_WORK",
        "Time crash recovery by dirty pages, redo and open transactions.",
        ("scale", "option", "WorkloadOptions", "PendingOptions", *_PRECISION),
    ),
    "damage": Entry("recovery.crash.damage:DAMAGE", "Start over a full disk and damaged files.", _CRASHES),
}


def find_experiment(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        raise UsageError(f"there is no experiment '{name}'", f"there are: {', '.join(EXPERIMENTS)}")
    module, _, attribute = EXPERIMENTS[name].location.partition(":")
    experiment: Experiment = getattr(import_module(module), attribute)
    return experiment
