"""A data directory on which a server does not come back is kept with the log, and the session continues without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from sessions import stored

from recovery.cli.main import run
from recovery.experiments.bench import Bench
from recovery.experiments.experiment import TIMED_LOG
from recovery.model import Measurement
from recovery.mysqld.datadir import DataDirs
from recovery.mysqld.server import Server, StartCompanion

pytestmark = pytest.mark.real
VERSION, TABLES = "mariadb-10.11.5", 5
LEFT_BYTES = 100_000


def cut_short(mysql: Path) -> None:
    """As by a failing disk: the server's own tablespace ends within a page."""
    with (mysql / "ibdata1").open("r+b") as file:
        file.truncate(LEFT_BYTES)


def only_first(fault: Callable[[], None], calls: list[object]) -> None:
    calls.append(None)
    if len(calls) == 1:
        fault()


def kept_directory(data: Path, failed: dict[str, Any], results: Path) -> Path:
    """It is where the reason says, as the failed start has left it, and its log is with the results."""
    (info,) = (info for info in DataDirs(data).list() if info.status == "failed")
    kept = data / info.key
    assert failed["verdict"] == "failed"
    assert failed["reason"].endswith(f"; its data directory is kept as {kept}")
    assert (kept / "mysql" / "ibdata1").stat().st_size == LEFT_BYTES
    assert "ibdata1" in (results / "latest" / failed["log"]).read_text()
    assert str(kept) in "".join((results / "latest" / "report.txt").read_text().split()), "broken into lines"
    return kept


def test_a_start_that_fails_keeps_its_data_directory(
    at: list[str], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    timed_start, calls = Bench.timed_start, list[object]()

    def failing(bench: Bench, log_name: str) -> Measurement:
        only_first(lambda: cut_short(bench.datadir.mysql), calls)
        return timed_start(bench, log_name)

    monkeypatch.setattr(Bench, "timed_start", failing)
    command = ["warm-recovery", "--version", VERSION, *at]
    assert run([*command, "--runs", "2"]) == 1
    report = stored(tmp_path)
    first, second = report["runs"]
    kept = kept_directory(data, first, tmp_path / "results")
    assert second["verdict"] == "measured", second["reason"]
    assert f"{VERSION}: after run 1 its data directory was built anew." in report["notes"]

    assert run([*command, "--runs", "1"]) == 0, "it has nothing to do with the one that is kept"
    assert "using the data directory" in capsys.readouterr().err
    assert run(["datadirs", "remove", kept.name, "--data", str(data)]) == 0
    assert [info.status for info in DataDirs(data).list()] == ["whole"]


def test_a_crash_that_is_not_survived_keeps_the_copy(
    at: list[str], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, calls = Server.start, list[object]()

    def failing(
        server: Server,
        *,
        log_name: str = "",
        settings: Mapping[str, str] | None = None,
        companion: StartCompanion = nullcontext,
    ) -> Measurement:
        if log_name == TIMED_LOG:
            only_first(lambda: cut_short(server.datadir), calls)
        return start(server, log_name=log_name, settings=settings, companion=companion)

    monkeypatch.setattr(Server, "start", failing)
    one_cell = ["--option", "innodb_flush_log_at_trx_commit=1", "--option", "innodb_doublewrite=1"]
    assert run(["crash-matrix", "--version", VERSION, "--question", "inserts", "--runs", "2", *one_cell, *at]) == 1
    first, second = stored(tmp_path)["runs"]
    kept = kept_directory(data, first, tmp_path / "results")
    assert second["verdict"] == "measured", "over another copy"
    assert not list(data.glob("*/copy*"))
    DataDirs(data).remove(kept.name)
