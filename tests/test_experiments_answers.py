"""Tests the verdict and its note for each published claim, on sessions that nobody measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from at_work import NEW, OLD, interference, metadata, table_cache
from everything import everything

from recovery.cli.suite_published import (
    FEW_RUNS,
    Answer,
    Claim,
    ClaimVerdict,
    Publication,
    answer_claims,
    cell_pairs,
    claim_facts,
    publications,
)
from recovery.model import Session, Verdict


def publication(*claims: Claim) -> Publication:
    return Publication(
        name="x", label="E0", title="x", question="x?", source="x", host="x", versions=(), scale="x", claim=claims
    )


def published(name: str) -> Publication:
    return next(one for one in publications() if one.name == name)


POLLED = Claim(
    what="the loop",
    one={"version": "5.7", "poll": "on", "table_open_cache": "least"},
    other={"poll": "off"},
    ratio=0.83,
)


def answer_of(claim: Claim, session: Session) -> Answer:
    (answer,) = answer_claims(publication(claim), session)
    return answer


def with_figures(session: Session, *figures: float) -> Session:
    """Of 5.7 with the loop, run by run; the others are 100 and close to it."""

    def of(version: str, variant: str, repeat: int) -> float:
        changed = version == OLD and session.cells[variant]["poll"] == "on"
        return figures[(repeat - 1) % len(figures)] if changed else (100.0, 101.0, 99.0)[(repeat - 1) % 3]

    runs = (replace(run, measures={"qps": of(run.version, run.variant, run.repeat)}) for run in session.runs)
    return replace(session, runs=tuple(runs))


@pytest.mark.parametrize(
    ("figures", "claim", "verdict", "note"),
    [
        ((83, 83.5, 82.5), {}, ClaimVerdict.HOLDS, ""),
        ((60, 60.5, 59.5), {}, ClaimVerdict.HOLDS, "more than published"),
        ((95, 95.5, 94.5), {}, ClaimVerdict.HOLDS, "less than published"),
        ((100, 101, 99.5), {}, ClaimVerdict.NOT, "no significant difference"),
        ((150, 151, 149), {}, ClaimVerdict.OPPOSITE, ""),
        ((60, 100, 115), {}, ClaimVerdict.INCONCLUSIVE, "both the published effect and no difference"),
        ((99, 100, 101), {"ratio": 1.0}, ClaimVerdict.HOLDS, ""),
        ((97, 97.1, 97.2), {"ratio": 1.0}, ClaimVerdict.HOLDS, ""),
        ((83, 83.5, 82.5), {"ratio": 1.0}, ClaimVerdict.NOT, "is significant"),
        ((60, 100, 140), {"ratio": 1.0}, ClaimVerdict.INCONCLUSIVE, "could hide a difference"),
        ((180, 181, 179), {"ratio": 1.7, "at_least": True}, ClaimVerdict.HOLDS, ""),
        ((150, 151, 149), {"ratio": 1.7, "at_least": True}, ClaimVerdict.HOLDS, "less than published"),
        ((127, 127.5, 126.5), {"ratio": 1.25, "up_to": 1.3}, ClaimVerdict.HOLDS, ""),
        ((80, 80.5, 79.5), {"ratio": None, "direction": "less"}, ClaimVerdict.HOLDS, ""),
        ((120, 121, 119), {"ratio": None, "direction": "less"}, ClaimVerdict.OPPOSITE, ""),
    ],
)
def test_the_verdict_follows_from_the_figures(
    figures: tuple[float, ...], claim: dict[str, object], verdict: ClaimVerdict, note: str
) -> None:
    answer = answer_of(replace(POLLED, **claim), with_figures(interference(caches=("400",)), *figures))  # type: ignore[arg-type]
    assert answer.verdict is verdict
    assert note in answer.note if note else not answer.note
    assert answer.measured == OLD
    assert answer.ours == pytest.approx(sum(figures) / 300)
    assert answer.ours is not None
    assert answer.interval is not None
    assert answer.interval[0] < answer.ours < answer.interval[1]


def test_figures_are_kept_as_text() -> None:
    session = with_figures(interference(caches=("400",)), 83, 83.5, 82.5)
    answer = answer_of(replace(POLLED, ratio=1.25, up_to=1.3), session)
    assert (answer.published_text, answer.ours_text) == ("1.25 to 1.30", "0.83")
    assert answer.interval_text == "0.81-0.85"
    assert answer_of(replace(POLLED, ratio=1.7, at_least=True), session).published_text == "at least 1.70"
    assert answer_of(replace(POLLED, ratio=None, direction="less"), session).published_text == "less than 1"


@pytest.mark.parametrize("runs", [1, 2])
def test_too_few_runs_give_a_figure_and_no_verdict(runs: int) -> None:
    answer = answer_of(POLLED, interference(caches=("400",), runs=runs))
    assert (answer.verdict, answer.note) == (ClaimVerdict.INCONCLUSIVE, FEW_RUNS)
    assert answer.ours_text == "0.83"
    assert answer.interval is None


def test_where_the_scale_does_not_allow_it_nothing_is_refuted() -> None:
    needy = replace(POLLED, needs={"cpus": 64, "tables": 10_000}, why="few threads do not contend for one lock")
    session = with_figures(interference(caches=("400",)), 100, 101, 99.5)
    answer = answer_of(needy, session)
    assert answer.verdict is ClaimVerdict.INCONCLUSIVE
    assert answer.note == "4 CPUs and 1,000 tables are too few: few threads do not contend for one lock"
    shown = answer_of(needy, with_figures(session, 83, 83.5, 82.5))
    assert shown.verdict is ClaimVerdict.HOLDS
    assert shown.note.startswith("caveat: 4 CPUs")
    large = replace(session, environment={"cpus": 96}, settings={"tables": 100, "schemas": 100})
    assert answer_of(needy, large).verdict is ClaimVerdict.NOT


def test_the_least_and_the_most_are_those_that_were_measured() -> None:
    session = interference()
    (pair,) = cell_pairs(session, POLLED)
    assert pair.one == (OLD, "400-on")
    assert pair.other == (OLD, "400-off")
    (pair,) = cell_pairs(session, replace(POLLED, one={**POLLED.one, "table_open_cache": "most"}))
    assert pair.one == (OLD, "20000-on")


def test_a_claim_without_a_version_is_asked_of_each() -> None:
    found = [answer for answer in answer_claims(published("table-cache"), table_cache()) if "one table:" in answer.what]
    assert [answer.measured for answer in found] == [OLD, NEW]
    assert all(answer.ours and answer.ours > 1 for answer in found)


def test_versions_that_nobody_measured_are_left_out_and_cells_are_said() -> None:
    session = metadata()
    found = answer_claims(published("metadata"), session)
    by_what = {answer.what: answer for answer in found}
    assert by_what["Q1: seconds of 5.7 over 8.0"].measured == f"{OLD} over {NEW}"
    assert by_what["Q1: seconds of 5.7 over 8.0"].verdict is ClaimVerdict.HOLDS
    unmeasured = by_what["creating tables by one client: seconds of 8.0 over 5.7"]
    assert (unmeasured.verdict, unmeasured.note) == (ClaimVerdict.NOT_MEASURED, "not part of this scale")
    alone = replace(session, versions=(NEW,))
    assert {answer.what for answer in answer_claims(published("metadata"), alone)} == {
        "dump in 8.0: seconds of default locking over --skip-lock-tables"
    }


def test_nothing_measured_is_no_figure() -> None:
    session = interference(caches=("400",))
    failed = replace(session, runs=tuple(replace(run, verdict=Verdict.FAILED) for run in session.runs))
    answer = answer_of(POLLED, failed)
    assert answer.ours is None
    assert answer.verdict is ClaimVerdict.NOT_MEASURED


def level(opened: int | None, **more: object) -> Answer:
    session = everything()
    runs = (replace(run, verdict=Verdict.MEASURED, tablespaces_opened=opened, tables=200) for run in session.runs)
    claim = Claim(
        what="opened", figure="tablespaces_opened", each_table=True, level=1.0, within=0.02, unit="of all",
        one={"variant": session.variants[0]}, **more,  # type: ignore[arg-type]
    )  # fmt: skip
    return answer_claims(publication(claim), replace(session, runs=tuple(runs)))[0]


def test_a_figure_by_itself() -> None:
    assert (level(200).verdict, level(200).ours, level(200).is_ratio) == (ClaimVerdict.HOLDS, 1.0, False)
    assert level(20).verdict is ClaimVerdict.NOT
    assert (level(20).ours_text, level(20).published_text) == ("10 % of all", "100 % of all")
    assert level(20, needs={"cpus": 10_000}).verdict is ClaimVerdict.INCONCLUSIVE
    assert level(-5).verdict is ClaimVerdict.INCONCLUSIVE
    assert (level(None).verdict, level(None).note) == (ClaimVerdict.NOT_MEASURED, "no run has this figure")


def test_facts_that_are_not_known_are_left_out() -> None:
    assert claim_facts(replace(metadata(), environment={}, settings={"tables": 10, "schemas": 5})) == {"tables": 50}


def test_a_host_is_what_the_server_was_allowed_of_it() -> None:
    large: dict[str, str | int | float | None] = {"cpus": 96, "memory_bytes": 1 << 38}
    session = replace(interference(), environment=large)

    def facts(**limits: float) -> dict[str, float]:
        return claim_facts(replace(session, settings={**session.settings, **limits}))

    assert facts() == {**large, "tables": 1000}
    assert facts(cpus=2.0, memory_bytes=1 << 31) == {"cpus": 2, "memory_bytes": 1 << 31, "tables": 1000}
    assert facts(cpus=0.5)["cpus"] == 0.5
    assert facts(cpus=500.0)["cpus"] == 96
    limited = replace(session, settings={**session.settings, "cpus": 2.0})
    needy = replace(POLLED, ratio=0.2, needs={"cpus": 16}, why="few")
    assert "2 CPUs are too few: few" in answer_of(needy, limited).note
    assert "too few" not in answer_of(needy, session).note


def test_each_cell_that_a_claim_does_not_tell_apart_is_answered_for() -> None:
    found = [
        one for one in answer_claims(published("interference"), interference()) if one.what.startswith("5.7: queries/s")
    ]
    assert [one.measured for one in found] == [f"{OLD}, table_open_cache={cache}" for cache in (400, 4000, 20000)]
    assert [one.verdict for one in found] == [ClaimVerdict.HOLDS, ClaimVerdict.HOLDS, ClaimVerdict.NOT]


MISSES = Claim(
    what="misses",
    figure="table_open_cache_misses_per_s",
    one={"version": "5.7", "poll": "on", "table_open_cache": "400"},
    other={"poll": "off"},
    direction="more",
)


def missing(without: tuple[float, ...], with_it: tuple[float, ...], **claim: object) -> Answer:
    session = interference(caches=("400",), runs=len(without))

    def of(on: bool, repeat: int) -> float:
        return (with_it if on else without)[repeat - 1]

    polled = {variant: cell["poll"] == "on" for variant, cell in session.cells.items()}
    runs = (replace(run, measures={str(MISSES.figure): of(polled[run.variant], run.repeat)}) for run in session.runs)
    return answer_of(replace(MISSES, **claim), replace(session, runs=tuple(runs)))  # type: ignore[arg-type]


MANY = (28_000.0, 28_500.0, 27_000.0)
NONE = (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("without", "with_it", "direction", "verdict", "shown"),
    [
        (NONE, MANY, "more", ClaimVerdict.HOLDS, "27,833 misses/s against 0"),
        (NONE, (1.0, 900.0, 40_000.0), "more", ClaimVerdict.HOLDS, "13,634 misses/s against 0"),
        (NONE, MANY, "less", ClaimVerdict.OPPOSITE, "27,833 misses/s against 0"),
        (MANY, NONE, "less", ClaimVerdict.HOLDS, "0 misses/s against 27,833"),
        (MANY, NONE, "more", ClaimVerdict.OPPOSITE, "0 misses/s against 27,833"),
        (NONE, NONE, "more", ClaimVerdict.NOT, "0 misses/s against 0"),
        (NONE, (0.0, 0.2, 0.0), "more", ClaimVerdict.INCONCLUSIVE, "0.067 misses/s against 0"),
        ((0.0, 0.6, 0.0), MANY, "more", ClaimVerdict.HOLDS, "27,833 misses/s against 0.20"),
        (MANY, MANY, "more", ClaimVerdict.NOT, "1.00"),
    ],
)
def test_a_direction_is_judged_by_the_means_if_one_of_them_is_zero(
    without: tuple[float, ...], with_it: tuple[float, ...], direction: str, verdict: ClaimVerdict, shown: str
) -> None:
    answer = missing(without, with_it, direction=direction)
    assert (answer.verdict, answer.ours_text) == (verdict, shown)


def test_means_are_shown_instead_of_a_ratio_over_zero() -> None:
    answer = missing(NONE, MANY)
    assert (answer.ours, answer.is_ratio, answer.measured) == (None, False, OLD)
    assert answer.published_text == "more"
    assert missing((100.0, 101.0, 99.0), MANY).is_ratio, "a ratio is as good"


def test_one_run_gives_no_verdict_over_zero() -> None:
    answer = missing((0.0,), (28_000.0,))
    assert (answer.verdict, answer.note) == (ClaimVerdict.INCONCLUSIVE, FEW_RUNS)
    assert answer.ours_text == "28,000 misses/s against 0"


def test_zero_on_both_sides_refutes_nothing_where_the_scale_is_too_small() -> None:
    assert missing(NONE, NONE, needs={"cpus": 64}).verdict is ClaimVerdict.INCONCLUSIVE


def test_a_published_ratio_is_not_judged_by_the_means() -> None:
    answer = missing(NONE, MANY, direction=None, ratio=2.0)
    assert (answer.verdict, answer.note) == (ClaimVerdict.INCONCLUSIVE, "a mean of zero has no ratio")
