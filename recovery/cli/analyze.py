"""Contains `recovery analyze`, which shows where the starts in any server's error log spent their time.

It starts no server."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from recovery.analysis.phase_names import DOES, JOIN, named_share, seconds_by_name
from recovery.cli.options import table_option
from recovery.cli.output import write_json
from recovery.errors import UsageError, escape_control
from recovery.model import Table
from recovery.mysqld.log_analysis import LoggedStart, open_log, starts_in
from recovery.report import fmt
from recovery.report.startup_tables import grouped_phase_table
from recovery.report.text import paragraph, render_table

FORMAT = 1
_UNFINISHED = ("cut", "failed")
"""Outcomes of starts that did not become ready."""


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(path_type=Path, allow_dash=True))
@table_option("json")
def analyze(files: tuple[Path, ...], json_to: str | None) -> int:
    """Show where the time of every start in these error logs went. FILE may be compressed. Without FILE, or with -, the
    log is read from standard input."""
    if not files and sys.stdin is not None and sys.stdin.isatty():
        raise UsageError("no error log was given", "recovery analyze FILE..., or - for standard input")
    files = files or (Path("-"),)
    found = [(str(file), list(_read_starts(file))) for file in files]
    if not any(starts for _, starts in found):
        names = ", ".join(name for name, _ in found)
        hint = "give an error log of a server that includes its start"
        raise UsageError(f"no start of a server was found in {names}", hint)
    if not write_json(json_to, to_json(found)):
        sys.stdout.write("\n".join(log_page(name, starts) for name, starts in found))
    return 0


def _read_starts(file: Path) -> Iterator[LoggedStart]:
    if str(file) == "-":
        if sys.stdin is None:
            raise UsageError("standard input is closed", "recovery analyze FILE...")
        yield from starts_in(sys.stdin.buffer, "standard input")
        return
    with open_log(file) as log:
        yield from starts_in(log, str(file))


def to_json(found: Sequence[tuple[str, Sequence[LoggedStart]]]) -> dict[str, object]:
    return {
        "format": FORMAT,
        "logs": [{"log": name, "starts": [_start_to_dict(start) for start in starts]} for name, starts in found],
    }


def _start_to_dict(start: LoggedStart) -> dict[str, object]:
    seconds = {name: round(value, 6) for name, value in seconds_by_name(start.phases).items()}
    return {**asdict(start), "named_share": named_share(start.phases), "seconds": seconds}


def log_page(name: str, starts: Sequence[LoggedStart]) -> str:
    if not starts:
        return f"{escape_control(name)}: no start of a server was found\n"
    tables = [_overview_table(name, starts), _phase_table(starts), _count_table(starts)]
    texts = [render_table(table) for table in tables if table is not None]
    return "\n\n".join(["\n".join(paragraph(log_answer(starts))), *texts]) + "\n"


def log_answer(starts: Sequence[LoggedStart]) -> str:
    """Returns in a sentence what the last start does if it is not ready, else what took the slowest start its time."""
    last = starts[-1]
    if last.outcome in _UNFINISHED:
        after = "" if last.startup_s is None else f" after {_duration_text(last.startup_s)}"
        where = f", in {last.standing}" if last.standing else ""
        what = "failed" if last.outcome == "failed" else "is not ready"
        return f"The last start {what}{after}{where}{f': {last.reason}' if last.reason else ''}."
    number, slow = max(enumerate(starts, 1), key=lambda one: one[1].startup_s or 0.0)
    which = f"Start {number} is the slowest of {len(starts)}: " if len(starts) > 1 else ""
    seconds = seconds_by_name(slow.phases)
    if slow.startup_s is None or not (whole := sum(seconds.values())):
        return f"{which}Its time is not known: the log has too few timestamps."
    phase = max(seconds, key=lambda name: seconds[name])
    does = DOES.get(phase.partition(JOIN)[0])
    why = f": {slow.version or 'the server'} {does}" if does else ""
    return f"{which}{_duration_text(slow.startup_s)}; {seconds[phase] / whole:.0%} {phase}{why}."


def _duration_text(seconds: float) -> str:
    return f"{fmt.seconds(seconds)} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _overview_table(name: str, starts: Sequence[LoggedStart]) -> Table:
    notes = ["startup: seconds from the first line of a start to its ready line, by the server's own timestamps."]
    if any(start.kind == "not told" for start in starts):
        notes.append(
            "not told: the log does not say whether it was a crash; 8.0 and later say it at --log-error-verbosity=3."
        )
    notes += _unfinished_notes(starts)
    return Table(
        title=f"{name}: {len(starts)} start{'s' if len(starts) > 1 else ''}",
        headers=("#", "line", "at", "server", "start", "startup", "end"),
        rows=tuple(
            (
                str(number),
                str(start.line),
                start.at or fmt.ABSENT,
                start.version or fmt.ABSENT,
                start.kind,
                _startup_text(start),
                start.outcome,
            )
            for number, start in enumerate(starts, 1)
        ),
        numeric=(True, True, False, False, False, True, False),
        notes=tuple(notes),
    )


def _startup_text(start: LoggedStart) -> str:
    if start.startup_s is not None and start.whole_seconds:
        return f"{start.startup_s:.0f}"
    return fmt.seconds(start.startup_s)


def _unfinished_notes(starts: Sequence[LoggedStart]) -> Iterator[str]:
    for number, start in enumerate(starts, 1):
        if start.outcome in _UNFINISHED:
            where = f", in {start.standing}" if start.standing else ""
            what = "the log or the server ends before it is ready" if start.outcome == "cut" else "it failed"
            yield f"{number}: {what}{where}{f': {start.reason}' if start.reason else ''}."


def _phase_table(starts: Sequence[LoggedStart]) -> Table | None:
    rows = [
        ((str(number), start.version or fmt.ABSENT, start.kind), [start.phases])
        for number, start in enumerate(starts, 1)
        if start.phases
    ]
    if not rows:
        return None
    notes = list(_background_notes(starts))
    if any(start.whole_seconds for start in starts):
        notes.append("The timestamps are whole seconds, and so are the phases of these starts.")
    return grouped_phase_table("Phases of the start, seconds", ("#", "server", "start"), rows, notes=tuple(notes))


def _background_notes(starts: Sequence[LoggedStart]) -> Iterator[str]:
    for number, start in enumerate(starts, 1):
        for phase in start.beside:
            yield f"{number}: at the same time, {phase.name} took {fmt.seconds(phase.end_s - phase.start_s)} s."


def _count_table(starts: Sequence[LoggedStart]) -> Table | None:
    rows = tuple(
        (str(number), fmt.words(name), fmt.count(count))
        for number, start in enumerate(starts, 1)
        for name, count in start.counts.items()
    )
    if not rows:
        return None
    return Table("What the log counts", ("#", "what", "count"), rows, (True, False, True))
