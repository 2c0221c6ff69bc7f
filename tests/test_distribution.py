"""The wheel has all that the tool needs, and works where it is installed, as pip and pipx install it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from checkout import ROOT, copy_checkout
from html_page import check_page
from sessions import FIXTURES, left_out

from recovery import __version__
from recovery.cli.main import run
from recovery.linux import files

PIP = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check")
LOCALLY = ("--no-index", "--no-deps")
Called = Callable[..., str]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by the locked build backend in a repository of one commit."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    copy_checkout(source)
    if shutil.which("git") is None:
        left_out("git is missing (apt-get install git)")
    by = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "LICENSE"), (*by, "commit", "-q", "-m", "begin")):
        subprocess.run(["git", "-C", source, *words], check=True)
    subprocess.run([*PIP, "wheel", *LOCALLY, "--no-build-isolation", "-w", built, source], check=True)
    (found,) = built.iterdir()
    return found


@pytest.fixture(scope="module")
def commit(wheel: Path) -> str:
    """The commit that the wheel was built from."""
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/share/mysql-recovery-tester/build/commit"))
        return archive.read(name).decode()


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of the wheel in a fresh environment, through a link as pipx makes it. Only its dependencies are those
    of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv")
    python = folder / "venv/bin/python"
    subprocess.run([*PIP, "--python", python, "install", *LOCALLY, wheel], check=True)
    (packages,) = folder.glob("venv/lib/python3*/site-packages")
    # A path file in a folder that is itself named by one has no effect: the checkout stays out.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    (folder / "recovery").symlink_to("venv/bin/recovery")
    return folder / "recovery"


@pytest.fixture
def call(installed: Path, tmp_path: Path) -> Called:
    """Calls the command in an empty folder, and returns what it prints."""

    def called(*words: str | Path) -> str:
        settings = os.environ | {"RECOVERY_CACHE": str(tmp_path / "cache"), "PYTHONPATH": ""}
        done = subprocess.run(
            [installed, *words], cwd=tmp_path, env=settings, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return called


def test_the_wheel_has_every_file_of_the_tool(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        packed = [name.partition(".data/data/share/mysql-recovery-tester/")[2] or name for name in archive.namelist()]
    folders = (ROOT / "recovery", ROOT / "templates", ROOT / "docker")
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert len(files) > 100
    files += [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/results/*.md")]
    assert {str(path.relative_to(ROOT)) for path in files} - set(packed) == set()


def test_the_wheel_has_a_manual_page_that_renders_without_warnings(wheel: Path, tmp_path: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".data/data/share/man/man1/recovery.1"))
        page = archive.read(name)
    (tmp_path / "recovery.1").write_bytes(page)
    text = page.decode()
    for words in (f'"mysql-recovery-tester {__version__}"', '.SH "EXIT CODES"', r"\fBrecovery docs", r"\fBTABLES\fR"):
        assert words in text
    assert not re.search(r"\]\(|`|\*\*", text), "Markdown"
    if shutil.which("groff") is None:
        left_out("groff is missing (apt-get install groff)")
    command = ["groff", "-man", "-Tutf8", "-Kutf8", "-ww", "-rLL=80n", str(tmp_path / "recovery.1")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "130: interrupted" in done.stdout


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        found: Message = Parser().parsestr(archive.read(name).decode())
        (entry,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))
        assert "recovery = recovery.__main__:main" in archive.read(entry).decode()
    assert (found["Name"], found["Version"]) == ("mysql-recovery-tester", __version__)
    assert found["Requires-Python"] == ">=3.11"
    assert found["License-File"] == "LICENSE"
    assert "Apache-2.0" in (found["License-Expression"], found["License"])
    assert found["Description-Content-Type"] == "text/markdown"
    assert found.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(found["Summary"]) > 40
    addresses = [address.split(", ")[1] for address in found.get_all("Project-URL", ())]
    assert addresses
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *ROOT.glob("docs/*.md")))
    assert [address for address in addresses if address not in pages] == []
    assert {"mysql", "mariadb", "innodb"} <= set(found["Keywords"].split(","))
    kinds = found.get_all("Classifier", ())
    assert "Operating System :: POSIX :: Linux" in kinds
    pythons = [kind.rpartition(" ")[2] for kind in kinds if "Python :: 3." in kind]
    assert pythons == ["3.11", "3.12", "3.13"], "those in CONTRIBUTING.md"


def test_the_installed_command_finds_its_files(call: Called, commit: str) -> None:
    assert re.fullmatch("[0-9a-f]{10}", commit)
    assert call("--version") == f"recovery, version {__version__} (commit {commit})\n"
    assert "cold-recovery" in call("--help")
    assert "5.7.22" in call("versions"), "the catalog"
    assert call("docs", "shorten#redo").startswith("## Redo\n\nThe server reads the redo log")
    assert "create table" in call("schema", "--tables", "2"), "a template"
    assert "information_schema" in call("experiments", "--dry-run"), "what was published"
    check_page(call("report", FIXTURES / "sessions" / "three-versions", "--format", "html"))
    assert "5.7.22 applies the redo log" in call("analyze", FIXTURES / "errorlogs" / "mysql-5.7.22-crash.err")


def test_a_version_without_a_known_commit_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where git is missing, or refuses the repository of somebody else."""
    assert files.commit_of(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert files.commit_of(ROOT) is None
    monkeypatch.setattr(files, "tool_commit", lambda: None)
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"recovery, version {__version__}\n"
