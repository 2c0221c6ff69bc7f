"""How is it told? A table by the way it died and what it was at, and a line for each failure that repeats it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from torture.chain import BEGAN, WAS_OVER, WENT_ON, Point

_HEADERS = ("way", "stage", "kills", "lost", "left", "wrong", "went on", "began anew", "was over")


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
    troubles = (sum(bool(part(point)) for point in found) for part in (_lost, _left, _wrong))
    starts = (sum(point.next_start == how for point in found) for how in (WENT_ON, BEGAN, WAS_OVER))
    return tuple(map(str, (len(found), *troubles, *starts)))


def _lost(point: Point) -> tuple[str, ...]:
    return point.lost


def _left(point: Point) -> tuple[str, ...]:
    return point.left


def _wrong(point: Point) -> tuple[str, ...]:
    return point.wrong


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
