"""What is looked at while a server is at work? Its counters each second, and what was used from beginning to end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from recovery.errors import HostUnfitError, RecoveryError, ServerFailedError, TrialVoidError
from recovery.host.around import Surroundings
from recovery.host.usage import Meter
from recovery.load.clients import Client
from recovery.load.sampler import Sampler
from recovery.measured import Around, Phase, Samples, Usage
from recovery.scenarios.bench import Bench

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

RAW = "looks.csv.gz"
_PATIENCE_S = 30.0
"""With a look's answer: a server may be very busy with what it was asked."""


class Watch:
    """Of a bench whose server runs. As a context it samples; `measured` is the part of it that counts, and comes last:
    afterwards nothing is looked at any more."""

    def __init__(self, bench: Bench) -> None:
        self._server = bench.server
        self._sampling = bench.sampling()
        self._began_s = 0.0
        self._looking = ExitStack()
        self.clients: list[Client] = []
        """Programs that put it to work, those that have ended included."""
        self.usage = Usage()
        self.around: Around | None = None
        self.seconds = 0.0
        """How long was measured."""
        pid = self._server.life.pid
        self.sampler = Sampler(self._connect, pid, self._server.device, clients=self.cpu_of_clients)

    def cpu_of_clients(self) -> float:
        """Seconds, of all so far."""
        return sum(client.cpu_s() or 0.0 for client in tuple(self.clients))

    @contextmanager
    def clients_at_work(self) -> Iterator[None]:
        """One that fails because its server is gone tells of the server; one that fails by itself, of no figure."""
        try:
            yield
        except (ServerFailedError, TrialVoidError, HostUnfitError):
            raise
        except RecoveryError as error:
            failure = self._server.failure(error.message)
            if self._server.alive:
                raise TrialVoidError(error.message, error.hint) from error
            raise failure from error

    @contextmanager
    def measured(self) -> Iterator[None]:
        pid, device = self._server.life.pid, self._server.device
        clients_s = self.cpu_of_clients()
        self.sampler.begin()
        meter, surroundings = Meter(pid, device, self._server.group), Surroundings(pid, device)
        self._began_s = time.monotonic()
        with self._sampling.of(pid) if self._sampling else ExitStack():
            yield
            self.seconds = time.monotonic() - self._began_s
            self.usage = meter.read()
            self.around = _without(surroundings.read(), self.cpu_of_clients() - clients_s)
            # Before whoever took stacks has come to an end, which may last.
            self.sampler.end()

    def stacks(self, name: str) -> Samples | None:
        """Taken while it was measured, under this name; before its server ends. What is answered in a hundredth of a
        second has none, and was answered all the same."""
        if self._sampling is None:
            return None
        phases = (Phase(name, 0.0, self.seconds),)
        try:
            return self._sampling.seen(self._server.life.pid, since=self._began_s, phases=phases)
        except TrialVoidError as error:
            told = f"{error.message}, in {self.seconds:.3g} s of {name}"
            return Samples(self._sampling.program, 0, (), "", note=told)

    @property
    def raw(self) -> Path:
        """All looks, beside the server's log."""
        return self._server.logdir / RAW

    def _connect(self) -> Connection[Cursor]:
        return self._server.connect(timeout_s=_PATIENCE_S)

    def __enter__(self) -> Self:
        self.sampler.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sampler.__exit__(kind, error, trace)


def _without(around: Around, clients_s: float) -> Around:
    """To the host the clients are others; to a reader they are what was asked for."""
    others = around.others_cpu_s
    return around if others is None else replace(around, others_cpu_s=round(max(0.0, others - clients_s), 2))
