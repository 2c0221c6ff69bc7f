"""Is a weakness known of what the locks install? pip-audit asks an advisory database, from an environment of its own.

    audit.py ENVIRONMENT [OPTION...]      the options are passed on to pip-audit, and those of ARGS, too

Ends with 0 where every package was looked up and nothing is known of it, with 1 where something is, and with 77 where
it could not be told: an audit that was skipped has not been passed."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements"
KNOWN, SKIPPED = 1, 77
SERVICES = ("osv", "pypi")
"""In this order: the first that answers."""
_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==(\S+)", re.MULTILINE)
_LIMIT_S = 900


class SkippedError(Exception):
    """Why nothing can be told."""


def main(environment: Path, options: Sequence[str]) -> int:
    try:
        program = installed(environment)
        found = [line for lock in sorted(REQUIREMENTS.glob("*.lock")) for line in weaknesses(program, lock, options)]
    except SkippedError as why:
        tell(f"skipped: {why}")
        return SKIPPED
    for line in dict.fromkeys(found):
        tell(line)
    tell("something is known of what the locks install" if found else "nothing is known of what the locks install")
    return KNOWN if found else 0


def installed(environment: Path) -> Path:
    """pip-audit, of the versions in its lock."""
    lock, program = REQUIREMENTS / "audit.lock", environment / "bin" / "pip-audit"
    stamp = environment / ".locked"
    if program.is_file() and stamp.is_file() and stamp.read_bytes() == lock.read_bytes():
        return program
    stamp.unlink(missing_ok=True)
    venv.create(environment, with_pip=True)
    pip = [environment / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    done = ran([*map(str, pip), "--require-hashes", "-r", str(lock)])
    if done.returncode != 0:
        raise SkippedError(f"pip-audit could not be installed: {last_line(done.stderr)}")
    stamp.write_bytes(lock.read_bytes())
    return program


def weaknesses(program: Path, lock: Path, options: Sequence[str]) -> list[str]:
    """A line for each. SkippedError unless every package of the lock was looked up: pip-audit itself finds no fault
    with a database that has none of them."""
    wanted = {(plain(name), version) for name, version in _PINNED.findall(lock.read_text(encoding="utf-8"))}
    why = []
    for service in SERVICES:
        told = looked_up(program, lock, [f"--vulnerability-service={service}", *options])
        if isinstance(told, str):
            why.append(f"{service}: {told}")
        elif left := wanted - {(plain(one["name"]), one["version"]) for one in told if "vulns" in one}:
            reason = next((one["skip_reason"] for one in told if "skip_reason" in one), "it says nothing of them")
            why.append(f"{service}: {len(left)} of {len(wanted)} were not looked up, {reason}")
        else:
            return [
                f"{one['name']} {one['version']}: {known['id']}, mended in {', '.join(known['fix_versions']) or 'none'}"
                for one in told
                for known in one["vulns"]
            ]
    raise SkippedError(f"no advisory database tells of all packages in {lock.name}: {'; '.join(why)}")


def looked_up(program: Path, lock: Path, options: Sequence[str]) -> list[dict[str, Any]] | str:
    """What the database has said of each package; in words why it has said nothing."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        done = ran(
            [str(program), "--requirement", str(lock), "--require-hashes", "--disable-pip", "--format=json",
             "--progress-spinner=off", f"--output={answer}", *options]
        )  # fmt: skip
        if done.returncode not in (0, KNOWN) or not answer.is_file():
            return last_line(done.stderr)
        found: list[dict[str, Any]] = json.loads(answer.read_text(encoding="utf-8"))["dependencies"]
        return found


def ran(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_LIMIT_S,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SkippedError(f"{Path(command[0]).name} did not end within {_LIMIT_S} s") from None


def plain(name: str) -> str:
    """As indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it gave no reason"


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), [*sys.argv[2:], *shlex.split(os.environ.get("ARGS", ""))]))
