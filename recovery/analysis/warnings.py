"""Checks a session for figures that may be misleading, and yields a finding with advice for each.

A check reads only what is stored in the session. There are checks of the runs' spread, the page cache, the host, the
server, predictions, and servers under load. `findings()` runs those that apply to a session.
"""

from __future__ import annotations

import math
import re
import statistics
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, median

from recovery.analysis.effective_options import (
    ChangedOption,
    ServerFacts,
    changed_options,
    given_options,
    same_value,
    server_of_cell,
)
from recovery.analysis.growth import growth_curves
from recovery.analysis.phase_names import PROCESS_START, REST_TO_READY, named_share, seconds_by_name
from recovery.analysis.statistics import MIN_RUNS
from recovery.analysis.summary import (
    baseline_of,
    cell_words,
    figure_summaries,
    is_load_session,
    is_switch,
    mean,
    measured_runs_by_cell,
    run_value,
    session_summaries,
)
from recovery.model import (
    MIN_PROBED_BLOCKS,
    RECOVERY_FIGURE,
    Cache,
    Finding,
    HostActivity,
    Run,
    Session,
    Timeline,
    metric,
)

# --- What all checks use

Check = Callable[[Session], Iterator[Finding]]
"""Yields findings from what is stored in a session."""

MIB = 1 << 20
_MAX_SEPARATE_FINDINGS, _MAX_NAMED_CELLS = 3, 4
_MAX_VALUE = 1e30
"""A larger absolute value, or one smaller than its inverse, is not a measured figure."""


def finding(kind: str, about: str, text: str, hint: str) -> Finding:
    return Finding(about, text, hint, kind)


def cells(session: Session) -> Iterator[tuple[str, tuple[Run, ...]]]:
    """Yields the measured runs of each cell, with the cell's name in the report: `5.7.22 cold`."""
    for version, variant, runs in measured_runs_by_cell(session):
        yield f"{version} {cell_words(session, variant)}", runs


def merge_similar(found: Iterable[Finding]) -> Iterator[Finding]:
    """Merges findings of the same kind and hint that concern many cells into one: the first, with the other cells."""
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for one in found:
        kinds.setdefault((one.kind, one.hint), []).append(one)
    for group in kinds.values():
        if len(group) <= _MAX_SEPARATE_FINDINGS:
            yield from group
            continue
        first, *others = group
        told = "; ".join(one.about for one in others[:_MAX_NAMED_CELLS])
        more = f"; {len(others) - _MAX_NAMED_CELLS} more" if len(others) > _MAX_NAMED_CELLS else ""
        text = f"{first.about}: {first.text} The like of it in {told}{more}."
        yield Finding(f"{len(group)} cells", text, first.hint, first.kind)


def is_cold(run: Run) -> bool:
    return Cache.COLD.begins(run.variant)


def runs_text(runs: tuple[Run, ...] | list[Run]) -> str:
    """Returns the runs' numbers as text: `runs 1, 4`."""
    return f"run{'s' if len(runs) > 1 else ''} " + ", ".join(str(run.number) for run in runs)


def runs_above(runs: Iterable[Run], figure: Callable[[Run], float | None], limit: float) -> dict[Run, float]:
    """Returns the runs with a figure above this limit, with that figure. Runs without it are left out."""
    return {run: value for run in runs if (value := figure(run)) is not None and value > limit}


def server_of(session: Session, version: str) -> Mapping[str, str]:
    """Returns the facts about a server of this version, under the first of its settings in the session."""
    named = (known for name, known in session.servers.items() if name == version or name.startswith(f"{version} "))
    return next(named, {})


def stored_number(value: object) -> float | None:
    """Returns a stored fact as a number, or None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    return found if found == 0 or 1 / _MAX_VALUE < abs(found) < _MAX_VALUE else None


# --- Page cache: whether cold starts were cold, and whether the cache can hold the data

_USUAL_READS_SHARE = 0.8
"""A cold start that reads less than this share of what the others read found files in the cache."""


_CACHED_SPEEDUP = 2.0


def cold_but_cached(session: Session) -> Iterator[Finding]:
    """Finds starts that found files in the cache after it was emptied. A start without an empty cache is void
    already."""
    for about, runs in cells(session):
        if not is_cold(runs[0]) or len(runs) < 2:
            continue
        usual = statistics.median(_read_bytes(runs) or [0])
        read = [(run, run.read_bytes) for run in runs if run.read_bytes is not None]
        less = [run for run, count in read if count < min(_USUAL_READS_SHARE * usual, usual - 4 * MIB)]
        if less:
            least = min(run.read_bytes or 0 for run in less)
            yield finding(
                "cold-was-not", about,
                f"Only {least / 1e6:.0f} MB were read in {runs_text(less)}, where {usual / 1e6:.0f} MB are usual.",
                "Something else read these files meanwhile (a backup, a virus scanner, another start): stop it, and "
                "measure again.",
            )  # fmt: skip


def cache_below_host(session: Session) -> Iterator[Finding]:
    told = cache_below_host_text(session.environment)
    if told is not None and any(run.cold_means for run in session.runs):
        yield finding(
            "cached-below", "host", f"{told} Cold means cold to this machine only.",
            "Compare starts over files that had been read as often before; look at the first cold start apart.",
        )  # fmt: skip


def cache_below_host_text(environment: Mapping[str, object]) -> str | None:
    """Returns what the read probe of the host found, as text. None if it found no cache below this machine, or could
    read too few blocks to find one."""
    times, blocks = (stored_number(environment.get(f"probe_again_{name}")) for name in ("times_faster", "blocks"))
    if times is None or blocks is None or times < _CACHED_SPEEDUP or blocks < MIN_PROBED_BLOCKS:
        return None
    first, again = environment.get("probe_first_read_ms"), environment.get("probe_read_again_ms")
    faster = f"{times:.0f}" if times >= 10 else f"{times:.1f}"
    return (
        f"Blocks that were just read answer {faster} times as fast ({first} ms, then {again} ms): something below this "
        "machine (hypervisor, disk controller, the disk itself) keeps what was read."
    )


def cold_not_proved(session: Session) -> Iterator[Finding]:
    as_published = bool(session.settings.get("as_published"))
    for about, runs in cells(session):
        starts = [run for run in runs if run.cold_means]
        if not starts:
            continue
        if {run.cold_means for run in starts} == {"fadvise"}:
            yield finding(
                "inodes-were-warm", about,
                "Files were evicted one by one: inodes and names stayed in memory, which a reboot empties too.",
                _drop_caches_hint(session),
            )  # fmt: skip
        unknown = [run for run in starts if run.resident_before_bytes is None]
        if unknown and not as_published:
            yield finding(
                "cold-not-proved", about,
                f"Nobody could tell what was left in the cache before {runs_text(unknown)}.",
                "Compare the bytes read; a kernel from 6.5 on, and no overlay under the data, can tell (doctor).",
            )  # fmt: skip


def _drop_caches_hint(session: Session) -> str:
    if session.settings.get("no_drop_caches"):
        # Older sessions have `no_root_steps`, the names of the refused steps.
        unprivileged = session.settings.get("unprivileged") or session.settings.get("no_root_steps")
        by = "--unprivileged" if unprivileged not in (None, False, "drop-caches") else "--no-drop-caches"
        return f"This is what {by} does: leave it out for a start as cold as after a reboot."
    if session.environment.get("root") == "yes":
        return "Let the tool write /proc/sys/vm/drop_caches (root in a container without privileges may not)."
    return "Run as root, who may drop the host's caches."


def data_larger_than_memory(session: Session) -> Iterator[Finding]:
    limit, memory = (
        stored_number(session.settings.get("memory_bytes")),
        stored_number(session.environment.get("memory_bytes")),
    )
    holds = min((one for one in (limit, memory) if one), default=None)
    for version in session.versions:
        data = _data_bytes(session, version)
        if holds is not None and data > holds:
            yield finding(
                "larger-than-memory", version,
                f"{data / 1e9:.1f} GB of data, {holds / 1e9:.1f} GB of memory{' allowed' if holds == limit else ''}: "
                "the cache never holds all of it.",
                "See what its warm starts read before you call them warm; fewer TABLES= fit.",
            )  # fmt: skip


def _data_bytes(session: Session, version: str) -> float:
    return stored_number(server_of(session, version).get("data_bytes")) or 0.0


def _read_bytes(runs: Sequence[Run]) -> list[int]:
    return [run.read_bytes for run in runs if run.read_bytes is not None]


CACHE_CHECKS: tuple[Check, ...] = (cold_but_cached, cache_below_host, cold_not_proved, data_larger_than_memory)


# --- Predictions: whether the smaller numbers of tables predict the largest one


def failed_prediction(session: Session) -> Iterator[Finding]:
    for curve in growth_curves(session):
        found = curve.held_out
        if found is None or curve.predicts:
            continue
        yield finding(
            "no-line", f"{curve.version} {curve.variant}",
            f"The smaller points predict {found.predicted.seconds:.1f} s for {found.tables:,} tables, "
            f"{found.measured_s:.1f} s were measured.",
            f"Rely on no prediction for more than {found.tables:,} tables: measure there.",
        )  # fmt: skip


GROWTH_CHECKS: tuple[Check, ...] = (failed_prediction,)


# --- Host: whether it left the server undisturbed, and gave it all its resources

_OTHERS_BUSY_CPUS = 0.1
"""CPUs kept busy by other processes, on average."""
_MAX_STEAL_SHARE = 0.02
_MAX_THROTTLED_SHARE = 0.01
"""Share of the startup."""
_MIN_CPU_S = 0.1
"""The host counts CPU time in ticks of 10 ms; less than this is too few ticks for a finding."""
_MIN_PROCESS_START_SHARE = 0.05
"""Least share of the startup for the phase in which the process starts."""
_MAX_OTHERS_IO_SHARE = 0.05
"""Share of what the server read."""
_IGNORED_BYTES = 64 * MIB
"""A killed server leaves some megabytes in the page cache that are written while the next server starts."""
_FALLING_RATE = 0.8
_EBS_MODEL = "Amazon Elastic Block Store"
_BURSTABLE_INSTANCES = ("t2.", "t3.", "t3a.", "t4g.")


def other_load(session: Session) -> Iterator[Finding]:
    yield from _time_share_findings(
        session, "other-cpu-load", lambda around: around.others_cpu_s, _OTHERS_BUSY_CPUS,
        "Others kept {most:.1f} CPUs busy during {runs}.",
        "Find out who it was (top), stop it, and measure again.",
    )  # fmt: skip
    for about, runs in cells(session):
        disturbed = [
            run
            for run in runs
            if _others_bytes(run) > max(_IGNORED_BYTES, _MAX_OTHERS_IO_SHARE * (run.read_bytes or 0))
        ]
        if disturbed:
            most = max(map(_others_bytes, disturbed))
            yield finding(
                "other-disk-load", about,
                f"Others read and wrote up to {most / 1e6:,.0f} MB on the same device during {runs_text(disturbed)}.",
                "Find out who it was (iotop), stop it, and measure again" + _own_volume_hint(session),
            )  # fmt: skip


def _own_volume_hint(session: Session) -> str:
    """Returns additional advice if the data shares its device with this tool."""
    tool, data = session.environment.get("tool_device"), session.environment.get("device")
    return "; or give the data its own volume (DATA=)." if tool == data else "."


def _others_bytes(run: Run) -> int:
    around = run.around
    return 0 if around is None else (around.others_read_bytes or 0) + (around.others_written_bytes or 0)


def stolen_cpu(session: Session) -> Iterator[Finding]:
    yield from _time_share_findings(
        session, "steal", lambda around: around.steal_s, _MAX_STEAL_SHARE,
        "The hypervisor gave {most:.0%} of a CPU to other machines during {runs}.",
        "Measure on a host that shares its CPUs with nobody (a larger or dedicated instance).",
    )  # fmt: skip


def throttled(session: Session) -> Iterator[Finding]:
    """Finds runs that a control group throttled, unless the user limited the CPUs."""
    if session.settings.get("cpus"):
        return
    yield from _time_share_findings(
        session, "throttled", lambda around: around.throttled_s, _MAX_THROTTLED_SHARE,
        "A control group held its processes back for {most:.0%} of the time of {runs}.",
        "The quota of the container or service that this tool was started in is too small: raise it, or set CPUS= and "
        "call it a limit.",
    )  # fmt: skip


def _time_share_findings(
    session: Session, kind: str, seconds: Callable[[HostActivity], float | None], least: float, *said: str
) -> Iterator[Finding]:
    text, hint = said
    for about, runs in cells(session):
        shares = {run: _time_share(run.around, seconds) for run in runs}
        over = [run for run, share in shares.items() if share > least and share * _observed_s(run) > _MIN_CPU_S]
        if over:
            most = max(shares[run] for run in over)
            yield finding(kind, about, text.format(most=most, runs=runs_text(over)), hint)


def _observed_s(run: Run) -> float:
    return run.around.seconds if run.around else 0.0


def _time_share(around: HostActivity | None, seconds: Callable[[HostActivity], float | None]) -> float:
    return 0.0 if around is None or around.seconds <= 0 else (seconds(around) or 0.0) / around.seconds


def burst_credits(session: Session) -> Iterator[Finding]:
    """Finds falling rates of reads. This is only a suspicion, because a machine cannot see its burst credits."""
    kind = str(session.environment.get("ec2_instance_type") or "")
    volume = session.environment.get("ebs_volume")
    for about, runs in cells(session):
        rates = [run.reads_per_s for run in runs if run.reads_per_s]
        falling = len(rates) >= 3 and rates == sorted(rates, reverse=True) and rates[-1] < _FALLING_RATE * rates[0]
        if falling and is_cold(runs[0]) and (volume or kind.startswith(_BURSTABLE_INSTANCES)):
            yield finding(
                "burst-credits", about,
                f"Reads a second fell from run to run, from {rates[0]:,.0f} to {rates[-1]:,.0f}: burst credits may "
                "have run out.",
                "See BurstBalance and EBSIOBalance% (CPUCreditBalance on t instances) for this time; measure on gp3, "
                "io2 or an instance that does not burst.",
            )  # fmt: skip


def snapshot_volume(session: Session) -> Iterator[Finding]:
    """Finds first runs with slow reads. This is only a suspicion, because a volume does not show where its blocks
    are."""
    if not session.environment.get("ebs_volume") and session.environment.get("device_model") != _EBS_MODEL:
        return
    for about, runs in cells(session):
        first, *others = [run.reads_per_s or 0.0 for run in runs]
        if is_cold(runs[0]) and others and 0 < first < min(others) / 2:
            yield finding(
                "snapshot-volume", about,
                f"The first run did {first:,.0f} reads a second, the others {min(others):,.0f} and more: the volume "
                "may have been made from a snapshot, whose blocks are fetched when they are first read.",
                "Read all of it once before (dd, fio), or use fast snapshot restore; or keep the first run apart, if "
                "that is your question.",
            )  # fmt: skip


def program_on_other_device(session: Session) -> Iterator[Finding]:
    data = session.environment.get("device")
    own = session.settings.get("mysqld")
    beside = "put your server there too" if own else "set RECOVERY_CACHE to a folder there"
    for about, runs in cells(session):
        program = server_of(session, runs[0].version).get("program_device")
        if is_cold(runs[0]) and data and program and program != data and _start_share(runs) > _MIN_PROCESS_START_SHARE:
            yield finding(
                "filesystems", about,
                f"The server's program lies on {program}, its data on {data}: a cold start loads the program from the "
                "other one, whose reads are not counted and not limited.",
                f"See the phase {PROCESS_START} for what it costs; to have both on one, {beside}.",
            )  # fmt: skip


def _start_share(runs: Sequence[Run]) -> float:
    shares = [seconds_by_name(run.phases).get(PROCESS_START, 0.0) / (run.startup_s or 1.0) for run in runs]
    return mean(shares) or 0.0


HOST_CHECKS: tuple[Check, ...] = (
    other_load,
    stolen_cpu,
    throttled,
    burst_credits,
    snapshot_volume,
    program_on_other_device,
)


# --- Load: whether the server was the bottleneck, on a quiet host, for long enough, and as requested

_BUSY_CLIENTS_SHARE = 0.85
"""Share of the CPUs available to the clients, above which the clients may have been the bottleneck."""
_MIN_CLIENTS_SHARE = 0.3
"""Share of the host's CPUs used by the clients, for a host without idle CPUs."""
_MIN_IDLE_SHARE = 0.05
"""Share of the host's CPUs; with less than this idle, none counts as idle."""
_MAX_OTHERS_CPUS = 0.1
"""CPUs kept busy by other processes, on average."""
_MAX_RATE_CHANGE = 0.1
_MIN_SAMPLES = 9
_MIN_LOAD_S = 60
_WIDE_LOAD_INTERVAL = 0.1
"""Half of the mean's interval, divided by the mean."""
_MAX_ERROR_SHARE = 0.001
_MAX_OTHERS_READ_RATIO, _MAX_OTHERS_WRITTEN_RATIO = 0.1, 1.0
"""Ratio to what the server read or wrote itself. It is larger for writes, because a file system writes more than it is
given."""
_POLL_RATE = "polls_per_s"
_DUMP = "dump"
"""Name of the dump program among the clients of a run."""


def client_bottleneck(session: Session) -> Iterator[Finding]:
    cpus = stored_number(session.environment.get("cpus"))
    for about, runs in cells(session):
        used, allowed = mean(run.measures.get("client_cpus") for run in runs), _available_client_cpus(session, runs)
        if used is None:
            continue
        if allowed is not None and used >= _BUSY_CLIENTS_SHARE * allowed:
            yield finding(
                "client-was-the-bottleneck", about,
                f"The clients kept {used:.1f} CPUs busy, of {allowed:g} that they could use at once: they may have "
                "been slower than the server.",
                "Give the clients more CPUs or more threads, or a host of their own; until then this is a lower bound "
                "of what the server can do.",
            )  # fmt: skip
        elif (
            cpus
            and used > min(_MIN_CLIENTS_SHARE * cpus, _server_cpus(runs))
            and _idle_cpus(runs, cpus) < _MIN_IDLE_SHARE * cpus
        ):
            yield finding(
                "client-was-the-bottleneck", about,
                f"The clients used {used:.1f} of the host's {cpus:g} CPUs, and none was idle: client and server share "
                "the CPUs.",
                "The server had only what the clients left: hold versions against each other, and no figure against "
                "that of a host where the clients have CPUs of their own.",
            )  # fmt: skip


def _available_client_cpus(session: Session, runs: Sequence[Run]) -> float | None:
    """Returns how many CPUs the clients can use at once: one for each thread, and no more than they are pinned to. A
    dump has one thread, which is not pinned."""
    if any(_DUMP in run.clients for run in runs):
        return 1.0
    if metric(session.figure).unit != "/s":
        return None
    cell = session.cells.get(runs[0].variant, {})
    threads = stored_number(cell.get("threads")) or stored_number(session.settings.get("threads"))
    pinned = _pinned_cpus(session.settings.get("client_cpus"))
    return min((one for one in (threads, pinned) if one), default=None)


def _pinned_cpus(told: str | float | bool | None) -> float | None:
    """Returns how many CPUs a setting names, either as a number or as a list: `2-3,6`."""
    if not isinstance(told, str):
        return stored_number(told)
    ends = [part.split("-") for part in told.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,9}", one) for part in ends for one in part):
        return None
    return sum(int(part[-1]) - int(part[0]) + 1 for part in ends)


def _server_cpus(runs: Sequence[Run]) -> float:
    """Returns the CPUs that the server used, or infinity if unknown. Clients usually use a third as many."""
    used = mean(run.measures.get("server_cpus") for run in runs)
    return math.inf if used is None else used


def _idle_cpus(runs: Sequence[Run], cpus: float) -> float:
    """Returns how many CPUs of the host were idle."""
    names = ("server_cpus", "client_cpus", "others_cpus")
    return cpus - sum(mean(run.measures.get(name) for run in runs) or 0.0 for name in names)


def unstable_rate(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        changed = [
            (run, change)
            for run in runs
            if (change := _rate_change(run)) is not None and abs(change) > _MAX_RATE_CHANGE
        ]
        if changed:
            most = max((change for _, change in changed), key=abs)
            yield finding(
                "never-warmed-up", about,
                f"In the last third of the measured time it did {abs(most):.0%} {'more' if most > 0 else 'less'} a "
                f"second than in the first, in {runs_text([run for run, _ in changed])}.",
                "It was not at rest yet: measure longer (SECONDS=), after a longer warm-up.",
            )  # fmt: skip


def _rate_change(run: Run) -> float | None:
    """Returns the change of the rate from the first third of the measured time to the last, or None if there are too
    few samples."""
    if run.watched is None:
        return None
    series = next((one.values for one in run.watched.series if one.name == "qps"), ())
    looks = zip(run.watched.at_s, series, strict=False)
    # The first sample covers the last second of the warm-up.
    values = [value for at_s, value in looks if at_s > 0.5 and value is not None]
    third = len(values) // 3
    if len(values) < _MIN_SAMPLES or not fmean(values[:third]):
        return None
    return fmean(values[-third:]) / fmean(values[:third]) - 1


def short_run(session: Session) -> Iterator[Finding]:
    """Finds loads that were measured for a short time. The duration of a load is a setting. The number of runs is
    checked in every session."""
    seconds = stored_number(session.settings.get("seconds"))
    if seconds is not None and 0 < seconds < _MIN_LOAD_S and metric(session.figure).unit == "/s":
        yield finding(
            "short-run", "all", f"Each load was measured for {seconds:g} s, less than a minute.",
            f"Take it for a first look: flushing and checkpoints come in waves of many seconds; SECONDS={_MIN_LOAD_S} "
            "or more.",
        )  # fmt: skip


def wide_load_interval(session: Session) -> Iterator[Finding]:
    """Finds means with a wide interval. Kills at random moments are left out: their recoveries are meant to differ."""
    if session.figure == RECOVERY_FIGURE:
        return
    for one in figure_summaries(session):
        if one.interval is not None and one.mean and one.interval > _WIDE_LOAD_INTERVAL * one.mean:
            yield finding(
                "wide-spread", f"{one.version} {cell_words(session, one.variant)}",
                f"The mean is known to {one.interval / one.mean:.0%} only: its runs lie {_four_digits(one.min)} to "
                f"{_four_digits(one.max)} {metric(one.name).unit}.".replace(" /s.", " a second."),
                "Say it with its interval, and claim no smaller difference; more RUNS= narrow it.",
            )  # fmt: skip


def missing_polls(session: Session) -> Iterator[Finding]:
    """Finds loads with polling in which no poll was answered."""
    polled = {axis.name for axis in session.axes if axis.name == "poll" and is_switch(axis)}
    for about, runs in cells(session):
        cell = session.cells.get(runs[0].variant, {})
        if not any(cell.get(name, "off") == "on" for name in polled):
            continue
        silent = [run for run in runs if not run.measures.get(_POLL_RATE)]
        if silent:
            yield finding(
                "polls-did-not-run", about, f"Nothing was answered beside the load in {runs_text(silent)}.",
                "This cell measured the load alone. A question that takes longer than the load is cut short: see what "
                "was asked, the server's log, and SECONDS=.",
            )  # fmt: skip


def client_errors(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        shares = runs_above(runs, _error_share, _MAX_ERROR_SHARE)
        if shares:
            yield finding(
                "errors", about,
                f"Up to {max(shares.values()):.1%} of the transactions ended in an error that the clients ignored: "
                f"{runs_text(list(shares))}.",
                "Deadlocks are a part of some workloads: compare cells with as many of them; of any other error see "
                "what the clients printed.",
            )  # fmt: skip


def _error_share(run: Run) -> float | None:
    return run_value(run, "errors_per_transaction") or None


def other_load_during_work(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        used = runs_above(runs, _others_cpus, _MAX_OTHERS_CPUS)
        if used:
            yield finding(
                "other-cpu-load", about,
                f"Others kept {max(used.values()):.1f} CPUs busy during {runs_text(list(used))}.",
                "Find out who it was (top), stop it, and measure again.",
            )  # fmt: skip
        disturbed = [run for run in runs if _unexplained_bytes(run)]
        if disturbed:
            most = max(map(_unexplained_bytes, disturbed))
            yield finding(
                "other-disk-load", about,
                f"Others read and wrote up to {most / 1e6:,.0f} MB on the same device during {runs_text(disturbed)}.",
                "Find out who it was (iotop), stop it, and measure again.",
            )  # fmt: skip


def _others_cpus(run: Run) -> float:
    """Returns the CPUs used by others, from the sampler, which knows the clients, or else from the counters at both
    ends of the run."""
    told = run.measures.get("others_cpus")
    if told is not None:
        return told
    around = run.around
    return 0.0 if around is None or around.seconds <= 0 else (around.others_cpu_s or 0.0) / around.seconds


def _unexplained_bytes(run: Run) -> float:
    """Returns the bytes that others read and wrote, in addition to the server's own; 0 if they are few."""
    around = run.around
    if around is None:
        return 0.0
    found = 0.0
    for theirs, name, share in (
        (around.others_read_bytes, "read_bytes", _MAX_OTHERS_READ_RATIO),
        (around.others_written_bytes, "written_bytes", _MAX_OTHERS_WRITTEN_RATIO),
    ):
        own = run.measures.get(name, run.measures.get(f"{name}_per_s", 0.0) * around.seconds)
        if (theirs or 0) > max(_IGNORED_BYTES, share * own):
            found += theirs or 0
    return found


def _four_digits(value: float | None) -> str:
    """Formats a number with four significant digits, or with all digits before the decimal point if there are more."""
    if value is None:
        return "?"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


LOAD_CHECKS: tuple[Check, ...] = (
    client_bottleneck, unstable_rate, short_run, wide_load_interval, missing_polls, client_errors,
    other_load_during_work,
)  # fmt: skip


# --- Memory: whether the buffer pool held the data

_BUFFER_POOL_SIZE = "innodb_buffer_pool_size"
_LARGER_THAN_POOL_QUESTIONS = frozenset({"larger-than-memory", "compression"})
"""Questions about data that does not fit into the buffer pool."""
_MAX_PAGES_PER_QUERY = 0.01
"""Pages read for each query because they were not in the buffer pool."""
_IGNORED_PAGES_PER_S = 20.0
"""Pages per second that delay nothing: a server that was just started reads some pages for itself, however few queries
there are."""
_PAGE_BYTES = 16 << 10
_NON_TABLE_BYTES = 512 * MIB
"""Part of a data directory for the logs and the server's own tables."""


def data_not_in_buffer_pool(session: Session) -> Iterator[Finding]:
    """Finds loads that read from the device, which then measure the device, unless that was requested."""
    if metric(session.figure).unit != "/s" or (stored_number(session.settings.get("memory_ratio")) or 0) > 1:
        return
    for about, runs in cells(session):
        variant = runs[0].variant
        cell = session.cells.get(variant, {})
        if cell.get("question") in _LARGER_THAN_POOL_QUESTIONS or _BUFFER_POOL_SIZE in cell:
            continue
        read = runs_above(runs, _pages_per_query, _MAX_PAGES_PER_QUERY)
        if read:
            yield finding(
                "not-in-memory", about,
                f"Up to {max(read.values()):.2g} pages a query were read from the device, as the buffer pool did not "
                f"hold them: {runs_text(list(read))}.",
                "Warm up for longer (WARMUP=), take fewer ROWS=, or a larger pool (--set innodb_buffer_pool_size=…); "
                "where reading is what you ask about, say MEMORY_RATIO=.",
            )  # fmt: skip
            continue
        known = server_of_cell(session, runs[0].version, variant)
        pool, data = stored_number(known.get(f"@{_BUFFER_POOL_SIZE}")), _used_data_bytes(known, cell)
        if pool is not None and data is not None and pool < data:
            yield finding(
                "not-in-memory", about,
                f"The buffer pool has {pool / 1e9:.1f} GB, the tables' files {data / 1e9:.1f} GB: it cannot hold all "
                "of them.",
                "Take fewer ROWS= or TABLES=, or a host with more memory; where that is what you ask about, say "
                "MEMORY_RATIO=.",
            )  # fmt: skip


def _pages_per_query(run: Run) -> float | None:
    if "polls_per_s" in run.measures:
        return None  # the pages include those read for polls; only a load without polls shows its own
    qps, pages = run.measures.get("qps"), run.measures.get("buffer_pool_reads_per_s")
    if pages is None and (read := run.measures.get("read_bytes_per_s")) is not None:
        pages = read / _PAGE_BYTES
    if not qps or pages is None:
        return None
    return pages / qps if pages > _IGNORED_PAGES_PER_S else 0.0


def _used_data_bytes(known: ServerFacts, cell: Mapping[str, str]) -> float | None:
    """Returns the bytes of the tables that the load uses, estimated from their share of all tables."""
    data, tables, used = (
        stored_number(known.get("data_bytes")),
        stored_number(known.get("tables")),
        stored_number(cell.get("tables")),
    )
    if data is None:
        return None
    share = min(1.0, used / tables) if used and tables else 1.0
    return max(0.0, data - _NON_TABLE_BYTES) * share


MEMORY_CHECKS: tuple[Check, ...] = (data_not_in_buffer_pool,)


# --- Redo log: whether a write load continued until the log was full and had to be flushed

_CHECKPOINT_AGE = "checkpoint_age_bytes"
_MIN_RISE = 0.05
"""Least rise of the checkpoint age, as a share of its largest value before."""
_IGNORED_LOG_BYTES = MIB
"""A smaller rise can come from other writing: of statistics, or by the purge of old rows."""


def redo_log_still_filling(session: Session) -> Iterator[Finding]:
    """Finds loads during which the redo log was still filling. Servers that do not report how much redo is in the log
    are not checked."""
    for about, runs in cells(session):
        grown = {run: age for run in runs if (age := _grown_checkpoint_age(run)) is not None}
        if grown:
            yield finding(
                "log-still-filling", about,
                "The redo since the last checkpoint still grew in the last third of the measured time, to "
                f"{max(grown.values()) / 1e6:,.0f} MB{_log_capacity_text(session, runs[0])}, in "
                f"{runs_text(list(grown))}: what "
                "writing costs once the log is full was not measured.",
                "Measure longer, or after a longer warm-up (SECONDS=, WARMUP=), or with a smaller log: "
                "SET=innodb_redo_log_capacity=128M, of which older servers are told in their own words.",
            )  # fmt: skip


def _grown_checkpoint_age(run: Run) -> float | None:
    """Returns the largest checkpoint age in the last third of the run. None if it did not exceed all earlier ones,
    because waves rise and fall."""
    if run.watched is None:
        return None
    series = next((one.values for one in run.watched.series if one.name == _CHECKPOINT_AGE), ())
    looks = zip(run.watched.at_s, series, strict=False)
    # The first sample is from the end of the warm-up.
    values = [value for at_s, value in looks if at_s > 0.5 and value is not None]
    if len(values) < _MIN_SAMPLES:
        return None
    third = len(values) // 3
    before, last = max(values[:-third]), values[-third:]
    return max(last) if median(last) > before + max(_IGNORED_LOG_BYTES, _MIN_RISE * before) else None


def _log_capacity_text(session: Session, run: Run) -> str:
    """Returns the size of the redo log as text, if the server reported it."""
    known = server_of_cell(session, run.version, run.variant)
    capacity = stored_number(known.get("@innodb_redo_log_capacity"))
    if capacity is None:
        size, files = (stored_number(known.get(f"@innodb_log_{name}")) for name in ("file_size", "files_in_group"))
        # MariaDB has a single file since 10.5, and later also no option for the number of files.
        capacity = None if size is None else size * (files or 1)
    return f" of {capacity / 1e6:,.0f} MB" if capacity else ""


REDO_LOG_CHECKS: tuple[Check, ...] = (redo_log_still_filling,)


# --- Server and tool: whether the build, its settings and this tool are fit for timing

_VERBOSE_LEVELS = {"@log_error_verbosity": 3.0, "@log_warnings": 2.0}
"""Values from which on the server logs what it does."""
_MIN_NAMED_SHARE = 0.9
_TOOL_BUSY_CPUS = 0.5
"""CPUs that this tool itself used during a start."""
_MAX_READY_LAG_S, _MAX_READY_LAG_SHARE = 0.1, 0.01
_PHASES_OUTSIDE_INNODB = frozenset({PROCESS_START, REST_TO_READY})
_MIN_CPU_OUTSIDE_S, _MIN_CPU_OUTSIDE_SHARE = 1.0, 0.5
"""CPU time outside InnoDB, and its share of the startup."""


def debug_build(session: Session) -> Iterator[Finding]:
    for version in session.versions:
        known = server_of(session, version)
        told = " ".join(known.get(name, "") for name in ("@version", "@version_comment"))
        if "debug" in told.lower():
            yield finding(
                "debug-build", version,
                f"This is a debug build ({known.get('@version', version)}): it checks itself as it runs.",
                "Its times say nothing of a release: measure the release build.",
            )  # fmt: skip


def quiet_log(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        known = server_of(session, runs[0].version)
        quiet = [
            f"{name.removeprefix('@')}={known[name]}" for name, least in _VERBOSE_LEVELS.items()
            if name in known and (stored_number(known[name]) or 0) < least
        ]  # fmt: skip
        share = mean(named_share(run.phases) for run in runs if run.phases)
        if quiet and share is not None and share < _MIN_NAMED_SHARE:
            yield finding(
                "quiet-log", about,
                f"Only {share:.0%} of the startup has a name: {' and '.join(quiet)} keeps lines out of the log.",
                "Leave that setting out; the tool asks for all that the server can say.",
            )  # fmt: skip


def busy_tool(session: Session) -> Iterator[Finding]:
    """Finds starts during which this tool was so busy that it may have been the bottleneck."""
    for about, runs in cells(session):
        busy = [
            run for run in runs if run.around and (run.around.tool_cpu_s or 0) > _TOOL_BUSY_CPUS * run.around.seconds
        ]
        if busy:
            hint = "measure again"
            if session.settings.get("trace"):
                hint = "leave --trace out for the times, and trace in a session of its own"
            yield finding(
                "busy-client", about,
                f"This tool itself kept half a CPU busy and more during {runs_text(busy)}.",
                f"It may have been what was waited for: {hint}.",
            )  # fmt: skip
        late = [
            run
            for run in runs
            if (run.ready_lag_s or 0) > max(_MAX_READY_LAG_S, _MAX_READY_LAG_SHARE * (run.startup_s or 0))
        ]
        if late:
            worst = max(run.ready_lag_s or 0 for run in late)
            yield finding(
                "late-log", about,
                f"The ready line arrived up to {worst:.2f} s after the server's own stamp on it: {runs_text(late)}.",
                "The host was too busy to read along, or its clock was set: see what else runs, and measure again.",
            )  # fmt: skip


def cpu_outside_innodb(session: Session) -> Iterator[Finding]:
    """Finds starts that were mostly CPU time outside InnoDB. Such a start says little about recovery or storage."""
    for about, runs in cells(session):
        spent = runs_above(runs, _cpu_outside_innodb_s, _MIN_CPU_OUTSIDE_S)
        most = {
            run: seconds for run, seconds in spent.items() if seconds > _MIN_CPU_OUTSIDE_SHARE * (run.startup_s or 0)
        }
        if most:
            yield finding(
                "cpu-outside-innodb", about,
                f"Most of the start was CPU time outside InnoDB, up to {max(most.values()):.1f} s: "
                f"{runs_text(list(most))}.",
                "MariaDB 11.4 and later makes a TLS key at every start unless ssl=OFF, as this tool sets it: leave "
                "other settings of ssl out. For another cause, --stacks shows what the server computes.",
            )  # fmt: skip


def _cpu_outside_innodb_s(run: Run) -> float | None:
    """Returns the CPU time from exec to InnoDB's first line, and from its last line to ready. None without samples."""
    timeline = run.timeline
    if timeline is None or not timeline.cpu_s:
        return None
    return sum(
        _cpu_s_until(timeline, phase.end_s) - _cpu_s_until(timeline, phase.start_s)
        for phase in run.phases
        if phase.name in _PHASES_OUTSIDE_INNODB
    )


def _cpu_s_until(timeline: Timeline, at_s: float) -> float:
    """Returns the CPU time until this moment, interpolated linearly between samples."""
    looks = [(0.0, 0.0), *zip(timeline.at_s, timeline.cpu_s, strict=False)]
    for (one_s, one_cpu_s), (next_s, next_cpu_s) in pairwise(looks):
        if one_s <= at_s < next_s:
            return one_cpu_s + (next_cpu_s - one_cpu_s) * (at_s - one_s) / (next_s - one_s)
    return looks[-1][1]


def options_not_in_effect(session: Session) -> Iterator[Finding]:
    """Finds options of an axis that are in effect with another value. Options that are the same for all cells are
    reported with the server."""
    wished = {axis.name for axis in session.axes}
    told: dict[tuple[str, ChangedOption], Finding] = {}
    for name, known in session.servers.items():
        version = name.partition(" ")[0]
        for one in changed_options(known):
            if one.option in wished and (version, one) not in told:
                files = known.get("@open_files_limit")
                told[version, one] = finding(
                    "option-not-in-effect", f"{version} {one.option}={one.asked}",
                    f"{one}{_same_effect_text(session, version, one)}.",
                    "Read these cells as what is in effect; more open files (ulimit -n"
                    f"{f': {files} here' if files else ''}), or another value, may help.",
                )  # fmt: skip
    yield from told.values()


def _same_effect_text(session: Session, version: str, one: ChangedOption) -> str:
    """Names other requested values of the same option that resulted in the same effective value."""
    here = [known for name, known in session.servers.items() if name.partition(" ")[0] == version]
    others = {
        given_options(known)[one.option] for known in here
        if one.option in given_options(known) and same_value(known.get(f"@{one.option}", ""), one.effective)
    } - {one.asked}  # fmt: skip
    if not others:
        return ""
    return f", as where {' or '.join(sorted(others))} was: one experiment, and no effect is told between them"


SERVER_CHECKS: tuple[Check, ...] = (debug_build, quiet_log, busy_tool, cpu_outside_innodb, options_not_in_effect)


# --- Spread: whether the runs agree, and well enough for the conclusions

_SLOW_FIRST_RATIO = 1.3
"""Ratio of the first run to the slowest of the others, above which it is suspicious."""
_MIN_OUTLIER_SHARE = 0.15
_OUTLIER_DEVIATIONS = 3.5
"""An outlier is at least this many robust deviations from the median, and at least the share `_OFF` of it."""
_MAD_TO_STDEV = 1.4826
"""Factor from the median absolute deviation to the standard deviation, for a normal distribution."""
_MIN_RUNS_FOR_TREND = 5
"""Number of runs from which on an outlier or a drift can be distinguished from chance."""
_MIN_DRIFT = 0.1
_MIN_KENDALL = 2.2
"""Least value of Kendall's S in standard deviations. Five runs in ascending order give 2.2."""
_WIDE_START_INTERVAL = 0.15
"""Half of the interval, divided by the mean, above which a mean says little."""
_MIN_RATIO_CHANGE = 0.05
"""A ratio closer to 1 claims no difference."""
_MEASURE_AGAIN_HINT = "The mean includes it. Measure again over the same data directory"


def few_runs(session: Session) -> Iterator[Finding]:
    runs = session.settings.get("runs")
    if session.planned_runs and isinstance(runs, int) and runs < MIN_RUNS:
        yield finding(
            "few-runs", "all", f"With {runs} run{'s' if runs > 1 else ''} of each nothing is known of their spread.",
            f"Take these figures as a first look; measure with RUNS={_MIN_RUNS_FOR_TREND} or more.",
        )  # fmt: skip


def _first_is_slow(times: Sequence[float]) -> bool:
    return len(times) >= MIN_RUNS and times[0] > _SLOW_FIRST_RATIO * max(times[1:])


def slow_first_run(session: Session) -> Iterator[Finding]:
    """Finds a slow first run, for which conditions differed from those of the other runs."""
    for about, runs in cells(session):
        first, *others = times = [run.startup_s or 0.0 for run in runs]
        if _first_is_slow(times):
            yield finding(
                "slow-first-run", about,
                f"The first run took {first:.1f} s, the others {min(others):.1f} to {max(others):.1f} s.",
                f"{_MEASURE_AGAIN_HINT}: what is slow only once is a volume that is read for the "
                "first time, or a storage that "
                "remembers what was read lately.",
            )  # fmt: skip


def outliers(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        times = [run.startup_s or 0.0 for run in runs]
        if len(times) < _MIN_RUNS_FOR_TREND:
            continue
        middle = statistics.median(times)
        deviation = _MAD_TO_STDEV * statistics.median(abs(time - middle) for time in times)
        far = [
            run for run, time in zip(runs, times, strict=True)
            if abs(time - middle) > max(_OUTLIER_DEVIATIONS * deviation, _MIN_OUTLIER_SHARE * middle)
            and not (run is runs[0] and _first_is_slow(times))
        ]  # fmt: skip
        if far:
            told = ", ".join(f"run {run.number} ({run.startup_s or 0:.1f} s)" for run in far)
            yield finding(
                "outlier", about, f"Far from the median of {middle:.1f} s: {told}.",
                "The mean includes it. See what else went on during that run, in its log and its timeline.",
            )  # fmt: skip


def drift(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        times = [run.startup_s or 0.0 for run in runs]
        change = _time_change(times)
        if len(times) < _MIN_RUNS_FOR_TREND or _first_is_slow(times):
            continue
        if abs(change) > _MIN_DRIFT and _kendall_deviations(times) >= _MIN_KENDALL:
            yield finding(
                "drift", about,
                f"The runs {'rose' if change > 0 else 'fell'} one after the other, from {times[0]:.1f} to "
                f"{times[-1]:.1f} s.",
                "Something changes while it is measured: credits that run out, a device that fills or warms up. "
                "Measure with more RUNS=, until it is at rest.",
            )  # fmt: skip


def not_significant(session: Session) -> Iterator[Finding]:
    """Finds ratios that are not significant, and wide intervals. Two means next to each other suggest a difference."""
    more = more_runs_hint(session)
    for summary in session_summaries(session):
        about = f"{summary.version} {summary.variant}"
        if summary.differs is False and summary.ratio is not None and abs(summary.ratio - 1) > _MIN_RATIO_CHANGE:
            yield finding(
                "spread-too-wide", about,
                f"{summary.ratio:.2f} times {baseline_of(session)} is not significant: the 95 % interval is "
                f"{summary.ratio_low:.2f} to {summary.ratio_high:.2f}.",
                f"Claim no difference; {more}",
            )  # fmt: skip
        elif (
            summary.interval_s is not None
            and summary.mean_s
            and summary.interval_s > _WIDE_START_INTERVAL * summary.mean_s
        ):
            yield finding(
                "wide-interval", about,
                f"The mean of {summary.mean_s:.1f} s is known to {summary.interval_s:.1f} s only.",
                f"Say it with its interval; {more}",
            )  # fmt: skip


def more_runs_hint(session: Session) -> str:
    runs = session.settings.get("runs")
    return f"more runs narrow it: RUNS={2 * runs}." if isinstance(runs, int) else "more runs narrow it."


def _time_change(times: Sequence[float]) -> float:
    return times[-1] / times[0] - 1 if times and times[0] else 0.0


def _kendall_deviations(times: Sequence[float]) -> float:
    """Returns the absolute value of Kendall's S in standard deviations: how consistently each run is above (or below)
    the runs before it."""
    rising = 0
    before: list[float] = []
    for one in times:
        rising += bisect_left(before, one) - (len(before) - bisect_right(before, one))
        insort(before, one)
    count = len(times)
    return abs(rising) / math.sqrt(count * (count - 1) * (2 * count + 5) / 18)


SPREAD_CHECKS: tuple[Check, ...] = (few_runs, slow_first_run, outliers, drift, not_significant)


# --- All checks

CHECKS = (*SPREAD_CHECKS, *CACHE_CHECKS, *HOST_CHECKS, *SERVER_CHECKS, *GROWTH_CHECKS)
"""Checks of a session about starts."""
WORK_CHECKS = (
    *LOAD_CHECKS, *REDO_LOG_CHECKS, *MEMORY_CHECKS, few_runs, cache_below_host, cold_not_proved,
    stolen_cpu, throttled, debug_build, options_not_in_effect,
)  # fmt: skip
"""Checks of a session about servers under load: those that apply to both kinds, and those that apply only here."""


def checks_of(session: Session) -> tuple[Check, ...]:
    return WORK_CHECKS if is_load_session(session) else CHECKS


def findings(session: Session) -> tuple[Finding, ...]:
    found = (one for check in checks_of(session) for one in check(session))
    return tuple(merge_similar(found) if is_load_session(session) else found)


def not_checked(session: Session) -> str | None:
    """Returns what could not be checked because the session does not contain it, as text. Older sessions do not."""
    if any(run.around is not None for run in session.runs) or not session.runs:
        return None
    return f"what else went on beside these {'runs' if is_load_session(session) else 'starts'} is not known"
