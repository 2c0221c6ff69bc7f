"""The texts and CSV exports of the kept sessions, as they were accepted, and a table of these sessions.

`PYTHONPATH=.:proofs .venv/bin/python tests/helpers/kept_reports.py` accepts what the tool makes of them now, which
`git diff` shows."""

from __future__ import annotations

import csv
import hashlib
import io
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from recovery.model import TABLES_AXIS, Session
from recovery.report import fmt, text
from recovery.report.csv_report import render_csv
from recovery.storage.sessions import load_session

ROOT = Path(__file__).parents[2]
SESSIONS = ROOT / "fixtures" / "sessions"
CSV_DIGESTS = ROOT / "fixtures" / "kept-sessions.csv.sha256"
"""A digest of each session's CSV export, as `digest_of` computes it."""
NOT_IN_REPORTS = ROOT / "docs" / "results" / "kept-sessions.toml"


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


def sessions_table(sessions: Mapping[str, Session]) -> str:
    """The table of docs/results/sessions.md: a row for each session."""
    stored = tomllib.loads(NOT_IN_REPORTS.read_text())
    commits, beside = ({name: words for words, names in stored[kind].items() for name in names} for kind in stored)
    rows: list[tuple[str, ...]] = [
        ("session", "experiment", "servers", "tables", "runs", "engine", "kernel build", "commit", "what else ran"),
        ("---",) * 9,
    ]
    for name, session in sorted(sessions.items()):
        rows.append((
            f"[{name}]({name}/report.txt)",
            session.experiment,
            ", ".join(session.versions),
            _tables(session),
            str(len(session.runs)),
            str(session.settings.get("engine") or "-"),
            str(session.environment.get("kernel") or "-").partition("-")[2],
            commits.get(name, "-"),
            beside.get(name, "not known"),
        ))  # fmt: skip
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _tables(session: Session) -> str:
    """The numbers of tables in all schemas."""
    schemas = int(str(session.settings.get("schemas") or 1).split()[0])
    of_variants = [session.values_of(variant).get(TABLES_AXIS) for variant in session.variant_names]
    counts = list(dict.fromkeys(str(count) for count in of_variants if count)) or [
        str(session.settings.get("tables") or "")
    ]
    return ", ".join(fmt.count(schemas * int(count)) for count in counts if count) or "-"


def _accept() -> None:
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(ROOT / "fixtures" / "kept-sessions.tar.xz") as archive:
        archive.extractall(scratch, filter="data")
        lines = []
        for folder in sorted((*Path(scratch).iterdir(), *SESSIONS.iterdir()), key=lambda path: path.name):
            session = load_session(folder)
            text_of(folder.name).write_text(text.render(session))
            lines.append(f"{digest_of(render_csv(session))}  {folder.name}\n")
        CSV_DIGESTS.write_text("".join(lines))


if __name__ == "__main__":
    _accept()
