"""The picture shows the page, and asks nobody for anything."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from recovery.cli.main import run
from recovery.report.picture import svg
from recovery.report.stored_session import load

SESSION = Path(__file__).parent.parent / "fixtures" / "sessions" / "three-versions"


def test_the_picture_is_whole_and_self_contained() -> None:
    picture = svg(load(SESSION))
    text = "".join(ET.fromstring(picture).itertext()).replace("\xa0", " ")  # noqa: S314 - our own
    assert "Startup after SIGKILL" in text
    assert "mariadb-10.11.5" in text
    addresses = set(re.findall(r"https?://[^\s\"')]+", picture))
    assert addresses <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
    assert "font-face" not in picture


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(SESSION), "--svg"]) == 0
    assert capsys.readouterr().out.lstrip().startswith("<svg")
