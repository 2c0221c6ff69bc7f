"""Is what is left of a budget given out anew, experiment by experiment? By sessions that nobody measured."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from at_work import interference

from recovery.builds.resolve import parse_request_or_list
from recovery.cli import suite_run
from recovery.cli.suite_budget import Caps, estimate_cost
from recovery.cli.suite_published import publication_names
from recovery.cli.suite_report import SuiteRecord, read_suite
from recovery.cli.suite_run import SuiteRequest, SuiteRunner, choose_scales, new_suite_record
from recovery.errors import RecoveryError
from recovery.linux.storage import DiskSpace
from recovery.model import Session, Verdict
from recovery.report.stored_session import REPORT_FILE, to_json
from recovery.session.request import Request

VERSIONS = tuple(parse_request_or_list(text).like for text in ("5.7.22", "8.0.31"))


class Slow:
    """Sessions of a host that takes so many times as long as is guessed, on a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, asked: SuiteRequest, times: dict[str, float]) -> None:
        self.now_s, self.asked, self.times = 0.0, asked, times
        self.failing: set[str] = set()
        self.void: set[str] = set()
        self.began: list[str] = []
        self.said: list[str] = []
        monkeypatch.setattr(suite_run, "run_and_show", self.session)
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(suite_run, "free_space", lambda _: DiskSpace(10**12, 10**9))

    def session(self, request: Request, *, quiet: bool) -> Session:
        assert quiet
        name = request.scenario
        self.began.append(name)
        self.now_s += self.times.get(name, self.times["others"]) * estimate_cost(request, VERSIONS).seconds
        if name in self.failing:
            raise RecoveryError("the server could not be fetched")
        made = interference(caches=("400",))
        made = replace(made, runs=tuple(replace(run, watched=None) for run in made.runs))
        if name in self.void:
            made = replace(made, runs=(replace(made.runs[0], verdict=Verdict.VOID), *made.runs[1:]))
        folder = request.results / f"20261121T2000{len(self.began):02}Z-{name}"
        folder.mkdir(parents=True)
        (folder / REPORT_FILE).write_bytes(to_json(made))
        return made

    def travel(self) -> tuple[int, SuiteRecord, Path]:
        found = choose_scales(self.asked)
        results = Path(self.asked.shared[1])
        travel = SuiteRunner(
            new_suite_record("recovery experiments", self.asked, found),
            self.asked,
            results,
            say=self.said.append,
            quiet=True,
        )
        return travel.run(found), read_suite(travel.folder), travel.folder


@pytest.fixture
def asked(tmp_path: Path) -> SuiteRequest:
    shared = ("--results", str(tmp_path / "results"), "--data", str(tmp_path / "data"))
    return SuiteRequest(1800, ("5.7.22", "8.0.31"), shared=shared, data=tmp_path / "data")


def test_as_guessed_all_goes_as_planned(asked: SuiteRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch, asked, {"others": 1.0})
    code, journey, _ = slow.travel()
    assert (code, journey.status) == (0, "finished")
    assert slow.began == list(publication_names())
    assert journey.took_s is not None
    assert journey.took_s <= 1800
    assert not any(step.left_out for step in journey.steps)


def test_on_a_slow_host_the_others_get_smaller_scales_and_all_of_them_end_in_time(
    asked: SuiteRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(monkeypatch, asked, {"others": 2.5})
    code, journey, folder = slow.travel()
    assert (code, journey.status) == (0, "finished")
    assert journey.took_s is not None
    assert journey.took_s <= 1800
    first, *rest = journey.steps
    assert not first.planned
    assert any(step.planned and step.planned != step.scale for step in rest)
    assert any("so far it took 2." in line for line in slow.said)
    told = " ".join((folder / "report.txt").read_text().split())
    assert "Chosen anew with the time that was left of the budget; planned: " in told


def test_what_had_no_room_finds_it_once_others_were_quick(asked: SuiteRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = replace(asked, budget_s=400.0, caps=Caps(smallest=True))
    slow = Slow(monkeypatch, asked, {"others": 0.5})
    out = [one.name for one in choose_scales(asked) if one.left_out]
    assert out
    _, journey, _ = slow.travel()
    assert set(out) <= set(slow.began)
    assert all(step.planned == "left out" for step in journey.steps if step.name in out)


def test_one_that_eats_all_of_it_leaves_the_others_out(asked: SuiteRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch, asked, {"others": 100.0})
    code, journey, _ = slow.travel()
    assert slow.began == ["crash-recovery"]
    assert (code, journey.status) == (0, "finished")
    assert all("had no room any more (0 s were left)" in str(step.left_out) for step in journey.steps[1:])
    assert sum("left out: its smallest scale" in line for line in slow.said) == 4


def test_one_that_fails_at_once_says_nothing_of_the_pace(asked: SuiteRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch, asked, {"others": 1.0, "crash-recovery": 0.001})
    slow.failing = {"crash-recovery"}
    planned = {one.name: one.scale for one in choose_scales(asked)}
    code, journey, _ = slow.travel()
    assert (code, journey.status) == (1, "failed")
    assert journey.steps[0].error == "the server could not be fetched"
    assert journey.steps[1].expected_s is not None
    assert slow.began == list(planned)


def test_where_none_was_measured_it_has_not_finished(asked: SuiteRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch, asked, {"others": 1.0})
    slow.failing = set(publication_names())
    code, journey, _ = slow.travel()
    assert (code, journey.status) == (1, "failed")


def test_one_void_run_is_no_early_end(asked: SuiteRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch, asked, {"others": 1.0})
    slow.void = {"interference"}
    code, journey, folder = slow.travel()
    assert (code, journey.status) == (1, "failed")
    told = " ".join((folder / "report.txt").read_text().split())
    assert "Not all of it counts: 1 of its 12 runs failed, were void or are missing." in told
    assert "It ended early" not in told
