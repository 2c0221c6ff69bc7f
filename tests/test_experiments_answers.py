"""Does a published effect show? The verdict and the sentence, on sessions that nobody measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from at_work import NEW, OLD, interference, metadata, table_cache
from everything import everything

from recovery.cli.suite_published import (
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


def told(claim: Claim, session: Session) -> Answer:
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
    ("figures", "claim", "word", "said"),
    [
        ((83, 83.5, 82.5), {}, ClaimVerdict.SHOWS, "Shows here, as much as was published: 0.83 (0.8"),
        ((60, 60.5, 59.5), {}, ClaimVerdict.SHOWS, "Shows here, more than was published: 0.60"),
        ((95, 95.5, 94.5), {}, ClaimVerdict.SHOWS, "Shows here, less than was published: 0.95"),
        ((100, 101, 99.5), {}, ClaimVerdict.NOT, "Does not show here: 1.00"),
        ((150, 151, 149), {}, ClaimVerdict.OPPOSITE, "The opposite shows here: 1.50"),
        ((60, 100, 115), {}, ClaimVerdict.UNTOLD, "Cannot be told: the interval of 0.92"),
        ((99, 100, 101), {"ratio": 1.0}, ClaimVerdict.SHOWS, "next to no difference"),
        ((97, 97.1, 97.2), {"ratio": 1.0}, ClaimVerdict.SHOWS, "next to no difference"),
        ((83, 83.5, 82.5), {"ratio": 1.0}, ClaimVerdict.NOT, "which is significant"),
        ((60, 100, 140), {"ratio": 1.0}, ClaimVerdict.UNTOLD, "hides a difference"),
        ((180, 181, 179), {"ratio": 1.7, "at_least": True}, ClaimVerdict.SHOWS, "as published: 1.80"),
        ((150, 151, 149), {"ratio": 1.7, "at_least": True}, ClaimVerdict.SHOWS, "less than was published: 1.50"),
        ((127, 127.5, 126.5), {"ratio": 1.25, "up_to": 1.3}, ClaimVerdict.SHOWS, "published: 1.25 to 1.30"),
        ((80, 80.5, 79.5), {"ratio": None, "direction": "less"}, ClaimVerdict.SHOWS, "published: less than 1"),
        ((120, 121, 119), {"ratio": None, "direction": "less"}, ClaimVerdict.OPPOSITE, "1.20"),
    ],
)
def test_the_sentence_is_made_from_figures(
    figures: tuple[float, ...], claim: dict[str, object], word: ClaimVerdict, said: str
) -> None:
    answer = told(replace(POLLED, **claim), with_figures(interference(caches=("400",)), *figures))  # type: ignore[arg-type]
    assert (answer.word, said in answer.text) == (word, True), answer.text
    assert answer.measured == OLD


def test_of_too_few_runs_nothing_is_told_but_the_figure() -> None:
    answer = told(POLLED, interference(caches=("400",), runs=1))
    assert answer.word is ClaimVerdict.UNTOLD
    assert "Cannot be told from one run" in answer.text
    assert "0.83" in answer.text
    assert answer.error is None
    assert "2 runs of a cell" in told(POLLED, interference(caches=("400",), runs=2)).text


def test_where_the_scale_does_not_allow_it_nothing_is_refuted() -> None:
    needy = replace(POLLED, needs={"cpus": 64, "tables": 10_000}, why="few threads do not meet at one lock")
    session = with_figures(interference(caches=("400",)), 100, 101, 99.5)
    answer = told(needy, session)
    assert answer.word is ClaimVerdict.UNTOLD
    assert "but 4 CPUs and 1,000 tables are too few: few threads do not meet at one lock;" in answer.text
    shown = told(needy, with_figures(session, 83, 83.5, 82.5))
    assert shown.word is ClaimVerdict.SHOWS
    assert "A caveat: 4 CPUs" in shown.text
    large = replace(session, environment={"cpus": 96}, settings={"tables": 100, "schemas": 100})
    assert told(needy, large).word is ClaimVerdict.NOT


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
    assert by_what["Q1: seconds of 5.7 over 8.0"].word is ClaimVerdict.SHOWS
    assert by_what["creating tables by one client: seconds of 8.0 over 5.7"].word is ClaimVerdict.UNTOLD
    assert "not measured at this scale" in by_what["creating tables by one client: seconds of 8.0 over 5.7"].text
    alone = replace(session, versions=(NEW,))
    assert {answer.what for answer in answer_claims(published("metadata"), alone)} == {
        "dump in 8.0: seconds of default locking over --skip-lock-tables"
    }


def test_nothing_measured_is_no_figure() -> None:
    session = interference(caches=("400",))
    failed = replace(session, runs=tuple(replace(run, verdict=Verdict.FAILED) for run in session.runs))
    answer = told(POLLED, failed)
    assert answer.ours is None
    assert answer.word is ClaimVerdict.UNTOLD


def level(opened: int | None, **more: object) -> Answer:
    session = everything()
    runs = (replace(run, verdict=Verdict.MEASURED, tablespaces_opened=opened, tables=200) for run in session.runs)
    claim = Claim(
        what="opened", figure="tablespaces_opened", each_table=True, level=1.0, within=0.02, unit="of all",
        one={"variant": session.variants[0]}, **more,  # type: ignore[arg-type]
    )  # fmt: skip
    return answer_claims(publication(claim), replace(session, runs=tuple(runs)))[0]


def test_a_figure_by_itself() -> None:
    assert (level(200).word, level(200).ours, level(200).is_ratio) == (ClaimVerdict.SHOWS, 1.0, False)
    assert level(20).word is ClaimVerdict.NOT
    assert "10 % of all; published: 100 % of all" in level(20).text
    assert level(20, needs={"cpus": 10_000}).word is ClaimVerdict.UNTOLD
    assert level(-5).word is ClaimVerdict.UNTOLD
    assert level(None).word is ClaimVerdict.UNTOLD
    assert "it was not taken" in level(None).text


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
    assert "2 CPUs are too few: few" in told(needy, limited).text
    assert "too few" not in told(needy, session).text


def test_each_cell_that_a_claim_does_not_tell_apart_is_answered_for() -> None:
    found = [
        one for one in answer_claims(published("interference"), interference()) if one.what.startswith("5.7: queries/s")
    ]
    assert [one.measured for one in found] == [f"{OLD}, table_open_cache={cache}" for cache in (400, 4000, 20000)]
    assert [one.word for one in found] == [ClaimVerdict.SHOWS, ClaimVerdict.SHOWS, ClaimVerdict.NOT]


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
    return told(replace(MISSES, **claim), replace(session, runs=tuple(runs)))  # type: ignore[arg-type]


MANY = (28_000.0, 28_500.0, 27_000.0)
NONE = (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("without", "with_it", "direction", "word", "said"),
    [
        (NONE, MANY, "more", ClaimVerdict.SHOWS, "Shows here: 27,833 misses/s against 0 misses/s; published: more."),
        (NONE, (1.0, 900.0, 40_000.0), "more", ClaimVerdict.SHOWS, "Shows here: "),
        (NONE, MANY, "less", ClaimVerdict.OPPOSITE, "The opposite shows here: "),
        (MANY, NONE, "less", ClaimVerdict.SHOWS, "Shows here: 0 misses/s against 27,833 misses/s"),
        (MANY, NONE, "more", ClaimVerdict.OPPOSITE, "The opposite shows here: "),
        (NONE, NONE, "more", ClaimVerdict.NOT, "Does not show here: 0 misses/s against 0 misses/s"),
        (NONE, (0.0, 0.2, 0.0), "more", ClaimVerdict.UNTOLD, "some of the runs have none"),
        ((0.0, 0.6, 0.0), MANY, "more", ClaimVerdict.SHOWS, "27,833 misses/s against 0.20 misses/s"),
        (MANY, MANY, "more", ClaimVerdict.NOT, "Does not show here: 1.00"),
    ],
)
def test_an_effect_out_of_nothing_is_told_by_its_levels(
    without: tuple[float, ...], with_it: tuple[float, ...], direction: str, word: ClaimVerdict, said: str
) -> None:
    answer = missing(without, with_it, direction=direction)
    assert (answer.word, said in answer.text) == (word, True), answer.text


def test_levels_are_kept_and_are_no_ratio() -> None:
    answer = missing(NONE, MANY)
    assert answer.levels == pytest.approx((27_833.3, 0.0), abs=0.1)
    assert (answer.ours, answer.is_ratio) == (None, False)
    assert answer.ours_words == "27,833 misses/s from 0"
    assert answer.measured == OLD
    assert missing((100.0, 101.0, 99.0), MANY).levels is None, "a ratio is as good"


def test_out_of_nothing_in_one_run_is_not_told() -> None:
    answer = missing((0.0,), (28_000.0,))
    assert answer.word is ClaimVerdict.UNTOLD
    assert "28,000 misses/s against 0 misses/s" in answer.text


def test_nothing_at_all_refutes_nothing_where_the_scale_is_too_small() -> None:
    assert missing(NONE, NONE, needs={"cpus": 64}).word is ClaimVerdict.UNTOLD


def test_a_published_ratio_is_no_matter_of_levels() -> None:
    assert missing(NONE, MANY, direction=None, ratio=2.0).word is ClaimVerdict.UNTOLD
