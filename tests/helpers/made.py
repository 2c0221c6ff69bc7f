"""What make gives to a program of the tests: its variables, and the words of ARGS, which no shell has parsed."""

from __future__ import annotations

import os
import shlex
import sys

from recovery.cli.settings import refuse_empty_and_unknown
from recovery.errors import UsageError


def take_arguments(*more: str) -> None:
    """Appends the words of ARGS to those of the command line. Ends the program if ARGS cannot be split, or if a
    variable is neither a setting nor one of `more`."""
    try:
        refuse_empty_and_unknown(os.environ, more)
        sys.argv += shlex.split(os.environ.pop("ARGS", ""))
    except UsageError as error:
        sys.exit(f"error: {error.message}\nhint:  {error.hint}")
    except ValueError as error:
        sys.exit(f"error: ARGS cannot be split into words: {error}\nhint:  quote it as in a shell")
