"""The variables that make gives to a program of the tests."""

from __future__ import annotations

import os
import sys

from recovery.cli.settings import refuse_empty_and_unknown
from recovery.errors import UsageError


def check_variables(*more: str) -> None:
    """Ends the program if a variable of make is neither a setting nor one of `more`."""
    try:
        refuse_empty_and_unknown(os.environ, more)
    except UsageError as error:
        sys.exit(f"error: {error.message}\nhint:  {error.hint}")
