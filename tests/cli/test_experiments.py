"""`recovery experiments`: its scales, its run and resumption with sessions that nobody measured, and its results."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from at_work import interference
from fakes import shell_script
from html_page import check_page, without_whole
from suite_runs import SESSIONS, stored, suite_record

from recovery.cli import parse, suite, suite_run
from recovery.cli.main import run
from recovery.cli.measure import Ended, Shown, request_from_arguments
from recovery.cli.suite_run import (
    RECORD_FILE,
    Caps,
    StepResult,
    SuiteRequest,
    SuiteRun,
    publication_names,
    requested_versions,
    save_record,
    session_requests,
)
from recovery.errors import HostUnfitError, InterruptedByUserError, RecoveryError
from recovery.experiments.experiment import PUBLISHED, QUICK, STANDARD, HostCapacity, default_clients
from recovery.linux.files import STORED_FORMAT
from recovery.linux.storage import DiskSpace
from recovery.model import Schema, Verdict, parse_version
from recovery.report.json_report import to_json
from recovery.session.plan import PLAN_FILE, DatadirSpec, Plan, PlannedDatadir, StoredPlan
from recovery.session.plan import to_json as plan_to_json
from recovery.session.prepare import plan_ahead
from recovery.session.request import Request
from recovery.session.resume import Unfinished
from recovery.storage.sessions import REPORT_FILE, load_session

VERSIONS = ("5.7.22", "8.0.31")
ROOT = Path(__file__).parents[2]
every_scale = pytest.mark.parametrize("scale", [QUICK, STANDARD, PUBLISHED])

# --- Scales


@pytest.fixture
def two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "host_capacity", lambda _: HostCapacity(2, 4 << 30))


@pytest.fixture
def quick(tmp_path: Path) -> SuiteRequest:
    """The smallest scale."""
    shared = ("--data", str(tmp_path / "data"), "--results", str(tmp_path / "results"))
    return SuiteRequest("quick", VERSIONS, shared=shared)


@pytest.mark.usefixtures("two_cpus")
def test_the_quick_scale_takes_less_than_ten_minutes_on_two_cpus(quick: SuiteRequest) -> None:
    requests = session_requests(quick)
    assert sum(plan_ahead(request).seconds for request in requests) < 600
    *_, table_cache, write_scaling = requests
    assert table_cache.sizes.schema == write_scaling.sizes.schema, "both are measured over one data directory"


@pytest.mark.usefixtures("two_cpus")
def test_the_published_scale_has_the_published_sizes(quick: SuiteRequest) -> None:
    crash, metadata, interference, *_ = session_requests(replace(quick, scale="published"))
    assert (crash.sizes.schema.total_tables, crash.sizes.runs) == (200_000, 5)
    assert (metadata.sizes.schema.databases, metadata.sizes.schema.total_tables) == (100, 1_000_000)
    assert (interference.sizes.schema.total_tables, interference.sizes.runs) == (10_000, 3)


@every_scale
def test_caps_of_the_user_hold_and_larger_scales_have_runs_for_an_interval(scale: str, quick: SuiteRequest) -> None:
    assert all(
        request.sizes.repeats >= (1 if scale == QUICK else 3)
        for request in session_requests(replace(quick, scale=scale))
    )
    capped = replace(quick, scale=scale, caps=Caps(tables=400, seconds=4, runs=2))
    for request in session_requests(capped):
        assert request.sizes.repeats <= 2
        if "--seconds" in request.command:
            load: Any = request.experiment_options
            assert max(load.seconds, load.warmup_s) <= 4
        if request.scenario in ("crash-recovery", "metadata", "interference"):
            assert request.sizes.schema.total_tables <= 400


def test_clients_follow_the_cpus_up_to_what_was_published(quick: SuiteRequest) -> None:
    assert [default_clients(cpus) for cpus in (1, 2, 3, 8, 96)] == [4, 8, 8, 32, 64]
    (limited,) = session_requests(replace(quick, names=("table-cache",), shared=(*quick.shared, "--cpus", "1")))
    assert "--threads 4" in limited.command


@pytest.mark.parametrize("scale", ["quick", "published"])
def test_a_session_is_repeated_by_its_own_command(
    scale: str, quick: SuiteRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOVERY_NOTE", "the environment is for the command that the user called")
    monkeypatch.setenv("RECOVERY_SECONDS", "7")
    requests = session_requests(replace(quick, scale=scale))
    monkeypatch.delenv("RECOVERY_NOTE")
    monkeypatch.delenv("RECOVERY_SECONDS")
    assert [request.scenario for request in requests] == list(publication_names())
    for request in requests:
        program, name, *words = shlex.split(request.command)
        assert (program, name) == ("recovery", request.scenario)
        assert "--note" not in words
        assert run([name, *words, "--dry-run"]) == 0
    few = session_requests(replace(quick, scale=scale, caps=Caps(tables=40, seconds=1, runs=1)))
    assert [request.scenario for request in few] == list(publication_names()), "few tables are enough"


def test_the_plan_has_the_commands_the_time_and_the_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experiments", "--dry-run", "--data", str(tmp_path), "--results", str(tmp_path / "results")]) == 0
    plan = capsys.readouterr().out
    assert f"5 experiments at scale {QUICK} on 5.7.22, 8.0.31: about" in plan
    assert "disk: at most " in plan
    assert len([line for line in plan.splitlines() if line.strip().startswith("$ recovery")]) == 5
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("more", [[], ["--yes"]])
def test_a_long_run_asks_once_before_anything_is_fetched(
    more: list[str], fake: FakeSessions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("click.confirm", lambda text, **_: asked.append(text))
    monkeypatch.setattr("recovery.session.prepare.free_space", lambda _: DiskSpace(10**15, 10**12))
    long = [*fake.arguments, "--scale", "published", *more]
    assert run(long) == (0 if more else 2)
    assert "hours and" in capsys.readouterr().err
    assert (asked, fake.fetched) == (([], list(publication_names())) if more else (["Begin?"], []))
    assert all(shown.yes for shown in fake.shown), "no session asks again"
    assert run([*fake.arguments, "--only", "interference"]) == 0
    assert len(asked) == (0 if more else 1), "a short run does not ask"


@pytest.fixture
def settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "recovery.toml"
    monkeypatch.setenv("RECOVERY_CONFIG", str(file))
    return file


def test_limits_and_settings_of_the_file_apply_to_every_session(
    settings_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings_file.write_text('read_iops = 5000\nmemory = "2g"\nscale = "standard"\n[set]\ninnodb_io_capacity = "500"\n')
    assert run(["experiments", "--dry-run", "--data", str(tmp_path)]) == 0
    plan = capsys.readouterr().out
    assert "at scale standard" in plan
    commands = [line for line in plan.splitlines() if line.strip().startswith("$ recovery")]
    assert len(commands) == 5
    for command in commands:
        for words in ("--set innodb_io_capacity=500", "--read-iops 5000", "--memory 2g"):
            assert words in command


@pytest.mark.parametrize(
    "line", ["columns = 3", 'variant = "small:innodb_buffer_pool_size=64M"', 'question = "scaling"']
)
def test_a_setting_of_other_commands_in_the_file_is_refused(
    line: str, settings_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings_file.write_text(line)
    assert run(["experiments", "--dry-run"]) == 2
    message = capsys.readouterr().err
    assert f"'{line.partition(' ')[0]}' in recovery.toml does not apply to experiments" in message
    assert "hint:  remove it there" in message


def test_a_budget_is_refused_and_the_scales_are_named(
    settings_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hint = "give --scale quick, --scale standard or --scale published instead"
    settings_file.write_text('budget = "30m"')
    assert run(["experiments"]) == 2
    assert f"unknown setting 'budget'\nhint:  {hint}" in capsys.readouterr().err
    monkeypatch.delenv("RECOVERY_CONFIG")
    assert run(["experiments", "--budget", "30m"]) == 2
    assert f"--budget any more\nhint:  {hint}" in capsys.readouterr().err
    monkeypatch.setenv("RECOVERY_BUDGET", "30m")
    assert run(["experiments"]) == 2
    assert f"there is no setting BUDGET\nhint:  {hint}" in capsys.readouterr().err


def test_an_unknown_scale_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experiments", "--scale", "huge"]) == 2
    assert "quick, standard or published" in capsys.readouterr().err


def test_versions_default_to_those_that_are_installed() -> None:
    assert requested_versions(("5.6.24 8.0.15", "mariadb-10.11.5")) == ("5.6.24", "8.0.15", "mariadb-10.11.5")
    assert requested_versions(()) == VERSIONS


# --- The run and its resumption


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
        self.shown: list[Shown] = []
        monkeypatch.setattr(suite_run, "run_and_show", self.measure)
        monkeypatch.setattr(suite_run, "request_to_resume", self.request_to_resume)
        monkeypatch.setattr(suite, "fetch_prerequisites", self.fetch)

    def fetch(self, requests: list[Request], _: Any) -> None:
        self.fetched = [request.scenario for request in requests]

    def request_to_resume(self, left: Unfinished) -> Request:
        self.resumed.append(left.folder.name)
        name = left.folder.name.partition("Z-")[2]
        return request_from_arguments(name, ["--results", str(left.folder.parent)])

    def measure(self, request: Request, shown: Shown, unfinished: Unfinished | None) -> Ended:
        name = request.scenario
        self.shown.append(shown)
        assert request.output.results == self.results
        self.begun.append(name)
        self.count += 1
        session = replace(interference(caches=("400",)), command=request.command)
        session = replace(session, runs=tuple(replace(run, timeline=None) for run in session.runs))
        if unfinished is not None:
            session = replace(session, command=unfinished.session.command)
        error = self.errors.get(name)
        if isinstance(error, RecoveryError) and not isinstance(error, InterruptedByUserError):
            return Ended(None, error=error)
        if name in self.void:
            session = replace(session, runs=(replace(session.runs[0], verdict=Verdict.VOID), *session.runs[1:]))
        if error is not None:
            session = replace(session, status="interrupted", runs=session.runs[:5])
        folder = unfinished.folder if unfinished else self.results / f"29991121T2000{self.count:02}Z-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / REPORT_FILE).write_bytes(to_json(session))
        self.store_plan(folder, f"recovery {name}")
        return Ended(folder, session if error is None else None, error)

    def store_plan(self, folder: Path, command: str) -> None:
        (folder / PLAN_FILE).write_bytes(plan_to_json(StoredPlan(command, "/", "", False, (), {}, {}, (), "")))

    def resume(self) -> int:
        self.errors, self.begun, self.fetched = {}, [], []
        return run(["experiments", "--resume", str(self.folder)])

    @property
    def folder(self) -> Path:
        (folder,) = self.results.glob("*-experiments")
        return folder

    @property
    def stored(self) -> tuple[StepResult, ...]:
        """What `--resume` and `--report` see."""
        return SuiteRun.read(self.folder).results()

    @property
    def sessions(self) -> list[str | None]:
        """The name of each step's session."""
        return [None if step.stored is None else step.stored.folder.name for step in self.stored]


def words(path: Path) -> str:
    return " ".join(path.read_text().split())


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSessions:
    return FakeSessions(tmp_path, monkeypatch)


def test_all_experiments_are_measured_in_the_order_of_the_publications(
    fake: FakeSessions, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(fake.arguments) == 0
    assert fake.begun == fake.fetched == list(publication_names())
    assert [step.is_missing for step in fake.stored] == [False] * 5
    captured = capsys.readouterr()
    assert "experiment 5 of 5: E5 InnoDB redesigned in 8.0" in captured.err
    assert "--resume" not in captured.err
    assert {path.name for path in fake.folder.iterdir()} == {RECORD_FILE}
    sessions = fake.sessions
    assert fake.resume() == 0
    assert (fake.begun, fake.fetched, fake.sessions) == ([], [], sessions), "there was nothing to resume"


def test_a_run_ends_with_one_line_for_each_experiment_and_the_paths_of_the_reports(
    fake: FakeSessions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    assert run(fake.arguments) == 0
    *answers, title, crash_recovery, _, _, _, write_scaling = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[0] for line in answers] == ["E1", "E2", "E3", "E4", "E5"]
    assert answers[2] == (
        "E3 information_schema queries under load: 4 published effects: 4 holds. "
        "5.7: queries/s with the loop over without: 0.83 (0.82-0.84) here, 0.83 published."
    )
    assert title == "reports:"
    assert crash_recovery == f"  {fake.results}/29991121T200001Z-crash-recovery/report.html"
    assert write_scaling == f"  {fake.results}/29991121T200005Z-write-scaling/report.html"


def test_json_alone_is_on_standard_output(
    fake: FakeSessions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(request: Request, shown: Shown, unfinished: Unfinished | None = None) -> Ended:
        click.echo("the results of one session")
        return fake.measure(request, shown, unfinished)

    monkeypatch.setattr(suite_run, "run_and_show", measure)
    assert run([*fake.arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["status"] == "finished"
    assert "the results of one session" in captured.err
    written = fake.results / "experiments.json"
    assert run(["experiments", "--report", str(fake.folder), f"--json={written}"]) == 0
    assert json.loads(written.read_text()) == json.loads(captured.out)
    assert "E3 information_schema" in capsys.readouterr().out


def result_of(fake: FakeSessions, arguments: list[str]) -> tuple[int, dict[str, Any]]:
    """The exit code of a run, and its JSON."""
    file = fake.results.parent / "found.json"
    code = run([*arguments, f"--json={file}"])
    return code, json.loads(file.read_text())


@pytest.mark.parametrize("failing", [("crash-recovery",), publication_names()], ids=["the first", "all"])
def test_an_experiment_that_fails_does_not_stop_the_others(
    failing: tuple[str, ...], fake: FakeSessions, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.errors = {name: HostUnfitError("the server could not be fetched", "none") for name in failing}
    code, found = result_of(fake, fake.arguments)
    assert (code, found["status"]) == (1, "failed")
    assert found["steps"][0]["error"] == "the server could not be fetched"
    assert fake.begun == list(publication_names())
    captured = capsys.readouterr()
    line = "E1 Crash recovery with many tables: not measured: the server could not be fetched."
    assert line in " ".join(captured.out.split())
    assert f"--resume {fake.folder}` measures what is missing" in captured.err


def test_a_void_trial_fails_the_run_and_does_not_end_it(fake: FakeSessions, capsys: pytest.CaptureFixture[str]) -> None:
    fake.void = {"interference"}
    code, found = result_of(fake, fake.arguments)
    assert (code, found["status"]) == (1, "failed")
    shown = " ".join(capsys.readouterr().out.split())
    assert "Not all of it counts: 1 of its 12 runs failed, were void or are missing." in shown
    assert "It ended early" not in shown


@pytest.mark.parametrize("error", [KeyboardInterrupt(), InterruptedByUserError("interrupted", "resume it")])
def test_an_interrupted_run_is_resumed_where_it_stopped(
    error: BaseException, fake: FakeSessions, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.errors = {"metadata": error}
    code, found = result_of(fake, fake.arguments)
    assert (code, found["status"]) == (130, "interrupted")
    captured = capsys.readouterr()
    shown = " ".join(captured.out.split())
    assert "It ended early: it was interrupted." in shown
    assert "E5 InnoDB redesigned in 8.0: not measured yet." in shown
    assert f"recovery experiments --resume {fake.folder}` measures what is missing" in captured.err
    first, second, *_ = fake.sessions

    assert fake.resume() == 0
    assert fake.begun == fake.fetched == ["metadata", "interference", "table-cache", "write-scaling"]
    assert set(fake.resumed) == {second}
    assert fake.sessions[:2] == [first, second]
    assert [step.is_missing for step in fake.stored] == [False] * 5


def test_a_session_that_was_resumed_by_itself_is_not_measured_again(fake: FakeSessions) -> None:
    fake.errors = {"write-scaling": KeyboardInterrupt()}
    assert run(fake.arguments) == 130
    *_, last = fake.stored
    assert last.stored is not None
    complete = replace(interference(caches=("400",)), command=last.stored.session.command)
    (last.stored.folder / REPORT_FILE).write_bytes(to_json(complete))
    assert fake.resume() == 0
    assert fake.begun == []


def test_the_session_of_a_killed_run_is_resumed(fake: FakeSessions) -> None:
    fake.errors = {"crash-recovery": KeyboardInterrupt()}
    assert run(fake.arguments) == 130
    first, *_ = fake.stored
    assert first.stored is not None
    killed = replace(first.stored.session, status="running")
    (first.stored.folder / REPORT_FILE).write_bytes(to_json(killed))
    assert fake.resume() == 0
    assert set(fake.resumed) == {first.stored.folder.name}


def test_only_sessions_of_the_command_that_began_with_the_run_or_later_belong_to_it(fake: FakeSessions) -> None:
    fake.errors = {name: KeyboardInterrupt() for name in publication_names()}
    assert run(fake.arguments) == 130
    (session,) = filter(None, fake.sessions)
    (fake.results / session).rename(fake.results / "20001121T200001Z-crash-recovery")
    assert fake.sessions[0] is None, "it was before the run"
    other = fake.results / "29991121T200009Z-crash-recovery"
    (fake.results / "20001121T200001Z-crash-recovery").rename(other)
    assert fake.sessions[0] == other.name
    (other / REPORT_FILE).write_bytes(to_json(replace(load_session(other), command="recovery crash-recovery")))
    assert fake.sessions[0] is None, "it has other options"


def test_a_session_keeps_the_spelling_of_the_stored_command(
    fake: FakeSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version of the tool may have spelled it otherwise, and the session is found by it."""
    fake.errors = {"crash-recovery": KeyboardInterrupt()}
    assert run(fake.arguments) == 130
    record = SuiteRun.read(fake.folder).record
    steps = tuple(replace(step, command=f"recovery {step.name} --runs=7") for step in record.steps)
    save_record(replace(record, steps=steps), fake.folder)
    commands = []

    def measure(request: Request, shown: Shown, unfinished: Unfinished | None) -> Ended:
        commands.append(request.command)
        return fake.measure(request, shown, unfinished)

    monkeypatch.setattr(suite_run, "run_and_show", measure)
    assert fake.resume() == 0
    assert commands == [step.command for step in steps]
    assert fake.resume() == 0
    assert fake.begun == []


def test_a_record_that_another_user_can_change_is_not_resumed(
    fake: FakeSessions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite_run, "why_not_trusted", lambda _: "mallory can change it")
    assert run(["experiments", "--resume", str(fake.results)]) == 2
    assert "cannot be resumed: mallory can change it" in capsys.readouterr().err


def test_commands_of_a_record_run_only_with_consent(
    fake: FakeSessions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = shell_script(tmp_path / "theirs", "exit 0")
    assert run(fake.arguments) == 0
    record = SuiteRun.read(fake.folder).record
    first, *others = record.steps
    theirs = replace(first, command=f"recovery {first.name} --mysqld {program}")
    save_record(replace(record, steps=(theirs, *others)), fake.folder)
    assert run(["experiments", "--resume", str(fake.folder)]) == 2
    assert f"the stored command has --mysqld {program}, which may run code" in capsys.readouterr().err


def test_the_plan_of_a_session_in_a_record_runs_only_with_consent(
    fake: FakeSessions, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.errors = {"metadata": KeyboardInterrupt()}
    assert run(fake.arguments) == 130
    session = str(fake.sessions[1])
    fake.store_plan(fake.results / session, "recovery metadata --set init_file=/x/theirs.sql")
    assert fake.resume() == 2
    assert "the stored command has --set init_file=/x/theirs.sql, which may run code" in capsys.readouterr().err
    assert (fake.begun, fake.resumed) == ([], [])


def test_nothing_is_measured_if_the_data_directories_do_not_fit_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need, room = DiskSpace(10**9, 100), DiskSpace(3 * 10**9 - 1, 10**6)

    def plan_over(*tables: int) -> Plan:
        spec = DatadirSpec(parse_version("5.7.22"))
        datadirs = (
            PlannedDatadir(spec, Schema(count), {}, "", whole=False, size=need, need=need, build_s=1.0)
            for count in tables
        )
        return Plan((), alternating=True, datadirs=tuple(datadirs), room=room)

    plans = iter([plan_over(1, 2), plan_over(2), plan_over(3), plan_over(), plan_over()])
    monkeypatch.setattr(suite_run, "choose_engine", lambda *_: None)
    monkeypatch.setattr(suite_run, "resolve_builds", lambda *_: (None, ()))
    monkeypatch.setattr(suite_run, "check_options", lambda *_: None)
    monkeypatch.setattr(suite_run, "plan_session", lambda *_, **__: next(plans))
    monkeypatch.setattr(suite_run, "provide_tool", lambda *_, **__: pytest.fail("nothing is fetched"))
    results = tmp_path / "results"
    assert run(["experiments", "--data", str(tmp_path / "data"), "--results", str(results)]) == 3
    message = capsys.readouterr().err
    assert "the experiments need 3.0 GB and 300 inodes of disk, and 3.0 GB and 1,000,000 inodes are free" in message
    assert "choose a smaller SCALE" in message
    assert not results.exists()


# --- The results of a stored run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = stored(tmp_path_factory.mktemp("results"), *SESSIONS)
    assert run(["experiments", "--report", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("name", SESSIONS)
def test_each_report_shows_what_was_published(whole: Path, name: str) -> None:
    folder = whole.parent / f"20261121T200000Z-{name}"
    written = (folder / "report.html").read_text()
    check_page(written)
    section = written.split('<section id="published"')[1].split("</section>")[0]
    for text in (section, words(folder / "report.md"), words(folder / "report.txt")):
        assert "Published and here" in text
        assert "The publication" in text


@pytest.mark.parametrize("report", ["report.html", "report.md"])
def test_published_figures_are_shown_beside_ours(whole: Path, report: str) -> None:
    text = without_whole(" ".join(words(whole.parent / f"20261121T200000Z-{name}" / report) for name in SESSIONS))
    for shown in (
        "57 min 46 s", "5.7: queries/s with the loop over without", "does not reproduce",
        "+270 % and +182 % from 5.6.5", "had 12 CPUs, here there were 4",
    ):  # fmt: skip
        assert shown in text


def test_json_has_the_summary_the_answers_and_the_figures(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experiments", "--report", str(whole), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["scale"], found["status"]) == (1, "standard", "failed"), "a run of crashes is void"
    assert [step["name"] for step in found["steps"]] == list(SESSIONS)
    polled = next(step for step in found["steps"] if step["name"] == "interference")
    assert polled["session"] == "20261121T200000Z-interference"
    assert polled["summary"].startswith("E3 information_schema queries under load: ")
    assert polled["published"]["host"] == "12 CPUs, 12 GB"
    shown = polled["answers"][0]
    assert shown["verdict"] == "holds"
    assert shown["published"] == pytest.approx(0.8306, abs=1e-4)
    assert shown["ours"] == pytest.approx(0.831, abs=1e-3)
    assert {summary["version"] for summary in polled["measures"]} == set(VERSIONS)


def test_the_reports_are_made_again_from_what_is_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = stored(tmp_path, "metadata")
    report = tmp_path / "20261121T200000Z-metadata" / "report.html"
    assert run(["experiments", "--report", str(folder)]) == 0
    assert "Published and here" in report.read_text()
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count("not measured yet.") == 4
    assert f"reports: {report}" in shown
    (report.parent / REPORT_FILE).unlink()
    assert run(["experiments", "--report", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("not measured yet.") == 5
    assert "reports:" not in shown


def test_a_record_of_an_older_version_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = stored(tmp_path, "metadata")
    record = json.loads((folder / RECORD_FILE).read_text())
    del record["scale"]
    record |= {"budget_s": 1800.0, "status": "finished", "took_s": 90.5}
    record["steps"][0] |= {"command": None, "left_out": "the budget has no room", "error": None}
    record["steps"][1] |= {"session": "../../elsewhere", "took_s": 80.5, "answers": []}
    (folder / RECORD_FILE).write_text(json.dumps(record))
    assert run(["experiments", "--report", str(folder)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "E1 Crash recovery with many tables: not measured yet." in shown
    assert "E2 information_schema with many tables: 7 published effects" in shown, "its session is beside the folder"


@pytest.mark.parametrize(
    ("record", "code", "message"),
    [
        (None, 2, "there are no experiments in"),
        (f'{{"format": {STORED_FORMAT + 1}}}', 1, "newer version"),
        ('{"format": 1}', 1, "is damaged"),
    ],
)
def test_a_record_that_cannot_be_read(
    record: str | None, code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if record is not None:
        (tmp_path / RECORD_FILE).write_text(record)
    assert run(["experiments", "--report", str(tmp_path)]) == code
    assert message in capsys.readouterr().err


def test_the_record_has_the_commands_only(tmp_path: Path) -> None:
    folder = stored(tmp_path)
    found = json.loads((folder / RECORD_FILE).read_text())
    assert found.keys() == {"format", "command", "started_at", "scale", "versions", "steps", "tool_version"}
    assert found["steps"][1] == {"name": "metadata", "command": "recovery metadata --runs 3"}
    record = SuiteRun.read(folder).record
    assert record == suite_record(*record.steps)
