"""repro.sh makes the tables of the session, crashes the server and times its start, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest
from sessions import FIXTURES
from waiting import until

from recovery.analysis.summary import summarise
from recovery.model import Layout, Schema, Session
from recovery.report.summary_text import seconds_with_digits, slowest_start
from recovery.sharing.bug_finding import Finding, find
from recovery.sharing.scripts import repro_script
from recovery.storage.sessions import load_session
from recovery.workload.inserts import HEARTBEAT, insert_statements
from recovery.workload.schema import script_statements

SESSION = load_session(FIXTURES / "sessions" / "three-versions")
MYSQLD = """#!/bin/bash
case " $* " in
    *" --version "*) echo "mysqld  Ver 5.7.22 for Linux on x86_64"; exit ;;
    *" --initialize-insecure "*) cp my.cnf "$RECORD/my.cnf"; exit ;;
esac
printf '%s\\n' "$*" >> "$RECORD/starts"
echo "Database was not shutdown normally!"
[ -e "$RECORD/broken" ] && exit 1
[ -e "$RECORD/hanging" ] || echo "$0: ready for connections."
exec tail -f /dev/null
"""
STRACE = """#!/bin/bash
while [[ $1 != */mysqld ]]; do
    [[ $1 != -o ]] || echo 'read(9</x/mysql/user.ibd>, "", 9) = 9
[pid 7] pread64(8</data/d/table_1.ibd>, ""..., 9, 0) = 9
[pid 7] pread64(7</data/d/table_1.ibd>, ""..., 9, 0) = 9
[pid 7] openat(AT_FDCWD</data>, "./d@002dx/table_2.ibd", O_RDONLY) = 8</data/d@002dx/table_2.ibd>' > "$2"
    echo "$1" >> "$RECORD/strace"
    shift
done
exec "$@"
"""
CLIENT = """#!/bin/bash
echo "-- $*" >> "$RECORD/sql"
exec cat >> "$RECORD/sql"
"""


def script_of(session: Session) -> str | None:
    slow = slowest_start(session, summarise(session))
    assert slow is not None
    return repro_script(session, "s", slow, find(session, slow))


def with_settings(**settings: str | int | None) -> Session:
    return replace(SESSION, settings={**SESSION.settings, **settings})


@dataclass
class Host:
    """A folder with a server and a client that only record what they are given."""

    folder: Path

    def start(self, session: Session, script: str | None = None, **settings: str) -> subprocess.Popen[str]:
        script = script or script_of(session)
        assert script is not None
        (self.folder / "repro.sh").write_text(script)
        environment = {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "RECORD": str(self.record)}
        return subprocess.Popen(
            ["sh", str(self.folder / "repro.sh"), str(self.folder / "bin" / "mysqld")],
            cwd=self.work,
            env=environment | {"TABLES": "3", "RUNS": "1", "CACHES": "warm", **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, session: Session, script: str | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
        started = self.start(session, script, **settings)
        output, errors = started.communicate()
        return subprocess.CompletedProcess(started.args, started.returncode, output, errors)

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def record(self) -> Path:
        return self.folder / "record"

    @property
    def statements(self) -> list[str]:
        """What the client was given, without its options and quotes of names."""
        lines = (self.record / "sql").read_text().splitlines()
        return [line.rstrip(";").replace("`", "") for line in lines if not line.startswith("-- ")]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    for name in ("bin", "work", "record"):
        (tmp_path / name).mkdir()
    for name, text in (("mysqld", MYSQLD), ("mysql", CLIENT)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    return Host(tmp_path)


def servers_left(host: Host) -> list[str]:
    commands = (" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
    return [command for command in commands if str(host.folder) in command]


def test_the_script_starts_kills_and_times_the_server(host: Host) -> None:
    done = host.run(SESSION, RUNS="2")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    version, *starts, mean = done.stdout.splitlines()
    assert "Ver 5.7.22" in version
    assert re.fullmatch(r"Startup after SIGKILL takes \d\.\d{2,3} s warm with 3 tables, mean of 2 runs", mean)
    assert [line.partition(":")[0] for line in starts] == ["warm start 1", "warm start 2"]
    assert all(line.endswith('until "ready for connections"; Database was not shutdown normally!') for line in starts)
    assert list(host.work.iterdir()) == []
    assert servers_left(host) == []
    build, *later = (host.record / "starts").read_text().splitlines()
    assert len(later) == 6, "before the inserts, a warm-up and the timed one, twice"
    assert "--skip-networking" in build
    assert "--innodb-flush-log-at-trx-commit=0" in build
    assert len(set(later)) == 1
    assert "--innodb-flush-log-at-trx-commit=0" not in later[0]


@pytest.mark.parametrize(
    "schema",
    [
        Schema(3),
        Schema(3, databases=2, columns=2, rows=3, database="order"),
        Schema(2, rows=1001),
        Schema(3, layout=Layout.GENERAL),
        Schema(3, databases=2, layout=Layout.PARTITIONED, columns=1),
    ],
    ids=["published", "schemas", "rows", "general", "partitioned"],
)
def test_the_script_makes_the_tables_and_inserts_of_the_tool(schema: Schema, host: Host) -> None:
    session = with_settings(
        schemas=schema.databases, columns=schema.columns, rows=schema.rows, database=schema.database,
        layout=schema.layout.value,
    )  # fmt: skip
    done = host.run(session, TABLES=str(schema.tables), INSERTS="7")
    assert done.returncode == 0, done.stderr
    tables = [statement.replace("`", "") for statement in script_statements(schema)]
    inserts = [statement.replace("`", "") for statement in insert_statements(schema, count=7)]
    # The tool inserts rows after it has made all tables.
    assert sorted(host.statements[: len(tables)]) == sorted(tables)
    assert host.statements[len(tables) :] == 2 * inserts, "for the warm-up and for the timed start"


def test_the_figures_of_the_synopsis_are_printed_for_each_setting(host: Host, kept_sessions: Path) -> None:
    session = load_session(kept_sessions / "2026-11-26-what-helps-8.0.31")
    script = script_of(session) or ""
    synopsis = (
        "Startup after SIGKILL takes 61.1 s cold with plain, and 25.9 s with force-recovery (8.0.31, 200,000 tables)"
    )
    assert f"\n#     {synopsis}\n" in script
    done = host.run(session)
    assert done.returncode == 0, done.stderr
    means = [line.partition(",")[0] for line in done.stdout.splitlines() if "mean of 1 run" in line]
    assert [re.sub(r"\d\.\d{2,3}", "N", mean) for mean in means] == [
        "Startup after SIGKILL takes N s warm with plain", "Startup after SIGKILL takes N s warm with force-recovery",
    ]  # fmt: skip
    starts = (host.record / "starts").read_text().splitlines()
    assert ["innodb_force_recovery=1" in line for line in starts] == 6 * [False] + [True]
    assert [re.findall(r"my\S*\.cnf", line) for line in starts] == 4 * [["my.cnf"]] + 3 * [["my-2.cnf"]]


@pytest.mark.parametrize("verb", ["reads", "opens"])
def test_the_files_of_the_synopsis_are_counted(verb: str, host: Host) -> None:
    (host.folder / "bin" / "strace").write_text(STRACE)
    (host.folder / "bin" / "strace").chmod(0o755)
    slow = slowest_start(SESSION, summarise(SESSION))
    assert slow is not None
    script = repro_script(SESSION, "s", slow, Finding(f"Crash recovery {verb} all 2 files", verb))
    done = host.run(SESSION, script=script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"Crash recovery {verb} 2 files, 3 were modified"
    calls = {"reads": "trace=read,pread64", "opens": "trace=?open,openat"}
    assert calls[verb] in (host.record / "strace").read_text().splitlines()
    assert servers_left(host) == []


@pytest.mark.parametrize("seconds", [0.01, 0.0994, 0.1, 0.996, 1.005, 9.994, 9.995, 10.04, 39.77, 99.94, 99.95, 181.4])
def test_seconds_have_the_digits_of_the_report(seconds: float) -> None:
    script = script_of(SESSION) or ""
    function = script[script.index("seconds() {") :].partition("\n}\n")[0]
    milliseconds = str(round(1000 * seconds))
    shown = subprocess.run(
        ["bash", "-c", f"{function}\n}}\nseconds {milliseconds}"], capture_output=True, text=True, check=True
    )
    # Python rounds a half to the even digit.
    assert shown.stdout == seconds_with_digits(seconds + 1e-9)


def test_without_inserts_a_system_table_is_changed(host: Host) -> None:
    assert host.run(with_settings(inserts=0)).returncode == 0
    assert host.statements[-1] == HEARTBEAT


def test_text_of_the_session_is_never_run(host: Host) -> None:
    bomb = f"x'`touch {host.folder}/touched`$(touch {host.folder}/touched)\\n touch {host.folder}/touched"
    options = f"innodb_a={bomb.replace(' ', '')} END_OF_OPTIONS x;touch=1 init_file=/etc/passwd tmpdir=/x basedir=y"
    servers = {name: {**facts, "options": options} for name, facts in SESSION.servers.items()}
    session = replace(with_settings(database=bomb), servers=servers, experiment=bomb, command=bomb)
    done = host.run(session)
    assert done.returncode == 0, done.stderr
    assert not (host.folder / "touched").exists()
    assert host.statements[0] == f"create schema {bomb}".replace("`", "").splitlines()[0]
    settings = (host.record / "my.cnf").read_text().splitlines()
    assert not [line for line in settings if line.startswith(("tmpdir", "loose_tmpdir", "loose_basedir", "loose_init"))]


def test_the_options_of_the_session_are_used_where_they_make_sense(host: Host) -> None:
    given = "innodb_open_files=300 keyring_file_data=/srv/k innodb_undo_directory=/x loose_a=1 skip_log_bin"
    options = f"{given} innodb_force_recovery=1 character_set_server=utf8 socket=RUNDIR/mysqld.sock"
    servers = {name: {**facts, "options": options} for name, facts in SESSION.servers.items()}
    assert host.run(replace(SESSION, servers=servers)).returncode == 0
    assert (host.record / "my.cnf").read_text().splitlines() == [
        "[mysqld]",
        "loose_innodb_open_files = 300",
        "# keyring_file_data is left out: its value makes sense on one host only",
        "loose_a = 1",
        "loose_skip_log_bin",
        "loose_character_set_server = utf8",
    ]
    starts = (host.record / "starts").read_text().splitlines()
    assert ["--loose_innodb_force_recovery=1" in line for line in starts] == [False, False, False, True]


def test_own_templates_are_read_from_the_archive(host: Host) -> None:
    session = with_settings(template="[path]", insert_template="[path-2]")
    missing = host.run(session)
    assert missing.returncode == 1
    assert "error: schema.sql is missing: run repro.sh in the unpacked archive" in missing.stderr
    (host.folder / "schema.sql").write_text("-- About 9 statements.\ncreate schema d;\n")
    assert "error: schema.sql has not all statements: About 9" in host.run(session).stderr
    for name, text in (("schema.sql", "create schema d;\n"), ("inserts.sql", "insert into d.t values (1);\n")):
        (host.folder / name).write_text(text)
    (host.record / "sql").unlink()
    assert host.run(session).returncode == 0
    assert host.statements == ["create schema d", *2 * ["insert into d.t values (1)"]]
    assert list(host.work.iterdir()) == []


def test_a_server_that_does_not_start_leaves_nothing(host: Host) -> None:
    (host.record / "broken").touch()
    done = host.run(SESSION)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["Database was not shutdown normally!", "error: the server does not start"]
    assert list(host.work.iterdir()) == []


def test_an_interrupted_script_leaves_nothing(host: Host) -> None:
    (host.record / "hanging").touch()
    started = host.start(SESSION)
    until((host.record / "starts").exists, "the server to start")
    started.terminate()
    assert started.wait() == 130
    assert list(host.work.iterdir()) == []
    assert servers_left(host) == []


@pytest.mark.parametrize("settings", [{"TABLES": "a[$(touch x)]"}, {"RUNS": "-1"}, {"INSERTS": "many"}])
def test_a_setting_that_is_no_number_is_refused(settings: dict[str, str], host: Host) -> None:
    done = host.run(SESSION, **settings)
    assert done.returncode == 1
    assert done.stderr == "error: TABLES, SCHEMAS, INSERTS and RUNS are numbers\n"
    assert list(host.work.iterdir()) == []


def test_the_caches_of_the_session_are_the_default(kept_sessions: Path) -> None:
    assert "\nCACHES=${CACHES:-cold warm}\n" in (script_of(SESSION) or "")
    cold = load_session(kept_sessions / "2026-11-21-layouts")
    assert "\nCACHES=${CACHES:-cold}\n" in (script_of(cold) or "")


def test_the_tables_are_those_of_the_slowest_variant(kept_sessions: Path) -> None:
    session = load_session(kept_sessions / "2026-11-21-layouts")
    slow = slowest_start(session, summarise(session))
    assert slow is not None
    assert slow.variant == "cold-parts"
    assert "partition by hash" in (script_of(session) or "")


def test_encrypted_tables_have_no_script() -> None:
    """Their server needs keys."""
    assert script_of(with_settings(layout="encrypted")) is None
