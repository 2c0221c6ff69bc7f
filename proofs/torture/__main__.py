"""`make torture KILLS=300 SEED=1`: exit code 0 if nothing was lost or left behind; `ONLY=17` repeats one session."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click
from made import take_arguments

from recovery.linux.signals import raise_interrupt_on_signals
from torture.chain import BEGAN, RESUMED, WAS_OVER, Chain, Point
from torture.place import facts, torture_place


@click.command()
@click.option("--kills", default=300, show_default=True, type=click.IntRange(1), help="At least so many.")
@click.option("--seed", default=1, show_default=True, help="Chooses moments, signals, and what is run.")
@click.option("--only", type=int, help="This session of it alone.")
@click.option("--minutes", type=float, help="No new session after so many.")
@click.option("--data", type=click.Path(path_type=Path), help="A folder on the disk to use.")
@click.option("--json", "json_to", type=click.Path(path_type=Path), help="Every kill, and what came of it.")
def torture(
    *, kills: int, seed: int, only: int | None, minutes: float | None, data: Path | None, json_to: Path | None
) -> None:
    """Kills the tool at random moments of small sessions, and checks that nothing is lost or left behind."""
    start_s = time.monotonic()
    points: list[Point] = []
    with torture_place(data) as place:
        lengths: dict[tuple[str, bool], float] = {}
        try:
            for number in range(100 * kills) if only is None else (only,):
                for point in Chain(place, number, seed=seed, lengths=lengths).run():
                    points.append(point)
                    click.echo(_line(point), err=True)
                if len(points) >= kills or (minutes is not None and time.monotonic() - start_s > 60 * minutes):
                    break
        finally:
            if points:
                _report(points, seed, time.monotonic() - start_s, json_to)
    sys.exit(1 if any(point.failures for point in points) else 0)


def _line(point: Point) -> str:
    verdict = "FAILED: " + "; ".join(point.failures) if point.failures else "nothing lost, nothing left"
    return (
        f"{point.chain}.{point.kill} {point.shape}{', fresh' if point.fresh else ''}: {point.way} after "
        f"{point.after_s:.2f} s ({point.stage}), {point.runs} runs ended, then it {point.next_start}: {verdict}"
    )


def _report(points: list[Point], seed: int, took_s: float, json_to: Path | None) -> None:
    for name in ("way", "stage"):
        click.echo("\n".join(_table(points, name)) + "\n")
    failures = [
        f"make torture SEED={seed} ONLY={point.chain}  # kill {point.kill + 1}: {_line(point)}"
        for point in points
        if point.failures
    ]
    click.echo(f"{len(points)} kills in {took_s / 60:.1f} minutes, seed {seed}: {len(failures) or 'no'} failures")
    for line in failures:
        click.echo(line)
    if json_to is not None:
        about = {**facts(), "seed": seed, "took_s": round(took_s, 1), "kills": len(points), "failures": len(failures)}
        found = [{name: value for name, value in asdict(point).items() if value not in ([], "")} for point in points]
        json_to.write_text(json.dumps({**about, "points": found}, indent=1) + "\n", encoding="utf-8")


def _table(points: Sequence[Point], name: str) -> Iterator[str]:
    """Yields the lines of a Markdown table of the kills by way or by stage."""
    starts = (RESUMED, BEGAN, WAS_OVER)
    yield f"| {' | '.join((name, 'kills', 'lost', 'left', 'wrong', *starts))} |"
    yield "|---" + "|---:" * 7 + "|"
    values = sorted({str(getattr(point, name)) for point in points})
    for value in (*values, "all"):
        found = [point for point in points if value in ("all", getattr(point, name))]
        troubles = (sum(bool(getattr(point, part)) for point in found) for part in ("lost", "left", "wrong"))
        cells = (len(found), *troubles, *(sum(point.next_start == start for point in found) for start in starts))
        yield f"| {value} | {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # a shell's background job would pass on that it ignores them
    raise_interrupt_on_signals()
    take_arguments("KILLS", "MINUTES")
    for name in [name for name in os.environ if name.startswith("RECOVERY_") and name != "RECOVERY_CACHE"]:
        del os.environ[name]
    torture.main(standalone_mode=True)
