"""Stored sessions: written run by run, read back after a kill, and refused where they are damaged."""

from __future__ import annotations

import json
import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from runs import make_run, variants_with
from sessions import seconds

import recovery
from recovery.cli.main import run
from recovery.errors import HostUnfitError, RecoveryError
from recovery.model import Phase, Run, Session, Verdict
from recovery.report.json_report import to_json
from recovery.session.store import REPORT_INTERVAL_S, SessionStore, check_results_folder
from recovery.storage.format import session_to_json
from recovery.storage.sessions import LOCK_FILE, REPORT_FILE, find_session, load_session

PROMISED = {
    "number", "version", "flavor", "variant", "repeat", "verdict", "reason", "started_at", "log", "metrics",
    "host_activity", "timeline", "previous_exit", "observations",
}  # fmt: skip


def a_run(number: int, startup_s: float | None = 1.5, verdict: Verdict = Verdict.MEASURED) -> Run:
    phases = (Phase("redo", 0.1, 0.4),)
    return make_run(
        number,
        "5.7.22",
        "mysql",
        "cold",
        number,
        verdict,
        metrics=seconds(startup_s),
        phases=phases,
    )


SESSION = Session(
    experiment="cold-recovery",
    question="how long?",
    command="recovery run cold-recovery",
    started_at="2026-11-20T20:15:30+00:00",
    environment={"cpus": 2, "kernel": "6.8", "load": 0.5, "ec2_instance_type": None},
    settings={"tables": 200_000, "as_published": False, "template": None},
    versions=("5.7.22",),
    variants=variants_with({"cold": {"cache": "cold"}}),
    planned_runs=2,
    servers={"5.7.22": {"source": "catalog"}},
    notes=("a note",),
    tool_version="0.1.0",
)


def stored(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / REPORT_FILE).read_text())
    return content


def change(folder: Path, **changes: object) -> None:
    (folder / REPORT_FILE).write_text(json.dumps({**stored(folder), **changes}))


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore.create(tmp_path / "results", SESSION)


def test_a_session_is_read_back_as_it_was_stored(store: SessionStore) -> None:
    store.append(a_run(1))
    store.append(a_run(2, None, Verdict.FAILED))
    store.finish(status="finished", notes=("another note",))
    runs = (a_run(1), a_run(2, None, Verdict.FAILED))
    assert load_session(store.folder) == replace(SESSION, notes=("another note",), status="finished", runs=runs)


def test_the_report_has_the_promised_keys(store: SessionStore) -> None:
    store.append(a_run(1))
    store.finish(to_json)
    report = stored(store.folder)
    assert report["format"] == 2
    assert {"experiment", "environment", "settings", "runs", "summaries", "findings"} <= report.keys()
    assert report["runs"][0].keys() >= PROMISED
    assert report["runs"][0]["verdict"] == "measured"
    assert "opened_files" not in report["runs"][0], "it was not traced"
    assert report["summaries"][0]["mean"] == 1.5
    assert report["summaries"][0]["stdev"] is None
    assert report["findings"] == []


def test_a_run_is_stored_without_computing_the_report_each_time(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[Session] = []

    def recorded(session: Session) -> bytes:
        reports.append(session)
        return session_to_json(session)

    monkeypatch.setattr("recovery.session.store.session_to_json", recorded)
    now_s = [store._report_due_s - REPORT_INTERVAL_S]
    monkeypatch.setattr("recovery.session.store.time.monotonic", lambda: now_s[0])
    for number in range(1, 50):
        store.append(a_run(number))
        assert len(load_session(store.folder).runs) == number, "a reader of the session sees every run at once"
    assert reports == []
    now_s[0] += REPORT_INTERVAL_S
    store.append(a_run(50))
    assert [len(session.runs) for session in reports] == [50]


def test_a_report_that_takes_long_is_written_the_less_often(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions of many runs spend at most a fiftieth of their time on it."""
    now_s, reports = [store._report_due_s], list[float]()

    def slow(session: Session) -> bytes:
        reports.append(now_s[0])
        now_s[0] += 7.0
        return session_to_json(session)

    monkeypatch.setattr("recovery.session.store.session_to_json", slow)
    monkeypatch.setattr("recovery.session.store.time.monotonic", lambda: now_s[0])
    for number in range(1, 200):
        store.append(a_run(number))
        now_s[0] += 5.0
    assert len(reports) == 3
    assert reports[1] - reports[0] >= 7 * 50


def test_the_version_of_the_tool_is_stored(tmp_path: Path) -> None:
    store = SessionStore.create(tmp_path, replace(SESSION, tool_version=""))
    assert stored(store.folder)["tool_version"] == recovery.__version__


@pytest.mark.parametrize("status", ["finished", "interrupted", "aborted"])
def test_a_session_is_running_until_it_has_another_status(status: str, store: SessionStore) -> None:
    assert load_session(store.folder).status == "running"
    store.finish(status=status)
    assert load_session(store.folder).status == status
    assert not (store.folder / LOCK_FILE).exists()


@pytest.mark.parametrize("figure", ["startup_s", "qps", "recovery_s"])
def test_a_report_has_findings_once_the_session_has_ended(figure: str, tmp_path: Path) -> None:
    session = replace(SESSION, metric=figure, settings={"runs": 1})
    store = SessionStore.create(tmp_path, session)
    store.append(a_run(1, None, Verdict.FAILED))
    assert "findings" not in stored(store.folder)
    store.finish(to_json, status="aborted")
    assert kinds(store.folder) == ["few-runs"]


def kinds(folder: Path) -> list[str]:
    return [one["kind"] for one in stored(folder)["findings"]]


def test_findings_are_rewritten_on_request_once_a_session_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A killed session may be resumed, so its report stays."""
    store = SessionStore.create(tmp_path, replace(SESSION, settings={"runs": 1}))
    assert run(["report", str(store.folder), "--write"]) == 3
    assert "is still running" in capsys.readouterr().err
    store.release_lock()
    for status, found in (("running", []), ("aborted", ["few-runs"]), ("finished", ["few-runs"])):
        change(store.folder, findings=[], status=status)
        assert run(["report", str(store.folder), "--write"]) == 0
        assert (stored(store.folder)["status"], kinds(store.folder)) == (status, found)
    assert not (store.folder / LOCK_FILE).exists()


def test_a_change_keeps_the_runs(store: SessionStore) -> None:
    store.append(a_run(1))
    store.change(servers={"5.7.22": {"source": "own"}})
    store.save()
    assert load_session(store.folder).runs == (a_run(1),)
    assert load_session(store.folder).servers == {"5.7.22": {"source": "own"}}


def test_runs_that_the_report_of_a_killed_tool_lacks_are_found(store: SessionStore) -> None:
    store.append(a_run(1))
    before = (store.folder / REPORT_FILE).read_bytes()
    for number in range(2, 12):
        store.append(a_run(number))
    (store.folder / REPORT_FILE).write_bytes(before)
    (store.folder / "runs" / f".012.json.{os.getpid()}").write_text('{"format": 2, "num')
    assert [run.number for run in load_session(store.folder).runs] == list(range(1, 12))


def test_each_session_has_its_own_folder_and_latest_is_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = [SessionStore.create(tmp_path, SESSION) for _ in range(6)]
    folders = [store.folder for store in stores]
    assert len(set(folders)) == 6
    assert any(folder.name.endswith("-cold-recovery-2") for folder in folders), "of the same second"
    latest = tmp_path / "latest"
    assert not latest.exists()
    assert find_session(tmp_path, None) == folders[-1]
    for store in stores:
        store.mark_newest()
    # A relative link: the results folder can be moved as a whole.
    assert str(latest.readlink()) == folders[-1].name
    assert find_session(tmp_path, None) == folders[-1]
    assert find_session(tmp_path, folders[0].name) == folders[0]
    monkeypatch.chdir(tmp_path)
    assert find_session(Path("elsewhere"), folders[1].name) == folders[1]


@pytest.mark.parametrize("name", [None, "nothing", "", "/nowhere/at/all"])
def test_a_missing_session_is_refused(tmp_path: Path, name: str | None) -> None:
    with pytest.raises(RecoveryError, match="there is no session") as caught:
        find_session(tmp_path, name)
    assert caught.value.hint
    with pytest.raises(RecoveryError, match="there is no session"):
        load_session(tmp_path)


@pytest.mark.parametrize("where", [REPORT_FILE, "runs/001.json"])
def test_a_newer_format_is_refused(store: SessionStore, where: str) -> None:
    store.append(a_run(1))
    change(store.folder, runs=[])
    path = store.folder / where
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 3}))
    with pytest.raises(RecoveryError, match=r"written by a newer version of this tool \(format 3\)") as caught:
        load_session(store.folder)
    assert "update" in caught.value.hint


@pytest.mark.parametrize("where", [REPORT_FILE, "runs/001.json"])
def test_the_format_of_no_release_is_refused(store: SessionStore, where: str) -> None:
    store.append(a_run(1))
    change(store.folder, runs=[])
    path = store.folder / where
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 1}))
    with pytest.raises(RecoveryError, match="has format 1, which no released version of this tool wrote") as caught:
        load_session(store.folder)
    assert "reads format 2" in caught.value.hint


@pytest.mark.parametrize("number", [0, -1])
def test_a_format_that_never_was_is_refused(store: SessionStore, number: int) -> None:
    path = store.folder / REPORT_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": number}))
    with pytest.raises(RecoveryError, match=f"is damaged: there is no format {number}"):
        load_session(store.folder)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"{}", b'{"format": "2"}', b'{"format": 2}', b"\xff\xfe\x00", b"[" * 100_000,
     b'{"format": 2, "runs": 7}'],
)  # fmt: skip
def test_a_damaged_report_is_refused_in_one_line(store: SessionStore, content: bytes) -> None:
    (store.folder / REPORT_FILE).write_bytes(content)
    with pytest.raises(RecoveryError, match="is damaged") as caught:
        load_session(store.folder)
    assert "\n" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metrics": {"startup_s": -5.0}}, "startup_s of run 1 is negative: -5"),
        ({"metrics": {"startup_s": 5.0, "latency_mean_ms": -0.5}}, "latency_mean_ms of run 1 is negative: -0.5"),
        (
            {"startup": {"phases": [{"name": "redo scan", "start_s": 2.0, "end_s": 1.0, "estimated": False}]}},
            "redo scan of run 1 is negative: -1",
        ),
    ],
)
def test_a_time_that_no_clock_measures_is_damage(store: SessionStore, changes: dict[str, Any], message: str) -> None:
    store.append(a_run(1))
    store.finish()
    path = store.folder / REPORT_FILE
    report = json.loads(path.read_text())
    report["runs"][0] |= changes
    path.write_text(json.dumps(report))
    with pytest.raises(RecoveryError, match=f"is damaged: {re.escape(message)}"):
        load_session(store.folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"runs": 10_001}, r"10,001 runs \(the limit is 10,000\)"),
        ({"versions": [f"8.0.{number}" for number in range(101)]}, "101 versions"),
        ({"variants": [{"name": f"v{number}"} for number in range(2_001)]}, "2,001 versions times variants"),
        ({"metrics": {f"m{number}": 1.0 for number in range(1_001)}}, "1,003 names of phases and figures"),
    ],
)
def test_a_session_larger_than_a_report_is_refused(store: SessionStore, changes: dict[str, Any], message: str) -> None:
    store.append(a_run(1))
    store.finish()
    (run,) = stored(store.folder)["runs"]
    runs = [{**run, "number": number + 1} for number in range(changes.pop("runs", 1))]
    runs[0]["metrics"] |= changes.pop("metrics", {})
    change(store.folder, runs=runs, **changes)
    with pytest.raises(RecoveryError, match=f"has {message}"):
        load_session(store.folder)


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recovery.linux.files._MAX_JSON_BYTES", 1000)
    with (tmp_path / REPORT_FILE).open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(RecoveryError, match="is larger than"):
        load_session(tmp_path)


def test_an_unknown_verdict_is_refused(store: SessionStore) -> None:
    store.append(a_run(1))
    store.finish()
    change(store.folder, runs=[{**stored(store.folder)["runs"][0], "verdict": "splendid"}])
    with pytest.raises(RecoveryError, match=r"runs\.0\.verdict"):
        load_session(store.folder)


def test_names_that_are_not_utf_8_are_stored_with_a_question_mark(tmp_path: Path) -> None:
    odd = os.fsdecode(b"recovery --data /mnt/\xff")
    store = SessionStore.create(tmp_path, replace(SESSION, command=odd, settings={"data": odd}))
    assert load_session(store.folder).command == "recovery --data /mnt/?"


@pytest.mark.parametrize("where", ["file", "file/below", "/sys/results"])
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    for attempt in (lambda path: SessionStore.create(path, SESSION), check_results_folder):
        with pytest.raises(HostUnfitError, match="results") as caught:
            attempt(tmp_path / where)
        assert caught.value.exit_code == 3


@contextmanager
def no_file_over(limit: int) -> Iterator[None]:
    """As a full disk: the write itself is what fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_refused_and_leaves_no_files(tmp_path: Path) -> None:
    with no_file_over(100), pytest.raises(HostUnfitError):
        check_results_folder(tmp_path / "a")
    with no_file_over(100), pytest.raises(HostUnfitError):
        SessionStore.create(tmp_path / "b", SESSION)
    assert list((tmp_path / "a").iterdir()) == []


def test_a_disk_that_fills_up_leaves_the_old_report(store: SessionStore) -> None:
    store.append(a_run(1))
    with no_file_over(100), pytest.raises(HostUnfitError):
        store.append(a_run(2))
    assert load_session(store.folder).runs == (a_run(1),)
    assert [path.name for path in store.folder.iterdir() if path.name.startswith(".")] == []


def test_checking_a_folder_leaves_it_empty(tmp_path: Path) -> None:
    check_results_folder(tmp_path / "new" / "results")
    assert list((tmp_path / "new" / "results").iterdir()) == []
