"""The verdict and its note for each published claim, on sessions with figures that nobody measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from at_work import NEW, OLD, interference, metadata, table_cache
from everything import everything
from runs import with_parts

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
from recovery.experiments import find_experiment
from recovery.model import Session, Verdict

SESSION = interference(caches=("400",))
POLLED = Claim(
    what="the loop",
    one={"version": "5.7", "poll": "on", "table_open_cache": "least"},
    other={"poll": "off"},
    ratio=0.83,
)


def answer_of(claim: Claim, session: Session) -> Answer:
    publication = Publication(
        name="x", label="E0", title="x", question="x?", source="x", host="x", versions=(), scale="x", claim=(claim,)
    )
    (answer,) = answer_claims(publication, session)
    return answer


def published_answers(name: str, session: Session) -> tuple[Answer, ...]:
    return answer_claims(next(one for one in publications() if one.name == name), session)


def with_figures(*figures: float) -> Session:
    """A session with these queries per second in 5.7 with the loop, run by run; the others are 100 and close to it."""

    def of(version: str, variant: str, repeat: int) -> float:
        changed = version == OLD and SESSION.cells[variant]["poll"] == "on"
        return figures[(repeat - 1) % len(figures)] if changed else (100.0, 101.0, 99.0)[(repeat - 1) % 3]

    runs = (replace(run, metrics={"qps": of(run.version, run.variant, run.repeat)}) for run in SESSION.runs)
    return replace(SESSION, runs=tuple(runs))


def test_every_publication_has_its_scenario_and_one_form_of_each_claim() -> None:
    for one in publications():
        assert find_experiment(one.name).name == one.name
        assert all(len(figure.values) == len(one.versions) for figure in one.figure)
        for claim in one.claim:
            forms = (claim.published, claim.direction, claim.level)
            assert sum(form is not None for form in forms) == 1, claim.what
            assert set(claim.needs) <= {"cpus", "tables", "rows", "memory_bytes"}


@pytest.mark.parametrize(
    ("figures", "claim", "verdict", "note"),
    [
        ((83, 83.5, 82.5), {}, ClaimVerdict.HOLDS, ""),
        ((60, 60.5, 59.5), {}, ClaimVerdict.HOLDS, "stronger than published"),
        ((95, 95.5, 94.5), {}, ClaimVerdict.WEAKER, ""),
        ((100, 101, 99.5), {}, ClaimVerdict.NOT, "no significant difference"),
        ((150, 151, 149), {}, ClaimVerdict.OPPOSITE, ""),
        ((60, 100, 115), {}, ClaimVerdict.INCONCLUSIVE, "both the published effect and no difference"),
        ((99, 100, 101), {"ratio": 1.0}, ClaimVerdict.HOLDS, ""),
        ((97, 97.1, 97.2), {"ratio": 1.0}, ClaimVerdict.HOLDS, ""),
        ((83, 83.5, 82.5), {"ratio": 1.0}, ClaimVerdict.NOT, "is significant"),
        ((60, 100, 140), {"ratio": 1.0}, ClaimVerdict.INCONCLUSIVE, "could hide a difference"),
        ((180, 181, 179), {"ratio": 1.7, "at_least": True}, ClaimVerdict.HOLDS, ""),
        ((150, 151, 149), {"ratio": 1.7, "at_least": True}, ClaimVerdict.WEAKER, ""),
        ((127, 127.5, 126.5), {"ratio": 1.25, "up_to": 1.3}, ClaimVerdict.HOLDS, ""),
        ((80, 80.5, 79.5), {"ratio": None, "direction": "less"}, ClaimVerdict.HOLDS, ""),
        ((120, 121, 119), {"ratio": None, "direction": "less"}, ClaimVerdict.OPPOSITE, ""),
    ],
)
def test_the_verdict_follows_from_the_figures(
    figures: tuple[float, ...], claim: dict[str, object], verdict: ClaimVerdict, note: str
) -> None:
    answer = answer_of(replace(POLLED, **claim), with_figures(*figures))  # type: ignore[arg-type]
    assert answer.verdict is verdict
    assert note in answer.note if note else not answer.note
    assert answer.measured == OLD
    assert answer.ours == pytest.approx(sum(figures) / 300)
    assert answer.ours is not None
    assert answer.interval is not None
    assert answer.interval[0] < answer.ours < answer.interval[1]


def test_a_claim_without_a_published_figure_is_only_compared() -> None:
    answer = answer_of(replace(POLLED, ratio=None, direction="either"), interference())
    assert (answer.verdict, answer.note) == (ClaimVerdict.COMPARED, "significant")
    assert answer.ours_text == "0.83"
    assert answer.interval_text.startswith("0.8")
    assert (answer.published, answer.published_text) == (None, "no figure")


@pytest.mark.parametrize("runs", [1, 2])
def test_too_few_runs_give_a_figure_and_no_verdict(runs: int) -> None:
    answer = answer_of(POLLED, interference(caches=("400",), runs=runs))
    assert (answer.verdict, answer.note) == (ClaimVerdict.INCONCLUSIVE, FEW_RUNS)
    assert answer.ours_text == "0.83"
    assert answer.interval is None


def test_a_scale_that_is_too_small_refutes_nothing() -> None:
    needy = replace(POLLED, needs={"cpus": 64, "tables": 10_000}, why="few threads do not contend for one lock")
    session = with_figures(100, 101, 99.5)
    answer = answer_of(needy, session)
    assert answer.verdict is ClaimVerdict.INCONCLUSIVE
    assert answer.note == "4 CPUs and 1,000 tables are too few: few threads do not contend for one lock"
    shown = answer_of(needy, with_figures(83, 83.5, 82.5))
    assert shown.verdict is ClaimVerdict.HOLDS
    assert shown.note.startswith("caveat: 4 CPUs")
    large = replace(session, environment={"cpus": 96}, settings={"tables": 100, "schemas": 100})
    assert answer_of(needy, large).verdict is ClaimVerdict.NOT


def test_the_resources_of_a_server_are_limited_by_the_settings() -> None:
    large: dict[str, str | int | float | None] = {"cpus": 96, "memory_bytes": 1 << 38}
    session = replace(interference(), environment=large)

    def facts(**limits: float) -> dict[str, float]:
        return claim_facts(replace(session, settings={**session.settings, **limits}))

    assert facts() == {**large, "tables": 1000}
    assert facts(cpus=2.0, memory_bytes=1 << 31) == {"cpus": 2, "memory_bytes": 1 << 31, "tables": 1000}
    assert facts(cpus=0.5)["cpus"] == 0.5
    assert facts(cpus=500.0)["cpus"] == 96
    assert claim_facts(replace(session, environment={}, settings={"tables": 10, "schemas": 5})) == {"tables": 50}
    limited = replace(session, settings={**session.settings, "cpus": 2.0})
    needy = replace(POLLED, ratio=0.2, needs={"cpus": 16}, why="few")
    assert "2 CPUs are too few: few" in answer_of(needy, limited).note
    assert "too few" not in answer_of(needy, session).note


@pytest.mark.parametrize(("wanted", "variant"), [("least", "400-on"), ("most", "20000-on")])
def test_least_and_most_are_the_extremes_of_what_was_measured(wanted: str, variant: str) -> None:
    (pair,) = cell_pairs(interference(), replace(POLLED, one={**POLLED.one, "table_open_cache": wanted}))
    assert pair.one == (OLD, variant)
    assert pair.other == (OLD, variant.replace("on", "off"))


def test_each_version_and_cell_that_a_claim_leaves_open_has_an_answer() -> None:
    found = [answer for answer in published_answers("table-cache", table_cache()) if "one table:" in answer.what]
    assert [answer.measured for answer in found] == [OLD, NEW]
    assert all(answer.ours and answer.ours > 1 for answer in found)
    found = [one for one in published_answers("interference", interference()) if one.what.startswith("5.7: queries/s")]
    assert [one.measured for one in found] == [f"{OLD}, table_open_cache={cache}" for cache in (400, 4000, 20000)]
    assert [one.verdict for one in found] == [ClaimVerdict.HOLDS, ClaimVerdict.WEAKER, ClaimVerdict.NOT]


def test_unmeasured_versions_are_left_out_and_unmeasured_cells_reported() -> None:
    session = metadata()
    by_what = {answer.what: answer for answer in published_answers("metadata", session)}
    assert by_what["Q1: seconds of 5.7 over 8.0"].measured == f"{OLD} over {NEW}"
    assert by_what["Q1: seconds of 5.7 over 8.0"].verdict is ClaimVerdict.HOLDS
    unmeasured = by_what["creating tables by one client: seconds of 8.0 over 5.7"]
    assert (unmeasured.verdict, unmeasured.note) == (ClaimVerdict.NOT_MEASURED, "not part of this scale")
    alone = replace(session, versions=(NEW,))
    assert {answer.what for answer in published_answers("metadata", alone)} == {
        "dump in 8.0: seconds of default locking over --skip-lock-tables"
    }


def test_failed_runs_give_no_figure() -> None:
    failed = replace(SESSION, runs=tuple(replace(run, verdict=Verdict.FAILED) for run in SESSION.runs))
    answer = answer_of(POLLED, failed)
    assert (answer.ours, answer.verdict) == (None, ClaimVerdict.NOT_MEASURED)


@pytest.mark.parametrize(
    ("opened", "needs", "verdict", "note"),
    [
        (200, {}, ClaimVerdict.HOLDS, ""),
        (20, {}, ClaimVerdict.NOT, ""),
        (20, {"cpus": 10_000}, ClaimVerdict.INCONCLUSIVE, "too few"),
        (-5, {}, ClaimVerdict.INCONCLUSIVE, ""),
        (None, {}, ClaimVerdict.NOT_MEASURED, "no run has this figure"),
    ],
)
def test_a_claim_about_a_level_is_compared_with_the_figure_itself(
    opened: int | None, needs: dict[str, int], verdict: ClaimVerdict, note: str
) -> None:
    session = everything()
    runs = (
        with_parts(run, verdict=Verdict.MEASURED, tablespaces_opened=opened, tables_found=200) for run in session.runs
    )
    claim = Claim(
        what="opened", figure="tablespaces_opened", each_table=True, level=1.0, within=0.02, unit="of all",
        one={"version": OLD, "variant": session.variants[0]}, needs=needs, why="few",
    )  # fmt: skip
    answer = answer_of(claim, replace(session, runs=tuple(runs)))
    assert answer.verdict is verdict
    assert note in answer.note
    assert not answer.is_ratio
    if opened == 20:
        assert (answer.ours_text, answer.published_text) == ("10 % of all", "100 % of all")


# --- Means of zero, which have no ratio

MISSES = Claim(
    what="misses",
    figure="table_open_cache_misses_per_s",
    one={"version": "5.7", "poll": "on", "table_open_cache": "400"},
    other={"poll": "off"},
    direction="more",
)
MANY = (28_000.0, 28_500.0, 27_000.0)
NONE = (0.0, 0.0, 0.0)


def misses(without: tuple[float, ...], with_it: tuple[float, ...], **claim: object) -> Answer:
    session = interference(caches=("400",), runs=len(without))
    polled = {variant: cell["poll"] == "on" for variant, cell in session.cells.items()}
    runs = (
        replace(run, metrics={str(MISSES.figure): (with_it if polled[run.variant] else without)[run.repeat - 1]})
        for run in session.runs
    )
    return answer_of(replace(MISSES, **claim), replace(session, runs=tuple(runs)))  # type: ignore[arg-type]


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
    answer = misses(without, with_it, direction=direction)
    assert (answer.verdict, answer.ours_text) == (verdict, shown)
    if 0.0 in (sum(without), sum(with_it)):
        assert (answer.ours, answer.is_ratio, answer.measured) == (None, False, OLD)
        assert answer.published_text == direction


@pytest.mark.parametrize(
    ("without", "with_it", "claim", "note"),
    [
        ((0.0,), (28_000.0,), {}, FEW_RUNS),
        (NONE, NONE, {"needs": {"cpus": 64}}, ""),
        (NONE, MANY, {"direction": None, "ratio": 2.0}, "a mean of zero has no ratio"),
    ],
    ids=["one run", "the scale is too small", "a published ratio"],
)
def test_a_mean_of_zero_is_inconclusive(
    without: tuple[float, ...], with_it: tuple[float, ...], claim: dict[str, object], note: str
) -> None:
    answer = misses(without, with_it, **claim)
    assert answer.verdict is ClaimVerdict.INCONCLUSIVE
    assert note in answer.note
