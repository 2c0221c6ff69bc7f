"""The experiment scale: how the time of a cold crash recovery grows with the number of tables."""

from __future__ import annotations

from recovery.experiments.crash_recovery import TITLE, measure
from recovery.experiments.experiment import QUICK, StartOptions, judge_recovery, start_experiment
from recovery.model import Cache

SCALE = start_experiment(
    "scale",
    "How does the startup time after a crash grow with the number of tables?",
    TITLE,
    (Cache.COLD,),
    measure,
    judge_recovery,
    options=StartOptions,
    sizes={QUICK: {"tables": "1000 5000 20000", "runs": 1}},
    points=(1000, 10_000, 50_000, 200_000),
)
