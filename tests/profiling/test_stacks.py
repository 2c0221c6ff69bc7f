"""Stack samples: what eu-stack and perf print, how functions are named and counted by phase, and how a process is
sampled. The texts are of servers while they started, shortened."""

from __future__ import annotations

import contextlib
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psutil
import pytest
from fakes import shell_script
from waiting import until

from recovery.analysis.stacks import folded_text, is_waiting, parse_folded
from recovery.errors import HostUnfitError, TrialVoidError
from recovery.experiments.bench import Bench
from recovery.linux.procfs import is_stopped
from recovery.linux.signals import is_stopped_by_others
from recovery.linux.storage import Device
from recovery.loads.load import TaskMonitor
from recovery.model import Phase, StackSamples
from recovery.mysqld.client import connect
from recovery.profiling import eu_stack, perf
from recovery.profiling.profile import MAX_CHAINS, StackSampler, fold_stacks, top_chains
from recovery.profiling.samplers import AUTO, PROGRAMS, usable_programs
from recovery.profiling.symbols import Snapshot, Stack, mapped_files, plain_name, same_files_on_host, unknown_function

# -- what the programs print

EU_STACK = """\
PID 21436 - process
TID 21436:
#0  0x00007f468c10d544
#1  0x0000000000978c57
#2  0x000000000057a809
TID 21465:
#0  0x00007f468c40064a
#1  0x0000000000a7da9e
TID 21466:
"""
PERF = """\
22349 35994.843597: 
	ffffffff81c3bf0d percpu_counter_add_batch ([kernel.kallsyms])
	ffffffff81000130 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
	           f8a1a __close (/usr/lib/x86_64-linux-gnu/libc.so.6)
	          d9cea7 Datafile::close (/opt/mysqld/bin/mysqld)
	          d6c916 [unknown] (/opt/mysqld/bin/mysqld)
	ffffffffffffffff [unknown] ([unknown])

22360 35994.859700: 
	ffffffff81b9764c iowrite16 ([kernel.kallsyms])

22361 35995.000000: 
	          d6c916 (anonymous namespace)::run (/opt/mysqld/bin/mysqld)
"""  # noqa: E101, W291


def test_stacks_of_eu_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses_seen: set[int] = set()

    def resolve(pid: int, addresses: set[int]) -> dict[int, str]:
        assert pid == 21436
        addresses_seen.update(addresses)
        return {0x7F468C10D544: "__libc_pread", 0x978C56: "os_file_pread", 0x57A808: "_start"}

    monkeypatch.setattr(eu_stack, "resolve_addresses", resolve)
    (main, other), empty = eu_stack.resolve_stacks(21436, [EU_STACK, "PID 21436 - process\n"])
    assert main == Stack(main=True, frames=("_start", "os_file_pread", "__libc_pread"))
    assert other == Stack(main=False, frames=("[?]", "[?]"))
    assert empty == ()
    assert 0xA7DA9D in addresses_seen, "the call, not where it returns to"


def test_samples_of_perf() -> None:
    one, other = perf.parse_snapshots(PERF, pid=22349, since=35990.0)
    assert one.at_s == pytest.approx(4.843597)
    assert one.stacks[0] == Stack(main=True, frames=("[mysqld]", "Datafile::close", "__close"))
    assert other.stacks[0] == Stack(main=False, frames=("(anonymous namespace)::run",))


def test_only_the_files_of_a_process_of_this_host_are_used() -> None:
    own = Path(f"/proc/{os.getpid()}/exe").resolve().name
    assert same_files_on_host(os.getpid(), own) is True
    assert same_files_on_host(os.getpid(), "mysqld") is None, "it has not become the server yet"
    mapped = mapped_files(os.getpid())
    assert any("libc" in one.file for one in mapped)
    assert {True, False} == {one.code for one in mapped}, "only code is compared with this host's"


# -- names of functions


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("__libc_pread", "__libc_pread"),
        ("os_file_io(IORequest const&, int, void*, unsigned long)", "os_file_io"),
        ("Datafile::validate_to_dd(unsigned long, unsigned long, bool)", "Datafile::validate_to_dd"),
        ("(anonymous namespace)::scan(std::function<void (int)> const&)", "(anonymous namespace)::scan"),
        ("void std::_State_impl<std::_Bind<void (*(int))(int)> >::_M_run()", "std::_State_impl<>::_M_run"),
        ("std::vector<int, ut::allocator<int> >::operator[](unsigned long)", "std::vector<>::operator[]"),
        ("Tablespace_dirs::scan()::{lambda(int)#1}::operator()(int) const", "Tablespace_dirs::scan"),
        ("bool operator< <char>(A<char> const&, B<char> const&)", "operator< <>"),
        ("Cost::operator<<(int)", "Cost::operator<<"),
        ("operator new(unsigned long)", "operator new"),
        ("fil_node_open_file(fil_node_t*) [clone .isra.0]", "fil_node_open_file"),
        ("innobase_init (p=...) at ha_innodb.cc:3465", "innobase_init"),
        ("clock_nanosleep@GLIBC_2.2.5", "clock_nanosleep"),
        ("a;b", "a,b"),
        ("", ""),
    ],
)
def test_a_function_has_its_name_without_parameters(name: str, plain: str) -> None:
    assert plain_name(name) == plain


def test_a_function_without_a_name_has_that_of_its_file() -> None:
    assert unknown_function("/opt/mysqld/bin/mysqld") == "[mysqld]"
    assert unknown_function("") == "[?]"


@pytest.mark.parametrize(
    ("frames", "waiting"),
    [
        (("clone", "x", "futex_wait"), True),
        (("x", "pthread_cond_wait@@GLIBC_2.3.2", "__pthread_cond_wait_common", "___futex_abstimed"), True),
        (("io_handler_thread", "[mysqld]", "[libaio.so.1]"), True),
        (("x", "io_getevents"), True),
        (("x", "__poll"), True),
        (("x", "__GI___select"), True),
        (("x", "do_sigwait"), True),
        (("x", "accept4"), True),
        (("a", "pread64"), False),
        (("futex_wait", "a", "b", "c"), False),
        (("a", "selected"), False),
        (("x", "fil_poll_er"), False),
        (("check", "___pthread_mutex_lock", "__GI___lll_lock_wait", "futex_wait"), False),
    ],
)
def test_waiting_threads_are_distinguished_from_working_ones(frames: tuple[str, ...], waiting: bool) -> None:
    assert is_waiting(frames) is waiting


# -- counts by phase

PHASES = (Phase("discovery", 0.0, 2.0), Phase("redo apply", 2.0, 3.0), Phase("first query", 3.0, 3.1))
WORKING = Stack(main=True, frames=("main", "fil_validate", "__libc_pread"))
OTHER_WORKING = Stack(main=False, frames=("clone", "io_handler_thread", "recv_recover_page"))
OTHER_WAITING = Stack(main=False, frames=("clone", "srv_monitor_thread", "pthread_cond_timedwait", "futex_wait"))


def test_the_main_thread_is_counted_always_and_others_only_when_they_work() -> None:
    idle = Stack(main=True, frames=("main", "pthread_join", "futex_wait"))
    snapshots = [
        Snapshot(0.5, (WORKING, OTHER_WAITING)), Snapshot(1.5, (idle, OTHER_WORKING)), Snapshot(2.5, (WORKING,)),
    ]  # fmt: skip
    assert fold_stacks(snapshots, PHASES) == {
        ("discovery", "main thread", *WORKING.frames): 1,
        ("discovery", "main thread", *idle.frames): 1,
        ("discovery", "other threads", *OTHER_WORKING.frames): 1,
        ("redo apply", "main thread", *WORKING.frames): 1,
    }


def test_the_most_frequent_chains_of_each_phase_in_the_order_of_phases() -> None:
    stacks = [Stack(main=True, frames=("main", f"f{number}")) for number in range(MAX_CHAINS + 2)]
    early = [Snapshot(0.1, (stack,)) for stack in (*stacks, stacks[4], stacks[4], stacks[3])]
    chains = top_chains([Snapshot(2.5, (WORKING,)), *early], PHASES)
    assert [(chain.phase, chain.frames[-1], chain.samples, chain.of) for chain in chains] == [
        ("discovery", "f4", 3, 8),
        ("discovery", "f3", 2, 8),
        ("discovery", "f0", 1, 8),
        ("redo apply", "__libc_pread", 1, 1),
    ]


def test_a_sample_outside_of_all_phases_belongs_to_the_nearest() -> None:
    folded = fold_stacks([Snapshot(9.0, (WORKING,)), Snapshot(-0.1, (WORKING,))], PHASES)
    assert {phase for phase, *_ in folded} == {"first query", "discovery"}
    assert [chain.phase for chain in top_chains([Snapshot(1.0, (WORKING,))], ())] == ["unnamed"]


def test_stored_stacks_are_read_back_the_same() -> None:
    folded = fold_stacks([Snapshot(0.5, (WORKING, OTHER_WORKING)), Snapshot(0.6, (WORKING,))], PHASES)
    assert "discovery;main thread;main;fil_validate;__libc_pread 2\n" in folded_text(folded)
    assert parse_folded(folded_text(folded)) == folded
    assert parse_folded("no count here\n\n 3\nx -1\n") == {}


# -- programs that sample: scripts on PATH, and processes of our own


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first folder on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_the_programs_that_exist_and_are_permitted(monkeypatch: pytest.MonkeyPatch, bin_folder: Path) -> None:
    monkeypatch.setenv("PATH", str(bin_folder))
    with pytest.raises(HostUnfitError, match="there is no eu-stack, no perf") as caught:
        usable_programs(AUTO)
    assert "its package is elfutils; or leave" in caught.value.hint
    shell_script(bin_folder / "dnf", "exit 0")
    with pytest.raises(HostUnfitError) as caught:
        usable_programs(AUTO)
    assert caught.value.hint == "install it: dnf install elfutils; or leave --stacks out"
    shell_script(bin_folder / "perf", "echo 'perf: Operation not permitted.' >&2; exit 1")
    shell_script(bin_folder / "eu-stack", "exit 0")
    with pytest.raises(HostUnfitError, match="perf may not trace a process here: perf: Operation not permitted"):
        usable_programs(AUTO)
    shell_script(bin_folder / "perf", "exit 0")
    assert usable_programs(AUTO) == ("perf",), "eu-stack needs eu-addr2line"
    with pytest.raises(HostUnfitError, match="there is no eu-stack"):
        usable_programs("eu-stack")


RESTS = "import time; time.sleep(600)"


@contextlib.contextmanager
def process(script: str, *arguments: str) -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", script, *arguments]) as child:
        try:
            yield child.pid
        finally:
            child.kill()


def sampler_of(pid: int, folder: Path, programs: tuple[str, ...] = ("eu-stack",)) -> StackSampler:
    return StackSampler(programs, Path(f"/proc/{pid}/exe").resolve().name, folder / "stacks")


def sampled(
    folder: Path, name: str, is_enough: Callable[[StackSampler], bool], note: Callable[[str], None] = print
) -> StackSamples:
    """Samples of a process that rests, since the host was started: `PERF` has fixed times on its clock."""
    with process(RESTS) as pid:
        sampling = sampler_of(pid, folder, (name,))
        with sampling.of(pid):
            until(lambda: is_enough(sampling), "the output of the program")
        return sampling.samples(pid, since=0.0, phases=(Phase("rest to ready", 0.0, 600.0),), note=note)


def has_complained(sampling: StackSampler) -> bool:
    return bool(sampling._complaint)


def is_recording(sampling: StackSampler) -> bool:
    return perf.recording_path(sampling._folder).exists()


def has_recorded(sampling: StackSampler) -> bool:
    return sampling._program is not None and sampling._program.poll() is not None


def test_a_program_that_fails_makes_the_run_void(bin_folder: Path, tmp_path: Path) -> None:
    shell_script(bin_folder / "eu-stack", "echo 'ptrace: No such process.' >&2; exit 1")
    with pytest.raises(TrialVoidError, match="eu-stack took no stack trace of the server: ptrace: No such process"):
        sampled(tmp_path, "eu-stack", has_complained)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_is_gone_makes_the_run_void(
    name: str, bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(bin_folder))
    with pytest.raises(TrialVoidError, match=f"{name} took no stack trace of the server: .*No such file"):
        sampled(tmp_path, name, has_complained)


def test_a_full_recording_is_noted(bin_folder: Path, tmp_path: Path) -> None:
    """perf then ends by itself, successfully."""
    script = f'case "$*" in *" script "*) cat <<\'END\'\n{PERF}END\n;; *) for last; do :; done; : > $last;; esac'
    shell_script(bin_folder / "perf", script)
    notes: list[str] = []
    assert sampled(tmp_path, "perf", has_recorded, notes.append).count == 2
    assert notes.pop().startswith("perf had recorded 1G after ")
    shell_script(bin_folder / "perf", f'{script}\ncase "$*" in *" record "*) exec sleep 600;; esac')
    sampled(tmp_path, "perf", is_recording, notes.append)
    assert notes == []


def test_work_begins_once_perf_has_attached(bin_folder: Path, tmp_path: Path) -> None:
    """perf creates its recording first, and writes its header when it samples all threads."""
    attached = tmp_path / "attached"
    shell_script(
        bin_folder / "perf",
        f"for last; do :; done; : > $last; until [ -e {attached} ]; do sleep 0.01; done\n"
        "echo header > $last; exec sleep 9",
    )
    with process(RESTS) as pid:
        sampling = sampler_of(pid, tmp_path, ("perf",))
        with sampling.of(pid):
            until(lambda: is_recording(sampling), "the recording")
            assert not sampling._attached.is_set()
            attached.touch()
            sampling.wait_until_attached()
            assert perf.recording_path(sampling._folder).read_text() == "header\n"


def test_a_task_without_samples_has_a_note(bin_folder: Path, tmp_path: Path) -> None:
    shell_script(bin_folder / "perf", "exit 0")
    server = SimpleNamespace(
        process=SimpleNamespace(pid=os.getpid()),
        device=Device(),
        group=None,
        connect=partial(connect, tmp_path / "no.sock"),
    )
    bench = SimpleNamespace(server=server, stack_sampler=lambda: StackSampler(("perf",), "mysqld", tmp_path / "stacks"))
    monitor = TaskMonitor(cast(Bench, bench))
    with monitor.sampler, monitor.measured():
        pass
    notes: list[str] = []
    found = monitor.stacks("Q2", notes.append)
    assert (found.count, found.chains, found.file) == (0, (), None)
    assert re.fullmatch(r"perf took no stack trace of the server, in [\d.e-]+ s of Q2", notes[0])


COUNTS = """
import sys, time
with open(sys.argv[1], "w", buffering=1) as output:
    while True:
        print(time.monotonic(), file=output)
        time.sleep(0.001)
"""


def test_a_sample_belongs_to_the_phase_in_which_the_process_was_stopped(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line that the process writes begins a phase, and eu-stack sees the last one. A process stopped between
    reading the time and writing it is in the next phase already."""
    written, seen = tmp_path / "written", tmp_path / "seen"
    stack = 'echo "TID $3:"; echo "#0  0x10"; echo "#1  0x21"'
    shell_script(bin_folder / "eu-stack", f"tail -n 1 {written} >>{seen}; {stack}")
    monkeypatch.setattr(eu_stack, "resolve_addresses", lambda *_: {0x10: "read", 0x20: "main"})
    with process(COUNTS, str(written)) as pid:
        until(lambda: written.exists() and written.read_text(), "the first line")
        sampling = sampler_of(pid, tmp_path)
        with sampling.of(pid):
            until(lambda: len(sampling._samples) >= 3, "samples")
        length = len(written.read_text())
        until(lambda: len(written.read_text()) > length, "the process to continue")
        stops = os.WSTOPPED | os.WCONTINUED | os.WNOHANG
        assert os.waitid(os.P_PID, pid, stops) is None, "nobody takes it for a stop by others"
        begins = [*map(float, written.read_text().splitlines()[:-1]), math.inf]
        phases = [Phase(f"{start}", start, end) for start, end in pairwise(begins)]
        found = sampling.samples(pid, since=0.0, phases=phases, note=print)
    folded = parse_folded(Path(found.file or "").read_text())
    numbers = {phase.name: number for number, phase in enumerate(phases)}
    attributed = sorted(numbers[frames[0]] for frames in folded)
    last_written = [numbers[line] for line in seen.read_text().split()]
    assert {phase - last for phase, last in zip(attributed, last_written, strict=True)} <= {0, 1}
    assert {frames[-2:] for frames in folded} == {("main", "read")}
    assert found.count is not None
    assert found.count >= 3


def test_a_sample_of_a_server_that_is_given_up_is_not_waited_for(bin_folder: Path, tmp_path: Path) -> None:
    number = tmp_path / "number"
    shell_script(bin_folder / "eu-stack", f"echo $$ >{number}; exec sleep 600")
    with process(RESTS) as pid:
        sampling = sampler_of(pid, tmp_path)
        with contextlib.suppress(KeyboardInterrupt), sampling.of(pid):
            until(lambda: number.exists() and number.read_text().endswith("\n"), "the sample")
            until(lambda: sampling._program is not None, "the sampler to know its program")
            assert is_stopped(pid)
            assert not is_stopped_by_others(pid), "but by us"
            raise KeyboardInterrupt
        assert not is_stopped(pid)
    assert not psutil.pid_exists(int(number.read_text()))
