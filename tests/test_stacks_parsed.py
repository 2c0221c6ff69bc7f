"""Is what eu-stack and perf print understood? The texts are theirs, shortened, of servers while they started."""

from __future__ import annotations

import contextlib
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import until

from recovery.analysis.stacks import parse_folded
from recovery.cli.main import run
from recovery.errors import HostUnfitError, TrialVoidError
from recovery.experiments.bench import Bench
from recovery.experiments.load import TaskMonitor
from recovery.linux.procfs import is_stopped
from recovery.linux.signals import is_stopped_by_others
from recovery.linux.storage import Device
from recovery.model import Phase, StackSamples
from recovery.mysqld.client import connect
from recovery.profiling import eu_stack, perf
from recovery.profiling.profile import StackSampler
from recovery.profiling.samplers import AUTO, PROGRAMS, usable_programs
from recovery.profiling.symbols import mapped_files, same_files_on_host

RESTS = "import time; time.sleep(600)"
STOPS = os.WSTOPPED | os.WCONTINUED | os.WNOHANG
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
    asked: set[int] = set()

    def names(pid: int, addresses: set[int]) -> dict[int, str]:
        assert pid == 21436
        asked.update(addresses)
        return {0x7F468C10D544: "__libc_pread", 0x978C56: "os_file_pread", 0x57A808: "_start"}

    monkeypatch.setattr(eu_stack, "resolve_addresses", names)
    (main, other), nothing = eu_stack.resolve_stacks(21436, [EU_STACK, "PID 21436 - process\n"])
    assert main.main
    assert main.frames == ("_start", "os_file_pread", "__libc_pread")
    assert not other.main
    assert other.frames == ("[?]", "[?]")
    assert nothing == ()
    assert 0xA7DA9D in asked, "the call, not where it returns to"


def test_samples_of_perf() -> None:
    one, other = perf.parse_snapshots(PERF, pid=22349, since=35990.0)
    assert one.at_s == pytest.approx(4.843597)
    assert one.stacks[0].main
    assert one.stacks[0].frames == ("[mysqld]", "Datafile::close", "__close")
    assert not other.stacks[0].main
    assert other.stacks[0].frames == ("(anonymous namespace)::run",)


@given(st.text(alphabet="#TID0123456789 x:\nin()?\t.[]"))
def test_any_text_is_understood_somehow(text: str) -> None:
    list(perf.parse_snapshots(text, pid=1, since=0.0))


def test_a_process_of_this_host_has_this_hosts_files() -> None:
    own = Path(f"/proc/{os.getpid()}/exe").resolve().name
    assert same_files_on_host(os.getpid(), own) is True
    assert same_files_on_host(os.getpid(), "mysqld") is None, "it has not become the server yet"
    mapped = mapped_files(os.getpid())
    assert any("libc" in one.file for one in mapped)
    assert {True, False} == {one.code for one in mapped}, "only code is held against this host's"


def fake(folder: Path, name: str, script: str = "exit 0") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_programs_that_are_here_and_may(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostUnfitError, match="there is no eu-stack, no perf") as told:
        usable_programs(AUTO)
    assert "its package is elfutils; or leave" in str(told.value.hint)
    fake(tmp_path, "dnf")
    with pytest.raises(HostUnfitError) as told:
        usable_programs(AUTO)
    assert told.value.hint == "install it: dnf install elfutils; or leave --stacks out"
    fake(tmp_path, "perf", "echo 'perf: Operation not permitted.' >&2; exit 1")
    fake(tmp_path, "eu-stack")
    with pytest.raises(HostUnfitError, match="perf may not trace a process here: perf: Operation not permitted"):
        usable_programs(AUTO)
    fake(tmp_path, "perf")
    assert usable_programs(AUTO) == ("perf",), "eu-stack is nothing without eu-addr2line"
    with pytest.raises(HostUnfitError, match="there is no eu-stack"):
        usable_programs("eu-stack")


def test_gdb_is_no_choice_any_more(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cold-recovery", "--version", "5.7.22", "--stacks", "gdb"]) == 2
    assert "'gdb' is not one of 'auto', 'eu-stack', 'perf'" in capsys.readouterr().err.replace("\n", " ")


@contextlib.contextmanager
def process(script: str, *given: str) -> Iterator[int]:
    """One of our own."""
    with subprocess.Popen([sys.executable, "-c", script, *given]) as child:
        try:
            yield child.pid
        finally:
            child.kill()


def sampled(tmp_path: Path, found: tuple[str, ...], enough: Callable[[StackSampler], bool]) -> StackSamples:
    """Of a process of our own that only rests, until enough was seen of it."""
    with process(RESTS) as pid:
        since = time.monotonic()
        sampling = StackSampler(found, executable_of(pid), tmp_path / "stacks")
        with sampling.of(pid):
            until(lambda: enough(sampling), "what the program says")
        return sampling.seen(pid, since=since, phases=(Phase("rest to ready", 0.0, 600.0),))


def executable_of(pid: int) -> str:
    return Path(f"/proc/{pid}/exe").resolve().name


def has_complained(sampling: StackSampler) -> bool:
    return bool(sampling._complaint)


def is_recording(sampling: StackSampler) -> bool:
    return perf.recording_path(sampling._folder).exists()


def has_recorded(sampling: StackSampler) -> bool:
    return sampling._program is not None and sampling._program.poll() is not None


def test_a_program_that_sees_nothing_voids_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(tmp_path, "eu-stack", "echo 'ptrace: No such process.' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(TrialVoidError, match="eu-stack took no stack trace of the server: ptrace: No such process"):
        sampled(tmp_path, ("eu-stack",), has_complained)


def test_a_program_that_is_gone_voids_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in PROGRAMS:
        with pytest.raises(TrialVoidError, match=f"{name} took no stack trace of the server: .*No such file"):
            sampled(tmp_path, (name,), has_complained)


def test_a_recording_that_was_full_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """perf ends by itself then, and well."""
    recorded = f'case "$*" in *" script "*) cat <<\'END\'\n{PERF}END\n;; *) for last; do :; done; : > $last;; esac'
    fake(tmp_path, "perf", recorded)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    full = sampled(tmp_path, ("perf",), has_recorded)
    assert full.sample_count == 2
    assert full.note.startswith("perf had recorded 1G after ")
    fake(tmp_path, "perf", f'{recorded}\ncase "$*" in *" record "*) exec sleep 600;; esac')
    assert sampled(tmp_path, ("perf",), is_recording).note == ""


def test_work_in_which_nothing_was_seen_is_told_with_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(tmp_path, "perf")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    server = SimpleNamespace(
        process=SimpleNamespace(pid=os.getpid()),
        device=Device(),
        group=None,
        connect=partial(connect, tmp_path / "no.sock"),
    )
    bench = SimpleNamespace(server=server, stack_sampler=lambda: StackSampler(("perf",), "mysqld", tmp_path / "stacks"))
    watch = TaskMonitor(cast(Bench, bench))
    with watch.sampler, watch.measured():
        pass
    found = watch.stacks("Q2")
    assert found is not None
    assert (found.sample_count, found.chains, found.folded) == (0, (), "")
    assert re.fullmatch(r"perf took no stack trace of the server, in [\d.e-]+ s of Q2", found.note)


def test_looks_are_taken_and_named_by_the_phase(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(tmp_path, "eu-stack", 'echo "TID $3:"; echo "#0  0x10"; echo "#1  0x21"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(eu_stack, "resolve_addresses", lambda *_: {0x10: "read", 0x20: "main"})
    found = sampled(tmp_path, ("eu-stack",), lambda sampling: len(sampling._samples) >= 2)
    assert found.sample_count >= 2
    assert found.folded.startswith("rest to ready;")
    assert found.folded.rstrip().rpartition(" ")[0].endswith("main;read")


COUNTS = """
import sys, time
with open(sys.argv[1], "w", buffering=1) as told:
    while True:
        print(time.monotonic(), file=told)
        time.sleep(0.001)
"""


def test_a_sample_is_of_the_phase_in_which_the_process_was_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Here each line that the process writes begins a phase. eu-stack sees which was the last."""
    told, looked = tmp_path / "told", tmp_path / "looked"
    fake(tmp_path, "eu-stack", f'tail -n 1 {told} >>{looked}; echo "TID $3:"; echo "#0  0x10"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with process(COUNTS, str(told)) as pid:
        until(lambda: told.exists() and told.read_text(), "the first line")
        sampling = StackSampler(("eu-stack",), executable_of(pid), tmp_path / "stacks")
        with sampling.of(pid):
            until(lambda: len(sampling._samples) >= 3, "samples")
        written = len(told.read_text())
        until(lambda: len(told.read_text()) > written, "the process to go on")
        assert os.waitid(os.P_PID, pid, STOPS) is None, "nobody takes it for another's doing"
        begins = [*map(float, told.read_text().splitlines()[:-1]), math.inf]
        phases = [Phase(f"{start}", start, end) for start, end in pairwise(begins)]
        found = sampling.seen(pid, since=0.0, phases=phases)
    assert {names[0] for names in parse_folded(found.folded)} == set(looked.read_text().split())


def test_nobody_waits_for_a_look_at_a_server_that_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(tmp_path, "eu-stack", f"echo $$ >{tmp_path}/number; exec sleep 600")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    number = tmp_path / "number"
    with process(RESTS) as pid:
        sampling = StackSampler(("eu-stack",), executable_of(pid), tmp_path / "stacks")
        with contextlib.suppress(KeyboardInterrupt), sampling.of(pid):
            until(lambda: number.exists() and number.read_text().endswith("\n"), "the look")
            assert is_stopped(pid)
            assert not is_stopped_by_others(pid), "but by us"
            raise KeyboardInterrupt
        assert not is_stopped(pid)
    assert not psutil.pid_exists(int(number.read_text()))
