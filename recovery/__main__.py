"""Starts the `recovery` command, for `python -m recovery` and for the script that an installation creates."""

from __future__ import annotations

import signal
from typing import NoReturn


def main() -> NoReturn:
    """Runs the command line and ends the process.

    Ctrl-C ends the process at once and without a traceback while the modules are being imported, since there is nothing
    to clean up yet."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from recovery.cli.main import main as begin

    begin()


if __name__ == "__main__":
    main()
