"""Where do the keys of encrypted tables come from? From a folder beside the server's own, made for it alone."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

KEY_FILE = "keyfile"
"""For MariaDB, which reads it; MySQL writes a keyring of its own into the folder."""
_KEY_BYTES = 32


def make_keys(folder: Path) -> None:
    """Nobody else may look into it."""
    folder.mkdir(mode=0o700)
    with os.fdopen(os.open(folder / KEY_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(f"1;{secrets.token_hex(_KEY_BYTES)}\n")
