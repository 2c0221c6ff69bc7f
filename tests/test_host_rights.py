"""Is what was refused not done, by root either, and what takes its place told? Each step where it is taken."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import docker
import pytest

from recovery.builds import image_build, packages
from recovery.builds.image_build import DebianRecipe
from recovery.cli.doctor import root_step_checks
from recovery.errors import HostUnfitError
from recovery.linux import file_opens, host_facts, orphans
from recovery.linux.cgroups import controller_settings
from recovery.linux.docker_engine import DockerCacheDropper
from recovery.linux.file_opens import OpenTrace
from recovery.linux.files import table_files
from recovery.linux.loop_device import loop_disk, why_no_power_cut
from recovery.linux.page_cache import CacheKind, direct_cache_dropper, make_cold
from recovery.linux.privileges import EVERY_STEP, RootStep, is_refused, refuse_steps
from recovery.model import Limits, Schema

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="nothing is there to be refused to anybody but root")


def only(step: RootStep) -> frozenset[RootStep]:
    return frozenset({step})


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
            assert "--no-root-steps (cgroups)" in caught.value.message
        assert orphans.remove_orphaned_groups() == ()


@as_root
def test_no_disk_is_mounted(tmp_path: Path) -> None:
    with refuse_steps(only(RootStep.MOUNT)):
        assert why_no_power_cut()
        with (
            pytest.raises(HostUnfitError, match=r"refused by .* \(mount\)"),
            loop_disk(tmp_path / "disk", size_bytes=1),
        ):
            pass
    assert list(tmp_path.iterdir()) == []


@as_root
def test_opens_are_told_by_inotify(tmp_path: Path) -> None:
    (tmp_path / "discovery").mkdir()
    (tmp_path / "discovery" / "table_1.ibd").write_text("x")
    with refuse_steps(only(RootStep.FANOTIFY)):
        with pytest.raises(OSError, match="refused by --no-root-steps") as caught:
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
        pytest.raises(HostUnfitError, match=r"refused by .* \(install\)") as caught,
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
        pytest.raises(HostUnfitError, match=r"refused by .* \(debootstrap\)"),
    ):
        image_build._build_by_debootstrap(nowhere, DebianRecipe("x", "sid", ("y",)), "no image of it can be pulled")
    nowhere.close()
    assert called.read_text() == ""


def test_the_doctor_tells_each() -> None:
    assert [check.name for check in root_step_checks()] == list(RootStep)
    taken = "would be taken" if os.geteuid() == 0 else "needs root"
    with refuse_steps(only(RootStep.FANOTIFY)):
        told = {check.name: check.detail for check in root_step_checks()}
    assert told.pop(RootStep.FANOTIFY) == "refused by --no-root-steps (fanotify)"
    assert set(told.values()) == {taken}
