"""`python -m recovery` is the `recovery` command, and so is the script that an installation makes."""

from __future__ import annotations

import signal
from typing import NoReturn


def main() -> NoReturn:
    """While the tool itself is being read, Ctrl-C finds nothing to clear up: it ends at once, without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from recovery.cli.main import main as begin  # noqa: PLC0415 - not before

    begin()


if __name__ == "__main__":
    main()
