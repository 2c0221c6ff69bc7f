"""The command line: arguments to calls to an exit code. The one place that prints errors and ends the process."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from types import FrameType
from typing import NoReturn

import click

import recovery
from recovery.commands import look, measure
from recovery.commands.options import load_config, refuse_empty_and_unknown
from recovery.errors import RecoveryError, UsageError

INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(recovery.__version__, prog_name="recovery")
def cli() -> None:
    """How long does this MySQL server take to come back after a crash, on this storage, in this version, and why?"""


for command in (*measure.commands(), *look.COMMANDS):
    cli.add_command(command)


def main() -> NoReturn:
    for ended_by in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ended_by, _interrupt)
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Every error a user can cause ends here, as one line of what and one of what to do."""
    try:
        refuse_empty_and_unknown(os.environ)
        defaults = load_config()
        _tell_caller_of_make(arguments)
        default_map = dict.fromkeys(measuring_commands(), defaults)
        result = cli.main(arguments, prog_name="recovery", standalone_mode=False, default_map=default_map)
        return result if isinstance(result, int) else 0
    except RecoveryError as error:
        _complain(error.message, error.hint)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return UsageError.exit_code
    except click.ClickException as error:
        _complain(error.format_message(), "recovery --help, or recovery COMMAND --help")
        return UsageError.exit_code
    except (KeyboardInterrupt, click.Abort):
        _complain("interrupted", "finished runs are stored; `recovery report` shows them")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone: nothing is wrong, and nothing more can be said on standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def measuring_commands() -> tuple[str, ...]:
    return tuple(command.name for command in measure.commands() if command.name)


def _tell_caller_of_make(arguments: list[str]) -> None:
    """A target shows the command that it runs. The measuring ones do it themselves, with every setting resolved."""
    if "MAKELEVEL" in os.environ and arguments and arguments[0] not in measuring_commands():
        click.echo("$ " + shlex.join(["recovery", *arguments]), err=True)


def _complain(message: str, hint: str) -> None:
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint:  {hint}", err=True)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
