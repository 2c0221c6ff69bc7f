"""ENGINE=auto runs servers locally where the Docker engine gets no image of them, and says so in one line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fakes import FakeLauncher

from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.model import Build
from recovery.session import engine as session_engine
from recovery.session.engine import DOCKER, LOCAL, Engine, resolve_builds
from recovery.session.request import Request

BUILD = cast(Build, SimpleNamespace(version="5.7.22"))


def request(**given: Any) -> Request:
    wanted = {"versions": ("5.7.22",), "engine": "auto", "image": None, "archive": None, "offline": False}
    return cast(Request, SimpleNamespace(**{**wanted, "mysqld": None, "registry": None, **given}))


def engine(name: str, found: Build | RecoveryError) -> Engine:
    def resolve(_: str | None) -> Build:
        if isinstance(found, RecoveryError):
            raise found
        return found

    return Engine(name, resolve, FakeLauncher([]), lambda _: None, lambda _: frozenset())


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = engine(LOCAL, BUILD)
    monkeypatch.setattr(session_engine, "_local_engine", lambda *_: made)
    return made


NO_IMAGE = HostUnfitError("no registry answers, and debootstrap is missing", "take ENGINE=local")


def test_without_an_image_servers_run_locally(local: Engine) -> None:
    said: list[str] = []
    assert resolve_builds(request(), engine(DOCKER, NO_IMAGE), said.append) == (local, (BUILD,))
    assert said == ["no registry answers, and debootstrap is missing: servers run as local processes"]


@pytest.mark.parametrize("given", [{"engine": "docker"}, {"image": "my/mysql:patched"}])
def test_who_asks_for_containers_gets_no_local_process(given: dict[str, str], local: Engine) -> None:
    with pytest.raises(HostUnfitError, match="no registry answers"):
        resolve_builds(request(**given), engine(DOCKER, NO_IMAGE), pytest.fail)


def test_a_version_that_does_not_exist_is_refused_as_it_is(local: Engine) -> None:
    with pytest.raises(UsageError, match="no such version"):
        resolve_builds(request(), engine(DOCKER, UsageError("no such version", "")), pytest.fail)


def test_where_neither_has_the_server_the_engine_s_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        session_engine, "_local_engine", lambda *_: engine(LOCAL, UsageError("only containers know it", ""))
    )
    with pytest.raises(HostUnfitError, match="no registry answers"):
        resolve_builds(request(versions=("9.7",)), engine(DOCKER, NO_IMAGE), lambda _: None)


def test_the_engine_that_has_the_image_is_kept(tmp_path: Path) -> None:
    docker = engine(DOCKER, BUILD)
    assert resolve_builds(request(), docker, pytest.fail) == (docker, (BUILD,))
