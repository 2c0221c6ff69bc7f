"""docker/recovery with a docker command that only says how it was called: what would be mounted, and passed on?"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from recovery.builds.image_build import LIBRARIES

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "docker" / "recovery"
# One word a line; `image ls` finds an image unless the test says otherwise.
FAKE = """#!/bin/sh
case $1 in
    context) echo "${FAKE_ENGINE:-unix:///run/fake.sock}" ;;
    image) echo "${FAKE_IMAGE-sha256:1}" ;;
    *) printf '%s\\n' "$@"; echo . ;;
esac
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the command is called."""
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(FAKE)
    program.chmod(0o755)
    for name in ("DOCKER_HOST", "TOOL_IMAGE", "TMPDIR", "RECOVERY_ENGINE", "RECOVERY_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    here = tmp_path / "here"
    here.mkdir()
    return here


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *words], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def called(folder: Path, *words: str) -> list[str]:
    done = call(folder, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def mounts(words: list[str]) -> list[tuple[str, str]]:
    found = [re.fullmatch(r"type=bind,source=(.*?),target=(.*?)(,readonly)?", word) for word in words]
    return [(match[1], match[2]) for match in found if match is not None]


def test_the_words_come_last_and_as_they_are(fake: Path) -> None:
    words = called(fake, "cold-recovery", "--set", "init_connect=a b", "--version", "5.7.22 8.0.31")
    assert words[0] == "run"
    at = words.index("recovery-tester/recovery")
    assert words[at + 1 : -1] == ["cold-recovery", "--set", "init_connect=a b", "--version", "5.7.22 8.0.31"]
    assert "--rm" in words
    assert words[words.index("--pid") + 1] == "host"


def test_folders_have_the_same_path_inside_as_outside(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_RESULTS", str(fake.parent / "stored here"))
    found = mounts(called(fake, "cold-recovery", "--data", f"{fake.parent}/volume", "--tables=200"))
    for folder in ("here", "volume", "stored here", "home/.cache/mysql-recovery-tester"):
        path = str(fake.parent / folder)
        assert found.count((path, path)) == 1
        assert Path(path).is_dir(), "the engine mounts only what is there"
    assert ("/tmp", "/tmp") in found
    assert ("/run/fake.sock", "/var/run/docker.sock") in found
    outside = {target for source, target in found if source != target}
    assert outside == {"/var/run/docker.sock"}
    assert len({target for _, target in found}) == len(found), "docker refuses what is mounted twice"


def test_what_the_words_say_wins_over_the_environment(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_DATA", str(fake.parent / "unused"))
    found = mounts(called(fake, "cold-recovery", f"--data={fake.parent}/used"))
    assert (f"{fake.parent}/used",) * 2 in found
    assert not (fake.parent / "unused").exists()


def test_a_folder_below_the_current_one_is_left_to_the_tool(fake: Path) -> None:
    found = mounts(called(fake, "cold-recovery", "--data", "data", "--results", "results"))
    assert not list(fake.iterdir())
    assert (str(fake), str(fake)) in found


def test_settings_are_passed_on_by_name(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_TABLES", "2000\nRECOVERY_RUNS=3")
    monkeypatch.setenv("RECOVERY_READ_IOPS", "5000")
    words = called(fake, "doctor")
    for name in ("RECOVERY_TABLES", "RECOVERY_READ_IOPS", "RECOVERY_HOST_LOCK", "RECOVERY_CACHE"):
        assert words[words.index(name) - 1] == "--env"
    assert "--tty" not in words, "no terminal is there"


def test_both_take_one_lock(fake: Path) -> None:
    found = mounts(called(fake, "doctor"))
    lock = str(fake.parent)  # tests have one of their own
    assert (lock, lock) in found


@pytest.mark.parametrize("name", ["a,readonly", 'a"b'])
def test_a_folder_that_would_be_read_as_docker_s_own_words(fake: Path, name: str) -> None:
    done = call(fake, "cold-recovery", "--data", f"{fake.parent}/{name}")
    assert done.returncode == 3
    assert "has a comma or a quote in its name" in done.stderr
    assert done.stdout == ""


def test_the_caller_s_cache_is_trusted_inside(fake: Path) -> None:
    words = called(fake, "doctor")
    assert words[words.index(f"SUDO_UID={os.geteuid()}") - 1] == "--env"


def test_an_engine_elsewhere_is_refused(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FAKE_ENGINE", "DOCKER_HOST"):
        monkeypatch.setenv(name, "tcp://192.0.2.1:2375")
        done = call(fake, "doctor")
        assert done.returncode == 3
        assert done.stdout == ""
        assert "error: the Docker engine at tcp://192.0.2.1:2375 is not reached by a socket" in done.stderr


def test_a_missing_image_is_built_from_the_checkout(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_IMAGE", "")
    done = call(fake, "doctor")
    built = done.stderr.splitlines()
    assert "building the image recovery-tester/recovery" in done.stderr
    assert str(ROOT / "docker/recovery.Dockerfile") in built
    assert built[built.index("-t") + 1 :][:2] == ["recovery-tester/recovery", str(ROOT)]


def test_it_holds_the_libraries_of_the_servers_base() -> None:
    text = (ROOT / "docker/recovery.Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
    packages = re.search(r'ARG PACKAGES="(.*?)"', text)
    assert packages is not None
    assert set(packages[1].split()) == set(LIBRARIES)


def test_the_context_holds_what_is_needed_alone() -> None:
    kept = re.findall(r"^!/(.+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    assert (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()[1] == "*"
    assert all((ROOT / name).exists() for name in kept if name != "wheels")
