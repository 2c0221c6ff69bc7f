"""Requests as the commands make them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recovery.cli.parse import make_request
from recovery.errors import UsageError
from recovery.session.request import Request

EVERY: dict[str, Any] = {
    **dict.fromkeys(
        ("tables", "schemas", "rows", "runs", "data", "archive", "engine", "image", "registry", "read_iops",
         "read_bps", "memory", "cpus", "baseline")
    ),
    **dict.fromkeys(("versions", "settings", "variants", "notes", "mysqld"), ()),
    **dict.fromkeys(("offline", "unprivileged", "no_drop_caches", "no_probe", "keep"), False),
    "stall_s": 300.0, "results": Path("results"), "scale": "published",
}  # fmt: skip


def asked(scenario: str, **given: Any) -> Request:
    return make_request(scenario, {**EVERY, **given})


def refused(scenario: str, **given: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        asked(scenario, **given)
    assert caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint
    return caught.value
