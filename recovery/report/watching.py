"""How is it told where a session is? As the lines of a live view, as one line now and then, and as a page. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from recovery.progress import Cell, Status
from recovery.quantities import quantity
from recovery.report.figures import count, seconds
from recovery.report.work.said import cell as cell_text
from recovery.stored import STARTUP
from recovery.whereabouts import Build, Whereabouts

STRONG, FAINT = "strong", "faint"
_LEAST_WIDTH = 12
_BAR = 24
_TIE = "\u00a0"
"""A blank that no line ends at."""


@dataclass(frozen=True)
class Line:
    text: str
    style: str = ""


def harmless(text: str) -> str:
    """What comes from a log, a name or a file must not steer a terminal. Blanks stay: a command can be copied."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)


def duration(value: float) -> str:
    if value < 99.5:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} hours"


def view(found: Whereabouts, width: int, height: int) -> tuple[Line, ...]:
    """No line is wider; of results there are as many as the height leaves room for, those of now among them."""
    width = max(_LEAST_WIDTH, width)
    lines = [Line(text, FAINT) for text in _folded(headline(found), width)]
    lines += [Line(text, STRONG) for text in _folded(current(found), width)]
    if found.build is not None and (drawn := _bar(found.build, width)):
        lines.append(Line(drawn))
    lines += [Line(text) for text in _fitting(found, width, max(0, height - len(lines)))]
    return tuple(Line(harmless(line.text)[:width], line.style) for line in lines[: max(1, height)])


def headline(found: Whereabouts) -> str:
    ended = sum(cell.ended for cell in found.cells)
    parts = [] if found.planned_runs is None else [f"{ended} of {found.planned_runs} trials done"]
    parts.append(f"{duration(found.elapsed_s)} so far")
    if found.left_s is not None and found.status is Status.RUNNING:
        parts.append(f"about {duration(found.left_s)} left" if found.left_s >= 1 else "nearly done")
    return f"{found.scenario}: {', '.join(parts)}"


def current(found: Whereabouts) -> str:
    """What is being done at this moment."""
    if found.build is not None:
        return _building(found.build)
    doing = _step(found)
    trial = found.trial
    if trial is None:
        return doing or str(found.stage)
    name = f"[{trial.number}/{found.planned_runs}] {trial.version} {trial.variant} run {trial.repeat}"
    return f"{name}: {doing}" if doing else f"{name}: {duration(trial.elapsed_s)}"


def page(found: Whereabouts, *, running: bool) -> Iterator[str]:
    """For who asks from elsewhere."""
    what = f"{found.scenario} of {' '.join(found.versions)}" if found.versions else found.scenario
    if running:
        yield f"{what}: pid {found.pid}, since {_moment(found.started_at)}"
        yield f"  $ {found.command}"
        yield f"  {found.stage}: {current(found)}" if current(found) != found.stage else f"  {found.stage}"
        yield f"  {headline(found).partition(': ')[2]}"
    else:
        yield "no run is going on"
        ended = f"{found.status} after {duration(found.elapsed_s)}"
        yield f"the last session is {what}: {ended}, begun {_moment(found.started_at)}"
        yield f"  $ {found.command}"
    for row in _rows(found):
        yield f"  {row}"
    yield f"  results {'go to' if running else 'are in'} {found.results}"


def _moment(stored: str) -> str:
    return stored.replace("T", " ").replace("+00:00", " UTC")


def _building(build: Build) -> str:
    if build.done is None or build.total is None:
        return f"{build.title}: making the data directory, {duration(build.elapsed_s)}"
    if build.done >= build.total:
        return f"{build.title}: built, being checked"
    told = f"{build.title}: {build.done:,} of {build.total:,}"
    if build.rate_per_s is not None:
        told += f", {build.rate_per_s:,.0f}/s"
        if build.left_s is not None:
            told += f", {duration(build.left_s)} left"
    return told


def _bar(build: Build, width: int) -> str:
    if build.done is None or not build.total:
        return ""
    room = min(_BAR, width - 2)
    full = min(room, room * build.done // build.total)
    return f"[{'#' * full}{'-' * (room - full)}]"


def _step(found: Whereabouts) -> str:
    if found.step is None:
        return ""
    told = f"{found.step} {duration(found.step_s or 0)}"
    if found.phase_s is not None:
        told += f", {found.phase} {duration(found.phase_s)}" if found.phase else ", nothing in the log yet"
    return f"{told} ({found.told})" if found.told else told


def _folded(text: str, width: int) -> list[str]:
    """No number stands alone: its unit is on the same line."""
    tied = re.sub(r"(?<=\d) (?=(?:s|min|hours|%)(?!\w))", _TIE, text)
    lines = textwrap.wrap(tied, width, subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace(_TIE, " ") for line in lines]


def _fitting(found: Whereabouts, width: int, room: int) -> list[str]:
    rows = _rows(found)
    if max(map(len, rows), default=0) > width:
        rows = [line for cell in found.cells for line in (_name(cell), f"  {_short(cell, found.figure)}")]
    if len(rows) <= room:
        return rows
    if room < 2:
        return []
    at = _of_now(found) * (len(rows) // len(found.cells))
    first = min(max(0, at - room // 2), len(rows) - (room - 1))
    return [*rows[first : first + room - 1], f"... and {len(rows) - room + 1} lines more"]


def _of_now(found: Whereabouts) -> int:
    """The place of the row that the trial of this moment belongs to."""
    names = [(cell.version, cell.variant) for cell in found.cells]
    now = found.trial and (found.trial.version, found.trial.variant)
    return names.index(now) if now in names else len(names) - 1


def _name(cell: Cell) -> str:
    return f"{cell.version} {cell.variant}"


def _short(cell: Cell, figure: str) -> str:
    mean, last = (_value(value, cell.figure or figure) for value in (cell.mean, cell.last))
    return f"{cell.ended}/{cell.planned}  mean {mean}  last {last}{_odd(cell)}"


def _value(value: float | None, figure: str) -> str:
    return seconds(value) if figure == STARTUP else cell_text(quantity(figure), value)


def _unit(figure: str) -> str:
    return " s" if figure == STARTUP else quantity(figure).unit


def _odd(cell: Cell) -> str:
    counts = ((cell.failed, "failed"), (cell.void, "void"))
    return "".join(f"  {count(number)} {name}" for number, name in counts if number)


def _rows(found: Whereabouts) -> list[str]:
    """In columns."""
    unit = _unit(found.figure)
    parts = [
        (
            _name(cell),
            f"{cell.ended}/{cell.planned}",
            _value(cell.mean, cell.figure or found.figure),
            _value(cell.last, cell.figure or found.figure),
            _odd(cell),
            f" {quantity(cell.figure).title.removesuffix(unit)}" if cell.figure else "",
        )
        for cell in found.cells
    ]
    name, runs, mean, last = (max((len(part[at]) for part in parts), default=0) for at in range(4))
    return [
        f"{one[0]:<{name}}  {one[1]:>{runs}}  mean {one[2]:>{mean}}{one[5]}{unit}  "
        f"last {one[3]:>{last}}{one[5]}{unit}{one[4]}"
        for one in parts
    ]
