"""README.md and the pages of docs/: links have targets, and commands run as shown, with few tables."""

from __future__ import annotations

import gzip
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sessions import as_a_user, left_out, need_limits

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
ALL_PAGES = [*sorted(ROOT.glob("*.md")), *PAGES, ROOT / "docs" / "results" / "README.md"]
COMMAND = re.compile(r"^(?:\$ )?((?:make|recovery|lsblk|mkfs.ext4|mkdir|mount|dd|zcat|docker/recovery) .*)")
TABLES, SHARES_DATA = 100, True
LOG = ROOT / "fixtures" / "errorlogs" / "mysql-5.7.22-crash.err"
VOLUME = "/dev/nvme1n1"
# Commands that a test host cannot run, or that another test runs.
ELSEWHERE = {
    "VERSION=5.7.9": "tests/real/test_builds_real.py, from a mirror of the vendor's archive",
    "MYSQLD=/usr/sbin/mysqld": "tests/real/test_end_to_end.py",
    "IMAGE=my/mysql:patched": "tests/containers",
    "docker/recovery": "tests/containers/test_tool_image.py",
    "LAYOUT=encrypted": "tests/real/test_layouts_real.py, with a plugin that it fetches",
    "bench": "tests/real/test_selfbench_real.py",
    "fuzz": "tests/test_fuzzed.py",
    "fuzz-corpora": "tests/test_fuzzed.py",
    "experiments": "tests/real/test_suite_real.py",
    "metadata": "tests/real/test_experiments_real.py",
    "interference": "tests/real/test_experiments_real.py",
    "table-cache": "tests/real/test_suite_real.py",
    "write-scaling": "tests/real/test_experiments_real.py",
    "crash-matrix": "tests/real/test_crash_real.py",
    "damage": "tests/real/test_crash_real.py",
}


def commands(page: Path) -> list[str]:
    blocks = re.findall(r"^```\w*\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = (match[1] for block in blocks for match in map(COMMAND.match, block.splitlines()) if match)
    found = [line.split("  #")[0].strip() for line in lines]
    return [command for command in found if not ELSEWHERE.keys() & set(shlex.split(command))]


WITH_COMMANDS = [page for page in PAGES if commands(page)]
README_COMMANDS = [command for command in commands(README) if command.startswith("make ") and command != "make test"]
MEASURING = [one for one in README_COMMANDS if one.split()[1].endswith(("recovery", "clean-start", "scale"))]
MEASURED = "make cold-recovery VERSION=5.7.22 TABLES=20000 RUNS=3"
PLANNED = [one for one in MEASURING if one != MEASURED and "--dry-run" not in one]
"""`make test` only shows what these would measure; `make test-docs` runs them."""


def test_there_are_pages_with_commands() -> None:
    names = {page.name for page in WITH_COMMANDS}
    assert {"getting-started.md", "using.md", "causes.md", "servers.md", "host.md", "bugs.md"} <= names
    assert len(README_COMMANDS) >= 8
    indented = re.compile(r"^    (make|recovery) ", re.MULTILINE)
    assert not [page.name for page in PAGES if indented.search(page.read_text(encoding="utf-8"))], "not in a fence"
    assert MEASURED in MEASURING


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_have_targets(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


def test_the_first_page_links_to_every_other_page() -> None:
    first = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if page.name != "README.md" and f"({page.name}" not in first] == []


@pytest.fixture
def volume(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str | None]:
    """Returns a block device for the page that mentions one, else None."""
    page: Path = request.getfixturevalue("page")
    if VOLUME not in page.read_text(encoding="utf-8"):
        yield None
        return
    image = tmp_path / "volume.image"
    with image.open("wb") as file:
        file.truncate(6 << 30)
    made = subprocess.run(["losetup", "-f", "--show", str(image)], capture_output=True, text=True, check=False)
    if made.returncode:
        left_out(f"no loop device can be had here: {made.stderr.strip()}")
    device = made.stdout.strip()
    yield device
    subprocess.run(["umount", "-l", device], check=False, capture_output=True)
    subprocess.run(["losetup", "-d", device], check=True)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns one folder for all pages: some commands need the session of an earlier command."""
    return tmp_path_factory.mktemp("pages") / "results"


class Reader:
    """Runs the commands of a page with the tables, the folders and the device of the test."""

    def __init__(
        self, tmp_path: Path, data: Path, results: Path, volume: str | None = None, engine: str | None = None
    ) -> None:
        self.results = results
        self.engine = {} if engine is None else {"ENGINE": engine, "NO_PROBE": "1"}
        self.mounted = tmp_path / "mounted"
        self.volume = volume
        path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
        self.data = data
        self.environment = as_a_user() | {"PATH": path}
        self.folder = tmp_path
        (tmp_path / "old.gz").write_bytes(gzip.compress(LOG.read_bytes()))

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        words = [self._own(word) for word in shlex.split(command)]
        words = [word for word in words if not word.startswith(("TABLES=", "RUNS="))]
        if self.volume is None:
            words = [word for word in words if not word.startswith("DATA=")]
        needs_session = {"report", "bundle", "warm-recovery"} & set(words) and "ARGS=--dry-run" not in words
        if needs_session and not self.results.exists():
            earlier = self.run("make cold-recovery")  # these need an earlier session
            assert earlier.returncode == 0, earlier.stderr
        small = {
            "TABLES": "60 120" if "scale" in words else str(TABLES),
            "RESULTS": str(self.results), **self.engine,
        }  # fmt: skip
        adds_runs = any(word.startswith("PRECISION=") for word in words)
        small |= {"MAX_RUNS": "5"} if adds_runs else {"RUNS": "1"}
        if self.volume is None:  # on the page about a volume each command says where the data is to be
            small["DATA"] = str(self.data)
        if words[0] == "dd":
            words.append("count=256")  # of some thousand
        environment = dict(self.environment)
        if words[0] == "make":
            words += [f"{name}={value}" for name, value in small.items()]
        else:
            environment |= {f"RECOVERY_{name}": value for name, value in small.items()}
        if "|" in words:
            words = ["sh", "-c", " ".join(word if word == "|" else shlex.quote(word) for word in words)]
        return subprocess.run(
            words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False
        )

    def _own(self, word: str) -> str:
        here = {
            "/mnt/ebs": self.mounted, VOLUME: self.volume, "results/latest": self.results / "latest",
            "/tmp/for-the-bug": self.folder / "for-the-bug", "old.gz": self.folder / "old.gz", "error.log": LOG,
        }  # fmt: skip
        for shown, own in here.items():
            if shown in word:
                return word.replace(shown, str(own))
        return self._earlier_session() if word == "SESSION" else word

    def _earlier_session(self) -> str:
        names = sorted(folder.name for folder in self.results.iterdir() if not folder.is_symlink())
        return names[-2]


@pytest.mark.real
@pytest.mark.on_demand("docs")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.name))
def test_the_commands_of_a_page_run(page: Path, volume: str | None, data: Path, results: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path, data, results, volume, engine="local")
    for command in commands(page):
        if "READ_IOPS" in command or "MEMORY" in command:
            need_limits()
        done = reader.run(command)
        assert done.returncode in expected_codes(command), f"{command}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, command


@pytest.mark.parametrize("command", PLANNED)
def test_the_plan_of_a_command_of_the_readme(command: str, data: Path, results: Path, tmp_path: Path) -> None:
    if "READ_IOPS" in command:
        need_limits()
    done = Reader(tmp_path, data, results).run(f"{command} ARGS=--dry-run")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\$ recovery ", done.stderr, re.MULTILINE), "a target prints the command that it runs"
    assert "servers run " in done.stdout


@pytest.mark.real
@pytest.mark.containers
@pytest.mark.parametrize(
    "command",
    [pytest.param(one, marks=pytest.mark.on_demand("docs")) if one in PLANNED else one for one in README_COMMANDS],
)
def test_a_command_of_the_readme_runs(command: str, data: Path, results: Path, tmp_path: Path) -> None:
    if "READ_IOPS" in command:
        need_limits()
    done = Reader(tmp_path, data, results).run(command)
    assert done.returncode in expected_codes(command), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.strip()
    if command in MEASURING:
        assert re.search(r"^\$ recovery ", done.stderr, re.MULTILINE), "a target prints the command that it runs"


def expected_codes(command: str) -> tuple[int, ...]:
    if "doctor" in command:
        return (0, 2, 3)  # the test host may be too small for the full size
    if "fail-over" in command or "FAIL_OVER" in command:
        return (0, 2, 4)  # of 300 tables noise decides; make turns a 4 into its own 2
    return (0,)


def test_make_alone_prints_help() -> None:
    shown = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in (
        "cold-recovery",
        "warm-recovery",
        "crash-recovery",
        "recovery",
        "clean-start",
        "versions",
        "doctor",
        "test",
        "bench",
    ):
        assert f"make {target}" in shown
    assert "default 5.7.22" in shown


def test_an_empty_variable_of_make_is_an_error(data: Path, results: Path, tmp_path: Path) -> None:
    done = Reader(tmp_path, data, results).run("make cold-recovery VERSION=")
    assert done.returncode != 0
    assert "VERSION is set but empty" in done.stderr


def test_a_variable_never_reaches_a_shell(data: Path, results: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    version = f"5.7.22'; touch {canary}; echo '$(touch {canary})"
    done = Reader(tmp_path, data, results).run(f"make cold-recovery {shlex.quote(f'VERSION={version}')}")
    assert done.returncode != 0
    assert not canary.exists()
