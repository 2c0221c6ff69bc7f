"""Which session ended early and may go on, and what have killed ones left half made beside their results?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import RecoveryError, UsageError
from recovery.files import sweep_drafts
from recovery.host import flock
from recovery.ownership import why_not_trusted
from recovery.planned import ADAPTER, PLAN, Planned
from recovery.readback import read_back
from recovery.store import DRAFTS, LATEST, LOCK, REPORT, find, load, session_names, still_runs
from recovery.stored import Session

FINISHED, INTERRUPTED = "finished", "interrupted"


@dataclass(frozen=True)
class Left:
    """A session that has ended, as it is stored."""

    folder: Path
    session: Session

    @property
    def missing(self) -> int:
        return self.session.planned_runs - len(self.session.done)

    @property
    def has_ended(self) -> bool:
        """It came to the end of its plan, and none of its runs is to be measured again, whatever came of each."""
        return self.session.status == FINISHED and not any(run.measure_again for run in self.session.runs)

    def plan(self) -> Planned:
        """UsageError where an older tool has begun it, which kept none, or where somebody else may have written it."""
        path = self.folder / PLAN
        # It names the server that is run next.
        if why := why_not_trusted(path) or why_not_trusted(self.folder / REPORT):
            raise UsageError(f"{self.folder} cannot go on: {why}", "see who may write there, or measure anew")
        if not path.is_file():
            raise UsageError(
                f"{self.folder.name} cannot go on: the tool that began it kept no plan",
                "measure again; what it has is kept",
            )
        return read_back(path, ADAPTER)


def find_left(results: Path, name: str | None) -> Left:
    """The one called so, or else the newest that lacks something."""
    if name is not None:
        return _left(find(results, name))
    found = next((left for left in _all(results) if not left.has_ended), None)
    if found is None:
        raise UsageError(
            f"there is no session in {results} that ended early", "name the folder with --results, or measure anew"
        )
    return found


def _all(results: Path) -> Iterator[Left]:
    """The newest first; one that is damaged is nobody's to go on with."""
    for name in reversed(session_names(results)):
        with suppress(RecoveryError):
            yield Left(results / name, load(results / name))


def refuse_running(left: Left) -> None:
    """Before anything is looked for on its behalf; whoever goes on with it locks it."""
    if flock.holder(left.folder / LOCK) is not None:
        raise still_runs(left.folder)


def _left(folder: Path) -> Left:
    return Left(folder, load(folder))


def tidy(results: Path) -> None:
    """Removes what killed processes have left half made: in this folder, and in every session of it."""
    sweep_drafts(results, DRAFTS)
    for folder in (path.parent for path in results.glob(f"*/{REPORT}") if path.parent.name != LATEST):
        for part in (folder, folder / "runs"):
            sweep_drafts(part)
        if (folder / LOCK).exists():
            _unlock_ended(folder)


def _unlock_ended(folder: Path) -> None:
    """Its tool was killed between its last word and the lock's removal."""
    with suppress(RecoveryError, OSError):
        has_ended = load(folder).status in (FINISHED, INTERRUPTED)
        if has_ended and (lock := flock.take(folder / LOCK, mode=0o644)) is not None:
            lock.release(unlink=True)
