"""Samples the stack traces of a server while it starts, and summarises them by startup phase."""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from recovery.analysis.stacks import Folded, folded_text, hottest_functions, is_waiting
from recovery.errors import TrialVoidError
from recovery.linux.signals import pause_process
from recovery.model import CallChain, Phase, StackSamples
from recovery.phase_table import UNNAMED
from recovery.profiling import eu_stack, perf
from recovery.profiling.samplers import EU_STACK, PERF
from recovery.profiling.symbols import (
    TOOL_TIMEOUT_S,
    Snapshot,
    last_line,
    profiler_environment,
    run_tool,
    same_files_on_host,
)

# --- Counting stack traces by phase

MAIN_THREAD, OTHER_THREADS = "main thread", "other threads"
MAX_CHAINS = 3
"""Maximum number of call chains shown for a phase and a kind of thread; the folded file contains all of them."""


def fold_stacks(snapshots: Sequence[Snapshot], phases: Sequence[Phase]) -> Folded:
    """Counts the stack traces by phase, kind of thread and functions.

    The main thread is always counted, other threads only when they do not wait."""
    folded: Folded = Counter()
    for snapshot in snapshots:
        phase = _phase_at(snapshot.at_s, phases)
        for stack in snapshot.stacks:
            if stack.main or not is_waiting(stack.frames):
                folded[(phase, MAIN_THREAD if stack.main else OTHER_THREADS, *stack.frames)] += 1
    return folded


def top_chains(snapshots: Sequence[Snapshot], phases: Sequence[Phase]) -> tuple[CallChain, ...]:
    """Returns the most frequent call chains of each phase, in the order of the phases."""
    snapshot_counts = Counter(_phase_at(snapshot.at_s, phases) for snapshot in snapshots)
    # Several threads with the same call chain count once per sample.
    chains = Counter(names for snapshot in snapshots for names in fold_stacks((snapshot,), phases))
    by_thread: dict[tuple[str, str], list[CallChain]] = {
        (phase.name, who): [] for phase in phases for who in (MAIN_THREAD, OTHER_THREADS)
    }
    for (phase, who, *frames), count in chains.most_common():
        by_thread.setdefault((phase, who), []).append(
            CallChain(phase, who, tuple(frames), count, snapshot_counts[phase], waits=is_waiting(frames))
        )
    return tuple(chain for of_thread in by_thread.values() for chain in of_thread[:MAX_CHAINS])


def _phase_at(at_s: float, phases: Sequence[Phase]) -> str:
    """Returns the name of the phase at a time.

    A sample after the last phase belongs to that phase, because it was started before the phase ended."""
    begun = (phase.name for phase in reversed(phases) if phase.start_s <= at_s)
    return next(begun, phases[0].name if phases else UNNAMED)


_PAUSE_S = 0.05
"""Minimum seconds between two samples. The pause also lasts at least as long as the last sample took, so that the
server can make progress."""
_PAUSE_SHARE = 0.001
"""The pause is at least this share of the time since the sampling began: a start that takes an hour does not need a
hundred thousand samples."""
_EXEC_TIMEOUT_S = 2.0
"""Seconds to wait until the process has become the server and loaded its libraries."""
_ATTACH_TIMEOUT_S = 30.0
"""Seconds to wait until perf has attached to the server."""
_PERF_EXIT_TIMEOUT_S = 30.0
"""Seconds to wait until perf has written its recording."""


class StackSampler:
    """Samples the stack traces of one start in a thread; the results are read once the start is over."""

    def __init__(self, programs: Sequence[str], executable: str, folder: Path) -> None:
        self.program = programs[0]
        self._programs = programs
        self._executable = executable
        """Name of the server's executable. Until the process has mapped it, the server has not been executed yet."""
        self._folder = folder
        """Folder for the recording of perf. It is created, and removed once the recording has been read."""
        self._over = threading.Event()
        self._program: subprocess.Popen[bytes] | None = None
        self._samples: list[tuple[float, str]] = []
        self._complaint = ""
        self._is_full = False
        """Whether the recording reached its size limit before the start was over."""
        self._attached = threading.Event()

    @contextmanager
    def of(self, pid: int) -> Iterator[None]:
        """Samples the process in a thread during the `with` block."""
        thread = threading.Thread(target=self._run, args=(pid,), name="stacks", daemon=True)
        thread.start()
        try:
            yield
        except BaseException:
            self._over.set()
            if self._program is not None:
                self._program.kill()  # the start has failed, so the sample in progress is not needed
            raise
        finally:
            self._over.set()
            thread.join()

    def wait_until_attached(self) -> None:
        """Waits until perf has attached to all threads. One that is created while it does so would never be sampled."""
        self._attached.wait(_ATTACH_TIMEOUT_S)

    def samples(self, pid: int, *, since: float, phases: Sequence[Phase], note: Callable[[str], None]) -> StackSamples:
        """Returns the results, and calls `note` with what they lack. The process must still exist.

        Times are relative to `since` on the monotonic clock, like those of the phases. Raises TrialVoidError if there
        are no samples."""
        try:
            read_snapshots = self._perf_snapshots if self.program == PERF else self._eu_stack_snapshots
            snapshots = tuple(snapshot for snapshot in read_snapshots(pid, since) if snapshot.at_s >= 0)
        except (OSError, subprocess.SubprocessError) as error:
            snapshots, self._complaint = (), str(error)
        if not snapshots:
            raise TrialVoidError(
                f"{self.program} took no stack trace of the server{': ' if self._complaint else ''}{self._complaint}",
                "a start of some hundredths of a second is too short for it; else see `recovery docs causes#stacks`",
            )
        if self._is_full:
            note(
                f"{self.program} had recorded {perf.MAX_RECORDING_SIZE} after "
                f"{max(snapshot.at_s for snapshot in snapshots):.0f} s, which is its limit: "
                "what the server did later is not in these stacks"
            )
        folded = fold_stacks(snapshots, phases)
        file = self._folder.with_suffix(".folded")
        file.write_text(folded_text(folded), encoding="utf-8", errors="replace")
        return StackSamples(
            self.program, len(snapshots), top_chains(snapshots, phases), hottest_functions(folded), str(file)
        )

    def _run(self, pid: int) -> None:
        try:
            self.program = self._choose_program(pid)
            if self.program == PERF:
                self._record_with_perf(pid)
            else:
                self._sample_with_eu_stack(pid)
        except (OSError, subprocess.SubprocessError, TrialVoidError) as error:
            self._complaint = str(error)
        finally:
            self._attached.set()

    def _choose_program(self, pid: int) -> str:
        """Returns the program to use.

        eu-stack opens the server's files by their paths on this host. In a container, the server may have different
        files at these paths; then perf is used, or TrialVoidError raised if perf is not available."""
        if self._programs[0] != EU_STACK:
            return self._programs[0]
        until = time.monotonic() + _EXEC_TIMEOUT_S
        while (same := same_files_on_host(pid, self._executable)) is None and time.monotonic() < until:
            if self._over.wait(_PAUSE_S / 10):
                break
        if same is not False:
            return EU_STACK
        if len(self._programs) == 1:
            raise TrialVoidError("it would read this host's libraries for those of the image", "install perf")
        return self._programs[1]

    def _sample_with_eu_stack(self, pid: int) -> None:
        """Takes samples with eu-stack until the start is over.

        The server is stopped before each sample, because eu-stack takes a while to attach and the time of the sample
        would be unknown otherwise."""
        self._attached.set()
        began, took_s = time.monotonic(), 0.0
        while not self._over.wait(max(_PAUSE_S, took_s, _PAUSE_SHARE * (time.monotonic() - began))):
            began_at = time.monotonic()
            with pause_process(pid, self._over.wait) as stopped_at:
                if stopped_at is None:
                    return
                with self._running(eu_stack.command(pid)) as program:
                    try:
                        printed, complaints = program.communicate(timeout=TOOL_TIMEOUT_S)
                    except subprocess.TimeoutExpired:
                        program.kill()
                        raise
            took_s = time.monotonic() - began_at
            self._samples.append((stopped_at, printed.decode(errors="replace")))
            self._complaint = last_line(complaints)

    def _record_with_perf(self, pid: int) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700)
        with self._running(perf.record_command(pid, self._folder)) as recording:
            while (
                recording.poll() is None and not perf.is_attached(self._folder) and not self._over.wait(_PAUSE_S / 10)
            ):
                pass
            self._attached.set()
            self._over.wait()
            self._is_full = recording.poll() == 0
            recording.send_signal(signal.SIGINT)
            try:
                self._complaint = last_line(recording.communicate(timeout=_PERF_EXIT_TIMEOUT_S)[1])
            except subprocess.TimeoutExpired:
                recording.kill()
                raise

    @contextmanager
    def _running(self, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=profiler_environment(), start_new_session=True,
        ) as self._program:  # fmt: skip
            yield self._program

    def _eu_stack_snapshots(self, pid: int, since: float) -> tuple[Snapshot, ...]:
        stacks = eu_stack.resolve_stacks(pid, [text for _, text in self._samples])
        times = (at - since for at, _ in self._samples)
        return tuple(Snapshot(at_s, threads) for at_s, threads in zip(times, stacks, strict=True) if threads)

    def _perf_snapshots(self, pid: int, since: float) -> tuple[Snapshot, ...]:
        if not perf.recording_path(self._folder).exists():
            return ()  # the start was over before perf had begun
        try:
            done = run_tool(perf.script_command(self._folder), limit_s=10 * TOOL_TIMEOUT_S)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._complaint = self._complaint or last_line(done.stderr)
        return tuple(perf.parse_snapshots(done.stdout.decode(errors="replace"), pid=pid, since=since))
