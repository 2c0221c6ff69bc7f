"""The experiment clean-start: how long a start takes without a crash, as the baseline for crash recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recovery.experiments.crash_recovery import measure_restart
from recovery.experiments.experiment import Judgement, judge_contents, start_experiment
from recovery.model import Cache, Measurement, Variant, Verdict

if TYPE_CHECKING:
    from recovery.experiments.bench import Bench


def measure(bench: Bench, variant: Variant) -> Measurement:
    """Runs the same inserts as a crash trial, but shuts the server down cleanly."""
    return measure_restart(bench, variant, bench.stop)


def judge(measured: Measurement) -> Judgement:
    """Returns VOID if the log shows a crash recovery, otherwise the verdict on the contents."""
    if measured.startup.crash_proof is not None:
        return Verdict.VOID, f"the log shows a crash recovery: {measured.startup.crash_proof}"
    return judge_contents(measured)


CLEAN_START = start_experiment(
    "clean-start",
    "How long does this server take to start after a clean shutdown?",
    "Clean start",
    (Cache.COLD, Cache.WARM),
    measure,
    judge,
)
