"""`make watch-proof`: records crash starts, and measures the error of the time left that `recovery watch` shows."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from intervals.__main__ import as_json, rounded

from recovery.builds.catalog import DEFAULT_VERSION
from recovery.cli.main import cli, main
from recovery.errors import RecoveryError
from recovery.linux.files import default_data_dir, expand_path, write_atomically
from recovery.linux.locks import host_lock
from watch.page import Found, tables
from watch.record import SERVERS, fetch, missing, planned, record_server
from watch.recording import SUFFIX, Recording, read_recording
from watch.replay import falls_while_stopped, left_out, phase_results, shows_time_while_stopped, wrong_phases_of_cuts
from watch.states import Sizes

ROOT = Path(__file__).parents[2]
FOUND = ROOT / "docs" / "results" / "watch.json"
_CUTS = 200


@click.group()
def proof() -> None:
    """Prove the time left of `recovery watch`."""


@proof.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--data", type=click.Path(path_type=Path), envvar="RECOVERY_DATA", help="A folder on the volume to use.")
@click.option("--version", "versions", multiple=True, help="Servers to record. [default: all]")
@click.option("--tables", default=20_000, show_default=True, type=click.IntRange(100))
@click.option("--redo-mb", default=500, show_default=True, type=click.IntRange(1))
@click.option("--rows", default=1_000_000, show_default=True, type=click.IntRange(1000), help="Of the transaction.")
@click.option("--load", "loads", multiple=True, type=click.IntRange(0), help="Record starts after this load: a seed.")
@click.option("--dry-run", is_flag=True, help="List the starts that are missing.")
@click.option("--fetch-only", is_flag=True, help="Fetch the servers.")
def record(
    folder: Path,
    data: Path | None,
    versions: tuple[str, ...],
    tables: int,
    redo_mb: int,
    rows: int,
    loads: tuple[int, ...],
    *,
    dry_run: bool,
    fetch_only: bool,
) -> None:
    """Record the starts that FOLDER does not have yet."""
    chosen = versions or SERVERS
    if fetch_only:
        for version in chosen:
            fetch(version)
        return
    left = sum(len(missing(folder, version, loads)) for version in chosen)
    click.echo(f"{left} of {sum(len(planned(version, loads)) for version in chosen)} starts to record")
    if dry_run:
        return
    folder.mkdir(parents=True, exist_ok=True)
    sizes = Sizes(tables, redo_mb << 20, rows)
    began_s, failed = time.monotonic(), list[str]()
    with host_lock():
        for version in chosen:
            try:
                for one in record_server(
                    folder, expand_path(data or default_data_dir()).absolute(), version, sizes, loads
                ):
                    ready = "" if one.startup_s is None else f"{one.startup_s:.1f} s"
                    span = 0 if one.end_lsn is None or one.checkpoint_lsn is None else one.end_lsn - one.checkpoint_lsn
                    click.echo(
                        f"{time.monotonic() - began_s:6.0f} s  {one.name}: {ready}, {span / 1e6:.0f} MB of redo, "
                        f"{len(one.samples)} samples, {len(one.lines)} lines, rows {one.rows[:1]}"
                    )
            except RecoveryError as error:
                failed.append(version)
                click.echo(f"{version}: {error.message}: {error.hint}", err=True)
    if failed:
        raise RecoveryError(f"starts are missing of {', '.join(failed)}", "run the same command again")


@proof.command()
@click.argument("folders", type=click.Path(exists=True, file_okay=False, path_type=Path), nargs=-1, required=True)
@click.option("--out", default=FOUND, show_default=True, type=click.Path(dir_okay=False, path_type=Path))
def replay(folders: tuple[Path, ...], out: Path) -> None:
    """Replay recorded starts, and write docs/results/watch.json."""
    recordings = [read_recording(path) for folder in folders for path in sorted(folder.glob(f"*{SUFFIX}"))]
    _keep(out, found_in(recordings))


@proof.command()
@click.option("--data", type=click.Path(path_type=Path), envvar="RECOVERY_DATA", help="A folder on the volume to use.")
@click.option("--version", default=DEFAULT_VERSION, show_default=True)
@click.option("--tables", default=20_000, show_default=True, type=click.IntRange(100))
@click.option("--pairs", default=100, show_default=True, type=click.IntRange(2))
@click.option("--out", default=FOUND, show_default=True, type=click.Path(dir_okay=False, path_type=Path))
def overhead(data: Path | None, version: str, tables: int, pairs: int, out: Path) -> None:
    """Time starts with and without a watcher, and add the ratio to docs/results/watch.json."""
    from watch.overhead import measure

    with host_lock():
        found = measure(expand_path(data or default_data_dir()).absolute(), version, tables, pairs)
    click.echo(f"{found.ratio:.4f} ({found.low:.4f}-{found.high:.4f})")
    _keep(out, {"overhead": asdict(found)})


def found_in(recordings: list[Recording]) -> Found:
    """Returns what the replay finds."""
    return {
        "starts": len(recordings),
        "cuts": _CUTS,
        "wrong_phases": wrong_phases_of_cuts(recordings, _CUTS),
        "stopped": _found_halted([one for one in recordings if one.conditions.is_stopped]),
        "blocked": _found_halted([one for one in recordings if one.conditions.is_blocked]),
        "left_out": left_out(recordings),
        "phases": [asdict(result) for one in recordings for result in phase_results(one)],
    }


def _found_halted(recordings: list[Recording]) -> Found:
    """Returns in how many starts a server that stood still showed a time left, and where it fell."""
    halted = [one for one in recordings if one.stopped is not None]
    return {
        "starts": len(halted),
        "shown": sum(map(shows_time_while_stopped, halted)),
        "falls": [fall for one in halted for fall in falls_while_stopped(one)],
    }


def _keep(out: Path, found: dict[str, Any]) -> None:
    """Writes the file, in which parts that were not measured now stay, and prints its tables, which `make results`
    writes into the page."""
    kept = json.loads(out.read_text()) if out.exists() else {}
    merged = rounded(kept | found)
    write_atomically(out, as_json(merged).encode())
    if "phases" in merged:
        click.echo("\n".join(tables(merged)))


if __name__ == "__main__":
    # As one more command of the tool: errors, settings and signals are handled alike.
    cli.add_command(proof, "watch-proof")
    sys.argv.insert(1, "watch-proof")
    main()
