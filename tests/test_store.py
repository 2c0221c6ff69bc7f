"""Does a stored session come back as it was, even one whose tool was killed, and is a bad one refused in one line?"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import recovery
from recovery.cli.main import run
from recovery.errors import HostUnfitError, RecoveryError
from recovery.linux.files import write_atomically
from recovery.model import Phase, Run, Session, Verdict
from recovery.report.stored_session import LOCK_FILE, REPORT_FILE, find_session, load_session
from recovery.session.store import SessionStore, check_results_folder

PROMISED = {
    "version", "flavor", "variant", "repeat", "verdict", "startup_s", "first_query_s", "phases", "tables",
    "tablespaces_opened", "tablespaces_modified", "read_bytes", "read_requests", "resident_before_bytes",
    "cache_grown_bytes", "rows_expected", "rows_found", "log",
}  # fmt: skip


def a_run(number: int, startup_s: float | None = 1.5, verdict: Verdict = Verdict.MEASURED) -> Run:
    return Run(
        number=number,
        version="5.7.22",
        flavor="mysql",
        variant="cold",
        repeat=number,
        verdict=verdict,
        startup_s=startup_s,
        phases=(Phase("redo", 0.1, 0.4),),
    )


SESSION = Session(
    scenario="cold-recovery",
    question="how long?",
    command="recovery run cold-recovery",
    started_at="2026-11-20T20:15:30+00:00",
    environment={"cpus": 2, "kernel": "6.8", "load": 0.5, "ec2_instance_type": None},
    settings={"tables": 200_000, "as_published": False, "template": None},
    versions=("5.7.22",),
    variants=("cold",),
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


def test_a_session_comes_back_as_it_was(store: SessionStore) -> None:
    store.append(a_run(1))
    store.append(a_run(2, None, Verdict.FAILED))
    store.finish(replace(SESSION, notes=("another note",)))
    expected = replace(
        SESSION, notes=("another note",), status="finished", runs=(a_run(1), a_run(2, None, Verdict.FAILED))
    )
    assert load_session(store.folder) == expected


def test_the_report_has_the_promised_keys(store: SessionStore) -> None:
    store.append(a_run(1))
    report = stored(store.folder)
    assert report["format"] == 1
    assert {"scenario", "environment", "settings", "runs", "summaries", "findings"} <= report.keys()
    assert report["runs"][0].keys() >= PROMISED
    assert report["runs"][0]["verdict"] == "measured"
    assert report["runs"][0]["tablespaces_opened"] is None
    assert report["summaries"][0]["mean_s"] == 1.5
    assert report["summaries"][0]["stdev_s"] is None
    assert report["findings"] == []


def test_the_tool_puts_its_version_in(tmp_path: Path) -> None:
    store = SessionStore.create(tmp_path, replace(SESSION, tool_version=""))
    assert stored(store.folder)["tool_version"] == recovery.__version__


def test_an_interrupted_session_is_not_called_finished(store: SessionStore) -> None:
    store.finish(replace(SESSION, status="interrupted"))
    assert load_session(store.folder).status == "interrupted"


@pytest.mark.parametrize("status", ["running", "finished", "interrupted", "aborted"])
@pytest.mark.parametrize("figure", ["startup_s", "qps", "recovery_s"])
def test_every_report_has_findings(figure: str, status: str, tmp_path: Path) -> None:
    """From the first moment on, so also where the tool was killed or nothing was measured."""
    session = replace(SESSION, figure=figure, settings={"runs": 1})
    store = SessionStore.create(tmp_path, session)
    assert kinds(store.folder) == ["few-runs"]
    store.append(a_run(1, None, Verdict.FAILED))
    assert kinds(store.folder) == ["few-runs"]
    store.finish(replace(session, status=status))
    assert kinds(store.folder) == ["few-runs"]


def kinds(folder: Path) -> list[str]:
    return [one["kind"] for one in stored(folder)["findings"]]


def test_what_is_made_from_the_runs_is_made_anew_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """But not of a session that runs, nor of one whose tool was killed, which may go on."""
    store = SessionStore.create(tmp_path, replace(SESSION, settings={"runs": 1}))
    assert run(["report", str(store.folder), "--write"]) == 3
    assert "is still running" in capsys.readouterr().err
    store.release_lock()
    for status, found in (("running", []), ("aborted", ["few-runs"]), ("finished", ["few-runs"])):
        change(store.folder, findings=[], status=status)
        assert run(["report", str(store.folder), "--write"]) == 0
        assert (stored(store.folder)["status"], kinds(store.folder)) == (status, found)
    assert not (store.folder / LOCK_FILE).exists()


def test_an_update_keeps_the_runs(store: SessionStore) -> None:
    store.append(a_run(1))
    store.update(replace(SESSION, servers={"5.7.22": {"source": "own"}}))
    assert load_session(store.folder).runs == (a_run(1),)
    assert load_session(store.folder).servers == {"5.7.22": {"source": "own"}}


def test_runs_that_a_killed_tool_left_behind_are_found(store: SessionStore) -> None:
    store.append(a_run(1))
    before = (store.folder / REPORT_FILE).read_bytes()
    for number in range(2, 12):
        store.append(a_run(number))
    (store.folder / REPORT_FILE).write_bytes(before)
    (store.folder / "runs" / f".012.json.{os.getpid()}").write_text('{"format": 1, "num')
    assert [run.number for run in load_session(store.folder).runs] == list(range(1, 12))


def test_a_killed_process_leaves_what_it_appended(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from recovery.session.store import *\n"
        "from recovery.model import *\n"
        f"store = SessionStore.create(Path({str(tmp_path)!r}), Session('cold-recovery', 'q', 'c', 's', {{}}, {{}},"
        " ('5.7.22',), ('cold',), 3))\n"
        "store.append(Run(1, '5.7.22', 'mysql', 'cold', 1, Verdict.MEASURED, startup_s=2.5))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", script], check=False)
    assert ended.returncode == -9
    session = load_session(find_session(tmp_path, None))
    assert [run.startup_s for run in session.runs] == [2.5]
    assert session.status == "aborted"
    assert "was killed" in session.notes[-1]


def test_a_session_under_way_is_said_to_run(store: SessionStore) -> None:
    assert load_session(store.folder).status == "running"
    store.finish(SESSION)
    assert load_session(store.folder).status == "finished"
    assert not (store.folder / "running.lock").exists()


def test_folders_are_never_shared_and_latest_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = [SessionStore.create(tmp_path, SESSION) for _ in range(4)]
    folders = [store.folder for store in stores]
    for store in stores:
        store.mark_newest()
    assert len(set(folders)) == 4
    latest = tmp_path / "latest"
    assert latest.is_symlink()
    # A relative link: the results folder can be moved as a whole.
    assert str(latest.readlink()) == folders[-1].name
    assert find_session(tmp_path, None) == folders[-1]
    assert find_session(tmp_path, folders[0].name) == folders[0]
    monkeypatch.chdir(folders[1].parent)
    assert find_session(Path("elsewhere"), folders[1].name) == folders[1]


def test_a_second_session_of_the_same_second_gets_a_number(tmp_path: Path) -> None:
    names = {SessionStore.create(tmp_path, SESSION).folder.name for _ in range(6)}
    assert any(name.endswith("-cold-recovery-2") for name in names)


def test_the_newest_is_found_without_the_link(tmp_path: Path) -> None:
    SessionStore.create(tmp_path, SESSION)
    newest = SessionStore.create(tmp_path, SESSION).folder
    assert not (tmp_path / "latest").exists()
    assert find_session(tmp_path, None) == newest


@pytest.mark.parametrize("name", [None, "nothing", "", "/nowhere/at/all"])
def test_no_session_is_told_in_a_line(tmp_path: Path, name: str | None) -> None:
    with pytest.raises(RecoveryError, match="there is no session") as caught:
        find_session(tmp_path, name)
    assert caught.value.hint
    with pytest.raises(RecoveryError, match="there is no session"):
        load_session(tmp_path)


def test_keys_of_a_later_tool_are_left_alone(store: SessionStore) -> None:
    store.append(a_run(1))
    run = {**stored(store.folder)["runs"][0], "cosmic_rays": 3}
    change(store.folder, weather="mild", runs=[run])
    assert load_session(store.folder).runs == (a_run(1),)


@pytest.mark.parametrize("where", [REPORT_FILE, "runs/001.json"])
def test_a_newer_format_is_refused(store: SessionStore, where: str) -> None:
    store.append(a_run(1))
    change(store.folder, runs=[])
    path = store.folder / where
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 2}))
    with pytest.raises(RecoveryError, match=r"written by a newer version of this tool \(format 2\)") as caught:
        load_session(store.folder)
    assert "update" in caught.value.hint


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"format": "1"}',
        b'{"format": 1}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"format": 1, "runs": 7}',
    ],
)
def test_a_damaged_report_is_one_line(store: SessionStore, content: bytes) -> None:
    (store.folder / REPORT_FILE).write_bytes(content)
    with pytest.raises(RecoveryError, match="is damaged") as caught:
        load_session(store.folder)
    assert "\n" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("changes", "many"),
    [
        ({"runs": 10_001}, r"10,001 runs \(the limit is 10,000\)"),
        ({"versions": [f"8.0.{number}" for number in range(101)]}, "101 versions"),
        ({"variants": [f"v{number}" for number in range(2_001)]}, "2,001 versions times variants"),
        ({"measures": {f"m{number}": 1.0 for number in range(1_001)}}, "1,002 names of phases and figures"),
    ],
)
def test_more_than_a_report_shows_is_refused(store: SessionStore, changes: dict[str, Any], many: str) -> None:
    store.append(a_run(1))
    (run,) = stored(store.folder)["runs"]
    runs = [{**run, "number": number + 1} for number in range(changes.pop("runs", 1))]
    runs[0]["measures"] = changes.pop("measures", {})
    change(store.folder, runs=runs, **changes)
    with pytest.raises(RecoveryError, match=f"has {many}"):
        load_session(store.folder)


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / REPORT_FILE).open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(RecoveryError, match="is larger than"):
        load_session(tmp_path)


def test_a_verdict_nobody_knows_is_damage(store: SessionStore) -> None:
    store.append(a_run(1))
    change(store.folder, runs=[{**stored(store.folder)["runs"][0], "verdict": "splendid"}])
    with pytest.raises(RecoveryError, match=r"runs\.0\.verdict"):
        load_session(store.folder)


def test_names_that_are_no_utf_8_cost_no_results(tmp_path: Path) -> None:
    odd = os.fsdecode(b"recovery --data /mnt/\xff")
    store = SessionStore.create(tmp_path, replace(SESSION, command=odd, settings={"data": odd}))
    assert load_session(store.folder).command == "recovery --data /mnt/?"


@pytest.mark.parametrize("where", ["file", "file/below", "/sys/results"])
def test_a_folder_that_cannot_be_written(tmp_path: Path, where: str) -> None:
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


def test_a_full_folder(tmp_path: Path) -> None:
    with no_file_over(100), pytest.raises(HostUnfitError):
        check_results_folder(tmp_path / "a")
    with no_file_over(100), pytest.raises(HostUnfitError):
        SessionStore.create(tmp_path / "b", SESSION)
    assert list((tmp_path / "a").iterdir()) == []


def test_a_disk_that_fills_up_leaves_the_old_report_whole(store: SessionStore) -> None:
    store.append(a_run(1))
    with no_file_over(100), pytest.raises(HostUnfitError):
        store.append(a_run(2))
    assert load_session(store.folder).runs == (a_run(1),)
    assert [path.name for path in store.folder.iterdir() if path.name.startswith(".")] == []


def test_writing_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_atomically(tmp_path / "x", b"old")
    write_atomically(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_checking_a_folder_leaves_it_empty(tmp_path: Path) -> None:
    check_results_folder(tmp_path / "new" / "results")
    assert list((tmp_path / "new" / "results").iterdir()) == []
