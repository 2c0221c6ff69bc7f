"""The Markdown page about the tool's own speed, which is computed from bench.json."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from bench.__main__ import bench
from bench.building import Built
from bench.page import section
from bench.starts import BARE, CONTAINER, TOOL, Start

from recovery.analysis.contrasts import compare_means
from recovery.cli.main import cli, run

pytestmark = pytest.mark.on_demand("bench")
PLAIN_S, STAGE_S = (50.0, 51.0, 52.0), (16.0, 17.0, 18.0)


def builds(version: str = "5.7.22") -> list[dict[str, object]]:
    """Statements take 3 s less than the whole build of the plain way, and half of a stage."""
    plain = [Built(version, 20_000, "plain", seconds - 3, seconds) for seconds in PLAIN_S]
    stage = [Built(version, 20_000, "stage", seconds / 2, seconds) for seconds in STAGE_S]
    return [asdict(one) for one in (*plain, *stage)]


def pairs(drifts: tuple[float, ...], *, cache: str = "warm") -> list[dict[str, object]]:
    """The tool takes 0.1 s longer, and the host becomes slower from pair to pair."""
    found = []
    for number, drift in enumerate(drifts, 1):
        found.append(Start(BARE, number, "5.7.22", 500, cache, 10.0 + drift, 0.01))
        found.append(Start(TOOL, number, "5.7.22", 500, cache, 10.1 + drift, 0.202, lag_s=0.00005))
    return [asdict(start) for start in found]


def test_a_build_is_compared_by_its_statements_and_as_a_whole() -> None:
    page = section("building", builds())
    (row,) = (line for line in page.splitlines() if line.startswith("| 5.7.22"))
    _, version, plain, fast, rates, plain_s, stage_s, whole, _ = (cell.strip() for cell in row.split("|"))
    assert (version, plain, fast, plain_s, stage_s) == ("5.7.22", "417", "2,353", "51.0", "17.0")
    assert rates.startswith("5.6"), "of the statements alone"
    expected = compare_means(PLAIN_S, STAGE_S)
    assert expected is not None
    assert whole.startswith(f"{expected.value:.1f} "), "with its interval"
    assert "Means of 3." in page
    assert "| 16.0 | 3.1 |" in section("building", [builds()[0], builds()[3]]), "one build has no interval"


def test_starts_are_compared_within_pairs() -> None:
    """A drift that affects both starts of a pair alike is no difference."""
    page = section("watching", pairs((0.0, 5.0, 10.0)))
    assert "500 tables, 3 pairs: bare loop 15.000 s, tool 15.100 s; difference +0.1000 s, +0.67%" in page
    assert "95 % interval +0.1000 to +0.1000 s, +0.67% to +0.67%" in page
    assert "bare loop 0.010 s (0.1% of a core), tool 0.202 s (1.3% of a core)" in page
    assert "after its stamp, tool: median 0.05 ms" in page


def test_the_first_way_is_the_baseline() -> None:
    found = [asdict(Start(way, 1, "5.7.22", 9, "warm", 2.0, 0.1)) for way in (TOOL, CONTAINER)]
    found[1] |= {"ready_s": 3.0, "engine_s": 0.2}
    page = section("engines", found)
    assert "1 pairs: tool 2.000 s, tool, container 3.000 s; difference +1.0000 s, +50.00% (too few pairs" in page
    assert "before the exec: median 0.20 s" in page


def test_an_interrupted_pair_or_build_is_left_out() -> None:
    assert "500 tables, 1 pairs: bare loop 10.000 s, tool 10.100 s" in section("watching", pairs((0.0, 5.0))[:3])
    assert section("watching", pairs((0.0,))[:1]) == "## Watching\n\n"
    page = section("building", [*builds(), *builds("8.0.31")[:1]])
    assert "| 5.7.22 |" in page
    assert "8.0.31" not in page


def test_cold_and_warm_starts_are_separate() -> None:
    page = section("engines", [*pairs((0.0,), cache="cold"), *pairs((0.0,))])
    assert page.index("cold crash recovery") < page.index("warm crash recovery")


def test_a_stored_file_is_printed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(cli.commands, "bench", bench)
    host = {"cpu_model": "a CPU", "cpus": 2, "filesystem": "ext4", "kernel": "6.1"}
    stored = {"measured_at": "2026-11-23 01:00 UTC", "tool_version": "0.1.0", "environment": host}
    (tmp_path / "bench.json").write_text(json.dumps(stored | {"watching": pairs((0.0, 1.0))}))
    assert run(["bench", "--show", str(tmp_path / "bench.json")]) == 0
    page = capsys.readouterr().out
    assert page.startswith("Measured 2026-11-23 01:00 UTC with 0.1.0 on a CPU, 2 CPUs, ext4, kernel 6.1.\n")
    assert page.endswith(section("watching", pairs((0.0, 1.0))) + "\n")
    for damaged in ("", "[]", "{}", "7", '{"environment": {}, "watching": [{"way": "tool"}]}'):
        (tmp_path / "bench.json").write_text(damaged)
        assert run(["bench", "--show", str(tmp_path / "bench.json")]) == 2
        assert "cannot be read as a bench.json" in capsys.readouterr().err
