"""What another process of this host does, and another user: real ones, under ids that only root can give."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY, SOMEBODY = 65534, 54321
"""The second has no name here."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

# What is imported is read before: the folders of the tests are root's.
_BECOME = """
import encodings.ascii, json, os, sys
from pathlib import Path
from recovery.builds import install
from recovery.errors import RecoveryError
from recovery.linux import cleanup, files, locks
from recovery.mysqld import datadir
from recovery.session import progress
uid, mask = int(sys.argv[1]), int(sys.argv[2], 8)
os.setgroups([])
os.setgid(uid)
os.setuid(uid)
os.umask(mask)
given = sys.argv[3:]
"""


def command(code: str, *given: str, uid: int = NOBODY, umask: int = 0o022) -> list[str]:
    return [sys.executable, "-c", _BECOME + code, str(uid), f"{umask:o}", *given]


def done_as(code: str, *given: str, uid: int = NOBODY, umask: int = 0o022) -> str:
    """What it has printed."""
    done = subprocess.run(
        command(code, *given, uid=uid, umask=umask), cwd="/", capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def going_on_as(code: str, *given: str, uid: int = NOBODY, umask: int = 0o022) -> Iterator[subprocess.Popen[str]]:
    with going_on(command(code, *given, uid=uid, umask=umask), folder="/") as child:
        yield child


@contextmanager
def going_on(words: Sequence[str], *, folder: str | None = None) -> Iterator[subprocess.Popen[str]]:
    """From its line `held` on; killed at the end."""
    with subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "held\n"
            yield child
        finally:
            child.kill()


@contextmanager
def everybodys_folder() -> Iterator[Path]:
    """As /tmp is: pytest's own lies in a private one."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o1777)
        yield Path(made)
