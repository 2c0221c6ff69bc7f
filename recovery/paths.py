"""Where templates, caches and results are, in a checkout, a wheel and an editable install alike."""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path

import platformdirs

from recovery.errors import RecoveryError

APP = "mysql-recovery-tester"
DEFAULT_RESULTS = Path("results")
"""In the folder where the user stands."""


def template_dir() -> Path:
    """The checkout's templates/ where there is one, else what the wheel brought as data."""
    checkout = Path(__file__).resolve().parent.parent / "templates"
    installed = [Path(prefix) / "share" / APP / "templates" for prefix in (sys.prefix, site.getuserbase())]
    for folder in (checkout, *installed):
        if (folder / "schema.sql.j2").is_file():
            return folder
    raise RecoveryError(
        "the tool's own templates are missing", "install it again, or run it from a checkout of its repository"
    )


def cache_dir() -> Path:
    """Servers, libraries and, unless DATA says otherwise, data directories. RECOVERY_CACHE moves it."""
    chosen = os.environ.get("RECOVERY_CACHE")
    return Path(chosen).expanduser().absolute() if chosen else Path(platformdirs.user_cache_dir(APP))


def servers_dir() -> Path:
    return cache_dir() / "servers"


def default_data_dir() -> Path:
    return cache_dir() / "data"
