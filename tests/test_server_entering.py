"""A real shell that becomes a command: whatever a path is called, the shell does not read it."""

from __future__ import annotations

import os
from pathlib import Path

from recovery.linux.cgroups import LimitGroup
from recovery.model import NO_LIMITS
from recovery.mysqld.local import spawn_in_cgroup

NASTY = "a b'c\"d $(touch ran) `touch ran`; touch ran #"


def test_no_path_and_no_setting_is_read_by_the_shell(tmp_path: Path) -> None:
    folder = tmp_path / NASTY
    folder.mkdir()
    program, source, log = folder / "program", folder / "in", folder / "log"
    program.write_text('#!/bin/sh\ncat\nprintf "%s\\n" "$$" "$1" "$LD_LIBRARY_PATH" "$TZ"\nls -l /proc/self/fd\n')
    program.chmod(0o755)
    source.write_text("from its input\n")
    output = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
    process, _ = spawn_in_cgroup(
        LimitGroup(NO_LIMITS, "none", ()), [str(program), NASTY], source=source, log=output,
        environment={"LD_LIBRARY_PATH": f"{folder}:x", "TZ": "UTC", "PATH": os.defpath}, cwd=tmp_path,
    )  # fmt: skip
    os.close(output)
    assert process.wait(60) == 0
    said = log.read_text()
    assert said.startswith(f"from its input\n{process.pid}\n{NASTY}\n{folder}:x\nUTC\n")
    assert " 4 -> " not in said, "the second descriptor of the input is closed"
    assert sorted(path.name for path in tmp_path.iterdir()) == [NASTY]
    assert sorted(path.name for path in folder.iterdir()) == ["in", "log", "program"]
