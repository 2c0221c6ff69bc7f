"""`make test` installs the programs it needs as root on Debian, and elsewhere prints the command that does."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT
from waiting import until

SCRIPTS = Path(__file__).parent.parent / "scripts"
PACKAGES = (
    "docker.io docker-registry debootstrap elfutils linux-perf sysbench mariadb-client xfsprogs "
    "openssh-server ansible-core sudo"
)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Returns a folder with the only programs that the script finds; apt-get records its arguments."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("sh", "dirname"):
        (folder / name).symlink_to(str(shutil.which(name)))
    program(folder, "docker", "exit 1")
    program(folder, "apt-get", f'echo "$*" >>{tmp_path}/asked')
    return folder


def program(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def provide(host: Path, uid: int, *more: str, **settings: str) -> str:
    program(host, "id", f"echo {uid}")
    for name in ("test_programs.sh", "may_install.sh"):  # without the host's own folders of programs
        (host.parent / name).write_text((SCRIPTS / name).read_text().replace("PATH=$PATH:/usr/sbin:/sbin", ""))
    command = ["sh", str(host.parent / "test_programs.sh"), *more]
    done = subprocess.run(command, env={"PATH": str(host), **settings}, capture_output=True, text=True, check=True)
    return done.stderr


def test_as_root_the_missing_programs_are_installed(host: Path, tmp_path: Path) -> None:
    program(host, "sysbench", "")
    assert "installing for the tests: docker.io" in provide(host, 0, "chromium:chromium")
    wanted = PACKAGES.replace("sysbench ", "")
    assert (tmp_path / "asked").read_text().splitlines() == ["update -q", f"install -q -y {wanted} chromium"]


@pytest.mark.parametrize(("uid", "settings"), [(1000, {}), (0, {"RECOVERY_UNPRIVILEGED": "1"})])
def test_without_rights_the_install_command_is_printed(uid: int, settings: dict[str, str], host: Path) -> None:
    assert provide(host, uid, **settings) == (
        f"tests of missing programs are skipped; this command installs them: sudo apt-get install {PACKAGES}\n"
    )
    assert not (host.parent / "asked").exists()


def test_where_the_installation_fails_the_programs_are_printed_too(host: Path) -> None:
    program(host, "apt-get", "exit 100")
    assert PACKAGES in provide(host, 0)
    (host / "apt-get").unlink()
    assert f"in Debian their packages are: {PACKAGES}\n" in provide(host, 0)


def test_where_an_engine_answers_none_is_installed(host: Path, tmp_path: Path) -> None:
    program(host, "docker", "exit 0")
    assert "docker.io" not in provide(host, 0)
    assert "docker.io" not in (tmp_path / "asked").read_text()


TEST_RUN = r"""#!/bin/sh
echo "tests $*" >>"$RECORD"
case "$*" in *containers\ and\ not*) exit 1 ;; esac
"""


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the environment for a copy of tests.sh: its tests and types only record that they ran."""
    programs, venv = tmp_path / "programs", tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    programs.mkdir()
    program(venv / "bin", "python", TEST_RUN)
    program(venv / "bin", "mypy", 'echo "types $*" >>"$RECORD"')
    program(programs, "docker", "exit 0")
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    for name in ("tests.sh", "may_install.sh"):
        shutil.copy(SCRIPTS / name, tmp_path)
    program(tmp_path, "test_programs.sh", "exit 0")
    return venv


@pytest.mark.parametrize("is_allowed", [True, False])
def test_tests_that_fail_fail_all_of_them(is_allowed: bool, venv: Path, tmp_path: Path) -> None:
    """Also where no namespaces can be had, as without root."""
    if not is_allowed:
        program(tmp_path / "programs", "unshare", "exit 1")
    done = subprocess.run(["sh", tmp_path / "tests.sh", venv], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert sorted(line.split()[0] for line in (tmp_path / "record").read_text().splitlines()) == ["tests"] * 6 + [
        "types"
    ]
    program(venv / "bin", "python", 'echo "tests $*" >>"$RECORD"')
    assert subprocess.run(["sh", tmp_path / "tests.sh", venv], check=False, capture_output=True).returncode == 0
    program(venv / "bin", "mypy", "echo wrong types; exit 1")
    done = subprocess.run(["sh", tmp_path / "tests.sh", venv], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "wrong types" in done.stdout


def run_program(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    folders = (ROOT / "proofs", ROOT / "tests" / "helpers")
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), **environment}
    return subprocess.run([sys.executable, "-m", program], env=given, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("program", ["torture", "fuzzing", "strangers", "intervals"])
def test_a_program_of_the_tests_splits_its_words_without_a_shell(program: str, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    done = run_program(program, ARGS=f"--nope '$(touch {touched})' `touch {touched}`; touch {touched}")
    assert (done.returncode, touched.exists()) == (2, False)
    assert "ARGS cannot be split into words: No closing quotation" in run_program(program, ARGS="'").stderr


def test_make_puts_no_words_of_a_user_into_a_recipe() -> None:
    text = (SCRIPTS.parent / "Makefile").read_text(encoding="utf-8")
    assert not re.search(r"\$\(ARGS\)(?!,)", text), "a shell would run what is in them"


@pytest.mark.parametrize(("program", "known"), [("torture", "KILLS"), ("fuzzing", "EXECUTIONS")])
def test_a_program_of_the_tests_refuses_an_unknown_variable(program: str, known: str) -> None:
    done = run_program(program, **{f"RECOVERY_{known[:-1]}": "5"})
    assert done.returncode == 1
    assert done.stderr == f"error: there is no setting {known[:-1]}\nhint:  did you mean {known}?\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("is_allowed", [True, False])
def test_ctrl_c_ends_tests_that_take_it_for_their_own(
    number: signal.Signals, is_allowed: bool, venv: Path, tmp_path: Path
) -> None:
    wait = shutil.which("sleep")
    program(venv / "bin", "python", f"trap '' INT TERM\necho tests $$ >>\"$RECORD\"\nexec {wait} 600")
    program(tmp_path / "programs", "sleep", "exit 0")
    if not is_allowed:
        program(tmp_path / "programs", "unshare", "exit 1")
    record = tmp_path / "record"
    with subprocess.Popen(["sh", tmp_path / "tests.sh", venv], start_new_session=True) as running:
        until(lambda: record.exists() and "tests" in record.read_text(), "a test")
        os.killpg(running.pid, number)
        assert running.wait(60) == 130


TWO_TESTS = """
import os, signal
import pytest

def test_that_takes_the_signal():
    open(os.environ["TESTS_END"], "w").close()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()

def test_that_comes_next():
    pass
"""


def test_after_ctrl_c_no_next_test_begins(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(TWO_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    folders = (ROOT, ROOT / "tests", ROOT / "tests" / "helpers")
    settings = {"PYTHONPATH": os.pathsep.join(map(str, folders)), "TESTS_END": str(tmp_path / "end")}
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "test_two.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert "make test was interrupted" in done.stdout
    assert "1 passed" in done.stdout
    assert done.returncode == pytest.ExitCode.INTERRUPTED
