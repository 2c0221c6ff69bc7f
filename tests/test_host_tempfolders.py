"""Temporary folders of this process, of one that has ended, and of nobody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from recovery.host import tempfolders

MAKE = "import sys; from recovery.host import tempfolders; print(tempfolders.make(sys.argv[1]))"


def test_those_of_a_run_that_has_ended_go_and_no_others(tmp_path: Path) -> None:
    made = subprocess.run([sys.executable, "-c", MAKE, str(tmp_path)], capture_output=True, text=True, check=True)
    left, own, strange = Path(made.stdout.strip()), tempfolders.make(str(tmp_path)), tmp_path / "recovery-of-mine"
    strange.mkdir()
    (left / "1").mkdir()
    (left / "1" / "my.cnf").touch()
    assert tempfolders.sweep(tmp_path) == 1
    assert not left.exists()
    assert own.is_dir()
    assert strange.is_dir()
    assert tempfolders.sweep(tmp_path) == 0
