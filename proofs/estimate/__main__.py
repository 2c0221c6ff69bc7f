"""`make estimate-proof`: predicts the starts of servers before they are killed, and reports how true that was."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from estimate.findings import Result, results_of, tables
from estimate.records import SERVERS, Purpose, constants_after, missing, planned, read
from recovery.cli.main import cli, main
from recovery.errors import RecoveryError, UsageError
from recovery.linux.files import default_data_dir, expand_path
from recovery.linux.locks import host_lock


@click.group()
def proof() -> None:
    """Prove the predictions of `recovery estimate`."""


@proof.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--data", type=click.Path(path_type=Path), envvar="RECOVERY_DATA", help="A folder on the volume to use.")
@click.option("--version", "versions", multiple=True, help="Servers to kill. [default: all]")
@click.option("--most", type=click.IntRange(1), help="Kill each server at most so often now.")
def run(folder: Path, data: Path | None, versions: tuple[str, ...], most: int | None) -> None:
    """Kill servers as often as FOLDER does not have yet; the same command goes on after an interruption."""
    from estimate.servers import run_server

    chosen = versions or SERVERS
    left = sum(len(missing(folder, version)) for version in chosen)
    click.echo(f"{left} of {sum(len(planned(version)) for version in chosen)} kills are missing")
    folder.mkdir(parents=True, exist_ok=True)
    began_s, failed = time.monotonic(), list[str]()
    with host_lock():
        for version in chosen:
            try:
                place = expand_path(data or default_data_dir()).absolute()
                for one in run_server(folder, place, version, most):
                    state = one.state
                    click.echo(
                        f"{time.monotonic() - began_s:6.0f} s  {version} {one.planned.number:2} {one.planned.purpose}, "
                        f"{one.planned.load}, {one.planned.reads_per_s} reads/s: {state.dirty_pages:,} pages, "
                        f"{(state.redo_bytes or 0) / 1e6:.0f} MB of redo, {state.uncommitted_rows or 0:,} rows; "
                        f"predicted {one.seconds:.1f} s ({one.low_s:.1f} to {one.high_s:.1f}), took {one.startup_s:.1f}"
                    )
            except RecoveryError as error:
                failed.append(version)
                click.echo(f"{version}: {error.message}: {error.hint}", err=True)
    _report(folder)
    if failed:
        raise RecoveryError(f"kills are missing of {', '.join(failed)}", "run the same command again")


@proof.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def report(folder: Path) -> None:
    """Print how true the predictions in FOLDER were."""
    if not _report(folder):
        raise UsageError(f"there is no predicted start in {folder}", "`run` makes them")


def _report(folder: Path) -> bool:
    results: list[Result] = []
    for version in SERVERS:
        records = read(folder, version)
        results += results_of(version, records)
        calibrated = sum(one.planned.purpose is Purpose.CALIBRATION for one in records.values())
        for series, constants in constants_after(records.values(), version).items() if calibrated else ():
            click.echo(f"{series}, {calibrated} starts of the calibration: {constants}")
    if results:
        click.echo("\n" + "\n".join(tables(results)))
    return bool(results)


if __name__ == "__main__":
    # As one more command of the tool: errors, settings and signals are handled alike.
    cli.add_command(proof, "estimate-proof")
    sys.argv.insert(1, "estimate-proof")
    main()
