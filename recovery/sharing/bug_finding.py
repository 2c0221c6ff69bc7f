"""Decides what the bug report of a session is about: its synopsis, and the figure that repro.sh prints to be compared
with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recovery.analysis.opened_files import FAILS, OPENS_ONLY, claim_verdict, traced_runs
from recovery.analysis.statistics import MIN_RUNS
from recovery.analysis.summary import Summary, is_compared, measured_runs_by_cell, summarise, variant_ratios
from recovery.errors import RecoveryError, UsageError
from recovery.model import TABLES_AXIS, Run, Session, can, parse_version
from recovery.report.summary_text import (
    compare_ends,
    effect_size,
    seconds_with_digits,
    settings_axis,
    slowest_start,
)
from recovery.sharing.stored_options import named_settings


@dataclass(frozen=True)
class Finding:
    """What a bug report is about."""

    synopsis: str
    verb: str = ""
    """What a start does with files against the documentation: `reads` or `opens`; empty if it is about seconds."""
    compared: tuple[Summary, ...] = ()
    """The cells that it compares: builds of one release, named settings, or versions that are alike."""
    differ: bool | None = None
    """Whether these, or the versions, differ significantly; None with too few runs, and if nothing is compared."""


def find_difference(session: Session, *, left_out: Sequence[str] = ()) -> tuple[Summary | None, Finding]:
    """Returns the start that the report of this session is about, and what it is about: the slowest start, or the
    slowest of another variant if only that differs; no start if none was timed.

    `left_out` are the versions of other products, which the session was measured with. Raises RecoveryError if all that
    was compared is alike, has too few runs, or differs from those only."""
    if not session.has_caches:
        if _are_loads_alike(session):
            raise _no_difference(f"{session.title}: no significant difference", "measure longer (--seconds), or")
        return None, find(session, None)
    summaries = summarise(session)
    slow = slowest_start(session, summaries)
    finding = find(session, slow)
    if finding.differ or not (finding.compared or _needs_difference(session, slow, finding, left_out)):
        return slow, finding
    for variant in session.variant_names:
        other = slowest_start(session, [one for one in summaries if one.variant == variant])
        if other is not None and (found := find(session, other)).differ:
            return other, found
    if not finding.compared:
        raise _no_difference(
            f"{finding.synopsis}, and no difference within the product",
            "measure another version of it, record with --trace which files a start opens, or",
        )
    raise _no_difference(finding.synopsis, "record with --trace which files a start opens, or")


def _needs_difference(session: Session, slow: Summary | None, finding: Finding, left_out: Sequence[str]) -> bool:
    """Returns whether versions were compared, and nothing else is to be reported: neither files nor sampled stacks."""
    if slow is None or finding.verb or any(run.stacks.chains for run in session.runs):
        return False
    return bool(left_out) or len(_versions_beside(session, slow)) > 1


def _no_difference(synopsis: str, remedy: str) -> RecoveryError:
    return RecoveryError(f"there is nothing to report: {synopsis}", f"{remedy} measure with more --runs")


def _are_loads_alike(session: Session) -> bool:
    """Returns whether loads were compared, with enough runs, and none differs significantly."""
    if not is_compared(session):
        return False
    compared = [*summarise(session), *(ratio for axis in session.axes for ratio in variant_ratios(session, axis))]
    verdicts = {one.significant for one in compared}
    return False in verdicts and True not in verdicts


def find(session: Session, slow: Summary | None) -> Finding:
    """Returns what the report of this session is about; `slow` is its slowest start, None if it timed no starts."""
    if slow is None:
        return Finding(f"{session.title}: {', '.join(dict.fromkeys(map(without_build, session.versions)))}")
    if (comparison := _compared_builds(session, slow) or _compared_settings(session, slow)) is not None:
        return comparison
    run = slowest_run(session, slow)
    if (touched := touched_files(session, slow)) is not None:
        files = f"{touched.count:,} files"
        if touched.count == touched.run.contents.tables_found:
            files = f"all {files}"
        modified = touched.run.opened_files.tablespaces_modified or 0
        text = f"Crash recovery of {without_build(slow.version)} {touched.verb} {files}, {modified:,} were modified"
        return Finding(text, touched.verb)
    if (alike := _alike_versions(session, slow)) is not None:
        return alike
    # A variant of the experiment `scale` is named after its tables, too.
    of_tables = TABLES_AXIS in session.values_of(slow.variant)
    variant = (session.cache_of(slow.variant) if of_tables else None) or slow.variant
    tables = f" with {run.contents.tables_found:,} tables" if run and run.contents.tables_found else ""
    version = f" ({without_build(slow.version)})" if len(session.versions) > 1 else ""
    synopsis = f"{session.title} takes {seconds_with_digits(slow.mean or 0.0)} {variant}{tables}{version}"
    cells = _versions_beside(session, slow)
    return Finding(synopsis, differ=compare_ends(session, cells).differ if len(cells) > 1 else None)


def slowest_run(session: Session, slow: Summary | None) -> Run | None:
    """Returns the slowest measured run of the slowest cell."""
    runs = measured_runs_by_cell(session).get((slow.version, slow.variant), ()) if slow else ()
    return max(runs, key=lambda run: run.metrics.get("startup_s") or 0.0, default=None)


@dataclass(frozen=True)
class TouchedFiles:
    """The files that a crash start touches against the documentation."""

    verb: str
    """`reads` or `opens`."""
    count: int
    run: Run
    """The traced run in which they were counted."""


def touched_files(session: Session, cell: Summary) -> TouchedFiles | None:
    """Returns what a traced crash start touches against the documentation; None if it touches nothing so, was not
    traced, or is of a version that promises nothing."""
    runs = traced_runs(session).get((cell.version, cell.variant), ())
    if not runs or not _promises_modified_files_only(cell.version):
        return None
    first = runs[0].opened_files
    touched = {FAILS: ("reads", first.tablespaces_read), OPENS_ONLY: ("opens", first.tablespaces_opened)}
    verb, count = touched.get(claim_verdict(runs), ("", None))
    return TouchedFiles(verb, count, runs[0]) if count else None


def _promises_modified_files_only(version: str) -> bool:
    try:
        return can(parse_version(version), "promises_modified_files_only")
    except ValueError:
        return False


def without_build(version: str) -> str:
    """Returns the version alone: 8.0.31 of the build 8.0.31+patched."""
    return version.partition("+")[0]


def build_name(version: str) -> str:
    return version.partition("+")[2]


# --- Sessions that compare two ways to start the same release


def _compared_builds(session: Session, slow: Summary) -> Finding | None:
    cells = [
        cell
        for cell in summarise(session)
        if cell.count and cell.variant == slow.variant and without_build(cell.version) == without_build(slow.version)
    ]
    if len(cells) < 2:
        return None
    ends = compare_ends(session, cells)
    names = {(cell.version, cell.variant): build_name(cell.version) or cell.version for cell in cells}
    return _comparison(session, (ends.slow, ends.fast) if ends.differ else cells, names, differ=ends.differ)


def _alike_versions(session: Session, slow: Summary) -> Finding | None:
    """Returns what a report says of versions that do not differ significantly; None if they do, or are not compared."""
    cells = _versions_beside(session, slow)
    if len(cells) < 2 or compare_ends(session, cells).differ is not False:
        return None
    return _comparison(session, cells, {(cell.version, cell.variant): cell.version for cell in cells}, differ=False)


def _versions_beside(session: Session, slow: Summary) -> list[Summary]:
    """Returns the measured cells of all versions in the variant of this start."""
    return [cell for cell in summarise(session) if cell.count and cell.variant == slow.variant]


def _compared_settings(session: Session, slow: Summary) -> Finding | None:
    axis = settings_axis(session)
    ratios = () if axis is None else variant_ratios(session, axis)
    ratios = tuple(ratio for ratio in ratios if (ratio.version, ratio.base_variant) == (slow.version, slow.variant))
    if axis is None or not ratios:
        return None
    sure = [ratio for ratio in ratios if ratio.significant]
    # repro.sh makes one schema: if it can, the report is about settings of the same schema.
    sure = [ratio for ratio in sure if session.values_of(ratio.variant)[axis.name] not in _reshaped(session)] or sure
    differ = True if sure else None if all(ratio.significant is None for ratio in ratios) else False
    shown = {ratio.variant for ratio in ([max(sure, key=effect_size)] if sure else ratios)}
    others = [cell for cell in summarise(session) if cell.version == slow.version and cell.variant in shown]
    names = {(cell.version, cell.variant): session.values_of(cell.variant)[axis.name] for cell in (slow, *others)}
    return _comparison(session, (slow, *others), names, differ=differ)


def _reshaped(session: Session) -> set[str]:
    """Returns the names of the settings that have other schemas or another layout."""
    try:
        named = named_settings(session.settings.get("variants"))
    except UsageError:
        return set()
    return {variant.label for variant in named if variant.layout is not None or variant.schemas is not None}


def _comparison(
    session: Session, cells: Sequence[Summary], names: dict[tuple[str, str], str], *, differ: bool | None
) -> Finding:
    first, *others = cells
    cache = session.cache_of(first.variant) or first.variant
    run = slowest_run(session, first)
    called = [names[cell.version, cell.variant] for cell in cells]
    shared = [] if first.version in called else [without_build(first.version)]
    about = ", ".join(
        (*shared, *([f"{run.contents.tables_found:,} tables"] if run and run.contents.tables_found else []))
    )
    if differ:
        times = [seconds_with_digits(cell.mean or 0.0) for cell in cells]
        text = f" takes {times[0]} {cache} with {called[0]}, and {times[1]} with {called[1]}"
    elif differ is None:
        text = f": {' and '.join(called)} are not compared, {MIN_RUNS} runs of each are needed"
    else:
        *others_called, last = called
        text = f": no significant difference between {', '.join(others_called)} and {last}, {cache}"
    return Finding(f"{session.title}{text}{f' ({about})' if about else ''}", compared=(first, *others), differ=differ)
