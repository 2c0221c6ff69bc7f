"""Which questions can be asked? One file each; this is the list."""

from __future__ import annotations

from recovery.errors import UsageError
from recovery.experiments import (
    clean_start,
    crash_matrix,
    crash_recovery,
    damage,
    interference,
    metadata,
    scale,
    table_cache,
    write_scaling,
)
from recovery.experiments.experiment import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    crash_recovery.COLD,
    crash_recovery.WARM,
    crash_recovery.BOTH,
    clean_start.CLEAN_START,
    scale.SCALE,
    metadata.METADATA,
    interference.INTERFERENCE,
    table_cache.TABLE_CACHE,
    write_scaling.WRITE_SCALING,
    crash_matrix.CRASH_MATRIX,
    damage.DAMAGE,
)


def find_scenario(name: str) -> Scenario:
    for scenario in SCENARIOS:
        if scenario.name == name:
            return scenario
    raise UsageError(f"there is no scenario '{name}'", "there are: " + ", ".join(known.name for known in SCENARIOS))
