"""How is a server put under load? By sysbench, first to warm it up and then to be measured, with pollers beside it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from recovery.builds.tools import SYSBENCH
from recovery.host.pinning import own_cpus, pin, split
from recovery.load import polling, sysbench
from recovery.load.clients import Client
from recovery.scenarios.bench import Bench
from recovery.scenarios.done import Done
from recovery.scenarios.reading import read_tables
from recovery.scenarios.watch import Watch
from recovery.work import Load

_LATENCIES = (
    "latency_mean_ms", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "latency_p999_ms", "latency_max_ms",
)  # fmt: skip
_READERS = frozenset({"oltp_point_select", "oltp_read_only", "select_random_points", "select_random_ranges"})
_TOLD = {"load": "sysbench", "polls": "the poller"}


@dataclass(frozen=True)
class _Ran:
    load: sysbench.Report
    polls: sysbench.Report | None


def load(bench: Bench, task: Load, watch: Watch) -> Done:
    apart = split(own_cpus())
    if apart is not None:
        pin(bench.server.life.pid, apart.server)
    clients = _Clients(bench, task, watch, cpus=apart.clients if apart else None)
    read_tables(bench, task)
    warm = None
    if task.warmup_s:
        bench.tell("warming up")
        warm = clients.run(task.warmup_s)
    bench.tell("under load")
    with watch.measured(), bench.server.watched():
        ran = clients.run(task.seconds)
    return Done(
        measures=dict(_measures(ran)),
        clients=clients.commands(task.seconds),
        queries=ran.load.queries,
        commits=0 if task.script in _READERS else ran.load.transactions,
        seen=(*(_seconds(warm, -task.warmup_s) if warm else ()), *_seconds(ran, 0)),
    )


class _Clients:
    """The load's, and the pollers'."""

    def __init__(self, bench: Bench, task: Load, watch: Watch, *, cpus: frozenset[int] | None) -> None:
        self._bench = bench
        self._task = task
        self._watch = watch
        self._cpus = cpus
        self._program = bench.conditions.programs[SYSBENCH]

    def run(self, seconds: int) -> _Ran:
        """Both at once, for as long."""
        with self._watch.clients_at_work(), ExitStack() as stack:
            started = {
                name: stack.enter_context(Client(_TOLD[name], command, cpus=self._cpus))
                for name, command in self._both(seconds).items()
            }
            self._watch.clients += started.values()
            ended = {name: client.wait(seconds) for name, client in started.items()}
            found = {name: sysbench.read_report(one.text) for name, one in ended.items()}
        return _Ran(found["load"], found.get("polls"))

    def commands(self, seconds: int) -> dict[str, str]:
        """For the report."""
        told = {name: shlex.join(command) for name, command in self._both(seconds).items()}
        return {self._program.name: self._program.version, **told}

    def _both(self, seconds: int) -> Mapping[str, list[str]]:
        program, socket, schema = self._program.path, self._bench.server.socket, self._bench.schema
        load, poll = self._task, self._task.poll
        found = {
            "load": sysbench.command(load, program=program, socket=socket, database=schema.database, seconds=seconds)
        }
        if poll is not None:
            found["polls"] = polling.command(
                poll,
                program=program,
                statements=polling.write_statements(poll, self._bench.server.logdir),
                socket=socket,
                database=schema.database,
                tables=schema.tables,
                seconds=seconds,
            )
        return found


def _measures(ran: _Ran) -> Iterator[tuple[str, float]]:
    report = ran.load
    yield "elapsed_s", report.seconds
    yield "qps", report.qps
    yield "tps", report.tps
    yield "client_errors", float(report.errors)
    for name in _LATENCIES:
        if (value := getattr(report, name)) is not None:
            yield name, value
    if ran.polls is not None:
        yield "polls_per_s", ran.polls.tps
        if ran.polls.latency_mean_ms is not None:
            yield "poll_mean_ms", ran.polls.latency_mean_ms


def _seconds(ran: _Ran, since_s: int) -> Iterator[tuple[float, float]]:
    for look in ran.load.looks:
        yield since_s + look.at_s, look.qps
