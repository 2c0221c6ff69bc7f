"""What was measured on what, and which runs do not count? The tables and notes that every report has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from recovery.report import figures
from recovery.stored import Run, Session, Table

_FINGERPRINTS = ("sha256", "fingerprint")
_FINGERPRINT_LENGTH = 12
"""Enough of a SHA-256 to tell two builds apart; report.json has all of it."""


def about_tables(session: Session) -> tuple[Table, ...]:
    """Settings and host."""
    return (_facts("Settings", session.settings), _facts("Host", session.environment))


def server_tables(session: Session) -> tuple[Table, ...]:
    return tuple(_server(version, said) for version, said in session.servers.items())


def not_counted(session: Session) -> tuple[Table, ...]:
    """None where all went as asked."""
    left_out = [run for run in session.runs if not run.verdict.as_asked]
    if not left_out:
        return ()
    return (
        Table(
            title="Not counted",
            headers=("#", "version", "variant", "verdict", "reason"),
            rows=tuple(
                (str(run.number), run.version, run.variant, run.verdict.value, _reason_and_log(run)) for run in left_out
            ),
            numeric=(True, False, False, False, False),
            notes=(
                "failed: the server did not come back, or not with all that it had promised; void: it did something "
                "else than what was asked.",
            ),
        ),
    )


def left_in_cache(runs: tuple[Run, ...], *, as_published: bool) -> tuple[str, ...]:
    """The proof of a cold start."""
    notes = []
    emptied = [run for run in runs if run.cold_means]
    left = [run.resident_before_bytes for run in emptied if run.resident_before_bytes is not None]
    if left:
        most = figures.size(max(left))
        notes.append(f"Bytes of the data directory found in the emptied cache before a start: {most} at most.")
    if len(left) < len(emptied) and not as_published:
        notes.append(f"Not proved to be cold, since the host does not tell: {len(emptied) - len(left)} starts.")
    return tuple(notes)


def grouped(pairs: Iterable[tuple[str | int | None, int]]) -> dict[str | int, str]:
    """`run 1, 4, 5` by what holds for them; what is None or 0 holds for nobody."""
    numbers: dict[str | int, list[str]] = {}
    for key, number in pairs:
        if key:
            numbers.setdefault(key, []).append(str(number))
    return {key: f"run{'s' if len(found) > 1 else ''} {', '.join(found)}" for key, found in numbers.items()}


def _reason_and_log(run: Run) -> str:
    reason = run.reason or "no reason was stored"
    return f"{reason} ({run.log})" if run.log else reason


def _facts(title: str, facts: Mapping[str, str | int | float | bool | None]) -> Table:
    return Table(
        title=title,
        headers=("what", "value"),
        rows=tuple(figures.fact(key, value) for key, value in facts.items()),
        numeric=(False, False),
    )


def _server(version: str, said: Mapping[str, str]) -> Table:
    """Names of options stay as the server spells them: they are looked up in its manual."""
    return Table(
        title=f"Server {version}",
        headers=("what", "value"),
        rows=tuple((key, _short(value) if key in _FINGERPRINTS else value or "(empty)") for key, value in said.items()),
        numeric=(False, False),
        notes=("@: the value in effect, asked from the server.",) if any(key.startswith("@") for key in said) else (),
    )


def _short(fingerprint: str) -> str:
    return fingerprint[:_FINGERPRINT_LENGTH]
