"""The kernel kills the tool when memory runs out: finished runs are kept, and the next start ends what was left."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from sessions import first_run_stored, need_limits, stored

from recovery.cli.main import run
from recovery.linux.cgroups import LimitGroup, processes_in, server_limits
from recovery.model import Limits, Verdict
from recovery.storage.sessions import find_session, load_session

pytestmark = pytest.mark.real
TABLES = 12
# With the caches dropped it would read its own files again and again for a while, before it is killed.
MEASURE = ["cold-recovery", "--version", "5.6.24", "--runs", "2", "--no-drop-caches"]
TOO_LITTLE = Limits(memory_bytes=16 << 20)
"""A server that is started in it takes more at once; the tool, which was larger before, is the largest there then."""


def out_of_memory(command: list[str], results: Path, group: LimitGroup) -> tuple[int, str]:
    """Runs the command with too little memory from its first ended run on; returns exit code and standard error."""
    with subprocess.Popen(
        [sys.executable, "-m", "recovery", *command], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as program:
        assert program.stderr is not None
        first_run_stored(results)
        group.add(program.pid)
        messages = program.stderr.read()
        return program.wait(), messages


def servers_over(data: Path) -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline", "name"]):
        files = [Path(word.partition("=")[2]) for word in process.info["cmdline"] or () if "--defaults-file=" in word]
        if any(file.is_file() and str(data) in file.read_text() for file in files):
            found.append(process.pid)
    return found


def test_a_tool_that_the_kernel_kills_loses_no_run_and_the_next_start_cleans_up(at: list[str], tmp_path: Path) -> None:
    need_limits()
    data, results = Path(at[at.index("--data") + 1]), tmp_path / "results"
    with server_limits(TOO_LITTLE, tmp_path) as group:
        assert group is not None
        code, messages = out_of_memory([*MEASURE, *at], results, group)
        assert code == -signal.SIGKILL, messages
        assert (group.counted().oom_kills or 0) >= 1, "it was the kernel"
        assert "Traceback" not in messages
        session = load_session(find_session(results, None))
        assert session.status == "aborted"
        assert [(one.number, one.verdict) for one in session.runs] == [(1, Verdict.MEASURED)]
        assert run(["report", "--results", str(results)]) == 0
        before = {path: path.read_bytes() for path in results.glob("2*/runs/*.json")}
        assert run(["resume", "--results", str(results)]) == 0
        assert processes_in(group.folders[0]) == (), "a server that was left there is ended"
    report = stored(tmp_path)
    assert [(one["number"], one["verdict"]) for one in report["runs"]] == [(1, "measured"), (2, "measured")]
    assert {path: path.read_bytes() for path in before} == before
    assert report["notes"][-1].startswith("The tool was killed when 1 of 2 runs had ended")
    assert servers_over(data) == []
    assert [folder.name for folder in group.folders if folder.exists()] == []
