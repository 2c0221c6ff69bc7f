"""The command that examines the host: what it is, whether it is fit, and what to do where it is not."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import click

from recovery.commands.look import DATA
from recovery.commands.options import NO_ROOT_STEPS, PREFIX
from recovery.host.check import Check
from recovery.host.doctor import examine
from recovery.host.facts import environment
from recovery.host.randomreads import FULL, LEFT_OUT, probe
from recovery.host.rights import refusing
from recovery.paths import default_data_dir, expanded
from recovery.report.watching import harmless
from recovery.rootsteps import parse_steps
from recovery.stacks.programs import complaints

_MARKS = {True: "ok", False: "BAD", None: "note"}
_WIDTH = 80
_INDENT = " " * 6


@click.command()
@DATA
@click.option("--no-probe", is_flag=True, envvar=PREFIX + "NO_PROBE", help="Do not try how fast the storage is.")
@NO_ROOT_STEPS
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON, with the facts of every report.")
def doctor(data: Path | None, no_probe: bool, no_root_steps: str | None, as_json: bool) -> int:
    """Is this host fit for it, and what is it?"""
    folder = expanded(data or default_data_dir()).absolute()
    with refusing(parse_steps(no_root_steps)):
        return _examined(folder, no_probe=no_probe, as_json=as_json)


def _examined(folder: Path, *, no_probe: bool, as_json: bool) -> int:
    tried = LEFT_OUT if no_probe else probe(folder, FULL)
    found = examine(folder, stackers=complaints(), tried=tried)
    if as_json:
        checks = [{"subject": subject, **asdict(check)} for subject in found for check in found[subject]]
        told = {"checks": checks, "environment": {**environment(folder), **tried.facts()}}
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(map(harmless, page(found))) + "\n")
    return 3 if any(check.ok is False for checks in found.values() for check in checks) else 0


def page(found: Mapping[str, tuple[Check, ...]]) -> Iterator[str]:
    """What is checked for one reason says it once.

    Never wider than a small terminal, but for words that must not be broken: a folder's path can be pasted."""
    for number, (subject, checks) in enumerate((subject, checks) for subject, checks in found.items() if checks):
        if number:
            yield ""
        yield subject
        said = ""
        for check in checks:
            yield from _told(check, why=check.why if check.why != said else "")
            said = check.why
    worst = [check.name for checks in found.values() for check in checks if check.ok is False]
    yield ""
    yield from _wrapped(f"Not fit: {', '.join(worst)}." if worst else "Fit.", "", "")


def _told(check: Check, *, why: str) -> Iterator[str]:
    yield from _wrapped(f"{check.name}: {check.detail}", f"{_MARKS[check.ok]:<{len(_INDENT)}}", _INDENT)
    if why:
        yield from _wrapped(why, f"{_INDENT}  ", f"{_INDENT}  ")
    if check.hint and check.ok is not True:
        yield from _wrapped(check.hint, f"{_INDENT[1:]}-> ", f"{_INDENT}  ")


def _wrapped(text: str, first: str, further: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    )
