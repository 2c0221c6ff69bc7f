"""Sessions that earlier versions stored still give the same figures: one archive of report.json files is the golden."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sessions import KEPT_SESSIONS

from recovery.report.stored_session import load_session, to_json

KEYS_OF = {
    "summaries": ("version", "variant"),
    "measures": ("version", "variant", "name"),
    "fits": ("version", "variant"),
    "contrasts": ("version", "variant", "base_variant", "axis"),
    "ratios": ("version", "base_version", "variant"),
}
REMOVED_WARNINGS = frozenset({"larger-than-memory", "quiet-log", "cpu-outside-innodb", "spread-too-wide"})
RENAMED_WARNINGS = {"wide-spread": "wide-interval"}


def test_every_figure_is_as_it_was(kept_sessions: Path) -> None:
    """Of each session, metric and cell: number of runs, mean, median, deviation, interval and ratio."""
    folders = sorted(kept_sessions.iterdir())
    assert {folder.name for folder in folders} == set(KEPT_SESSIONS)
    wrong = []
    for folder in folders:
        stored = json.loads((folder / "report.json").read_bytes())
        computed = json.loads(to_json(load_session(folder)))
        for part in (part for part in KEYS_OF if stored.get(part)):
            differing = differences(rows(stored, part), rows(computed, part))
            wrong += [f"{folder.name}: {part}: {one}" for one in differing]
        if (kinds := warnings(stored) - REMOVED_WARNINGS) != warnings(computed):
            wrong.append(f"{folder.name}: warnings {kinds} became {warnings(computed)}")
        if phases(stored) != phases(computed):
            wrong.append(f"{folder.name}: seconds of phases differ")
    assert wrong == []


def rows(report: dict[str, Any], part: str) -> dict[tuple[str, ...], dict[str, Any]]:
    found = {tuple(str(row.get(key)) for key in KEYS_OF[part]): row for row in report.get(part, ())}
    assert len(found) == len(report.get(part, ())), f"{part}: two rows of one cell"
    return found


def differences(stored: dict[tuple[str, ...], Any], computed: dict[tuple[str, ...], Any]) -> list[str]:
    """Keys may be added to a row; none may change or vanish."""
    found = [f"{key} is missing" for key in stored.keys() - computed.keys()]
    found += [f"{key} is new" for key in computed.keys() - stored.keys()]
    for key in stored.keys() & computed.keys():
        ours = {name: computed[key].get(name) for name in stored[key]}
        found += [f"{key}: {name}: {stored[key][name]} became {ours[name]}" for name in stored[key]
                  if not same(stored[key][name], ours[name])]  # fmt: skip
    return found


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=1e-9)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def warnings(report: dict[str, Any]) -> set[str]:
    return {RENAMED_WARNINGS.get(row["kind"], row["kind"]) for row in report["findings"]}


def phases(report: dict[str, Any]) -> list[Any]:
    return [run["phases"] for run in report["runs"]]
