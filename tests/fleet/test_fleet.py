"""The plan of a fleet is checked before anything is sent: each mistake is one line of what, and one of what to do."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from recovery.cli.fleet import read_plan
from recovery.cli.main import run
from recovery.errors import UsageError
from recovery.fleet import job, playbook
from recovery.fleet.job import OUTCOME_FILE, collect_results, pack_tar
from recovery.fleet.plan import FleetSession
from recovery.fleet.report import read_fleet
from recovery.linux.files import template_dir
from recovery.model import REPEAT_OF

HOST = '[hosts.a]\nssh = "root@a.example"\n'
SESSION = 'sessions = ["cold-recovery --version 5.7.22 --tables 1000"]\n'


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return path


def test_a_plan_has_hosts_with_facts_and_sessions(tmp_path: Path) -> None:
    more = 'become = true\nvolume = "io2"\nprice_per_hour = 0.19\nrecovery_dir = "/mnt/ebs"\n'
    plan = read_plan(write(tmp_path, SESSION + HOST + more + '[hosts.b]\nssh = "b"\n'))
    first, second = plan.hosts
    assert (first.user, first.address, first.become, first.recovery_dir) == ("root", "a.example", True, "/mnt/ebs")
    assert first.facts == {"volume": "io2", "price_per_hour": 0.19}
    assert (second.user, second.address, second.facts) == (None, "b", {})
    assert plan.sessions[0].request.sizes.schema.tables == 1000
    assert (plan.poll_s, plan.keep) == (300, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SESSION, "names no host"),
        (HOST, "names no session"),
        (SESSION + HOST + HOST, "is not valid TOML"),
        (SESSION + "[hosts.a]\n", "host a has no address"),
        (SESSION + '[hosts."a b"]\nssh = "x"\n', "host name 'a b' is not valid"),
        (SESSION + '[hosts."../x"]\nssh = "x"\n', "host name '../x' is not valid"),
        (SESSION + '[hosts.localhost]\nssh = "x"\n', "host name localhost has another meaning"),
        (SESSION + '[hosts.a]\nssh = "-oProxyCommand=x"\n', "is not an address"),
        (SESSION + '[hosts.a]\nssh = "{{ x }}"\n', "is not an address"),
        (SESSION + HOST + 'recovery_dir = "/a;b"\n', "recovery_dir = '/a;b' is not valid"),
        (SESSION + HOST + 'recovery_dir = "mnt"\n', "recovery_dir = 'mnt' is not valid"),
        (SESSION + HOST + "price = 1\n", "host a: unknown key price"),
        (SESSION + HOST + 'price_per_hour = "1"\n', "host a: price_per_hour has the wrong type"),
        *((SESSION + HOST + f"price_per_hour = {price}\n", "price_per_hour of a is") for price in ("nan", "inf", "-1")),
        (SESSION + HOST + f"price_per_hour = 0x{'f' * 5000}\n", "a number in it has too many digits"),
        (SESSION + "pol_s = 5\n" + HOST, "unknown key pol_s"),
        (SESSION + "poll_s = 0\n" + HOST, "poll_s = 0 is not valid"),
        (SESSION + "hosts = 1\n", "hosts has the wrong type"),
        (SESSION + "[hosts]\na = 1\n", "host a has no settings"),
        (SESSION + 'inventory = "none"\n', "does not exist"),
        (f"sessions = {'[' * 5000}{']' * 5000}\n", "it is nested too deeply"),
        ("sessions = [1]\n" + HOST, "session 1 is not a text"),
        ('sessions = ["cold-recovery --help"]\n' + HOST, "--help measures nothing"),
        ('sessions = [""]\n' + HOST, "it is empty"),
        ('sessions = ["cold-recovery \'x"]\n' + HOST, "No closing quotation"),
        ('sessions = ["rm -rf x"]\n' + HOST, "rm is not a measuring command"),
        ('sessions = ["cold-recovery --tabels 5"]\n' + HOST, "--tabels"),
        ('sessions = ["cold-recovery --tables 20x"]\n' + HOST, "20x"),
        ('sessions = ["cold-recovery --dry-run"]\n' + HOST, "--dry-run measures nothing"),
        ('sessions = ["cold-recovery --repeat 0"]\n' + HOST, "--repeat / REPEAT: 0 is not valid"),
        ('sessions = ["cold-recovery --repeat 2 --repeat-every 5x"]\n' + HOST, "REPEAT_EVERY: 5x is not valid"),
        ('sessions = ["cold-recovery --results x"]\n' + HOST, "--results is not for fleets"),
        ('sessions = ["cold-recovery", "cold-recovery"]\n' + HOST, "is in the plan twice"),
    ],
)
def test_each_mistake_is_named(text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "run", str(write(tmp_path, text)), "--output", str(tmp_path / "fleet")]) == 2
    what, todo = capsys.readouterr().err.splitlines()
    assert message in what
    assert todo.startswith("hint:  ")
    assert not (tmp_path / "fleet").exists()


def test_a_password_in_a_plan_is_refused_and_not_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = write(tmp_path, 'sessions = ["cold-recovery --archive https://me:secret@mirror.example/"]\n' + HOST)
    assert run(["fleet", "run", str(plan), "--dry-run"]) == 2
    printed = capsys.readouterr()
    assert "a line of sessions has an address with a user name" in printed.err
    assert "secret" not in printed.out + printed.err


def test_a_price_of_an_inventory_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ansible-inventory"
    program.write_text(
        '#!/bin/sh\necho \'{"_meta": {"hostvars": {"x": {"price_per_hour": NaN}}}, "db": {"hosts": ["x"]}}\'\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "hosts.ini").write_text("")
    with pytest.raises(UsageError, match="price_per_hour of x is nan"):
        playbook.with_inventory(read_plan(write(tmp_path, f'inventory = "hosts.ini"\n{SESSION}')))


def test_without_ansible_nothing_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert run(["fleet", "run", str(write(tmp_path, SESSION + HOST)), "--output", str(tmp_path / "fleet")]) == 3
    assert capsys.readouterr().err.splitlines() == [
        "error: ansible-playbook is missing",
        "hint:  install it with this host's package manager; in Debian its package is ansible-core; "
        "or pip install '.[fleet]'",
    ]


def test_the_playbook_is_printed_and_runs_no_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "run", str(write(tmp_path, SESSION + HOST)), "--print"]) == 0
    printed = capsys.readouterr().out
    assert printed == (template_dir() / "fleet.yml").read_text()
    modules = set(re.findall(r"ansible\.builtin\.(\w+):", printed))
    assert "command" in modules
    assert not modules & {"shell", "script", "expect"}
    assert re.findall(r"builtin\.raw: (.*)", printed) == ['"true"']
    assert len(re.findall(r"builtin\.command:\s*(?:\{|\n *)argv:", printed)) == printed.count("builtin.command:")


def test_a_data_directory_of_the_hosts_is_not_looked_for_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "cold-recovery --datadir /srv/of-the-host --as-is"
    with pytest.raises(UsageError, match="the data directory is on the hosts"):
        read_plan(write(tmp_path, f'sessions = ["{line}"]\n' + HOST))
    plan = write(tmp_path, f'sessions = ["{line} --version 5.7.22"]\n' + HOST)
    assert run(["fleet", "run", str(plan), "--dry-run"]) == 0
    assert "--as-is --version 5.7.22: time and disk depend on the host's" in capsys.readouterr().out
    assert read_plan(plan).sessions[0].request.servers.versions == ("5.7.22",)


def test_a_dry_run_shows_time_and_disk_for_each_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = write(tmp_path, SESSION + HOST + 'volume = "io2"\n[hosts.b]\nssh = "b"\n')
    assert run(["fleet", "run", str(plan), "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [lines[0], lines[2]] == ["a: volume io2", "b: no facts"]
    assert lines[1].startswith("  cold-recovery --version 5.7.22 --tables 1000: about ")
    assert lines[1].endswith(" GB of disk")


@pytest.mark.usefixtures("own_cache", "asked_sources")
def test_a_dry_run_ends_with_the_error_of_a_server_that_cannot_be_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    line = "cold-recovery --version 26.7.0 --archive http://127.0.0.1:9"
    plan = write(tmp_path, f'sessions = ["{line}"]\n' + HOST)
    assert run(["fleet", "run", str(plan), "--dry-run"]) == 3
    printed = capsys.readouterr()
    assert f"  {line}: about " in printed.out
    assert "26.7.0 would come from the archive, but 127.0.0.1:9 cannot be reached" in printed.err
    (server := tmp_path / "mysqld").touch()
    plan = write(tmp_path, f'sessions = ["cold-recovery --mysqld {server}"]\n' + HOST)
    assert run(["fleet", "run", str(plan), "--dry-run"]) == 0, "this server is the hosts' own"


def test_values_are_data_of_the_inventory(tmp_path: Path) -> None:
    plan = read_plan(write(tmp_path, SESSION + HOST + "become = true\n"))
    playbook._write_files(plan, plan.hosts, tmp_path, tmp_path / "servers.tar.gz")
    stored = json.loads((tmp_path / "inventory.json").read_text())["recovery_fleet"]
    assert stored["hosts"] == {"a": {"ansible_host": "a.example", "ansible_user": "root", "ansible_become": True}}
    assert json.loads((tmp_path / "sessions.json").read_text()) == [
        ["cold-recovery", "--version", "5.7.22", "--tables", "1000"]
    ]
    assert "host_key_checking = True" in (tmp_path / "ansible.cfg").read_text()
    (odd := tmp_path / "{{ x }}").mkdir()
    with pytest.raises(UsageError, match="which Ansible would evaluate"):
        playbook._write_files(plan, plan.hosts, odd, None)


def test_hosts_of_an_inventory_have_its_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {
        "_meta": {"hostvars": {"x": {"volume": "gp3", "filesystem": "xfs", "ansible_password": "secret"}}},
        "all": {"children": ["db"]},
        "db": {"hosts": ["x", "y"]},
    }
    program = tmp_path / "ansible-inventory"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(listed)}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "hosts.ini").write_text("")
    text = f'inventory = "hosts.ini"\n{SESSION}[hosts.x]\nvolume = "io2"\n'
    plan = playbook.with_inventory(read_plan(write(tmp_path, text)))
    assert {host.name: dict(host.facts) for host in plan.hosts} == {
        "x": {"volume": "io2", "filesystem": "xfs"},
        "y": {},
    }
    with pytest.raises(UsageError, match="host z is not in the inventory"):
        playbook.with_inventory(read_plan(write(tmp_path, text + "[hosts.z]\n")))


def fetched(tmp_path: Path, *outcomes: dict[str, Any]) -> None:
    (tmp_path / "ansible" / "fetched").mkdir(parents=True)
    pack_tar(tmp_path / "ansible/fetched/a.tar.gz", (), [(OUTCOME_FILE, json.dumps(outcomes).encode())])


def test_a_host_cannot_name_a_session_of_another_host(tmp_path: Path, kept_sessions: Path) -> None:
    """Its archive has the folder `good` beside that of its session, and its outcome leads there."""
    plan = read_plan(write(tmp_path, SESSION + HOST + '[hosts.good]\nssh = "good"\n'))
    (session,) = plan.sessions
    (tmp_path / "ansible" / "fetched").mkdir(parents=True)
    outcome = [{"key": session.key, "folder": "../good/SESSION", "reason": None}]
    pack_tar(
        tmp_path / "ansible/fetched/a.tar.gz",
        [(kept_sessions / "2026-11-21-four-versions", name) for name in ("good/SESSION", f"{session.key}/own")],
        [(OUTCOME_FILE, json.dumps(outcome).encode())],
    )
    found: playbook.Outcomes = {}
    playbook._unpack_fetched(plan, tmp_path, found)
    assert (found["a", session.key].state, found["a", session.key].folder) == ("missing", None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ansible", "plan.toml"]


@pytest.mark.parametrize("folder", ["..", ".", "", "/tmp", "a/b", 5, ["x"]])
def test_the_folder_of_an_outcome_is_one_name(folder: Any, tmp_path: Path) -> None:
    plan = read_plan(write(tmp_path, SESSION + HOST))
    fetched(tmp_path, {"key": plan.sessions[0].key, "folder": folder, "reason": None})
    found: playbook.Outcomes = {}
    playbook._unpack_fetched(plan, tmp_path, found)
    assert found["a", plan.sessions[0].key].state == "missing"


def test_a_host_cannot_name_a_folder_elsewhere(tmp_path: Path) -> None:
    plan = read_plan(write(tmp_path, SESSION + HOST))
    (session,) = plan.sessions
    fetched(tmp_path, {"key": session.key, "folder": "../../../x", "reason": None})
    found: playbook.Outcomes = {}
    playbook._unpack_fetched(plan, tmp_path, found)
    assert found["a", session.key].state == "missing"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ansible", "plan.toml"]


# --- A line that measures several sessions

SEVERAL = ("--version", "5.7.22", "--tables", "1000", "--repeat", "3", "--repeat-every=6h")


def a_session(kept_sessions: Path, results: Path, name: str, repeat_of: str | None = None) -> None:
    report = json.loads((kept_sessions / "2026-11-21-four-versions" / "report.json").read_text())
    report["settings"] |= {} if repeat_of is None else {REPEAT_OF: repeat_of}
    (results / name).mkdir(parents=True)
    (results / name / "report.json").write_text(json.dumps(report))


def test_a_line_can_measure_several_sessions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = f'sessions = ["{shlex.join(("cold-recovery", *SEVERAL))}"]\n'
    path = write(tmp_path, line + HOST)
    (session,) = read_plan(path).sessions
    assert (session.times, session.repeat_words) == (3, ("--times", "3", "--every", "6h"))
    assert "--repeat" not in session.request.command
    assert run(["fleet", "run", str(path), "--dry-run"]) == 0
    three = capsys.readouterr().out
    write(tmp_path, line.replace("--repeat 3 --repeat-every=6h", "") + HOST)
    assert run(["fleet", "run", str(path), "--dry-run"]) == 0
    assert three != capsys.readouterr().out


def test_a_job_goes_on_with_the_sessions_that_are_missing(
    tmp_path: Path, kept_sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = FleetSession("cold-recovery", SEVERAL)
    results, commands = tmp_path / "results" / session.key, list[tuple[str, ...]]()

    def measures_two(_: object, *words: str) -> None:
        commands.append(words)
        for name in ("20261128T01-cold", "20261128T07-cold") if len(commands) == 1 else ("20261128T13-cold",):
            a_session(kept_sessions, results, name, None if "T01" in name else "20261128T01-cold")

    monkeypatch.setattr(job, "_run", measures_two)
    job.write_sessions(tmp_path / "sessions.json", [session])
    job.run_job(tmp_path)
    assert collect_results(tmp_path) == "unfinished"
    (outcome,) = outcomes(tmp_path)
    assert (outcome["folder"], outcome["others"]) == (None, ["20261128T01-cold", "20261128T07-cold"])
    job.run_job(tmp_path)
    assert collect_results(tmp_path) == "finished"
    (outcome,) = outcomes(tmp_path)
    assert (outcome["folder"], len(outcome["others"]), outcome["reason"]) == ("20261128T13-cold", 2, None)
    job.run_job(tmp_path)
    measured, goes_on = commands
    assert measured[: 1 + len(SEVERAL)] == ("cold-recovery", *SEVERAL)
    repeats = ("repeat", "--times", "3", "--every", "6h", "20261128T07-cold", "--yes")
    assert goes_on == (*repeats, "--results", str(results))
    # On a changed host the measurement begins anew: sessions of the one before do not count.
    a_session(kept_sessions, results, "20261128T19-cold")
    assert collect_results(tmp_path) == "unfinished"
    (outcome,) = outcomes(tmp_path)
    assert (outcome["folder"], outcome["others"]) == (None, ["20261128T19-cold"])


def outcomes(work: Path) -> list[dict[str, Any]]:
    with tarfile.open(work / "results.tar.gz") as archive:
        file = archive.extractfile(OUTCOME_FILE)
        assert file is not None
        found: list[dict[str, Any]] = json.load(file)
        return found


def test_all_sessions_of_a_line_are_fetched_and_reported(
    tmp_path: Path, kept_sessions: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(playbook, "_pack_servers", lambda *_: None)
    monkeypatch.setattr(playbook, "find_program", lambda name: name)
    session = FleetSession("cold-recovery", SEVERAL)
    names = [f"20261128T0{number}-cold" for number in (1, 2, 3)]
    for name in names:
        a_session(kept_sessions, tmp_path / "host", name)

    def play(*_: Any) -> None:
        outcome = {"key": session.key, "folder": names[2], "others": names[:2], "reason": None}
        trees = [(tmp_path / "host" / name, f"{session.key}/{name}") for name in names]
        files = [(OUTCOME_FILE, json.dumps([outcome]).encode())]
        pack_tar(tmp_path / "fleet/ansible/fetched/a.tar.gz", trees, files)

    monkeypatch.setattr(playbook, "_play", play)
    plan = write(tmp_path, f'sessions = ["{session.line}"]\n{HOST}')
    assert run(["fleet", "run", str(plan), "--output", str(tmp_path / "fleet")]) == 0
    assert sorted(path.name for path in (tmp_path / "fleet" / "a").iterdir()) == names
    report = read_fleet(tmp_path / "fleet")
    assert [one.name for one in report.sessions] == names
    assert {cell.sessions for cell in report.fleet.cells} == {3}
    assert report.problems == ()


@pytest.mark.parametrize("others", [["../x"], ["a/b"], 5, [None], ["missing"]])
def test_other_sessions_of_an_outcome_are_folders_of_the_host(others: Any, tmp_path: Path) -> None:
    plan = read_plan(write(tmp_path, SESSION + HOST))
    fetched(tmp_path, {"key": plan.sessions[0].key, "folder": None, "others": others, "reason": "?"})
    found: playbook.Outcomes = {}
    playbook._unpack_fetched(plan, tmp_path, found)
    assert found["a", plan.sessions[0].key].others == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ansible", "plan.toml"]


def test_a_session_that_failed_has_the_reason_of_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(playbook, "_pack_servers", lambda *_: None)
    monkeypatch.setattr(playbook, "find_program", lambda name: name)
    key = FleetSession("cold-recovery", ("--version", "5.7.22", "--tables", "1000")).key

    def play(*_: Any) -> None:
        (tmp_path / "ansible/last/a").write_text('{"changed": true}')
        (tmp_path / "ansible/last/b").write_text('{"unreachable": true, "msg": "no route"}')
        pack_tar(
            tmp_path / "ansible/fetched/a.tar.gz", (),
            [(OUTCOME_FILE, json.dumps([{"key": key, "folder": None, "reason": "no room"}]).encode())],
        )  # fmt: skip

    monkeypatch.setattr(playbook, "_play", play)
    plan = write(tmp_path, SESSION + HOST + '[hosts.b]\nssh = "b"\n')
    assert run(["fleet", "run", str(plan), "--output", str(tmp_path)]) == 1
    stored = json.loads((tmp_path / "fleet.json").read_text())
    assert [
        (name, one["command"], one["folder"], one["state"], one["reason"])
        for name, about in stored["hosts"].items()
        for one in about["sessions"]
    ] == [("a", "cold-recovery", None, "failed", "no room"), ("b", "cold-recovery", None, "missing", "no route")]
    assert "missing: a, b; the same command again" in capsys.readouterr().out


def test_the_playbook_is_valid(tmp_path: Path) -> None:
    if shutil.which("ansible-playbook") is None:
        pytest.skip("needs ansible-playbook")
    plan = read_plan(write(tmp_path, SESSION + HOST))
    playbook._write_files(plan, plan.hosts, tmp_path, None)
    subprocess.run(
        ["ansible-playbook", "--syntax-check", "-i", tmp_path / "inventory.json", tmp_path / "fleet.yml"], check=True
    )
