"""A bundle contains what a bug report needs, and no text that the host or the session shows to be private."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shlex
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from archives import members
from runs import with_parts

from recovery.cli.main import run
from recovery.errors import RecoveryError
from recovery.model import Phase, Session
from recovery.report import markdown
from recovery.report.json_report import to_json
from recovery.sharing.bundle import Bundle, build_archive, keep_versions, make_bundle, without_folders
from recovery.sharing.scripts import sql_scripts
from recovery.storage.sessions import load_session

ROOT = Path(__file__).parents[2]
STORED = ROOT / "fixtures" / "sessions" / "three-versions"
LOG = ROOT / "fixtures" / "errorlogs" / "mysql-5.7.22-crash.err"

SECRETS = (
    "joesmith", "/home/joesmith", "acme-volume", "hunter2pass", "s3cretTok", "db-prod-7", "corp.example.internal",
    "10.11.12.13", "reguser", "regpassw", "registry.acme.example", "mirror.acme.example", "SER14L99",
    "0fedcba9876543210", "keyring-acme", "initsecret", "custom templates", "AKIAABCDEFGHIJKLMNOP", "acme-mysqld",
    "prod-db-7", "acme.internal", "zone-of-acme", "acme-payments", "3e11fa47-71ca-11e1-9e33-c80aa9429562",
    "de:ad:be:ef:00:01", "repl9acme", "/srv/keys-acme", "db8-acme", "b01-acme", "/srv/fast-acme",
)  # fmt: skip


def planted() -> Session:
    """Returns a session with secrets of another machine in every place that holds text."""
    session = load_session(STORED)
    options = (
        "early_plugin_load=keyring_file.so init_connect=set password = 'initsecret one' innodb_io_capacity=200 "
        "keyring_file_data=/srv/keyring-acme/ring report_host=db-prod-7 tmpdir=/home/joesmith/tmp"
    )
    name = next(iter(session.servers))
    servers = {
        **session.servers,
        name: {
            **session.servers[name],
            "options": options,
            "source": "own /srv/acme-mysqld/bin/mysqld",
            "@init_connect": "set password = 'initsecret one'",
            "@server_uuid": "3e11fa47-71ca-11e1-9e33-c80aa9429562",
            "@hostname": "db8-acme",
            "sha256": "of joesmith",
            "@version_comment": "built by joesmith@db-prod-7.corp.example.internal",
        },
    }
    settings = {
        **session.settings,
        "data": "/mnt/acme-volume/data",
        "template": "/home/joesmith/custom templates/schema.sql.j2",
        "mysqld": "/srv/acme-mysqld/bin/mysqld",
        "registry": "reguser:regpassw@registry.acme.example:5000",
        "archive": "https://reguser:regpassw@mirror.acme.example/mysql?token=s3cretTok",
        "image": "images.acme.example:5000/acme-payments/mysql:patched",
        "set": "report_host=prod-db-7 "
        "'init_connect=set password = '\"'\"'initsecret one'\"'\"'' keyring_file_data=/srv/keyring-acme/ring "
        "tmpdir=/srv/fast-acme",
        "variants": "a:loose_report_user=repl9acme b:keyring_file_data=/srv/keys-acme",
        "note": "on the box of joesmith, password: hunter2pass",
    }
    command = (
        "recovery crash-recovery --data /mnt/acme-volume/data --registry reguser:regpassw@registry.acme.example:5000 "
        "--template '/home/joesmith/custom templates/schema.sql.j2' "
        "--set 'init_connect=set password = '\"'\"'initsecret one'\"'\"'' "
        "--set keyring_file_data=/srv/keyring-acme/ring --set loose_report_host=prod-db-7 "
        "--image images.acme.example:5000/acme-payments/mysql:patched"
    )
    notes = (
        "A directory is kept in /mnt/acme-volume/data/5.7.22-x; ask joesmith.",
        "prod-db-7.acme.internal and prod-db-7.zone-of-acme follow; nobody-knows-this-host does not.",
        "images.acme.example:5000/acme-payments/mysql:patched was pulled.",
        "token=s3cretTok AKIAABCDEFGHIJKLMNOP 10.11.12.13 3e11fa47-71ca-11e1-9e33-c80aa9429562 de:ad:be:ef:00:01",
    )
    first = with_parts(
        session.runs[0],
        reason="mysqld of joesmith ended; see /home/joesmith/tmp/x",
        previous_exit="signal 9 by joesmith",
        means="drop_caches by db-prod-7",
        log="logs/001-joesmith-db-prod-7.err",
        crash_proof="[Note] /srv/acme-mysqld/bin/mysqld on db-prod-7: Database was not shutdown normally!",
    )
    return replace(
        session,
        environment={
            **session.environment,
            "device_serial": "SER14L99",
            "ebs_volume": "vol-0fedcba9876543210",
            "engine": "Docker 27, tcp://b01-acme:2375",
            "mount_options": "rw,source=//db-prod-7/share",
        },
        settings=settings,
        command=command,
        notes=notes,
        servers=servers,
        runs=(first, *session.runs[1:]),
    )


def log_of_joe() -> str:
    return (
        LOG.read_text(encoding="utf-8")
        + "2026-11-20T20:28:49.8Z 0 [Note] /srv/acme-mysqld/bin/mysqld, pid-file=/home/joesmith/run/db-prod-7.pid\n"
        + "2026-11-20T20:28:49.8Z 0 [Warning] IP address '10.11.12.13' could not be resolved; hostname: 'db-prod-7'\n"
        + "2026-11-20T20:28:49.8Z 0 [Note] Please use '--log-bin=db-prod-7-bin' user=joesmith password=hunter2pass\n"
        + "2026-11-20T20:28:49.8Z 0 [ERROR] InnoDB: file '/mnt/acme-volume/data/5.7.22-x/ibdata1' of SER14L99\n"
        + "2026-11-20T20:28:49.8Z 3 [Note] Access denied for user 'joesmith'@'db-prod-7.corp.example.internal'\n"
    )


def keep(session: Session, folder: Path) -> Path:
    for name in ("logs", "stacks", "runs"):
        (folder / name).mkdir(parents=True)
    (folder / "report.json").write_bytes(to_json(session))
    (folder / "logs" / "001-joesmith-db-prod-7.err").write_text(log_of_joe())
    (folder / "stacks" / "001-joesmith.folded").write_text(
        "validation;main thread;mysqld;fil_open 3\nvalidation;main thread;/home/joesmith/lib/x.so;y 1\n"
    )
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keep(planted(), tmp_path_factory.mktemp("results") / "20261121T100000Z-joesmith")


@pytest.fixture(scope="module")
def made(folder: Path) -> Bundle:
    return make_bundle(folder, "mysql")


@pytest.fixture(scope="module")
def files(made: Bundle) -> dict[str, bytes]:
    return members(made.archive)


def test_no_planted_secret_is_in_the_bundle(folder: Path) -> None:
    planted_there = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert [secret for secret in SECRETS if secret.encode() not in planted_there] == []
    made = make_bundle(folder, "mysql")
    for content in (made.name.encode(), made.text, made.script or b"", gzip.decompress(made.archive)):
        assert [secret for secret in SECRETS if secret.lower().encode() in content.lower()] == []
    parts = [part for secret in SECRETS for part in secret.replace("/", " ").split()]
    assert [part for part in parts if part.encode() in made.text] == []


def test_the_session_of_a_bundle_loads_with_the_figures_that_were_measured(
    files: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "report.json").write_bytes(files["report.json"])
    got = load_session(tmp_path)
    assert got.command == "recovery crash-recovery"
    assert got.notes == ()
    assert "note" not in got.settings
    assert "device_serial" not in got.environment
    options = next(iter(got.servers.values()))["options"]
    assert options == "", "what follows init_connect may belong to its value"
    before = [run for run in planted().runs if run.flavor == "mysql"]
    assert [(run.metrics, run.startup.phases) for run in got.runs] == [
        (run.metrics, run.startup.phases) for run in before
    ]
    assert markdown.render(got).encode() == files["report.md"]


def with_own_log(folder: Path, **settings: str) -> Path:
    """Stores a session whose first run has a log of a server of the tool's."""
    session = with_settings(data="/mnt/acme volume/data", **settings)
    first = with_parts(session.runs[0], log="logs/001-joesmith-db-prod-7.err")
    keep(replace(session, runs=(first, *session.runs[1:])), folder)
    text = LOG.read_text(encoding="utf-8").replace("/opt/server/bin/mysqld", "/home/joesmith/.cache/x/bin/mysqld")
    (folder / "logs" / "001-joesmith-db-prod-7.err").write_text(
        text
        + "2026-11-20T20:28:49.8Z 0 [ERROR] InnoDB: file '/mnt/acme volume/data/5.7.22-x/ibdata1' of /srv/joesmith.\n"
    )
    return folder


def test_the_log_of_a_server_of_the_tool_is_whole_and_without_folders(tmp_path: Path) -> None:
    made = make_bundle(with_own_log(tmp_path / "s"), "mysql")
    log = members(made.archive)["logs/001.err"].decode()
    assert len(log.splitlines()) == len(LOG.read_text(encoding="utf-8").splitlines()) + 1
    assert log.endswith("InnoDB: file 'ibdata1' of (folder).\n")
    assert [word for word in ("joesmith", "acme", "/home", "/opt", "/tmp") if word in log] == []
    assert "; 1 error logs, without folders" in made.summary[0]
    assert made.text.count(b"Database was not shutdown normally!") == 1, "lines of the log are in the text"


@pytest.mark.parametrize(
    "given",
    [
        {"datadir": "/var/lib/mysql"}, {"template": "/srv/own.sql.j2"}, {"insert_template": "own.sql.j2"},
        {"set": "log_bin=db-prod-7-bin"}, {"before_kill": "load.sh"}, {"queries": "own.sql"}, {"database": "customers"},
        {"first_queries": "select 1"}, {"variants": "a:tmpdir=/srv/x"}, {"mysqld": "/srv/joe smith/bin/mysqld"},
    ],
)  # fmt: skip
def test_where_the_server_was_given_something_of_the_users_own_the_logs_are_left_out(
    given: dict[str, str], tmp_path: Path
) -> None:
    made = make_bundle(with_own_log(tmp_path / "s", **given), "mysql")
    assert not [name for name in members(made.archive) if name.startswith("logs/")]
    assert "error logs (1)" in made.summary[1]


@pytest.mark.parametrize(
    "given", [{"mysqld": "/srv/acme/bin/mysqld"}, {"set": "innodb_io_capacity=5"}, {"note": "mine"}]
)
def test_an_own_executable_or_a_plain_option_leaves_the_logs_in(given: dict[str, str], tmp_path: Path) -> None:
    assert "logs/001.err" in members(make_bundle(with_own_log(tmp_path / "s", **given), "mysql").archive)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("/home/joe/.cache/x/bin/mysqld: ready for connections.", "mysqld: ready for connections."),
        ("Location '/tmp/recovery-1/mysqld.pid' in the path", "Location 'mysqld.pid' in the path"),
        ("socket: '/tmp/recovery-0/mysqld.sock'  port: 0", "socket: 'mysqld.sock'  port: 0"),
        ("pid-file=/run/db-prod-7.pid", "pid-file=(folder)"),
        ("Directory '/home/joe' is missing.", "Directory '(folder)' is missing."),
        ("./discovery/table_1.ibd and 12/34", "./discovery/table_1.ibd and 12/34"),
        ("See http://dev.mysql.com/doc/refman/5.6/en/x.html", "See http://dev.mysql.com/doc/refman/5.6/en/x.html"),
        ("from https://mirror.acme.example/mysql.com/x", "from (not shared)"),
        ("/data/acme volume/x/undo_001 of ~/joe", "undo_001 of (folder)"),
        ("Linux version 6.1.0 (joe@build7.acme) (gcc", "Linux version 6.1.0 ((not shared)) (gcc"),
        ("root@localhost and memcpy@plt", "root@localhost and memcpy@plt"),
    ],
)
def test_of_a_path_in_a_log_only_the_name_of_a_servers_file_stays(line: str, shown: str) -> None:
    assert without_folders(line, with_settings(data="/data/acme volume")) == shown


def test_every_file_is_listed_with_its_size(made: Bundle, files: dict[str, bytes]) -> None:
    sizes = [(name, len(content)) for name, content in sorted(files.items())]
    assert [(file.name, file.size_bytes) for file in made.files] == sizes


@pytest.mark.parametrize("name", ["2026-11-21-stacks", "2026-11-22-damage"])
def test_the_archive_of_a_kept_session_is_complete_and_always_the_same(
    kept_sessions: Path, name: str, tmp_path: Path
) -> None:
    made = make_bundle(kept_sessions / name, "mysql")
    assert make_bundle(kept_sessions / name, "mysql") == made
    packed, folder = tmp_path / "b.tar.gz", tmp_path / made.name
    packed.write_bytes(made.archive)
    subprocess.run(["tar", "xzf", packed], cwd=tmp_path, check=True)
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "MANIFEST"], cwd=folder, check=True)
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {"report.json", "report.md", "report.txt", "host.txt", "schema.sql", "inserts.sql", "left-out.txt"} <= files
    assert {"bug.txt", "my-5.7.22.cnf", "my-8.0.31.cnf"} <= files
    assert ("repro.sh" in files) == (made.script is not None) == (name == "2026-11-21-stacks")
    listed = (folder / "MANIFEST").read_text().splitlines()
    assert {line.partition("  ")[2] for line in listed} == files - {"MANIFEST"}
    with tarfile.open(packed) as tar:
        owners = {(file.uid, file.gid, file.uname, file.gname, file.mode) for file in tar.getmembers()}
        assert owners == {(0, 0, "", "", 0o644)}
        assert tar.getnames() == sorted(tar.getnames())


def with_settings(**settings: str | int | None) -> Session:
    session = load_session(STORED)
    return replace(session, settings={**session.settings, **settings})


def test_a_long_script_is_shortened_to_its_ends() -> None:
    script = sql_scripts(with_settings(tables=100_000, template=None))["schema.sql"]
    assert len(script) < 50_000
    assert "recovery schema --tables 100000" in script
    assert "create table discovery.table_1 " in script
    assert "create table discovery.table_100000 " in script
    assert script.count("create table") == 199
    assert "99,801 statements are left out" in script


@pytest.mark.parametrize("settings", [{"tables": 10**8, "schemas": 10**5}, {"tables": 10**8}, {"rows": 10**8}])
def test_a_script_of_too_many_statements_is_not_rendered_as_a_whole(settings: dict[str, int]) -> None:
    found = sql_scripts(with_settings(**settings, inserts=10**6))
    assert found["schema.sql"].startswith("-- About ")
    assert "The first 100 are here" in found["schema.sql"]
    assert len(found["schema.sql"]) < 5_000_000
    assert found["inserts.sql"].startswith("-- The first 10,000 of 1,000,000.\n")
    assert len(found["inserts.sql"].splitlines()) == 10_001


def test_the_default_first_queries_are_in_the_archive_and_those_of_the_user_are_not(tmp_path: Path) -> None:
    own = "-- size\nselect 1;\n-- acme-query\nselect 2 from d.t;"
    session = with_settings(first_queries=own)
    run = with_parts(session.runs[0], phases=(*session.runs[0].startup.phases, Phase("acme-query", 9.0, 9.5)))
    folder = keep(replace(session, runs=(run, *session.runs[1:])), tmp_path / "s")
    files = members(make_bundle(folder, "mysql").archive)
    assert files["first-queries.sql"] == b"-- The user's own queries are not shared.\n"
    assert not [name for name, content in files.items() if b"acme-query" in content or b"d.t;" in content]
    assert json.loads(files["report.json"])["runs"][0]["startup"]["phases"][-1]["name"] == "query"
    usual = sql_scripts(with_settings(first_queries="default"))["first-queries.sql"]
    first, second = usual.splitlines()[:2]
    assert first == "/*!80000 set session information_schema_stats_expiry = 0 */;"
    assert second.startswith("select table_schema, sum(data_length + index_length) from information_schema.tables")
    assert "first-queries.sql" not in sql_scripts(with_settings())


def test_of_a_command_before_each_start_it_is_only_said_that_there_was_one(tmp_path: Path) -> None:
    command = "sudo /srv/private/prepare --volume=vol-1 /dev/vdb"
    files = members(make_bundle(keep(with_settings(before_start=command), tmp_path / "s"), "mysql").archive)
    assert json.loads(files["report.json"])["settings"]["before_start"] == "(not shared)"
    assert not any(b"/srv/private" in content or b"--volume" in content for content in files.values())


@pytest.mark.parametrize(("setting", "name"), [("template", "schema.sql"), ("insert_template", "inserts.sql")])
def test_templates_of_the_user_are_not_shared(setting: str, name: str, tmp_path: Path) -> None:
    template = tmp_path / "t.sql"
    template.write_text("create table d.t (id int);")
    message = (
        "-- not rendered: the session used a template of the user's own, which is not shared: put its statements here\n"
    )
    assert sql_scripts(with_settings(**{setting: str(template)}))[name] == message


def test_the_template_of_an_experiment_is_rendered(kept_sessions: Path) -> None:
    files = members(make_bundle(kept_sessions / "2026-11-26-experiments-write-scaling", "mysql").archive)
    assert b"create table sbtest.sbtest1" in files["schema.sql"].lower()


@pytest.mark.parametrize(("setting", "file"), [("template", "schema.sql"), ("insert_template", "inserts.sql")])
def test_a_file_that_is_not_a_template_is_not_included(setting: str, file: str, tmp_path: Path) -> None:
    """A session from somebody else may name any file of this user."""
    mine = tmp_path / "id_rsa"
    mine.write_text("my own private words")
    made = make_bundle(keep(with_settings(**{setting: str(mine)}), tmp_path / "s"), "mysql")
    assert b"my own private words" not in gzip.decompress(made.archive)
    assert b"not rendered" in members(made.archive)[file]


@pytest.mark.parametrize("settings", [{"variants": "'"}, {"columns": 10_000_000}, {"tables": "many", "layout": "?"}])
def test_with_invalid_settings_only_the_script_is_missing(settings: dict[str, str | int], tmp_path: Path) -> None:
    folder = keep(with_settings(**settings), tmp_path / "s")
    made = make_bundle(folder, "mysql")
    assert b"not rendered" in members(made.archive)["schema.sql"]
    assert made.script is None


def test_links_are_not_followed(tmp_path: Path) -> None:
    folder = keep(load_session(STORED), tmp_path / "s")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "private.err").write_text("words from elsewhere")
    (outside / "099.json").write_text('{"format": 2, "reason": "words from elsewhere"}')
    (folder / "logs" / "002.err").symlink_to(outside / "private.err")
    (folder / "runs" / "099.json").symlink_to(outside / "099.json")
    (folder / "stacks" / "001-joesmith.folded").unlink()
    (folder / "stacks").rmdir()
    (folder / "stacks").symlink_to(outside)
    os.mkfifo(folder / "logs" / "003.err")
    (folder / "notes.txt").write_text("words from elsewhere")
    packed = gzip.decompress(make_bundle(folder, "mysql").archive)
    assert b"words from elsewhere" not in packed
    assert b"099.json" not in packed


def test_file_names_cannot_leave_the_archive_folder(tmp_path: Path) -> None:
    session = load_session(STORED)
    runs = (with_parts(session.runs[0], log="../../../etc/x y.err", file="stacks/../../z.folded"), *session.runs[1:])
    folder = keep(replace(session, runs=runs), tmp_path / "s")
    (folder / "logs" / "a\nb \\.err").write_text("x")
    files = members(make_bundle(folder, "mysql").archive)
    assert not [name for name in files if ".." in name.split("/") or "\n" in name or "\\" in name]
    assert json.loads(files["report.json"])["runs"][0]["log"] is None
    (folder / "logs" / "x y.err").write_text("x")
    files = members(make_bundle(folder, "mysql").archive)
    assert not [name for name in files if ".." in name.split("/") or "\n" in name or "\\" in name]
    assert json.loads(files["report.json"])["runs"][0]["log"] == "logs/001.err"


def errors(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert run(arguments) in (1, 2)
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err.splitlines()


def test_a_session_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "report.json").write_bytes(b'{"format": 2, "exper')
    first, second = errors(["bundle", str(tmp_path), "--output", str(tmp_path / "out")], capsys)
    assert first.startswith("error: ")
    assert f"{tmp_path / 'report.json'} is damaged" in first
    assert not re.search(r"recovery-[0-9a-f]{8}", first + second)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["bundle", "report"])
def test_a_folder_with_the_text_of_a_report_alone_says_what_is_missing(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As those of docs/results."""
    (tmp_path / "report.txt").write_text("# Startup after SIGKILL\n")
    assert errors([command, str(tmp_path)], capsys) == [
        f"error: {tmp_path} has no report.json: only the text of its report was kept",
        "hint:  name a folder with report.json; those of docs/results are in fixtures/kept-sessions.tar.xz",
    ]


def test_a_symlink_as_report_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "report.json").symlink_to(STORED / "report.json")
    message, _ = errors(["bundle", str(tmp_path), "--output", str(tmp_path / "o")], capsys)
    assert "is not a regular file" in message


@pytest.mark.parametrize("output", ["", "report.tar.gz"])
def test_the_folder_of_a_session_is_not_overwritten(
    output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = keep(load_session(STORED), tmp_path / "s")
    message = errors(["bundle", str(folder), "--for", "mysql", "--output", str(folder / output)], capsys)[0]
    assert "is the folder of a session" in message
    assert not (folder / "report.txt").exists()


def test_the_command_prints_the_files_and_writes_archive_text_and_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["bundle", str(STORED), "--for", "mysql"]
    assert run([*command, "--dry-run", "--output", "x"]) == 0
    dry = capsys.readouterr()
    assert "Nothing was written." in dry.err
    assert list(tmp_path.iterdir()) == []
    assert run(command) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^report.json +[\d,]+$", printed, re.MULTILINE)
    folder = tmp_path / "20261120T201530Z-crash-recovery-mysql-bundle"
    assert "\ninside: tables, figures, phases, versions, " in printed
    assert "\nleft out: " in printed
    assert [line.split()[-1] for line in printed.splitlines()[-4:-1]] == [
        f"{folder.name}/{name}" for name in ("20261120T201530Z-crash-recovery-mysql.tar.gz", "bug.txt", "repro.sh")
    ]
    packed = (folder / "20261120T201530Z-crash-recovery-mysql.tar.gz").read_bytes()
    *listed, inside, left_out = (line.split()[0] for line in dry.out.splitlines())
    assert (listed, inside, left_out) == (["file", *sorted(members(packed))], "inside:", "left")
    for name in ("bug.txt", "repro.sh"):
        assert members(packed)[name] == (folder / name).read_bytes()
    assert run([*command, "--output", "x/bug.tar.gz"]) == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "x").iterdir()} == {
        "bug.tar.gz": packed,
        "bug.txt": (folder / "bug.txt").read_bytes(),
        "bug.sh": (folder / "repro.sh").read_bytes(),
    }


def test_a_session_of_several_products_needs_a_choice(capsys: pytest.CaptureFixture[str]) -> None:
    assert errors(["bundle", str(STORED)], capsys) == [
        "error: the session has servers of several products",
        "hint:  choose with --for mysql, of the slowest start, or --for mariadb",
    ]
    assert (
        errors(["bundle", str(STORED), "--for", "percona"], capsys)[0] == "error: the session has no server of percona"
    )


def test_a_bundle_has_the_versions_of_one_product(tmp_path: Path) -> None:
    product, versions, runs = "mysql", ("5.6.24", "5.7.22"), range(1, 13)
    folder = keep(load_session(STORED), tmp_path / "s")
    for run_with_log in load_session(folder).runs:
        (folder / str(run_with_log.log)).write_text("a line")
    files = members(make_bundle(folder, product).archive)
    (tmp_path / "report.json").write_bytes(files["report.json"])
    got = load_session(tmp_path)
    assert got.versions == tuple(got.servers) == versions
    assert [run.number for run in got.runs] == list(runs)
    assert (got.planned_runs, got.status) == (len(runs), "finished")
    assert f"recovery run --version {shlex.quote(' '.join(versions))} --tables 200000" in got.command
    assert [name for name in files if name.startswith("logs/")] == [f"logs/{number:03d}.err" for number in runs]
    others = {"5.6.24", "5.7.22", "mariadb-10.11.5"} - set(versions)
    for name in ("report.txt", "report.html"):
        assert not [other for other in others if other.encode() in files[name]], name
    named = [line for line in files["bug.txt"].decode().splitlines() if any(other in line for other in others)]
    assert len(named) == 1
    assert named[0].startswith("For comparison, on this host: "), "the time of the other product, in one line"


def test_the_product_of_a_single_one_is_found(kept_sessions: Path) -> None:
    assert make_bundle(kept_sessions / "2026-11-21-scale").text.startswith(b"Synopsis:")
    made = make_bundle(kept_sessions / "2026-11-21-scale-mariadb")
    assert made.text.startswith(b"Project: MariaDB Server (MDEV)\nIssue Type: Bug\n")
    assert made.name == "2026-11-21-scale-mariadb", "not cut"


def test_json_names_what_was_written_and_what_is_inside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bundle", STORED.name, "--results", str(STORED.parent), "--for", "mysql", "--json"]
    assert run([*words, "--dry-run"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned.keys() == {"format", "files"}, "nothing was written"
    assert run([*words[:-1], "--output", str(tmp_path / "bug.tar.gz"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {name: Path(found[name]).is_file() for name in ("archive", "text", "script")} == dict.fromkeys(
        ("archive", "text", "script"), True
    )
    with tarfile.open(found["archive"]) as archive:
        inside = {Path(one.name).name: one.size for one in archive.getmembers() if one.isfile()}
    assert {Path(one["name"]).name: one["bytes"] for one in found["files"]} == inside


def test_a_session_without_a_difference_makes_no_bundle(
    kept_sessions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first starts count here, too: two others of each version are not compared."""
    session = json.loads((kept_sessions / "2026-11-26-5.6.24-9.7" / "report.json").read_text("utf-8"))
    for one in session["runs"]:
        one.update(extra=None, verdict="measured")
    (folder := tmp_path / "session").mkdir()
    (folder / "report.json").write_text(json.dumps(session))
    (work := tmp_path / "work").mkdir()
    monkeypatch.chdir(work)
    for more in ([], ["--dry-run"]):
        assert run(["bundle", str(folder), *more]) == 1
        error, hint = capsys.readouterr().err.splitlines()
        assert error == (
            "error: there is nothing to report: Startup after SIGKILL: no significant difference between 5.6.24 and "
            "9.7.4, cold (200,000 tables)"
        )
        assert hint == "hint:  record with --trace which files a start opens, or measure with more --runs"
    assert list(work.iterdir()) == []
    assert [path.name for path in folder.iterdir()] == ["report.json"]


def test_a_difference_to_another_product_alone_makes_no_bundle(kept_sessions: Path) -> None:
    """What is read against the manual is reported all the same."""
    with pytest.raises(RecoveryError, match=r"nothing to report: .* 4\.02 s cold .*, and no difference") as error:
        make_bundle(kept_sessions / "2026-11-21-four-versions", "mariadb")
    assert error.value.hint.startswith("measure another version of it, record with --trace which")
    traced = make_bundle(kept_sessions / "2026-11-28-two-versions", "mysql")
    assert traced.text.startswith(b"Synopsis: Crash recovery of 5.7.22 reads all 200,000 files")


def test_one_version_is_repeated_without_a_limit_to_the_others(kept_sessions: Path) -> None:
    session = load_session(kept_sessions / "2026-11-21-four-versions")
    command = "recovery crash-recovery --version '5.7.22 8.0.31 mariadb-10.11.5' --fail-over 10% --runs 5"
    limited = replace(session, command=command, settings={**session.settings, "fail_over": 0.1})
    one, two = keep_versions(limited, ("5.7.22",)), keep_versions(limited, ("5.7.22", "8.0.31"))
    assert one.command == "recovery crash-recovery --version 5.7.22 --runs 5"
    assert one.design.fail_over is None
    assert two.command == "recovery crash-recovery --version '5.7.22 8.0.31' --fail-over 10% --runs 5"
    assert two.design.fail_over == 0.1


@pytest.mark.parametrize("day", ["9999-12-31T23:59:59-14:00", "2106-02-07T06:28:16+00:00", "0001-01-01T00:00:00", "no"])
def test_a_day_that_an_archive_cannot_store_is_left_out(day: str) -> None:
    packed = build_archive("one", {"a": b"x"}, started_at=day)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert [member.mtime for member in archive] == [0]
