"""A real shell at a real gate: it says that it is there, and becomes the command when told to."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from recovery.mysqld.container import ExecBarrier

DEV_NULL = Path(os.devnull)


def start(gate: ExecBarrier, folder: Path, command: list[str], source: Path = DEV_NULL) -> subprocess.Popen[bytes]:
    return subprocess.Popen(gate.command(folder / "log", source, command))


def test_it_waits_and_then_becomes_the_command(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("from its input\n")
    with ExecBarrier(tmp_path) as gate:
        process = start(gate, tmp_path, ["/bin/sh", "-c", "echo $$ $0; cat; echo wrong >&2", "x y"], tmp_path / "in")
        assert gate.wait(lambda: process.poll() is None)
        assert (tmp_path / "log").read_text() == "", "the log is the command's own, from its first byte"
        before = time.monotonic()
        opening = gate.open()
        assert before <= opening.released_at
        assert 0 < opening.error_s <= time.monotonic() - before
        assert process.wait(60) == 0
    assert (tmp_path / "log").read_text() == f"{process.pid} x y\nfrom its input\nwrong\n"


def test_the_command_inherits_neither_pipe(tmp_path: Path) -> None:
    with ExecBarrier(tmp_path) as gate:
        process = start(gate, tmp_path, ["/bin/ls", "-l", "/proc/self/fd"])
        assert gate.wait(lambda: process.poll() is None)
        gate.open()
        process.wait(60)
    assert "gate-" not in (tmp_path / "log").read_text()
    assert not list(tmp_path.glob("gate-*")), "the pipes go with the gate"


def test_what_ends_before_it_stands_there_is_told(tmp_path: Path) -> None:
    with ExecBarrier(tmp_path) as gate:
        process = subprocess.Popen(["/bin/false"])
        assert not gate.wait(lambda: process.poll() is None)


def test_without_a_word_nothing_is_run(tmp_path: Path) -> None:
    gate = ExecBarrier(tmp_path)
    process = start(gate, tmp_path, ["/bin/echo", "ran"])
    assert gate.wait(lambda: process.poll() is None)
    gate.close()  # as when this tool dies
    assert process.wait(60) != 0
    assert (tmp_path / "log").read_text() == ""


def test_a_pipe_that_cannot_be_made_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "gate-go").write_text("in the way")
    before = {path.name for path in Path("/proc/self/fd").iterdir()}
    with pytest.raises(FileExistsError):
        ExecBarrier(tmp_path)
    assert {path.name for path in Path("/proc/self/fd").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["gate-go"]
