"""Tests the three scales of the published experiments, and that each session can be repeated by its own command."""

from __future__ import annotations

import shlex
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from recovery.builds.resolve import parse_request_or_list
from recovery.cli import suite_run
from recovery.cli.main import run
from recovery.cli.suite import DEFAULT_SCALE
from recovery.cli.suite_published import publication_names, publications
from recovery.cli.suite_run import (
    SCALES,
    Caps,
    SuiteRequest,
    estimate_session,
    max_threads,
    requested_versions,
    scale_options,
    session_requests,
)
from recovery.experiments import find_scenario
from recovery.experiments.experiment import HostCapacity
from recovery.model import Limits

VERSIONS = ("5.7.22", "8.0.31")
ROOT = Path(__file__).parent.parent
every_one = pytest.mark.parametrize("name", publication_names())
every_scale = pytest.mark.parametrize("scale", SCALES)


def options(name: str, scale: str, caps: Caps = Caps(), cpus: int = 2) -> dict[str, str]:  # noqa: B008
    return dict(pairwise(scale_options(name, scale, caps, cpus)))


@pytest.fixture
def suite(tmp_path: Path) -> SuiteRequest:
    shared = ("--data", str(tmp_path / "data"), "--results", str(tmp_path / "results"))
    return SuiteRequest("quick", VERSIONS, shared=shared)


@pytest.fixture
def two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite_run, "host_capacity", lambda _: HostCapacity(2, 4 << 30))


def estimated_minutes(suite: SuiteRequest) -> float:
    versions = [parse_request_or_list(text).like for text in suite.versions]
    return sum(estimate_session(request, versions)[0] for request in session_requests(suite)) / 60


@pytest.mark.usefixtures("two_cpus")
def test_the_quick_scale_takes_about_ten_minutes_on_two_cpus(suite: SuiteRequest) -> None:
    assert estimated_minutes(suite) < 10


@every_one
def test_from_standard_on_there_are_runs_for_an_interval(name: str) -> None:
    assert [int(options(name, scale)["--runs"]) for scale in SCALES][1:] >= [3, 3]


@pytest.mark.usefixtures("two_cpus")
def test_the_published_scale_has_the_published_sizes(suite: SuiteRequest) -> None:
    published = SuiteRequest("published", VERSIONS, shared=suite.shared)
    crash, metadata, interference, *_ = session_requests(published)
    assert (crash.schema.total_tables, crash.runs) == (200_000, 5)
    assert (metadata.schema.databases, metadata.schema.total_tables) == (100, 1_000_000)
    assert (interference.schema.total_tables, interference.runs) == (10_000, 3)


@every_one
@every_scale
def test_the_user_s_caps_hold_at_every_scale(name: str, scale: str) -> None:
    given = options(name, scale, Caps(tables=400, seconds=4, runs=2))
    assert int(given["--runs"]) <= 2
    assert int(given.get("--seconds", "4")) <= 4
    assert int(given.get("--warmup", "4")) <= 4
    if name in ("crash-recovery", "metadata", "interference"):
        assert int(given["--tables"]) * int(given.get("--schemas", "1")) <= 400


@every_scale
def test_few_tables_are_still_a_session_that_its_command_accepts(scale: str, suite: SuiteRequest) -> None:
    caps = Caps(tables=40, seconds=1, runs=1)
    requests = session_requests(SuiteRequest(scale, VERSIONS, caps=caps, shared=suite.shared))
    assert [request.scenario for request in requests] == list(publication_names())


def test_clients_follow_the_cpus_up_to_what_was_published() -> None:
    assert [max_threads(cpus) for cpus in (1, 2, 3, 8, 96)] == [4, 8, 8, 32, 64]
    assert options("write-scaling", "standard", cpus=8)["--threads"] == "1 32"


def test_clients_follow_the_cpus_that_the_server_may_use(suite: SuiteRequest) -> None:
    limited = SuiteRequest("quick", VERSIONS, ("table-cache",), shared=suite.shared, limits=Limits(cpus=1))
    (request,) = session_requests(limited)
    assert "--threads 4" in request.command


def test_instances_and_innodb_are_measured_over_one_directory(suite: SuiteRequest) -> None:
    *_, one, other = session_requests(suite)
    assert one.schema == other.schema


@every_scale
def test_a_session_is_repeated_by_its_own_command(
    scale: str, suite: SuiteRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOVERY_NOTE", "the environment is for the command that the user called")
    monkeypatch.setenv("RECOVERY_SECONDS", "7")
    requests = session_requests(SuiteRequest(scale, VERSIONS, shared=suite.shared))
    monkeypatch.delenv("RECOVERY_NOTE")
    monkeypatch.delenv("RECOVERY_SECONDS")
    for request in requests:
        program, name, *words = shlex.split(request.command)
        assert (program, name) == ("recovery", request.scenario)
        assert "--note" not in words
        assert run([name, *words, "--dry-run"]) == 0
    assert [request.scenario for request in requests] == list(publication_names())


def test_the_plan_has_the_commands_the_time_and_the_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experiments", "--dry-run", "--data", str(tmp_path), "--results", str(tmp_path / "results")]) == 0
    plan = capsys.readouterr().out
    assert f"5 experiments at scale {DEFAULT_SCALE} on 5.7.22, 8.0.31: about" in plan
    assert "disk: at most " in plan
    assert len([line for line in plan.splitlines() if line.strip().startswith("$ recovery")]) == 5
    assert not (tmp_path / "results").exists()


def test_limits_and_settings_of_the_file_hold_for_every_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "recovery.toml"
    file.write_text('read_iops = 5000\nmemory = "2g"\nscale = "standard"\n[set]\ninnodb_io_capacity = "500"\n')
    monkeypatch.setenv("RECOVERY_CONFIG", str(file))
    assert run(["experiments", "--dry-run", "--data", str(tmp_path)]) == 0
    plan = capsys.readouterr().out
    assert "at scale standard" in plan
    commands = [line for line in plan.splitlines() if line.strip().startswith("$ recovery")]
    assert len(commands) == 5
    for command in commands:
        assert "--set innodb_io_capacity=500" in command
        assert "--read-iops 5000" in command
        assert "--memory 2g" in command


@pytest.mark.parametrize(
    "line", ["columns = 3", 'variant = "small:innodb_buffer_pool_size=64M"', 'question = "scaling"']
)
def test_a_setting_of_other_commands_in_the_file_is_refused(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "recovery.toml"
    file.write_text(line)
    monkeypatch.setenv("RECOVERY_CONFIG", str(file))
    assert run(["experiments", "--dry-run"]) == 2
    message = capsys.readouterr().err
    assert f"'{line.partition(' ')[0]}' in recovery.toml does not apply to experiments" in message
    assert "hint:  remove it there" in message


def test_a_budget_is_refused_and_the_scales_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hint = "give SCALE=quick, SCALE=standard or SCALE=published instead"
    assert run(["experiments", "--budget", "30m"]) == 2
    assert f"--budget any more\nhint:  {hint}" in capsys.readouterr().err
    file = tmp_path / "recovery.toml"
    file.write_text('budget = "30m"')
    monkeypatch.setenv("RECOVERY_CONFIG", str(file))
    assert run(["experiments"]) == 2
    assert f"unknown setting 'budget'\nhint:  {hint}" in capsys.readouterr().err
    monkeypatch.delenv("RECOVERY_CONFIG")
    monkeypatch.setenv("RECOVERY_BUDGET", "30m")
    assert run(["experiments"]) == 2
    assert f"RECOVERY_BUDGET is not a setting\nhint:  {hint}" in capsys.readouterr().err
    made = subprocess.run(
        ["make", "-n", "experiments", "BUDGET=30m"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert made.returncode == 2
    assert "give SCALE=quick, SCALE=standard or SCALE=published" in made.stderr


def test_an_unknown_scale_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experiments", "--scale", "huge"]) == 2
    assert "'quick', 'standard', 'published'" in capsys.readouterr().err


def test_versions_are_those_at_hand_or_those_that_are_named() -> None:
    assert requested_versions(("5.6.24 8.0.15", "mariadb-10.11.5")) == ("5.6.24", "8.0.15", "mariadb-10.11.5")
    assert requested_versions(()) == VERSIONS


def test_every_publication_has_its_scenario_and_its_scales() -> None:
    for one in publications():
        assert find_scenario(one.name).name == one.name
        assert all(len(figure.values) == len(one.versions) for figure in one.figure)
        for claim in one.claim:
            forms = (claim.published, claim.direction, claim.level)
            assert sum(form is not None for form in forms) == 1, claim.what
            assert set(claim.needs) <= {"cpus", "tables", "rows", "memory_bytes"}
