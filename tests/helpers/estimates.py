"""What `recovery estimate` writes for Prometheus."""

from __future__ import annotations

import time
from pathlib import Path

AVAILABLE = "recovery_estimate_available"


def assert_not_available(metrics: Path, server: str) -> None:
    available, asked = (line for line in metrics.read_text().splitlines() if line[0] != "#")
    assert available == f'{AVAILABLE}{{server="{server}"}} 0.0'
    name, _, at_s = asked.partition(" ")
    assert name == f'recovery_estimate_time_seconds{{server="{server}"}}'
    assert 0 <= time.time() - float(at_s) < 600
