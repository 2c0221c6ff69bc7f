"""Which scale does each experiment get of a budget, and is each session one that its own command repeats?"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.cli import suite_run
from recovery.cli.main import run
from recovery.cli.suite_budget import (
    PLANNED_SHARE,
    Caps,
    Cost,
    allocate_scales,
    experiment_scales,
    limited_by_disk,
    max_threads,
    measured_pace,
    short_duration_text,
)
from recovery.cli.suite_published import publication_names, publications
from recovery.cli.suite_run import SuiteRequest, choose_scales, parse_budget, requested_versions, require_any_experiment
from recovery.errors import HostUnfitError, UsageError
from recovery.experiments import find_scenario
from recovery.experiments.experiment import HostCapacity
from recovery.linux.storage import DiskSpace

SMALL, LARGE = HostCapacity(2, 4 << 30), HostCapacity(96, 512 << 30)
VERSIONS = ("5.7.22", "8.0.31")
every_one = pytest.mark.parametrize("name", publication_names())


def prices(*seconds: float) -> tuple[Cost, ...]:
    return tuple(Cost(one, bytes=int(one)) for one in seconds)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800), ("2h", 7200), ("90", 5400), ("1h30m", 5400), ("45s", 45), ("0.5h", 1800), ("10 min", 600)],
)
def test_a_plain_number_is_minutes(text: str, seconds: float) -> None:
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "soon", "-5m", "30x", "m", "9999h"])
def test_no_budget(text: str) -> None:
    with pytest.raises(UsageError, match="BUDGET="):
        parse_budget(text)


def test_first_one_step_each_then_an_interval_then_whoever_has_least() -> None:
    whole = Cost(1000, bytes=1000)
    assert allocate_scales([prices(10, 30, 500), prices(20, 60, 200)], whole) == (2, 2)
    assert allocate_scales([prices(10, 30, 500, 950), prices(20, 60, 600)], whole) == (2, 1), "500 before 600"
    assert allocate_scales([prices(100, 950), prices(200, 300)], whole) == (0, 1), "who does not fit holds up nobody"
    assert allocate_scales([prices(10), prices(2000), prices(30)], whole) == (0, None, 0)
    assert allocate_scales([prices(990), prices(20)], whole) == (None, 0), "the cheapest first"


def test_a_disk_that_is_too_small_is_told_from_a_time_that_is_too_short() -> None:
    ladders = [(Cost(10, bytes=10), Cost(20, bytes=5000)), (Cost(10, bytes=10), Cost(2000, bytes=20))]
    whole = Cost(1000, bytes=1000, inodes=1)
    assert (steps := allocate_scales(ladders, whole)) == (0, 0)
    assert limited_by_disk(ladders, steps, whole) == (True, False)


@given(st.lists(st.lists(st.floats(1, 1e5), min_size=1, max_size=6), min_size=1, max_size=5), st.floats(1, 1e6))
def test_it_is_never_more_than_there_is(seconds: list[list[float]], budget: float) -> None:
    ladders = [prices(*sorted(one)) for one in seconds]
    steps = allocate_scales(ladders, Cost(budget, bytes=10**9))
    taken = [ladder[step].seconds for ladder, step in zip(ladders, steps, strict=True) if step is not None]
    assert sum(taken) <= budget * (1 + 1e-9)
    if any(step is None for step in steps):
        spare = budget - sum(taken)
        left = [ladder[0].seconds for ladder, step in zip(ladders, steps, strict=True) if step is None]
        assert min(left) > spare * (1 - 1e-9)


@every_one
@pytest.mark.parametrize("host", [SMALL, LARGE], ids=["small", "large"])
def test_the_second_scale_has_runs_for_an_interval(name: str, host: HostCapacity) -> None:
    first, second, *more = experiment_scales(name, host, Caps())
    assert first.runs == 1
    assert second.runs == 3
    assert more
    assert all(one.runs >= 3 for one in more)
    assert more[-1] == experiment_scales(name, host, Caps())[-1]


@every_one
def test_the_user_s_caps_hold_at_every_scale(name: str) -> None:
    for one in experiment_scales(name, SMALL, Caps(tables=400, seconds=4, runs=2)):
        given = dict(pairwise(one.words))
        assert int(given["--runs"]) <= 2
        assert int(given.get("--seconds", "4")) <= 4
        if name in ("crash-recovery", "metadata", "interference"):
            assert int(given["--tables"]) * int(given.get("--schemas", "1")) <= 400


def test_the_smallest_is_the_smallest() -> None:
    for name in publication_names():
        assert experiment_scales(name, SMALL, Caps(smallest=True)) == experiment_scales(name, SMALL, Caps())[:1]


def test_clients_follow_the_cpus_up_to_what_was_published() -> None:
    assert [max_threads(HostCapacity(cpus, 1 << 30)) for cpus in (1, 2, 3, 8, 96)] == [4, 8, 8, 32, 64]


def asked(budget_s: float, tmp_path: Path, **more: object) -> SuiteRequest:
    shared = ("--data", str(tmp_path / "data"), "--results", str(tmp_path / "results"))
    return replace(SuiteRequest(budget_s, VERSIONS, shared=shared, data=tmp_path / "data"), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("budget_s", [600, 1800, 7200, 86_400])
def test_the_plan_fits_its_budget(budget_s: float, tmp_path: Path) -> None:
    found = choose_scales(asked(budget_s, tmp_path))
    assert [one.name for one in found] == list(publication_names())
    assert sum(one.expected_s or 0 for one in found) <= PLANNED_SHARE * budget_s
    assert all(one.left_out or (one.request and one.scale) for one in found)


def test_half_an_hour_is_enough_for_three_runs_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite_run, "free_space", lambda _: DiskSpace(10**12, 10**9))
    found = choose_scales(asked(1800, tmp_path))
    assert [one.request.runs >= 3 if one.request else None for one in found] == [True] * 5


def test_ten_minutes_are_enough_for_a_first_look_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite_run, "free_space", lambda _: DiskSpace(10**12, 10**9))
    assert all(one.request for one in choose_scales(asked(600, tmp_path)))


def test_the_pace_is_of_what_is_not_a_load() -> None:
    assert measured_pace(()) == 1
    assert measured_pace([(Cost(100), 250.0)]) == 2.5
    assert measured_pace([(Cost(100, loads_s=60), 160.0)]) == 2.5, "its 60 seconds are as long everywhere"
    assert measured_pace([(Cost(100), 50.0), (Cost(100), 150.0)]) == 1
    assert 0.5 < measured_pace([(Cost(100), 1.0)]) < 1, "what was built already"
    assert Cost(100, loads_s=60).at(2.5) == Cost(160, loads_s=60)


def test_who_is_slower_than_guessed_gets_smaller_scales(tmp_path: Path) -> None:
    found, slow = choose_scales(asked(3600, tmp_path)), choose_scales(asked(3600, tmp_path, pace=3.0))
    assert sum(one.expected_s or 0 for one in slow) <= PLANNED_SHARE * 3600
    assert sum(one.price.seconds for one in slow) < 0.6 * sum(one.price.seconds for one in found)
    for one in slow:
        assert one.expected_s is None or one.expected_s == one.price.at(3.0).seconds


def test_what_is_left_is_what_is_planned_with(tmp_path: Path) -> None:
    found = choose_scales(asked(36_000, tmp_path, left_s=300.0))
    assert 0 < sum(one.expected_s or 0 for one in found) <= PLANNED_SHARE * 300
    assert any("had no room any more (5 minutes were left)" in str(one.left_out) for one in found)


def test_a_budget_for_nothing_says_which_would_do(tmp_path: Path) -> None:
    wanted = asked(20, tmp_path)
    with pytest.raises(UsageError, match="in 20 s no experiment can be measured") as refused:
        require_any_experiment(wanted, choose_scales(wanted))
    least, every = (int(minutes) for minutes in re.findall(r"BUDGET=(\d+)m", refused.value.hint))
    assert any(one.request for one in choose_scales(asked(60 * least, tmp_path)))
    assert all(one.request for one in choose_scales(asked(60 * every, tmp_path)))
    require_any_experiment(wanted, choose_scales(asked(60 * least, tmp_path)))


def test_a_disk_for_nothing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite_run, "free_space", lambda _: DiskSpace(10**6, 10))
    with pytest.raises(HostUnfitError, match="no experiment fits the disk") as refused:
        require_any_experiment(asked(3600, tmp_path), choose_scales(asked(3600, tmp_path)))
    assert "DATA=" in refused.value.hint


def test_nothing_is_begun_where_nothing_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results"
    for more in ((), ("--dry-run",)):
        where = ["--data", str(tmp_path / "data"), "--results", str(results)]
        assert run(["experiments", "--budget", "10s", *where, *more]) == 2
        assert "hint:  give BUDGET=" in capsys.readouterr().err
    assert not results.exists()


def test_instances_and_innodb_are_measured_over_one_directory(tmp_path: Path) -> None:
    small = choose_scales(asked(36_000, tmp_path, caps=Caps(smallest=True), names=("table-cache", "write-scaling")))
    one, other = (found.request.schema for found in small if found.request)
    assert one == other


def test_limits_and_settings_of_the_file_hold_for_every_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "recovery.toml"
    file.write_text('read_iops = 5000\nmemory = "2g"\n[set]\ninnodb_io_capacity = "500"\n')
    monkeypatch.setenv("RECOVERY_CONFIG", str(file))
    assert run(["experiments", "--budget", "2h", "--dry-run", "--data", str(tmp_path)]) == 0
    commands = [line for line in capsys.readouterr().out.splitlines() if line.strip().startswith("$ recovery")]
    assert len(commands) == 5
    for command in commands:
        assert "--set innodb_io_capacity=500" in command
        assert "--read-iops 5000" in command
        assert "--memory 2g" in command


@pytest.mark.parametrize(
    "line", ["columns = 3", 'variant = "small:innodb_buffer_pool_size=64M"', 'question = "scaling"']
)
def test_what_the_file_says_of_others_is_refused(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "recovery.toml"
    file.write_text(line)
    monkeypatch.setenv("RECOVERY_CONFIG", str(file))
    assert run(["experiments", "--dry-run"]) == 2
    told = capsys.readouterr().err
    assert f"'{line.partition(' ')[0]}' of recovery.toml says nothing to experiments" in told
    assert "hint:  remove it there" in told


def test_what_does_not_fit_says_so(tmp_path: Path) -> None:
    found = choose_scales(asked(100, tmp_path))
    left = [one for one in found if one.left_out]
    assert left
    assert all("its smallest scale" in str(one.left_out) and one.request is None for one in left)


def test_a_session_is_repeated_by_its_own_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_NOTE", "what the environment says is for the command that was called")
    monkeypatch.setenv("RECOVERY_SECONDS", "7")
    requests = [one.request for one in choose_scales(asked(1800, tmp_path)) if one.request]
    monkeypatch.delenv("RECOVERY_NOTE")
    monkeypatch.delenv("RECOVERY_SECONDS")
    for request in requests:
        program, name, *words = shlex.split(request.command)
        assert (program, name) == ("recovery", request.scenario)
        assert "--note" not in words
        assert run([name, *words, "--dry-run"]) == 0
    assert [request.scenario for request in requests] == list(publication_names())


@every_one
def test_every_scale_is_one_that_its_command_takes(name: str, tmp_path: Path) -> None:
    """From the smallest to all of it."""
    for budget_s in (60.0, 300.0, 1000.0, 3000.0, 10_000.0, 2_000_000.0):
        (one,) = choose_scales(asked(budget_s, tmp_path, names=(name,)))
        assert one.left_out or one.request


def test_versions_are_those_at_hand_or_those_that_are_named() -> None:
    assert requested_versions(("5.6.24 8.0.15", "mariadb-10.11.5")) == ("5.6.24", "8.0.15", "mariadb-10.11.5")
    assert requested_versions(()) == VERSIONS


def test_what_was_published_is_of_scenarios_that_there_are() -> None:
    for one in publications():
        assert find_scenario(one.name).name == one.name
        assert all(len(figure.values) == len(one.versions) for figure in one.figure)
        for claim in one.claim:
            forms = (claim.published, claim.direction, claim.level)
            assert sum(form is not None for form in forms) == 1, claim.what
            assert set(claim.needs) <= {"cpus", "tables", "rows", "memory_bytes"}


def test_seconds_where_minutes_would_say_nothing() -> None:
    assert [short_duration_text(one) for one in (5, 119, 130, 7200)] == ["5 s", "119 s", "2 minutes", "2.0 hours"]
