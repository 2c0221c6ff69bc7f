"""Was cold cold, and can the cache hold the data?"""

from __future__ import annotations

import math
import re
import statistics
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, median

from recovery.analysis.effective_options import Known, Lowered, given, lowered, same, server_of_cell
from recovery.analysis.growth import curves
from recovery.analysis.phase_names import PROCESS_START, REST, named_share, seconds_by_name
from recovery.analysis.statistics import LEAST_RUNS
from recovery.analysis.summary import (
    baseline_of,
    cell_words,
    is_switch,
    is_work,
    mean,
    measured_by,
    middles,
    summarised,
    value_of,
)
from recovery.model import LEAST_PROBED_BLOCKS, RECOVERY, Around, Cache, Finding, Run, Session, Timeline, quantity

# What is a doubt made of, and over which runs is it looked for?

Check = Callable[[Session], Iterator[Finding]]
"""Looks at what is stored, and at nothing else."""

MIB = 1 << 20
_MOST_APIECE, _MOST_NAMED = 3, 4
_MOST = 1e30
"""What is beyond, or no number, measures nothing."""


def doubt(kind: str, about: str, text: str, hint: str) -> Finding:
    return Finding(about, text, hint, kind)


def cells(session: Session) -> Iterator[tuple[str, tuple[Run, ...]]]:
    """The runs that count, by what they are called in the report: `5.7.22 cold`."""
    for version, variant, runs in measured_by(session):
        yield f"{version} {cell_words(session, variant)}", runs


def gathered(found: Iterable[Finding]) -> Iterator[Finding]:
    """What holds for many cells is said once: of the first, and where else."""
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for one in found:
        kinds.setdefault((one.kind, one.hint), []).append(one)
    for group in kinds.values():
        if len(group) <= _MOST_APIECE:
            yield from group
            continue
        first, *others = group
        told = "; ".join(one.about for one in others[:_MOST_NAMED])
        more = f"; {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        text = f"{first.about}: {first.text} The like of it in {told}{more}."
        yield Finding(f"{len(group)} cells", text, first.hint, first.kind)


def is_cold(run: Run) -> bool:
    return Cache.COLD.begins(run.variant)


def numbered(runs: tuple[Run, ...] | list[Run]) -> str:
    """`run 1, 4`"""
    return f"run{'s' if len(runs) > 1 else ''} " + ", ".join(str(run.number) for run in runs)


def beyond(runs: Iterable[Run], figure: Callable[[Run], float | None], limit: float) -> dict[Run, float]:
    """The runs whose figure, where they have it, is more than this."""
    return {run: value for run in runs if (value := figure(run)) is not None and value > limit}


def server_of(session: Session, version: str) -> Mapping[str, str]:
    """What is known of the server, under whichever settings it was asked first."""
    named = (known for name, known in session.servers.items() if name == version or name.startswith(f"{version} "))
    return next(named, {})


def number(value: object) -> float | None:
    """A stored fact as a figure; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    return found if found == 0 or 1 / _MOST < abs(found) < _MOST else None


_LESS = 0.8
"""A cold start that reads less than so much of what the others read found files in the cache."""


_TIMES_FASTER = 2.0


def cold_was_not(session: Session) -> Iterator[Finding]:
    """A start that found files in the cache all the same; one whose cache was not empty is void already."""
    for about, runs in cells(session):
        if not is_cold(runs[0]) or len(runs) < 2:
            continue
        usual = statistics.median(_reads(runs) or [0])
        less = [run for run in runs if (run.read_bytes or usual) < min(_LESS * usual, usual - 4 * MIB)]
        if less:
            least = min(run.read_bytes or 0 for run in less)
            yield doubt(
                "cold-was-not", about,
                f"Only {least / 1e6:.0f} MB were read in {numbered(less)}, where {usual / 1e6:.0f} MB are usual.",
                "Something else read these files meanwhile (a backup, a virus scanner, another start): stop it, and "
                "measure again.",
            )  # fmt: skip


def cached_below(session: Session) -> Iterator[Finding]:
    told = told_cached_below(session.environment)
    if told is not None and any(run.cold_means for run in session.runs):
        yield doubt(
            "cached-below", "host", f"{told} Cold means cold to this machine only.",
            "Compare starts over files that had been read as often before; look at the first cold start apart.",
        )  # fmt: skip


def told_cached_below(environment: Mapping[str, object]) -> str | None:
    """By the facts of the read probe; None where it has seen no cache, or could read too few blocks to see one."""
    times, blocks = (number(environment.get(f"probe_again_{name}")) for name in ("times_faster", "blocks"))
    if times is None or blocks is None or times < _TIMES_FASTER or blocks < LEAST_PROBED_BLOCKS:
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
            yield doubt(
                "inodes-were-warm", about,
                "Files were evicted one by one: inodes and names stayed in memory, which a reboot empties too.",
                _how_to_drop(session),
            )  # fmt: skip
        unknown = [run for run in starts if run.resident_before_bytes is None]
        if unknown and not as_published:
            yield doubt(
                "cold-not-proved", about,
                f"Nobody could tell what was left in the cache before {numbered(unknown)}.",
                "Compare the bytes read; a kernel from 6.5 on, and no overlay under the data, can tell (doctor).",
            )  # fmt: skip


def _how_to_drop(session: Session) -> str:
    if session.settings.get("no_drop_caches"):
        by = "--no-drop-caches" if session.settings.get("no_root_steps") in (None, "drop-caches") else "--no-root-steps"
        return f"This is what {by} does: leave it out for a start as cold as after a reboot."
    if session.environment.get("root") == "yes":
        return "Let the tool write /proc/sys/vm/drop_caches (root in a container without privileges may not)."
    return "Run as root, who may drop the host's caches."


def larger_than_memory(session: Session) -> Iterator[Finding]:
    limit, memory = number(session.settings.get("memory_bytes")), number(session.environment.get("memory_bytes"))
    holds = min((one for one in (limit, memory) if one), default=None)
    for version in session.versions:
        data = _data_bytes(session, version)
        if holds is not None and data > holds:
            yield doubt(
                "larger-than-memory", version,
                f"{data / 1e9:.1f} GB of data, {holds / 1e9:.1f} GB of memory{' allowed' if holds == limit else ''}: "
                "the cache never holds all of it.",
                "See what its warm starts read before you call them warm; fewer TABLES= fit.",
            )  # fmt: skip


def _data_bytes(session: Session, version: str) -> float:
    return number(server_of(session, version).get("data_bytes")) or 0.0


def _reads(runs: Sequence[Run]) -> list[int]:
    return [run.read_bytes for run in runs if run.read_bytes is not None]


CACHE_CHECKS: tuple[Check, ...] = (cold_was_not, cached_below, cold_not_proved, larger_than_memory)


# Do the smaller numbers of tables predict the largest one?


def not_predicted(session: Session) -> Iterator[Finding]:
    for curve in curves(session):
        found = curve.held_out
        if found is None or curve.predicts:
            continue
        yield doubt(
            "no-line", f"{curve.version} {curve.variant}",
            f"The smaller points predict {found.predicted.seconds:.1f} s for {found.tables:,} tables, "
            f"{found.measured_s:.1f} s were measured.",
            f"Rely on no prediction for more than {found.tables:,} tables: measure there.",
        )  # fmt: skip


GROWTH_CHECKS: tuple[Check, ...] = (not_predicted,)


# Did the host leave the server alone, and give it what it has?

_OTHERS_BUSY_CPUS = 0.1
"""CPUs that others kept busy on average."""
_STOLEN = 0.02
_HELD_BACK = 0.01
"""Of the startup."""
_TICKS_S = 0.1
"""The host counts CPU in ticks of ten milliseconds: of a few of them nothing is said."""
_PROGRAM = 0.05
"""Of the startup, for the start of the process."""
_OTHERS_IO = 0.05
"""Of what the server read."""
_FEW_BYTES = 64 * MIB
"""A server that was killed leaves some megabytes in the cache, which are written while the next one starts."""
_SLOWER = 0.8
_EBS = "Amazon Elastic Block Store"
_BURSTING = ("t2.", "t3.", "t3a.", "t4g.")


def other_load(session: Session) -> Iterator[Finding]:
    yield from _by_share(
        session, "other-cpu-load", lambda around: around.others_cpu_s, _OTHERS_BUSY_CPUS,
        "Others kept {most:.1f} CPUs busy during {runs}.",
        "Find out who it was (top), stop it, and measure again.",
    )  # fmt: skip
    for about, runs in cells(session):
        disturbed = [run for run in runs if _others_bytes(run) > max(_FEW_BYTES, _OTHERS_IO * (run.read_bytes or 0))]
        if disturbed:
            most = max(map(_others_bytes, disturbed))
            yield doubt(
                "other-disk-load", about,
                f"Others read and wrote up to {most / 1e6:,.0f} MB on the same device during {numbered(disturbed)}.",
                "Find out who it was (iotop), stop it, and measure again" + _own_volume(session),
            )  # fmt: skip


def _own_volume(session: Session) -> str:
    """Advised where the data shares its device with this tool."""
    tool, data = session.environment.get("tool_device"), session.environment.get("device")
    return "; or give the data its own volume (DATA=)." if tool == data else "."


def _others_bytes(run: Run) -> int:
    around = run.around
    return 0 if around is None else (around.others_read_bytes or 0) + (around.others_written_bytes or 0)


def stolen(session: Session) -> Iterator[Finding]:
    yield from _by_share(
        session, "steal", lambda around: around.steal_s, _STOLEN,
        "The hypervisor gave {most:.0%} of a CPU to other machines during {runs}.",
        "Measure on a host that shares its CPUs with nobody (a larger or dedicated instance).",
    )  # fmt: skip


def held_back(session: Session) -> Iterator[Finding]:
    """Not where the user asked for it."""
    if session.settings.get("cpus"):
        return
    yield from _by_share(
        session, "throttled", lambda around: around.throttled_s, _HELD_BACK,
        "A control group held its processes back for {most:.0%} of the time of {runs}.",
        "The quota of the container or service that this tool was started in is too small: raise it, or set CPUS= and "
        "call it a limit.",
    )  # fmt: skip


def _by_share(
    session: Session, kind: str, seconds: Callable[[Around], float | None], least: float, *said: str
) -> Iterator[Finding]:
    text, hint = said
    for about, runs in cells(session):
        shares = {run: _share(run.around, seconds) for run in runs}
        over = [run for run, share in shares.items() if share > least and share * _length(run) > _TICKS_S]
        if over:
            most = max(shares[run] for run in over)
            yield doubt(kind, about, text.format(most=most, runs=numbered(over)), hint)


def _length(run: Run) -> float:
    return run.around.seconds if run.around else 0.0


def _share(around: Around | None, seconds: Callable[[Around], float | None]) -> float:
    return 0.0 if around is None or around.seconds <= 0 else (seconds(around) or 0.0) / around.seconds


def spent_credits(session: Session) -> Iterator[Finding]:
    """A suspicion: credits are not told to who uses them."""
    kind = str(session.environment.get("ec2_instance_type") or "")
    volume = session.environment.get("ebs_volume")
    for about, runs in cells(session):
        rates = [run.reads_per_s for run in runs if run.reads_per_s]
        falling = len(rates) >= 3 and rates == sorted(rates, reverse=True) and rates[-1] < _SLOWER * rates[0]
        if falling and is_cold(runs[0]) and (volume or kind.startswith(_BURSTING)):
            yield doubt(
                "burst-credits", about,
                f"Reads a second fell from run to run, from {rates[0]:,.0f} to {rates[-1]:,.0f}: burst credits may "
                "have run out.",
                "See BurstBalance and EBSIOBalance% (CPUCreditBalance on t instances) for this time; measure on gp3, "
                "io2 or an instance that does not burst.",
            )  # fmt: skip


def snapshot(session: Session) -> Iterator[Finding]:
    """A suspicion: a volume does not tell where its blocks are."""
    if not session.environment.get("ebs_volume") and session.environment.get("device_model") != _EBS:
        return
    for about, runs in cells(session):
        first, *others = [run.reads_per_s or 0.0 for run in runs]
        if is_cold(runs[0]) and others and 0 < first < min(others) / 2:
            yield doubt(
                "snapshot-volume", about,
                f"The first run did {first:,.0f} reads a second, the others {min(others):,.0f} and more: the volume "
                "may have been made from a snapshot, whose blocks are fetched when they are first read.",
                "Read all of it once before (dd, fio), or use fast snapshot restore; or keep the first run apart, if "
                "that is your question.",
            )  # fmt: skip


def filesystems(session: Session) -> Iterator[Finding]:
    data = session.environment.get("device")
    own = session.settings.get("mysqld")
    beside = "put your server there too" if own else "set RECOVERY_CACHE to a folder there"
    for about, runs in cells(session):
        program = server_of(session, runs[0].version).get("program_device")
        if is_cold(runs[0]) and data and program and program != data and _start_share(runs) > _PROGRAM:
            yield doubt(
                "filesystems", about,
                f"The server's program lies on {program}, its data on {data}: a cold start loads the program from the "
                "other one, whose reads are not counted and not limited.",
                f"See the phase {PROCESS_START} for what it costs; to have both on one, {beside}.",
            )  # fmt: skip


def _start_share(runs: Sequence[Run]) -> float:
    shares = [seconds_by_name(run.phases).get(PROCESS_START, 0.0) / (run.startup_s or 1.0) for run in runs]
    return mean(shares) or 0.0


HOST_CHECKS: tuple[Check, ...] = (other_load, stolen, held_back, spent_credits, snapshot, filesystems)


# Was it the server that was measured while it worked, on a quiet host, for long enough, and as was asked?

_BUSY_CLIENTS_SHARE = 0.85
"""Of the CPUs that clients may use, from where on they may have been what was waited for."""
_SHARE = 0.3
"""Of the host's CPUs, for clients that leave none idle."""
_IDLE = 0.05
"""Of the host's CPUs: less is none."""
_OTHERS = 0.1
"""CPUs that others kept busy on average."""
_THIRDS = 0.1
_LEAST_LOOKS = 9
_SECONDS = 60
_WIDE_LOAD_INTERVAL = 0.1
"""Half of the mean's interval, over the mean."""
_ERRORS = 0.001
_OTHERS_READ, _OTHERS_WRITTEN = 0.1, 1.0
"""Of what the server did itself: to write, a file system has more to do than what it was given."""
_POLLS = "polls_per_s"
_DUMP = "dump"
"""Among the clients of a run."""


def busy_clients(session: Session) -> Iterator[Finding]:
    cpus = number(session.environment.get("cpus"))
    for about, runs in cells(session):
        used, allowed = mean(run.measures.get("client_cpus") for run in runs), _client_cpus(session, runs)
        if used is None:
            continue
        if allowed is not None and used >= _BUSY_CLIENTS_SHARE * allowed:
            yield doubt(
                "client-was-the-bottleneck", about,
                f"The clients kept {used:.1f} CPUs busy, of {allowed:g} that they could use at once: they may have "
                "been slower than the server.",
                "Give the clients more CPUs or more threads, or a host of their own; until then this is a lower bound "
                "of what the server can do.",
            )  # fmt: skip
        elif cpus and used > min(_SHARE * cpus, _of_server(runs)) and _idle(runs, cpus) < _IDLE * cpus:
            yield doubt(
                "client-was-the-bottleneck", about,
                f"The clients used {used:.1f} of the host's {cpus:g} CPUs, and none was idle: client and server share "
                "the CPUs.",
                "The server had only what the clients left: hold versions against each other, and no figure against "
                "that of a host where the clients have CPUs of their own.",
            )  # fmt: skip


def _client_cpus(session: Session, runs: Sequence[Run]) -> float | None:
    """What they may use at once: a CPU a thread, and no more than they are pinned to. A dump is one thread, and pinned
    nowhere."""
    if any(_DUMP in run.clients for run in runs):
        return 1.0
    if quantity(session.figure).unit != "/s":
        return None
    cell = session.cells.get(runs[0].variant, {})
    threads = number(cell.get("threads")) or number(session.settings.get("threads"))
    pinned = _pinned(session.settings.get("client_cpus"))
    return min((one for one in (threads, pinned) if one), default=None)


def _pinned(told: str | float | bool | None) -> float | None:
    """A number of CPUs, or which they are: `2-3,6`."""
    if not isinstance(told, str):
        return number(told)
    ends = [part.split("-") for part in told.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,9}", one) for part in ends for one in part):
        return None
    return sum(int(part[-1]) - int(part[0]) + 1 for part in ends)


def _of_server(runs: Sequence[Run]) -> float:
    """CPUs that it used; clients at work usually use a third of that. No end where nobody told."""
    used = mean(run.measures.get("server_cpus") for run in runs)
    return math.inf if used is None else used


def _idle(runs: Sequence[Run], cpus: float) -> float:
    """CPUs of the host that nobody used."""
    names = ("server_cpus", "client_cpus", "others_cpus")
    return cpus - sum(mean(run.measures.get(name) for run in runs) or 0.0 for name in names)


def never_warm(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        changed = [(run, change) for run in runs if (change := _rate_change(run)) is not None and abs(change) > _THIRDS]
        if changed:
            most = max((change for _, change in changed), key=abs)
            yield doubt(
                "never-warmed-up", about,
                f"In the last third of the measured time it did {abs(most):.0%} {'more' if most > 0 else 'less'} a "
                f"second than in the first, in {numbered([run for run, _ in changed])}.",
                "It was not at rest yet: measure longer (SECONDS=), after a longer warm-up.",
            )  # fmt: skip


def _rate_change(run: Run) -> float | None:
    """From the first to the last third of what was measured; None where there are too few looks."""
    if run.watched is None:
        return None
    series = next((one.values for one in run.watched.series if one.name == "qps"), ())
    looks = zip(run.watched.at_s, series, strict=False)
    # The first look is of the warm-up's last second.
    values = [value for at_s, value in looks if at_s > 0.5 and value is not None]
    third = len(values) // 3
    if len(values) < _LEAST_LOOKS or not fmean(values[:third]):
        return None
    return fmean(values[-third:]) / fmean(values[:third]) - 1


def short_run(session: Session) -> Iterator[Finding]:
    """Of loads, which go on as long as they are told to; how many runs there are is asked of every session."""
    seconds = number(session.settings.get("seconds"))
    if seconds is not None and 0 < seconds < _SECONDS and quantity(session.figure).unit == "/s":
        yield doubt(
            "short-run", "all", f"Each load was measured for {seconds:g} s, less than a minute.",
            f"Take it for a first look: flushing and checkpoints come in waves of many seconds; SECONDS={_SECONDS} "
            "or more.",
        )  # fmt: skip


def wide_spread(session: Session) -> Iterator[Finding]:
    """Not of kills at other moments each: that their recoveries differ is what was asked for."""
    if session.figure == RECOVERY:
        return
    for one in middles(session):
        if one.interval is not None and one.mean and one.interval > _WIDE_LOAD_INTERVAL * one.mean:
            yield doubt(
                "wide-spread", f"{one.version} {cell_words(session, one.variant)}",
                f"The mean is known to {one.interval / one.mean:.0%} only: its runs lie {_in_full(one.min)} to "
                f"{_in_full(one.max)} {quantity(one.name).unit}.".replace(" /s.", " a second."),
                "Say it with its interval, and claim no smaller difference; more RUNS= narrow it.",
            )  # fmt: skip


def no_polls(session: Session) -> Iterator[Finding]:
    """Where something was to be asked beside the load, and nothing was."""
    polled = {axis.name for axis in session.axes if axis.name == "poll" and is_switch(axis)}
    for about, runs in cells(session):
        cell = session.cells.get(runs[0].variant, {})
        if not any(cell.get(name, "off") == "on" for name in polled):
            continue
        silent = [run for run in runs if not run.measures.get(_POLLS)]
        if silent:
            yield doubt(
                "polls-did-not-run", about, f"Nothing was answered beside the load in {numbered(silent)}.",
                "This cell measured the load alone. A question that takes longer than the load is cut short: see what "
                "was asked, the server's log, and SECONDS=.",
            )  # fmt: skip


def many_errors(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        shares = beyond(runs, _error_share, _ERRORS)
        if shares:
            yield doubt(
                "errors", about,
                f"Up to {max(shares.values()):.1%} of the transactions ended in an error that the clients ignored: "
                f"{numbered(list(shares))}.",
                "Deadlocks are a part of some workloads: compare cells with as many of them; of any other error see "
                "what the clients printed.",
            )  # fmt: skip


def _error_share(run: Run) -> float | None:
    return value_of(run, "errors_per_transaction") or None


def others(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        used = beyond(runs, _others_cpus, _OTHERS)
        if used:
            yield doubt(
                "other-cpu-load", about,
                f"Others kept {max(used.values()):.1f} CPUs busy during {numbered(list(used))}.",
                "Find out who it was (top), stop it, and measure again.",
            )  # fmt: skip
        disturbed = [run for run in runs if _unexplained_bytes(run)]
        if disturbed:
            most = max(map(_unexplained_bytes, disturbed))
            yield doubt(
                "other-disk-load", about,
                f"Others read and wrote up to {most / 1e6:,.0f} MB on the same device during {numbered(disturbed)}.",
                "Find out who it was (iotop), stop it, and measure again.",
            )  # fmt: skip


def _others_cpus(run: Run) -> float:
    """As the sampler tells it, which knows the clients; else from both ends."""
    told = run.measures.get("others_cpus")
    if told is not None:
        return told
    around = run.around
    return 0.0 if around is None or around.seconds <= 0 else (around.others_cpu_s or 0.0) / around.seconds


def _unexplained_bytes(run: Run) -> float:
    """Beyond what the server did itself; 0 where it is not much."""
    around = run.around
    if around is None:
        return 0.0
    found = 0.0
    for theirs, name, share in (
        (around.others_read_bytes, "read_bytes", _OTHERS_READ),
        (around.others_written_bytes, "written_bytes", _OTHERS_WRITTEN),
    ):
        own = run.measures.get(name, run.measures.get(f"{name}_per_s", 0.0) * around.seconds)
        if (theirs or 0) > max(_FEW_BYTES, share * own):
            found += theirs or 0
    return found


def _in_full(value: float | None) -> str:
    """Four digits, or all before the point."""
    if value is None:
        return "?"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


LOAD_CHECKS: tuple[Check, ...] = (
    busy_clients, never_warm, short_run, wide_spread, no_polls, many_errors, others,
)  # fmt: skip


# Did the buffer pool hold what was to be in memory?

_POOL = "innodb_buffer_pool_size"
_LARGER = frozenset({"larger-than-memory", "compression"})
"""Questions that are about data which the buffer pool does not hold."""
_READS = 0.01
"""Pages that were not in the pool, for each query."""
_FEW = 20.0
"""Pages a second that hold up nobody: a server that has just been started reads some of its own, however few queries
there are."""
_PAGE_BYTES = 16 << 10
_NO_TABLES_BYTES = 512 * MIB
"""Of a data directory: the logs and the server's own tables."""


def not_in_memory(session: Session) -> Iterator[Finding]:
    """A load that reads from the device measures the device, unless that was asked for."""
    if quantity(session.figure).unit != "/s" or (number(session.settings.get("memory_ratio")) or 0) > 1:
        return
    for about, runs in cells(session):
        variant = runs[0].variant
        cell = session.cells.get(variant, {})
        if cell.get("question") in _LARGER or _POOL in cell:
            continue
        read = beyond(runs, _read_share, _READS)
        if read:
            yield doubt(
                "not-in-memory", about,
                f"Up to {max(read.values()):.2g} pages a query were read from the device, as the buffer pool did not "
                f"hold them: {numbered(list(read))}.",
                "Warm up for longer (WARMUP=), take fewer ROWS=, or a larger pool (--set innodb_buffer_pool_size=…); "
                "where reading is what you ask about, say MEMORY_RATIO=.",
            )  # fmt: skip
            continue
        known = server_of_cell(session, runs[0].version, variant)
        pool, data = number(known.get(f"@{_POOL}")), _used_data_bytes(known, cell)
        if pool is not None and data is not None and pool < data:
            yield doubt(
                "not-in-memory", about,
                f"The buffer pool has {pool / 1e9:.1f} GB, the tables' files {data / 1e9:.1f} GB: it cannot hold all "
                "of them.",
                "Take fewer ROWS= or TABLES=, or a host with more memory; where that is what you ask about, say "
                "MEMORY_RATIO=.",
            )  # fmt: skip


def _read_share(run: Run) -> float | None:
    if "polls_per_s" in run.measures:
        return None  # pages were read for who asks beside it, too: the load alone tells of itself
    qps, pages = run.measures.get("qps"), run.measures.get("buffer_pool_reads_per_s")
    if pages is None and (read := run.measures.get("read_bytes_per_s")) is not None:
        pages = read / _PAGE_BYTES
    if not qps or pages is None:
        return None
    return pages / qps if pages > _FEW else 0.0


def _used_data_bytes(known: Known, cell: Mapping[str, str]) -> float | None:
    """Of the tables that the load uses, by their share of all."""
    data, tables, used = number(known.get("data_bytes")), number(known.get("tables")), number(cell.get("tables"))
    if data is None:
        return None
    share = min(1.0, used / tables) if used and tables else 1.0
    return max(0.0, data - _NO_TABLES_BYTES) * share


MEMORY_CHECKS: tuple[Check, ...] = (not_in_memory,)


# Did a load that writes go on until its redo log was full, and had to be flushed for?

_AGE = "checkpoint_age_bytes"
_RISE = 0.05
"""Of the most there had been before."""
_FEW_LOG_BYTES = MIB
"""Somebody else's writing: of statistics, or of old rows that go."""


def still_filling(session: Session) -> Iterator[Finding]:
    """Nothing is said of servers that do not tell how much there is in the log."""
    for about, runs in cells(session):
        grown = {run: age for run in runs if (age := _grown_to(run)) is not None}
        if grown:
            yield doubt(
                "log-still-filling", about,
                "The redo since the last checkpoint still grew in the last third of the measured time, to "
                f"{max(grown.values()) / 1e6:,.0f} MB{_of_all(session, runs[0])}, in {numbered(list(grown))}: what "
                "writing costs once the log is full was not measured.",
                "Measure longer, or after a longer warm-up (SECONDS=, WARMUP=), or with a smaller log: "
                "SET=innodb_redo_log_capacity=128M, of which older servers are told in their own words.",
            )  # fmt: skip


def _grown_to(run: Run) -> float | None:
    """In its last third. None where it was not beyond all there had been before: waves go up, too, and down again."""
    if run.watched is None:
        return None
    series = next((one.values for one in run.watched.series if one.name == _AGE), ())
    looks = zip(run.watched.at_s, series, strict=False)
    # The first look is of the warm-up's end.
    values = [value for at_s, value in looks if at_s > 0.5 and value is not None]
    if len(values) < _LEAST_LOOKS:
        return None
    third = len(values) // 3
    before, last = max(values[:-third]), values[-third:]
    return max(last) if median(last) > before + max(_FEW_LOG_BYTES, _RISE * before) else None


def _of_all(session: Session, run: Run) -> str:
    """Of how large a log, where the server had told."""
    known = server_of_cell(session, run.version, run.variant)
    capacity = number(known.get("@innodb_redo_log_capacity"))
    if capacity is None:
        size, files = (number(known.get(f"@innodb_log_{name}")) for name in ("file_size", "files_in_group"))
        # MariaDB has one since 10.5, and later no option for their number.
        capacity = None if size is None else size * (files or 1)
    return f" of {capacity / 1e6:,.0f} MB" if capacity else ""


REDO_LOG_CHECKS: tuple[Check, ...] = (still_filling,)


# Is the server, or the tool beside it, one that should be timed?

_TALKATIVE = {"@log_error_verbosity": 3.0, "@log_warnings": 2.0}
"""From where on the server says in its log what it does."""
_NAMED = 0.9
_TOOL_BUSY_CPUS = 0.5
"""CPUs that this tool used itself during a start."""
_LATE_S, _LATE = 0.1, 0.01
_OUTSIDE_INNODB = frozenset({PROCESS_START, REST})
_OUTSIDE_S, _OUTSIDE = 1.0, 0.5
"""CPU time there, and its share of the startup."""


def debug_build(session: Session) -> Iterator[Finding]:
    for version in session.versions:
        known = server_of(session, version)
        told = " ".join(known.get(name, "") for name in ("@version", "@version_comment"))
        if "debug" in told.lower():
            yield doubt(
                "debug-build", version,
                f"This is a debug build ({known.get('@version', version)}): it checks itself as it runs.",
                "Its times say nothing of a release: measure the release build.",
            )  # fmt: skip


def verbosity(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        known = server_of(session, runs[0].version)
        quiet = [
            f"{name.removeprefix('@')}={known[name]}" for name, least in _TALKATIVE.items()
            if name in known and (number(known[name]) or 0) < least
        ]  # fmt: skip
        share = mean(named_share(run.phases) for run in runs if run.phases)
        if quiet and share is not None and share < _NAMED:
            yield doubt(
                "quiet-log", about,
                f"Only {share:.0%} of the startup has a name: {' and '.join(quiet)} keeps lines out of the log.",
                "Leave that setting out; the tool asks for all that the server can say.",
            )  # fmt: skip


def busy_client(session: Session) -> Iterator[Finding]:
    """Whoever measures must not be what is waited for."""
    for about, runs in cells(session):
        busy = [
            run for run in runs if run.around and (run.around.tool_cpu_s or 0) > _TOOL_BUSY_CPUS * run.around.seconds
        ]
        if busy:
            hint = "measure again"
            if session.settings.get("trace"):
                hint = "leave --trace out for the times, and trace in a session of its own"
            yield doubt(
                "busy-client", about,
                f"This tool itself kept half a CPU busy and more during {numbered(busy)}.",
                f"It may have been what was waited for: {hint}.",
            )  # fmt: skip
        late = [run for run in runs if (run.ready_lag_s or 0) > max(_LATE_S, _LATE * (run.startup_s or 0))]
        if late:
            worst = max(run.ready_lag_s or 0 for run in late)
            yield doubt(
                "late-log", about,
                f"The ready line arrived up to {worst:.2f} s after the server's own stamp on it: {numbered(late)}.",
                "The host was too busy to read along, or its clock was set: see what else runs, and measure again.",
            )  # fmt: skip


def cpu_outside_innodb(session: Session) -> Iterator[Finding]:
    """Most of such a start says nothing of recovery, nor of the storage."""
    for about, runs in cells(session):
        spent = beyond(runs, _cpu_outside_innodb_s, _OUTSIDE_S)
        most = {run: seconds for run, seconds in spent.items() if seconds > _OUTSIDE * (run.startup_s or 0)}
        if most:
            yield doubt(
                "cpu-outside-innodb", about,
                f"Most of the start was CPU time outside InnoDB, up to {max(most.values()):.1f} s: "
                f"{numbered(list(most))}.",
                "MariaDB 11.4 and later makes a TLS key at every start unless ssl=OFF, as this tool sets it: leave "
                "other settings of ssl out. For another cause, --stacks shows what the server computes.",
            )  # fmt: skip


def _cpu_outside_innodb_s(run: Run) -> float | None:
    """From exec to InnoDB's first line, and from its last to ready; None where no looks were taken."""
    timeline = run.timeline
    if timeline is None or not timeline.cpu_s:
        return None
    return sum(
        _cpu_s_until(timeline, phase.end_s) - _cpu_s_until(timeline, phase.start_s)
        for phase in run.phases
        if phase.name in _OUTSIDE_INNODB
    )


def _cpu_s_until(timeline: Timeline, at_s: float) -> float:
    """Between two looks it is taken to grow evenly."""
    looks = [(0.0, 0.0), *zip(timeline.at_s, timeline.cpu_s, strict=False)]
    for (one_s, one_cpu_s), (next_s, next_cpu_s) in pairwise(looks):
        if one_s <= at_s < next_s:
            return one_cpu_s + (next_cpu_s - one_cpu_s) * (at_s - one_s) / (next_s - one_s)
    return looks[-1][1]


def options_not_in_effect(session: Session) -> Iterator[Finding]:
    """Of those that are compared; what holds for all cells alike is told with the server."""
    wished = {axis.name for axis in session.axes}
    told: dict[tuple[str, Lowered], Finding] = {}
    for name, known in session.servers.items():
        version = name.partition(" ")[0]
        for one in lowered(known):
            if one.option in wished and (version, one) not in told:
                files = known.get("@open_files_limit")
                told[version, one] = doubt(
                    "option-not-in-effect", f"{version} {one.option}={one.asked}",
                    f"{one}{_as_in(session, version, one)}.",
                    "Read these cells as what is in effect; more open files (ulimit -n"
                    f"{f': {files} here' if files else ''}), or another value, may help.",
                )  # fmt: skip
    yield from told.values()


def _as_in(session: Session, version: str, one: Lowered) -> str:
    """Other values of the same option that came to the same."""
    here = [known for name, known in session.servers.items() if name.partition(" ")[0] == version]
    others = {
        given(known)[one.option] for known in here
        if one.option in given(known) and same(known.get(f"@{one.option}", ""), one.effective)
    } - {one.asked}  # fmt: skip
    if not others:
        return ""
    return f", as where {' or '.join(sorted(others))} was: one experiment, and no effect is told between them"


SERVER_CHECKS: tuple[Check, ...] = (debug_build, verbosity, busy_client, cpu_outside_innodb, options_not_in_effect)


# Do the runs agree among themselves, and enough for what is said of them?

_SLOW = 1.3
"""The first run over the slowest of the others, from which on it is doubted."""
_OFF = 0.15
_DEVIATIONS = 3.5
"""An outlier lies so many robust deviations from the median, and at least so large a share of it."""
_ROBUST = 1.4826
"""The median distance from the median, times this, is the standard deviation of what has none."""
_LEAST_TO_TELL = 5
"""Runs from which on an outlier or a drift can be told from chance."""
_DRIFTED = 0.1
_SURE = 2.2
"""Of Kendall's S in its deviations: five runs that rise one after the other give 2.2."""
_WIDE_START_INTERVAL = 0.15
"""Half of the interval over the mean, from which on a mean says little."""
_WORTH = 0.05
"""A ratio nearer to 1 claims no difference."""
_AGAIN = "The mean includes it. Measure again over the same data directory"


def few_runs(session: Session) -> Iterator[Finding]:
    runs = session.settings.get("runs")
    if session.planned_runs and isinstance(runs, int) and runs < LEAST_RUNS:
        yield doubt(
            "few-runs", "all", f"With {runs} run{'s' if runs > 1 else ''} of each nothing is known of their spread.",
            f"Take these figures as a first look; measure with RUNS={_LEAST_TO_TELL} or more.",
        )  # fmt: skip


def _first_is_slow(times: Sequence[float]) -> bool:
    return len(times) >= LEAST_RUNS and times[0] > _SLOW * max(times[1:])


def slow_first_run(session: Session) -> Iterator[Finding]:
    """Something was not yet as it was for the others."""
    for about, runs in cells(session):
        first, *others = times = [run.startup_s or 0.0 for run in runs]
        if _first_is_slow(times):
            yield doubt(
                "slow-first-run", about,
                f"The first run took {first:.1f} s, the others {min(others):.1f} to {max(others):.1f} s.",
                f"{_AGAIN}: what is slow only once is a volume that is read for the first time, or a storage that "
                "remembers what was read lately.",
            )  # fmt: skip


def outliers(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        times = [run.startup_s or 0.0 for run in runs]
        if len(times) < _LEAST_TO_TELL:
            continue
        middle = statistics.median(times)
        deviation = _ROBUST * statistics.median(abs(time - middle) for time in times)
        far = [
            run for run, time in zip(runs, times, strict=True)
            if abs(time - middle) > max(_DEVIATIONS * deviation, _OFF * middle)
            and not (run is runs[0] and _first_is_slow(times))
        ]  # fmt: skip
        if far:
            told = ", ".join(f"run {run.number} ({run.startup_s or 0:.1f} s)" for run in far)
            yield doubt(
                "outlier", about, f"Far from the median of {middle:.1f} s: {told}.",
                "The mean includes it. See what else went on during that run, in its log and its timeline.",
            )  # fmt: skip


def drift(session: Session) -> Iterator[Finding]:
    for about, runs in cells(session):
        times = [run.startup_s or 0.0 for run in runs]
        change = _time_change(times)
        if len(times) < _LEAST_TO_TELL or _first_is_slow(times):
            continue
        if abs(change) > _DRIFTED and _trend(times) >= _SURE:
            yield doubt(
                "drift", about,
                f"The runs {'rose' if change > 0 else 'fell'} one after the other, from {times[0]:.1f} to "
                f"{times[-1]:.1f} s.",
                "Something changes while it is measured: credits that run out, a device that fills or warms up. "
                "Measure with more RUNS=, until it is at rest.",
            )  # fmt: skip


def too_wide(session: Session) -> Iterator[Finding]:
    """A difference is claimed by whoever reads two means side by side."""
    more = more_runs(session)
    for summary in summarised(session):
        about = f"{summary.version} {summary.variant}"
        if summary.differs is False and summary.ratio is not None and abs(summary.ratio - 1) > _WORTH:
            yield doubt(
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
            yield doubt(
                "wide-interval", about,
                f"The mean of {summary.mean_s:.1f} s is known to {summary.interval_s:.1f} s only.",
                f"Say it with its interval; {more}",
            )  # fmt: skip


def more_runs(session: Session) -> str:
    runs = session.settings.get("runs")
    return f"more runs narrow it: RUNS={2 * runs}." if isinstance(runs, int) else "more runs narrow it."


def _time_change(times: Sequence[float]) -> float:
    return times[-1] / times[0] - 1 if times and times[0] else 0.0


def _trend(times: Sequence[float]) -> float:
    """Kendall's S over its standard deviation: how sure does one run lie above (or below) those before it?"""
    rising = 0
    before: list[float] = []
    for one in times:
        rising += bisect_left(before, one) - (len(before) - bisect_right(before, one))
        insort(before, one)
    count = len(times)
    return abs(rising) / math.sqrt(count * (count - 1) * (2 * count + 5) / 18)


SPREAD_CHECKS: tuple[Check, ...] = (few_runs, slow_first_run, outliers, drift, too_wide)


# Which figures of this session may not mean what they seem to? Every doubt, and what to do about it.

CHECKS = (*SPREAD_CHECKS, *CACHE_CHECKS, *HOST_CHECKS, *SERVER_CHECKS, *GROWTH_CHECKS)
"""Of a session about starts."""
WORK_CHECKS = (
    *LOAD_CHECKS, *REDO_LOG_CHECKS, *MEMORY_CHECKS, few_runs, cached_below, cold_not_proved,
    stolen, held_back, debug_build, options_not_in_effect,
)  # fmt: skip
"""Of one about servers at work: what holds for both, and what only they can suffer from."""


def checks_of(session: Session) -> tuple[Check, ...]:
    return WORK_CHECKS if is_work(session) else CHECKS


def findings(session: Session) -> tuple[Finding, ...]:
    found = (one for check in checks_of(session) for one in check(session))
    return tuple(gathered(found) if is_work(session) else found)


def not_looked_at(session: Session) -> str | None:
    """What could not be doubted, since this session does not tell it: older ones do not."""
    if any(run.around is not None for run in session.runs) or not session.runs:
        return None
    return f"what else went on beside these {'runs' if is_work(session) else 'starts'} is not known"
