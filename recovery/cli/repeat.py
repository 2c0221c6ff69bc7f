"""Measures the same session several times (REPEAT=), and contains `recovery repeat`.

Each is a session like any other. The host is locked only while one is measured, and stored sessions are the only state:
the same command goes on after whatever ended it."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from recovery.analysis.basis import time_of
from recovery.analysis.combined import CombinedSession
from recovery.analysis.compare import cells_without_interval, judge_baseline
from recovery.analysis.statistics import MIN_SESSIONS
from recovery.cli.completion import complete_session
from recovery.cli.measure import (
    Ended,
    Shown,
    confirm_commands,
    exit_code,
    measure,
    request_to_repeat,
    request_to_resume,
    run_and_show,
)
from recovery.cli.measuring_command import MeasuringCommand
from recovery.cli.options import BY_NAME, DEFAULT_RESULTS, Option, repeat_command, table_option
from recovery.cli.output import duration_words, print_line, refuse_over, write_json
from recovery.cli.plan_text import announce
from recovery.cli.progress_view import STRONG, Line, Screen
from recovery.cli.report import load_sessions
from recovery.errors import InterruptedByUserError, RecoveryError, UsageError
from recovery.linux.privileges import refuse_steps
from recovery.report.console import ReportConsole, program_name, show_sessions
from recovery.report.exports import render_as, render_sessions
from recovery.session.repeat import NotDueError, due_at, find_first, sessions_of
from recovery.session.request import Request
from recovery.session.resume import Unfinished, sweep_results

_MAX_SLEEP_S = 30.0
"""The clock is read again after so long: the host may sleep meanwhile, or its clock be set."""
_NO_WAIT = "the sessions follow each other: those of one hour do not show how much days differ"


class WallClock:
    """The time of day, and how to wait for a later one."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True)
class Series:
    """How often a session is measured, and in what intervals."""

    times: int
    """Number of sessions in all."""
    every_s: float | None
    """From the start of a session to that of the next. None: each begins when the one before has ended."""

    @property
    def words(self) -> str:
        if self.times == 1:
            return "one session"
        wait = "one after the other" if self.every_s is None else f"{duration_words(self.every_s)} from start to start"
        return f"{self.times} sessions, {wait}"


# --- Measuring commands with REPEAT=


def measure_sessions(command: MeasuringCommand, given: dict[str, Any]) -> int:
    """Runs a measuring command: one session, or as many as REPEAT= says."""
    series = series_of(given)
    if series is None:
        return measure(command, given)
    if series.times < MIN_SESSIONS and given.get("fail_over") is not None:
        raise UsageError(
            f"{series.times} sessions and --fail-over cannot be combined: it is judged over at least {MIN_SESSIONS}",
            f"measure {MIN_SESSIONS}, or one",
            option="repeat",
        )
    code = measure(command, given, partial(_measure_first, series=series))
    if given["dry_run"]:
        print_line(f"This is one session. --repeat {series.times} measures {series.words}.")
    return code


def series_of(given: Mapping[str, Any]) -> Series | None:
    """Returns how often to measure by the options of a measuring command; None for one session."""
    times, every_s = (BY_NAME[name].value_of(given[name]) for name in ("repeat", "repeat_every"))
    if times is None and every_s is not None:
        raise UsageError(
            "it has no effect without --repeat", "give the number of sessions: --repeat 3", option="repeat_every"
        )
    return None if times is None or times == 1 else Series(times, every_s)


def _measure_first(request: Request, shown: Shown, series: Series) -> int:
    say = _say(shown)
    say(f"{series.words}:")
    with refuse_steps(request.method.refused):
        announce([request], say, yes=shown.yes, times=series.times)
    # All has been asked: nobody may be there when the next session is due.
    shown = replace(shown, yes=True)
    ended = run_and_show(request, shown, is_announced=True, in_series=True)
    if ended.folder is None:
        ended.result()
    assert ended.folder is not None, "a session that has ended without an error is stored"
    return _measure_rest(ended.folder, series, shown, ended=ended)


# --- recovery repeat


def _own_option(flag: str, name: str, text: str) -> Callable[[Any], Any]:
    """Returns the decorator of an option that takes the variable of a row of the table."""
    option = BY_NAME[name]
    return click.option(flag, name, envvar=option.variable, metavar=option.metavar, help=text)


@click.command("repeat")
@click.argument("session", required=False, shell_complete=complete_session)
@_own_option("--times", "repeat", "Number of sessions in all, with those that are stored. [default: one more]")
@_own_option(
    "--every",
    "repeat_every",
    "Time from the start of a session to that of the next, like 6h or 1d; a time that was missed is not made up for.",
)
@table_option("results")
@table_option("yes")
@table_option("quiet")
@table_option("verbose")
@table_option("json")
def repeat(
    session: str | None,
    repeat: str | None,
    repeat_every: str | None,
    results: Path,
    **given: Any,
) -> int:
    """Measure a stored session again, over the same data directories: SESSION (a name in --results, or a folder), or
    the newest. All of its sessions are then reported together.

    Settings and servers stay the same, and each session has its own random order. A session that ended early is resumed
    first. One with failed runs counts as measured, and the next one follows; an error that ends a session ends the
    command, too. The same command then goes on."""
    shown = Shown(**given)
    times, every_s = _value("--times", "repeat", repeat), _value("--every", "repeat_every", repeat_every)
    sweep_results(results.absolute())
    first = find_first(results.absolute(), session)
    found = sessions_of(first)
    planned = found[0].plan("repeated")
    confirm_commands([(planned.command, first.name)], yes=shown.yes, verb="repeat")
    ended = sum(stored.has_ended for stored in found)
    return _measure_rest(first, Series(times or ended + 1, every_s), shown)


def _value(flag: str, name: str, text: str | None) -> Any:
    """Returns the value of an option, which has another flag here than with a measuring command."""
    try:
        return BY_NAME[name].value_of(text)
    except UsageError as error:
        error.option = f"{flag} / {name.upper()}"
        raise


# --- The sessions of one measurement


def _measure_rest(first: Path, series: Series, shown: Shown, *, ended: Ended | None = None) -> int:
    """Measures the sessions that are missing, and shows the report over all. `ended` is the first one, if it has just
    been measured."""
    goes_on, say = _command(first, series), _say(shown)
    try:
        if ended is not None:
            ended.result()
        say(f"{series.words}; `{goes_on}` goes on if this ends early")
        request, found = _measure_missing(first, series, shown, say, asks=ended is None)
    except (KeyboardInterrupt, InterruptedByUserError) as error:
        stored = sum(kept.has_ended for kept in sessions_of(first))
        hint = f"{stored} of {series.times} sessions are stored; `{goes_on}` goes on"
        raise InterruptedByUserError(str(error) or "interrupted", hint) from error
    return _show(found, request, shown)


def _say(shown: Shown) -> Callable[[str], None]:
    """Returns what prints a line about the progress, and nothing with --quiet."""
    return (lambda _: None) if shown.quiet else partial(print_line, err=True)


def _command(first: Path, series: Series) -> str:
    """Returns the command that measures what is missing, whatever ended this one."""
    results = {} if first.parent == DEFAULT_RESULTS.absolute() else {"results": first.parent}
    every = [] if series.every_s is None else ["--every", _every_text(series.every_s)]
    words = ["--times", str(series.times), *every, first.name]
    return f"{program_name()}{repeat_command('repeat', results, (BY_NAME['results'],)).removeprefix('recovery')} " + (
        shlex.join(words)
    )


def _every_text(every_s: float) -> str:
    option: Option = BY_NAME["repeat_every"]
    return str(every_s) if option.text is None else str(option.text(every_s))


def _measure_missing(
    first: Path, series: Series, shown: Shown, say: Callable[[str], None], *, asks: bool
) -> tuple[Request, tuple[Unfinished, ...]]:
    """Measures until there are as many sessions as are wanted, and returns the request for one of them, and all of
    them. With `asks` the user may say that this takes too long."""
    clock, resumed = WallClock(), set[str]()
    found = sessions_of(first)
    request = request_to_repeat(found[0])
    began_at: datetime | None = None
    if len(found) < series.times and series.every_s is None:
        say(_NO_WAIT)
    if len(found) < series.times and asks:
        with refuse_steps(request.method.refused):
            announce([request], say, yes=shown.yes, times=series.times - len(found))
    # Nobody may be there later: what is due waits for another timed run instead of giving up.
    later = replace(shown, yes=True, wait=True)

    def is_due() -> bool:
        """Returns whether nothing was measured since it was decided what is: the same command may run twice."""
        return _stored(sessions_of(first)) == _stored(found)

    while True:
        left = next((stored for stored in found if not stored.has_ended and stored.folder.name not in resumed), None)
        if left is not None:
            # It may still be running. Then this waits for the lock of the host, and it is not due any more.
            before, began_at = began_at, clock.now()
            try:
                run_and_show(request_to_resume(left), later, left, in_series=True, is_due=is_due).result()
            except NotDueError:
                began_at = before
            else:
                resumed.add(left.folder.name)
        elif len(found) < series.times:
            last_began = began_at or time_of(found[-1].session.started_at) or clock.now()
            _wait_until(due_at(last_began, series.every_s, clock.now()), found, series, clock, say, quiet=shown.quiet)
            say(f"session {len(found) + 1} of {series.times}, which repeats {first.name}")
            began_at = None
            # Made anew each time, with a seed of its own.
            with suppress(NotDueError):
                run_and_show(
                    request_to_repeat(found[0]), later, first=found[0],
                    is_announced=True, in_series=True, is_due=is_due,
                ).result()  # fmt: skip
        else:
            return request, found
        found = sessions_of(first)


def _stored(found: Sequence[Unfinished]) -> list[tuple[str, bool]]:
    return [(stored.folder.name, stored.has_ended) for stored in found]


def _wait_until(
    due: datetime,
    found: Sequence[Unfinished],
    series: Series,
    clock: WallClock,
    say: Callable[[str], None],
    *,
    quiet: bool,
) -> None:
    """Waits without the lock of the host, and shows until when."""

    def text() -> str:
        left_s = max(0.0, (due - clock.now()).total_seconds())
        what = f"session {len(found) + 1} of {series.times} begins at {due:%Y-%m-%d %H:%M:%S} UTC"
        return f"{what}, in {duration_words(left_s)}"

    if clock.now() >= due:
        return
    screen = Screen(None if quiet else sys.stderr)
    if not screen.live:
        say(text())
    try:
        with screen.restored_when_suspended():
            while (left_s := (due - clock.now()).total_seconds()) > 0:
                screen.draw([Line(text(), STRONG)])
                clock.sleep(min(left_s, _MAX_SLEEP_S))
    finally:
        screen.clear()


def _show(found: Sequence[Unfinished], request: Request, shown: Shown) -> int:
    """Prints the report over all sessions, or its JSON, and returns the exit code. A limit of FAIL_OVER= is one of all
    sessions together, unlike what each of them must have: its runs, its precision, starts that are short enough."""
    if len(found) == 1:
        write_json(shown.json_to, render_as(found[0].folder, "json"))
        return exit_code(request, found[0].session)
    combined = load_sessions(stored.folder for stored in found)
    if not write_json(shown.json_to, render_sessions(combined, "json")):
        show_sessions(combined, found[0].folder.parent, ReportConsole(), verbose=shown.verbose)
    of_each = replace(request, output=replace(request.output, fail_over=None))
    codes, errors = [0], []
    for stored in found:
        try:
            codes.append(exit_code(of_each, stored.session))
        except RecoveryError as error:
            errors.append(type(error)(f"{stored.folder.name}: {error.message}", error.hint))
    if errors:
        raise errors[0]
    if not any(codes) and request.output.fail_over is not None:
        check_fail_over(combined, request.output.fail_over)
    return max(codes)


def check_fail_over(combined: CombinedSession, allowed: float) -> None:
    """Raises LimitExceededError if a version is slower than the baseline by more than allowed, over all
    sessions; UsageError if they cannot say it."""
    many = len(combined.parts)
    if many < MIN_SESSIONS:
        raise UsageError(
            f"it is judged over {MIN_SESSIONS} sessions, and {many} are stored",
            f"`recovery repeat SESSION --times {MIN_SESSIONS}` measures the others",
            option="fail_over",
        )
    if unjudged := cells_without_interval(combined):
        raise UsageError(
            f"it cannot be judged over {many} sessions: no interval for {', '.join(unjudged)}",
            "see the report: these runs are not warm starts, or fewer than three sessions have them",
            option="fail_over",
        )
    refuse_over(judge_baseline(combined, allowed), "the report shows where the time went", f"over {many} sessions, ")
