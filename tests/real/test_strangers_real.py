"""A dozen small cases of `make strangers`: directories, kills and logs that were not made for the tool."""

from __future__ import annotations

import pytest
from strangers import cases, report
from strangers.servers import Templates

pytestmark = pytest.mark.real

TIMES = ("times",)
OWN_DATA = ("own data",)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return Templates(tmp_path_factory.mktemp("initialized"))


def judge(case: cases.Case, templates: Templates) -> None:
    record = cases.run(case, templates)
    assert "not_run" not in record, record["not_run"]
    assert not record.get("lost"), record["lost"]
    assert not record["problems"], "\n".join([report.line(record), *record["problems"]])


@pytest.mark.parametrize(
    "seed",
    [
        92,
        49,
        98,
        67,
        57,
        40,
        75,
        78,
    ],
)
def test_a_directory_of_a_stranger_is_recovered_and_counted(seed: int, templates: Templates) -> None:
    judge(cases.draw_fast(seed, OWN_DATA), templates)


@pytest.mark.parametrize("seed", [72, 31])
def test_a_kill_under_load_is_estimated_watched_and_analyzed(seed: int, templates: Templates) -> None:
    judge(cases.draw_fast(seed, TIMES), templates)


@pytest.mark.parametrize("seed", [20, 118])
def test_a_log_as_strangers_post_it_is_analyzed(seed: int, templates: Templates) -> None:
    judge(cases.draw_fast(seed), templates)
