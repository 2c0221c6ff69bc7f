"""The scenarios cold-recovery, warm-recovery and crash-recovery: how long a server takes to start after a SIGKILL.

Also contains the repetition of warm starts and the end of a trial, which other scenarios of timed starts share."""

from __future__ import annotations

from collections.abc import Callable

from recovery.analysis.warm import reads_almost_nothing
from recovery.errors import TrialVoidError
from recovery.experiments.bench import Bench
from recovery.experiments.experiment import Judgement, Scenario, StartMeasurement, judge_contents
from recovery.model import Cache, ColdProof, Startup, Variant, Verdict, WarmProof

# --- Warm starts
#
# Starts are repeated until another one would not read less: then the last one counts. Whether it was really warm is
# judged later from the stored data: see `recovery/analysis/warm.py`.

MOST_WARMUPS = 6
MAX_FALL = 0.1
MAX_GROWTH = 2
"""If the reads grow by more than this factor, the cache was lost meanwhile, and the start does not count."""


def reads_settled(read_bytes: int | None, *, before: int | None, data_bytes: int | None, warmups: int = 0) -> bool:
    """Returns whether a start read almost nothing, or no longer less than the start before it.

    Waiting for zero reads could take forever: some servers always bypass the cache, data larger than memory never stays
    in it, and some hosts evict pages that were not used for a while."""
    if read_bytes is None:
        return warmups > 0  # the host cannot tell: one start must have warmed what it can
    if reads_almost_nothing(read_bytes, data_bytes):
        return True
    return before is not None and (1 - MAX_FALL) * before <= read_bytes <= MAX_GROWTH * before


def time_warm_start(bench: Bench, end_previous: Callable[[], str]) -> tuple[str, Startup, WarmProof]:
    """Ends the server and times its start repeatedly until the reads of a start have settled, and returns that start.

    The starts before it are warm-ups. The choice depends on bytes only, never on seconds. Raises TrialVoidError if the
    reads do not settle."""
    for warmups in range(MOST_WARMUPS + 1):
        before = bench.last_read_bytes
        ended = end_previous()
        resident = bench.resident_share()
        startup = bench.timed_start(f"timed-{warmups}.err")
        if reads_settled(startup.usage.read_bytes, before=before, data_bytes=bench.data_bytes, warmups=warmups):
            return ended, startup, WarmProof(warmups, resident, bench.resident_share())
        bench.stop()
    raise TrialVoidError(
        f"the reads at a warm start did not settle in {MOST_WARMUPS + 1} starts",
        "something else on this host uses the page cache; stop it, or give the host more memory than the data",
    )


# --- The scenarios

TITLE = "Startup after SIGKILL"
QUESTION = "How long does this server take to come back after a crash, on this storage?"


def insert_and_kill(bench: Bench) -> str:
    """Runs the insert script, kills the server immediately afterwards, and returns how it ended."""
    bench.fire_inserts()
    return bench.kill()


def start_insert_and_kill(bench: Bench) -> str:
    bench.start()
    return insert_and_kill(bench)


def measure(bench: Bench, variant: Variant) -> StartMeasurement:
    """Crashes the server and times its start, with the cache as the variant says."""
    if variant.cache is Cache.WARM:
        died, startup, warm = time_warm_start(bench, lambda: start_insert_and_kill(bench))
        return finish_trial(bench, startup, died, warm=warm)
    bench.start()
    means = bench.flush()  # between the start and the inserts, as published
    died = insert_and_kill(bench)
    proof = None if bench.conditions.as_published else bench.make_cold()
    return finish_trial(bench, bench.timed_start("timed.err"), died, proof=proof, means=means)


def finish_trial(
    bench: Bench,
    startup: Startup,
    died: str,
    *,
    proof: ColdProof | None = None,
    means: str | None = None,
    warm: WarmProof | None = None,
) -> StartMeasurement:
    """Counts what the server has after the timed start, stops it cleanly, and returns the outcome of the trial.

    After the clean stop every trial begins from the same state."""
    samples = bench.samples()
    contents = bench.contents()
    bench.stop()
    return StartMeasurement(
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


def judge(outcome: StartMeasurement) -> Judgement:
    """Returns VOID if the log shows no crash recovery, otherwise the verdict on the contents."""
    if outcome.startup.crash_proof is None:
        return Verdict.VOID, "the log does not show a crash recovery: the server started as after a clean shutdown"
    return judge_contents(outcome)


COLD = Scenario("cold-recovery", QUESTION, TITLE, (Cache.COLD,), measure, judge)
WARM = Scenario("warm-recovery", QUESTION, TITLE, (Cache.WARM,), measure, judge)
BOTH = Scenario("crash-recovery", QUESTION, TITLE, (Cache.COLD, Cache.WARM), measure, judge)
