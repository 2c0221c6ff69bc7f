"""Writes the text of a bundle for a bug tracker: plain text for bugs.mysql.com, Jira's markup for MariaDB and Percona.

Both are ASCII, and of about 40 lines: what is longer is in the archive. The session is reduced before."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from recovery.analysis.basis import basis_of
from recovery.analysis.opened_files import CLAIM, MANUAL, traced_runs
from recovery.analysis.stacks import MIN_SAMPLES, share_text
from recovery.analysis.summary import (
    Summary,
    is_compared,
    mean,
    measured_runs_by_cell,
    own_read_requests,
    per_table,
    summarise,
)
from recovery.analysis.warnings import cell_name, findings_of_each_cell, merge_similar
from recovery.logs.error_log import EventKind, classify, milestone_of
from recovery.logs.timestamps import parse_stamp
from recovery.metrics import metric
from recovery.model import CallChain, Flavor, Run, Session, Table
from recovery.model import Finding as Doubt
from recovery.report import fmt
from recovery.report.host_words import basis_words, reads_words, scope, stronger_words
from recovery.report.stack_tables import MAX_SHOWN_FRAMES
from recovery.report.summary_text import (
    answer_of,
    cell_without_base,
    compare_ends,
    seconds_with_digits,
)
from recovery.report.text import WIDTH, command_lines, paragraph, render_table
from recovery.sharing.bug_finding import Finding, build_name, slowest_run, touched_files, without_build

_MAX_LOG_LINES = 6
_MAX_WARNINGS = 3
"""Most warnings that are shown, each of another kind."""
_MIN_STACK_SAMPLES = 5
"""A stack of a phase with fewer samples shows nothing."""
_FIXED_IN_MARIADB = "https://jira.mariadb.org/browse/MDEV-32027"
_MAX_CELLS = 10
"""Most rows of the table of a load."""
_NAMES = ("version", "variant")
_STATED_ABOVE = ("version", "runs")
_ABOUT_FILES = ("opened", "modified")
_YOURS = "[yours to write]"
_NEEDED = "Crash recovery needs only the files that were modified since the last checkpoint."
_PROMISED = f"{CLAIM} (the manual of 5.7, {MANUAL})."

Section = tuple[str, tuple["str | Table | tuple[str, ...]", ...]]
"""A heading and what is under it: paragraphs, tables, and lines that stay as they are."""


@dataclass(frozen=True)
class LogLines:
    """An error log, or its lines about phases."""

    path: str
    """Its file in the archive."""
    text: str


def render_bug_report(
    session: Session,
    product: Flavor,
    slow: Summary | None,
    finding: Finding,
    *,
    script: str | None,
    log: LogLines | None,
    compared: str | None = None,
) -> str:
    """Returns the text for the bug tracker of this product, which ends with a newline.

    `slow` is the start that the `finding` is about, None if the session measured something else; `script` the name of
    the script that repeats the test, and `log` that of the slowest start, both None if there is none; `compared` is the
    time of another product's server, in words."""
    fields = dict(_fields(session, product, finding))
    sections = [section for section in _sections(session, product, slow, finding, script, log, compared) if section[1]]
    lines = _plain(fields, sections) if product is Flavor.MYSQL else _jira(fields, sections)
    return "\n".join(line.rstrip() for line in lines) + "\n"


# --- Fields of the trackers

_CATEGORY = "MySQL Server: InnoDB storage engine"
_ARCHITECTURES = {"x86_64": "x86", "aarch64": "ARM"}
_PROJECTS = {
    Flavor.MARIADB: ("MariaDB Server (MDEV)", "Storage Engine - InnoDB"),
    Flavor.PERCONA: ("Percona Server for MySQL (PS)", "InnoDB"),
}
"""The project and the component in the Jira of each vendor."""


def _fields(session: Session, product: Flavor, finding: Finding) -> Iterator[tuple[str, str]]:
    affected = _affected(session, finding)
    versions = ", ".join(dict.fromkeys(_release(session, version) for version in affected))
    if product is not Flavor.MYSQL:
        project, component = _PROJECTS[product]
        yield from (("Project", project), ("Issue Type", "Bug"), ("Component/s", component))
        system = session.environment.get("os") or "Linux"
        yield from (("Summary", finding.synopsis), ("Affects Version/s", versions))
        yield "Environment", f"{system}; {_host(session)}; {_storage(session)}"
        return
    severity = "S5 (Performance)" if is_compared(session) else "[S1 to S3: yours to choose]"
    yield from (("Synopsis", finding.synopsis), ("Category", _CATEGORY), ("Severity", severity))
    known = [str(fact) for name in ("os", "kernel") if (fact := session.environment.get(name))]
    yield from (("Version", versions), ("OS", ", ".join(("Linux", *known))))
    architecture = str(session.environment.get("architecture") or "")
    yield "CPU Architecture", _ARCHITECTURES.get(architecture, architecture or "Any")


def _affected(session: Session, finding: Finding) -> tuple[str, ...]:
    """Returns the versions that touch files against the documentation, if the report is about that; else all."""
    if not finding.verb:
        return session.versions
    found = (cell.version for cell in summarise(session) if cell.count and touched_files(session, cell))
    return tuple(dict.fromkeys(found))


def _release(session: Session, version: str) -> str:
    """Returns the version as its vendor writes it: MariaDB's without a prefix, Percona's with its build."""
    if version.startswith(Flavor.PERCONA):
        return _server(session, version).get("@version") or without_build(version).removeprefix("percona-")
    return without_build(version).removeprefix("mariadb-")


def _server(session: Session, version: str) -> dict[str, str]:
    """Returns the facts about a version's server, of its first variant if each has its own."""
    return next((facts for name, facts in session.servers.items() if name.partition(" ")[0] == version), {})


def _host(session: Session) -> str:
    known = session.environment
    cpus = f"{known.get('cpus') or '?'} CPUs {known.get('cpu_model') or ''}".strip()
    memory = known.get("memory_bytes")
    facts = (
        cpus,
        f"{fmt.size(memory)} of memory" if isinstance(memory, int) else None,
        known.get("ec2_instance_type"),
        known.get("virtualisation"),
    )
    return ", ".join(str(fact) for fact in facts if fact)


def _storage(session: Session) -> str:
    known = session.environment
    model = f" ({known['device_model']})" if known.get("device_model") else ""
    where = f"{known.get('filesystem') or 'a file system'} on {known.get('device') or 'an unknown device'}{model}"
    given = (
        (name, session.settings.get(name)) for name in ("read_iops", "read_bps", "memory_bytes", "cpus", "cpu_set")
    )
    limits = ", ".join(" ".join(fmt.fact_row(name, value)) for name, value in given if value)
    return "; ".join(filter(None, (where, reads_words(session), f"limits: {limits}" if limits else "")))


# --- Sections


def _sections(
    session: Session,
    product: Flavor,
    slow: Summary | None,
    finding: Finding,
    script: str | None,
    log: LogLines | None,
    compared: str | None,
) -> Iterator[Section]:
    yield "Description", tuple(_description(session, product))
    cells = [cell for cell in summarise(session) if cell.count] if is_compared(session) else ()
    figures: Table | str = "The tables are in report.txt in the archive."
    if cells:
        files = not finding.compared
        figures = _load_table(session, cells) if slow is None else _startup_table(session, cells, files=files)
    other = (compared,) if compared is not None else ()
    answer = answer_of(session)
    cause = () if finding.compared else answer.cause
    # A table follows that has the rows, unless it was counted what survived.
    title = (f"{answer.title}:",) if answer.title else ()
    found = (*answer.comparison, *cause, *title) if cells else answer.lines
    yield "Actual behaviour", (*found, figures, *other)
    yield "Expected behaviour", tuple([_YOURS] if slow is None else _expected(session, product, slow, finding))
    run = slowest_run(session, slow)
    if run is not None:
        lines = (
            _log_lines(log.text) if log is not None else [run.startup.crash_proof] if run.startup.crash_proof else []
        )
        yield (
            f"Error log of run {run.number}, {run.version} {run.variant}",
            (tuple(map(_log_line, lines)),) if lines else (),
        )
    stack = _sampled_stack(session, slow)
    if stack is not None:
        yield _stack_section(*stack)
    yield "Limits of this measurement", tuple(_limits(session, finding, slow))
    logs = [log.path] if run is not None and log is not None else []
    stacks = [stack[1].stacks.file] if stack is not None and stack[1].stacks.file else []
    attached = ", ".join((*filter(None, (script, *logs, *stacks)), "report.txt, report.json"))
    yield "How to repeat", (*_how_to_repeat(session, script), f"In the attached archive: {attached}")


def _description(session: Session, product: Flavor) -> Iterator[str]:
    for version in session.versions:
        facts, build = _server(session, version), build_name(version)
        sha256 = f"SHA-256 {facts['sha256'][:12]}" if facts.get("sha256") else ""
        name = f"Build {build}, {without_build(version)}" if build else version
        yield f"{name}: {', '.join(filter(None, (facts.get('@version_comment'), sha256))) or 'not known'}"
    if product is Flavor.MYSQL:
        yield f"Host: {_host(session)}"
        yield f"Storage: {_storage(session)}"
    for name, what in (("set", "Options other than the defaults"), ("variants", "Variants")):
        if given := session.settings.get(name):
            yield f"{what}: {given}"


def _startup_table(session: Session, cells: Sequence[Summary], *, files: bool) -> Table:
    """Returns the means of all cells: seconds, what was read for each table of the schema, and with `files` how many
    files were opened and modified.

    The version and the number of runs are left out if they are the same everywhere: the text above states them."""
    measured, traced = measured_runs_by_cell(session), traced_runs(session)
    keys = [(cell.version, cell.variant) for cell in cells]
    rows = [
        _startup_row(session, cell, measured[key], traced.get(key, ())) for cell, key in zip(cells, keys, strict=True)
    ]
    columns = {header: tuple(row[header] for row in rows) for header in rows[0]}
    shown = {
        header: values
        for header, values in columns.items()
        if set(values) != {fmt.ABSENT}
        and (header not in _STATED_ABOVE or len(set(values)) > 1)
        and (files or header not in _ABOUT_FILES)
    }
    numeric = tuple(header not in _NAMES for header in shown)
    return Table("", tuple(shown), tuple(zip(*shown.values(), strict=True)), numeric=numeric, keys=numeric.count(False))


def _load_table(session: Session, cells: Sequence[Summary]) -> Table:
    """Returns the means of the first cells, each with those of all versions."""
    rows = []
    for cell in sorted(cells, key=lambda cell: session.variant_names.index(cell.variant))[:_MAX_CELLS]:
        about = metric(session.metric_of(cell.variant))
        error = fmt.interval_column(about, cell)
        where = cell_without_base(session, cell.variant)
        rows.append((cell.version, where, str(cell.count), fmt.with_unit(about, cell.mean or 0.0), error))
    left_out = f"{len(cells) - _MAX_CELLS} more rows are in report.txt in the archive."
    return Table(
        title="",
        headers=("version", "what", "runs", "mean", "+-"),
        rows=tuple(rows),
        numeric=(False, False, True, True, True),
        keys=2,
        notes=(left_out,) if len(cells) > _MAX_CELLS else (),
    )


def _startup_row(session: Session, cell: Summary, runs: Sequence[Run], traced: Sequence[Run]) -> dict[str, str]:
    """Returns the values of a row, by the header of their column; numbers of files are those of the traced runs."""
    size = mean(per_table(run, "read_bytes") for run in runs)
    reads = own_read_requests(session, runs, for_each_table=True)
    opened, modified = (
        mean(getattr(run.opened_files, name) for run in traced)
        for name in ("tablespaces_opened", "tablespaces_modified")
    )
    return {
        "version": cell.version,
        "variant": cell.variant,
        "runs": str(cell.count),
        "seconds": fmt.seconds(cell.mean),
        "+-": fmt.interval_column(metric(cell.name), cell),
        "bytes, reads/table": f"{fmt.size(_rounded(size))}, {fmt.ratio(reads)}",
        "opened": fmt.count(_rounded(opened)),
        "modified": fmt.count(_rounded(modified)),
    }


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


def _expected(session: Session, product: Flavor, slow: Summary, finding: Finding) -> Iterator[str]:
    """Yields what can be expected: by the manual if the report is about files, else by a faster version; nothing if
    neither says it."""
    key = (slow.version, slow.variant)
    if finding.verb:
        done = {"reads": ("read", "tablespaces_read"), "opens": ("opened", "tablespaces_opened")}
        word, name = done[finding.verb]
        touched, modified = (
            mean(getattr(run.opened_files, field) for run in traced_runs(session)[key]) or 0.0
            for field in (name, "tablespaces_modified")
        )
        rule = f"{_NEEDED} See {_FIXED_IN_MARIADB}." if product is Flavor.MARIADB else _PROMISED
        yield f"{rule} Here {touched:,.0f} are {word}, and {modified:,.0f} were modified."
        return
    others = [cell for cell in summarise(session) if cell.count and cell.variant == slow.variant]
    ends = compare_ends(session, others)
    if (
        any(run.startup.crash_proof for run in measured_runs_by_cell(session)[key])
        and ends.slow == slow
        and ends.differ
    ):
        fast = seconds_with_digits(ends.fast.mean or 0.0)
        yield f"{slow.version} takes no longer than {ends.fast.version}, which needs {fast}."


def _sampled_stack(session: Session, slow: Summary | None) -> tuple[CallChain, Run] | None:
    """Returns the most frequent stack of the sampled starts, of the slowest version if it was sampled, with its run.
    Stacks of phases with very few samples are left out."""
    found = [
        (chain, run)
        for run in session.runs
        for chain in run.stacks.chains
        if not chain.waits and chain.of >= _MIN_STACK_SAMPLES
    ]
    version = slow.version if slow else None
    return max(found, key=lambda sampled: (sampled[1].version == version, sampled[0].samples), default=None)


def _stack_section(chain: CallChain, run: Run) -> Section:
    share = share_text(chain.samples, chain.of, decimals=0)
    share = f"{share} of" if chain.of >= MIN_SAMPLES else f"{share} samples in"
    heading = f"Top stack of run {run.number}, {run.version}: {share} {chain.phase}, {chain.thread}"
    return heading, (tuple(paragraph(_frames(chain))),)


def _limits(session: Session, finding: Finding, slow: Summary | None) -> Iterator[str]:
    """Yields how exact the figures are, and the warnings: first those that doubt what the report is about."""
    parts = [f"means with 95 % intervals {scope(session)}, by Student's t, from 3 runs on"]
    if (machine := session.environment.get("virtualisation")) is not None:
        parts.append(f"virtual machine ({machine})")
    text = "; ".join(parts)
    basis = (_basis(session),) if is_compared(session) else ()
    yield " ".join((f"{text[:1].upper()}{text[1:]}.", *basis))
    found = tuple(_warnings(session, finding, slow))
    first_of_kind: dict[str, Doubt] = {}
    for warning in found:
        first_of_kind.setdefault(warning.kind, warning)
    shown = list(first_of_kind.values())[:_MAX_WARNINGS]
    yield from (f"Warning, {warning.about}: {warning.text}" for warning in shown)
    if more := Counter(warning.kind.replace("-", " ") for warning in found if warning not in shown):
        kinds = (f"{kind} ({count})" if count > 1 else kind for kind, count in more.items())
        yield f"Further warnings, in report.txt: {', '.join(kinds)}."


def _warnings(session: Session, finding: Finding, slow: Summary | None) -> Iterator[Doubt]:
    """Yields all warnings: first those about the cells that the report is about and about the whole session, then those
    about other cells."""
    about = {
        cell_name(session, (cell.version, cell.variant)) for cell in (*((slow,) if slow else ()), *finding.compared)
    }
    others = {cell_name(session, cell) for cell in measured_runs_by_cell(session)} - about if slow else set()
    found = findings_of_each_cell(session)
    yield from merge_similar(one for one in found if one.about not in others)
    yield from merge_similar(one for one in found if one.about in others)


def _basis(session: Session) -> str:
    """Returns what the figures stand on, and what would make them stronger, in a sentence."""
    basis = basis_of(session, earlier=True)
    stands_on = (
        "It stands on" if basis.sessions == 1 else "The figures are of one session; with the earlier ones there are"
    )
    return f"{'; '.join(filter(None, (f'{stands_on} {basis_words(basis)}', stronger_words(basis))))}."


def _frames(chain: CallChain) -> str:
    return " > ".join(chain.frames[-MAX_SHOWN_FRAMES:])


def _how_to_repeat(session: Session, script: str | None) -> Iterator[str | tuple[str, ...]]:
    if script is not None:
        yield (f"  bash {script} /path/to/mysqld    (attached; cold starts need root)",)
    yield "With the tool that measured this:"
    yield tuple(command_lines(session.command))


# --- Lines of the error log

_LOG_PREFIX = re.compile(
    r"^\d{4}-\d\d-\d\d[T ] ?(\d{1,2}:\d\d:\d\d(?:\.\d{3})?)\d*(?:Z|[+-]\d\d:\d\d)? +\d+ "
    r"(?:\[(?:Note|System)\] )?(?:(\[MY-\d+\] )\[\w+\] )?"
)
"""What is not shown of a line: its date, the digits after milliseconds, its thread, `[Note]` and the subsystem."""
_PROGRAM_FOLDER = re.compile(r"(?<!\S)\S*/(?=(?:mysqld|mariadbd)(?!\S*/))")


def _log_lines(log: str) -> list[str]:
    """Returns the lines that bound the phases of a start: the first of each kind, and of many those around the longest
    phases."""
    found: list[str] = []
    seen: set[object] = set()
    for line in log.splitlines():
        event = classify(line)
        kinds = {kind for kind in (event and event.kind, milestone_of(line)) if kind is not None} - seen
        if kinds:
            found.append(line)
            seen |= kinds
        if EventKind.READY in kinds:
            break
    stamps = [None if (stamp := parse_stamp(line)) is None else stamp.at_s for line in found]
    gaps = [0.0 if start is None or end is None else end - start for start, end in pairwise(stamps)]
    weights = [max(pair) for pair in zip([0.0, *gaps], [*gaps, 0.0], strict=True)]
    ranked = sorted(range(len(found)), key=lambda number: (classify(found[number]) is None, -weights[number]))
    return [found[number] for number in sorted(ranked[:_MAX_LOG_LINES])]


def _log_line(line: str) -> str:
    """Returns a line of a log, cut to the width of the page."""
    text = _one_line(_PROGRAM_FOLDER.sub("", _LOG_PREFIX.sub(r"\1 \2", line)))
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


# --- Plain text


def _plain(fields: dict[str, str], sections: Sequence[Section]) -> Iterator[str]:
    for name, value in fields.items():
        yield from paragraph(f"{name}: {value}")
    for heading, content in sections:
        yield ""
        if len(content) == 1 and isinstance(content[0], str):
            yield from paragraph(f"{heading}: {content[0]}")
            continue
        yield from paragraph(f"{heading}:")
        for part in content:
            if isinstance(part, str):
                yield from paragraph(part)
            elif isinstance(part, Table):
                yield from _table_lines(part)
            else:
                yield from part


def _table_lines(table: Table) -> list[str]:
    """Returns the lines of a table without a title."""
    return render_table(table).splitlines()[2:]


# --- Jira


def _jira(fields: dict[str, str], sections: Sequence[Section]) -> Iterator[str]:
    for name, value in fields.items():
        yield f"{name}: {_one_line(value)}"
    for heading, content in sections:
        yield ""
        yield f"h3. {_escaped(heading)}"
        for part in content:
            if isinstance(part, str):
                yield _escaped(part)
            elif isinstance(part, Table):
                yield f"||{'||'.join(map(_escaped, part.headers))}||"
                yield from (f"|{'|'.join(map(_escaped, row))}|" for row in part.rows)
                yield from map(_escaped, part.notes)
            else:
                yield "{noformat}"
                yield from (line.replace("{noformat}", "{ noformat}") for line in part)
                yield "{noformat}"


def _one_line(text: str) -> str:
    return " ".join(paragraph(text))


def _escaped(text: str) -> str:
    """Returns the text on one line, without a meaning in Jira's markup."""
    return re.sub(r"([\\{}\[\]|*_+^~!?])", r"\\\1", _one_line(text))
