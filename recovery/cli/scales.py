"""The sizes of each experiment with SCALE=quick and SCALE=standard.

Those of SCALE=published are in the experiments' own files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recovery.experiments.load_plan import THREADS_PER_CPU

QUICK, STANDARD, PUBLISHED = "quick", "standard", "published"

_STARTS: Mapping[str, Mapping[str, Any]] = {
    QUICK: {"tables": 1000, "runs": 1},
    STANDARD: {"tables": 20_000, "runs": 3},
}
_QUICK_LOAD = {"seconds": 5, "warmup": 2, "runs": 1}
_STANDARD_LOAD = {"seconds": 8, "warmup": 2}
_SIZES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "cold-recovery": _STARTS,
    "warm-recovery": _STARTS,
    "crash-recovery": _STARTS,
    "clean-start": _STARTS,
    "scale": {QUICK: {"tables": "1000 5000 20000", "runs": 1}},
    "metadata": {
        QUICK: {"schemas": 10, "tables": 100, "runs": 1},
        STANDARD: {"tables": 200},
    },
    "interference": {
        QUICK: {"tables": 1000, **_QUICK_LOAD},
        STANDARD: {"seconds": 30, "warmup": 5},
    },
    # The tables of the last two are alike, so that both use one data directory.
    "table-cache": {
        QUICK: {
            "tables": 8, "rows": 10_000, "workload": "read-only", "load_tables": 1, "threads": "{clients}",
            **_QUICK_LOAD,
        },
        STANDARD: {"tables": 8, "rows": 100_000, "threads": "{clients}", **_STANDARD_LOAD},
    },
    "write-scaling": {
        QUICK: {
            "tables": 8, "rows": 10_000, "workload": "read-write update-nokey", "threads": "{clients}",
            "parts": "scaling", **_QUICK_LOAD,
        },
        STANDARD: {"tables": 8, "rows": 100_000, "threads": "1 {clients}", **_STANDARD_LOAD},
    },
    "crash-matrix": {QUICK: {"runs": 1}, STANDARD: {"runs": 6}},
}  # fmt: skip
"""Values of options, by the names of click's parameters. A size that is missing is the published one."""
_MAX_THREADS = 64


def scale_sizes(experiment: str, scale: str, *, cpus: int) -> dict[str, str]:
    """Returns the values that a scale gives to the options of an experiment."""
    sizes = _SIZES.get(experiment, {}).get(scale, {})
    return {name: str(value).format(clients=max_threads(cpus)) for name, value in sizes.items()}


def max_threads(cpus: int) -> int:
    """Returns the largest number of threads to measure with on this host, a power of two."""
    return 1 << (min(_MAX_THREADS, THREADS_PER_CPU * cpus).bit_length() - 1)
