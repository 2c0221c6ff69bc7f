"""Two cells are the same measurement only if all that changes a time is equal; what their sessions say together."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from at_work import interference
from runs import variants_with, with_parts
from sessions import KEPT_SESSIONS

from recovery.analysis import history
from recovery.analysis.combined import combine_sessions
from recovery.analysis.compare import differences, not_alike
from recovery.analysis.history import (
    SETTING_ROLES,
    CellDesign,
    Role,
    cell_design,
    cell_histories,
    earlier_sessions,
    role_of,
    session_cells,
    setting_of,
)
from recovery.analysis.statistics import half_interval_95, over_sessions, t975
from recovery.analysis.summary import summarise
from recovery.cli.options import OPTIONS
from recovery.model import REPEAT_OF, EarlierSession, ExtraRun, Run, Session, Verdict
from recovery.storage.sessions import load_session

SERVER = {"sha256": "a" * 64, "options": "skip_networking", "tables": "1000", "schemas": "1", "layout": "files"}


def session(
    seconds: float = 40.0, /, *, day: int = 20, host: str | None = "0123456789ab", server: dict[str, str] | None = None,
    **settings: Any,
) -> Session:  # fmt: skip
    """A session of three cold starts on this day of the month, after a first read."""
    first_read = Run(
        0, "5.7.22", "mysql", "cold", 0, Verdict.SAMPLED, metrics={"startup_s": 99.0}, extra=ExtraRun.FIRST_READ
    )
    runs = (
        first_read,
        *(
            Run(
                number, "5.7.22", "mysql", "cold", number, Verdict.MEASURED, metrics={"startup_s": seconds + number - 2}
            )
            for number in (1, 2, 3)
        ),
    )
    return Session(
        "cold-recovery", "q", "c", f"2026-11-{day}T10:00:00+00:00", {"host_id": host, "cold_means": "drop_caches"},
        {"tables": 1000, "schemas": 1, **settings}, ("5.7.22",), variants_with({"cold": {"cache": "cold"}}), 3,
        servers={"5.7.22": {**SERVER, **(server or {})}}, runs=runs, tool_version="1", status="finished",
    )  # fmt: skip


def with_setting(name: str, value: str | int | None) -> Session:
    found = session()
    return replace(found, settings={**found.settings, name: value})


def design_of(session: Session) -> CellDesign:
    (found,) = session_cells("", session).values()
    return found.design


# --- Which cells are the same measurement


def test_every_stored_setting_has_a_role(kept_sessions: Path) -> None:
    """All names under which settings are stored. Of a setting without a role, as kept sessions have with traced_starts,
    nothing is known, so it is part of the design."""
    names = {option.stored for option in OPTIONS if option.stored}
    for name in KEPT_SESSIONS:
        settings = json.loads((kept_sessions / name / "report.json").read_text())["settings"]
        names |= {name for name, value in settings.items() if value is not None} - {"traced_starts"}
    assert role_of("traced_starts") is Role.DESIGN
    names |= {"order", "server_cpus", "client_cpus", "points", "baseline", "no_drop_caches", "unprivileged", REPEAT_OF}
    assert names == SETTING_ROLES.keys(), (
        "each needs a role in SETTING_ROLES of analysis/history.py, and no other has one"
    )


def names_of(*roles: Role) -> list[str]:
    return [name for name, role in SETTING_ROLES.items() if role in roles]


@pytest.mark.parametrize("name", [*names_of(Role.DESIGN), "of_a_newer_version"])
def test_cells_of_one_design_have_the_same_settings(name: str) -> None:
    assert design_of(with_setting(name, 5)) != design_of(with_setting(name, None))
    assert design_of(with_setting(name, None)) == design_of(session())


@pytest.mark.parametrize("name", sorted({*names_of(Role.SERVER, Role.SHOWN, Role.IGNORED)} - {"schemas"}))
def test_a_setting_in_which_cells_of_one_design_may_differ(name: str) -> None:
    """They are compared by what their server had."""
    assert design_of(with_setting(name, "x")) == design_of(session())


@pytest.mark.parametrize(
    ("role", "is_design", "why_not", "shown"),
    [
        (Role.DESIGN, True, "retries is - and 5", ["retries"]),
        (Role.SERVER, False, "retries is - and 5", ["retries"]),
        (Role.SHOWN, False, None, ["retries"]),
        (Role.IGNORED, False, None, []),
    ],
)
def test_a_made_up_setting_is_what_its_role_says(
    role: Role, is_design: bool, why_not: str | None, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "SETTING_ROLES", {**SETTING_ROLES, "retries": role})
    one, other = session(), with_setting("retries", 5)
    assert (design_of(one) != design_of(other)) is is_design
    assert not_alike(one, other) == why_not
    assert [found.what for found in differences((one, other))] == shown


@pytest.mark.parametrize(
    ("name", "value"),
    [("as_is", True), ("before_kill", "load"), ("before_start", "true"), ("datadir", "/a"), ("inserts", 5),
     ("columns", 3), ("rows", 7), ("memory_bytes", 10**9), ("read_iops", 100), ("cpus", 1), ("layout", "general")],
)  # fmt: skip
def test_starts_of_another_shape_are_another_measurement(name: str, value: str | int) -> None:
    given, usual = (setting_of(one, "5.7.22", "cold") for one in (with_setting(name, value), session()))
    assert given is not None
    assert given != usual
    assert given == setting_of(with_setting(name, value), "5.7.22", "cold")


@pytest.mark.parametrize("name", ["note", "runs", "engine"])
def test_starts_that_only_another_setting_describes_are_the_same_measurement(name: str) -> None:
    usual = setting_of(session(), "5.7.22", "cold")
    assert usual is not None
    assert setting_of(with_setting(name, "x"), "5.7.22", "cold") == usual


def test_two_values_of_before_kill_are_two_measurements() -> None:
    one, other = (setting_of(with_setting("before_kill", value), "5.7.22", "cold") for value in ("load", "./a"))
    assert one != other


@pytest.mark.parametrize(
    "fact",
    [{"sha256": "b" * 64}, {"options": "skip_networking innodb_page_size=4k"}, {"tables": "999"}, {"layout": "general"},
     {"schemas": "2"}, {"@open_files_limit": "1024"}],
)  # fmt: skip
def test_another_server_is_another_design(fact: dict[str, str]) -> None:
    assert design_of(session(server=fact)) != design_of(session())


def test_every_field_of_a_design_is_compared() -> None:
    one = design_of(session())
    others: dict[str, Any] = {field.name: "other" for field in fields(CellDesign)}
    changed = [replace(one, **{name: other}) for name, other in others.items()]
    assert one not in changed
    assert len(set(changed)) == len(fields(CellDesign))


def test_the_users_names_are_no_part_of_a_design() -> None:
    def named(label: str) -> Session:
        cells = {f"cold-{label}": {"cache": "cold", "settings": label}}
        found = session()
        runs = tuple(replace(run, variant=f"cold-{label}") for run in found.runs)
        return replace(found, variants=variants_with(cells), runs=runs, servers={f"5.7.22 {label}": SERVER})

    assert design_of(named("before")) == design_of(named("after"))
    built = session()
    runs = tuple(replace(run, version="5.7.22+mine") for run in built.runs)
    servers = {"5.7.22+mine": SERVER}
    assert design_of(replace(built, versions=("5.7.22+mine",), runs=runs, servers=servers)) == design_of(built)


def test_one_of_several_numbers_of_tables_is_the_same_as_it_alone() -> None:
    found = session(points="500 1000")
    cells = {f"cold-{tables}": {"cache": "cold", "tables": tables} for tables in ("500", "1000")}
    runs = tuple(replace(run, variant="cold-1000") for run in found.runs)
    assert design_of(replace(found, variants=variants_with(cells), runs=runs)) == design_of(session())
    fewer = replace(found, variants=variants_with(cells), runs=tuple(replace(run, variant="cold-500") for run in runs))
    assert design_of(fewer) != design_of(session())


def test_an_extra_run_that_is_traced_is_no_other_design() -> None:
    found = session()
    extra = replace(with_parts(found.runs[0], tablespaces_opened=1000), number=4, verdict=Verdict.SAMPLED)
    assert design_of(replace(found, runs=(*found.runs, extra))) == design_of(found)


def test_a_cell_without_a_known_server_or_of_second_starts_has_no_design() -> None:
    found = session()
    assert cell_design(replace(found, servers={}), "5.7.22", "cold") is None
    second = replace(found, variants=variants_with({"cold": {"cache": "second start"}}))
    assert session_cells("", second) == {}


@pytest.mark.parametrize("name", KEPT_SESSIONS)
def test_no_two_cells_of_a_session_have_one_design(name: str, kept_sessions: Path) -> None:
    cells = session_cells(name, load_session(kept_sessions / name))
    assert len({cell.design for cell in cells.values()}) == len(cells)


def test_a_cell_of_a_load_has_a_design_too() -> None:
    cells = session_cells("", interference())
    assert len({cell.design for cell in cells.values()}) == len(cells) == 12


# --- Earlier sessions


def others(*sessions: Session) -> list[Any]:
    return [cell for number, found in enumerate(sessions) for cell in session_cells(f"s{number}", found).values()]


def test_earlier_sessions_are_those_of_the_design_that_started_before() -> None:
    found = earlier_sessions(
        session(day=23),
        others(
            session(50.0, day=22),
            session(44.0, day=21),
            session(99.0, day=24),
            session(98.0, day=20, host="ffffffffffff"),
            session(97.0, day=20, rows=10),
            session(50.0, day=22),
        ),
    )
    assert [(one.session, one.count, one.mean) for one in found] == [("s1", 3, 44.0), ("s0", 3, 50.0)]
    assert found[0] == EarlierSession("s1", "2026-11-21T10:00:00+00:00", "5.7.22", "cold", 3, 44.0, "0123456789ab")


def test_a_host_without_an_id_has_no_earlier_sessions() -> None:
    assert earlier_sessions(session(day=23, host=None), others(session(day=22, host=None))) == ()


def test_the_interval_over_sessions_is_that_of_the_logarithms_of_their_means() -> None:
    means = [39.8, 52.2, 46.1, 43.0]
    found = over_sessions(means)
    assert found is not None
    logs = [log(mean) for mean in means]
    half = t975(3) * stdev(logs) / sqrt(4)
    assert found.interval is not None
    assert (found.mean, *found.interval) == pytest.approx(
        (exp(fmean(logs)), exp(fmean(logs) - half), exp(fmean(logs) + half))
    )
    two = over_sessions(means[:2])
    assert two is not None
    assert two.mean == pytest.approx(exp(fmean(logs[:2])))
    assert two.interval is None
    assert over_sessions([]) is None


def test_with_a_mean_of_zero_the_mean_over_sessions_is_the_arithmetic_one() -> None:
    found = over_sessions([0.0, 1.0, 5.0])
    half = half_interval_95([0.0, 1.0, 5.0])
    assert found is not None
    assert found.interval is not None
    assert (found.mean, *found.interval) == pytest.approx((2.0, 2.0 - half, 2.0 + half))


@pytest.mark.parametrize("means", [(40.0, 52.2, 46.1), (40.0, 52.2, 46.1, 43.0)])
def test_the_end_of_a_session_and_the_report_of_all_have_the_same_mean(means: tuple[float, ...]) -> None:
    """The one knows the earlier sessions by their results, the other reads all of them."""
    *before, now = (session(mean, day=20 + number) for number, mean in enumerate(means))
    (cell,) = cell_histories(replace(now, earlier=earlier_sessions(now, others(*before))))
    (summary,) = summarise(combine_sessions({one.started_at: one for one in (*before, now)}))
    assert cell.over_all is not None
    assert (cell.over_all.mean, cell.over_all.interval) == (summary.mean, (summary.low, summary.high))


def test_a_precise_session_is_one_value_among_sessions() -> None:
    """Its precision is one of its runs."""

    def history(precision: float | None) -> Any:
        now = session(46.0, day=23, precision=precision)
        found = earlier_sessions(now, others(session(40.0, day=22), session(40.0, day=22), session(43.0, day=21)))
        (cell,) = cell_histories(replace(now, earlier=found))
        return cell

    plain = history(None)
    assert plain.over_all == history(0.05).over_all
    assert (plain.range, plain.sessions_and_days, plain.all_sessions_and_days) == ((40.0, 43.0), (2, 2), (3, 3)), (
        "two sessions of one second are one session and its copy"
    )
