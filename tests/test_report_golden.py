"""Are the reports of a stored session what they were? `recovery report FOLDER --write` accepts a change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from recovery.errors import RecoveryError
from recovery.model import Verdict
from recovery.report.stored_session import REPORT_FILE, load_session, to_json
from recovery.report.write import write_reports

SESSIONS = Path(__file__).parent.parent / "fixtures" / "sessions"
FIXTURES = sorted(path.parent for path in SESSIONS.glob(f"*/{REPORT_FILE}"))


def test_the_fixtures_have_every_verdict() -> None:
    session = load_session(SESSIONS / "three-versions")
    assert {run.verdict for run in session.runs} == set(Verdict) - {Verdict.SAMPLED}
    assert {run.verdict for run in load_session(SESSIONS / "stacks").runs} == {Verdict.MEASURED, Verdict.SAMPLED}
    assert session.variants == ("cold", "warm")
    assert len(session.versions) == 3


@pytest.mark.parametrize("folder", FIXTURES, ids=lambda folder: folder.name)
def test_reports_are_as_kept(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / REPORT_FILE, tmp_path / REPORT_FILE)
    written = write_reports(tmp_path)
    assert [path.name for path in written] == ["report.txt", "report.md", "report.html"]
    # The page for browsers is looked at in one: tests/browser.
    for path in written[:2]:
        assert path.read_text() == (folder / path.name).read_text()


@pytest.mark.parametrize("folder", FIXTURES, ids=lambda folder: folder.name)
def test_storing_again_changes_nothing(folder: Path) -> None:
    assert to_json(load_session(folder)) == (folder / REPORT_FILE).read_bytes()


def test_no_reports_of_no_session(tmp_path: Path) -> None:
    with pytest.raises(RecoveryError, match="there is no session"):
        write_reports(tmp_path)
    assert list(tmp_path.iterdir()) == []
