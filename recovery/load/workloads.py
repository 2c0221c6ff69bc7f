"""Which script of sysbench is meant by a name? One of its own, or a file of the user's."""

from __future__ import annotations

from pathlib import Path

from recovery.errors import UsageError
from recovery.load.sysbench import WORKLOADS
from recovery.paths import expanded


def script_of(name: str) -> str:
    """For a Load: `read-only` and `oltp_read_only` are sysbench's own; anything with a slash or .lua is a file."""
    if "/" in name or name.endswith(".lua"):
        path = expanded(Path(name)).absolute()
        if not path.is_file():
            raise UsageError(f"there is no script {name}", "give the path of a Lua script for sysbench")
        return str(path)
    if name in WORKLOADS.values():
        return name
    if name not in WORKLOADS:
        raise UsageError(
            f"no workload is called {name}", f"there are {', '.join(WORKLOADS)}; or give the path of a Lua script"
        )
    return WORKLOADS[name]
