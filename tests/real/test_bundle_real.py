"""A session that was just measured keeps the published schema, and its bundle has nothing of this machine in it."""

from __future__ import annotations

import gzip
import json
import platform
from pathlib import Path

import pytest
from schema_check import complaints

from recovery.cli.bundle import make_bundle
from recovery.cli.main import run
from recovery.report.exports import schema
from recovery.report.stored_session import load_session

pytestmark = pytest.mark.real

TABLES = 300
SHARES_DATA = True


def test_a_fresh_session(at: list[str], data: Path, tmp_path: Path) -> None:
    assert run(["crash-recovery", "--version", "5.7.22", "--runs", "1", *at]) == 0
    folder = tmp_path / "results" / "latest"
    made = schema()
    report = json.loads((folder / "report.json").read_bytes())
    assert list(complaints(report, made, made)) == []

    bundle = make_bundle(folder.resolve())
    packed = gzip.decompress(bundle.archive)
    assert b"ready for connections" in packed, "the log of the start is there"
    for private in (str(data), str(tmp_path), str(Path.home()) + "/"):
        assert private.encode() not in packed
        assert private.encode() not in bundle.text
    if len(platform.node()) > 4:
        assert platform.node().encode() not in packed
    assert load_session(folder).settings["data"] == str(data), "the session itself stays as it was"
    assert make_bundle(folder.resolve()) == bundle
