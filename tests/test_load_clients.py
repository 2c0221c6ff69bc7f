"""Do clients end, tell what they used, and say why they failed? With real processes: what ends them is the kernel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import psutil
import pytest
from waiting import DEADLINE_S, until

from recovery.errors import RecoveryError
from recovery.workload import sysbench
from recovery.workload.sysbench import Client

FIXTURES = Path(__file__).parent.parent / "fixtures" / "sysbench"
SPINS = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
DEAF = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(flush=True)\ntime.sleep(600)"


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def shell(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_what_it_wrote_and_used() -> None:
    with Client("spinner", python(f"{SPINS}\nprint('done')")) as client:
        ended = client.wait(DEADLINE_S)
    assert (ended.text, ended.code, ended.written_bytes) == ("done\n", 0, 5)
    assert ended.cpu_s >= 0.2
    assert client.cpu_s() == ended.cpu_s


def test_its_cpu_time_while_it_runs() -> None:
    with Client("spinner", python("while True: pass")) as client:
        until(lambda: (client.cpu_s() or 0) >= 0.2, "its CPU time")
        assert not client.has_ended()


def test_more_than_a_pipe_holds() -> None:
    text = "x" * 1_000_000
    with Client(
        "writer", python(f"import sys\nprint('{'x'}' * 1_000_000)\nprint('y' * 1_000_000, file=sys.stderr)")
    ) as client:
        assert client.wait(DEADLINE_S).text == text + "\n"


def test_counted_only() -> None:
    with Client("dump", python("print('x' * 1_000_000)"), only_count=True) as client:
        ended = client.wait(DEADLINE_S)
    assert (ended.text, ended.written_bytes) == ("", 1_000_001)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo report; echo first >&2; echo 'FATAL: no table' >&2; exit 3", r"load failed \(code 3\): FATAL: no table"),
        ("echo 'FATAL: no table'; exit 1", r"load failed \(code 1\): FATAL: no table"),
        ("kill -9 $$", r"load failed \(signal 9\): it gave no reason"),
    ],
)
def test_one_that_fails(script: str, said: str) -> None:
    with pytest.raises(RecoveryError, match=said), Client("load", shell(script)) as client:
        client.wait(DEADLINE_S)


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        ("no-table", "FATAL: MySQL error: 1146 \"Table 'sbtest.sbtest121' doesn't exist\""),
        ("no-schema", "FATAL: error 1049: Unknown database 'none'"),
        (
            "server-killed",
            "FATAL: `thread_run' function failed: /usr/share/sysbench/oltp_common.lua:419: SQL error, errno = 2013, "
            "state = 'HY000': Lost connection to server during query",
        ),
    ],
)
def test_the_line_that_tells_why(recorded: str, said: str) -> None:
    assert sysbench.failure_line((FIXTURES / f"{recorded}.txt").read_text()) == said


def test_one_that_is_not_there(tmp_path: Path) -> None:
    refused = pytest.raises(RecoveryError, match="none cannot be run: No such file")
    with refused, Client("load", [str(tmp_path / "none")]) as client:
        client.wait(DEADLINE_S)


def test_what_it_says_is_heard_at_once() -> None:
    program = "import time\nprint('ready', flush=True)\ntime.sleep(600)"
    with Client("talker", python(program)) as client:
        assert client.has_said("ready", DEADLINE_S)
        assert not client.has_said("done", 0.2)
        assert not client.has_ended()
        assert client.stop().text == "ready\n"
    assert is_gone(client.pid)


def test_one_that_has_ended_says_no_more() -> None:
    with Client("talker", python("print('bye')")) as client:
        assert not client.has_said("ready", 60)
        assert client.has_said("bye", 0)
        assert client.wait(DEADLINE_S).code == 0


def test_one_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysbench, "GRACE_S", 0.1)
    with pytest.raises(RecoveryError, match="load still ran"), Client("load", ["sleep", "600"]) as client:
        client.wait(0.1)
    assert is_gone(client.pid)


def test_one_that_does_not_listen_ends_with_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysbench, "_TERM_TIMEOUT_S", 0.3)
    with Client("deaf", python(f"import os\nos.fork()\n{DEAF}")) as client:
        children = until(psutil.Process(client.pid).children, "its child")
    assert is_gone(client.pid)
    until(lambda: all(is_gone(child.pid) for child in children), "the end of its child")


def test_ctrl_c_while_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited_for, has_ended = threading.Event(), Client.has_ended

    def waiting(client: Client, timeout_s: float = 0) -> bool:
        waited_for.set()
        return has_ended(client, timeout_s)

    def interrupt() -> None:
        waited_for.wait()
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Client, "has_ended", waiting)
    client = Client("load", ["sleep", "600"])
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt), client:
        client.wait(DEADLINE_S)
    thread.join()
    assert is_gone(client.pid)


def test_ctrl_c_while_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised where nobody would call __exit__."""
    hold = os.pidfd_open

    def interrupted(pid: int) -> int:
        signal.raise_signal(signal.SIGINT)
        return hold(pid)

    monkeypatch.setattr(os, "pidfd_open", interrupted)
    client = Client("load", ["sleep", "600"])
    with pytest.raises(KeyboardInterrupt), client:
        pass
    assert is_gone(client.pid)


def test_an_exception_ends_it() -> None:
    with pytest.raises(ZeroDivisionError), Client("load", ["sleep", "600"]) as client:
        raise ZeroDivisionError
    assert is_gone(client.pid)


def test_no_descriptor_and_no_thread_is_left() -> None:
    process = psutil.Process()
    before, threads = process.num_fds(), set(threading.enumerate())
    for _ in range(3):
        with Client("load", ["true"]) as client:
            client.wait(DEADLINE_S)
    assert set(threading.enumerate()) <= threads
    assert process.num_fds() <= before


def test_on_cpus_of_its_own() -> None:
    cpu = max(os.sched_getaffinity(0))
    with Client("load", python("import os\nprint(os.sched_getaffinity(0))"), cpus=frozenset({cpu})) as client:
        assert client.wait(DEADLINE_S).text == f"{{{cpu}}}\n"


def test_it_leads_a_session_of_its_own() -> None:
    with Client("load", python("import os\nprint(os.getsid(0) == os.getpid())")) as client:
        assert client.wait(DEADLINE_S).text == "True\n"


def test_it_does_not_outlive_a_tool_that_is_killed() -> None:
    program = textwrap.dedent(
        """
        from recovery.workload.sysbench import Client
        import time
        with Client("load", ["sleep", "600"]) as client:
            while open(f"/proc/{client.pid}/comm").read() != "sleep\\n":
                time.sleep(0.01)
            print(client.pid, flush=True)
            time.sleep(600)
        """
    )
    with subprocess.Popen(python(program), stdout=subprocess.PIPE, text=True) as tool:
        assert tool.stdout is not None
        client = psutil.Process(int(tool.stdout.readline()))
        tool.kill()
    until(lambda: is_gone(client.pid), "the end of the client")
