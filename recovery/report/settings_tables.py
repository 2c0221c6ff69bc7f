"""Builds the tables and notes that every report has: settings, host, servers, uncounted runs, findings and limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from recovery.analysis.warnings import findings
from recovery.model import Finding, Limits, Run, Session, Table
from recovery.report import fmt

_FINGERPRINTS = ("sha256", "fingerprint")
_FINGERPRINT_LENGTH = 12
"""Characters shown of a SHA-256, which are enough to distinguish two builds; report.json has all of it."""


def settings_and_host_tables(session: Session) -> tuple[Table, ...]:
    """Returns the tables of the settings and of the host."""
    return (_facts("Settings", session.settings), _facts("Host", session.environment))


def server_option_tables(session: Session) -> tuple[Table, ...]:
    return tuple(_server(version, said) for version, said in session.servers.items())


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
                "failed: the server did not come back, or not with all that it had promised; void: it did something "
                "else than what was asked.",
            ),
        ),
    )


def cold_cache_notes(runs: tuple[Run, ...], *, as_published: bool) -> tuple[str, ...]:
    """Returns the notes that prove how cold the starts were: what was left in the page cache after it was emptied."""
    notes = []
    emptied = [run for run in runs if run.cold_means]
    left = [run.resident_before_bytes for run in emptied if run.resident_before_bytes is not None]
    if left:
        most = fmt.size(max(left))
        notes.append(f"Bytes of the data directory found in the emptied cache before a start: {most} at most.")
    if len(left) < len(emptied) and not as_published:
        notes.append(f"Not proved to be cold, since the host does not tell: {len(emptied) - len(left)} starts.")
    return tuple(notes)


def runs_by_value(pairs: Iterable[tuple[str | int | None, int]]) -> dict[str | int, str]:
    """Returns the runs that share a value, such as `runs 1, 4, 5`, by that value. Values that are None, 0 or empty are
    left out."""
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
        rows=tuple(fmt.fact_row(key, value) for key, value in facts.items()),
        numeric=(False, False),
    )


def _server(version: str, said: Mapping[str, str]) -> Table:
    """Returns the table of a server. Option names keep the server's spelling, because readers look them up in its
    manual."""
    return Table(
        title=f"Server {version}",
        headers=("what", "value"),
        rows=tuple((key, _short(value) if key in _FINGERPRINTS else value or "(empty)") for key, value in said.items()),
        numeric=(False, False),
        notes=("@: the value in effect, asked from the server.",) if any(key.startswith("@") for key in said) else (),
    )


def _short(fingerprint: str) -> str:
    return fingerprint[:_FINGERPRINT_LENGTH]


# --- Findings: what may be wrong with the figures, and what to do about it


def findings_tables(session: Session) -> tuple[Table, ...]:
    """Returns the table of findings, or nothing if there are none."""
    found = findings_by_hint(session)
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


def findings_by_hint(session: Session) -> list[tuple[str, list[Finding]]]:
    """Returns the findings grouped by their hint, so that a hint for several findings is shown only once."""
    grouped: dict[str, list[Finding]] = {}
    for one in findings(session):
        grouped.setdefault(one.hint, []).append(one)
    return list(grouped.items())


def _rows(hint: str, found: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """Yields the rows of a group of findings. A hint for several findings has a separate row."""
    if len(found) == 1:
        yield found[0].about, f"{found[0].text} -> {hint}"
        return
    yield from ((one.about, one.text) for one in found)
    yield "", f"-> {hint}"


# --- Limits: the rates that each run really reached under them

Column = Callable[[Run], str]


def limit_columns(limits: Limits) -> dict[str, Column]:
    """Returns the columns for the limits that are set, and no others, because the page is narrow."""
    columns: dict[str, Column] = {}
    if limits.read_iops is not None:
        columns["reads/s"] = lambda run: fmt.count(_rounded(run.reads_per_s))
    if limits.read_bps is not None:
        columns["read/s"] = lambda run: fmt.size(_rounded(_bytes_per_s(run)))
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


def requests_definition(limits: Limits) -> str:
    if limits.read_iops is not None or limits.read_bps is not None:
        return "reads of the server's control group, as the limit counts them, before neighbours are merged"
    return "reads the device completed meanwhile"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _bytes_per_s(run: Run) -> float | None:
    """Returns bytes read per second, over the time in which they were counted: until the first answered query."""
    return None if run.read_bytes is None or not run.first_query_s else run.read_bytes / run.first_query_s


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)
