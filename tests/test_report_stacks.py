"""Are stacks told of the run that they were taken in, drawn, and kept out of every mean?"""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from recovery.analysis.stacks import Folded, folded_text, hottest_functions
from recovery.analysis.summary import summarise
from recovery.model import CallChain, HotFunction, Session, Verdict
from recovery.report import markdown, text
from recovery.report.html.svg import flame_graph
from recovery.report.startup_tables import hottest_tables, stacks_tables
from recovery.report.stored_session import load_session
from recovery.report.write import write_reports
from recovery.session.store import SessionStore

ROOT = Path(__file__).parent.parent
STORED = load_session(ROOT / "fixtures" / "sessions" / "three-versions")
SESSION = replace(STORED, runs=tuple(run for run in STORED.runs if run.verdict is Verdict.MEASURED))
LONG = ("_start", "__libc_start_main", "main", *(f"f{number}" for number in range(6)), "fil_ibd_open", "__libc_pread")
CHAINS = (
    CallChain("discovery", "main thread", LONG, 60, 80),
    CallChain("discovery", "other threads", ("clone", "[mysqld]"), 10, 80),
    CallChain("discovery", "main thread", ("main", "too rare"), 1, 80),
    CallChain("validation", "main thread", ("main", "pthread_join"), 5, 6, waits=True),
    CallChain("validation", "other threads", ("clone", "validate"), 6, 6),
    CallChain("redo apply", "main thread", ("main", "recv_apply"), 5, 6),
    CallChain("first query", "main thread", ("main", "too short a phase"), 1, 1),
)
FOLDED: Folded = Counter({("discovery", "main thread", "main", '<&">'): 3, ("redo apply", "main thread", "main"): 1})


def sampled(program: str = "eu-stack", chains: tuple[CallChain, ...] = CHAINS) -> Session:
    """The last run was looked into, and took ten times as long."""
    *others, last = SESSION.runs
    last = replace(
        last,
        verdict=Verdict.SAMPLED,
        startup_s=10 * (last.startup_s or 1),
        sampled_by=program,
        samples=82,
        chains=chains,
        stacks="stacks/last.folded",
    )
    return replace(SESSION, runs=(*others, last))


def test_a_session_without_stacks_has_no_such_table() -> None:
    assert stacks_tables(SESSION) == ()


def test_the_hottest_chains_by_phase() -> None:
    session = sampled()
    (table,) = stacks_tables(session)
    last = session.runs[-1]
    assert table.title == f"Stacks of run {last.number}, {last.version} {last.variant}, 82 samples by eu-stack"
    assert [row[:4] for row in table.rows] == [
        ("discovery", "80", "75 %", "main thread"),
        ("discovery", "80", "12 %", "other threads"),
        ("validation", "6", "6 of 6", "other threads"),
        ("redo apply", "6", "5 of 6", "main thread"),
    ]
    assert table.rows[0][4].startswith("... > f0 > f1 > f2")
    assert table.rows[0][4].endswith("f5 > fil_ibd_open > __libc_pread")
    assert any("no symbol" in note for note in table.notes)
    assert any("stacks/last.svg" in note for note in table.notes)
    assert "With fewer than 20 samples in the phase the counts are shown instead of shares." in table.notes
    (enough,) = stacks_tables(sampled(chains=CHAINS[:2]))
    assert not any("With fewer than" in note for note in enough.notes)


@pytest.mark.parametrize(("of", "told"), [(19, "7 of 19"), (20, "35.0 %")])
def test_a_share_is_told_of_twenty_samples(of: int, told: str) -> None:
    """In every place."""
    session = replace(
        sampled(chains=(CallChain("discovery", "main thread", ("main", "pread"), 7, of),)),
        runs=(replace(sampled().runs[-1], hottest=(HotFunction("pread", 7, 7, of),)),),
    )
    (functions,) = hottest_tables(session)
    assert functions.rows[0][1:] == (told, told)
    assert any("With fewer than 20 samples" in note for note in functions.notes) == (of < 20)
    (chains,) = stacks_tables(sampled(chains=(CallChain("discovery", "main thread", ("main", "pread"), 7, of),)))
    assert chains.rows[0][2] == told.replace(".0", "")
    drawing = flame_graph("title", Counter({("discovery", "main", "pread"): 7, ("discovery", "main"): of - 7}), ())
    assert f"pread: 7 of {of}{', 35.0 %' if of == 20 else ''}</title>" in drawing
    assert ("%" in drawing, "they need 20 samples" in drawing) == (of == 20, of < 20)


def test_the_functions_most_on_top() -> None:
    folded: Folded = Counter(
        {
            ("dump", "other threads", "main", "parse", "hash"): 6,
            ("dump", "other threads", "main", "parse"): 3,
            ("dump", "other threads", "walk", "walk"): 1,
            ("dump", "main thread", "main", "poll"): 90,
            ("no frames",): 7,
        }
    )
    assert hottest_functions(folded) == (
        HotFunction("hash", 6, 6, 10),
        HotFunction("parse", 3, 9, 10),
        HotFunction("walk", 1, 1, 10),
    )
    many: Folded = Counter({("dump", "main thread", f"f{number:02}"): 1 for number in range(40)})
    assert [one.function for one in hottest_functions(many)] == [f"f{number:02}" for number in range(15)]
    assert hottest_functions(Counter()) == ()


def test_the_hottest_functions_are_told_of_old_sessions_too(kept_sessions: Path, tmp_path: Path) -> None:
    """Which have the stacks alone."""
    old = tmp_path / "old"
    shutil.copytree(kept_sessions / "2026-11-21-stacks", old)
    (old / "stacks").mkdir()
    where = ("validation", "main thread", "main")
    seen: Folded = Counter({(*where, "__libc_pread"): 221, where: 49})
    (old / "stacks" / "004-5.7.22-cold-2.folded").write_text(folded_text(seen))
    session = load_session(old)
    first = hottest_tables(session)[0]
    assert first.title == "Hottest functions of 5.7.22 cold, run 4: 270 stacks by eu-stack"
    assert first.rows[0] == ("__libc_pread", "81.9 %", "81.9 %")
    assert "libc_pread | 81.9 % | 81.9 % |" in markdown.render(session)
    assert "__libc_pread" in text.render(session)
    store = SessionStore.create(tmp_path, replace(sampled(), runs=()))
    (run,) = (run for run in sampled().runs if run.chains)
    store.append(replace(run, stacks="../../etc/passwd"))
    assert load_session(store.folder).runs[0].hottest == (), "only what lies in the folder is read"


def test_what_perf_does_not_see_is_said() -> None:
    for program, said in (("perf", True), ("eu-stack", False)):
        (table,) = stacks_tables(sampled(program))
        assert any("waits for its storage" in note for note in table.notes) == said


def test_the_run_is_in_no_mean_and_neither_failed_nor_void() -> None:
    last = SESSION.runs[-1]

    def of(session: Session) -> tuple[int, int, float | None]:
        (one,) = (one for one in summarise(session) if (one.version, one.variant) == (last.version, last.variant))
        return one.count, one.failed + one.void, one.max

    count, _, slowest = of(SESSION)
    assert of(sampled())[:2] == (count - 1, 0)
    assert (of(sampled())[2] or 0) <= (slowest or 0)
    told = " ".join(text.render(sampled()).split())
    assert f"Stacks sampled by eu-stack, in no mean: run {last.number}." in told
    assert "Not counted" not in told


def test_the_report_has_the_picture(tmp_path: Path) -> None:
    store = SessionStore.create(tmp_path, replace(sampled(), runs=()))
    for run in sampled().runs:
        store.append(run)
    (store.folder / "stacks").mkdir()
    (store.folder / "stacks" / "last.folded").write_text(folded_text(FOLDED))
    store.finish(store.session)
    write_reports(store.folder)
    picture = (store.folder / "stacks" / "last.svg").read_text()
    assert "eu-stack" in picture
    page = markdown.render(load_session(store.folder))
    assert "](stacks/last.svg)" in page
    (store.folder / "stacks" / "last.folded").unlink()
    write_reports(store.folder)


def test_a_flame_graph_is_as_wide_as_often_seen() -> None:
    picture = ET.fromstring(flame_graph("a < b", FOLDED, ("discovery", "redo apply")))  # noqa: S314  # our own
    boxes = {}
    for group in picture.iter("{http://www.w3.org/2000/svg}g"):
        told, box = group[0].text or "", group[1]
        boxes[told.split(":")[0]] = (float(box.get("x", "")), float(box.get("width", "")), int(box.get("y", "")))
        assert "script" not in told
    assert boxes['<&">'][1] > 0, "what a server calls its functions is never taken for markup"
    assert round(boxes["discovery"][1] / boxes["redo apply"][1]) == 3
    assert boxes["discovery"][0] < boxes["redo apply"][0]
    assert boxes["all"][2] < boxes["discovery"][2] < boxes["main thread"][2]


def test_a_flame_graph_of_nothing() -> None:
    assert flame_graph("nothing", Counter(), ()).startswith("<svg")
