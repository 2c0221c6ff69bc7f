"""One session that was just measured: what it prints and stores, and what its bundle contains."""

from __future__ import annotations

import gzip
import json
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from runs import flat_run
from schema_check import complaints

from recovery.report.json_report import schema
from recovery.sharing.bundle import make_bundle
from recovery.storage.sessions import load_session

pytestmark = pytest.mark.real

TABLES = 300
SHARES_DATA = True
NOTE = "io2, <b>5000</b> IOPS"


@dataclass(frozen=True)
class Measured:
    ended: subprocess.CompletedProcess[str]
    folder: Path
    report: dict[str, Any]


@pytest.fixture(scope="module")
def measured(data: Path, module_settings: None, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """With the probe of the storage, which other tests leave out."""
    results = tmp_path_factory.mktemp("fresh") / "results"
    asked = ["crash-recovery", "--version", "5.7.22", "--tables", str(TABLES), "--runs", "1", "--note", NOTE]
    folders = ["--data", str(data), "--results", str(results)]
    command = [sys.executable, "-m", "recovery", *asked, *folders, "--quiet", "--json", "-"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    folder = (results / "latest").resolve()
    return Measured(ended, folder, json.loads((folder / "report.json").read_bytes()))


def test_a_quiet_session_prints_nothing_but_the_requested_json(measured: Measured) -> None:
    assert measured.ended.stderr == ""
    assert json.loads(measured.ended.stdout) == measured.report
    assert measured.report["status"] == "finished"


def test_the_report_has_the_published_schema(measured: Measured) -> None:
    made = schema()
    assert list(complaints(measured.report, made, made)) == []


def test_the_bundle_contains_logs_and_no_private_text(measured: Measured, data: Path) -> None:
    bundle = make_bundle(measured.folder)
    packed = gzip.decompress(bundle.archive)
    assert b"ready for connections" in packed, "the log of the start"
    assert b"Server socket created on IP" in packed or b"Plugin 'FEDERATED'" in packed, "whole"
    for private in (str(data), str(measured.folder.parent.parent), str(Path.home()) + "/"):
        assert private.encode() not in packed
        assert private.encode() not in bundle.text
    if len(platform.node()) > 4:
        assert platform.node().encode() not in packed
    assert load_session(measured.folder).settings["data"] == str(data), "the session itself is not changed"
    assert make_bundle(measured.folder) == bundle


def test_the_text_for_the_tracker_has_the_lines_of_the_log(measured: Measured) -> None:
    text = make_bundle(measured.folder).text.decode("ascii")
    assert "InnoDB: Database was not shutdown normally!\n" in text
    assert "mysqld: ready for connections.\n" in text
    assert len(text.splitlines()) <= 50


def test_host_activity_is_stored_up_to_the_first_answer(measured: Measured) -> None:
    for one in map(flat_run, measured.report["runs"]):
        assert one["verdict"] == "measured", one["reason"]
        assert one["host_activity"]["seconds"] > 0
        at_s, columns = one["timeline"]["at_s"], one["timeline"]["columns"]
        # The last sample comes after the first answer.
        assert at_s[-1] >= one["first_query_s"] - 0.001
        assert columns["cpu_s"][-1] >= one["cpu_s"] - 0.001
        assert columns["read_bytes"][-1] >= one["read_bytes"]
        assert len(columns["others_cpu_s"]) == len(at_s)


def test_the_storage_probe_and_the_device_of_the_server_are_stored(measured: Measured) -> None:
    environment = measured.report["environment"]
    assert environment["probe_4k_1_iops"] is None or environment["probe_4k_1_iops"] > 0
    assert environment["probe_seconds_each"] == 0.1
    assert measured.report["servers"]["5.7.22"]["program_device"]


def test_a_note_is_stored(measured: Measured) -> None:
    assert measured.report["settings"]["note"] == NOTE
    assert f"--note '{NOTE}'" in measured.report["command"]
    assert NOTE in (measured.folder / "report.txt").read_text()
