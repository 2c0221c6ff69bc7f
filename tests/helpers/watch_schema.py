"""The JSON schema of `recovery watch --json`. To write docs/watch.schema.json anew, run this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recovery.cli.watch_view import FORMAT, AheadInJson, LineOfJson
from recovery.logs.start_progress import TimeLeft
from recovery.logs.watched_log import RestartLoop
from recovery.report.json_report import schema_of


def watch_schema() -> dict[str, Any]:
    title = f"A line of recovery watch --json, format {FORMAT}"
    return schema_of(LineOfJson, (LineOfJson, AheadInJson, TimeLeft, RestartLoop), title)


if __name__ == "__main__":
    text = json.dumps(watch_schema(), indent=2, ensure_ascii=False)
    (Path(__file__).parents[2] / "docs" / "watch.schema.json").write_text(f"{text}\n", encoding="utf-8")
