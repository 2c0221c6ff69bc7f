"""A real server is killed with pages, rows and a prepared transaction pending, and recovers them."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.cli.main import run
from recovery.model import Verdict
from recovery.storage.sessions import find_session, load_session

pytestmark = pytest.mark.real


def test_what_is_pending_at_the_kill_is_measured_and_recovered(tmp_path: Path) -> None:
    where = ["--data", str(tmp_path / "data"), "--results", str(tmp_path / "results"), "--no-probe"]
    pending = ["--dirty", "60", "--uncommitted", "5000", "--state", "xa"]
    sizes = ["--tables", "2", "--rows", "6000", "--runs", "1", "--set", "innodb_log_file_size=16M"]
    assert run(["pending-work", "--version", "mariadb-10.11.5", *pending, *sizes, *where]) == 0
    session = load_session(find_session(tmp_path / "results", None))
    found = {one.variant: one for one in session.runs}
    assert {one.verdict for one in found.values()} == {Verdict.MEASURED}, [one.reason for one in found.values()]
    metrics = {name: one.metrics for name, one in found.items()}
    assert metrics["dirty-60"]["dirty_pages"] >= 60
    assert metrics["nothing-pending"]["uncommitted_rows"] == 0
    prepared = metrics["transaction-5000-xa"]
    assert prepared["uncommitted_rows"] == 5000
    assert prepared["redo_bytes"] > metrics["nothing-pending"]["redo_bytes"]
    assert prepared["startup_s"] < prepared["untouched_row_s"] < prepared["rollback_s"]
    assert all(one["acknowledged"] > 0 and one["lost"] == 0 for one in metrics.values())
