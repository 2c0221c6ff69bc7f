"""Builds the report of many hosts: its answer, its tables and its chart, as text, Markdown and one HTML page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeVar

from markupsafe import Markup

from recovery import __version__
from recovery.analysis.fleet import Fact, Fleet, FleetCell, FleetRatio, Host, differing_facts, shared_devices
from recovery.model import STARTUP_METRIC, Cache, Finding, Table, metric
from recovery.report import fmt
from recovery.report.html.charts import About, Row, bars
from recovery.report.html.page import marked_up, template, tidied
from recovery.report.html.parts import Chart, FoldedParts, PageSection, Part, table_parts
from recovery.report.html.session_charts import version_segments
from recovery.report.markdown import code_block, escaped, table_lines
from recovery.report.text import command_lines, paragraph, render_table

FLEET_QUESTION = "How do the versions compare on each host, and the hosts with each other?"
_MAX_NAMED = 3
"""Most hosts or variants that a sentence names."""
_MAX_SENTENCES = 3
"""Most sentences about versions, and about hosts."""
_MAX_COLUMNS = 6
"""Most hosts that are the columns of the table of facts; more are its rows."""
_MAX_CHARTS = 4
"""Most charts that are shown at once; further ones are folded."""
_MAX_BARS = 60
_FACTS = ("ec2_instance_type", "cpu_model", "cpus", "memory_bytes", "kernel", "idle_pageout", "filesystem")
"""Facts that are shown even if they do not differ."""
_PROBES = ("probe_4k_1_iops", "probe_4k_16_iops")


@dataclass(frozen=True)
class StoredAt:
    """A session of a host, as the report lists it."""

    host: str
    name: str
    """Name of its folder; empty if there is none."""
    command: str
    state: str
    page: str | None = None
    """Relative link to its own report."""
    findings: tuple[Finding, ...] = ()
    """The warnings about its figures."""


@dataclass(frozen=True)
class FleetReport:
    fleet: Fleet
    problems: tuple[str, ...]
    """One line for each session that is missing, damaged or incomplete."""
    sessions: tuple[StoredAt, ...]
    command: str
    """The command that makes this report again."""

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that measured, each once."""
        return tuple(dict.fromkeys(one.command for one in self.sessions if one.command))

    @property
    def title(self) -> str:
        versions = dict.fromkeys(one.summary.version for one in self.fleet.cells)
        hosts = fmt.count_text(len(self.fleet.hosts), "host")
        return f"{hosts}: {', '.join(versions)}" if versions else hosts


@dataclass(frozen=True)
class FleetSection:
    key: str
    title: str
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    lines: tuple[str, ...] = ()


# --- The answer


def fleet_answer(report: FleetReport) -> tuple[str, ...]:
    """Returns the answer in sentences, which all formats show."""
    return (*ratio_sentences(report.fleet), *caveats(report))


def ratio_sentences(fleet: Fleet) -> tuple[str, ...]:
    return (
        *_sentences(fleet, fleet.within, lambda one: (one.version, one.base_version), within=True),
        *_sentences(fleet, fleet.between, lambda one: (one.host, one.base_host)),
    )


def caveats(report: FleetReport) -> tuple[str, ...]:
    """Returns what the ratios do not say: one sentence of each kind."""
    return (
        *_first_of(tuple(_beside_lines(report.fleet)), "The ratios also measure"),
        *_shared_device_sentence(report.fleet),
        *_first_of(report.problems, "Missing or incomplete"),
        *_first_of(report.fleet.not_compared, "Not compared"),
    )


def _first_of(lines: Sequence[str], title: str) -> Iterator[str]:
    if lines:
        count = f", the first of {len(lines)}" if len(lines) > 1 else ""
        yield f"{title}{count}: {lines[0]}"


def _sentences(
    fleet: Fleet, ratios: Sequence[FleetRatio], sides: Callable[[FleetRatio], tuple[str, str]], *, within: bool = False
) -> Iterator[str]:
    """Yields a sentence for each pair of sides, or for the most different ones if they are many."""
    groups = _grouped(ratios, lambda one: (one.workload, one.metric, *sides(one)))
    shown = list(groups)
    if len(shown) > _MAX_SENTENCES:
        shown.sort(key=lambda key: fmean(one.ratio or 1.0 for one in groups[key]))
        shown = [shown[0], shown[-1]]
    for number, key in enumerate(shown, 1):
        more = f" (the extremes of {len(groups)} comparisons)" if number == len(shown) < len(groups) else ""
        yield f"{_sentence(fleet, key, groups[key], within=within)}{more}."


def _sentence(fleet: Fleet, key: Sequence[str], ratios: Sequence[FleetRatio], *, within: bool) -> str:
    workload, name, first, base = key
    verb, times = _words(name)
    variants = _grouped(ratios, lambda one: (one.variant,))
    found = [
        (variant, [one for one in alike if one.differs and one.ratio is not None])
        for (variant,), alike in variants.items()
    ]
    known = [(variant, _span(alike)) for variant, alike in found if alike]
    same = [f"{one.variant} {f'on {one.host}' if within else one.version}" for one in ratios if not one.differs]
    about = f"{workload}, " if len({one.workload for one in fleet.cells}) > 1 else ""
    start = "On the same host, " if within else ""
    if not known:
        cells = [_cell_words(name, variant) for variant, _ in found]
        measured = " and ".join(cells) if len(cells) == 2 else _listed(cells)
        return f"{start}{first} and {base} do not differ significantly for {about}{measured}"
    where, spans = [_cell_words(name, variant) for variant, _ in known], [span for _, span in known]
    texts = [f"{start}{first} {verb} {spans[0]} {times} {base} for {about}{where[0]}"]
    texts += [f"{span} times for {cell}" for cell, span in zip(where[1:_MAX_NAMED], spans[1:], strict=False)]
    texts += [f"{len(known) - _MAX_NAMED} more in the table"] if len(known) > _MAX_NAMED else []
    texts += [f"no significant difference for {_listed(same)}"] if same else []
    return "; ".join(texts)


def _cell_words(name: str, variant: str) -> str:
    """Returns what a ratio is about, such as `cold starts`."""
    return f"{variant} starts" if name == STARTUP_METRIC and variant in list(Cache) else variant


def _span(ratios: Sequence[FleetRatio]) -> str:
    """Formats one ratio with its interval, or the smallest and the largest with all that their intervals contain."""
    lows, highs = [one.ratio_low for one in ratios], [one.ratio_high for one in ratios]
    values = [one.ratio for one in ratios if one.ratio is not None]
    if len(values) == 1 or len(values) < len(ratios):
        return fmt.effect(ratios[0])
    ends = list(dict.fromkeys((fmt.times(min(values)), fmt.times(max(values)))))
    low, high = min(low for low in lows if low is not None), max(high for high in highs if high is not None)
    return f"{' to '.join(ends)} ({fmt.times(low)}-{fmt.times(high)})"


def _beside_lines(fleet: Fleet) -> Iterator[str]:
    found: dict[tuple[str, ...], dict[str, None]] = {}
    for (base, host), ratios in _grouped(fleet.between, lambda one: (one.base_host, one.host)).items():
        facts = dict.fromkeys(fact for one in ratios for fact in one.beside)
        if facts:
            found.setdefault((base, *facts), {})[host] = None
    for (base, *others), hosts in found.items():
        yield f"{', '.join(others)}, different on {base} and {_listed(list(hosts))}."


def _shared_device_sentence(fleet: Fleet) -> Iterator[str]:
    if shared := shared_devices(fleet.hosts):
        yield f"Perhaps one machine, for the serial number of the device is the same: {_listed(shared)}."


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _MAX_NAMED else f"{', '.join(names[:2])} and {len(names) - 2} more"


def _words(name: str) -> tuple[str, str]:
    about = metric(name)
    return ("takes", "times as long as") if about.unit == "s" else ("has", f"times the {about.label} of")


_T = TypeVar("_T")


def _grouped(found: Iterable[_T], key: Callable[[_T], tuple[str, ...]]) -> dict[tuple[str, ...], list[_T]]:
    groups: dict[tuple[str, ...], list[_T]] = {}
    for one in found:
        groups.setdefault(key(one), []).append(one)
    return groups


# --- Sections: charts, and tables of hosts and versions


def fleet_sections(report: FleetReport) -> tuple[FleetSection, ...]:
    fleet = report.fleet
    within = _ratio_tables(fleet.within, lambda one: one.base_version, " on the same host")
    between = _ratio_tables(fleet.between, lambda one: one.base_host, "")
    found = (
        FleetSection("figures", "Hosts and versions", tuple(_figure_tables(fleet)), tuple(_charts(fleet))),
        FleetSection("within", "Versions on the same host", tuple(within)),
        FleetSection(
            "between", "Hosts compared", tuple(between),
            lines=(
                *(f"The ratios also measure: {line}" for line in _beside_lines(fleet)), *_shared_device_sentence(fleet)
            ),
        ),
        FleetSection("reads", "Reads and cost", tuple(_reads_and_cost_tables(fleet))),
        FleetSection("facts", "Facts about the hosts", (_facts_table(fleet.hosts),)),
        FleetSection("not-compared", "Not compared", lines=fleet.not_compared),
        FleetSection("problems", "Missing or incomplete sessions", lines=report.problems),
        FleetSection("sessions", "Sessions", (_sessions_table(report),)),
    )  # fmt: skip
    return tuple(replace(one, tables=_notes_once(one.tables)) for one in found if one.tables or one.charts or one.lines)


def _notes_once(tables: Sequence[Table]) -> tuple[Table, ...]:
    """Returns the tables with each note below the last table that has it."""
    later: set[str] = set()
    found = []
    for table in reversed(tables):
        found.append(replace(table, notes=tuple(note for note in table.notes if note not in later)))
        later.update(table.notes)
    return tuple(reversed(found))


def _by_host(
    title: str, found: Iterable[tuple[str, str, str]], *notes: str, doubts: Mapping[tuple[str, str], str] | None = None
) -> Table:
    """Returns a table with a row for each host and a column for each version. `found` has host, version and text;
    `doubts` has the warnings by host and version."""
    cells = {(host, version): text for host, version, text in found}
    hosts, versions = (tuple(dict.fromkeys(key[part] for key in cells)) for part in (0, 1))
    return Table(
        title=title,
        headers=("host", *versions),
        rows=tuple((host, *(cells.get((host, version), fmt.ABSENT) for version in versions)) for host in hosts),
        numeric=(False, *(True for _ in versions)),
        notes=notes,
        doubts=tuple(("", *((doubts or {}).get((host, version), "") for version in versions)) for host in hosts),
    )


def _cells_by_variant(fleet: Fleet) -> dict[tuple[str, ...], list[FleetCell]]:
    return _grouped(fleet.cells, lambda one: (one.workload, one.summary.variant, one.summary.name))


def _title(workload: str, variant: str, name: str) -> str:
    return f"{workload}, {variant}: {metric(name).label}"


def _figure_tables(fleet: Fleet) -> Iterator[Table]:
    for about, cells in _cells_by_variant(fleet).items():
        rows = ((one.host, one.summary.version, _mean_text(one)) for one in cells)
        doubts = {(one.host, one.summary.version): " ".join(one.doubts) for one in cells}
        yield _by_host(_title(*about), rows, "+-: half of the mean's 95 % interval.", doubts=doubts)


def _reads_and_cost_tables(fleet: Fleet) -> Iterator[Table]:
    for (workload, variant, _), cells in _cells_by_variant(fleet).items():
        reads = [
            (one.host, one.summary.version, fmt.number(one.reads_per_table))
            for one in cells
            if one.reads_per_table is not None
        ]
        if reads:
            yield _by_host(
                f"{workload}, {variant}: reads per table", reads, "Requests to the host's device, of any process."
            )
        costs = [
            (one.host, one.summary.version, _cost_text(one)) for one in cells if one.cost_per_million_tables is not None
        ]
        if costs:
            note = "The plan's price per hour x duration of the start / tables x 1,000,000."
            yield _by_host(f"{workload}, {variant}: cost of a million tables", costs, note)


def _mean_text(one: FleetCell) -> str:
    about, summary = metric(one.summary.name), one.summary
    if summary.mean is None:
        return f"{summary.failed} failed, {summary.void} void"
    interval = fmt.interval_column(about, summary)
    spread = "" if interval == fmt.ABSENT else f" ({interval})" if fmt.passes_zero(summary) else f" +- {interval}"
    return fmt.column(about, summary.mean) + spread


def _cost_text(one: FleetCell) -> str:
    cost, summary = one.cost_per_million_tables or 0.0, one.summary
    spread = f" +- {fmt.number(cost * summary.interval / summary.mean)}" if summary.interval and summary.mean else ""
    return fmt.number(cost) + spread


_RATIO_NOTE = "In brackets the 95 % interval. no: not significant, because 1 lies in it."


def _ratio_tables(ratios: Sequence[FleetRatio], base_of: Callable[[FleetRatio], str], where: str) -> Iterator[Table]:
    groups = _grouped(ratios, lambda one: (one.workload, one.variant, one.metric, base_of(one)))
    for number, ((*about, base), alike) in enumerate(groups.items(), 1):
        notes = fmt.chance_notes([one.differs for one in ratios]) if number == len(groups) else ()
        rows = ((one.host, one.version, _ratio_text(one)) for one in alike)
        yield _by_host(f"{_title(*about)}, ratio to {base}{where}", rows, _RATIO_NOTE, *notes)
        costs = [(one.host, one.version, _cost_ratio_text(one)) for one in alike if one.cost_ratio is not None]
        if costs:
            note = "The ratio of the durations times that of the prices per hour."
            yield _by_host(f"{', '.join(about[:2])}: cost of a start, ratio to {base}", costs, note)


def _ratio_text(one: FleetRatio) -> str:
    return fmt.effect(one) if one.differs else f"no: {fmt.effect(one)}"


def _cost_ratio_text(one: FleetRatio) -> str:
    if not one.ratio or one.cost_ratio is None or one.ratio_low is None or one.ratio_high is None:
        return fmt.ABSENT
    price = one.cost_ratio / one.ratio
    return f"{fmt.times(one.cost_ratio)} ({fmt.times(one.ratio_low * price)}-{fmt.times(one.ratio_high * price)})"


def _sessions_table(report: FleetReport) -> Table:
    rows = tuple((one.host, one.name or fmt.ABSENT, one.state) for one in report.sessions)
    return Table("Sessions", ("host", "session", "state"), rows, (False, False, False))


def _facts_table(hosts: Sequence[Host]) -> Table:
    """Returns the facts of the plan and those that the tool found: in columns for few hosts, in rows for many."""
    names = dict.fromkeys((*_FACTS, *differing_facts(hosts), *_PROBES))
    planned = dict.fromkeys(name for host in hosts for name in host.facts)
    facts = [(f"{fmt.words(name)}, by the plan", [host.facts.get(name) for host in hosts]) for name in planned]
    facts += [(fmt.words(name.removesuffix("_bytes")), [_found(host, name) for host in hosts]) for name in names]
    shown = [(label, values) for label, values in facts if any(value is not None for value in values)]
    labels, heads = [label for label, _ in shown], [host.name for host in hosts]
    cells = [[fmt.fact_row("", value)[1] for value in values] for _, values in shown]
    if len(hosts) > _MAX_COLUMNS:
        labels, heads, cells = heads, labels, [[row[number] for row in cells] for number in range(len(hosts))]
    rows = tuple((label, *values) for label, values in zip(labels, cells, strict=True))
    return Table("Facts about the hosts", ("", *heads), rows, tuple(False for _ in ("", *heads)))


def _found(host: Host, name: str) -> Fact:
    value = host.found.get(name)
    if value is None and name in _PROBES and host.sessions:
        value = host.sessions[-1].environment.get(name)
    return fmt.size(value) if name.endswith("_bytes") and isinstance(value, int) else value


def _parts(section: FleetSection) -> tuple[Part, ...]:
    """Returns the parts of a section on the page: each chart with the table of its figures, whose title is the same.
    Further charts are folded with their tables."""
    tables = table_parts(section.key, *section.tables)
    pairs: list[tuple[Part, ...]] = [
        (chart, *(part for part in tables if part.table.title == chart.title)) for chart in section.charts
    ]
    drawn = {chart.title for chart in section.charts}
    parts: list[Part] = [part for pair in pairs[:_MAX_CHARTS] for part in pair]
    if more := pairs[_MAX_CHARTS:]:
        parts.append(FoldedParts(f"{len(more)} more charts and tables", tuple(part for pair in more for part in pair)))
    return (*parts, *(part for part in tables if part.table.title not in drawn))


def _charts(fleet: Fleet) -> Iterator[Chart]:
    segments = version_segments(dict.fromkeys(cell.summary.version for cell in fleet.cells))
    for number, (about, cells) in enumerate(_cells_by_variant(fleet).items(), 1):
        rows = _rows(cells)
        if max((row.end for row in rows), default=0) <= 0 or min(min(row.values.values()) for row in rows) < 0:
            continue
        notes = (f"The first {_MAX_BARS} of {len(cells)} bars; the table has all.",) if len(cells) > _MAX_BARS else ()
        shown = {version for row in rows for version in row.values}
        chart = bars(
            About(f"hosts-{number}", _title(*about), metric(cells[0].summary.name).unit, notes),
            rows,
            [segment for segment in segments if segment.name in shown],
        )
        if chart is not None:
            yield chart


def _rows(cells: Sequence[FleetCell]) -> list[Row]:
    """Returns a bar for each version on each host; for the first hosts only if there are too many."""
    rows: list[Row] = []
    for (host,), of_host in _grouped(cells, lambda cell: (cell.host,)).items():
        for cell in of_host:
            summary, about = cell.summary, metric(cell.summary.name)
            if summary.mean is not None and len(rows) < _MAX_BARS:
                text, interval = fmt.with_unit(about, summary.mean), fmt.drawn_interval(summary)
                rows.append(Row(host, {summary.version: summary.mean}, text, interval=interval, doubts=cell.doubts))
    return rows


# --- The formats


def render_text(report: FleetReport) -> str:
    """Returns the report as ASCII text of at most 78 columns."""
    title = paragraph(report.title)
    lines = [*title, "=" * max(map(len, title))]
    for words in (FLEET_QUESTION, *fleet_answer(report)):
        lines += paragraph(words)
    for section in fleet_sections(report):
        for table in section.tables:
            lines += ["", *render_table(table).splitlines()]
        if section.lines:
            lines += ["", *(part for each in section.lines for part in paragraph(f"* {_line(section, each)}"))]
    for command in (*report.commands, report.command):
        lines += ["", *command_lines(command)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _line(section: FleetSection, line: str) -> str:
    return line if section.tables else f"{section.title}: {line}"


def render_markdown(report: FleetReport) -> str:
    """Returns the report for GitHub, with all text from outside escaped."""
    lines = [f"# {escaped(report.title)}"]
    for words in (FLEET_QUESTION, *fleet_answer(report)):
        lines += ["", escaped(words)]
    for section in fleet_sections(report):
        for table in section.tables:
            lines += ["", *table_lines(table)]
        if section.lines:
            lines += ["", *(f"- {escaped(_line(section, each))}" for each in section.lines)]
    for command in (*report.commands, report.command):
        lines += ["", *code_block(fmt.printable(command))]
    return "\n".join(lines) + "\n"


def render_html(report: FleetReport) -> str:
    """Returns the page, which loads nothing from elsewhere."""
    return template("fleet.html.j2").render(
        report=report,
        question=FLEET_QUESTION,
        answers=tuple(_marked_answer(report)),
        doubted=[one for one in report.sessions if one.findings],
        most_named=_MAX_NAMED,
        sections=[(one, tidied(PageSection(one.key, one.title, _parts(one)))) for one in fleet_sections(report)],
        version=__version__,
        badges={},
    )


_RATIO = re.compile(r"\d[\d.,]*(?: to \d[\d.,]*)?(?= \([\d.,]+-[\d.,]+\) times )", re.ASCII)


def _marked_answer(report: FleetReport) -> Iterator[Markup]:
    """Yields the lines of the answer, with the first ratio large."""
    has_figure = False
    for text in fleet_answer(report):
        figure = None if has_figure else _RATIO.search(text)
        has_figure |= figure is not None
        yield marked_up(text, "", figure)


def fleet_tables(report: FleetReport) -> tuple[Table, ...]:
    """Returns all tables, for a terminal."""
    return tuple(table for section in fleet_sections(report) for table in section.tables)
