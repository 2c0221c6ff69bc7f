"""Contains `recovery analyze`, which shows where the starts in any server's error log spent their time.

It starts no server."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath

import click

from recovery.cli.options import table_option
from recovery.cli.output import write_json
from recovery.errors import InterruptedByUserError, UsageError, escape_control
from recovery.logs.error_log import error_text
from recovery.logs.log_analysis import LoggedStart, open_log, starts_in, starts_over
from recovery.logs.timestamps import parse_stamp
from recovery.model import Table, Version, can, parse_version
from recovery.mysqld.log_writer import LogWriter, find_log_writer, until_now
from recovery.phase_table import (
    UNNAMED,
    advice_on,
    is_upgrade,
    named_share,
    quiet_log_advice,
    seconds_by_name,
    what_happens_in,
)
from recovery.report import fmt
from recovery.report.startup_tables import grouped_phase_table
from recovery.report.text import WIDTH, paragraph, render_table

FORMAT = 1
_MICROSECONDS = re.compile(r"(\.\d{3})\d+")
_LIMITS = (
    " Look for a limit on its time (TimeoutStartSec of systemd, failureThreshold of a liveness probe) or on its memory."
)
_UPGRADED = " An upgrade happens once: the next start has none."
_UPGRADING = " An upgrade happens once, and is not to be killed."
_ROTATED = re.compile(
    r"(?P<base>.+?)(?:\.(?P<number>\d{1,3})|-(?P<date>20\d{6}(?:-?\d{1,10})?))?(?:\.(?:gz|xz|bz2))?",
    re.ASCII | re.DOTALL,
)
"""Names that logrotate gives."""
_LEFT_OUT, _MIN_NAME_WIDTH = "...", 9
_KINDS = {
    "position": "position: --wsrep-recover starts a server that recovers, logs its position for Galera, and ends.",
    "temporary": "temporary: the container's script starts a server to initialise the directory, and stops it.",
}
"""What is said of these kinds of starts."""
_UNFINISHED = ("cut", "failed")
"""Outcomes of starts that did not become ready."""


@dataclass(frozen=True)
class AnalyzedLog:
    name: str
    starts: tuple[LoggedStart, ...]
    writer: LogWriter | None = None
    """The server of the last start, as far as this user may see; None if that start is over, or the log is no file."""
    continues: str | None = None
    """The older file whose last start goes on in this one."""


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(path_type=Path, allow_dash=True))
@table_option("json")
def analyze(files: tuple[Path, ...], json_to: str | None) -> int:
    """Show where the time of every start in these error logs went, also of one that is under way. FILE may be
    compressed, or have the time stamps of kubectl, Docker or journald. Without FILE, or with -, the log is read from
    standard input."""
    if not files and sys.stdin is not None and sys.stdin.isatty():
        raise UsageError("no error log was given", "recovery analyze FILE..., or - for standard input")
    try:
        logs = _read_logs(files or (Path("-"),))
    except KeyboardInterrupt as error:
        raise InterruptedByUserError("interrupted", "the log was not read to its end") from error
    if not any(log.starts for log in logs):
        names = ", ".join(log.name for log in logs)
        hint = "give an error log of a server that includes its start"
        raise UsageError(f"no start of a server was found in {names}", hint)
    if not write_json(json_to, to_json(logs)):
        sys.stdout.write(logs_page(logs))
    return 0


def _read_logs(files: Sequence[Path]) -> list[AnalyzedLog]:
    logs = [AnalyzedLog(str(file), _read_log(file)) for file in files]
    last_files = {log.name: Path(log.name) for log in logs}
    for names in _rotated(files):
        _join_starts(logs, names, last_files)
    return [_with_writer(log, last_files[log.name]) for log in logs]


def _read_log(file: Path) -> tuple[LoggedStart, ...]:
    if str(file) == "-":
        if sys.stdin is None:
            raise UsageError("standard input is closed", "recovery analyze FILE...")
        return _by_line(starts_in(sys.stdin.buffer, "standard input"))
    with open_log(file) as opened:
        return _by_line(starts_in(opened, str(file)))


def _with_writer(log: AnalyzedLog, file: Path) -> AnalyzedLog:
    """Returns the log with the server that still writes it, if its last start is not over."""
    if log.name == "-" or not log.starts or not _is_open(log.starts[-1]):
        return log
    writer = find_log_writer(file, log.starts[-1])
    return replace(log, starts=(*log.starts[:-1], until_now(log.starts[-1], writer)), writer=writer)


def _is_open(start: LoggedStart) -> bool:
    """Returns whether the log ends within the start."""
    return start.outcome == "cut" and not start.ended_early


# --- A start that goes over the rotation of a log


def _rotated(files: Sequence[Path]) -> Iterator[list[str]]:
    """Yields the names of files that are parts of one log by their names, the oldest first."""
    parts: dict[str, list[tuple[tuple[str, int], str]]] = {}
    for file in dict.fromkeys(files):
        match = _ROTATED.fullmatch(str(file))
        if match is not None and file.is_file():  # a pipe cannot be read again
            age = (match["date"] or "9", -int(match["number"] or 0))
            parts.setdefault(match["base"], []).append((age, str(file)))
    yield from ([name for _, name in sorted(of_one)] for of_one in parts.values() if len(of_one) > 1)


def _join_starts(logs: list[AnalyzedLog], names: Sequence[str], last_files: dict[str, Path]) -> None:
    """Puts the parts of each start together that goes over the end of one of these files."""
    at = {log.name: number for number, log in enumerate(logs)}
    for number, name in enumerate(names):
        older, parts = logs[at[name]], [name]
        for end, next_name in enumerate(names[number + 1 :], number + 2):
            after = logs[at[next_name]].starts
            if after and not _goes_on(older.starts, after):
                break
            if after:  # a file between may have no line that shows a start
                parts = list(names[number:end])
            if len(after) > 1 or (after and not _is_open(after[0])):
                break
        if len(parts) == 1:
            continue
        with ExitStack() as stack:
            opened = [(stack.enter_context(open_log(Path(part))), part) for part in parts]
            joined = next((start for start in starts_over(opened) if start.line == older.starts[-1].line), None)
        if joined is None:
            continue  # the file is another one by now
        logs[at[name]] = replace(older, starts=(*older.starts[:-1], joined))
        last_files[name] = Path(parts[-1])
        for part in parts[1:]:
            logs[at[part]] = replace(logs[at[part]], starts=logs[at[part]].starts[1:], continues=name)


def _goes_on(before: Sequence[LoggedStart], after: Sequence[LoggedStart]) -> bool:
    """Returns whether the last start of a file may go on with the first one of the next."""
    if not before or not after or not _is_open(before[-1]):
        return False
    start, rest = before[-1], after[0]
    begun, went_on = parse_stamp(start.at or ""), parse_stamp(rest.at or "")
    is_other = None not in (start.version, rest.version) and start.version != rest.version
    if is_other or not rest.begins_before:
        return False
    return begun is not None and went_on is not None and begun.at_s <= went_on.at_s


def _by_line(starts: Iterable[LoggedStart]) -> tuple[LoggedStart, ...]:
    """Returns the starts in the order of their first lines. Those of one server may be found before those of another
    that began earlier."""
    return tuple(sorted(starts, key=lambda start: start.line))


def to_json(logs: Sequence[AnalyzedLog]) -> dict[str, object]:
    return {
        "format": FORMAT,
        "logs": [{"log": log.name, "starts": [_start_to_dict(start) for start in log.starts]} for log in logs],
    }


def _start_to_dict(start: LoggedStart) -> dict[str, object]:
    seconds = {name: round(value, 6) for name, value in seconds_by_name(start.phases).items()}
    return {**asdict(start), "named_share": named_share(start.phases), "seconds": seconds}


# --- The answer


def logs_page(logs: Sequence[AnalyzedLog]) -> str:
    """Returns the answer of each log, and one table of all starts, so that those of several logs are side by side."""
    names = _short_names([log.name for log in logs])
    answers = []
    for name, log in zip(names, logs, strict=True):
        text = log_answer(log.starts, log.writer) if log.starts else _no_start_text(log)
        lines = paragraph(text if len(logs) == 1 else f"{name}: {text}")
        answers.append("\n".join((*lines, *_follow_lines(log), *advice_lines(log.starts))))
    count = fmt.count_text(sum(len(log.starts) for log in logs), "start")
    title = f"{logs[0].name}: {count}" if len(logs) == 1 else f"{count} in {fmt.count_text(len(logs), 'log')}"
    keys = ("log", "#")[len(logs) == 1 :]
    found = _rows_of_starts(logs, names)
    if len(logs) > 1:
        bare = _overview_table(title, keys, _rows_of_starts(logs, ["log"] * len(logs)))
        found = _rows_of_starts(logs, _cut_names(names, WIDTH - fmt.narrowest_width(bare, gap=1) + len("log")))
    tables = [_overview_table(title, keys, found), _phase_table(keys, found), _count_table(keys, found)]
    return "\n\n".join([*answers, *(render_table(table) for table in tables if table is not None)]) + "\n"


def _no_start_text(log: AnalyzedLog) -> str:
    if log.continues is not None:
        return f"the last start of {PurePath(log.continues).name} goes on here, and is counted there"
    return "no start of a server was found"


def _rows_of_starts(logs: Sequence[AnalyzedLog], names: Sequence[str]) -> _Found:
    return [
        ((name, str(number))[len(logs) == 1 :], start)
        for name, log in zip(names, logs, strict=True)
        for number, start in enumerate(log.starts, 1)
    ]


def _cut_names(names: Sequence[str], width: int) -> Sequence[str]:
    """Returns the names without their middles, ends or beginnings where they are wider than `width`, or unchanged if
    they would not differ then."""
    for at in (0.5, 1.0, 0.0) if width > _MIN_NAME_WIDTH else ():
        cut = [_shortened(name, width, at) for name in names]
        if len(set(cut)) == len(set(names)):
            return cut
    return names


def _shortened(name: str, width: int, at: float) -> str:
    """Returns the name with a part left out if it is longer than `width`: its beginning (0), its middle or its end
    (1)."""
    if len(name) <= width:
        return name
    head = int((width - len(_LEFT_OUT)) * at)
    return f"{name[:head]}{_LEFT_OUT}{name[len(name) - (width - len(_LEFT_OUT) - head) :]}"


def _short_names(names: Sequence[str]) -> list[str]:
    """Returns the names without the folder that all logs share."""
    files = [PurePath(os.path.abspath(name)) for name in names if name != "-"]  # noqa: PTH100 - links are kept
    if not files:
        return list(names)
    common = PurePath(os.path.commonpath([file.parent for file in files]))
    if common == PurePath(common.anchor):  # a path without its first / would be another one
        return [escape_control(name) for name in names]
    short = iter(str(file.relative_to(common)) for file in files)
    return [name if name == "-" else escape_control(next(short)) for name in names]


def log_answer(starts: Sequence[LoggedStart], writer: LogWriter | None = None) -> str:
    """Returns how many starts ended before they were ready and why, then what the last start does if it is not ready,
    else what took the slowest start its time."""
    early = [start for start in starts if start.ended_early]
    sentences = [_early_sentence(starts, early)] if early else []
    last = starts[-1]
    if last.ended_early:
        return sentences[0]
    return " ".join(
        [*sentences, _last_sentence(last, writer) if last.outcome in _UNFINISHED else _slowest_sentence(starts)]
    )


def _early_sentence(starts: Sequence[LoggedStart], early: Sequence[LoggedStart]) -> str:
    many = len(early)
    they, each = ("they were", " each") if many > 1 else ("it was", "")
    return (
        f"{_which(starts, many)} ended before {they} ready{_when(early, each)}{_where(early)}: "
        f"{_reason(early, again=many > 1 and starts[-1].outcome in _UNFINISHED)}."
        f"{'' if any(start.reason for start in early) else _LIMITS}"
    )


def _which(starts: Sequence[LoggedStart], many: int) -> str:
    """Returns the starts that ended early as the subject of a sentence."""
    if not all(start.ended_early for start in starts[-many:]):
        return fmt.count_text(many, "start")
    if many == len(starts):
        return ("The only start", "Both starts")[many - 1] if many < 3 else f"All {many:,} starts"
    return f"The last {many:,} starts" if many > 1 else "The last start"


def _when(early: Sequence[LoggedStart], each: str) -> str:
    """Returns the time after which starts ended. Without a line about the end, a server ran at least until its last
    line, and at most until the next start."""
    times = [start.startup_s for start in early if start.startup_s is not None]
    if not times:
        return ""
    whole = any(start.whole_seconds for start in early)
    if not any(_is_silent(start) for start in early):
        return f", after {fmt.time_span(min(times), max(times), whole=whole)}{each}"
    most_s = max(start.next_after_s or 0.0 for start in early)
    least, most = (fmt.time_span(seconds, whole=whole) for seconds in (min(times), most_s))
    return f", after at least {least} and at most {most}{each}"


def _is_silent(start: LoggedStart) -> bool:
    """Returns whether the next start begins so long after the last line that the server may have run much longer."""
    if start.end_logged or start.startup_s is None or start.next_after_s is None:
        return False
    return start.next_after_s - start.startup_s > max(1.0, 0.05 * start.startup_s)


def _where(early: Sequence[LoggedStart]) -> str:
    """Returns the phase that all of them ended in, if it has a name."""
    phases = {start.phase for start in early}
    return f", in {phases.pop()}" if len(phases) == 1 and not phases & {None, UNNAMED} else ""


def _reason(early: Sequence[LoggedStart], *, again: bool) -> str:
    """Returns the reason that the log gives most often."""
    reasons = Counter(_reason_text(start.reason) for start in early if start.reason is not None)
    if not reasons:
        return "something kills the server" if again else "something killed the server"
    (reason, count), *_ = reasons.most_common(1)
    return reason if count == len(early) else f"{reason} ({count:,} of {len(early):,})"


def _reason_text(reason: str) -> str:
    """Returns a reason without its time stamp, which differs from start to start, and without its full stop."""
    return error_text(reason).rpartition("UTC - ")[2].rstrip(" .;")


def _last_sentence(last: LoggedStart, writer: LogWriter | None) -> str:
    after = "" if last.startup_s is None else f" after {_duration_text(last)}"
    where = _standing_text(last)
    what = "failed" if last.outcome == "failed" else "is not ready"
    why = last.waits_for or last.reason
    reason = f": {_reason_text(why)}" if why else ""
    return f"The last start {what}{after}{where}{reason}{_writer_text(writer)}.{_further_text(last, last.phase)}"


def _standing_text(start: LoggedStart) -> str:
    return f", in {start.standing}" if start.standing and start.phase != UNNAMED else ""


def _writer_text(writer: LogWriter | None) -> str:
    if writer is None:
        return ""
    if writer.pid is not None:
        return f"; the server (pid {writer.pid}) is {'stopped by a signal' if writer.stopped else 'still running'}"
    if writer.successor is not None:
        return f"; another server (pid {writer.successor}) has the log open now"
    if writer.hidden:
        return "; whether its server is still running can be seen as root or as the server's user"
    return "; no server that this user can see has the log open"


def _slowest_sentence(starts: Sequence[LoggedStart]) -> str:
    ready = [(number, start) for number, start in enumerate(starts, 1) if start in _ready_starts(starts)]
    number, slow = max(ready, key=lambda numbered: numbered[1].startup_s or 0.0)
    others = str(len(starts)) if len(ready) == len(starts) else f"the {len(ready)} that became ready"
    which = took = f"Start {number} is the slowest of {others}: " if len(ready) > 1 else ""
    if len(ready) == 1 < len(starts):
        which, took = f"Start {number} became ready: ", f"Start {number} became ready after "
    seconds = seconds_by_name(slow.phases)
    if slow.startup_s is None or not (whole := sum(seconds.values())):
        return f"{which}{_no_time_text(slow)}."
    phase = max(seconds, key=lambda name: seconds[name])
    does = what_happens_in(
        phase,
        _version_of(slow),
        crashed={"crash": True, "clean": False, "initialize": False}.get(slow.kind),
    )
    why = f": {slow.version or 'the server'} {does}" if does else ""
    return (
        f"{took}{_duration_text(slow)}; {100 * seconds[phase] / whole:.0f} % {phase}{why}.{_further_text(slow, phase)}"
    )


def _ready_starts(starts: Sequence[LoggedStart]) -> list[LoggedStart]:
    """Returns the starts that became ready. One that made a new data directory counts only if there is no other."""
    ready = [start for start in starts if start.outcome not in _UNFINISHED]
    return [start for start in ready if start.kind != "initialize"] or ready


def _further_text(start: LoggedStart, phase: str | None) -> str:
    """Returns what else to know of a start that took most of its time in this phase, or is still in it."""
    if phase is not None and is_upgrade(phase):
        return _UPGRADING if start.outcome in _UNFINISHED else _UPGRADED
    advice = quiet_log_advice(phase.name for phase in start.phases)
    return f" {advice}" if advice else ""


def _no_time_text(start: LoggedStart) -> str:
    """Returns why no seconds are known of a start that became ready."""
    if start.startup_s is not None and start.whole_seconds:
        return "Less than 1 s, by timestamps of whole seconds: no phase can be told"
    if start.clock_set:
        return "Its time is not known: the clock was set meanwhile, by its timestamps"
    begun = start.startup_s is None and start.at is not None
    return f"Its time is not known: the log {'begins within it' if begun else 'has too few timestamps'}"


def _follow_lines(log: AnalyzedLog) -> Iterator[str]:
    if log.writer is not None and log.writer.pid is not None and not log.writer.stopped:
        yield f"how long still: recovery watch {log.writer.pid}"


def advice_lines(starts: Sequence[LoggedStart]) -> Iterator[str]:
    """Yields where the documentation says what may have killed the server, and what shortens its start."""
    killed = any(start.ended_early and start.outcome == "cut" for start in starts)
    if killed:
        yield "what limits it: recovery docs shorten#killed-starts"
    advice = _advice_of(starts)
    if advice is not None and not (killed and advice == advice_on(UNNAMED)):
        yield f"what shortens it: {advice}"


def _advice_of(starts: Sequence[LoggedStart]) -> str | None:
    """Returns where the documentation says what shortens the phase that the answer names; None if it names none."""
    if not starts or starts[-1].outcome == "failed" or starts[-1].waits_for is not None:
        return None
    if starts[-1].outcome in _UNFINISHED:
        return advice_on(starts[-1].phase, _version_of(starts[-1])) if starts[-1].phase else None
    slow = max(_ready_starts(starts), key=lambda start: start.startup_s or 0.0)
    seconds = seconds_by_name(slow.phases)
    return advice_on(max(seconds, key=lambda name: seconds[name]), _version_of(slow)) if seconds else None


def _version_of(start: LoggedStart) -> Version | None:
    return parse_version(start.version) if start.version else None


def _duration_text(start: LoggedStart) -> str:
    return fmt.time_span(start.startup_s or 0.0, whole=start.whole_seconds)


# --- Tables

_Found = Sequence[tuple[tuple[str, ...], LoggedStart]]
"""Starts with the cells that identify them: the log, if there are several, and the number."""


def _overview_table(title: str, keys: tuple[str, ...], found: _Found) -> Table:
    notes = ["startup: seconds from the first line of a start to its ready line, by the server's own timestamps."]
    notes += _script_notes(found)
    notes += _container_notes(found)
    untold = [parse_version(start.version) if start.version else None for _, start in found if start.kind == "not told"]
    if untold:
        quiet = any(version is None or can(version, "data_dictionary") for version in untold)
        by_default = "; 8.0 and later say it at --log-error-verbosity=3" if quiet else ""
        notes.append(f"not told: the log does not say whether it was a crash{by_default}.")
    notes += [text for kind, text in _KINDS.items() if any(start.kind == kind for _, start in found)]
    if set_in := [" ".join(key) for key, start in found if start.clock_set]:
        notes.append(f"{', '.join(set_in)}: the timestamps show that the clock was set, so the time is not known.")
    notes += _unfinished_notes(found)
    return Table(
        title=title,
        headers=(*keys, "line", "at", "server", "start", "startup", "end"),
        rows=tuple(
            (
                *key,
                str(start.line),
                _MICROSECONDS.sub(r"\1", start.at or fmt.ABSENT),
                start.version or fmt.ABSENT,
                start.kind,
                _startup_text(start),
                "running" if start.running_pid is not None else start.outcome,
            )
            for key, start in found
        ),
        numeric=(*(key == "#" for key in keys), True, False, False, False, True, False),
        notes=tuple(notes),
        keys=len(keys),
    )


def _startup_text(start: LoggedStart) -> str:
    if start.startup_s is not None and start.whole_seconds:
        return f"{start.startup_s:.0f}"
    return fmt.seconds(start.startup_s)


def _script_notes(found: _Found) -> Iterator[str]:
    """Yields the time before the servers' own first lines, if it is a second or more."""
    times = [start.script_s for _, start in found if start.script_s is not None and start.script_s >= 1.0]
    if times:
        most = f"{'up to ' if len(times) > 1 else ''}{fmt.time_span(max(times), whole=True)}"
        yield f"Not in startup: mysqld_safe or the container's script ran {most} before the server's first line."


def _container_notes(found: _Found) -> Iterator[str]:
    """Yields which starts are of which container, if a log has several."""
    by_log: dict[tuple[str, ...], dict[str, list[int]]] = {}
    for (*log, number), start in found:
        if start.container is not None:
            by_log.setdefault(tuple(log), {}).setdefault(start.container, []).append(int(number))
    for names, containers in by_log.items():
        for container, numbers in containers.items() if len(containers) > 1 else ():
            yield f"{' '.join((*names, fmt.number_ranges(numbers)))}: {escape_control(container)}."


def _unfinished_notes(found: _Found) -> Iterator[str]:
    """Yields why starts did not become ready, each reason once for all starts of a log that have it."""
    numbers: dict[tuple[tuple[str, ...], str], list[int]] = {}
    for (*log, number), start in found:
        if start.outcome in _UNFINISHED:
            numbers.setdefault((tuple(log), _unfinished_text(start)), []).append(int(number))
    for (names, text), same in numbers.items():
        yield f"{' '.join((*names, fmt.number_ranges(same)))}: {text}."


def _unfinished_text(start: LoggedStart) -> str:
    where = _standing_text(start)
    if start.running_pid is not None:
        return f"the server (pid {start.running_pid}) has not ended{where}; its seconds run until now"
    if start.outcome == "failed":
        what = "it failed"
    else:
        what = "the server ended before it was ready" if start.ended_early else "the log ends before it is ready"
    why = start.waits_for or start.reason
    return f"{what}{where}{f': {_reason_text(why)}' if why else ''}"


def _phase_table(keys: tuple[str, ...], found: _Found) -> Table | None:
    further = ("server", "start") if len(keys) == 1 else ()  # several logs leave no room for what the overview shows
    rows = [
        ((*key, *(start.version or fmt.ABSENT, start.kind)[: len(further)]), [start.phases])
        for key, start in found
        if start.phases
    ]
    if not rows:
        return None
    notes = list(_background_notes(found))
    if any(start.whole_seconds for _, start in found):
        notes.append("The timestamps are whole seconds, and so are the phases of these starts.")
    return grouped_phase_table("Phases of the start, seconds", (*keys, *further), rows, notes=tuple(notes))


def _background_notes(found: _Found) -> Iterator[str]:
    for key, start in found:
        for phase in start.beside:
            yield f"{' '.join(key)}: at the same time, {phase.name} took {fmt.seconds(phase.end_s - phase.start_s)} s."


def _count_table(keys: tuple[str, ...], found: _Found) -> Table | None:
    rows = tuple(
        (*key, fmt.words(name), fmt.count(count)) for key, start in found for name, count in start.counts.items()
    )
    if not rows:
        return None
    return Table(
        "What the log counts",
        (*keys, "what", "count"),
        rows,
        (*(key == "#" for key in keys), False, True),
        keys=len(keys),
    )
