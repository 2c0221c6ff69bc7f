"""What does `recovery images` say where there is no engine, or where it is not told enough?"""

from __future__ import annotations

import pytest

from recovery.cli.main import run


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 3, "there is no Docker engine at unix:///nowhere/docker.sock (DOCKER_HOST)"),
        (("list",), 3, "there is no Docker engine"),
        (("build", "5.7.22"), 3, "there is no Docker engine"),
        (("build",), 2, "no server was named"),
        (("build", "--mysqld", "/x", "5.7.22", "8.0.31"), 2, "VERSION names several"),
        (("remove",), 2, "say which"),
        (("remove", "x", "--all"), 2, "say which"),
    ],
)
def test_what_it_says(arguments: tuple[str, ...], code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["images", *arguments]) == code
    said = capsys.readouterr().err
    assert words in said
    assert "hint:" in said
    assert "Traceback" not in said


def test_versions_come_from_make_s_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RECOVERY_VERSION", "5.7.22 8.0.31")
    assert run(["images", "build"]) == 3, "two versions were named: only the engine is missing"
    assert "there is no Docker engine" in capsys.readouterr().err
