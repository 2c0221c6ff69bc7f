"""`make bench` measures what its pages claim, with real servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest
from bench import starts
from bench.site import quiet, scratch

from recovery.builds.resolve import Sources, resolve_server
from recovery.experiments.bench import Bench
from recovery.model import Measurement

ROOT = Path(__file__).parent.parent.parent
pytestmark = [pytest.mark.real, pytest.mark.on_demand("bench")]


def bench(folder: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """What it kept, and what it printed."""
    command = [sys.executable, "-m", "bench"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "proofs", ROOT / "tests" / "helpers")))}
    places = ("--data", str(folder / "d"), "--results", str(folder / "r"))
    done = subprocess.run(
        [*command, *arguments, *places], capture_output=True, text=True, timeout=250, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    assert not list((folder / "d").iterdir()), "its scratch folder is removed"
    (kept,) = (folder / "r").glob("*-bench/bench.json")
    again = subprocess.run(
        [*command, "--show", str(kept)], capture_output=True, text=True, timeout=60, check=True, env=env
    )
    assert again.stdout == done.stdout
    return json.loads(kept.read_text(encoding="utf-8")), done.stdout


def test_builds(tmp_path: Path) -> None:
    small = ("--only", "building", "--version", "mariadb-10.11.5", "--tables", "200", "--builds", "2", "--rest", "0")
    kept, page = bench(tmp_path, *small)
    assert [row["way"] for row in kept["building"]] == ["plain", "stage", "stage", "plain"]
    assert all(0 < row["statements_s"] < row["whole_s"] for row in kept["building"])
    assert "| mariadb-10.11.5 | " in page


def test_starts(tmp_path: Path) -> None:
    kept, page = bench(tmp_path, "--only", "watching", "--tables", "100", "--pairs", "3")
    found = [(row["pair"], row["way"]) for row in kept["watching"]]
    assert found == [(1, "bare loop"), (1, "tool"), (2, "tool"), (2, "bare loop"), (3, "bare loop"), (3, "tool")]
    assert all(row["ready_s"] > 0 for row in kept["watching"])
    assert [row["lag_s"] is not None for row in kept["watching"]] == [False, True, True, False, False, True]
    assert "warm crash recovery of 5.7.22, 500 tables, 3 pairs: bare loop" in page


class Recorded(subprocess.Popen):  # type: ignore[type-arg]
    """Servers as they were started: threads of this process, options and environment, without the run folder's name."""

    seen: ClassVar[list[tuple[bool, str, str]]] = []

    def __init__(self, args: Any, **given: Any) -> None:
        if str(args[0]).endswith("/mysqld") and str(args[-1]).endswith("/my.cnf"):
            rundir = str(given["cwd"])
            options = (Path(rundir) / "my.cnf").read_text(encoding="utf-8")
            reported = any(thread.name == "progress" for thread in threading.enumerate())
            self.seen.append((reported, options.replace(rundir, "R"), str(given["env"]).replace(rundir, "R")))
        super().__init__(args, **given)


def test_the_same_server_with_all_that_a_session_does_beside_it_and_with_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    timed_start = Bench.timed_start

    def timed(bench: Bench, log_name: str) -> Measurement:
        startup = timed_start(bench, log_name)
        looks.append(len(startup.timeline.at_s) if startup.timeline else 0)
        return startup

    monkeypatch.setattr(Bench, "timed_start", timed)
    with scratch(tmp_path / "d") as site:
        build = resolve_server("5.7.22", Sources(), quiet)
        site.staged(build, 100).release()
        monkeypatch.setattr(subprocess, "Popen", Recorded)
        found = list(starts.compare(site, build, 100, (starts.BARE, starts.TOOL), count=1))
    assert [start.way for start in found] == [starts.BARE, starts.TOOL]
    # Two starts that make the first crash; then a pair that warms the files, and the one that counts.
    reported, options, variables = zip(*Recorded.seen, strict=True)
    assert reported == (False, False, True, False, False, True)
    assert len(set(options)) == len(set(variables)) == 1
    assert len(looks) == 2
    assert all(looks)
