"""The experiments cold-recovery, warm-recovery and crash-recovery: how long a server takes to start after a SIGKILL.

Also contains what all experiments with timed starts share: one trial, and the repetition of warm starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from recovery.analysis.warm import reads_almost_nothing
from recovery.errors import TrialVoidError
from recovery.experiments.before_kill import before_kill
from recovery.experiments.experiment import TIMED_LOG, judge_recovery, start_experiment
from recovery.model import Cache, ColdProof, Measurement, Variant, WarmProof
from recovery.phase_table import has_hidden_phases

if TYPE_CHECKING:
    from recovery.experiments.bench import Bench

# --- Warm starts
#
# Starts are repeated until the bytes read stop decreasing. The last start is the measured one. Whether it was really
# warm is judged later from the stored data: see `recovery/analysis/warm.py`.

MAX_WARMUPS = 6
MAX_READ_DECREASE = 0.1
MAX_READ_GROWTH_FACTOR = 2
"""If the reads grow by more than this factor, the cache was lost meanwhile, and the start does not count."""


def reads_are_stable(
    read_bytes: float | None, *, before: float | None, data_bytes: int | None, warmups: int = 0
) -> bool:
    """Returns whether a start read almost nothing, or no longer less than the start before it.

    Waiting for zero reads could take forever: some servers always bypass the cache, data larger than memory never stays
    in it, and some hosts evict pages that were not used for a while."""
    if read_bytes is None:
        return warmups > 0  # unknown on this host: one start must have warmed what it can
    if reads_almost_nothing(read_bytes, data_bytes):
        return True
    return before is not None and (1 - MAX_READ_DECREASE) * before <= read_bytes <= MAX_READ_GROWTH_FACTOR * before


def time_warm_start(bench: Bench, end_previous: Callable[[], str]) -> Measurement:
    """Ends the server and times its start repeatedly until the bytes read are stable, and returns the last start.

    The starts before it are warm-ups; first queries need at least one, because they read more than a start. The choice
    depends on bytes only, never on seconds. Raises TrialVoidError if the bytes read do not become stable."""
    for warmups in range(MAX_WARMUPS + 1):
        before = bench.cache.last_read_bytes
        ended = end_previous()
        bench.run_before_start()
        resident = bench.cache.resident_share()
        measured = bench.timed_start(f"timed-{warmups}.err")
        is_stable = reads_are_stable(
            measured.metrics.get("read_bytes"), before=before, data_bytes=bench.datadir.state.bytes, warmups=warmups
        )
        if is_stable and (warmups or not bench.conditions.first_queries):
            warm = WarmProof(warmups, resident, bench.cache.resident_share())
            return replace(measured, previous_exit=ended, warm=warm)
        bench.stop()
    raise TrialVoidError(
        f"the bytes read by a warm start did not become stable in {MAX_WARMUPS + 1} starts",
        "something else on this host uses the page cache; stop it, or give the host more memory than the data",
    )


# --- One trial of every experiment that times starts


def end_after_inserts(bench: Bench, end_server: Callable[[], str], *, flush: bool = False) -> tuple[str, str | None]:
    """Starts the server, runs the insert script, and ends the server at once. Returns how it ended and, with `flush`,
    by what means the cache was emptied before the inserts."""
    bench.start()
    flushed = bench.cache.flush() if flush else None
    with before_kill(bench):
        bench.contents.run_inserts()
        return end_server(), flushed


def measure_restart(
    bench: Bench, variant: Variant, end_server: Callable[[], str], *, flush: bool = False
) -> Measurement:
    """Ends the server after inserts and times its next start, with the cache as the variant says.

    With `flush`, the cache is also emptied between start and inserts, as published. The trial ends with a clean
    shutdown, so that the next trial begins from the same state."""
    if variant.cache is Cache.WARM:
        return end_trial(bench, time_warm_start(bench, lambda: end_after_inserts(bench, end_server)[0]))
    ended, flushed = end_after_inserts(bench, end_server, flush=flush)
    if flush and bench.conditions.as_published:
        bench.run_before_start()
        measured = replace(bench.timed_start(TIMED_LOG), cold=ColdProof(flushed))
    else:
        measured = time_cold_start(bench)
    return end_trial(bench, replace(measured, previous_exit=ended))


def measure_as_is(bench: Bench, variant: Variant) -> Measurement:
    """Times the recovery that is ahead of a copy of the user's own data directory. Nothing was started there before."""
    bench.contents.restore()
    if variant.cache is Cache.COLD:
        measured = time_cold_start(bench)
    else:
        bench.run_before_start()
        bench.cache.read_all()
        resident = bench.cache.resident_share()
        measured = bench.timed_start(TIMED_LOG)
        measured = replace(measured, warm=WarmProof(0, resident, bench.cache.resident_share()))
    measured, startup = end_trial(bench, measured), measured.startup
    if startup.crash_proof is None and has_hidden_phases(phase.name for phase in startup.phases):
        raise TrialVoidError("the log does not show whether there was a crash", "set log_error_verbosity=3")
    if startup.crash_proof is None:
        raise TrialVoidError(
            "the log does not show a crash recovery: this data directory was shut down cleanly", "leave --as-is out"
        )
    return measured


def time_cold_start(bench: Bench) -> Measurement:
    """Empties the cache and times the next start."""
    cold = bench.cache.make_cold()
    if bench.run_before_start():
        cold = bench.cache.prove_still_cold(cold)
    return replace(bench.timed_start(TIMED_LOG), cold=cold)


def end_trial(bench: Bench, measured: Measurement) -> Measurement:
    """Counts what is there after the timed start, and shuts the server down."""
    stacks = bench.stacks()
    bench.contents.drop_temporary_schemas()
    contents = bench.contents.count()
    bench.stop()
    metrics, opened = measured.metrics | bench.metrics, bench.opened_files()
    return replace(measured, metrics=metrics, contents=contents, opened_files=opened, stacks=stacks)


# --- The experiments

TITLE = "Startup after SIGKILL"
QUESTION = "How long does this server take to start after a crash, on this storage?"


def measure(bench: Bench, variant: Variant) -> Measurement:
    if bench.is_as_is:
        return measure_as_is(bench, variant)
    return measure_restart(bench, variant, bench.kill, flush=True)


COLD = start_experiment("cold-recovery", QUESTION, TITLE, (Cache.COLD,), measure, judge_recovery)
WARM = start_experiment("warm-recovery", QUESTION, TITLE, (Cache.WARM,), measure, judge_recovery)
BOTH = start_experiment("crash-recovery", QUESTION, TITLE, (Cache.COLD, Cache.WARM), measure, judge_recovery)
