"""Tests the run of the experiments one after the other, and its resumption, with sessions that nobody measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from at_work import interference

from recovery.cli import suite, suite_run
from recovery.cli.main import run
from recovery.cli.measure import request_from_arguments
from recovery.cli.suite_published import publication_names
from recovery.cli.suite_report import SuiteRecord, read_suite, save_suite
from recovery.errors import HostUnfitError, InterruptedByUserError, RecoveryError
from recovery.linux.storage import DiskSpace
from recovery.model import Session, Verdict
from recovery.report.stored_session import REPORT_FILE, load_session, to_json
from recovery.session.request import Request
from recovery.session.resume import Unfinished


class FakeSessions:
    """Stores a session for each request instead of measuring."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.results = tmp_path / "results"
        self.arguments = ["experiments", "--data", str(tmp_path / "data"), "--results", str(self.results)]
        self.errors: dict[str, BaseException] = {}
        """Raised by the session of this name, after its folder is stored."""
        self.void: set[str] = set()
        self.count = 0
        self.begun: list[str] = []
        self.resumed: list[str] = []
        self.fetched: list[str] = []
        monkeypatch.setattr(suite_run, "run_and_show", self.measure)
        monkeypatch.setattr(suite_run, "request_to_resume", self.request_to_resume)
        monkeypatch.setattr(suite, "fetch_prerequisites", self.fetch)

    def fetch(self, requests: list[Request], _: Any) -> None:
        self.fetched = [request.scenario for request in requests]

    def request_to_resume(self, left: Unfinished) -> Request:
        self.resumed.append(left.folder.name)
        name = left.folder.name.partition("Z-")[2]
        return request_from_arguments(name, ["--results", str(left.folder.parent)])

    def measure(self, request: Request, *, quiet: bool, unfinished: Unfinished | None) -> Session:
        name = request.scenario
        assert request.results == self.results
        self.begun.append(name)
        self.count += 1
        session = interference(caches=("400",))
        session = replace(session, runs=tuple(replace(run, watched=None) for run in session.runs))
        error = self.errors.get(name)
        if isinstance(error, RecoveryError) and not isinstance(error, InterruptedByUserError):
            raise error
        if name in self.void:
            session = replace(session, runs=(replace(session.runs[0], verdict=Verdict.VOID), *session.runs[1:]))
        if error is not None:
            session = replace(session, status="interrupted", runs=session.runs[:5])
        folder = unfinished.folder if unfinished else self.results / f"29991121T2000{self.count:02}Z-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / REPORT_FILE).write_bytes(to_json(session))
        if error is not None:
            raise error
        return session

    @property
    def folder(self) -> Path:
        (folder,) = self.results.glob("*-experiments")
        return folder

    @property
    def record(self) -> SuiteRecord:
        return read_suite(self.folder)

    @property
    def page(self) -> str:
        return " ".join((self.folder / "report.md").read_text().split())


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSessions:
    return FakeSessions(tmp_path, monkeypatch)


def test_all_experiments_are_measured_in_the_order_of_the_publications(
    fake: FakeSessions, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(fake.arguments) == 0
    assert fake.begun == fake.fetched == list(publication_names())
    assert fake.record.status == "finished"
    assert all(step.session and step.error is None for step in fake.record.steps)
    captured = capsys.readouterr()
    assert "experiment 5 of 5: E5 InnoDB redesigned in 8.0" in captured.err
    assert "E3 information_schema queries under load: " in captured.out
    assert "--resume" not in captured.err
    assert {path.name for path in fake.folder.iterdir()} == {"experiments.json", "index.html", "report.md"}


def test_an_experiment_that_fails_does_not_stop_the_others(fake: FakeSessions) -> None:
    fake.errors = {"crash-recovery": RecoveryError("the server could not be fetched")}
    assert run(fake.arguments) == 1
    assert fake.record.status == "failed"
    assert fake.record.steps[0].error == "the server could not be fetched"
    assert fake.begun == list(publication_names())


def test_without_any_session_the_run_has_failed(fake: FakeSessions) -> None:
    fake.errors = {name: HostUnfitError("no", "none") for name in publication_names()}
    assert run(fake.arguments) == 1
    assert fake.record.status == "failed"


def test_a_void_run_fails_the_run_and_is_not_an_early_end(fake: FakeSessions) -> None:
    fake.void = {"interference"}
    assert run(fake.arguments) == 1
    assert fake.record.status == "failed"
    assert "Not all of it counts: 1 of its 12 runs failed, were void or are missing." in fake.page
    assert "It ended early" not in fake.page


@pytest.mark.parametrize("error", [KeyboardInterrupt(), InterruptedByUserError("interrupted", "resume it")])
def test_an_interrupted_run_is_resumed_where_it_stopped(
    error: BaseException, fake: FakeSessions, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.errors = {"metadata": error}
    assert run(fake.arguments) == 130
    assert fake.record.status == "interrupted"
    assert "It ended early: it was interrupted." in fake.page
    assert "not measured yet" in fake.page
    assert f"recovery experiments --resume {fake.folder}` measures what is missing" in capsys.readouterr().err
    first, second, *_ = fake.record.steps

    fake.errors, fake.begun = {}, []
    assert run(["experiments", "--resume", str(fake.folder)]) == 0
    assert fake.begun == fake.fetched == ["metadata", "interference", "table-cache", "write-scaling"]
    assert set(fake.resumed) == {second.session}
    assert fake.record.status == "finished"
    assert fake.record.steps[0] == first
    assert fake.record.steps[1].session == second.session
    assert all(step.session and step.error is None for step in fake.record.steps)


def test_a_session_that_was_resumed_by_itself_is_not_measured_again(fake: FakeSessions) -> None:
    fake.errors = {"write-scaling": KeyboardInterrupt()}
    assert run(fake.arguments) == 130
    last = fake.record.steps[-1]
    ended = to_json(interference(caches=("400",)))
    (fake.results / str(last.session) / REPORT_FILE).write_bytes(ended)
    fake.begun = []
    assert run(["experiments", "--resume", str(fake.folder)]) == 0
    assert fake.begun == []
    assert fake.record.status == "finished"


def test_the_session_of_a_killed_run_is_resumed(fake: FakeSessions) -> None:
    fake.errors = {"crash-recovery": KeyboardInterrupt()}
    assert run(fake.arguments) == 130
    record, (first, *others) = fake.record, fake.record.steps
    save_suite(
        replace(record, status="running", steps=(replace(first, session=None, error=None), *others)), fake.folder
    )
    path = fake.results / str(first.session) / REPORT_FILE
    killed = replace(load_session(path.parent), status="running", command=str(first.command))
    path.write_bytes(to_json(killed))
    fake.errors = {}
    assert run(["experiments", "--resume", str(fake.folder)]) == 0
    assert first.session in fake.resumed
    assert fake.record.steps[0].session == first.session


def test_a_run_that_is_complete_stays_as_it_is_when_it_is_resumed(fake: FakeSessions) -> None:
    assert run(fake.arguments) == 0
    steps, fake.begun, fake.fetched = fake.record.steps, [], []
    assert run(["experiments", "--resume", str(fake.folder)]) == 0
    assert (fake.begun, fake.fetched) == ([], [])
    assert fake.record.steps == steps


def test_a_record_that_another_user_can_change_is_not_resumed(
    fake: FakeSessions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite_run, "why_not_trusted", lambda _: "mallory can change it")
    assert run(["experiments", "--resume", str(fake.results)]) == 2
    assert "cannot be resumed: mallory can change it" in capsys.readouterr().err


def test_nothing_is_begun_if_the_data_directories_do_not_fit_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Stage:
        def __init__(self, key: str) -> None:
            self.key, self.need = key, DiskSpace(10**9, 100)

    stages = iter([[Stage("a"), Stage("b")], [Stage("b")], [Stage("c")], [], []])
    monkeypatch.setattr(suite_run, "choose_engine", lambda *_: None)
    monkeypatch.setattr(suite_run, "resolve_builds", lambda *_: (None, ()))
    monkeypatch.setattr(suite_run, "check_options", lambda *_: None)
    monkeypatch.setattr(suite_run, "required_datadirs", lambda *_, **__: next(stages))
    monkeypatch.setattr(suite_run, "free_space", lambda _: DiskSpace(3 * 10**9 - 1, 10**6))
    monkeypatch.setattr(suite_run, "provide_tool", lambda *_, **__: pytest.fail("nothing is fetched"))
    results = tmp_path / "results"
    assert run(["experiments", "--data", str(tmp_path / "data"), "--results", str(results)]) == 3
    message = capsys.readouterr().err
    assert "the experiments need 3.0 GB and 300 inodes of disk, and 3.0 GB and 1,000,000 inodes are free" in message
    assert "choose a smaller SCALE" in message
    assert not results.exists()
