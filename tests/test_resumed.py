"""A session that ended early goes on with what it lacks, and only where it would be the same one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from test_runner import VERSION, SilentReporter, session_of

from recovery.cli.main import run
from recovery.cli.measure import request_to_resume
from recovery.errors import (
    HostUnfitError,
    RecoveryError,
    ServerFailedError,
    StorageFailedError,
    TrialVoidError,
    UsageError,
)
from recovery.linux.privileges import EVERY_STEP
from recovery.linux.signals import record_server_stop
from recovery.model import Cache, Session, Verdict, startup_specs
from recovery.report.stored_session import LOCK_FILE, load_session
from recovery.session.datadirs import DatadirPool
from recovery.session.plan import (
    PLAN_FILE,
    PlanProgress,
    StoredPlan,
    build_variants,
    differences,
    make_plan,
    settings_of,
    stored_trials,
)
from recovery.session.resume import (
    ResumedSession,
    Unfinished,
    check_not_running,
    find_unfinished,
    open_resumed,
    sweep_results,
)
from recovery.session.run import TrialLoop
from recovery.session.store import SessionStore

GOOD = "good"
OVER_A_FULL_DISK = ServerFailedError("errno 28")
STOOD = "somebody stopped it: the time is not the server's alone"


def began(tmp_path: Path, script: list[Any]) -> Unfinished:
    """A session that ended as the script says."""
    loop, _, _ = session_of(tmp_path, script)
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    (tmp_path / "logs").rename(tmp_path / "logs-of-the-first")
    return find_unfinished(tmp_path / "results", None)


def resume(unfinished: Unfinished, tmp_path: Path, script: list[Any]) -> Session:
    """With as many trials as it had, of which those that are missing do what the script says."""
    planned_runs = unfinished.session.planned_runs
    with open_resumed(unfinished) as resumed:
        assert resumed is not None
        loop, _, pool = session_of(tmp_path, script)
        plan = make_plan(
            [VERSION], build_variants(startup_specs((Cache.COLD,))), repeats=planned_runs, alternating=False
        )
        TrialLoop(
            replace(loop.request, runs=planned_runs),
            replace(loop.setup, plan=plan, earlier=resumed.earlier),
            pool=cast(DatadirPool, pool),
            scratch=loop.scratch,
            reporter=SilentReporter(),
            resumed=resumed,
        ).run()
    return load_session(unfinished.folder)


def test_only_what_is_missing_is_measured_and_what_there_is_stays_as_it_is(tmp_path: Path) -> None:
    unfinished = began(tmp_path, [GOOD, ServerFailedError("it did not start"), KeyboardInterrupt(), GOOD])
    assert (unfinished.session.status, unfinished.missing) == ("interrupted", 2)
    before = {path: path.read_bytes() for path in (unfinished.folder / "runs").iterdir()}
    assert len(before) == 2
    session = resume(unfinished, tmp_path, [GOOD, GOOD])
    assert session.status == "finished"
    assert [one.number for one in session.runs] == [1, 2, 3, 4]
    assert [one.verdict for one in session.runs] == [Verdict.MEASURED, Verdict.FAILED, *[Verdict.MEASURED] * 2]
    assert {path: path.read_bytes() for path in before} == before
    (note,) = (note for note in session.notes if "was resumed" in note)
    assert note.startswith("The session was interrupted when 2 of 4 runs had ended (last write: ")
    assert note.endswith(", in the same boot of the host, with 2 runs missing.")
    assert not (unfinished.folder / LOCK_FILE).exists()
    assert (tmp_path / "results" / "latest").resolve() == unfinished.folder


def test_after_a_reboot_a_reader_is_told(tmp_path: Path) -> None:
    unfinished = began(tmp_path, [GOOD, KeyboardInterrupt()])
    plan = json.loads((unfinished.folder / PLAN_FILE).read_text())
    (unfinished.folder / PLAN_FILE).write_text(json.dumps({**plan, "boot": "another"}))
    session = resume(unfinished, tmp_path, [GOOD])
    assert any("after a reboot of the host" in note for note in session.notes)
    assert json.loads((unfinished.folder / PLAN_FILE).read_text())["boot"] != "another"


def test_what_the_storage_made_void_is_measured_again_and_said_to_have_been(tmp_path: Path) -> None:
    """And nothing else that was void: what was asked would only come to the same."""
    loop, _, _ = session_of(tmp_path, [GOOD, TrialVoidError("it was not cold"), OVER_A_FULL_DISK, GOOD])
    with pytest.raises(StorageFailedError):
        loop.run()
    (tmp_path / "logs").rename(tmp_path / "logs-of-the-first")
    unfinished = find_unfinished(tmp_path / "results", None)
    assert [one.verdict for one in unfinished.session.runs] == [Verdict.MEASURED, Verdict.VOID, Verdict.VOID]
    assert (unfinished.session.status, unfinished.missing) == ("aborted", 2)
    before = {path: path.read_bytes() for path in (unfinished.folder / "runs").iterdir() if path.stem != "003"}
    session = resume(unfinished, tmp_path, [GOOD, GOOD])
    assert [one.verdict for one in session.runs] == [Verdict.MEASURED, Verdict.VOID, *[Verdict.MEASURED] * 2]
    assert {path: path.read_bytes() for path in before} == before
    assert any("with 2 runs missing" in note for note in session.notes)
    told = "To be measured again: run 3 (5.7.22 cold), which was void: a disk was full during the run: errno 28."
    assert session.notes.count(told) == 1


def stands_still(loop: TrialLoop, error: Exception | None) -> None:
    """While each of its trials is measured, which then ends as it would have, or so."""
    measure = loop.setup.scenario.measure

    def stopped(*given: Any) -> Any:
        record_server_stop("somebody stopped it")
        if error is not None:
            raise error
        return measure(*given)

    loop.setup = replace(loop.setup, scenario=replace(loop.setup.scenario, measure=stopped))


@pytest.mark.parametrize("error", [None, ServerFailedError("the server hangs")])
def test_what_stood_still_is_measured_again_though_the_session_came_to_its_end(
    tmp_path: Path, error: Exception | None
) -> None:
    loop, _, _ = session_of(tmp_path, [GOOD])
    stands_still(loop, error)
    loop.run()
    (tmp_path / "logs").rename(tmp_path / "logs-of-the-first")
    unfinished = find_unfinished(tmp_path / "results", None)
    assert (unfinished.session.status, unfinished.missing, unfinished.has_ended) == ("finished", 1, False)
    (void,) = unfinished.session.runs
    assert (void.verdict, void.reason) == (Verdict.VOID, f"{STOOD}; the server hangs" if error else STOOD)
    session = resume(unfinished, tmp_path, [GOOD])
    assert [one.verdict for one in session.runs] == [Verdict.MEASURED]
    with pytest.raises(UsageError, match="that can be resumed"):
        find_unfinished(tmp_path / "results", None)


def test_killed_before_its_report_had_the_run_that_was_measured_again(tmp_path: Path) -> None:
    loop, _, _ = session_of(tmp_path, [OVER_A_FULL_DISK, GOOD])
    with pytest.raises(StorageFailedError):
        loop.run()
    (tmp_path / "logs").rename(tmp_path / "logs-of-the-first")
    unfinished = find_unfinished(tmp_path / "results", None)
    before = (unfinished.folder / "report.json").read_bytes()
    resume(unfinished, tmp_path, [GOOD, GOOD])
    (unfinished.folder / "report.json").write_bytes(before)
    assert [one.verdict for one in load_session(unfinished.folder).runs] == [Verdict.MEASURED] * 2


def test_a_disk_that_is_full_when_the_server_is_to_come_back_ends_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would count as having come to its end, without the runs that were left."""
    loop, bench, _ = session_of(tmp_path, [TrialVoidError("it was not cold"), GOOD])

    def over_a_full_disk() -> None:
        raise OVER_A_FULL_DISK

    monkeypatch.setattr(bench, "recount_after_failure", over_a_full_disk)
    with pytest.raises(StorageFailedError, match="a disk was full during the run"):
        loop.run()
    unfinished = find_unfinished(tmp_path / "results", None)
    assert (unfinished.session.status, unfinished.missing) == ("aborted", 1)


def killed(tmp_path: Path, after: str) -> Unfinished:
    """In a process of its own, which dies by SIGKILL at this point of the second trial, or of the build."""
    script = f"""
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_runner import session_of
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
loop, bench, pool = session_of(Path({str(tmp_path)!r}), ["good", "good", "good"])
if {after!r} == "begin": pool.bench = die
if {after!r} == "one": loop.reporter.trial_ended = die
loop.run()
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    (tmp_path / "logs").rename(tmp_path / "logs-of-the-first")
    return find_unfinished(tmp_path / "results", None)


def test_a_tool_that_was_killed_before_its_first_trial_leaves_something_to_go_on_with(tmp_path: Path) -> None:
    unfinished = killed(tmp_path, "begin")
    assert unfinished.session.runs == ()
    assert not (tmp_path / "results" / "latest").exists(), "there is nothing to be seen in it"
    session = resume(unfinished, tmp_path, [GOOD, GOOD, GOOD])
    assert [one.verdict for one in session.runs] == [Verdict.MEASURED] * 3
    assert any(note.startswith("The tool was killed when 0 of 3 runs had ended") for note in session.notes)


def test_the_run_that_was_stored_last_is_not_measured_again(tmp_path: Path) -> None:
    """Its tool was killed between two lines."""
    unfinished = killed(tmp_path, "one")
    assert unfinished.session.status == "aborted"
    assert [one.number for one in unfinished.session.runs] == [1]
    assert unfinished.session.servers == {"5.7.22": {"source": "a fake"}}
    session = resume(unfinished, tmp_path, [GOOD, GOOD])
    assert [one.number for one in session.runs] == [1, 2, 3]
    assert not any("what had ended until then is kept" in note for note in session.notes)


def test_what_could_not_begin_leaves_no_session(tmp_path: Path) -> None:
    loop, _, pool = session_of(tmp_path, [GOOD])

    def unfit(*_: object) -> Any:
        raise HostUnfitError("the disk is full")

    pool.bench = unfit  # type: ignore[method-assign]
    with pytest.raises(HostUnfitError):
        loop.run()
    assert list((tmp_path / "results").iterdir()) == []


def test_it_is_refused_where_its_runs_could_not_be_compared(tmp_path: Path) -> None:
    unfinished = began(tmp_path, [GOOD, KeyboardInterrupt()])
    before = {path: path.read_bytes() for path in unfinished.folder.rglob("*") if path.is_file()}
    report = json.loads((unfinished.folder / "report.json").read_text())
    host = {**report["environment"], "kernel": "2.4.18", "memory_bytes": report["environment"]["memory_bytes"] + 4096}
    (unfinished.folder / "report.json").write_text(json.dumps({**report, "environment": host}))
    with pytest.raises(HostUnfitError, match=r"cannot be resumed: this host's kernel is .* now, and was 2\.4\.18$"):
        resume(unfinished, tmp_path, [GOOD])
    (unfinished.folder / "report.json").write_bytes(before[unfinished.folder / "report.json"])
    assert {path: path.read_bytes() for path in unfinished.folder.rglob("*") if path.is_file()} == before


def planned(**changed: Any) -> StoredPlan:
    trials = make_plan(
        [VERSION], build_variants(startup_specs((Cache.COLD, Cache.WARM))), repeats=2, alternating=False
    ).trials
    usual = StoredPlan(
        command="recovery crash-recovery", folder="/", boot="b", alternating=False, trials=stored_trials(trials),
        settings=settings_of(trials), servers={"5.7.22": "a" * 64}, directories=("k",), inserts="i",
    )  # fmt: skip
    return replace(usual, **changed)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"servers": {"5.7.22": "b" * 64}}, "the server 5.7.22 is another build (SHA-256 bbbbbbbbbbbb, and was aaaa"),
        ({"servers": {"5.7.23": "a" * 64}}, "the server is 5.7.23 now, and was 5.7.22"),
        ({"trials": planned().trials[:2]}, "the plan has 2 runs now, and had 4"),
        ({"trials": planned().trials[::-1]}, "run 4 is 5.7.22 warm 2 now, and was 5.7.22 cold 1"),
        ({"settings": {"cold": {"a": "1"}, "warm": {}}}, "the options of cold are a=1 now, and were none"),
        ({"inserts": "j"}, "the insert script has changed"),
        ({"directories": ("l",)}, "the tables are made differently now"),
        ({"boot": "c", "folder": "/else", "built": ("k",)}, ""),
    ],
)
def test_what_differs_is_told(changed: dict[str, Any], words: str) -> None:
    found = "; ".join(differences(planned(), planned(**changed)))
    assert words in found
    assert bool(words) == bool(found)


def test_one_that_goes_on_is_left_to_who_does(tmp_path: Path) -> None:
    unfinished = began(tmp_path, [GOOD, KeyboardInterrupt()])
    store = SessionStore.resume(unfinished.folder)
    with pytest.raises(HostUnfitError, match=f"is still running: pid {os.getpid()}, "):
        check_not_running(unfinished)
    with pytest.raises(HostUnfitError, match="is still running"), open_resumed(unfinished):
        pass
    store.release_lock()
    check_not_running(unfinished)
    assert not (unfinished.folder / LOCK_FILE).exists()


def test_the_newest_that_ended_early_is_found(tmp_path: Path) -> None:
    results = tmp_path / "results"
    with pytest.raises(UsageError, match=r"has no session that can be resumed"):
        find_unfinished(results, None)
    unfinished = began(tmp_path, [GOOD, KeyboardInterrupt()])
    later = results / "29991231T235959Z-cold-recovery"
    (later / "runs").mkdir(parents=True)
    (later / "report.json").write_text(
        (unfinished.folder / "report.json").read_text().replace('"status": "interrupted"', '"status": "finished"')
    )
    assert find_unfinished(results, None).folder == unfinished.folder
    assert find_unfinished(results, later.name).has_ended
    (results / "29991231T235959Z-damaged").mkdir()
    (results / "29991231T235959Z-damaged" / "report.json").write_text("{")
    assert find_unfinished(results, None).folder == unfinished.folder
    with pytest.raises(RecoveryError, match="is damaged"):
        find_unfinished(results, "29991231T235959Z-damaged")


def test_a_lock_that_outlived_its_session_goes(tmp_path: Path) -> None:
    loop, _, _ = session_of(tmp_path, [GOOD])
    folder = loop.run().folder
    (folder / LOCK_FILE).touch()
    sweep_results(tmp_path / "results")
    assert not (folder / LOCK_FILE).exists()
    unfinished = find_unfinished(tmp_path / "results", folder.name)
    assert unfinished.has_ended


def test_what_it_has_of_the_plan() -> None:
    plan = make_plan([VERSION], build_variants(startup_specs((Cache.COLD,))), repeats=2, alternating=True)
    (spec,) = plan.specs
    assert plan.is_missing(spec, {1})
    assert not plan.is_missing(spec, {1, 2})
    assert PlanProgress().alternating is None
    assert plan.variants_over(spec) == ("cold",)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    code = run(["run", *arguments])
    return code, capsys.readouterr().err.splitlines()


def test_the_command_says_what_it_cannot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = ["--results", str(tmp_path / "results")]
    code, lines = told(capsys, *results)
    assert (code, lines[0]) == (2, "error: `recovery run` needs --resume")
    code, lines = told(capsys, "--resume", *results)
    assert code == 2
    assert lines[0].endswith("that can be resumed")
    unfinished = began(tmp_path, [GOOD, KeyboardInterrupt()])
    store = SessionStore.resume(unfinished.folder)
    code, lines = told(capsys, "--resume", *results)
    assert (code, len(lines)) == (3, 2)
    assert "is still running" in lines[0]
    store.release_lock()
    (unfinished.folder / PLAN_FILE).unlink()
    code, lines = told(capsys, "--resume", *results)
    assert (code, len(lines)) == (2, 2)
    assert "stored no plan" in lines[0]


def test_one_that_has_come_to_its_end_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop, _, _ = session_of(tmp_path, [GOOD, GOOD])
    folder = loop.run().folder
    code, lines = told(capsys, "--resume", folder.name, "--results", str(tmp_path / "results"))
    assert code == 0
    assert lines == [f"{folder.name} has ended: all of its 2 runs were measured; `recovery report` prints it"]
    assert (folder / "report.txt").is_file(), "whoever was killed before it had written them"


def test_a_command_of_another_tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unfinished = began(tmp_path, [GOOD, KeyboardInterrupt()])
    plan = json.loads((unfinished.folder / PLAN_FILE).read_text())
    (unfinished.folder / PLAN_FILE).write_text(json.dumps({**plan, "command": "recovery cold-recovery --frobnicate"}))
    code, lines = told(capsys, "--resume", "--results", str(tmp_path / "results"))
    assert (code, len(lines)) == (2, 2)
    assert "does not know its command" in lines[0]


@pytest.mark.parametrize("old", ["all", "drop-caches,fanotify"])
def test_a_stored_command_with_the_replaced_option_is_read(tmp_path: Path, old: str) -> None:
    left = began(tmp_path, [GOOD, KeyboardInterrupt()])
    plan = json.loads((left.folder / PLAN_FILE).read_text())
    command = f"recovery cold-recovery --version 5.7.22 --tables 20 --no-root-steps={old} --data {tmp_path}"
    (left.folder / PLAN_FILE).write_text(json.dumps({**plan, "command": command, "folder": str(tmp_path)}))
    assert request_to_resume(left).refused == EVERY_STEP


def test_resumed_is_what_the_store_has(tmp_path: Path) -> None:
    unfinished = began(tmp_path, [GOOD, GOOD, KeyboardInterrupt()])
    with open_resumed(unfinished) as resumed:
        assert isinstance(resumed, ResumedSession)
        assert resumed.earlier == PlanProgress(frozenset({1, 2}), alternating=False)
    with open_resumed(None) as nothing:
        assert nothing is None


@pytest.mark.parametrize("whose", [PLAN_FILE, "report.json", "."])
def test_what_names_the_server_is_believed_of_its_owner_alone(whose: str, tmp_path: Path) -> None:
    unfinished = began(tmp_path, [GOOD, KeyboardInterrupt()])
    assert unfinished.plan().numbers == {1, 2}
    (unfinished.folder / whose).chmod(0o777)
    with pytest.raises(UsageError, match="cannot be resumed: everybody may write t"):
        unfinished.plan()
