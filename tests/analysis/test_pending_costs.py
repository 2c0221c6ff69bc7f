"""What each page, byte and row that is pending at a kill costs, fitted to what was measured before the kill."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from at_work import NEW, OLD, Cell, Measures, a_session

from recovery.analysis.pending_costs import PENDING_METRICS, pending_curves, redo_costs
from recovery.model import STARTUP_METRIC, Axis, Session
from recovery.report.pending_text import pending_costs
from recovery.report.summary_text import answers

MIB = 1 << 20


def pending_session(
    startup_s: Callable[[float, float], float],
    *,
    dirty: tuple[str, ...] = ("0",),
    redo: tuple[str, ...] = ("0",),
    transactions: tuple[str, ...] = ("0",),
    pools: tuple[str, ...] = ("1g",),
    runs: int = 3,
) -> Session:
    """The start takes as long as the function of dirty pages and MiB of redo says. Of what was asked for, 10 % more is
    reached. A transaction is rolled back within 1 s for each 100,000 rows."""

    def measured(version: str, cell: Cell) -> Measures | None:
        if version == OLD:
            return None
        pages, rows = 10 + 1.1 * float(cell["dirty"]), float(cell["transaction"].split()[0])
        mib = pages / 100 + 1.1 * float(cell["redo"].removesuffix("m"))
        seconds = startup_s(pages, mib) * (2 if cell["pool"] == "128m" else 1)
        measures = {STARTUP_METRIC: seconds, "dirty_pages": pages, "checkpoint_age_bytes": mib * MIB}
        return {**measures, "uncommitted_rows": rows, "rollback_s": seconds + rows / 100_000}

    names = (*PENDING_METRICS, "pool")
    values = (dirty, redo, transactions, pools)
    cells = [dict(zip(names, cell, strict=True)) for cell in product(*values)]
    cells = [cell for cell in cells if cell["transaction"] == "0" or (cell["dirty"], cell["redo"]) == ("0", "0")]
    axes = [
        Axis(name, found, None if name == "pool" else "0") for name, found in zip(names, values, strict=True)
    ]  # fmt: skip
    return a_session(STARTUP_METRIC, cells, axes, measured, runs=runs)


def sentence(session: Session) -> str:
    ((version, clauses),) = pending_costs(session).items()
    return f"{version}: {'; '.join(clauses)}"


def test_the_cost_of_a_page_is_the_slope_of_what_was_measured() -> None:
    session = pending_session(lambda pages, _: 2 + pages / 1000, dirty=("0", "2000", "10000", "40000"))
    (curve,) = pending_curves(session)
    assert (curve.version, curve.axis, curve.state) == (NEW, "dirty", "")
    assert curve.most == pytest.approx(44_010, rel=0.01)
    assert curve.fit is not None
    assert curve.fit.per_table_s == pytest.approx(1 / 1000, rel=0.02)
    assert sentence(session).startswith("8.0.31: each 10,000 dirty pages cost 10")
    assert sentence(session).removeprefix("8.0.31: ") in "".join(answers(session))


def test_a_cost_that_its_interval_does_not_tell_from_zero_is_not_claimed() -> None:
    session = pending_session(lambda *_: 2.0, dirty=("0", "2000", "40000"))
    assert sentence(session).startswith("8.0.31: no significant cost of dirty pages, up to 4")


def test_nothing_is_said_from_one_run_of_each() -> None:
    session = pending_session(lambda pages, _: 2 + pages / 1000, dirty=("0", "2000", "4000"), runs=1)
    assert pending_costs(session) == {}


def test_two_runs_of_each_show_a_cost_although_no_mean_has_an_interval() -> None:
    session = pending_session(lambda pages, _: 2 + pages / 1000, dirty=("0", "2000", "40000"), runs=2)
    said = "".join(answers(session))
    assert ": each 10,000 dirty pages cost 10" in said
    assert "no effect is claimed" not in said


def test_a_curve_names_where_pages_cost_most() -> None:
    session = pending_session(lambda pages, _: 2 + (pages / 10_000) ** 2, dirty=("0", "10000", "20000", "40000"))
    assert "each 10,000 dirty pages cost 6.6" in sentence(session)
    assert "where they cost most, from 21,995 to 43,981" in sentence(session)


def test_redo_is_compared_with_the_pages_that_were_dirty_with_it() -> None:

    def with_redo(redo_mib_s: float) -> Session:
        return pending_session(
            lambda pages, mib: 2 + pages / 1000 + (mib - pages / 100) * redo_mib_s,
            dirty=("0", "2000", "10000"),
            redo=("0", "1024m"),
        )

    few, many = redo_costs(with_redo(0))
    assert few.dirty_pages < many.dirty_pages
    assert abs(few.seconds) < few.error_s
    assert abs(many.seconds) < many.error_s
    assert "1,148 MiB of redo with 2,209 dirty pages cost no more than these pages" in sentence(with_redo(0))
    few, many = redo_costs(with_redo(0.01))
    assert few.seconds - few.error_s < 11.26 < few.seconds + few.error_s
    assert " MiB of redo with 2,209 dirty pages cost 11." in sentence(with_redo(0.01))
    assert sentence(with_redo(0.01)).endswith(" more than these pages")


def test_starts_with_redo_that_differ_much_claim_nothing() -> None:
    session = pending_session(
        lambda pages, mib: 2 + pages / 1000 + mib / 1000, dirty=("0", "2000", "10000"), redo=("0", "1024m")
    )
    assert all(cost.seconds > cost.error_s for cost in redo_costs(session))
    disturbed = [
        replace(run, metrics=run.metrics | {"startup_s": 3 * run.metrics["startup_s"]})
        if run.repeat == 1 and run.metrics["checkpoint_age_bytes"] > 10**9
        else run
        for run in session.runs
    ]
    assert all(cost.seconds < cost.error_s for cost in redo_costs(replace(session, runs=tuple(disturbed))))


def test_redo_alone_is_a_curve_in_mib() -> None:
    session = pending_session(lambda _, mib: 2 + mib / 100, redo=("0", "256m", "1024m"))
    assert sentence(session).startswith("8.0.31: each 1,000 MiB of redo cost 10")


def test_each_state_of_a_transaction_has_a_line_from_nothing_pending_on() -> None:
    session = pending_session(lambda *_: 2.0, transactions=("0", "100000 open", "900000 open", "900000 xa"))
    assert [(curve.axis, curve.state, round(curve.most, -4)) for curve in pending_curves(session)] == [
        ("transaction", "open", 900_000),
        ("transaction", "xa", 900_000),
    ]
    assert re.search(
        r": each 100,000 rows until rolled back: open 1\.0\S* s \(.*\), xa 1\.0\S* s \(.*\)$",
        sentence(session),
    )


def test_each_value_of_another_axis_has_a_line_of_its_own() -> None:
    session = pending_session(lambda pages, _: 2 + pages / 1000, dirty=("0", "2000", "10000"), pools=("128m", "1g"))
    assert len(pending_curves(session)) == 2
    assert [clause.removesuffix(".")[-12:] for clause in sentence(session).split("; ")] == [
        "th pool 128m",
        "with pool 1g",
    ]
