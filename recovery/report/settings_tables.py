"""What was measured on what, and which runs do not count? The tables and notes that every report has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from recovery.analysis.warnings import findings
from recovery.model import Finding, Limits, Run, Session, Table
from recovery.report import format as fmt

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
        most = fmt.size(max(left))
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
        rows=tuple(fmt.fact(key, value) for key, value in facts.items()),
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


# What may be wrong with these figures? The findings, what to do said once for all that it helps against.


def findings_tables(session: Session) -> tuple[Table, ...]:
    """None where nothing was found."""
    found = by_hint(session)
    if not found:
        return ()
    return (
        Table(
            title="Doubts about these figures",
            headers=("about", "what, and what to do"),
            rows=tuple(row for hint, group in found for row in _rows(hint, group)),
            numeric=(False, False),
        ),
    )


def by_hint(session: Session) -> list[tuple[str, list[Finding]]]:
    grouped: dict[str, list[Finding]] = {}
    for one in findings(session):
        grouped.setdefault(one.hint, []).append(one)
    return list(grouped.items())


def _rows(hint: str, found: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """The hint in a row of its own where it is for several."""
    if len(found) == 1:
        yield found[0].about, f"{found[0].text} -> {hint}"
        return
    yield from ((one.about, one.text) for one in found)
    yield "", f"-> {hint}"


# What does a report tell of limits? What was really done a second under them, run by run.

Column = Callable[[Run], str]


def limit_columns(limits: Limits) -> dict[str, Column]:
    """Only what a limit is on: the page is narrow."""
    columns: dict[str, Column] = {}
    if limits.read_iops is not None:
        columns["reads/s"] = lambda run: fmt.count(_whole(run.reads_per_s))
    if limits.read_bps is not None:
        columns["read/s"] = lambda run: fmt.size(_whole(_bytes_per_s(run)))
    if limits.memory_bytes is not None:
        columns["memory"] = lambda run: fmt.size(run.group_memory_bytes)
    return columns


def limit_notes(limits: Limits) -> tuple[str, ...]:
    told = []
    if limits.read_iops is not None or limits.read_bps is not None:
        told.append("what is done a second is counted from exec to the first answered query")
    if limits.memory_bytes is not None:
        told.append("memory: all that the server's control group held then, page cache included")
    return (_sentence("; ".join(told)),) if told else ()


def requests_are(limits: Limits) -> str:
    if limits.read_iops is not None or limits.read_bps is not None:
        return "reads of the server's control group, as the limit counts them, before neighbours are merged"
    return "reads the device completed meanwhile"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _bytes_per_s(run: Run) -> float | None:
    """Over the time in which they were counted."""
    return None if run.read_bytes is None or not run.first_query_s else run.read_bytes / run.first_query_s


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
