"""Builds the package, as setup.cfg describes it, and before that the manual page recovery(1) from docs/commands.md and
docs/using.md, and the file with the commit, which `recovery --version` prints."""

import re
import subprocess
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
MANUAL_PAGE = ROOT / "build" / "recovery.1"
COMMIT = ROOT / "build" / "commit"


def manual_page() -> str:
    """Returns recovery(1) as roff."""
    version = re.search(r'__version__ = "(.+)"', (ROOT / "recovery" / "__init__.py").read_text(encoding="utf-8"))
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    commands, settings = (
        (ROOT / "docs" / name).read_text(encoding="utf-8").partition("\n")[2] for name in ("commands.md", "using.md")
    )
    lines = [
        f'.TH RECOVERY 1 "" "mysql-recovery-tester {version[1] if version else ""}" "User Commands"',
        ".SH NAME",
        r"recovery \- measure how long MySQL and MariaDB take to start after a crash",
        ".SH SYNOPSIS",
        r"\fBrecovery\fR \fICOMMAND\fR [\fIOPTION\fR]... [\fIARGUMENT\fR]...",
        ".SH DESCRIPTION",
        _inline(config["metadata"]["description"]),
        ".SH COMMANDS",
        *_roff(commands),
        *_roff(settings),
        '.SH "SEE ALSO"',
        r"\fBrecovery\fR \fICOMMAND\fR \fB\-\-help\fR lists the options of a command, "
        r"\fBrecovery docs\fR the pages of the documentation.",
    ]
    return "\n".join(lines) + "\n"


def _roff(markdown: str) -> Iterator[str]:
    """Yields the page's lines as roff, for the Markdown that these two use."""
    in_code = False
    for line in markdown.splitlines():
        if line.startswith("```"):
            in_code = not in_code
            yield from (".PP", ".RS 4", ".nf") if in_code else (".fi", ".RE")
        elif in_code:
            yield _escaped(line)
        elif match := re.fullmatch(r"#+ (.+)", line):
            yield f'.SH "{_inline(match[1]).upper()}"'
        elif match := re.fullmatch(r"\*\*(.+)\*\*", line):
            yield f'.SS "{_inline(match[1])}"'
        elif match := re.fullmatch(r"(\*|\d+\.) (.+)", line):
            mark = r"\(bu" if match[1] == "*" else match[1]
            yield from (f".IP {mark} 4", _inline(match[2]))
        elif line:
            yield from (".PP", _inline(line.strip()))


def _inline(text: str) -> str:
    """Returns a line of text: code and bold words in bold, links without their targets."""
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)
    return re.sub(r"`([^`]+)`|\*\*([^*]+)\*\*", lambda match: rf"\fB{match[1] or match[2]}\fR", _escaped(text))


def _escaped(text: str) -> str:
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("…", "...")
    return rf"\&{text}" if text.startswith((".", "'")) else text


def commit() -> str:
    """Returns the commit of the checkout; an empty text if it is not known."""
    command = ("git", "-C", str(ROOT), "rev-parse", "--short=10", "HEAD")
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


MANUAL_PAGE.parent.mkdir(exist_ok=True)
COMMIT.write_text(commit() if (ROOT / ".git").exists() else "", encoding="utf-8")
MANUAL_PAGE.write_text(manual_page(), encoding="utf-8")
setup()
