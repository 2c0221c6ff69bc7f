"""Sessions of one server and setting are not called different: all pairs of them among the kept sessions.

By their runs, most of them differ significantly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from sessions import KEPT_SESSIONS

from recovery.analysis.compare import compare
from recovery.analysis.contrasts import compare_means
from recovery.analysis.history import CellDesign, SessionCell, session_cells
from recovery.analysis.summary import main_values
from recovery.model import STARTUP_METRIC, Session
from recovery.storage.sessions import load_session


@dataclass(frozen=True)
class Kept:
    """One cell of a session."""

    session: Session
    """With this cell only."""
    cell: SessionCell

    @property
    def values(self) -> list[float]:
        return main_values(self.session, self.session.runs)


def cells_of(name: str, session: Session) -> Iterator[Kept]:
    """Each cell, under the variant's name without what its session calls it."""
    for (version, variant), cell in session_cells(name, session).items():
        runs = tuple(run for run in session.runs if (run.version, run.variant) == (version, variant))
        alone = replace(
            session,
            versions=(version,),
            variants=tuple(
                replace(known, name=cell.design.variant) for known in session.variants if known.name == variant
            ),
            runs=tuple(replace(run, variant=cell.design.variant) for run in runs),
        )
        assert session_cells(name, alone) == {(version, cell.design.variant): cell}
        yield Kept(alone, cell)


def of_one_design(session: Session) -> Session:
    """As it is, on a host of no known id: most kept sessions have none."""
    return on_host(session, "unknown")


def of_one_design_and_kernel(session: Session) -> Session:
    return on_host(session, session.environment["kernel"])


_NOT_OF_SETTING = ("engine", "inserts", "traced_starts")


def of_one_setting(session: Session) -> Session:
    """Without what a design has beside the server, its tables and its options: the experiment, whether it was traced
    and in a container, which build of the version. The read-ahead of the device is a setting."""
    kept = {
        name: value for name, value in session.settings.items() if name not in ("engine", "inserts", "traced_starts")
    }
    return replace(
        on_host(session, session.environment["read_ahead_kb"]),
        experiment="starts" if session.metric == STARTUP_METRIC else session.experiment,
        settings=kept,
        servers={name: without_build(facts) for name, facts in session.servers.items()},
    )


def of_one_setting_and_kernel(session: Session) -> Session:
    host = f"{session.environment['kernel']} {session.environment['read_ahead_kb']}"
    return on_host(of_one_setting(session), host)


def without_build(facts: dict[str, str]) -> dict[str, str]:
    """The server without its build, and without an option that only later versions of the tool give to MariaDB."""
    return {**facts, "sha256": "any", "options": facts["options"].replace(" ssl=OFF", "")}


def on_host(session: Session, host: object) -> Session:
    return replace(session, environment={**session.environment, "host_id": str(host)})


@cache
def stored(folder: Path) -> Session:
    return load_session(folder)


def equal_pairs(folder: Path, taken_as: Callable[[Session], Session]) -> tuple[list[tuple[Kept, Kept]], list[Kept]]:
    """All pairs of cells of one design in two sessions, and all cells."""
    kept = [one for name in KEPT_SESSIONS for one in cells_of(name, taken_as(stored(folder / name)))]
    by_design: dict[CellDesign, list[Kept]] = {}
    for one in kept:
        by_design.setdefault(one.cell.design, []).append(one)
    return [pair for same in by_design.values() for pair in combinations(same, 2)], kept


def claim(pair: tuple[Kept, Kept], others: Sequence[SessionCell] = ()) -> bool | None:
    """What `compare` says of the pair."""
    (found,) = compare([pair[0].session], [pair[1].session], others).pairs
    return found.significant


def differ_by_their_runs(pair: tuple[Kept, Kept]) -> bool:
    """Whether the runs differ significantly, as if all sessions of a server were alike."""
    effect = compare_means(pair[0].values, pair[1].values)
    return effect is not None and effect.differs is True


def is_large_and_cold(one: Kept) -> bool:
    """Whether it is of cold starts with 200,000 tables."""
    return one.cell.design.tables == "200000" and ("cache", "cold") in one.cell.design.values


@pytest.mark.parametrize(
    ("chosen", "taken_as", "counts"),
    [
        (is_large_and_cold, of_one_design, (12, 8, 6)),
        (is_large_and_cold, of_one_design_and_kernel, (11, 7, 6)),
        # Nearly all are of 5.6.24, 5.7.22, 8.0.31, mariadb-10.11.5 and 9.7.4 with the usual read-ahead.
        (is_large_and_cold, of_one_setting, (72, 57, 64)),
        (is_large_and_cold, of_one_setting_and_kernel, (22, 14, 9)),
        (bool, of_one_setting, (110, 75, 80)),
        (bool, of_one_setting_and_kernel, (34, 17, 9)),
    ],
)
def test_of_the_pairs_of_equal_sessions_at_most_three_are_called_different(
    chosen: Callable[[Kept], bool],
    taken_as: Callable[[Session], Session],
    counts: tuple[int, int, int],
    kept_sessions: Path,
) -> None:
    """Each pair alone, which is no claim, and with all other sessions of its design as further ones. `counts`: all
    pairs, those whose runs differ, and those with enough other sessions for a claim."""
    pairs, kept = equal_pairs(kept_sessions, taken_as)
    cells = [one.cell for one in kept]
    pairs = [pair for pair in pairs if chosen(pair[0])]
    found, turned = ([claim(each, cells) for each in side] for side in (pairs, [pair[::-1] for pair in pairs]))
    judged = sum(each is not None for each in found)
    assert (len(pairs), sum(map(differ_by_their_runs, pairs)), judged) == counts
    assert {claim(pair) for pair in pairs} == {None}
    for claims in (found, turned):
        assert sum(each is True for each in claims) <= 3, "the first is whichever"


def test_the_first_start_over_a_directory_is_in_no_mean(kept_sessions: Path) -> None:
    """178.8 s of the first start of 8.0.31 with 200,000 tables are no part of its mean: the others took 112.4 s."""
    scale = stored(kept_sessions / "2026-11-21-scale")
    (pair,) = (one for one in compare([scale], [scale]).pairs if one.one.variant == "cold-200000"
               and one.one.version == "8.0.31")  # fmt: skip
    assert (pair.one.count, round(pair.one.mean or 0, 1)) == (4, 112.4)
