"""Reads runs and sessions of format 1, in which a run was flat: the parts, and the metrics of a start, were its keys.

The CSV export still has these names as its columns."""

from __future__ import annotations

from typing import Any

from recovery.model import CACHE_AXIS, STARTUP_METRIC, TABLES_AXIS

FLAT_PARTS = {
    "tables": ("contents", "tables_found"),
    "tablespaces_opened": ("opened_files", "tablespaces_opened"),
    "tablespaces_modified": ("opened_files", "tablespaces_modified"),
    "resident_before_bytes": ("cold", "resident_bytes"),
    "cache_grown_bytes": ("metrics", "cache_grown_bytes"),
    "cold_means": ("cold", "means"),
    "warmups": ("warm", "warmups"),
    "resident_share": ("warm", "resident_share"),
    "resident_share_after": ("warm", "resident_share_after"),
    "crash_proof": ("startup", "crash_proof"),
    "rows_expected": ("contents", "rows_expected"),
    "rows_found": ("contents", "rows_found"),
    "ready_lag_s": ("startup", "ready_lag_s"),
    "start_error_s": ("startup", "start_error_s"),
    "engine_overhead_s": ("startup", "engine_overhead_s"),
    "exit_signal": ("", "previous_exit"),
    "log": ("", "log"),
    "log_held_s": ("startup", "log_held_s"),
    "log_errors": ("startup", "log_errors"),
    "tablespace_opens": ("opened_files", "tablespace_opens"),
    "opened_unmodified": ("opened_files", "opened_unmodified"),
    "tablespaces_read": ("opened_files", "tablespaces_read"),
    "read_unmodified": ("opened_files", "read_unmodified"),
    "traced_by": ("opened_files", "traced_by"),
    "resident_after_bytes": ("opened_files", "resident_after_bytes"),
    "scan_threads": ("startup", "scan_threads"),
    "sampled_by": ("stacks", "program"),
    "samples": ("stacks", "count"),
    "stacks": ("stacks", "file"),
    "raw": ("load", "raw"),
    "measure_again": ("", "measure_again"),
}
"""Where a run has what was a key of a run of format 1: the part, or none for the run itself, and its field."""
FLAT_METRICS = (
    "startup_s", "first_query_s", "read_bytes", "read_requests", "cpu_s", "reads_per_s", "group_memory_bytes",
    "peak_memory_bytes", "shutdown_s", "redo_bytes", "before_start_s",
)  # fmt: skip
"""Metrics that were keys of a run."""
_OTHER_PARTS = {
    "phases": ("startup", "phases"),
    "beside": ("startup", "background_phases"),
    "chains": ("stacks", "chains"),
    "hottest": ("stacks", "hottest"),
    "waits": ("load", "waits"),
    "clients": ("load", "clients"),
    "around": ("", "host_activity"),
    "told": ("", "observations"),
}
_SAME = ("number", "version", "flavor", "variant", "repeat", "verdict", "reason", "started_at")


def run_from_format_1(stored: dict[str, Any]) -> dict[str, Any]:
    """Returns the run in format 2. What has no value is left out."""
    run: dict[str, Any] = {name: stored[name] for name in _SAME if name in stored}
    metrics = {name: stored.get(name) for name in FLAT_METRICS}
    for name, (part, field) in (FLAT_PARTS | _OTHER_PARTS).items():
        if (value := stored.get(name)) not in (None, [], {}):
            (run.setdefault(part, {}) if part else run)[field] = value
    found = metrics | run.get("metrics", {}) | (stored.get("measures") or {})
    run["metrics"] = {name: value for name, value in found.items() if value is not None}
    run["timeline"] = _timeline(stored.get("timeline") or {}, stored.get("watched") or {})
    return run


def _timeline(start: dict[str, Any], load: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the samples of a start, which were keys of its timeline, or of a load, which were a list of series."""
    if load:
        return {
            "at_s": load["at_s"],
            "columns": {series["name"]: series["values"] for series in load.get("series", ())},
        }
    if not start:
        return None
    columns = {name: values for name, values in start.items() if name != "at_s" and values}
    return {"at_s": start["at_s"], "columns": columns}


def session_from_format_1(stored: dict[str, Any]) -> dict[str, Any]:
    """Returns the session in format 2, in which its variants have their values and metrics."""
    session = {**stored, "runs": [run_from_format_1(run) for run in stored.get("runs", ())]}
    for old, new in (("scenario", "experiment"), ("figure", "metric")):
        if old in session:
            session[new] = session.pop(old)
    cells, metrics = session.pop("cells", None) or {}, session.pop("figures", None) or {}
    points = str(stored.get("settings", {}).get("points") or "").split()
    # Early versions stored the cache and the number of tables only in the names: `cold`, `warm-small-20000`.
    is_start = stored.get("figure", STARTUP_METRIC) == STARTUP_METRIC
    is_in_names = is_start and not any(CACHE_AXIS in values for values in cells.values())
    session["variants"] = [
        {
            "name": name,
            "values": {**(_values_in_name(name, points) if is_in_names else {}), **cells.get(name, {})},
            "metric": metrics.get(name),
        }
        for name in stored.get("variants", ())
    ]
    return session


def _values_in_name(name: str, points: list[str]) -> dict[str, str]:
    first, *_, last = name.split("-") if "-" in name else (name, "")
    return {CACHE_AXIS: first, **({TABLES_AXIS: last} if last in points else {})}
