"""The files of the checkout from which the tool is installed: what the build of its image gets."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copy_checkout(folder: Path) -> None:
    for name in re.findall(r"^!/(.+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif name != "wheels":
            shutil.copy(ROOT / name, folder)
