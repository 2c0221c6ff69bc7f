"""The results folder is searched for sessions like the new one, and no other file there is in the way."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from runs import variants_with

from recovery.model import Run, Session, Verdict
from recovery.report.json_report import to_json
from recovery.sharing.reduction import own_words
from recovery.storage import earlier
from recovery.storage.earlier import other_sessions
from recovery.storage.sessions import REPORT_FILE


def session(seconds: float = 4.0, **changes: Any) -> Session:
    run = Run(1, "5.7.22", "mysql", "cold", 1, Verdict.MEASURED, metrics={"startup_s": seconds})
    found = Session(
        "cold-recovery", "q", "c", "2026-11-20T10:00:00+00:00", {"host_id": "0123456789ab"}, {"tables": 10},
        ("5.7.22",), variants_with({"cold": {"cache": "cold"}}), 1, servers={"5.7.22": {"sha256": "a" * 64}},
        runs=(run,), tool_version="1",
    )  # fmt: skip
    return replace(found, **changes)


def stored(results: Path, name: str, found: Session) -> Path:
    (results / name).mkdir(parents=True)
    (results / name / REPORT_FILE).write_bytes(to_json(found))
    return results / name


def found_in(results: Path, **about: Any) -> list[tuple[str, float]]:
    found = other_sessions(results, [session()], without=about.get("without", ()))
    return [(cell.session, cell.mean) for cell in found.cells]


def test_sessions_of_the_host_and_experiment_are_found_the_newest_first(tmp_path: Path) -> None:
    stored(tmp_path, "20261120T100000Z-cold-recovery", session(4.0))
    stored(tmp_path, "20261121T100000Z-cold-recovery", session(5.0))
    stored(tmp_path, "renamed", session(6.0))
    stored(tmp_path, "20261122T100000Z-x", session(experiment="clean-start"))
    stored(tmp_path, "20261123T100000Z-x", session(environment={"host_id": "ffffffffffff"}))
    stored(tmp_path, "20261124T100000Z-x", session(environment={}))
    own = stored(tmp_path, "20261125T100000Z-cold-recovery", session(9.0))
    (tmp_path / "latest").symlink_to(own.name)
    assert found_in(tmp_path, without=[tmp_path / "latest"]) == [
        ("renamed", 6.0), ("20261121T100000Z-cold-recovery", 5.0), ("20261120T100000Z-cold-recovery", 4.0),
    ]  # fmt: skip
    assert found_in(tmp_path / "missing") == []
    assert other_sessions(tmp_path, [session(environment={"host_id": None})], without=()).cells == ()


def test_sessions_that_cannot_be_read_are_skipped(tmp_path: Path) -> None:
    stored(tmp_path, "good", session())
    whole = (tmp_path / "good" / REPORT_FILE).read_text()
    for name, text in (
        ("cut", whole[: len(whole) // 2]),
        ("newer", whole.replace('"format": 2', '"format": 9')),
        ("strange", whole.replace('"variants"', '"others"')),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / REPORT_FILE).write_text(text)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / REPORT_FILE)
    (tmp_path / "folder" / REPORT_FILE).mkdir(parents=True)
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / REPORT_FILE).symlink_to("nowhere")
    assert found_in(tmp_path) == [("good", 4.0)]
    assert other_sessions(tmp_path, [session()], without=()).note is None


@pytest.mark.parametrize(("limit", "many"), [("_MAX_SESSIONS", 2), ("_MAX_BYTES", 2.5)])
def test_only_the_newest_of_many_sessions_are_read_and_it_is_said(
    limit: str, many: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(10, 15):
        folder = stored(tmp_path, f"202611{day}T100000Z-cold-recovery", session(float(day)))
    size = (folder / REPORT_FILE).stat().st_size if limit == "_MAX_BYTES" else 1
    monkeypatch.setattr(earlier, limit, int(many * size))
    found = other_sessions(tmp_path, [session()], without=())
    assert [cell.mean for cell in found.cells] == [14.0, 13.0]
    assert found.note == "Earlier sessions on this host: only the newest 2 of 5 were read."
    assert own_words(found.note) == found.note
