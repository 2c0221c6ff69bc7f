"""Is the README true? Its commands are run as they stand, with few tables; what it links to is there."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from sessions import as_a_user, need_limits

ROOT = Path(__file__).parent.parent
PAGES = [page for folder in (".", "docs", "docs/results") for page in sorted((ROOT / folder).glob("*.md"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line.split("#")[0].strip()
    for block in re.findall(r"^```\w*\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
    if line.startswith("make ")
]
# What this machine cannot have: the vendor's archive, a server of the user's own at that path, and his image.
ELSEWHERE = {"VERSION=5.7.9", "MYSQLD=/usr/sbin/mysqld", "IMAGE=my/mysql:patched"} | {
    *(
        "metadata",
        "interference",
        "table-cache",
        "write-scaling",
        "crash-matrix",
        "damage",
        "experiments",
    )  # tests/real/test_experiments_real.py, test_budget_real.py, test_crash_real.py
}


def words(command: str) -> list[str]:
    return shlex.split(command)


SHARES_DATA = True
TABLES = 300


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all commands, one after the other, as the user's: some go on from what an earlier one has stored."""
    return tmp_path_factory.mktemp("readme") / "results"


def run_make(arguments: list[str], results: Path, data: Path) -> subprocess.CompletedProcess[str]:
    """With the tables, the folders and the environment of the test, as the variables of make that they are."""
    given = [word for word in arguments if not word.startswith(("TABLES=", "RUNS=", "DATA="))]
    tables = "120 240" if "scale" in arguments else str(TABLES)
    small = {"TABLES": tables, "RUNS": "1", "DATA": str(data), "RESULTS": str(results)}
    settings = [f"{name}={value}" for name, value in small.items()]
    return subprocess.run(
        ["make", *given, *settings], cwd=ROOT, env=as_a_user(), capture_output=True, text=True, timeout=280, check=False
    )


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 10
    assert "make test" in COMMANDS


@pytest.mark.real
@pytest.mark.containers
@pytest.mark.parametrize(
    "command", [command for command in COMMANDS if command != "make test" and not ELSEWHERE & set(words(command))]
)
def test_a_command_of_the_readme(command: str, results: Path, data: Path) -> None:
    if "READ_IOPS" in command:
        need_limits()
    if words(command)[1] in ("report", "bundle") and not results.exists():
        assert run_make(["cold-recovery"], results, data).returncode == 0
    done = run_make(words(command)[1:], results, data)
    # The doctor may find that this very machine is too small for the full size.
    assert done.returncode in ((0, 2) if command.startswith("make doctor") else (0,)), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.strip()
    if words(command)[1].endswith(("recovery", "clean-start")):
        assert done.stderr.startswith("$ recovery "), "a target prints the command that it runs"


def test_the_test_command_collects(tmp_path: Path) -> None:
    """Only to collection: it is what runs this test."""
    dry = subprocess.run(["make", "-n", "test"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "scripts/tests.sh" in dry
    listed = subprocess.run(
        [".venv/bin/python", "-m", "pytest", "--collect-only", "-q"],
        cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert "tests/real/test_end_to_end.py::" in listed.stdout


def test_make_alone_prints_help(tmp_path: Path) -> None:
    shown = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("cold-recovery", "warm-recovery", "recovery", "clean-start", "versions", "doctor", "test", "bench"):
        assert f"make {target}" in shown
    assert "default 5.7.22" in shown


def test_an_empty_variable_of_make_is_an_error(results: Path, data: Path) -> None:
    done = run_make(["cold-recovery", "VERSION="], results, data)
    assert done.returncode != 0
    assert "VERSION is set but empty" in done.stderr


def test_a_variable_never_reaches_a_shell(tmp_path: Path, results: Path, data: Path) -> None:
    canary = tmp_path / "canary"
    done = run_make(["cold-recovery", f"VERSION=5.7.22'; touch {canary}; echo '$(touch {canary})"], results, data)
    assert done.returncode != 0
    assert not canary.exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target
