"""Are the vendor's names tried in the order in which they exist?"""

import pytest

from recovery.builds.catalog import tarball_names, tarball_urls
from recovery.model import parse_version


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("5.6.27", "mysql-5.6.27-linux-glibc2.5-x86_64.tar.gz"),
        ("5.7.9", "mysql-5.7.9-linux-glibc2.5-x86_64.tar.gz"),
        ("5.7.44", "mysql-5.7.44-linux-glibc2.12-x86_64.tar.gz"),
        ("5.5.62", "mysql-5.5.62-linux-glibc2.12-x86_64.tar.gz"),
        ("8.0.11", "mysql-8.0.11-linux-glibc2.12-x86_64.tar.gz"),
        ("8.0.12", "mysql-8.0.12-linux-glibc2.12-x86_64.tar.xz"),
        ("8.0.16", "mysql-8.0.16-linux-x86_64-minimal.tar.xz"),
        ("8.4.6", "mysql-8.4.6-linux-glibc2.28-x86_64-minimal.tar.xz"),
        ("9.1.0", "mysql-9.1.0-linux-glibc2.28-x86_64-minimal.tar.xz"),
        ("26.7.0", "mysql-26.7.0-linux-glibc2.28-x86_64-minimal.tar.xz"),
    ],
)
def test_the_first_name_of_an_era(version: str, name: str) -> None:
    assert tarball_names(parse_version(version), "x86_64")[0] == name


@pytest.mark.parametrize("version", ["5.7.9", "5.7.22", "5.6.27", "5.5.40"])
def test_both_c_libraries_are_tried_in_5(version: str) -> None:
    names = " ".join(tarball_names(parse_version(version), "x86_64"))
    assert "glibc2.5-" in names
    assert "glibc2.12-" in names


def test_minimal_goes_before_full() -> None:
    names = tarball_names(parse_version("8.0.31"), "x86_64")
    assert [("minimal" in name) for name in names] == sorted((("minimal" in name) for name in names), reverse=True)
    assert "mysql-8.0.31-linux-glibc2.12-x86_64.tar.xz" in names


def test_the_vendor_s_hosts() -> None:
    urls = tarball_urls(parse_version("8.4.6"), None, "x86_64")
    assert urls[0].startswith("https://cdn.mysql.com/Downloads/MySQL-8.4/mysql-8.4.6-")
    assert urls[1].startswith("https://cdn.mysql.com/archives/mysql-8.4/")
    assert urls[2].startswith("https://downloads.mysql.com/archives/get/p/23/file/")
    assert "/archives/" in tarball_urls(parse_version("5.7.9"), None, "x86_64")[0]


def test_a_mirror_replaces_them() -> None:
    urls = tarball_urls(parse_version("5.7.9"), "http://mirror.test/m/", "x86_64")
    name = "mysql-5.7.9-linux-glibc2.5-x86_64.tar.gz"
    assert urls[:2] == (f"http://mirror.test/m/{name}", f"http://mirror.test/m/mysql-5.7/{name}")
    assert all(url.startswith("http://mirror.test/m/") for url in urls)


def test_another_cpu() -> None:
    assert all("aarch64" in name for name in tarball_names(parse_version("8.4.6"), "aarch64"))
