"""Nothing is lost and nothing left, whenever the tool is killed: a dozen moments (`make torture` has hundreds)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Another's session may end what a killed one has left before its own next start does, and that is all.
pytestmark = [pytest.mark.real, pytest.mark.on_demand("torture")]
SEEDS, KILLS = ("56691", "131344"), 6
"""Of which each session is killed three times, for most of the time goes into coming to its end; in seven ways, at
moments early and late, one over a filesystem that is mounted."""
ROOT = Path(__file__).parent.parent.parent


@pytest.mark.timeout(280)
def test_a_dozen_kills(tmp_path: Path) -> None:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "proofs", ROOT / "tests" / "helpers")))
    }
    at_work = {}
    for seed in SEEDS:  # at once: they wait more than they compute
        command = [sys.executable, "-m", "torture", "--seed", seed, "--kills", str(KILLS)]
        at_work[seed] = subprocess.Popen(
            [*command, "--json", str(tmp_path / seed)], cwd=ROOT, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        output = {seed: process.communicate()[0] for seed, process in at_work.items()}
    finally:
        for process in at_work.values():
            process.terminate()
            process.wait()
    assert [process.returncode for process in at_work.values()] == [0, 0], "\n".join(output.values())
    points = [point for seed in SEEDS for point in json.loads((tmp_path / seed).read_text())["points"]]
    assert len(points) >= KILLS * len(SEEDS)
    assert not any(point.get(trouble) for point in points for trouble in ("lost", "left", "wrong"))
