"""The experiment scale: how the time of a cold crash recovery grows with the number of tables."""

from __future__ import annotations

from recovery.experiments.crash_recovery import TITLE, measure
from recovery.experiments.experiment import Experiment, judge_recovery
from recovery.model import Cache

SCALE = Experiment(
    "scale",
    "How does the startup time after a crash grow with the number of tables?",
    TITLE,
    (Cache.COLD,),
    measure,
    judge_recovery,
)
