"""The texts and CSV exports of the kept sessions, as they were accepted.

`PYTHONPATH=. .venv/bin/python tests/helpers/kept_reports.py` accepts what the tool makes of them now, which `git diff`
shows."""

from __future__ import annotations

import csv
import hashlib
import io
import tarfile
import tempfile
from pathlib import Path

from recovery.report import text
from recovery.report.csv_report import render_csv
from recovery.storage.sessions import load_session

ROOT = Path(__file__).parents[2]
SESSIONS = ROOT / "fixtures" / "sessions"
CSV_DIGESTS = ROOT / "fixtures" / "kept-sessions.csv.sha256"
"""A digest of each session's CSV export, as `digest_of` computes it."""


PUBLISHED_WITH_STACKS = "2026-11-21-stacks"
"""Its published text was made with the files of its stacks, which the archive does not have."""


def text_of(name: str) -> Path:
    """The accepted text of a session."""
    own = SESSIONS / name
    return (own if own.is_dir() else ROOT / "docs" / "results" / name) / "report.txt"


def csv_digests() -> dict[str, str]:
    """The accepted digest of each CSV export, by session."""
    lines = (line.split() for line in CSV_DIGESTS.read_text().splitlines())
    return {name: digest for digest, name in lines}


def digest_of(text: str) -> str:
    """The digest of a CSV export without columns that are empty: a new metric adds one to every export."""
    columns = zip(*csv.reader(io.StringIO(text, newline="")), strict=True)
    kept = [column for column in columns if any(column[1:])]
    return hashlib.sha256(repr(kept).encode()).hexdigest()


def _accept() -> None:
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(ROOT / "fixtures" / "kept-sessions.tar.xz") as archive:
        archive.extractall(scratch, filter="data")
        lines = []
        for folder in sorted((*Path(scratch).iterdir(), *SESSIONS.iterdir()), key=lambda path: path.name):
            session = load_session(folder)
            if folder.name != PUBLISHED_WITH_STACKS:
                text_of(folder.name).write_text(text.render(session))
            lines.append(f"{digest_of(render_csv(session))}  {folder.name}\n")
        CSV_DIGESTS.write_text("".join(lines))


if __name__ == "__main__":
    _accept()
