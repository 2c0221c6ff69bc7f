"""Builds the tables and notes that every report has: settings, host, servers, uncounted runs and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from recovery.analysis.host_figures import superseded_probes
from recovery.analysis.warnings import findings
from recovery.model import Finding, Run, Session, Table
from recovery.report import fmt

_FINGERPRINTS = ("sha256", "fingerprint")
_FINGERPRINT_LENGTH = 12
"""Characters shown of a SHA-256, which are enough to distinguish two builds; report.json has all of it."""


def settings_and_host_tables(session: Session) -> tuple[Table, ...]:
    """Returns the tables of the settings and of the host, without what was not set and what is not known. Reads a
    second that were measured once are left out where each block has its own: a report has one speed of the storage."""
    given = {name: value for name, value in session.settings.items() if value}
    shown = session.environment.keys() - superseded_probes(session)
    known = {name: value for name, value in session.environment.items() if name in shown and value not in (None, "")}
    return tuple(table for table in (_facts("Settings", given), _facts("Host", known)) if table.rows)


def server_option_tables(session: Session) -> tuple[Table, ...]:
    return tuple(_server(version, facts) for version, facts in session.servers.items())


def not_counted(session: Session) -> tuple[Table, ...]:
    """Returns the table of the runs that do not count, or nothing if all went as planned."""
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
                "failed: the server did not come back, or lost acknowledged rows or tables; void: the run measured "
                "something other than was asked.",
            ),
        ),
    )


def cold_cache_notes(runs: tuple[Run, ...], *, as_published: bool) -> tuple[str, ...]:
    """Returns the notes that prove how cold the starts were: what was left in the page cache after it was emptied."""
    notes = []
    emptied = [run for run in runs if run.cold.means]
    left = [run.cold.resident_bytes for run in emptied if run.cold.resident_bytes is not None]
    if left:
        largest = fmt.size(max(left))
        notes.append(f"Left of the data directory in the emptied cache before a start: {largest} at most.")
    if len(left) < len(emptied) and not as_published:
        unproved = fmt.count_text(len(emptied) - len(left), "start")
        notes.append(f"Not proved to be cold, because this host does not show it: {unproved}.")
    return tuple(notes)


def page_cache_notes(runs: Iterable[Run]) -> Iterator[str]:
    """Yields notes for the table of runs: the share of the tables' files in the page cache before and after the
    start."""
    shares = ((_shares(run.warm.resident_share, run.warm.resident_share_after), run.number) for run in runs)
    for share, numbers in runs_by_value(shares).items():
        yield f"Tables' files in the page cache before and after the start: {share}: {numbers}."


def _shares(before: float | None, after: float | None) -> str | None:
    return None if before is None or after is None else f"{percent_range([before])} and {percent_range([after])}"


def percent_range(shares: Sequence[float]) -> str:
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def runs_by_value(pairs: Iterable[tuple[str | int | None, int]]) -> dict[str | int, str]:
    """Returns the runs that share a value, such as `runs 1, 4-6`, by that value. Values that are None, 0 or empty are
    left out."""
    numbers: dict[str | int, list[int]] = {}
    for key, number in pairs:
        if key:
            numbers.setdefault(key, []).append(number)
    return {key: f"run{'s' if len(found) > 1 else ''} {fmt.number_ranges(found)}" for key, found in numbers.items()}


def _reason_and_log(run: Run) -> str:
    reason = run.reason or "no reason was recorded"
    return f"{reason} ({run.log})" if run.log else reason


def _facts(title: str, facts: Mapping[str, str | int | float | bool | None]) -> Table:
    return Table(
        title=title,
        headers=("what", "value"),
        rows=tuple(fmt.fact_row(key, value) for key, value in facts.items()),
        numeric=(False, False),
    )


def _server(version: str, facts: Mapping[str, str]) -> Table:
    """Returns the table of a server. Option names keep the server's spelling, because readers look them up in its
    manual."""
    return Table(
        title=f"Server {version}",
        headers=("what", "value"),
        rows=tuple(
            (key, _short(value) if key in _FINGERPRINTS else value or "(empty)") for key, value in facts.items()
        ),
        numeric=(False, False),
        notes=("@: the effective value, as reported by the server.",)
        if any(key.startswith("@") for key in facts)
        else (),
    )


def _short(fingerprint: str) -> str:
    return fingerprint[:_FINGERPRINT_LENGTH]


# --- Findings: what may be wrong with the figures, and what to do about it


def findings_tables(session: Session) -> tuple[Table, ...]:
    """Returns the table of findings and of the session's notes, or nothing if there are none."""
    return warnings_tables(findings(session), session.notes)


def warnings_tables(found: Sequence[Finding], notes: Sequence[str]) -> tuple[Table, ...]:
    rows = [row for hint, group in findings_by_hint(found) for row in _rows(hint, group)]
    rows += [("this session", note) for note in notes]
    if not rows:
        return ()
    return (
        Table(
            title="Warnings",
            headers=("about", "warning, and what to do"),
            rows=tuple(rows),
            numeric=(False, False),
        ),
    )


def findings_by_hint(found: Iterable[Finding]) -> list[tuple[str, list[Finding]]]:
    """Returns the findings grouped by their hint, so that a hint for several findings is shown only once."""
    grouped: dict[str, list[Finding]] = {}
    for finding in found:
        grouped.setdefault(finding.hint, []).append(finding)
    return list(grouped.items())


def _rows(hint: str, found: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """Yields the rows of a group of findings. A hint for several findings has a separate row."""
    if len(found) == 1:
        yield found[0].about, f"{found[0].text} -> {hint}"
        return
    yield from ((finding.about, finding.text) for finding in found)
    yield "", f"-> {hint}"
