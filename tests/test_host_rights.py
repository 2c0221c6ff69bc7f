"""Is what was refused not done, by root either, and what takes its place told? Each step where it is taken."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import docker
import pytest

from recovery.builds import image_build, packages
from recovery.builds.image_build import DebianRecipe
from recovery.cli import main
from recovery.cli.doctor import root_step_checks
from recovery.errors import HostUnfitError
from recovery.linux import cleanup, file_opens, host_facts
from recovery.linux.cgroups import controller_settings
from recovery.linux.docker_engine import DockerCacheDropper
from recovery.linux.file_opens import OpenTrace
from recovery.linux.files import table_files
from recovery.linux.loop_device import loop_disk, why_no_power_cut
from recovery.linux.page_cache import CacheKind, direct_cache_dropper, make_cold
from recovery.linux.privileges import EVERY_STEP, NO_STEPS, RootStep, is_refused, refuse_steps, refused_steps
from recovery.model import Limits, Schema

ROOT = Path(__file__).parent.parent
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="nothing is there to be refused to anybody but root")


def only(step: RootStep) -> frozenset[RootStep]:
    return frozenset({step})


def test_which_steps_an_option_refuses() -> None:
    assert refused_steps(unprivileged=False) == NO_STEPS
    assert refused_steps(unprivileged=False, no_drop_caches=True) == {RootStep.DROP_CACHES}
    assert refused_steps(unprivileged=True, no_drop_caches=True) == EVERY_STEP


@pytest.mark.parametrize("command", ["versions", "doctor"])
@pytest.mark.parametrize(
    ("layers", "refused"), [("environment", True), ("file", True), ("environment over file", False)]
)
def test_it_applies_to_every_command(
    command: str, layers: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also to one that has no such option."""
    monkeypatch.chdir(tmp_path)
    if "file" in layers:
        (tmp_path / "recovery.toml").write_text("unprivileged = true\n")
    if "environment" in layers:
        monkeypatch.setenv("RECOVERY_UNPRIVILEGED", "1" if refused else "0")
    seen: list[bool] = []
    monkeypatch.setattr(main.cli, "main", lambda *_, **__: seen.append(all(map(is_refused, RootStep))))
    assert main.run([command]) == 0
    assert seen == [refused]


def test_the_old_names_are_refused_with_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for option in ("--no-root-steps", "--no-root-steps=fanotify"):
        assert main.run(["cold-recovery", option]) == 2
        assert "--no-root-steps was replaced by --unprivileged" in capsys.readouterr().err
    (tmp_path / "recovery.toml").write_text("no_root_steps = true\n")
    assert main.run(["doctor"]) == 2
    assert "it was replaced by UNPRIVILEGED=1" in capsys.readouterr().err
    monkeypatch.setenv("RECOVERY_NO_ROOT_STEPS", "mount")
    assert main.run(["doctor"]) == 2
    assert "it was replaced by UNPRIVILEGED=1" in capsys.readouterr().err
    monkeypatch.delenv("RECOVERY_NO_ROOT_STEPS")
    (tmp_path / "recovery.toml").unlink()
    monkeypatch.setenv("RECOVERY_UNPRIVILEGED", "fanotify")
    assert main.run(["doctor"]) == 2
    assert 'invalid UNPRIVILEGED "fanotify"' in capsys.readouterr().err
    made = subprocess.run(
        ["make", "--dry-run", "doctor", "NO_ROOT_STEPS=1"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert made.returncode == 2
    assert "NO_ROOT_STEPS was replaced by UNPRIVILEGED=1" in made.stderr


def test_it_holds_for_as_long_as_was_said() -> None:
    with refuse_steps(only(RootStep.INSTALL)):
        with refuse_steps(only(RootStep.CGROUPS)):
            assert [step for step in RootStep if is_refused(step)] == [RootStep.CGROUPS, RootStep.INSTALL]
        with pytest.raises(ZeroDivisionError), refuse_steps(EVERY_STEP):
            _ = 1 / 0
        assert [step for step in RootStep if is_refused(step)] == [RootStep.INSTALL]
    assert not any(map(is_refused, RootStep))


@as_root
def test_caches_are_not_dropped(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * (1 << 20))
    with refuse_steps(only(RootStep.DROP_CACHES)):
        assert direct_cache_dropper() is None
        assert make_cold(tmp_path, direct_cache_dropper()).means == "fadvise"


def test_no_container_drops_them_either() -> None:
    """Of an engine that is not asked: there is none at this address."""
    nowhere = docker.DockerClient(base_url="unix:///nowhere", version="1.41")
    with refuse_steps(only(RootStep.DROP_CACHES)):
        assert DockerCacheDropper(nowhere, "any").drop(CacheKind.EVERYTHING) is False
    nowhere.close()


@as_root
def test_no_control_group_is_made(tmp_path: Path) -> None:
    with refuse_steps(only(RootStep.CGROUPS)):
        for limits, name in ((Limits(memory_bytes=1 << 28), "MEMORY"), (Limits(cpus=0.5), "CPUS")):
            with pytest.raises(HostUnfitError) as caught:
                controller_settings(limits, tmp_path)
            assert caught.value.message.startswith(f"{name} cannot be set")
            assert "refused by --unprivileged" in caught.value.message
        assert cleanup.remove_orphaned_groups() == ()


@as_root
def test_no_disk_is_mounted(tmp_path: Path) -> None:
    with refuse_steps(only(RootStep.MOUNT)):
        assert why_no_power_cut()
        with (
            pytest.raises(HostUnfitError, match="refused by --unprivileged"),
            loop_disk(tmp_path / "disk", size_bytes=1),
        ):
            pass
    assert list(tmp_path.iterdir()) == []


@as_root
def test_opens_are_told_by_inotify(tmp_path: Path) -> None:
    (tmp_path / "discovery").mkdir()
    (tmp_path / "discovery" / "table_1.ibd").write_text("x")
    with refuse_steps(only(RootStep.FANOTIFY)):
        with pytest.raises(OSError, match="refused by --unprivileged") as caught:
            file_opens.open_fanotify(tmp_path)
        assert caught.value.errno == errno.EPERM
        assert "refused" in str(host_facts.fanotify_refused(tmp_path))
        with OpenTrace(table_files(tmp_path, Schema(1))) as trace:
            (tmp_path / "discovery" / "table_1.ibd").read_text()
            opens = trace.of(os.getpid())
    assert opens.means == "inotify"
    assert opens.files == {"discovery/table_1.ibd"}


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What programs on PATH that would change this host were called with: an empty file as long as they were not."""
    told, programs = tmp_path / "called", tmp_path / "bin"
    told.touch()
    programs.mkdir()
    for name in ("apt-get", "dpkg", "debootstrap", "unshare"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{told}\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path / "cache"))
    return told


@as_root
def test_nothing_is_installed(called: Path) -> None:
    with (
        refuse_steps(only(RootStep.INSTALL)),
        pytest.raises(HostUnfitError, match="refused by --unprivileged") as caught,
    ):
        packages.provide_tool(packages.SYSBENCH, offline=False, say=lambda _: None)
    assert "apt-get install sysbench" in caught.value.hint
    assert called.read_text() == ""
    with pytest.raises(HostUnfitError):  # this apt-get installs nothing
        packages.provide_tool(packages.SYSBENCH, offline=False, say=lambda _: None)
    assert "apt-get -q install" in called.read_text(), "unless it is refused"


@as_root
def test_root_s_lists_of_packages_are_left_alone(called: Path, tmp_path: Path) -> None:
    packages._refresh_lists.cache_clear()
    try:
        with refuse_steps(only(RootStep.INSTALL)):
            options = packages._refresh_lists()
    finally:
        packages._refresh_lists.cache_clear()
    assert f"Dir::State::Lists={tmp_path}/cache/libraries/apt/lists" in options
    assert called.read_text() == f"apt-get -q {' '.join(options)} update\n"


@as_root
def test_no_debootstrap(called: Path) -> None:
    nowhere = docker.DockerClient(base_url="unix:///nowhere", version="1.41")
    with (
        refuse_steps(only(RootStep.DEBOOTSTRAP)),
        pytest.raises(HostUnfitError, match="refused by --unprivileged"),
    ):
        image_build._build_by_debootstrap(nowhere, DebianRecipe("x", "sid", ("y",)), "no image of it can be pulled")
    nowhere.close()
    assert called.read_text() == ""


def test_the_doctor_tells_each() -> None:
    assert [check.name for check in root_step_checks()] == list(RootStep)
    taken = "would be taken" if os.geteuid() == 0 else "needs root"
    with refuse_steps(only(RootStep.FANOTIFY)):
        told = {check.name: check.detail for check in root_step_checks()}
    assert told.pop(RootStep.FANOTIFY) == "refused by --unprivileged"
    assert set(told.values()) == {taken}
