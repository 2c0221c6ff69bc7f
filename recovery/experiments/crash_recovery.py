"""The scenarios cold-recovery, warm-recovery and crash-recovery: how long a server takes to start after a SIGKILL.

Also contains the repetition of warm starts and the end of a trial, which other scenarios of timed starts share."""

from __future__ import annotations

from collections.abc import Callable

from recovery.analysis.warm import next_to_nothing
from recovery.errors import TrialVoidError
from recovery.experiments.bench import Bench
from recovery.experiments.experiment import Judgement, Outcome, Scenario, judge_contents
from recovery.model import Cache, ColdProof, Startup, Variant, Verdict, WarmProof

# --- Warm starts
#
# Starts are repeated until another one would not read less: then the last one counts. Whether it was really warm is
# judged later from the stored data: see `recovery/analysis/warm.py`.

MOST_WARMUPS = 6
FALLEN_BY = 0.1
GROWN_TO = 2
"""If the reads grow by more than this factor, the cache was lost meanwhile, and the start does not count."""


def settled(read_bytes: int | None, *, before: int | None, data_bytes: int | None, warmups: int = 0) -> bool:
    """Returns whether a start read almost nothing, or no longer less than the start before it.

    Waiting for zero reads could take forever: some servers always bypass the cache, data larger than memory never stays
    in it, and some hosts evict pages that were not used for a while."""
    if read_bytes is None:
        return warmups > 0  # the host cannot tell: one start must have warmed what it can
    if next_to_nothing(read_bytes, data_bytes):
        return True
    return before is not None and (1 - FALLEN_BY) * before <= read_bytes <= GROWN_TO * before


def start_warm(bench: Bench, end_previous: Callable[[], str]) -> tuple[str, Startup, WarmProof]:
    """Ends the server and times its start repeatedly until the reads of a start have settled, and returns that start.

    The starts before it are warm-ups. The choice depends on bytes only, never on seconds. Raises TrialVoidError if the
    reads do not settle."""
    for warmups in range(MOST_WARMUPS + 1):
        before = bench.last_read_bytes
        ended = end_previous()
        resident = bench.resident_share()
        startup = bench.timed_start(f"timed-{warmups}.err")
        if settled(startup.usage.read_bytes, before=before, data_bytes=bench.data_bytes, warmups=warmups):
            return ended, startup, WarmProof(warmups, resident, bench.resident_share())
        bench.stop()
    raise TrialVoidError(
        f"the reads at a warm start did not settle in {MOST_WARMUPS + 1} starts",
        "something else on this host uses the page cache; stop it, or give the host more memory than the data",
    )


# --- The scenarios

TITLE = "Startup after SIGKILL"
QUESTION = "How long does this server take to come back after a crash, on this storage?"


def crash(bench: Bench) -> str:
    """Runs the insert script, kills the server immediately afterwards, and returns how it ended."""
    bench.fire_inserts()
    return bench.kill()


def start_and_crash(bench: Bench) -> str:
    bench.start()
    return crash(bench)


def measure(bench: Bench, variant: Variant) -> Outcome:
    """Crashes the server and times its start, with the cache as the variant says."""
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
    """Counts what the server has after the timed start, stops it cleanly, and returns the outcome of the trial.

    After the clean stop every trial begins from the same state."""
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
    """Returns VOID if the log shows no crash recovery, otherwise the verdict on the contents."""
    if outcome.startup.crash_proof is None:
        return Verdict.VOID, "the log does not show a crash recovery: the server started as after a clean shutdown"
    return judge_contents(outcome)


COLD = Scenario("cold-recovery", QUESTION, TITLE, (Cache.COLD,), measure, judge)
WARM = Scenario("warm-recovery", QUESTION, TITLE, (Cache.WARM,), measure, judge)
BOTH = Scenario("crash-recovery", QUESTION, TITLE, (Cache.COLD, Cache.WARM), measure, judge)
