"""Is the mirror that the user has set up for apt found? The clients here are scripts on PATH."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.builds import packages

ROWS = """http://mirror.test/debian/\tbookworm-updates\tDebian\tmain
http://security.test/debian-security/\tbookworm-security\tDebian\tmain
http://node.test/\tnodistro\tNode Source\tmain
http://mirror.test/debian/\tbookworm\tDebian\tcontrib
http://mirror.test/debian/\tbookworm\tDebian\tmain
http://newer.test/debian/\tsid\tDebian\tmain"""


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def program(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("suite", "mirror"),
    [
        ("bookworm", "http://mirror.test/debian"),
        ("sid", "http://newer.test/debian"),
        ("trixie", "http://mirror.test/debian"),
    ],
)
def test_the_mirror_of_the_main_archive(suite: str, mirror: str, bin_folder: Path) -> None:
    program(bin_folder, "apt-get", f"cat <<'E'\n{ROWS}\nE")
    assert packages.debian_mirror(suite) == mirror


@pytest.mark.parametrize("body", ["exit 100", "true", "echo 'http://mirror.test/ubuntu\tnoble\tUbuntu\tmain'"])
def test_a_host_that_names_none(body: str, bin_folder: Path) -> None:
    program(bin_folder, "apt-get", body)
    assert packages.debian_mirror("bookworm") is None


def test_a_host_without_apt(monkeypatch: pytest.MonkeyPatch, bin_folder: Path) -> None:
    monkeypatch.setenv("PATH", str(bin_folder))
    assert packages.debian_mirror("bookworm") is None
    assert packages.apt_proxies() == {}


def test_the_environment_s_proxy_goes_before_apt_s(bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bin_folder, "apt-config", "case $2 in *::http::*) echo http://proxy.test:3128/;; *) echo DIRECT;; esac")
    assert packages.apt_proxies() == {"http_proxy": "http://proxy.test:3128/"}
    monkeypatch.setenv("HTTP_PROXY", "http://other.test:8080")
    monkeypatch.setenv("no_proxy", "localhost")
    assert packages.apt_proxies() == {"http_proxy": "http://other.test:8080", "no_proxy": "localhost"}
