"""How long does the server take to come back after a SIGKILL, with a cold cache and with a warm one?"""

from __future__ import annotations

from recovery.measured import ColdProof, Startup, WarmProof
from recovery.model import Cache, Variant
from recovery.scenarios.bench import Bench
from recovery.scenarios.outcome import Outcome
from recovery.scenarios.scenario import Judgement, Scenario, judge_contents
from recovery.scenarios.warmth import start_warm
from recovery.stored import Verdict

TITLE = "Startup after SIGKILL"
QUESTION = "How long does this server take to come back after a crash, on this storage?"


def crash(bench: Bench) -> str:
    """Insert, and SIGKILL at once."""
    bench.fire_inserts()
    return bench.kill()


def start_and_crash(bench: Bench) -> str:
    bench.start()
    return crash(bench)


def measure(bench: Bench, variant: Variant) -> Outcome:
    if variant.cache is Cache.WARM:
        died, startup, warm = start_warm(bench, lambda: start_and_crash(bench))
        return conclude(bench, startup, died, warm=warm)
    bench.start()
    means = bench.flush()  # between the start and the inserts, as published
    died = crash(bench)
    proof = None if bench.conditions.as_published else bench.make_cold()
    return conclude(bench, bench.timed_start("timed.err"), died, proof=proof, means=means)


def conclude(
    bench: Bench,
    startup: Startup,
    died: str,
    *,
    proof: ColdProof | None = None,
    means: str | None = None,
    warm: WarmProof | None = None,
) -> Outcome:
    """Looks at what came back, and leaves a cleanly stopped server behind: every trial begins from the same state."""
    samples = bench.samples()
    contents = bench.contents()
    bench.stop()
    return Outcome(
        startup=startup,
        previous_exit=died,
        cold=proof,
        cold_means=proof.means if proof else means,
        warm=warm,
        tables_expected=contents.tables_expected,
        tables_found=contents.tables_found,
        rows_expected=contents.rows_expected,
        rows_found=contents.rows_found,
        rows_lost=contents.rows_lost,
        touched=bench.touched(),
        samples=samples,
    )


def judge(outcome: Outcome) -> Judgement:
    if outcome.startup.crash_proof is None:
        return Verdict.VOID, "the log does not show a crash recovery: the server started as after a clean shutdown"
    return judge_contents(outcome)


COLD = Scenario("cold-recovery", QUESTION, TITLE, (Cache.COLD,), measure, judge)
WARM = Scenario("warm-recovery", QUESTION, TITLE, (Cache.WARM,), measure, judge)
BOTH = Scenario("crash-recovery", QUESTION, TITLE, (Cache.COLD, Cache.WARM), measure, judge)
