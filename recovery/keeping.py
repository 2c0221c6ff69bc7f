"""What of a trial is kept beside its figures? Logs, stacks and looks, in the session's folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from recovery.files import copy_atomically, write_atomically
from recovery.model import Trial
from recovery.scenarios.outcome import Outcome, Worked
from recovery.store import LOOKS, STACKS, keeping_in
from recovery.stored import Run, Verdict


def keep(folder: Path, trial: Trial, run: Run, *, outcome: Outcome | Worked | None, logs: Path) -> Run:
    """The run, with the names of what was kept. Where it failed it is the log that tells the reason."""
    with keeping_in(folder):
        has_failed = outcome is None or run.verdict is Verdict.FAILED
        log = _log(folder, trial, logs, timed=outcome is not None, last=has_failed)
        stacks = None if outcome is None else _stacks(folder, trial, outcome)
        raw = _looks(folder, trial, outcome) if isinstance(outcome, Worked) else None
    return replace(run, log=log, stacks=stacks, raw=raw)


def _name(trial: Trial) -> str:
    return f"{trial.number:03d}-{trial.version}-{trial.variant.name}-{trial.repeat}"


def _log(folder: Path, trial: Trial, logs: Path, *, timed: bool, last: bool) -> str | None:
    """Of the timed start, or the last log there is."""
    found = sorted(logs.glob("timed*.err"), key=_written) if timed else []
    if not found and last:
        found = sorted(logs.glob("*.err"), key=_written)
    if not found:
        return None
    name = f"logs/{_name(trial)}.err"
    copy_atomically(found[-1], folder / name)
    return name


def _written(log: Path) -> float:
    return log.stat().st_mtime


def _stacks(folder: Path, trial: Trial, outcome: Outcome | Worked) -> str | None:
    if outcome.samples is None or not outcome.samples.looks:
        return None
    name = f"{STACKS}/{_name(trial)}.folded"
    (folder / name).parent.mkdir(exist_ok=True)
    write_atomically(folder / name, outcome.samples.folded.encode(errors="replace"))
    return name


def _looks(folder: Path, trial: Trial, worked: Worked) -> str | None:
    """All that was looked at while the server was at work."""
    if worked.raw is None:
        return None
    name = f"{LOOKS}/{_name(trial)}.csv.gz"
    (folder / name).parent.mkdir(exist_ok=True)
    copy_atomically(worked.raw, folder / name)
    return name
