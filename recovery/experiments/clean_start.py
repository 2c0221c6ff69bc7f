"""The scenario clean-start: how long a start takes without a crash, as the baseline for crash recovery."""

from __future__ import annotations

from recovery.experiments.bench import Bench
from recovery.experiments.crash_recovery import finish_trial, time_warm_start
from recovery.experiments.experiment import Judgement, Scenario, StartMeasurement, judge_contents
from recovery.model import Cache, Variant, Verdict


def insert_and_shut_down(bench: Bench) -> str:
    """Runs the same inserts as a crash trial, but shuts the server down cleanly; returns how it ended."""
    bench.start()
    bench.fire_inserts()
    return bench.stop()


def measure(bench: Bench, variant: Variant) -> StartMeasurement:
    """Shuts the server down cleanly and times its start, with the cache as the variant says."""
    if variant.cache is Cache.WARM:
        ended, startup, warm = time_warm_start(bench, lambda: insert_and_shut_down(bench))
        return finish_trial(bench, startup, ended, warm=warm)
    ended = insert_and_shut_down(bench)
    proof = bench.make_cold()
    return finish_trial(bench, bench.timed_start("timed.err"), ended, proof=proof)


def judge(outcome: StartMeasurement) -> Judgement:
    """Returns VOID if the log shows a crash recovery, otherwise the verdict on the contents."""
    if outcome.startup.crash_proof is not None:
        return Verdict.VOID, f"the log shows a crash recovery: {outcome.startup.crash_proof}"
    return judge_contents(outcome)


CLEAN_START = Scenario(
    "clean-start",
    "What does a start cost this server without a crash?",
    "Clean start",
    (Cache.COLD, Cache.WARM),
    measure,
    judge,
)
