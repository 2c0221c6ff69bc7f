"""What the proof of `recovery estimate` plans and keeps: for each kill a prediction, stored before it, and the time of
the start after it."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any

from recovery.analysis.crash_estimate import Constants, Kill, ServerState, fit_constants, known_constants, series_of
from recovery.model import parse_version

SERVERS = ("8.0.31", "mariadb-10.11.5", "5.7.22")
LIMITS = (1500, 4000)
"""Reads, and as many writes, a second."""


class Load(StrEnum):
    UPDATE = "update"
    """Rows all over the tables."""
    MIXED = "mixed"
    """Inserts, deletes and updates of an indexed column."""
    HOT = "hot"
    """The same few rows again and again: much redo for few pages."""
    INSERT = "insert"
    """New pages."""


class Purpose(StrEnum):
    CALIBRATION = "calibration"
    KNOWN = "known"
    """A load that the calibration has, too."""
    UNSEEN = "unseen"
    """Another load, a longer one, and an open transaction."""
    STEADY = "steady"
    """The server writes pages all the time."""


@dataclass(frozen=True)
class Planned:
    number: int
    purpose: Purpose
    load: Load
    reads_per_s: int
    load_s: float
    threads: int
    rows: int = 0
    """Of a transaction that is open at the kill."""
    io_capacity: int = 100
    """For servers that write pages all the time; the others hardly write any."""


_CALIBRATIONS, _REPEATS, _UNSEEN = 3, 4, 10
_LOAD_S, _LONG_LOAD_S = (0.5, 5.0), (5.0, 8.0)
_STEADY_LOAD_S, _IO_CAPACITIES = (6.0, 12.0), (200, 1000)
_MAX_THREADS = 4
_ROWS = (20_000, 80_000)


def planned(version: str, *, seed: int = 2) -> Sequence[Planned]:
    """Returns the kills of a server, in their order: the calibration first, then states that it never saw. Those of a
    server that writes pages all the time came later, after a change of the method."""
    rng = random.Random(f"{seed} {version}")  # noqa: S311 - of a test
    cells = list(product((Load.UPDATE, Load.MIXED, Load.HOT), LIMITS))
    known = [(Purpose.CALIBRATION, cells * _CALIBRATIONS), (Purpose.KNOWN, cells * _REPEATS)]
    found: list[Planned] = []
    for purpose, chosen in known:
        rng.shuffle(chosen)
        for load, limit in chosen:
            found.append(Planned(len(found), purpose, load, limit, rng.uniform(*_LOAD_S), rng.randint(1, _MAX_THREADS)))
    for number in range(_UNSEEN):
        load, limit = (Load.INSERT, Load.UPDATE)[number % 2], LIMITS[number // 2 % 2]
        rows = rng.randint(*_ROWS) if number % 4 < 2 else 0
        found.append(
            Planned(
                len(found), Purpose.UNSEEN, load, limit, rng.uniform(*_LONG_LOAD_S), rng.randint(1, _MAX_THREADS), rows
            )
        )
    steady = list(product(Load, LIMITS, _IO_CAPACITIES))
    rng.shuffle(steady)
    for load, limit, io_capacity in steady:
        seconds, threads = rng.uniform(*_STEADY_LOAD_S), rng.randint(1, _MAX_THREADS)
        found.append(Planned(len(found), Purpose.STEADY, load, limit, seconds, threads, io_capacity=io_capacity))
    return found


@dataclass(frozen=True)
class Record:
    """One kill: what was predicted right before it, and what the start took."""

    planned: Planned
    state: ServerState
    seconds: float
    low_s: float
    high_s: float
    startup_s: float | None = None
    """None: the proof ended before the start did."""
    rollback_s: float | None = None
    """From ready to the end of the rollback."""

    @property
    def kill(self) -> Kill:
        assert self.startup_s is not None, "this start was not timed"
        return Kill(self.state, self.startup_s, self.rollback_s)


def file_of(folder: Path, version: str) -> Path:
    return folder / f"{version}.jsonl"


def append(folder: Path, version: str, record: Record) -> None:
    """Stores a record so that a crash of this program does not lose it."""
    stored = asdict(record)
    stored["state"]["version"] = version
    with file_of(folder, version).open("a", encoding="utf-8") as file:
        file.write(json.dumps(stored) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read(folder: Path, version: str) -> Mapping[int, Record]:
    """Returns the kills whose start was timed, by number. A line that was half written is left out."""
    path, found = file_of(folder, version), dict[int, Record]()
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            record = _parsed(json.loads(line))
        except ValueError:
            continue
        if record.startup_s is not None:
            found[record.planned.number] = record
    return dict(sorted(found.items()))


def _parsed(stored: dict[str, Any]) -> Record:
    state, plan = dict(stored["state"]), dict(stored["planned"])
    # Some kills have measured figures that the model does not use.
    state = {field.name: state[field.name] for field in fields(ServerState) if field.name in state}
    state |= {"version": parse_version(state["version"]), "notes": tuple(state["notes"])}
    plan |= {"purpose": Purpose(plan["purpose"]), "load": Load(plan["load"])}
    return Record(**(stored | {"state": ServerState(**state), "planned": Planned(**plan)}))


def missing(folder: Path, version: str) -> Sequence[Planned]:
    done = read(folder, version)
    return [one for one in planned(version) if one.number not in done]


def constants_after(records: Iterable[Record], version: str) -> Mapping[str, Constants]:
    """Returns the constants that the calibration of a server gives; those of the tool until it is over."""
    series = series_of(parse_version(version))
    known = known_constants(series)
    kills = [one.kill for one in records if one.planned.purpose is Purpose.CALIBRATION]
    expected = sum(one.purpose is Purpose.CALIBRATION for one in planned(version))
    return {series: fit_constants(kills, known) if len(kills) >= expected else known}


def by_redo_alone(kill: Kill) -> Kill:
    """Returns a kill whose redo takes the place of its pages, to predict by bytes of redo alone."""
    pages = (kill.state.redo_bytes or 0) // _PAGE_BYTES
    return replace(kill, state=replace(kill.state, dirty_pages=pages, redo_bytes=0))


def by_pages_alone(kill: Kill) -> Kill:
    """Returns a kill to predict by two constants: that of the process, and dirty pages over reads a second."""
    return replace(kill, state=replace(kill.state, files=0, redo_bytes=0, pool_bytes=None))


_PAGE_BYTES = 16384
