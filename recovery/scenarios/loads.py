"""How is a server put under load? By sysbench, first to warm it up and then to be measured, with pollers beside it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict

from recovery.builds.tools import SYSBENCH
from recovery.errors import RecoveryError
from recovery.host.cores import split
from recovery.host.pinning import own_cores, pin
from recovery.load import polling, sysbench
from recovery.load.clients import GRACE_S, Client
from recovery.load.shared import Beside, Told, read_told
from recovery.scenarios.bench import Bench
from recovery.scenarios.done import Done
from recovery.scenarios.reading import read_tables
from recovery.scenarios.watch import Watch
from recovery.server.server import Server
from recovery.work import Load

_LATENCIES = (
    "latency_mean_ms", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "latency_p999_ms", "latency_max_ms",
)  # fmt: skip
_READERS = frozenset({"oltp_point_select", "oltp_read_only", "select_random_points", "select_random_ranges"})
_LOAD, _POLLS = "load", "polls"
_TOLD = {_LOAD: "sysbench", _POLLS: "the poller"}
_PREPARING_S = 60.0
"""For all statements to be prepared; sysbench itself gives up after half of it."""
_TAIL_S, _LAST_TAIL_S = 0.5, 5.0
"""For a poller after its load: to end by itself, and once its answer was cut short."""


class _Where(TypedDict):
    program: Path
    socket: Path
    database: str


def load(bench: Bench, task: Load, watch: Watch) -> Done:
    """One run of sysbench, warm-up and all. Measured is what it measures itself: from where on it counts (anew) until
    it has ended. A poller begins with the first transactions, and is not waited for at the end."""
    apart = split(own_cores())
    if apart is not None and (refused := pin(bench.server.life.pid, apart.server)):
        bench.note(f"Server and clients share all CPUs: {refused}.")
        bench.cpus_shared = True
        apart = None
    clients = _Clients(bench, task, watch, cpus=apart.clients if apart else None)
    read_tables(bench, task)
    with watch.clients_at_work(), bench.server.watched(), clients:
        bench.tell("warming up" if task.warmup_s else "under load")
        client = clients.begun(_LOAD)
        _until(client, sysbench.AT_WORK, _PREPARING_S)
        poller = clients.begun(_POLLS) if _polled(task) else None
        if task.warmup_s:
            _until(client, sysbench.CHECKPOINT, task.warmup_s + GRACE_S)
            bench.tell("under load")
        with watch.measured():
            ended = client.wait(task.seconds)
            over_s = time.monotonic()
        polls, told = _ended_polls(poller, bench.server, task) if poller else (None, ())
        report = sysbench.read_report(ended.text)
    return Done(
        measures=dict(_measures(report, polls)),
        clients=clients.told,
        queries=report.queries,
        commits=0 if task.script in _READERS else report.transactions,
        seen=tuple((look.at_s, look.qps) for look in report.looks),
        polled=polls.seen if polls else (),
        beside=None if task.poll is None else Beside(task.poll.clients, over_s, told),
    )


def _polled(task: Load) -> bool:
    return task.poll is not None and task.poll.clients > 0


def _until(client: Client, words: str, timeout_s: float) -> None:
    if not client.has_said(words, timeout_s):
        client.wait(0)  # raises why it has failed, or hangs
        raise RecoveryError(
            f"{client.name} had ended before it was to be measured", "a script or an option of yours ends it"
        )


def _ended_polls(poller: Client, server: Server, task: Load) -> tuple[polling.Polls | None, tuple[Told, ...]]:
    """An answer that is under way says nothing of the load any more, and may take minutes."""
    if not poller.has_ended(_TAIL_S):
        with server.session() as connection:
            polling.cut_short(connection)
    whole = poller.has_ended(_LAST_TAIL_S)
    ended = poller.wait(0) if whole else poller.stop()
    return polling.read_polls(ended.text, warmup_s=task.warmup_s, whole=whole), read_told(ended.text)


class _Clients:
    """The load's, and the pollers'. As a context none outlives it."""

    def __init__(self, bench: Bench, task: Load, watch: Watch, *, cpus: frozenset[int] | None) -> None:
        self._watch = watch
        self._cpus = cpus
        self._begun = ExitStack()
        program, server, schema = bench.conditions.programs[SYSBENCH], bench.server, bench.schema
        where: _Where = {"program": program.path, "socket": server.socket, "database": schema.database}
        self._commands = {_LOAD: sysbench.command(task, **where)}
        if task.poll is not None and _polled(task):
            statements = polling.write_statements(task.poll, server.logdir)
            self._commands[_POLLS] = polling.command(
                task.poll, task, statements=statements, tables=schema.tables, version=server.build.version, **where
            )
        self.told = {
            program.name: program.version,
            **{name: shlex.join(command) for name, command in self._commands.items()},
        }
        """For the report."""

    def begun(self, name: str) -> Client:
        client = self._begun.enter_context(Client(_TOLD[name], self._commands[name], cpus=self._cpus))
        self._watch.clients.append(client)
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._begun.__exit__(kind, error, trace)


def _measures(report: sysbench.Report, polls: polling.Polls | None) -> Iterator[tuple[str, float]]:
    yield "elapsed_s", report.seconds
    yield "qps", report.qps
    yield "tps", report.tps
    yield "client_errors", float(report.errors)
    for name in _LATENCIES:
        if (value := getattr(report, name)) is not None:
            yield name, value
    if polls is not None:
        yield "polls_per_s", polls.per_s
        if polls.mean_ms is not None:
            yield "poll_mean_ms", polls.mean_ms
