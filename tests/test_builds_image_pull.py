"""What is told while an image is pulled, and when it is not? With an engine that answers from a script."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import docker
import pytest
import requests
from docker.errors import APIError, NotFound

from recovery.builds.image_pull import NotPulledError, PullFailure, pull_image

Event = dict[str, Any]


def engine(*events: Event, refuses: Exception | None = None) -> docker.DockerClient:
    def answer(name: str, **_options: object) -> Iterator[Event]:
        if refuses is not None:
            raise refuses
        asked.append(name)
        return iter(events)

    asked: list[str] = []
    images = SimpleNamespace(get=lambda name: SimpleNamespace(id="sha256:" + "1" * 64))
    return cast("docker.DockerClient", SimpleNamespace(api=SimpleNamespace(pull=answer), images=images, asked=asked))


def downloading(layer: str, current: int, total: int) -> Event:
    return {"status": "Downloading", "id": layer, "progressDetail": {"current": current << 20, "total": total << 20}}


def refused(client: docker.DockerClient, name: str = "mysql:5.7.9") -> NotPulledError:
    with pytest.raises(NotPulledError) as caught:
        pull_image(client, name, lambda _line: None)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


def test_progress_is_told_now_and_then() -> None:
    said: list[str] = []
    ticks = count(0, 3)
    events = [
        {"status": "Pulling from library/mysql", "id": "5.7.22"},
        downloading("a", 1, 10),
        downloading("b", 2, 30),
        {"status": "Download complete", "id": "a", "progressDetail": {}},
        downloading("b", 20, 30),
        {"status": "Status: Downloaded newer image for mysql:5.7.22"},
    ]
    image = pull_image(engine(*events), "mysql:5.7.22", said.append, clock=lambda: float(next(ticks)))
    assert image == "sha256:" + "1" * 64
    assert said[0] == "pulling mysql:5.7.22"
    assert "mysql:5.7.22: 30 of at least 40 MB" in said


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("mysql", "mysql:latest"),
        ("localhost:5000/mysql", "localhost:5000/mysql:latest"),
        ("mysql:8.0", "mysql:8.0"),
        ("mysql@sha256:" + "0" * 64, "mysql@sha256:" + "0" * 64),
    ],
)
def test_a_name_without_a_tag_is_not_every_tag(name: str, asked: str) -> None:
    client = engine()
    pull_image(client, name, lambda _line: None)
    assert cast(Any, client).asked == [asked]


def test_a_refusal_in_the_middle() -> None:
    message = "not implemented: media type application/vnd.docker.distribution.manifest.v1+prettyjws"
    error = refused(engine({"status": "Pulling"}, {"errorDetail": {"message": message}, "error": message}))
    assert (error.why, error.goes_on) == (PullFailure.OLD_FORMAT, True)
    assert "of 2015 (schema 1)" in error.message


def test_a_refusal_at_once() -> None:
    error = refused(engine(refuses=NotFound("404", explanation="manifest for mysql:5.7.9 not found: manifest unknown")))
    assert error.message == "mysql:5.7.9 is not in the registry"


def test_of_an_unreachable_registry_the_cause_is_told() -> None:
    said = 'Get "https://hub.test/v2/": dial tcp: lookup hub.test on 10.0.0.1:53: no such host'
    error = refused(engine(refuses=APIError("500", explanation=said)))
    assert error.message.endswith("the registry does not answer (no such host)")


def test_a_silent_engine() -> None:
    error = refused(engine(refuses=requests.ReadTimeout("Read timed out. (read timeout=60)")))
    assert error.why is PullFailure.UNREACHABLE


def test_a_full_disk_ends_it() -> None:
    said = "failed to register layer: write /x: no space left on device"
    error = refused(engine({"error": said}))
    assert not error.goes_on
    assert "no space left on device" in error.message
    assert error.exit_code == 3
