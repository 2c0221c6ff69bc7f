"""What does a start cost without a crash? The baseline that crash recovery is held against."""

from __future__ import annotations

from recovery.experiments.bench import Bench
from recovery.experiments.crash_recovery import conclude, start_warm
from recovery.experiments.experiment import Judgement, Outcome, Scenario, judge_contents
from recovery.model import Cache, Variant, Verdict


def shut_down(bench: Bench) -> str:
    """The same inserts as in a crash trial, but the server may finish its work."""
    bench.start()
    bench.fire_inserts()
    return bench.stop()


def measure(bench: Bench, variant: Variant) -> Outcome:
    if variant.cache is Cache.WARM:
        ended, startup, warm = start_warm(bench, lambda: shut_down(bench))
        return conclude(bench, startup, ended, warm=warm)
    ended = shut_down(bench)
    proof = bench.make_cold()
    return conclude(bench, bench.timed_start("timed.err"), ended, proof=proof)


def judge(outcome: Outcome) -> Judgement:
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
