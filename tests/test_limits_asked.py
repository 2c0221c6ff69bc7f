"""How limits are asked for: by every layer; and who keeps to them: the plan, the repeat command, a warm run after."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.cli import measure
from recovery.cli.main import run
from recovery.model import Limits, Session
from recovery.session.store import SessionStore


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Limits]:
    """Of this host, which may have no control groups to set, it is only noted what was asked."""
    found: list[Limits] = []

    def note(limits: Limits, data: Path) -> tuple[()]:
        found.append(limits)
        return ()

    monkeypatch.setattr(measure, "controller_settings", note)
    return found


def test_the_line_wins_over_the_environment_and_that_over_the_file(
    asked: list[Limits],
    in_an_empty_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (in_an_empty_folder / "recovery.toml").write_text(
        'read_iops = 1\nread_bps = "100m"\nmemory = 536870912\ncpus = 0.5\n'
    )
    monkeypatch.setenv("RECOVERY_MEMORY", "2g")
    assert run(["cold-recovery", "--dry-run", "--read-iops", "5000"]) == 0
    assert asked == [Limits(read_iops=5000, read_bps=100 << 20, memory_bytes=2 << 30, cpus=0.5)]
    said = capsys.readouterr()
    assert said.err.splitlines()[0].endswith("--read-iops 5000 --read-bps 100m --memory 2g --cpus 0.5")
    assert (
        "limited to 5,000 reads a second, 100 MiB read a second, 2 GiB of memory with its page cache, 0.5 CPUs"
        in said.out
    )


@pytest.mark.parametrize("line", ["read_iops = true", "cpus = [1]", 'memory = ""', "read_bps = 1.5"])
def test_a_file_that_makes_no_sense(line: str, in_an_empty_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (in_an_empty_folder / "recovery.toml").write_text(line + "\n")
    assert run(["cold-recovery", "--dry-run"]) == 2
    assert line.partition(" ")[0] in capsys.readouterr().err


def test_a_dry_run_without_limits_tells_none(asked: list[Limits], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cold-recovery", "--dry-run"]) == 0
    said = capsys.readouterr()
    assert "limited" not in said.out
    assert "--memory" not in said.err


def test_fewer_reads_a_second_take_longer(asked: list[Limits], capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for extra in ([], ["--read-iops", "100"]):
        assert run(["cold-recovery", "--dry-run", "--version", "5.7.22", "--tables", "20000", *extra]) == 0
        (line,) = [line for line in capsys.readouterr().out.splitlines() if "with the build" in line]
        told.append(line)
    assert told[0] != told[1]


def test_a_limit_that_cannot_be_is_refused_by_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cold-recovery", "--dry-run", "--cpus", "100000"]) == 3
    assert "error: CPUS=100000 is more than this host has" in capsys.readouterr().err


def test_a_warm_run_goes_on_under_the_newest_session_s_limits(
    asked: list[Limits], in_an_empty_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = {"tables": 7, "read_iops": 300, "read_bps": None, "memory_bytes": 1 << 30, "cpus": 1.5}
    session = Session("cold-recovery", "", "", "", {}, dict(kept), ("5.7.22",), ("cold",), 1)
    SessionStore.create(in_an_empty_folder / "results", session)
    assert run(["warm-recovery", "--dry-run", "--read-iops", "400"]) == 0
    assert asked == [Limits(read_iops=400, memory_bytes=1 << 30, cpus=1.5)], "what is given wins"
    assert run(["warm-recovery", "--dry-run", "--version", "5.7.22"]) == 0
    assert asked[1] == Limits(), "a named server is a new question"
    capsys.readouterr()


def test_a_warm_run_goes_on_with_the_server_as_it_was_asked_for(
    in_an_empty_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An image's tag says more than the release that is in it; and what was compared is compared again."""
    kept: dict[str, str | int] = {"tables": 7, "version": "percona-8.0.39-30", "variants": "few:a_b=1 usual:"}
    session = Session("cold-recovery", "", "", "", {}, dict(kept), ("percona-8.0.39",), ("cold",), 1)
    SessionStore.create(in_an_empty_folder / "results", session)
    assert run(["warm-recovery", "--dry-run"]) == 0
    repeated = capsys.readouterr().err
    assert "--version percona-8.0.39-30" in repeated
    assert "--variant few:a_b=1 --variant usual:" in repeated


def test_a_damaged_session_is_no_guide(in_an_empty_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = Session("cold-recovery", "", "", "", {}, {"set": "a='b"}, ("5.7.22",), ("cold",), 1)
    SessionStore.create(in_an_empty_folder / "results", session)
    assert run(["warm-recovery", "--dry-run"]) == 2
    assert "its setting 'set' is damaged" in capsys.readouterr().err
