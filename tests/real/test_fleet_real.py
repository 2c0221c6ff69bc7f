"""A fleet of two hosts on this machine: namespaces with a home, a host name, a host lock and an sshd of their own.

They share one page cache and two CPUs, so these tests judge how the work is distributed, and no figures."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from waiting import BUILDING_S, until

from recovery.cli.main import run

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces with an sshd need root"),
    *(
        pytest.mark.skipif(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None, reason=f"needs {name}")
        for name in ("sshd", "ansible-playbook", "unshare", "sudo")
    ),
]
RUNS = 2
SESSION = f"cold-recovery --version 5.7.22 --tables 50 --runs {RUNS} --no-probe --no-drop-caches"
# The home folders are the host's own, of root and of a user who may become root; /run has its host lock.
HOST = """
set -e
hostname "$1"
mount -t tmpfs none /run
mkdir -m 755 /run/sshd
mkdir -m 1777 /run/lock /run/small
mount -t tmpfs -o size=9m none /run/small
cp "$5" /run/user.pub
echo "someone:x:4711:4711::/home:/bin/sh" | cat /etc/passwd - >/run/passwd
echo "someone:*:20000::::::" | cat /etc/shadow - >/run/shadow
echo "someone ALL=(ALL) $6 ALL" >/run/sudoers
chmod 640 /run/shadow
chmod 440 /run/sudoers
for name in passwd shadow sudoers; do mount --bind /run/$name /etc/$name; done
chown 4711:4711 "$2/someone"
mount --bind "$2/someone" /home
mount --bind "$2/root" ~root
exec $through "$3" -D -e -f "$4"
"""
SUDO, SUDO_WITH_PASSWORD = "NOPASSWD:", "PASSWD:"


@dataclass(frozen=True)
class Host:
    name: str
    port: int
    home: Path
    """That of root."""
    user_home: Path
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def make_key(path: Path) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check=True)
    return path.with_suffix(".pub").read_text().strip()


@contextmanager
def host(name: str, folder: Path, *, before: str = "", sudo: str = SUDO) -> Iterator[Host]:
    home, user_home, port = folder / "root", folder / "someone", free_port()
    for made_home in (home, user_home):
        made_home.mkdir(parents=True)
    public = make_key(folder / "key")
    with (folder.parent / "known_hosts").open("a") as known:
        known.write(f"[127.0.0.1]:{port} {public}\n")
    (folder / "sshd_config").write_text(
        "\n".join(
            (
                f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {folder / 'key'}", "UsePAM no",
                "AuthorizedKeysFile /run/user.pub", "PidFile none", "StrictModes no",
                "PasswordAuthentication no", "PermitRootLogin yes", "Subsystem sftp internal-sftp",
            )
        )
    )  # fmt: skip
    sshd = str(shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin"))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--mount", "--uts",
             "sh", "-c", before + HOST, "sh",
             name, folder, sshd, folder / "sshd_config", folder.parent / "user.pub", sudo],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        made = Host(name, port, home, user_home, process)
        try:
            with (folder / "log").open() as said:
                text = ""
                while "listening on 127.0.0.1" not in text:
                    text += said.read()
                    assert process.poll() is None, text
            yield made
        finally:
            made.stop()


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Host, Host]]:
    make_key(tmp_path / "user")
    with ExitStack() as stack:
        made = tuple(stack.enter_context(host(name, tmp_path / name)) for name in ("one", "two"))
        config = [f"UserKnownHostsFile {tmp_path / 'known_hosts'}", f"IdentityFile {tmp_path / 'user'}"]
        config += ["IdentitiesOnly yes", "HostName 127.0.0.1", "GlobalKnownHostsFile none"]
        for one in made:
            config += [f"Host {one.name}", f"Port {one.port}"]
        config += ["Host away", f"Port {free_port()}", ""]
        (tmp_path / "ssh_config").write_text("\n".join(config))
        monkeypatch.setenv("ANSIBLE_SSH_ARGS", f"-F {tmp_path / 'ssh_config'} -o ControlMaster=no")
        yield made[0], made[1]


@contextmanager
def another_host(name: str, folder: Path, *, before: str = "", sudo: str = SUDO) -> Iterator[Host]:
    """A host that ssh knows, beside the two of every test."""
    with host(name, folder / name, before=before, sudo=sudo) as made:
        with (folder / "ssh_config").open("a") as config:
            config.write(f"Host {name}\nPort {made.port}\n")
        yield made


def write_plan(
    path: Path, *, hosts: tuple[str, ...] = ("one", "two"), users: tuple[str, ...] = (), session: str = SESSION
) -> Path:
    """Writes a plan. The hosts in `users` are reached as a user who becomes root."""
    lines = [f"sessions = [{json.dumps(session)}]", "poll_s = 1"]
    for name in hosts:
        user, become = ("someone", "true") if name in users else ("root", "false")
        lines += [f"[hosts.{name}]", f'ssh = "{user}@{name}"', f"become = {become}"]
        lines += ['instance_type = "namespace"', "price_per_hour = 0.5"]
    path.write_text("\n".join(lines))
    return path


def states(folder: Path) -> dict[str, tuple[str, str | None]]:
    stored = json.loads((folder / "fleet.json").read_text())
    return {name: (one["state"], one["reason"]) for name, about in stored["hosts"].items() for one in about["sessions"]}


def measuring(on: Host) -> list[psutil.Process]:
    """Returns the processes of the tool that measure on this host."""
    found = []
    for process in psutil.Process(on.pid).children(recursive=True):
        with suppress(psutil.Error):
            if "cold-recovery" in process.cmdline():
                found.append(process)
    return found


def call(plan: Path, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "recovery", "fleet", "run", str(plan), "--output", str(folder)]
    with folder.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def test_two_hosts_measure_and_the_second_call_resumes_what_was_killed(
    hosts: tuple[Host, Host], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = tmp_path / "held"
    # The first run of host one makes this folder, the second waits in it for the kill.
    hold = f'test "$(hostname)" = two || mkdir {held} || until test -e {held}/killed; do sleep 0.1; done'
    session = f"{SESSION} --before-start {shlex.quote(shlex.join(['sh', '-c', hold]))}"
    plan = write_plan(tmp_path / "plan.toml", hosts=("one", "two", "away"), users=("two",), session=session)
    folder = tmp_path / "fleet"
    one, two = hosts
    first = call(plan, folder)
    until(
        lambda: list(one.home.glob("mysql-*/results/*/2*/runs/001.json")) or first.poll() is not None,
        "the first run", within_s=BUILDING_S,
    )  # fmt: skip
    for process in measuring(one):
        process.kill()
    (held / "killed").touch()
    code, printed = first.wait(), folder.with_suffix(".log").read_text()
    assert code == 1, printed
    found = states(folder)
    assert found["one"] == ("failed", "it was killed"), printed
    assert found["two"] == ("finished", None), printed
    state, reason = found["away"]
    assert state == "missing"
    assert reason is not None
    assert "Connection refused" in reason
    assert "missing: one, away; " in printed
    assert list(one.home.glob("mysql-*/results/*/2*"))
    assert [*two.home.iterdir(), *two.user_home.iterdir()] == []

    two.stop()  # nothing is asked of a host that has measured
    write_plan(plan, users=("two",), session=session)
    code = run(["fleet", "run", str(plan), "--output", str(folder)])
    out, err = capsys.readouterr()
    assert code == 0, out + err + (folder / "ansible" / "log").read_text()
    stored = json.loads((folder / "fleet.json").read_text())
    assert stored["hosts"]["one"]["facts"] == {"instance_type": "namespace", "price_per_hour": 0.5}
    for name in ("one", "two"):
        (session,) = stored["hosts"][name]["sessions"]
        report = json.loads((folder / session["folder"] / "report.json").read_text())
        assert [each["verdict"] for each in report["runs"]] == ["measured"] * RUNS
        assert any("it was resumed" in note for note in report["notes"]) == (name == "one")
        assert (folder / session["folder"] / "report.json").stat().st_uid == os.geteuid()
    assert list(one.home.iterdir()) == []
    assert run(["fleet", "run", str(plan), "--output", str(folder)]) == 0, "all is there"
    capsys.readouterr()

    assert run(["fleet", "report", str(folder)]) == 0
    answer = capsys.readouterr().out
    assert answer.startswith("2 hosts: 5.7.22"), answer
    text = (folder / "fleet.txt").read_text()
    assert re.search(r"^5\.7\.22 +one +\d+ +[\d.]+ .*\n5\.7\.22 +two +\d+ +[\d.]+ ", text, re.MULTILINE)


@pytest.fixture(scope="session")
def newest_ansible(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installs the newest Ansible that Python 3.11 takes, and returns the folder of its programs."""
    place = tmp_path_factory.mktemp("ansible")
    venv.create(place, with_pip=True)
    lock = Path(__file__).parents[2] / "requirements" / "ansible.lock"
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "--require-hashes", "-r", lock], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the newest Ansible cannot be installed: {done.stderr.strip()[-200:]}")
    return place / "bin"


def test_the_newest_ansible_measures(
    hosts: tuple[Host, Host], newest_ansible: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside it are a user who becomes root, a host that is away and one whose sudo asks for a password."""
    monkeypatch.setenv("PATH", f"{newest_ansible}:{os.environ['PATH']}")
    plan = write_plan(tmp_path / "plan.toml", hosts=("two", "away", "asks"), users=("two", "asks"))
    with another_host("asks", tmp_path, sudo=SUDO_WITH_PASSWORD):
        code, found, printed = a_call(plan, tmp_path / "fleet")
    assert code == 1, printed
    assert found["two"] == ("finished", None), printed
    assert "Connection refused" in str(found["away"][1])
    assert "sudo asks for a password" in str(found["asks"][1])
    assert [*hosts[1].home.iterdir(), *hosts[1].user_home.iterdir()] == []


def test_hosts_that_cannot_measure_are_named(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan.toml", hosts=("other-cpu", "asks"), users=("asks",))
    with (
        another_host("other-cpu", tmp_path, before="through='setarch i686'\n") as other,
        another_host("asks", tmp_path, sudo=SUDO_WITH_PASSWORD) as asks,
    ):
        code, found, printed = a_call(plan, tmp_path / "fleet")
        assert [*other.home.iterdir(), *asks.home.iterdir(), *asks.user_home.iterdir()] == []
    assert code == 1, printed
    assert "its CPU is i386, and the servers of the plan are for x86_64" in str(found["other-cpu"][1])
    assert "sudo asks for a password" in str(found["asks"][1])
    assert hosts[0].pid


def test_a_host_with_an_unknown_key_is_refused(
    hosts: tuple[Host, Host], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "known_hosts").write_text("")
    plan = write_plan(tmp_path / "plan.toml", hosts=("one",))
    assert run(["fleet", "run", str(plan), "--output", str(tmp_path / "fleet")]) == 1
    assert "Host key verification failed" in capsys.readouterr().out
    assert list(hosts[0].home.iterdir()) == []


# --- Faults


def a_call(plan: Path, folder: Path) -> tuple[int, dict[str, tuple[str, str | None]], str]:
    """Returns the exit code, the states and what was printed."""
    code = call(plan, folder).wait()
    printed = folder.with_suffix(".log").read_text() + (folder / "ansible" / "log").read_text()
    return code, states(folder), printed


def while_measuring(on: Host, called: subprocess.Popen[bytes]) -> None:
    until(lambda: measuring(on) or called.poll() is not None, "a measurement", within_s=BUILDING_S)
    assert called.poll() is None


@pytest.mark.on_demand("fleet")
def test_a_job_outlives_a_controller_that_is_killed(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    plan, folder = write_plan(tmp_path / "plan.toml", hosts=("one",)), tmp_path / "fleet"
    killed = call(plan, folder)
    while_measuring(hosts[0], killed)
    killed.kill()
    killed.wait()
    code, found, printed = a_call(plan, folder)
    assert code == 0, printed
    assert found == {"one": ("finished", None)}
    (session,) = [path for path in (folder / "one").iterdir() if path.is_dir()]
    assert "resumed" not in (session / "report.json").read_text()


@pytest.mark.on_demand("fleet")
def test_a_link_that_is_cut_during_a_job_loses_nothing(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    plan, folder = write_plan(tmp_path / "plan.toml", hosts=("one",)), tmp_path / "fleet"
    called = call(plan, folder)
    while_measuring(hosts[0], called)
    (sshd,) = psutil.Process(hosts[0].pid).children()
    sshd.suspend()  # new connections get no answer
    try:
        with suppress(subprocess.TimeoutExpired):
            called.wait(50)
    finally:
        sshd.resume()
    assert called.wait() == 0, (folder / "ansible" / "log").read_text()
    assert states(folder) == {"one": ("finished", None)}


@pytest.mark.on_demand("fleet")
def test_a_host_that_dies_is_named_and_the_other_goes_on(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    plan, folder = write_plan(tmp_path / "plan.toml"), tmp_path / "fleet"
    called = call(plan, folder)
    while_measuring(hosts[0], called)
    hosts[0].stop()
    assert called.wait() == 1
    found = states(folder)
    assert found["one"][0] == "missing"
    assert "Connection refused" in str(found["one"][1])
    assert found["two"] == ("finished", None)


@pytest.mark.on_demand("fleet")
def test_the_lock_of_a_host_refuses_a_second_fleet(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan.toml", hosts=("one",))
    long = write_plan(tmp_path / "long.toml", hosts=("one",), session=SESSION.replace(f"runs {RUNS}", "runs 500"))
    first = call(long, tmp_path / "first")
    while_measuring(hosts[0], first)
    code, found, printed = a_call(plan, tmp_path / "second")
    assert code == 1, printed
    assert found["one"][0] == "failed"
    assert "another timed run is in progress" in str(found["one"][1])
    for process in measuring(hosts[0]):
        process.kill()
    assert first.wait() == 1


@pytest.mark.on_demand("fleet")
def test_reasons_of_hosts_that_cannot_measure(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    plan, folder = write_plan(tmp_path / "plan.toml", hosts=("one", "two")), tmp_path / "fleet"
    plan.write_text(plan.read_text().replace("root@one", "nobody-here@one") + '\nrecovery_dir = "/run/small"\n')
    code, found, printed = a_call(plan, folder)
    assert code == 1, printed
    assert "Permission denied" in str(found["one"][1])
    assert "no space is left" in str(found["two"][1]), found


@pytest.mark.on_demand("fleet")
def test_a_user_who_is_not_root_measures_too(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    plan, folder = write_plan(tmp_path / "plan.toml", hosts=("one",)), tmp_path / "fleet"
    plan.write_text(plan.read_text().replace("root@", "someone@"))
    code, found, printed = a_call(plan, folder)
    assert code == 0, printed
    assert found == {"one": ("finished", None)}
    assert list(hosts[0].user_home.iterdir()) == []


@pytest.mark.on_demand("fleet")
def test_a_host_without_python_is_named(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    plan, folder = write_plan(tmp_path / "plan.toml", hosts=("bare",)), tmp_path / "fleet"
    hide = "for path in /usr/bin/python3*; do mount --bind /dev/null $path; done; "
    with another_host("bare", tmp_path, before=hide):
        code, found, printed = a_call(plan, folder)
    assert code == 1, printed
    assert "python" in str(found["bare"][1])
    assert hosts[0].pid
