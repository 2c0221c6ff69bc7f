"""`make torture KILLS=300 SEED=1`: exit 0 where nothing was lost and nothing left; `ONLY=17` repeats one session."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from recovery.linux.signals import raise_interrupt_on_signals
from torture.chain import BEGAN, WAS_OVER, WENT_ON, Chain, Lengths, Point, told
from torture.place import Place, facts, torture_place

_HEADERS = ("way", "stage", "kills", "lost", "left", "wrong", "went on", "began anew", "was over")


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
    """Kills the tool at random moments of small sessions, and looks what is lost and what is left."""
    began_s = time.monotonic()
    points: list[Point] = []
    with torture_place(data) as place:
        lengths = Lengths(place.server_s)
        try:
            for number in range(only or 0, (only or 0) + 1 if only is not None else 100 * kills):
                points += _one(place, number, seed=seed, lengths=lengths)
                is_over = minutes is not None and time.monotonic() - began_s > 60 * minutes
                if len(points) >= kills or is_over:
                    break
        finally:
            _tell(points, seed, time.monotonic() - began_s, json_to)
    sys.exit(1 if any(point.failures for point in points) else 0)


def _one(place: Place, number: int, *, seed: int, lengths: Lengths) -> tuple[Point, ...]:
    found = Chain(place, number, seed=seed, lengths=lengths).run()
    for point in found:
        verdict = "FAILED: " + "; ".join(point.failures) if point.failures else "nothing lost, nothing left"
        click.echo(
            f"{point.chain}.{point.kill} {point.shape}{', fresh' if point.fresh else ''}: {point.way} after "
            f"{point.after_s:.2f} s ({point.stage}), {point.runs} runs ended, then it {point.next_start}: {verdict}",
            err=True,
        )
    return found


def _tell(points: list[Point], seed: int, took_s: float, json_to: Path | None) -> None:
    if not points:
        return
    click.echo(plain(table(points)))
    click.echo()
    for name in ("way", "stage"):
        click.echo(markdown(by(points, name)) + "\n")
    bad = list(failures(points, seed))
    click.echo(f"{len(points)} kills in {took_s / 60:.1f} minutes, seed {seed}: {len(bad) or 'no'} failures")
    for line in bad:
        click.echo(line)
    if json_to is not None:
        stored = {**facts(), "seed": seed, "took_s": round(took_s, 1), "kills": len(points), "failures": len(bad)}
        lines = ",\n  ".join(json.dumps(told(point)) for point in points)
        json_to.write_text(json.dumps(stored)[:-1] + f', "points": [\n  {lines}\n]}}\n', encoding="utf-8")


def table(points: Sequence[Point]) -> Iterator[tuple[str, ...]]:
    """With a header, and a last row of all."""
    yield _HEADERS
    for way, stage in sorted({(point.way, point.stage) for point in points}):
        yield (way, stage, *_counts(point for point in points if (point.way, point.stage) == (way, stage)))
    yield ("all", "", *_counts(points))


def by(points: Sequence[Point], name: str) -> Iterator[tuple[str, ...]]:
    """The same by one of the two alone, as Markdown's cells."""
    yield (name, *_HEADERS[2:])
    for value in sorted({str(getattr(point, name)) for point in points}):
        yield (value, *_counts(point for point in points if getattr(point, name) == value))


def _counts(points: Iterable[Point]) -> tuple[str, ...]:
    found = list(points)
    troubles = (sum(bool(getattr(point, part)) for point in found) for part in ("lost", "left", "wrong"))
    starts = (sum(point.next_start == how for point in found) for how in (WENT_ON, BEGAN, WAS_OVER))
    return tuple(map(str, (len(found), *troubles, *starts)))


def plain(rows: Iterable[tuple[str, ...]]) -> str:
    found = list(rows)
    widths = [max(len(row[column]) for row in found) for column in range(len(found[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in found)
    return "\n".join(line.rstrip() for line in lines)


def markdown(rows: Iterable[tuple[str, ...]]) -> str:
    header, *rest = rows
    rule = ("---", *("---:" for _ in header[1:]))
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rest))


def failures(points: Iterable[Point], seed: int) -> Iterator[str]:
    for point in points:
        for what in point.failures:
            yield (
                f"make torture SEED={seed} ONLY={point.chain}  # {point.way} at '{point.stage}', kill "
                f"{point.kill + 1}, after {point.after_s:.2f} s, {point.shape}: {what}"
            )


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # a shell's background job would pass on that it ignores them
    raise_interrupt_on_signals()
    for name in [name for name in os.environ if name.startswith("RECOVERY_") and name != "RECOVERY_CACHE"]:
        del os.environ[name]
    torture.main(standalone_mode=True)
