"""Are functions told by names that a reader knows, waiting threads from working ones, and chains counted by phase?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.analysis.stacks import folded_text, is_waiting, parse_folded
from recovery.model import Phase
from recovery.profiling.profile import MAX_CHAINS, fold_stacks, top_chains
from recovery.profiling.symbols import Snapshot, Stack, plain_name, unknown_function

PHASES = (Phase("discovery", 0.0, 2.0), Phase("redo apply", 2.0, 3.0), Phase("first query", 3.0, 3.1))
WORKS = Stack(main=True, frames=("main", "fil_validate", "__libc_pread"))
ANOTHER_WORKS = Stack(main=False, frames=("clone", "io_handler_thread", "recv_recover_page"))
WAITS = Stack(main=False, frames=("clone", "srv_monitor_thread", "pthread_cond_timedwait", "futex_wait"))


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("__libc_pread", "__libc_pread"),
        ("os_file_io(IORequest const&, int, void*, unsigned long)", "os_file_io"),
        ("Datafile::validate_to_dd(unsigned long, unsigned long, bool)", "Datafile::validate_to_dd"),
        ("(anonymous namespace)::scan(std::function<void (int)> const&)", "(anonymous namespace)::scan"),
        (
            "void std::_State_impl<std::_Bind<void (*(int))(int)> >::_M_run()",
            "std::_State_impl<>::_M_run",
        ),
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
def test_a_name_without_what_it_was_made_for(name: str, plain: str) -> None:
    assert plain_name(name) == plain


@given(st.text())
def test_any_text_is_some_name(text: str) -> None:
    assert ";" not in plain_name(text)


def test_the_file_of_a_function_without_a_name() -> None:
    assert unknown_function("/opt/mysqld/bin/mysqld") == "[mysqld]"
    assert unknown_function("") == "[?]"


@pytest.mark.parametrize(
    "frames",
    [
        ("clone", "x", "futex_wait"),
        ("x", "pthread_cond_wait@@GLIBC_2.3.2", "__pthread_cond_wait_common", "___futex_abstimed"),
        ("io_handler_thread", "[mysqld]", "[libaio.so.1]"),
        ("x", "io_getevents"),
        ("x", "__poll"),
        ("x", "__GI___select"),
        ("x", "do_sigwait"),
        ("x", "accept4"),
    ],
)
def test_a_thread_that_waits(frames: tuple[str, ...]) -> None:
    assert is_waiting(frames)


@pytest.mark.parametrize(
    "frames",
    [
        ("a", "pread64"),
        ("futex_wait", "a", "b", "c"),
        ("a", "selected"),
        ("x", "fil_poll_er"),
        ("check", "___pthread_mutex_lock", "__GI___lll_lock_wait", "futex_wait"),
    ],
)
def test_a_thread_that_works(frames: tuple[str, ...]) -> None:
    assert not is_waiting(frames)


def test_the_main_thread_always_and_the_others_where_they_work() -> None:
    idle = Stack(main=True, frames=("main", "pthread_join", "futex_wait"))
    seen = [Snapshot(0.5, (WORKS, WAITS)), Snapshot(1.5, (idle, ANOTHER_WORKS)), Snapshot(2.5, (WORKS,))]
    assert fold_stacks(seen, PHASES) == {
        ("discovery", "main thread", *WORKS.frames): 1,
        ("discovery", "main thread", *idle.frames): 1,
        ("discovery", "other threads", *ANOTHER_WORKS.frames): 1,
        ("redo apply", "main thread", *WORKS.frames): 1,
    }


def test_the_hottest_of_each_phase_in_the_order_of_phases() -> None:
    many = [Stack(main=True, frames=("main", f"f{number}")) for number in range(MAX_CHAINS + 2)]
    seen = [Snapshot(2.5, (WORKS,)), *(Snapshot(0.1, (stack,)) for stack in (*many, many[4], many[4], many[3]))]
    chains = top_chains(seen, PHASES)
    assert [(chain.phase, chain.frames[-1], chain.samples, chain.of) for chain in chains] == [
        ("discovery", "f4", 3, 8),
        ("discovery", "f3", 2, 8),
        ("discovery", "f0", 1, 8),
        ("redo apply", "__libc_pread", 1, 1),
    ]


def test_a_look_that_ended_late_belongs_to_the_last_phase() -> None:
    assert {phase for phase, *_ in fold_stacks([Snapshot(9.0, (WORKS,)), Snapshot(-0.1, (WORKS,))], PHASES)} == {
        "first query",
        "discovery",
    }
    assert [chain.phase for chain in top_chains([Snapshot(1.0, (WORKS,))], ())] == ["unnamed"]


def test_what_is_written_can_be_read() -> None:
    folded = fold_stacks([Snapshot(0.5, (WORKS, ANOTHER_WORKS)), Snapshot(0.6, (WORKS,))], PHASES)
    assert "discovery;main thread;main;fil_validate;__libc_pread 2\n" in folded_text(folded)
    assert parse_folded(folded_text(folded)) == folded
    assert parse_folded("no count here\n\n 3\nx -1\n") == {}
