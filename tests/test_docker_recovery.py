"""What docker/recovery mounts and passes on, with a docker command that only prints its arguments."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from recovery.builds.image_build import LIBRARIES

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "docker" / "recovery"
# One word a line; `image ls` finds an image unless FAKE_IMAGE is empty.
FAKE = """#!/bin/sh
case $1 in
    context) echo "${FAKE_ENGINE:-unix:///run/fake.sock}" ;;
    image) echo "${FAKE_IMAGE-sha256:1}" ;;
    *) printf '%s\\n' "$@"; echo . ;;
esac
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of the command."""
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


def docker_words(folder: Path, *words: str) -> list[str]:
    done = call(folder, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def mounts(words: list[str]) -> list[tuple[str, str]]:
    found = [re.fullmatch(r"type=bind,source=(.*?),target=(.*?)(,readonly)?", word) for word in words]
    return [(match[1], match[2]) for match in found if match is not None]


@pytest.mark.skipif(not Path("/etc/machine-id").exists(), reason="the host has no id")
def test_sessions_in_the_container_know_their_host(fake: Path) -> None:
    assert ("/etc/machine-id",) * 2 in mounts(docker_words(fake, "doctor"))


def refusal(folder: Path, *words: str) -> str:
    done = call(folder, *words)
    assert (done.returncode, done.stdout) == (3, "")
    return done.stderr


def test_the_arguments_come_last_and_unchanged(fake: Path) -> None:
    words = docker_words(fake, "cold-recovery", "--set", "init_connect=a b", "--version", "5.7.22 8.0.31")
    assert words[0] == "run"
    at = words.index("recovery-tester/recovery")
    assert words[at + 1 : -1] == ["cold-recovery", "--set", "init_connect=a b", "--version", "5.7.22 8.0.31"]
    assert "--rm" in words
    assert words[words.index("--pid") + 1] == "host"


def test_settings_lock_and_user_are_passed_on(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_TABLES", "2000\nRECOVERY_RUNS=3")
    monkeypatch.setenv("RECOVERY_READ_IOPS", "5000")
    words = docker_words(fake, "doctor")
    user = f"SUDO_UID={os.geteuid()}"  # whose cache is trusted inside
    for name in ("RECOVERY_TABLES", "RECOVERY_READ_IOPS", "RECOVERY_HOST_LOCK", "RECOVERY_CACHE", user):
        assert words[words.index(name) - 1] == "--env"
    assert "--tty" not in words, "no terminal is there"
    assert (str(Path(os.environ["RECOVERY_HOST_LOCK"]).parent),) * 2 in mounts(words)


def test_folders_have_the_same_path_inside_and_outside(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_RESULTS", str(fake.parent / "stored here"))
    monkeypatch.setenv("RECOVERY_DATA", str(fake.parent / "unused"))
    found = mounts(docker_words(fake, "cold-recovery", "--data", f"{fake.parent}/volume", "--tables=200"))
    for folder in ("here", "volume", "stored here", "home/.cache/mysql-recovery-tester"):
        path = str(fake.parent / folder)
        assert found.count((path, path)) == 1
        assert Path(path).is_dir(), "the engine mounts only what exists"
    assert not (fake.parent / "unused").exists(), "the command line overrides the environment"
    assert ("/tmp", "/tmp") in found
    assert [(source, target) for source, target in found if source != target] == [
        ("/run/fake.sock", "/var/run/docker.sock")
    ]
    assert len({target for _, target in found}) == len(found), "docker refuses a second mount at one path"


def test_a_folder_below_the_current_one_is_left_to_the_tool(fake: Path) -> None:
    found = mounts(docker_words(fake, "cold-recovery", "--data=data", "--results", "results"))
    assert not list(fake.iterdir())
    assert (str(fake), str(fake)) in found


@pytest.mark.parametrize("name", ["a,readonly", 'a"b'])
def test_a_folder_that_docker_would_misread_is_refused(fake: Path, name: str) -> None:
    assert "has a comma or a quote in its name" in refusal(fake, "cold-recovery", f"--data={fake.parent}/{name}")


@pytest.mark.parametrize("name", ["FAKE_ENGINE", "DOCKER_HOST"])
def test_an_engine_on_another_host_is_refused(fake: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "tcp://192.0.2.1:2375")
    error = "error: the Docker engine at tcp://192.0.2.1:2375 is not reached by a socket"
    assert error in refusal(fake, "doctor")


def test_a_missing_image_is_built_from_the_checkout(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_IMAGE", "")
    done = call(fake, "doctor")
    built = done.stderr.splitlines()
    assert "building the image recovery-tester/recovery" in done.stderr
    assert str(ROOT / "docker/recovery.Dockerfile") in built
    assert built[built.index("-t") + 1 :][:2] == ["recovery-tester/recovery", str(ROOT)]


def test_the_image_has_the_libraries_of_the_servers_base() -> None:
    text = (ROOT / "docker/recovery.Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
    packages = re.search(r'ARG PACKAGES="(.*?)"', text)
    assert packages is not None
    assert set(packages[1].split()) == set(LIBRARIES)


def test_the_build_context_has_only_what_is_needed() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    assert ignored.splitlines()[1] == "*"
    kept = re.findall(r"^!/(.+)$", ignored, re.MULTILINE)
    assert all((ROOT / name).exists() for name in kept if name != "wheels")
