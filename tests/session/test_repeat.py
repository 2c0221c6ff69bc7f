"""A session is measured again: which sessions belong together, when the next is due, and what must be equal."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fake_loop import GOOD, session_of

from recovery.analysis import history
from recovery.analysis.history import Role
from recovery.errors import HostUnfitError, UsageError
from recovery.session.plan import PLAN_FILE
from recovery.session.repeat import due_at, find_first, sessions_of
from recovery.session.resume import Unfinished, check_same_measurement, stored_plan
from recovery.storage.sessions import REPORT_FILE, load_session

HOUR = 3600.0
NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


def hours(number: float) -> datetime:
    return NOON + timedelta(hours=number)


# --- When the next session is due


@pytest.mark.parametrize(
    ("every_s", "now", "due"),
    [
        (6 * HOUR, hours(1), hours(6)),
        (6 * HOUR, hours(6), hours(6)),
        (6 * HOUR, hours(8), hours(8)),
        (6 * HOUR, hours(100), hours(100)),
        (None, hours(1), hours(1)),
    ],
    ids=["later", "now", "missed", "missed many times", "without an interval"],
)
def test_a_session_is_due_so_long_after_the_start_of_the_last_or_at_once(
    every_s: float | None, now: datetime, due: datetime
) -> None:
    assert due_at(NOON, every_s, now) == due


def test_missed_times_are_not_made_up_for() -> None:
    late = due_at(NOON, 6 * HOUR, hours(20))
    assert due_at(late, 6 * HOUR, late) == hours(26)


# --- Sessions that belong together


def measured(tmp_path: Path, **wished: Any) -> Path:
    """Returns the folder of a session of two runs."""
    loop, _, _ = session_of(tmp_path, [GOOD, GOOD], **wished)
    return loop.run().folder


def test_sessions_of_one_measurement_are_found_from_each_of_them(tmp_path: Path) -> None:
    results = tmp_path / "results"
    first = measured(tmp_path)
    other = measured(tmp_path)
    second, third = (measured(tmp_path, repeat_of=first.name) for _ in range(2))
    assert load_session(second).settings["repeat_of"] == first.name
    assert "repeat_of" not in load_session(first).settings
    assert [one.folder.name for one in sessions_of(first)] == [first.name, second.name, third.name]
    assert [one.folder for one in sessions_of(other)] == [other]
    assert {find_first(results, name) for name in (first.name, second.name, str(third), None)} == {first}


def test_a_damaged_session_is_left_out(tmp_path: Path) -> None:
    first = measured(tmp_path)
    second = measured(tmp_path, repeat_of=first.name)
    (second / REPORT_FILE).write_text("{")
    assert [one.folder for one in sessions_of(first)] == [first]


def test_a_first_session_that_is_gone_is_named(tmp_path: Path) -> None:
    measured(tmp_path, repeat_of="../../etc/gone")
    with pytest.raises(UsageError, match="repeats gone, which is not in "):
        find_first(tmp_path / "results", None)


# --- What must be equal


def check(first: Path, tmp_path: Path, *, plan: dict[str, Any] | None = None, **changes: Any) -> None:
    """Checks a new session against the first, whose plan and report are changed before."""
    stored = json.loads((first / PLAN_FILE).read_text())
    (first / PLAN_FILE).write_text(json.dumps({**stored, **(plan or {})}))
    report = json.loads((first / REPORT_FILE).read_text())
    for name, values in changes.items():
        report[name] |= values
    (first / REPORT_FILE).write_text(json.dumps(report))
    loop, _, _ = session_of(tmp_path, [GOOD, GOOD], repeat_of=first.name)
    now, planned = loop.store.session, stored_plan(loop.request, loop.plan)
    loop.store.discard()
    check_same_measurement(Unfinished(first, load_session(first)), now, planned)


def test_a_session_in_another_order_with_another_seed_is_the_same_measurement(tmp_path: Path) -> None:
    first = measured(tmp_path)
    trials = json.loads((first / PLAN_FILE).read_text())["trials"]
    turned = [{**trial, "number": number} for number, trial in enumerate(reversed(trials), 1)]
    first_read = {**trials[0], "number": 3, "repeat": 0, "extra": "first read"}
    check(first, tmp_path, plan={"trials": [*turned, first_read]}, settings={"seed": 7})


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"plan": {"inserts": "0" * 64}}, "the insert script has changed"),
        ({"plan": {"servers": {"5.7.22": "f" * 64}}}, "the server is "),
        ({"settings": {"tables": 8, "engine": "docker"}}, "engine is local now, and was docker"),
        ({"environment": {"cpu_model": "another"}}, "this host's cpu model is "),
        ({"environment": {"host_id": "2-0123456789ab"}}, "this host's host id is "),
    ],
    ids=["inserts", "server", "setting", "CPU", "host"],
)
def test_another_server_setting_or_host_is_refused(changed: dict[str, Any], why: str, tmp_path: Path) -> None:
    first = measured(tmp_path)
    with pytest.raises(HostUnfitError, match=f"{first.name} cannot be repeated: {why}") as caught:
        check(first, tmp_path, **changed)
    assert "begin a new session" in caught.value.hint


@pytest.mark.parametrize("role", Role)
def test_only_a_setting_of_the_design_is_refused(role: Role, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "SETTING_ROLES", {**history.SETTING_ROLES, "engine": role})
    first = measured(tmp_path)
    is_refused = role in (Role.DESIGN, Role.SERVER)
    with pytest.raises(HostUnfitError, match="engine is local now, and was docker") if is_refused else nullcontext():
        check(first, tmp_path, settings={"engine": "docker"})


def test_more_runs_are_another_measurement(tmp_path: Path) -> None:
    first = measured(tmp_path)
    trials = json.loads((first / PLAN_FILE).read_text())["trials"]
    with pytest.raises(HostUnfitError, match="the plan has 2 runs now, and had 1"):
        check(first, tmp_path, plan={"trials": trials[:1]})
