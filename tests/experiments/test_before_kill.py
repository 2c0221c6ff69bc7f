"""BEFORE_KILL: what a server does before it is killed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from otherusers import everybodys_folder, needs_root

from recovery.errors import TrialVoidError
from recovery.experiments.before_kill import before_kill
from recovery.experiments.user_command import run_user_command

if TYPE_CHECKING:
    from recovery.experiments.bench import Bench

NOBODY = 65534


@needs_root
def test_under_sudo_the_command_reaches_the_private_socket_and_others_of_its_user_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    with everybodys_folder() as place:
        folder = place / "run" / "1"
        folder.parent.mkdir(mode=0o700)
        folder.mkdir(mode=0o700)
        socket = folder / "mysqld.sock"
        socket.touch()
        steps: list[str] = []
        bench = SimpleNamespace(
            conditions=SimpleNamespace(before_kill=("sh", "-c", "test -e $MYSQL_UNIX_PORT")),
            on_step=steps.append,
            server=SimpleNamespace(socket=socket),
        )
        with before_kill(cast("Bench", bench)):
            assert steps == ["running BEFORE_KILL"]
        with pytest.raises(TrialVoidError, match="ended with exit code 1"):
            run_user_command("BEFORE_KILL", ["test", "-e", str(socket)])
