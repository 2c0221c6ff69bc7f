"""The verdict and its note for each published claim, on sessions with figures that nobody measured."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from math import log
from typing import Any, get_args

import pytest
from at_work import NEW, OLD, interference, metadata, table_cache
from everything import HOSTILE, everything, traced_apart
from html_page import check_page
from pydantic import TypeAdapter, ValidationError
from runs import values_of_all, with_parts

from recovery.analysis.contrasts import Sample
from recovery.analysis.statistics import PRECISION_FACTOR
from recovery.experiments import find_experiment
from recovery.model import Session, Verdict
from recovery.report.claims import (
    FEW_RUNS,
    Answer,
    Claim,
    ClaimVerdict,
    Comparison,
    DirectionClaim,
    LevelClaim,
    Publication,
    RangeClaim,
    RatioClaim,
    UnknownClaim,
    answer_claims,
    cell_pairs,
    claim_facts,
)
from recovery.report.html import page
from recovery.report.markdown import table_lines
from recovery.report.published import find_publication, publications, published_tables
from recovery.report.tables import PUBLISHED, all_tables

SESSION = interference(caches=("400",))
LOOP: dict[str, Any] = {
    "what": "the loop",
    "cell": {"version": "5.7", "poll": "on", "table_open_cache": "least"},
    "base": {"poll": "off"},
}
POLLED = RatioClaim(**LOOP, ratio=0.83)


def answer_of(claim: Claim, session: Session) -> Answer:
    publication = Publication(
        name="x", label="E0", title="x", question="x?", source="x", host="x", versions=(), scale="x", claim=(claim,)
    )
    (answer,) = answer_claims(publication, session)
    return answer


def published_answers(name: str, session: Session) -> tuple[Answer, ...]:
    publication = find_publication(name)
    assert publication is not None
    return answer_claims(publication, session)


def with_figures(*figures: float) -> Session:
    """A session with these queries per second in 5.7 with the loop, run by run; the others are 100 and close to it."""

    def of(version: str, variant: str, repeat: int) -> float:
        changed = version == OLD and SESSION.values_of(variant)["poll"] == "on"
        return figures[(repeat - 1) % len(figures)] if changed else (100.0, 101.0, 99.0)[(repeat - 1) % 3]

    runs = (replace(run, metrics={"qps": of(run.version, run.variant, run.repeat)}) for run in SESSION.runs)
    return replace(SESSION, runs=tuple(runs))


def test_every_publication_has_its_experiment_and_its_figures() -> None:
    assert tuple(publication.name for publication in publications()) == PUBLISHED
    for publication in publications():
        assert find_experiment(publication.name).name == publication.name
        assert all(len(row.values) == len(publication.versions) for row in publication.figure)
        for claim in publication.claim:
            assert set(claim.needs) <= {"cpus", "tables", "rows", "memory_bytes"}
    kinds = {claim.kind for publication in publications() for claim in publication.claim}
    assert len(kinds) == len(get_args(get_args(Claim)[0])), "each kind is used"


@pytest.mark.parametrize(
    "text",
    [
        "kind = 'ratio'\nratio = 1.7\ncell = {}",
        "kind = 'ratio'\nlevel = 1.7\ncell = {}\nbase = {}",
        "kind = 'direction'\ndirection = 'either'\ncell = {}\nbase = {}",
        "ratio = 1.7\ncell = {}\nbase = {}",
    ],
    ids=["no base", "the figure of another kind", "no direction", "no kind"],
)
def test_a_claim_has_what_its_kind_has(text: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Claim).validate_python(tomllib.loads(f"what = 'x'\n{text}"))


@pytest.mark.parametrize(
    ("figures", "claim", "verdict", "note"),
    [
        ((83, 83.5, 82.5), POLLED, ClaimVerdict.HOLDS, ""),
        ((60, 60.5, 59.5), POLLED, ClaimVerdict.HOLDS, "stronger than published"),
        ((95, 95.5, 94.5), POLLED, ClaimVerdict.WEAKER, ""),
        ((100, 101, 99.5), POLLED, ClaimVerdict.NOT, "no significant difference"),
        ((150, 151, 149), POLLED, ClaimVerdict.OPPOSITE, ""),
        ((60, 100, 115), POLLED, ClaimVerdict.INCONCLUSIVE, "both the published effect and no difference"),
        ((99, 100, 101), RatioClaim(**LOOP, ratio=1.0), ClaimVerdict.HOLDS, ""),
        ((97, 97.1, 97.2), RatioClaim(**LOOP, ratio=1.0), ClaimVerdict.HOLDS, ""),
        ((83, 83.5, 82.5), RatioClaim(**LOOP, ratio=1.0), ClaimVerdict.NOT, "is significant"),
        ((60, 100, 140), RatioClaim(**LOOP, ratio=1.0), ClaimVerdict.INCONCLUSIVE, "could hide a difference"),
        ((180, 181, 179), RatioClaim(**LOOP, ratio=1.7, at_least=True), ClaimVerdict.HOLDS, ""),
        ((150, 151, 149), RatioClaim(**LOOP, ratio=1.7, at_least=True), ClaimVerdict.WEAKER, ""),
        ((127, 127.5, 126.5), RangeClaim(**LOOP, least=1.25, most=1.3), ClaimVerdict.HOLDS, ""),
        ((80, 80.5, 79.5), DirectionClaim(**LOOP, direction="less"), ClaimVerdict.HOLDS, ""),
        ((120, 121, 119), DirectionClaim(**LOOP, direction="less"), ClaimVerdict.OPPOSITE, ""),
    ],
)
def test_the_verdict_follows_from_the_figures(
    figures: tuple[float, ...], claim: Comparison, verdict: ClaimVerdict, note: str
) -> None:
    answer = answer_of(claim, with_figures(*figures))
    assert answer.verdict is verdict
    assert note in answer.note if note else not answer.note
    assert answer.measured == OLD
    assert answer.ours == pytest.approx(sum(figures) / 300)
    assert answer.ours is not None
    assert answer.interval is not None
    assert answer.interval[0] < answer.ours < answer.interval[1]


@pytest.mark.parametrize(("seconds", "is_too_short"), [(8, True), (29.5, True), (30, False), (None, False)])
@pytest.mark.parametrize(
    ("figures", "claim", "verdict"),
    [
        ((100, 101, 99.5), POLLED, ClaimVerdict.NOT),
        ((100, 101, 99.5), DirectionClaim(**LOOP, direction="less"), ClaimVerdict.NOT),
        ((99, 100, 101), RatioClaim(**LOOP, ratio=1.0), ClaimVerdict.HOLDS),
    ],
)
def test_short_loads_do_not_say_that_there_is_no_effect(
    seconds: float | None, figures: tuple[float, ...], claim: Comparison, verdict: ClaimVerdict, *, is_too_short: bool
) -> None:
    session = with_figures(*figures)
    answer = answer_of(claim, replace(session, settings={**session.settings, "seconds": seconds}))
    assert answer.verdict is (ClaimVerdict.INCONCLUSIVE if is_too_short else verdict)
    assert ("s do not say that there is no effect: measure 30 or more" in answer.note) is is_too_short


@pytest.mark.parametrize(("figure", "verdict"), [(83, ClaimVerdict.HOLDS), (150, ClaimVerdict.OPPOSITE)])
def test_an_effect_of_short_loads_counts(figure: float, verdict: ClaimVerdict) -> None:
    session = with_figures(figure, figure + 0.5, figure - 0.5)
    answer = answer_of(POLLED, replace(session, settings={**session.settings, "seconds": 8}))
    assert (answer.verdict, answer.note) == (verdict, "")


@pytest.mark.parametrize(
    "claim",
    [POLLED, RatioClaim(**LOOP, ratio=1.0), DirectionClaim(**LOOP, direction="less"), UnknownClaim(**LOOP)],
    ids=["a ratio", "no change", "a direction", "no figure"],
)
def test_what_is_significant_alone_only_is_inconclusive(claim: Comparison) -> None:
    """It neither reproduces nor refutes: as in all tables, comparisons are significant when taken together."""
    in_new = replace(POLLED, what="another", cell={**LOOP["cell"], "version": "8.0"})
    session = with_figures(87, 90, 94.5)
    publication = Publication(
        name="x", label="E0", title="x", question="x?", source="x", host="x", versions=(), scale="x",
        claim=(claim, in_new),
    )  # fmt: skip
    together, _ = answer_claims(publication, session)
    alone = answer_of(claim, session)
    assert alone.interval == together.interval
    assert alone.interval is not None
    assert alone.interval[1] < 1
    assert (alone.is_significant, together.is_significant) == (True, False)
    assert alone.verdict is not ClaimVerdict.INCONCLUSIVE
    if isinstance(claim, UnknownClaim):
        assert (alone.note, together.note) == ("significant", "not significant")
    else:
        assert together.verdict is ClaimVerdict.INCONCLUSIVE
        assert together.note == "not significant when all comparisons of the table are taken together"


def test_a_claim_without_a_published_figure_is_only_compared() -> None:
    answer = answer_of(UnknownClaim(**LOOP), interference())
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
    claim = replace(POLLED, cell={**POLLED.cell, "table_open_cache": wanted})
    assert list(cell_pairs(interference(), claim)) == [((OLD, variant), (OLD, variant.replace("on", "off")))]


def test_each_version_and_cell_that_a_claim_leaves_open_has_an_answer() -> None:
    found = [answer for answer in published_answers("table-cache", table_cache()) if "one table:" in answer.what]
    assert [answer.measured for answer in found] == [OLD, NEW]
    assert all(answer.ours and answer.ours > 1 for answer in found)
    answers = published_answers("interference", interference())
    found = [answer for answer in answers if answer.what.startswith("5.7: queries/s")]
    assert [answer.measured for answer in found] == [f"{OLD}, table_open_cache={cache}" for cache in (400, 4000, 20000)]
    assert [answer.verdict for answer in found] == [ClaimVerdict.HOLDS, ClaimVerdict.WEAKER, ClaimVerdict.NOT]


def test_unmeasured_versions_are_left_out_and_unmeasured_cells_reported() -> None:
    session = metadata()
    by_what = {answer.what: answer for answer in published_answers("metadata", session)}
    assert by_what["Q1: seconds of 5.7 over 8.0"].measured == f"{OLD} over {NEW}"
    assert by_what["Q1: seconds of 5.7 over 8.0"].verdict is ClaimVerdict.HOLDS
    unmeasured = by_what["creating tables by one client: seconds of 8.0 over 5.7"]
    assert (unmeasured.verdict, unmeasured.note) == (ClaimVerdict.NOT_MEASURED, "not part of this session")
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
    changes = {"verdict": Verdict.MEASURED, "tablespaces_opened": opened, "tables_found": 200}
    session = replace(session, runs=tuple(with_parts(run, **changes) for run in session.runs))
    claim = LevelClaim(
        what="opened", figure="tablespaces_opened", each_table=True, level=1.0, within=0.02, unit="of all",
        cell={"version": OLD, "variant": session.variant_names[0]}, needs=needs, why="few",
    )  # fmt: skip
    answer, apart = answer_of(claim, session), answer_of(claim, traced_apart(session))
    assert (apart.verdict, apart.ours, apart.note) == (answer.verdict, answer.ours, answer.note)
    assert answer.verdict is verdict
    assert note in answer.note
    assert not answer.is_ratio
    if opened == 20:
        assert (answer.ours_text, answer.published_text) == ("10 % of all", "100 % of all")


def test_intervals_of_sessions_with_a_precision_are_wider() -> None:
    plain = answer_of(POLLED, session := with_figures(80, 84, 85)).interval
    wide = answer_of(POLLED, replace(session, settings={**session.settings, "precision": 2.0})).interval
    assert plain is not None
    assert wide is not None
    assert log_width(wide) == pytest.approx(PRECISION_FACTOR * log_width(plain))


def test_a_level_has_the_interval_of_the_statistics_of_its_runs() -> None:
    """A session with a precision has a wider one, like a ratio."""
    claim = LevelClaim(what="rate", cell=LOOP["cell"], level=80.0, within=0.1)
    values = (80.0, 84.0, 85.0)
    for precision, factor in ((None, 1.0), (2.0, PRECISION_FACTOR)):
        session = with_figures(*values)
        answer = answer_of(claim, replace(session, settings={**session.settings, "precision": precision}))
        described = Sample((values,), factor).statistics()
        low, high = described["mean"] - described["interval"], described["mean"] + described["interval"]
        assert answer.ours == pytest.approx(83.0)
        assert answer.interval == pytest.approx((low, high))


def log_width(interval: tuple[float, float]) -> float:
    return log(interval[1] / interval[0])


# --- The tables in the report of a session


def test_the_report_shows_what_was_published_beside_what_was_measured() -> None:
    claims, figures, publication, limits = published_tables(SESSION)
    assert claims.headers == ("what", "servers here", "verdict", "published", "here", "95 % interval", "note")
    first, *_ = claims.rows
    assert first[:5] == ("5.7: queries/s with the loop over without", OLD, "holds", "0.83", "0.83")
    assert ("queries/s without the loop", "46,320", "-") in figures.rows
    assert ("host", "12 CPUs, 12 GB") in publication.rows
    assert "the published host had 12 CPUs, here there were 4" in limits.rows[0][0]
    assert set(published_tables(SESSION)) <= set(all_tables(SESSION))


def test_answers_without_enough_runs_share_a_note() -> None:
    claims, *_ = published_tables(interference(caches=("400",), runs=1))
    assert [note for note in claims.notes if FEW_RUNS in note] == [f"Note 1: {FEW_RUNS}."]
    assert any(row[4].startswith("1,300 load misses/s against") for row in claims.rows)


@pytest.mark.parametrize(
    "session",
    [
        replace(SESSION, experiment="clean-start"),
        replace(SESSION, versions=("9.7.4",)),
        replace(SESSION, runs=tuple(replace(run, verdict=Verdict.VOID) for run in SESSION.runs)),
    ],
    ids=["another experiment", "another version", "nothing measured"],
)
def test_without_a_measured_claim_the_report_shows_no_publication(session: Session) -> None:
    titles = {table.title for table in all_tables(session)}
    assert not titles & {table.title for table in published_tables(SESSION)}


def test_texts_from_outside_never_become_markup() -> None:
    named = {OLD: f"5.7.{HOSTILE}", NEW: NEW}
    runs = tuple(replace(run, version=named[run.version]) for run in SESSION.runs)
    session = replace(SESSION, versions=tuple(named.values()), runs=runs)
    claims, *_ = published_tables(session)
    assert HOSTILE in claims.rows[0][1]
    check_page(page.render(session))
    assert "<script" not in "".join(table_lines(claims)).lower()


# --- Means of zero, which have no ratio

MISSED: dict[str, Any] = {
    "what": "misses",
    "figure": "table_open_cache_misses_per_s",
    "cell": {"version": "5.7", "poll": "on", "table_open_cache": "400"},
    "base": {"poll": "off"},
}
MORE = DirectionClaim(**MISSED, direction="more")
LESS = DirectionClaim(**MISSED, direction="less")
MANY = (28_000.0, 28_500.0, 27_000.0)
NONE = (0.0, 0.0, 0.0)


def misses(without: tuple[float, ...], with_it: tuple[float, ...], claim: Comparison) -> Answer:
    session = interference(caches=("400",), runs=len(without))
    polled = {variant: cell["poll"] == "on" for variant, cell in values_of_all(session).items()}
    runs = (
        replace(run, metrics={MISSED["figure"]: (with_it if polled[run.variant] else without)[run.repeat - 1]})
        for run in session.runs
    )
    return answer_of(claim, replace(session, runs=tuple(runs)))


@pytest.mark.parametrize(
    ("without", "with_it", "claim", "verdict", "shown"),
    [
        (NONE, MANY, MORE, ClaimVerdict.HOLDS, "27,833 misses/s against 0"),
        (NONE, (1.0, 900.0, 40_000.0), MORE, ClaimVerdict.HOLDS, "13,634 misses/s against 0"),
        (NONE, MANY, LESS, ClaimVerdict.OPPOSITE, "27,833 misses/s against 0"),
        (MANY, NONE, LESS, ClaimVerdict.HOLDS, "0 misses/s against 27,833"),
        (MANY, NONE, MORE, ClaimVerdict.OPPOSITE, "0 misses/s against 27,833"),
        (NONE, NONE, MORE, ClaimVerdict.NOT, "0 misses/s against 0"),
        (NONE, (0.0, 0.2, 0.0), MORE, ClaimVerdict.INCONCLUSIVE, "0.067 misses/s against 0"),
        ((0.0, 0.6, 0.0), MANY, MORE, ClaimVerdict.HOLDS, "27,833 misses/s against 0.20"),
        (MANY, MANY, MORE, ClaimVerdict.NOT, "1.00"),
    ],
)
def test_a_direction_is_judged_by_the_means_if_one_of_them_is_zero(
    without: tuple[float, ...], with_it: tuple[float, ...], claim: DirectionClaim, verdict: ClaimVerdict, shown: str
) -> None:
    answer = misses(without, with_it, claim)
    assert (answer.verdict, answer.ours_text) == (verdict, shown)
    if 0.0 in (sum(without), sum(with_it)):
        assert (answer.ours, answer.is_ratio, answer.measured) == (None, False, OLD)
        assert answer.published_text == claim.direction


@pytest.mark.parametrize(
    ("without", "with_it", "claim", "note"),
    [
        ((0.0,), (28_000.0,), MORE, FEW_RUNS),
        (NONE, NONE, replace(MORE, needs={"cpus": 64}), ""),
        (NONE, MANY, RatioClaim(**MISSED, ratio=2.0), "a mean of zero has no ratio"),
    ],
    ids=["one run", "the scale is too small", "a published ratio"],
)
def test_a_mean_of_zero_is_inconclusive(
    without: tuple[float, ...], with_it: tuple[float, ...], claim: Comparison, note: str
) -> None:
    answer = misses(without, with_it, claim)
    assert answer.verdict is ClaimVerdict.INCONCLUSIVE
    assert note in answer.note
