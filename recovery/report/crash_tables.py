"""Builds the tables and sentences about servers that were killed under load, or started over damaged files."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from statistics import fmean

from recovery.analysis.summary import Group, cell_words, groups, runs_by_cell
from recovery.metrics import RECOVERY_METRIC, metric
from recovery.model import QUESTION_AXIS, Run, Session, Table, Verdict
from recovery.report import fmt
from recovery.report.answer import Answer, Row, Value

# --- Crashes: what each cell lost or kept, summed over all its kills

_VIOLATION_COUNTS = ("ghosts", "torn", "holes", "half_done", "missing", "failing", "complaints")
"""Counts that are shown only if they are not zero."""
_KILL_TIME = "killed_after_s"
_MAX_REPEAT_COMMANDS = 3
_MAX_NAMED = 3
_SHOWN = ("kills", "acknowledged", "lost")


def crash_tables(session: Session) -> Iterator[Table]:
    """Yields a table for each group of cells."""
    cells = {key: killed_as_planned(runs) for key, runs in runs_by_cell(session).items()}
    everything = tuple(run for runs in cells.values() for run in runs)
    shown = (*_SHOWN, *(name for name in ("cut_short", "orphans", *_VIOLATION_COUNTS) if sum_measure(everything, name)))
    parts = groups(session)
    for group in parts:
        yield _table(session, group, cells, shown, is_last=group is parts[-1])


def crash_answer(session: Session) -> Answer:
    """Returns how many crashes or damages each version survived."""
    if any(run.observations for run in session.runs):
        return _damage_answer(session)
    cells = runs_by_cell(session)
    rows: list[Row] = []
    for version in session.versions:
        runs = killed_as_planned(run for variant in session.variant_names for run in cells[version, variant])
        seconds = [run.metrics[RECOVERY_METRIC] for run in runs if RECOVERY_METRIC in run.metrics]
        if not runs:
            rows.append(Row(version, (Value("nothing was measured"),), ("", "", ""), version))
            continue
        survived = count_survived(runs)
        gone = sum(RECOVERY_METRIC not in run.metrics for run in runs)
        text = f"{survived:,} of {len(runs):,}"
        facts = (
            fmt.share_interval(survived, len(runs)),
            f"{fmt.duration(fmean(seconds))} s, at most {fmt.duration(max(seconds))}" if seconds else "",
            f"{gone:,}" if gone else "",
        )
        rows.append(Row(version, (Value(text, survived / len(runs), scale="survived"),), facts, version))
    names = ("95 %", "back after", "not back")
    kept = [place for place in range(len(names)) if any(row.facts[place] for row in rows)]
    return Answer(
        columns=("without a loss",),
        facts=tuple(names[place] for place in kept),
        rows=tuple(replace(row, facts=tuple(row.facts[place] for place in kept)) for row in rows),
        comparison=tuple(_losses(session, cells)),
    )


def _losses(session: Session, cells: Mapping[tuple[str, str], tuple[Run, ...]]) -> Iterator[str]:
    """Yields the cells that survived fewest crashes, the worst first."""
    found = []
    for version in session.versions:
        for variant in session.variant_names:
            runs = killed_as_planned(cells[version, variant])
            if lost := len(runs) - count_survived(runs):
                found.append((lost / len(runs), f"{version} {cell_words(session, variant)}: {lost} of {len(runs)}"))
    found.sort(key=lambda one: -one[0])
    if found:
        more = f"; {len(found) - _MAX_NAMED} more cells" if len(found) > _MAX_NAMED else ""
        yield f"Not recovered, or with a loss: {'; '.join(text for _, text in found[:_MAX_NAMED])}{more}."


def killed_as_planned(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Returns the runs in which the server was killed as planned, whether it recovered correctly or not."""
    return tuple(run for run in runs if run.verdict in (Verdict.MEASURED, Verdict.FAILED))


def count_survived(runs: Iterable[Run]) -> int:
    """Returns how many servers came back with everything that they had promised."""
    return sum(run.verdict is Verdict.MEASURED for run in runs)


def sum_measure(runs: Iterable[Run], name: str) -> int:
    return int(sum(run.metrics.get(name, 0.0) for run in runs))


def _table(
    session: Session,
    group: Group,
    cells: dict[tuple[str, str], tuple[Run, ...]],
    shown: tuple[str, ...],
    *,
    is_last: bool,
) -> Table:
    named = fmt.key_headers(session, group)
    about = [(version, variant) for version in session.versions for variant in group.variants]
    return Table(
        title=fmt.group_title(session.title, group),
        headers=(
            *named, "survived", "mean s", "max s", *(metric(name).label for name in shown), "oldest lost, s",
        ),
        rows=tuple(
            (*fmt.key_cells(session, group, key), *_row(cells[key], shown)) for key in about if cells[key]
        ),
        numeric=(*fmt.numeric_columns(session, group), *(True,) * (4 + len(shown))),
        notes=_notes(session, shown) if is_last else (),
        keys=len(named),
    )  # fmt: skip


def _row(runs: tuple[Run, ...], shown: tuple[str, ...]) -> Iterator[str]:
    seconds = [run.metrics[RECOVERY_METRIC] for run in runs if RECOVERY_METRIC in run.metrics]
    windows = [run.metrics["lost_window_s"] for run in runs if "lost_window_s" in run.metrics]
    survived = count_survived(runs)
    yield f"{survived} of {len(runs)} ({fmt.share_interval(survived, len(runs))})"
    yield fmt.duration(fmean(seconds)) if seconds else fmt.ABSENT
    yield fmt.duration(max(seconds)) if seconds else fmt.ABSENT
    for name in shown:
        yield f"{sum_measure(runs, name):,}"
    yield fmt.duration(max(windows)) if windows else fmt.ABSENT


def _notes(session: Session, shown: tuple[str, ...]) -> tuple[str, ...]:
    explained = "; ".join(f"{metric(name).label}: {metric(name).note}" for name in shown)
    return (
        "survived: the server started again with everything that it guarantees. Without a flush at each commit "
        "(innodb_flush_log_at_trx_commit=0, or 2 with a power loss) the last acknowledged transactions may be lost, "
        "and servers without atomic DDL may leave a half-done definition: both are counted, but break no guarantee. "
        "In parentheses: the share that survives such crashes, 95 % interval (Clopper and Pearson).",
        f"Sums over all runs of a cell; seconds until ready again. {explained}.",
        *_repeat_note(session),
        *fmt.server_spelling_notes(session),
    )


def _repeat_note(session: Session) -> Iterator[str]:
    """Yields a note with commands that repeat failed runs. The number of the repetition determines the random choices,
    so that they are the same again."""
    failed = [run for run in session.runs if run.verdict is Verdict.FAILED and _KILL_TIME in run.metrics]
    cases = dict.fromkeys((session.value_of(run.variant, QUESTION_AXIS), run.repeat) for run in failed)
    commands = [_repeat_command(session, moment, repeat) for moment, repeat in cases]
    if commands:
        more = f"; and {len(commands) - _MAX_REPEAT_COMMANDS} more" if len(commands) > _MAX_REPEAT_COMMANDS else ""
        yield f"To repeat a failed run: {'; '.join(commands[:_MAX_REPEAT_COMMANDS])}{more}."


def _repeat_command(session: Session, moment: str | None, repeat: int) -> str:
    words = shlex.split(session.command)
    if moment and "--question" in words:
        words[words.index("--question") + 1] = moment
    elif moment:
        words += ["--question", moment]
    return shlex.join((*words, "--only", str(repeat)))


# --- Damaged files: what each server did, and what its log says about the damage

_MAX_TEXT_LENGTH = 200


def _damage_answer(session: Session) -> Answer:
    rows = []
    for version in session.versions:
        runs = [run for run in session.runs if run.version == version and run.observations]
        back = sum(run.metrics.get("startup_s") is not None for run in runs)
        share = back / len(runs) if runs else None
        text = f"{back} of {len(runs)}" if runs else "nothing was measured"
        rows.append(Row(version, (Value(text, share, scale="started"),), (), version))
    return Answer(
        columns=("started again",),
        rows=tuple(rows),
        cause=("The table shows what each server logged.",),
    )


def damage_table(session: Session) -> Table:
    observed = [run for run in session.runs if run.observations]
    names = tuple(dict.fromkeys(name for run in observed for name in run.observations))
    rows: dict[tuple[str, ...], list[str]] = {}
    for run in observed:
        texts = (_truncated(run.observations.get(name)) for name in names)
        row = (run.version, cell_words(session, run.variant), *texts)
        rows.setdefault(row, []).append(str(run.number))
    return Table(
        title=session.title,
        headers=("version", "damage", "runs", *names),
        rows=tuple((version, damage, ", ".join(runs), *texts) for (version, damage, *texts), runs in rows.items()),
        numeric=(False,) * (3 + len(names)),
        notes=(
            "One start with the damage, after a kill under load. says: the first line of the log about the damage, at "
            "the start or when the table was read. Once mended: a second start, with the original file restored, or "
            "with free space on the disk.",
        ),
        keys=3,
    )


def _truncated(text: str | None) -> str:
    if text is None:
        return fmt.ABSENT
    return text if len(text) <= _MAX_TEXT_LENGTH else f"{text[: _MAX_TEXT_LENGTH - 1]}…"
