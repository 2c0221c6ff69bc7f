"""Do statements of any text reach the poller, and is it called with what was asked?"""

from __future__ import annotations

from pathlib import Path

from recovery.load.polling import FOREIGN_KEYS, command, write_statements
from recovery.work import Poll


def test_statements_go_by_a_file(tmp_path: Path) -> None:
    poll = Poll(2, 0.5, ("select \"a;\nb\", '{table}', 'é'", FOREIGN_KEYS))
    path = write_statements(poll, tmp_path)
    first, second, end = path.read_bytes().decode().split("\0")
    assert (first, second, end) == (*poll.statements, "")

    called = command(
        poll, program=Path("/usr/bin/sysbench"), statements=path, socket=Path("/run/s"), database="it's", tables=50,
        seconds=9,
    )  # fmt: skip
    assert {"--threads=2", "--time=9", "--every=0.5", "--tables=50", "--schema=it's", f"--statements={path}"} < set(
        called
    )
    assert Path(called[1]).is_file()
    assert called[-1] == "run"
