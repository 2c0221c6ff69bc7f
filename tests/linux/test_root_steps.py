"""A step that needs root is not taken where it is refused, not by root either. Each step where it is taken."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
from recovery.linux.loop_device import loop_disk, why_no_power_cut
from recovery.linux.page_cache import CacheKind, direct_cache_dropper, make_cold
from recovery.linux.privileges import EVERY_STEP, NO_STEPS, RootStep, is_refused, refuse_steps, refused_steps
from recovery.model import Limits, Schema
from recovery.mysqld.table_files import table_files

ROOT = Path(__file__).parents[2]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root could take the step")


def only(step: RootStep) -> frozenset[RootStep]:
    return frozenset({step})


def test_which_steps_an_option_refuses() -> None:
    assert refused_steps(unprivileged=False) == NO_STEPS
    assert refused_steps(unprivileged=False, no_drop_caches=True) == {RootStep.DROP_CACHES}
    assert refused_steps(unprivileged=True, no_drop_caches=True) == EVERY_STEP


@pytest.mark.parametrize(
    ("config", "environment", "refused"),
    [("", "1", True), ("unprivileged = true\n", None, True), ("unprivileged = true\n", "0", False)],
)
def test_settings_refuse_all_steps_also_to_a_command_without_the_option(
    config: str, environment: str | None, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recovery.toml").write_text(config)
    if environment is not None:
        monkeypatch.setenv("RECOVERY_UNPRIVILEGED", environment)
    seen: list[bool] = []
    monkeypatch.setattr(main.cli, "invoke", lambda _: seen.append(all(map(is_refused, RootStep))))
    assert main.run(["versions"]) == 0
    assert seen == [refused]


def test_a_list_of_steps_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOVERY_UNPRIVILEGED", "fanotify")
    assert main.run(["doctor"]) == 2
    assert "--unprivileged / UNPRIVILEGED: fanotify is not valid" in capsys.readouterr().err


def test_a_refusal_ends_with_its_block() -> None:
    with refuse_steps(only(RootStep.INSTALL)):
        with refuse_steps(only(RootStep.CGROUPS)):
            assert [step for step in RootStep if is_refused(step)] == [RootStep.CGROUPS, RootStep.INSTALL]
        with pytest.raises(ZeroDivisionError), refuse_steps(EVERY_STEP):
            _ = 1 / 0
        assert [step for step in RootStep if is_refused(step)] == [RootStep.INSTALL]
    assert not any(map(is_refused, RootStep))


def test_a_refusal_applies_to_every_thread() -> None:
    with ThreadPoolExecutor(1) as threads:
        with refuse_steps(only(RootStep.MOUNT)):
            assert threads.submit(is_refused, RootStep.MOUNT).result()
        assert not threads.submit(is_refused, RootStep.MOUNT).result()


@pytest.fixture
def no_engine() -> Iterator[docker.DockerClient]:
    client = docker.DockerClient(base_url="unix:///nowhere", version="1.41")
    yield client
    client.close()


@as_root
def test_caches_are_not_dropped(tmp_path: Path, no_engine: docker.DockerClient) -> None:
    (tmp_path / "file").write_bytes(b"x" * (1 << 20))
    with refuse_steps(only(RootStep.DROP_CACHES)):
        assert direct_cache_dropper() is None
        assert make_cold(tmp_path, direct_cache_dropper()).means == "fadvise"
        assert DockerCacheDropper(no_engine, "any").drop(CacheKind.EVERYTHING) is False, "the engine is not asked"


@as_root
def test_no_control_group_is_made(tmp_path: Path) -> None:
    with refuse_steps(only(RootStep.CGROUPS)):
        for limits, name in ((Limits(memory_bytes=1 << 28), "--memory"), (Limits(cpus=0.5), "--cpus")):
            with pytest.raises(HostUnfitError) as caught:
                controller_settings(limits, tmp_path)
            assert "it cannot be set: it needs a control group" in caught.value.message
            assert caught.value.message.startswith(f"{name} / ")
            assert "refused by --unprivileged" in caught.value.message
        assert cleanup.remove_orphaned_groups() == ()


@as_root
def test_no_disk_is_mounted(tmp_path: Path) -> None:
    refusal = pytest.raises(HostUnfitError, match="refused by --unprivileged")
    with refuse_steps(only(RootStep.MOUNT)):
        assert why_no_power_cut()
        with refusal, loop_disk(tmp_path / "disk", size_bytes=1):
            pass
    assert list(tmp_path.iterdir()) == []


@as_root
def test_opens_are_traced_by_inotify(tmp_path: Path) -> None:
    (tmp_path / "discovery").mkdir()
    (tmp_path / "discovery" / "table_1.ibd").write_text("x")
    with refuse_steps(only(RootStep.FANOTIFY)):
        with pytest.raises(OSError, match="refused by --unprivileged") as caught:
            file_opens.open_fanotify(tmp_path)
        assert caught.value.errno == errno.EPERM
        assert "refused" in str(host_facts.fanotify_refused(tmp_path))
        with OpenTrace([tmp_path / "discovery"], table_files(tmp_path, Schema(1)).holds) as trace:
            (tmp_path / "discovery" / "table_1.ibd").read_text()
            opens = trace.of(os.getpid())
    assert opens.means == "inotify"
    assert opens.files == {"discovery/table_1.ibd"}


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file with a line for each call of a program that would change this host; these programs do nothing."""
    calls, programs = tmp_path / "called", tmp_path / "bin"
    calls.touch()
    programs.mkdir()
    for name in ("apt-get", "dpkg", "debootstrap", "unshare"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{calls}\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path / "cache"))
    return calls


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
def test_the_package_lists_of_the_host_are_not_changed(called: Path, tmp_path: Path) -> None:
    packages._refresh_lists.cache_clear()
    try:
        with refuse_steps(only(RootStep.INSTALL)):
            options = packages._refresh_lists()
    finally:
        packages._refresh_lists.cache_clear()
    assert f"Dir::State::Lists={tmp_path}/cache/libraries/apt/lists" in options
    assert called.read_text() == f"apt-get -q {' '.join(options)} update\n"


@as_root
def test_no_image_is_built_by_debootstrap(called: Path, no_engine: docker.DockerClient) -> None:
    with (
        refuse_steps(only(RootStep.DEBOOTSTRAP)),
        pytest.raises(HostUnfitError, match="refused by --unprivileged"),
    ):
        image_build._build_by_debootstrap(no_engine, DebianRecipe("x", "sid", ("y",)), "no image of it can be pulled")
    assert called.read_text() == ""


def test_the_doctor_lists_each_step() -> None:
    assert [check.name for check in root_step_checks()] == list(RootStep)
    taken = "would be taken" if os.geteuid() == 0 else "needs root"
    with refuse_steps(only(RootStep.FANOTIFY)):
        details = {check.name: check.detail for check in root_step_checks()}
    assert details.pop(RootStep.FANOTIFY) == "refused by --unprivileged"
    assert set(details.values()) == {taken}
