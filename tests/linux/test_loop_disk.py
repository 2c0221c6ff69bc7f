"""The probe for a separate disk: made only for a part that needs one, reported if it fails, and nothing is left."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from asking import asked
from sessions import left_out
from waiting import until

from recovery.cli.main import run
from recovery.errors import HostUnfitError
from recovery.linux import cleanup, loop_device
from recovery.linux.loop_device import attached_images, why_no_loop_disk, why_no_power_cut

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
PARTS = [("crash-matrix", "power-loss"), ("damage", "full-disk")]
"""The parts that need a disk."""
REAL_MOUNT = 'PATH=/usr/bin:/bin:/usr/sbin:/sbin mount "$@"'


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Each test probes anew, in a folder that must be empty at the end."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    loop_device._probe.cache_clear()
    yield folder
    loop_device._probe.cache_clear()
    assert list(folder.iterdir()) == []
    assert str(folder) not in Path("/proc/mounts").read_text(encoding="utf-8")
    until(lambda: not any(image.is_relative_to(folder) for image in attached_images()), "the end of its loop devices")


def replace_mount(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "mount").write_text(f"#!/bin/sh\n{script}\n")
    (programs / "mount").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with one line for each call of a mount program that always fails."""
    calls = tmp_path / "called"
    calls.touch()
    replace_mount(f"echo mount >>{calls}; echo mount: permission denied. >&2; exit 32", tmp_path, monkeypatch)
    return calls


@as_root
@pytest.mark.parametrize(("scenario", "name"), PARTS)
def test_a_part_is_skipped_with_the_reason_where_no_disk_can_be_mounted(
    called: Path, scenario: str, name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    request = asked(scenario)
    assert request.variant_specs
    assert not any(work.name.startswith(name) for work in request.variant_specs)
    why = "this host cannot provide one: mount failed: mount: permission denied."
    assert request.unavailable == (f"{name} is skipped: it needs a separate disk, and {why}",)
    with pytest.raises(HostUnfitError) as caught:
        asked(scenario, parts=name)
    assert caught.value.message == f"{name} needs a separate disk, and {why}"
    assert f"leave {name} out of --question" in caught.value.hint
    folders = ["--data", str(tmp_path / "data"), "--results", str(tmp_path / "results"), "--no-probe"]
    command = [scenario, "--version", "8.0.31", "--dry-run", *folders]
    assert run(command) == 0
    assert request.unavailable[0][:80] in capfd.readouterr().out
    assert run([*command, "--question", name]) == 3
    assert "this host cannot provide one: mount failed" in capfd.readouterr().err
    assert called.read_text() == "mount\n", "once in a process"


@as_root
def test_the_power_is_not_cut_if_the_mount_did_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the power of the filesystem below would be cut."""
    replace_mount("exit 0", tmp_path, monkeypatch)
    monkeypatch.setattr(fcntl, "ioctl", lambda *_: pytest.fail("the power of a host filesystem was cut"))
    assert "tried.image is not mounted at" in str(why_no_power_cut())


@as_root
def test_no_disk_is_probed_if_none_is_needed(called: Path) -> None:
    for scenario in ("metadata", "interference", "table-cache", "write-scaling"):
        asked(scenario)
    asked("crash-matrix", parts="load recovery")
    asked("damage", parts="missing")
    assert called.read_text() == ""


@pytest.mark.parametrize(("scenario", "name"), PARTS)
def test_no_disk_is_probed_if_unprivileged(called: Path, scenario: str, name: str) -> None:
    request = asked(scenario, unprivileged=True)
    assert request.variant_specs
    assert "refused by --unprivileged" in " ".join(request.unavailable)
    with pytest.raises(HostUnfitError, match="refused by"):
        asked(scenario, parts=name, unprivileged=True)
    assert called.read_text() == ""


def test_only_root_probes_for_a_disk(called: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert why_no_loop_disk() == why_no_power_cut() == "only root may mount"
    assert called.read_text() == ""


def test_what_a_probe_lacks_is_reported(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(temporary))
        assert why_no_loop_disk() == "mkfs.ext4 is missing"
    loop_device._probe.cache_clear()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "nowhere"))
    assert why_no_loop_disk() == "no temporary folder can be made: No such file or directory"


@as_root
@pytest.mark.real
class TestReal:
    @pytest.fixture(autouse=True)
    def disks(self) -> None:
        if (why := why_no_power_cut()) is not None:
            left_out(why)
        loop_device._probe.cache_clear()

    def test_a_part_is_planned_where_a_disk_is_possible(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert why_no_loop_disk() is None
        monkeypatch.setenv("PATH", "/nowhere")
        assert why_no_power_cut() is None, "it is probed once"
        for scenario, name in PARTS:
            request = asked(scenario)
            assert request.unavailable == ()
            assert any(work.name.startswith(name) for work in request.variant_specs)
            assert asked(scenario, parts=name).variant_specs

    def test_a_kernel_without_the_ioctl_still_has_disks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def ioctl(*_: object) -> None:
            raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))

        monkeypatch.setattr(fcntl, "ioctl", ioctl)
        assert why_no_loop_disk() is None
        (skipped,) = asked("crash-matrix").unavailable
        assert "the power of a filesystem cannot be cut here: Inappropriate ioctl" in skipped
        assert asked("damage").unavailable == ()

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_ctrl_c_leaves_nothing(self, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        script = ["kill -INT $PPID", REAL_MOUNT] if when == "before" else [REAL_MOUNT, "kill -INT $PPID"]
        replace_mount("\n".join(script), tmp_path, monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            why_no_loop_disk()

    def test_the_next_session_removes_the_disk_of_a_killed_probe(
        self, temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        replace_mount(f"{REAL_MOUNT}\nkill -KILL $PPID", tmp_path, monkeypatch)
        probe = [sys.executable, "-c", "from recovery.linux.loop_device import why_no_loop_disk; why_no_loop_disk()"]
        assert subprocess.run(probe, check=False).returncode == -signal.SIGKILL
        (left,) = temporary.iterdir()
        cleanup.sweep_temp_folders()
        assert not left.exists()
