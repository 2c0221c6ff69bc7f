"""The command `recovery completion`. What is completed is in completion.py."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

from recovery.cli.completion import COMPLETE_VARIABLE
from recovery.cli.options import Choice
from recovery.errors import RecoveryError


@click.command()
@click.argument("shell", type=Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the script that lets your shell complete commands, options, versions, sessions and server options.

    Switch it on with: eval "$(recovery completion bash)"."""
    kind = get_completion_class(shell)
    if kind is None:
        raise RecoveryError(f"there is no completion script for {shell}", "use bash, zsh or fish")
    sys.stdout.write(kind(context.find_root().command, {}, "recovery", COMPLETE_VARIABLE).source() + "\n")
    return 0
