"""Renders watch.json as Markdown, for docs/results/how-true.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

Found = dict[str, Any]
_SHARES = ("25 %", "50 %", "75 %")
_ALL = "all but 'at most'"


def tables(found: Found) -> tuple[str, ...]:
    """Returns the tables of the page."""
    return (errors_table(found), ranges_table(found), looks_table(found), other_table(found))


def errors_table(found: Found) -> str:
    """Returns the error of the time left: the median of all, without their signs, and the worst."""
    rows = []
    for phase, at_most, ones in _by_phase(found["phases"]):
        at = [[one["errors"][number] for one in ones if one["errors"][number] is not None] for number in range(3)]
        name = f"{phase}, at most" if at_most else phase
        took = [one["took_s"] for one in ones]
        rows.append((name, len(ones), f"{min(took):.0f}-{max(took):.0f}", *map(_error, at)))
    return _table(("error of the time left", "starts", "took, s", *_SHARES), rows)


def ranges_table(found: Found) -> str:
    """Returns how often the truth was inside the shown range."""
    rows, groups = [], list(_by_phase(found["phases"]))
    groups += [(_ALL, False, [one for _, at_most, ones in groups for one in ones if not at_most])]
    for phase, at_most, ones in groups:
        at = [[one["held"][number] for one in ones if one["held"][number] is not None] for number in range(3)]
        steps = sum(one["steps"] for one in ones)
        rows.append((f"{phase}, at most" if at_most else phase, *map(_share, at),
                     _share([held for group in at for held in group]),
                     f"{100 * sum(one['steps_held'] for one in ones) / steps:.0f} %" if steps else "",
                     "-" if at_most else _of_other_starts(found["left_out"], phase)))  # fmt: skip
    return _table(
        ("truth inside the range", *_SHARES, "of these", "of all half seconds", "by ranges of other loads"), rows
    )


def _of_other_starts(left_out: Found, phase: str) -> str:
    counts = [left_out[phase]] if phase in left_out else list(left_out.values()) if phase == _ALL else []
    held, of = (sum(numbers) for numbers in zip(*counts, strict=True)) if counts else (0, 0)
    return f"{100 * held / of:.0f} %" if of else "-"


def looks_table(found: Found) -> str:
    """Returns by server and phase how many looks had a time left, how often it was true, and how wide the range was."""
    groups: dict[tuple[str, str], list[Found]] = {}
    for one in found["phases"]:
        groups.setdefault((one["version"], one["phase"]), []).append(one)
    rows = []
    for (version, phase), ones in sorted(groups.items()):
        looks, shown, held = (sum(one[name] for one in ones) for name in ("looks", "steps", "steps_held"))
        widths = [one["width"] for one in ones if one["width"] is not None]
        rows.append((version, phase, len(ones), looks, shown, f"{held} ({100 * held / shown:.0f} %)" if shown else "-",
                     f"{median(widths):.1f}" if widths else "-"))  # fmt: skip
    return _table(("server", "phase", "starts", "looks", "with a time left", "true", "most / least"), rows)


def other_table(found: Found) -> str:
    rows = [
        ("recorded starts", found["starts"]),
        ("logs cut at random lines, wrong phases", f"{found['cuts']}, {len(found['wrong_phases'])}"),
        ("starts stopped by SIGSTOP, with a time left shown then, in which it fell", _halted(found["stopped"])),
        ("starts whose storage was blocked, with a time left shown then, in which it fell", _halted(found["blocked"])),
    ]
    if found.get("overhead"):
        cost = found["overhead"]
        rows.append(("watched start over unwatched, pairs", f"{_ratio(cost)}, {cost['pairs']}"))
    return _table(("checked", "found"), rows)


def _halted(found: Found) -> str:
    return f"{found['starts']}, {found['shown']}, {len(found['falls'])}"


def _ratio(cost: Found) -> str:
    return f"{100 * (cost['ratio'] - 1):+.2f} % ({100 * (cost['low'] - 1):+.2f} to {100 * (cost['high'] - 1):+.2f})"


def _by_phase(results: Sequence[Found]) -> Iterable[tuple[str, bool, list[Found]]]:
    """Yields the results of each phase of which a time left was shown."""
    shown = [one for one in results if one["steps"]]
    for phase in dict.fromkeys(one["phase"] for one in shown):
        for at_most in (False, True):
            ones = [one for one in shown if one["phase"] == phase and one["at_most_only"] is at_most]
            if ones:
                yield phase, at_most, ones


def _error(errors: Sequence[float]) -> str:
    if not errors:
        return "-"
    worst = max(errors, key=abs)
    return f"{100 * median(map(abs, errors)):.0f} % ({100 * worst:+.0f})"


def _share(held: Sequence[bool]) -> str:
    return f"{sum(held)} of {len(held)}" if held else "-"


def _table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
