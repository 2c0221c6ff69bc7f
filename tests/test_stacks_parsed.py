"""Is what eu-stack, gdb and perf print understood? The texts are theirs, shortened, of servers while they started."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import until

from recovery.errors import HostUnfitError, TrialVoidError
from recovery.folded import waits
from recovery.host.storage import Device
from recovery.measured import Phase, Samples
from recovery.scenarios.bench import Bench
from recovery.scenarios.watch import Watch
from recovery.server.client import connect
from recovery.stacks import looks, perf
from recovery.stacks.looks import EuStack, Gdb
from recovery.stacks.mapped import mapped_by, reads_the_same
from recovery.stacks.programs import AUTO, programs
from recovery.stacks.sampling import Sampling

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
GDB = """\
[New LWP 22129]
[Thread debugging using libthread_db enabled]

Thread 2 (Thread 0x7fd9332426c0 (LWP 22129) "mysqld"):
#0  0x00007fd93e00064a in ?? () from target:/opt/mysqld/libaio.so.1
#1  0x000000000097bbdf in os_aio_linux_collect (seg_size=..., segment=..., array=...) at os0file.cc:4956
#2  0x00007fd93dbd0b50 in clone () at ../sysdeps/unix/sysv/linux/x86_64/clone.S:100

Thread 1 (LWP 22099 "mysqld"):
#0  __futex_abstimed_wait_common (futex_word=..., expected=...) at ./nptl/futex-internal.c:87
#1  0x00000000005870be in inline_mysql_cond_wait (src_line=..., that=...) at mysql_thread.h:1162
#2  0x0000000000581234 in ?? ()
#3  0x000000000057a809 in _start ()
[Inferior 1 (process 22099) detached]
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

    monkeypatch.setattr(looks, "names_of", names)
    (main, other), nothing = EuStack().stacks(21436, [EU_STACK, "PID 21436 - process\n"])
    assert main.main
    assert main.frames == ("_start", "os_file_pread", "__libc_pread")
    assert not other.main
    assert other.frames == ("[?]", "[?]")
    assert nothing == ()
    assert 0xA7DA9D in asked, "the call, not where it returns to"


def test_stacks_of_gdb() -> None:
    ((other, main),) = Gdb().stacks(22099, [GDB])
    assert other.frames == ("clone", "os_aio_linux_collect", "[libaio.so.1]")
    assert waits(other.frames)
    assert main.main
    assert main.frames == ("_start", "[?]", "inline_mysql_cond_wait", "__futex_abstimed_wait_common")


def test_samples_of_perf() -> None:
    one, other = perf.snapshots(PERF, pid=22349, since=35990.0)
    assert one.at_s == pytest.approx(4.843597)
    assert one.stacks[0].main
    assert one.stacks[0].frames == ("[mysqld]", "Datafile::close", "__close")
    assert not other.stacks[0].main
    assert other.stacks[0].frames == ("(anonymous namespace)::run",)


@given(st.text(alphabet="#TID0123456789 x:\nin()?LWPThread\t.[]"))
def test_any_text_is_understood_somehow(text: str) -> None:
    Gdb().stacks(1, [text])
    list(perf.snapshots(text, pid=1, since=0.0))


def test_a_process_of_this_host_has_this_hosts_files() -> None:
    own = Path(f"/proc/{os.getpid()}/exe").resolve().name
    assert reads_the_same(os.getpid(), own) is True
    assert reads_the_same(os.getpid(), "mysqld") is None, "it has not become the server yet"
    mapped = mapped_by(os.getpid())
    assert any("libc" in one.file for one in mapped)
    assert {True, False} == {one.code for one in mapped}, "only code is held against this host's"


def fake(folder: Path, name: str, script: str = "exit 0") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_programs_that_are_here_and_may(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostUnfitError, match="there is no eu-stack, no gdb, no perf") as told:
        programs(AUTO)
    assert "the package elfutils, or how it is called here" in str(told.value.hint)
    fake(tmp_path, "dnf")
    with pytest.raises(HostUnfitError) as told:
        programs(AUTO)
    assert told.value.hint == "install it: dnf install elfutils; or leave --stacks out"
    fake(tmp_path, "gdb", "echo 'ptrace: Operation not permitted.' >&2; exit 1")
    fake(tmp_path, "eu-stack")
    with pytest.raises(HostUnfitError, match="gdb may not look into a process here: ptrace: Operation not permitted"):
        programs(AUTO)
    fake(tmp_path, "perf")
    assert programs(AUTO) == ("perf",), "eu-stack is nothing without eu-addr2line"
    with pytest.raises(HostUnfitError, match="there is no eu-stack"):
        programs("eu-stack")


def sampled(tmp_path: Path, found: tuple[str, ...], enough: Callable[[Sampling], bool]) -> Samples:
    """Of a process of our own that only rests, until enough was seen of it."""
    resting = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        executable = Path(f"/proc/{resting.pid}/exe").resolve().name
        since = time.monotonic()
        sampling = Sampling(found, executable, tmp_path / "stacks")
        with sampling.of(resting.pid):
            until(lambda: enough(sampling), "what the program says")
        return sampling.seen(resting.pid, since=since, phases=(Phase("rest to ready", 0.0, 600.0),))
    finally:
        resting.kill()
        resting.wait()


def has_complained(sampling: Sampling) -> bool:
    return bool(sampling._complaint)


def is_recording(sampling: Sampling) -> bool:
    return perf.recording(sampling._folder).exists()


def has_recorded(sampling: Sampling) -> bool:
    return sampling._looker is not None and sampling._looker.poll() is not None


def test_a_program_that_sees_nothing_voids_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(tmp_path, "gdb", "echo 'ptrace: No such process.' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(TrialVoidError, match="gdb saw nothing of the server: ptrace: No such process"):
        sampled(tmp_path, ("gdb",), has_complained)


def test_a_program_that_is_gone_voids_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("gdb", "perf"):
        with pytest.raises(TrialVoidError, match=f"{name} saw nothing of the server: .*No such file"):
            sampled(tmp_path, (name,), has_complained)


def test_a_recording_that_was_full_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """perf ends by itself then, and well."""
    recorded = f'case "$*" in *" script "*) cat <<\'END\'\n{PERF}END\n;; *) for last; do :; done; : > $last;; esac'
    fake(tmp_path, "perf", recorded)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    full = sampled(tmp_path, ("perf",), has_recorded)
    assert full.looks == 2
    assert full.note.startswith("perf had recorded 1G after ")
    fake(tmp_path, "perf", f'{recorded}\ncase "$*" in *" record "*) exec sleep 600;; esac')
    assert sampled(tmp_path, ("perf",), is_recording).note == ""


def test_work_in_which_nothing_was_seen_is_told_with_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(tmp_path, "perf")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    server = SimpleNamespace(
        life=SimpleNamespace(pid=os.getpid()),
        device=Device(),
        group=None,
        connect=partial(connect, tmp_path / "no.sock"),
    )
    bench = SimpleNamespace(server=server, sampling=lambda: Sampling(("perf",), "mysqld", tmp_path / "stacks"))
    with Watch(cast(Bench, bench)) as watch, watch.measured():
        pass
    found = watch.stacks("Q2")
    assert found is not None
    assert (found.looks, found.chains, found.folded) == (0, (), "")
    assert re.fullmatch(r"perf saw nothing of the server, in [\d.e-]+ s of Q2", found.note)


def test_looks_are_taken_and_named_by_the_phase(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(tmp_path, "gdb", 'echo "Thread 1 (LWP $8)"; echo "#0  read (fd=3) at read.c:26"; echo "#1  main () at m.c:1"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = sampled(tmp_path, ("gdb",), lambda sampling: len(sampling._looks) >= 2)
    assert found.looks >= 2
    assert found.folded.startswith("rest to ready;")
    assert found.folded.rstrip().rpartition(" ")[0].endswith("main;read")


def test_nobody_waits_for_a_look_at_a_server_that_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(tmp_path, "gdb", f"echo $$ >{tmp_path}/number; exec sleep 600")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    sampling = Sampling(("gdb",), "mysqld", tmp_path / "stacks")
    number = tmp_path / "number"
    with contextlib.suppress(KeyboardInterrupt), sampling.of(os.getpid()):
        until(lambda: number.exists() and number.read_text().endswith("\n"), "the look")
        raise KeyboardInterrupt
    assert not psutil.pid_exists(int(number.read_text()))
