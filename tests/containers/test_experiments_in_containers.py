"""A server in a container is put to work by programs of the host, over its socket, and profiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.cli.main import run
from recovery.model import Verdict
from recovery.report.stored_session import find_session, load_session

pytestmark = pytest.mark.containers
TABLES = 60


@pytest.mark.on_demand("large")
def test_a_load_beside_a_poller_with_a_profile(at: list[str], tmp_path: Path) -> None:
    sizes = ["--rows", "20", "--load-tables", "5", "--threads", "2", "--seconds", "3", "--warmup", "1", "--runs", "1"]
    options = ["--option", "table_open_cache=400", "--profile", "--engine", "docker", "--no-probe"]
    assert run(["interference", "--version", "5.7.22", *sizes, *options, *at]) == 0
    session = load_session(find_session(tmp_path / "results", None))
    assert [one.verdict for one in session.runs] == [Verdict.MEASURED] * 2 + [Verdict.SAMPLED] * 2
    assert "image" in session.servers["5.7.22 table_open_cache=400"]
    for one in session.runs:
        assert one.measures["qps"] > 0
        assert one.measures["server_cpus"] > 0.01, "the container's process was looked at, not its shell"
        assert one.measures["client_cpus"] > 0
    sampled = session.runs[-1]
    assert sampled.sampled_by == "perf"
    functions = {frame for chain in sampled.chains for frame in chain.frames}
    assert any("dispatch_command" in name or "do_command" in name for name in functions), functions
    assert (tmp_path / "results" / "latest" / str(sampled.stacks)).is_file()
