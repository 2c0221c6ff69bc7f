"""A command before each timed start of a real server: the start stays cold, or is void."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import shell_script
from sessions import stored

from recovery.cli.main import run

pytestmark = pytest.mark.real
TABLES = 300


def test_a_cold_start_after_a_command_is_cold_or_void(at: list[str], tmp_path: Path, data: Path) -> None:
    script = shell_script(
        tmp_path / "prepare", f"[ -e {tmp_path}/second ] && cat {data}/*/mysql/ib*; touch {tmp_path}/second"
    )
    assert run(["cold-recovery", "--version", "5.7.22", "--runs", "2", "--before-start", str(script), *at]) == 1
    cold, warmed = stored(tmp_path)["runs"]
    assert (cold["verdict"], cold["resident_bytes"]) == ("measured", 0)
    assert cold["read_bytes"] > 10_000_000
    assert cold["before_start_s"] > 0
    assert warmed["verdict"] == "void"
    assert "stay in the page cache" in warmed["reason"]
