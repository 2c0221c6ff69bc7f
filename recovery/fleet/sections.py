"""Builds the report of many hosts, as text, Markdown and one HTML page.

Its answer and the tables of hosts are its own. All else is what the report of a session has, with the host as an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import TypeVar

from recovery import __version__
from recovery.analysis.combined import host_variant
from recovery.analysis.contrasts import Contrast
from recovery.analysis.host_figures import dependent_pairs
from recovery.analysis.summary import all_variant_ratios, compared_with_baseline, is_compared, version_ratios
from recovery.analysis.warnings import findings_of_each_cell, merge_similar
from recovery.fleet.hosts import Fact, Fleet, FleetCell, FleetRatio, Host, Workload, differing_facts, shared_devices
from recovery.metrics import metric
from recovery.model import STARTUP_METRIC, Cache, Finding, Table
from recovery.report import fmt, markdown, text
from recovery.report.answer import Answer
from recovery.report.host_words import storage_words
from recovery.report.html import page
from recovery.report.html.parts import PageSection
from recovery.report.settings_tables import warnings_tables
from recovery.report.summary_text import warning_lines
from recovery.report.tables import OF_ONE_SESSION, SECTIONS, Document, Section

FLEET_QUESTION = "How do the versions compare on each host, and the hosts with each other?"
_MAX_NAMED = 3
"""Most hosts or variants that a sentence names."""
_MAX_SENTENCES = 3
"""Most sentences about versions, and about hosts."""
_MAX_COLUMNS = 6
"""Most hosts that are the columns of the table of facts; more are its rows."""
_FACTS = ("ec2_instance_type", "cpu_model", "cpus", "memory_bytes", "kernel", "idle_pageout", "filesystem")
"""Facts that are shown even if they do not differ."""
_PROBES = ("probe_4k_1_iops", "probe_4k_16_iops")
_OF_ONE_HOST = OF_ONE_SESSION | {"sessions", "warnings", "measured-on"}
"""Sections that each host's own report has, or that are made of all hosts here."""


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
        """The commands that measured, each once, and the one that makes this report again."""
        return (*dict.fromkeys(session.command for session in self.sessions if session.command), self.command)

    @property
    def title(self) -> str:
        versions = dict.fromkeys(cell.summary.version for cell in self.fleet.cells)
        hosts = fmt.count_text(len(self.fleet.hosts), "host")
        return f"{hosts}: {', '.join(versions)}" if versions else hosts

    @property
    def state(self) -> str:
        stored = [session for host in self.fleet.hosts for session in host.sessions]
        runs, planned = sum(len(session.runs) for session in stored), sum(session.planned_runs for session in stored)
        return f"{fmt.count_text(len(stored), 'session')}, {runs} of {planned} runs"

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The warnings about all sessions, each with its host."""
        fleet = self.fleet
        several = len(fleet.workloads) > 1
        found = [
            replace(finding, about=f"{workload.name}: {finding.about}") if several else finding
            for workload in fleet.workloads
            for finding in findings_of_each_cell(workload.session)
        ]
        found += [
            replace(finding, about=f"{host.name}: {finding.about}")
            for host in fleet.hosts
            for session in host.sessions
            if not is_compared(session)
            for finding in findings_of_each_cell(session)
        ]
        return tuple(found)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(
            f"{host.name}: {note}" for host in self.fleet.hosts for session in host.sessions for note in session.notes
        )


# --- The answer


def fleet_answer(report: FleetReport) -> tuple[str, ...]:
    """Returns the answer in sentences, which all formats show."""
    return (*ratio_sentences(report.fleet), *caveats(report))


def ratio_sentences(fleet: Fleet) -> tuple[str, ...]:
    return (
        *_sentences(fleet, fleet.within, lambda ratio: (ratio.version, ratio.base_version), within=True),
        *_sentences(fleet, fleet.between, lambda ratio: (ratio.host, ratio.base_host)),
    )


def caveats(report: FleetReport) -> tuple[str, ...]:
    """Returns what the ratios do not say: one sentence of each kind."""
    return (
        *_first_of(tuple(_other_difference_lines(report.fleet)), "The ratios also measure"),
        *_shared_device_sentence(report.fleet),
        *_first_of(report.problems, "Missing or incomplete"),
        *_first_of(not_compared_lines(report.fleet), "Not compared"),
    )


def not_compared_lines(fleet: Fleet) -> tuple[str, ...]:
    return tuple(f"{what}: {why}" for what, why in fleet.not_compared)


def _first_of(lines: Sequence[str], title: str) -> Iterator[str]:
    if lines:
        count = f", the first of {len(lines)}" if len(lines) > 1 else ""
        yield f"{title}{count}: {lines[0]}"


def _sentences(
    fleet: Fleet, ratios: Sequence[FleetRatio], sides: Callable[[FleetRatio], tuple[str, str]], *, within: bool = False
) -> Iterator[str]:
    """Yields a sentence for each pair of sides, or for the most different ones if they are many."""
    groups = _grouped(ratios, lambda ratio: (ratio.workload, ratio.metric, *sides(ratio)))
    shown = list(groups)
    if len(shown) > _MAX_SENTENCES:
        shown.sort(key=lambda key: fmean(ratio.ratio or 1.0 for ratio in groups[key]))
        shown = [shown[0], shown[-1]]
    for number, key in enumerate(shown, 1):
        more = f" (the extremes of {len(groups)} comparisons)" if number == len(shown) < len(groups) else ""
        yield f"{_sentence(fleet, key, groups[key], within=within)}{more}."


def _sentence(fleet: Fleet, key: Sequence[str], ratios: Sequence[FleetRatio], *, within: bool) -> str:
    workload, name, first, base = key
    verb, times = _words(name)
    variants = _grouped(ratios, lambda ratio: (ratio.variant,))
    found = [
        (variant, [ratio for ratio in alike if ratio.significant and ratio.ratio is not None])
        for (variant,), alike in variants.items()
    ]
    known = [(variant, _span(alike)) for variant, alike in found if alike]
    same = [
        f"{ratio.variant} {f'on {ratio.host}' if within else ratio.version}"
        for ratio in ratios
        if not ratio.significant
    ]
    about = f"{workload}, " if len(fleet.workloads) > 1 else ""
    start = "On the same host, " if within else ""
    if not known:
        cells = [_cell_words(name, variant) for variant, _ in found]
        measured = " and ".join(cells) if len(cells) == 2 else _listed(cells)
        return f"{start}{first} and {base} do not differ significantly for {about}{measured}"
    where = [
        f"{_cell_words(name, variant)}{_storage(fleet, ratios, variant) if within else ''}" for variant, _ in known
    ]
    spans = [span for _, span in known]
    texts = [f"{start}{first} {verb} {spans[0]} {times} {base} for {about}{where[0]}"]
    texts += [f"{span} times for {cell}" for cell, span in zip(where[1:_MAX_NAMED], spans[1:], strict=False)]
    texts += [f"{len(known) - _MAX_NAMED} more in the table"] if len(known) > _MAX_NAMED else []
    texts += [f"no significant difference for {_listed(same)}"] if same else []
    return "; ".join(texts)


def _storage(fleet: Fleet, ratios: Sequence[FleetRatio], variant: str) -> str:
    """Returns the storage that the ratios of versions in a variant belong to; empty if none changes with it."""
    mine = [ratio for ratio in ratios if ratio.variant == variant and ratio.significant]
    workload = next(workload for workload in fleet.workloads if workload.name == ratios[0].workload)
    pairs = []
    for ratio in mine:
        measured = host_variant(ratio.host, variant)
        pairs.append(((ratio.version, measured), (ratio.base_version, measured)))
    return f", {storage_words(workload.session)}" if dependent_pairs(workload.session, pairs) else ""


def _cell_words(name: str, variant: str) -> str:
    """Returns what a ratio is about, such as `cold starts`."""
    return f"{variant} starts" if name == STARTUP_METRIC and variant in list(Cache) else variant


def _span(ratios: Sequence[FleetRatio]) -> str:
    """Formats one ratio with its interval, or the smallest and the largest with all that their intervals contain."""
    lows, highs = [ratio.ratio_low for ratio in ratios], [ratio.ratio_high for ratio in ratios]
    values = [ratio.ratio for ratio in ratios if ratio.ratio is not None]
    if len(values) == 1 or len(values) < len(ratios):
        return fmt.effect(ratios[0])
    ends = list(dict.fromkeys((fmt.times(min(values)), fmt.times(max(values)))))
    low, high = min(low for low in lows if low is not None), max(high for high in highs if high is not None)
    return f"{' to '.join(ends)} ({fmt.times(low)}-{fmt.times(high)})"


def _other_difference_lines(fleet: Fleet) -> Iterator[str]:
    for facts, (base, *hosts) in _other_differences(fleet):
        yield f"{', '.join(facts)}, different on {base} and {_listed(hosts)}."


def _other_differences(fleet: Fleet) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yields what differs apart from machine and storage, and the hosts: first the one that others are compared
    with."""
    found: dict[tuple[str, ...], dict[str, None]] = {}
    for (base, host), ratios in _grouped(fleet.between, lambda ratio: (ratio.base_host, ratio.host)).items():
        facts = dict.fromkeys(fact for ratio in ratios for fact in ratio.other_differences)
        if facts:
            found.setdefault((base, *facts), {})[host] = None
    for (base, *names), hosts in found.items():
        yield tuple(names), (base, *hosts)


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
    for member in found:
        groups.setdefault(key(member), []).append(member)
    return groups


# --- Tables: those of a session for each workload, and those of the hosts


def fleet_tables(report: FleetReport) -> tuple[Table, ...]:
    """Returns all tables, in reading order."""
    return (
        *(
            replace(table, title=_of_workload(report, workload, table.title))
            for workload in report.fleet.workloads
            for section in _shown_sections(workload)
            for table in section.tables(workload.session)
        ),
        *(table for _, _, tables in _host_sections(report) for table in tables),
    )


def _host_sections(report: FleetReport) -> tuple[tuple[str, str, tuple[Table, ...]], ...]:
    """Returns key, title and tables of the sections that only a fleet has, and the warnings of all its sessions."""
    return (
        ("cost", "Reads and cost", tuple(_cost_tables(report))),
        ("not-compared", "Limits of the comparison", tuple(_limit_tables(report))),
        ("warnings", "Warnings", warnings_tables(tuple(merge_similar(report.findings)), report.notes)),
        ("measured-on", "Hosts", (_facts_table(report.fleet.hosts),)),
        ("sessions", "Sessions", (*_problem_tables(report), _sessions_table(report))),
    )


def _shown_sections(workload: Workload) -> Iterator[Section]:
    """Yields the sections of a session that a workload has. Without any interval there is no comparison."""
    session = workload.session
    compared: dict[str, Sequence[Contrast]] = {
        "versions": (*compared_with_baseline(session), *version_ratios(session)), "axes": all_variant_ratios(session)
    }  # fmt: skip
    for section in SECTIONS:
        known = any(contrast.differs is not None for contrast in compared.get(section.key, ()))
        if section.key not in _OF_ONE_HOST and (known or section.key not in compared):
            yield replace(section, title="Hosts compared") if section.key == "axes" else section


def _of_workload(report: FleetReport, workload: Workload, title: str) -> str:
    return f"{workload.name}: {title}" if len(report.fleet.workloads) > 1 else title


_READS_NOTE = "reads: requests to the host's device, of any process."
_COST_NOTE = (
    "cost: the plan's price per hour x duration of the start; its ratio is that of the durations times that of the "
    "prices."
)


def _cost_tables(report: FleetReport) -> Iterator[Table]:
    """Yields a table of the reads and the costs of each workload, if any is known."""
    for workload in report.fleet.workloads:
        cells = [cell for cell in report.fleet.cells if cell.workload == workload.name]
        ratios: dict[str, dict[tuple[str, str, str], str]] = {}
        for ratio in report.fleet.between:
            if ratio.workload == workload.name:
                key = (ratio.version, ratio.variant, ratio.host)
                ratios.setdefault(ratio.base_host, {})[key] = _cost_ratio_text(ratio)
        keys = [(cell.summary.version, cell.summary.variant, cell.host) for cell in cells]
        columns = {
            "reads per table": [_reads_text(cell) for cell in cells],
            "cost of a million tables": [_cost_text(cell) for cell in cells],
            **{f"cost, ratio to {base}": [found.get(key, "") for key in keys] for base, found in ratios.items()},
        }
        shown = {header: texts for header, texts in columns.items() if any(texts)}
        if not shown:
            continue
        notes = {_READS_NOTE if header.startswith("reads") else _COST_NOTE: None for header in shown}
        yield Table(
            title=_of_workload(report, workload, "Reads and cost"),
            headers=("version", "variant", "host", *shown),
            rows=tuple(
                (*key, *(text or fmt.ABSENT for text in row))
                for key, row in zip(keys, zip(*shown.values(), strict=True), strict=True)
            ),
            numeric=(False, False, False, *(True for _ in shown)),
            notes=tuple(notes),
            keys=3,
        )


def _reads_text(cell: FleetCell) -> str:
    return "" if cell.reads_per_table is None else fmt.number(cell.reads_per_table)


def _cost_text(cell: FleetCell) -> str:
    cost, summary = cell.cost_per_million_tables, cell.summary
    if cost is None:
        return ""
    if not summary.interval or not summary.mean:
        return fmt.number(cost)
    if summary.low is not None and summary.high is not None:
        low, high = (fmt.number(cost * end / summary.mean) for end in (summary.low, summary.high))
        return f"{fmt.number(cost)} ({low}-{high})"
    return f"{fmt.number(cost)} +- {fmt.number(cost * summary.interval / summary.mean)}"


def _cost_ratio_text(ratio: FleetRatio) -> str:
    ends = (ratio.cost_ratio, ratio.ratio_low, ratio.ratio_high)
    if not ratio.ratio or None in ends:
        return ""
    cost, low, high = (end or 0.0 for end in ends)
    price = cost / ratio.ratio
    return f"{fmt.times(cost)} ({fmt.times(low * price)}-{fmt.times(high * price)})"


def _limit_tables(report: FleetReport) -> Iterator[Table]:
    """Yields what the ratios of hosts measure apart from the machines, and what is not compared."""
    if rows := [(", ".join(facts), ", ".join(hosts)) for facts, hosts in _other_differences(report.fleet)]:
        title = "Other differences between the hosts"
        yield Table(title, ("what the ratios also measure", "different on"), tuple(rows), (False, False))
    if report.fleet.not_compared:
        yield Table("Not compared", ("what", "why"), report.fleet.not_compared, (False, False))


def _problem_tables(report: FleetReport) -> Iterator[Table]:
    if report.problems:
        rows = tuple((what, why) for what, _, why in (line.partition(": ") for line in report.problems))
        yield Table("Missing or incomplete sessions", ("session", "problem"), rows, (False, False))


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


def _sessions_table(report: FleetReport) -> Table:
    rows = tuple((session.host, session.name or fmt.ABSENT, session.state) for session in report.sessions)
    return Table("Sessions", ("host", "session", "state"), rows, (False, False, False))


# --- The formats


def _document(report: FleetReport) -> Document:
    tables = fleet_tables(report)
    return Document(report.title, FLEET_QUESTION, _answer(report), report.state, tables, report.commands)


def _answer(report: FleetReport) -> Answer:
    return Answer(comparison=tuple(fleet_answer(report)), warnings=tuple(warning_lines(report.findings)))


def render_text(report: FleetReport) -> str:
    """Returns the report as ASCII text of at most 78 columns."""
    return text.render_document(_document(report))


def render_markdown(report: FleetReport) -> str:
    """Returns the report for GitHub, with all text from outside escaped."""
    return markdown.render_document(_document(report))


def render_html(report: FleetReport) -> str:
    """Returns the page, which loads nothing from elsewhere."""
    return page.render_content(
        page.PageContent(
            question=FLEET_QUESTION,
            heading=report.title,
            state=report.state,
            answer=_answer(report),
            findings=report.findings,
            sections=tuple(_page_sections(report)),
            notes=report.notes,
            commands=report.commands,
            source="the sessions of the hosts in this folder",
            tool_version=__version__,
            pages=tuple(
                (f"{session.host}/{session.name}", session.page) for session in report.sessions if session.page
            ),
        )
    )


def _page_sections(report: FleetReport) -> Iterator[PageSection]:
    for number, workload in enumerate(report.fleet.workloads, 1):
        for section in _shown_sections(workload):
            shown = page.page_section(section, workload.session, number=number)
            if shown.parts:
                yield replace(shown, title=_of_workload(report, workload, shown.title))
    for key, title, tables in _host_sections(report):
        if tables and key != "warnings":
            yield page.tidied(PageSection(key, title, page.table_sections(key, tables)))
