"""Sessions that ended early are resumed with the missing runs, and only where the runs stay comparable."""

from __future__ import annotations

import json
import os
import signal
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import click
import pytest
from fake_loop import GOOD, VERSION, session_of
from request_parts import make_plan, new_request
from runs import plain_variants

from recovery.analysis.summary import summarise
from recovery.cli import measure
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
from recovery.experiments import EXPERIMENTS
from recovery.linux.signals import record_server_stop
from recovery.model import Cache, ExtraRun, Schema, Session, Verdict, startup_specs
from recovery.session.plan import (
    PLAN_FILE,
    StoredPlan,
    build_variants,
    differences,
    stored_trials,
)
from recovery.session.prepare import plan_session
from recovery.session.resume import Unfinished, check_not_running, find_unfinished, open_resumed, sweep_results
from recovery.session.store import SessionStore
from recovery.storage.sessions import LOCK_FILE, REPORT_FILE, load_session

DISK_FULL = ServerFailedError("errno 28")
STOPPED = "somebody stopped it: the time is not the server's alone"


def interrupted(tmp_path: Path, script: list[Any], *, error: type[BaseException] = KeyboardInterrupt) -> Unfinished:
    """Runs a session that ends with this error."""
    loop, _, _ = session_of(tmp_path, script)
    with pytest.raises(error):
        loop.run()
    return find_unfinished(tmp_path / "results", None)


def change_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def resume(unfinished: Unfinished, tmp_path: Path, script: list[Any], **wished: Any) -> Session:
    """Resumes the session; its missing trials do what the script says."""
    with open_resumed(unfinished) as resumed:
        assert resumed is not None
        loop, _, _ = session_of(tmp_path, script, resumed=resumed, **wished)
        loop.run()
    return load_session(unfinished.folder)


def verdicts(session: Session) -> str:
    return " ".join(f"{one.number} {one.verdict}" for one in session.runs)


# --- What is measured again


def test_only_missing_runs_are_measured_and_stored_ones_stay(tmp_path: Path) -> None:
    unfinished = interrupted(tmp_path, [GOOD, ServerFailedError("it did not start"), KeyboardInterrupt(), GOOD])
    assert (unfinished.session.status, unfinished.missing) == ("interrupted", 2)
    before = {path: path.read_bytes() for path in (unfinished.folder / "runs").iterdir()}
    assert len(before) == 2
    session = resume(unfinished, tmp_path, [GOOD, GOOD])
    assert session.status == "finished"
    assert verdicts(session) == "1 measured 2 failed 3 measured 4 measured"
    assert {path: path.read_bytes() for path in before} == before
    (note,) = (note for note in session.notes if "was resumed" in note)
    assert note.startswith("The session was interrupted when 2 of 4 runs had ended (last write: ")
    assert note.endswith(", in the same boot of the host, with 2 runs missing.")
    assert not (unfinished.folder / LOCK_FILE).exists()
    assert (tmp_path / "results" / "latest").resolve() == unfinished.folder


def test_a_precision_counts_the_runs_from_before_the_interruption(tmp_path: Path) -> None:
    wished: dict[str, Any] = {"precision": 0.05, "max_runs": 8}
    loop, _, _ = session_of(tmp_path, [GOOD, GOOD, GOOD, KeyboardInterrupt(), *[GOOD] * 4], **wished)
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    session = resume(find_unfinished(tmp_path / "results", None), tmp_path, [GOOD, GOOD], **wished)
    assert (session.status, session.planned_runs, len(session.runs)) == ("finished", 5, 5)


def test_a_precision_that_a_resumed_run_misses_again_needs_the_later_runs(tmp_path: Path) -> None:
    wished: dict[str, Any] = {"precision": 0.05, "max_runs": 8}
    loop, _, _ = session_of(tmp_path, [GOOD] * 8, **wished)
    loop.run()
    folder = (tmp_path / "results" / "latest").resolve()
    runs = json.loads((folder / REPORT_FILE).read_text())["runs"]
    runs[2] |= {"verdict": "void", "measure_again": True}
    change_json(folder / REPORT_FILE, runs=runs)
    (folder / "runs/003.json").unlink()
    unfinished = find_unfinished(tmp_path / "results", None)
    assert unfinished.session.planned_runs == 5
    session = resume(unfinished, tmp_path, [8.0, GOOD, GOOD, GOOD], **wished)
    assert (session.planned_runs, len(session.runs)) == (8, 8)


def test_a_first_read_is_kept_and_extra_runs_are_measured(tmp_path: Path) -> None:
    wished: dict[str, Any] = {"first_read": True, "extras": (ExtraRun.TRACE,)}
    loop, _, _ = session_of(tmp_path, [9.0, GOOD, KeyboardInterrupt(), GOOD], **wished)
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    unfinished = find_unfinished(tmp_path / "results", None)
    assert (verdicts(unfinished.session), unfinished.missing) == ("1 sampled 2 measured", 2)
    session = resume(unfinished, tmp_path, [GOOD, 5.0], **wished)
    assert verdicts(session) == "1 sampled 2 measured 3 measured 4 sampled"
    assert [(run.extra, run.repeat) for run in session.runs] == [
        (ExtraRun.FIRST_READ, 0), (None, 1), (None, 2), (ExtraRun.TRACE, 3),
    ]  # fmt: skip
    (cell,) = summarise(session)
    assert (cell.count, cell.mean) == (2, 4.0)


def test_a_resumed_session_has_its_own_order(tmp_path: Path) -> None:
    unfinished = interrupted(tmp_path, [GOOD, KeyboardInterrupt()])
    command = f"recovery cold-recovery --version 5.7.22 --tables 20 --data {tmp_path}"
    change_json(unfinished.folder / PLAN_FILE, command=command, folder=str(tmp_path))
    settings = json.loads((unfinished.folder / REPORT_FILE).read_text())["settings"]
    change_json(unfinished.folder / REPORT_FILE, settings={**settings, "seed": 77})
    request = request_to_resume(find_unfinished(tmp_path / "results", None))
    assert request.experiment_options.seed == dict(request.stored_settings)["seed"] == 77
    assert request.command == command


def test_a_reboot_in_between_is_noted(tmp_path: Path) -> None:
    unfinished = interrupted(tmp_path, [GOOD, KeyboardInterrupt()])
    change_json(unfinished.folder / PLAN_FILE, boot="another")
    session = resume(unfinished, tmp_path, [GOOD])
    assert any("after a reboot of the host" in note for note in session.notes)
    assert json.loads((unfinished.folder / PLAN_FILE).read_text())["boot"] != "another"


def test_runs_that_a_storage_error_made_void_are_measured_again(tmp_path: Path) -> None:
    """Other void runs are not: the same request would have the same result."""
    script = [GOOD, TrialVoidError("it was not cold"), DISK_FULL, GOOD]
    unfinished = interrupted(tmp_path, script, error=StorageFailedError)
    assert verdicts(unfinished.session) == "1 measured 2 void 3 void"
    assert (unfinished.session.status, unfinished.missing) == ("aborted", 2)
    before = {path: path.read_bytes() for path in (unfinished.folder / "runs").iterdir() if path.stem != "003"}
    session = resume(unfinished, tmp_path, [GOOD, GOOD])
    assert verdicts(session) == "1 measured 2 void 3 measured 4 measured"
    assert {path: path.read_bytes() for path in before} == before
    assert any("with 2 runs missing" in note for note in session.notes)
    note = "To be measured again: run 3 (5.7.22 cold), which was void: a disk was full during the run: errno 28."
    assert session.notes.count(note) == 1


@pytest.mark.parametrize("error", [None, ServerFailedError("the server hangs")])
def test_a_run_during_which_the_server_was_stopped_is_measured_again(tmp_path: Path, error: Exception | None) -> None:
    loop, _, _ = session_of(tmp_path, [GOOD])
    measure = loop.experiment.measure

    def stopped(*given: Any) -> Any:
        record_server_stop("somebody stopped it")
        if error is not None:
            raise error
        return measure(*given)

    loop.experiment = replace(loop.experiment, measure=stopped)
    loop.run()
    unfinished = find_unfinished(tmp_path / "results", None)
    assert (unfinished.session.status, unfinished.missing, unfinished.has_ended) == ("finished", 1, False)
    (void,) = unfinished.session.runs
    assert (void.verdict, void.reason) == (Verdict.VOID, f"{STOPPED}; the server hangs" if error else STOPPED)
    assert verdicts(resume(unfinished, tmp_path, [GOOD])) == "1 measured"
    with pytest.raises(UsageError, match="that can be resumed"):
        find_unfinished(tmp_path / "results", None)


def test_a_repeated_run_that_the_report_lacks_is_read_from_its_file(tmp_path: Path) -> None:
    """The tool was killed after it had stored the run, and before it stored the report."""
    unfinished = interrupted(tmp_path, [DISK_FULL, GOOD], error=StorageFailedError)
    before = (unfinished.folder / REPORT_FILE).read_bytes()
    resume(unfinished, tmp_path, [GOOD, GOOD])
    (unfinished.folder / REPORT_FILE).write_bytes(before)
    assert verdicts(load_session(unfinished.folder)) == "1 measured 2 measured"


def test_a_full_disk_during_recovery_ends_the_session(tmp_path: Path) -> None:
    """Otherwise it would count as finished, without the remaining runs."""
    loop, bench, _ = session_of(tmp_path, [TrialVoidError("it was not cold"), GOOD])
    bench.contents.recount_after_failure.side_effect = DISK_FULL
    with pytest.raises(StorageFailedError, match="a disk was full during the run"):
        loop.run()
    unfinished = find_unfinished(tmp_path / "results", None)
    assert (unfinished.session.status, unfinished.missing) == ("aborted", 1)


# --- Killed tools


def killed(tmp_path: Path, *, before_first_trial: bool) -> Unfinished:
    """Runs a session of three trials in another process, which is killed before the first trial or after it."""
    if (child := os.fork()) == 0:
        try:
            loop, _, pool = session_of(tmp_path, [GOOD, GOOD, GOOD])
            doomed = pool.bench if before_first_trial else cast(Mock, loop.reporter).trial_ended
            doomed.side_effect = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
            loop.run()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    return find_unfinished(tmp_path / "results", None)


def test_a_session_killed_before_its_first_trial_can_be_resumed(tmp_path: Path) -> None:
    unfinished = killed(tmp_path, before_first_trial=True)
    assert unfinished.session.runs == ()
    assert not (tmp_path / "results" / "latest").exists(), "there is nothing to be seen in it"
    session = resume(unfinished, tmp_path, [GOOD, GOOD, GOOD])
    assert verdicts(session) == "1 measured 2 measured 3 measured"
    assert any(note.startswith("The tool was killed when 0 of 3 runs had ended") for note in session.notes)


def test_the_last_stored_run_of_a_killed_session_is_not_measured_again(tmp_path: Path) -> None:
    unfinished = killed(tmp_path, before_first_trial=False)
    assert unfinished.session.status == "aborted"
    assert verdicts(unfinished.session) == "1 measured"
    assert unfinished.session.servers == {"5.7.22": {"source": "a fake"}}
    session = resume(unfinished, tmp_path, [GOOD, GOOD])
    assert verdicts(session) == "1 measured 2 measured 3 measured"
    assert not any("what had ended until then is kept" in note for note in session.notes)


def test_a_session_without_any_trial_is_removed(tmp_path: Path) -> None:
    loop, _, pool = session_of(tmp_path, [GOOD])
    pool.bench.side_effect = HostUnfitError("the disk is full")
    with pytest.raises(HostUnfitError):
        loop.run()
    assert list((tmp_path / "results").iterdir()) == []


def test_the_lock_of_a_finished_session_is_removed(tmp_path: Path) -> None:
    """Its tool was killed between the last write and the removal."""
    loop, _, _ = session_of(tmp_path, [GOOD])
    folder = loop.run().folder
    (folder / LOCK_FILE).touch()
    sweep_results(tmp_path / "results")
    assert not (folder / LOCK_FILE).exists()
    assert find_unfinished(tmp_path / "results", folder.name).has_ended


def test_a_host_that_began_to_page_out_idle_memory_is_noted(tmp_path: Path) -> None:
    unfinished = interrupted(tmp_path, [GOOD, KeyboardInterrupt()])
    report = unfinished.folder / REPORT_FILE
    host = json.loads(report.read_text())["environment"]
    change_json(report, environment={**host, "idle_pageout": "some other"})
    session = resume(unfinished, tmp_path, [GOOD])
    assert any("idle pageout was some other" in note for note in session.notes)


# --- Sessions that cannot be resumed


def test_on_a_changed_host_nothing_is_resumed_or_changed(tmp_path: Path) -> None:
    unfinished = interrupted(tmp_path, [GOOD, KeyboardInterrupt()])
    report = unfinished.folder / REPORT_FILE
    host = json.loads(report.read_text())["environment"]
    change_json(report, environment={**host, "kernel": "2.4.18", "memory_bytes": host["memory_bytes"] + 4096})
    before = {path: path.read_bytes() for path in unfinished.folder.rglob("*") if path.is_file()}
    with pytest.raises(HostUnfitError, match=r"cannot be resumed: this host's kernel is .* now, and was 2\.4\.18$"):
        resume(unfinished, tmp_path, [GOOD])
    assert {path: path.read_bytes() for path in unfinished.folder.rglob("*") if path.is_file()} == before


def planned(**changed: Any) -> StoredPlan:
    trials = make_plan(
        [VERSION], build_variants(startup_specs((Cache.COLD, Cache.WARM))), repeats=2, alternating=False
    ).trials
    usual = StoredPlan(
        command="recovery crash-recovery", folder="/", boot="b", alternating=False, trials=stored_trials(trials),
        settings={one.variant.name: dict(one.variant.settings) for one in trials},
        servers={"5.7.22": "a" * 64}, directories=("k",), inserts="i",
    )  # fmt: skip
    return replace(usual, **changed)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"servers": {"5.7.22": "b" * 64}}, "the server 5.7.22 is another build (SHA-256 bbbbbbbbbbbb, and was aaaa"),
        ({"servers": {"5.7.23": "a" * 64}}, "the server is 5.7.23 now, and was 5.7.22"),
        ({"trials": planned().trials[:2]}, "the plan has 2 runs now, and had 4"),
        ({"trials": planned().trials[::-1]}, "run 4 is 5.7.22 warm now, and was 5.7.22 cold 1"),
        ({"settings": {"cold": {"a": "1"}, "warm": {}}}, "the options of cold are a=1 now, and were none"),
        ({"inserts": "j"}, "the insert script has changed"),
        ({"directories": ("l",)}, "or options that shape the files, have changed"),
        ({"boot": "c", "folder": "/else", "built": ("k",)}, ""),
    ],
)
def test_a_changed_plan_is_described(changed: dict[str, Any], words: str) -> None:
    found = "; ".join(differences(planned(), planned(**changed)))
    assert words in found
    assert bool(words) == bool(found)


def test_a_running_session_is_refused(tmp_path: Path) -> None:
    unfinished = interrupted(tmp_path, [GOOD, KeyboardInterrupt()])
    store = SessionStore.resume(unfinished.folder)
    with pytest.raises(HostUnfitError, match=f"is still running: pid {os.getpid()}, "):
        check_not_running(unfinished)
    with pytest.raises(HostUnfitError, match="is still running"), open_resumed(unfinished):
        pass
    store.release_lock()
    check_not_running(unfinished)
    assert not (unfinished.folder / LOCK_FILE).exists()


def test_the_newest_session_that_ended_early_is_found(tmp_path: Path) -> None:
    results = tmp_path / "results"
    unfinished = interrupted(tmp_path, [GOOD, KeyboardInterrupt()])
    finished, damaged = (results / f"29991231T235959Z-{name}" for name in ("cold-recovery", "damaged"))
    (finished / "runs").mkdir(parents=True)
    report = (unfinished.folder / REPORT_FILE).read_text()
    (finished / REPORT_FILE).write_text(report.replace('"status": "interrupted"', '"status": "finished"'))
    damaged.mkdir()
    (damaged / REPORT_FILE).write_text("{")
    assert find_unfinished(results, None).folder == unfinished.folder
    assert find_unfinished(results, finished.name).has_ended
    with pytest.raises(RecoveryError, match="is damaged"):
        find_unfinished(results, damaged.name)


@pytest.mark.parametrize("path", [PLAN_FILE, REPORT_FILE, "."])
def test_a_plan_that_others_may_write_is_refused(path: str, tmp_path: Path) -> None:
    """It names the server to run."""
    unfinished = interrupted(tmp_path, [GOOD, KeyboardInterrupt()])
    assert [one.number for one in unfinished.plan().trials] == [1, 2]
    (unfinished.folder / path).chmod(0o777)
    with pytest.raises(UsageError, match="cannot be resumed: everybody may write t"):
        unfinished.plan()


def test_a_directory_of_ended_trials_is_not_missing(tmp_path: Path) -> None:
    request = new_request(
        "cold-recovery", startup_specs((Cache.COLD,)), (str(VERSION),), Schema(9), 2, tmp_path, tmp_path
    )
    plan = plan_session(request, [VERSION])
    (datadir,) = plan.datadirs
    assert replace(plan, done=frozenset({1})).needed == (datadir,)
    assert replace(plan, done=frozenset({1, 2})).needed == ()
    assert plan.variants_over(datadir.spec) == ("cold",)


# --- The command


def resume_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    code = run(["resume", *arguments, "--results", str(tmp_path / "results")])
    return code, capsys.readouterr().err.splitlines()


def test_the_command_refuses_what_cannot_be_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = resume_command(tmp_path, capsys)
    assert code == 2
    assert lines[0].endswith("that can be resumed")
    unfinished = interrupted(tmp_path, [GOOD, KeyboardInterrupt()])
    store = SessionStore.resume(unfinished.folder)
    code, lines = resume_command(tmp_path, capsys)
    assert (code, len(lines)) == (3, 2)
    assert "is still running" in lines[0]
    store.release_lock()
    change_json(unfinished.folder / PLAN_FILE, command="recovery cold-recovery --frobnicate")
    code, lines = resume_command(tmp_path, capsys)
    assert (code, len(lines)) == (2, 2)
    assert "does not know its command" in lines[0]
    (unfinished.folder / PLAN_FILE).unlink()
    code, lines = resume_command(tmp_path, capsys)
    assert (code, len(lines)) == (2, 2)
    assert "has no plan.json" in lines[0]


@pytest.mark.parametrize(
    "command",
    ["", "recovery", "recovery frobnicate", 'recovery cold-recovery "', "rm -rf /", "recovery " + 9999 * "x"],
)
def test_a_stored_command_that_is_none_of_this_tool_is_one_error(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unfinished = interrupted(tmp_path, [GOOD, KeyboardInterrupt()])
    change_json(unfinished.folder / PLAN_FILE, command=command)
    code, lines = resume_command(tmp_path, capsys)
    assert (code, len(lines)) == (2, 2)
    assert f"its stored command `{command[:99]}" in lines[0]
    assert lines[0].endswith("` is not one of this tool's")
    assert len(lines[0]) < 250


def test_a_stored_command_that_asks_for_help_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unfinished = interrupted(tmp_path, [GOOD, KeyboardInterrupt()])
    change_json(unfinished.folder / PLAN_FILE, command="recovery cold-recovery --help")
    code, lines = resume_command(tmp_path, capsys)
    assert (code, len(lines)) == (2, 2)
    assert "does not know its command" in lines[0]


# --- Consent

RISKY = (
    ("cold-recovery", "--before-start /x/theirs"),
    ("cold-recovery", "--mysqld /x/theirs"),
    ("cold-recovery", "--set init_file=/x/theirs.sql"),
    ("cold-recovery", "--set loose_plugin_load_add=theirs.so"),
    ("cold-recovery", "--set plugin_di=/x"),
    ("cold-recovery", "--variant a:early_plugin_load=theirs.so"),
    ("table-cache", "--option init_file=/x/theirs.sql"),
    ("table-cache", "--workload theirs.lua"),
    ("table-cache", "--workload /x/theirs"),
    ("metadata", "--queries /x/theirs.sql"),
    ("cold-recovery", "--template /x/theirs.j2"),
    ("cold-recovery", "--insert-template /x/theirs.j2"),
    ("cold-recovery", "--first-queries /x/theirs.sql"),
    ("cold-recovery", "--defaults-file /x/theirs.cnf"),
    ("cold-recovery", "--datadir /x/theirs"),
    ("cold-recovery", "--image theirs/mysql:8.0"),
    ("cold-recovery", "--registry theirs.test"),
    ("cold-recovery", "--archive https://theirs.test"),
)


@pytest.mark.parametrize(("name", "option"), RISKY)
def test_a_stored_option_that_may_run_code_is_used_only_with_consent(
    name: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody else may have given the session to this user, who owns its files then. Nothing is read before."""
    unfinished = interrupted(tmp_path, [GOOD, KeyboardInterrupt()])
    change_json(unfinished.folder / PLAN_FILE, command=f"recovery {name} --tables 20 {option} --data {tmp_path}")
    resumed = Mock(return_value=Mock(result=lambda: replace(unfinished.session, status="finished")))
    requested = Mock()
    monkeypatch.setattr(measure, "run_and_show", resumed)
    monkeypatch.setattr(measure, "make_request", requested)
    code, lines = resume_command(tmp_path, capsys)
    assert (code, len(lines), requested.called, resumed.called) == (2, 2, False, False)
    assert lines[0] == f"error: the stored command has {option}, which may run code of somebody else"
    assert lines[1].endswith("add --yes")
    monkeypatch.setattr(measure, "request_to_resume", requested)
    resume_command(tmp_path, capsys, "--yes")
    assert resumed.called


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--scale quick --schemas 2 --layout encrypted --columns 3 --rows 1 --database mine --statistics on",
        "--precision 5% --max-runs 9 --inserts 10 --first-queries=default --as-published --trace --stacks --floor",
        "--read-iops 100 --read-bps 1m --memory 2g --cpus 1.5 --cpu-set 0-1 --open-files 9999 --engine local",
        "--baseline 5.7.22 --fail-over 10% --max-startup 9.5 --unprivileged --offline --keep --stall 9",
        "--note 'io2, 5000 IOPS, see https://example.test/=1' --no-probe --no-drop-caches",
    ],
)
def test_a_plain_stored_command_needs_no_consent(options: str, tmp_path: Path) -> None:
    folders = f"--data {tmp_path}/data --results '{tmp_path}/my results'"
    command = f"recovery cold-recovery --version '5.7.22 mariadb-10.11.5' --tables 20k --runs 5 {folders} {options}"
    assert list(measure.risky_options(command, "")) == []


@pytest.mark.parametrize("scale", ["quick", "standard", "published"])
@pytest.mark.parametrize("name", [name for name, one in EXPERIMENTS.items() if "scale" in one.options])
def test_the_command_of_a_plain_session_needs_no_consent(name: str, scale: str, tmp_path: Path) -> None:
    words = ["--version", "5.7.22", "--data", str(tmp_path), "--results", str(tmp_path), "--scale", scale]
    assert list(measure.risky_options(measure.request_from_arguments(name, words).command, "")) == []


@pytest.mark.parametrize(("answer", "resumed"), [(True, True), (False, False)])
def test_on_a_terminal_consent_is_asked_for(answer: bool, resumed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "recovery cold-recovery --set 'init_file=/x\x1b[2K.sql'"
    monkeypatch.setattr(measure, "can_ask", lambda: True)
    asked = Mock(return_value=answer)
    monkeypatch.setattr(click, "confirm", asked)
    with nullcontext() if resumed else pytest.raises(UsageError, match="nothing was resumed"):
        measure.confirm_commands([(command, "")], yes=False)
    assert "--set 'init_file=/x?[2K.sql'" in asked.call_args.args[0]


def test_a_stored_warm_measurement_takes_nothing_from_the_newest_session(tmp_path: Path) -> None:
    """Its folder of results is not that of the user, and consent was given for the stored command only."""
    settings: dict[str, str | int | float | bool | None] = {"set": "init_file=/x/theirs.sql", "version": "8.0.31"}
    session = Session("cold-recovery", "", "", "", {}, settings, ("8.0.31",), plain_variants("cold"), 1)
    SessionStore.create(tmp_path, session).release_lock()
    request = measure.request_from_command(f"recovery warm-recovery --results {tmp_path} --data {tmp_path}", "")
    assert (request.servers.versions, request.servers.options) == (("5.7.22",), ())


def test_the_command_writes_the_missing_reports_of_a_finished_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop, _, _ = session_of(tmp_path, [GOOD, GOOD])
    folder = loop.run().folder
    code, lines = resume_command(tmp_path, capsys, folder.name)
    assert code == 0
    assert lines == [f"{folder.name} has ended: all of its 2 runs were measured; `recovery report` prints it"]
    assert (folder / "report.txt").is_file()
