"""Tables over the records of a folder: what the tool said, and how it was."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

Json = dict[str, Any]


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def line(record: Json) -> str:
    case = record["case"]
    if case["kind"] == "logs":
        said = record.get("logs", {}).get("kinds", record.get("not_run", ""))
        return f"seed {case['seed']}: {case['version']} log {case['load']}: {said}; {_problems(record)}"
    storage = f"{case['reads']} reads/s" if case["reads"] else "unlimited"
    told = record.get("estimate", {})
    said = f"{told['about']:.2f} ({told['low']:.2f} to {told['high']:.2f})" if "about" in told else "no estimate"
    took = f"{record['start_s']:.2f} s" if "start_s" in record else f"not run: {record.get('not_run', '')[:200]}"
    return (
        f"seed {case['seed']}: {case['version']} {case['kind']} {case['size']}, {case['load']}, {storage},"
        f" {case['busy']} busy: start {took}, said {said}; {len(record.get('looks', []))} looks; {_problems(record)}"
    )


def _problems(record: Json) -> str:
    return f"{len(record['problems'])} problems; {record['took_s']:.0f} s"


def _groups(records: list[Json]) -> dict[str, Callable[[Json], str]]:
    return {
        "server": lambda record: record["case"]["version"],
        "load": lambda record: record["case"]["load"],
        "directory": lambda record: record["case"]["kind"],
        "storage": lambda record: "limited" if record["case"]["reads"] else "unlimited",
        "files": lambda record: "many files" if record["case"]["size"] >= 1_500 else "few files",
        "host": lambda record: "busy" if record["case"]["busy"] else "idle",
        "all": lambda record: "all",
    }


def estimates(records: Iterable[Json]) -> str:
    """Hits, width of the range and error of the estimates of these records."""
    told = [
        (record["estimate"], record["start_s"])
        for record in records
        if "about" in record.get("estimate", {}) and not record["case"].get("reads_later")
    ]
    if not told:
        return "no estimate"
    inside = sum(answer["low"] <= truth <= answer["high"] for answer, truth in told)
    short = sum(truth > answer["high"] for answer, truth in told)
    width = median(answer["high"] / answer["low"] for answer, _ in told)
    error = median(abs(answer["about"] - truth) / truth for answer, truth in told)
    bias = median((answer["about"] - truth) / truth for answer, truth in told)
    return (
        f"{inside:4} of {len(told):4} inside, {short:3} too short; high/low {width:5.1f};"
        f" error {error:6.0%}, bias {bias:+7.0%}; starts {median(truth for _, truth in told):.2f} s"
    )


def _holds(look: Json) -> tuple[bool, bool, bool]:
    """Whether the range of this look contains the truth, is too short, and has only an upper end."""
    least, most = look["left_s"]["least_s"], look["left_s"]["most_s"]
    truths = [look[name] for name in ("phase_truth_s", "redo_truth_s") if look.get(name)]
    # The end of a phase lies between two looks.
    inside = any(early <= most and late >= least for early, late in truths)
    short = all(early > most for early, late in truths)
    return inside, short, look["left_s"]["about_s"] is None


def watched(records: Iterable[Json]) -> str:
    looks = [look for record in records for look in record.get("looks", []) if look["state"] != "ready"]
    timed = [
        _holds(look) for look in looks if look.get("left_s") and (look.get("phase_truth_s") or look.get("redo_truth_s"))
    ]
    full = [look for look in looks if look.get("left_s") and look["left_s"]["about_s"] is not None]
    width = (
        f"{median(look['left_s']['most_s'] / max(look['left_s']['least_s'], 0.1) for look in full):.1f}"
        if full
        else "-"
    )
    return (
        f"{len(looks):5} looks, {len(timed):4} with a time left ({sum(bound for _, _, bound in timed)} at most):"
        f" {sum(inside for inside, _, _ in timed):4} inside, {sum(short for _, short, _ in timed):4} too short;"
        f" high/low {width}"
    )


def print_tables(folder: Path) -> int:
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    ran = [record for record in records if "start_s" in record]
    say(f"{len(records)} cases, {len(records) - len(ran)} that did not run; median {_median_s(records)} s a case")
    for title, tabled in (("Estimate", estimates), ("Watch", watched)):
        say(f"\n{title}")
        for by, key in _groups(ran).items():
            groups: dict[str, list[Json]] = defaultdict(list)
            for record in ran:
                groups[key(record)].append(record)
            for name in sorted(groups):
                say(f"  {by + ' ' + name if by != 'all' else by:26} {tabled(groups[name])}")
    _print_problems(records)
    return 0


def _median_s(records: list[Json]) -> str:
    return f"{median(record['took_s'] for record in records):.0f}" if records else "-"


def _print_problems(records: list[Json]) -> None:
    counted = Counter(problem.split(":")[0] for record in records for problem in record["problems"])
    say("\nProblems")
    for what, often in counted.most_common():
        say(f"  {what}: {often}")
    for record in records:
        for problem in record["problems"]:
            say(f"  {record['case']['version']}, {record['case']['kind']}, {record['case']['load']}: {problem}")
            say(f"      {record['again']}")
        for told in record.get("lost", []):
            say(f"  seed {record['case']['seed']}: the server lost rows: {told}")
        if "not_run" in record:
            say(f"  seed {record['case']['seed']} did not run: {record['not_run'][:300]}")


def kills_table(rows: Iterable[Json]) -> str:
    """The table of docs/results/how-true.md: how the estimates before these kills held."""
    kills = list(rows)
    groups: dict[str, list[Json]] = {"all": kills, "the first 60": kills[:60]}
    for name in sorted({kill["version"] for kill in kills}):
        groups[name] = [kill for kill in kills if kill["version"] == name]
    for is_busy, host in ((False, "idle host"), (True, "busy host")):
        groups[host] = [kill for kill in kills if kill["busy"] == is_busy]
    for is_limited, storage in ((False, "unlimited storage"), (True, "limited reads")):
        groups[storage] = [kill for kill in kills if (kill["reads_per_s"] is not None) == is_limited]
    lines = [
        "| kills | number | inside | took longer | took less | ends apart | error | starts, s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, found in groups.items():
        longer, less = (
            sum(kill["took_s"] > kill["high_s"] for kill in found),
            sum(kill["took_s"] < kill["low_s"] for kill in found),
        )
        apart = median(kill["high_s"] / kill["low_s"] for kill in found)
        error = median(abs(kill["about_s"] / kill["took_s"] - 1) for kill in found)
        took = [kill["took_s"] for kill in found]
        lines.append(
            f"| {name} | {len(found)} | {len(found) - longer - less} | {longer} | {less} | {apart:.1f} times "
            f"| {error:.0%} | {min(took):.1f}-{max(took):.1f} |".replace("%", " %")
        )
    return "\n".join(lines) + "\n"
