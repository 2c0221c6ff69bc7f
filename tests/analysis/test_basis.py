"""Figures stand on sessions, hours, days and hosts, and the report says what would make them stronger."""

from __future__ import annotations

from dataclasses import replace

import pytest
from runs import make_run, plain_variants

from recovery.analysis.basis import Basis, basis_of, count_days, is_same_host, number_of_hosts
from recovery.analysis.combined import CombinedSession, combine, combine_sessions
from recovery.model import EarlierSession, HostActivity, Session, Verdict
from recovery.report.host_words import basis_words, stronger_words


def session(started_at: str, *runs: tuple[str | None, float], host: str | None = "a") -> Session:
    """A session with the starts of its runs, and their seconds."""
    made = tuple(
        make_run(number, "5.7.22", "mysql", "cold", number, Verdict.MEASURED, started_at=at,
                 metrics={"startup_s": seconds}, host_activity=HostActivity(seconds))
        for number, (at, seconds) in enumerate(runs, 1)
    )  # fmt: skip
    return Session(
        "cold-recovery", "?", "recovery cold-recovery", started_at, {"host_id": host}, {}, ("5.7.22",),
        plain_variants("cold"), len(made), runs=made,
    )  # fmt: skip


NIGHT = session("2026-11-28T22:00:00+00:00", ("2026-11-28T22:10:00+00:00", 30.0), ("2026-11-28T22:29:30+00:00", 30.0))
MORNING = session("2026-11-29T04:00:00+00:00", ("2026-11-29T04:59:00+00:00", 60.0))
OTHER_HOST = session("2026-11-29T09:00:00+00:00", ("2026-11-29T09:59:00+00:00", 60.0), host="b")


def together(*sessions: Session) -> CombinedSession:
    return combine_sessions({str(number): one for number, one in enumerate(sessions)})


@pytest.mark.parametrize(
    ("sessions", "found", "text", "stronger"),
    [
        ([NIGHT], Basis(1, 1800, 1, 1), "one session of 30 minutes on one host", "three sessions of several days"),
        ([NIGHT, MORNING], Basis(2, 7 * 3600, 2, 1), "2 sessions over 7.0 hours on one host", "three sessions"),
        ([NIGHT] * 3, Basis(3, 1800, 1, 1), "3 sessions over 30 minutes on one host", "sessions of several days"),
        ([NIGHT, MORNING, MORNING], Basis(3, 7 * 3600, 2, 1), "3 sessions over 7.0 hours on one host", "another host"),
        ([NIGHT, MORNING, OTHER_HOST], Basis(3, 12 * 3600, 2, 2), "3 sessions over 12.0 hours on 2 hosts", ""),
    ],
)
def test_what_sessions_are_together(sessions: list[Session], found: Basis, text: str, stronger: str) -> None:
    basis = basis_of(together(*sessions))
    assert (basis, basis_words(basis)) == (found, text)
    assert stronger_words(basis).startswith(stronger) or stronger in stronger_words(basis)
    assert bool(stronger_words(basis)) is bool(stronger)


def test_the_host_of_one_session_is_one_host_and_of_several_must_be_known() -> None:
    unknown = replace(NIGHT, environment={})
    assert basis_of(unknown).hosts == 1
    assert basis_of(together(unknown, MORNING)).hosts is None
    assert basis_words(basis_of(together(unknown, MORNING))) == "2 sessions over 7.0 hours"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("2-aa", "2-aa", True), ("2-aa", "2-bb", False), ("2-aa", None, None)],
)
def test_a_host_without_an_id_may_be_any_host(one: str, other: str | None, same: bool) -> None:
    assert is_same_host(one, other) is same
    both = together(session(NIGHT.started_at, host=one), session(MORNING.started_at, host=other))
    assert number_of_hosts(both) == {True: 1, False: 2, None: None}[same]


def test_hosts_with_names_are_told_apart_by_them() -> None:
    assert number_of_hosts(combine([("x", NIGHT), ("x", OTHER_HOST)])) == 1
    assert number_of_hosts(combine([("x", NIGHT), ("y", replace(NIGHT, environment={}))])) == 2


def test_days_are_those_of_utc_whatever_the_time_is_written_in() -> None:
    assert count_days(["2026-11-28T23:30:00+00:00", "2026-11-29T00:30:00+02:00", "2026-11-28T01:00:00"]) == 1
    assert count_days(["2026-11-28T23:30:00+00:00", "2026-11-29T00:30:00+00:00"]) == 2


def test_a_time_that_is_damaged_is_left_out() -> None:
    damaged = session("yesterday", ("soon", 30.0))
    assert basis_of(damaged) == Basis(1, 0, 1, 1)
    assert basis_of(together(damaged, NIGHT)).seconds == 1800


def test_earlier_sessions_count_where_they_are_asked_for() -> None:
    def earlier(started_at: str, version: str = "5.7.22", variant: str = "cold") -> EarlierSession:
        return EarlierSession("name", started_at, version, variant, 5, 4.0)

    # Two cells of one session, and one of a server that this session does not have.
    before, long_before = "2026-11-27T04:00:00+00:00", "2026-11-20T04:00:00+00:00"
    found = (earlier(before), earlier(before, variant="warm"), earlier(long_before, "8.0.31"))
    stored = replace(MORNING, earlier=found)
    assert basis_of(stored, earlier=True) == Basis(2, 49 * 3600, 2, 1)
    assert basis_of(stored) == Basis(1, 3600, 1, 1)
