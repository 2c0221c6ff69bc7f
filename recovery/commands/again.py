"""What did a stored command ask for? Read as its own command reads it, and deaf to what this shell says."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Mapping, Sequence
from contextlib import chdir, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import click

from recovery.commands import measure
from recovery.commands.asked import make_request
from recovery.errors import UsageError
from recovery.request import Request
from recovery.unended import Left

_BESIDE = ("dry_run", "json_to", "quiet")
"""Options that ask for no other session."""


def request_of(name: str, words: Sequence[str]) -> Request:
    """Of a command that measures, with these words behind it."""
    given: dict[str, Any] = dict(_commands()[name].make_context(name, list(words)).params)
    for beside in _BESIDE:
        given.pop(beside, None)
    return make_request(name, given)


def request_again(left: Left) -> Request:
    """As it was asked, to be stored where it is."""
    planned = left.plan()
    _, name, *words = shlex.split(planned.command)
    folder = Path(planned.folder)
    with chdir(folder) if folder.is_dir() else nullcontext():  # what it names may be named from there
        try:
            asked = request_of(name, words)
        except (click.ClickException, KeyError) as error:
            raise UsageError(
                f"{left.folder.name} cannot go on: this version of the tool does not know its command: {error}",
                "take the version that began it, or measure anew; what it has is kept",
            ) from error
    return replace(asked, results=left.folder.parent, command=planned.command)


@cache
def _commands() -> Mapping[str, click.Command]:
    """Those that measure: what the environment says is for the command that was called."""
    found = {}
    for command in measure.commands():
        deaf = []
        for parameter in command.params:
            own = copy.copy(parameter)
            own.envvar = None
            deaf.append(own)
        found[str(command.name)] = click.Command(command.name, params=deaf, add_help_option=False)
    return found
