"""One target: the output of other programs (sysbench, perf, eu-stack), and stored stacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from unittest import mock

from fuzzing.target import FIXTURES, Target, text_of
from recovery.analysis.stacks import MAX_FRAMES, Folded, folded_text, hottest_functions, parse_folded
from recovery.errors import RecoveryError
from recovery.loads.poller import parse_polls
from recovery.loads.status_sampler import mutex_totals, parse_mutexes
from recovery.loads.sysbench import parse_report
from recovery.model import Phase
from recovery.profiling import eu_stack, perf
from recovery.profiling.profile import fold_stacks, top_chains
from recovery.profiling.symbols import Snapshot, Stack

_PID = 22349
_PHASES = (Phase("discovery", 0.0, 1.0), Phase("validation", 1.0, 2.0))
_WARMUP_S = 5


def _sysbench(data: bytes) -> None:
    text = text_of(data)
    for whole in (True, False):
        with suppress(RecoveryError):
            polls = parse_polls(text, warmup_s=_WARMUP_S, whole=whole)
            assert polls is None or polls.per_s >= 0
    report = parse_report(text)
    assert min(report.qps, report.tps, report.seconds, report.errors) >= 0
    assert all(math.isfinite(look.at_s) and look.qps >= 0 for look in report.intervals)


def _perf(data: bytes) -> None:
    _check_stacks(list(perf.parse_snapshots(text_of(data), pid=_PID, since=35994.0)))


def _eu_stack(data: bytes) -> None:
    """Symbols would be read from the process."""
    with mock.patch(
        "recovery.profiling.eu_stack.resolve_addresses", lambda _, addresses: dict.fromkeys(addresses, "f(int)")
    ):
        (stacks,) = eu_stack.resolve_stacks(_PID, [text_of(data)])
    _check_stacks([Snapshot(0.5, stacks)])


def _check_stacks(found: list[Snapshot]) -> None:
    assert all(isinstance(stack, Stack) and stack.frames for one in found for stack in one.stacks)
    folded = fold_stacks(found, _PHASES)
    _check_written(folded)
    assert all(0 < chain.samples <= chain.of for chain in top_chains(found, _PHASES))


def _check_written(folded: Folded) -> None:
    """But for stacks that no program takes, and more samples than there can be."""
    if max(map(len, folded), default=0) <= MAX_FRAMES and max(folded.values(), default=0) < 10**15:
        assert parse_folded(folded_text(folded)) == folded


def _folded(data: bytes) -> None:
    folded = parse_folded(text_of(data))
    _check_written(folded)
    assert all(0 <= one.on_top <= one.within <= one.of for one in hottest_functions(folded))


def _mutexes(data: bytes) -> None:
    rows = [tuple(line.split("\t")) for line in text_of(data).split("\n")]
    assert all(count >= 0 for count in mutex_totals(parse_mutexes(row for row in rows if len(row) > 2)).values())


_CHECKS: Mapping[str, Callable[[bytes], None]] = {
    "sysbench": _sysbench,
    "perf": _perf,
    "eu-stack": _eu_stack,
    "folded": _folded,
    "mutexes": _mutexes,
}


def check_printed(data: bytes) -> None:
    """The first line says which program, the rest is what it has printed."""
    name, _, printed = data.partition(b"\n")
    with suppress(RecoveryError):
        _CHECKS.get(text_of(name), _sysbench)(printed)


_PERF = """\
22349 35994.843597: 
	ffffffff81c3bf0d percpu_counter_add_batch ([kernel.kallsyms])
	          d9cea7 Datafile::close(int, std::map<int, char>) (/opt/mysqld/bin/mysqld)
	          d6c916 [unknown] (/opt/mysqld/bin/mysqld)

22361 35995.000000: 
	          d6c916 (anonymous namespace)::operator<(X const&) (/opt/mysqld/bin/mysqld)
"""  # noqa: E101, W291
_EU_STACK = "PID 22349 - process\nTID 22349:\n#0  0x00007f468c10d544\n#1  0x0000000000978c57\nTID 21466:\n#0  0x1\n"
_FOLDED = "discovery;main thread;main;os_file_read;pread64 12\nvalidation;other threads;start_thread;futex_wait 3\n"


def _seeds() -> Iterator[bytes]:
    for path in sorted((FIXTURES / "sysbench").glob("*.txt")):
        lines = path.read_bytes().splitlines(keepends=True)
        # Of the bars and the seconds a few are enough.
        yield b"sysbench\n" + b"".join(line for number, line in enumerate(lines) if number % 8 == 0 or b":" in line)
    for path in sorted((FIXTURES / "mutex").glob("*.tsv")):
        yield b"mutexes\n" + b"".join(path.read_bytes().splitlines(keepends=True)[:6])
    for name, text in (("perf", _PERF), ("eu-stack", _EU_STACK), ("folded", _FOLDED)):
        yield f"{name}\n{text}".encode()


PRINTED = Target(
    "printed",
    check_printed,
    _seeds,
    words=(
        *(f"{name}\n" for name in _CHECKS),
        "Threads started!", "] Checkpoint report:", "    total time:  1.0s", "[ 1s ] thds: 1 tps: 1.0 qps: 2.0 (r",
        " lat (ms,99%): 1.0 err/s: 0.0", "    transactions:  9 (", "    total:  9\n", "0.125 |** 5\n", "    avg:  1\n",
        "    ignored errors:  0 (", "    reconnects:  0 (", "TID ", "operator", " [clone",
        "(anonymous namespace)", "[unknown]", "[kernel", ".ko)", "os_waits=3", "spins=9,waits=3", "futex", "@@",
    ),
    max_bytes=2048,
    share=100,
)  # fmt: skip
