"""Parts of crash-matrix and damage: a server over a copy of its data directory, killed while it writes.

The original is never started, so that no crash can damage it, and every run begins with the same files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from recovery.builds.packages import SYSBENCH
from recovery.crash.tasks import Crash, Damage
from recovery.crash.writers import JournalWriter, Writer
from recovery.errors import HostUnfitError
from recovery.experiments.bench import Bench
from recovery.experiments.experiment import ExperimentOptions, HostCapacity, selected_parts
from recovery.linux.privileges import RootStep
from recovery.model import Measurement, Schema, Variant
from recovery.mysqld.datadir import Copy, disposable_copy
from recovery.mysqld.server import Server

# --- One run


def random_source(bench: Bench, variant: Variant, task: Crash | Damage) -> Random:
    """Returns the source of all random choices of one run: they are the same in another session with this seed."""
    return Random(f"{task.seed} {bench.server.build.version.release} {variant.name} {bench.repeat}")  # noqa: S311 - no secret


@contextmanager
def running_on_copy(bench: Bench, *, on_a_disk: bool) -> Iterator[tuple[Copy, Measurement]]:
    """Starts the server of the bench over a copy of its data directory; yields the copy and the start."""
    server, original = bench.server, bench.server.datadir
    bench.on_step("copying the data directory")
    in_containers = server.build.image is not None
    with disposable_copy(original, bench.datadir.path, on_a_disk=on_a_disk, for_containers=in_containers) as copy:
        server.datadir = copy.mysql
        try:
            bench.on_step("starting the server")
            started = server.start(log_name="before.err", settings=bench.settings)
            bench.describe()
            yield copy, started
        finally:
            server.close()
            server.datadir = original


def create_journal_writer(bench: Bench, rng: Random) -> JournalWriter:
    return JournalWriter(bench.conditions.programs[SYSBENCH], bench.server.logdir / "journals", rng)


@contextmanager
def background_writer(writer: Writer, server: Server) -> Iterator[None]:
    """Runs the writer during the block; at its end, whatever happened, ends the server and then the writer."""
    try:
        writer.begin(server)
        yield
    finally:
        server.close()
        writer.end()


def log_lines(*logs: Path) -> list[str]:
    return [line for log in logs for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]


# --- The experiments

SCHEMA = Schema(tables=20, columns=1)


@dataclass(frozen=True)
class CrashOptions(ExperimentOptions):
    """The options of experiments that make random choices."""

    seed: int = 1
    """The same for all sessions unless the user gives another, so that what was found once is found again."""
    only: int | None = None
    """Number of the only run to do in each cell; None is all."""

    @property
    def first_run(self) -> int:
        return self.only or 1


@dataclass(frozen=True)
class CrashParts:
    """The parts of an experiment, of which one needs a separate disk and is skipped on hosts that cannot provide it."""

    experiment: str
    names: tuple[str, ...]
    with_disk: str
    why_no_disk: Callable[[HostCapacity], str | None]

    def selected(self, requested: CrashOptions, host: HostCapacity) -> tuple[str, ...]:
        """Returns the parts to run, in the order of `names`.

        Raises HostUnfitError if the user explicitly asked for the one that needs a disk and the host has none."""
        chosen = selected_parts(requested, self.names, self.experiment)
        parts = tuple(name for name in self.names if name in chosen)
        if self.with_disk not in parts or (why := self.why_no_disk(host)) is None:
            return parts
        if self.with_disk in requested.parts:
            raise HostUnfitError(
                f"{self.with_disk} needs a separate disk, and this host cannot provide one: {why}",
                f"root, loop devices, mkfs.ext4 and the step `{RootStep.MOUNT}` are needed; "
                f"otherwise leave {self.with_disk} out of --question",
            )
        return tuple(name for name in parts if name != self.with_disk)

    def skipped_notes(self, requested: CrashOptions, host: HostCapacity) -> tuple[str, ...]:
        """Returns a note for the report if the part is skipped by default on this host."""
        why = None if requested.parts else self.why_no_disk(host)
        if why is None:
            return ()
        return (f"{self.with_disk} is skipped: it needs a separate disk, and this host cannot provide one: {why}",)
