"""Only a start that is proved to be warm is called warm. All others are second starts, in no figure of warm ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from runs import make_run, plain_variants, values_of_all, variants_with, with_axis_values
from sessions import with_metrics

from recovery.analysis.summary import summarise
from recovery.analysis.warm import rename_second_starts
from recovery.model import Run, Session, Verdict
from recovery.report import markdown, text
from recovery.report.csv_report import render_csv
from recovery.report.html import page
from recovery.report.json_report import to_json
from recovery.report.summary_text import answers, slowest_start
from recovery.report.tables import all_tables
from recovery.session.store import SessionStore
from recovery.storage.sessions import REPORT_FILE, load_session

NOT_WARM = "2026-11-21-containers-9.7-5000-iops"
"""Its warm starts read 93 to 95 % of what the cold ones read."""
GB, MIB = 10**9, 1 << 20
DATA = 22 * GB


def a_run(
    number: int,
    variant: str,
    read_bytes: int | None,
    shares: tuple[float, float] | None = None,
    *,
    version: str = "5.7.22",
    verdict: Verdict = Verdict.MEASURED,
) -> Run:
    before, after = shares or (None, None)
    metrics = {"startup_s": 10.0, "first_query_s": 10.1} | ({} if read_bytes is None else {"read_bytes": read_bytes})
    return make_run(
        number, version, "mysql", variant, 1, verdict, tables_found=200_000, metrics=metrics,
        resident_share=before, resident_share_after=after,
    )  # fmt: skip


def a_session(*runs: Run) -> Session:
    versions = tuple(dict.fromkeys(run.version for run in runs))
    return with_axis_values(Session(
        "crash-recovery", "q", "c", "s", {}, {"runs": 1}, versions,
        plain_variants(*dict.fromkeys(run.variant for run in runs)),
        len(runs), servers={version: {"data_bytes": str(DATA)} for version in versions}, runs=runs, tool_version="1",
    ))  # fmt: skip


def variants_of(*runs: Run) -> list[str]:
    return [run.variant for run in rename_second_starts(a_session(*runs)).runs]


COLD = a_run(1, "cold", 20 * GB)
ALL, FEW = (1.0, 1.0), (0.12, 1.0)
"""Shares of the tables' files that are in the page cache before and after a start."""


@pytest.mark.parametrize(
    ("cold_bytes", "read", "shares", "warm"),
    [
        (20 * GB, 0, ALL, True),
        (20 * GB, 9 * GB, ALL, True),  # a version that reads past the cache
        (20 * GB, 11 * GB, ALL, False),  # memory is too small for what it reads
        (20 * GB, 0, FEW, False),
        (20 * GB, 5 * GB, (0.03, 0.03), True),  # a server that does not need the others
        (20 * GB, 5 * GB, (0.97, 1.0), True),
        (20 * GB, None, ALL, True),
        (20 * GB, None, FEW, False),
        (20 * GB, None, None, False),
        (20 * GB, 2 * GB, None, True),  # where the cache is not known, the bytes alone decide
        (20 * GB, 7 * GB, None, True),  # the same name as with a known cache: the next two
        (20 * GB, 7 * GB, ALL, True),
        (20 * GB, 11 * GB, None, False),
        (20 * GB, 19 * GB, None, False),
        # MariaDB over 3,000 tables reads past the cache, and 9.7 its own files.
        (18_000_000, 13_000_000, (0.033, 0.033), True),
        (18_000_000, 13_000_000, None, False),
        (18_000_000, 13_000_000, (0.0, 0.033), False),
        (60_000_000, 58_000_000, ALL, True),
        (60_000_000, 58_000_000, FEW, False),
        # Without a cold start it is compared with the data.
        (None, 0, ALL, True),
        (None, int(0.3 * DATA), ALL, True),
        (None, 19 * GB, ALL, False),
        (None, 0, FEW, False),
        (None, 0, None, False),  # nothing tells what a cold one would have read
        (None, None, ALL, True),
        (None, int(0.49 * DATA), (0.4, 0.42), False),  # a small cache does that, too
    ],
)
def test_a_start_is_warm_only_if_that_is_proved(
    cold_bytes: int | None, read: int | None, shares: tuple[float, float] | None, *, warm: bool
) -> None:
    cold = [] if cold_bytes is None else [a_run(1, "cold", cold_bytes)]
    assert variants_of(*cold, a_run(2, "warm", read, shares))[-1] == ("warm" if warm else "second start")


def test_each_version_and_variant_has_its_own_cold_starts() -> None:
    session = a_session(
        a_run(1, "cold-small", 20 * GB), a_run(2, "warm-small", 9 * GB), a_run(3, "cold-large", 10 * GB),
        a_run(4, "warm-large", 9 * GB), a_run(5, "cold-small", 9 * GB, version="8.0.31"),
        a_run(6, "warm-small", 9 * GB, version="8.0.31"),
    )  # fmt: skip
    cells = {f"{cache}-{size}": {"cache": cache, "settings": size}
             for size in ("small", "large") for cache in ("cold", "warm")}  # fmt: skip
    found = rename_second_starts(replace(session, variants=variants_with(cells)))
    assert [run.variant for run in found.runs][1::2] == ["warm-small", "second start-large", "second start-small"]


def test_a_failed_cold_start_proves_nothing_and_a_failed_warm_one_keeps_its_name() -> None:
    failed = with_metrics(replace(COLD, number=3, verdict=Verdict.FAILED), read_bytes=0)
    warm = a_run(4, "warm", 19 * GB, verdict=Verdict.VOID)
    assert variants_of(COLD, a_run(2, "warm", 2 * GB), failed, warm) == ["cold", "warm", "cold", "warm"]


def test_runs_are_judged_again_with_every_further_run() -> None:
    once = rename_second_starts(a_session(COLD, a_run(2, "warm", 2 * GB), a_run(3, "warm", 19 * GB)))
    assert once.variant_names == ("cold", "warm", "second start")
    assert rename_second_starts(once) == once
    more = replace(once, runs=(*once.runs, a_run(4, "cold", 400 * GB)))
    assert [run.variant for run in rename_second_starts(more).runs] == ["cold", "warm", "warm", "cold"]
    assert rename_second_starts(more).variant_names == ("cold", "warm")


def test_second_starts_have_the_cells_of_their_variant() -> None:
    session = a_session(a_run(1, "cold-small", 20 * GB), a_run(2, "warm-small", 19 * GB))
    cells = {f"{cache}-small": {"cache": cache, "settings": "small"} for cache in ("cold", "warm")}
    found = rename_second_starts(replace(session, variants=variants_with(cells)))
    assert values_of_all(found) == cells | {"second start-small": {"cache": "second start", "settings": "small"}}
    assert rename_second_starts(found) == found


def test_loads_have_no_second_starts() -> None:
    work = replace(a_session(a_run(1, "warm", None)), metric="qps", variants=plain_variants("warm"))
    assert rename_second_starts(work) is work


def test_second_starts_are_in_no_figure_of_warm_starts() -> None:
    runs = [a_run(2, "warm", 0, ALL), with_metrics(a_run(3, "warm", 19 * GB, FEW), startup_s=80.0)]
    other = [replace(one, version="8.0.31", number=one.number + 10) for one in (COLD, runs[0], runs[0])]
    found = {
        (one.version, one.variant): (one.count, one.mean, one.ratio)
        for one in summarise(rename_second_starts(a_session(COLD, *runs, *other)))
    }
    assert found["5.7.22", "warm"] == (1, 10.0, 1.0)
    assert found["5.7.22", "second start"] == (1, 80.0, None)
    assert ("8.0.31", "second start") not in found, "it has none"


def test_a_proved_start_is_explained_and_not_a_slower_one_that_is_not_proved() -> None:
    runs = [a_run(2, "warm", 0, ALL), with_metrics(a_run(3, "warm", 19 * GB, FEW), startup_s=80.0)]
    session = rename_second_starts(a_session(COLD, *runs))
    warm_alone = [one for one in summarise(session) if one.variant != "cold"]
    assert {one.variant for one in warm_alone} == {"warm", "second start"}
    slow = slowest_start(session, warm_alone)
    assert slow is not None
    assert slow.variant == "warm"
    unproved = slowest_start(session, [one for one in warm_alone if one.variant != "warm"])
    assert unproved is not None
    assert unproved.variant == "second start"


def test_starts_of_an_older_session_are_judged_by_their_bytes(kept_sessions: Path) -> None:
    session = load_session(kept_sessions / NOT_WARM)
    assert {run.variant for run in session.runs} == {"cold", "second start"}
    assert any(
        "9.7.4: cold 87.3 s +- 0.5; second start, not proved warm 81.6 s +- 0.5" in line for line in answers(session)
    )
    report = text.render(session).replace("\n", " ")
    assert (
        report.count("9.7.4 second start: it read 93 to 95 % of what the cold starts read; not counted as warm.") == 1
    )
    assert "9.7.4,second start,2" in render_csv(session).replace(",mysql,", ",")
    for rendering in (page.render(session), markdown.render(session)):
        assert "second start" in rendering
    summaries = json.loads(to_json(session))["summaries"]
    assert {one["variant"]: one["count"] for one in summaries} == {"cold": 4, "warm": 0, "second start": 5}
    half_of_the_cold_bytes, a_third = "2026-11-21-four-versions", "2026-11-25-six-servers"
    assert "second start" in load_session(kept_sessions / half_of_the_cold_bytes).variant_names
    assert "second start" not in load_session(kept_sessions / a_third).variant_names


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        ([COLD, a_run(2, "warm", 19 * GB, FEW), a_run(3, "warm", 18 * GB, (0.15, 1.0))],
         "12 to 15 % of the tables' files were in the page cache before it, 100 % after it and it read 90 to 95 % of "
         "what the cold starts read"),
        ([a_run(1, "warm", 11 * GB)],
         "what was in the page cache before it is unknown and it read 50 % of the data directory"),
        ([COLD, a_run(2, "warm", None)], "what was in the page cache before it is unknown"),
    ],
)  # fmt: skip
def test_a_note_has_the_reason_of_second_starts(runs: list[Run], reason: str) -> None:
    notes = all_tables(rename_second_starts(a_session(*runs)))[0].notes
    assert f"5.7.22 second start: {reason}; not counted as warm." in notes


@pytest.mark.parametrize(
    ("settings", "advice"), [({"memory_bytes": GB}, "raise MEMORY="), ({}, "a host with more memory")]
)
def test_the_advice_depends_on_the_limit_of_memory(
    settings: dict[str, str | int | float | bool | None], advice: str
) -> None:
    session = replace(a_session(COLD, a_run(2, "warm", 19 * GB, FEW)), settings=settings)
    assert any(advice in note for note in all_tables(rename_second_starts(session))[0].notes)


def test_reads_of_warm_starts_are_noted_for_each_version() -> None:
    past = a_run(2, "warm", 6_400_000_000, ALL, version="8.0.31")
    session = a_session(COLD, a_run(1, "warm", 0, ALL), replace(COLD, version="8.0.31"), past)
    notes = [note for note in all_tables(session)[0].notes if note.startswith("Read by warm starts")]
    assert notes == [
        "Read by warm starts, with their files in the page cache: 5.7.22 0 B; 8.0.31 6.4 GB (32.0 kB a table)."
    ]
    runs = next(table for table in all_tables(session) if table.title == "Every run")
    assert "Tables' files in the page cache before and after the start: 100 % and 100 %: runs 1, 2." in runs.notes
    unknown = a_session(COLD, a_run(2, "warm", 0))
    assert not any(note.startswith("Read by warm") for note in all_tables(unknown)[0].notes), "it was not measured"


def test_a_second_start_is_stored_under_the_planned_name_for_a_resumed_session(tmp_path: Path) -> None:
    planned = replace(a_session(COLD, a_run(2, "warm", 0)), runs=(), planned_runs=4)
    store = SessionStore.create(tmp_path, planned)
    for run in (COLD, a_run(2, "warm", 19 * GB)):
        store.append(run)
    store.finish(to_json, status="interrupted")
    stored = json.loads((store.folder / "runs" / "002.json").read_text())
    assert (stored["variant"], "resident_share" in stored.get("warm", {})) == ("warm", False)
    assert load_session(store.folder).runs[1].variant == "second start"
    assert [variant["name"] for variant in json.loads((store.folder / REPORT_FILE).read_text())["variants"]] == [
        "cold",
        "warm",
        "second start",
    ]
    further = SessionStore.resume(store.folder)
    further.append(a_run(3, "cold", 400 * GB))
    further.append(a_run(4, "warm", 0))
    further.finish()
    assert [run.variant for run in load_session(store.folder).runs] == ["cold", "warm", "cold", "warm"]
