"""`make intervals`: writes docs/intervals.json and docs/startup.svg; `make results` writes its tables into pages."""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from made import take_arguments

from intervals.cells import SessionCell, session_cells, with_first_sessions
from intervals.coverage import coverage
from intervals.left_out import left_out
from intervals.over_sessions import first_runs, means_over_sessions, ratios_over_sessions
from intervals.page import tables
from intervals.parts import ONE_HOST, SEVERAL_HOSTS, by_size, cold, components, explanations, ratios, spreads
from intervals.picture import picture
from recovery.analysis.history import Setting
from recovery.linux.files import write_atomically
from recovery.storage.sessions import load_session

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "fixtures" / "kept-sessions.tar.xz"
FOUND = ROOT / "docs" / "intervals.json"
PICTURE = ROOT / "docs" / "startup.svg"


@click.command()
@click.option("--also", multiple=True, type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="More folders of sessions.")  # fmt: skip
@click.option("--repeats", default=1000, show_default=True, type=click.IntRange(1), help="Of each simulated session.")
@click.option("--seed", default=1, show_default=True)
@click.option("--out", default=FOUND, show_default=True, type=click.Path(dir_okay=False, path_type=Path))
def main(also: tuple[Path, ...], repeats: int, seed: int, out: Path) -> None:
    """Check the intervals of stored sessions, and of simulated ones.

    Sessions that the file has and the archive has not are kept in the file."""
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(KEPT) as archive:
        archive.extractall(scratch, filter="data")
        read = read_cells([Path(scratch), *also])
    names = {cell.session for cell in read}
    earlier = cells_from(json.loads(out.read_text())) if out.exists() else ()
    # Numbers are rounded first, as they are when the file is read again.
    rows = [rounded(asdict(cell)) for cell in (*read, *(cell for cell in earlier if cell.session not in names))]
    cells = with_first_sessions(cells_from({"cells": rows}))
    found = rounded(found_in(cells, repeats=repeats, seed=seed))
    write_atomically(out, as_json(found).encode())
    if out == FOUND:
        PICTURE.write_text(picture(cells), "utf-8")
    click.echo("\n".join(tables(found)))


def read_cells(folders: Iterable[Path]) -> tuple[SessionCell, ...]:
    """Returns the cells of all sessions in these folders, with all their starts."""
    reports = sorted(
        path for folder in folders for path in folder.glob("*/report.json") if not path.parent.is_symlink()
    )
    return tuple(cell for path in reports for cell in session_cells(path.parent.name, load_session(path.parent)))


def found_in(cells: tuple[SessionCell, ...], *, repeats: int, seed: int) -> dict[str, Any]:
    """Returns the contents of the file: the cells, and all that is computed from them."""
    groups = {str(tables): cold(cells, tables) for tables in (SEVERAL_HOSTS, ONE_HOST)}
    parts = {tables: components(group) for tables, group in groups.items()}
    ratio = ratios(cells)
    spread_by_servers = spreads(parts[str(SEVERAL_HOSTS)], ratio)
    return {
        "repeats": repeats,
        "seed": seed,
        "components": {tables: asdict(one) for tables, one in parts.items()},
        "sizes": [asdict(one) for one in by_size(cells)],
        "ratios": {name: asdict(one) for name, one in ratio.items()},
        "explained": {name: [asdict(one) for one in ones] for name, ones in explanations(cells).items()},
        "first_runs": [asdict(one) for one in first_runs(cold(cells, SEVERAL_HOSTS))],
        "over_sessions": [asdict(one) for one in (*means_over_sessions(cells), *ratios_over_sessions(cells))],
        "left_out": {tables: [asdict(one) for one in left_out(group)] for tables, group in groups.items()},
        "spreads": {name: asdict(spread) for name, spread in spread_by_servers.items()},
        "coverage": {
            name: [asdict(one) for one in coverage(spread, repeats=repeats, seed=seed)]
            for name, spread in spread_by_servers.items()
        },
        "cells": [asdict(cell) for cell in cells],
    }


def cells_from(found: dict[str, Any]) -> tuple[SessionCell, ...]:
    """Returns the cells of the file."""
    return tuple(
        SessionCell(**{**row, "setting": Setting(*row["setting"]), **{name: tuple(row[name]) for name in _LISTS}})
        for row in found["cells"]
    )


_LISTS = ("values", "at", "blocks")


def as_json(found: dict[str, Any]) -> str:
    """Returns the file with a line for each row, so that a difference names it."""
    lines = []
    for name, value in found.items():
        if isinstance(value, list):
            rows = ",\n  ".join(json.dumps(rounded(row)) for row in value)
            lines.append(f"{json.dumps(name)}: [\n  {rows}\n ]")
        else:
            lines.append(f"{json.dumps(name)}: {json.dumps(rounded(value))}")
    return "{\n " + ",\n ".join(lines) + "\n}\n"


def rounded(value: Any) -> Any:
    """Returns a value of the file with six digits in each number, so that no host's arithmetic changes the file."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    take_arguments()
    main()
